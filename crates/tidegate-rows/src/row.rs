//! A row, as a back end hands it to a sink: in the form in which it lies in a page or packet.
//!
//! Integers, doubles and texts are read as they are. Decimals, dates and the like keep their packed form until a sink asks for
//! them; only then is their text made, in memory that is used again for each.

use std::cell::Cell;
use std::fmt;

use crate::Value;

/// Makes texts of values in a packed form that it knows.
pub trait Unpack {
    /// Appends the text of `packed`, as MySQL's text protocol has it.
    fn append_text(&self, packed: Value<'_>, out: &mut Vec<u8>);
}

/// A value of a row.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    /// One that needs no work.
    Plain(Value<'a>),
    /// One in a form of its back end, with whoever knows its text.
    Packed(Value<'a>, &'a dyn Unpack),
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Plain(value) => value.fmt(f),
            Field::Packed(packed, _) => f.debug_tuple("Packed").field(packed).finish(),
        }
    }
}

impl<'a> Field<'a> {
    /// The value; `text` is memory to make its text in.
    #[inline]
    pub fn read<'t>(self, text: &'t mut Vec<u8>) -> Value<'t>
    where
        'a: 't,
    {
        match self {
            Field::Plain(value) => value,
            Field::Packed(packed, unpack) => {
                text.clear();
                unpack.append_text(packed, text);
                Value::Bytes(text)
            }
        }
    }
}

impl<'a> From<Value<'a>> for Field<'a> {
    fn from(value: Value<'a>) -> Self {
        Field::Plain(value)
    }
}

thread_local! {
    /// Memory for texts, while no row is being read.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Longer texts are rare: their memory is not kept.
const TEXT_KEPT_BYTES: usize = 4096;

/// A row: a field for each column, borrowed from where it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a>(pub &'a [Field<'a>]);

impl Row<'_> {
    /// Reads all values in their order, each with its index.
    #[inline]
    pub fn each(self, mut read: impl FnMut(usize, Value<'_>)) {
        for (index, field) in self.0.iter().enumerate() {
            match *field {
                Field::Plain(value) => read(index, value),
                packed @ Field::Packed(..) => {
                    // Taken and put back for each: `read` may read a row of its own.
                    let mut text = TEXT.take();
                    read(index, packed.read(&mut text));
                    if text.capacity() <= TEXT_KEPT_BYTES {
                        TEXT.set(text);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows numbers by their words.
    struct Words;

    impl Unpack for Words {
        fn append_text(&self, packed: Value<'_>, out: &mut Vec<u8>) {
            out.extend_from_slice(if packed == Value::Int(1) { b"one" } else { b"many" });
        }
    }

    #[test]
    fn texts_are_made_when_they_are_read() {
        let fields = [
            Value::Double(0.5).into(),
            Field::Packed(Value::Int(1), &Words),
            Value::Bytes(b"x").into(),
            Field::Packed(Value::Int(7), &Words),
        ];
        let mut read = Vec::new();
        Row(&fields).each(|index, value| read.push(format!("{index} {value:?}")));
        let bytes = |text: &str| format!("{:?}", Value::Bytes(text.as_bytes()));
        assert_eq!(
            read,
            [
                "0 Double(0.5)".to_owned(),
                format!("1 {}", bytes("one")),
                format!("2 {}", bytes("x")),
                format!("3 {}", bytes("many")),
            ]
        );
    }

    #[test]
    fn rows_are_read_within_rows() {
        let fields = [Field::Packed(Value::Int(1), &Words), Field::Packed(Value::Int(2), &Words)];
        let mut read = Vec::new();
        Row(&fields).each(|_, outer| {
            Row(&fields).each(|_, inner| read.push((format!("{outer:?}"), format!("{inner:?}"))));
        });
        assert_eq!(read.len(), 4);
        assert!(read[0].0 == read[1].0 && read[0].1 != read[1].1 && read[2].0 != read[0].0);
    }
}
