//! Environments for unit tests.

use std::{sync::Arc, time::Duration};

use super::Env;
use crate::{accounts::Accounts, engine::Settings, variables};

impl Env {
    /// An environment for unit tests.
    pub(crate) fn for_tests() -> Self {
        let env = Self::new(
            Arc::new(crate::clients::Clients::default()).make(),
            &Settings::default(),
            Arc::default(),
            Arc::new(Accounts::for_tests()),
        );
        env.sql_mode.set(variables::STRICT_TRANS_TABLES);
        env.lock_wait.set(Duration::from_secs(1));
        env
    }
}
