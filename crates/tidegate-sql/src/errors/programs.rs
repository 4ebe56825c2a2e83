//! Errors of triggers, procedures, functions and events.

use tidegate_rows::ServerError;

errors! {
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
}
