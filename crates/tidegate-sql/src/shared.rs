//! What the sessions of an engine share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tidegate_rows::ServerError;

use crate::{
    accounts::Accounts,
    background::Background,
    clients::Clients,
    directory::Directory,
    event_queue::EventQueue,
    globals::Globals,
    locks::Locks,
    login_key::LoginKeys,
    redefinition::Calm,
    schema::{Schema, transactions::Transactions},
    settings::Settings,
};

/// What sessions share.
pub(crate) struct EngineInner {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) directory: Arc<Directory>,
    pub(crate) server_version: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) started: Instant,
    pub(crate) questions: AtomicU64,
    pub(crate) background: Background,
    /// Those who talk to it.
    pub(crate) clients: Arc<Clients>,
    pub(crate) accounts: Arc<Accounts>,
    /// The locks of GET_LOCK().
    pub(crate) locks: Arc<Locks>,
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) calm: Arc<Calm>,
    /// What SET GLOBAL has set.
    pub(crate) globals: Globals,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) login_key: LoginKeys,
}

impl EngineInner {
    /// As [`Engine::table_version`](crate::Engine::table_version).
    pub(crate) fn table_version(&self, schema: &str, table: &str) -> Option<u64> {
        let schema = self.schema(schema).ok()?;
        let catalog = schema.catalog().ok()?;
        Some(catalog.table(table)?.state.version.load(Ordering::Acquire))
    }

    /// The schema with a name.
    ///
    /// # Errors
    /// 1049 if it does not exist, 1030 if its files are gone.
    pub(crate) fn schema(&self, name: &str) -> Result<Arc<Schema>, ServerError> {
        self.directory.schema(name)
    }

    /// Has statistics made, in a while, of the schema's tables that have none or have changed much.
    #[cold]
    pub(crate) fn request_statistics(&self, schema: &Arc<Schema>) {
        if self.settings.renews_statistics() {
            self.background.request_statistics(schema);
        }
    }

    /// All schemas.
    pub(crate) fn all_schemas(&self) -> Vec<Arc<Schema>> {
        self.directory.schemas()
    }

    /// The names of all schemas.
    pub(crate) fn schema_names(&self) -> Vec<String> {
        self.directory.schemas().iter().map(|schema| schema.name.clone()).collect()
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        self.events.switch(false);
        self.directory.close();
    }
}
