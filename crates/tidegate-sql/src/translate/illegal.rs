//! Operations on values whose type has none of this kind: UUID, INET4 and INET6 are no numbers and no dates.

use sqlparser::ast::BinaryOperator;
use tidegate_rows::ServerError;

use super::{Coercibility, Ex, Res, Translator, meet};
use crate::{
    errors,
    value::{Rep, SqlType, collation::Collation},
};

/// The first such operation of a statement; texts of SQLite are made where no error can be told.
#[derive(Debug, Default)]
pub(super) struct Illegal(Option<ServerError>);

/// The name under which MariaDB refuses a conversion.
fn conversion_name(to: Rep) -> &'static str {
    match to {
        Rep::Int | Rep::Enum => "cast_as_signed",
        Rep::Uint | Rep::Set => "cast_as_unsigned",
        Rep::Dec => "decimal_typecast",
        Rep::Datetime | Rep::Timestamp => "cast_as_datetime",
        Rep::Time => "cast_as_time",
        Rep::Real | Rep::Number | Rep::Null | Rep::Text | Rep::Blob | Rep::Fixed(_) => "double_typecast",
    }
}

/// Whether there is a conversion from one representation to another.
pub(super) fn is_legal(from: Rep, to: Rep) -> bool {
    !matches!(from, Rep::Fixed(_)) || matches!(to, Rep::Null | Rep::Text | Rep::Blob | Rep::Fixed(_))
}

/// The error of an operation on one or two types.
pub(super) fn illegal_types(operation: &str, types: &[&SqlType]) -> ServerError {
    match types {
        [one] => errors::illegal_type(one.data_type(), operation),
        several => {
            let names: Vec<&str> = several.iter().map(|ty| ty.data_type()).collect();
            errors::illegal_types(names.join(" and "), operation)
        }
    }
}

fn is_fixed(ex: &Ex) -> bool {
    matches!(ex.ty.rep(), Rep::Fixed(_))
}

/// The collation on which two results of one expression meet.
///
/// # Errors
/// 4078 where they have no type in common, 1267 where no collation gives way.
pub(super) fn meet_as_results(a: &Ex, b: &Ex, operation: &str) -> Res<(Collation, Coercibility)> {
    let text = |ex: &Ex| matches!(ex.ty.rep(), Rep::Text | Rep::Blob);
    let meets = match (is_fixed(a), is_fixed(b)) {
        (false, false) => true,
        (true, true) => a.ty.base == b.ty.base,
        (true, false) => text(b),
        (false, true) => text(a),
    };
    if meets { meet(a, b, operation) } else { Err(illegal_types(operation, &[&a.ty, &b.ty])) }
}

/// Fails where an operator has operands without arithmetic.
///
/// # Errors
/// 4078, 4079.
pub(super) fn check_operands(operator: &BinaryOperator, a: &Ex, b: &Ex) -> Res<()> {
    use BinaryOperator as Op;
    let Some(operand) = [a, b].into_iter().find(|ex| is_fixed(ex)) else { return Ok(()) };
    let name = match operator {
        Op::Plus | Op::Minus | Op::Multiply | Op::Divide => operator.to_string(),
        Op::Modulo => "MOD".to_owned(),
        Op::MyIntegerDivide => "DIV".to_owned(),
        Op::BitwiseOr | Op::BitwiseAnd | Op::BitwiseXor => {
            return Err(illegal_types(&operator.to_string(), &[&operand.ty]));
        }
        _ => return Ok(()),
    };
    Err(illegal_types(&name, &[&a.ty, &b.ty]))
}

impl Translator<'_> {
    /// Notes an operation that its operands do not have. The text stands in its place in a statement that never runs.
    pub(super) fn refused(&mut self, operation: &str, types: &[&SqlType]) -> String {
        self.illegal.0.get_or_insert_with(|| illegal_types(operation, types));
        "NULL".to_owned()
    }

    /// Notes a conversion that there is none of.
    pub(super) fn refused_conversion(&mut self, ex: &Ex, to: Rep) -> String {
        self.refused(conversion_name(to), &[&ex.ty])
    }

    /// Fails where an operation was noted that its operands do not have.
    ///
    /// # Errors
    /// 4078, 4079.
    pub(crate) fn check_operations(&mut self) -> Res<()> {
        self.illegal.0.take().map_or(Ok(()), Err)
    }
}
