//! What holds for the tables that any packets become: for `fuzz/`, and for inputs made at random here.

use std::ffi::c_int;
use std::rc::Rc;

use tidegate_mysql::{answer, rows};
use tidegate_rows::{Column, ColumnFlags, ColumnType, Flow, Row, Sink, SinkClosed, Summary, Value};

use crate::rows::{Integers, Shape, TableSink, Tables};
use crate::stack::{Lua, Type};
use crate::vm::Vm;

/// Reads pieces of an input: a byte that says how long, then so many bytes.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        let (piece, rest) = rest.split_at(usize::from(len).min(rest.len()));
        self.0 = rest;
        Some(piece)
    }
}

/// A value as its sink gets it.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    Null,
    Bytes(Vec<u8>),
    Number(f64),
}

/// Keeps the values of whole rows.
#[derive(Default)]
struct Values {
    rows: Vec<Vec<Given>>,
    row: Vec<Given>,
}

impl Sink for Values {
    fn columns(&mut self, _columns: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.row.clear();
        row.each(|_, value| {
            self.row.push(match value {
                Value::Null => Given::Null,
                Value::Bytes(bytes) => Given::Bytes(bytes.to_vec()),
                Value::Int(number) => Given::Number(number as f64),
                Value::Uint(number) => Given::Number(number as f64),
                Value::Float(number) => Given::Number(f64::from(number)),
                Value::Double(number) => Given::Number(number),
            });
        });
        self.rows.push(std::mem::take(&mut self.row));
        Flow::More
    }
    fn end_result(&mut self, _summary: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Builds the tables of one result. The first byte chooses the protocol and the tables' form, the second how many rows are
/// expected, the third how many columns there are; the pieces behind them are the packets of columns and rows.
pub(super) fn check(vm: &Rc<Vm>, input: &[u8]) {
    let mut pieces = Pieces(input);
    let (form, rows_hint, count) = (pieces.byte(), c_int::from(pieces.byte()), usize::from(pieces.byte()) + 1);
    let is_binary = form & 1 != 0;
    let integers = [Integers::String, Integers::Cdata, Integers::Number, Integers::String][usize::from(form >> 2 & 3)];
    let shape = Shape { compact: form & 2 != 0, rows_hint, integers, ..Shape::default() };
    let columns: Vec<Column> = (0..count).map(|_| column(pieces.next().unwrap_or_default())).collect();
    let (tables, mut values) = (Tables::new(vm.clone()), Values::default());
    let mut sink = TableSink::new(tables.clone(), shape);
    let whole = tables.during(|| {
        sink.columns(&columns);
        for packet in pieces {
            let (read, kept) = if is_binary {
                (rows::binary(packet, &columns, &mut sink), rows::binary(packet, &columns, &mut values))
            } else {
                (rows::text(packet, count, &mut sink), rows::text(packet, count, &mut values))
            };
            assert_eq!(read.is_ok(), kept.is_ok());
            if read.is_err() {
                // The connection breaks, and the statement is dropped.
                return false;
            }
        }
        sink.end_result(&Summary::default());
        true
    });
    assert!(tables.take_failure().is_none(), "there is memory");
    let built = tables.take_built();
    assert_eq!(vm.main().top(), 0);
    assert_eq!(built.len(), usize::from(whole));
    let Some(first) = built.first() else { return };
    assert!(!tables.is_too_wide());
    // SAFETY: nobody else works with the main state.
    let compared = unsafe { vm.main().lua() }.protect(|lua| {
        lua.reserve(8)?;
        first.table.push(lua);
        compare(lua, &columns, shape.compact, &values.rows);
        Ok(())
    });
    compared.expect("the tables are as they should be");
}

/// The column that a packet defines, or one that is made of any bytes.
fn column(packet: &[u8]) -> Column {
    if let Ok(column) = answer::column(packet) {
        return column;
    }
    let (kind, name) = packet.split_first().unwrap_or((&0, &[]));
    let kinds: Vec<ColumnType> = (0..=255).filter_map(ColumnType::from_code).collect();
    let unsigned = if kind & 0x80 != 0 { ColumnFlags::UNSIGNED } else { 0 };
    let kind = kinds[usize::from(*kind) % kinds.len()];
    Column { flags: ColumnFlags(unsigned), ..Column::expression(name.to_vec(), kind) }
}

/// Compares the table on top with the rows that it was made of.
fn compare(lua: &mut Lua, columns: &[Column], is_compact: bool, rows: &[Vec<Given>]) {
    assert_eq!(lua.raw_len(-1), rows.len());
    for (number, row) in rows.iter().enumerate() {
        lua.raw_get_index(-1, number as c_int + 1);
        for (index, (column, given)) in columns.iter().zip(row).enumerate() {
            // Of columns with the same name the last one counts.
            if !is_compact && columns[index + 1..].iter().any(|other| other.name == column.name) {
                continue;
            }
            if is_compact {
                lua.raw_get_index(-1, index as c_int + 1);
            } else {
                lua.raw_get_field(-1, &column.name);
            }
            compare_value(lua, column, given);
            lua.pop(1);
        }
        lua.pop(1);
    }
    lua.pop(1);
}

fn compare_value(lua: &mut Lua, column: &Column, given: &Given) {
    let found = lua.type_of(-1);
    match given {
        Given::Null => assert!(found == Type::LightUserdata && lua.to_userdata(-1).is_null()),
        // Numbers are made of texts and the other way round; not every text is a number.
        Given::Bytes(bytes) if found == Type::String => assert_eq!(lua.to_bytes(-1), Some(&bytes[..])),
        Given::Bytes(_) => assert!(column.kind.is_number()),
        Given::Number(number) if found == Type::Number => {
            // A single precision number becomes that of its shortest text.
            let lua_number = lua.to_number(-1).expect("a number");
            let is_same = lua_number.to_bits() == number.to_bits() || lua_number as f32 == *number as f32;
            assert!(is_same || (number.is_nan() && lua_number.is_nan()));
        }
        Given::Number(_) => assert!(matches!(found, Type::String | Type::Cdata | Type::Nil)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vm_with;
    use crate::vm::VmConfig;

    /// Columns and rows of all kinds, whole and cut at every byte.
    #[test]
    fn any_packets_become_tables() {
        let vm = vm_with(VmConfig::default());
        let packets: &[&[u8]] = &[
            b"\x02id",
            b"\xa2id",
            b"\x18name",
            b"\x08\xf0",
            b"\x04\x0212\x03bob",
            b"\x01\xfb\xfb\x02-7",
            b"\x041e999\x00",
            b"\x03nan\x05\x00\x01\x02\x03\x04",
            b"\0\0\x01\0\0\0\0\0\0\x80\x01\0\0\0\x01a\x01b",
        ];
        for form in 0..16 {
            for count in 0..4 {
                let mut input = vec![form, 3, count];
                for turn in 0..packets.len() {
                    for packet in packets.iter().cycle().skip(turn).take(usize::from(count) + 3) {
                        input.push(packet.len() as u8);
                        input.extend_from_slice(packet);
                    }
                    for end in 0..=input.len() {
                        check(&vm, &input[..end]);
                    }
                    input.truncate(3);
                }
            }
        }
    }
}
