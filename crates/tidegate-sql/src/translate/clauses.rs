//! Clauses of queries that there are in other dialects only.

use sqlparser::ast::{Select, WildcardAdditionalOptions};

use super::Res;
use crate::errors;

/// Whether `*` stands alone.
///
/// # Errors
/// 1235 otherwise.
pub(super) fn check_wildcard(options: &WildcardAdditionalOptions) -> Res<()> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: None,
        opt_exclude: None,
        opt_except: None,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    } = options
    else {
        return Err(errors::unsupported("options of *"));
    };
    Ok(())
}

/// Whether a query has clauses of MariaDB only, and none that is not done.
///
/// # Errors
/// 1235 otherwise.
pub(super) fn check_clauses(select: &Select) -> Res<()> {
    if select.into.is_some() {
        return Err(errors::unsupported("SELECT … INTO"));
    }
    if select.top.is_some()
        || select.exclude.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.qualify.is_some()
        || select.value_table_mode.is_some()
    {
        return Err(errors::unsupported("this clause of SELECT"));
    }
    Ok(())
}
