//! Messages from standard input into a queue, and out of a queue into a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Publishing;
use crate::sql::Failure;
use crate::sql::client::Client;

/// Messages of one commit, at most.
const TOGETHER_MAX: usize = 256;
/// Bytes of messages behind which a commit begins.
const TOGETHER_BYTES: usize = 1 << 20;
/// Between two looks of the progress.
const PROGRESS: Duration = Duration::from_millis(200);
/// What a message that was drained has, and one that is published has not.
const GIVEN: [&str; 3] = ["id", "attempts", "published_ms"];

/// Publishes what comes from standard input. It is durable when this ends; after a failure those batches are that came before.
///
/// # Errors
/// The server's, or those of the input.
pub(super) fn publish(client: &mut Client, publishing: &Publishing) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut progress = Progress::new("published", None);
    let mut batch = Batch { publishing, messages: Vec::new(), bytes: 0 };
    if publishing.whole {
        let mut body = Vec::new();
        input.read_to_end(&mut body)?;
        batch.add(&body)?;
    } else {
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line)? > 0 {
            let message = line.strip_suffix(b"\n").unwrap_or(&line);
            if !message.is_empty() {
                batch.add(message)?;
            }
            line.clear();
            if batch.is_full() {
                progress.add(batch.send(client)?);
            }
        }
    }
    progress.add(batch.send(client)?);
    progress.end();
    Ok(())
}

/// Messages that are to be stored together.
struct Batch<'a> {
    publishing: &'a Publishing,
    messages: Vec<Value>,
    bytes: usize,
}

impl Batch<'_> {
    fn add(&mut self, text: &[u8]) -> Result<(), Failure> {
        let mut message = if self.publishing.json {
            serde_json::from_slice(text).map_err(|error| Failure::Other(format!("a line is no JSON: {error}")))?
        } else {
            match std::str::from_utf8(text) {
                Ok(text) => json!({ "body": text }),
                Err(_) => json!({ "base64": STANDARD.encode(text) }),
            }
        };
        if let Some(members) = message.as_object_mut() {
            GIVEN.iter().for_each(|name| drop(members.remove(*name)));
            let Publishing { priority, delay, ttl, .. } = self.publishing;
            let options = [
                ("priority", priority.map(|number| json!(number))),
                ("delay", delay.as_ref().map(|time| json!(time))),
                ("ttl", ttl.as_ref().map(|time| json!(time))),
            ];
            for (name, value) in options {
                members.extend(value.map(|value| (name.to_owned(), value)));
            }
        }
        self.messages.push(message);
        self.bytes += text.len();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.messages.len() >= TOGETHER_MAX || self.bytes >= TOGETHER_BYTES
    }

    fn send(&mut self, client: &mut Client) -> Result<u64, Failure> {
        if self.messages.is_empty() {
            return Ok(0);
        }
        self.bytes = 0;
        let messages = std::mem::take(&mut self.messages);
        client.queue(&json!({ "do": "publish", "queue": self.publishing.queue, "messages": messages }), |_| Ok(()))
    }
}

/// Moves all messages that wait into a file. Each is done when the disk has it, so that a crash may leave one in both places, but
/// never in neither.
///
/// # Errors
/// The server's, or those of the file.
pub(super) fn drain(client: &mut Client, queue: &str, path: &Path) -> Result<(), Failure> {
    let named = |error: io::Error| Failure::Other(format!("{}: {error}", path.display()));
    let mut file = open(path).map_err(named)?;
    let mut progress = Progress::new("drained", waiting(client, queue));
    loop {
        let mut out = BufWriter::new(&mut file);
        let pulled = client.queue(&json!({ "do": "pull", "queue": queue }), |message| {
            out.write_all(message).and_then(|()| out.write_all(b"\n")).map_err(named)
        })?;
        if pulled == 0 {
            break;
        }
        out.flush().map_err(named)?;
        drop(out);
        file.sync_data().map_err(named)?;
        let done = client.queue(&json!({ "do": "acknowledge", "queue": queue }), |_| Ok(()))?;
        progress.add(pulled);
        if done < pulled {
            let text =
                format!("{} of the last {pulled} messages took too long to store; they wait again too", pulled - done);
            return Err(Failure::Other(text));
        }
    }
    progress.end();
    Ok(())
}

/// Opens a file for more lines, durable by its name.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()?;
    if !ends_with_line(&mut file)? {
        // A crash has cut the last line. Its message still waits.
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    use std::io::{Seek, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// How many messages wait, if that can be told.
fn waiting(client: &mut Client, queue: &str) -> Option<u64> {
    let mut count = Some(0);
    let told = client.queue(&json!({ "do": "list" }), |told| {
        let told: Value = serde_json::from_slice(told).unwrap_or_default();
        if told["queue"] == queue {
            count = told["waiting"].as_u64();
        }
        Ok(())
    });
    told.ok().and(count)
}

/// A count on the terminal.
struct Progress {
    what: &'static str,
    total: Option<u64>,
    count: u64,
    begun: Instant,
    shown: Option<Instant>,
}

impl Progress {
    fn new(what: &'static str, total: Option<u64>) -> Self {
        Progress { what, total, count: 0, begun: Instant::now(), shown: None }
    }

    fn add(&mut self, count: u64) {
        self.count += count;
        let now = Instant::now();
        if !io::stderr().is_terminal() || self.shown.is_some_and(|shown| now - shown < PROGRESS) {
            return;
        }
        self.shown = Some(now);
        let rate = self.count as f64 / (now - self.begun).as_secs_f64().max(0.001);
        let total = self.total.map(|total| format!(" of {}", total.max(self.count))).unwrap_or_default();
        eprint!("\r{}{total} {}, {rate:.0} a second\x1b[K", self.count, self.what);
    }

    fn end(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
        println!("{} messages", self.count);
    }
}
