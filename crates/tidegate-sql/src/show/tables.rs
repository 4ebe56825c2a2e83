//! The tables of `information_schema`.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use super::{
    accounts,
    cardinality::Cardinalities,
    collations::{applicability, character_sets, collations},
    columns, constraints, events, routines,
    server::{processlist, status, system_variables},
    transactions, triggers,
};
use crate::{
    accounts::Privileges,
    catalog::{Catalog, Table},
    errors,
    parse::{
        KeyKind,
        view::{Algorithm, CheckOption},
    },
    session::pool::Pool,
    store::{
        conn::{Cell, Conn, Step},
        made_rows::{Item, MadeRows, Rows},
    },
    temporary_name::is_hidden,
    translate::{
        Coercibility, Res, Translator,
        about::About,
        scope::{Scope, Source, SourceColumn},
        view::through::ViewText,
    },
    value::{Base, Rep, SqlType, collation::Collation, uint_of},
    variables::VariableScope,
};

/// Rows that are counted one by one.
const COUNT_MAX: i64 = 10_000;

pub(super) type Make = fn(&Translator<'_>, &About) -> Res<Rows>;

/// A table: its name, its columns (numbers end with `#`, those of INT with `~`, times of creation with digits of the second with `%`, what only SHOW reads with `!`), its rows.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) columns: &'static str,
    pub(super) make: Make,
}

#[rustfmt::skip]
static TABLES: &[Definition] = &[
    Definition { name: "schemata", columns: "catalog_name schema_name default_character_set_name default_collation_name sql_path schema_comment", make: schemata },
    Definition { name: "tables", columns: "table_catalog table_schema table_name table_type engine version# row_format table_rows# avg_row_length# data_length# max_data_length# index_length# data_free# auto_increment# create_time update_time check_time table_collation checksum# create_options table_comment max_index_length# temporary", make: tables },
    Definition { name: "columns", columns: "table_catalog table_schema table_name column_name ordinal_position# column_default is_nullable data_type character_maximum_length# character_octet_length# numeric_precision# numeric_scale# datetime_precision# character_set_name collation_name column_type column_key extra privileges column_comment is_generated generation_expression column_default_shown!", make: columns::columns },
    Definition { name: "statistics", columns: "table_catalog table_schema table_name non_unique# index_schema index_name seq_in_index# column_name collation cardinality# sub_part# packed nullable index_type comment index_comment ignored", make: statistics },
    Definition { name: "key_column_usage", columns: "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position# position_in_unique_constraint# referenced_table_schema referenced_table_name referenced_column_name", make: constraints::key_column_usage },
    Definition { name: "table_constraints", columns: "constraint_catalog constraint_schema constraint_name table_schema table_name constraint_type", make: constraints::table_constraints },
    Definition { name: "referential_constraints", columns: "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule table_name referenced_table_name", make: constraints::referential_constraints },
    Definition { name: "views", columns: "table_catalog table_schema table_name view_definition check_option is_updatable definer security_type character_set_client collation_connection algorithm", make: views },
    Definition { name: "engines", columns: "engine support comment transactions xa savepoints", make: |_, _| Ok(vec![vec!["InnoDB".into(), "DEFAULT".into(), "Tidegate's embedded engine under the usual name".into(), "YES".into(), "NO".into(), "YES".into()]]) },
    Definition { name: "character_sets", columns: "character_set_name default_collate_name description maxlen#", make: |_, _| Ok(character_sets()) },
    Definition { name: "collations", columns: "collation_name character_set_name id# is_default is_compiled sortlen#", make: |_, _| Ok(collations()) },
    Definition { name: "collation_character_set_applicability", columns: "collation_name character_set_name full_collation_name id# is_default", make: |_, _| Ok(applicability()) },
    Definition { name: "session_variables", columns: "variable_name variable_value", make: |t, _| Ok(system_variables(t, VariableScope::Session)) },
    Definition { name: "global_variables", columns: "variable_name variable_value", make: |t, _| Ok(system_variables(t, VariableScope::Global)) },
    Definition { name: "session_status", columns: "variable_name variable_value", make: |t, _| status(t) },
    Definition { name: "global_status", columns: "variable_name variable_value", make: |t, _| status(t) },
    Definition { name: "processlist", columns: "id# user host db command time# state info time_ms stage# max_stage# progress memory_used# max_memory_used# examined_rows# query_id# info_binary tid#", make: |t, _| processlist(t) },
    Definition { name: "routines", columns: routines::ROUTINES, make: |t, _| routines::routines(t) },
    Definition { name: "parameters", columns: routines::PARAMETERS, make: |t, _| routines::parameters(t) },
    Definition { name: "triggers", columns: triggers::COLUMNS, make: triggers::triggers },
    Definition { name: "events", columns: events::EVENTS, make: |t, _| events::events(t) },
    Definition { name: "partitions", columns: "table_catalog table_schema table_name partition_name subpartition_name partition_ordinal_position# subpartition_ordinal_position# partition_method subpartition_method partition_expression subpartition_expression partition_description table_rows# avg_row_length# data_length# max_data_length# index_length# data_free# create_time update_time check_time checksum# partition_comment nodegroup tablespace_name", make: partitions },
    Definition { name: "check_constraints", columns: "constraint_catalog constraint_schema table_name constraint_name level check_clause", make: constraints::check_constraints },
    Definition { name: "innodb_trx", columns: transactions::TRX, make: |t, _| transactions::trx(t) },
    Definition { name: "innodb_locks", columns: transactions::LOCKS, make: |t, _| transactions::locks(t) },
    Definition { name: "innodb_lock_waits", columns: transactions::LOCK_WAITS, make: |t, _| transactions::lock_waits(t) },
    Definition { name: "plugins", columns: "plugin_name plugin_version plugin_status plugin_type plugin_type_version plugin_library plugin_library_version plugin_author plugin_description plugin_license load_option plugin_maturity plugin_auth_version", make: |_, _| Ok(plugins()) },
    Definition { name: "user_privileges", columns: "grantee table_catalog privilege_type is_grantable", make: |t, _| Ok(accounts::user_privileges(t)) },
    Definition { name: "schema_privileges", columns: "grantee table_catalog table_schema privilege_type is_grantable", make: |t, _| Ok(accounts::schema_privileges(t)) },
    Definition { name: "table_privileges", columns: "grantee table_catalog table_schema table_name privilege_type is_grantable", make: |t, _| Ok(accounts::table_privileges(t)) },
    Definition { name: "column_privileges", columns: "grantee table_catalog table_schema table_name column_name privilege_type is_grantable", make: |t, _| Ok(accounts::column_privileges(t)) },
    Definition { name: "applicable_roles", columns: "grantee role_name is_grantable is_default", make: |t, _| Ok(accounts::applicable_roles(t)) },
    Definition { name: "enabled_roles", columns: "role_name", make: |t, _| Ok(accounts::enabled_roles(t)) },
];

fn definition(name: &str) -> Option<&'static Definition> {
    TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

/// Whether there is such a table.
pub(super) fn exists(name: &str) -> bool {
    definition(name).is_some()
}

/// A table of `information_schema` in FROM.
///
/// # Errors
/// 1109 if there is none of this name.
pub(crate) fn information_schema(
    translator: &mut Translator<'_>,
    schema: &str,
    name: &str,
    alias: Option<String>,
    scope: &mut Scope<'_>,
) -> Res<String> {
    let table = definition(name).ok_or_else(|| errors::unknown_table(name, schema))?;
    made_table(translator, table, schema, alias, scope, str::to_ascii_uppercase)
}

/// The type of a column by its name, as definitions write it.
fn type_of(name: &str) -> SqlType {
    match name {
        "seq_in_index#" => SqlType { unsigned: true, length: 2, ..SqlType::new(Base::Int) },
        "originator#" | "non_unique#" | "cardinality#" | "sub_part#" | "id#" | "action_order#" | "time#"
        | "maxlen#" | "sortlen#" => SqlType::bigint(),
        "created" | "last_altered" | "last_executed" | "execute_at" | "starts" | "ends" => {
            SqlType::temporal(Base::Datetime, 0)
        }
        "created%" => SqlType::temporal(Base::Datetime, 2),
        name if name.ends_with('#') => SqlType::ubigint(),
        name if name.ends_with('~') => SqlType::new(Base::Int),
        "column_default"
        | "column_default_shown!"
        | "column_type"
        | "generation_expression"
        | "view_definition"
        | "info"
        | "routine_definition"
        | "routine_comment"
        | "dtd_identifier"
        | "event_definition"
        | "action_condition"
        | "action_statement"
        | "partition_expression"
        | "subpartition_expression"
        | "partition_description"
        | "plugin_description"
        | "check_clause" => SqlType { collation: Collation(33), ..SqlType::new(Base::LongText) }.stored(),
        _ => SqlType::varchar(512, Collation(33)),
    }
}

/// A table that is made when it is read; `shown` makes the names of its columns.
pub(super) fn made_table(
    translator: &mut Translator<'_>,
    table: &Definition,
    schema: &str,
    alias: Option<String>,
    scope: &mut Scope<'_>,
    shown: fn(&str) -> String,
) -> Res<String> {
    // Its rows become part of the plan.
    translator.serves_once();
    let alias = alias.unwrap_or_else(|| table.name.to_owned());
    let about = translator.conditions.about(&alias);
    let rows = MadeRows::new((table.make)(translator, &about)?);
    let names: Vec<&str> = table.columns.split(' ').collect();
    let sql_alias = translator.alias("a");
    let columns = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let ty = type_of(name);
            SourceColumn {
                name: shown(name.trim_end_matches(['#', '~', '!', '%'])),
                sql: format!("column{}", index + 1),
                nullable: true,
                coercibility: if ty.rep() == Rep::Text { Coercibility::Column } else { Coercibility::Number },
                ty,
                origin: None,
                hidden: name.ends_with('!'),
            }
        })
        .collect();
    scope.sources.push(Source { schema: schema.to_owned(), ..Source::computed(alias, sql_alias.clone(), columns) });
    let shown: Vec<String> = (1..=names.len()).map(|number| format!("column{number}")).collect();
    // With its LIMIT it stays a table of its own, for which SQLite makes an index where it is joined.
    let sql = format!("(SELECT {} FROM {} LIMIT -1) AS {sql_alias}", shown.join(", "), rows.table());
    translator.made_rows.push(rows);
    Ok(sql)
}

pub(crate) fn each_table(
    translator: &Translator<'_>,
    about: &About,
    mut f: impl FnMut(&str, &Catalog, &Table),
) -> Res<()> {
    let access = translator.now().env.access();
    for name in translator.now().engine.schema_names().into_iter().filter(|name| about.wants_schema(name)) {
        let Ok(schema) = translator.now().engine.schema(&name) else { continue };
        let catalog = schema.catalog()?;
        for table in catalog.tables.values().filter(|table| about.wants_table(&table.name)) {
            let hidden = crate::temporary_name::is_hidden(&table.name);
            let is_seen = match hidden {
                true => translator.now().env.owns_temporary(&table.name),
                false => access.is_unlimited() || access.sees_table(&name, &table.name),
            };
            if !is_seen {
                continue;
            }
            f(&name, &catalog, table);
        }
    }
    Ok(())
}

fn schemata(translator: &Translator<'_>, _: &About) -> Res<Rows> {
    let has_accounts = accounts::mysql_tables(translator).next().is_some();
    let made = [Some(("information_schema", "utf8mb3")), has_accounts.then_some(("mysql", "utf8mb4"))];
    let mut rows: Rows = made
        .into_iter()
        .flatten()
        .map(|(name, charset)| {
            let collation = format!("{charset}_general_ci");
            vec!["def".into(), name.into(), charset.into(), collation.into(), Item::Null, "".into()]
        })
        .collect();
    let access = translator.now().env.access();
    for name in translator.now().engine.schema_names().into_iter().filter(|name| access.sees_schema(name)) {
        let Ok(schema) = translator.now().engine.schema(&name) else { continue };
        let collation = schema.catalog()?.collation.unwrap_or(Collation::DEFAULT);
        rows.push(vec![
            "def".into(),
            name.into(),
            collation.charset().into(),
            collation.name().into(),
            Item::Null,
            "".into(),
        ]);
    }
    Ok(rows)
}

pub(super) fn moment(seconds: i64) -> Item {
    let mut out = Vec::new();
    crate::value::local::timestamp_to_local(seconds * 1_000_000).write(0, &mut out);
    String::from_utf8_lossy(&out).into_owned().into()
}

/// How many rows a table has, as the last commit left it: counted up to [`COUNT_MAX`], then estimated from the row ids.
fn row_count(conn: &Conn, table: &Table) -> i64 {
    let one = |sql: &str| match conn.prepare(sql) {
        Ok(mut stmt) => match (stmt.step(), stmt.cell(0)) {
            (Ok(Step::Row), Cell::Int(count)) => count,
            _ => 0,
        },
        Err(_) => 0,
    };
    let name = table.physical();
    match one(&format!("SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {COUNT_MAX})")) {
        COUNT_MAX => one(&format!("SELECT max(rowid) - min(rowid) + 1 FROM {name}")),
        count => count,
    }
}

/// What only the tables themselves know, by schema and table. Read where the statement names the column, or all columns.
#[derive(Default)]
struct Numbers {
    /// Row counts, of schemas that the statement names or is in.
    rows: HashMap<(String, i64), i64>,
    /// The next values of AUTO_INCREMENT.
    autos: HashMap<(String, i64), u64>,
}

impl Numbers {
    fn read(translator: &Translator<'_>, about: &About) -> Self {
        let mut numbers = Self::default();
        let sql = String::from_utf8_lossy(translator.sql).to_lowercase();
        let wants = |column: &str| sql.contains(column) || sql.contains('*');
        let (wants_rows, wants_autos) = (wants("table_rows"), wants("auto_increment"));
        if !wants_rows && !wants_autos {
            return numbers;
        }
        for name in translator.now().engine.schema_names().into_iter().filter(|name| about.wants_schema(name)) {
            let current = translator.session.schema.is_some_and(|schema| schema.name == name);
            let counts = wants_rows && (current || sql.contains(&name.to_lowercase()));
            let Ok(schema) = translator.now().engine.schema(&name) else { continue };
            let Ok(catalog) = schema.catalog() else { continue };
            let pool = Pool::of(&schema);
            let Ok(conn) = pool.take() else { continue };
            let wanted = |table: &&Arc<Table>| !table.is_view() && about.wants_table(&table.name);
            for table in catalog.tables.values().filter(wanted) {
                if counts {
                    numbers.rows.insert((name.clone(), table.id), row_count(&conn, table));
                }
                if wants_autos && let Some(next) = next_auto(&conn, table) {
                    numbers.autos.insert((name.clone(), table.id), next);
                }
            }
            pool.put(conn);
        }
        numbers
    }
}

/// The next value of AUTO_INCREMENT, if the table has any. Before the first INSERT nobody but the rows knows it.
pub(super) fn next_auto(conn: &Conn, table: &Table) -> Option<u64> {
    let column = &table.columns[table.auto_column()?];
    let stored = table.state.stored_auto.load(Ordering::Acquire).max(1);
    let known = table.state.next_auto.load(Ordering::Acquire);
    if known != 0 {
        return Some(known.max(stored));
    }
    let Ok(mut stmt) = conn.prepare(&format!("SELECT max(c{}) FROM {}", column.id, table.physical())) else {
        return Some(stored);
    };
    let most = match (stmt.step(), stmt.cell(0)) {
        (Ok(Step::Row), Cell::Int(value)) if value < 0 => 0,
        (Ok(Step::Row), cell) => uint_of(cell),
        _ => 0,
    };
    Some(most.saturating_add(1).max(stored))
}

/// A row for each table: none has partitions.
fn partitions(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    let numbers = Numbers::read(translator, about);
    each_table(translator, about, |schema, _, table| {
        if table.is_view() {
            return;
        }
        let count = numbers.rows.get(&(schema.to_owned(), table.id)).map_or(Item::Null, |count| Item::Int(*count));
        let mut row: Vec<Item> = vec!["def".into(), schema.into(), table.name.as_str().into()];
        // The nine columns about the partition.
        row.extend(std::iter::repeat_n(Item::Null, 9));
        row.extend([count, 0.into(), 0.into(), Item::Null, 0.into(), 0.into(), moment(table.created)]);
        row.extend([Item::Null, Item::Null, Item::Null, "".into(), "".into(), Item::Null]);
        rows.push(row);
    })?;
    Ok(rows)
}

/// What MariaDB has as plugins and this engine has built in.
fn plugins() -> Rows {
    let row = |name: &str, kind: &str, description: &str| -> Vec<Item> {
        vec![
            name.into(),
            "1.0".into(),
            "ACTIVE".into(),
            kind.into(),
            "10.11".into(),
            Item::Null,
            Item::Null,
            "Tidegate".into(),
            description.into(),
            "MIT".into(),
            "FORCE".into(),
            "Stable".into(),
            "1.0".into(),
        ]
    };
    vec![
        row("mysql_native_password", "AUTHENTICATION", "Native MySQL authentication"),
        row("caching_sha2_password", "AUTHENTICATION", "MySQL 8 authentication"),
        row("ed25519", "AUTHENTICATION", "Elliptic curve ED25519 based authentication"),
        row("InnoDB", "STORAGE ENGINE", "Tidegate's embedded engine under the usual name"),
    ]
}

fn tables(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    let numbers = Numbers::read(translator, about);
    each_table(translator, about, |schema, _, table| {
        let count = numbers.rows.get(&(schema.to_owned(), table.id)).copied();
        let base = !table.is_view();
        let when = |item: Item| if base { item } else { Item::Null };
        let next = numbers.autos.get(&(schema.to_owned(), table.id)).copied();
        rows.push(vec![
            "def".into(),
            schema.into(),
            table.name.as_str().into(),
            kind_of(table).into(),
            when(table.shown_engine().into()),
            when(10.into()),
            when("Dynamic".into()),
            count.map_or(Item::Null, Item::Int),
            when(0.into()),
            when(0.into()),
            when(0.into()),
            when(0.into()),
            when(0.into()),
            next.map_or(Item::Null, |next| (next as i64).into()),
            when(moment(table.created)),
            Item::Null,
            Item::Null,
            when(table.collation.name().into()),
            Item::Null,
            when("".into()),
            table.shown_comment().into(),
            when(0.into()),
            when(if is_hidden(&table.name) { "Y" } else { "N" }.into()),
        ]);
    })?;
    let made =
        TABLES.iter().map(|table| ("information_schema", table.name.to_ascii_uppercase(), "SYSTEM VIEW", "MEMORY"));
    let accounts = accounts::mysql_tables(translator).map(|name| ("mysql", name.to_owned(), "BASE TABLE", "InnoDB"));
    for (schema, name, kind, engine) in made.chain(accounts) {
        if about.wants_schema(schema) && about.wants_table(&name) {
            rows.push(made_line(schema, name, kind, engine));
        }
    }
    Ok(rows)
}

/// The kind of a table.
fn kind_of(table: &Table) -> &'static str {
    match table {
        table if table.is_view() => "VIEW",
        table if table.is_sequence() => "SEQUENCE",
        _ => "BASE TABLE",
    }
}

/// A table that is made when it is read, as a row of `tables`.
fn made_line(schema: &str, name: String, kind: &str, engine: &str) -> Vec<Item> {
    let mut row = vec!["def".into(), schema.into(), name.into(), kind.into(), engine.into()];
    row.extend([10.into(), "Fixed".into(), Item::Null]);
    row.extend([0; 5].map(Item::Int));
    row.extend([const { Item::Null }; 4]);
    row.extend(["utf8mb3_general_ci".into(), Item::Null, "".into(), "".into(), 0.into(), "N".into()]);
    row
}

fn statistics(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    let cardinalities = Cardinalities::read(translator, about);
    each_table(translator, about, |schema, _, table| {
        for index in &table.indexes {
            let is_rowid = index.kind == KeyKind::Primary && table.rowid_column().is_some();
            let is_ordered = index.kind.is_ordered();
            let physical = (!is_rowid).then(|| table.physical_index(index));
            let kind = match index.kind {
                KeyKind::Fulltext => "FULLTEXT",
                _ if table.is_hashed(index) => "HASH",
                _ => "BTREE",
            };
            for (number, part) in index.parts.iter().enumerate() {
                let Some(column) = table.position(part.column).map(|at| &table.columns[at]) else { continue };
                rows.push(vec![
                    "def".into(),
                    schema.into(),
                    table.name.as_str().into(),
                    i64::from(!index.kind.is_unique()).into(),
                    schema.into(),
                    index.name.as_str().into(),
                    (number as i64 + 1).into(),
                    column.name.as_str().into(),
                    match (is_ordered, part.descending) {
                        (true, true) => "D".into(),
                        (true, false) => "A".into(),
                        (false, _) => Item::Null,
                    },
                    cardinalities
                        .of(schema, &table.physical(), physical.as_deref(), number + 1)
                        .filter(|_| is_ordered)
                        .map_or(Item::Null, Item::Int),
                    part.prefix.map_or(Item::Null, |prefix| i64::from(prefix).into()),
                    Item::Null,
                    if column.nullable { "YES" } else { "" }.into(),
                    kind.into(),
                    "".into(),
                    index.comment.as_str().into(),
                    "NO".into(),
                ]);
            }
        }
    })?;
    Ok(rows)
}

fn views(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    let access = translator.now().env.access();
    each_table(translator, about, |schema, _, table| {
        if let Some(text) = &table.view {
            let definer = table.definer().shown();
            let shows_text = definer == access.name || access.on_table(schema, &table.name).has(Privileges::SHOW_VIEW);
            rows.push(vec![
                "def".into(),
                schema.into(),
                table.name.as_str().into(),
                if shows_text { text.as_str() } else { "" }.into(),
                table.check_option().map_or("NONE", CheckOption::word).into(),
                if is_updatable(translator, schema, table) { "YES" } else { "NO" }.into(),
                table.definer().shown().to_string().into(),
                table.definer().security().into(),
                "utf8mb4".into(),
                "utf8mb4_general_ci".into(),
                table.algorithm().word().into(),
            ]);
        }
    })?;
    Ok(rows)
}

/// Whether a view has columns that can be written to.
fn is_updatable(translator: &Translator<'_>, schema: &str, view: &Table) -> bool {
    let (engine, mode) = (translator.now().engine, view.view_mode());
    let text = view.view.as_deref().filter(|_| view.algorithm() != Algorithm::Temptable);
    let (Some(text), Ok(schema)) = (text, engine.schema(schema)) else { return false };
    // A view whose tables have gone has none.
    let shape = ViewText { text, mode, schema: &schema }.shape(engine, translator.session.library.is_aggregate);
    shape.ok().flatten().is_some_and(|shape| shape.has_bases())
}

#[cfg(test)]
mod tests {
    use super::TABLES;
    use crate::store::made_rows::COLUMNS_MAX;

    #[test]
    fn every_table_has_room_for_its_columns() {
        for table in TABLES {
            assert!(table.columns.split(' ').count() <= COLUMNS_MAX, "{}", table.name);
        }
    }
}
