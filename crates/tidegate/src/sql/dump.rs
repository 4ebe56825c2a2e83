//! `--dump`: a schema as statements that MariaDB, MySQL and this engine read.

use std::io::Write;

use tidegate_rows::{Column, ColumnType, Value};

use super::client::{Client, Event, text};
use super::output::hex;
use super::{Failure, backup, name};

/// Values of many rows share a statement up to about this size.
const INSERT_BYTES: usize = 1 << 20;

/// What stands before the tables: how texts, times and zeros are to be read, and no checks until all is there.
const HEAD: &str = "\
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
";
const TAIL: &str = "
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
-- Dump completed
";

/// Writes one schema (without its name, to be read into any), or all of them. Each schema is as it was at one moment.
///
/// # Errors
/// The server's, or the output's.
pub(super) fn run(client: &mut Client, schema: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::with_capacity(256 << 10, out);
    writeln!(out, "-- Tidegate {} dump\n", env!("CARGO_PKG_VERSION"))?;
    out.write_all(HEAD.as_bytes())?;
    client.run_quietly("SET time_zone = '+00:00'")?;
    match schema {
        Some(_) => dump_schema(client, &mut out)?,
        None => {
            for schema in backup::schemas(client)? {
                let quoted = name(&schema);
                client.run_quietly(&format!("USE {quoted}"))?;
                let create = client.rows(&format!("SHOW CREATE DATABASE {quoted}"))?;
                let create = create.first().and_then(|row| row.get(1)).cloned().unwrap_or_default();
                let create = create.replacen("CREATE DATABASE ", "CREATE DATABASE /*!32312 IF NOT EXISTS*/ ", 1);
                writeln!(out, "\n{create};\n\nUSE {quoted};")?;
                dump_schema(client, &mut out)?;
            }
        }
    }
    out.write_all(TAIL.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes the current schema.
fn dump_schema(client: &mut Client, out: &mut impl Write) -> Result<(), Failure> {
    client.run_quietly("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let tables = client.rows("SHOW FULL TABLES")?;
    let names = |kind: &'static str| {
        let rows = tables.iter().filter(move |row| row.get(1).is_some_and(|known| known == kind));
        rows.filter_map(|row| row.first()).map(|table| name(table)).collect::<Vec<_>>()
    };
    // Defaults of columns name them.
    for sequence in names("SEQUENCE") {
        dump_sequence(client, &sequence, out)?;
    }
    for table in names("BASE TABLE") {
        dump_table(client, &table, out)?;
    }
    // A view may need another one that comes later: each stands as a list of names first.
    for view in names("VIEW") {
        let columns = client.rows(&format!("SHOW COLUMNS FROM {view}"))?;
        let columns: Vec<_> =
            columns.iter().filter_map(|row| row.first()).map(|column| format!("1 AS {}", name(column))).collect();
        writeln!(out, "\nDROP VIEW IF EXISTS {view};\nCREATE VIEW {view} AS SELECT {};", columns.join(", "))?;
    }
    // Views may call functions.
    for kind in ["FUNCTION", "PROCEDURE"] {
        dump_routines(client, kind, out)?;
    }
    for view in names("VIEW") {
        let create = second_of(client, &format!("SHOW CREATE VIEW {view}"))?;
        let create = without_definer(&create, " VIEW ");
        writeln!(out, "\nDROP VIEW IF EXISTS {view};\n{create};")?;
    }
    dump_triggers(client, out)?;
    dump_events(client, out)?;
    client.run_quietly("COMMIT")
}

/// Writes the procedures or functions of the current schema, each to be made by its own `sql_mode`.
fn dump_routines(client: &mut Client, kind: &str, out: &mut impl Write) -> Result<(), Failure> {
    for shown in client.rows(&format!("SHOW {kind} STATUS WHERE Db = DATABASE()"))? {
        let Some(routine) = shown.get(1).map(|routine| name(routine)) else { continue };
        let rows = client.rows(&format!("SHOW CREATE {kind} {routine}"))?;
        let Some([_, mode, create, ..]) = rows.first().map(Vec::as_slice) else { continue };
        let create = without_definer(create, &format!(" {kind} "));
        writeln!(out, "\nDROP {kind} IF EXISTS {routine};\nSET sql_mode = '{mode}';\nDELIMITER ;;\n{create};;")?;
        writeln!(out, "DELIMITER ;\nSET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';")?;
    }
    Ok(())
}

/// Writes the triggers of the current schema, behind all rows: these have met them already. Each is made by its own `sql_mode`.
fn dump_triggers(client: &mut Client, out: &mut impl Write) -> Result<(), Failure> {
    for shown in client.rows("SHOW TRIGGERS")? {
        let Some(trigger) = shown.first().map(|trigger| name(trigger)) else { continue };
        let rows = client.rows(&format!("SHOW CREATE TRIGGER {trigger}"))?;
        let Some([_, mode, create, ..]) = rows.first().map(Vec::as_slice) else { continue };
        let create = without_definer(create, " TRIGGER ");
        writeln!(out, "\nDROP TRIGGER IF EXISTS {trigger};\nSET sql_mode = '{mode}';\nDELIMITER ;;\n{create};;")?;
        writeln!(out, "DELIMITER ;\nSET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';")?;
    }
    Ok(())
}

/// Writes the events of the current schema, each to be made by its own `sql_mode` in its own time zone.
fn dump_events(client: &mut Client, out: &mut impl Write) -> Result<(), Failure> {
    for shown in client.rows("SHOW EVENTS")? {
        let Some(event) = shown.get(1).map(|event| name(event)) else { continue };
        let rows = client.rows(&format!("SHOW CREATE EVENT {event}"))?;
        let Some([_, mode, zone, create, ..]) = rows.first().map(Vec::as_slice) else { continue };
        let create = without_definer(create, " EVENT ");
        writeln!(out, "\nDROP EVENT IF EXISTS {event};\nSET sql_mode = '{mode}', time_zone = '{zone}';")?;
        writeln!(out, "DELIMITER ;;\n{create};;\nDELIMITER ;")?;
        writeln!(out, "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00';")?;
    }
    Ok(())
}

/// A statement that makes something of a kind, without what stands between CREATE and the kind: whoever imports it is its definer.
fn without_definer(create: &str, kind: &str) -> String {
    create.find(kind).map_or_else(|| create.to_owned(), |at| format!("CREATE{}", &create[at..]))
}

fn second_of(client: &mut Client, sql: &str) -> Result<String, Failure> {
    let rows = client.rows(sql)?;
    let second = rows.into_iter().next().and_then(|row| row.into_iter().nth(1));
    second.ok_or_else(|| Failure::Other(format!("nothing answers {sql}")))
}

/// Writes a sequence, and where it goes on.
fn dump_sequence(client: &mut Client, sequence: &str, out: &mut impl Write) -> Result<(), Failure> {
    let create = second_of(client, &format!("SHOW CREATE SEQUENCE {sequence}"))?;
    let rows = client.rows(&format!("SELECT next_not_cached_value, cycle_count FROM {sequence}"))?;
    let Some([next, round]) = rows.first().map(Vec::as_slice) else {
        return Err(Failure::Other(format!("the sequence {sequence} has no row")));
    };
    writeln!(out, "\nDROP SEQUENCE IF EXISTS {sequence};\n{create};\nDO SETVAL({sequence}, {next}, 0, {round});")?;
    Ok(())
}

fn dump_table(client: &mut Client, table: &str, out: &mut impl Write) -> Result<(), Failure> {
    let create = second_of(client, &format!("SHOW CREATE TABLE {table}"))?;
    writeln!(out, "\nDROP TABLE IF EXISTS {table};\n{create};")?;
    let columns = written_columns(client, table)?;
    let (selected, into) = match &columns {
        Some(columns) => (columns.clone(), format!("{table} ({columns})")),
        None => ("*".to_owned(), table.to_owned()),
    };
    let mut statement = Vec::new();
    client.run(format!("SELECT {selected} FROM {table}").as_bytes(), |event| {
        match event {
            Event::Columns(_) => {}
            Event::Row(columns, values) => {
                if statement.is_empty() {
                    statement.extend_from_slice(format!("INSERT INTO {into} VALUES\n(").as_bytes());
                } else {
                    statement.extend_from_slice(b",\n(");
                }
                for (index, (column, value)) in columns.iter().zip(values).enumerate() {
                    if index > 0 {
                        statement.push(b',');
                    }
                    write_value(column, *value, &mut statement);
                }
                statement.push(b')');
            }
            Event::End(_) => {}
        }
        let ended = matches!(event, Event::End(_)) && !statement.is_empty();
        if ended || statement.len() >= INSERT_BYTES {
            statement.extend_from_slice(b";\n");
            out.write_all(&statement)?;
            statement.clear();
        }
        Ok(())
    })
}

/// The columns that a dump writes where some are computed: MySQL refuses values for those. `None` for all columns.
fn written_columns(client: &mut Client, table: &str) -> Result<Option<String>, Failure> {
    let columns = client.rows(&format!("SHOW COLUMNS FROM {table}"))?;
    let is_written = |row: &&Vec<String>| !row.get(5).is_some_and(|extra| extra.ends_with(" GENERATED"));
    let written: Vec<_> =
        columns.iter().filter(is_written).filter_map(|row| row.first()).map(|column| name(column)).collect();
    Ok((written.len() < columns.len()).then(|| written.join(", ")))
}

/// Appends a value as a literal.
fn write_value(column: &Column, value: Value<'_>, out: &mut Vec<u8>) {
    let Value::Bytes(bytes) = value else {
        let text = if value == Value::Null { "NULL".to_owned() } else { text(value) };
        return out.extend_from_slice(text.as_bytes());
    };
    if column.kind.is_number() {
        return out.extend_from_slice(bytes);
    }
    let is_raw =
        column.kind == ColumnType::Bit || (column.collation == Column::COLLATION_BINARY && !is_temporal(column.kind));
    if is_raw && !bytes.is_empty() {
        return out.extend_from_slice(hex(bytes).as_bytes());
    }
    out.push(b'\'');
    for &byte in bytes {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x1a => out.extend_from_slice(b"\\Z"),
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
}

fn is_temporal(kind: ColumnType) -> bool {
    use ColumnType::{Date, Datetime, NewDate, Time, Timestamp};
    matches!(kind, Date | Datetime | NewDate | Time | Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ColumnType, collation: u16, value: Value<'_>, expected: &str) {
        let column = Column { collation, ..Column::expression(*b"c", kind) };
        let mut out = Vec::new();
        write_value(&column, value, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn values_are_literals() {
        check(ColumnType::LongLong, 63, Value::Int(-5), "-5");
        check(ColumnType::LongLong, 63, Value::Null, "NULL");
        check(ColumnType::Double, 63, Value::Double(0.1), "0.1");
        check(ColumnType::NewDecimal, 63, Value::Bytes(b"1.50"), "1.50");
        check(ColumnType::VarString, 45, Value::Bytes(b"it's \\ \n\0\x1a"), "'it\\'s \\\\ \\n\\0\\Z'");
        check(ColumnType::Blob, 63, Value::Bytes(b"\0\xff"), "0x00FF");
        check(ColumnType::Blob, 63, Value::Bytes(b""), "''");
        check(ColumnType::Bit, 63, Value::Bytes(b"\x05"), "0x05");
        check(ColumnType::Datetime, 63, Value::Bytes(b"2020-01-01 00:00:00"), "'2020-01-01 00:00:00'");
    }
}
