//! Statements that define tables, views and schemas. They commit the open transaction, unless they are about temporary tables.
//!
//! A temporary table that is made or dropped within a transaction is so at once, in a short transaction of its own, and stays so
//! when the open one is rolled back, as in MariaDB. The open transaction goes on with a snapshot that knows of it.

use std::{sync::Arc, time::Duration};

use tidegate_rows::{QueryError, Sink};

use super::{Core, Res, transaction::Transaction};
use crate::{
    env::Env,
    errors,
    parse::{self, Statement},
    schema::Schema,
    store::{private::watch::Watch, writer::WriteGuard},
    task,
    translate::params::Text,
    waits::Kind,
};

/// The longest wait before something is defined while others want calm.
const CALM_MAX: Duration = Duration::from_secs(1);

impl Core {
    /// Runs a statement that defines something.
    ///
    /// # Errors
    /// MySQL's.
    pub(super) fn define(
        &mut self,
        definition: Statement,
        text: Text<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let read_only = match &self.transaction {
            Some(transaction) => transaction.read_only,
            None => self.env.begins_read_only(),
        };
        if read_only {
            return Err(errors::read_only_transaction().into());
        }
        let (creates, drops) = match &definition {
            // It drops the old one first.
            Statement::CreateTable(create) if create.temporary && create.or_replace => (None, true),
            Statement::CreateTable(create) if create.temporary => (Some(create.name.schema.clone()), false),
            Statement::CreateSequence(create) if create.temporary => (Some(create.name.schema.clone()), false),
            Statement::DropTable { temporary, .. } | Statement::DropSequence { temporary, .. } => (None, *temporary),
            _ => (None, false),
        };
        let goes_on = (drops || creates.is_some()) && self.transaction.is_some();
        match creates {
            _ if !goes_on => {
                self.commit_open()?;
                self.wait_for_calm()?;
            }
            Some(schema) => {
                let schema = schema.map(|name| self.engine.schema(&name)).transpose()?.or_else(|| self.schema.clone());
                self.stand_aside(&schema.ok_or_else(errors::no_database)?, None)?;
            }
            // Each of the tables has its schema.
            None => {}
        }
        let alters =
            matches!(&definition, Statement::AlterTable { items, .. } if items.iter().any(parse::AlterItem::is_change));
        let done = (self.above.define)(self, definition, text, more, sink);
        drop(self.env.defines_under.take());
        if goes_on && let Some(transaction) = &mut self.transaction {
            transaction.forget_older_snapshots();
        }
        match done? {
            Some(affected) if alters => {
                let warnings = self.env.warning_count();
                let info = format!("Records: {affected}  Duplicates: 0  Warnings: {warnings}");
                self.ok_with(affected, &info, more, sink);
            }
            Some(affected) => self.ok(affected, more, sink),
            None => {}
        }
        Ok(())
    }

    /// Lets statements go first that definitions have kept from their end, which may take a moment. With nothing in hand that they
    /// could wait for, but tables that the session has locked.
    fn wait_for_calm(&self) -> Res<()> {
        if !self.engine.calm.is_wanted() {
            return Ok(());
        }
        match task::block_on(tokio::time::timeout(CALM_MAX, self.engine.calm.over())) {
            Ok(_) => Ok(()),
            Err(task::Cancelled) => Err(errors::interrupted()),
        }
    }

    /// Has the open transaction, if there is one, not hold a schema's write lock, which is kept for what the session is about to
    /// define there; nor anything of `dropped`, a temporary table of the session that is about to go.
    ///
    /// # Errors
    /// 1205 if the write lock takes too long, 1213 if its holder waits for this transaction, 1235 if the transaction is the
    /// schema's only writer and has to stay that.
    pub(crate) fn stand_aside(&mut self, schema: &Arc<Schema>, dropped: Option<i64>) -> Res<()> {
        match &mut self.transaction {
            Some(transaction) => transaction.stand_aside(&self.env, schema, dropped),
            None => Ok(()),
        }
    }
}

impl Env {
    /// The write lock that a definition within a transaction has waited for.
    pub(super) fn lend_to_define(&self, schema: &Arc<Schema>) -> Option<WriteGuard> {
        let (of, guard) = self.defines_under.take()?;
        if Arc::ptr_eq(&of, schema) {
            return Some(guard);
        }
        self.defines_under.set(Some((of, guard)));
        None
    }
}

impl Transaction {
    fn stand_aside(&mut self, env: &Env, schema: &Arc<Schema>, dropped: Option<i64>) -> Res<()> {
        let Some(index) = self.places.iter().position(|place| Arc::ptr_eq(&place.pool.schema, schema)) else {
            return Ok(());
        };
        self.go_to(index);
        let is_writer = self.place()?.guard.is_some();
        if is_writer && !self.step_back()? {
            return Err(errors::unsupported("temporary tables made or dropped by the only writer of a schema"));
        }
        let place = self.place()?;
        if let Some(owner) = place.owner.clone() {
            env.defines_under.set(Some((Arc::clone(schema), place.wait_to_write(env, &[], Kind::Rows)?)));
            if let Some(table) = dropped {
                owner.release_table(table);
            }
        }
        if let Some(table) = dropped
            && let Some(log) = place.conn.watch().and_then(Watch::log)
        {
            log.forget_table(table);
            // Its pages still have what the list has no more.
            place.forget_snapshot();
        }
        Ok(())
    }

    /// The next statement begins on a newer snapshot where definitions have changed since.
    fn forget_older_snapshots(&mut self) {
        for place in &mut self.places {
            if place.guard.is_none() && place.defined != place.pool.schema.version() {
                place.forget_snapshot();
            }
        }
    }
}
