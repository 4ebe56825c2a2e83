//! Values of expressions that stand in SET, SELECT … INTO and PREPARE.

use tidegate_rows::{Column, Flow, Row, Sink, SinkClosed, Summary, Value};

use super::{Core, Res};
use crate::{
    env::UserValue,
    errors,
    parse::{PrepareSource, Span},
    translate::params::{Params, Text},
    value::{Base, Datum, SqlType, collation::Collation},
    variables::text,
};

/// The text that PREPARE compiles.
///
/// # Errors
/// None now: an unset variable is the text NULL, which is no statement.
pub(super) fn prepare_source(core: &Core, source: &PrepareSource) -> Res<Vec<u8>> {
    Ok(match source {
        PrepareSource::Text(text) => text.clone().into_bytes(),
        PrepareSource::Variable(name) => text(&core.env.user_variable(name)).into_bytes(),
    })
}

/// The value of an expression that stands in a text, evaluated as a query.
pub(super) fn evaluate(core: &mut Core, text: Text<'_>, (from, to): Span) -> Res<UserValue> {
    let sql = [b"SELECT ", &text.sql[from..to]].concat();
    let params = text.params_within((from, to), core.env.lex_mode());
    let mut first = First::default();
    core.run_part(Text { sql: &sql, params }, false, &mut first).map_err(|error| match error {
        tidegate_rows::QueryError::Server(error) => error,
        other => errors::internal(other),
    })?;
    Ok(UserValue { value: first.value, ty: first.ty.unwrap_or_else(|| SqlType::new(Base::Null)) })
}

impl Core {
    /// The value of an expression that the engine has written, evaluated as a query.
    ///
    /// # Errors
    /// The query's.
    pub(crate) fn value_of(&mut self, expression: &str) -> Res<Datum> {
        let text = Text { sql: expression.as_bytes(), params: Params::NONE };
        Ok(evaluate(self, text, (0, expression.len()))?.value)
    }
}

/// Runs a query whose only row goes into user variables; answers the number of rows.
///
/// # Errors
/// 1222 for another number of columns, 1172 for several rows, those of the query.
pub(super) fn select_into(core: &mut Core, query: Text<'_>, names: &[String]) -> Res<u64> {
    let mut row = OneRow::default();
    core.run_part(query, false, &mut row).map_err(|error| match error {
        tidegate_rows::QueryError::Server(error) => error,
        other => errors::internal(other),
    })?;
    if row.width != names.len() {
        return Err(errors::union_columns());
    }
    if row.rows > 1 {
        return Err(errors::too_many_rows());
    }
    if row.rows == 0 {
        core.env.warn(errors::no_data());
        return Ok(0);
    }
    for (name, value) in names.iter().zip(row.values) {
        core.env.set_user_variable(
            name,
            UserValue { value: value.value, ty: value.ty.unwrap_or_else(|| SqlType::new(Base::Null)) },
        );
    }
    Ok(1)
}

/// Keeps the first row of a result, each column as [`First`] does.
#[derive(Default)]
struct OneRow {
    values: Vec<First>,
    width: usize,
    rows: usize,
}

impl Sink for OneRow {
    fn columns(&mut self, columns: &[Column]) {
        self.width = columns.len();
        for column in columns {
            let mut value = First::default();
            value.columns(std::slice::from_ref(column));
            self.values.push(value);
        }
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.rows += 1;
        if self.rows == 1 {
            row.each(|index, value| {
                if let Some(kept) = self.values.get_mut(index) {
                    kept.keep(value);
                }
            });
        }
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Keeps the first value of a result.
#[derive(Default)]
pub(crate) struct First {
    value: Datum,
    ty: Option<SqlType>,
}

impl First {
    /// For the values of a column.
    pub(crate) fn of(column: &Column) -> Self {
        let mut first = Self::default();
        first.columns(std::slice::from_ref(column));
        first
    }

    /// What the values are.
    pub(crate) fn shown_type(&self) -> SqlType {
        self.ty.clone().unwrap_or_else(|| SqlType::new(Base::Null))
    }

    /// Takes the value that was kept last.
    pub(crate) fn take(&mut self) -> Datum {
        std::mem::take(&mut self.value)
    }

    pub(crate) fn keep(&mut self, value: Value<'_>) {
        let rep = self.ty.as_ref().map(SqlType::rep);
        self.value = match value {
            Value::Null => Datum::Null,
            Value::Int(value) => Datum::Int(value),
            Value::Uint(value) => Datum::from_u64(value),
            Value::Float(value) => Datum::Real(f64::from(value)),
            Value::Double(value) => Datum::Real(value),
            Value::Bytes(bytes) => match rep {
                Some(crate::value::Rep::Real) => Datum::Real(crate::value::number::parse_f64(bytes).value),
                Some(crate::value::Rep::Dec) => Datum::Blob(crate::value::number::parse_decimal(bytes).value.to_blob()),
                Some(crate::value::Rep::Blob) => Datum::Blob(bytes.into()),
                _ => Datum::text(bytes),
            },
        };
    }
}

/// The type that a variable has for all that may be in a column, as its description tells.
pub(super) fn type_of(column: &Column) -> SqlType {
    use tidegate_rows::ColumnType as T;
    let is_binary = column.collation == Collation::BINARY.0;
    let base = match column.kind {
        T::Tiny => Base::Tiny,
        T::Short => Base::Small,
        T::Int24 => Base::Medium,
        T::Long => Base::Int,
        T::LongLong => Base::Big,
        T::Year => Base::Year,
        T::Float => Base::Float,
        T::Double => Base::Double,
        T::NewDecimal => Base::Decimal,
        T::Date => Base::Date,
        T::Time => Base::Time,
        T::Datetime => Base::Datetime,
        T::Timestamp => Base::Timestamp,
        T::Null => Base::Null,
        T::VarString | T::String if is_binary => Base::Varbinary,
        T::VarString | T::String => Base::Varchar,
        _ if is_binary => Base::LongBlob,
        _ => Base::LongText,
    };
    let mut ty = match base {
        Base::Varchar => {
            let collation = Collation(column.collation);
            return SqlType::varchar(column.length / collation.char_bytes_max(), collation);
        }
        Base::LongText => SqlType { collation: Collation(column.collation), ..SqlType::new(base) },
        Base::LongBlob => SqlType::new(base),
        _ => SqlType { length: column.length, decimals: column.decimals, ..SqlType::new(base) },
    };
    ty.unsigned = column.flags.is_unsigned() && column.kind.is_number();
    if base == Base::Decimal {
        ty.length = ty.length.saturating_sub(u32::from(ty.decimals > 0) + u32::from(!ty.unsigned));
    }
    ty
}

impl Sink for First {
    fn columns(&mut self, columns: &[Column]) {
        use tidegate_rows::ColumnType as T;
        let Some(column) = columns.first() else { return };
        let base = match column.kind {
            T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong | T::Year => Base::Big,
            T::Float | T::Double => Base::Double,
            T::NewDecimal => Base::Decimal,
            _ => Base::Varchar,
        };
        let mut ty = SqlType::new(base);
        ty.unsigned = base == Base::Big && column.flags.is_unsigned();
        if base == Base::Decimal {
            (ty.length, ty.decimals) = (38, column.decimals);
        }
        if base == Base::Varchar {
            ty = SqlType::varchar(
                column.length,
                if column.collation == 63 && column.kind == T::VarString {
                    Collation::BINARY
                } else {
                    Collation::DEFAULT
                },
            );
        }
        self.ty = Some(ty);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        if let Some(field) = row.0.first() {
            self.keep(field.read(&mut Vec::new()));
        }
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
