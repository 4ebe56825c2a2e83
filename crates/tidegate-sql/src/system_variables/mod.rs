//! System variables: their names, first values and uses.

pub(crate) mod mariadb;

/// What may be done with a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read only, here or everywhere: see [`is_read_only`].
    Fixed,
    /// Set for show: no result of this engine depends on it.
    Free,
    /// One value for all sessions, kept for show: SET GLOBAL.
    Global,
    /// Set with an effect, in `variables`.
    Effective,
}

/// System variables: name, value at the start, use.
#[rustfmt::skip]
pub(crate) static SYSTEM: &[(&str, &str, Use)] = &[
    ("auto_increment_increment", "1", Use::Effective), ("auto_increment_offset", "1", Use::Effective),
    ("autocommit", "1", Use::Effective), ("big_tables", "0", Use::Free), ("caching_sha2_password_auto_generate_rsa_keys", "1", Use::Fixed),
    ("caching_sha2_password_private_key_path", "private_key.pem", Use::Fixed), ("caching_sha2_password_public_key_path", "public_key.pem", Use::Fixed), ("character_set_client", "utf8mb4", Use::Effective),
    ("character_set_connection", "utf8mb4", Use::Effective), ("character_set_database", "utf8mb4", Use::Free),
    ("character_set_filesystem", "binary", Use::Free), ("character_set_results", "utf8mb4", Use::Effective),
    ("character_set_server", "utf8mb4", Use::Free), ("character_set_system", "utf8mb3", Use::Fixed),
    ("collation_connection", "utf8mb4_general_ci", Use::Effective), ("collation_database", "utf8mb4_general_ci", Use::Free),
    ("collation_server", "utf8mb4_general_ci", Use::Free), ("completion_type", "NO_CHAIN", Use::Effective),
    ("default_storage_engine", "InnoDB", Use::Free), ("note_verbosity", "basic", Use::Free), ("default_week_format", "0", Use::Fixed), ("div_precision_increment", "4", Use::Effective),
    ("event_scheduler", "OFF", Use::Global), ("foreign_key_checks", "1", Use::Effective), ("group_concat_max_len", "1048576", Use::Effective), ("have_profiling", "NO", Use::Fixed),
    ("hostname", "localhost", Use::Fixed), ("idle_readonly_transaction_timeout", "0", Use::Effective), ("idle_transaction_timeout", "0", Use::Effective),
    ("idle_write_transaction_timeout", "0", Use::Effective), ("in_transaction", "0", Use::Fixed), ("init_connect", "", Use::Global), ("innodb_lock_wait_timeout", "50", Use::Effective), ("innodb_rollback_on_timeout", "0", Use::Fixed),
    ("insert_id", "0", Use::Effective), ("interactive_timeout", "28800", Use::Free), ("last_insert_id", "0", Use::Effective), ("license", "Apache-2.0 OR MIT", Use::Fixed),
    ("lock_wait_timeout", "86400", Use::Free), ("long_query_time", "10.000000", Use::Free), ("lower_case_table_names", "0", Use::Fixed), ("max_allowed_packet", "1073741824", Use::Free),
    ("max_connections", "100000", Use::Global), ("max_statement_time", "0.000000", Use::Effective), ("net_buffer_length", "16384", Use::Free),
    ("net_read_timeout", "30", Use::Free), ("net_write_timeout", "60", Use::Free), ("optimizer_switch", "", Use::Free), ("performance_schema", "0", Use::Fixed),
    ("port", "0", Use::Fixed), ("protocol_compression_algorithms", "zlib,zstd,uncompressed", Use::Fixed), ("protocol_version", "10", Use::Fixed), ("query_cache_size", "0", Use::Global), ("query_cache_type", "OFF", Use::Free), ("read_only", "0", Use::Fixed),
    ("socket", "", Use::Fixed), ("sql_auto_is_null", "0", Use::Fixed), ("sql_big_selects", "1", Use::Free), ("gtid_purged", "", Use::Free), ("sql_log_bin", "1", Use::Free), ("sql_mode", "", Use::Effective),
    ("sql_notes", "1", Use::Free), ("sql_quote_show_create", "1", Use::Free), ("sql_safe_updates", "0", Use::Effective), ("sql_select_limit", "18446744073709551615", Use::Effective), ("sql_warnings", "0", Use::Free),
    ("storage_engine", "InnoDB", Use::Free), ("system_time_zone", "SYSTEM", Use::Fixed), ("time_zone", "SYSTEM", Use::Effective), ("timestamp", "0", Use::Effective),
    ("transaction_isolation", "REPEATABLE-READ", Use::Effective), ("transaction_read_only", "0", Use::Effective), ("tx_isolation", "REPEATABLE-READ", Use::Effective),
    ("tx_read_only", "0", Use::Effective), ("unique_checks", "1", Use::Free), ("version", "", Use::Fixed), ("version_comment", "Tidegate embedded engine", Use::Fixed),
    ("version_compile_machine", std::env::consts::ARCH, Use::Fixed), ("version_compile_os", std::env::consts::OS, Use::Fixed), ("wait_timeout", "28800", Use::Free), ("warning_count", "0", Use::Fixed), ("error_count", "0", Use::Fixed),
];

/// Variables of MariaDB that mean nothing here and that programs set all the same.
#[rustfmt::skip]
pub(crate) static MEANINGLESS: &[(&str, &str, Use)] = &[
    ("connect_timeout", "10", Use::Global), ("expire_logs_days", "0.000000", Use::Global),
    ("general_log", "0", Use::Global), ("innodb_buffer_pool_size", "134217728", Use::Global), ("innodb_file_per_table", "1", Use::Global),
    ("innodb_flush_log_at_trx_commit", "1", Use::Global), ("innodb_stats_on_metadata", "0", Use::Global), ("key_buffer_size", "134217728", Use::Global),
    ("local_infile", "1", Use::Global), ("log_bin_trust_function_creators", "0", Use::Global), ("log_output", "FILE", Use::Global),
    ("max_connect_errors", "100", Use::Global), ("slow_query_log", "0", Use::Free), ("sync_binlog", "0", Use::Global),
    ("table_open_cache", "2000", Use::Global), ("thread_cache_size", "151", Use::Global),
    ("bulk_insert_buffer_size", "8388608", Use::Free), ("innodb_strict_mode", "1", Use::Free), ("join_buffer_size", "262144", Use::Free),
    ("max_error_count", "64", Use::Free), ("max_heap_table_size", "16777216", Use::Free), ("max_join_size", "18446744073709551615", Use::Free),
    ("max_sort_length", "1024", Use::Free), ("optimizer_search_depth", "62", Use::Free), ("profiling", "0", Use::Free),
    ("read_buffer_size", "131072", Use::Free), ("read_rnd_buffer_size", "262144", Use::Free), ("sort_buffer_size", "2097152", Use::Free),
    ("tmp_table_size", "16777216", Use::Free),
];

/// A variable by its name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static (&'static str, &'static str, Use)> {
    let own = SYSTEM.iter().chain(MEANINGLESS).find(|(known, ..)| known.eq_ignore_ascii_case(name));
    own.or_else(|| {
        let name = name.to_ascii_lowercase();
        mariadb::find(mariadb::SWITCHES, &name).or_else(|| mariadb::find(mariadb::OTHERS, &name))
    })
}

/// Whether a variable is a number without a sign.
pub(crate) fn is_unsigned(name: &str) -> bool {
    find(name).is_some_and(|(_, first, _)| first.parse::<u64>().is_ok()) && !is_switch(name)
}

/// Whether a variable is a number with a fraction.
pub(crate) fn is_real(name: &str) -> bool {
    matches!(name, "expire_logs_days" | "long_query_time" | "max_statement_time" | "timestamp")
        || mariadb::find(mariadb::OTHERS, name)
            .is_some_and(|(_, first, _)| first.contains('.') && first.parse::<f64>().is_ok())
}

/// Variables that each session has for itself and none begins with a common value of.
const OF_SESSIONS: &[&str] = &[
    "default_master_connection",
    "error_count",
    "external_user",
    "gtid_purged",
    "gtid_seq_no",
    "identity",
    "in_transaction",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "proxy_user",
    "pseudo_slave_mode",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "skip_parallel_replication",
    "skip_replication",
    "timestamp",
    "warning_count",
    "wsrep_gtid_seq_no",
];

/// Variables that MariaDB lets sessions change and that have one value here.
const KEPT: &[&str] = &[
    "check_constraint_checks",
    "default_regex_flags",
    "default_week_format",
    "lc_time_names",
    "old",
    "old_mode",
    "rand_seed1",
    "rand_seed2",
    "sql_auto_is_null",
    "sql_if_exists",
    "system_versioning_asof",
    "updatable_views_with_limit",
];

/// Whether each session has a value of its own and none begins with a common one.
pub(crate) fn is_of_session(name: &str) -> bool {
    OF_SESSIONS.contains(&name)
}

/// Whether there is one value for all sessions.
pub(crate) fn is_global(name: &str, usage: Use) -> bool {
    match usage {
        Use::Global => true,
        Use::Fixed => !is_of_session(name) && !KEPT.contains(&name),
        Use::Free | Use::Effective => false,
    }
}

/// Whether MariaDB refuses any value for a variable, also the one that it has.
pub(crate) fn is_read_only(name: &str, usage: Use) -> bool {
    usage == Use::Fixed && name != "read_only" && !KEPT.contains(&name)
}

/// Whether a session can read its value and only SET GLOBAL change that of sessions to come.
pub(crate) fn is_read_only_in_sessions(name: &str) -> bool {
    matches!(name, "max_allowed_packet" | "max_user_connections" | "net_buffer_length")
}

/// Whether there is no value that SET … = DEFAULT could mean.
pub(crate) fn has_no_default(name: &str) -> bool {
    matches!(name, "identity" | "last_insert_id" | "rand_seed1" | "rand_seed2")
}

/// Variables whose value is NULL where there is none, not an empty text.
const NULL_AT_FIRST: &[&str] = &[
    "default_tmp_storage_engine",
    "enforce_storage_engine",
    "external_user",
    "init_file",
    "innodb_data_home_dir",
    "innodb_ft_aux_table",
    "innodb_ft_server_stopword_table",
    "innodb_ft_user_stopword_table",
    "innodb_monitor_disable",
    "innodb_monitor_enable",
    "innodb_monitor_reset",
    "innodb_monitor_reset_all",
    "innodb_tmpdir",
    "lc_messages_dir",
    "log_bin_basename",
    "log_bin_index",
    "proxy_user",
    "relay_log",
];

/// Whether a variable's value is NULL.
pub(crate) fn is_null(name: &str, value: &str) -> bool {
    match value {
        "" => NULL_AT_FIRST.contains(&name),
        "NULL" => name == "secure_file_priv",
        _ => false,
    }
}

/// Whether a variable is a switch, which SHOW VARIABLES shows as ON or OFF.
pub(crate) fn is_switch(name: &str) -> bool {
    matches!(
        name,
        "autocommit"
            | "big_tables"
            | "caching_sha2_password_auto_generate_rsa_keys"
            | "foreign_key_checks"
            | "general_log"
            | "innodb_file_per_table"
            | "innodb_rollback_on_timeout"
            | "innodb_stats_on_metadata"
            | "innodb_strict_mode"
            | "local_infile"
            | "log_bin_trust_function_creators"
            | "performance_schema"
            | "profiling"
            | "read_only"
            | "slow_query_log"
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
    ) || mariadb::find(mariadb::SWITCHES, name).is_some()
}

/// Whether there is a system variable of a name.
pub(crate) fn exists(name: &str) -> bool {
    find(&name.to_ascii_lowercase()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_scopes_name_variables_that_there_are() {
        for name in OF_SESSIONS {
            let (.., usage) = find(name).unwrap_or_else(|| panic!("{name}"));
            assert!(*usage != Use::Global, "{name}");
        }
        for name in NULL_AT_FIRST {
            assert!(find(name).is_some_and(|(_, first, _)| first.is_empty()), "{name}");
        }
        for name in KEPT {
            assert!(find(name).is_some_and(|(.., usage)| *usage == Use::Fixed), "{name}");
        }
    }
}
