//! SET GLOBAL: values that new sessions begin with. Open sessions keep theirs, as in MariaDB; the values go with the process.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{Res, apply, get, list, list::Use, text_value};
use crate::{
    engine::EngineInner,
    errors,
    session::{Env, UserValue},
};

/// The longest value that is kept.
const VALUE_BYTES_MAX: usize = 4096;

/// What SET GLOBAL has set.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    /// Whether anything was ever set: if not, a new session asks no further.
    any: AtomicBool,
    /// Grows when anything changes that new sessions begin with, behind the change.
    version: Arc<AtomicU64>,
    /// In the order in which they were set: some variables set others.
    values: Mutex<Vec<(&'static str, String)>>,
}

impl Globals {
    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a variable, if it was set.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.lock().iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn set(&self, name: &'static str, value: Option<String>) {
        let mut values = self.lock();
        values.retain(|(known, _)| *known != name);
        values.extend(value.map(|value| (name, value)));
        self.any.store(true, Ordering::Release);
        drop(values);
        self.note_change();
    }

    /// What new sessions begin with has changed.
    pub(crate) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of changes so far, and where to look how many there are later.
    pub(crate) fn version(&self) -> (u64, &Arc<AtomicU64>) {
        (self.version.load(Ordering::Acquire), &self.version)
    }

    /// Gives a new session what was set.
    pub(crate) fn begin(&self, env: &Env) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        for (name, value) in &*self.lock() {
            if let Some((name, _, usage @ (Use::Free | Use::Effective))) = list::find(name) {
                // Each was tried in a session when it was set.
                let _ = apply(env, name, *usage, &text_value(value));
            }
        }
    }
}

/// SET GLOBAL of one variable; `None` for its first value.
///
/// # Errors
/// 1228 for a variable that only sessions have, 1231 for a wrong value.
pub(super) fn set(
    engine: &EngineInner,
    env: &Env,
    name: &'static str,
    usage: Use,
    value: Option<&UserValue>,
) -> Res<()> {
    if list::is_of_session(name) {
        return Err(errors::session_to_set(name));
    }
    // Two names of one variable.
    let name = match name {
        "tx_isolation" => "transaction_isolation",
        "transaction_read_only" => "tx_read_only",
        name => name,
    };
    let Some(value) = value else {
        engine.globals.set(name, None);
        return Ok(());
    };
    let kept = if usage == Use::Global {
        super::text(value)
    } else {
        // A session that begins now tells what becomes of the value.
        let begun = engine.environment(&env.client);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions};

    #[test]
    fn a_value_has_a_limit_and_is_that_of_new_sessions() {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-globals-{}", std::process::id()));
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        let open = engine.inner.environment(&engine.inner.clients.make());
        let set = |value: &str| set(&engine.inner, &open, "init_connect", Use::Free, Some(&text_value(value)));
        assert_eq!(set(&"x".repeat(VALUE_BYTES_MAX + 1)).unwrap_err().code, 1231);
        set(&"x".repeat(VALUE_BYTES_MAX)).unwrap();
        assert_eq!(get(&engine.inner, &open, "init_connect").unwrap(), "");
        let begun = engine.inner.environment(&open.client);
        assert_eq!(get(&engine.inner, &begun, "init_connect").unwrap().len(), VALUE_BYTES_MAX);
        drop(engine);
        let _ = std::fs::remove_dir_all(&dir);
    }
}
