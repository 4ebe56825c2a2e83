//! A panic in a handler ends its request, not the worker.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    task::Poll,
};

use crate::{
    log::Level,
    output::Progress,
    phase::{LocalFuture, Ready, Step},
    request::Request,
};

/// What `future` comes to; a panic inside ends the request, not the worker: `None`.
pub(crate) async fn catch_panic<T>(req: &Rc<Request>, future: LocalFuture<T>) -> Option<T> {
    poll_caught(future).await.map_err(|panic| report_panic(req, &*panic)).ok()
}

async fn poll_caught<T>(mut future: LocalFuture<T>) -> Result<T, Box<dyn Any + Send>> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Calls a handler of the log phase. A panic inside ends nothing but the handler: the response is complete.
pub(crate) fn call_log_handler(req: &Rc<Request>, handler: impl FnOnce() -> Ready<Step>) -> Ready<Step> {
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|panic| {
        report_log_panic(req, &*panic);
        Ready::Now(Step::Declined)
    })
}

/// Waits for a handler of the log phase, as [`call_log_handler`] calls one.
pub(crate) async fn wait_for_log_handler(req: &Rc<Request>, future: LocalFuture<Step>) {
    if let Err(panic) = poll_caught(future).await {
        report_log_panic(req, &*panic);
    }
}

#[cold]
fn report_log_panic(req: &Request, panic: &(dyn Any + Send)) {
    req.log(Level::Alert, format_args!("log handler panicked: {}", panic_text(panic)));
}

/// What a panic says.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown cause")
}

/// Logs a panic, and ends the response as far as that can still be done.
#[cold]
pub(crate) fn report_panic(req: &Rc<Request>, panic: &(dyn Any + Send)) {
    req.log(Level::Alert, format_args!("request handler panicked: {}", panic_text(panic)));
    if req.response.borrow().progress == Progress::Open {
        req.flags().keep_alive.set(false);
        // The engine's state is gone, so the page is sent without it.
        let _ = catch_unwind(AssertUnwindSafe(|| req.send_plain_error(500)));
    } else {
        req.close_connection();
    }
}
