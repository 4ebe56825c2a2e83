//! Errors of accounts and of what they may do.

use tidegate_rows::ServerError;

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
    /// A procedure that the user may not use.
    routine_denied(verb, user, host, name) = 1370 b"42000" "{verb} command denied to user '{user}'@'{host}' for routine '{name}'";
    /// SHOW GRANTS of somebody else: there are no accounts.
    no_such_grant(user, host) = 1141 b"42000" "There is no such grant defined for user '{user}' on host '{host}'";
}
