//! SHOW, DESCRIBE, EXPLAIN and `information_schema`: all answered from the shadow catalogue.
//!
//! A table of `information_schema` is a list of rows made when the statement is translated (`tables`); SHOW
//! is a query on these tables with the column names that clients expect.

mod accounts;
mod cardinality;
mod checksum;
mod collations;
mod columns;
mod constraints;
mod create;
mod events;
mod explain;
mod expression;
mod routines;
mod server;
mod tables;
mod transactions;
mod triggers;

use tidegate_rows::{QueryError, Sink};

use crate::{
    catalog::Table,
    errors,
    identifier::{mysql_string, quoted},
    parse::{Pattern, Show, ShowWhat, TableName},
    session::{Core, pool::Pool, rows::rows},
    store::conn::{Cell, Step, quote, to_server_error},
    temporary_name,
    translate::params::Text,
    value::collation::Collation,
};

pub(crate) use accounts::mysql_schema;
pub(crate) use explain::explain;
pub(crate) use tables::information_schema;

type Done = Result<(), QueryError>;

/// The next value of AUTO_INCREMENT of a table; 0 if it has none.
fn next_auto(core: &Core, schema: &str, table: &Table) -> Result<u64, tidegate_rows::ServerError> {
    if table.auto_column().is_none() {
        return Ok(0);
    }
    let pool = Pool::of(&core.engine.schema(schema)?);
    let conn = pool.take()?;
    let next = tables::next_auto(&conn, table);
    pool.put(conn);
    Ok(next.unwrap_or(0))
}

/// The schema that a SHOW is about.
fn schema_name(core: &Core, given: Option<&str>) -> Result<String, tidegate_rows::ServerError> {
    if let Some(name) = given {
        if crate::schema::is_virtual(name) {
            return Ok(name.to_ascii_lowercase());
        }
        return Ok(core.engine.schema(name)?.name.clone());
    }
    match (&core.schema, core.env.virtual_schema()) {
        (Some(schema), _) => Ok(schema.name.clone()),
        (None, Some(name)) => Ok(name.to_owned()),
        _ => Err(errors::no_database()),
    }
}

fn span(sql: &[u8], (from, to): (usize, usize)) -> String {
    String::from_utf8_lossy(sql.get(from..to).unwrap_or_default()).into_owned()
}

/// Carries out SHOW or DESCRIBE.
///
/// # Errors
/// 1146, 1049 and what the filter says.
pub(crate) fn show(core: &mut Core, show: &Show, text: Text<'_>, more: bool, sink: &mut dyn Sink) -> Done {
    let sql = text.sql;
    let mut show = show.clone();
    if let ShowWhat::Columns { table, .. } | ShowWhat::Index(table) | ShowWhat::CreateTable(table) = &mut show.what {
        *table = core.actual(table);
    }
    let show = &show;
    let (query, order) = match &show.what {
        ShowWhat::Databases => {
            let name = quoted(&format!("Database{}", pattern_suffix(show, sql)));
            // A dump of all databases is of those that somebody has filled.
            (format!("SELECT schema_name AS {name} FROM information_schema.schemata WHERE schema_name <> 'mysql'"), "1")
        }
        ShowWhat::Tables { schema, full } => {
            let schema = schema_name(core, schema.as_deref())?;
            let name = quoted(&format!("Tables_in_{schema}{}", pattern_suffix(show, sql)));
            let kind = if *full { ", table_type AS `Table_type`" } else { "" };
            (format!("SELECT table_name AS {name}{kind} FROM information_schema.tables WHERE {} AND table_name NOT LIKE '#tmp.%'", in_schema(&schema)), "1")
        }
        ShowWhat::TableStatus { schema } => {
            let schema = schema_name(core, schema.as_deref())?;
            (format!(
                "SELECT table_name AS `Name`, engine AS `Engine`, version AS `Version`, row_format AS `Row_format`, \
                 table_rows AS `Rows`, avg_row_length AS `Avg_row_length`, data_length AS `Data_length`, \
                 max_data_length AS `Max_data_length`, index_length AS `Index_length`, data_free AS `Data_free`, \
                 auto_increment AS `Auto_increment`, create_time AS `Create_time`, update_time AS `Update_time`, \
                 check_time AS `Check_time`, table_collation AS `Collation`, checksum AS `Checksum`, \
                 create_options AS `Create_options`, table_comment AS `Comment`, max_index_length AS `Max_index_length`, temporary AS `Temporary` \
                 FROM information_schema.tables WHERE {}", in_schema(&schema)), "1")
        }
        ShowWhat::Columns { table, full } => (columns_query(core, table, *full)?, "tg_position"),
        ShowWhat::Index(table) => {
            let schema = schema_name(core, table.schema.as_deref())?;
            require_table(core, &schema, &table.name)?;
            (format!(
                "SELECT {} AS `Table`, non_unique AS `Non_unique`, index_name AS `Key_name`, seq_in_index AS `Seq_in_index`, \
                 column_name AS `Column_name`, collation AS `Collation`, cardinality AS `Cardinality`, sub_part AS `Sub_part`, \
                 packed AS `Packed`, nullable AS `Null`, index_type AS `Index_type`, comment AS `Comment`, \
                 index_comment AS `Index_comment`, ignored AS `Ignored` FROM information_schema.statistics \
                 WHERE {}", mysql_string(temporary_name::shown(&table.name)), of_table(&schema, &table.name)), "")
        }
        ShowWhat::CreateTable(table) | ShowWhat::CreateView(table) => {
            let schema = schema_name(core, table.schema.as_deref())?;
            return create::show_create(core, &schema, &table.name, matches!(show.what, ShowWhat::CreateView(_)), more, sink);
        }
        ShowWhat::CreateSequence(name) => return create::show_create_sequence(core, name, more, sink),
        ShowWhat::Routines { kind } => return show_routines(core, show, kind, text, more, sink),
        ShowWhat::Events { schema } => return show_events(core, show, schema.as_deref(), text, more, sink),
        ShowWhat::CreateRoutine(..) | ShowWhat::CreateEvent(_) | ShowWhat::CreateTrigger(_) => return show_create_program(core, &show.what, more, sink),
        ShowWhat::Triggers { schema } => return show_triggers(core, show, schema.as_deref(), text, more, sink),
        ShowWhat::CreateDatabase(name) => return create_database(core, name, more, sink),
        ShowWhat::Variables { global } => {
            let scope = if *global { "global" } else { "session" };
            (format!("SELECT variable_name AS `Variable_name`, variable_value AS `Value` FROM information_schema.{scope}_variables"), "1")
        }
        ShowWhat::Status => ("SELECT variable_name AS `Variable_name`, variable_value AS `Value` FROM information_schema.session_status".into(), "1"),
        ShowWhat::Warnings | ShowWhat::Errors => return warnings(core, matches!(show.what, ShowWhat::Errors), more, sink),
        ShowWhat::Engines => ("SELECT engine AS `Engine`, support AS `Support`, comment AS `Comment`, transactions AS `Transactions`, xa AS `XA`, savepoints AS `Savepoints` FROM information_schema.engines".into(), ""),
        ShowWhat::Charset => ("SELECT character_set_name AS `Charset`, description AS `Description`, default_collate_name AS `Default collation`, maxlen AS `Maxlen` FROM information_schema.character_sets".into(), "1"),
        ShowWhat::Collation => ("SELECT collation_name AS `Collation`, character_set_name AS `Charset`, id AS `Id`, is_default AS `Default`, is_compiled AS `Compiled`, sortlen AS `Sortlen` FROM information_schema.collations".into(), "1"),
        ShowWhat::ProcessList { full } => {
            let info = if *full { "info" } else { "left(info, 100)" };
            (format!("SELECT id AS `Id`, user AS `User`, host AS `Host`, db AS `db`, command AS `Command`, time AS `Time`, state AS `State`, {info} AS `Info`, progress AS `Progress` FROM information_schema.processlist"), "")
        }
        ShowWhat::EngineStatus => return transactions::show_status(core, more, sink),
        ShowWhat::Privileges => return accounts::show_privileges(core, more, sink),
        ShowWhat::Plugins => ("SELECT plugin_name AS `Name`, plugin_status AS `Status`, plugin_type AS `Type`, plugin_library AS `Library`, plugin_license AS `License` FROM information_schema.plugins".into(), ""),
        ShowWhat::CountWarnings => return count_of(core, false, more, sink),
        ShowWhat::CountErrors => return count_of(core, true, more, sink),
        ShowWhat::Empty(names) => return rows(core, names, &[], more, sink),
    };
    filtered(core, show, text, &query, order, more, sink)
}

/// SHOW CREATE of a stored program.
fn show_create_program(core: &mut Core, what: &ShowWhat, more: bool, sink: &mut dyn Sink) -> Done {
    match what {
        ShowWhat::CreateRoutine(kind, name) => routines::show_create(core, *kind, name, more, sink),
        ShowWhat::CreateEvent(name) => events::show_create(core, name, more, sink),
        ShowWhat::CreateTrigger(name) => triggers::show_create(core, name, more, sink),
        _ => Err(errors::internal("no stored program").into()),
    }
}

/// SHOW CREATE DATABASE.
fn create_database(core: &mut Core, name: &str, more: bool, sink: &mut dyn Sink) -> Done {
    let collation = core.engine.schema(name)?.catalog()?.collation.unwrap_or(Collation::DEFAULT);
    let (charset, collation) = (collation.charset(), collation.name());
    let text = format!("CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET {charset} COLLATE {collation} */");
    rows(core, &["Database", "Create Database"], &[vec![Some(name.to_owned()), Some(text)]], more, sink)
}

/// What LIKE adds to a condition where it is about this column.
fn and_like(show: &Show, column: &str, sql: &[u8]) -> String {
    match &show.like {
        Some(Pattern::Text(text)) => format!(" AND {column} LIKE {}", span(sql, *text)),
        _ => String::new(),
    }
}

/// SHOW PROCEDURE STATUS and its like, whose LIKE is about the names of the programs.
fn show_routines(core: &mut Core, show: &Show, kind: &str, text: Text<'_>, more: bool, sink: &mut dyn Sink) -> Done {
    let like = and_like(show, "routine_name", text.sql);
    let query = format!("{} WHERE routine_type = '{kind}'{like}", routines::STATUS);
    filtered(core, &Show { like: None, ..show.clone() }, text, &query, "1, 2", more, sink)
}

/// SHOW EVENTS, whose LIKE is about their names.
fn show_events(
    core: &mut Core,
    show: &Show,
    schema: Option<&str>,
    text: Text<'_>,
    more: bool,
    sink: &mut dyn Sink,
) -> Done {
    let schema = schema_name(core, schema)?;
    let like = and_like(show, "event_name", text.sql);
    let query = format!("{} WHERE BINARY event_schema = {}{like}", events::SHOW, mysql_string(&schema));
    filtered(core, &Show { like: None, ..show.clone() }, text, &query, "2", more, sink)
}

/// SHOW TRIGGERS, whose LIKE is about the names of tables.
fn show_triggers(
    core: &mut Core,
    show: &Show,
    schema: Option<&str>,
    text: Text<'_>,
    more: bool,
    sink: &mut dyn Sink,
) -> Done {
    let schema = schema_name(core, schema)?;
    let exactly = if crate::schema::is_virtual(&schema) { "" } else { "BINARY " };
    let like = and_like(show, "event_object_table", text.sql);
    let all = triggers::SHOW;
    let query = format!("{all} WHERE {exactly}trigger_schema = {}{like}", mysql_string(&schema));
    filtered(core, &Show { like: None, ..show.clone() }, text, &query, "", more, sink)
}

/// What LIKE adds to the name of the first column.
fn pattern_suffix(show: &Show, sql: &[u8]) -> String {
    match &show.like {
        Some(Pattern::Text(text)) => format!(" ({})", span(sql, *text).trim().trim_matches(['\'', '"'])),
        _ => String::new(),
    }
}

/// Runs a SHOW's query with its LIKE or WHERE.
fn filtered(
    core: &mut Core,
    show: &Show,
    text: Text<'_>,
    query: &str,
    order: &str,
    more: bool,
    sink: &mut dyn Sink,
) -> Done {
    let first = first_column(query);
    let condition = match (&show.like, &show.filter) {
        (Some(Pattern::Name(name)), _) => format!(" WHERE {first} = {}", mysql_string(name)),
        (Some(Pattern::Text(pattern)), _) => format!(" WHERE {first} LIKE {}", span(text.sql, *pattern)),
        (None, Some(filter)) => format!(" WHERE {}", span(text.sql, *filter)),
        (None, None) => String::new(),
    };
    // Not `*`: tables of `information_schema` leave out what is dear and not named.
    let columns = visible_columns(query);
    let order = if order.is_empty() { String::new() } else { format!(" ORDER BY {order}") };
    let sql = format!("SELECT {columns} FROM ({query}) AS `tg_show`{condition}{order}");
    core.run_part(Text { sql: sql.as_bytes(), ..text }, more, sink)
}

/// The alias of a query's first column.
fn first_column(query: &str) -> String {
    aliases(query).next().unwrap_or_default()
}

fn visible_columns(query: &str) -> String {
    let names: Vec<String> = aliases(query).filter(|name| name != "`tg_position`").collect();
    names.join(", ")
}

/// The aliases of a query's columns: this module writes all of them as AS `name`.
fn aliases(query: &str) -> impl Iterator<Item = String> {
    query.split(" AS `").skip(1).map(|rest| {
        let end = rest.replace("``", "\u{1}\u{1}").find('`').unwrap_or(rest.len());
        format!("`{}`", &rest[..end])
    })
}

fn require_table(core: &Core, schema: &str, table: &str) -> Result<(), tidegate_rows::ServerError> {
    let missing = || errors::no_such_table(schema, table);
    if crate::schema::is_virtual(schema) {
        return if tables::exists(table) { Ok(()) } else { Err(missing()) };
    }
    core.engine.schema(schema)?.catalog()?.table(table).map(|_| ()).ok_or_else(missing)
}

fn columns_query(core: &Core, table: &TableName, full: bool) -> Result<String, tidegate_rows::ServerError> {
    let schema = schema_name(core, table.schema.as_deref())?;
    require_table(core, &schema, &table.name)?;
    let (collation, rest) = if full {
        ("collation_name AS `Collation`, ", ", privileges AS `Privileges`, column_comment AS `Comment`")
    } else {
        ("", "")
    };
    Ok(format!(
        "SELECT column_name AS `Field`, column_type AS `Type`, {collation}is_nullable AS `Null`, column_key AS `Key`, \
         columns.column_default_shown AS `Default`, extra AS `Extra`{rest}, ordinal_position AS `tg_position` FROM information_schema.columns \
         WHERE {}",
        of_table(&schema, &table.name)
    ))
}

/// The condition that a row of `information_schema` is about a schema: names of files differ by their case.
fn in_schema(schema: &str) -> String {
    let exactly = if crate::schema::is_virtual(schema) { "" } else { "BINARY " };
    format!("{exactly}table_schema = {}", mysql_string(schema))
}

/// The condition that a row of `information_schema` is about a table.
fn of_table(schema: &str, table: &str) -> String {
    let exactly = if crate::schema::is_virtual(schema) { "" } else { "BINARY " };
    format!("{} AND {exactly}table_name = {}", in_schema(schema), mysql_string(table))
}

/// SHOW COUNT(*) WARNINGS and ERRORS, of the statement before.
fn count_of(core: &mut Core, errors_only: bool, more: bool, sink: &mut dyn Sink) -> Done {
    let all = core.env.shown_warnings();
    core.env.keep_shown();
    let count = all.iter().filter(|warning| !errors_only || warning.level == "Error").count();
    let name = if errors_only { "@@session.error_count" } else { "@@session.warning_count" };
    rows(core, &[name], &[vec![Some(count.to_string())]], more, sink)
}

fn warnings(core: &mut Core, errors_only: bool, more: bool, sink: &mut dyn Sink) -> Done {
    let all = core.env.shown_warnings();
    core.env.keep_shown();
    let list: Vec<Vec<Option<String>>> = all
        .into_iter()
        .filter(|warning| !errors_only || warning.level == "Error")
        .map(|warning| vec![Some(warning.level.to_owned()), Some(warning.code.to_string()), Some(warning.message)])
        .collect();
    rows(core, &["Level", "Code", "Message"], &list, more, sink)
}

/// ANALYZE, OPTIMIZE, CHECK and REPAIR TABLE; FLUSH, which has nothing to do, answers OK.
///
/// CHECK TABLE reads the whole table and its indexes, OPTIMIZE TABLE makes the indexes and statistics anew, ANALYZE TABLE the
/// statistics; REPAIR has nothing to do, and says so as InnoDB does.
///
/// # Errors
/// 1146 is a row here, as in MySQL; storage errors.
pub(crate) fn admin(core: &mut Core, verb: &str, names: &[TableName], more: bool, sink: &mut dyn Sink) -> Done {
    if verb.is_empty() {
        core.ok(0, more, sink);
        return Ok(());
    }
    if let Some(rest) = verb.strip_prefix("checksum") {
        return checksum::checksum(core, names, !rest.is_empty(), more, sink);
    }
    let mut list = Vec::new();
    for name in names {
        let schema = schema_name(core, name.schema.as_deref())?;
        let shown = format!("{schema}.{}", name.name);
        let lines = match require_table(core, &schema, &name.name) {
            Ok(()) if verb == "check" => check_table(core, &schema, &name.name)?,
            Ok(()) if verb == "optimize" => {
                crate::ddl::rebuild_indexes(core, &schema, &name.name)?;
                core.analyse(&schema, &name.name)?;
                let note = "Table does not support optimize, doing recreate + analyze instead";
                vec![("note", note.to_owned()), ("status", "OK".to_owned())]
            }
            Ok(()) if verb == "repair" => {
                vec![("note", "The storage engine for the table doesn't support repair".to_owned())]
            }
            Ok(()) if verb == "analyze" => {
                core.analyse(&schema, &name.name)?;
                vec![("status", "OK".to_owned())]
            }
            Ok(()) => vec![("status", "OK".to_owned())],
            Err(error) => vec![("Error", error.message), ("status", "Operation failed".to_owned())],
        };
        for (kind, text) in lines {
            list.push(vec![Some(shown.clone()), Some(verb.to_owned()), Some(kind.to_owned()), Some(text)]);
        }
    }
    rows(core, &["Table", "Op", "Msg_type", "Msg_text"], &list, more, sink)
}

/// What SQLite finds wrong in a table's pages, rows and indexes.
fn check_table(core: &mut Core, schema: &str, name: &str) -> Result<Vec<(&'static str, String)>, QueryError> {
    const FINDINGS_MAX: usize = 100;
    let schema = core.engine.schema(schema)?;
    let catalog = schema.catalog()?;
    let Some(table) = catalog.table(name).filter(|table| table.view.is_none()) else {
        return Ok(vec![("status", "OK".to_owned())]);
    };
    let pool = Pool::of(&schema);
    let conn = pool.take()?;
    let sql = format!("PRAGMA integrity_check({})", quote(&table.physical()));
    let mut found = Vec::new();
    let result = (|| {
        let mut stmt = conn.prepare(&sql)?;
        while found.len() < FINDINGS_MAX && stmt.step()? == Step::Row {
            if let Cell::Text(line) = stmt.cell(0) {
                found.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        Ok(())
    })();
    pool.put(conn);
    result.map_err(|error| to_server_error(&error))?;
    if found.len() == 1 && found[0] == "ok" {
        return Ok(vec![("status", "OK".to_owned())]);
    }
    let mut lines: Vec<(&'static str, String)> = found.into_iter().map(|line| ("Warning", line)).collect();
    lines.push(("error", "Corrupt".to_owned()));
    Ok(lines)
}
