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

/// `u_char *ngx_hex_dump(u_char *dst, const u_char *src, size_t len)`: writes two hex digits for each byte; the end of them.
///
/// # Safety
/// `src` points to `len` bytes, `dst` to room for twice as many.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_hex_dump(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut to = dst;
    for at in 0..len {
        // SAFETY: the caller gives `len` bytes to read and room for twice as many. No references are made: the areas may overlap.
        unsafe {
            let byte = src.add(at).read();
            to.write(DIGITS[usize::from(byte >> 4)]);
            to.add(1).write(DIGITS[usize::from(byte & 15)]);
            to = to.add(2);
        }
    }
    to
}

/// `ngx_int_t ngx_hextoi(u_char *line, size_t n)`: the number that `n` hex digits are; -1 when they are none or too many.
///
/// # Safety
/// `line` points to `n` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ngx_hextoi(line: *const u8, n: usize) -> isize {
    let mut number: isize = 0;
    for at in 0..n {
        // SAFETY: the caller gives `n` bytes, and `at` is below `n`.
        let digit = unsafe { line.add(at).read() };
        let Some(digit) = char::from(digit).to_digit(16) else { return -1 };
        // The largest digit count fits: a digit is below 16.
        let Some(shifted) = number.checked_mul(16) else { return -1 };
        let Some(sum) = shifted.checked_add(digit as isize) else { return -1 };
        number = sum;
    }
    if n == 0 { -1 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex() {
        let mut text = [0; 6];
        // SAFETY: three bytes and room for six.
        let end = unsafe { ngx_hex_dump(text.as_mut_ptr(), [0x00, 0x9f, 0xff].as_ptr(), 3) };
        assert_eq!(&text, b"009fff");
        assert_eq!(end, text.as_mut_ptr_range().end);
        for (text, expected) in [
            ("ff", 255),
            ("Ff", 255),
            ("0", 0),
            ("", -1),
            ("g", -1),
            ("7fffffffffffffff", isize::MAX),
            ("8000000000000000", -1),
        ] {
            // SAFETY: the text's own length.
            assert_eq!(unsafe { ngx_hextoi(text.as_ptr(), text.len()) }, expected, "{text}");
        }
    }
}
