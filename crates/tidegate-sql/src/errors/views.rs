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
    /// ALGORITHM=MERGE of a view whose rows have to be found ahead of the statement's.
    no_merge() = 1354 b"HY000" "View merge algorithm can't be used here for now (assumed undefined algorithm)";
    /// UPDATE or DELETE of what is no table, nor a view of rows of tables.
    not_updatable(name, verb) = 1288 b"HY000" "The target table {name} of the {verb} is not updatable";
    /// UPDATE of a column that a view computes.
    column_not_updatable(name) = 1348 b"HY000" "Column '{name}' is not updatable";
    /// INSERT into columns of a view some of which are computed, or are the same; into a view that takes no rows.
    not_insertable(name, verb) = 1471 b"HY000" "The target table {name} of the {verb} is not insertable-into";
    /// INSERT into a view that does not show a column without a default.
    no_default_in_view(schema, view) = 1423 b"HY000" "Field of view '{schema}.{view}' underlying table doesn't have a default value";
    /// A row that would not be seen through the view that it is written through.
    not_seen(schema, view) = 1369 b"44000" "CHECK OPTION failed `{schema}`.`{view}`";
    /// One statement, several tables of a join view.
    several_tables_of_view(schema, view) = 1393 b"HY000" "Can not modify more than one base table through a join view '{schema}.{view}'";
    /// INSERT into a join view that does not say which table it means.
    no_columns_for_join_view(schema, view) = 1394 b"HY000" "Can not insert into join view '{schema}.{view}' without fields list";
    /// DELETE from a join view.
    delete_from_join_view(schema, view) = 1395 b"HY000" "Can not delete from join view '{schema}.{view}'";
    /// SHOW CREATE VIEW of a table.
    not_a_view(schema, name) = 1347 b"HY000" "'{schema}.{name}' is not of type 'VIEW'";
}
