//! The commands of a client that has logged in.
//!
//! Source: MySQL internals, "Command Phase".

use crate::wire::{Malformed, Reader};

/// Flag of COM_STMT_EXECUTE.
const CURSOR_READ_ONLY: u8 = 1;
/// Flag of COM_STMT_BULK_EXECUTE.
const BULK_TYPES: u16 = 128;

/// A command, borrowed from its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// COM_QUIT
    Quit,
    /// COM_INIT_DB: another current schema.
    InitDb(&'a [u8]),
    /// COM_QUERY
    Query(&'a [u8]),
    /// COM_FIELD_LIST: the columns of a table whose names are like a pattern; an empty one for all.
    FieldList {
        /// The table.
        table: &'a [u8],
        /// A pattern as of LIKE.
        pattern: &'a [u8],
    },
    /// COM_STATISTICS
    Statistics,
    /// COM_PROCESS_INFO
    ProcessInfo,
    /// COM_PROCESS_KILL
    ProcessKill(u32),
    /// COM_DEBUG and COM_REFRESH: nothing is to be done.
    Nothing {
        /// The answer is an EOF packet, as COM_DEBUG has it.
        ends_with_eof: bool,
    },
    /// COM_PING
    Ping,
    /// COM_CHANGE_USER, all but its first byte.
    ChangeUser(&'a [u8]),
    /// COM_RESET_CONNECTION
    ResetConnection,
    /// COM_SET_OPTION: whether a text may hold several statements.
    SetOption {
        /// It may.
        multi_statements: bool,
    },
    /// COM_STMT_PREPARE
    Prepare(&'a [u8]),
    /// COM_STMT_EXECUTE
    Execute {
        /// The statement's number.
        id: u32,
        /// The client wants to fetch the rows in parts.
        wants_cursor: bool,
        /// What stands behind number, flags and count.
        rest: &'a [u8],
    },
    /// COM_STMT_BULK_EXECUTE
    BulkExecute {
        /// The statement's number.
        id: u32,
        /// The types of the parameters come first.
        has_types: bool,
        /// What stands behind number and flags.
        rest: &'a [u8],
    },
    /// COM_STMT_SEND_LONG_DATA; it has no answer.
    LongData {
        /// The statement's number.
        id: u32,
        /// The parameter, counted from 0.
        index: u16,
        /// A part of its value.
        part: &'a [u8],
    },
    /// COM_STMT_CLOSE; it has no answer.
    Close(u32),
    /// COM_STMT_RESET
    Reset(u32),
    /// COM_STMT_FETCH
    Fetch {
        /// The statement's number.
        id: u32,
        /// Rows at most.
        rows: u32,
    },
    /// One that the server does not know.
    Unknown(u8),
}

impl<'a> Command<'a> {
    /// Reads a command.
    ///
    /// # Errors
    /// An empty packet, or one that ends too early.
    pub fn read(packet: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(packet);
        Ok(match reader.u8()? {
            0x01 => Self::Quit,
            0x02 => Self::InitDb(reader.rest()),
            // Some clients end the text as if it were one of C.
            0x03 => Self::Query(without_zeros(reader.rest())),
            0x04 => Self::FieldList { table: reader.until_zero(), pattern: without_zeros(reader.rest()) },
            0x07 => Self::Nothing { ends_with_eof: false },
            0x09 => Self::Statistics,
            0x0a => Self::ProcessInfo,
            0x0c => Self::ProcessKill(reader.u32()?),
            0x0d => Self::Nothing { ends_with_eof: true },
            0x0e => Self::Ping,
            0x11 => Self::ChangeUser(reader.rest()),
            0x16 => Self::Prepare(without_zeros(reader.rest())),
            0x17 => {
                let (id, flags) = (reader.u32()?, reader.u8()?);
                reader.bytes(4)?;
                Self::Execute { id, wants_cursor: flags & CURSOR_READ_ONLY != 0, rest: reader.rest() }
            }
            0x18 => Self::LongData { id: reader.u32()?, index: reader.u16()?, part: reader.rest() },
            0x19 => Self::Close(reader.u32()?),
            0x1a => Self::Reset(reader.u32()?),
            0x1b => Self::SetOption { multi_statements: reader.u16()? == 0 },
            0x1c => Self::Fetch { id: reader.u32()?, rows: reader.u32()? },
            0x1f => Self::ResetConnection,
            0xfa => {
                let (id, flags) = (reader.u32()?, reader.u16()?);
                Self::BulkExecute { id, has_types: flags & BULK_TYPES != 0, rest: reader.rest() }
            }
            other => Self::Unknown(other),
        })
    }
}

fn without_zeros(text: &[u8]) -> &[u8] {
    text.strip_suffix(&[0]).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        for (packet, expected) in [
            (&b"\x01"[..], Command::Quit),
            (b"\x02shop", Command::InitDb(b"shop")),
            (b"\x03select 1\0", Command::Query(b"select 1")),
            (b"\x04cats\0n%", Command::FieldList { table: b"cats", pattern: b"n%" }),
            (b"\x0c\x07\0\0\0", Command::ProcessKill(7)),
            (b"\x17\x01\0\0\0\0\x01\0\0\0rest", Command::Execute { id: 1, wants_cursor: false, rest: b"rest" }),
            (b"\x17\x01\0\0\0\x01\x01\0\0\0", Command::Execute { id: 1, wants_cursor: true, rest: b"" }),
            (b"\x1c\x01\0\0\0\x02\0\0\0", Command::Fetch { id: 1, rows: 2 }),
            (b"\xfa\x01\0\0\0\x80\0rest", Command::BulkExecute { id: 1, has_types: true, rest: b"rest" }),
            (b"\x18\x01\0\0\0\x02\0part", Command::LongData { id: 1, index: 2, part: b"part" }),
            (b"\x19\x01\0\0\0", Command::Close(1)),
            (b"\x1b\x01\0", Command::SetOption { multi_statements: false }),
            (b"\x1f", Command::ResetConnection),
            (b"\x12", Command::Unknown(0x12)),
        ] {
            assert_eq!(Command::read(packet), Ok(expected));
        }
    }

    #[test]
    fn commands_cut_off() {
        assert!(Command::read(b"").is_err());
        for packet in [&b"\x0c\x07\0\0"[..], b"\x17\x01\0\0\0\0\x01\0\0", b"\x18\x01\0\0\0\x02", b"\x1b\x01", b"\x19\0"]
        {
            assert!(Command::read(packet).is_err());
        }
    }
}
