//! MySQL's errors: one constructor each, so that number, SQLSTATE and text stand in one place. Those of one topic have a file of
//! their own; here is what any statement may meet.

use tidegate_rows::ServerError;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $code:literal $state:literal $text:literal;)*) => {
        $($(#[$doc])*
        #[cold]
        pub(crate) fn $name($($arg: impl std::fmt::Display),*) -> ServerError {
            ServerError::new($code, $state, format!($text))
        })*
    };
}

// Behind the macro, which they use.
mod accounts;
mod definitions;
mod names;
mod programs;
mod values;
mod views;
mod warning;

pub(crate) use accounts::*;
pub(crate) use definitions::*;
pub(crate) use names::{is_of_names, is_of_unknown_name};
pub(crate) use programs::*;
pub(crate) use values::*;
pub(crate) use views::*;
pub(crate) use warning::Warning;

/// Number of [`interrupted`].
pub(crate) const INTERRUPTED: u16 = 1317;
/// Somebody changed the tables of a statement before it could begin.
pub(crate) const DEFINITION_CHANGED: u16 = 1412;
/// Number of [`table_exists`].
pub(crate) const TABLE_EXISTS: u16 = 1050;
/// There is no schema of this name.
pub(crate) const UNKNOWN_DATABASE: u16 = 1049;
/// Number of [`sequence_run_out`].
pub(crate) const SEQUENCE_RUN_OUT: u16 = 4084;
/// A statement has met a row that somebody else has locked, or must run as the schema's writer: it is undone, and runs again.
pub(crate) const STOPPED: u16 = 3572;

errors! {
    /// A value for a column that is generated.
    generated_value(column, table) = 1906 b"HY000" "The value specified for generated column '{column}' in table '{table}' has been ignored";
    /// Two clauses that do not go together.
    wrong_usage(a, b) = 1221 b"HY000" "Incorrect usage of {a} and {b}";
    /// A file that may not be read or written.
    secure_file_priv() = 1290 b"HY000" "The MariaDB server is running with the --secure-file-priv option so it cannot execute this statement";
    /// LOAD DATA LOCAL, which the server or the client does not have.
    local_infile_refused() = 4166 b"HY000" "The used command is not allowed because the MariaDB server or client has disabled the local infile capability";
    /// A file that is there is not written over.
    file_exists(file) = 1086 b"HY000" "File '{file}' already exists";
    /// A file that is not there, or cannot be used.
    file_not_found(file, cause) = 29 b"HY000" "File '{file}' not found ({cause})";
    /// A file that cannot be made.
    file_not_created(file, cause) = 1 b"HY000" "Can't create/write to file '{file}' ({cause})";
    /// A file that cannot be read.
    file_not_read(file, cause) = 1024 b"HY000" "Error reading file '{file}' ({cause})";
    /// A file that cannot be written.
    file_not_written(file, cause) = 3 b"HY000" "Error writing file '{file}' ({cause})";
    /// A line with fewer fields than are wanted.
    too_few_fields(row) = 1261 b"01000" "Row {row} doesn't contain data for all columns";
    /// A line with more fields than are wanted.
    too_many_fields(row) = 1262 b"01000" "Row {row} was truncated; it contained more data than there were input columns";
    /// NULL in a file for a column that cannot be NULL.
    null_to_not_null(column, row) = 1263 b"22004" "Column set to default value; NULL supplied to NOT NULL column '{column}' at row {row}";
    /// ENCLOSED BY or ESCAPED BY with several characters.
    wrong_field_terminators() = 1083 b"42000" "Field separator argument is not what is expected; check the manual";
    /// SELECT … INTO without a row.
    no_data() = 1329 b"02000" "No data - zero rows fetched, selected, or processed";
    /// SELECT … INTO with several rows.
    too_many_rows() = 1172 b"42000" "Result consisted of more than one row";
    /// `*` without FROM.
    no_tables_used() = 1096 b"HY000" "No tables used";
    /// A statement needs a current schema.
    no_database() = 1046 b"3D000" "No database selected";
    /// NULL for a NOT NULL column.
    null_not_allowed(column) = 1048 b"23000" "Column '{column}' cannot be null";
    /// A schema that does not exist.
    unknown_database(name) = 1049 b"42000" "Unknown database '{name}'";
    /// A name that more than one table has.
    ambiguous_column(name, place) = 1052 b"23000" "Column '{name}' in {place} is ambiguous";
    /// `sql_safe_updates` and an UPDATE or DELETE of a whole table.
    update_without_key() = 1175 b"HY000" "You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column";
    /// SET GLOBAL of a variable that only sessions have.
    session_to_set(name) = 1228 b"HY000" "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL";
    /// SET of a variable that sessions do not have.
    global_to_set(name) = 1229 b"HY000" "Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL";
    /// SET of a variable to DEFAULT that has none.
    no_variable_default(name) = 1230 b"42000" "Variable '{name}' doesn't have a default value";
    /// SET SESSION of a variable that only new sessions get another value of.
    read_only_in_session(name) = 1621 b"HY000" "SESSION variable '{name}' is read-only. Use SET GLOBAL to assign the value";
    /// `@@global.name` of a variable that only sessions have.
    only_of_session(name) = 1238 b"HY000" "Variable '{name}' is a SESSION variable";
    /// `@@session.name` of a variable that sessions do not have.
    only_global(name) = 1238 b"HY000" "Variable '{name}' is a GLOBAL variable";
    /// SET GLOBAL of a variable that changes nothing here.
    no_effect(name) = 1105 b"HY000" "Variable '{name}' has no effect in this engine; its value is kept for show";
    /// A sub-query reads the table that the statement writes.
    target_is_read(table) = 1093 b"HY000" "Table '{table}' is specified twice, both as a target and as a separate source for data";
    /// A column that no table has.
    unknown_column(name, place) = 1054 b"42S22" "Unknown column '{name}' in '{place}'";
    /// A sub-query names an aggregate of the query around it.
    reference_to_group(name) = 1247 b"42S22" "Reference '{name}' not supported (reference to group function)";
    /// A unique index has the value already.
    duplicate_entry(entry, key) = 1062 b"23000" "Duplicate entry '{entry}' for key '{key}'";
    /// Not MySQL's grammar.
    syntax_in_line(near, line) = 1064 b"42000" "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version for the right syntax to use near '{near}' at line {line}";
    /// Nothing to run.
    empty_query() = 1065 b"42000" "Query was empty";
    /// Two tables of one alias.
    not_unique_alias(name) = 1066 b"42000" "Not unique table/alias: '{name}'";
    /// The next AUTO_INCREMENT value is too large for its column.
    auto_increment_range(column) = 167 b"22003" "Out of range value for column '{column}' at row 1";
    /// No AUTO_INCREMENT value left.
    auto_increment_exhausted() = 1467 b"HY000" "Failed to read auto-increment value from storage engine";
    /// SET TRANSACTION within one.
    transaction_in_progress() = 1568 b"25001" "Transaction characteristics can't be changed while a transaction is in progress";
    /// A write where the user has said READ ONLY.
    read_only_transaction() = 1792 b"25006" "Cannot execute statement in a READ ONLY transaction";
    /// A join of more tables than there can be.
    too_many_tables(max) = 1116 b"HY000" "Too many tables; Tidegate can only use {max} tables in a join";
    /// A table that a schema without a file does not have.
    unknown_table(name, schema) = 1109 b"42S02" "Unknown table '{name}' in {schema}";
    /// The table's definition changed while the statement waited.
    definition_changed() = 1412 b"HY000" "Table definition has changed, please retry transaction";
    /// DELETE names a table that its FROM does not.
    unknown_multi_delete(name) = 1109 b"42S02" "Unknown table '{name}' in MULTI DELETE";
    /// UPDATE or INSERT reads the table that it changes.
    wrong_value_count(row) = 1136 b"21S01" "Column count doesn't match value count at row {row}";
    /// A view where a table is wanted.
    wrong_object(schema, name, kind) = 1347 b"HY000" "'{schema}.{name}' is not of type '{kind}'";
    /// KILL of a session that is not there.
    unknown_thread(id) = 1094 b"HY000" "Unknown thread id: {id}";
    /// A write to a table that the session has locked for reading.
    table_locked_for_read(name) = 1099 b"HY000" "Table '{name}' was locked with a READ lock and can't be updated";
    /// A write to a table that a session with locked tables has not locked.
    table_not_locked(name) = 1100 b"HY000" "Table '{name}' was not locked with LOCK TABLES";
    /// A named lock without a name.
    wrong_lock_name(name) = 3057 b"42000" "Incorrect user-level lock name '{name}'";
    /// ONLY_FULL_GROUP_BY: a column that has many values in a group.
    not_in_group_by(column) = 1055 b"42000" "'{column}' isn't in GROUP BY";
    /// The same where all rows are one group.
    mixed_group_columns() = 1140 b"42000" "Mixing of GROUP columns (MIN(),MAX(),COUNT(),...) with no GROUP columns is illegal if there is no GROUP BY clause";
    /// GROUP BY of an aggregate.
    cannot_group_on(name) = 1056 b"42000" "Can't group on '{name}'";
    /// An aggregate where none can stand.
    invalid_group_use() = 1111 b"HY000" "Invalid use of group function";
    /// A column twice in a list.
    column_twice(name) = 1110 b"42000" "Column '{name}' specified twice";
    /// A character set that is not there.
    unknown_charset_name(name) = 1115 b"42000" "Unknown character set: '{name}'";
    /// SHOW BINARY LOGS.
    no_binary_log() = 1381 b"HY000" "You are not using binary logging";
    /// A table that does not exist.
    no_such_table(schema, name) = 1146 b"42S02" "Table '{schema}.{name}' doesn't exist";
    /// A system variable that does not exist.
    unknown_variable(name) = 1193 b"HY000" "Unknown system variable '{name}'";
    /// See [`STOPPED`]; no client sees it.
    stopped() = 3572 b"HY000" "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.";
    /// Another session holds the write lock for too long.
    lock_wait_timeout() = 1205 b"HY000" "Lock wait timeout exceeded; try restarting transaction";
    /// The transaction's snapshot is older than what it wants to change.
    deadlock() = 1213 b"40001" "Deadlock found when trying to get lock; try restarting transaction";
    /// A variable that takes other values.
    wrong_variable_value(name, value) = 1231 b"42000" "Variable '{name}' can't be set to the value of '{value}'";
    /// What this engine does not do.
    unsupported(what) = 1235 b"42000" "This version of Tidegate doesn't yet support '{what}'";
    /// A variable that cannot be changed.
    read_only_variable(name) = 1238 b"HY000" "Variable '{name}' is a read only variable";
    /// A row where a scalar must stand.
    operand_columns(count) = 1241 b"21000" "Operand should contain {count} column(s)";
    /// A sub-query gave more than one row.
    subquery_rows() = 1242 b"21000" "Subquery returns more than 1 row";
    /// A prepared statement that is not there.
    unknown_prepared(name) = 1243 b"HY000" "Unknown prepared statement handler ({name}) given to EXECUTE";
    /// A collation that is not there.
    unknown_collation_name(name) = 1273 b"HY000" "Unknown collation: '{name}'";
    /// A text for a variable that is a number.
    wrong_variable_type(name) = 1232 b"42000" "Incorrect argument type to variable '{name}'";
    /// A number that a variable cannot be.
    truncated_variable(name, value) = 1292 b"22007" "Truncated incorrect {name} value: '{value}'";
    /// A function that is not there.
    unknown_function(schema, name) = 1305 b"42000" "FUNCTION {schema}.{name} does not exist";
    /// A savepoint that is not there.
    unknown_savepoint(name) = 1305 b"42000" "SAVEPOINT {name} does not exist";
    /// A statement that took longer than it may.
    statement_timeout() = 1969 b"70100" "Query execution was interrupted (max_statement_time exceeded)";
    /// The statement was stopped, and its connection is to be closed; or its transaction has done nothing for so long that it was
    /// rolled back.
    connection_killed() = 1927 b"70100" "Connection was killed";
    /// The statement was stopped.
    interrupted() = 1317 b"70100" "Query execution was interrupted";
    /// The statement or transaction was reading for so long that the write-ahead log grew too much.
    read_for_too_long() = 1317 b"70100" "Query execution was interrupted (it kept the write-ahead log from starting over)";
    /// A column without default got no value.
    no_default(column) = 1364 b"HY000" "Field '{column}' doesn't have a default value";
    /// A parent row is still referred to.
    parent_row(constraint) = 1451 b"23000" "Cannot delete or update a parent row: a foreign key constraint fails ({constraint})";
    /// A child row without its parent.
    child_row(constraint) = 1452 b"23000" "Cannot add or update a child row: a foreign key constraint fails ({constraint})";
    /// Wrong number of arguments.
    wrong_param_count(name) = 1582 b"42000" "Incorrect parameter count in the call to native function '{name}'";
    /// A CHECK said no.
    check_failed(name, schema, table) = 4025 b"23000" "CONSTRAINT `{name}` failed for `{schema}`.`{table}`";
    /// MATCH without an index of just these columns.
    no_fulltext_index() = 1191 b"HY000" "Can't find FULLTEXT index matching the column list";
    /// A search in boolean mode that cannot be read.
    fulltext_syntax(found, wanted) = 1064 b"42000" "syntax error, unexpected {found}{wanted}";
    /// Arguments that do not fit.
    wrong_arguments(what) = 1210 b"HY000" "Incorrect arguments to {what}";
    /// No space left.
    disk_full() = 1021 b"HY000" "Disk full; the statement was rolled back";
    /// No memory left.
    out_of_memory() = 1037 b"HY001" "Out of memory";
    /// A value beyond the engine's limit.
    too_big() = 1301 b"HY000" "Result was larger than max_allowed_packet";
    /// The storage failed.
    storage(what) = 1030 b"HY000" "Got error from storage engine Tidegate: {what}";
    /// Somebody has removed or replaced the files of a schema that was open.
    schema_is_gone(name) = 1030 b"HY000" "Got error from storage engine Tidegate: the files of schema '{name}' are not in the data directory any more";
    /// The file is damaged.
    corrupt(what) = 1034 b"HY000" "Incorrect key file or damaged table; the file needs to be restored: {what}";
    /// A fault of this engine.
    internal(what) = 1815 b"HY000" "Internal error: {what}";
    /// EXECUTE with the wrong number of values.
    wrong_execute_arguments() = 1210 b"HY000" "Incorrect arguments to EXECUTE";
    /// Different numbers of columns in a UNION.
    union_columns() = 1222 b"21000" "The used SELECT statements have a different number of columns";
    /// Read-only after a failed sync.
    read_only() = 1290 b"HY000" "The server cannot execute this statement: a sync of the data directory has failed, restart after checking the disk";
}

/// Not MySQL's grammar, in a statement of one line.
pub(crate) fn syntax(near: impl std::fmt::Display) -> ServerError {
    syntax_in_line(near, 1)
}

/// SIGNAL: an error of the user's own.
#[cold]
pub(crate) fn signalled(state: &str, number: Option<u16>, message: Option<String>) -> ServerError {
    let (code, text) = match state.get(..2) {
        Some("01") => (1642, "Unhandled user-defined warning condition"),
        Some("02") => (1643, "Unhandled user-defined not found condition"),
        _ => (1644, "Unhandled user-defined exception condition"),
    };
    let mut bytes = *b"45000";
    if state.len() == bytes.len() {
        bytes.copy_from_slice(state.as_bytes());
    }
    ServerError::new(number.unwrap_or(code), &bytes, message.unwrap_or_else(|| text.to_owned()))
}
