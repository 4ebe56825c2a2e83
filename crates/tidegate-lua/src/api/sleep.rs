//! `ngx.sleep`.

use std::ffi::c_int;
use std::future::poll_fn;
use std::task::Poll;

use super::compiled::ffi_functions;
use super::{Family, ffi_error, ffi_lua_error};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};

pub(crate) static FAMILY: Family = Family {
    name: "sleep",
    cdef: "",
    ffi: ffi_functions! {
        sleep as "sleep": (f64) -> c_int,
    },
    functions: &[],
};

/// Prepares a sleep of `seconds`: 0, or -1 with a message.
fn sleep(seconds: f64) -> c_int {
    // Milliseconds, fractions cut off, as in nginx. The cast saturates and makes 0 of NaN.
    let ms = (seconds * 1000.0) as i64;
    let Ok(ms) = u64::try_from(ms) else {
        return ffi_error(format!("invalid sleep duration \"{ms}\"").as_bytes());
    };
    let prepared = with_run(|run| {
        let noisy = run.host().logs(LogLevel::Debug);
        if noisy {
            run.host().log(LogLevel::Debug, format!("lua ready to sleep for {ms} ms").as_bytes());
        }
        if noisy {
            run.wait_ffi(talkative_sleep(run.host().clone(), ms))
        } else if ms == 0 {
            run.wait_ffi(async {
                let_others_run().await;
                Answer::Nothing
            })
        } else {
            run.wait_ffi(async move {
                tidegate_net::sleep::sleep(ms).await;
                Answer::Nothing
            })
        }
    });
    match prepared {
        Some(Ok(())) => 0,
        Some(Err(error)) => ffi_lua_error(&error),
        None => ffi_error(b"no request found"),
    }
}

/// Goes to the end of the worker's queue of tasks. (tokio's `yield_now` puts the last first.)
pub(super) async fn let_others_run() {
    let mut went = false;
    poll_fn(|cx| {
        if went {
            return Poll::Ready(());
        }
        went = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A sleep that writes what lua-nginx-module writes at the debug level.
async fn talkative_sleep(host: Host, ms: u64) -> Answer {
    /// Tells of a sleep that was cut short.
    struct Pending(Option<Host>);
    impl Drop for Pending {
        fn drop(&mut self) {
            if let Some(host) = self.0.take() {
                host.log(LogLevel::Debug, b"lua clean up the timer for pending ngx.sleep");
            }
        }
    }
    let mut pending = Pending(Some(host));
    match ms {
        0 => let_others_run().await,
        _ => tidegate_net::sleep::sleep(ms).await,
    }
    if let Some(host) = pending.0.take() {
        let mut line = b"lua sleep timer expired: \"".to_vec();
        if let Some(req) = host.request() {
            let uri = req.uri.borrow();
            line.extend_from_slice(&uri.path);
            line.push(b'?');
            line.extend_from_slice(&uri.args);
        }
        line.push(b'"');
        host.log(LogLevel::Debug, &line);
    }
    Answer::Nothing
}
