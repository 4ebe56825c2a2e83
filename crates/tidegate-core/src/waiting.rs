//! The clients' requests of a worker that wait for something. When the time for a graceful end is over, they are logged as they are.

use std::{cell::RefCell, rc::Rc};

use slab::Slab;

use crate::{phase, request::Request};

thread_local! {
    static WAITING: RefCell<Slab<Rc<Request>>> = const { RefCell::new(Slab::new()) };
}

/// A request waits as long as this lives.
pub(crate) struct Waiting(usize);

impl Waiting {
    pub(crate) fn begin(req: &Rc<Request>) -> Self {
        Waiting(WAITING.with_borrow_mut(|waiting| waiting.insert(req.clone())))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Requests that are dropped with their thread may come after the list.
        let _ = WAITING.try_with(|waiting| waiting.borrow_mut().try_remove(self.0));
    }
}

/// Runs the log phase of all of them, ahead of the end of their worker.
///
/// Source: nginx, `ngx_shutdown_timer_handler`; who has got no head yet is logged with the status 000.
pub(crate) fn log_all() {
    for (_, req) in WAITING.take() {
        phase::log(&req);
    }
}
