//! `tidegate sql`: statements, imports, dumps and copies of the embedded database from the command line.
//!
//! Works on the data directory itself, or, while a server has it open, through the socket that the server keeps there:
//! the user need not know which ([`client`]). In reading order: the options below, [`client`], [`split`] (a text into
//! statements), [`output`] (results for people and for programs), [`batch`] (`-e`, `--import`, standard input),
//! [`shell`] (interactive), [`interrupt`] (Ctrl-C in it), [`dump`] (`--dump`), [`backup`] (`--backup`, `--restore`).

mod backup;
mod batch;
pub(crate) mod client;
mod dump;
mod interrupt;
mod output;
mod shell;
mod split;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;
use tidegate_rows::ServerError;

use client::Client;
use output::Format;

/// Data directory of a configuration that names none.
const DATA: &str = "data";
/// A file that every data directory has.
const LOCK: &str = "tidegate.lock";

/// Statements, imports, dumps and copies of the embedded database
#[derive(Parser, Debug)]
#[command(
    name = "tidegate sql",
    version,
    after_help = "Without -e, --import, --dump, --backup and --restore statements come from the terminal, or from standard input.\n\
        While a server has the data directory open, the work is done in it, by the socket tidegate.sock there.\n\
        The exit status is 0 if every statement ran."
)]
struct Options {
    /// The data directory [default: data here, or below the server's prefix]
    #[arg(short, long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Make the data directory if there is none
    #[arg(long)]
    create: bool,
    /// Run these statements and end; may be given several times
    #[arg(short, long, value_name = "SQL")]
    execute: Vec<String>,
    /// Run the statements of a file, for instance of mysqldump; - is standard input
    #[arg(long, value_name = "FILE")]
    import: Option<PathBuf>,
    /// Write the schema, or all, as statements that MariaDB and MySQL read
    #[arg(long)]
    dump: bool,
    /// Copy the schema into a file; without a schema all of them into a directory
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    /// Make the schema from a copy that --backup has made; without a schema all of those in a directory
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// How results look [default: table on a terminal, tab otherwise]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Go on after a statement that fails
    #[arg(short, long)]
    force: bool,
    /// No progress, no counts
    #[arg(short, long)]
    quiet: bool,
    /// The schema to begin in
    schema: Option<String>,
}

/// Why the work ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A statement failed.
    Statement(ServerError),
    /// The server has closed the connection; what it was doing may be done or not.
    Lost,
    /// Something else, as a sentence.
    Other(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Failure::Lost,
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Failure::Statement(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Statement(error) => write!(f, "ERROR {} ({}): {}", error.code, error.sqlstate(), error.message),
            Failure::Lost => f.write_str("the server has closed the connection"),
            Failure::Other(reason) => f.write_str(reason),
        }
    }
}

/// Runs the sub-command; the answer is the exit status.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let words = std::iter::once(OsString::from("tidegate sql")).chain(arguments.iter().cloned());
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return i32::from(!matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
        }
    };
    status(work(&options))
}

/// Runs a statement on the database of a data directory, or of the one that is found, and prints its rows; the answer is the exit
/// status.
pub(crate) fn print(data: Option<PathBuf>, statement: &str) -> i32 {
    let words = ["tidegate sql".into(), "-e".into(), OsString::from(statement)];
    let options = Options::try_parse_from(words).map_err(|error| Failure::Other(error.to_string()));
    status(options.and_then(|options| work(&Options { data, ..options })))
}

/// The exit status of what was done, whose failure is told.
pub(crate) fn status(done: Result<bool, Failure>) -> i32 {
    match done {
        Ok(true) => 0,
        Ok(false) => 1,
        // Whoever reads our output has read enough.
        Err(Failure::Other(reason)) if reason.contains("Broken pipe") => 0,
        Err(failure) => {
            eprintln!("tidegate: {failure}");
            1
        }
    }
}

fn work(options: &Options) -> Result<bool, Failure> {
    let modes = [
        options.import.is_some(),
        options.dump,
        options.backup.is_some(),
        options.restore.is_some(),
        !options.execute.is_empty(),
    ];
    if modes.iter().filter(|mode| **mode).count() > 1 {
        return Err(Failure::Other("only one of -e, --import, --dump, --backup and --restore at a time".to_owned()));
    }
    let directory = directory(options.data.as_ref(), options.create)?;
    let mut client = Client::open(&directory).map_err(Failure::Other)?;
    if let Some(schema) = options.schema.as_ref().filter(|_| options.restore.is_none()) {
        client.run_quietly(&format!("USE {}", name(schema)))?;
    }
    let format = options.format.unwrap_or(if io::stdout().is_terminal() { Format::Table } else { Format::Tab });
    let done = if let Some(copy) = &options.restore {
        backup::restore(&mut client, options.schema.as_deref(), copy, &directory).map(|()| true)
    } else if let Some(file) = &options.backup {
        backup::run(&mut client, options.schema.as_deref(), file).map(|()| true)
    } else if options.dump {
        dump::run(&mut client, options.schema.as_deref(), &mut io::stdout().lock()).map(|()| true)
    } else if let Some(file) = &options.import {
        batch::import(&mut client, file, options.force, options.quiet)
    } else if !options.execute.is_empty() {
        let text = options.execute.join("\n;\n");
        batch::run(&mut client, &mut text.as_bytes(), format, options.force)
    } else if io::stdin().is_terminal() && io::stdout().is_terminal() {
        shell::run(&mut client, format)
    } else {
        batch::run(&mut client, &mut io::stdin().lock(), format, options.force)
    };
    client.close();
    done
}

/// The data directory that the user means.
pub(crate) fn directory(data: Option<&PathBuf>, create: bool) -> Result<PathBuf, Failure> {
    if let Some(data) = data {
        if !data.is_dir() && !create {
            let text = format!("there is no directory {}; --create makes it", data.display());
            return Err(Failure::Other(text));
        }
        return Ok(data.clone());
    }
    let places = [PathBuf::from(DATA), PathBuf::from(crate::cli::PREFIX).join(DATA)];
    if create {
        return Ok(places[0].clone());
    }
    let found = places.into_iter().find(|place| place.join(LOCK).exists());
    found.ok_or_else(|| Failure::Other("there is no data directory here; name one with --data DIRECTORY".to_owned()))
}

/// A name in quotes.
pub(super) fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
