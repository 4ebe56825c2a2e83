//! State by key that all workers share, of bounded size: the zones of `limit_req`, `limit_conn` and `srcache`.
//!
//! A zone is a few maps with a lock each; a key's map is chosen by its hash, so that workers rarely meet. Locks are held
//! for one look-up, never over a wait. A zone outlives a reload that keeps its name, key and size.

use std::{
    any::Any,
    collections::HashMap,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bstr::{BStr, BString, ByteSlice};
use lru::{DefaultHasher, LruCache};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast, values};
use tidegate_core::{conf::Build, template::Template};

/// What an entry costs beside its key: nginx's is 56 bytes and more, ours the map's share.
const ENTRY_BYTES: usize = 64;

/// The least size of a zone.
///
/// Source: nginx, eight pages of memory.
const SIZE_MIN: u64 = 8 * 4096;

/// The most maps that a zone is divided into.
const SHARDS_MAX: usize = 16;

/// What an entry of a zone holds.
pub(crate) trait Weigh {
    /// Memory that it refers to, in bytes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A count.
impl Weigh for u32 {}

/// Entries of one map of a zone, the one that was not used for the longest time last.
pub(crate) struct Shard<V> {
    pub(crate) entries: LruCache<Box<[u8]>, V>,
    used_bytes: usize,
    bytes_max: usize,
}

impl<V: Weigh> Shard<V> {
    /// Whether an entry of this key fits in.
    pub(crate) fn has_room(&self, key: &[u8]) -> bool {
        self.has_room_for(key, 0)
    }
    /// Whether an entry of this key that refers to so many bytes fits in.
    pub(crate) fn has_room_for(&self, key: &[u8], bytes: usize) -> bool {
        self.used_bytes + ENTRY_BYTES + key.len() + bytes <= self.bytes_max
    }
    /// Whether it fits in where nothing else is.
    pub(crate) fn could_hold(&self, key: &[u8], bytes: usize) -> bool {
        ENTRY_BYTES + key.len() + bytes <= self.bytes_max
    }
    /// Adds an entry.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) {
        self.used_bytes += ENTRY_BYTES + key.len() + value.bytes();
        if let Some(old) = self.entries.put(key.into(), value) {
            self.used_bytes -= ENTRY_BYTES + key.len() + old.bytes();
        }
    }
    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(old) = self.entries.pop(key) {
            self.used_bytes -= ENTRY_BYTES + key.len() + old.bytes();
        }
    }
    /// Takes the entry out that was not used for the longest time, if `may_go` says so.
    pub(crate) fn remove_oldest(&mut self, may_go: impl FnOnce(&V) -> bool) -> bool {
        match self.entries.peek_lru() {
            Some((_, value)) if may_go(value) => {}
            _ => return false,
        }
        if let Some((key, old)) = self.entries.pop_lru() {
            self.used_bytes -= ENTRY_BYTES + key.len() + old.bytes();
        }
        true
    }
}

/// The maps of a zone.
pub(crate) struct State<V> {
    /// That of the maps: SipHash took 7 % of the instructions of a hit of `drizzle_cache`.
    hasher: DefaultHasher,
    shards: Box<[Mutex<Shard<V>>]>,
}

impl<V> std::fmt::Debug for State<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({} maps)", self.shards.len())
    }
}

impl<V> State<V> {
    fn new(size: u64) -> Self {
        let count = usize::try_from(size / SIZE_MIN).unwrap_or(SHARDS_MAX).clamp(1, SHARDS_MAX);
        let bytes_max = usize::try_from(size).unwrap_or(usize::MAX) / count;
        let shard = || Mutex::new(Shard { entries: LruCache::unbounded(), used_bytes: 0, bytes_max });
        State { hasher: DefaultHasher::default(), shards: (0..count).map(|_| shard()).collect() }
    }

    /// The map that `key` belongs to, locked.
    pub(crate) fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard<V>> {
        let index = self.hasher.hash_one(key) as usize % self.shards.len();
        // A panic in a look-up leaves the map whole.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A zone as its directive defines it.
pub(crate) struct Zone<V> {
    /// Its name.
    pub(crate) name: BString,
    /// What requests are told apart by.
    pub(crate) key: Template,
    /// The same as it stands in the configuration.
    pub(crate) key_text: BString,
    /// The entries.
    pub(crate) state: Arc<State<V>>,
}

impl<V> std::fmt::Debug for Zone<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

/// States in use by kind, name, key and size.
type States = HashMap<(&'static str, BString, BString, u64), Weak<dyn Any + Send + Sync>>;

static STATES: Mutex<Option<States>> = Mutex::new(None);

impl<V: Send + 'static> Zone<V> {
    /// Reads `key zone=name:size`, the part that directives for zones have in common; other arguments are handed to
    /// `other`, which answers whether it knows them. The state is that of the same zone before a reload.
    pub(crate) fn parse(
        kind: &'static str,
        directive: &ast::Directive,
        build: &mut Build<'_>,
        mut other: impl FnMut(&ast::Arg) -> Result<bool, Diagnostic>,
    ) -> Result<Zone<V>, Diagnostic> {
        let key_arg = &directive.args[0];
        let mut zone = None;
        for arg in &directive.args[1..] {
            match arg.value.strip_prefix(b"zone=") {
                Some(text) => zone = Some(name_and_size(arg, text)?),
                None if other(arg)? => {}
                None => return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["zone=", "rate=", "sync"])),
            }
        }
        let Some((name, size)) = zone else {
            let message = format!("\"{}\" must have \"zone\" parameter", directive.name());
            return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
        };
        let (key, key_text) = (build.template(key_arg)?, key_arg.value.clone());
        let state = state(kind, &name, &key_text, size);
        Ok(Zone { name, key, key_text, state })
    }
}

/// Reads `zone=name:size` of a zone whose users bring their own keys. The state is that of the same zone before a reload.
///
/// # Errors
/// What is wrong with the argument.
pub(crate) fn parse_named<V: Send + 'static>(
    kind: &'static str,
    arg: &ast::Arg,
) -> Result<(BString, Arc<State<V>>), Diagnostic> {
    let Some(text) = arg.value.strip_prefix(b"zone=") else {
        return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["zone="]));
    };
    let (name, size) = name_and_size(arg, text)?;
    let state = state(kind, &name, &BString::default(), size);
    Ok((name, state))
}

/// The state of a zone whose size stands alone.
///
/// # Errors
/// What is wrong with the size.
pub(crate) fn of_size<V: Send + 'static>(
    kind: &'static str,
    name: &BString,
    arg: &ast::Arg,
) -> Result<Arc<State<V>>, Diagnostic> {
    let emerg = |message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
    let size = values::size(arg.value.as_bstr()).map_err(|_| emerg(format!("invalid zone size \"{}\"", arg.value)))?;
    if size < SIZE_MIN {
        return Err(emerg(format!("zone \"{name}\" is too small")));
    }
    Ok(state(kind, name, &BString::default(), size))
}

fn state<V: Send + 'static>(kind: &'static str, name: &BString, key_text: &BString, size: u64) -> Arc<State<V>> {
    let mut states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    let states = states.get_or_insert_default();
    states.retain(|_, state| state.strong_count() > 0);
    let slot = (kind, name.clone(), key_text.clone(), size);
    let known = states.get(&slot).and_then(Weak::upgrade);
    if let Some(known) = known.and_then(|known| known.downcast::<State<V>>().ok()) {
        return known;
    }
    let new = Arc::new(State::<V>::new(size));
    let any: Arc<dyn Any + Send + Sync> = new.clone();
    states.insert(slot, Arc::downgrade(&any));
    new
}

fn name_and_size(arg: &ast::Arg, text: &[u8]) -> Result<(BString, u64), Diagnostic> {
    let emerg = |message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
    let invalid = || emerg(format!("invalid zone size \"{}\"", arg.value));
    let (name, size) = text.split_once_str(b":").ok_or_else(invalid)?;
    let size = values::size(size.as_bstr()).map_err(|_| invalid())?;
    if size < SIZE_MIN {
        return Err(emerg(format!("zone \"{}\" is too small", arg.value)));
    }
    Ok((name.into(), size))
}

/// The zones that a configuration defines, and where it uses which: a use may stand before the definition.
#[derive(Debug)]
pub(crate) struct Zones<Z> {
    /// Those that are defined.
    pub(crate) defined: HashMap<BString, Arc<Z>>,
    used: Vec<(BString, Span)>,
}

impl<Z> Default for Zones<Z> {
    fn default() -> Self {
        Zones { defined: HashMap::new(), used: Vec::new() }
    }
}

impl<Z> Clone for Zones<Z> {
    fn clone(&self) -> Self {
        Zones { defined: self.defined.clone(), used: Vec::new() }
    }
}

impl<Z> Zones<Z> {
    /// Remembers that the zone called `name` is used.
    pub(crate) fn use_zone(&mut self, name: &BStr, arg: &ast::Arg) {
        self.used.push((name.to_owned(), arg.span));
    }

    /// The first use of a zone that nobody defines.
    ///
    /// # Errors
    /// As nginx words it.
    pub(crate) fn check(&self) -> Result<(), Diagnostic> {
        match self.used.iter().find(|(name, _)| !self.defined.contains_key(name)) {
            None => Ok(()),
            Some((name, span)) => {
                let message = format!("zero size shared memory zone \"{name}\"");
                let known: Vec<String> = self.defined.keys().map(|name| format!("\"{name}\"")).collect();
                let hint = match known.is_empty() {
                    true => "no zone is defined".to_owned(),
                    false => format!("zones: {}", known.join(", ")),
                };
                Err(Diagnostic::new(Severity::Emerg, *span, message).with_hint(hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for u8 {}
    impl Weigh for String {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn values_have_a_weight() {
        let state = State::new(SIZE_MIN);
        let mut shard = state.shard(b"");
        let size = SIZE_MIN as usize;
        assert!(shard.could_hold(b"k", size - ENTRY_BYTES - 1) && !shard.could_hold(b"k", size - ENTRY_BYTES));
        shard.insert(b"k", "x".repeat(1000));
        shard.insert(b"k", "x".repeat(10));
        assert!(shard.has_room_for(b"l", size - 2 * ENTRY_BYTES - 12));
        assert!(!shard.has_room_for(b"l", size - 2 * ENTRY_BYTES - 11));
        shard.remove(b"k");
        assert!(shard.has_room_for(b"k", size - ENTRY_BYTES - 1));
        shard.insert(b"k", "x".to_owned());
        assert!(shard.remove_oldest(|_| true) && shard.has_room_for(b"k", size - ENTRY_BYTES - 1));
    }

    #[test]
    fn size_is_bounded_and_the_oldest_goes() {
        let state = State::new(SIZE_MIN);
        let mut shard = state.shard(b"");
        let mut count = 0u32;
        while shard.has_room(&count.to_be_bytes()) {
            shard.insert(&count.to_be_bytes(), count);
            count += 1;
        }
        assert_eq!(count as usize, SIZE_MIN as usize / (ENTRY_BYTES + 4));
        shard.insert(&0u32.to_be_bytes(), 0);
        assert!(!shard.has_room(b"long"), "replacing costs nothing");
        assert!(!shard.remove_oldest(|&value| value == 0), "1 is the oldest now");
        assert!(shard.remove_oldest(|&value| value == 1) && shard.has_room(b"long"));
        shard.remove(b"unknown");
        assert!(shard.has_room(b"long") && !shard.has_room(&[0; 200]));
    }

    #[test]
    fn state_lasts_while_in_use() {
        let (name, key) = (BString::from("z"), BString::from("$k"));
        let first = state::<u8>("test", &name, &key, SIZE_MIN);
        let same = state::<u8>("test", &name, &key, SIZE_MIN);
        let other = state::<u8>("test", &name, &key, SIZE_MIN * 2);
        assert!(Arc::ptr_eq(&first, &same) && !Arc::ptr_eq(&first, &other));
    }
}
