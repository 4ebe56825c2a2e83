//! Parameters of a statement: what their types are.

use super::{Code, Coercibility, Ex, Res, Source, Translator};
use crate::{
    errors,
    value::{Base, SqlType, collation::Collation, decimal},
};

/// A parameter as the caller gave it: only its type matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Null,
    Int,
    Uint,
    Double,
    /// Digits behind the point.
    Decimal {
        decimals: u8,
    },
    Date,
    /// Digits of the second.
    Datetime {
        decimals: u8,
    },
    /// Digits of the second.
    Time {
        decimals: u8,
    },
    /// Characters in the connection's collation.
    Bytes,
    Text(Collation),
    Blob,
    /// A value of a statement without a text, of any type.
    Made,
}

/// The type of a variable that holds a text.
pub(crate) fn variable_text(collation: Collation) -> SqlType {
    let length = 16_777_215 / collation.char_bytes_max();
    SqlType { collation, length, ..SqlType::new(Base::LongText) }
}

impl Translator<'_> {
    /// The expression that a `?` is.
    ///
    /// # Errors
    /// 1210 if there are fewer values.
    pub(super) fn param(&mut self, index: usize) -> Res<Ex> {
        let kind = self.params.get(index).ok_or_else(|| errors::wrong_arguments("EXECUTE"))?;
        let ty = match kind {
            ParamKind::Null => return Ok(Ex { code: Code::Const(Source::Param(index)), ..Ex::null() }),
            ParamKind::Int => SqlType::bigint(),
            ParamKind::Uint => SqlType::ubigint(),
            ParamKind::Double => SqlType::new(Base::Double),
            ParamKind::Decimal { decimals } => SqlType::decimal(decimal::PRECISION_MAX, *decimals),
            ParamKind::Date => SqlType::new(Base::Date),
            ParamKind::Datetime { decimals } => SqlType::temporal(Base::Datetime, *decimals),
            ParamKind::Time { decimals } => SqlType::temporal(Base::Time, *decimals),
            ParamKind::Text(collation) => variable_text(*collation),
            ParamKind::Blob => SqlType::new(Base::LongBlob),
            ParamKind::Made => return Err(errors::internal("a text with values that belong to none")),
            ParamKind::Bytes => SqlType::varchar(255, self.session.inputs.collation),
        };
        Ok(Ex { coercibility: Coercibility::Literal, ..Ex::constant(Source::Param(index), ty) })
    }
}
