//! Results for a client whose character set is not UTF-8.

use std::borrow::Cow;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Field, Flow, Input, Row, Sink, SinkClosed, Summary, Value};
use tidegate_sql::Charset;

/// Bytes of the longest character of UTF-8: what descriptions of columns count with.
const UTF8_BYTES_MAX: u32 = 4;

/// Converts the texts of results on their way to a sink; bytes and numbers pass as they are.
pub(super) struct Transcoded<'a, S> {
    sink: &'a mut S,
    charset: Charset,
    /// For each column of the result whether it has texts.
    texts: Vec<bool>,
}

impl<'a, S: Sink> Transcoded<'a, S> {
    pub(super) fn new(sink: &'a mut S, charset: Charset) -> Self {
        Self { sink, charset, texts: Vec::new() }
    }
}

/// The description of a column in a character set.
pub(super) fn described(column: &Column, charset: Charset) -> Column {
    let mut column = column.clone();
    for name in [&mut column.schema, &mut column.table, &mut column.org_table, &mut column.name, &mut column.org_name] {
        *name = charset.encode(name).into();
    }
    if column.collation != Column::COLLATION_BINARY
        && let Some(collation) = charset.collation()
    {
        column.collation = collation;
        column.length /= UTF8_BYTES_MAX;
    }
    column
}

impl<S: Sink> Sink for Transcoded<'_, S> {
    fn columns(&mut self, columns: &[Column]) {
        self.texts = columns.iter().map(|column| column.collation != Column::COLLATION_BINARY).collect();
        let columns: Vec<Column> = columns.iter().map(|column| described(column, self.charset)).collect();
        self.sink.columns(&columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        let mut made = Vec::new();
        let read = row.0.iter().zip(&self.texts);
        let encoded: Vec<Option<Cow<'_, [u8]>>> = read
            .map(|(field, is_text)| match field {
                Field::Plain(Value::Bytes(text)) if *is_text => Some(self.charset.encode(text)),
                Field::Packed(..) if *is_text => match field.read(&mut made) {
                    Value::Bytes(text) => Some(Cow::Owned(self.charset.encode(text).into_owned())),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let fields = row.0.iter().zip(&encoded);
        let fields: Vec<Field<'_>> = fields
            .map(|(field, encoded)| encoded.as_deref().map_or(*field, |text| Value::Bytes(text).into()))
            .collect();
        self.sink.row(Row(&fields))
    }
    fn end_result(&mut self, summary: &Summary) {
        self.sink.end_result(summary);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.sink.poll_ready(cx)
    }
    fn input(&mut self) -> Option<&mut dyn Input> {
        self.sink.input()
    }
}
