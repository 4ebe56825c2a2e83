//! Statements from a text: `-e`, standard input, `--import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Failure;
use super::client::Client;
use super::output::{Format, Output};
use super::split::{End, Splitter, Statement};

/// Text between two commits of an import: one wait for the disk for each.
const COMMIT_BYTES: u64 = 4 << 20;
/// Between two looks of the progress bar.
const PROGRESS: Duration = Duration::from_millis(100);
/// Width of the progress bar.
const BAR: usize = 30;

/// Runs the statements of a text and prints what they answer; whether all ran.
///
/// # Errors
/// What ends the work: the first statement that fails, unless `force`.
pub(super) fn run(client: &mut Client, text: &mut dyn BufRead, format: Format, force: bool) -> Result<bool, Failure> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let mut good = true;
    each(text, |statement, _| {
        let format = if statement.end == End::Vertical { Format::Vertical } else { format };
        let ran = print(client, &statement.sql, format, &mut stdout);
        stdout.flush()?;
        good &= check(ran, &statement, force)?;
        Ok(client.backslash_escapes)
    })?;
    Ok(good)
}

/// Runs a statement and prints its results.
///
/// # Errors
/// The statement's, or the output's.
pub(super) fn print(client: &mut Client, sql: &[u8], format: Format, out: &mut impl Write) -> Result<(), Failure> {
    let mut output = Output::new(out, format);
    client.run(sql, |event| {
        output.write(event)?;
        Ok(())
    })
}

/// Says what went wrong; whether nothing did.
fn check(ran: Result<(), Failure>, statement: &Statement, force: bool) -> Result<bool, Failure> {
    match ran {
        Ok(()) => Ok(true),
        Err(Failure::Statement(error)) => {
            let (code, state, line) = (error.code, error.sqlstate(), statement.line);
            let text = format!("ERROR {code} ({state}) at line {line}: {}", error.message);
            if !force {
                return Err(Failure::Other(text));
            }
            eprintln!("{text}");
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}

/// Reads a text line by line and gives its statements with the count of bytes read so far; `found` answers whether `\` escapes in
/// the strings behind the statement.
fn each(text: &mut dyn BufRead, mut found: impl FnMut(Statement, u64) -> Result<bool, Failure>) -> Result<(), Failure> {
    let mut splitter = Splitter::default();
    let mut line = Vec::new();
    let mut read = 0;
    loop {
        line.clear();
        let count = text.read_until(b'\n', &mut line)?;
        if count == 0 {
            break;
        }
        read += count as u64;
        splitter.add(&line);
        while let Some(statement) = splitter.next() {
            splitter.set_backslash_escapes(found(statement, read)?);
        }
    }
    splitter.finish().map_or(Ok(()), |statement| found(statement, read).map(|_| ()))
}

/// Runs the statements of a file; whether all ran.
///
/// Many of them share a commit. Without `force` nothing behind the first failing statement runs, and what was not
/// committed before it is undone.
///
/// # Errors
/// As [`run`].
pub(super) fn import(client: &mut Client, path: &Path, force: bool, quiet: bool) -> Result<bool, Failure> {
    let (mut text, size): (Box<dyn BufRead>, Option<u64>) = if path.as_os_str() == "-" {
        (Box::new(io::stdin().lock()), None)
    } else {
        let named = |error: io::Error| Failure::Other(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(named)?;
        let size = file.metadata().map_err(named)?.len();
        (Box::new(BufReader::with_capacity(1 << 20, file)), Some(size))
    };
    let mut progress = Progress::new(size, !quiet && io::stderr().is_terminal());
    let mut good = true;
    let (mut count, mut committed) = (0u64, 0);
    client.run_quietly("SET autocommit = 0")?;
    let ended = each(&mut text, |statement, read| {
        let ran = client.run(&statement.sql, |_| Ok(()));
        good &= check(ran, &statement, force)?;
        count += 1;
        if read - committed >= COMMIT_BYTES {
            client.run_quietly("COMMIT")?;
            committed = read;
        }
        progress.show(read);
        Ok(client.backslash_escapes)
    });
    progress.end();
    ended?;
    client.run_quietly("COMMIT; SET autocommit = 1")?;
    if !quiet {
        let time = super::output::seconds(progress.begun.elapsed());
        eprintln!("{count} statements in {time}");
    }
    Ok(good)
}

/// A bar on the terminal.
struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    size: Option<u64>,
    visible: bool,
}

impl Progress {
    fn new(size: Option<u64>, visible: bool) -> Self {
        Self { begun: Instant::now(), shown: None, size, visible }
    }

    fn show(&mut self, read: u64) {
        let now = Instant::now();
        if !self.visible || self.shown.is_some_and(|shown| now - shown < PROGRESS) {
            return;
        }
        self.shown = Some(now);
        let time = (now - self.begun).as_secs_f64().max(0.001);
        let rate = read as f64 / time;
        let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
        let text = match self.size.filter(|size| *size > 0) {
            Some(size) => {
                let part = (read as f64 / size as f64).min(1.0);
                let full = (part * BAR as f64) as usize;
                let left = (size.saturating_sub(read)) as f64 / rate;
                format!(
                    "[{}{}] {:3.0} %  {:.1} of {:.1} MiB  {:.1} MiB/s  {left:.0} s left",
                    "#".repeat(full),
                    ".".repeat(BAR - full),
                    part * 100.0,
                    mebibytes(read as f64),
                    mebibytes(size as f64),
                    mebibytes(rate),
                )
            }
            None => format!("{:.1} MiB  {:.1} MiB/s", mebibytes(read as f64), mebibytes(rate)),
        };
        eprint!("\r{text}\x1b[K");
    }

    fn end(&self) {
        if self.visible && self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
