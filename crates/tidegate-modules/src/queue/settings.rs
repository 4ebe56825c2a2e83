//! Settings of queues: rows of `queues`, which everybody asks for and nobody changes often.

use std::sync::PoisonError;

use tidegate_rows::Value;
use tidegate_sql::table::{OnDuplicate, Request, Rows};

use super::{
    gather::number,
    store::{Store, StoreError},
};

/// Queues whose settings are kept in memory.
const KEPT_MAX: usize = 4096;

/// How a queue works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Settings {
    /// A message that has failed so often is dead; 0 for never.
    pub(super) attempts_max: u64,
    /// Nobody gets messages.
    pub(super) is_paused: bool,
}

impl Store {
    /// The settings of a queue; the broker knows of a pause then.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn settings(&self, queue: &str) -> Result<Settings, StoreError> {
        let known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied();
        if let Some(settings) = known {
            return Ok(settings);
        }
        let key = [Value::Bytes(queue.as_bytes())];
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.queues, Request::Find(Rows::with_key(&key)))]).await?;
        let settings = found.rows.first().map_or_else(Settings::default, |row| Settings {
            attempts_max: number(row.get(1)),
            is_paused: number(row.get(2)) != 0,
        });
        self.know(queue, settings, false);
        Ok(settings)
    }

    /// Gives a queue other settings.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn set(&self, queue: &str, settings: Settings) -> Result<(), StoreError> {
        let row = [
            Value::Bytes(queue.as_bytes()),
            Value::Uint(settings.attempts_max),
            Value::Uint(settings.is_paused.into()),
        ];
        let open = self.open().await?;
        let tables = open.tables.clone();
        self.carry_out(open, &[(&tables.queues, Request::Insert(&row, OnDuplicate::Replace))]).await?;
        self.know(queue, settings, true);
        Ok(())
    }

    /// The settings of a queue are these; what was read is not known any better if others have set them meanwhile.
    fn know(&self, queue: &str, settings: Settings, is_set: bool) {
        let mut known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_set && known.contains_key(queue) {
            return;
        }
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(queue.to_owned(), settings);
        if settings.is_paused {
            self.broker().pause(queue);
        } else {
            self.broker().resume(queue);
        }
    }
}
