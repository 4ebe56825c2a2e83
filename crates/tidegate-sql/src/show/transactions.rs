//! Open transactions and what they have locked: `innodb_trx`, `innodb_locks`, `innodb_lock_waits` and SHOW ENGINE INNODB STATUS.
//!
//! The tables have the columns of MariaDB's. A transaction's number is its own here: nothing else of the engine knows it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_rows::Sink;

use super::{Done, rows, tables::moment};
use crate::{
    accounts::Privileges,
    identifier,
    isolation::Isolation,
    parse::KeyKind,
    row_locks::{Mode, Resource, Seen},
    schema::Schema,
    session::Core,
    shared::EngineInner,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator},
};

/// Memory of a lock, roughly: its place in two tables.
const LOCK_BYTES: usize = 128;

/// A transaction, or a statement alone that waits for one.
struct Transaction {
    connection: u64,
    begun: SystemTime,
    isolation: Isolation,
    is_alone: bool,
    read_only: bool,
    statement: Option<String>,
    changed: u64,
    locks: usize,
    rows: usize,
    tables: usize,
    wait: Option<Wait>,
}

/// What a transaction waits for, and who is ahead.
struct Wait {
    since: SystemTime,
    schema: Arc<Schema>,
    /// `None` for the right to write to the schema.
    lock: Option<(Resource, Mode)>,
    /// Their numbers, and how they lock it.
    blockers: Vec<(u64, Mode)>,
}

/// All transactions by their numbers.
fn transactions(engine: &EngineInner) -> BTreeMap<u64, Transaction> {
    let mut all = BTreeMap::new();
    let mut by_connection = HashMap::new();
    for open in engine.transactions.all() {
        let (statement, changed) = open.seen();
        by_connection.insert(open.client.id, open.id);
        let read_only = open.read_only.load(Ordering::Relaxed);
        let transaction = Transaction::new(open.client.id, open.begun, open.isolation, statement, changed);
        all.insert(open.id, Transaction { read_only, ..transaction });
    }
    for schema in engine.all_schemas() {
        let seen = schema.rows.seen();
        let number = |seen: &Seen| by_connection.get(&seen.connection).copied().unwrap_or(seen.owner);
        let numbers: HashMap<u64, u64> = seen.iter().map(|seen| (seen.owner, number(seen))).collect();
        for seen in seen {
            let since = seen.waits.as_ref().map_or(UNIX_EPOCH, |wait| wait.since);
            let transaction = all.entry(number(&seen)).or_insert_with(|| {
                let statement = engine.clients.statement(seen.connection);
                Transaction {
                    is_alone: true,
                    ..Transaction::new(seen.connection, since, Isolation::default(), statement, 0)
                }
            });
            transaction.locks += seen.locks;
            transaction.rows += seen.rows;
            transaction.tables += seen.tables;
            // Whoever waits for the end of a statement is not told apart from one that runs.
            if let Some(wait) = seen.waits.filter(|wait| wait.lock.is_some() || !wait.blockers.is_empty()) {
                let blockers = wait.blockers.iter();
                let blockers = blockers.map(|(owner, mode)| (numbers.get(owner).copied().unwrap_or(*owner), *mode));
                transaction.wait = Some(Wait {
                    since: wait.since,
                    schema: Arc::clone(&schema),
                    lock: wait.lock,
                    blockers: blockers.collect(),
                });
            }
        }
    }
    all
}

impl Transaction {
    fn new(connection: u64, begun: SystemTime, isolation: Isolation, statement: Option<String>, changed: u64) -> Self {
        Self {
            connection,
            begun,
            isolation,
            is_alone: false,
            read_only: false,
            statement,
            changed,
            locks: 0,
            rows: 0,
            tables: 0,
            wait: None,
        }
    }

    fn state(&self) -> &'static str {
        if self.wait.is_some() { "LOCK WAIT" } else { "RUNNING" }
    }
}

impl Wait {
    /// The name of the lock as `transaction` holds or wants it.
    fn lock_id(&self, transaction: u64) -> String {
        let schema = self.schema.id;
        match self.lock {
            Some((Resource::Row { table, rowid }, _)) => format!("{transaction}:{schema}:{table}:0:{rowid}"),
            Some((Resource::Key { table, index, hash }, _)) => {
                format!("{transaction}:{schema}:{table}:{index}:{hash:x}")
            }
            None => format!("{transaction}:{schema}"),
        }
    }

    /// Table, index and row of the lock, as far as they are known.
    fn place(&self) -> (String, Option<String>, Option<i64>) {
        let Some((resource, _)) = self.lock else { return (quoted(&[&self.schema.name]), None, None) };
        let catalog = self.schema.catalog().ok();
        let table = catalog.as_ref().and_then(|catalog| catalog.by_id(resource.table()));
        let Some(table) = table else { return (quoted(&[&self.schema.name]), None, None) };
        let name = quoted(&[&self.schema.name, &table.name]);
        match resource {
            Resource::Row { rowid, .. } if table.rowid_column().is_some() => {
                (name, Some("PRIMARY".into()), Some(rowid))
            }
            // InnoDB's name of the rows of a table without a number of its own.
            Resource::Row { rowid, .. } => (name, Some("GEN_CLUST_INDEX".into()), Some(rowid)),
            Resource::Key { index, .. } => {
                let index = table.indexes.iter().find(|known| known.id == index);
                let index = index.map(|index| match index.kind {
                    KeyKind::Primary => "PRIMARY".to_owned(),
                    _ => index.name.clone(),
                });
                (name, index, None)
            }
        }
    }

    fn mode(&self) -> Mode {
        self.lock.map_or(Mode::Exclusive, |(_, mode)| mode)
    }
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| identifier::quoted(name)).collect();
    quoted.join(".")
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed())
}

fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Shared => "S",
        Mode::Exclusive => "X",
    }
}

fn number(value: usize) -> Item {
    Item::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn or_null<T: Into<Item>>(value: Option<T>) -> Item {
    value.map_or(Item::Null, Into::into)
}

/// Columns of [`trx`].
pub(super) const TRX: &str = "trx_id# trx_state trx_started trx_requested_lock_id trx_wait_started trx_weight# trx_mysql_thread_id# trx_query trx_operation_state trx_tables_in_use# trx_tables_locked# trx_lock_structs# trx_lock_memory_bytes# trx_rows_locked# trx_rows_modified# trx_concurrency_tickets# trx_isolation_level trx_unique_checks# trx_foreign_key_checks# trx_last_foreign_key_error trx_is_read_only# trx_autocommit_non_locking#";

/// The rows of `innodb_trx`, the youngest first.
pub(super) fn trx(translator: &Translator<'_>) -> Res<Rows> {
    translator.now().env.access().want_global(Privileges::PROCESS)?;
    let rows = transactions(translator.now().engine).into_iter().rev().map(|(id, transaction)| {
        let wait = transaction.wait.as_ref();
        let weight = usize::try_from(transaction.changed).unwrap_or(usize::MAX).saturating_add(transaction.locks);
        let runs = transaction.statement.is_some() || transaction.is_alone;
        vec![
            Item::Int(id.cast_signed()),
            transaction.state().into(),
            moment(seconds(transaction.begun)),
            or_null(wait.map(|wait| wait.lock_id(id))),
            wait.map_or(Item::Null, |wait| moment(seconds(wait.since))),
            number(weight),
            Item::Int(transaction.connection.cast_signed()),
            or_null(transaction.statement.clone()),
            "".into(),
            number(usize::from(runs)),
            number(transaction.tables),
            number(transaction.locks),
            number(transaction.locks * LOCK_BYTES),
            number(transaction.rows),
            Item::Int(transaction.changed.cast_signed()),
            0.into(),
            transaction.isolation.name().replace('-', " ").into(),
            1.into(),
            1.into(),
            Item::Null,
            i64::from(transaction.read_only).into(),
            0.into(),
        ]
    });
    Ok(rows.collect())
}

/// Columns of [`locks`].
pub(super) const LOCKS: &str =
    "lock_id lock_trx_id# lock_mode lock_type lock_table lock_index lock_space# lock_page# lock_rec# lock_data";

/// The rows of `innodb_locks`: as InnoDB's, the locks that are waited for, and who holds them.
pub(super) fn locks(translator: &Translator<'_>) -> Res<Rows> {
    translator.now().env.access().want_global(Privileges::PROCESS)?;
    let mut rows = BTreeMap::new();
    for (id, transaction) in transactions(translator.now().engine) {
        let Some(wait) = transaction.wait else { continue };
        let (table, index, data) = wait.place();
        let kind = if wait.lock.is_some() { "RECORD" } else { "TABLE" };
        for (owner, mode) in wait.blockers.iter().copied().chain([(id, wait.mode())]) {
            let lock_id = wait.lock_id(owner);
            let row = vec![
                lock_id.clone().into(),
                Item::Int(owner.cast_signed()),
                name_of(mode).into(),
                kind.into(),
                table.clone().into(),
                or_null(index.clone()),
                Item::Int(wait.schema.id.cast_signed()),
                Item::Null,
                Item::Null,
                or_null(data.map(|data| data.to_string())),
            ];
            rows.insert(lock_id, row);
        }
    }
    Ok(rows.into_values().collect())
}

/// Columns of [`lock_waits`].
pub(super) const LOCK_WAITS: &str = "requesting_trx_id# requested_lock_id blocking_trx_id# blocking_lock_id";

/// The rows of `innodb_lock_waits`.
pub(super) fn lock_waits(translator: &Translator<'_>) -> Res<Rows> {
    translator.now().env.access().want_global(Privileges::PROCESS)?;
    let mut rows = Rows::new();
    for (id, transaction) in transactions(translator.now().engine) {
        let Some(wait) = &transaction.wait else { continue };
        for (blocker, _) in &wait.blockers {
            rows.push(vec![
                Item::Int(id.cast_signed()),
                wait.lock_id(id).into(),
                Item::Int(blocker.cast_signed()),
                wait.lock_id(*blocker).into(),
            ]);
        }
    }
    Ok(rows)
}

/// SHOW ENGINE INNODB STATUS.
///
/// # Errors
/// When the sink has gone.
pub(super) fn show_status(core: &mut Core, more: bool, sink: &mut dyn Sink) -> Done {
    let row = ["InnoDB".to_owned(), String::new(), status(&core.engine)].map(Some);
    rows(core, &["Type", "Name", "Status"], &[row.to_vec()], more, sink)
}

/// The text of SHOW ENGINE INNODB STATUS: its part about transactions.
fn status(engine: &EngineInner) -> String {
    let now = SystemTime::now();
    let age = |time: SystemTime| now.duration_since(time).unwrap_or_default();
    let mut text = String::from("\n------------\nTRANSACTIONS\n------------\nLIST OF TRANSACTIONS FOR EACH SESSION:\n");
    for (id, transaction) in transactions(engine).into_iter().rev() {
        text.push_str(&format!("---TRANSACTION {id}, ACTIVE {} sec\n", age(transaction.begun).as_secs()));
        let waits = if transaction.wait.is_some() { "LOCK WAIT " } else { "" };
        text.push_str(&format!(
            "{waits}{} lock struct(s), heap size {}, {} row lock(s), undo log entries {}\n",
            transaction.locks,
            transaction.locks * LOCK_BYTES,
            transaction.rows,
            transaction.changed
        ));
        text.push_str(&format!(
            "MariaDB thread id {}, isolation level {}\n",
            transaction.connection,
            transaction.isolation.name()
        ));
        if let Some(statement) = &transaction.statement {
            text.push_str(&format!("{statement}\n"));
        }
        let Some(wait) = &transaction.wait else { continue };
        let micros = age(wait.since).as_micros();
        text.push_str(&format!("------- TRX HAS BEEN WAITING {micros} us FOR THIS LOCK TO BE GRANTED:\n"));
        let (table, index, data) = wait.place();
        match index {
            Some(index) => text.push_str(&format!("RECORD LOCK index {index} of table {table}")),
            None => text.push_str(&format!("WRITE LOCK of {table}")),
        }
        text.push_str(&format!(" trx id {id} lock_mode {} waiting", name_of(wait.mode())));
        if let Some(data) = data {
            text.push_str(&format!(", row {data}"));
        }
        let holders: Vec<String> = wait.blockers.iter().map(|(blocker, _)| blocker.to_string()).collect();
        text.push_str(&format!("; behind trx id {}\n------------------\n", holders.join(", ")));
    }
    text.push_str("----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n");
    text
}
