//! A response that is fetched anew behind the client's back, which gets the old one (`…_cache_background_update`).

use std::{cell::Cell, rc::Rc};

use crate::{
    cache::{Key, Update},
    log::Level,
    request::{Request, Sink},
    subrequest::Subrequest,
    worker,
};

/// The context of a request that fetches a response anew.
#[derive(Default)]
pub(super) struct Refresh(Cell<Option<Update>>);

impl Refresh {
    /// The right to fill the entry of `key`, which the client's request has had.
    pub(super) fn take_update(&self, key: Key) -> Option<Update> {
        self.0.take().filter(|update| update.key() == key)
    }
}

/// Fetches the response to `req` anew in the background.
pub(super) fn begin(req: &Rc<Request>, update: Update) {
    let sub = match Subrequest::repeat(req, Sink::Nowhere) {
        Ok(sub) => sub,
        Err(error) => {
            req.log(Level::Error, format_args!("{error} \"{}\"", bstr::BStr::new(&req.uri.borrow().path)));
            return;
        }
    };
    sub.req.set_context(Rc::new(Refresh(Cell::new(Some(update)))));
    sub.detach();
    // A worker that is to end waits for the response.
    let hold = worker::current().map(|worker| worker.hold());
    tokio::task::spawn_local(async move {
        sub.run_again().await;
        drop(hold);
    });
}
