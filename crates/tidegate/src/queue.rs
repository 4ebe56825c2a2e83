//! `tidegate queue`: the queues of a database from the command line, whether a server has it open or not.

mod transfer;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use serde_json::json;

use crate::sql::client::Client;
use crate::sql::{self, Failure};

/// The queues of the embedded database
#[derive(Parser, Debug)]
#[command(name = "tidegate queue", version)]
struct Options {
    /// The data directory [default: data here, or below the server's prefix]
    #[arg(short, long, value_name = "DIRECTORY", global = true)]
    data: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// All queues with messages, and how many wait, are delayed or dead; what consumers have waits, too
    List,
    /// The next messages of a queue
    Peek {
        queue: String,
        /// At most so many
        #[arg(short, long, default_value_t = 10)]
        max: u32,
    },
    /// Messages that have failed too often, and why
    Dead {
        queue: String,
        /// At most so many
        #[arg(short, long, default_value_t = 10)]
        max: u32,
    },
    /// Messages from standard input, one a line; empty lines are none
    Publish(Publishing),
    /// Messages that wait go to the end of a file, one a line as JSON, and are done when the disk has them
    Drain { queue: String, file: PathBuf },
    /// Messages that have failed too often wait again, as if they never had
    Resend {
        queue: String,
        /// Only those of these numbers
        ids: Vec<u64>,
    },
    /// Messages that have failed too often are deleted
    Delete {
        queue: String,
        /// Only those of these numbers
        ids: Vec<u64>,
    },
}

#[derive(Args, Debug)]
struct Publishing {
    queue: String,
    /// All of the input is one message
    #[arg(long, conflicts_with = "json")]
    whole: bool,
    /// Each line is a message as JSON, as drain writes it
    #[arg(long)]
    json: bool,
    /// The urgency: 0 comes first [default: 1024]
    #[arg(long)]
    priority: Option<u32>,
    /// The messages wait so long first, for instance 10m
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// They are deleted when they have waited so long
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
}

/// Runs the sub-command; the answer is the exit status.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let words = std::iter::once(OsString::from("tidegate queue")).chain(arguments.iter().cloned());
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return i32::from(!matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
        }
    };
    match statement(&options.task) {
        Some(statement) => sql::print(options.data, &statement),
        None => sql::status(work(&options).map(|()| true)),
    }
}

/// Does what is no statement.
fn work(options: &Options) -> Result<(), Failure> {
    if let Some(data) = options.data.as_ref().filter(|data| !data.is_dir()) {
        return Err(Failure::Other(format!("there is no directory {}", data.display())));
    }
    let directory = sql::directory(options.data.as_ref(), false)?;
    tidegate_modules::queue::answer_command_line();
    let mut client = Client::open(&directory).map_err(Failure::Other)?;
    let done = match &options.task {
        Task::Publish(publishing) => {
            if client.is_alone() {
                eprintln!("no server has {} open: limits of its configuration are not known", directory.display());
            }
            transfer::publish(&mut client, publishing)
        }
        Task::Drain { queue, file } => transfer::drain(&mut client, queue, file),
        Task::Resend { queue, ids } => dead(&mut client, "resend", queue, ids),
        Task::Delete { queue, ids } => dead(&mut client, "delete", queue, ids),
        Task::List => list(&mut client),
        Task::Peek { .. } | Task::Dead { .. } => Ok(()),
    };
    client.close();
    done
}

/// Does something with dead messages.
fn dead(client: &mut Client, what: &str, queue: &str, ids: &[u64]) -> Result<(), Failure> {
    let count = client.queue(&json!({ "do": what, "queue": queue, "ids": ids }), |_| Ok(()))?;
    println!("{count} messages");
    Ok(())
}

/// Shows the queues that have messages. The server knows how many, and looks at none.
fn list(client: &mut Client) -> Result<(), Failure> {
    let mut queues: Vec<serde_json::Value> = Vec::new();
    client.queue(&json!({ "do": "list" }), |told| {
        queues.push(serde_json::from_slice(told).map_err(|error| Failure::Other(error.to_string()))?);
        Ok(())
    })?;
    println!("queue\twaiting\tdelayed\tdead");
    for queue in queues {
        let name = queue["queue"].as_str().unwrap_or_default();
        println!("{name}\t{}\t{}\t{}", queue["waiting"], queue["delayed"], queue["dead"]);
    }
    Ok(())
}

/// The statement that shows what is asked for; `None` for what is none.
fn statement(task: &Task) -> Option<String> {
    let statement = match task {
        Task::Peek { queue, max } => of_state(0, "priority, attempts, body", queue, *max),
        Task::Dead { queue, max } => of_state(2, "priority, attempts, reason, body", queue, *max),
        Task::List | Task::Publish(_) | Task::Drain { .. } | Task::Resend { .. } | Task::Delete { .. } => return None,
    };
    Some(statement)
}

/// Messages of a queue in their order.
fn of_state(state: u8, columns: &str, queue: &str, max: u32) -> String {
    format!(
        "SELECT id, {columns} FROM tidegate_queue.messages \
         WHERE queue = {} AND state = {state} ORDER BY priority, id LIMIT {max}",
        quoted(queue)
    )
}

/// The name of a queue as SQL has it, by its bytes: it may have any.
fn quoted(queue: &str) -> String {
    use std::fmt::Write as _;
    let mut bytes = String::new();
    for byte in queue.bytes() {
        // Writing to memory does not fail.
        let _ = write!(bytes, "{byte:02x}");
    }
    format!("CONVERT(x'{bytes}' USING utf8mb4)")
}
