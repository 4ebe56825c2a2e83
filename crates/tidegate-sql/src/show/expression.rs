//! Expressions of a table as SHOW CREATE TABLE writes them.

use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value};

use crate::{dialect::SPECIAL, identifier::quoted, translate::rules::parse_expression};

/// The text in MariaDB's form: names in quotes, functions in small letters. Forms without one of their own stay as written.
pub(super) fn shown(text: &str) -> String {
    parse_expression(text).ok().and_then(|(expr, _)| print(&expr)).unwrap_or_else(|| text.to_owned())
}

/// The same behind DEFAULT: what is no call stands in parentheses.
pub(super) fn shown_default(text: &str) -> String {
    let shown = shown(text);
    let is_call = matches!(parse_expression(text), Ok((expr, _)) if matches!(strip(&expr), Expr::Function(_)));
    if is_call { shown } else { format!("({shown})") }
}

fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => strip(inner),
        other => other,
    }
}

fn print(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Nested(inner) => print(inner)?,
        Expr::Identifier(name) => quoted(&name.value),
        Expr::CompoundIdentifier(parts) => quoted(&parts.last()?.value),
        Expr::Value(value) => match &value.value {
            Value::Null => "NULL".into(),
            Value::Boolean(flag) => if *flag { "1" } else { "0" }.into(),
            Value::Number(number, _) => number.clone(),
            Value::SingleQuotedString(text) => escaped(text),
            _ => return None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", operand(expr)?),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => format!("!{}", operand(expr)?),
        Expr::BinaryOp { left, op, right } => format!("{} {} {}", operand(left)?, operator(op), operand(right)?),
        Expr::IsNull(inner) => format!("{} is null", operand(inner)?),
        Expr::IsNotNull(inner) => format!("{} is not null", operand(inner)?),
        Expr::Between { expr, negated, low, high } => {
            let not = if *negated { "not " } else { "" };
            format!("{} {not}between {} and {}", operand(expr)?, operand(low)?, operand(high)?)
        }
        Expr::InList { expr, list, negated } => {
            let not = if *negated { "not " } else { "" };
            let items = list.iter().map(print).collect::<Option<Vec<_>>>()?;
            format!("{} {not}in ({})", operand(expr)?, items.join(","))
        }
        Expr::Function(function) => {
            let name = function.name.to_string().trim_matches('`').to_ascii_lowercase();
            let name = if name == "now" { "current_timestamp".to_owned() } else { name };
            let FunctionArguments::List(list) = &function.args else { return None };
            if let Some(special) = name.strip_prefix(SPECIAL) {
                return sequence(special, &list.args);
            }
            let args = list
                .args
                .iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => print(expr),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()?;
            format!("{name}({})", args.join(","))
        }
        _ => return None,
    })
}

/// The next number of a sequence, by its schema and name.
fn sequence(special: &str, arguments: &[FunctionArg]) -> Option<String> {
    match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)))] if special == "next_value" => {
            let parts: Vec<String> = parts.iter().map(|part| quoted(&part.value)).collect();
            Some(format!("nextval({})", parts.join(".")))
        }
        _ => None,
    }
}

/// A text in quotes as expressions have it: with a backslash before what is escaped.
fn escaped(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            '\x1a' => quoted.push_str("\\Z"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

fn operand(expr: &Expr) -> Option<String> {
    let text = print(expr)?;
    let simple = !matches!(
        strip(expr),
        Expr::BinaryOp { .. } | Expr::Between { .. } | Expr::InList { .. } | Expr::IsNull(_) | Expr::IsNotNull(_)
    );
    Some(if simple { text } else { format!("({text})") })
}

fn operator(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::MyIntegerDivide => "DIV".into(),
        BinaryOperator::Modulo => "MOD".into(),
        BinaryOperator::And => "and".into(),
        BinaryOperator::Or => "or".into(),
        BinaryOperator::Xor => "xor".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(shown(text), expected, "{text}");
    }

    #[test]
    fn as_mariadb_writes_them() {
        check("a + b", "`a` + `b`");
        check("(a+b)*2", "(`a` + `b`) * 2");
        check("CONCAT(a, '-', b)", "concat(`a`,'-',`b`)");
        check("a > 0 AND b IS NULL", "(`a` > 0) and (`b` is null)");
        assert_eq!(shown_default("NEXT VALUE FOR `a`.b"), "nextval(`a`.`b`)");
        assert_eq!(shown_default("1 + 2"), "(1 + 2)");
        assert_eq!(shown_default("concat('a')"), "concat('a')");
    }
}
