//! Settings of queues: rows of `queues`, which everybody asks for and nobody changes often.
//!
//! They are kept in memory. SQL may change them: the keeper hears of commits to the table and reads anew what is kept.

use std::{collections::HashMap, sync::PoisonError};

use tidegate_rows::{Param, Value};
use tidegate_sql::table::{Answer, Each, OnDuplicate, Request, Rows};

use super::{
    gather::{bytes, number},
    limits::{Limits, Overflow},
    store::{Store, StoreError},
};

/// Queues whose settings are kept in memory.
const KEPT_MAX: usize = 16_384;
/// Queues whose settings are read together.
const TOGETHER_MAX: usize = 256;

/// The longest age: a hundred years, as for other times.
const AGE_MAX_MS: u64 = 100 * 365 * 24 * 3600 * 1000;

/// What is known of the settings of queues.
#[derive(Debug, Default)]
pub(super) struct KnownSettings {
    by_queue: HashMap<String, Settings>,
    /// How often all of them were doubted.
    doubts: u64,
}

/// How a queue works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Settings {
    /// A message that has failed so often is dead; 0 for never.
    pub(super) attempts_max: u64,
    /// Nobody gets messages.
    pub(super) is_paused: bool,
    /// While there are subscriptions messages go to them alone.
    pub(super) subscribers_only: bool,
    /// Messages that there may be, 0 for any number; `None` as the configuration says.
    pub(super) length_max: Option<u64>,
    /// Milliseconds that a message may wait, 0 for ever; `None` as the configuration says.
    pub(super) age_max_ms: Option<u64>,
    /// What happens beyond these limits; `None` as the configuration says.
    pub(super) overflow: Option<Overflow>,
}

impl Settings {
    /// The settings of a row of `Tables::queues`.
    fn of(row: &[Param]) -> Self {
        let is_on = |column: usize| number(row.get(column)) != 0;
        let given = |column: usize| row.get(column).filter(|value| **value != Param::Null);
        Settings {
            attempts_max: number(row.get(1)),
            is_paused: is_on(2),
            subscribers_only: is_on(3),
            length_max: given(4).map(|value| number(Some(value))),
            age_max_ms: given(5).map(|value| number(Some(value)).min(AGE_MAX_MS)),
            overflow: bytes(row.get(6)).and_then(|name| Overflow::of(&name)),
        }
    }

    /// The limits of the queue, where nothing else is said those of the configuration.
    pub(super) fn limits(&self, default: Limits) -> Limits {
        Limits {
            length_max: self.length_max.unwrap_or(default.length_max),
            age_max_ms: self.age_max_ms.unwrap_or(default.age_max_ms),
            overflow: self.overflow.unwrap_or(default.overflow),
        }
    }
}

impl Store {
    /// The settings of a queue; the broker knows of a pause then.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn settings(&self, queue: &str) -> Result<Settings, StoreError> {
        loop {
            let doubts = {
                let known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner);
                match known.by_queue.get(queue) {
                    Some(settings) => return Ok(*settings),
                    None => known.doubts,
                }
            };
            let read = self.read_settings(&[queue]).await?.into_values().next().unwrap_or_default();
            let known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner);
            // What was read may be older than what others have set meanwhile, or than a commit that the keeper has heard of.
            if !known.by_queue.contains_key(queue) && known.doubts == doubts {
                drop(known);
                self.know(queue, read);
                return Ok(read);
            }
        }
    }

    /// The limits that hold for a queue.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn limits(&self, queue: &str) -> Result<Limits, StoreError> {
        let settings = self.settings(queue).await?;
        Ok(settings.limits(*self.home.limits.lock().unwrap_or_else(PoisonError::into_inner)))
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
            Value::Uint(settings.subscribers_only.into()),
            settings.length_max.map_or(Value::Null, Value::Uint),
            settings.age_max_ms.map_or(Value::Null, Value::Uint),
            settings.overflow.map_or(Value::Null, |overflow| Value::Bytes(overflow.name().as_bytes())),
        ];
        let open = self.open().await?;
        let tables = open.tables.clone();
        self.carry_out(open, &[(&tables.queues, Request::Insert(&row, OnDuplicate::Replace))]).await?;
        self.know(queue, settings);
        Ok(())
    }

    /// A queue has no settings any more.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn forget_settings(&self, queue: &str) -> Result<(), StoreError> {
        let key = [Value::Bytes(queue.as_bytes())];
        let open = self.open().await?;
        let tables = open.tables.clone();
        self.carry_out(open, &[(&tables.queues, Request::Delete(Rows::with_key(&key), Answer::Number))]).await?;
        self.know(queue, Settings::default());
        Ok(())
    }

    /// Reads all settings anew that are kept: somebody has changed some.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn reread_settings(&self) -> Result<(), StoreError> {
        let names: Vec<String> = {
            let mut known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner);
            known.doubts += 1;
            known.by_queue.keys().cloned().collect()
        };
        for names in names.chunks(TOGETHER_MAX) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let read = self.read_settings(&names).await?;
            names.iter().for_each(|name| self.know(name, read.get(*name).copied().unwrap_or_default()));
        }
        Ok(())
    }

    /// The settings that the table has for queues.
    async fn read_settings(&self, names: &[&str]) -> Result<HashMap<String, Settings>, StoreError> {
        let values: Vec<Value<'_>> = names.iter().map(|name| Value::Bytes(name.as_bytes())).collect();
        let rows = Rows { each: Some(Each { part: 0, values: &values }), ..Rows::with_key(&[Value::Null]) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.queues, Request::Find(rows))]).await?;
        let named = |row: &Vec<Param>| {
            let name = String::from_utf8(bytes(row.first())?.to_vec()).ok()?;
            Some((name, Settings::of(row)))
        };
        Ok(found.rows.iter().filter_map(named).collect())
    }

    /// The settings of a queue are these.
    fn know(&self, queue: &str, settings: Settings) {
        let mut known = self.home.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_queue.len() >= KEPT_MAX {
            known.by_queue.clear();
        }
        known.by_queue.insert(queue.to_owned(), settings);
        if settings.is_paused || self.home.pauses.has(queue) {
            self.broker().pause(queue);
        } else {
            self.broker().resume(queue);
        }
    }
}
