//! LIMIT and OFFSET.

use sqlparser::ast::{Expr, LimitClause};

use super::{Code, Res, Source as Constant, Translator, scope::Scope};
use crate::{errors, value::Rep};

impl Translator<'_> {
    /// The text of LIMIT, and whether it lets one row through at most.
    pub(super) fn limit(&mut self, limit: &LimitClause) -> Res<(String, bool)> {
        let (limit, offset) = match limit {
            LimitClause::LimitOffset { limit, offset, limit_by } if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
            LimitClause::LimitOffset { .. } => return Err(errors::unsupported("LIMIT BY")),
        };
        let Some(limit) = limit else { return Err(errors::syntax("OFFSET")) };
        let (count, one) = self.count(limit)?;
        let offset = offset.map(|offset| self.count(offset)).transpose()?;
        let offset = offset.map_or(String::new(), |(text, _)| format!(" OFFSET {text}"));
        Ok((format!(" LIMIT {count}{offset}"), one))
    }

    /// A number of rows: a literal or a parameter. A parameter of any type is the whole number next to it, and NULL is none.
    pub(crate) fn count(&mut self, expr: &Expr) -> Res<(String, bool)> {
        let ex = self.expr(expr, &Scope::default())?;
        match &ex.code {
            Code::Const(Constant::Param(_)) if ex.ty.rep() == Rep::Null => Ok(("0".to_owned(), false)),
            Code::Const(Constant::Param(_)) if !matches!(ex.ty.rep(), Rep::Int | Rep::Uint) => {
                Ok((format!("tg_count({})", self.convert(&ex, Rep::Int)), false))
            }
            Code::Const(source @ (Constant::Literal(_) | Constant::Param(_) | Constant::Value(..)))
                if matches!(ex.ty.rep(), Rep::Int | Rep::Uint) =>
            {
                let source = source.clone();
                let one = matches!(&source, Constant::Literal(index) if self.literals.profits_from(*index, b"1"));
                // Everything that does not fit is as good as no limit.
                Ok((format!("tg_count({})", self.bind(&source, ex.ty.rep(), None)), one))
            }
            // A local variable of a stored program.
            Code::Sql(sql) if self.program.is_some() && sql.starts_with('?') && ex.ty.base.is_integer() => {
                Ok((format!("tg_count({sql})"), false))
            }
            _ => Err(errors::syntax(expr)),
        }
    }
}
