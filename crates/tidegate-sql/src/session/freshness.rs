//! Whether a result is still what its statements would answer.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use super::Session;
use crate::{catalog::TableState, schema::Schema, translate::plan::Plan};

/// What a result depends on, as it stood before its statements ran. Whoever keeps it keeps neither schemas nor the engine open.
#[derive(Debug, Clone)]
pub struct Freshness {
    settings: (Arc<AtomicU64>, u64),
    /// By which it was found that the session, and whoever has defined views that it read, may do so.
    accounts: (Arc<AtomicU64>, u64),
    schemas: Box<[Weak<Schema>]>,
    /// Those of whose definitions it depends on more than tables and views, which have versions of their own: on functions.
    definitions: Box<[Definitions]>,
    tables: Box<[(Arc<TableState>, u64)]>,
}

/// The definitions of a schema as they were.
#[derive(Debug, Clone)]
struct Definitions {
    schema: Weak<Schema>,
    /// The schema's, which outlives it.
    id: u64,
    version: u64,
}

/// What the statements of a text have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    schemas: Vec<Arc<Schema>>,
    definitions: Vec<(Arc<Schema>, u64)>,
    tables: Vec<(Arc<TableState>, u64)>,
}

impl Seen {
    pub(super) fn clear(&mut self) {
        let Self { schemas, definitions, tables } = self;
        schemas.clear();
        definitions.clear();
        tables.clear();
    }

    /// A table or view, unless it was seen before; without a version the text has no [`Freshness`].
    pub(super) fn note(&mut self, state: &Arc<TableState>, version: Option<u64>) {
        self.tables.extend(version.map(|version| (Arc::clone(state), version)));
    }

    /// The schemas that a plan was made from.
    pub(super) fn note_schemas(&mut self, plan: &Plan) {
        for (schema, _) in &plan.catalogs {
            if !self.schemas.iter().any(|known| Arc::ptr_eq(known, schema)) {
                self.schemas.push(Arc::clone(schema));
            }
        }
        if !plan.calls.is_empty() {
            self.definitions.extend(plan.catalogs.iter().cloned());
        }
    }
}

impl Freshness {
    /// Whether the statements would give the same result in a new session: no commit or definition has changed what they have
    /// read, accounts may do what they could, and new sessions begin with the same settings. Costs no lock. A commit is seen here before it is acknowledged.
    #[inline]
    pub fn holds(&self) -> bool {
        let is_same = |(now, then): &(Arc<AtomicU64>, u64)| now.load(Ordering::Acquire) == *then;
        is_same(&self.settings)
            && is_same(&self.accounts)
            && self.tables.iter().all(|(state, version)| state.version.load(Ordering::Acquire) == *version)
            && self.schemas.iter().all(|schema| schema.upgrade().is_some_and(|schema| !schema.is_closed()))
            && self
                .definitions
                .iter()
                .all(|known| known.schema.upgrade().is_some_and(|now| now.version() == known.version))
    }

    /// How often what new sessions begin with had changed since the engine was opened.
    pub fn settings(&self) -> u64 {
        self.settings.1
    }

    /// The versions of the tables, in the order in which they were read: no other content of them ever has these numbers.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.tables.iter().map(|(_, version)| *version)
    }

    /// Schemas on whose functions the result depends, and how often their definitions had changed; as [`settings`](Self::settings),
    /// these numbers say nothing beyond a restart.
    pub fn definitions(&self) -> impl Iterator<Item = (u64, u64)> {
        self.definitions.iter().map(|known| (known.id, known.version))
    }
}

impl Session {
    /// What the results of the last text depend on; `None` if that is [more](Self::reads_more) than tables and what new sessions
    /// begin with, or if nobody [watches](Self::watch_tables). The session must have run nothing else before.
    pub fn freshness(&self) -> Option<Freshness> {
        let watched = self.core.watched.as_ref()?;
        if self.reads_more() {
            return None;
        }
        let (_, settings) = self.core.engine.globals.version();
        Some(Freshness {
            settings: (Arc::clone(settings), self.core.env.begun_with),
            accounts: (self.core.env.accounts.shared_version(), self.core.env.rights_version()),
            schemas: watched.seen.schemas.iter().map(Arc::downgrade).collect(),
            definitions: {
                let all = watched.seen.definitions.iter();
                all.map(|(schema, version)| Definitions {
                    schema: Arc::downgrade(schema),
                    id: schema.id,
                    version: *version,
                })
                .collect()
            },
            tables: watched.seen.tables.clone().into(),
        })
    }
}
