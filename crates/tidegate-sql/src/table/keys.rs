//! Keys that rows can have.

use tidegate_rows::{
    ServerError, Value,
    number::{append_double, append_float, append_int, append_uint},
};

use super::{OpenTable, Strictness};
use crate::{
    session::Session,
    translate::params::MadeParam,
    value::{Datum, out::Out},
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
                stored => is_text(Out::of(ty).field(stored.as_cell()).read(&mut Vec::new()), text),
            }
        }))
    }
}

/// Whether a value has this text.
fn is_text(value: Value<'_>, text: &[u8]) -> bool {
    let mut digits = Vec::new();
    match value {
        Value::Null => return false,
        Value::Bytes(bytes) => return bytes == text,
        Value::Int(number) => append_int(&mut digits, number),
        Value::Uint(number) => append_uint(&mut digits, number),
        Value::Float(number) => append_float(&mut digits, number),
        Value::Double(number) => append_double(&mut digits, number),
    }
    digits == text
}
