//! What the talks of all ports have in common: a panic ends the connection alone, and the log knows whose it was.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use tidegate_net::{
    log::{self, Level},
    session::{End, Session},
};

/// Runs a talk; a panic in it is logged and closes the connection.
pub(crate) async fn guarded(session: &Session, protocol: &str, talking: impl Future<Output = End>) -> End {
    let mut talking = pin!(talking);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| talking.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(panic) => {
            let text = tidegate_core::panics::panic_text(&*panic);
            note(session, protocol, Level::Alert, format_args!("connection handler panicked: {text}"));
            Poll::Ready(End::Closed)
        }
    })
    .await
}

/// Writes a line about a connection to the error log.
pub(crate) fn note(session: &Session, protocol: &str, level: Level, message: std::fmt::Arguments<'_>) {
    let log = log::main();
    if log.enabled(level) {
        log.write(level, Some(session.number), format_args!("{protocol}: {message}"), |line| {
            use std::fmt::Write as _;
            let _ = write!(line, ", client: {}", session.peer);
        });
    }
}
