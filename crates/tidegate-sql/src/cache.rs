//! The statement cache of a connection: plans by normalised text.

use std::{collections::HashMap, rc::Rc};

use crate::{
    exec::{Plan, params::Params},
    lexer::{LiteralKind, Normalised},
    store::conn::Stmt,
    translate::{
        Inputs,
        literals::{Looked, begins_plainly},
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
    /// Parameters whose values did.
    given: Box<[(usize, i64)]>,
    /// The text that named the result's columns: from the beginning of the statement on, spaces and all.
    named: Box<[u8]>,
    pub(crate) plan: Rc<Plan>,
    /// Prepared statements of the plan, in its order; taken out while they run.
    pub(crate) stmts: Vec<Stmt>,
    /// A writing statement that runs without letting others run in between, as far as is known.
    pub(crate) brief: bool,
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
    /// Takes the entry for a statement out; it comes back with [`put`](Self::put).
    #[inline]
    pub(crate) fn take(
        &mut self,
        normalised: &Normalised,
        sql: &[u8],
        inputs: &Inputs,
        params: Params<'_>,
    ) -> Option<Entry> {
        let variants = self.entries.get_mut(&normalised.hash)?;
        let index = variants.iter().position(|entry| entry.serves(normalised, sql, inputs, params))?;
        self.count -= 1;
        // A plan made from definitions that have changed makes room for its successor.
        Some(variants.swap_remove(index)).filter(|entry| entry.plan.is_current())
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
        let given = looked.given.iter().map(|(index, value)| (*index, *value)).collect();
        let brief = plan.is_brief();
        let named = sql.get(normalised.start..plan.named_to).unwrap_or_default().into();
        let text = normalised.text.as_slice().into();
        Self {
            text,
            inputs,
            params: params.into(),
            fixed,
            sized,
            patterns,
            given,
            named,
            plan,
            stmts: Vec::new(),
            brief,
        }
    }

    /// The same plan for another connection.
    pub(crate) fn twin(&self) -> Self {
        Self {
            text: self.text.clone(),
            inputs: self.inputs,
            params: self.params.clone(),
            fixed: self.fixed.clone(),
            sized: self.sized.clone(),
            patterns: self.patterns.clone(),
            given: self.given.clone(),
            named: self.named.clone(),
            plan: Rc::clone(&self.plan),
            stmts: Vec::new(),
            brief: self.brief,
        }
    }

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
            && self.given.iter().all(|(index, value)| params.int(*index) == Some(*value))
            && (self.named.is_empty() || sql[normalised.start..].starts_with(&self.named))
    }
}

fn literal<'a>(normalised: &Normalised, sql: &'a [u8], index: usize) -> Option<(LiteralKind, &'a [u8])> {
    let literal = normalised.literals.get(index)?;
    Some((literal.kind, sql.get(literal.start as usize..literal.end as usize)?))
}
