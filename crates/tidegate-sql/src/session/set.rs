//! SET.

use std::{rc::Rc, sync::Arc};

use super::{Core, Res, values::evaluate};
use crate::{
    parse::SetItem,
    translate::params::Text,
    variables::{self, text_value},
};

/// Carries out SET.
///
/// # Errors
/// 1193, 1228 to 1232, 1238, 1621 and what the expressions say.
pub(super) fn set(core: &mut Core, items: &[SetItem], text: Text<'_>) -> Res<()> {
    let values = variables::values_of(items, |span| evaluate(core, text, span))?;
    let (engine, env, is_open) = (Arc::clone(&core.engine), Rc::clone(&core.env), core.in_begun_transaction());
    variables::assign(&engine, &env, items, values, is_open, |global, name, value| {
        variables::set_system(&engine, &env, global, name, value, || core.commit_open())
    })
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
