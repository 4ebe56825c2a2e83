//! The background, and where the standard streams lead.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use nix::unistd::ForkResult;
use tidegate_net::log::{Level, SysError, note};

/// Tells the command that was typed how the start went; dropping it without a word means failure.
#[derive(Debug)]
pub(crate) struct Starter(io::PipeWriter);

impl Starter {
    /// The server runs: the command may return 0.
    pub(crate) fn report_running(mut self) {
        // The command may have been interrupted; the server runs all the same.
        let _ = self.0.write_all(&[0]);
    }
}

/// What became of this process.
pub(crate) enum Daemonized {
    /// The background process.
    Background(Starter),
    /// The command that was typed: exit with this code.
    Command(u8),
}

/// Goes to the background. The command returns when the background process says that it runs, or has ended.
///
/// The process must have no other thread yet.
///
/// # Errors
/// The system refuses a pipe, a process or a session.
pub(crate) fn daemonize() -> io::Result<Daemonized> {
    let (mut read, write) = io::pipe()?;
    // SAFETY: there is one thread, so the child finds everything as it was.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { .. } => {
            drop(write);
            let mut code = [1];
            // Nothing to read means that the background process ended; it said why.
            let _ = read.read(&mut code);
            Ok(Daemonized::Command(code[0]))
        }
        ForkResult::Child => {
            drop(read);
            tidegate_net::log::after_fork();
            nix::unistd::setsid()?;
            let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
            nix::unistd::dup2_stdin(&null)?;
            nix::unistd::dup2_stdout(&null)?;
            Ok(Daemonized::Background(Starter(write)))
        }
    }
}

/// Points the standard error to the main error log, so that nothing that a library prints is lost; unless some `error_log` of
/// the configuration, whose it may be, is the standard error itself.
pub(crate) fn stderr_follows_error_log() {
    if tidegate_net::log::is_stderr_used() {
        return;
    }
    let main = tidegate_net::log::main();
    if let Some(fd) = main.file().and_then(|file| file.fd())
        && let Err(error) = nix::unistd::dup2_stderr(fd.as_fd())
    {
        note(Level::Alert, format_args!("dup2(STDERR) failed {}", SysError(&error.into())));
    }
}
