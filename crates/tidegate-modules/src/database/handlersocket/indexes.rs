//! What is known of a client: whether it has told the secret, and the indexes that it has open.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
};

use bstr::ByteSlice;
use tidegate_http::handlersocket::{
    answer::Refusal,
    request::{Auth, Open},
};
use tidegate_net::{log::Level, session::Session};
use tidegate_rows::ColumnFlags;
use tidegate_sql::table::{IndexShape, OpenTable, Opening, Strictness, TableShape};

use super::{Access, Port, note};
use crate::database::port::logins;

/// Indexes that a client may have open. DeNA's server has no limit.
pub(super) const INDEXES_MAX: usize = 1024;

/// Columns of an open index, and columns for filters: a result of SQLite has no more, and a change has some of its own.
const COLUMNS_MAX: usize = 1900;
/// Names that dead entries are looked for behind.
const SWEEP_MIN: usize = 64;

/// A client.
#[derive(Default)]
pub(super) struct Client {
    authorized: bool,
    /// By their numbers, in order.
    indexes: Vec<(u32, Rc<OpenIndex>)>,
}

/// An index that clients have open.
pub(super) struct OpenIndex {
    pub(super) table: OpenTable,
    pub(super) traits: Traits,
}

/// What requests have to know about an open index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Traits {
    /// Columns of the index.
    pub(super) parts: usize,
    /// For each open column whether it takes NULL.
    pub(super) nullable: Box<[bool]>,
    /// The position of the AUTO_INCREMENT column among the open columns.
    pub(super) numbered: Option<usize>,
    /// Inserted rows are numbered.
    pub(super) numbers_rows: bool,
    /// For each filter column whether it is a BLOB or TEXT.
    pub(super) blobs: Box<[bool]>,
}

impl Traits {
    /// Whether a new row may have NULL in an open column: it is numbered then, where it is not NULL.
    pub(super) fn takes_null(&self, column: usize) -> bool {
        self.nullable[column] || self.numbered == Some(column)
    }
}

/// Indexes that clients of a port have open, by what they were opened with.
#[derive(Default)]
pub(super) struct Shared {
    known: RefCell<HashMap<Key, Weak<OpenIndex>>>,
}

/// All that an open index is made of, but for definitions.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    schema: Box<str>,
    table: Box<str>,
    index: Box<str>,
    columns: Box<[Box<[u8]>]>,
    filters: Box<[Box<[u8]>]>,
}

impl Client {
    /// Whether there is nothing to be remembered.
    pub(super) fn is_new(&self) -> bool {
        !self.authorized && self.indexes.is_empty()
    }

    /// Whether requests are carried out, at a port with this secret.
    pub(super) fn may_ask(&self, secret: &[u8]) -> bool {
        secret.is_empty() || self.authorized
    }

    /// The index that is open under a number.
    pub(super) fn index(&self, number: u32) -> Option<&Rc<OpenIndex>> {
        let at = self.indexes.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.indexes[at].1)
    }

    /// Whether an index is open under a larger number.
    pub(super) fn has_beyond(&self, number: u32) -> bool {
        self.indexes.last().is_some_and(|(last, _)| *last > number)
    }

    /// Compares a secret. Who guesses is refused for a while.
    pub(super) fn authorize(&mut self, port: &Port, auth: &Auth<'_>, session: &Session) -> Result<(), Refusal> {
        if !auth.is_plain {
            return Err(Refusal::AuthType);
        }
        let name: &[u8] = match port.access {
            Access::Read => b"handlersocket",
            Access::Write => b"handlersocket write",
        };
        let peer = session.peer;
        self.authorized = !logins::is_blocked(peer, name) && is_same(&port.secret, auth.secret);
        if self.authorized {
            logins::note_success(peer, name);
            return Ok(());
        }
        let next = match logins::note_failure(peer, name) {
            true => "; it may not try again for a minute",
            false => "",
        };
        note(session, Level::Warn, format_args!("wrong secret{next}"));
        Err(Refusal::Unauthorized)
    }

    /// Opens an index under a number, in place of the one that was open there. If it cannot be opened that one stays.
    pub(super) fn open(&mut self, port: &Port, open: &Open<'_>) -> Result<(), Refusal> {
        let at = self.indexes.binary_search_by_key(&open.number, |(number, _)| *number);
        let index = || open_index(port, open);
        match at {
            Ok(at) => self.indexes[at].1 = index()?,
            Err(_) if self.indexes.len() >= INDEXES_MAX => return Err(Refusal::IndexNumber),
            Err(at) => {
                let index = index()?;
                // Most clients have one or two, and many clients may be idle.
                self.indexes.reserve_exact(1);
                self.indexes.insert(at, (open.number, index));
            }
        }
        Ok(())
    }
}

/// Compares in a time that does not tell how much of a secret is right.
fn is_same(secret: &[u8], told: &[u8]) -> bool {
    let differences = secret.iter().zip(told).fold(0, |differences, (a, b)| differences | (a ^ b));
    secret.len() == told.len() && std::hint::black_box(differences) == 0
}

fn open_index(port: &Port, open: &Open<'_>) -> Result<Rc<OpenIndex>, Refusal> {
    let (Ok(schema), Ok(table)) = (open.schema.to_str(), open.table.to_str()) else {
        return Err(Refusal::OpenTable);
    };
    if schema.is_empty() {
        return Err(Refusal::OpenTable);
    }
    let mut session = port.take_session().map_err(|_| Refusal::OpenTable)?;
    let opened = open_with(&mut session, port, open, schema, table);
    port.give_session(session);
    opened
}

fn open_with(
    session: &mut tidegate_sql::Session,
    port: &Port,
    open: &Open<'_>,
    schema: &str,
    table: &str,
) -> Result<Rc<OpenIndex>, Refusal> {
    let shape = session.shape_of(schema, table).map_err(|_| Refusal::OpenTable)?;
    let index = index_of(&shape, open.index).ok_or(Refusal::Index)?;
    let find = |name: &[u8]| shape.columns.iter().position(|column| *column.name == *name).ok_or(Refusal::Column);
    let columns: Vec<usize> = open.columns.names().map(find).collect::<Result<_, _>>()?;
    let filters: Vec<usize> = open.filter_columns.names().map(find).collect::<Result<_, _>>()?;
    if columns.len() > COLUMNS_MAX || filters.len() > COLUMNS_MAX {
        return Err(Refusal::Column);
    }
    let has = |&at: &usize, flag: u16| shape.columns[at].flags.0 & flag != 0;
    let traits = Traits {
        parts: index.columns.len(),
        nullable: columns.iter().map(|at| !has(at, ColumnFlags::NOT_NULL)).collect(),
        numbered: columns.iter().position(|at| shape.auto_increment == Some(*at)),
        numbers_rows: shape.auto_increment.is_some(),
        blobs: filters.iter().map(|at| has(at, ColumnFlags::BLOB)).collect(),
    };
    let names = |names: &[usize]| names.iter().map(|at| shape.columns[*at].name.clone()).collect();
    let key = Key {
        schema: schema.into(),
        table: table.into(),
        index: index.name.as_str().into(),
        columns: names(&columns),
        filters: names(&filters),
    };
    let known = port.shared.known.borrow().get(&key).and_then(Weak::upgrade);
    if let Some(known) = known.filter(|known| known.traits == traits) {
        return Ok(known);
    }
    fn texts(names: &[Box<[u8]>]) -> Vec<&str> {
        names.iter().map(|name| name.to_str().unwrap_or_default()).collect()
    }
    let opening = Opening {
        schema,
        table,
        index: &index.name,
        columns: &texts(&key.columns),
        filters: &texts(&key.filters),
        strictness: Strictness::Nearest,
    };
    let table = session.open_table(&opening).map_err(|_| Refusal::OpenTable)?;
    let made = Rc::new(OpenIndex { table, traits });
    port.shared.keep(key, &made);
    Ok(made)
}

/// The index of a name, which is its position where it begins with a digit, and `PRIMARY` where it is empty.
fn index_of<'a>(shape: &'a TableShape, name: &[u8]) -> Option<&'a IndexShape> {
    match name {
        [b'0'..=b'9', ..] => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            shape.indexes.get(name[..digits].to_str().ok()?.parse::<usize>().ok()?)
        }
        // For the plugin a byte 0 ends a name.
        [] | [0, ..] => shape.indexes.iter().find(|index| index.name == "PRIMARY"),
        _ => shape.indexes.iter().find(|index| index.name.as_bytes() == name),
    }
}

impl Shared {
    /// Remembers an index for those who open the same, as long as somebody has it open.
    fn keep(&self, key: Key, index: &Rc<OpenIndex>) {
        let mut known = self.known.borrow_mut();
        if known.len() >= SWEEP_MIN && known.len() == known.capacity() {
            known.retain(|_, index| index.strong_count() > 0);
        }
        known.insert(key, Rc::downgrade(index));
    }
}
