//! What makes `init_by_lua*` count once, although it runs in the machine of every worker.
//!
//! nginx runs it in one process, before it forks, and all workers inherit the result. Workers are threads here, each with
//! a machine of its own, so each runs it. The first run keeps what the world answered, call by call: times, random
//! bytes, results of shared dictionaries, of `os.execute` and the like. The others hear the same answers without that
//! anything is done again, so that they come to the same values: a secret that the script makes up is one secret.
//! Which functions that are is told by the Lua half, `lualib/tidegate/api/init_once.lua`.
//!
//! A run that asks other questions than the first (it read a file that has changed, say) has lost the thread: from there
//! on the Lua half answers as well as it can without doing anything.

use std::cell::RefCell;
use std::sync::Arc;

use tidegate_net::clock;

use crate::portable::Value;

/// So many answers are kept. A script that asks more is a loop over a large file; its answers are "done" throughout.
const ANSWERS_MAX: usize = 100_000;

/// What the world answered to the first run.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    began_ms: u64,
    list: Vec<Answer>,
}

/// The results of one call, with the number of the function.
#[derive(Debug)]
struct Answer {
    function: u32,
    results: Vec<Value>,
}

enum Run {
    First(Answers),
    Repeat { answers: Arc<Answers>, next: usize },
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// The first run begins on this thread.
pub(crate) fn begin() {
    RUN.set(Some(Run::First(Answers { began_ms: clock::now_ms(), list: Vec::new() })));
}

/// A run begins on this thread that repeats the first one. Its clock shows what the first one's did.
pub(crate) fn repeat(answers: Arc<Answers>) {
    clock::hold(answers.began_ms);
    RUN.set(Some(Run::Repeat { answers, next: 0 }));
}

/// The run has ended. What was kept, if it was the first one.
pub(crate) fn end() -> Option<Answers> {
    match RUN.take()? {
        Run::First(answers) => Some(answers),
        Run::Repeat { .. } => {
            clock::update();
            None
        }
    }
}

/// Whether a run repeats the first one: then it is to leave no trace.
pub(crate) fn repeats() -> bool {
    RUN.with_borrow(|run| matches!(run, Some(Run::Repeat { .. })))
}

/// Keeps the results of a call, when this is the first run.
pub(crate) fn keep(function: u32, results: Vec<Value>) {
    RUN.with_borrow_mut(|run| {
        if let Some(Run::First(answers)) = run
            && answers.list.len() < ANSWERS_MAX
        {
            answers.list.push(Answer { function, results });
        }
    });
}

/// The results of the same call in the first run; `None` when that run made another one.
pub(crate) fn recall(function: u32) -> Option<Vec<Value>> {
    RUN.with_borrow_mut(|run| {
        let Some(Run::Repeat { answers, next }) = run else { return None };
        let answer = answers.list.get(*next);
        // Nothing that comes later is an answer to what this run asks.
        let Some(answer) = answer.filter(|answer| answer.function == function) else {
            *next = usize::MAX;
            return None;
        };
        *next += 1;
        Some(answer.results.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_until_the_questions_differ() {
        begin();
        assert!(!repeats());
        keep(1, vec![Value::Number(5.0)]);
        keep(2, vec![]);
        keep(1, vec![Value::Nil]);
        let answers = Arc::new(end().expect("the first run keeps answers"));
        repeat(answers.clone());
        assert!(repeats());
        assert_eq!(recall(1), Some(vec![Value::Number(5.0)]));
        assert_eq!(recall(2), Some(vec![]));
        assert_eq!(recall(3), None);
        assert_eq!(recall(1), None, "the thread is lost");
        assert!(end().is_none());
        repeat(answers);
        assert_eq!(recall(1), Some(vec![Value::Number(5.0)]));
        assert!(end().is_none());
        assert_eq!(recall(1), None);
    }

    #[test]
    fn a_repeated_run_has_the_first_ones_time() {
        begin();
        let answers = Arc::new(Answers { began_ms: 1000, ..end().expect("the first run keeps answers") });
        repeat(answers);
        assert_eq!(clock::now_ms(), 1000);
        end();
        assert!(clock::now_ms() > 1000);
    }
}
