//! Results for people (tables) and for programs (tabs, JSON lines).

use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use tidegate_rows::{
    Column, Format as _, Summary, Value,
    csv::{Csv, CsvOptions, CsvTerminator},
    json::{Json, JsonOptions},
};
use unicode_width::UnicodeWidthStr;

use super::client::{Event, text};

/// The form in which results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A box with a column for each column
    Table,
    /// A line for each value
    Vertical,
    /// A line for each row, values divided by tabs, special characters as \n \t \\ \0
    Tab,
    /// A JSON array of objects for each result
    Json,
    /// Comma-separated values with a line of names, as RFC 4180 has them
    Csv,
}

/// Rows that decide how wide the columns of a table are; later ones may stand out.
const MEASURED_ROWS: usize = 1000;
/// No column of a table is made wider than this; longer values stand out.
const WIDTH_MAX: usize = 200;

/// Writes results.
pub(super) struct Output<'a, W> {
    out: &'a mut W,
    format: Format,
    /// Rows of a table that are not printed yet, because the columns' widths are not known.
    pending: Vec<Vec<String>>,
    widths: Vec<usize>,
    printed: bool,
    rows: u64,
    json: Json<Box<JsonOptions>>,
    csv: Csv,
    buffer: Vec<u8>,
    has_rows: bool,
    columns: Vec<Column>,
}

impl<'a, W: Write> Output<'a, W> {
    /// Results to `out`.
    pub(super) fn new(out: &'a mut W, format: Format) -> Self {
        Self {
            out,
            format,
            pending: Vec::new(),
            widths: Vec::new(),
            printed: false,
            rows: 0,
            json: Json::new(Box::default()),
            csv: Csv::new(CsvOptions { terminator: CsvTerminator::Lf, ..CsvOptions::default() }),
            buffer: Vec::new(),
            has_rows: false,
            columns: Vec::new(),
        }
    }

    /// Writes what an event says; the answer is the summary's line for people, at the end of a result.
    ///
    /// # Errors
    /// The output's.
    pub(super) fn write(&mut self, event: Event<'_>) -> io::Result<Option<String>> {
        match event {
            Event::Columns(columns) => self.begin(columns).map(|()| None),
            Event::Row(columns, values) => self.row(columns, values).map(|()| None),
            Event::End(summary) => self.end(summary).map(Some),
        }
    }

    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        (self.has_rows, self.printed, self.rows) = (true, false, 0);
        self.columns = columns.to_vec();
        match self.format {
            Format::Tab => {
                let names: Vec<_> = columns.iter().map(|column| escaped(&column.name)).collect();
                writeln!(self.out, "{}", names.join("\t"))
            }
            Format::Json => {
                self.json.columns(columns, &mut self.buffer);
                self.flush()
            }
            Format::Csv => {
                self.csv.columns(columns, &mut self.buffer);
                self.flush()
            }
            Format::Table | Format::Vertical => Ok(()),
        }
    }

    fn row(&mut self, columns: &[Column], values: &[Value<'_>]) -> io::Result<()> {
        self.rows += 1;
        match self.format {
            Format::Tab => {
                let row: Vec<_> = values
                    .iter()
                    .map(|value| match value {
                        Value::Null => "NULL".to_owned(),
                        Value::Bytes(bytes) => escaped(bytes),
                        value => text(*value),
                    })
                    .collect();
                writeln!(self.out, "{}", row.join("\t"))
            }
            Format::Json => {
                self.json.begin_row(&mut self.buffer);
                for (index, value) in values.iter().enumerate() {
                    self.json.value(index, *value, &mut self.buffer);
                }
                self.json.end_row(&mut self.buffer);
                self.flush()
            }
            Format::Csv => {
                self.csv.begin_row(&mut self.buffer);
                for (index, value) in values.iter().enumerate() {
                    self.csv.value(index, *value, &mut self.buffer);
                }
                self.csv.end_row(&mut self.buffer);
                self.flush()
            }
            Format::Vertical => {
                writeln!(self.out, "{} {}. row {}", "*".repeat(27), self.rows, "*".repeat(27))?;
                let width = columns.iter().map(|column| width(&shown_name(column))).max().unwrap_or(0);
                for (column, value) in columns.iter().zip(values) {
                    writeln!(self.out, "{:>width$}: {}", shown_name(column), shown(column, *value))?;
                }
                Ok(())
            }
            Format::Table => {
                let row: Vec<String> =
                    columns.iter().zip(values).map(|(column, value)| shown(column, *value)).collect();
                if self.printed {
                    return self.table_row(&row);
                }
                self.pending.push(row);
                if self.pending.len() >= MEASURED_ROWS { self.print_pending() } else { Ok(()) }
            }
        }
    }

    fn end(&mut self, summary: &Summary) -> io::Result<String> {
        let has_rows = std::mem::take(&mut self.has_rows);
        if has_rows && self.format == Format::Table {
            if !self.printed && !self.pending.is_empty() {
                self.print_pending()?;
            }
            if self.printed {
                self.rule()?;
            }
        }
        if self.format == Format::Json {
            if has_rows {
                self.json.end_result(summary, &mut self.buffer);
                self.buffer.push(b'\n');
            }
            self.flush()?;
            self.json = Json::new(Box::default());
        }
        let warnings = match summary.warnings {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            count => format!(", {count} warnings"),
        };
        let plural = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let line = if !has_rows {
            format!("Query OK, {} affected{warnings}", plural(summary.affected_rows, "row"))
        } else if self.rows == 0 {
            format!("Empty set{warnings}")
        } else {
            format!("{} in set{warnings}", plural(self.rows, "row"))
        };
        Ok(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn print_pending(&mut self) -> io::Result<()> {
        let names: Vec<String> = self.columns.iter().map(shown_name).collect();
        self.widths = names.iter().map(|name| widest(name)).collect();
        for row in &self.pending {
            for (known, value) in self.widths.iter_mut().zip(row) {
                *known = (*known).max(widest(value)).min(WIDTH_MAX);
            }
        }
        self.rule()?;
        self.line(&names, false)?;
        self.rule()?;
        for row in std::mem::take(&mut self.pending) {
            self.table_row(&row)?;
        }
        self.printed = true;
        Ok(())
    }

    fn table_row(&mut self, row: &[String]) -> io::Result<()> {
        self.line(row, true)
    }

    /// A row: as many lines as its longest value has.
    fn line(&mut self, values: &[String], align: bool) -> io::Result<()> {
        let mut lines: Vec<_> = values.iter().map(|value| value.split('\n')).collect();
        let count = values.iter().map(|value| value.split('\n').count()).max().unwrap_or(1);
        for _ in 0..count {
            for ((value, column), wanted) in lines.iter_mut().zip(&self.columns).zip(&self.widths) {
                let value = value.next().unwrap_or_default();
                let fill = " ".repeat(wanted.saturating_sub(width(value)));
                let right = align && column.kind.is_number();
                let (before, after) = if right { (fill.as_str(), "") } else { ("", fill.as_str()) };
                write!(self.out, "| {before}{value}{after} ")?;
            }
            writeln!(self.out, "|")?;
        }
        Ok(())
    }

    fn rule(&mut self) -> io::Result<()> {
        for wanted in &self.widths {
            write!(self.out, "+{}", "-".repeat(wanted + 2))?;
        }
        writeln!(self.out, "+")
    }
}

fn width(text: &str) -> usize {
    text.width()
}

/// The width of a text's widest line.
fn widest(text: &str) -> usize {
    text.split('\n').map(width).max().unwrap_or(0)
}

fn shown_name(column: &Column) -> String {
    printable(&String::from_utf8_lossy(&column.name))
}

/// A text without characters that could do anything to a terminal; a tab is a few spaces.
fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    let text = text.replace('\t', "    ");
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// A value for people: raw bytes that are no text as hexadecimal.
fn shown(column: &Column, value: Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(bytes) if column.collation == Column::COLLATION_BINARY => match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
            _ => hex(bytes),
        },
        value => printable(&text(value)),
    }
}

/// Bytes as `0x…`.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// As the `mysql` program writes values when nobody looks.
fn escaped(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(['\n', '\t', '\\', '\0']) {
        return text.into_owned();
    }
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\0', "\\0")
}

/// A duration as people read it behind a result.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3} sec", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_rows::ColumnType;

    #[track_caller]
    fn check(rows: &[[Value<'_>; 2]], expected: &str) {
        let columns =
            [Column::expression(*b"id", ColumnType::Long), Column::expression(*b"text", ColumnType::VarString)];
        let mut out = Vec::new();
        let mut output = Output::new(&mut out, Format::Table);
        output.write(Event::Columns(&columns)).unwrap();
        for row in rows {
            output.write(Event::Row(&columns, row)).unwrap();
        }
        output.write(Event::End(&Summary::default())).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn tables() {
        check(
            &[[Value::Int(1), Value::Bytes("日本".as_bytes())], [Value::Int(20), Value::Bytes(b"one\nthree\t!")]],
            "\
+----+------------+
| id | text       |
+----+------------+
|  1 | 日本       |
| 20 | one        |
|    | three    ! |
+----+------------+
",
        );
        check(
            &[[Value::Null, Value::Bytes(b"\x1b[2J")]],
            "\
+------+------+
| id   | text |
+------+------+
| NULL | \u{fffd}[2J |
+------+------+
",
        );
    }
}
