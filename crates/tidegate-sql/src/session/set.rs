//! SET.

use std::{rc::Rc, sync::Arc};

use super::{Core, Res, values::evaluate};
use crate::{
    parse::{SetItem, SetValue},
    variables::{self, text_value},
};

/// Carries out SET.
///
/// # Errors
/// 1193, 1231, 1232, 1238 and what the expressions say.
pub(super) fn set(core: &mut Core, items: &[SetItem], sql: &[u8]) -> Res<()> {
    // All values are read before the first is set: of `SET @a = 1, @b = @a` the second is what `@a` was before.
    let mut values = Vec::new();
    for item in items {
        values.push(match item {
            SetItem::User { value, .. } => Some(evaluate(core, sql, *value)?),
            SetItem::System { value: Some(SetValue::Word(word)), .. } => Some(text_value(word)),
            SetItem::System { value: Some(SetValue::Expr(span)), .. } => Some(evaluate(core, sql, *span)?),
            SetItem::System { value: None, .. } | SetItem::Names { .. } | SetItem::Transaction { .. } => None,
        });
    }
    let (engine, env) = (Arc::clone(&core.engine), Rc::clone(&core.env));
    for (item, value) in items.iter().zip(&values) {
        match item {
            SetItem::User { .. } => {}
            SetItem::Names { charset, collation } => {
                variables::set_names(&engine, &env, charset.as_deref(), collation.as_deref())?;
            }
            SetItem::Transaction { level, read_only, scope } => {
                let is_open = core.in_begun_transaction();
                variables::set_transaction(&engine, &env, is_open, (*level, *read_only, *scope))?;
            }
            SetItem::System { global, name, .. } => {
                variables::set_system(&engine, &env, *global, name, value.as_ref(), || core.commit_open())?;
            }
        }
    }
    // These last: they cannot fail, and none is set by a statement that does.
    for (item, value) in items.iter().zip(values) {
        if let (SetItem::User { name, .. }, Some(value)) = (item, value) {
            env.set_user_variable(name.trim_matches(['\'', '"', '`']), value);
        }
    }
    Ok(())
}

/// Gives the session's variables that triggers and functions have set in a statement which was undone the values of before.
///
/// # Errors
/// None for such values.
pub(super) fn set_back_all(core: &mut Core) -> Res<()> {
    core.env.take_settings().iter().try_for_each(|(name, value)| set_back(core, name, value))
}

/// Gives a session's variable the value that it has had before.
///
/// # Errors
/// None for such a value.
pub(super) fn set_back(core: &mut Core, name: &str, value: &str) -> Res<()> {
    let (engine, env) = (Arc::clone(&core.engine), Rc::clone(&core.env));
    variables::set_system(&engine, &env, false, name, Some(&text_value(value)), || core.commit_open())
}
