//! `ngx.sleep`.

use std::ffi::c_int;
use std::time::Duration;

use super::{Family, ffi_error, ffi_functions, ffi_lua_error};
use crate::scheduler::{Answer, with_run};

pub(crate) static FAMILY: Family = Family {
    name: "sleep",
    cdef: "",
    ffi: ffi_functions! {
        sleep as "sleep": "int (*)(double)",
    },
    functions: &[],
};

/// Prepares a sleep of `seconds`: 0, or -1 with a message.
extern "C" fn sleep(seconds: f64) -> c_int {
    // Milliseconds, fractions cut off, as in nginx. The cast saturates and makes 0 of NaN.
    let ms = (seconds * 1000.0) as i64;
    let Ok(ms) = u64::try_from(ms) else {
        return ffi_error(format!("invalid sleep duration \"{ms}\"").as_bytes());
    };
    let prepared = with_run(|run| {
        if ms == 0 {
            run.wait_ffi(async {
                tokio::task::yield_now().await;
                Answer::Nothing
            })
        } else {
            run.wait_ffi(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
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
