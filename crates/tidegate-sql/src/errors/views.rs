//! Errors of views.

use tidegate_rows::ServerError;

errors! {
    /// DROP VIEW of what is none.
    unknown_view(name) = 4092 b"42S02" "Unknown VIEW: '{name}'";
    /// DROP TABLE of a view.
    is_a_view(name) = 1965 b"42S02" "'{name}' is a view";
    /// A view over a table that only one session has.
    view_of_temporary(name) = 1352 b"HY000" "View's SELECT refers to a temporary table '{name}'";
    /// A view whose column list does not fit.
    view_columns() = 1353 b"HY000" "View's SELECT and view's field list have different column counts";
    /// WITH CHECK OPTION of a view whose rows are not those of a table.
    no_check_option(schema, name) = 1368 b"HY000" "CHECK OPTION on non-updatable view `{schema}`.`{name}`";
    /// SHOW CREATE VIEW of a table.
    not_a_view(schema, name) = 1347 b"HY000" "'{schema}.{name}' is not of type 'VIEW'";
}
