//! When the definitions of a schema change: its file has the new ones a moment before its catalogue shows them. And how others get
//! to their end beside those who define things without pause.

use std::pin::pin;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::{Notify, futures::Notified};

/// Whether the file of a schema may have other definitions than its catalogue shows.
#[derive(Default)]
pub(crate) struct Redefinition {
    runs: AtomicBool,
    over: Notify,
    /// What a test does when the file has new definitions and the catalogue has not.
    #[cfg(test)]
    between: std::sync::Mutex<Option<tests::Between>>,
}

/// Definitions change until this is dropped.
pub(crate) struct Redefining<'a>(&'a Redefinition);

impl Redefinition {
    /// New definitions are about to be committed. The caller has the schema's write lock: there is no other one.
    pub(crate) fn begin(&self) -> Redefining<'_> {
        self.runs.store(true, Ordering::Release);
        Redefining(self)
    }

    /// Whether they change right now.
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Ordering::Acquire)
    }

    /// Has a test look at this moment.
    #[cfg(test)]
    pub(crate) fn pause(&self) {
        let between = self.between.lock().unwrap().take();
        if let Some(mut between) = between {
            between();
        }
    }

    /// Ends with the next change that ends, counted from this call.
    pub(crate) fn over(&self) -> Notified<'_> {
        self.over.notified()
    }
}

impl Drop for Redefining<'_> {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
        self.0.over.notify_waiters();
    }
}

/// Statements that have met new definitions again and again, each time they had waited for the right to write.
#[derive(Default)]
pub(crate) struct Calm {
    wanted: AtomicUsize,
    over: Notify,
}

/// Nobody begins to define anything until this is dropped.
pub(crate) struct Calmed(Arc<Calm>);

impl Calm {
    /// Has those wait who are about to define something.
    pub(crate) fn keep(self: &Arc<Self>) -> Calmed {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        Calmed(Arc::clone(self))
    }

    /// Waits until nobody wants calm.
    pub(crate) async fn over(&self) {
        loop {
            let mut over = pin!(self.over.notified());
            over.as_mut().enable();
            if self.wanted.load(Ordering::SeqCst) == 0 {
                return;
            }
            over.await;
        }
    }

    /// Whether somebody does.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Calmed {
    fn drop(&mut self) {
        if self.0.wanted.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::pin,
        sync::mpsc::channel,
        task::{Context, Poll, Waker},
    };

    use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};

    use crate::{Engine, EngineOptions, Session};

    pub(super) type Between = Box<dyn FnMut() + Send>;

    /// The last result as JSON.
    async fn run(session: &mut Session, sql: &str) -> String {
        let json = JsonOptions::default();
        let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
        session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await.unwrap();
        String::from_utf8(sink.out).unwrap()
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_it_is_over() {
        let redefinition = Redefinition::default();
        let redefining = redefinition.begin();
        let over = redefinition.over();
        assert!(redefinition.runs());
        drop(redefining);
        assert!(!redefinition.runs());
        over.await;
    }

    /// What a session of another thread reads that has run `before`, when `sql` begins between the commit of a definition and the
    /// catalogue's.
    async fn read_between(before: &'static str, sql: &'static str, after: &'static str) -> String {
        let name = format!("tidegate-sql-redefinition-{}-{:?}", std::process::id(), std::thread::current().id());
        let dir = std::env::temp_dir().join(name);
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        let mut setup = engine.session("").unwrap();
        run(&mut setup, "CREATE DATABASE d; USE d; CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)")
            .await;
        run(&mut setup, "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 20240102)").await;
        let ((ready, is_ready), (go, may_go), (begun, has_begun)) = (channel(), channel(), channel());
        let other = engine.clone();
        let reader = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut session = other.session("d").unwrap();
                run(&mut session, before).await;
                ready.send(()).unwrap();
                may_go.recv().unwrap();
                let mut result = {
                    let mut query = pin!(run(&mut session, sql));
                    let polled = query.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    begun.send(()).unwrap();
                    match polled {
                        Poll::Ready(result) => result,
                        Poll::Pending => query.await,
                    }
                };
                if !after.is_empty() {
                    result = run(&mut session, after).await;
                }
                run(&mut session, "COMMIT").await;
                result
            })
        });
        is_ready.recv().unwrap();
        let between = move || {
            go.send(()).unwrap();
            has_begun.recv().unwrap();
        };
        *engine.inner.schema("d").unwrap().redefinition.between.lock().unwrap() = Some(Box::new(between));
        run(&mut setup, "ALTER TABLE t MODIFY v DATE").await;
        let result = reader.join().unwrap();
        drop((setup, engine));
        let _ = std::fs::remove_dir_all(&dir);
        result
    }

    #[tokio::test]
    async fn a_value_is_read_by_the_type_that_it_was_written_by() {
        let query = "SELECT v FROM t";
        let read_committed = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; UPDATE u SET id = 2";
        for (before, sql, after) in [
            ("SELECT v FROM t", query, ""),
            ("BEGIN", query, ""),
            ("BEGIN; SAVEPOINT s", query, query),
            ("SELECT v FROM t; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT v FROM t", query, query),
            (read_committed, query, query),
            ("COMMIT", "START TRANSACTION WITH CONSISTENT SNAPSHOT", query),
            (
                "CREATE DATABASE e; USE e; CREATE TABLE w (v VARCHAR(20))",
                "INSERT INTO w SELECT v FROM d.t",
                "SELECT v FROM w",
            ),
        ] {
            let result = read_between(before, sql, after).await;
            assert!(result.contains("2024-01-02"), "{before}; {sql}; {after}: {result}");
        }
    }
}
