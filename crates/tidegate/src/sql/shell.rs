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
use tidegate_rows::ServerError;
use unicode_width::UnicodeWidthStr;

use super::client::{Client, Event};
use super::output::{Format, Output, seconds};
use super::split::{End, Splitter, Statement};
use super::{Failure, backup, batch, interrupt};

/// Statements that the history keeps.
const HISTORY: usize = 2000;
/// Its file, in the user's home directory; `TIDEGATE_SQL_HISTORY` names another.
const HISTORY_FILE: &str = ".tidegate_sql_history";

const HELP: &str = "\
Statements end with ; or, for a line per value, with \\G. Several may stand on a line.
  use SCHEMA;        make a schema the current one
  delimiter //       statements end with // from now on, for those that have ; inside
  source FILE        run the statements of a file (also \\.)
  pager [PROGRAM]    results go through a program, for instance less -S; without a name they do no longer (also \\P, \\n)
  help               this (also \\?)
  quit               leave (also exit, \\q, Ctrl-D)
Tab completes words, tables and columns; Ctrl-R searches the history;
Ctrl-C drops what was typed, or ends the statement that runs.";

/// Warnings of a statement that are shown unasked.
const WARNINGS_SHOWN: u16 = 5;

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
    let mut pager = None;
    editor.set_helper(Some(Names::of(client)));
    loop {
        let prompt = prompt(client, splitter.is_inside());
        match editor.readline(&prompt) {
            Ok(line) => {
                if !splitter.is_inside() {
                    match command(&line) {
                        Some(Command::Quit) => break,
                        Some(command) => {
                            let _ = editor.add_history_entry(line.trim());
                            obey(client, command, format, &mut pager)?;
                            continue;
                        }
                        None => typed.clear(),
                    }
                }
                typed.push_str(&line);
                typed.push('\n');
                splitter.add(format!("{line}\n").as_bytes());
                let (mut ran, mut renamed) = (false, false);
                while let Some(statement) = splitter.next() {
                    ran = true;
                    renamed |= changes_names(&statement.sql);
                    let names = editor.helper().map_or(&[][..], |helper| &helper.own);
                    execute(client, &statement, format, pager.as_deref(), names)?;
                    splitter.set_backslash_escapes(client.backslash_escapes);
                }
                if ran {
                    let _ = editor.add_history_entry(typed.trim_end());
                    save(&mut editor, history.as_ref());
                }
                if renamed {
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

/// What the shell itself does.
#[derive(Debug, PartialEq, Eq)]
enum Command<'a> {
    Quit,
    Help,
    Source(&'a str),
    /// Without a program results are printed again.
    Pager(&'a str),
    Unknown(&'a str),
}

/// The command that a line is; `None` for the beginning of a statement.
fn command(line: &str) -> Option<Command<'_>> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    Some(match (word.to_ascii_lowercase().as_str(), rest) {
        ("quit" | "exit", "") => Command::Quit,
        ("help" | "?", "") => Command::Help,
        ("source", file) if !file.is_empty() => Command::Source(file),
        ("pager", program) => Command::Pager(program),
        ("nopager", "") => Command::Pager(""),
        _ => match word {
            "\\q" => Command::Quit,
            "\\h" | "\\?" => Command::Help,
            "\\." if !rest.is_empty() => Command::Source(rest),
            "\\P" => Command::Pager(rest),
            "\\n" => Command::Pager(""),
            _ if word.starts_with('\\') => Command::Unknown(word),
            _ => return None,
        },
    })
}

fn obey(client: &mut Client, command: Command<'_>, format: Format, pager: &mut Option<String>) -> Result<(), Failure> {
    match command {
        Command::Quit => {}
        Command::Help => println!("{HELP}"),
        Command::Pager("") => *pager = None,
        Command::Pager(program) => *pager = Some(program.to_owned()),
        Command::Unknown(word) => println!("There is no command {word}; type help for help.\n"),
        Command::Source(file) => match std::fs::File::open(file) {
            Err(error) => println!("{file}: {error}\n"),
            Ok(text) => match batch::run(client, &mut io::BufReader::new(text), format, false) {
                Err(Failure::Other(reason)) => println!("{reason}\n"),
                Err(Failure::Lost) => {
                    println!("The server has closed the connection in the middle of {file}.");
                    reconnect(client);
                }
                other => return other.map(drop),
            },
        },
    }
    Ok(())
}

/// Whether a statement may bring names to complete, or take some away.
fn changes_names(sql: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(64)]).to_ascii_uppercase();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty());
    matches!(word, Some("USE" | "CREATE" | "DROP" | "ALTER" | "RENAME"))
}

/// Runs a statement and prints its results with the time that they took.
fn execute(
    client: &mut Client,
    statement: &Statement,
    format: Format,
    pager: Option<&str>,
    names: &[String],
) -> Result<(), Failure> {
    let format = if statement.end == End::Vertical { Format::Vertical } else { format };
    let begun = Instant::now();
    let mut lines = Vec::new();
    let mut warnings = 0;
    let mut print = |mut out: &mut dyn Write| {
        let mut output = Output::new(&mut out, format);
        client.run(&statement.sql, |event| {
            if let Event::End(summary) = &event {
                warnings = summary.warnings;
            }
            if let Some(line) = output.write(event)? {
                lines.push(line);
            }
            Ok(())
        })
    };
    let ran = match pager {
        None => print(&mut io::stdout().lock()),
        Some(program) => paged(program, print),
    };
    let time = seconds(begun.elapsed());
    for line in lines {
        println!("{line} ({time})");
    }
    match ran {
        Err(Failure::Lost) => {
            println!("The server has closed the connection; what the statement was doing may be done or not.");
            reconnect(client);
            Ok(())
        }
        Err(Failure::Statement(error)) => {
            let sql = String::from_utf8_lossy(&statement.sql);
            let mark = mark(&sql, &error.message).or_else(|| mark_name(&sql, &error, names));
            println!("{}{}\n", Failure::Statement(error), mark.map_or(String::new(), |mark| format!("\n{mark}")));
            Ok(())
        }
        Ok(()) => {
            if (1..=WARNINGS_SHOWN).contains(&warnings) {
                for row in client.rows("SHOW WARNINGS").unwrap_or_default() {
                    println!("{}", row.join(" "));
                }
            }
            println!();
            Ok(())
        }
        other => other,
    }
}

/// Connects again; the shell stays either way.
fn reconnect(client: &mut Client) {
    match client.reconnect() {
        Ok(()) => println!("Connected again; a transaction that was open is not.\n"),
        Err(reason) => println!("{reason}\n"),
    }
}

/// Runs `print` into a program that shows what it gets.
fn paged(program: &str, print: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    use std::process::{Command, Stdio};
    let mut child = match Command::new("sh").args(["-c", program]).stdin(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return Err(Failure::Other(format!("sh: {error}"))),
    };
    let mut input = io::BufWriter::new(child.stdin.take().expect("a pipe was asked for"));
    let ran = print(&mut input);
    // Who leaves the pager early has seen enough.
    let _ = input.flush();
    drop(input);
    let _ = child.wait();
    match ran {
        Err(Failure::Other(reason)) if reason.contains("Broken pipe") => Ok(()),
        other => other,
    }
}

/// The line of a statement in which a syntax error is, with a mark below its place.
fn mark(sql: &str, message: &str) -> Option<String> {
    let (_, rest) = message.split_once("right syntax to use near '")?;
    let (near, line) = rest.rsplit_once("' at line ")?;
    let number: usize = line.parse().ok()?;
    let start = sql.split_inclusive('\n').take(number - 1).map(str::len).sum::<usize>();
    let sql = sql.trim_end();
    let at = if near.is_empty() { sql.len() } else { start + sql.get(start..)?.find(near)? };
    Some(marked(sql, at, "^"))
}

/// A line of a text with a mark below a place.
fn marked(sql: &str, at: usize, mark: &str) -> String {
    let from = sql[..at].rfind('\n').map_or(0, |end| end + 1);
    let to = sql[at..].find('\n').map_or(sql.len(), |end| at + end);
    let before = sql[from..at].replace('\t', " ");
    format!("  {before}{}\n  {}{mark}", sql[at..to].replace('\t', " "), " ".repeat(before.width()))
}

/// The line of a statement in which an unknown column or table is, with a mark below it and a name that is near.
fn mark_name(sql: &str, error: &ServerError, names: &[String]) -> Option<String> {
    const UNKNOWN: [u16; 2] = [1054, 1146];
    if !UNKNOWN.contains(&error.code) {
        return None;
    }
    let quoted = error.message.split('\'').nth(1)?;
    let name = quoted.rsplit('.').next()?;
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let (at, _) = sql.match_indices(name).find(|(at, found)| {
        let (before, after) = (&sql[..*at], &sql[at + found.len()..]);
        let is_text = before.matches(['\'', '"']).count() % 2 == 1;
        !is_text && !before.ends_with(is_part) && !after.starts_with(is_part)
    })?;
    let near = tidegate_conf::closest(name.as_bytes(), names.iter().map(String::as_str));
    let hint = near.map_or(String::new(), |near| format!(" did you mean \"{near}\"?"));
    Some(marked(sql.trim_end(), at, &format!("{}{hint}", "^".repeat(name.width().max(1)))))
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
    /// With the key words.
    names: Vec<String>,
    /// Of tables and columns.
    own: Vec<String>,
}

impl Names {
    /// Key words, schemas, and the tables and columns of the current schema.
    fn of(client: &mut Client) -> Self {
        let mut names: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        // Names are a comfort: without them the shell works too.
        names.extend(backup::schemas(client).unwrap_or_default());
        let mut own = Vec::new();
        if !client.schema.is_empty() {
            let columns =
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()";
            own.extend(client.rows(columns).unwrap_or_default().into_iter().flatten());
            own.sort_unstable();
            own.dedup();
            names.extend(own.iter().cloned());
        }
        names.sort_unstable();
        names.dedup();
        Self { names, own }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Command<'_>>) {
        assert_eq!(command(line), expected, "{line}");
    }

    #[test]
    fn commands() {
        check("select 1;", None);
        check("exit;", Some(Command::Quit));
        check(" \\q ", Some(Command::Quit));
        check("help contents", None);
        check("\\? ", Some(Command::Help));
        check("source a b.sql", Some(Command::Source("a b.sql")));
        check("\\. x.sql;", Some(Command::Source("x.sql")));
        check("pager less -S", Some(Command::Pager("less -S")));
        check("\\P", Some(Command::Pager("")));
        check("\\d cats", Some(Command::Unknown("\\d")));
        check("", None);
    }

    #[test]
    fn a_mark_stands_below_the_error() {
        let message = |near: &str, line: usize| format!("… the right syntax to use near '{near}' at line {line}");
        let shown = |sql: &str, near: &str, line| mark(sql, &message(near, line)).unwrap_or_default();
        assert_eq!(shown("select 1 frm x y", "x y", 1), "  select 1 frm x y\n               ^");
        assert_eq!(shown("select '日'\n  frum x", "x", 2), "    frum x\n         ^");
        assert_eq!(shown("select 1 +\n", "", 1), "  select 1 +\n            ^");
        assert_eq!(shown("select '日本' x y", "y", 1), "  select '日本' x y\n                  ^");
        assert_eq!(shown("select 1", "elsewhere", 1), "");
    }

    #[test]
    fn a_name_that_is_near() {
        let names = ["age", "name"].map(str::to_owned);
        let shown = |sql: &str, code, message: &str| {
            mark_name(sql, &ServerError::new(code, b"42S22", message.to_owned()), &names).unwrap_or_default()
        };
        assert_eq!(
            shown("select 'nmae',\n  c.nmae from c", 1054, "Unknown column 'c.nmae' in 'field list'"),
            "    c.nmae from c\n      ^^^^ did you mean \"name\"?"
        );
        assert_eq!(
            shown("select * from dogs", 1146, "Table 'x.dogs' doesn't exist"),
            "  select * from dogs\n                ^^^^"
        );
        assert_eq!(shown("select 1", 1062, "Duplicate entry 'x'"), "");
    }
}
