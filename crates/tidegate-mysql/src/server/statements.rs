//! The prepared statements of a client: their texts, the types of their parameters, and long data that has come.
//!
//! Source: MySQL internals, "COM_STMT_EXECUTE" and "COM_STMT_SEND_LONG_DATA".

use std::{borrow::Cow, collections::HashMap};

use bytes::Bytes;
use tidegate_rows::{ColumnType, Param, ServerError};

use super::{PreparedIn, cursor::Cursor};
use crate::{
    rows,
    wire::{Malformed, Reader},
};

/// Most statements that a client may have prepared.
///
/// Source: MariaDB, `max_prepared_stmt_count`, which counts those of all clients.
const STATEMENTS_MAX: usize = 16_382;
/// Most parameters of a statement: the protocol counts them with 16 bits.
pub const PARAMS_MAX: usize = 65_535;
/// Stands for the statement that was prepared last: a client sends what it wants with it before it knows the number.
///
/// Source: MariaDB, "COM_STMT_EXECUTE".
const LAST_PREPARED: u32 = u32::MAX;
/// High byte of the type of a number without sign.
const UNSIGNED: u8 = 0x80;

/// A statement that a client has prepared.
#[derive(Debug)]
pub struct Statement {
    /// The text.
    pub sql: Bytes,
    /// Number of its parameters.
    pub params: usize,
    /// In what it was prepared.
    context: PreparedIn,
    /// Types of its parameters as they were last bound, each with its flags.
    types: Vec<(ColumnType, u8)>,
    /// Values that have come in parts, by the number of their parameter.
    long: HashMap<u16, Vec<u8>>,
    /// Why long data was refused; the next execution says so.
    long_error: Option<ServerError>,
    /// The rows that its last execution has left to be fetched.
    cursor: Option<Cursor>,
}

/// A statement that is to run.
#[derive(Debug)]
pub struct Execution {
    /// The text.
    pub sql: Bytes,
    /// Values of its parameters.
    pub params: Vec<Param>,
    /// In what it was prepared.
    pub context: PreparedIn,
}

/// The statements of a client by number.
#[derive(Debug, Default)]
pub struct Statements {
    all: HashMap<u32, Statement>,
    last_id: u32,
    /// Number of the statement that was prepared last; `None` if that has failed.
    last: Option<u32>,
    /// Bytes of long data that they hold together.
    long_bytes: usize,
    /// Bytes of rows that wait to be fetched.
    cursor_bytes: usize,
}

/// The rows of values of a bulk execution.
#[derive(Debug)]
pub struct BulkRows<'a> {
    reader: Reader<'a>,
    types: Vec<(ColumnType, u8)>,
}

/// The values of a row of a bulk execution.
#[derive(Debug, Default)]
pub struct BulkRow {
    /// Those that the client has sent, in their order.
    pub params: Vec<Param>,
    /// The numbers of the parameters that it leaves to the server, counted from 0; they are not among `params`.
    pub defaults: Vec<usize>,
    /// One of these shall leave the column as it is.
    pub ignores: bool,
}

impl BulkRows<'_> {
    /// The values of the next row; `None` behind the last one.
    ///
    /// # Errors
    /// 1210 for what is no row.
    pub fn next(&mut self, decoded: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Result<Option<BulkRow>, ServerError> {
        let wrong = |_| ServerError::new(1210, b"HY000", "Incorrect arguments to mysqld_stmt_bulk_execute");
        if self.reader.is_empty() || self.types.is_empty() {
            return Ok(None);
        }
        let mut row = BulkRow { params: Vec::with_capacity(self.types.len()), ..BulkRow::default() };
        for (index, (kind, flags)) in self.types.iter().enumerate() {
            row.params.push(match self.reader.u8().map_err(wrong)? {
                0 if is_text(*kind) => {
                    let text = self.reader.lenenc_bytes().map_err(wrong)?;
                    Param::Bytes(Bytes::copy_from_slice(&decoded(text)))
                }
                0 => param(&mut self.reader, *kind, flags & UNSIGNED != 0).map_err(wrong)?,
                1 => Param::Null,
                indicator @ (2 | 3) => {
                    row.defaults.push(index);
                    row.ignores |= indicator == 3;
                    continue;
                }
                _ => return Err(wrong(Malformed("unknown indicator"))),
            });
        }
        Ok(Some(row))
    }
}

impl Statements {
    /// Keeps a statement; gives its number.
    ///
    /// # Errors
    /// 1461 if the client has too many.
    pub fn insert(&mut self, sql: Bytes, params: usize, context: PreparedIn) -> Result<u32, ServerError> {
        if self.all.len() >= STATEMENTS_MAX {
            let message =
                format!("Can't create more than max_prepared_stmt_count statements (current value: {STATEMENTS_MAX})");
            return Err(ServerError::new(1461, b"42000", message));
        }
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if !matches!(self.last_id, 0 | LAST_PREPARED) && !self.all.contains_key(&self.last_id) {
                break;
            }
        }
        let (types, long) = (Vec::new(), HashMap::new());
        let statement = Statement { sql, params, context, types, long, long_error: None, cursor: None };
        self.all.insert(self.last_id, statement);
        self.last = Some(self.last_id);
        Ok(self.last_id)
    }

    /// A statement could not be prepared: none is the last.
    pub fn note_failure(&mut self) {
        self.last = None;
    }

    /// The number of a statement, where a client may mean the last one.
    fn number(&self, id: u32) -> u32 {
        if id == LAST_PREPARED { self.last.unwrap_or(id) } else { id }
    }

    /// Number of statements.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forgets a statement; there may be none of this number.
    pub fn remove(&mut self, id: u32) {
        let id = self.number(id);
        if let Some(statement) = self.all.remove(&id) {
            self.long_bytes -= statement.long.values().map(Vec::len).sum::<usize>();
            self.cursor_bytes -= statement.cursor.as_ref().map_or(0, Cursor::size);
        }
    }

    /// Keeps the rows that a client is to fetch.
    pub(super) fn keep_cursor(&mut self, id: u32, cursor: Cursor) {
        let id = self.number(id);
        if let Some(statement) = self.all.get_mut(&id) {
            self.cursor_bytes += cursor.size();
            self.cursor_bytes -= statement.cursor.replace(cursor).as_ref().map_or(0, Cursor::size);
        }
    }

    /// Bytes of rows that wait to be fetched.
    pub(super) fn cursor_bytes(&self) -> usize {
        self.cursor_bytes
    }

    /// Appends the next rows of a statement's cursor, and answers whether it has ended with them: then it is gone.
    ///
    /// # Errors
    /// 1243 if there is no such statement, 1421 if it has no cursor.
    pub(super) fn fetch(
        &mut self,
        id: u32,
        rows: u32,
        sequence: &mut u8,
        out: &mut Vec<u8>,
    ) -> Result<bool, ServerError> {
        let id = self.number(id);
        let statement = self.all.get_mut(&id).ok_or_else(|| unknown(id, "mysqld_stmt_fetch"))?;
        let Some(cursor) = &mut statement.cursor else {
            return Err(ServerError::new(1421, b"HY000", format!("The statement ({id}) has no open cursor.")));
        };
        let has_ended = cursor.fetch(rows, sequence, out);
        if has_ended {
            self.cursor_bytes -= cursor.size();
            statement.cursor = None;
        }
        Ok(has_ended)
    }

    /// A statement that is to run for several rows of values, which stand in a packet behind number and flags.
    ///
    /// # Errors
    /// 1243 if there is no such statement, 1210 for a packet that does not fit it.
    pub fn bulk<'p>(
        &mut self,
        id: u32,
        has_types: bool,
        packet: &'p [u8],
    ) -> Result<(Execution, BulkRows<'p>), ServerError> {
        let id = self.number(id);
        let statement = self.all.get_mut(&id).ok_or_else(|| unknown(id, "mysqld_stmt_bulk_execute"))?;
        let wrong = |_| ServerError::new(1210, b"HY000", "Incorrect arguments to mysqld_stmt_bulk_execute");
        let mut reader = Reader(packet);
        if has_types {
            statement.read_types(&mut reader).map_err(wrong)?;
        }
        if statement.types.len() != statement.params || statement.params == 0 || reader.is_empty() {
            return Err(wrong(Malformed("no rows of values")));
        }
        let rows = BulkRows { reader, types: statement.types.clone() };
        let execution =
            Execution { sql: statement.sql.clone(), params: Vec::new(), context: statement.context.clone() };
        self.reset(id)?;
        Ok((execution, rows))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self { last_id: self.last_id, ..Self::default() };
    }

    /// Keeps a part of a parameter's value. What is wrong with it, the execution tells: the command has no answer.
    pub fn add_long_data(&mut self, id: u32, index: u16, part: &[u8], bytes_max: usize) {
        let id = self.number(id);
        let Some(statement) = self.all.get_mut(&id) else { return };
        if usize::from(index) >= statement.params {
            let message = "Incorrect arguments to mysqld_stmt_send_long_data";
            statement.long_error = Some(ServerError::new(1210, b"HY000", message));
        } else if self.long_bytes + part.len() > bytes_max {
            let message = "Parameter of prepared statement which is set through mysql_send_long_data() is longer than \
                           'max_allowed_packet' bytes";
            statement.long_error = Some(ServerError::new(1301, b"HY000", message));
        } else {
            self.long_bytes += part.len();
            statement.long.entry(index).or_default().extend_from_slice(part);
        }
    }

    /// Forgets the long data of a statement.
    ///
    /// # Errors
    /// 1243 if there is no such statement.
    pub fn reset(&mut self, id: u32) -> Result<(), ServerError> {
        let statement = self.all.get_mut(&id).ok_or_else(|| unknown(id, "mysqld_stmt_reset"))?;
        self.long_bytes -= statement.long.values().map(Vec::len).sum::<usize>();
        statement.long.clear();
        statement.long_error = None;
        self.cursor_bytes -= statement.cursor.take().as_ref().map_or(0, Cursor::size);
        Ok(())
    }

    /// A statement that is to run, with the values for its parameters as a packet behind number, flags and count has them. `decoded`
    /// makes UTF-8 of texts.
    ///
    /// ```text
    /// bits of NULL | 1 u8 if types follow | types u16 … | values …
    /// ```
    ///
    /// # Errors
    /// 1243 if there is no such statement, 1210 for a packet that does not fit it; why long data was refused.
    pub fn execution(
        &mut self,
        id: u32,
        packet: &[u8],
        decoded: impl Fn(&[u8]) -> Cow<'_, [u8]>,
    ) -> Result<Execution, ServerError> {
        let id = self.number(id);
        let statement = self.all.get_mut(&id).ok_or_else(|| unknown(id, "mysqld_stmt_execute"))?;
        let refused = statement.long_error.take();
        let values = refused.map_or_else(
            || {
                statement
                    .bind(packet, decoded)
                    .map_err(|_| ServerError::new(1210, b"HY000", "Incorrect arguments to mysqld_stmt_execute"))
            },
            Err,
        );
        let (sql, context) = (statement.sql.clone(), statement.context.clone());
        self.reset(id)?;
        Ok(Execution { sql, params: values?, context })
    }
}

/// There is no statement of this number.
pub fn unknown(id: u32, function: &str) -> ServerError {
    ServerError::new(1243, b"HY000", format!("Unknown prepared statement handler ({id}) given to {function}"))
}

impl Statement {
    /// The types of all parameters.
    fn read_types(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.types.clear();
        for _ in 0..self.params {
            let [kind, flags] = reader.array()?;
            self.types.push((ColumnType::from_code(kind).ok_or(Malformed("unknown type"))?, flags));
        }
        Ok(())
    }

    fn bind(&mut self, packet: &[u8], decoded: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Result<Vec<Param>, Malformed> {
        if self.params == 0 {
            return Ok(Vec::new());
        }
        let mut reader = Reader(packet);
        let nulls = reader.bytes(self.params.div_ceil(8))?;
        if reader.u8()? == 1 {
            self.read_types(&mut reader)?;
        }
        if self.types.len() != self.params {
            return Err(Malformed("the types of the parameters are not known"));
        }
        let mut values = Vec::with_capacity(self.params);
        for (index, (kind, flags)) in self.types.iter().enumerate() {
            if let Some(long) = u16::try_from(index).ok().and_then(|index| self.long.get_mut(&index)) {
                let is_text = is_text(*kind);
                values.push(Param::Bytes(Bytes::copy_from_slice(&if is_text {
                    decoded(long)
                } else {
                    Cow::Borrowed(&**long)
                })));
            } else if nulls[index / 8] & (1 << (index % 8)) != 0 {
                values.push(Param::Null);
            } else if is_text(*kind) {
                values.push(Param::Bytes(Bytes::copy_from_slice(&decoded(reader.lenenc_bytes()?))));
            } else {
                values.push(param(&mut reader, *kind, flags & UNSIGNED != 0)?);
            }
        }
        if reader.is_empty() { Ok(values) } else { Err(Malformed("more values than parameters")) }
    }
}

/// Whether values of a type are strings. Bytes count as texts in the client's character set, too: nobody can tell them apart where
/// a client names no type of its own, and as bytes they are the same again.
fn is_text(kind: ColumnType) -> bool {
    use ColumnType::*;
    matches!(kind, Varchar | VarString | String | Enum | Set | Json | TinyBlob | MediumBlob | LongBlob | Blob)
}

/// Reads the value of a parameter.
fn param(reader: &mut Reader<'_>, kind: ColumnType, is_unsigned: bool) -> Result<Param, Malformed> {
    use ColumnType::*;
    Ok(match kind {
        Null => Param::Null,
        Tiny if is_unsigned => Param::Uint(u64::from(reader.u8()?)),
        Tiny => Param::Int(i64::from(reader.u8()? as i8)),
        Short | Year if is_unsigned => Param::Uint(u64::from(reader.u16()?)),
        Short | Year => Param::Int(i64::from(reader.u16()? as i16)),
        Long | Int24 if is_unsigned => Param::Uint(u64::from(reader.u32()?)),
        Long | Int24 => Param::Int(i64::from(reader.u32()? as i32)),
        LongLong if is_unsigned => Param::Uint(reader.u64()?),
        LongLong => Param::Int(reader.u64()? as i64),
        Float => Param::Double(f64::from(f32::from_bits(reader.u32()?))),
        Double => Param::Double(f64::from_bits(reader.u64()?)),
        Date | NewDate | Datetime | Timestamp | Time => {
            Param::Typed(kind, Bytes::from(rows::temporal_text(kind, reader.lenenc_bytes()?)?))
        }
        Decimal | NewDecimal => Param::Typed(kind, Bytes::copy_from_slice(reader.lenenc_bytes()?)),
        Bit | Varchar | Json | Enum | Set | TinyBlob | MediumBlob | LongBlob | Blob | VarString | String | Geometry
        | Vector => Param::Bytes(Bytes::copy_from_slice(reader.lenenc_bytes()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::put_execute;

    fn as_is(text: &[u8]) -> Cow<'_, [u8]> {
        Cow::Borrowed(text)
    }

    /// What stands behind number, flags and count of the packet that a client of ours sends.
    fn packet(params: &[Param]) -> Vec<u8> {
        let mut out = Vec::new();
        put_execute(&mut out, 1, params);
        out.split_off(10)
    }

    fn with_params(params: usize) -> Statements {
        let mut statements = Statements::default();
        assert_eq!(statements.insert(Bytes::from_static(b"select"), params, PreparedIn::default()), Ok(1));
        statements
    }

    #[test]
    fn parameters_both_ways() {
        let params =
            [Param::Int(-1), Param::Null, Param::Uint(2), Param::Double(1.5), Param::Bytes(Bytes::from_static(b"x'"))];
        let packet = packet(&params);
        let mut statements = with_params(params.len());
        assert_eq!(statements.execution(1, &packet, as_is).unwrap().params, params);
        for cut in 0..packet.len() {
            assert_eq!(statements.execution(1, &packet[..cut], as_is).unwrap_err().code, 1210, "{cut}");
        }
        assert_eq!(statements.execution(1, &[&packet[..], b"x"].concat(), as_is).unwrap_err().code, 1210);
        // Types are remembered.
        let mut again = vec![packet[0], 0];
        again.extend_from_slice(&packet[2 + 10..]);
        assert_eq!(statements.execution(1, &again, as_is).unwrap().params, params);
        assert_eq!(statements.execution(2, &packet, as_is).unwrap_err().code, 1243);
    }

    #[test]
    fn values_of_all_types() {
        let value = |kind: u8, flags: u8, value: &[u8]| {
            let packet = [&[0, 1, kind, flags], value].concat();
            with_params(1).execution(1, &packet, as_is).map(|mut execution| execution.params.remove(0))
        };
        let typed = |kind, text: &'static str| Ok(Param::Typed(kind, Bytes::from_static(text.as_bytes())));
        assert_eq!(value(1, 0, b"\xff"), Ok(Param::Int(-1)));
        assert_eq!(value(1, UNSIGNED, b"\xff"), Ok(Param::Uint(255)));
        assert_eq!(value(2, 0, b"\xfe\xff"), Ok(Param::Int(-2)));
        assert_eq!(value(3, UNSIGNED, b"\xff\xff\xff\xff"), Ok(Param::Uint(u64::from(u32::MAX))));
        assert_eq!(value(4, 0, &1.5f32.to_le_bytes()), Ok(Param::Double(1.5)));
        assert_eq!(value(6, 0, b""), Ok(Param::Null));
        assert_eq!(value(10, 0, b"\x04\xe8\x07\x02\x1d"), typed(ColumnType::Date, "2024-02-29"));
        assert_eq!(
            value(12, 0, b"\x07\xe8\x07\x02\x1d\x01\x02\x03"),
            typed(ColumnType::Datetime, "2024-02-29 01:02:03")
        );
        assert_eq!(
            value(7, 0, b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x01\0\0\0"),
            typed(ColumnType::Timestamp, "2024-02-29 01:02:03.000001")
        );
        assert_eq!(value(11, 0, b"\x08\x01\x01\0\0\0\x01\x02\x03"), typed(ColumnType::Time, "-25:02:03"));
        assert_eq!(value(246, 0, b"\x041.50"), typed(ColumnType::NewDecimal, "1.50"));
        assert_eq!(value(99, 0, b"").unwrap_err().code, 1210);
        assert_eq!(value(12, 0, b"\x05\xe8\x07\x02\x1d\x01").unwrap_err().code, 1210);
    }

    #[test]
    fn the_last_statement_needs_no_number() {
        let mut statements = with_params(0);
        assert_eq!(statements.insert(Bytes::from_static(b"second"), 0, PreparedIn::default()), Ok(2));
        assert_eq!(statements.execution(LAST_PREPARED, b"", as_is).unwrap().sql, "second");
        statements.note_failure();
        assert_eq!(statements.execution(LAST_PREPARED, b"", as_is).unwrap_err().code, 1243);
        assert_eq!(statements.execution(2, b"", as_is).unwrap().sql, "second");
    }

    #[test]
    fn long_data() {
        let mut statements = with_params(2);
        let packet = b"\0\x01\xfc\0\x03\0\x07\0\0\0";
        statements.add_long_data(1, 0, b"ab", 5);
        statements.add_long_data(1, 0, b"cd", 5);
        let expected = vec![Param::Bytes(Bytes::from_static(b"abcd")), Param::Int(7)];
        assert_eq!(statements.execution(1, packet, as_is).unwrap().params, expected);
        // It serves once.
        assert!(statements.execution(1, packet, as_is).is_err());
        statements.add_long_data(1, 0, b"too long", 5);
        assert_eq!(statements.execution(1, packet, as_is).unwrap_err().code, 1301);
        statements.add_long_data(1, 2, b"x", 5);
        assert_eq!(statements.execution(1, packet, as_is).unwrap_err().code, 1210);
        statements.add_long_data(1, 0, b"abcde", 5);
        statements.reset(1).unwrap();
        statements.add_long_data(1, 0, b"abcde", 5);
        assert!(statements.execution(1, packet, as_is).is_ok());
        statements.add_long_data(1, 0, b"abcde", 5);
        statements.remove(1);
        assert_eq!((statements.len(), statements.long_bytes), (0, 0));
        statements.add_long_data(1, 0, b"nobody's", 5);
    }

    #[test]
    fn statements_have_a_limit() {
        let mut statements = Statements::default();
        for _ in 0..STATEMENTS_MAX {
            statements.insert(Bytes::new(), 0, PreparedIn::default()).unwrap();
        }
        assert_eq!(statements.insert(Bytes::new(), 0, PreparedIn::default()).unwrap_err().code, 1461);
        statements.remove(77);
        assert_eq!(statements.insert(Bytes::new(), 0, PreparedIn::default()), Ok(STATEMENTS_MAX as u32 + 1));
        statements.clear();
        assert!(statements.is_empty());
    }
}
