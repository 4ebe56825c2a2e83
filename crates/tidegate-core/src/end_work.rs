//! Work that a request begins and does not keep its client waiting for: the request ends with it, and its connection takes
//! the next one then.

use std::{cell::RefCell, rc::Rc};

use crate::{postpone::Running, request::Request};

/// The work of a request that has not ended yet.
#[derive(Debug, Default)]
struct EndWork(RefCell<Vec<Running>>);

impl Request {
    /// Makes the request end after `work`: the response goes to the client before that, its log line is written behind.
    pub fn end_after(&self, work: Running) {
        self.lasting_context::<EndWork>().0.borrow_mut().push(work);
    }

    pub(crate) fn has_end_work(&self) -> bool {
        !self.is_subrequest() && self.find_lasting_context::<EndWork>().is_some()
    }

    /// Sends the rest of the response, then waits for the work.
    pub(crate) async fn wait_for_end_work(self: &Rc<Self>) {
        let Some(work) = self.find_lasting_context::<EndWork>().filter(|_| !self.is_subrequest()) else { return };
        // A client that has gone ends nothing: others want what is done here.
        let _ = self.client.flush(self.http_conf().send_timeout_ms()).await;
        while let Some(mut running) = { work.0.borrow_mut().pop() } {
            running.wait().await;
        }
    }
}
