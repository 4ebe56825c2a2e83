//! A panic in a handler ends its request, not the worker.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    task::Poll,
};

use crate::{log::Level, output::Progress, phase::LocalFuture, request::Request};

/// What `future` comes to; a panic inside ends the request, not the worker: `None`.
pub(crate) async fn catch_panic<T>(req: &Rc<Request>, mut future: LocalFuture<T>) -> Option<T> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(panic) => {
            report_panic(req, &*panic);
            Poll::Ready(None)
        }
    })
    .await
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown cause")
}

/// Logs a panic, and ends the response as far as that can still be done.
#[cold]
pub(crate) fn report_panic(req: &Rc<Request>, panic: &(dyn std::any::Any + Send)) {
    req.log(Level::Alert, format_args!("request handler panicked: {}", panic_text(panic)));
    if req.response.borrow().progress == Progress::Open {
        req.flags().keep_alive.set(false);
        // The engine's state is gone, so the page is sent without it.
        let _ = catch_unwind(AssertUnwindSafe(|| req.send_plain_error(500)));
    } else {
        req.close_connection();
    }
}
