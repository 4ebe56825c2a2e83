//! C symbols that Lua code reaches through `ffi.C`, under the names that nginx gives them.

use std::ffi::{CString, OsString, c_char};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// `char **ngx_argv`: the command line. Lua code that starts the server again finds the binary here.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static ngx_argv: AtomicPtr<*const c_char> = AtomicPtr::new(std::ptr::null_mut());

/// `int ngx_argc`: the number of words on the command line.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static ngx_argc: AtomicI32 = AtomicI32::new(0);

/// Fills the symbols. The copies live as long as the process.
pub(crate) fn set_command_line(words: impl Iterator<Item = OsString>) {
    // A word from the kernel holds no zero byte.
    let words = words.map(|word| CString::new(word.into_vec()).unwrap_or_default());
    let mut pointers: Vec<*const c_char> = words.map(|word| word.into_raw().cast_const()).collect();
    ngx_argc.store(i32::try_from(pointers.len()).unwrap_or(i32::MAX), Ordering::Relaxed);
    pointers.push(std::ptr::null());
    ngx_argv.store(pointers.leak().as_mut_ptr(), Ordering::Relaxed);
}
