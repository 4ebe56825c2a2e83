//! Connections whose sessions hold locks: others would wait for them while the connection idles.
//!
//! The reset of any other session travels with its next statement, which costs no round trip. These sessions are reset at
//! once, by a task of their own, so that the request that has used them does not wait.

use std::{sync::Arc, time::Duration};

use super::{
    Pool,
    shelf::{Pooled, Shelf},
};
use crate::options::Timeouts;

/// How long each answer of the server may take; a connection whose reset fails is closed, which frees the locks too.
const RESET_TIMEOUT: Duration = Duration::from_secs(2);

impl Pool {
    /// Takes a connection back when its session is reset.
    pub(super) fn reset_first(&self, mut pooled: Box<Pooled>, shelf: &Arc<Shelf>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (pool, shelf) = (self.clone(), Arc::clone(shelf));
        runtime.spawn(async move {
            let limit = Some(RESET_TIMEOUT);
            let timeouts =
                Timeouts { connect: limit, send_query: limit, recv_columns: limit, recv_rows: limit, query: limit };
            pooled.conn.set_timeouts(timeouts);
            if pooled.conn.reset().await.is_ok() {
                pool.give_back(pooled, &shelf);
            }
        });
    }
}
