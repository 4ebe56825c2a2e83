//! SET GLOBAL: values that new sessions begin with. Open sessions keep theirs, as in MariaDB; the values go with the process.

use std::sync::Arc;

use super::{Res, Use, apply, get, list, text_value};
use crate::{
    clients::Client,
    env::{Env, UserValue},
    errors,
    shared::EngineInner,
};

/// The longest value that is kept.
const VALUE_BYTES_MAX: usize = 4096;

/// Modes, time and variables as a new session begins with them.
pub(crate) fn environment(engine: &EngineInner, client: &Arc<Client>) -> Env {
    // Before anything is read: what changes meanwhile makes this too old.
    let (begun_with, _) = engine.globals.version();
    let mut env =
        Env::new(Arc::clone(client), &engine.settings, Arc::clone(&engine.locks), Arc::clone(&engine.accounts));
    env.begun_with = begun_with;
    for (name, value) in engine.globals.all() {
        if let Some((name, _, usage @ (Use::Free | Use::Effective))) = list::find(name) {
            // Each was tried in a session when it was set.
            let _ = apply(&env, name, *usage, &text_value(&value));
        }
    }
    env
}

/// SET GLOBAL of one variable; `None` for its first value.
///
/// # Errors
/// 1231 for a wrong value.
pub(crate) fn set(
    engine: &EngineInner,
    env: &Env,
    name: &'static str,
    usage: Use,
    value: Option<&UserValue>,
) -> Res<()> {
    // Two names of one variable.
    let name = match name {
        "tx_isolation" => "transaction_isolation",
        "transaction_read_only" => "tx_read_only",
        name => name,
    };
    if name == "event_scheduler" {
        return set_scheduler(engine, value);
    }
    let Some(value) = value else {
        engine.globals.set(name, None);
        return Ok(());
    };
    let kept = if usage == Use::Global {
        super::text(value)
    } else {
        // A session that begins now tells what becomes of the value.
        let begun = environment(engine, &env.client);
        let tried = apply(&begun, name, usage, value);
        env.take_warnings(&begun);
        tried?;
        get(engine, &begun, name).unwrap_or_default()
    };
    if kept.len() > VALUE_BYTES_MAX {
        return Err(errors::wrong_variable_value(name, "a longer text than is kept"));
    }
    engine.globals.set(name, Some(kept));
    if usage != Use::Effective {
        env.note(errors::no_effect(name));
    }
    Ok(())
}

/// SET GLOBAL event_scheduler, which is off at first unless the engine was opened otherwise.
fn set_scheduler(engine: &EngineInner, value: Option<&UserValue>) -> Res<()> {
    let text = value.map_or_else(|| "OFF".to_owned(), super::text);
    let on = match text.to_ascii_uppercase().as_str() {
        "ON" | "1" => true,
        "OFF" | "0" => false,
        _ => return Err(errors::wrong_variable_value("event_scheduler", text)),
    };
    switch_scheduler(engine, on);
    Ok(())
}

/// Has events run from now on, or not.
pub(crate) fn switch_scheduler(engine: &EngineInner, on: bool) {
    engine.globals.set("event_scheduler", Some(if on { "ON" } else { "OFF" }.to_owned()));
    engine.events.switch(on);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions};

    #[test]
    fn a_value_has_a_limit_and_is_that_of_new_sessions() {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-globals-{}", std::process::id()));
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        let open = environment(&engine.inner, &engine.inner.clients.make());
        let set = |value: &str| set(&engine.inner, &open, "lc_messages", Use::Free, Some(&text_value(value)));
        assert_eq!(set(&"x".repeat(VALUE_BYTES_MAX + 1)).unwrap_err().code, 1231);
        set(&"x".repeat(VALUE_BYTES_MAX)).unwrap();
        assert_eq!(get(&engine.inner, &open, "lc_messages").unwrap(), "en_US");
        let begun = environment(&engine.inner, &open.client);
        assert_eq!(get(&engine.inner, &begun, "lc_messages").unwrap().len(), VALUE_BYTES_MAX);
        drop(engine);
        let _ = std::fs::remove_dir_all(&dir);
    }
}
