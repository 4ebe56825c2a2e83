//! Connections whose last answers nobody waits for any more: they are read to their end, and the connection is idle again.
//!
//! Only statements that are quick share a connection (`lane.rs`), so closing it, and telling the server to end what it runs,
//! would cost more than those answers. If they do not come soon, that is done all the same.

use std::time::Duration;

use tidegate_rows::QueryError;
use tokio::time::{Instant, timeout};

use super::PooledConn;
use crate::{conn::Nowhere, options::Timeouts};

/// How long all answers together may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl PooledConn {
    /// Reads so many answers that are still to come on a shared connection, then gives it back to its pool.
    pub(super) fn drain(mut self, answers: usize) {
        if answers == 0 {
            self.unshare();
            return;
        }
        // From here on the connection counts as one in the midst of a statement, should the task not come to its end.
        self.expect_answer();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let is_drained = timeout(DRAIN_TIMEOUT, self.read_answers(answers)).await;
                if is_drained.is_ok_and(|result| result.is_ok()) {
                    self.unshare();
                }
            });
        }
    }

    async fn read_answers(&mut self, answers: usize) -> Result<(), QueryError> {
        for _ in 0..answers {
            self.expect_answer();
            match self.read_result(&mut Nowhere).await {
                Err(QueryError::Server(_)) if self.is_idle() => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn expect_answer(&mut self) {
        let never = Timeouts { connect: None, send_query: None, recv_columns: None, recv_rows: None, query: None };
        self.begin_shared(Instant::now(), never, None);
    }
}
