//! SET, system variables and user variables.

use std::time::Duration;

use tidegate_rows::{Column, Flow, Param, ServerError, Sink, SinkClosed, Summary, Value};

use crate::{
    engine::EngineInner,
    errors,
    parse::{IsolationScope, PrepareSource, SetItem, SetValue, Span},
    session::{Core, Env, Numbers, UserValue, Zone},
    value::{Base, Datum, SqlType, collation::Collation},
};

type Res<T> = Result<T, ServerError>;

/// REAL is FLOAT.
pub(crate) const REAL_AS_FLOAT: u64 = 1 << 0;
/// A combination that leaves the table's options out of SHOW CREATE TABLE.
pub(crate) const ANSI: u64 = 1 << 18;
/// A combination, listed by its own name too.
const TRADITIONAL: u64 = 1 << 27;
/// `||` concatenates.
pub(crate) const PIPES_AS_CONCAT: u64 = 1 << 1;
/// `"` quotes names.
pub(crate) const ANSI_QUOTES: u64 = 1 << 2;
/// Strict for transactional tables: all of ours.
pub(crate) const STRICT_TRANS_TABLES: u64 = 1 << 21;
/// Strict for all tables.
pub(crate) const STRICT_ALL_TABLES: u64 = 1 << 22;
/// Dates with a zero month or day are errors.
pub(crate) const NO_ZERO_IN_DATE: u64 = 1 << 23;
/// The zero date is an error in strict mode.
pub(crate) const NO_ZERO_DATE: u64 = 1 << 24;
/// Division by zero warns.
pub(crate) const ERROR_FOR_DIVISION_BY_ZERO: u64 = 1 << 26;
/// 0 is a value for AUTO_INCREMENT columns.
pub(crate) const NO_AUTO_VALUE_ON_ZERO: u64 = 1 << 19;
/// A select list names what its groups determine only.
pub(crate) const ONLY_FULL_GROUP_BY: u64 = 1 << 5;
/// `\` is a character like others.
pub(crate) const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// Modes by name; those without a constant above change nothing here and are kept for show.
#[rustfmt::skip]
static MODES: &[(&str, u64)] = &[
    ("REAL_AS_FLOAT", REAL_AS_FLOAT), ("PIPES_AS_CONCAT", PIPES_AS_CONCAT), ("ANSI_QUOTES", ANSI_QUOTES), ("IGNORE_SPACE", 1 << 3),
    ("ONLY_FULL_GROUP_BY", ONLY_FULL_GROUP_BY), ("NO_UNSIGNED_SUBTRACTION", 1 << 6), ("NO_DIR_IN_CREATE", 1 << 7),
    ("ANSI", ANSI),
    ("NO_AUTO_VALUE_ON_ZERO", NO_AUTO_VALUE_ON_ZERO), ("NO_BACKSLASH_ESCAPES", NO_BACKSLASH_ESCAPES),
    ("STRICT_TRANS_TABLES", STRICT_TRANS_TABLES), ("STRICT_ALL_TABLES", STRICT_ALL_TABLES),
    ("NO_ZERO_IN_DATE", NO_ZERO_IN_DATE), ("NO_ZERO_DATE", NO_ZERO_DATE),
    ("ERROR_FOR_DIVISION_BY_ZERO", ERROR_FOR_DIVISION_BY_ZERO), ("TRADITIONAL", TRADITIONAL), ("NO_AUTO_CREATE_USER", 1 << 28),
    ("NO_ENGINE_SUBSTITUTION", 1 << 30),
];

/// Modes that would change results and are not done: setting them is refused.
static REFUSED_MODES: &[&str] = &[
    "HIGH_NOT_PRECEDENCE",
    "PAD_CHAR_TO_FULL_LENGTH",
    "ALLOW_INVALID_DATES",
    "NO_UNSIGNED_SUBTRACTION",
    "ORACLE",
    "MSSQL",
    "POSTGRESQL",
    "DB2",
    "MAXDB",
    "TIME_ROUND_FRACTIONAL",
    "SIMULTANEOUS_ASSIGNMENT",
    "EMPTY_STRING_IS_NULL",
];

/// Reads a list of modes; the error is the word that is none.
pub(crate) fn parse_sql_mode(text: &str) -> Result<u64, String> {
    let mut bits = 0;
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let upper = word.to_ascii_uppercase();
        bits |= match upper.as_str() {
            "TRADITIONAL" => {
                STRICT_TRANS_TABLES
                    | STRICT_ALL_TABLES
                    | NO_ZERO_IN_DATE
                    | NO_ZERO_DATE
                    | ERROR_FOR_DIVISION_BY_ZERO
                    | TRADITIONAL
                    | 1 << 28
                    | 1 << 30
            }
            "ANSI" => REAL_AS_FLOAT | PIPES_AS_CONCAT | ANSI_QUOTES | 1 << 3 | ANSI,
            _ => MODES.iter().find(|(name, _)| *name == upper).map(|(_, bit)| *bit).ok_or_else(|| word.to_owned())?,
        };
    }
    Ok(bits)
}

/// The list of modes.
pub(crate) fn sql_mode_text(bits: u64) -> String {
    let names: Vec<&str> = MODES.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    names.join(",")
}

/// What may be done with a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Read only.
    Fixed,
    /// Set for show: no result of this engine depends on it.
    Free,
    /// Set with an effect, in [`set_effective`].
    Effective,
}

/// System variables: name, value at the start, use.
#[rustfmt::skip]
static SYSTEM: &[(&str, &str, Use)] = &[
    ("auto_increment_increment", "1", Use::Effective), ("auto_increment_offset", "1", Use::Effective),
    ("autocommit", "1", Use::Effective), ("big_tables", "0", Use::Free), ("character_set_client", "utf8mb4", Use::Effective),
    ("character_set_connection", "utf8mb4", Use::Effective), ("character_set_database", "utf8mb4", Use::Free),
    ("character_set_filesystem", "binary", Use::Free), ("character_set_results", "utf8mb4", Use::Effective),
    ("character_set_server", "utf8mb4", Use::Free), ("character_set_system", "utf8mb3", Use::Fixed),
    ("collation_connection", "utf8mb4_general_ci", Use::Effective), ("collation_database", "utf8mb4_general_ci", Use::Free),
    ("collation_server", "utf8mb4_general_ci", Use::Free), ("completion_type", "NO_CHAIN", Use::Free),
    ("default_storage_engine", "InnoDB", Use::Free), ("note_verbosity", "basic", Use::Free), ("default_week_format", "0", Use::Fixed), ("div_precision_increment", "4", Use::Effective),
    ("foreign_key_checks", "1", Use::Effective), ("group_concat_max_len", "1048576", Use::Effective), ("have_profiling", "NO", Use::Fixed),
    ("hostname", "localhost", Use::Fixed), ("init_connect", "", Use::Free), ("innodb_lock_wait_timeout", "50", Use::Effective),
    ("insert_id", "0", Use::Effective), ("interactive_timeout", "28800", Use::Free), ("last_insert_id", "0", Use::Fixed), ("license", "Apache-2.0 OR MIT", Use::Fixed),
    ("lock_wait_timeout", "86400", Use::Free), ("long_query_time", "10", Use::Free), ("lower_case_table_names", "0", Use::Fixed), ("max_allowed_packet", "1073741824", Use::Free),
    ("max_connections", "100000", Use::Free), ("max_statement_time", "0.000000", Use::Effective), ("net_buffer_length", "16384", Use::Free),
    ("net_read_timeout", "30", Use::Free), ("net_write_timeout", "60", Use::Free), ("optimizer_switch", "", Use::Free), ("performance_schema", "0", Use::Fixed),
    ("port", "0", Use::Fixed), ("protocol_version", "10", Use::Fixed), ("query_cache_size", "0", Use::Free), ("query_cache_type", "OFF", Use::Free), ("read_only", "0", Use::Fixed),
    ("socket", "", Use::Fixed), ("sql_auto_is_null", "0", Use::Fixed), ("sql_big_selects", "1", Use::Free), ("gtid_purged", "", Use::Free), ("sql_log_bin", "1", Use::Free), ("sql_mode", "", Use::Effective),
    ("sql_notes", "1", Use::Free), ("sql_quote_show_create", "1", Use::Free), ("sql_safe_updates", "0", Use::Effective), ("sql_select_limit", "18446744073709551615", Use::Effective), ("sql_warnings", "0", Use::Free),
    ("storage_engine", "InnoDB", Use::Free), ("system_time_zone", "SYSTEM", Use::Fixed), ("time_zone", "SYSTEM", Use::Effective), ("timestamp", "0", Use::Effective),
    ("transaction_isolation", "REPEATABLE-READ", Use::Effective), ("transaction_read_only", "0", Use::Fixed), ("tx_isolation", "REPEATABLE-READ", Use::Effective),
    ("tx_read_only", "0", Use::Fixed), ("unique_checks", "1", Use::Free), ("version", "", Use::Fixed), ("version_comment", "Tidegate embedded engine", Use::Fixed),
    ("version_compile_machine", std::env::consts::ARCH, Use::Fixed), ("version_compile_os", std::env::consts::OS, Use::Fixed), ("wait_timeout", "28800", Use::Free), ("warning_count", "0", Use::Fixed), ("error_count", "0", Use::Fixed),
];

/// The names of all system variables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SYSTEM.iter().map(|(name, ..)| *name)
}

/// The value of a system variable as text; `None` if there is none of this name.
pub(crate) fn get(engine: &EngineInner, env: &Env, name: &str) -> Option<String> {
    let (name, initial, _) = SYSTEM.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))?;
    let flag = |flag: bool| if flag { "1" } else { "0" }.to_owned();
    Some(match *name {
        "autocommit" => flag(env.autocommit.get()),
        "foreign_key_checks" => flag(env.foreign_keys.get()),
        "sql_mode" => sql_mode_text(env.sql_mode.get()),
        "collation_connection" => env.collation.get().name().to_owned(),
        "character_set_connection" => env.collation.get().charset().to_owned(),
        "group_concat_max_len" => env.group_concat_max_len.get().to_string(),
        "innodb_lock_wait_timeout" => env.lock_wait.get().as_secs().to_string(),
        "max_statement_time" => format!("{:.6}", env.statement_time.get().unwrap_or_default().as_secs_f64()),
        "last_insert_id" => env.last_insert_id.get().to_string(),
        "auto_increment_increment" => env.numbers.get().auto_step.to_string(),
        "auto_increment_offset" => env.numbers.get().auto_offset.to_string(),
        "div_precision_increment" => env.numbers.get().division_digits.to_string(),
        "insert_id" => env.numbers.get().insert_id.unwrap_or(0).to_string(),
        "sql_safe_updates" => flag(env.numbers.get().safe_updates),
        "sql_select_limit" => env.numbers.get().select_limit.to_string(),
        "transaction_isolation" | "tx_isolation" => {
            if env.read_committed.get() {
                "READ-COMMITTED".into()
            } else {
                "REPEATABLE-READ".into()
            }
        }
        "time_zone" => match env.zone.get() {
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

/// A variable's value as SHOW VARIABLES shows it: switches are ON and OFF.
pub(crate) fn shown(name: &str, value: String) -> String {
    let switch = matches!(
        name,
        "autocommit"
            | "big_tables"
            | "foreign_key_checks"
            | "performance_schema"
            | "read_only"
            | "sql_auto_is_null"
            | "sql_big_selects"
            | "sql_log_bin"
            | "sql_notes"
            | "sql_quote_show_create"
            | "sql_safe_updates"
            | "sql_warnings"
            | "transaction_read_only"
            | "tx_read_only"
            | "unique_checks"
    );
    match (switch, value.as_str()) {
        (true, "1") => "ON".into(),
        (true, "0") => "OFF".into(),
        _ => value,
    }
}

/// Carries out SET.
///
/// # Errors
/// 1193, 1231, 1232, 1238 and what the expressions say.
pub(crate) fn set(core: &mut Core, items: &[SetItem], sql: &[u8]) -> Res<()> {
    for item in items {
        match item {
            SetItem::User { name, value } => {
                let value = evaluate(core, sql, *value)?;
                core.env.set_user_variable(name.trim_matches(['\'', '"', '`']), value);
            }
            SetItem::Names { charset, collation } => names_of(core, charset.as_deref(), collation.as_deref())?,
            SetItem::Isolation { level, scope } => isolation(core, level, *scope)?,
            SetItem::System { global, name, value } => {
                let value = match value {
                    None => None,
                    Some(SetValue::Word(word)) => Some(text_value(word)),
                    Some(SetValue::Expr(span)) => Some(evaluate(core, sql, *span)?),
                };
                set_system(core, *global, name, value)?;
            }
        }
    }
    Ok(())
}

fn names_of(core: &mut Core, charset: Option<&str>, collation: Option<&str>) -> Res<()> {
    let charset = charset.unwrap_or("utf8mb4");
    let by_charset = Collation::of_charset(charset).ok_or_else(|| errors::unknown_charset(charset))?;
    if !matches!(by_charset.charset(), "utf8mb4" | "utf8mb3" | "ascii" | "binary") {
        return Err(errors::unsupported(format!("the character set {charset} for connections")));
    }
    let chosen = match collation {
        None => by_charset,
        Some(name) => Collation::by_name(name).ok_or_else(|| errors::unknown_collation(name))?,
    };
    // Texts are UTF-8 whatever the client calls it: utf8mb3 is a part of it.
    core.env.collation.set(chosen);
    let mut system = core.env.system.borrow_mut();
    for name in ["character_set_client", "character_set_results"] {
        system.insert(name, by_charset.charset().to_owned());
    }
    Ok(())
}

fn isolation(core: &mut Core, level: &str, scope: IsolationScope) -> Res<()> {
    if scope == IsolationScope::Global {
        return Err(errors::unsupported("SET GLOBAL TRANSACTION"));
    }
    if scope == IsolationScope::Next && core.in_explicit_transaction() {
        return Err(errors::transaction_in_progress());
    }
    let set = |read_committed: bool| match scope {
        IsolationScope::Next => core.env.next_read_committed.set(Some(read_committed)),
        _ => core.env.read_committed.set(read_committed),
    };
    match level {
        "" => {}
        "REPEATABLE-READ" => set(false),
        // What READ UNCOMMITTED allows need not happen.
        "READ-COMMITTED" | "READ-UNCOMMITTED" => set(true),
        // One writer and snapshots checked at the first write are serialisable, but reads alone are not locked.
        "SERIALIZABLE" => return Err(errors::unsupported("isolation level SERIALIZABLE")),
        other => return Err(errors::wrong_variable_value("tx_isolation", other)),
    }
    Ok(())
}

fn set_system(core: &mut Core, global: bool, name: &str, value: Option<UserValue>) -> Res<()> {
    let Some((name, initial, usage)) = SYSTEM.iter().find(|(known, ..)| *known == name) else {
        return Err(errors::unknown_variable(name));
    };
    if *usage == Use::Fixed {
        let current = get(&core.engine, &core.env, name).unwrap_or_default();
        let same = value.as_ref().is_some_and(|value| switch_text(&text(value)) == switch_text(&current));
        return if same { Ok(()) } else { Err(errors::read_only_variable(name)) };
    }
    if global && *usage == Use::Effective {
        return Err(errors::unsupported(format!("SET GLOBAL {name}")));
    }
    let value = match value {
        Some(value) => value,
        None if *name == "sql_mode" => text_value(&sql_mode_text(core.engine.settings.sql_mode())),
        None => text_value(initial),
    };
    if *usage == Use::Effective {
        return set_effective(core, name, &value);
    }
    core.env.system.borrow_mut().insert(name, text(&value));
    Ok(())
}

fn switch_text(text: &str) -> &str {
    match text.to_ascii_uppercase().as_str() {
        "ON" | "TRUE" => "1",
        "OFF" | "FALSE" => "0",
        _ => text,
    }
}

fn text_value(text: &str) -> UserValue {
    UserValue { value: Datum::text(text), ty: SqlType::varchar(text.len() as u32, Collation::DEFAULT) }
}

/// A value's text.
pub(crate) fn text(value: &UserValue) -> String {
    match value.to_param() {
        Param::Null => "NULL".into(),
        Param::Int(value) => value.to_string(),
        Param::Uint(value) => value.to_string(),
        Param::Double(value) => value.to_string(),
        Param::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

fn set_effective(core: &mut Core, name: &str, value: &UserValue) -> Res<()> {
    let given = text(value);
    let wrong = || errors::wrong_variable_value(name, &given);
    let switch = || match switch_text(&given) {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(wrong()),
    };
    match name {
        "autocommit" => {
            let on = switch()?;
            if on && !core.env.autocommit.get() {
                core.commit_open()?;
            }
            core.env.autocommit.set(on);
        }
        "foreign_key_checks" => {
            let on = switch()?;
            core.env.foreign_keys.set(on);
        }
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
            core.env.sql_mode.set(parse_sql_mode(&given).map_err(|word| errors::wrong_variable_value(name, word))?);
        }
        "character_set_client" | "character_set_results" | "character_set_connection" => {
            if given == "NULL" {
                return Ok(());
            }
            let collation = Collation::of_charset(&given).ok_or_else(|| errors::unknown_charset(&given))?;
            if collation.is_latin1() {
                return Err(errors::unsupported(format!("the character set {given} for connections")));
            }
            let name = match name {
                "character_set_connection" => {
                    core.env.collation.set(collation);
                    return Ok(());
                }
                "character_set_client" => "character_set_client",
                _ => "character_set_results",
            };
            core.env.system.borrow_mut().insert(name, collation.charset().to_owned());
        }
        "collation_connection" => {
            let collation = Collation::by_name(&given).ok_or_else(|| errors::unknown_collation(&given))?;
            if collation.is_latin1() {
                return Err(errors::unsupported(format!("the collation {given} for connections")));
            }
            core.env.collation.set(collation);
        }
        "innodb_lock_wait_timeout" => {
            core.env.lock_wait.set(Duration::from_secs(given.parse::<u64>().map_err(|_| wrong())?.clamp(0, 1 << 30)));
        }
        "time_zone" => core.env.zone.set(zone(&given).ok_or_else(|| errors::unknown_time_zone(&given))?),
        "group_concat_max_len" => {
            let most = given.parse::<usize>().map_err(|_| wrong())?;
            core.env.group_concat_max_len.set(most.max(4));
        }
        "max_statement_time" => {
            let seconds = given.parse::<f64>().map_err(|_| wrong())?.clamp(0.0, 31_536_000.0);
            core.env.statement_time.set((seconds > 0.0).then(|| Duration::from_secs_f64(seconds)));
        }
        "sql_safe_updates" => {
            let safe_updates = switch()?;
            core.env.numbers.set(Numbers { safe_updates, ..core.env.numbers.get() });
        }
        "sql_select_limit"
        | "div_precision_increment"
        | "auto_increment_increment"
        | "auto_increment_offset"
        | "insert_id" => {
            core.env.numbers.set(with_number(&core.env, core.env.numbers.get(), name, value)?);
        }
        "timestamp" => {
            let seconds: f64 = given.parse().map_err(|_| wrong())?;
            core.env.fixed_time.set((seconds != 0.0).then_some((seconds * 1e6) as i64));
        }
        _ => isolation(core, &given.to_ascii_uppercase().replace(' ', "-"), IsolationScope::Session)?,
    }
    Ok(())
}

/// The numbers of a session with another value for one of them, which is cut to what it may be.
fn with_number(env: &Env, numbers: Numbers, name: &str, value: &UserValue) -> Res<Numbers> {
    let given = text(value);
    if !value.ty.base.is_integer() && !given.bytes().all(|byte| byte.is_ascii_digit()) || given.is_empty() {
        return Err(errors::wrong_variable_type(name));
    }
    let number = given.parse::<i128>().map_err(|_| errors::wrong_variable_type(name))?;
    let cut = |low: u64, high: u64| {
        let fitting = number.clamp(i128::from(low), i128::from(high)) as u64;
        if i128::from(fitting) != number {
            env.warn(errors::truncated_variable(name, &given));
        }
        fitting
    };
    Ok(match name {
        "sql_select_limit" => Numbers { select_limit: cut(0, u64::MAX), ..numbers },
        "div_precision_increment" => Numbers { division_digits: cut(0, 38) as u8, ..numbers },
        "auto_increment_increment" => Numbers { auto_step: cut(1, 65_535), ..numbers },
        "auto_increment_offset" => Numbers { auto_offset: cut(1, 65_535), ..numbers },
        _ => Numbers { insert_id: Some(cut(0, u64::MAX)).filter(|id| *id > 0), ..numbers },
    })
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

/// The text that PREPARE compiles.
///
/// # Errors
/// None now: an unset variable is the text NULL, which is no statement.
pub(crate) fn prepare_source(core: &Core, source: &PrepareSource) -> Res<Vec<u8>> {
    Ok(match source {
        PrepareSource::Text(text) => text.clone().into_bytes(),
        PrepareSource::Variable(name) => text(&core.env.user_variable(name)).into_bytes(),
    })
}

/// The value of an expression, evaluated as a query.
fn evaluate(core: &mut Core, sql: &[u8], (from, to): Span) -> Res<UserValue> {
    let sql = format!("SELECT {}", String::from_utf8_lossy(&sql[from..to]));
    let mut first = First::default();
    core.run_own(&sql, false, &mut first).map_err(|error| match error {
        tidegate_rows::QueryError::Server(error) => error,
        other => errors::internal(other),
    })?;
    Ok(UserValue { value: first.value, ty: first.ty.unwrap_or_else(|| SqlType::new(Base::Null)) })
}

/// Runs a query whose only row goes into user variables; answers the number of rows.
///
/// # Errors
/// 1222 for another number of columns, 1172 for several rows, those of the query.
pub(crate) fn select_into(core: &mut Core, sql: &str, names: &[String]) -> Res<u64> {
    let mut row = OneRow::default();
    core.run_own(sql, false, &mut row).map_err(|error| match error {
        tidegate_rows::QueryError::Server(error) => error,
        other => errors::internal(other),
    })?;
    if row.width != names.len() {
        return Err(errors::union_columns());
    }
    if row.rows > 1 {
        return Err(errors::too_many_rows());
    }
    if row.rows == 0 {
        core.env.warn(errors::no_data());
        return Ok(0);
    }
    for (name, value) in names.iter().zip(row.values) {
        core.env.set_user_variable(
            name,
            UserValue { value: value.value, ty: value.ty.unwrap_or_else(|| SqlType::new(Base::Null)) },
        );
    }
    Ok(1)
}

/// Keeps the first row of a result, each column as [`First`] does.
#[derive(Default)]
struct OneRow {
    values: Vec<First>,
    width: usize,
    rows: usize,
}

impl Sink for OneRow {
    fn columns(&mut self, columns: &[Column]) {
        self.width = columns.len();
        for column in columns {
            let mut value = First::default();
            value.columns(std::slice::from_ref(column));
            self.values.push(value);
        }
    }
    fn begin_row(&mut self) {
        self.rows += 1;
    }
    fn value(&mut self, index: usize, value: Value<'_>) {
        if let (1, Some(kept)) = (self.rows, self.values.get_mut(index)) {
            kept.value(0, value);
        }
    }
    fn end_row(&mut self) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Keeps the first value of a result.
#[derive(Default)]
struct First {
    value: Datum,
    ty: Option<SqlType>,
}

impl Sink for First {
    fn columns(&mut self, columns: &[Column]) {
        use tidegate_rows::ColumnType as T;
        let Some(column) = columns.first() else { return };
        let base = match column.kind {
            T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong | T::Year => Base::Big,
            T::Float | T::Double => Base::Double,
            T::NewDecimal => Base::Decimal,
            _ => Base::Varchar,
        };
        let mut ty = SqlType::new(base);
        ty.unsigned = base == Base::Big && column.flags.is_unsigned();
        if base == Base::Decimal {
            (ty.length, ty.decimals) = (38, column.decimals);
        }
        if base == Base::Varchar {
            ty = SqlType::varchar(
                column.length,
                if column.collation == 63 && column.kind == T::VarString {
                    Collation::BINARY
                } else {
                    Collation::DEFAULT
                },
            );
        }
        self.ty = Some(ty);
    }
    fn begin_row(&mut self) {}
    fn value(&mut self, index: usize, value: Value<'_>) {
        if index > 0 {
            return;
        }
        let rep = self.ty.as_ref().map(SqlType::rep);
        self.value = match value {
            Value::Null => Datum::Null,
            Value::Int(value) => Datum::Int(value),
            Value::Uint(value) => Datum::from_u64(value),
            Value::Float(value) => Datum::Real(f64::from(value)),
            Value::Double(value) => Datum::Real(value),
            Value::Bytes(bytes) => match rep {
                Some(crate::value::Rep::Real) => Datum::Real(crate::value::number::parse_f64(bytes).value),
                Some(crate::value::Rep::Dec) => Datum::Blob(crate::value::number::parse_decimal(bytes).value.to_blob()),
                Some(crate::value::Rep::Blob) => Datum::Blob(bytes.into()),
                _ => Datum::text(bytes),
            },
        };
    }
    fn end_row(&mut self) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
