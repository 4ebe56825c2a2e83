//! Values of the expressions that belong to a table ([`Rule`]), for each row that is written.

use super::bind::Constants;
use crate::{
    coerce::Target,
    errors,
    store::conn::{Cell, Step, Stmt, to_server_error},
    translate::{Res, rules::Rule},
    value::Datum,
};

impl Rule {
    /// The value of the expression for a row.
    ///
    /// # Errors
    /// What the expression fails with.
    pub(crate) fn value(&self, stmt: &mut Stmt, constants: &Constants<'_>, row: &[Datum]) -> Res<Datum> {
        let internal = |error| to_server_error(&error);
        let mut stmt = constants.bind(stmt, &self.binds)?;
        for (index, value) in row.iter().enumerate() {
            stmt.bind(self.binds.len() + index + 1, value.as_cell()).map_err(internal)?;
        }
        Ok(match stmt.step().map_err(internal)? {
            Step::Row => stmt.cell(0).to_owned(),
            Step::Done => Datum::Null,
        })
    }

    /// The value of the expression as its column stores it.
    ///
    /// # Errors
    /// Those of the column's type in strict mode; 1048.
    pub(crate) fn stored(
        &self,
        stmt: &mut Stmt,
        constants: &Constants<'_>,
        row: &[Datum],
        target: &Target<'_>,
    ) -> Res<Datum> {
        let value = self.value(stmt, constants, row)?;
        let stored = target.coerce(self.out.value_for(value.as_cell(), &target.column.ty))?;
        if stored.is_null() && !target.column.nullable {
            let error = errors::null_not_allowed(&target.column.name);
            if target.strict {
                return Err(error);
            }
            target.env.warn(error);
            return Ok(target.implicit_default());
        }
        Ok(stored)
    }

    /// Whether a CHECK lets a row pass: NULL does.
    ///
    /// # Errors
    /// What the expression fails with.
    pub(crate) fn passes(&self, stmt: &mut Stmt, constants: &Constants<'_>, row: &[Datum]) -> Res<bool> {
        Ok(match self.value(stmt, constants, row)? {
            Datum::Int(value) => value != 0,
            Datum::Real(value) => value != 0.0,
            other => !matches!(other.as_cell(), Cell::Text(_)),
        })
    }
}
