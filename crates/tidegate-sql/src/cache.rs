//! Plans by normalised text: those that a thread knows for a schema, and on each connection those whose statements are prepared there.

use std::{collections::HashMap, rc::Rc};

use crate::{
    lexer::{LiteralKind, Normalised},
    store::{conn::Conn, prepared::Prepared},
    translate::{
        Inputs,
        literals::{Looked, begins_plainly, value_begins_plainly},
        params::Params,
        plan::Plan,
    },
};

/// Entries of one connection; the cache starts over when it is full.
const ENTRIES_MAX: usize = 1024;
/// Plans of one normalised text that differ in literals that shape them.
const VARIANTS_MAX: usize = 16;

/// Normalised text of a statement that is kept: longer ones are imports, whose shape seldom comes again.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Whether a statement is short enough to be kept.
pub(crate) fn keeps(normalised: &Normalised) -> bool {
    normalised.text.len() <= TEXT_BYTES_MAX
}

/// A plan with its prepared statements.
pub(crate) struct Entry {
    key: Rc<Key>,
    pub(crate) plan: Rc<Plan>,
    /// Prepared statements of the plan, in its order; taken out while they run.
    pub(crate) stmts: Prepared,
    /// A writing statement that runs without letting others run in between, as far as is known.
    pub(crate) brief: bool,
}

/// What a statement must have in common with the one that a plan was made for.
struct Key {
    text: Box<[u8]>,
    /// What else decides about a translation.
    inputs: Inputs,
    params: Box<[crate::translate::ParamKind]>,
    /// Literals that shaped the plan, with their bytes.
    fixed: Box<[(usize, LiteralKind, Box<[u8]>)]>,
    /// Literals whose length did.
    sized: Box<[(usize, u32)]>,
    /// Literals of which it did whether they begin plainly.
    patterns: Box<[(usize, bool)]>,
    /// Parameters of whose values it did.
    given_patterns: Box<[(usize, bool)]>,
    /// Parameters whose values did.
    given: Box<[(usize, i64)]>,
    /// The text that named the result's columns: from the beginning of the statement on, spaces and all.
    named: Box<[u8]>,
}

/// Plans by the hash of their text.
#[derive(Default)]
pub(crate) struct StatementCache {
    entries: HashMap<u64, Vec<Entry>, std::hash::BuildHasherDefault<Identity>>,
    count: usize,
}

/// The key is a hash already.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl std::hash::Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl StatementCache {
    /// The one of a connection: plans whose statements are prepared there.
    #[inline]
    pub(crate) fn of(conn: &mut Conn) -> &mut Self {
        conn.companion()
    }

    /// Takes the entry for a statement out; it comes back with [`put`](Self::put).
    #[inline]
    pub(crate) fn take(
        &mut self,
        normalised: &Normalised,
        sql: &[u8],
        inputs: &Inputs,
        params: Params<'_>,
    ) -> Option<Entry> {
        let entry = self.remove(normalised.hash, |entry| entry.key.serves(normalised, sql, inputs, params))?;
        // A plan made from definitions that have changed makes room for its successor.
        Some(entry).filter(|entry| entry.plan.is_current())
    }

    /// The plan for a statement, without statements: those belong to a connection.
    pub(crate) fn twin(
        &mut self,
        normalised: &Normalised,
        sql: &[u8],
        inputs: &Inputs,
        params: Params<'_>,
    ) -> Option<Entry> {
        let entry = self.take(normalised, sql, inputs, params)?;
        let twin = entry.twin();
        self.put(normalised.hash, entry);
        Some(twin)
    }

    fn remove(&mut self, hash: u64, is_meant: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let variants = self.entries.get_mut(&hash)?;
        let index = variants.iter().position(is_meant)?;
        self.count -= 1;
        Some(variants.swap_remove(index))
    }

    /// Keeps an entry.
    #[inline]
    pub(crate) fn put(&mut self, hash: u64, entry: Entry) {
        if self.count >= ENTRIES_MAX {
            self.clear();
        }
        let variants = self.entries.entry(hash).or_default();
        if variants.len() >= VARIANTS_MAX {
            variants.remove(0);
            self.count -= 1;
        }
        variants.push(entry);
        self.count += 1;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.count = 0;
    }
}

impl Entry {
    /// An entry for a fresh plan.
    pub(crate) fn new(
        normalised: &Normalised,
        sql: &[u8],
        inputs: Inputs,
        params: &[crate::translate::ParamKind],
        looked: &Looked,
        plan: Rc<Plan>,
    ) -> Self {
        let bytes = |&index| literal(normalised, sql, index).map(|(kind, bytes)| (index, kind, bytes.into()));
        let length = |&index: &usize| normalised.literals.get(index).map(|literal| (index, literal.len()));
        let fixed = looked.fixed.iter().filter_map(bytes).collect();
        let sized = looked.sized.iter().filter_map(length).collect();
        let patterns = looked.patterns.iter().map(|(index, plainly)| (*index, *plainly)).collect();
        let given_patterns = looked.given_patterns.iter().map(|(index, plainly)| (*index, *plainly)).collect();
        let given = looked.given.iter().map(|(index, value)| (*index, *value)).collect();
        let brief = plan.is_brief();
        let named = sql.get(normalised.start..plan.named_to).unwrap_or_default().into();
        let text = normalised.text.as_slice().into();
        let key = Key { text, inputs, params: params.into(), fixed, sized, patterns, given_patterns, given, named };
        Self { key: Rc::new(key), plan, stmts: Prepared::default(), brief }
    }

    /// Has the statements that the connection has prepared for the plan, unless it has some already.
    pub(crate) fn prepared_on(&mut self, conn: &mut Conn, hash: u64) {
        if self.stmts.is_empty()
            && let Some(known) = StatementCache::of(conn).remove(hash, |entry| Rc::ptr_eq(&entry.plan, &self.plan))
        {
            *self = known;
        }
    }

    /// The same plan for another connection.
    pub(crate) fn twin(&self) -> Self {
        Self { key: Rc::clone(&self.key), plan: Rc::clone(&self.plan), stmts: Prepared::default(), brief: self.brief }
    }
}

impl Key {
    #[inline]
    fn serves(&self, normalised: &Normalised, sql: &[u8], inputs: &Inputs, params: Params<'_>) -> bool {
        self.inputs == *inputs
            && *self.text == *normalised.text
            && self.params.len() == params.len()
            && self.params.iter().copied().eq(params.kinds())
            && self.fixed.iter().all(|(index, kind, bytes)| literal(normalised, sql, *index) == Some((*kind, bytes)))
            && self.sized.iter().all(|(index, length)| normalised.literals[*index].len() == *length)
            && self.patterns.iter().all(|(index, plainly)| {
                literal(normalised, sql, *index).is_some_and(|(kind, bytes)| begins_plainly(kind, bytes) == *plainly)
            })
            && self.given_patterns.iter().all(|(index, plainly)| value_begins_plainly(params, *index) == *plainly)
            && self.given.iter().all(|(index, value)| params.int(*index) == Some(*value))
            && (self.named.is_empty() || sql[normalised.start..].starts_with(&self.named))
    }
}

fn literal<'a>(normalised: &Normalised, sql: &'a [u8], index: usize) -> Option<(LiteralKind, &'a [u8])> {
    let literal = normalised.literals.get(index)?;
    Some((literal.kind, sql.get(literal.start as usize..literal.end as usize)?))
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineOptions, Session, session::pool::Pool};
    use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};

    async fn run(session: &mut Session, sql: &str) -> String {
        let json = JsonOptions::default();
        let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
        session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await.unwrap();
        String::from_utf8(sink.out).unwrap()
    }

    #[tokio::test]
    async fn transactions_plan_a_statement_once() {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-cache-{}", std::process::id()));
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        let mut session = engine.session("").unwrap();
        run(&mut session, "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT)").await;
        run(&mut session, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").await;
        run(&mut session, "SET autocommit = 0; COMMIT; SET autocommit = 1").await;
        let pool = Pool::of(&engine.inner.schema("d").unwrap());
        let before = pool.known();
        for id in 1..=3 {
            for begin in ["BEGIN", "SET autocommit = 0"] {
                run(&mut session, begin).await;
                run(&mut session, &format!("SELECT v FROM t WHERE id = {id}")).await;
                run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE id = {id}")).await;
                run(&mut session, &format!("SELECT v FROM t WHERE id = {id} FOR UPDATE")).await;
                run(&mut session, &format!("SELECT v FROM t WHERE id = {id}")).await;
                run(&mut session, "COMMIT").await;
            }
            run(&mut session, "SET autocommit = 1").await;
            run(&mut session, &format!("UPDATE t SET v = v + 1 WHERE id = {id}")).await;
            // Three texts. Two of them run on plain connections, and on private ones all.
            let known = pool.known();
            assert_eq!(known.plans - before.plans, 3);
            assert_eq!((known.private, known.plain - before.plain), (3, 2));
        }
        assert!(run(&mut session, "SELECT v FROM t").await.contains("3"));
        drop((session, engine));
        let _ = std::fs::remove_dir_all(&dir);
    }
}
