//! System variables.

mod assign;
mod global;

use std::time::Duration;

use tidegate_rows::{Param, ServerError};

use crate::{
    clock::Zone,
    env::{Charset, CompletionType, Env, Numbers, UserValue},
    errors,
    isolation::Isolation,
    parse::IsolationScope,
    shared::EngineInner,
    sql_mode::{self, REFUSED_MODES},
    system_variables::{self as list, Use, mariadb},
    value::{Datum, SqlType, collation::Collation, one_byte::Set},
};

pub(crate) use crate::system_variables::{is_null, is_real, is_unsigned};
pub(crate) use assign::{assign, values_of};
pub(crate) use global::{environment, switch_scheduler};

type Res<T> = Result<T, ServerError>;

/// The longest time that the limits for idle transactions can be set to, a year, as in MariaDB.
const IDLE_SECONDS_MAX: u64 = 31_536_000;

/// The names of all system variables.
fn names() -> impl Iterator<Item = &'static str> {
    let all = [list::SYSTEM, list::MEANINGLESS, mariadb::SWITCHES, mariadb::OTHERS];
    all.into_iter().flatten().map(|(name, ..)| *name)
}

/// Whose value of a variable is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableScope {
    /// `@@name`: the session's, or the global one if there is no other.
    Any,
    Session,
    Global,
}

/// What `@@name`, `@@session.name` and `@@global.name` are.
///
/// # Errors
/// 1193 if there is no such variable, 1238 if it has no value of this scope.
pub(crate) fn read(engine: &EngineInner, env: &Env, name: &str, scope: VariableScope) -> Res<String> {
    let (name, _, usage) = list::find(name).ok_or_else(|| errors::unknown_variable(name))?;
    let fresh;
    let env = match scope {
        VariableScope::Any => env,
        VariableScope::Session if list::is_global(name, *usage) => return Err(errors::only_global(name)),
        VariableScope::Session => env,
        VariableScope::Global if list::is_of_session(name) => return Err(errors::only_of_session(name)),
        VariableScope::Global => {
            fresh = environment(engine, &env.client);
            &fresh
        }
    };
    get(engine, env, name).ok_or_else(|| errors::unknown_variable(name))
}

/// All system variables with their values as SHOW VARIABLES shows them; for [`VariableScope::Global`] those of a new session.
pub(crate) fn all(engine: &EngineInner, env: &Env, scope: VariableScope) -> Vec<(&'static str, String)> {
    let fresh = (scope == VariableScope::Global).then(|| environment(engine, &env.client));
    let env = fresh.as_ref().unwrap_or(env);
    let wanted = names().filter(|name| scope != VariableScope::Global || !list::is_of_session(name));
    wanted.map(|name| (name, shown(name, get(engine, env, name).unwrap_or_default()))).collect()
}

/// The value of a system variable in a session, as text; `None` if there is none of this name.
fn get(engine: &EngineInner, env: &Env, name: &str) -> Option<String> {
    let (name, initial, usage) = list::find(name)?;
    if *usage == Use::Global {
        return Some(engine.globals.value(name).unwrap_or_else(|| (*initial).to_owned()));
    }
    let flag = |flag: bool| if flag { "1" } else { "0" }.to_owned();
    Some(match *name {
        "autocommit" => flag(env.autocommit.get()),
        "foreign_key_checks" => flag(env.foreign_keys.get()),
        "tx_read_only" | "transaction_read_only" => flag(env.read_only.get()),
        "sql_mode" => sql_mode::text_of(env.sql_mode.get()),
        "collation_connection" => env.collation.get().name().to_owned(),
        "character_set_connection" => env.collation.get().charset().to_owned(),
        "group_concat_max_len" => env.group_concat_max_len.get().to_string(),
        "innodb_lock_wait_timeout" => env.lock_wait.get().as_secs().to_string(),
        "innodb_rollback_on_timeout" => flag(engine.settings.rollback_on_timeout()),
        "secure_file_priv" => {
            let directory = engine.settings.files();
            directory.map_or_else(|| "NULL".to_owned(), |path| path.to_string_lossy().into_owned())
        }
        "max_statement_time" => format!("{:.6}", env.statement_time.get().unwrap_or_default().as_secs_f64()),
        name if name.starts_with("idle_") => env.idle_limits.get().seconds(name).to_string(),
        "last_insert_id" | "identity" => env.last_insert_id.get().to_string(),
        "auto_increment_increment" => env.numbers.get().auto_step.to_string(),
        "auto_increment_offset" => env.numbers.get().auto_offset.to_string(),
        "div_precision_increment" => env.numbers.get().division_digits.to_string(),
        "completion_type" => CompletionType::ALL[env.numbers.get().completion as usize].1.to_owned(),
        "in_transaction" => flag(env.in_transaction.get()),
        "insert_id" => env.numbers.get().insert_id.unwrap_or(0).to_string(),
        "sql_safe_updates" => flag(env.numbers.get().safe_updates),
        "sql_select_limit" => env.numbers.get().select_limit.to_string(),
        "transaction_isolation" | "tx_isolation" => env.isolation.get().name().to_owned(),
        "time_zone" => match env.clock.zone.get() {
            Zone::System => "SYSTEM".into(),
            Zone::Fixed(seconds) => {
                format!(
                    "{}{:02}:{:02}",
                    if seconds < 0 { '-' } else { '+' },
                    seconds.abs() / 3600,
                    seconds.abs() / 60 % 60
                )
            }
        },
        "timestamp" => format!("{}.{:06}", env.now_micros() / 1_000_000, env.now_micros() % 1_000_000),
        "version" => engine.server_version.clone(),
        "warning_count" => env.shown_warnings().len().to_string(),
        _ => env.system.borrow().get(name).cloned().unwrap_or_else(|| (*initial).to_owned()),
    })
}

/// The value of a session's variable as SHOW VARIABLES shows it; `None` if there is none of this name.
pub(crate) fn value_of(engine: &EngineInner, env: &Env, name: &str) -> Option<String> {
    let (name, ..) = list::find(name)?;
    get(engine, env, name).map(|value| shown(name, value))
}

/// A variable's value as SHOW VARIABLES shows it: switches are ON and OFF.
fn shown(name: &str, value: String) -> String {
    let switch = list::is_switch(name);
    match (switch, value.as_str()) {
        (true, "1") => "ON".into(),
        (true, "0") => "OFF".into(),
        _ => value,
    }
}

/// SET NAMES.
///
/// # Errors
/// 1115, 1273, 1235 for what the session cannot have.
pub(crate) fn set_names(engine: &EngineInner, env: &Env, charset: Option<&str>, collation: Option<&str>) -> Res<()> {
    let charset = charset.unwrap_or("utf8mb4");
    let names = ["character_set_client", "character_set_connection", "character_set_results", "collation_connection"];
    if let Some(set) = one_byte(env, charset) {
        set_texts(env, set.name, collation.map_or(Ok(Collation::DEFAULT), |name| stand_in(set, name))?);
        note(engine, env, &names);
        return Ok(());
    }
    let by_charset = Collation::of_charset(charset).ok_or_else(|| Collation::unknown_charset(charset))?;
    if !can_connect(env, by_charset) {
        return Err(errors::unsupported(format!("the character set {charset} for connections")));
    }
    let chosen = match collation {
        None => by_charset,
        Some(name) => Collation::by_name(name).ok_or_else(|| Collation::unknown(name))?,
    };
    set_texts(env, by_charset.charset(), chosen);
    note(engine, env, &names);
    Ok(())
}

/// The character set of one byte that the session's client may use by this name. No column has one: literals and what is computed of
/// them stay utf8mb4, so that nothing is lost before the results.
fn one_byte(env: &Env, name: &str) -> Option<&'static Set> {
    Set::named(name).filter(|_| env.transcodes.get())
}

/// The collation that literals have in the place of one of a character set of one byte.
///
/// # Errors
/// 1253, 1273
fn stand_in(set: &Set, name: &str) -> Res<Collation> {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix(set.name) {
        Some("_bin" | "_nopad_bin") => Ok(Collation::UTF8MB4_BIN),
        Some(rest) if rest.starts_with('_') => Ok(Collation::DEFAULT),
        _ if Collation::by_name(&name).is_some() => Err(errors::collation_charset(&name, set.name)),
        _ => Err(Collation::unknown(&name)),
    }
}

/// Sets `character_set_client`, `character_set_results` or `character_set_connection`.
///
/// # Errors
/// 1115, 1235 for what the session cannot have.
fn set_character_set(env: &Env, name: &str, given: &str) -> Res<()> {
    if given == "NULL" {
        return Ok(());
    }
    let (charset, collation) = match one_byte(env, given) {
        Some(set) => (set.name, Collation::DEFAULT),
        None => {
            let collation = Collation::of_charset(given).ok_or_else(|| Collation::unknown_charset(given))?;
            let alone = name == "character_set_connection" && env.texts.get().client != Charset::Latin1;
            if !can_connect(env, collation) || alone && collation.is_latin1() {
                return Err(errors::unsupported(format!("the character set {given} for connections")));
            }
            (collation.charset(), collation)
        }
    };
    match name {
        "character_set_connection" => env.collation.set(collation),
        "character_set_client" => set_charset(env, "character_set_client", charset),
        _ => set_charset(env, "character_set_results", charset),
    }
    Ok(())
}

/// Whether the session's client may use a character set. utf8mb3 and ascii are parts of UTF-8. Literals are in latin1 only where
/// statements are, too: they would lose what latin1 lacks.
fn can_connect(env: &Env, collation: Collation) -> bool {
    matches!(collation.charset(), "utf8mb4" | "utf8mb3" | "ascii" | "binary")
        || collation.is_latin1() && env.transcodes.get()
}

/// Sets all three character sets of a connection.
fn set_texts(env: &Env, charset: &str, collation: Collation) {
    env.collation.set(collation);
    for name in ["character_set_client", "character_set_results"] {
        set_charset(env, name, charset);
    }
}

/// Sets `character_set_client` or `character_set_results`.
fn set_charset(env: &Env, name: &'static str, charset: &str) {
    let mut texts = env.texts.get();
    if name == "character_set_client" {
        texts.client = Charset::named(charset)
    } else {
        texts.results = Charset::named(charset)
    }
    env.texts.set(texts);
    if texts.client != Charset::Latin1 && env.collation.get().is_latin1() {
        env.collation.set(Collation::DEFAULT);
    }
    env.system.borrow_mut().insert(name, charset.to_owned());
}

/// Character set and collation of texts that come and go, by the number of the collation; one that is not known, or that
/// connections cannot have, changes nothing.
pub(crate) fn set_connection(env: &Env, number: u16) {
    if let Some(set) = Set::of_collation(number).filter(|_| env.transcodes.get()) {
        let chosen = if set.compares_bytes(number) { Collation::UTF8MB4_BIN } else { Collation::DEFAULT };
        return set_texts(env, set.name, chosen);
    }
    let Some(chosen) = Collation::all().find(|collation| collation.0 == number) else { return };
    if can_connect(env, chosen) {
        set_texts(env, chosen.charset(), chosen);
    }
}

/// SET TRANSACTION. `is_open` says whether the session has begun a transaction.
///
/// # Errors
/// 1231 for what is no level, 1568 within a transaction.
pub(crate) fn set_transaction(
    engine: &EngineInner,
    env: &Env,
    is_open: bool,
    (level, read_only, scope): (Option<&str>, Option<bool>, IsolationScope),
) -> Res<()> {
    if scope == IsolationScope::Global {
        let access = read_only.map(|read_only| ("tx_read_only", if read_only { "1" } else { "0" }));
        let level = level.map(|level| ("transaction_isolation", level));
        let mut all = level.into_iter().chain(access);
        return all
            .try_for_each(|(name, value)| set_system(engine, env, true, name, Some(&text_value(value)), || Ok(())));
    }
    if scope == IsolationScope::Next && is_open {
        return Err(errors::transaction_in_progress());
    }
    let level = level.map(isolation_level).transpose()?;
    match scope {
        IsolationScope::Next => {
            env.next_isolation.set(level.or(env.next_isolation.get()));
            env.next_read_only.set(read_only.or(env.next_read_only.get()));
        }
        _ => {
            env.isolation.set(level.unwrap_or(env.isolation.get()));
            env.read_only.set(read_only.unwrap_or(env.read_only.get()));
        }
    }
    Ok(())
}

/// An isolation level by its name.
fn isolation_level(name: &str) -> Res<Isolation> {
    let level = Isolation::ALL.iter().find(|level| level.name() == name);
    level.copied().ok_or_else(|| errors::wrong_variable_value("tx_isolation", name))
}

/// Gives a system variable a value; `None` for its first one. `commit` ends the open transaction, before each statement is one of
/// its own again.
///
/// # Errors
/// 1193, 1228 to 1232, 1238, 1621; those of `commit`.
pub(crate) fn set_system(
    engine: &EngineInner,
    env: &Env,
    global: bool,
    name: &str,
    value: Option<&UserValue>,
    commit: impl FnOnce() -> Res<()>,
) -> Res<()> {
    let (name, initial, usage) = list::find(name).ok_or_else(|| errors::unknown_variable(name))?;
    check_scope(name, *usage, global)?;
    if value.is_none() && list::has_no_default(name) {
        return Err(errors::no_variable_default(name));
    }
    if *usage == Use::Fixed {
        let current = get(engine, env, name).unwrap_or_default();
        // DEFAULT is the value that it has.
        let same = value.is_none_or(|value| switch_text(&text(value)) == switch_text(&current));
        return if same { Ok(()) } else { Err(errors::read_only_variable(name)) };
    }
    if global {
        return global::set(engine, env, name, *usage, value);
    }
    let value = match value {
        Some(value) => value.clone(),
        None if list::is_of_session(name) => text_value(initial),
        None => text_value(&read(engine, env, name, VariableScope::Global)?),
    };
    if *name == "autocommit" && !env.autocommit.get() && switch_text(&text(&value)) == "1" {
        commit()?;
    }
    apply(env, name, *usage, &value)?;
    note(engine, env, &[name]);
    Ok(())
}

/// Whether a variable can be set for all sessions, or for this one.
///
/// Source: MariaDB, `set_var::check` in `sql/set_var.cc`: in this order.
fn check_scope(name: &str, usage: Use, global: bool) -> Res<()> {
    if list::is_read_only(name, usage) {
        return Err(errors::read_only_variable(name));
    }
    match global {
        true if name == "sql_log_bin" => Err(errors::only_of_session(name)),
        true if list::is_of_session(name) => Err(errors::session_to_set(name)),
        false if list::is_global(name, usage) => Err(errors::global_to_set(name)),
        false if list::is_read_only_in_sessions(name) => Err(errors::read_only_in_session(name)),
        _ => Ok(()),
    }
}

/// Gives a session's variable a value.
///
/// # Errors
/// 1231 and others, for a value that the variable cannot have.
fn apply(env: &Env, name: &'static str, usage: Use, value: &UserValue) -> Res<()> {
    if matches!(name, "identity" | "last_insert_id") {
        env.last_insert_id.set(fitting_number(env, name, value, 0, u64::MAX)?);
        return Ok(());
    }
    if usage == Use::Effective {
        return set_effective(env, name, value);
    }
    env.system.borrow_mut().insert(name, text(value));
    Ok(())
}

/// Notes for the client that system variables were set.
fn note(engine: &EngineInner, env: &Env, names: &[&'static str]) {
    if !env.tells_changes() {
        return;
    }
    let tracked = value_of(engine, env, "session_track_system_variables").unwrap_or_default();
    let is_tracked = |name: &str| tracked.split(',').any(|one| one.trim() == "*" || one.trim() == name);
    for name in names.iter().filter(|name| is_tracked(name)) {
        if let Some(value) = value_of(engine, env, name) {
            env.note_variable(name, value);
        }
    }
}

fn switch_text(text: &str) -> &str {
    match text.to_ascii_uppercase().as_str() {
        "ON" | "TRUE" => "1",
        "OFF" | "FALSE" => "0",
        _ => text,
    }
}

/// A text as a value.
pub(crate) fn text_value(text: &str) -> UserValue {
    UserValue { value: Datum::text(text), ty: SqlType::varchar(text.len() as u32, Collation::DEFAULT) }
}

/// A value's text.
pub(crate) fn text(value: &UserValue) -> String {
    match value.to_param() {
        Param::Null => "NULL".into(),
        Param::Int(value) => value.to_string(),
        Param::Uint(value) => value.to_string(),
        Param::Double(value) => value.to_string(),
        Param::Bytes(bytes) | Param::Typed(_, bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

fn set_effective(env: &Env, name: &str, value: &UserValue) -> Res<()> {
    let given = text(value);
    let wrong = || errors::wrong_variable_value(name, &given);
    let switch = || match switch_text(&given) {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(wrong()),
    };
    match name {
        "autocommit" => {
            env.autocommit.set(switch()?);
        }
        "foreign_key_checks" => env.foreign_keys.set(switch()?),
        "tx_read_only" | "transaction_read_only" => env.read_only.set(switch()?),
        "sql_mode" => {
            let given = if value.ty.base.is_integer() {
                return Err(errors::unsupported("sql_mode as a number"));
            } else {
                given.clone()
            };
            let refused = |word: &str| REFUSED_MODES.iter().any(|mode| word.trim().eq_ignore_ascii_case(mode));
            if let Some(word) = given.split(',').find(|word| refused(word)) {
                return Err(errors::unsupported(format!("sql_mode {word}")));
            }
            env.sql_mode.set(sql_mode::parse(&given).map_err(|word| errors::wrong_variable_value(name, word))?);
        }
        "character_set_client" | "character_set_results" | "character_set_connection" => {
            set_character_set(env, name, &given)?;
        }
        "collation_connection" => {
            if let Some(set) = given.split('_').next().and_then(|charset| one_byte(env, charset)) {
                env.collation.set(stand_in(set, &given)?);
                return Ok(());
            }
            let collation = Collation::by_name(&given).ok_or_else(|| Collation::unknown(&given))?;
            if collation.is_latin1() && env.texts.get().client != Charset::Latin1 {
                return Err(errors::unsupported(format!("the collation {given} for connections")));
            }
            env.collation.set(collation);
        }
        "innodb_lock_wait_timeout" => {
            env.lock_wait.set(Duration::from_secs(fitting_number(env, name, value, 0, 1 << 30)?));
        }
        _ if name.starts_with("idle_") => {
            let seconds = fitting_number(env, name, value, 0, IDLE_SECONDS_MAX)?;
            env.idle_limits.set(env.idle_limits.get().with(name, seconds));
        }
        "time_zone" => env.clock.zone.set(zone(&given).ok_or_else(|| errors::unknown_time_zone(&given))?),
        "group_concat_max_len" => {
            env.group_concat_max_len.set(fitting_number(env, name, value, 4, u64::MAX)? as usize);
        }
        "max_statement_time" => {
            let seconds = given.parse::<f64>().map_err(|_| wrong())?.clamp(0.0, 31_536_000.0);
            env.statement_time.set((seconds > 0.0).then(|| Duration::from_secs_f64(seconds)));
        }
        "sql_safe_updates" | "completion_type" => {
            let chosen = with_choice(env.numbers.get(), name, value);
            env.numbers.set(chosen.ok_or_else(wrong)?);
        }
        "sql_select_limit"
        | "div_precision_increment"
        | "auto_increment_increment"
        | "auto_increment_offset"
        | "insert_id" => {
            env.numbers.set(with_number(env, env.numbers.get(), name, value)?);
        }
        "timestamp" => {
            let seconds: f64 = given.parse().map_err(|_| wrong())?;
            env.clock.fixed_time.set((seconds != 0.0).then_some((seconds * 1e6) as i64));
        }
        _ => {
            let level = given.to_ascii_uppercase().replace(' ', "-");
            env.isolation.set(isolation_level(&level)?);
        }
    }
    Ok(())
}

/// The numbers of a session with another choice for one that has names; `None` if it is no such choice.
fn with_choice(numbers: Numbers, name: &str, value: &UserValue) -> Option<Numbers> {
    let given = text(value);
    if name == "sql_safe_updates" {
        let safe_updates = ["0", "1"].iter().position(|known| *known == switch_text(&given))? == 1;
        return Some(Numbers { safe_updates, ..numbers });
    }
    let at = if value.ty.base.is_integer() {
        given.parse().ok()
    } else {
        CompletionType::ALL.iter().position(|(_, name)| name.eq_ignore_ascii_case(&given))
    };
    let (completion, _) = *CompletionType::ALL.get(at?)?;
    Some(Numbers { completion, ..numbers })
}

/// The numbers of a session with another value for one of them.
fn with_number(env: &Env, numbers: Numbers, name: &str, value: &UserValue) -> Res<Numbers> {
    let cut = |low, high| fitting_number(env, name, value, low, high);
    Ok(match name {
        "sql_select_limit" => Numbers { select_limit: cut(0, u64::MAX)?, ..numbers },
        "div_precision_increment" => Numbers { division_digits: cut(0, 38)? as u8, ..numbers },
        "auto_increment_increment" => Numbers { auto_step: cut(1, 65_535)?, ..numbers },
        "auto_increment_offset" => Numbers { auto_offset: cut(1, 65_535)?, ..numbers },
        _ => Numbers { insert_id: Some(cut(0, u64::MAX)?).filter(|id| *id > 0), ..numbers },
    })
}

/// A value as a number, cut to what the variable may be.
fn fitting_number(env: &Env, name: &str, value: &UserValue, low: u64, high: u64) -> Res<u64> {
    let given = text(value);
    if !value.ty.base.is_integer() && !given.bytes().all(|byte| byte.is_ascii_digit()) || given.is_empty() {
        return Err(errors::wrong_variable_type(name));
    }
    let number = given.parse::<i128>().map_err(|_| errors::wrong_variable_type(name))?;
    let fitting = number.clamp(i128::from(low), i128::from(high)) as u64;
    if i128::from(fitting) != number {
        env.warn(errors::truncated_variable(name, &given));
    }
    Ok(fitting)
}

/// A time zone by `SYSTEM`, `UTC` or an offset.
pub(crate) fn zone(text: &str) -> Option<Zone> {
    if text.eq_ignore_ascii_case("SYSTEM") {
        return Some(Zone::System);
    }
    if text.eq_ignore_ascii_case("UTC") || text.eq_ignore_ascii_case("GMT") {
        return Some(Zone::Fixed(0));
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = sign * (hours * 3600 + minutes * 60);
    ((0..60).contains(&minutes) && (0..=14).contains(&hours) && (-46_799..=50_400).contains(&seconds))
        .then_some(Zone::Fixed(seconds))
}
