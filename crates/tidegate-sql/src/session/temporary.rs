//! A session's temporary tables.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Core;
use crate::parse::TableName;

/// Tables of sessions that have ended: the schema's file and the name.
static LEFT: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// Tables of sessions that have ended, to be dropped: the schema's file and the name.
pub(crate) fn left_tables() -> MutexGuard<'static, Vec<(PathBuf, String)>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// The table that a name means in this session: a temporary one hides a table of the schema.
    pub(crate) fn actual(&self, name: &TableName) -> TableName {
        let schema = name.schema.clone().or_else(|| self.schema.as_ref().map(|schema| schema.name.clone()));
        let hidden = schema.and_then(|schema| self.env.temporary(&schema, &name.name));
        TableName { schema: name.schema.clone(), name: hidden.unwrap_or_else(|| name.name.clone()) }
    }

    /// Gives up the session's temporary tables; they are dropped later.
    pub(crate) fn leave_temporary(&self) {
        let mut left = left_tables();
        for ((schema, _), hidden) in self.env.take_temporary() {
            if let Ok(schema) = self.engine.schema(&schema) {
                left.push((schema.path.clone(), hidden));
            }
        }
    }
}
