//! Results that are made by hand.

use std::future::poll_fn;

use tidegate_rows::{Column, ColumnFlags, ColumnType, Field, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value};

use super::Core;
use crate::task;

/// Sends rows of text.
///
/// # Errors
/// When the sink has gone.
pub(crate) fn rows(
    core: &mut Core,
    names: &[&str],
    rows: &[Vec<Option<String>>],
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let columns: Vec<Column> = names
        .iter()
        .map(|name| {
            let kind = match (*name, names.first()) {
                ("Type" | "Default", Some(&"Field")) => ColumnType::Blob,
                ("Code", Some(&"Level")) => ColumnType::Long,
                ("Msg_text", _) => ColumnType::MediumBlob,
                ("Created" | "Modified", _) => ColumnType::Datetime,
                ("Statement", _) | ("Comment", Some(&"Db")) => ColumnType::Blob,
                ("Checksum", _) => ColumnType::LongLong,
                ("In_use" | "Name_locked" | "@@session.warning_count" | "@@session.error_count", _) => {
                    ColumnType::LongLong
                }
                _ => ColumnType::VarString,
            };
            let mut column = Column::expression(name.as_bytes(), kind);
            if kind == ColumnType::Long || name.starts_with("@@") {
                column.flags.0 |= ColumnFlags::UNSIGNED;
            }
            column.length = 1024;
            column
        })
        .collect();
    sink.columns(&columns);
    for row in rows {
        let values = row.iter().map(|value| Value::from(value.as_ref().map(String::as_bytes)));
        let fields: Vec<Field<'_>> = values.map(Field::from).collect();
        if sink.row(Row(&fields)) == Flow::Full {
            task::block_on(poll_fn(|cx| sink.poll_ready(cx))).map_err(|_| SinkClosed)??;
        }
    }
    core.env.found_rows.set(rows.len() as i64);
    core.end_rows(more, sink);
    Ok(())
}

impl Core {
    /// Ends a result set that was sent by hand.
    pub(crate) fn end_rows(&mut self, more: bool, sink: &mut dyn Sink) {
        self.env.row_count.set(-1);
        sink.end_result(&Summary {
            warnings: self.env.warning_count(),
            more_results: more,
            status: self.status_bits(),
            changes: self.env.take_changes(),
            ..Summary::default()
        });
    }
}
