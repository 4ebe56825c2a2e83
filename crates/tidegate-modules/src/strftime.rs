//! The time as text, as `strftime` writes it.

use std::{ffi::CString, mem::MaybeUninit};

use tidegate_net::clock;

/// The longest text.
const BYTES_MAX: usize = 256;

/// The time zone of a formatted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// In Greenwich.
    Gmt,
    /// Here.
    Local,
}

/// Date and time now, as `strftime` writes them; none if the text is empty or too long.
pub(crate) fn formatted(format: &[u8], zone: Zone) -> Option<Vec<u8>> {
    if format.is_empty() {
        return Some(Vec::new());
    }
    write(clock::now_unix(), format, zone)
}

fn write(seconds: i64, format: &[u8], zone: Zone) -> Option<Vec<u8>> {
    let format = CString::new(format).ok()?;
    let mut broken_down = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live values of the right types.
    let filled = unsafe {
        match zone {
            Zone::Gmt => libc::gmtime_r(&seconds, broken_down.as_mut_ptr()),
            Zone::Local => libc::localtime_r(&seconds, broken_down.as_mut_ptr()),
        }
    };
    if filled.is_null() {
        return None;
    }
    let mut out = vec![0; BYTES_MAX];
    // SAFETY: `out` has as many bytes as said, `format` ends with NUL, and the time was filled in.
    let len = unsafe { libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), broken_down.as_ptr()) };
    out.truncate(len);
    (len > 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let second = 1_000_000_000;
        for (format, expected) in [
            ("%Y-%m-%d %H:%M:%S", Some("2001-09-09 01:46:40")),
            ("%a %b %e %Z", Some("Sun Sep  9 GMT")),
            ("plain", Some("plain")),
            ("100%%", Some("100%")),
        ] {
            let text = write(second, format.as_bytes(), Zone::Gmt);
            assert_eq!(text.as_deref(), expected.map(str::as_bytes), "{format}");
        }
        assert_eq!(write(second, &[b'x'; BYTES_MAX], Zone::Gmt), None);
        assert_eq!(write(second, b"a\0b", Zone::Gmt), None);
        assert_eq!(write(second, b"%Y", Zone::Local).as_deref(), Some(&b"2001"[..]));
        assert_eq!(formatted(b"", Zone::Local), Some(Vec::new()));
    }
}
