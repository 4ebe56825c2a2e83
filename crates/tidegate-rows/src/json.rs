//! Results as JSON, exactly as rds-json-nginx-module writes them.
//!
//! ```text
//! normal             [{"id":1,"name":"marry"},{"id":2,"name":null}]
//! compact            [["id","name"],[1,"marry"],[2,null]]
//! root "rows"        {"rows":[{"id":1,"name":"marry"}]}
//! success, property  {"ok":true,"city":"Beijing","data":[…]}
//! no result set      {"errcode":0,"errstr":"Rows matched: 1 …","insert_id":1,"affected_rows":1}
//! ```
//!
//! Two deliberate differences, both where that module's output is not JSON: a `ZEROFILL` number loses its leading zeros,
//! and a value of a numeric column that is no number becomes a string.
//!
//! Speed: the keys are rendered once for each result set, a number is copied, and a string is searched eight bytes at a
//! time for the few bytes that need an escape.

mod string;

use std::ops::Deref;

use crate::{
    Column, ColumnFlags, Format, Summary, Value,
    number::{append_double, append_float, append_int, append_uint, is_json_number},
};

pub use string::{InvalidUtf8, TextOptions, append_escaped, append_string};

/// Whether a row is an object or an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonShape {
    /// `{"id":1,"name":"marry"}` for each row.
    #[default]
    Normal,
    /// `[1,"marry"]` for each row, after an array of the columns' names.
    Compact,
}

/// The key of a member, rendered once: `"name":`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonKey(Box<[u8]>);

impl JsonKey {
    /// The key `name`.
    pub fn new(name: &[u8]) -> Self {
        let mut rendered = Vec::with_capacity(name.len() + 3);
        append_string(&mut rendered, name, TextOptions::default());
        rendered.push(b':');
        Self(rendered.into())
    }
}

/// How results become JSON: what the `rds_json_*` directives say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// `rds_json_format`.
    pub shape: JsonShape,
    /// `rds_json_root`. Without it the rows are the top level, or stand under `data` if there are properties.
    pub root: Option<JsonKey>,
    /// `rds_json_success_property`.
    pub success: Option<JsonKey>,
    /// `rds_json_errcode_key`.
    pub errcode_key: JsonKey,
    /// `rds_json_errstr_key`.
    pub errstr_key: JsonKey,
    /// `rds_json_invalid_utf8`, `rds_json_for_pages`.
    pub text: TextOptions,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            shape: JsonShape::Normal,
            root: None,
            success: None,
            errcode_key: JsonKey::new(b"errcode"),
            errstr_key: JsonKey::new(b"errstr"),
            text: TextOptions::default(),
        }
    }
}

impl JsonOptions {
    /// Appends the answer of `rds_json_ret`: `{"errcode":400,"errstr":"…"}` and the properties.
    ///
    /// `errcode` must be digits; `properties` are those of [`Json::property`].
    pub fn append_ret(&self, errcode: &[u8], errstr: &[u8], properties: &[(&JsonKey, &[u8])], out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.errcode_key.0);
        out.extend_from_slice(errcode);
        if !errstr.is_empty() {
            out.push(b',');
            out.extend_from_slice(&self.errstr_key.0);
            append_string(out, errstr, self.text);
        }
        if let Some(success) = &self.success {
            out.push(b',');
            out.extend_from_slice(&success.0);
            out.extend_from_slice(if errcode.iter().all(|digit| *digit == b'0') { b"true" } else { b"false" });
        }
        for (key, value) in properties {
            out.push(b',');
            out.extend_from_slice(&key.0);
            append_string(out, value, self.text);
        }
        out.push(b'}');
    }
}

/// Bytes that are copied at once: most keys with their punctuation fit.
const HEAD_CHUNK: usize = 32;

/// What stands around a key: `,"":"`.
const HEAD_PUNCTUATION: usize = 5;

/// What is known of a column before the first row.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// Where it begins and ends in `Json::heads_text`. Behind it stands the quote of a string.
    start: usize,
    end: usize,
    is_number: bool,
    is_zerofill: bool,
}

/// Writes results as JSON. `O` points to the options: a reference, an `Rc` or an `Arc`.
#[derive(Debug)]
pub struct Json<O> {
    options: O,
    /// `"key":"value",` for each user property.
    properties: Vec<u8>,
    /// What stands before each value: `{"id":"` `,"name":"` or `["` `,"`.
    heads_text: Vec<u8>,
    heads: Vec<Head>,
    state: State,
    /// Results of a batch are the elements of an array.
    batch: Option<BatchState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No result set is open.
    Outside,
    /// A result set is open, and the next row is its first.
    FirstRow,
    /// A result set is open, and the next row needs a comma before it.
    MoreRows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchState {
    First,
    More,
}

impl<O: Deref<Target = JsonOptions>> Json<O> {
    /// A writer for the result of one statement.
    pub fn new(options: O) -> Self {
        Self {
            options,
            properties: Vec::new(),
            heads_text: Vec::new(),
            heads: Vec::new(),
            state: State::Outside,
            batch: None,
        }
    }

    /// A writer for the results of several statements: they become the elements of an array. `drizzle_query` with
    /// several statements is new in Tidegate, so no module's output stands against it.
    pub fn batch(options: O) -> Self {
        Self { batch: Some(BatchState::First), ..Self::new(options) }
    }

    /// Adds a user property (`rds_json_user_property`). To be called before the first result.
    pub fn property(&mut self, key: &JsonKey, value: &[u8]) {
        self.properties.extend_from_slice(&key.0);
        append_string(&mut self.properties, value, self.options.text);
        self.properties.push(b',');
    }

    /// Appends all that decides about what is written of a result: writers with the same bytes write the same.
    pub fn append_identity(&self, out: &mut Vec<u8>) {
        let JsonOptions { shape, root, success, errcode_key, errstr_key, text } = &*self.options;
        out.extend([*shape as u8, text.invalid as u8, u8::from(text.for_pages), u8::from(self.batch.is_some())]);
        for key in [root.as_ref(), success.as_ref(), Some(errcode_key), Some(errstr_key)] {
            // A key is never empty.
            let key = key.map_or(&[][..], |key| &key.0);
            out.extend_from_slice(&(key.len() as u64).to_le_bytes());
            out.extend_from_slice(key);
        }
        out.extend_from_slice(&(self.properties.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.properties);
    }

    /// What [`property`](Self::property) has added, as it will be written.
    pub fn properties(&self) -> &[u8] {
        &self.properties
    }

    fn begin_result(&mut self, out: &mut Vec<u8>) {
        match self.batch {
            None => {}
            Some(BatchState::First) => {
                out.push(b'[');
                self.batch = Some(BatchState::More);
            }
            Some(BatchState::More) => out.push(b','),
        }
    }

    fn has_object(&self) -> bool {
        self.options.root.is_some() || self.options.success.is_some() || !self.properties.is_empty()
    }

    /// Begins the object with what both kinds of results share.
    fn append_properties(&self, is_success: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(success) = &self.options.success {
            out.extend_from_slice(&success.0);
            out.extend_from_slice(if is_success { b"true," } else { b"false," });
        }
        out.extend_from_slice(&self.properties);
    }

    /// Renders what stands before each value of a row.
    fn render_heads(&mut self, columns: &[Column]) {
        self.heads.clear();
        self.heads_text.clear();
        // Once: growing step by step costs more than all the rest of a short result.
        self.heads.reserve(columns.len());
        let names: usize = columns.iter().map(|column| column.name.len() + HEAD_PUNCTUATION).sum();
        self.heads_text.reserve(names + HEAD_CHUNK);
        for (index, column) in columns.iter().enumerate() {
            let text = &mut self.heads_text;
            let start = text.len();
            match (self.options.shape, index) {
                (JsonShape::Normal, 0) => text.push(b'{'),
                (JsonShape::Compact, 0) => text.push(b'['),
                _ => text.push(b','),
            }
            if self.options.shape == JsonShape::Normal {
                append_string(text, &column.name, self.options.text);
                text.push(b':');
            }
            let end = text.len();
            text.push(b'"');
            self.heads.push(Head {
                start,
                end,
                is_number: column.kind.is_number(),
                is_zerofill: column.flags.0 & ColumnFlags::ZEROFILL != 0,
            });
        }
        self.heads_text.extend_from_slice(&[0; HEAD_CHUNK]);
    }

    /// Appends what stands before a value. Copying a fixed number of bytes and cutting off what is too much takes less
    /// time than copying the right number.
    #[inline]
    fn append_head(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        match self.heads_text[start..].first_chunk::<HEAD_CHUNK>() {
            Some(chunk) if end - start <= HEAD_CHUNK => {
                let len = out.len() + (end - start);
                out.extend_from_slice(chunk);
                out.truncate(len);
            }
            _ => out.extend_from_slice(&self.heads_text[start..end]),
        }
    }

    /// The result of a statement that returns no rows.
    #[cold]
    fn append_summary(&mut self, errcode: u16, summary: &Summary, out: &mut Vec<u8>) {
        self.begin_result(out);
        self.append_properties(errcode == 0, out);
        out.extend_from_slice(&self.options.errcode_key.0);
        append_uint(out, errcode.into());
        if !summary.info.is_empty() {
            out.push(b',');
            out.extend_from_slice(&self.options.errstr_key.0);
            append_string(out, &summary.info, self.options.text);
        }
        if summary.insert_id != 0 {
            out.extend_from_slice(b",\"insert_id\":");
            append_uint(out, summary.insert_id);
        }
        if summary.affected_rows != 0 {
            out.extend_from_slice(b",\"affected_rows\":");
            append_uint(out, summary.affected_rows);
        }
        out.push(b'}');
    }
}

impl<O: Deref<Target = JsonOptions>> Format for Json<O> {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        self.begin_result(out);
        if self.has_object() {
            self.append_properties(true, out);
            match &self.options.root {
                Some(root) => out.extend_from_slice(&root.0),
                None => out.extend_from_slice(b"\"data\":"),
            }
        }
        out.push(b'[');
        self.state = State::FirstRow;
        if self.options.shape == JsonShape::Compact {
            for (index, column) in columns.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                append_string(out, &column.name, self.options.text);
            }
            out.push(b']');
            self.state = State::MoreRows;
        }
        self.render_heads(columns);
    }

    #[inline]
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        if self.state == State::MoreRows {
            out.push(b',');
        }
        self.state = State::MoreRows;
    }

    #[inline]
    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        let Some(&head) = self.heads.get(index) else { return };
        if let Value::Bytes(text) = value
            && !head.is_number
        {
            self.append_head(head.start, head.end + 1, out);
            append_escaped(out, text, self.options.text);
            out.push(b'"');
            return;
        }
        self.append_head(head.start, head.end, out);
        match value {
            Value::Bytes(text) => append_number(out, text, head.is_zerofill, self.options.text),
            Value::Null => out.extend_from_slice(b"null"),
            Value::Int(value) => append_int(out, value),
            Value::Uint(value) => append_uint(out, value),
            Value::Float(value) if value.is_finite() => append_float(out, value),
            Value::Double(value) if value.is_finite() => append_double(out, value),
            Value::Float(_) | Value::Double(_) => out.extend_from_slice(b"null"),
        }
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        out.push(if self.options.shape == JsonShape::Normal { b'}' } else { b']' });
    }

    fn failure(&mut self, errcode: u16, errstr: &[u8], out: &mut Vec<u8>) {
        self.append_summary(errcode, &Summary { info: errstr.into(), ..Summary::default() }, out);
    }

    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        if self.state == State::Outside {
            self.append_summary(0, summary, out);
        } else {
            self.state = State::Outside;
            out.push(b']');
            if self.has_object() {
                out.push(b'}');
            }
        }
        if self.batch.is_some() && !summary.more_results {
            out.push(b']');
            self.batch = Some(BatchState::First);
        }
    }
}

/// Appends the text of a numeric column.
#[inline]
fn append_number(out: &mut Vec<u8>, text: &[u8], is_zerofill: bool, how: TextOptions) {
    if is_json_number(text) {
        out.extend_from_slice(text);
    } else {
        append_odd_number(out, text, is_zerofill, how);
    }
}

#[cold]
fn append_odd_number(out: &mut Vec<u8>, text: &[u8], is_zerofill: bool, how: TextOptions) {
    // The booleans of an RDS stream.
    if matches!(text, b"true" | b"false") {
        out.extend_from_slice(text);
        return;
    }
    if is_zerofill {
        let zeros = text.iter().take_while(|byte| **byte == b'0').count();
        // A zero before the point, or alone, stays.
        let keep = usize::from(!text.get(zeros).is_some_and(u8::is_ascii_digit)).min(zeros);
        let stripped = &text[zeros - keep..];
        if is_json_number(stripped) {
            out.extend_from_slice(stripped);
            return;
        }
    }
    append_string(out, text, how);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnType, sink::Collect};
    use crate::{Field, Flow, Row, Sink};

    fn columns() -> Vec<Column> {
        vec![Column::expression(*b"id", ColumnType::Long), Column::expression(*b"name", ColumnType::VarString)]
    }

    fn rows<O: Deref<Target = JsonOptions>>(format: Json<O>, columns: &[Column], rows: &[&[Value<'_>]]) -> String {
        let mut sink = Collect { format, out: Vec::new() };
        sink.columns(columns);
        for row in rows {
            let row: Vec<Field<'_>> = row.iter().map(|value| Field::Plain(*value)).collect();
            assert_eq!(sink.row(Row(&row)), Flow::More);
        }
        sink.end_result(&Summary::default());
        String::from_utf8(sink.out).unwrap()
    }

    const CATS: &[&[Value<'static>]] =
        &[&[Value::Bytes(b"2"), Value::Null], &[Value::Bytes(b"3"), Value::Bytes(b"bob")]];

    #[track_caller]
    fn check_rows(options: JsonOptions, expected: &str) {
        assert_eq!(rows(Json::new(&options), &columns(), CATS), expected);
    }

    #[test]
    fn shapes_and_roots() {
        let key = |name: &str| Some(JsonKey::new(name.as_bytes()));
        let compact = JsonOptions { shape: JsonShape::Compact, ..Default::default() };
        check_rows(JsonOptions::default(), r#"[{"id":2,"name":null},{"id":3,"name":"bob"}]"#);
        check_rows(compact.clone(), r#"[["id","name"],[2,null],[3,"bob"]]"#);
        check_rows(
            JsonOptions { root: key("rows"), ..Default::default() },
            r#"{"rows":[{"id":2,"name":null},{"id":3,"name":"bob"}]}"#,
        );
        check_rows(
            JsonOptions { success: key("suc"), ..compact.clone() },
            r#"{"suc":true,"data":[["id","name"],[2,null],[3,"bob"]]}"#,
        );
        check_rows(JsonOptions { root: key("'\"\\:"), ..compact }, r#"{"'\"\\:":[["id","name"],[2,null],[3,"bob"]]}"#);
    }

    #[test]
    fn empty_results() {
        let options = JsonOptions::default();
        assert_eq!(rows(Json::new(&options), &columns(), &[]), "[]");
        let options = JsonOptions { shape: JsonShape::Compact, ..Default::default() };
        assert_eq!(rows(Json::new(&options), &columns(), &[]), r#"[["id","name"]]"#);
    }

    #[test]
    fn user_properties() {
        let options = JsonOptions {
            success: Some(JsonKey::new(b"suc")),
            root: Some(JsonKey::new(b"rows")),
            ..Default::default()
        };
        let mut json = Json::new(&options);
        json.property(&JsonKey::new(b"foo"), b"bar\"");
        json.property(&JsonKey::new(b"\\bar"), b"\"baz\"\\");
        assert_eq!(rows(json, &columns(), &[]), r#"{"suc":true,"foo":"bar\"","\\bar":"\"baz\"\\","rows":[]}"#);
    }

    #[track_caller]
    fn check_summary(options: &JsonOptions, summary: Summary, expected: &str) {
        let mut out = Vec::new();
        Json::new(options).end_result(&summary, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn statements_without_rows() {
        let options = JsonOptions::default();
        check_summary(&options, Summary::default(), r#"{"errcode":0}"#);
        let inserted = Summary { affected_rows: 1, insert_id: 2, ..Default::default() };
        check_summary(&options, inserted.clone(), r#"{"errcode":0,"insert_id":2,"affected_rows":1}"#);
        let info = Summary { info: b"Rows matched: 1".as_slice().into(), ..Default::default() };
        check_summary(&options, info, r#"{"errcode":0,"errstr":"Rows matched: 1"}"#);
        let options = JsonOptions {
            success: Some(JsonKey::new(b"ok")),
            root: Some(JsonKey::new(b"rows")),
            errcode_key: JsonKey::new(b"code"),
            ..Default::default()
        };
        check_summary(&options, inserted, r#"{"ok":true,"code":0,"insert_id":2,"affected_rows":1}"#);
    }

    #[test]
    fn ret() {
        let mut out = Vec::new();
        let options = JsonOptions { success: Some(JsonKey::new(b"ret")), ..Default::default() };
        options.append_ret(b"400", b"Non \"zero\"", &[(&JsonKey::new(b"city"), b"beijing")], &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"errcode":400,"errstr":"Non \"zero\"","ret":false,"city":"beijing"}"#
        );
    }

    #[test]
    fn a_batch_is_an_array_of_results() {
        let options = JsonOptions::default();
        let mut sink = Collect { format: Json::batch(&options), out: Vec::new() };
        sink.end_result(&Summary { affected_rows: 1, more_results: true, ..Default::default() });
        sink.columns(&columns());
        sink.end_result(&Summary::default());
        assert_eq!(String::from_utf8(sink.out).unwrap(), r#"[{"errcode":0,"affected_rows":1},[]]"#);
    }

    #[track_caller]
    fn check_value(kind: ColumnType, flags: u16, value: Value<'_>, expected: &str) {
        let options = JsonOptions { shape: JsonShape::Compact, ..Default::default() };
        let column = Column { flags: ColumnFlags(flags), ..Column::expression(*b"v", kind) };
        let text = rows(Json::new(&options), &[column], &[&[value]]);
        assert_eq!(text.strip_prefix(r#"[["v"],["#).unwrap().strip_suffix("]]").unwrap(), expected);
    }

    #[test]
    fn values() {
        use ColumnType::*;
        check_value(Long, 0, Value::Bytes(b"-7"), "-7");
        check_value(LongLong, 0, Value::Bytes(b"18446744073709551615"), "18446744073709551615");
        check_value(NewDecimal, 0, Value::Bytes(b"0.10"), "0.10");
        check_value(Double, 0, Value::Bytes(b"1e20"), "1e20");
        check_value(Long, 0, Value::Bytes(b""), "\"\"");
        check_value(Long, 0, Value::Bytes(b"abc"), "\"abc\"");
        check_value(Long, ColumnFlags::ZEROFILL, Value::Bytes(b"00042"), "42");
        check_value(Year, ColumnFlags::ZEROFILL, Value::Bytes(b"0000"), "0");
        check_value(NewDecimal, ColumnFlags::ZEROFILL, Value::Bytes(b"000.50"), "0.50");
        check_value(Long, 0, Value::Null, "null");
        check_value(Long, 0, Value::Int(i64::MIN), "-9223372036854775808");
        check_value(LongLong, 0, Value::Uint(u64::MAX), "18446744073709551615");
        check_value(Double, 0, Value::Double(1.0), "1");
        check_value(Double, 0, Value::Double(f64::INFINITY), "null");
        check_value(Float, 0, Value::Float(0.1), "0.1");
        check_value(Bit, 0, Value::Bytes(b"\x01"), "\"\\u0001\"");
        check_value(Date, 0, Value::Bytes(b"2007-05-24"), "\"2007-05-24\"");
        check_value(String, 0, Value::Bytes(b"12"), "\"12\"");
    }
}
