//! `tidegate queue`: a look at the queues of a database from the command line, whether a server has it open or not.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::sql;

/// A look at the queues of the embedded database
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
    sql::print(options.data, &statement(&options.task))
}

fn statement(task: &Task) -> String {
    match task {
        Task::List => "SELECT queue, CAST(SUM(state = 0) AS UNSIGNED) AS waiting, CAST(SUM(state = 1) AS UNSIGNED) AS `delayed`, \
                       CAST(SUM(state = 2) AS UNSIGNED) AS dead FROM tidegate_queue.messages GROUP BY queue ORDER BY queue"
            .to_owned(),
        Task::Peek { queue, max } => of_state(0, "priority, attempts, body", queue, *max),
        Task::Dead { queue, max } => of_state(2, "priority, attempts, reason, body", queue, *max),
    }
}

/// Messages of a queue in their order. The name is given by its bytes: it may have any.
fn of_state(state: u8, columns: &str, queue: &str, max: u32) -> String {
    use std::fmt::Write as _;
    let mut bytes = String::new();
    for byte in queue.bytes() {
        // Writing to memory does not fail.
        let _ = write!(bytes, "{byte:02x}");
    }
    format!(
        "SELECT id, {columns} FROM tidegate_queue.messages \
         WHERE queue = CONVERT(x'{bytes}' USING utf8mb4) AND state = {state} ORDER BY priority, id LIMIT {max}"
    )
}
