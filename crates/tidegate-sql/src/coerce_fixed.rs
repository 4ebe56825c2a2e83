//! Values on their way into and out of columns of UUID, INET4 and INET6.

use tidegate_rows::ServerError;

use crate::{
    coerce::Target,
    errors,
    value::{Base, Datum, Fixed, Rep, SqlType, Val},
};

type Res<T> = Result<T, ServerError>;

impl Target<'_> {
    /// The stored form of a value for a column of such a type.
    pub(crate) fn fixed(&self, kind: Fixed, value: Val<'_>) -> Res<Datum> {
        match value.to_fixed(kind) {
            Ok(value) => Ok(value.map_or(Datum::Null, |value| Datum::Blob(value.to_stored()))),
            Err(_) => {
                let shown = Self::shown(&value);
                let wrong =
                    errors::incorrect_column_value(kind.name(), shown, self.schema, self.table, self.name(), self.row);
                self.complain(wrong)?;
                // NULL where that is allowed, as MariaDB has it.
                Ok(if self.column.nullable { Datum::Null } else { self.implicit_default() })
            }
        }
    }

    /// The value as columns of other types take it: of bytes the bytes, of anything else the text.
    ///
    /// # Errors
    /// 4078 for a value between whose type and the column's there is no way.
    pub(crate) fn assignable<'v>(&self, value: Val<'v>) -> Res<Val<'v>> {
        let (ty, given) = (&self.column.ty, value.rep());
        let from = match (&value, ty.base) {
            (Val::Fixed(value), Base::Fixed(kind)) if value.kind() == kind => return Ok(Val::Fixed(*value)),
            (Val::Fixed(value), base) if base.is_binary() => return Ok(Val::Blob(value.bytes().to_vec().into())),
            (Val::Fixed(value), base) if base.is_character() || matches!(base, Base::Fixed(_)) => {
                let mut text = Vec::new();
                value.write(&mut text);
                return Ok(Val::Text(text.into()));
            }
            (Val::Fixed(value), _) => value.kind().name(),
            (_, Base::Fixed(_)) => match given {
                Rep::Text | Rep::Blob | Rep::Null => return Ok(value),
                Rep::Int | Rep::Uint => "int",
                Rep::Real => "double",
                Rep::Dec => "decimal",
                Rep::Time => "time",
                _ => "datetime",
            },
            _ => return Ok(value),
        };
        Err(errors::cannot_assign(from, SqlType::data_type(ty), self.schema, self.table, self.name()))
    }
}
