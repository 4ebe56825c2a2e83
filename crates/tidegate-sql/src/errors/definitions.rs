//! Errors of definitions: schemas, tables, columns, indexes, sequences.

use tidegate_rows::ServerError;

errors! {
    /// CREATE DATABASE of one that exists.
    database_exists(name) = 1007 b"HY000" "Can't create database '{name}'; database exists";
    /// A generated column or CHECK with a sub-query, a variable or an aggregate.
    not_in_generated(expression, clause, column) = 1901 b"HY000" "Function or expression '{expression}' cannot be used in the {clause} clause of `{column}`";
    /// Two constraints of one name.
    duplicate_check(name) = 1826 b"HY000" "Duplicate CHECK constraint name '{name}'";
    /// A clause that stands twice.
    option_twice(name) = 1225 b"HY000" "Option '{name}' used twice in statement";
    /// A member of ENUM or SET that stands there twice.
    duplicated_member(column, member, kind) = 1291 b"HY000" "Column '{column}' has duplicated value '{member}' in {kind}";
    /// More digits than there are.
    too_big_precision(column, most) = 1426 b"42000" "Too big precision specified for '{column}'. Maximum is {most}";
    /// More digits behind the point than in all.
    scale_above_precision(column) = 1427 b"42000" "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}')";
    /// DROP DATABASE of one that does not.
    no_database_to_drop(name) = 1008 b"HY000" "Can't drop database '{name}'; database doesn't exist";
    /// CREATE OR REPLACE TABLE … SELECT that reads the table itself.
    created_of_itself(name) = 1093 b"HY000" "Table '{name}' is specified twice, both as a target for 'CREATE' and as a separate source for data";
    /// The same with a temporary table.
    cannot_reopen(name) = 1137 b"HY000" "Can't reopen table: '{name}'";
    /// CREATE TABLE of one that exists.
    table_exists(name) = 1050 b"42S01" "Table '{name}' already exists";
    /// DROP TABLE of one that does not.
    unknown_table_to_drop(name) = 1051 b"42S02" "Unknown table '{name}'";
    /// Two columns of one name.
    duplicate_column(name) = 1060 b"42S21" "Duplicate column name '{name}'";
    /// Two indexes of one name.
    duplicate_key_name(name) = 1061 b"42000" "Duplicate key name '{name}'";
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
    /// A collation of another character set.
    collation_charset(collation, charset) = 1253 b"42000" "COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'";
    /// TRUNCATE of a parent.
    truncate_parent(constraint) = 1701 b"42000" "Cannot truncate a table referenced in a foreign key constraint ({constraint})";
    /// A table without columns.
    no_columns() = 1113 b"42000" "A table must have at least 1 column";
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
    /// DROP of an index that a foreign key cannot do without.
    index_needed(name) = 1553 b"HY000" "Cannot drop index '{name}': needed in a foreign key constraint";
    /// Another type for a column of a foreign key.
    foreign_key_child_column(column, key) = 1832 b"HY000" "Cannot change column '{column}': used in a foreign key constraint '{key}'";
    /// Another type for a column that a foreign key refers to.
    foreign_key_parent_column(column, key, table) = 1833 b"HY000" "Cannot change column '{column}': used in a foreign key constraint '{key}' of table '{table}'";
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
    /// A column that a FULLTEXT index cannot have.
    not_for_fulltext(column) = 1283 b"HY000" "Column '{column}' cannot be part of FULLTEXT index";
    /// FULLTEXT indexes of temporary tables.
    fulltext_of_temporary() = 1796 b"HY000" "Cannot create FULLTEXT index on temporary InnoDB table";
    /// What virtual columns cannot have.
    unsupported_for_generated() = 1907 b"HY000" "This is not yet supported for generated columns";
    /// WITH PARSER.
    unknown_parser(name) = 1128 b"HY000" "Function '{name}' is not defined";
    /// An object of the wrong kind.
    not_a_table(schema, name) = 1347 b"HY000" "'{schema}.{name}' is not of type 'BASE TABLE'";
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
}
