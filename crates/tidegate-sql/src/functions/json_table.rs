//! The rows of JSON_TABLE.

use std::borrow::Cow;

use crate::{
    coerce::Target,
    env, errors,
    store::{
        computed_rows::{Compute, Rows},
        conn::{Cell, SqliteError},
    },
    translate::{
        Res,
        json_table::{ColumnValue, Level, Otherwise, Spec, TableColumn},
    },
    value::{
        Base, Datum, Rep, Val,
        json::tree::{Json, Node, parse, unescape},
    },
};

/// Rows that one document may give.
const ROWS_MAX: usize = 1_000_000;

static COMPUTE: Compute = rows;

/// Makes the table known to a connection.
///
/// # Errors
/// SQLite's: memory.
pub(super) fn register(db: *mut libsqlite3_sys::sqlite3) -> Result<(), SqliteError> {
    crate::store::computed_rows::register(db, &COMPUTE)
}

/// The rows of a document: none of NULL.
fn rows(spec: &[u8], document: Cell<'_>) -> Res<Rows> {
    let spec = Spec::of(spec)?;
    let (Cell::Text(text) | Cell::Blob(text)) = document else { return Ok(Rows::new()) };
    let root = parse(text).map_err(|broken| broken.error(1, "JSON_TABLE"))?;
    env::current(|env| {
        let mut made = Made { spec: &spec, text, env, rows: Rows::new() };
        made.level(&spec.root, &root, &vec![Datum::Null; spec.columns.len()])?;
        Ok(made.rows)
    })
    .unwrap_or_else(|| Err(errors::internal("JSON_TABLE outside of a statement")))
}

/// Rows while they are made.
struct Made<'a> {
    spec: &'a Spec,
    text: &'a [u8],
    env: &'a env::Env,
    rows: Rows,
}

impl Made<'_> {
    /// Adds a row for each value of a path, or several where paths within give several; those of one path have NULL for the others.
    /// Answers whether there were any.
    fn level(&mut self, level: &Level, root: &Node, around: &[Datum]) -> Res<bool> {
        let found = level.path.find(root);
        for (index, node) in found.iter().enumerate() {
            let mut row = around.to_vec();
            for at in &level.columns {
                row[*at] = self.value(&self.spec.columns[*at], node, index as i64 + 1)?;
            }
            let mut any = false;
            for nested in &level.nested {
                any |= self.level(nested, node, &row)?;
            }
            if !any {
                if self.rows.len() >= ROWS_MAX {
                    return Err(errors::unsupported(format!(
                        "more than {ROWS_MAX} rows of one document in JSON_TABLE"
                    )));
                }
                self.rows.push(row);
            }
        }
        Ok(!found.is_empty())
    }

    fn value(&self, known: &TableColumn, node: &Node, number: i64) -> Res<Datum> {
        let (path, on_empty, on_error) = match &known.value {
            ColumnValue::Number => return Ok(Datum::Int(number)),
            ColumnValue::Exists(path) => {
                let exists = i64::from(!path.find(node).is_empty());
                return self.stored(known, Val::Int(exists));
            }
            ColumnValue::Found { path, on_empty, on_error } => (path, on_empty, on_error),
        };
        let (column, alias) = (&known.column.name, &self.spec.alias);
        let found = path.find(node);
        let one = match found.as_slice() {
            [] => return self.otherwise(known, on_empty, || errors::json_table_field(column, alias)),
            [one] => *one,
            _ => return self.otherwise(known, on_error, || errors::json_table_matches(column, alias)),
        };
        let ty = &known.column.ty;
        let is_json = ty.base == Base::Json;
        let is_number = matches!(ty.rep(), Rep::Int | Rep::Uint | Rep::Real | Rep::Dec);
        let unescaped;
        let value = match &one.value {
            _ if is_json => Val::Text(Cow::Borrowed(&self.text[one.start..one.end])),
            Json::Null => return Ok(Datum::Null),
            Json::Bool(flag) if is_number => Val::Int(i64::from(*flag)),
            Json::Bool(flag) => Val::Text(Cow::Borrowed(if *flag { b"true" } else { b"false" })),
            Json::Number(text) => Val::Text(text.as_slice().into()),
            Json::String(text) => {
                unescaped = unescape(text);
                Val::Text(unescaped.as_slice().into())
            }
            Json::Array(_) | Json::Object(_) => {
                return self.otherwise(known, on_error, || errors::json_table_scalar(column, alias));
            }
        };
        match self.stored(known, value) {
            Ok(value) => Ok(value),
            Err(_) => self.otherwise(known, on_error, || errors::json_table_field(column, alias)),
        }
    }

    /// What a column is instead.
    fn otherwise(
        &self,
        known: &TableColumn,
        otherwise: &Otherwise,
        error: impl FnOnce() -> tidegate_rows::ServerError,
    ) -> Res<Datum> {
        match otherwise {
            Otherwise::Null => Ok(Datum::Null),
            Otherwise::Default(text) => self.stored(known, Val::Text(text.as_bytes().into())).or(Ok(Datum::Null)),
            Otherwise::Error => Err(error()),
        }
    }

    /// A value as its column has it; what does not fit is cut, as CAST does.
    ///
    /// # Errors
    /// Those of the column's type.
    fn stored(&self, known: &TableColumn, value: Val<'_>) -> Res<Datum> {
        let target = Target {
            schema: "",
            table: &self.spec.alias,
            view: None,
            column: &known.column,
            row: 1,
            strict: false,
            env: self.env,
        };
        target.coerce(value)
    }
}
