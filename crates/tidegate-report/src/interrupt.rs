//! Ctrl-C: nothing that a command has started outlives it, and its scratch directories go with it. For reports, and for
//! `xtask`'s benchmarks and tests.
//!
//! [`crate::process::Process`] leads a process group of its own, which a signal of the terminal does not reach. The kernel ends those that
//! were started here, but not what these have started in turn: workers of nginx and of php-fpm would keep their cores and ports.

use crate::{places, process};
use nix::sys::signal::Signal;
use std::io::Read;
use std::{fs, thread};

/// The exit status, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// From now on a signal that asks for the end ends all that was started, too, and says `words`.
///
/// # Errors
/// When signals cannot be waited for.
pub fn watch(words: &'static str) -> Result<(), String> {
    let ignored = ignored();
    let mut signals = vec![Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    // `nohup` and scripts that run this in the background mean it.
    signals.retain(|signal| ignored & bit(*signal) == 0);
    let failed = |e: &dyn std::fmt::Display| format!("signals cannot be waited for: {e}");
    let mut heard = process::hear(&signals).map_err(|e| failed(&e))?;
    let waiting = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if heard.read_exact(&mut [0]).is_ok() {
            process::end_all();
            places::remove_all();
            eprintln!("\n{words}");
            std::process::exit(INTERRUPTED);
        }
    });
    waiting.map(drop).map_err(|e| failed(&e))
}

/// The signals that this process ignores, as bits (proc(5)).
fn ignored() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(bits.trim(), 16).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        // The runtime of Rust ignores SIGPIPE, and nobody SIGKILL.
        assert_ne!(ignored() & bit(Signal::SIGPIPE), 0);
        assert_eq!(ignored() & bit(Signal::SIGKILL), 0);
    }
}
