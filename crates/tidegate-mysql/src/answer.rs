//! Packets that a server answers with: OK, ERR, EOF and column definitions.
//!
//! Source: MySQL internals, "Generic Response Packets" and "Column Definition".

use tidegate_rows::{Column, ColumnFlags, ColumnType, Extended, ServerError, SessionChange, Summary};

use crate::wire::{Malformed, Reader, put_lenenc, put_lenenc_bytes};

/// Bits of the server's status.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANSACTION: u16 = 1;
    /// Each statement is a transaction.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result of the batch follows.
    pub const MORE_RESULTS: u16 = 8;
    /// The rows of the statement wait to be fetched.
    pub const CURSOR_EXISTS: u16 = 64;
    /// The last row has been fetched.
    pub const LAST_ROW_SENT: u16 = 128;
    /// Something of the session has changed, and the OK packet says what.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// First byte of an OK packet.
pub const OK: u8 = 0x00;
/// First byte of a packet that asks for more in a login.
pub const MORE_DATA: u8 = 0x01;
/// First byte of the server's wish for a local file.
pub const LOCAL_INFILE: u8 = 0xfb;
/// First byte of an EOF packet, of the OK packet behind the rows, and of a login's switch to another plugin.
pub const EOF: u8 = 0xfe;
/// Longest EOF packet: its first byte, warnings, status.
const EOF_SIZE_MAX: usize = 5;
/// First byte of an ERR packet.
pub const ERR: u8 = 0xff;

/// Whether the packet ends the rows. A row may begin with the same byte, but has then 16 MiB and more.
#[inline]
pub fn ends_rows(packet: &[u8]) -> bool {
    packet.first() == Some(&EOF) && packet.len() < crate::packet::FRAME_MAX
}

/// Reads an OK packet, whatever its first byte.
///
/// # Errors
/// A packet that ends too early.
pub fn ok(packet: &[u8]) -> Result<Summary, Malformed> {
    let mut reader = Reader(packet);
    reader.u8()?;
    let affected_rows = reader.lenenc()?;
    let insert_id = reader.lenenc()?;
    let status = reader.u16()?;
    let warnings = reader.u16()?;
    // Servers write a length before the text; the manual says that there is none.
    let rest = reader.rest();
    let info = reader.lenenc_bytes().unwrap_or(rest);
    Ok(Summary {
        affected_rows,
        insert_id,
        warnings,
        status,
        info: info.into(),
        more_results: status & self::status::MORE_RESULTS != 0,
        changes: Box::default(),
    })
}

/// Reads the packet behind the rows: an OK packet, or an EOF packet of a server that does not know better.
///
/// # Errors
/// A packet that ends too early.
pub fn end_of_rows(packet: &[u8], deprecate_eof: bool) -> Result<Summary, Malformed> {
    if deprecate_eof {
        let summary = ok(packet)?;
        return Ok(Summary { affected_rows: 0, insert_id: 0, ..summary });
    }
    if packet.len() > EOF_SIZE_MAX {
        return Err(Malformed("more than an end of rows"));
    }
    let mut reader = Reader(packet);
    reader.u8()?;
    // Servers of protocol 4.0 send neither.
    let warnings = reader.u16().unwrap_or(0);
    let status = reader.u16().unwrap_or(0);
    let more_results = status & self::status::MORE_RESULTS != 0;
    Ok(Summary { warnings, status, more_results, ..Summary::default() })
}

/// Reads an ERR packet. What is missing becomes a general error: the text matters more than its form.
pub fn error(packet: &[u8]) -> ServerError {
    const GENERAL: &[u8; 5] = b"HY000";
    let mut reader = Reader(packet.get(1..).unwrap_or_default());
    let code = reader.u16().unwrap_or(0);
    let (sqlstate, message) = match reader.rest() {
        [b'#', rest @ ..] if rest.len() >= 5 => {
            let (state, message) = rest.split_at(5);
            (<[u8; 5]>::try_from(state).unwrap_or(*GENERAL), message)
        }
        rest => (*GENERAL, rest),
    };
    ServerError { code, sqlstate, message: String::from_utf8_lossy(message).into_owned() }
}

/// Reads a column definition.
///
/// # Errors
/// A packet that ends too early, or a type that no server sends.
pub fn column(packet: &[u8]) -> Result<Column, Malformed> {
    let mut reader = Reader(packet);
    reader.lenenc_bytes()?; // catalog, always "def"
    let schema = reader.lenenc_bytes()?;
    let table = reader.lenenc_bytes()?;
    let org_table = reader.lenenc_bytes()?;
    let name = reader.lenenc_bytes()?;
    let org_name = reader.lenenc_bytes()?;
    let fixed = reader.lenenc_bytes()?;
    let mut fixed = Reader(fixed);
    let collation = fixed.u16()?;
    let length = fixed.u32()?;
    let kind = ColumnType::from_code(fixed.u8()?).ok_or(Malformed("unknown column type"))?;
    let flags = ColumnFlags(fixed.u16()?);
    let decimals = fixed.u8()?;
    Ok(Column {
        schema: schema.into(),
        table: table.into(),
        org_table: org_table.into(),
        name: name.into(),
        org_name: org_name.into(),
        collation,
        length,
        kind,
        flags,
        decimals,
        extended: Extended::None,
    })
}

/// Appends the payload of an OK packet. `first` is [`OK`], or [`EOF`] behind rows.
pub fn put_ok(out: &mut Vec<u8>, first: u8, summary: &Summary) {
    out.push(first);
    put_lenenc(out, summary.affected_rows);
    put_lenenc(out, summary.insert_id);
    let changed = if summary.changes.is_empty() { 0 } else { status::SESSION_STATE_CHANGED };
    out.extend_from_slice(&(status_of(summary) | changed).to_le_bytes());
    out.extend_from_slice(&summary.warnings.to_le_bytes());
    if !summary.info.is_empty() || changed != 0 {
        put_lenenc_bytes(out, &summary.info);
    }
    if changed != 0 {
        let mut changes = Vec::new();
        summary.changes.iter().for_each(|change| put_change(&mut changes, change));
        put_lenenc_bytes(out, &changes);
    }
}

/// Appends a change of the session: its kind, and a string with what belongs to it.
///
/// Source: MySQL internals, "Session State Information".
fn put_change(out: &mut Vec<u8>, change: &SessionChange) {
    let mut data = Vec::new();
    let kind = match change {
        SessionChange::Variable(name, value) => {
            put_lenenc_bytes(&mut data, name.as_bytes());
            put_lenenc_bytes(&mut data, value.as_bytes());
            0
        }
        SessionChange::Schema(name) => {
            put_lenenc_bytes(&mut data, name.as_bytes());
            1
        }
        SessionChange::State => {
            put_lenenc_bytes(&mut data, b"1");
            2
        }
    };
    out.push(kind);
    put_lenenc_bytes(out, &data);
}

/// Appends the payload of the packet behind the rows, or, for a client that does not know better, behind the columns.
pub fn put_end_of_rows(out: &mut Vec<u8>, summary: &Summary, deprecate_eof: bool) {
    if deprecate_eof {
        put_ok(out, EOF, &Summary { affected_rows: 0, insert_id: 0, ..summary.clone() });
    } else {
        out.push(EOF);
        out.extend_from_slice(&summary.warnings.to_le_bytes());
        out.extend_from_slice(&status_of(summary).to_le_bytes());
    }
}

fn status_of(summary: &Summary) -> u16 {
    let more = if summary.more_results { status::MORE_RESULTS } else { 0 };
    summary.status & !status::MORE_RESULTS | more
}

/// Appends the payload of an ERR packet.
pub fn put_error(out: &mut Vec<u8>, error: &ServerError) {
    put_error_of(out, error, error.message.as_bytes());
}

/// Appends the payload of an ERR packet whose message is in the client's character set.
pub fn put_error_of(out: &mut Vec<u8>, error: &ServerError, message: &[u8]) {
    out.push(ERR);
    out.extend_from_slice(&error.code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(&error.sqlstate);
    out.extend_from_slice(message);
}

/// Appends the payload of a column definition.
pub fn put_column(out: &mut Vec<u8>, column: &Column) {
    put_definition(out, column, None);
}

/// The same for a client that wants MariaDB's extended metadata: what a type is called that has no number.
///
/// ```text
/// size, { 0: type | 1: format, size, name }
/// ```
///
/// Source: MariaDB's documentation, "Result Set Packets".
pub fn put_extended_column(out: &mut Vec<u8>, column: &Column) {
    let (kind, name) = match column.extended {
        Extended::None => return put_definition(out, column, Some(&[])),
        Extended::Uuid => (0, "uuid"),
        Extended::Inet4 => (0, "inet4"),
        Extended::Inet6 => (0, "inet6"),
        Extended::Json => (1, "json"),
    };
    let mut extended = vec![kind];
    put_lenenc_bytes(&mut extended, name.as_bytes());
    put_definition(out, column, Some(&extended));
}

fn put_definition(out: &mut Vec<u8>, column: &Column, extended: Option<&[u8]>) {
    let texts = [&b"def"[..], &column.schema, &column.table, &column.org_table, &column.name, &column.org_name];
    for text in texts {
        put_lenenc_bytes(out, text);
    }
    if let Some(extended) = extended {
        put_lenenc_bytes(out, extended);
    }
    out.push(12);
    out.extend_from_slice(&column.collation.to_le_bytes());
    out.extend_from_slice(&column.length.to_le_bytes());
    out.push(column.kind as u8);
    out.extend_from_slice(&column.flags.0.to_le_bytes());
    out.extend_from_slice(&[column.decimals, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_packets() {
        let summary = ok(b"\0\x01\xfc\x2c\x01\x0a\x00\x02\x00").unwrap();
        assert_eq!((summary.affected_rows, summary.insert_id, summary.warnings), (1, 300, 2));
        assert!(summary.more_results && summary.info.is_empty());
        let summary = ok(b"\0\0\0\x02\0\0\0\x05hello").unwrap();
        assert_eq!(&*summary.info, b"hello");
        let summary = ok(b"\0\0\0\x02\0\0\0hello").unwrap();
        assert_eq!(&*summary.info, b"hello");
        assert!(ok(b"\0\0\0\x02").is_err());
    }

    #[test]
    fn changes_of_the_session() {
        let changes = [SessionChange::Variable("autocommit", "OFF".into()), SessionChange::Schema("shop".into())];
        let mut out = Vec::new();
        put_ok(&mut out, OK, &Summary { changes: changes.into(), ..Summary::default() });
        assert_eq!(&out[..8], b"\0\0\0\0\x40\0\0\0");
        assert_eq!(&out[8..], b"\x18\0\x0f\x0aautocommit\x03OFF\x01\x05\x04shop");
    }

    #[test]
    fn eof_packets() {
        assert!(ends_rows(b"\xfe\0\0\x02\0"));
        assert!(!ends_rows(b"\xfb"));
        let summary = end_of_rows(b"\xfe\x01\0\x0a\0", false).unwrap();
        assert_eq!((summary.warnings, summary.more_results), (1, true));
        assert!(end_of_rows(b"\xfe\0\0\x08\0\0\0", true).unwrap().more_results);
    }

    #[test]
    fn error_packets() {
        let found = error(b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist");
        assert_eq!((found.code, found.sqlstate()), (1146, "42S02"));
        assert_eq!(found.message, "Table 'a.b' doesn't exist");
        let found = error(b"\xff\x10\x04Too many connections");
        assert_eq!((found.code, &*found.message), (1040, "Too many connections"));
        assert_eq!(error(b"\xff").code, 0);
    }

    #[test]
    fn columns() {
        let packet = b"\x03def\x01s\x01t\x02ot\x01n\x02on\x0c\x2d\0\x0a\0\0\0\x03\x21\0\0\0\0";
        let column = column(packet).unwrap();
        assert_eq!((&*column.schema, &*column.table, &*column.name), (&b"s"[..], &b"t"[..], &b"n"[..]));
        assert_eq!((column.kind, column.length, column.collation), (ColumnType::Long, 10, 45));
        assert!(column.flags.is_unsigned());
        for cut in 0..packet.len() - 2 {
            assert!(super::column(&packet[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let summary = Summary {
            affected_rows: 300,
            insert_id: u64::MAX,
            warnings: 2,
            status: status::AUTOCOMMIT | status::MORE_RESULTS,
            info: (*b"hi").into(),
            more_results: true,
            changes: Box::default(),
        };
        let mut out = Vec::new();
        put_ok(&mut out, OK, &summary);
        assert_eq!(ok(&out), Ok(summary.clone()));
        let rowless = Summary { affected_rows: 0, insert_id: 0, ..summary };
        for deprecate_eof in [true, false] {
            let mut out = Vec::new();
            put_end_of_rows(&mut out, &rowless, deprecate_eof);
            assert!(ends_rows(&out));
            let info = if deprecate_eof { rowless.info.clone() } else { Box::default() };
            assert_eq!(end_of_rows(&out, deprecate_eof), Ok(Summary { info, ..rowless.clone() }));
        }
        let failure = ServerError::new(1146, b"42S02", "no such table");
        let mut out = Vec::new();
        put_error(&mut out, &failure);
        assert_eq!(error(&out), failure);
        let definition = Column {
            schema: (*b"s").into(),
            length: 77,
            flags: ColumnFlags(ColumnFlags::UNSIGNED),
            decimals: 31,
            ..Column::expression(*b"n", ColumnType::Double)
        };
        let mut out = Vec::new();
        put_column(&mut out, &definition);
        assert_eq!(column(&out), Ok(definition.clone()));
        let texts = b"\x03def\x01s\0\0\x01n\0".len();
        for (extended, written) in
            [(Extended::None, &b"\0"[..]), (Extended::Uuid, b"\x06\0\x04uuid"), (Extended::Json, b"\x06\x01\x04json")]
        {
            let mut with = Vec::new();
            put_extended_column(&mut with, &Column { extended, ..definition.clone() });
            assert_eq!(with, [&out[..texts], written, &out[texts..]].concat());
        }
    }
}
