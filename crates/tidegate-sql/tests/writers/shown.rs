//! What the engine shows of open transactions and their locks.

use super::*;

/// Rows as text, their values between bars.
#[derive(Default)]
struct Rows(Vec<String>);

impl Sink for Rows {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.0.push("|".to_owned());
        row.each(|_, value| {
            let text = match value {
                Value::Null => "NULL".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Uint(value) => value.to_string(),
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => panic!("{other:?}"),
            };
            if let Some(row) = self.0.last_mut() {
                row.push_str(&text);
                row.push('|');
            }
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// The rows of a query.
async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let mut rows = Rows::default();
    session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut rows).await.unwrap();
    rows.0
}

/// Connection, state, locked and changed rows, in the order of the connections.
const TRX: &str = "SELECT trx_mysql_thread_id, trx_state, trx_rows_locked, trx_rows_modified, trx_query, trx_isolation_level \
                   FROM information_schema.innodb_trx ORDER BY trx_mysql_thread_id";

/// Who waits for whom, by their connections, and for what.
const WAITS: &str = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id, l.lock_mode, l.lock_table, l.lock_index, l.lock_data, h.lock_mode \
                     FROM information_schema.innodb_lock_waits w JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id \
                     JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id \
                     JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id AND l.lock_id = r.trx_requested_lock_id \
                     JOIN information_schema.innodb_locks h ON h.lock_id = w.blocking_lock_id ORDER BY 1, 2";

#[test]
fn transactions_and_their_locks_are_shown() {
    local(async {
        let fixture = Fixture::new("shown", TABLE).await;
        let (mut eye, mut a, b, c) = (fixture.session(), fixture.session(), fixture.session(), fixture.session());
        let [a_id, b_id, c_id] = [&a, &b, &c].map(Session::id);
        assert!(rows(&mut eye, TRX).await.is_empty());
        ok(run(&mut a, "BEGIN; UPDATE t SET n = 0 WHERE id = 1; SELECT n FROM t WHERE id = 2 FOR SHARE").await);
        ok(run(&mut a, "UPDATE t SET u = 9 WHERE id = 3").await);
        assert!(rows(&mut eye, WAITS).await.is_empty());
        let mut waiting_b = fixture
            .start(b, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; DELETE FROM t WHERE id = 1");
        assert!(waiting_b.waits().await);
        // A statement alone.
        let mut waiting_c = fixture.start(c, "INSERT INTO t VALUES (9, 9, 9)");
        assert!(waiting_c.waits().await);
        let shown = rows(&mut eye, TRX).await;
        assert_eq!(
            shown,
            [
                format!("|{a_id}|RUNNING|3|2|NULL|REPEATABLE READ|"),
                format!("|{b_id}|LOCK WAIT|0|0|DELETE FROM t WHERE id = 1|READ COMMITTED|"),
                format!("|{c_id}|LOCK WAIT|0|0|INSERT INTO t VALUES (9, 9, 9)|REPEATABLE READ|"),
            ]
        );
        let shown = rows(&mut eye, WAITS).await;
        assert_eq!(
            shown,
            [format!("|{b_id}|{a_id}|X|`test`.`t`|PRIMARY|1|X|"), format!("|{c_id}|{a_id}|X|`test`.`t`|u|NULL|X|"),]
        );
        let status = rows(&mut eye, "SHOW ENGINE INNODB STATUS").await.concat();
        for part in [
            &format!("thread id {b_id}, isolation level READ-COMMITTED\nDELETE FROM t"),
            "RECORD LOCK index PRIMARY of table `test`.`t`",
            "lock_mode X waiting, row 1; behind trx id",
            "3 row lock(s), undo log entries 2",
        ] {
            assert!(status.contains(part), "{part} in {status}");
        }
        ok(run(&mut a, "ROLLBACK").await);
        let (mut b, outcome) = waiting_b.end().await;
        ok(outcome);
        ok(waiting_c.end().await.1);
        ok(run(&mut b, "ROLLBACK").await);
        assert!(rows(&mut eye, TRX).await.is_empty());
    });
}

#[test]
fn the_only_writer_is_shown_as_who_others_wait_for() {
    local(async {
        let fixture = Fixture::new("only-writer", TABLE).await;
        let (mut eye, mut a, mut b) = (fixture.session(), fixture.session(), fixture.session());
        let (a_id, b_id) = (a.id(), b.id());
        let many: Vec<String> = (10..1100).map(|id| format!("({id}, 0)")).collect();
        ok(run(&mut b, "BEGIN; UPDATE t SET n = 0 WHERE id = 2").await);
        ok(run(
            &mut a,
            &format!("BEGIN; UPDATE t SET n = 0 WHERE id = 1; INSERT INTO t (id, n) VALUES {}", many.join(",")),
        )
        .await);
        let mut waiting = fixture.start(b, "COMMIT");
        assert!(waiting.waits().await);
        let shown = rows(&mut eye, WAITS).await;
        assert_eq!(shown, [format!("|{b_id}|{a_id}|X|`test`|NULL|NULL|X|")]);
        ok(run(&mut a, "COMMIT").await);
        ok(waiting.end().await.1);
    });
}

#[test]
fn all_who_wait_for_the_only_writer_are_shown() {
    local(async {
        let fixture = Fixture::new("only-writer-first", TABLE).await;
        let (mut eye, mut a, b, c) = (fixture.session(), fixture.session(), fixture.session(), fixture.session());
        let [a_id, b_id, c_id] = [&a, &b, &c].map(Session::id);
        // The first statement of the transaction makes it the writer; it has no locks.
        let many: Vec<String> = (10..1200).map(|id| format!("({id}, 0)")).collect();
        ok(run(&mut a, &format!("BEGIN; INSERT INTO t (id, n) VALUES {}", many.join(","))).await);
        let mut waiting_b = fixture.start(b, "BEGIN; UPDATE t SET n = 1 WHERE id = 1");
        assert!(waiting_b.waits().await);
        let mut waiting_c = fixture.start(c, "INSERT INTO t VALUES (9, 9, 9)");
        assert!(waiting_c.waits().await);
        let mut states = rows(&mut eye, TRX).await;
        states.iter_mut().for_each(|row| *row = row.split('|').skip(1).take(2).collect::<Vec<_>>().join(" "));
        assert_eq!(states, [format!("{a_id} RUNNING"), format!("{b_id} LOCK WAIT"), format!("{c_id} LOCK WAIT")]);
        let behind = |id: u64| format!("|{id}|{a_id}|X|`test`|NULL|NULL|X|");
        assert_eq!(rows(&mut eye, WAITS).await, [behind(b_id), behind(c_id)]);
        let status = rows(&mut eye, "SHOW ENGINE INNODB STATUS").await.concat();
        assert_eq!(status.matches("WRITE LOCK of `test`").count(), 2, "{status}");
        ok(run(&mut a, "ROLLBACK").await);
        ok(waiting_c.end().await.1);
        let (mut b, outcome) = waiting_b.end().await;
        ok(outcome);
        ok(run(&mut b, "ROLLBACK").await);
        assert!(rows(&mut eye, TRX).await.is_empty() && rows(&mut eye, WAITS).await.is_empty());
    });
}
