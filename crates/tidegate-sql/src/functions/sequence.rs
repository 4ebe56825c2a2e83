//! Sequences: NEXTVAL, LASTVAL, SETVAL and the forms of the standard that mean the same.

use std::sync::Arc;

use sqlparser::ast::Expr;

use super::{
    Family,
    abi::{Args, Udf},
};
use crate::{
    accounts::Privileges,
    catalog::Table,
    env, errors,
    parse::TableName,
    schema::Schema,
    store::conn::quote,
    translate::{Ex, Res, Translator, scope::Scope},
    value::{Rep, SqlType},
};

pub(super) const FAMILY: Family = Family { functions: &[], udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_next_value(schema, table)`
    Udf::volatile("tg_next_value", 2, |args, out| {
        let (schema, table) = found(args)?;
        out.int(env::current(|env| env.next_value(&schema, &table)).unwrap_or_else(outside)?);
        Ok(())
    }),
    // `tg_last_value(schema, table)`: NULL before this session was given a number.
    Udf::volatile("tg_last_value", 2, |args, out| {
        let (schema, table) = found(args)?;
        if let Some(value) = env::current(|env| env.last_value(&schema, &table)).flatten() {
            out.int(value);
        }
        Ok(())
    }),
    // `tg_set_value(schema, table, value, used, round)`: NULL if that would lead back.
    Udf::volatile("tg_set_value", 5, |args, out| {
        let (schema, table) = found(args)?;
        if (2..5).any(|index| args.is_null(index)) {
            return Ok(());
        }
        let to = (args.int(2), args.int(3) != 0, args.int(4));
        if env::current(|env| env.set_value(&schema, &table, to)).unwrap_or_else(outside)? {
            out.int(to.0);
        }
        Ok(())
    }),
];

fn outside<T>() -> Res<T> {
    Err(errors::internal("a sequence outside of a statement"))
}

/// The sequence that the first two arguments name.
fn found(args: &Args<'_>) -> Res<(Arc<Schema>, Arc<Table>)> {
    let text = |index| String::from_utf8_lossy(args.bytes(index)).into_owned();
    let engine = env::current(env::Env::engine).flatten().ok_or_else(|| errors::internal("no engine"))?;
    let (schema, table) = (engine.schema(&text(0))?, text(1));
    let found = schema.catalog()?.table(&table).filter(|table| table.is_sequence()).cloned();
    let found = found.ok_or_else(|| errors::no_such_table(&schema.name, crate::temporary_name::shown(&table)))?;
    Ok((schema, found))
}

/// A call, whose first argument is a name.
///
/// # Errors
/// 4091, 4089, 1142.
pub(super) fn special(t: &mut Translator<'_>, name: &str, args: &[&Expr], scope: &Scope<'_>) -> Res<Ex> {
    let [sequence, rest @ ..] = args else { return Err(errors::syntax("")) };
    let at = named(t, sequence, if name == "last_value" { Privileges::SELECT } else { Privileges::INSERT })?;
    let sql = match (name, rest) {
        ("next_value", []) => format!("tg_next_value({at})"),
        ("last_value", []) => format!("tg_last_value({at})"),
        ("set_value", numbers) if (1..=3).contains(&numbers.len()) => {
            let mut texts = Vec::new();
            for number in numbers {
                let ex = t.expr(number, scope)?;
                texts.push(t.convert(&ex, Rep::Int));
            }
            // It was used, and the round is the first one.
            texts.extend(["1", "0"][numbers.len() - 1..].iter().map(|text| (*text).to_owned()));
            format!("tg_set_value({at}, {})", texts.join(", "))
        }
        _ => return Err(errors::syntax("")),
    };
    if name == "last_value" {
        t.effects.note_read();
    } else {
        t.effects.note_both();
    }
    Ok(Ex::sql(sql, SqlType::bigint()))
}

/// The arguments of the functions here that stand for a sequence.
fn named(t: &mut Translator<'_>, name: &Expr, wanted: Privileges) -> Res<String> {
    let name = match name {
        Expr::Identifier(name) => TableName { schema: None, name: name.value.clone() },
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [schema, name] => TableName { schema: Some(schema.value.clone()), name: name.value.clone() },
            _ => return Err(errors::syntax(name)),
        },
        other => return Err(errors::syntax(other)),
    };
    let (schema, table) = t.sequence(&name, wanted)?;
    Ok(format!("{}, {}", quote(&schema.name), quote(&table.name)))
}
