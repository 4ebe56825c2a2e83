//! SET, by a statement of its own or in a trigger or function.

use super::{Res, set_names, set_transaction, text_value};
use crate::{
    env::{Env, UserValue},
    parse::{SetItem, SetValue, Span},
    shared::EngineInner,
};

/// The values of SET's items, of which `given` knows those that are expressions. All are read before the first is set: of
/// `SET @a = 1, @b = @a` the second is what `@a` was before.
///
/// # Errors
/// What the expressions say.
pub(crate) fn values_of(
    items: &[SetItem],
    mut given: impl FnMut(Span) -> Res<UserValue>,
) -> Res<Vec<Option<UserValue>>> {
    let value = |item: &SetItem| match item {
        SetItem::User { value, .. } | SetItem::System { value: Some(SetValue::Expr(value)), .. } => {
            given(*value).map(Some)
        }
        SetItem::System { value: Some(SetValue::Word(word)), .. } => Ok(Some(text_value(word))),
        SetItem::System { value: None, .. } | SetItem::Names { .. } | SetItem::Transaction { .. } => Ok(None),
    };
    items.iter().map(value).collect()
}

/// Carries out SET with these values. `set_system` sets a system variable, of all sessions if it is told so; `is_open` says whether
/// a transaction has begun.
///
/// # Errors
/// Those of `set_system`, [`set_names`] and [`set_transaction`].
pub(crate) fn assign(
    engine: &EngineInner,
    env: &Env,
    items: &[SetItem],
    values: Vec<Option<UserValue>>,
    is_open: bool,
    mut set_system: impl FnMut(bool, &str, Option<&UserValue>) -> Res<()>,
) -> Res<()> {
    for (item, value) in items.iter().zip(&values) {
        match item {
            SetItem::User { .. } => {}
            SetItem::Names { charset, collation } => set_names(engine, env, charset.as_deref(), collation.as_deref())?,
            SetItem::Transaction { level, read_only, scope } => {
                set_transaction(engine, env, is_open, (*level, *read_only, *scope))?;
            }
            SetItem::System { global, name, .. } => set_system(*global, name, value.as_ref())?,
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
