//! What a statement answered, and in what two answers differ.

use std::{fmt, task};

use tidegate_rows::{Column, ColumnType, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value};

/// A column as far as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Described {
    name: String,
    kind: ColumnType,
    unsigned: bool,
    decimals: u8,
    collation: u16,
    length: u32,
    flags: u16,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Rows { columns: Vec<Described>, rows: Vec<Vec<Option<Vec<u8>>>>, warnings: u16 },
    Done { affected: u64, insert_id: u64, warnings: u16, info: String },
    Failed { code: u16, message: String },
}

/// In what two answers differ; the first that holds names the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// We refuse with 1235 what the server does.
    Refused,
    /// One side fails, or both with different codes.
    Error,
    Values,
    Names,
    Types,
    Affected,
    InsertId,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Error => "error",
            Self::Values => "values",
            Self::Names => "names",
            Self::Types => "types",
            Self::Affected => "affected",
            Self::InsertId => "insert-id",
        })
    }
}

impl Outcome {
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// The same with one type for texts of all sizes: which of them MariaDB tells depends on whether its plan has a temporary table.
    pub(crate) fn with_plain_blobs(mut self) -> Self {
        if let Self::Rows { columns, .. } = &mut self {
            for column in columns {
                if matches!(column.kind, ColumnType::TinyBlob | ColumnType::MediumBlob | ColumnType::LongBlob) {
                    column.kind = ColumnType::Blob;
                }
            }
        }
        self
    }

    /// The same with the types of another answer's columns, where those are not compared.
    pub(crate) fn typed_as(mut self, other: &Self) -> Self {
        if let (Self::Rows { columns, .. }, Self::Rows { columns: wanted, .. }) = (&mut self, other) {
            for (column, wanted) in columns.iter_mut().zip(wanted) {
                *column = Described { name: std::mem::take(&mut column.name), ..wanted.clone() };
            }
        }
        self
    }

    /// The difference, if there is one that counts.
    pub(crate) fn difference(&self, theirs: &Self, ordered: bool) -> Option<Difference> {
        match (self, theirs) {
            (Self::Failed { code: a, .. }, Self::Failed { code: b, .. }) if a == b => None,
            (Self::Failed { code: 1235, .. }, _) => Some(Difference::Refused),
            (Self::Failed { .. }, _) | (_, Self::Failed { .. }) => Some(Difference::Error),
            (Self::Rows { columns: a, rows: x, .. }, Self::Rows { columns: b, rows: y, .. }) => {
                let sorted = |rows: &Vec<Vec<Option<Vec<u8>>>>| {
                    let mut rows = rows.clone();
                    rows.sort();
                    rows
                };
                if if ordered { x != y } else { sorted(x) != sorted(y) } {
                    Some(Difference::Values)
                } else if a.iter().map(|column| &column.name).ne(b.iter().map(|column| &column.name)) {
                    Some(Difference::Names)
                } else {
                    let kind = |column: &Described| (column.kind, column.unsigned);
                    a.iter().map(kind).ne(b.iter().map(kind)).then_some(Difference::Types)
                }
            }
            (Self::Done { affected: a, insert_id: x, .. }, Self::Done { affected: b, insert_id: y, .. }) => {
                if a != b {
                    Some(Difference::Affected)
                } else {
                    (x != y).then_some(Difference::InsertId)
                }
            }
            _ => Some(Difference::Values),
        }
    }

    /// What differs beyond that and is only counted: warnings, texts of errors, details of columns.
    pub(crate) fn details(&self, theirs: &Self) -> Vec<&'static str> {
        let mut found = Vec::new();
        match (self, theirs) {
            (Self::Failed { message: a, .. }, Self::Failed { message: b, .. }) if a != b => found.push("message"),
            (Self::Rows { columns: a, warnings: x, .. }, Self::Rows { columns: b, warnings: y, .. }) => {
                if x != y {
                    found.push("warnings");
                }
                if a != b {
                    found.push("column details");
                }
            }
            (Self::Done { warnings: x, info: a, .. }, Self::Done { warnings: y, info: b, .. }) => {
                if x != y {
                    found.push("warnings");
                }
                if a != b {
                    found.push("info");
                }
            }
            _ => {}
        }
        found
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { code, message } => write!(f, "error {code} {message}"),
            Self::Done { affected, insert_id, warnings, info } => {
                write!(f, "affected {affected}, insert id {insert_id}, {warnings} warnings {info}")
            }
            Self::Rows { columns, rows, warnings } => {
                for column in columns {
                    let sign = if column.unsigned { " unsigned" } else { "" };
                    write!(f, "[{} {:?}{sign}] ", column.name, column.kind)?;
                }
                write!(f, "{} rows, {warnings} warnings", rows.len())?;
                for row in rows.iter().take(12) {
                    write!(f, "\n      ")?;
                    for value in row {
                        match value {
                            None => write!(f, "NULL | ")?,
                            Some(value) => write!(f, "{} | ", value.escape_ascii())?,
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// Records an answer.
#[derive(Default)]
pub(crate) struct Recorder {
    columns: Option<Vec<Described>>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
    summary: Summary,
}

impl Recorder {
    pub(crate) fn finish(self, result: Result<(), QueryError>) -> Outcome {
        match (result, self.columns) {
            (Err(QueryError::Server(error)), _) => Outcome::Failed { code: error.code, message: error.message },
            (Err(error), _) => Outcome::Failed { code: 0, message: error.to_string() },
            (Ok(()), Some(columns)) => Outcome::Rows { columns, rows: self.rows, warnings: self.summary.warnings },
            (Ok(()), None) => Outcome::Done {
                affected: self.summary.affected_rows,
                insert_id: self.summary.insert_id,
                warnings: self.summary.warnings,
                info: String::from_utf8_lossy(&self.summary.info).into_owned(),
            },
        }
    }
}

impl Sink for Recorder {
    fn columns(&mut self, columns: &[Column]) {
        let described = columns
            .iter()
            .map(|column| Described {
                name: String::from_utf8_lossy(&column.name).into_owned(),
                kind: column.kind,
                unsigned: column.flags.is_unsigned(),
                decimals: column.decimals,
                collation: column.collation,
                length: column.length,
                flags: column.flags.0,
            })
            .collect();
        self.columns = Some(described);
        self.rows.clear();
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.rows.push(Vec::new());
        row.each(|_, value| {
            let text = match value {
                Value::Null => None,
                Value::Int(value) => Some(value.to_string().into_bytes()),
                Value::Uint(value) => Some(value.to_string().into_bytes()),
                Value::Float(value) => Some(value.to_string().into_bytes()),
                Value::Double(value) => {
                    let mut text = Vec::new();
                    tidegate_rows::number::append_double(&mut text, value);
                    Some(text)
                }
                Value::Bytes(bytes) => Some(bytes.to_vec()),
            };
            self.rows.last_mut().expect("a row").push(text);
        });
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.summary = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), SinkClosed>> {
        task::Poll::Ready(Ok(()))
    }
}
