//! LOCK TABLES: a session keeps others from writing to tables until UNLOCK TABLES.
//!
//! Other sessions wait when they write to a locked table ([`crate::table_locks`]), and go on reading what was committed,
//! unlike MySQL's. The statements of the session commit as they would without. FLUSH TABLES WITH READ LOCK keeps the write
//! locks of all schemas; the session's own statements use them ([`WriteGuard::lent`](crate::store::writer::WriteGuard::lent)).

use std::sync::Arc;

use super::{
    Core, Res,
    private::without_row_locks,
    waiting::{acquire, wait_for},
};
use crate::{
    env::{Env, LockedTables},
    errors,
    parse::TableName,
    schema::Schema,
    table_locks::WantedLock,
    temporary_name,
    translate::{
        plan::{Plan, PlanKind},
        target_table::TargetTable,
    },
    waits::{Blockers, Kind},
};

impl Env {
    /// Whether LOCK TABLES lets the session write what a plan writes.
    ///
    /// # Errors
    /// 1099 for a table that is locked for reading, 1100 for one that is not locked.
    #[cold]
    fn check_tables(&self, plan: &Plan) -> Res<()> {
        let tables = self.tables.borrow();
        let Some(locked) = tables.as_ref() else { return Ok(()) };
        let check = |to: &TargetTable| {
            // The table behind a view is locked with that.
            let (schema, name) = to.named();
            if temporary_name::is_hidden(&to.table.name) { Ok(()) } else { locked.check(schema, name) }
        };
        plan.called.iter().try_for_each(|to| check(to))?;
        match &plan.kind {
            PlanKind::Select(_) => Ok(()),
            PlanKind::Insert(insert) => check(&insert.to),
            PlanKind::Update(update) => update.targets.iter().try_for_each(|target| check(&target.to)),
            PlanKind::Delete(delete) => delete.targets.iter().try_for_each(|(of, _)| check(of)),
        }
    }

    /// As [`check_tables`](Self::check_tables), for every statement.
    #[inline]
    pub(super) fn may_write(&self, plan: &Plan) -> Res<()> {
        if self.has_tables() { self.check_tables(plan) } else { Ok(()) }
    }
}

impl Core {
    /// LOCK TABLES.
    ///
    /// # Errors
    /// 1146, 1205.
    pub(super) fn lock_tables(&mut self, tables: &[(TableName, bool)]) -> Res<()> {
        self.commit_open()?;
        self.env.release_tables();
        let mut wanted: Vec<(Arc<Schema>, String, bool)> = Vec::new();
        let mut locks: Vec<(Arc<Schema>, Vec<WantedLock>)> = Vec::new();
        for (name, write) in tables {
            let schema = match &name.schema {
                Some(schema) if crate::schema::is_virtual(schema) => continue,
                Some(schema) => self.engine.schema(schema)?,
                None => self.schema.clone().ok_or_else(errors::no_database)?,
            };
            let actual = self.actual(name).name;
            let catalog = schema.catalog()?;
            let table = catalog.table(&actual).ok_or_else(|| errors::no_such_table(&schema.name, &name.name))?;
            if !temporary_name::is_hidden(&actual) {
                let lock = WantedLock { table: (!table.is_view()).then_some(actual), is_exclusive: *write };
                match locks.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &schema)) {
                    Some((_, locks)) => locks.push(lock),
                    None => locks.push((Arc::clone(&schema), vec![lock])),
                }
            }
            match wanted.iter_mut().find(|(known, table, _)| Arc::ptr_eq(known, &schema) && *table == name.name) {
                Some(known) => known.2 |= *write,
                None => wanted.push((schema, name.name.clone(), *write)),
            }
        }
        let tables = wanted.into_iter().map(|(schema, table, write)| (schema.id, table, write)).collect();
        // In the order of the schemas' numbers, which keeps two sessions from waiting for each other.
        locks.sort_by_key(|(schema, _)| schema.id);
        let mut held = Vec::new();
        for (schema, wanted) in locks {
            let names = names_of(&schema, &wanted)?;
            let blockers = || -> Blockers {
                let (locks, wanted) = (Arc::clone(&schema.table_locks), wanted.clone());
                Box::new(move || locks.sessions_against(&wanted))
            };
            let listed = schema.table_locks.list(self.env.connection_id, wanted.clone());
            let listed = wait_for(&self.env, Kind::Name, blockers, listed)?;
            // Whoever writes now, and transactions that have written to the tables, end first.
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            drop(without_row_locks(&schema, &self.env, &names, || acquire(&schema, &self.env))?);
            listed.granted();
            held.push(listed);
        }
        *self.env.tables.borrow_mut() = Some(LockedTables { _locks: held, schemas: Vec::new(), tables });
        Ok(())
    }

    /// FLUSH TABLES WITH READ LOCK: nobody writes anywhere.
    ///
    /// # Errors
    /// As [`lock_tables`](Self::lock_tables).
    pub(super) fn lock_all(&mut self) -> Res<()> {
        self.commit_open()?;
        self.env.release_tables();
        let mut schemas = self.engine.all_schemas();
        // As in `lock_tables`.
        schemas.sort_by_key(|schema| schema.id);
        let mut locked = LockedTables { _locks: Vec::new(), schemas: Vec::new(), tables: Vec::new() };
        for schema in schemas {
            let guard = acquire(&schema, &self.env)?;
            // Those who wait for it see whom for.
            let owner = schema.rows.owner(self.env.connection_id);
            owner.keeps_writing();
            locked.schemas.push((schema, guard, owner));
        }
        *self.env.tables.borrow_mut() = Some(locked);
        Ok(())
    }

    /// UNLOCK TABLES; what LOCK TABLES has locked is free, and an open transaction of such a session committed.
    ///
    /// # Errors
    /// Those of the commit.
    pub(super) fn unlock_tables(&mut self) -> Res<()> {
        if self.env.has_tables() {
            self.commit_open()?;
            self.env.release_tables();
        }
        Ok(())
    }
}

/// The tables that locks are about.
fn names_of(schema: &Schema, locks: &[WantedLock]) -> Res<Vec<String>> {
    if locks.iter().any(|lock| lock.table.is_none()) {
        return Ok(schema.catalog()?.tables.keys().cloned().collect());
    }
    Ok(locks.iter().filter_map(|lock| lock.table.clone()).collect())
}
