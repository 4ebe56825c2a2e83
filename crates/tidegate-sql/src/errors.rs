//! MySQL's errors: one constructor each, so that number, SQLSTATE and text stand in one place.

mod names;
mod warning;

use tidegate_rows::ServerError;

pub(crate) use names::{is_of_names, is_of_unknown_name};
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

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $code:literal $state:literal $text:literal;)*) => {
        $($(#[$doc])*
        #[cold]
        pub(crate) fn $name($($arg: impl std::fmt::Display),*) -> ServerError {
            ServerError::new($code, $state, format!($text))
        })*
    };
}

errors! {
    /// No right to anything in a schema, or not to that.
    schema_denied(user, host, schema) = 1044 b"42000" "Access denied for user '{user}'@'{host}' to database '{schema}'";
    /// A role given or taken by who does not administer it.
    not_admin_of_role(user, host) = 1698 b"28000" "Access denied for user '{user}'@'{host}'";
    /// No right to do that everywhere.
    access_denied(user, host) = 1045 b"28000" "Access denied for user '{user}'@'{host}' (using password: YES)";
    /// No right to do that with a table.
    table_denied(command, user, host, schema, table) = 1142 b"42000" "{command} command denied to user '{user}'@'{host}' for table `{schema}`.`{table}`";
    /// No right to do that with a column.
    column_denied(command, user, host, column, table) = 1143 b"42000" "{command} command denied to user '{user}'@'{host}' for column '{column}' in table '{table}'";
    /// A privilege that is about the server.
    missing_privilege(names) = 1227 b"42000" "Access denied; you need (at least one of) the {names} privilege(s) for this operation";
    /// KILL of somebody else.
    not_owner_of_thread(id) = 1095 b"HY000" "You are not owner of thread {id}";
    /// GRANT to nobody.
    no_such_user() = 1133 b"28000" "Can't find any matching row in the user table";
    /// A privilege that tables do not have.
    illegal_grant() = 1144 b"42000" "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used";
    /// REVOKE of what was not granted on a procedure or function.
    no_such_routine_grant(user, host, name) = 1403 b"42000" "There is no such grant defined for user '{user}' on host '{host}' on routine '{name}'";
    /// REVOKE of what was not granted on a table.
    no_such_table_grant(user, host, table) = 1147 b"42000" "There is no such grant defined for user '{user}' on host '{host}' on table '{table}'";
    /// REVOKE ALL of somebody who does not exist.
    cannot_revoke_all() = 1269 b"HY000" "Can't revoke all privileges for one or more of the requested users";
    /// EXPLAIN of a view whose tables are none of the user's business.
    view_not_explained() = 1345 b"HY000" "ANALYZE/EXPLAIN/SHOW can not be issued; lacking privileges for underlying table";
    /// A view of which its definer or its user may not read all.
    view_denied(schema, view) = 1356 b"HY000" "View '{schema}.{view}' references invalid table(s) or column(s) or function(s) or definer/invoker of view lack rights to use them";
    /// What no plugin has made of a password.
    wrong_password_hash() = 1372 b"HY000" "Password hash should be a 41-digit hexadecimal number";
    /// A statement about accounts has failed for some of them.
    account_failed(operation, names) = 1396 b"HY000" "Operation {operation} failed for {names}";
    /// The definer of a view.
    no_such_definer(user, host) = 1449 b"HY000" "The user specified as a definer ('{user}'@'{host}') does not exist";
    /// A way to log in that is not known.
    unknown_plugin(name) = 1524 b"HY000" "Plugin '{name}' is not loaded";
    /// A role that does not exist, or was not granted.
    no_such_role(role) = 1959 b"OP000" "Invalid role specification `{role}`";
    /// A role would have itself.
    role_in_circle(role, other) = 1961 b"HY000" "Cannot grant role '{role}' to: '{other}'";
    /// REVOKE of a role that was not granted.
    role_not_granted(role, name) = 1962 b"HY000" "Cannot revoke role '{role}' from: {name}";
    /// CREATE … IF NOT EXISTS of an account.
    account_exists(kind, name) = 1973 b"HY000" "Can't create {kind} {name}; it already exists";
    /// DROP … IF EXISTS of an account.
    no_such_account(name) = 1974 b"HY000" "Can't drop user {name}; it doesn't exist";
    /// More accounts and grants than are kept.
    too_many_accounts(bytes) = 1041 b"HY000" "the accounts and what they were granted take more than {bytes} bytes";
    /// CREATE DATABASE of one that exists.
    database_exists(name) = 1007 b"HY000" "Can't create database '{name}'; database exists";
    /// GROUP_CONCAT has reached its limit.
    cut_by_group_concat(row) = 1260 b"HY000" "Row {row} was cut by GROUP_CONCAT()";
    /// A generated column or CHECK with a sub-query, a variable or an aggregate.
    not_in_generated(expression, clause, column) = 1901 b"HY000" "Function or expression '{expression}' cannot be used in the {clause} clause of `{column}`";
    /// A value for a column that is generated.
    generated_value(column, table) = 1906 b"HY000" "The value specified for generated column '{column}' in table '{table}' has been ignored";
    /// Two constraints of one name.
    duplicate_check(name) = 1826 b"HY000" "Duplicate CHECK constraint name '{name}'";
    /// A clause that stands twice.
    option_twice(name) = 1225 b"HY000" "Option '{name}' used twice in statement";
    /// Two clauses that do not go together.
    wrong_usage(a, b) = 1221 b"HY000" "Incorrect usage of {a} and {b}";
    /// A text that a function cannot read.
    wrong_function_value(kind, value, function) = 1411 b"HY000" "Incorrect {kind} value: '{value}' for function {function}";
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
    /// A member of ENUM or SET that stands there twice.
    duplicated_member(column, member, kind) = 1291 b"HY000" "Column '{column}' has duplicated value '{member}' in {kind}";
    /// More digits than there are.
    too_big_precision(column, most) = 1426 b"42000" "Too big precision specified for '{column}'. Maximum is {most}";
    /// More digits behind the point than in all.
    scale_above_precision(column) = 1427 b"42000" "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}')";
    /// DROP VIEW of what is none.
    unknown_view(name) = 4092 b"42S02" "Unknown VIEW: '{name}'";
    /// DROP TABLE of a view.
    is_a_view(name) = 1965 b"42S02" "'{name}' is a view";
    /// A typed literal that is none.
    wrong_literal(kind, value) = 1525 b"HY000" "Incorrect {kind} value: '{value}'";
    /// `*` without FROM.
    no_tables_used() = 1096 b"HY000" "No tables used";
    /// A pattern that PCRE does not take.
    regex(what) = 1139 b"42000" "Regex error '{what}'";
    /// A result that no packet could hold.
    result_too_big(function, most) = 1301 b"HY000" "Result of {function}() was larger than max_allowed_packet ({most}) - truncated";
    /// JSON that ends too early.
    json_end(argument, function) = 4037 b"HY000" "Unexpected end of JSON text in argument {argument} to function '{function}'";
    /// JSON that is none.
    json_syntax(argument, function, at) = 4038 b"HY000" "Syntax error in JSON text in argument {argument} to function '{function}' at position {at}";
    /// JSON inside of JSON inside of JSON.
    json_depth(most, argument, function, at) = 4040 b"HY000" "Limit of {most} on JSON nested structures depth is reached in argument {argument} to function '{function}' at position {at}";
    /// A path that ends too early.
    json_path_end(argument, function) = 4041 b"HY000" "Unexpected end of JSON path in argument {argument} to function '{function}'";
    /// A path that is none.
    json_path_syntax(argument, function, at) = 4042 b"HY000" "Syntax error in JSON path in argument {argument} to function '{function}' at position {at}";
    /// A path with wildcards where one place is meant.
    json_path_wild(argument, function) = 4044 b"HY000" "Wildcards or range in JSON path not allowed in argument {argument} to function '{function}'";
    /// A path that must end with an index.
    json_path_array(argument, function) = 4045 b"HY000" "The path expression '$' is not allowed in argument {argument} to function '{function}'";
    /// `$` where a part is meant.
    json_path_root(argument, function) = 4051 b"HY000" "Path expression '$' is not allowed in argument {argument} to function '{function}'";
    /// Neither one nor all.
    json_one_or_all() = 4046 b"HY000" "Argument to the function must be \"one\" or \"all\"";
    /// DROP DATABASE of one that does not.
    no_database_to_drop(name) = 1008 b"HY000" "Can't drop database '{name}'; database doesn't exist";
    /// A statement needs a current schema.
    no_database() = 1046 b"3D000" "No database selected";
    /// NULL for a NOT NULL column.
    null_not_allowed(column) = 1048 b"23000" "Column '{column}' cannot be null";
    /// A schema that does not exist.
    unknown_database(name) = 1049 b"42000" "Unknown database '{name}'";
    /// CREATE TABLE of one that exists.
    table_exists(name) = 1050 b"42S01" "Table '{name}' already exists";
    /// DROP TABLE of one that does not.
    unknown_table_to_drop(name) = 1051 b"42S02" "Unknown table '{name}'";
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
    /// Two columns of one name.
    duplicate_column(name) = 1060 b"42S21" "Duplicate column name '{name}'";
    /// Two indexes of one name.
    duplicate_key_name(name) = 1061 b"42000" "Duplicate key name '{name}'";
    /// A unique index has the value already.
    duplicate_entry(entry, key) = 1062 b"23000" "Duplicate entry '{entry}' for key '{key}'";
    /// Not MySQL's grammar.
    syntax_in_line(near, line) = 1064 b"42000" "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version for the right syntax to use near '{near}' at line {line}";
    /// Nothing to run.
    empty_query() = 1065 b"42000" "Query was empty";
    /// Two tables of one alias.
    not_unique_alias(name) = 1066 b"42000" "Not unique table/alias: '{name}'";
    /// A default that is none for its type.
    invalid_default(column) = 1067 b"42000" "Invalid default value for '{column}'";
    /// Two primary keys.
    multiple_primary_keys() = 1068 b"42000" "Multiple primary key defined";
    /// An index names a column that is not there.
    unknown_key_column(name) = 1072 b"42000" "Key column '{name}' doesn't exist in table";
    /// AUTO_INCREMENT without an index, or twice.
    wrong_auto_increment() = 1075 b"42000" "Incorrect table definition; there can be only one auto column and it must be defined as a key";
    /// DROP of a column or key that is not there.
    cannot_drop(what, name) = 1091 b"42000" "Can't DROP {what} `{name}`; check that it exists";
    /// The next AUTO_INCREMENT value is too large for its column.
    auto_increment_range(column) = 167 b"22003" "Out of range value for column '{column}' at row 1";
    /// No AUTO_INCREMENT value left.
    auto_increment_exhausted() = 1467 b"HY000" "Failed to read auto-increment value from storage engine";
    /// SET TRANSACTION within one.
    transaction_in_progress() = 1568 b"25001" "Transaction characteristics can't be changed while a transaction is in progress";
    /// A write where the user has said READ ONLY.
    read_only_transaction() = 1792 b"25006" "Cannot execute statement in a READ ONLY transaction";
    /// A time zone that is not there.
    unknown_time_zone(name) = 1298 b"HY000" "Unknown or incorrect time zone: '{name}'";
    /// A collation of another character set.
    collation_charset(collation, charset) = 1253 b"42000" "COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'";
    /// TRUNCATE of a parent.
    truncate_parent(constraint) = 1701 b"42000" "Cannot truncate a table referenced in a foreign key constraint ({constraint})";
    /// Bytes that are no text.
    invalid_characters(bytes) = 1300 b"HY000" "Invalid utf8mb4 character string: '{bytes}'";
    /// A view over a table that only one session has.
    view_of_temporary(name) = 1352 b"HY000" "View's SELECT refers to a temporary table '{name}'";
    /// A view whose column list does not fit.
    view_columns() = 1353 b"HY000" "View's SELECT and view's field list have different column counts";
    /// A table without columns.
    no_columns() = 1113 b"42000" "A table must have at least 1 column";
    /// A join of more tables than there can be.
    too_many_tables(max) = 1116 b"HY000" "Too many tables; Tidegate can only use {max} tables in a join";
    /// More columns than a table or result may have.
    too_many_columns() = 1117 b"HY000" "Too many columns";
    /// A length that no column has.
    column_too_long(column, limit) = 1074 b"42000" "Column length too big for column '{column}' (max = {limit}); use BLOB or TEXT instead";
    /// A prefix of a column that has none, or that is shorter.
    wrong_key_prefix() = 1089 b"HY000" "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys";
    /// A prefix of nothing.
    empty_key_part(column) = 1391 b"HY000" "Key part '{column}' length cannot be 0";
    /// An attribute that does not fit the type.
    wrong_column_specifier(column) = 1063 b"42000" "Incorrect column specifier for column '{column}'";
    /// ON UPDATE of what has no time.
    invalid_on_update(column) = 1294 b"HY000" "Invalid ON UPDATE clause for '{column}' column";
    /// An index that is not there.
    unknown_key(key, table) = 1176 b"42000" "Key '{key}' doesn't exist in table '{table}'";
    /// A table that a schema without a file does not have.
    unknown_table(name, schema) = 1109 b"42S02" "Unknown table '{name}' in {schema}";
    /// Date arithmetic left the calendar.
    datetime_overflow(kind) = 1441 b"22008" "Datetime function: {kind} field overflow";
    /// The table's definition changed while the statement waited.
    definition_changed() = 1412 b"HY000" "Table definition has changed, please retry transaction";
    /// DELETE names a table that its FROM does not.
    unknown_multi_delete(name) = 1109 b"42S02" "Unknown table '{name}' in MULTI DELETE";
    /// UPDATE or INSERT reads the table that it changes.
    wrong_value_count(row) = 1136 b"21S01" "Column count doesn't match value count at row {row}";
    /// DROP of an index that a foreign key cannot do without.
    index_needed(name) = 1553 b"HY000" "Cannot drop index '{name}': needed in a foreign key constraint";
    /// Another type for a column of a foreign key.
    foreign_key_child_column(column, key) = 1832 b"HY000" "Cannot change column '{column}': used in a foreign key constraint '{key}'";
    /// Another type for a column that a foreign key refers to.
    foreign_key_parent_column(column, key, table) = 1833 b"HY000" "Cannot change column '{column}': used in a foreign key constraint '{key}' of table '{table}'";
    /// A procedure that is not there.
    unknown_procedure(schema, name) = 1305 b"42000" "PROCEDURE {schema}.{name} does not exist";
    /// A function or procedure that is not there.
    unknown_program(kind, name) = 1305 b"42000" "{kind} {name} does not exist";
    /// A definition within a definition.
    nested_program(kind) = 1303 b"2F003" "Can't create a {kind} from within another stored routine";
    /// A stored function that has to be called with its schema's name.
    native_function_name(name) = 1585 b"HY000" "This function '{name}' has the same name as a native function";
    /// Two procedures of a name.
    routine_exists(kind, name) = 1304 b"42000" "{kind} {name} already exists";
    /// CALL with more or fewer arguments than there are parameters.
    wrong_argument_count(kind, name, expected, got) = 1318 b"42000" "Incorrect number of arguments for {kind} {name}; expected {expected}, got {got}";
    /// Two parameters of a name.
    duplicate_parameter(name) = 1330 b"42000" "Duplicate parameter: {name}";
    /// A procedure that the user may not use.
    routine_denied(verb, user, host, name) = 1370 b"42000" "{verb} command denied to user '{user}'@'{host}' for routine '{name}'";
    /// OUT and INOUT want something that can be assigned to.
    out_argument(number, name) = 1414 b"42000" "OUT or INOUT argument {number} for routine {name} is not a variable or NEW pseudo-variable in BEFORE trigger";
    /// A procedure that calls itself too often.
    recursion_limit(limit, name) = 1456 b"HY000" "Recursive limit {limit} (as set by the max_sp_recursion_depth variable) was exceeded for routine {name}";
    /// GET DIAGNOSTICS CONDITION of one that is not there.
    bad_condition_number() = 1758 b"35000" "Invalid condition number";
    /// A trigger that is not there.
    unknown_trigger() = 1360 b"HY000" "Trigger does not exist";
    /// Two triggers of a name.
    trigger_exists(schema, name) = 1359 b"HY000" "Trigger '{schema}.{name}' already exists";
    /// A trigger of a temporary table.
    trigger_on_no_table(name) = 1361 b"HY000" "Trigger's '{name}' is a view, temporary table or sequence";
    /// A row that cannot be changed any more, or never.
    row_not_changed(row, when) = 1362 b"HY000" "Updating of {row} row is not allowed in {when}trigger";
    /// NEW of DELETE, OLD of INSERT.
    no_such_row_in_trigger(row, event) = 1363 b"HY000" "There is no {row} row in on {event} trigger";
    /// A trigger with a result set.
    result_set_refused(program) = 1415 b"0A000" "Not allowed to return a result set from {program}";
    /// A trigger that ends its transaction.
    commit_in_trigger() = 1422 b"HY000" "Explicit or implicit commit is not allowed in stored function or trigger";
    /// SET autocommit in a trigger or function.
    autocommit_in_trigger() = 1445 b"HY000" "Not allowed to set autocommit from a stored function or trigger";
    /// A column that the query of a FOR loop does not have.
    no_such_field(row, field) = 4082 b"HY000" "Row variable '{row}' does not have a field '{field}'";
    /// A column of JSON_TABLE that is to be an error if it cannot be set.
    json_table_field(column, table) = 4176 b"HY000" "Field '{column}' can't be set for JSON_TABLE '{table}'.";
    /// JSON_TABLE without a name.
    json_table_without_alias() = 4177 b"HY000" "Every table function must have an alias.";
    /// An array or an object for a column that is none.
    json_table_scalar(column, table) = 4178 b"HY000" "Can't store an array or an object in the scalar column '{column}' of JSON_TABLE '{table}'.";
    /// Several values for one column.
    json_table_matches(column, table) = 4179 b"HY000" "Can't store multiple matches of the path in the column '{column}' of JSON_TABLE '{table}'.";
    /// RENAME TABLE of a view to another schema.
    schema_not_changed(from, to) = 1450 b"HY000" "Changing schema from '{from}' to '{to}' is not allowed.";
    /// NEXTVAL behind the last number.
    sequence_run_out(schema, name) = 4084 b"HY000" "Sequence '{schema}.{name}' has run out";
    /// A sequence whose options contradict each other.
    wrong_sequence(schema, name) = 4085 b"HY000" "Sequence '{schema}.{name}' has out of range value for options";
    /// A table where a sequence is wanted.
    not_a_sequence(schema, name) = 4089 b"42S02" "'{schema}.{name}' is not a SEQUENCE";
    /// DROP SEQUENCE of a table.
    not_sequences(names) = 4090 b"42S02" "'{names}' is not a SEQUENCE";
    /// DROP SEQUENCE of what is none.
    unknown_sequences(names) = 4091 b"42S02" "Unknown SEQUENCE: '{names}'";
    /// What can be done with tables only.
    not_of_sequences(schema, name) = 1031 b"HY000" "Storage engine SEQUENCE of the table `{schema}`.`{name}` doesn't have this option";
    /// A trigger of a table in another schema.
    trigger_in_wrong_schema() = 1435 b"HY000" "Trigger in wrong schema";
    /// A trigger changes a table that is in use around it.
    table_used_by_statement(table) = 1442 b"HY000" "Can't update table '{table}' in stored function/trigger because it is already used by statement which invoked this stored function/trigger";
    /// FOLLOWS and PRECEDES.
    no_such_trigger_to_follow(name) = 4031 b"HY000" "Referenced trigger '{name}' for the given action time and event type does not exist";
    /// A label that is not around.
    no_such_label(verb, name) = 1308 b"42000" "{verb} with no matching label: {name}";
    /// A label inside of itself.
    label_redefined(name) = 1309 b"42000" "Redefining label {name}";
    /// A label behind END that is another one than in front.
    label_mismatch(name) = 1310 b"42000" "End-label {name} without match";
    /// A function that cannot return anything.
    no_return(name) = 1320 b"42000" "No RETURN found in FUNCTION {name}";
    /// A function that has come to its end.
    ended_without_return(name) = 1321 b"2F005" "FUNCTION {name} ended without RETURN";
    /// A function that calls itself.
    recursive_function() = 1424 b"HY000" "Recursive stored functions and triggers are not allowed";
    /// RETURN outside of a function.
    return_outside_function() = 1313 b"42000" "RETURN is only allowed in a FUNCTION";
    /// A statement that no program may hold.
    refused_in_program(statement) = 1314 b"0A000" "{statement} is not allowed in stored procedures";
    /// A condition that is not declared.
    undefined_condition(name) = 1319 b"42000" "Undefined CONDITION: {name}";
    /// A cursor that is not declared.
    undefined_cursor(name) = 1324 b"42000" "Undefined CURSOR: {name}";
    /// OPEN with more or fewer values than the cursor has parameters.
    wrong_cursor_arguments(name) = 4080 b"42000" "Incorrect parameter count to cursor '{name}'";
    /// OPEN of a cursor that is open.
    cursor_already_open() = 1325 b"24000" "Cursor is already open";
    /// FETCH or CLOSE of a cursor that is not open.
    cursor_not_open() = 1326 b"24000" "Cursor is not open";
    /// A variable that is not declared.
    undeclared_variable(name) = 1327 b"42000" "Undeclared variable: {name}";
    /// FETCH into more or fewer variables than the cursor has columns.
    wrong_fetch_variables() = 1328 b"HY000" "Incorrect number of FETCH variables";
    /// Two variables of a name in a block.
    duplicate_variable(name) = 1331 b"42000" "Duplicate variable: {name}";
    /// Two conditions of a name in a block.
    duplicate_condition(name) = 1332 b"42000" "Duplicate condition: {name}";
    /// Two cursors of a name in a block.
    duplicate_cursor(name) = 1333 b"42000" "Duplicate cursor: {name}";
    /// A statement that no trigger may hold.
    refused_in_trigger(statement) = 1336 b"0A000" "{statement} is not allowed in stored function or trigger";
    /// DECLARE in a wrong order.
    variable_after_cursor() = 1337 b"42000" "Variable or condition declaration after cursor or handler declaration";
    /// DECLARE in a wrong order.
    cursor_after_handler() = 1338 b"42000" "Cursor declaration after handler declaration";
    /// CASE without a branch for its value.
    no_case() = 1339 b"20000" "Case not found for CASE statement";
    /// A cursor whose query has INTO.
    cursor_into() = 1323 b"42000" "Cursor SELECT must not have INTO";
    /// A cursor over another statement.
    cursor_of_no_query() = 1322 b"42000" "Cursor statement must be a SELECT";
    /// An SQLSTATE that is none, or means success.
    bad_sqlstate(state) = 1407 b"42000" "Bad SQLSTATE: '{state}'";
    /// Two handlers of a block for the same.
    duplicate_handler() = 1413 b"42000" "Duplicate handler declared in the same block";
    /// SIGNAL … SET twice of one item.
    signal_item_twice(item) = 1641 b"42000" "Duplicate condition information item '{item}'";
    /// SIGNAL … SET of what the item cannot be.
    wrong_signal_item(item, value) = 1231 b"42000" "Variable '{item}' can't be set to the value of '{value}'";
    /// A view where a table is wanted.
    wrong_object(schema, name, kind) = 1347 b"HY000" "'{schema}.{name}' is not of type '{kind}'";
    /// RESIGNAL outside of a handler.
    resignal_outside() = 1645 b"0K000" "RESIGNAL when handler not active";
    /// SIGNAL of a condition that has a number.
    signal_needs_sqlstate() = 1646 b"HY000" "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE";
    /// A row that is none.
    unknown_structured_variable(name) = 4081 b"HY000" "Unknown structured system variable or ROW routine variable '{name}'";
    /// CREATE EVENT while none runs.
    scheduler_is_off() = 1105 b"HY000" "Event scheduler is switched off, use SET GLOBAL event_scheduler=ON to enable it.";
    /// A second event of a name.
    event_exists(name) = 1537 b"HY000" "Event '{name}' already exists";
    /// ALTER EVENT … RENAME to its own name.
    event_of_same_name() = 1551 b"HY000" "Same old and new event name";
    /// EVERY 0 SECOND.
    wrong_event_interval() = 1542 b"HY000" "INTERVAL is either not positive or too big";
    /// ENDS before STARTS.
    wrong_event_end() = 1543 b"HY000" "ENDS is either invalid or before STARTS";
    /// A schedule that is over.
    event_disabled_at_once() = 1544 b"HY000" "Event execution time is in the past. Event has been disabled";
    /// A schedule that is over.
    event_dropped_at_once() = 1588 b"HY000" "Event execution time is in the past and ON COMPLETION NOT PRESERVE is set. The event was dropped immediately after creation";
    /// A schedule that is over.
    event_not_changed() = 1589 b"HY000" "Event execution time is in the past and ON COMPLETION NOT PRESERVE is set. The event was not changed. Specify a time in the future";
    /// CREATE EVENT in a program.
    event_in_program() = 1576 b"HY000" "Recursion of EVENT DDL statements is forbidden when body is present";
    /// A schedule without a time.
    wrong_event_time(clause, value) = 1525 b"HY000" "Incorrect {clause} value: '{value}'";
    /// An event that is not there.
    unknown_event(name) = 1539 b"HY000" "Unknown event '{name}'";
    /// SHOW GRANTS of somebody else: there are no accounts.
    no_such_grant(user, host) = 1141 b"42000" "There is no such grant defined for user '{user}' on host '{host}'";
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
    /// A number outside of its column's range.
    out_of_range(column, row) = 1264 b"22003" "Out of range value for column '{column}' at row {row}";
    /// A value that lost something.
    data_truncated(column, row) = 1265 b"01000" "Data truncated for column '{column}' at row {row}";
    /// Collations of two operands do not agree.
    collation_mix(a, b, operation) = 1267 b"HY000" "Illegal mix of collations ({a}) and ({b}) for operation '{operation}'";
    /// A collation that is not there.
    unknown_collation_name(name) = 1273 b"HY000" "Unknown collation: '{name}'";
    /// A text for a variable that is a number.
    wrong_variable_type(name) = 1232 b"42000" "Incorrect argument type to variable '{name}'";
    /// A number that a variable cannot be.
    truncated_variable(name, value) = 1292 b"22007" "Truncated incorrect {name} value: '{value}'";
    /// A value that is none of its type.
    truncated_wrong_value(kind, value) = 1292 b"22007" "Truncated incorrect {kind} value: '{value}'";
    /// A value that is none of its column's type.
    incorrect_column_value(kind, value, schema, table, column, row) = 1292 b"22007" "Incorrect {kind} value: '{value}' for column `{schema}`.`{table}`.`{column}` at row {row}";
    /// A value that is none of its type, in an expression.
    incorrect_value(kind, value) = 1292 b"22007" "Incorrect {kind} value: '{value}'";
    /// An operation that the type of its operand does not have.
    illegal_type(kind, operation) = 4079 b"HY000" "Illegal parameter data type {kind} for operation '{operation}'";
    /// An operation that the types of its operands do not have.
    illegal_types(kinds, operation) = 4078 b"HY000" "Illegal parameter data types {kinds} for operation '{operation}'";
    /// A value for a column that takes none of its type.
    cannot_assign(from, to, schema, table, column) = 4078 b"HY000" "Cannot cast '{from}' as '{to}' in assignment of `{schema}`.`{table}`.`{column}`";
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
    /// Division by zero, where that is an error.
    division_by_zero() = 1365 b"22012" "Division by 0";
    /// A text that is none of its column's type.
    wrong_value_for_type(kind, value, schema, table, column, row) = 1366 b"22007" "Incorrect {kind} value: '{value}' for column `{schema}`.`{table}`.`{column}` at row {row}";
    /// A text longer than its column.
    too_long(column, row) = 1406 b"22001" "Data too long for column '{column}' at row {row}";
    /// A parent row is still referred to.
    parent_row(constraint) = 1451 b"23000" "Cannot delete or update a parent row: a foreign key constraint fails ({constraint})";
    /// A child row without its parent.
    child_row(constraint) = 1452 b"23000" "Cannot add or update a child row: a foreign key constraint fails ({constraint})";
    /// Wrong number of arguments.
    wrong_param_count(name) = 1582 b"42000" "Incorrect parameter count in the call to native function '{name}'";
    /// A number that no type holds.
    value_out_of_range(kind, expression) = 1690 b"22003" "{kind} value is out of range in '{expression}'";
    /// A CHECK said no.
    check_failed(name, schema, table) = 4025 b"23000" "CONSTRAINT `{name}` failed for `{schema}`.`{table}`";
    /// The table's definition needs what this engine lacks.
    /// A column that a FULLTEXT index cannot have.
    not_for_fulltext(column) = 1283 b"HY000" "Column '{column}' cannot be part of FULLTEXT index";
    /// MATCH without an index of just these columns.
    no_fulltext_index() = 1191 b"HY000" "Can't find FULLTEXT index matching the column list";
    /// FULLTEXT indexes of temporary tables.
    fulltext_of_temporary() = 1796 b"HY000" "Cannot create FULLTEXT index on temporary InnoDB table";
    /// What virtual columns cannot have.
    unsupported_for_generated() = 1907 b"HY000" "This is not yet supported for generated columns";
    /// WITH PARSER.
    unknown_parser(name) = 1128 b"HY000" "Function '{name}' is not defined";
    /// A search in boolean mode that cannot be read.
    fulltext_syntax(found, wanted) = 1064 b"42000" "syntax error, unexpected {found}{wanted}";
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
    /// An object of the wrong kind.
    not_a_table(schema, name) = 1347 b"HY000" "'{schema}.{name}' is not of type 'BASE TABLE'";
    /// WITH CHECK OPTION of a view whose rows are not those of a table.
    no_check_option(schema, name) = 1368 b"HY000" "CHECK OPTION on non-updatable view `{schema}`.`{name}`";
    /// SHOW CREATE VIEW of a table.
    not_a_view(schema, name) = 1347 b"HY000" "'{schema}.{name}' is not of type 'VIEW'";
    /// Different numbers of columns in a UNION.
    union_columns() = 1222 b"21000" "The used SELECT statements have a different number of columns";
    /// BLOB without prefix in a key.
    blob_key(column) = 1170 b"42000" "BLOB/TEXT column '{column}' used in key specification without a key length";
    /// A name that is too long.
    too_long_name(name) = 1059 b"42000" "Identifier name '{name}' is too long";
    /// A name that cannot be.
    wrong_table_name(name) = 1103 b"42000" "Incorrect table name '{name}'";
    /// A name that cannot be.
    wrong_database_name(name) = 1102 b"42000" "Incorrect database name '{name}'";
    /// A foreign key that fits nothing.
    bad_foreign_key(name) = 1005 b"HY000" "Can't create table {name} (errno: 150 \"Foreign key constraint is incorrectly formed\")";
    /// The last column cannot go.
    last_column() = 1090 b"42000" "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
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
