//! `queue_outbox`: messages that are published by SQL, within the transaction of the rows that they are about.
//!
//! A transaction writes to one schema. So each schema that is named has a table of its own for messages, `tidegate_outbox`; what
//! was committed there is carried into the queues by one worker, which hears of the commit.
//!
//! Carrying takes two commits, one for each schema, and a crash may come in between. The first one stores, with the messages, the
//! numbers of the rows that they were made of:
//!
//! ```text
//! 1. tidegate_queue: the messages, and "7,8,9 of the schema shop were carried"      together
//! 2. shop:           DELETE 7, 8, 9
//! 3. tidegate_queue: nothing is under way                                           or the next 1.
//! ```
//!
//! Whoever begins to carry does 2 and 3 first for what the record names: so each row becomes one message, whenever the server ends.
//! What is read of one schema is on the disk before the other one is changed for it ([`Engine::settled`](tidegate_sql::Engine::settled)): a
//! commit is to be seen before that.

use std::{rc::Rc, sync::Arc, time::Duration};

use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::{Build, Config},
    main_conf::duplicate,
};
use tidegate_net::log::{self, Level};
use tidegate_rows::{Param, Value};
use tidegate_sql::{
    Listening, Session,
    table::{Answer, Comparison, OnDuplicate, OpenTable, Opening, Request, Rows, Strictness},
};

use super::{
    Conf,
    counts::Changing,
    gather::{Gather, bytes, number},
    limits::Room,
    message::{NewMessage, TIME_MAX, check_name, millis},
    publish::{Published, Target, insert},
    store::{NO_SUCH_TABLE, Open, Store, StoreError, UNKNOWN_COLUMN},
    subscriptions::Held,
    tables,
};
use crate::database::{self, schemas::execute};

/// The table, in each schema.
pub(super) const TABLE: &str = "tidegate_outbox";
/// Rows that become messages together.
const TOGETHER_MAX: u64 = 32;
/// When these have so many bytes the others follow: a row may have as many as a statement.
const TOGETHER_BYTES: usize = 8 << 20;
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The queue of messages that cannot be published as their rows have it.
const REFUSED: &str = "tidegate.outbox.refused";

/// Its columns. What no message can be is refused where it is written, in the transaction of whoever does so.
const DEFINITION: &str = "(
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (queue <> '' AND NOT queue REGEXP '[^A-Za-z0-9._:-]'),
  body LONGBLOB NOT NULL,
  priority INT UNSIGNED NOT NULL DEFAULT 1024,
  delay_ms BIGINT UNSIGNED NOT NULL DEFAULT 0 CHECK (delay_ms <= 3153600000000),
  ttl_ms BIGINT UNSIGNED NULL CHECK (ttl_ms <= 3153600000000),
  unique_key VARBINARY(200) NULL,
  ordering_key VARBINARY(200) NULL,
  headers LONGTEXT NULL CHECK (JSON_VALID(headers))
)";

/// `queue_outbox SCHEMA …`
pub(super) fn queue_outbox(
    conf: &mut Conf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    if conf.outboxes.is_some() {
        return Err(duplicate(directive));
    }
    let mut names = Vec::with_capacity(directive.args.len());
    for arg in &directive.args {
        let name = String::from_utf8_lossy(&arg.value).into_owned();
        if name.is_empty() || name == tables::SCHEMA || names.contains(&name) {
            let message = format!("\"queue_outbox\" cannot take the schema \"{name}\"");
            return Err(Diagnostic::new(Severity::Emerg, arg.span, message)
                .with_hint("each schema of the application with messages is named once"));
        }
        names.push(name);
    }
    let level = build.level();
    let schemas = names.iter().cloned().chain([tables::SCHEMA.to_owned()]);
    build.conf_mut(&database::BLOCK, level).upstreams.get_or_insert_default().extend(schemas);
    conf.outboxes = Some(names.into());
    Ok(())
}

/// Begins to carry messages, as a worker starts.
///
/// # Errors
/// What the configuration of the database has wrong, as a sentence.
pub(super) fn start(conf: &Arc<Conf>) -> Result<(), String> {
    let (Some(names), Some(config)) = (&conf.outboxes, tidegate_core::worker::config()) else { return Ok(()) };
    database::start(&config)?;
    for name in names.iter() {
        tokio::task::spawn_local(carry(config.clone(), name.clone()));
    }
    Ok(())
}

/// Carries messages out of a schema for as long as the worker lives.
async fn carry(config: Arc<Config>, schema: String) {
    let mut has_failed = false;
    loop {
        let Err(error) = carry_on(&config, &schema, &mut has_failed).await;
        if let (StoreError::Query(error), Ok(store)) = (&error, Store::of(&config)) {
            store.doubt(error);
        }
        // Once is enough: nobody has done anything about it yet.
        if !std::mem::replace(&mut has_failed, true) {
            log::note(Level::Warn, format_args!("queue: messages wait in the outbox of \"{schema}\": {error}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Carries messages until something fails.
async fn carry_on(
    config: &Config,
    schema: &str,
    has_failed: &mut bool,
) -> Result<std::convert::Infallible, StoreError> {
    let store = Store::of(config)?;
    // Of all workers one carries, and the next one when that ends.
    let turn = store.home.outbox(schema);
    let _turn = turn.lock().await;
    let mut outbox = Outbox::open(store, schema).await?;
    outbox.finish_former().await?;
    *has_failed = false;
    loop {
        outbox.carry_all().await?;
        if outbox.listening.next().await.is_none() {
            return Err(StoreError::Unavailable("the schema is gone".to_owned()));
        }
    }
}

/// The outbox of a schema.
struct Outbox {
    store: Rc<Store>,
    schema: String,
    /// id, queue, body, priority, delay_ms, ttl_ms, unique_key, headers, ordering_key.
    rows: OpenTable,
    listening: Listening,
    /// The record names rows that are gone.
    is_recorded: bool,
}

/// A row of the outbox.
#[derive(Clone)]
struct Entry {
    id: u64,
    queue: String,
    message: NewMessage,
}

impl Outbox {
    /// Opens the outbox, which is made if there is none.
    async fn open(store: Rc<Store>, schema: &str) -> Result<Self, StoreError> {
        let mut open = store.open().await?;
        let rows = table(&mut open.session, schema).await?;
        store.give_back(open);
        // Before anything is looked for: what is committed meanwhile is heard of later.
        let listening = store.engine.listen(schema, &[TABLE], None)?;
        Ok(Outbox { store, schema: schema.to_owned(), rows, listening, is_recorded: true })
    }

    /// Deletes rows that have become messages before the server ended.
    async fn finish_former(&mut self) -> Result<(), StoreError> {
        let key = [Value::Bytes(self.schema.as_bytes())];
        let open = self.store.open().await?;
        let tables = open.tables.clone();
        let found = self.store.carry_out(open, &[(&tables.outboxes, Request::Find(Rows::with_key(&key)))]).await?;
        let Some(recorded) = found.rows.first().and_then(|row| bytes(row.get(1))) else {
            self.is_recorded = false;
            return Ok(());
        };
        // Rows must not be deleted of messages that a power cut would take.
        self.store.engine.settled(tables::SCHEMA).await?;
        let ids = recorded.split(|byte| *byte == b',').filter_map(|id| std::str::from_utf8(id).ok()?.parse().ok());
        self.delete(&ids.collect::<Vec<u64>>()).await?;
        self.clear().await
    }

    /// Carries all that is there.
    async fn carry_all(&mut self) -> Result<(), StoreError> {
        loop {
            let mut entries = self.first().await?;
            if entries.is_empty() {
                // A row of the same number may come: a table that is emptied counts from the beginning again.
                return if self.is_recorded { self.clear().await } else { Ok(()) };
            }
            // A commit is read before it is on the disk: its message must not survive a power cut that takes the row.
            self.store.engine.settled(&self.schema).await?;
            let (store, schema) = (self.store.clone(), self.schema.clone());
            self.is_recorded = true;
            let publish = async |entries: &[Entry]| publish(&store, &schema, entries.to_vec()).await;
            match store.with_room(async || publish(&entries).await).await {
                // There may be room for each when those before it are stored.
                Err(StoreError::Full { .. }) if entries.len() > 1 => {
                    entries.truncate(1);
                    store.with_room(async || publish(&entries).await).await?;
                }
                published => published?,
            }
            let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
            self.delete(&ids).await?;
        }
    }

    /// The first rows.
    async fn first(&self) -> Result<Vec<Entry>, StoreError> {
        let key = [Value::Uint(0)];
        let rows = Rows { limit: TOGETHER_MAX, ..Rows::new(Comparison::AtLeast, &key) };
        let mut open = self.store.open().await?;
        let mut found = Gather::up_to(TOGETHER_BYTES);
        open.session.run_request(&self.rows, &Request::Find(rows), &mut found).await?;
        self.store.give_back(open);
        Ok(found.rows.iter().map(|row| Entry::of(&self.schema, row)).collect())
    }

    async fn delete(&self, ids: &[u64]) -> Result<(), StoreError> {
        let keys: Vec<[Value<'_>; 1]> = ids.iter().map(|id| [Value::Uint(*id)]).collect();
        let requests: Vec<_> =
            keys.iter().map(|key| (&self.rows, Request::Delete(Rows::with_key(key), Answer::Number))).collect();
        let open = self.store.open().await?;
        self.store.carry_out(open, &requests).await.map(drop)
    }

    /// Nothing is under way.
    async fn clear(&mut self) -> Result<(), StoreError> {
        let key = [Value::Bytes(self.schema.as_bytes())];
        let open = self.store.open().await?;
        let tables = open.tables.clone();
        let delete = Request::Delete(Rows::with_key(&key), Answer::Number);
        self.store.carry_out(open, &[(&tables.outboxes, delete)]).await?;
        self.is_recorded = false;
        Ok(())
    }
}

/// The table of a schema, which is made if there is none. One of a former version gets the columns that it lacks.
///
/// # Errors
/// There is no such schema, storage errors.
pub(super) async fn table(session: &mut Session, schema: &str) -> Result<OpenTable, StoreError> {
    let columns = ["id", "queue", "body", "priority", "delay_ms", "ttl_ms", "unique_key", "headers", "ordering_key"];
    let opening = Opening {
        schema,
        table: TABLE,
        index: "PRIMARY",
        columns: &columns,
        filters: &[],
        strictness: Strictness::Exact,
    };
    let name = schema.replace('`', "``");
    let make = match session.open_table(&opening) {
        Err(error) if error.code == NO_SUCH_TABLE => {
            format!("CREATE TABLE IF NOT EXISTS `{name}`.{TABLE} {DEFINITION}")
        }
        Err(error) if error.code == UNKNOWN_COLUMN => {
            format!("ALTER TABLE `{name}`.{TABLE} ADD COLUMN IF NOT EXISTS ordering_key VARBINARY(200) NULL")
        }
        opened => return Ok(opened?),
    };
    execute(session, make.as_bytes()).await?;
    Ok(session.open_table(&opening)?)
}

/// A message on its way into its queues.
struct Addressed {
    targets: Vec<Target>,
    message: NewMessage,
    rooms: Vec<Room>,
}

/// Finds out where the message of a row goes, and takes room for it. If there is none for one that `is_alone` it goes to those that
/// cannot be published.
async fn address(
    store: &Store,
    (held, schema): (&Held<'_>, &str),
    (mut entry, is_alone): (Entry, bool),
    changing: &mut Changing<'_>,
) -> Result<Addressed, StoreError> {
    loop {
        let targets = store.targets(held, &entry.queue).await?;
        let (mut rooms, mut problem) = (Vec::new(), None);
        for target in &targets {
            match store.take_room(changing, target, 1, false).await {
                Ok(room) => rooms.extend(room),
                Err(full @ StoreError::Full { .. }) if is_alone && entry.queue != REFUSED => {
                    problem = Some(full.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        let Some(problem) = problem else { return Ok(Addressed { targets, message: entry.message, rooms }) };
        entry = entry.refused(schema, &problem);
    }
}

/// Stores the messages of rows, and which rows those were: together or not at all.
async fn publish(store: &Store, schema: &str, entries: Vec<Entry>) -> Result<(), StoreError> {
    let held = store.subscriptions().await?;
    let mut open = store.open().await?;
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
    let ids = ids.join(",");
    // If this is broken off nobody knows what the queues have.
    let mut changing = store.changing(std::iter::empty::<String>()).await;
    let (mut addressed, is_alone) = (Vec::with_capacity(entries.len()), entries.len() == 1);
    for entry in entries {
        match address(store, (&held, schema), (entry, is_alone), &mut changing).await {
            Ok(entry) => addressed.push(entry),
            Err(error) => {
                changing.nothing();
                return Err(error);
            }
        }
    }
    if let Err(error) = store_all(&mut open, &addressed, [schema, &ids], &mut changing).await {
        store.failed(&error, changing);
        return Err(error);
    }
    changing.certain();
    store.give_back(open);
    addressed.into_iter().for_each(|addressed| store.have_made_room(addressed.rooms));
    Ok(())
}

/// Stores messages and the record of their rows in a transaction.
async fn store_all(
    open: &mut Open,
    addressed: &[Addressed],
    record: [&str; 2],
    changing: &mut Changing<'_>,
) -> Result<(), StoreError> {
    let record = record.map(|text| Value::Bytes(text.as_bytes()));
    let tables = open.tables.clone();
    execute(&mut open.session, b"BEGIN").await?;
    for Addressed { targets, message, rooms } in addressed {
        for target in targets {
            let stored = insert(open, target, message, changing).await?;
            if let Some(room) = rooms.iter().find(|room| room.is_of(&target.queue)) {
                room.make(open, u64::from(matches!(stored, Published::New(_))), changing).await?;
            }
        }
    }
    let recording = Request::Insert(&record, OnDuplicate::Replace);
    open.session.run_request(&tables.outboxes, &recording, &mut Gather::default()).await?;
    execute(&mut open.session, b"COMMIT").await?;
    Ok(())
}

impl Entry {
    /// What a row says. Whoever has made the table in another way may have written anything.
    fn of(schema: &str, row: &[Param]) -> Self {
        let name = bytes(row.get(1)).unwrap_or_default();
        let queue = String::from_utf8_lossy(&name).into_owned();
        let time_max = millis(TIME_MAX);
        let headers = bytes(row.get(7)).map(|headers| String::from_utf8_lossy(&headers).into_owned());
        let message = NewMessage {
            priority: u32::try_from(number(row.get(3))).unwrap_or(u32::MAX),
            delay_ms: number(row.get(4)).min(time_max),
            ttl_ms: Some(number(row.get(5)).min(time_max)).filter(|ms| *ms > 0),
            unique_key: bytes(row.get(6)).filter(|key| !key.is_empty()),
            ordering_key: bytes(row.get(8)).filter(|key| !key.is_empty()),
            headers,
            ..NewMessage::new(bytes(row.get(2)).unwrap_or_default())
        };
        let entry = Entry { id: number(row.first()), queue, message };
        match entry.problem() {
            None => entry,
            Some(problem) => entry.refused(schema, &problem),
        }
    }

    fn problem(&self) -> Option<String> {
        let is_object = |text: &String| {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
                .is_ok_and(|fields| fields.values().all(serde_json::Value::is_string))
        };
        if let Err(refused) = check_name(&self.queue) {
            return Some(refused.message);
        }
        let is_good = self.message.headers.as_ref().is_none_or(is_object);
        (!is_good).then(|| "\"headers\" is no object of strings".to_owned())
    }

    /// The message in the queue of those that cannot be published.
    fn refused(self, schema: &str, problem: &str) -> Self {
        let name = &self.queue;
        log::note(Level::Error, format_args!("queue: a message of \"{schema}\" for {name:?} is refused: {problem}"));
        let headers = serde_json::json!({ "schema": schema, "queue": name, "reason": problem });
        let message = NewMessage { headers: Some(headers.to_string()), ..NewMessage::new(self.message.body) };
        Entry { id: self.id, queue: REFUSED.to_owned(), message }
    }
}
