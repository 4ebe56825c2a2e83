//! Sequences: which numbers they give, and what the file knows of that.
//!
//! A sequence is a table of one row. The row says which number comes next when nobody has any in memory: the file is always ahead
//! of the numbers that are given, by as many as CACHE says. Nothing that is rolled back, and no end of the process, gives a number back.
//!
//! Invariants:
//! 1. A number is given outside of a writing statement only when it stands before a [`Mark`] that is on the disk.
//! 2. A statement that holds the write lock may take numbers beyond that; the mark goes into the file with its changes.
//! 3. Whoever sets a sequence begins a new epoch: what a commit of before has made durable counts for nothing then.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{catalog::Table, parse::SequenceSpec};

/// What stands in place of the engine's name in the catalogue of a table that is a sequence.
pub(crate) const ENGINE: &str = "SEQUENCE";

/// The engine that sequences show.
pub(crate) const SHOWN_ENGINE: &str = "InnoDB";

/// The columns: name, type, comment.
///
/// Source: MariaDB, `CREATE SEQUENCE`, "Structure of sequence tables".
pub(crate) const COLUMNS: [(&str, &str, &str); 8] = [
    ("next_not_cached_value", "bigint(21)", ""),
    ("minimum_value", "bigint(21)", ""),
    ("maximum_value", "bigint(21)", ""),
    ("start_value", "bigint(21)", "start value when sequences is created or value if RESTART is used"),
    ("increment", "bigint(21)", "increment value"),
    ("cache_size", "bigint(21) unsigned", ""),
    (
        "cycle_option",
        "tinyint(1) unsigned",
        "0 if no cycles are allowed, 1 if the sequence should begin a new cycle when maximum_value is passed",
    ),
    ("cycle_count", "bigint(21)", "How many cycles have been done"),
];

/// Numbers that are kept in memory unless CACHE says something else.
const CACHE: i64 = 1000;

/// What a sequence is to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    /// 0 for NOCACHE.
    pub(crate) cache: i64,
    pub(crate) cycles: bool,
}

/// The row of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// What comes next when nobody has numbers in memory; behind the last one when all are used up.
    pub(crate) next: i64,
    pub(crate) options: Options,
    /// How often the sequence has begun anew.
    pub(crate) round: i64,
}

/// A place between the numbers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    epoch: u64,
    pub(crate) round: i64,
    /// The number behind the place.
    pub(crate) next: i64,
}

/// What is in memory of a sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    options: Options,
    next: i64,
    /// What the file says, or will say before these numbers are given.
    written: Mark,
    /// What the disk has.
    durable: Mark,
}

/// What is in memory of a sequence, if anything; shared by all versions of its table.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    numbers: Mutex<Option<Numbers>>,
}

impl Options {
    /// Those of a new sequence.
    pub(crate) fn of(spec: &SequenceSpec) -> Option<Self> {
        let increment = spec.increment.unwrap_or(1);
        let (minimum, maximum) = Self::usual_range(increment);
        let minimum = spec.minimum.flatten().unwrap_or(minimum);
        let maximum = spec.maximum.flatten().unwrap_or(maximum);
        let start = spec.start.unwrap_or(if increment < 0 { maximum } else { minimum });
        let (cache, cycles) = (spec.cache.unwrap_or(CACHE), spec.cycles.unwrap_or(false));
        Self { minimum, maximum, start, increment, cache, cycles }.checked()
    }

    /// These with what ALTER SEQUENCE says.
    pub(crate) fn altered(self, spec: &SequenceSpec) -> Option<Self> {
        let increment = spec.increment.unwrap_or(self.increment);
        let (minimum, maximum) = Self::usual_range(increment);
        let bound = |said: Option<Option<i64>>, usual, now| said.map_or(now, |bound| bound.unwrap_or(usual));
        Self {
            minimum: bound(spec.minimum, minimum, self.minimum),
            maximum: bound(spec.maximum, maximum, self.maximum),
            start: spec.start.unwrap_or(self.start),
            increment,
            cache: spec.cache.unwrap_or(self.cache),
            cycles: spec.cycles.unwrap_or(self.cycles),
        }
        .checked()
    }

    fn usual_range(increment: i64) -> (i64, i64) {
        if increment < 0 { (i64::MIN + 1, -1) } else { (1, i64::MAX - 1) }
    }

    /// These if they are of one mind.
    fn checked(self) -> Option<Self> {
        let Self { minimum, maximum, start, increment, cache, .. } = self;
        let step = increment.unsigned_abs().max(1).cast_signed();
        let fits = minimum < maximum
            && (minimum..=maximum).contains(&start)
            && maximum < i64::MAX
            && minimum > i64::MIN
            && cache >= 0
            && increment != 0
            && step > 0
            && cache < (i64::MAX - step) / step;
        fits.then_some(self)
    }

    /// Whether a number comes before another one.
    fn is_before(&self, value: i64, other: i64) -> bool {
        if self.increment < 0 { value > other } else { value < other }
    }

    /// What comes `count` numbers behind one: at most what stands just behind the range.
    pub(crate) fn ahead(&self, value: i64, count: i64) -> i64 {
        let there = i128::from(value) + i128::from(self.increment) * i128::from(count);
        there.clamp(i128::from(self.minimum) - 1, i128::from(self.maximum) + 1) as i64
    }

    /// Whether a sequence may stand in front of a number, or behind the last one.
    pub(crate) fn admits(&self, next: i64) -> bool {
        self.has(next)
            || self.increment < 0 && next == self.minimum - 1
            || self.increment > 0 && next == self.maximum + 1
    }

    fn has(&self, value: i64) -> bool {
        (self.minimum..=self.maximum).contains(&value)
    }

    /// Where a round begins that is not the first one.
    fn round_start(&self) -> i64 {
        if self.increment < 0 { self.maximum } else { self.minimum }
    }
}

impl Row {
    /// The row of a new sequence.
    pub(crate) fn new(options: Options) -> Self {
        Self { next: options.start, options, round: 0 }
    }

    /// As its columns have it.
    pub(crate) fn values(&self) -> [i64; 8] {
        let Options { minimum, maximum, start, increment, cache, cycles } = self.options;
        [self.next, minimum, maximum, start, increment, cache, i64::from(cycles), self.round]
    }

    /// What its columns say.
    pub(crate) fn of(values: [i64; 8]) -> Self {
        let [next, minimum, maximum, start, increment, cache, cycles, round] = values;
        Self { next, options: Options { minimum, maximum, start, increment, cache, cycles: cycles != 0 }, round }
    }
}

impl Numbers {
    /// Those that come behind what the file says.
    pub(crate) fn of(row: &Row) -> Self {
        static EPOCH: AtomicU64 = AtomicU64::new(1);
        let mark = Mark { epoch: EPOCH.fetch_add(1, Ordering::Relaxed), round: row.round, next: row.next };
        Self { options: row.options, next: row.next, written: mark, durable: mark }
    }

    /// How often the sequence has begun anew.
    pub(crate) fn round(&self) -> i64 {
        self.written.round
    }

    /// Whether there is a round with this number.
    pub(crate) fn has_round(&self, round: i64) -> bool {
        self.options.cycles || round <= self.written.round
    }

    /// Whether the next number is one that the disk knows to be given.
    pub(crate) fn is_safe(&self) -> bool {
        self.durable.round == self.written.round && self.options.is_before(self.next, self.durable.next)
    }

    fn take_next(&mut self) -> i64 {
        let value = self.next;
        self.next = self.options.ahead(value, 1);
        value
    }

    /// The next number, if the disk knows that it is given (invariant 1).
    fn take_safe(&mut self) -> Option<i64> {
        self.is_safe().then(|| self.take_next())
    }

    /// Sees to it that there is a next number, and answers what the file has to say before it is given; `None` when all are used up.
    pub(crate) fn extend(&mut self) -> Option<Mark> {
        if self.options.is_before(self.next, self.written.next) {
            return Some(self.written);
        }
        if !self.options.has(self.next) {
            if !self.options.cycles {
                return None;
            }
            self.next = self.options.round_start();
            self.written.round += 1;
        }
        self.written.next = self.options.ahead(self.next, self.options.cache.max(1));
        Some(self.written)
    }

    /// The next number for one who holds the write lock, with what the file has to say if it does not say it yet (invariant 2).
    pub(crate) fn take(&mut self) -> Option<(i64, Option<Mark>)> {
        if let Some(value) = self.take_safe() {
            return Some((value, None));
        }
        let mark = self.extend()?;
        Some((self.take_next(), Some(mark)))
    }

    /// SETVAL: goes on behind `value`, or with it if it is not `used`. `None` if that would lead back.
    pub(crate) fn set(&mut self, value: i64, used: bool, round: i64) -> Option<Mark> {
        let next = if used { self.options.ahead(value, 1) } else { value };
        let now = self.written.round;
        if round < now || round == now && !self.options.is_before(self.next, next) && self.next != next {
            return None;
        }
        if round == now && self.options.is_before(next, self.written.next) {
            self.next = next;
            return Some(self.written);
        }
        let options = self.options;
        *self = Self::of(&Row { next, options, round });
        Some(self.written)
    }

    /// The disk has a mark.
    fn settle(&mut self, mark: Mark) {
        let is_ahead = |now: Mark| {
            mark.round > now.round || mark.round == now.round && self.options.is_before(now.next, mark.next)
        };
        if mark.epoch == self.written.epoch && is_ahead(self.durable) {
            self.durable = mark;
        }
    }
}

impl Sequence {
    /// What is in memory.
    pub(crate) fn numbers(&self) -> MutexGuard<'_, Option<Numbers>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number, if the disk knows that it is given.
    pub(crate) fn take_safe(&self) -> Option<i64> {
        self.numbers().as_mut()?.take_safe()
    }

    /// The disk has what the file was to say.
    pub(crate) fn settle(&self, mark: Mark) {
        if let Some(numbers) = self.numbers().as_mut() {
            numbers.settle(mark);
        }
    }
}

impl Table {
    /// Whether this is a sequence.
    pub(crate) fn is_sequence(&self) -> bool {
        self.engine == ENGINE
    }

    /// The name of the engine as it is shown.
    pub(crate) fn shown_engine(&self) -> &str {
        if self.is_sequence() { SHOWN_ENGINE } else { &self.engine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::SequenceSpec as Spec;

    fn row(spec: Spec) -> Row {
        Row::new(Options::of(&spec).unwrap())
    }

    /// Takes the numbers of one who never waits for the disk.
    fn taken(numbers: &mut Numbers, count: usize) -> Vec<i64> {
        (0..count).map_while(|_| Some(numbers.take()?.0)).collect()
    }

    #[test]
    fn options_are_those_of_mariadb() {
        let up = Options::of(&Spec::default()).unwrap();
        assert_eq!((up.start, up.minimum, up.maximum, up.cache), (1, 1, i64::MAX - 1, 1000));
        let down = Options::of(&Spec { increment: Some(-2), ..Spec::default() }).unwrap();
        assert_eq!((down.start, down.minimum, down.maximum), (-1, i64::MIN + 1, -1));
        let wrong = [
            Spec { start: Some(0), ..Spec::default() },
            Spec { minimum: Some(Some(5)), maximum: Some(Some(5)), ..Spec::default() },
            Spec { maximum: Some(Some(i64::MAX)), ..Spec::default() },
            Spec { cache: Some(-1), ..Spec::default() },
            Spec { increment: Some(i64::MIN), ..Spec::default() },
        ];
        for spec in wrong {
            assert_eq!(Options::of(&spec), None, "{spec:?}");
        }
    }

    #[test]
    fn numbers_end_or_begin_anew() {
        let few = Spec { maximum: Some(Some(5)), increment: Some(2), cache: Some(2), ..Spec::default() };
        assert_eq!(taken(&mut Numbers::of(&row(few)), 9), [1, 3, 5]);
        let mut cycling = Numbers::of(&row(Spec { cycles: Some(true), start: Some(3), ..few }));
        assert_eq!(taken(&mut cycling, 6), [3, 5, 1, 3, 5, 1]);
        assert_eq!(cycling.round(), 2);
        let down = Spec { minimum: Some(Some(-3)), increment: Some(-1), ..Spec::default() };
        assert_eq!(taken(&mut Numbers::of(&row(down)), 9), [-1, -2, -3]);
    }

    #[test]
    fn what_the_disk_does_not_know_is_given_to_nobody() {
        let mut numbers = Numbers::of(&row(Spec { cache: Some(2), ..Spec::default() }));
        assert_eq!(numbers.take_safe(), None);
        let mark = numbers.extend().unwrap();
        assert_eq!((mark.next, numbers.take_safe()), (3, None));
        numbers.settle(mark);
        assert_eq!([numbers.take_safe(), numbers.take_safe(), numbers.take_safe()], [Some(1), Some(2), None]);
        // One who writes takes more, which others do not get before its commit.
        let (value, mark) = numbers.take().unwrap();
        assert_eq!((value, mark.unwrap().next, numbers.take_safe()), (3, 5, None));
        // The sequence was set since: what the file says now is less than what a former commit has said.
        let old = numbers.extend().unwrap();
        let set = numbers.set(10, true, 0).unwrap();
        numbers.settle(old);
        assert_eq!((set.next, numbers.take_safe()), (11, None));
        assert_eq!(numbers.set(9, true, 0), None, "that is the way back");
        assert!(!numbers.has_round(1), "it does not cycle");
        // What the file knows to be given already may be left out.
        let mark = numbers.extend().unwrap();
        numbers.settle(mark);
        assert_eq!((numbers.set(12, false, 0), numbers.take_safe()), (Some(mark), Some(12)));
    }

    #[test]
    fn a_row_is_as_its_columns_say() {
        let row = row(Spec { cycles: Some(true), ..Spec::default() });
        assert_eq!(Row::of(row.values()), row);
    }
}
