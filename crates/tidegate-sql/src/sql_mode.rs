//! `sql_mode`: its words and their bits.

/// REAL is FLOAT.
pub(crate) const REAL_AS_FLOAT: u64 = 1 << 0;
/// A combination that leaves the table's options out of SHOW CREATE TABLE.
pub(crate) const ANSI: u64 = 1 << 18;
/// A combination, listed by its own name too.
const TRADITIONAL: u64 = 1 << 27;
/// `||` concatenates.
pub(crate) const PIPES_AS_CONCAT: u64 = 1 << 1;
/// Spaces may stand behind the name of a function, as they always may here.
const IGNORE_SPACE: u64 = 1 << 3;
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

/// Modes that decide how a text is read: a prepared statement and a view keep those that they were made under.
pub(crate) const READING: u64 = REAL_AS_FLOAT | PIPES_AS_CONCAT | ANSI_QUOTES | IGNORE_SPACE | NO_BACKSLASH_ESCAPES;

/// A mode whose bits that decide how a text is read are those of another one.
pub(crate) fn reading_as(mode: u64, made: u64) -> u64 {
    mode & !READING | made & READING
}

/// Modes by name; those without a constant above change nothing here and are kept for show.
#[rustfmt::skip]
static MODES: &[(&str, u64)] = &[
    ("REAL_AS_FLOAT", REAL_AS_FLOAT), ("PIPES_AS_CONCAT", PIPES_AS_CONCAT), ("ANSI_QUOTES", ANSI_QUOTES), ("IGNORE_SPACE", IGNORE_SPACE),
    ("ONLY_FULL_GROUP_BY", ONLY_FULL_GROUP_BY), ("NO_UNSIGNED_SUBTRACTION", 1 << 6), ("NO_DIR_IN_CREATE", 1 << 7),
    ("ANSI", ANSI),
    ("NO_AUTO_VALUE_ON_ZERO", NO_AUTO_VALUE_ON_ZERO), ("NO_BACKSLASH_ESCAPES", NO_BACKSLASH_ESCAPES),
    ("STRICT_TRANS_TABLES", STRICT_TRANS_TABLES), ("STRICT_ALL_TABLES", STRICT_ALL_TABLES),
    ("NO_ZERO_IN_DATE", NO_ZERO_IN_DATE), ("NO_ZERO_DATE", NO_ZERO_DATE),
    ("ERROR_FOR_DIVISION_BY_ZERO", ERROR_FOR_DIVISION_BY_ZERO), ("TRADITIONAL", TRADITIONAL), ("NO_AUTO_CREATE_USER", 1 << 28),
    ("NO_ENGINE_SUBSTITUTION", 1 << 30),
];

/// Modes that would change results and are not done: setting them is refused.
pub(crate) static REFUSED_MODES: &[&str] = &[
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
pub(crate) fn parse(text: &str) -> Result<u64, String> {
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
            "ANSI" => REAL_AS_FLOAT | PIPES_AS_CONCAT | ANSI_QUOTES | IGNORE_SPACE | ANSI,
            _ => MODES.iter().find(|(name, _)| *name == upper).map(|(_, bit)| *bit).ok_or_else(|| word.to_owned())?,
        };
    }
    Ok(bits)
}

/// The list of modes.
pub(crate) fn text_of(bits: u64) -> String {
    let names: Vec<&str> = MODES.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    names.join(",")
}
