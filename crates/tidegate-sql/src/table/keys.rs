//! Keys that rows can have.

use tidegate_rows::{Column, Flow, ServerError, Sink, SinkClosed, Summary, Value};

use super::{OpenTable, Strictness};
use crate::{
    exec::{Out, params::MadeParam},
    session::Session,
    value::Datum,
};

impl Session {
    /// Whether a row of an open table can have these texts as its key, one for each of the index's first columns: each column holds
    /// its text as it is. `1.4`, `1e0` and `01` are no keys of an INT, nor is what is too long for its column. What compares as
    /// equal in the column, such as upper and lower case, and the padding of CHAR and BINARY, makes no difference here.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table), if definitions have changed.
    pub fn holds_key(&mut self, open: &OpenTable, key: &[&[u8]]) -> Result<bool, ServerError> {
        let core = self.core();
        let known = open.known(core)?;
        if key.len() > known.parts.len() {
            return Ok(false);
        }
        Ok(known.parts.iter().zip(key).all(|(&part, &text)| {
            // Whatever is wrong with a value: no row has it.
            let Ok(MadeParam::Stored(stored, _)) = core.stored(&known, Strictness::Exact, part, Value::Bytes(text))
            else {
                return false;
            };
            let ty = &known.table.columns[part].ty;
            match &stored {
                Datum::Text(stored) if ty.base.is_character() => stored.len() >= text.len(),
                Datum::Blob(stored) if ty.base.is_binary() => stored.len() >= text.len(),
                stored => {
                    let mut same = SameText { text, is_same: false };
                    Out::of(ty).emit(0, stored.as_cell(), &mut Vec::new(), &mut same);
                    same.is_same
                }
            }
        }))
    }
}

/// Compares a value with a text.
struct SameText<'a> {
    text: &'a [u8],
    is_same: bool,
}

impl Sink for SameText<'_> {
    fn columns(&mut self, _: &[Column]) {}
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, value: Value<'_>) {
        self.is_same = match value {
            Value::Null => false,
            Value::Bytes(bytes) => bytes == self.text,
            Value::Int(number) => itoa::Buffer::new().format(number).as_bytes() == self.text,
            Value::Uint(number) => itoa::Buffer::new().format(number).as_bytes() == self.text,
            Value::Float(number) => number.to_string().as_bytes() == self.text,
            Value::Double(number) => number.to_string().as_bytes() == self.text,
        };
    }
    fn end_row(&mut self) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
