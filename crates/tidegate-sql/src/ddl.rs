//! CREATE, ALTER, DROP: SQLite's tables and the shadow catalogue change in one transaction.

mod alter;
mod create;
mod define;
pub(crate) mod event;
mod fulltext;
mod keys;
mod move_table;
mod physical;
mod rename;
mod replace;
mod routine;
mod sequence;
mod temporary;
mod trigger;
mod view;
mod view_columns;

use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
};

use tidegate_rows::{QueryError, ServerError, Sink};

use crate::{
    account_name::Name,
    accounts::{Access, Privileges},
    cache::StatementCache,
    catalog::{self, Catalog, Definer, Table},
    catalog_file, errors,
    parse::{AlterItem, Statement, TableName, account::Who},
    schema::{Schema, commits::Reservation},
    session::{Core, acquire_unused, pool::Pool, sequences::write_marks},
    store::{
        conn::{Cell, Conn, SqliteError, Step, to_server_error},
        file_source::off_thread,
    },
    task::block_on,
    temporary_name,
    translate::{Translator, params::Text, select::RelColumn},
    value::collation::{Collation, collation_of},
};

pub(crate) use sequence::found as found_sequence;

type Res<T> = Result<T, ServerError>;

/// Longest name of a table, column or index.
const NAME_MAX: usize = 64;

pub(super) fn internal(error: SqliteError) -> ServerError {
    to_server_error(&error)
}

/// Runs a statement that changes definitions; the session's transaction is committed. Answers the affected rows, `None` if
/// the result has been sent already.
///
/// # Errors
/// MySQL's.
pub(crate) fn run(
    core: &mut Core,
    statement: Statement,
    text: Text<'_>,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<Option<u64>, QueryError> {
    let affected = match statement {
        Statement::CreateDatabase { name, or_replace, if_not_exists, collation, charset } => {
            let collation = collation_of(charset.as_deref(), collation.as_deref(), Collation::DEFAULT)?;
            let replaces = or_replace && core.engine.schema(&name).is_ok();
            if replaces {
                drop_database(core, &name, true)?;
            }
            if create_database(core, &name, collation, if_not_exists)? {
                if replaces { 2 } else { 1 }
            } else {
                core.env.note(errors::database_exists(&name));
                0
            }
        }
        Statement::AlterDatabase { name, collation, charset } => {
            alter_database(core, name.as_deref(), charset.as_deref(), collation.as_deref())?
        }
        Statement::DropDatabase { name, if_exists } => drop_database(core, &name, if_exists)?,
        Statement::CreateTable(create) => return create::create_table(core, *create, text.sql, more, sink),
        Statement::DropTable { tables, if_exists, temporary } => drop_some_tables(core, tables, if_exists, temporary)?,
        Statement::Event(event) => {
            event::define(core, &event, text.sql)?;
            0
        }
        statement @ (Statement::CreateSequence(_)
        | Statement::AlterSequence { .. }
        | Statement::DropSequence { .. }) => {
            sequence::define(core, statement)?;
            0
        }
        statement @ (Statement::CreateTrigger(_)
        | Statement::CreateRoutine(_)
        | Statement::AlterRoutine(_)
        | Statement::DropProgram { .. }) => {
            trigger::define(core, statement)?;
            0
        }
        Statement::DropView { views, if_exists } => drop_tables(core, &views, if_exists, true)?,
        Statement::Truncate(name) => truncate(core, &core.actual(&name))?,
        Statement::AlterTable { table, if_exists, items } => alter_table(core, (&table, if_exists), &items, text.sql)?,
        Statement::RenameTable(pairs) => {
            rename::rename(core, &pairs)?;
            0
        }
        Statement::CreateView(definition) => view::create(core, &definition, text.sql)?,
        _ => return Err(errors::internal("not a definition").into()),
    };
    Ok(Some(affected))
}

/// ALTER TABLE; one that does nothing but move a table to another schema is a RENAME TABLE.
fn alter_table(core: &mut Core, (table, if_exists): (&TableName, bool), items: &[AlterItem], sql: &[u8]) -> Res<u64> {
    let table = core.actual(table);
    if temporary_name::is_hidden(&table.name) && items.iter().any(|item| matches!(item, AlterItem::RenameTable(_))) {
        return Err(errors::unsupported("renaming a temporary table"));
    }
    match items {
        [AlterItem::RenameTable(to)] if rename::moves(core, &table, to)? => {
            rename::rename(core, &[(table, to.clone())])?;
            Ok(0)
        }
        _ => alter::alter_table(core, (&table, if_exists), items, sql),
    }
}

/// Gives a schema another collation for the tables to come.
fn alter_database(core: &Core, name: Option<&str>, charset: Option<&str>, collation: Option<&str>) -> Res<u64> {
    let schema = match name {
        Some(name) => core.engine.schema(name)?,
        None => core.schema.clone().ok_or_else(errors::no_database)?,
    };
    change(core, &schema, &[], |conn, catalog| {
        let known = catalog.collation.unwrap_or(Collation::DEFAULT);
        catalog_file::set_collation(conn, collation_of(charset, collation, known)?).map_err(internal)
    })?;
    Ok(1)
}

/// Creates a schema; answers whether it is new.
fn create_database(core: &Core, name: &str, collation: Collation, if_not_exists: bool) -> Res<bool> {
    let (engine, name) = (Arc::clone(&core.engine), name.to_owned());
    off_thread(move || Ok(engine.directory.create_schema(&name, collation, if_not_exists)))?.map_err(errors::storage)?
}

/// Drops a schema when nobody writes to it, and no open transaction has changed or locked rows of it.
fn drop_database(core: &mut Core, name: &str, if_exists: bool) -> Res<u64> {
    loop {
        let schema = match core.engine.schema(name) {
            Ok(schema) => schema,
            Err(error) if error.code != errors::UNKNOWN_DATABASE => return Err(error),
            Err(_) if if_exists => {
                core.env.note(errors::no_database_to_drop(name));
                return Ok(0);
            }
            Err(_) => return Err(errors::no_database_to_drop(name)),
        };
        match drop_schema(core, &schema) {
            Ok(Some(tables)) => {
                core.forget_schema(name);
                return Ok(tables);
            }
            Ok(None) => {}
            Err(error) if !schema.is_dropped() => return Err(error),
            // Another session has dropped it meanwhile, and has perhaps made another one since.
            Err(_) => {}
        }
    }
}

/// Drops a schema; answers how many tables it had, `None` if it was dropped before.
fn drop_schema(core: &Core, schema: &Arc<Schema>) -> Res<Option<u64>> {
    let catalog = schema.catalog()?;
    let tables: Vec<&str> = catalog.tables.keys().map(String::as_str).collect();
    let unused = acquire_unused(schema, &core.env, &tables)?;
    // Nobody commits any more. Whoever waits until a commit is on the disk hears of that before the files are gone.
    let commits = schema.sync.commits();
    if schema.sync.poll(commits, None).is_pending() {
        core.engine.background.request_sync(schema);
        block_on(poll_fn(|cx| schema.sync.poll(commits, Some(cx)))).map_err(|_| errors::interrupted())?;
    }
    let (engine, dropped) = (Arc::clone(&core.engine), Arc::clone(schema));
    let was_there = off_thread(move || {
        // The lock outlives the statement, which may be ended first.
        let _unused = unused;
        Ok(engine.directory.drop_schema(&dropped))
    })?
    .map_err(errors::storage)??;
    core.engine.directory.let_go();
    Ok(was_there.then_some(tables.len() as u64))
}

/// The schema that a name means.
///
/// # Errors
/// 1046, 1049.
pub(super) fn schema_of(core: &Core, name: &TableName) -> Res<Arc<Schema>> {
    match &name.schema {
        Some(schema) => core.engine.schema(schema),
        None => core.schema.clone().ok_or_else(errors::no_database),
    }
}

/// Runs `change`, which is about these tables, with the schema's write lock in a transaction, then makes the new catalogue
/// visible and durable.
///
/// # Errors
/// Those of `change`: nothing has changed then. 1205 if others have a table, or rows of it, locked.
pub(super) fn change<T>(
    core: &Core,
    schema: &Arc<Schema>,
    tables: &[&str],
    change: impl FnOnce(&mut Conn, &Catalog) -> Res<T>,
) -> Res<T> {
    schema.may_write()?;
    let guard = acquire_unused(schema, &core.env, tables)?;
    let pool = Pool::of(schema);
    let mut conn = pool.take()?;
    let catalog = schema.catalog()?;
    // Tables are rebuilt under the same name; their children's references stay.
    conn.enforce_foreign_keys(false);
    conn.take_redefined();
    let result = (|| {
        conn.begin_immediate().map_err(internal)?;
        catalog_file::views::hide(&conn).map_err(internal)?;
        temporary::sweep(&conn, &catalog, schema)?;
        let lock = core.env.writes_to(schema);
        let value = change(&mut conn, &catalog)?;
        drop(lock);
        write_marks(&core.env, &mut conn)?;
        let reserved = schema.commits.reserve(&mut conn)?;
        // From the commit on others read by definitions that no plan is made for yet.
        let redefining = schema.redefinition.begin();
        conn.commit().map_err(internal)?;
        #[cfg(test)]
        schema.redefinition.pause();
        Ok((value, reserved, redefining))
    })();
    if result.is_err() {
        conn.rollback();
    }
    conn.enforce_foreign_keys(true);
    StatementCache::of(&mut conn).clear();
    if result.is_ok() {
        // Before others plan by the new definitions: snapshots of before are not to be read by them.
        let names = tables.iter().filter_map(|name| catalog.table(name));
        names.for_each(|table| table.state.defined.store(schema.version() + 1, Ordering::Release));
    }
    let value = result.and_then(|(value, reserved, redefining)| {
        let reloaded = schema.reload(&conn);
        note_definition(schema, reserved, tables, &catalog, reloaded.as_ref().ok());
        drop(redefining);
        reloaded.map(|_| value)
    });
    pool.put(conn);
    drop(guard);
    let value = value?;
    let catalog = schema.catalog()?;
    if tables.iter().any(|name| catalog.table(name).is_some_and(|table| table.state.changes.are_many())) {
        core.engine.request_statistics(schema);
    }
    core.make_durable(schema)?;
    Ok(value)
}

/// Numbers the commit of a definition. Behind the new catalogue: whoever finds the new number of a table and knows no newer
/// definitions than those of `before` has found it too late.
fn note_definition(
    schema: &Schema,
    reserved: Reservation,
    tables: &[&str],
    before: &Catalog,
    redefined: Option<&BTreeSet<i64>>,
) {
    let after = schema.catalog();
    let (mut states, mut names) = (Vec::new(), Vec::new());
    for catalog in [Some(before), after.as_deref().ok()].into_iter().flatten() {
        for table in catalog.tables.values() {
            if tables.contains(&table.name.as_str()) || redefined.is_some_and(|ids| ids.contains(&table.id)) {
                states.push(Arc::clone(&table.state));
                names.push(table.name.as_str().into());
            }
        }
    }
    schema.note_definition(reserved, &states, names);
}

/// Makes the indexes of a table anew.
///
/// # Errors
/// Storage errors.
pub(crate) fn rebuild_indexes(core: &mut Core, schema: &str, name: &str) -> Res<()> {
    core.commit_open()?;
    let schema = core.engine.schema(schema)?;
    change(core, &schema, &[name], |conn, catalog| match catalog.table(name).filter(|table| table.view.is_none()) {
        Some(table) => {
            conn.execute(&format!("REINDEX {}", table.physical())).map_err(internal)?;
            fulltext::optimise(conn, table)
        }
        None => Ok(()),
    })
}

/// Checks the name of an object.
///
/// # Errors
/// 1059, 1103.
pub(super) fn check_name(name: &str) -> Res<()> {
    if name.chars().count() > NAME_MAX {
        return Err(errors::too_long_name(name));
    }
    if name.is_empty() || name.ends_with(' ') || name.contains('\0') {
        return Err(errors::wrong_table_name(name));
    }
    Ok(())
}

/// A number for a new table.
pub(super) fn next_table_id(conn: &Conn) -> Res<i64> {
    let mut stmt = conn
        .prepare("INSERT INTO tg_meta VALUES ('next_table', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value")
        .map_err(internal)?;
    let id = match stmt.step().map_err(internal)? {
        Step::Row => match stmt.cell(0) {
            Cell::Int(id) => id,
            _ => 1,
        },
        Step::Done => 1,
    };
    while stmt.step().map_err(internal)? == Step::Row {}
    Ok(id)
}

/// DROP TABLE: temporary tables go before those of the schema.
fn drop_some_tables(core: &mut Core, names: Vec<TableName>, if_exists: bool, temporary: bool) -> Res<u64> {
    let mut others = Vec::new();
    for name in names {
        let actual = core.actual(&name);
        if !temporary_name::is_hidden(&actual.name) {
            others.push(name);
            continue;
        }
        let schema = schema_of(core, &name)?;
        let found = schema.catalog()?.table(&actual.name).cloned();
        if let Some(table) = found {
            core.stand_aside(&schema, Some(table.id))?;
            drop_table(core, &schema, &table)?;
        }
        core.env.set_temporary(&schema.name, &name.name, None);
    }
    if others.is_empty() {
        return Ok(0);
    }
    if !temporary {
        return drop_tables(core, &others, if_exists, false);
    }
    let mut missing = Vec::new();
    for name in &others {
        let shown = format!("{}.{}", schema_of(core, name)?.name, name.name);
        if if_exists {
            core.env.note(errors::unknown_table_to_drop(shown));
        } else {
            missing.push(shown);
        }
    }
    if missing.is_empty() { Ok(0) } else { Err(errors::unknown_table_to_drop(missing.join(","))) }
}

fn drop_tables(core: &mut Core, names: &[TableName], if_exists: bool, views: bool) -> Res<u64> {
    let mut missing = Vec::new();
    for name in names {
        let schema = match schema_of(core, name) {
            Ok(schema) => schema,
            Err(error) if if_exists && error.code == 1049 => {
                missing.push(format!("{}.{}", name.schema.as_deref().unwrap_or(""), name.name));
                continue;
            }
            Err(error) => return Err(error),
        };
        let found = schema.catalog()?.table(&name.name).cloned();
        let shown = format!("{}.{}", schema.name, name.name);
        match found {
            Some(table) if table.is_view() == views => {
                if !drop_table(core, &schema, &table)? {
                    missing.push(shown);
                }
            }
            Some(table) if !views && table.is_view() && !if_exists => return Err(errors::is_a_view(shown)),
            _ if views && !if_exists => return Err(errors::unknown_view(shown)),
            _ => missing.push(shown),
        }
    }
    if missing.is_empty() {
        return Ok(0);
    }
    let error = errors::unknown_table_to_drop(missing.join(","));
    if !if_exists {
        return Err(error);
    }
    core.env.note(error);
    Ok(0)
}

/// Whether the table that was looked up before the wait for the lock is the one that bears its name behind it.
fn is_still_there(catalog: &Catalog, table: &Table) -> bool {
    catalog.table(&table.name).is_some_and(|found| found.id == table.id)
}

/// A table, other than itself, with a foreign key to this one.
fn child_of(catalog: &Catalog, parent: i64) -> Option<&Arc<Table>> {
    catalog.tables.values().find(|other| {
        other.id != parent && other.foreign_keys.iter().any(|key| catalog::parent_id(key) == Some(parent))
    })
}

/// Whether the table was still there behind the wait for the lock.
fn drop_table(core: &Core, schema: &Arc<Schema>, table: &Arc<Table>) -> Res<bool> {
    let checks = core.env.foreign_keys.get();
    change(core, schema, &[&table.name], |conn, catalog| {
        if !is_still_there(catalog, table) {
            return Ok(false);
        }
        if checks {
            check_no_child(schema, catalog, table)?;
        }
        remove_table(conn, table)?;
        Ok(true)
    })
}

/// Sees that no other table refers to this one.
///
/// # Errors
/// 1451
fn check_no_child(schema: &Schema, catalog: &Catalog, parent: &Table) -> Res<()> {
    match child_of(catalog, parent.id) {
        Some(child) => Err(errors::parent_row(format!("`{}`.`{}`", schema.name, child.name))),
        None => Ok(()),
    }
}

/// Removes a table or view with its triggers, inside of the caller's transaction.
fn remove_table(conn: &Conn, table: &Table) -> Res<()> {
    if !table.is_view() {
        conn.execute(&format!("DROP TABLE t{}", table.id)).map_err(internal)?;
        fulltext::remove_all(conn, table)?;
    }
    catalog_file::remove(conn, table.id).map_err(internal)?;
    catalog_file::programs::remove_of_table(conn, table.id).map_err(internal)
}

fn truncate(core: &mut Core, name: &TableName) -> Res<u64> {
    let schema = schema_of(core, name)?;
    let table =
        schema.catalog()?.table(&name.name).cloned().ok_or_else(|| errors::no_such_table(&schema.name, &name.name))?;
    if table.is_view() {
        return Err(errors::no_such_table(&schema.name, &name.name));
    }
    if table.is_sequence() {
        return Err(errors::not_of_sequences(&schema.name, &name.name));
    }
    let checks = core.env.foreign_keys.get();
    change(core, &schema, &[&name.name], |conn, catalog| {
        if !is_still_there(catalog, &table) {
            return Err(errors::no_such_table(&schema.name, &name.name));
        }
        if let Some(child) = child_of(catalog, table.id).filter(|_| checks) {
            return Err(errors::truncate_parent(format!("`{}`.`{}`", schema.name, child.name)));
        }
        table.state.changes.forget();
        fulltext::anew(conn, &table, || {
            conn.execute(&format!("DELETE FROM t{0}; UPDATE tg_table SET next_auto = 0 WHERE id = {0}", table.id))
                .map_err(internal)
        })
    })?;
    table.state.next_auto.store(1, Ordering::Release);
    table.state.stored_auto.store(0, Ordering::Release);
    Ok(0)
}

/// As whom a view will be run; only some may make views for others.
///
/// # Errors
/// 1227.
fn definer_of(core: &Core, definer: Option<&Who>, is_invoker: bool) -> Res<Definer> {
    let access = core.env.access();
    let name = match definer {
        None | Some(Who::Current) => access.name.clone(),
        Some(Who::CurrentRole) => return Err(errors::unsupported("roles as definers of views")),
        Some(Who::Named { user, host }) => Name::new(user, host.as_deref().unwrap_or("%")),
    };
    if name != access.name {
        access.want_global(Privileges::SUPER.and(Privileges::SET_USER))?;
        if core.env.accounts.now().find(&name).is_none() {
            core.env.note(errors::no_such_definer(&name.user, &name.host));
        }
    }
    let is_process = name == Access::owner().name;
    Ok(Definer { name: (!is_process).then_some(name), is_invoker })
}

/// The columns of a view's text.
///
/// # Errors
/// 1352 for one that reads a temporary table, and what the text says.
fn describe_view(core: &Core, text: &str, mode: u64, schema: &Arc<Schema>) -> Res<Vec<RelColumn>> {
    let (columns, reads) = describe_query(core, text, mode, schema)?;
    match reads.iter().find(|(_, name)| core.env.owns_temporary(name)) {
        Some((_, name)) => Err(errors::view_of_temporary(temporary_name::shown(name))),
        None => Ok(columns),
    }
}

/// The columns of a query, and the schemas and names of the tables and views that it reads.
fn describe_query(
    core: &Core,
    text: &str,
    mode: u64,
    schema: &Arc<Schema>,
) -> Res<(Vec<RelColumn>, Vec<(String, String)>)> {
    let session = crate::translate::Session::new(&core.engine, &core.above.library, Some(schema), &core.env);
    let temporary = session.inputs.temporary;
    let mut translator = Translator::new(session, &[], &[], (&[], &[]), &[]);
    let rel = translator.view_over("", text, mode, schema, false, temporary)?;
    Ok((rel.columns, translator.read_names))
}

impl Core {
    /// Leaves a schema that has been dropped.
    fn forget_schema(&mut self, name: &str) {
        if self.schema.as_ref().is_some_and(|schema| schema.name == name) {
            self.leave_schema();
        }
    }
}
