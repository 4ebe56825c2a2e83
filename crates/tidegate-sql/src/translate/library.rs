//! What stands above the translator and it calls: functions, and the tables that are made when they are read. Both translate
//! their parts with it, so that it is given them ([`Session`](super::Session)).

use sqlparser::ast::{Expr, Function};

use super::{Ex, Res, Translator, scope::Scope};

/// Functions by their names in capitals, and tables that are in no file.
pub(crate) struct Library {
    /// A call, with translated arguments.
    pub(crate) call: fn(&mut Translator<'_>, &str, &[Ex]) -> Res<Ex>,
    /// A call as it was parsed.
    pub(crate) function: fn(&mut Translator<'_>, &str, &Function, &Scope<'_>) -> Res<Ex>,
    /// A form that the parser wrote as a call of an internal function.
    pub(crate) special: fn(&mut Translator<'_>, &str, &[&Expr], &Scope<'_>) -> Res<Ex>,
    /// `date + INTERVAL …`, or `-` if the flag is set.
    pub(crate) interval: fn(&mut Translator<'_>, Ex, &Expr, bool, &Scope<'_>) -> Res<Ex>,
    /// `text COLLATE name`.
    pub(crate) collate: fn(&mut Translator<'_>, Ex, &str) -> Res<Ex>,
    /// Whether there is a function.
    pub(crate) exists: fn(&str) -> bool,
    /// Whether a function is an aggregate.
    pub(crate) is_aggregate: fn(&str) -> bool,
    /// A table of `information_schema`, which has the name of the schema as it was written, its own and an alias.
    pub(crate) information_schema: fn(&mut Translator<'_>, &str, &str, Option<String>, &mut Scope<'_>) -> Res<String>,
    /// A table of `mysql`; `None` if there is none of this name.
    pub(crate) mysql_schema: fn(&mut Translator<'_>, &str, &str, Option<String>, &mut Scope<'_>) -> Res<Option<String>>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}
