//! What statements need that have no plan. Those that have one are checked where their tables and columns are looked up
//! (`crate::translate`), and so are the queries within the others.

use tidegate_rows::ServerError;

use super::Core;
use crate::{
    accounts::{Access, Privileges, Reach},
    errors,
    parse::{
        AlterItem, CreateTable, IsolationScope, KillTarget, SetItem, Show, ShowWhat, Statement, TableName,
        view::Existing,
    },
    schema::is_virtual,
    temporary_name,
};

type Res<T> = Result<T, ServerError>;

/// What is asked for, and who asks.
struct Check<'a> {
    core: &'a Core,
    access: &'a Access,
}

/// Whether the session may run a statement.
///
/// # Errors
/// 1044, 1142, 1227: what it may not do.
pub(crate) fn check(core: &Core, statement: &Statement) -> Res<()> {
    // Plans, and what needs nothing of anybody.
    if core.env.rights().0 == 0 {
        return Ok(());
    }
    let access = core.env.access();
    Check { core, access: &access }.statement(statement)
}

/// Whether the session may end what a client does.
///
/// # Errors
/// 1095 if it is another user's.
pub(crate) fn check_kill(core: &Core, target: &KillTarget) -> Res<()> {
    let access = core.env.access();
    if access.global().has_any(Privileges::SUPER.and(Privileges::CONNECTION_ADMIN)) {
        return Ok(());
    }
    match target {
        KillTarget::Id(id) if *id == core.env.connection_id => Ok(()),
        KillTarget::Id(id) => match core.engine.clients.user_of(*id) {
            Some(user) if user == access.name.user => Ok(()),
            Some(_) => Err(errors::not_owner_of_thread(id)),
            None => Err(errors::unknown_thread(id)),
        },
        KillTarget::User(user) if *user == access.name.user => Ok(()),
        KillTarget::User(_) => access.want_global(Privileges::SUPER.and(Privileges::CONNECTION_ADMIN)),
    }
}

impl Check<'_> {
    fn statement(&self, statement: &Statement) -> Res<()> {
        match statement {
            // Checked as they are translated, or made of statements that are.
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::SelectInto { .. }
            | Statement::Explain { .. }
            | Statement::Do
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::ExecuteImmediate { .. } => Ok(()),
            // These are about the session alone.
            Statement::Begin { .. }
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::Savepoint(_)
            | Statement::RollbackTo(_)
            | Statement::Release(_)
            | Statement::Deallocate(_)
            | Statement::UnlockTables
            | Statement::Signal { .. }
            | Statement::Nothing => Ok(()),
            // These ask for themselves.
            Statement::Account(_) | Statement::Kill { .. } => Ok(()),
            Statement::Waits { statement, .. } => self.statement(statement),
            Statement::Load(load) if load.local => Ok(()),
            Statement::Load(_) | Statement::SelectIntoFile { .. } => self.access.want_global(Privileges::FILE),
            Statement::Use(schema) => self.access.want_schema(schema),
            Statement::Set(items) | Statement::SetFor { items, .. } => items.iter().try_for_each(|item| self.set(item)),
            Statement::Show(show) => self.show(show),
            Statement::Admin { verb, tables } => self.admin(verb, tables),
            Statement::LockTables(tables) => tables.iter().try_for_each(|(table, _)| {
                self.in_schema(table, Privileges::LOCK_TABLES)?;
                self.on_table(table, Privileges::SELECT)
            }),
            Statement::LockAll => self.access.want_global(Privileges::RELOAD),
            Statement::Call(_) | Statement::Block(_) => Ok(()),
            definition if definition.is_definition() => self.definition(definition),
            _ => Err(errors::internal("a statement whose rights nobody asks for")),
        }
    }

    fn event(&self, name: &TableName, renamed: Option<&TableName>) -> Res<()> {
        self.in_schema(name, Privileges::EVENT)?;
        renamed.map_or(Ok(()), |name| self.in_schema(name, Privileges::EVENT))
    }

    fn definition(&self, statement: &Statement) -> Res<()> {
        match statement {
            Statement::CreateDatabase { name, or_replace, .. } => {
                let drop = if *or_replace { Privileges::DROP } else { Privileges::NONE };
                self.access.want_in_schema(name, Privileges::CREATE.and(drop))
            }
            Statement::AlterDatabase { name, .. } => {
                let current = TableName { schema: name.clone(), name: String::new() };
                self.in_schema(&current, Privileges::ALTER)
            }
            Statement::DropDatabase { name, .. } => self.access.want_in_schema(name, Privileges::DROP),
            Statement::CreateTable(create) => self.create_table(create),
            Statement::DropTable { tables, temporary, .. } => {
                // A name that comes again means the table of the schema: the temporary one has gone by then.
                let others = tables.iter().enumerate().filter(|(at, table)| {
                    !*temporary && (!self.is_temporary(table) || self.comes_again(&tables[..*at], table))
                });
                others.into_iter().try_for_each(|(_, table)| self.on_schemas_table(table, Privileges::DROP))
            }
            Statement::Truncate(table) => self.on_table(table, Privileges::DROP),
            Statement::AlterTable { table, items, .. } => self.alter(table, items),
            Statement::RenameTable(pairs) => pairs.iter().try_for_each(|(from, to)| {
                self.on_table(from, Privileges::ALTER.and(Privileges::DROP))?;
                self.on_schemas_table(to, Privileges::CREATE.and(Privileges::INSERT))
            }),
            Statement::CreateView(view) => {
                let replaces = matches!(view.existing, Existing::Replaced | Existing::Altered);
                let drop = if replaces { Privileges::DROP } else { Privileges::NONE };
                self.on_schemas_table(&view.name, Privileges::CREATE_VIEW.and(drop))
            }
            Statement::DropView { views, .. } => {
                views.iter().try_for_each(|view| self.on_schemas_table(view, Privileges::DROP))
            }
            Statement::CreateSequence(create) if create.temporary => {
                self.in_schema(&create.name, Privileges::CREATE_TEMPORARY_TABLES)
            }
            Statement::CreateSequence(create) => {
                let drop = if create.or_replace { Privileges::DROP } else { Privileges::NONE };
                self.on_schemas_table(&create.name, Privileges::CREATE.and(drop))
            }
            Statement::AlterSequence { name, .. } => self.on_table(name, Privileges::ALTER),
            Statement::DropSequence { names, .. } => {
                names.iter().try_for_each(|name| self.on_table(name, Privileges::DROP))
            }
            Statement::DropProgram { kind: "EVENT", name, .. } => self.in_schema(name, Privileges::EVENT),
            Statement::Event(event) => self.event(&event.name, event.rename.as_ref()),
            // What these take is a privilege on the table, which is not known yet, or none for the definer.
            Statement::CreateTrigger(_)
            | Statement::CreateRoutine(_)
            | Statement::AlterRoutine(_)
            | Statement::DropProgram { .. } => Ok(()),
            _ => Err(errors::internal("not a definition")),
        }
    }

    /// The schema that a name means.
    fn schema_of(&self, name: &TableName) -> Res<String> {
        let current = || self.core.schema.as_ref().map(|schema| schema.name.clone());
        let current = || current().or_else(|| self.core.env.virtual_schema().map(str::to_owned));
        name.schema.clone().or_else(current).ok_or_else(errors::no_database)
    }

    /// Whether a name means a temporary table, which is its session's.
    fn is_temporary(&self, name: &TableName) -> bool {
        temporary_name::is_hidden(&self.core.actual(name).name)
    }

    fn in_schema(&self, name: &TableName, all: Privileges) -> Res<()> {
        self.access.want_in_schema(&self.schema_of(name)?, all)
    }

    fn on_table(&self, name: &TableName, all: Privileges) -> Res<()> {
        if self.is_temporary(name) { Ok(()) } else { self.on_schemas_table(name, all) }
    }

    /// As [`on_table`](Self::on_table) for statements that mean a table of the schema, whatever temporary one has its name.
    fn on_schemas_table(&self, name: &TableName, all: Privileges) -> Res<()> {
        self.access.want_on_table(&self.schema_of(name)?, &name.name, all)
    }

    /// Whether a name is among those before it.
    fn comes_again(&self, before: &[TableName], name: &TableName) -> bool {
        let schema = self.schema_of(name).ok();
        before.iter().any(|other| other.name == name.name && self.schema_of(other).ok() == schema)
    }

    /// Wants any privilege on a table or one of its columns; `command` is what errors say otherwise.
    fn seen(&self, name: &TableName, command: &str) -> Res<()> {
        let schema = self.schema_of(name)?;
        if self.is_temporary(name) || is_virtual(&schema) || self.access.sees_table(&schema, &name.name) {
            return Ok(());
        }
        Err(self.access.table_denied(command, &schema, &name.name))
    }

    fn set(&self, item: &SetItem) -> Res<()> {
        match item {
            SetItem::System { global: true, .. } | SetItem::Transaction { scope: IsolationScope::Global, .. } => {
                self.access.want_global(Privileges::SUPER)
            }
            // Values are queries of the session's own.
            SetItem::System { .. } | SetItem::Transaction { .. } | SetItem::User { .. } | SetItem::Names { .. } => {
                Ok(())
            }
        }
    }

    fn show(&self, show: &Show) -> Res<()> {
        match &show.what {
            ShowWhat::Tables { schema: Some(schema), .. }
            | ShowWhat::TableStatus { schema: Some(schema) }
            | ShowWhat::Triggers { schema: Some(schema) } => self.access.want_schema(schema),
            ShowWhat::Events { schema: Some(schema) } | ShowWhat::CreateDatabase(schema) => self.access.want_schema(schema),
            ShowWhat::Columns { table, .. } | ShowWhat::Index(table) => self.seen(table, "SELECT"),
            ShowWhat::CreateTable(table) | ShowWhat::CreateSequence(table) if self.is_temporary(table) => Ok(()),
            ShowWhat::CreateTable(table) | ShowWhat::CreateView(table) | ShowWhat::CreateSequence(table) => {
                self.show_create(table)
            }
            ShowWhat::EngineStatus => self.access.want_global(Privileges::PROCESS),
            // Of these there is nothing to see but what everybody may know, or what `information_schema` lets through.
            ShowWhat::Databases
            | ShowWhat::Tables { schema: None, .. }
            | ShowWhat::TableStatus { schema: None }
            | ShowWhat::Triggers { schema: None }
            // These ask for themselves.
            | ShowWhat::CreateTrigger(_)
            | ShowWhat::Events { schema: None }
            | ShowWhat::CreateEvent(_)
            | ShowWhat::CreateRoutine(..)
            | ShowWhat::Routines { .. }
            | ShowWhat::Variables { .. }
            | ShowWhat::Status
            | ShowWhat::Warnings
            | ShowWhat::Errors
            | ShowWhat::Engines
            | ShowWhat::Charset
            | ShowWhat::Collation
            | ShowWhat::ProcessList { .. }
            | ShowWhat::Privileges
            | ShowWhat::Plugins
            | ShowWhat::Empty(_)
            | ShowWhat::CountWarnings
            | ShowWhat::CountErrors => Ok(()),
        }
    }

    /// The definition of a table is for those who have a privilege on all of it, that of a view for those of SHOW VIEW.
    fn show_create(&self, name: &TableName) -> Res<()> {
        let schema = self.schema_of(name)?;
        if is_virtual(&schema) {
            return Ok(());
        }
        let held = self.access.on_table(&schema, &name.name);
        let found = self.core.engine.schema(&schema).ok().and_then(|schema| schema.catalog().ok());
        let is_view = found.is_some_and(|catalog| catalog.table(&name.name).is_some_and(|table| table.is_view()));
        if is_view {
            return self.access.want_on_table(&schema, &name.name, Privileges::SELECT.and(Privileges::SHOW_VIEW));
        }
        if held.has_any(Privileges::all(Reach::Table)) {
            return Ok(());
        }
        Err(self.access.table_denied("SHOW", &schema, &name.name))
    }

    fn admin(&self, verb: &str, tables: &[TableName]) -> Res<()> {
        if verb.is_empty() {
            // FLUSH
            return self.access.want_global(Privileges::RELOAD);
        }
        let wanted = match verb {
            "check" | "checksum" | "checksum quick" => Privileges::SELECT,
            _ => Privileges::SELECT.and(Privileges::INSERT),
        };
        tables.iter().try_for_each(|table| self.on_table(table, wanted))
    }

    fn create_table(&self, create: &CreateTable) -> Res<()> {
        if create.temporary {
            self.in_schema(&create.name, Privileges::CREATE_TEMPORARY_TABLES)?;
        } else {
            let filled = if create.query.is_some() { Privileges::INSERT } else { Privileges::NONE };
            let drop = if create.or_replace { Privileges::DROP } else { Privileges::NONE };
            self.on_schemas_table(&create.name, Privileges::CREATE.and(filled).and(drop))?;
        }
        if let Some(like) = &create.like {
            let schema = self.schema_of(like)?;
            if !self.is_temporary(like) {
                self.access.want_within_table(&schema, &like.name, Privileges::SELECT)?;
            }
        }
        create.foreign_keys.iter().try_for_each(|key| self.references(&create.name, &key.table, &key.references))
    }

    /// A foreign key tells whether rows are there: it takes a privilege on what it refers to.
    fn references(&self, child: &TableName, parent: &TableName, columns: &[String]) -> Res<()> {
        let schema = match &parent.schema {
            Some(schema) => schema.clone(),
            None => self.schema_of(child)?,
        };
        let held = |column: &String| self.access.on_column(&schema, &parent.name, column).has(Privileges::REFERENCES);
        if !columns.is_empty() && columns.iter().all(held) {
            return Ok(());
        }
        self.access.want_on_table(&schema, &parent.name, Privileges::REFERENCES)
    }

    fn alter(&self, table: &TableName, items: &[AlterItem]) -> Res<()> {
        // CREATE INDEX and DROP INDEX are an ALTER TABLE with nothing else.
        let of_indexes = |item: &AlterItem| matches!(item, AlterItem::AddIndex(_) | AlterItem::DropIndex { .. });
        let held = |wanted| self.on_table(table, wanted);
        if !(items.iter().all(of_indexes) && held(Privileges::INDEX).is_ok()) {
            held(Privileges::ALTER)?;
        }
        items.iter().try_for_each(|item| match item {
            AlterItem::AddForeignKey(key) => self.references(table, &key.table, &key.references),
            AlterItem::RenameTable(to) => {
                held(Privileges::DROP)?;
                self.on_schemas_table(to, Privileges::CREATE.and(Privileges::INSERT))
            }
            _ => Ok(()),
        })
    }
}
