//! Memory that serves again: [`Pool`], whose only way in is [`Reset::reset`].
//!
//! A thing that is used again and keeps a trace of its last user gives one client what belongs to another. So nothing gets
//! into a pool but through its reset, and a development build compares each thing that was reset with a new one: all tests
//! of the server together look for a field that somebody forgot, however the last use ended.
//!
//! What this crate does not know: what is reused. Requests, records and buffers implement [`Reset`] beside their fields.
#![forbid(unsafe_code)]

use std::{cell::RefCell, fmt::Debug, rc::Rc};

/// Something whose memory may serve again.
///
/// Implement it next to the fields, and begin with `let Self { a, b, c } = self`: a new field does not compile until
/// somebody has decided what becomes of it. `Debug` must show all state (derive it), and no capacity.
///
/// ```
/// use tidegate_reuse::{Keep, Pool, Reset};
///
/// #[derive(Debug, Default)]
/// struct Basket {
///     owner: Option<String>,
///     things: Vec<u32>,
/// }
///
/// impl Reset for Basket {
///     fn reset(&mut self) -> Keep {
///         let Self { owner, things } = self;
///         *owner = None;
///         things.clear();
///         Keep::Yes
///     }
///     fn fresh() -> Self {
///         Self::default()
///     }
/// }
///
/// let baskets = Pool::new(16);
/// baskets.give(Basket { owner: Some("Ann".to_owned()), things: vec![1, 2] });
/// let basket = baskets.take();
/// assert!(basket.owner.is_none() && basket.things.is_empty() && basket.things.capacity() >= 2);
/// ```
pub trait Reset: Debug + Sized {
    /// Forgets everything but memory. Answers whether that is worth keeping: not, where it has grown too large, or where
    /// somebody else still has it.
    fn reset(&mut self) -> Keep;
    /// A new one: what one that was reset must equal.
    fn fresh() -> Self;
}

/// Whether memory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It goes into the pool.
    Yes,
    /// It is dropped.
    No,
}

/// A shared thing is reset when nobody else has it.
impl<T: Reset> Reset for Rc<T> {
    fn reset(&mut self) -> Keep {
        Rc::get_mut(self).map_or(Keep::No, T::reset)
    }
    fn fresh() -> Self {
        Rc::new(T::fresh())
    }
}

impl<T: Reset> Reset for Box<T> {
    fn reset(&mut self) -> Keep {
        T::reset(self)
    }
    fn fresh() -> Self {
        Box::new(T::fresh())
    }
}

/// Things that wait for their next use, at most as many as the pool was made for. It belongs to one thread.
#[derive(Debug)]
pub struct Pool<T> {
    spares: RefCell<Vec<T>>,
    spares_max: usize,
}

impl<T> Pool<T> {
    /// An empty pool that keeps at most `spares_max` things.
    pub const fn new(spares_max: usize) -> Self {
        Pool { spares: RefCell::new(Vec::new()), spares_max }
    }
}

impl<T: Reset> Pool<T> {
    /// A thing as good as new.
    pub fn take(&self) -> T {
        self.take_spare().unwrap_or_else(T::fresh)
    }
    /// A thing that was used before, as good as new, if there is one.
    pub fn take_spare(&self) -> Option<T> {
        self.spares.borrow_mut().pop()
    }
    /// Takes a thing back.
    ///
    /// # Panics
    /// In a development build, when the reset has left something behind.
    pub fn give(&self, mut thing: T) {
        if thing.reset() == Keep::No {
            return;
        }
        #[cfg(debug_assertions)]
        assert_fresh(&thing);
        let mut spares = self.spares.borrow_mut();
        if spares.len() < self.spares_max {
            spares.push(thing);
        }
    }
    /// Number of objects in the pool.
    pub fn len(&self) -> usize {
        self.spares.borrow().len()
    }
    /// Whether the pool holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Compares what was reset with a new one, by their texts.
#[cfg(debug_assertions)]
fn assert_fresh<T: Reset>(thing: &T) {
    let (reset, fresh) = (format!("{thing:?}"), format!("{:?}", T::fresh()));
    assert!(reset == fresh, "a reset has left something behind\n reset: {reset}\n fresh: {fresh}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Note {
        text: Vec<u8>,
        forgotten: bool,
    }

    impl Reset for Note {
        fn reset(&mut self) -> Keep {
            let Self { text, forgotten: _ } = self;
            text.clear();
            if text.capacity() > 100 { Keep::No } else { Keep::Yes }
        }
        fn fresh() -> Self {
            Self::default()
        }
    }

    #[test]
    fn gives_memory_without_traces() {
        let pool = Pool::new(1);
        pool.give(Note { text: b"secret".to_vec(), forgotten: false });
        pool.give(Note { text: b"one too many".to_vec(), forgotten: false });
        assert_eq!(pool.len(), 1);
        let note: Note = pool.take();
        assert!(note.text.is_empty() && note.text.capacity() >= 6 && !note.forgotten);
        assert!(pool.is_empty() && pool.take().text.capacity() == 0);
        pool.give(Note { text: vec![0; 101], forgotten: false });
        assert!(pool.is_empty());
    }

    #[test]
    fn what_somebody_else_has_is_not_reused() {
        let pool = Pool::new(1);
        let note = Rc::new(Note { text: b"theirs".to_vec(), forgotten: false });
        pool.give(note.clone());
        assert!(pool.is_empty());
        assert_eq!(note.text, b"theirs");
        pool.give(note);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a reset has left something behind")]
    fn a_forgotten_field_is_found() {
        Pool::new(1).give(Note { forgotten: true, ..Note::default() });
    }
}
