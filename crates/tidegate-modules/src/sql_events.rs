//! `sql_events`: commits of the embedded database as Server-Sent Events.
//!
//! ```text
//! retry: 1000
//! id: 1849247400001                                              where the client stands, before any event
//!
//! id: 1849247400002
//! data: {"number":1849247400002,"tables":["cats","toys"]}        a commit
//! data: {…,"keys":{"cats":{"inserted":[7],"updated":[],"deleted":[[1,"a"]]},"toys":{"unknown":"too many"}}}   with `keys`
//!
//! event: missed
//! id: 1849247409000
//! data: {"number":1849247409000}                                 the list does not go back to the client's last event
//! ```
//!
//! While there is no schema the stream stays open, and says nothing but comments. When it is made it may have anything: `missed`.
//!
//! A browser that connects again sends the last `id` as `Last-Event-ID`, and hears what it has missed. The commits are those that
//! [`tidegate_sql::Listening`] hears of; a slow client has a place in their list, not a queue of its own.
//!
//! Source: HTML Living Standard, section 9.2, Server-sent events.

use std::{io::Write, rc::Rc, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    output::{Chunk, Closed},
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_http::Method;
use tidegate_net::{log::Level, worker};
use tidegate_rows::{
    json::{TextOptions, append_string},
    number::{append_double, append_int, append_uint, is_json_number},
};
use tidegate_sql::{Commit, Engine, Heard, Key, KeyValue, Listening, TableKeys};

use crate::{
    database,
    event_stream::{self, PING},
};

/// Events that leave in one write, at least: as many as fit into the socket of a client that reads.
const WRITE_BYTES: usize = 16 << 10;

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    tables: Option<Arc<Tables>>,
}

/// The tables whose commits a location tells of.
#[derive(Debug, PartialEq, Eq)]
struct Tables {
    schema: String,
    /// None for all.
    names: Vec<String>,
    /// Events have the keys of changed rows.
    with_keys: bool,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("sql_events", 1, u16::MAX, sql_events)
        .within(Context::LOCATION)
        .syntax("schema.table ... | schema.* [keys]")
        .doc("Tells clients of commits of the embedded database that change the tables, as Server-Sent Events, with the primary keys of changed rows if they are to.")],
    inherit: |child, parent, kind| {
        if kind.is_unnamed() && child.tables.is_none() {
            child.tables.clone_from(&parent.tables);
        }
    },
    install: |conf, program| {
        if let Some(tables) = conf.tables.clone() {
            program.content(move |req| handle(req, &tables));
        }
    },
    example: "
        location = /changes { sql_events shop.cats shop.toys; }
    ",
    ..Module::named("sql_events")
};

fn sql_events(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.tables.is_some() {
        return Err(duplicate(directive));
    }
    let mut tables: Option<Tables> = None;
    let (args, with_keys) = match directive.args.split_last() {
        Some((last, args)) if &*last.value == b"keys" && !args.is_empty() => (args, true),
        _ => (&directive.args[..], false),
    };
    for arg in args {
        let refused = |what: &str| {
            let message = format!("{what} \"{}\" in \"sql_events\" directive", arg.value);
            Diagnostic::new(Severity::Emerg, arg.span, message)
        };
        let text = std::str::from_utf8(&arg.value).map_err(|_| refused("invalid table"))?;
        let (schema, table) = text.split_once('.').ok_or_else(|| refused("no schema in"))?;
        if schema.is_empty() || table.is_empty() || table == "*" && args.len() > 1 {
            return Err(refused("invalid table"));
        }
        let tables = tables.get_or_insert_with(|| Tables { schema: schema.to_owned(), names: Vec::new(), with_keys });
        if tables.schema != schema {
            return Err(refused("another schema than the first in"));
        }
        if table != "*" {
            tables.names.push(table.to_owned());
        }
    }
    conf.tables = tables.map(Arc::new);
    Ok(())
}

fn handle(req: &Rc<Request>, tables: &Arc<Tables>) -> Outcome {
    if !matches!(req.method.get(), Method::Get | Method::Head) {
        return Ready::Now(Step::Status(405));
    }
    if let Err(reason) = database::reopen(req.conf())
        && !database::is_wanted(req.conf())
    {
        req.log(Level::Error, format_args!("sql_events: {reason}"));
        return Ready::Now(Step::Status(503));
    }
    event_stream::begin(req);
    let mut stream = Stream {
        req: Rc::clone(req),
        tables: Arc::clone(tables),
        after: last_event(req),
        text: b"retry: 1000\n".to_vec(),
    };
    Ready::later(async move {
        match stream.tell().await {
            Ok(()) => Step::Ok,
            Err(Closed) => Step::Close,
        }
    })
}

/// The event that the client has heard last. What is no number of a commit comes before all of them.
fn last_event(req: &Request) -> Option<u64> {
    let head = req.head.borrow();
    let last = head.fields.get_name(b"last-event-id");
    last.map(|id| std::str::from_utf8(id).ok().and_then(|id| id.trim().parse().ok()).unwrap_or(0))
}

/// A response under way.
struct Stream {
    req: Rc<Request>,
    tables: Arc<Tables>,
    /// The last commit that the client knows.
    after: Option<u64>,
    /// What is to be sent next.
    text: Vec<u8>,
}

/// What a stream has waited for.
enum Came<T> {
    Here(T),
    /// Nothing for a while: a comment is about to go out.
    Nothing,
    /// The response is to end.
    End,
}

impl Stream {
    /// Sends events until the client leaves or the worker is to end. A browser takes any other answer than a stream for the last one,
    /// so while the schema is away the stream goes on without events.
    async fn tell(&mut self) -> Result<(), Closed> {
        let (mut has_begun, mut is_away) = (false, false);
        loop {
            // In this order: a schema that is made while this one is looked for is heard of.
            let engine = database::reopen(self.req.conf());
            let mut made = engine.as_ref().map(Engine::new_schemas).ok();
            match engine.and_then(|engine| self.listen(&engine)) {
                Ok(listening) => {
                    if !std::mem::replace(&mut has_begun, true) {
                        let _ = write!(self.text, "id: {}\n\n", listening.heard());
                    }
                    is_away = false;
                    drop(made);
                    if self.tell_commits(listening).await? {
                        break;
                    }
                }
                Err(reason) => {
                    if !std::mem::replace(&mut is_away, true) {
                        self.req.log(Level::Error, format_args!("sql_events: {reason}; the stream waits"));
                    }
                    if !std::mem::replace(&mut has_begun, true) {
                        self.text.push(b'\n');
                    }
                    // Whatever its tables have when it comes is news.
                    self.after.get_or_insert(0);
                    let next = async {
                        match &mut made {
                            Some(made) => made.next().await,
                            None => std::future::pending().await,
                        }
                    };
                    if matches!(self.wait(next).await?, Came::End) {
                        break;
                    }
                }
            }
        }
        self.req.send_end().wait().await
    }

    /// Begins to listen where the client has stopped.
    fn listen(&self, engine: &Engine) -> Result<Listening, String> {
        let names: Vec<&str> = self.tables.names.iter().map(String::as_str).collect();
        let listening = engine.listen(&self.tables.schema, &names, self.after).map_err(|error| error.message)?;
        Ok(if self.tables.with_keys { listening.with_keys() } else { listening })
    }

    /// Sends events as long as the schema is there; answers whether the response is to end.
    async fn tell_commits(&mut self, mut listening: Listening) -> Result<bool, Closed> {
        loop {
            match self.wait(listening.next()).await? {
                Came::Here(Some(heard)) => {
                    write_event(&heard, &self.tables, &mut self.text);
                    // One write takes what else there is.
                    while self.text.len() < WRITE_BYTES
                        && let Some(heard) = listening.next_now()
                    {
                        write_event(&heard, &self.tables, &mut self.text);
                    }
                }
                Came::Here(None) => {
                    // Whoever has the name next may have anything, also if it has it before this stream looks.
                    self.after = Some(0);
                    // A schema whose disk has failed says so a moment later.
                    tokio::task::yield_now().await;
                    return Ok(false);
                }
                Came::Nothing => {}
                Came::End => return Ok(true),
            }
            self.after = Some(listening.heard());
        }
    }

    /// Sends what there is, then waits.
    async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<Came<T>, Closed> {
        if self.req.is_head() {
            return Ok(Came::End);
        }
        if !self.text.is_empty() {
            self.req.send(Chunk::bytes(std::mem::take(&mut self.text)).and_flush()).wait().await?;
            self.req.pace().await?;
        }
        if worker::is_quitting() {
            return Ok(Came::End);
        }
        tokio::select! {
            came = next => Ok(Came::Here(came)),
            () = self.req.client.closed() => Err(Closed),
            () = tokio::time::sleep(PING) => {
                self.text.extend_from_slice(b":\n\n");
                Ok(Came::Nothing)
            }
        }
    }
}

fn write_event(heard: &Heard, tables: &Tables, out: &mut Vec<u8>) {
    match heard {
        Heard::Commit(commit) => {
            let _ = write!(out, "id: {0}\ndata: {{\"number\":{0},\"tables\":[", commit.number);
            for (index, table) in commit.tables.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                append_string(out, table.as_bytes(), TextOptions::default());
            }
            out.push(b']');
            if tables.with_keys {
                write_keys(commit, tables, out);
            }
            out.extend_from_slice(b"}\n\n");
        }
        Heard::Missed(number) => {
            let _ = write!(out, "event: missed\nid: {number}\ndata: {{\"number\":{number}}}\n\n");
        }
    }
}

/// What a commit has done to the rows of the location's tables; those of others are not its clients' concern.
fn write_keys(commit: &Commit, tables: &Tables, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"keys\":{");
    let is_told = |table: &str| tables.names.is_empty() || tables.names.iter().any(|name| name == table);
    for (index, (table, keys)) in commit.keys().filter(|(table, _)| is_told(table)).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append_string(out, table.as_bytes(), TextOptions::default());
        out.push(b':');
        match keys {
            TableKeys::Known(keys) => {
                for (name, keys) in [
                    ("{\"inserted\"", &keys.inserted),
                    (",\"updated\"", &keys.updated),
                    (",\"deleted\"", &keys.deleted),
                ] {
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b":[");
                    keys.iter().enumerate().for_each(|(index, key)| write_key(index, key, out));
                    out.push(b']');
                }
                out.push(b'}');
            }
            other => {
                let _ = write!(out, "{{\"unknown\":\"{}\"}}", other.why_unknown().unwrap_or_default());
            }
        }
    }
    out.push(b'}');
}

/// One of several keys: the value, or an array of several values.
fn write_key(index: usize, key: &Key, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    if key.len() != 1 {
        out.push(b'[');
    }
    for (index, value) in key.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match value {
            KeyValue::Int(value) => append_int(out, *value),
            KeyValue::Uint(value) => append_uint(out, *value),
            KeyValue::Double(value) => append_double(out, *value),
            KeyValue::Decimal(digits) if is_json_number(digits) => out.extend_from_slice(digits),
            KeyValue::Decimal(text) | KeyValue::Text(text) => append_string(out, text, TextOptions::default()),
            KeyValue::Binary(bytes) => append_string(out, STANDARD.encode(bytes).as_bytes(), TextOptions::default()),
        }
    }
    if key.len() != 1 {
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::BStr;
    use tidegate_sql::ChangedKeys;

    fn event(heard: &Heard, names: &[&str], with_keys: bool) -> Vec<u8> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut out = Vec::new();
        write_event(heard, &Tables { schema: "s".to_owned(), names, with_keys }, &mut out);
        out
    }

    #[test]
    fn an_event_is_one_line_of_json_whatever_tables_are_called() {
        let tables = ["a\nb", "c\"d"].map(Into::into).into();
        let heard = Heard::Commit(Arc::new(Commit { number: 7, tables, keys: Box::default() }));
        let expected = "id: 7\ndata: {\"number\":7,\"tables\":[\"a\\nb\",\"c\\\"d\"]}\n\n";
        assert_eq!(BStr::new(&event(&heard, &[], false)), expected);
        let expected = "id: 7\ndata: {\"number\":7,\"tables\":[\"a\\nb\",\"c\\\"d\"],\
                        \"keys\":{\"a\\nb\":{\"unknown\":\"not noted\"}}}\n\n";
        assert_eq!(BStr::new(&event(&heard, &["a\nb", "z"], true)), expected);
        let expected = "event: missed\nid: 9\ndata: {\"number\":9}\n\n";
        assert_eq!(BStr::new(&event(&Heard::Missed(9), &[], true)), expected);
    }

    #[test]
    fn keys_are_typed_and_those_of_several_columns_are_arrays() {
        let one = |value: KeyValue| -> Key { [value].into() };
        let known = ChangedKeys {
            inserted: vec![one(KeyValue::Int(-7)), one(KeyValue::Uint(u64::MAX)), one(KeyValue::Double(0.5))],
            updated: vec![[KeyValue::Text(b"a\n\"".as_slice().into()), KeyValue::Int(2)].into()],
            deleted: vec![
                one(KeyValue::Binary([0xff, 0, 1].as_slice().into())),
                one(KeyValue::Decimal(b"-1.50".as_slice().into())),
            ],
        };
        let tables = ["a", "b", "c"].map(Into::into).into();
        let keys = [TableKeys::Known(known), TableKeys::TooMany, TableKeys::NoPrimaryKey].into();
        let heard = Heard::Commit(Arc::new(Commit { number: 7, tables, keys }));
        let expected = "id: 7\ndata: {\"number\":7,\"tables\":[\"a\",\"b\",\"c\"],\"keys\":{\
                        \"a\":{\"inserted\":[-7,18446744073709551615,0.5],\"updated\":[[\"a\\n\\\"\",2]],\
                        \"deleted\":[\"/wAB\",-1.50]},\"b\":{\"unknown\":\"too many\"},\
                        \"c\":{\"unknown\":\"no primary key\"}}}\n\n";
        assert_eq!(BStr::new(&event(&heard, &[], true)), expected);
    }
}
