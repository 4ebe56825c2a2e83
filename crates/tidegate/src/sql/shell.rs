//! The interactive shell: editing, history, completion, timing.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::client::Client;
use super::output::{Format, Output, seconds};
use super::split::{End, Splitter, Statement};
use super::{Failure, backup, interrupt};

/// Statements that the history keeps.
const HISTORY: usize = 2000;
/// Its file, in the user's home directory; `TIDEGATE_SQL_HISTORY` names another.
const HISTORY_FILE: &str = ".tidegate_sql_history";

const HELP: &str = "\
Statements end with ; or, for a line per value, with \\G. Several may stand on a line.
  use SCHEMA;   make a schema the current one
  help          this
  quit          leave (also exit, \\q, Ctrl-D)
Tab completes words, tables and columns; Ctrl-R searches the history;
Ctrl-C drops what was typed, or ends the statement that runs.";

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "ADD", "ALL", "ALTER", "AND", "AS", "ASC", "AUTO_INCREMENT", "AVG", "BEGIN", "BETWEEN", "BIGINT", "BLOB", "BY",
    "CASE", "CAST", "CHAR", "COLUMN", "COMMIT", "CONCAT", "CONSTRAINT", "COUNT", "CREATE", "CROSS", "DATABASE",
    "DATABASES", "DATE", "DATETIME", "DECIMAL", "DEFAULT", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DOUBLE", "DROP",
    "DUPLICATE", "ELSE", "END", "ENUM", "EXISTS", "EXPLAIN", "FOREIGN", "FROM", "GROUP", "HAVING", "IF", "IGNORE",
    "IN", "INDEX", "INNER", "INSERT", "INT", "INTERVAL", "INTO", "IS", "JOIN", "JSON", "KEY", "LEFT", "LIKE", "LIMIT",
    "MAX", "MIN", "MODIFY", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "PRIMARY", "REFERENCES", "RENAME",
    "REPLACE", "RIGHT", "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "START", "SUM", "TABLE", "TABLES", "TEXT",
    "THEN", "TIMESTAMP", "TRANSACTION", "TRUNCATE", "UNION", "UNIQUE", "UNSIGNED", "UPDATE", "USE", "USING", "VALUES",
    "VARCHAR", "VIEW", "WARNINGS", "WHEN", "WHERE", "WITH",
];

/// Talks with a person until they leave.
///
/// # Errors
/// The terminal's, or a broken connection.
pub(super) fn run(client: &mut Client, format: Format) -> Result<bool, Failure> {
    println!("Tidegate {} ({})", env!("CARGO_PKG_VERSION"), client.version);
    let place = if client.is_remote() { "in the running server" } else { "opened here; no server runs on it" };
    println!("The database is {place}. Type help for help.\n");
    let config = Config::builder()
        .max_history_size(HISTORY)
        .map_err(terminal)?
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor: Editor<Names, DefaultHistory> = Editor::with_config(config).map_err(terminal)?;
    let history = history_file();
    if let Some(history) = &history {
        // There is none the first time.
        let _ = editor.load_history(history);
    }
    interrupt::install().map_err(|error| Failure::Other(format!("sigaction: {error}")))?;
    let mut splitter = Splitter::default();
    let mut typed = String::new();
    editor.set_helper(Some(Names::of(client)));
    loop {
        let prompt = prompt(client, splitter.is_inside());
        match editor.readline(&prompt) {
            Ok(line) => {
                if !splitter.is_inside() {
                    match line.trim().trim_end_matches(';').to_ascii_lowercase().as_str() {
                        "quit" | "exit" | "\\q" => break,
                        "help" | "?" | "\\h" => {
                            println!("{HELP}");
                            continue;
                        }
                        _ => typed.clear(),
                    }
                }
                typed.push_str(&line);
                typed.push('\n');
                splitter.add(format!("{line}\n").as_bytes());
                let mut ran = false;
                while let Some(statement) = splitter.next() {
                    ran = true;
                    execute(client, &statement, format)?;
                }
                if ran {
                    let _ = editor.add_history_entry(typed.trim_end());
                    save(&mut editor, history.as_ref());
                    editor.set_helper(Some(Names::of(client)));
                }
            }
            Err(ReadlineError::Interrupted) => splitter.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    println!("Bye");
    Ok(true)
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::Other(error.to_string())
}

fn prompt(client: &Client, inside: bool) -> String {
    let schema = if client.schema.is_empty() { "(none)" } else { &client.schema };
    let prompt = format!("tidegate [{schema}]> ");
    if inside { format!("{:>1$}", "-> ", prompt.chars().count()) } else { prompt }
}

/// Runs a statement and prints its results with the time that they took.
fn execute(client: &mut Client, statement: &Statement, format: Format) -> Result<(), Failure> {
    let format = if statement.end == End::Vertical { Format::Vertical } else { format };
    let begun = Instant::now();
    let mut stdout = io::stdout().lock();
    let mut lines = Vec::new();
    let ran = {
        let mut output = Output::new(&mut stdout, format);
        client.run(&statement.sql, |event| {
            if let Some(line) = output.write(event)? {
                lines.push(line);
            }
            Ok(())
        })
    };
    let time = seconds(begun.elapsed());
    for line in lines {
        writeln!(stdout, "{line} ({time})\n")?;
    }
    match ran {
        Err(failure @ Failure::Statement(_)) => Ok(writeln!(stdout, "{failure}\n")?),
        other => other,
    }
}

fn history_file() -> Option<PathBuf> {
    match std::env::var_os("TIDEGATE_SQL_HISTORY") {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(HISTORY_FILE)),
    }
}

/// Writes the history. A statement may hold secrets: the file is its owner's alone.
fn save(editor: &mut Editor<Names, DefaultHistory>, path: Option<&PathBuf>) {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(path) = path else { return };
    // A shell without history is still a shell.
    let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if made.is_ok() {
        let _ = editor.save_history(path);
    }
}

/// What Tab completes.
struct Names {
    names: Vec<String>,
}

impl Names {
    /// Key words, schemas, and the tables and columns of the current schema.
    fn of(client: &mut Client) -> Self {
        let mut names: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        // Names are a comfort: without them the shell works too.
        names.extend(backup::schemas(client).unwrap_or_default());
        if !client.schema.is_empty() {
            let columns =
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()";
            names.extend(client.rows(columns).unwrap_or_default().into_iter().flatten());
        }
        names.sort_unstable();
        names.dedup();
        Self { names }
    }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let start =
            before.rfind(|c| !is_name(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = &before[start..];
        if word.is_empty() {
            return Ok((pos, Vec::new()));
        }
        let lower = word.chars().all(|c| !c.is_uppercase());
        let matching =
            self.names.iter().filter(|name| name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)));
        let pairs = matching.map(|name| {
            // Key words follow the hand of who types.
            let is_word = WORDS.contains(&name.as_str());
            let name = if is_word && lower { name.to_lowercase() } else { name.clone() };
            Pair { display: name.clone(), replacement: name }
        });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }
}

impl Validator for Names {}
impl Helper for Names {}
