//! Variables of the environment, as a configuration has them.
//!
//! A process limits its environment once, before it has threads. What a later configuration says about variables is
//! answered from here: nobody else's view of the environment may change under running threads.

use std::{collections::BTreeMap, ffi::OsString, sync::OnceLock};

use bstr::{BStr, BString, ByteSlice};

/// The environment as the process found it, and what it left of it.
struct Limited {
    inherited: BTreeMap<OsString, OsString>,
    left: BTreeMap<OsString, OsString>,
}

static LIMITED: OnceLock<Limited> = OnceLock::new();

/// Notes that the process had the variables `inherited` and left those of `left`. The first call counts.
pub fn note_limited(inherited: BTreeMap<OsString, OsString>, left: BTreeMap<OsString, OsString>) {
    let _ = LIMITED.set(Limited { inherited, left });
}

/// The value of the variable `name` under a configuration: what its `env` directives say (names, or names with values), else
/// what the process has.
pub fn variable(directives: &[(BString, Option<BString>)], name: &BStr) -> Option<OsString> {
    let key = OsString::from(name.to_os_str().ok()?);
    if key.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return None;
    }
    let Some(limited) = LIMITED.get() else { return std::env::var_os(key) };
    // As where the process limits itself: a value goes before the name alone.
    let mut listed = directives.iter().filter(|(listed, _)| listed == name).peekable();
    if listed.peek().is_some() {
        return match listed.filter_map(|(_, value)| value.as_ref()).next_back() {
            Some(value) => value.to_os_str().ok().map(OsString::from),
            None => limited.inherited.get(&key).cloned(),
        };
    }
    let now = std::env::var_os(&key)?;
    // Left for an `env` directive of the configuration that the process started with, which this one lacks.
    let stale = !KEPT.contains(&name.as_bytes()) && limited.left.get(&key) == Some(&now);
    (!stale).then_some(now)
}

/// Variables that survive without an `env` directive: the time zone as in nginx, the search paths that Lua reads when
/// a worker starts (nginx starts Lua before it clears the environment), and Rust's switch for stack traces.
pub const KEPT: [&[u8]; 4] = [b"TZ", b"LUA_PATH", b"LUA_CPATH", b"RUST_BACKTRACE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_configurations_have_their_own_variables() {
        let map = |list: &[(&str, &str)]| list.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        note_limited(map(&[("TIDE_A", "old"), ("TIDE_B", "b")]), map(&[("TIDE_A", "old")]));
        let list = |env: &[(&str, Option<&str>)]| -> Vec<(BString, Option<BString>)> {
            env.iter().map(|&(name, value)| (name.into(), value.map(Into::into))).collect()
        };
        for (env, name, expected) in [
            (&[("TIDE_A", None)][..], "TIDE_A", Some("old")),
            (&[("TIDE_A", None), ("TIDE_A", Some("new"))], "TIDE_A", Some("new")),
            (&[("TIDE_B", None)], "TIDE_B", Some("b")),
            (&[("TIDE_C", None)], "TIDE_C", None),
            (&[], "TIDE_B", None),
            (&[], "", None),
            (&[], "TIDE=A", None),
        ] {
            assert_eq!(variable(&list(env), name.into()), expected.map(OsString::from), "{env:?} {name}");
        }
        assert!(variable(&[], "PATH".into()).is_some(), "what the process has is there");
    }
}
