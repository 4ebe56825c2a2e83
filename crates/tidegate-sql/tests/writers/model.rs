//! Small transactions in random orders beside a model of what each of them must see and leave behind.
//!
//! The model knows the committed rows and, for each transaction, the rows that it has changed. A statement that ends is looked
//! up there: because it works on the newest commit and keeps what it has touched, its outcome follows from the committed
//! rows of that moment and the transaction's own. The model does not predict who waits; that nobody waits for good, and that
//! nobody loses, shows by the results. The seed that is printed repeats a run (`TIDEGATE_WRITERS_SEED`,
//! `TIDEGATE_WRITERS_STEPS`).

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use super::*;

type Rows = BTreeMap<i64, (i64, Option<i64>)>;

const SESSIONS: usize = 6;
const IDS: u64 = 12;

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// A statement of the model.
#[derive(Debug, Clone)]
enum Step {
    Begin {
        read_committed: bool,
    },
    /// `n = n + 1` for a range of ids.
    Add(i64, i64),
    /// The same in a transaction of its own. A statement without one ends later than it commits, which the model could not tell.
    AddAlone(i64, i64),
    Insert(i64, Option<i64>),
    SetKey(i64, Option<i64>),
    Delete(i64, i64),
    Lock(i64),
    Read,
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
}

impl Step {
    fn sql(&self) -> String {
        let text = |u: &Option<i64>| u.map_or("NULL".to_owned(), |u| u.to_string());
        match self {
            Step::Begin { read_committed } => {
                let level = if *read_committed { "READ COMMITTED" } else { "REPEATABLE READ" };
                format!("SET TRANSACTION ISOLATION LEVEL {level}; BEGIN")
            }
            Step::Add(from, to) => format!("UPDATE t SET n = n + 1 WHERE id BETWEEN {from} AND {to}"),
            Step::AddAlone(from, to) => format!("BEGIN; {}; COMMIT", Step::Add(*from, *to).sql()),
            Step::Insert(id, u) => format!("INSERT INTO t VALUES ({id}, 0, {})", text(u)),
            Step::SetKey(id, u) => format!("UPDATE t SET u = {} WHERE id = {id}", text(u)),
            Step::Delete(from, to) => format!("DELETE FROM t WHERE id BETWEEN {from} AND {to}"),
            Step::Lock(id) => format!("SELECT n FROM t WHERE id = {id} FOR UPDATE"),
            Step::Read => "SELECT id, n, u FROM t ORDER BY id".to_owned(),
            Step::Savepoint => "SAVEPOINT s".to_owned(),
            Step::RollbackTo => "ROLLBACK TO s".to_owned(),
            Step::Commit => "COMMIT".to_owned(),
            Step::Rollback => "ROLLBACK".to_owned(),
        }
    }

    fn random(random: &mut Random, is_open: bool) -> Self {
        let id = random.below(IDS) as i64;
        let to = id + random.below(3) as i64;
        let u = (random.below(4) > 0).then(|| random.below(8) as i64);
        if !is_open && random.below(3) > 0 {
            return Step::Begin { read_committed: random.below(3) == 0 };
        }
        if !is_open {
            return Step::AddAlone(id, to);
        }
        match random.below(16) {
            0..4 => Step::Add(id, to),
            4..6 => Step::Insert(id, u),
            6 => Step::SetKey(id, u),
            7 => Step::Delete(id, to),
            8 => Step::Lock(id),
            9..12 => Step::Read,
            12 => Step::Savepoint,
            13 => Step::RollbackTo,
            14 => Step::Rollback,
            _ => Step::Commit,
        }
    }
}

/// A transaction of the model.
#[derive(Default, Clone)]
struct Open {
    read_committed: bool,
    /// What it saw of others when it read or wrote last.
    base: Option<Rows>,
    /// Rows that it has changed; `None` for those that have gone.
    own: BTreeMap<i64, Option<(i64, Option<i64>)>>,
    savepoint: Option<BTreeMap<i64, Option<(i64, Option<i64>)>>>,
}

fn with_own(rows: &Rows, own: &BTreeMap<i64, Option<(i64, Option<i64>)>>) -> Rows {
    let mut rows = rows.clone();
    for (id, row) in own {
        match row {
            Some(row) => rows.insert(*id, *row),
            None => rows.remove(id),
        };
    }
    rows
}

#[derive(Default)]
struct Model {
    committed: Rows,
    open: [Option<Open>; SESSIONS],
}

impl Model {
    /// What a statement that has just ended must have given.
    fn ends(&mut self, session: usize, step: &Step, outcome: &Outcome) -> Outcome {
        if *outcome == Err(1213) {
            self.open[session] = None;
            return Err(1213);
        }
        match step {
            Step::Begin { read_committed } => {
                self.open[session] = Some(Open { read_committed: *read_committed, ..Open::default() });
            }
            Step::Commit | Step::Rollback => {
                let open = self.open[session].take();
                if let (Step::Commit, Some(open)) = (step, open) {
                    self.committed = with_own(&self.committed, &open.own);
                }
            }
            Step::Savepoint | Step::RollbackTo => {
                let open = self.open[session].as_mut().unwrap();
                match (step, &open.savepoint) {
                    (Step::Savepoint, _) => open.savepoint = Some(open.own.clone()),
                    (_, None) => return Err(1305),
                    (_, Some(own)) => open.own = own.clone(),
                }
            }
            Step::Read => {
                let open = self.open[session].as_mut().unwrap();
                if open.read_committed || open.base.is_none() {
                    open.base = Some(self.committed.clone());
                }
                let rows = with_own(open.base.as_ref().unwrap(), &open.own);
                return Ok(rows.into_iter().flat_map(|(id, (n, u))| [id, n, u.unwrap_or(i64::MIN)]).collect());
            }
            _ => return self.writes(session, step),
        }
        Ok(Vec::new())
    }

    fn writes(&mut self, session: usize, step: &Step) -> Outcome {
        let mut alone = Open::default();
        let open = self.open[session].as_mut().unwrap_or(&mut alone);
        let before = with_own(&self.committed, &open.own);
        open.base = Some(self.committed.clone());
        let taken =
            |u: Option<i64>, id: i64| before.iter().any(|(other, row)| *other != id && u.is_some() && row.1 == u);
        let mut found = Vec::new();
        match *step {
            Step::Add(from, to) | Step::AddAlone(from, to) => {
                open.own.extend(before.range(from..=to).map(|(id, (n, u))| (*id, Some((n + 1, *u)))));
            }
            Step::Delete(from, to) => open.own.extend(before.range(from..=to).map(|(id, _)| (*id, None))),
            Step::Insert(id, u) if before.contains_key(&id) || taken(u, id) => return Err(1062),
            Step::Insert(id, u) => {
                open.own.insert(id, Some((0, u)));
            }
            Step::SetKey(id, u) => {
                if let Some((n, _)) = before.get(&id) {
                    if taken(u, id) {
                        return Err(1062);
                    }
                    open.own.insert(id, Some((*n, u)));
                }
            }
            Step::Lock(id) => found.extend(before.get(&id).map(|(n, _)| *n)),
            _ => unreachable!(),
        }
        if self.open[session].is_none() {
            self.committed = with_own(&self.committed, &alone.own);
        }
        Ok(found)
    }
}

async fn random_transactions(seed: u64, steps: usize) {
    println!("seed {seed}, {steps} steps");
    let rows: Vec<String> = (0..6).map(|id| format!("({id}, 0, {id})")).collect();
    let setup =
        format!("CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT UNIQUE); INSERT INTO t VALUES {}", rows.join(", "));
    let fixture = Fixture::new(&format!("model-{seed}"), &setup).await;
    let mut model = Model { committed: (0..6).map(|id| (id, (0, Some(id)))).collect(), ..Model::default() };
    let mut random = Random::new(seed);
    let mut sessions: [Option<Session>; SESSIONS] = std::array::from_fn(|_| Some(fixture.session()));
    let ended: Rc<RefCell<Vec<(usize, Session, Step, Outcome)>>> = Rc::default();
    let (mut waits, mut deadlocks) = (0, 0);
    for step in 0..steps {
        let free: Vec<usize> = (0..SESSIONS).filter(|session| sessions[*session].is_some()).collect();
        if !free.is_empty() {
            let number = free[random.below(free.len() as u64) as usize];
            let step = Step::random(&mut random, model.open[number].is_some());
            let mut session = sessions[number].take().unwrap();
            let ended = Rc::clone(&ended);
            tokio::task::spawn_local(async move {
                let outcome = run(&mut session, &step.sql()).await;
                ended.borrow_mut().push((number, session, step, outcome));
            });
        }
        let begun = std::time::Instant::now();
        let quiet = 20 + random.below(20);
        let mut turns = 0;
        while turns < quiet || ended.borrow().is_empty() && sessions.iter().all(Option::is_none) {
            tokio::task::yield_now().await;
            turns += 1;
            assert!(begun.elapsed() < Duration::from_secs(20), "step {step}: all wait for good");
        }
        for (number, session, step, outcome) in ended.take() {
            let expected = model.ends(number, &step, &outcome);
            assert_eq!(outcome, expected, "seed {seed}, session {number}: {}", step.sql());
            assert_eq!(session.in_transaction(), model.open[number].is_some(), "session {number}");
            deadlocks += usize::from(outcome == Err(1213));
            sessions[number] = Some(session);
        }
        waits += sessions.iter().filter(|session| session.is_none()).count();
    }
    // Those who still wait go on when the others have gone.
    for (number, session) in sessions.iter_mut().enumerate() {
        if session.take().is_some() {
            model.open[number] = None;
        }
    }
    while Rc::strong_count(&ended) > 1 || !ended.borrow().is_empty() {
        for (number, _, step, outcome) in ended.take() {
            assert_eq!(outcome, model.ends(number, &step, &outcome));
            model.open[number] = None;
        }
        tokio::task::yield_now().await;
    }
    let mut last = fixture.session();
    let found = ok(run(&mut last, "SELECT id, n, u FROM t ORDER BY id").await);
    let expected: Vec<i64> = model.committed.iter().flat_map(|(id, (n, u))| [*id, *n, u.unwrap_or(i64::MIN)]).collect();
    assert_eq!(found, expected, "seed {seed}: what is left");
    ok(run(&mut last, "SET innodb_lock_wait_timeout = 0; UPDATE t SET n = n + 1").await);
    fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    println!("{waits} times somebody waited, {deadlocks} deadlocks");
    assert!(waits > 0 && deadlocks > 0 || steps < 1000);
}

#[test]
fn random_transactions_do_as_the_model() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let steps = number("TIDEGATE_WRITERS_STEPS").unwrap_or(2000) as usize;
    let seeds: Vec<u64> = number("TIDEGATE_WRITERS_SEED").map_or((1..4).collect(), |seed| vec![seed]);
    for seed in seeds {
        local(random_transactions(seed, steps));
    }
}
