//! Results as comma-separated values, as rds-csv-nginx-module writes them (RFC 4180).
//!
//! NULL and the empty string are both an empty field. A statement that returns no rows answers with one row of the
//! fields `errcode`, `errstr`, `insert_id` and `affected_rows`.

use crate::{
    Column, Format, Summary, Value,
    number::{append_double, append_float, append_int, append_uint},
};

/// How results become CSV: what the `rds_csv_*` directives say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvOptions {
    /// `rds_csv_row_terminator`.
    pub terminator: CsvTerminator,
    /// `rds_csv_field_separator`: `,`, `;` or a tab.
    pub separator: u8,
    /// `rds_csv_field_name_header`: whether the first row holds the names. On by default, as that module does; its
    /// manual says otherwise.
    pub names: bool,
    /// `rds_csv_escape_formulas`: texts that a spreadsheet would take for a formula get a `'` in front.
    pub escape_formulas: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { terminator: CsvTerminator::CrLf, separator: b',', names: true, escape_formulas: false }
    }
}

/// The text that ends a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvTerminator {
    /// `\r\n`.
    CrLf,
    /// `\n`.
    Lf,
}

impl CsvTerminator {
    fn append(self, out: &mut Vec<u8>) {
        match self {
            Self::CrLf => out.extend_from_slice(b"\r\n"),
            Self::Lf => out.push(b'\n'),
        }
    }
}

/// Writes results as CSV.
#[derive(Debug)]
pub struct Csv {
    options: CsvOptions,
    /// For each column whether its text never needs quotes.
    is_number: Vec<bool>,
    in_result_set: bool,
}

impl Csv {
    /// A writer with these options.
    pub fn new(options: CsvOptions) -> Self {
        Self { options, is_number: Vec::new(), in_result_set: false }
    }

    /// Appends all that decides about what is written of a result: writers with the same bytes write the same.
    pub fn append_identity(&self, out: &mut Vec<u8>) {
        let CsvOptions { terminator, separator, names, escape_formulas } = self.options;
        out.extend([terminator as u8, separator, u8::from(names), u8::from(escape_formulas)]);
    }

    fn append_field(&self, text: &[u8], out: &mut Vec<u8>) {
        let separator = self.options.separator;
        if memchr::memchr3(b'"', b'\r', b'\n', text).is_none() && memchr::memchr(separator, text).is_none() {
            out.extend_from_slice(text);
            return;
        }
        out.push(b'"');
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'"', rest) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(b"\"\"");
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
        out.push(b'"');
    }

    fn append_names<'a>(&self, names: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        for (index, name) in names.enumerate() {
            if index > 0 {
                out.push(self.options.separator);
            }
            self.append_field(name, out);
        }
        self.options.terminator.append(out);
    }
}

impl Format for Csv {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        self.in_result_set = true;
        self.is_number.clear();
        self.is_number.extend(columns.iter().map(|column| column.kind.is_number()));
        if self.options.names {
            self.append_names(columns.iter().map(|column| &*column.name), out);
        }
    }

    fn begin_row(&mut self, _out: &mut Vec<u8>) {}

    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        if index > 0 {
            out.push(self.options.separator);
        }
        match value {
            Value::Bytes(text) if self.is_number.get(index) == Some(&true) => out.extend_from_slice(text),
            Value::Bytes(text @ [b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r', ..]) if self.options.escape_formulas => {
                self.append_field(&[b"'", text].concat(), out);
            }
            Value::Bytes(text) => self.append_field(text, out),
            Value::Null => {}
            Value::Int(value) => append_int(out, value),
            Value::Uint(value) => append_uint(out, value),
            Value::Float(value) if value.is_finite() => append_float(out, value),
            Value::Double(value) if value.is_finite() => append_double(out, value),
            Value::Float(_) | Value::Double(_) => {}
        }
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        self.options.terminator.append(out);
    }

    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.in_result_set) {
            self.append_summary(0, summary, out);
        }
    }

    fn failure(&mut self, errcode: u16, errstr: &[u8], out: &mut Vec<u8>) {
        self.append_summary(errcode, &Summary { info: errstr.into(), ..Summary::default() }, out);
    }
}

impl Csv {
    /// The result of a statement that returns no rows.
    #[cold]
    fn append_summary(&self, errcode: u16, summary: &Summary, out: &mut Vec<u8>) {
        let separator = self.options.separator;
        if self.options.names {
            let names: [&[u8]; 4] = [b"errcode", b"errstr", b"insert_id", b"affected_rows"];
            self.append_names(names.into_iter(), out);
        }
        append_uint(out, errcode.into());
        out.push(separator);
        self.append_field(&summary.info, out);
        out.push(separator);
        append_uint(out, summary.insert_id);
        out.push(separator);
        append_uint(out, summary.affected_rows);
        self.options.terminator.append(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnType, Field, Row, Sink, sink::Collect};

    #[track_caller]
    fn check(options: CsvOptions, rows: &[[Value<'_>; 2]], expected: &str) {
        let mut sink = Collect { format: Csv::new(options), out: Vec::new() };
        sink.columns(&[
            Column::expression(*b"id", ColumnType::Long),
            Column::expression(*b"na,me", ColumnType::VarString),
        ]);
        for row in rows {
            let row: Vec<Field<'_>> = row.iter().map(|value| Field::Plain(*value)).collect();
            let _ = sink.row(Row(&row));
        }
        sink.end_result(&Summary::default());
        assert_eq!(String::from_utf8(sink.out).unwrap(), expected);
    }

    #[test]
    fn rows() {
        let lf = CsvOptions { terminator: CsvTerminator::Lf, ..Default::default() };
        let text = |text: &'static str| Value::Bytes(text.as_bytes());
        check(lf, &[[text("2"), Value::Null], [text("3"), text("bob")]], "id,\"na,me\"\n2,\n3,bob\n");
        check(CsvOptions::default(), &[], "id,\"na,me\"\r\n");
        let bare = CsvOptions { names: false, ..lf };
        check(bare, &[[text("1"), text("a \"b\"")]], "1,\"a \"\"b\"\"\"\n");
        check(bare, &[[text("1"), text("a\nb")]], "1,\"a\nb\"\n");
        check(bare, &[[text("1"), text("")]], "1,\n");
        check(bare, &[[Value::Double(1.5), text("a;b")]], "1.5,a;b\n");
        check(CsvOptions { separator: b';', ..bare }, &[[text("1"), text("a;b,c")]], "1;\"a;b,c\"\n");
    }

    #[test]
    fn statements_without_rows() {
        let mut out = Vec::new();
        let options = CsvOptions { terminator: CsvTerminator::Lf, ..Default::default() };
        let summary =
            Summary { affected_rows: 1, info: b"Rows, all".as_slice().into(), insert_id: 9, ..Default::default() };
        Csv::new(options).end_result(&summary, &mut out);
        assert_eq!(out, b"errcode,errstr,insert_id,affected_rows\n0,\"Rows, all\",9,1\n");
    }
}
