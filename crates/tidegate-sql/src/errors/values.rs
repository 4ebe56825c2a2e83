//! Errors of values: what no type holds, and what functions cannot read.

use tidegate_rows::ServerError;

errors! {
    /// GROUP_CONCAT has reached its limit.
    cut_by_group_concat(row) = 1260 b"HY000" "Row {row} was cut by GROUP_CONCAT()";
    /// A text that a function cannot read.
    wrong_function_value(kind, value, function) = 1411 b"HY000" "Incorrect {kind} value: '{value}' for function {function}";
    /// A typed literal that is none.
    wrong_literal(kind, value) = 1525 b"HY000" "Incorrect {kind} value: '{value}'";
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
    /// A time zone that is not there.
    unknown_time_zone(name) = 1298 b"HY000" "Unknown or incorrect time zone: '{name}'";
    /// Bytes that are no text.
    invalid_characters(bytes) = 1300 b"HY000" "Invalid utf8mb4 character string: '{bytes}'";
    /// Date arithmetic left the calendar.
    datetime_overflow(kind) = 1441 b"22008" "Datetime function: {kind} field overflow";
    /// A column of JSON_TABLE that is to be an error if it cannot be set.
    json_table_field(column, table) = 4176 b"HY000" "Field '{column}' can't be set for JSON_TABLE '{table}'.";
    /// JSON_TABLE without a name.
    json_table_without_alias() = 4177 b"HY000" "Every table function must have an alias.";
    /// An array or an object for a column that is none.
    json_table_scalar(column, table) = 4178 b"HY000" "Can't store an array or an object in the scalar column '{column}' of JSON_TABLE '{table}'.";
    /// Several values for one column.
    json_table_matches(column, table) = 4179 b"HY000" "Can't store multiple matches of the path in the column '{column}' of JSON_TABLE '{table}'.";
    /// A number outside of its column's range.
    out_of_range(column, row) = 1264 b"22003" "Out of range value for column '{column}' at row {row}";
    /// A value that lost something.
    data_truncated(column, row) = 1265 b"01000" "Data truncated for column '{column}' at row {row}";
    /// Collations of two operands do not agree.
    collation_mix(a, b, operation) = 1267 b"HY000" "Illegal mix of collations ({a}) and ({b}) for operation '{operation}'";
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
    /// Division by zero, where that is an error.
    division_by_zero() = 1365 b"22012" "Division by 0";
    /// A text that is none of its column's type.
    wrong_value_for_type(kind, value, schema, table, column, row) = 1366 b"22007" "Incorrect {kind} value: '{value}' for column `{schema}`.`{table}`.`{column}` at row {row}";
    /// A text longer than its column.
    too_long(column, row) = 1406 b"22001" "Data too long for column '{column}' at row {row}";
    /// A number that no type holds.
    value_out_of_range(kind, expression) = 1690 b"22003" "{kind} value is out of range in '{expression}'";
}
