//! The pages of a private transaction and the list of its changes say the same: random statements, and the rows before and
//! after the transaction has to begin anew, and after COMMIT. `TIDEGATE_WRITERS_SEED` repeats a run,
//! `TIDEGATE_WRITERS_ROUNDS` makes it longer.

use super::{model::Random, *};

const TABLES: &str = "CREATE TABLE a (id INT PRIMARY KEY, u INT UNIQUE, d DOUBLE, m DECIMAL(10,3), s VARCHAR(20) UNIQUE, l LONGBLOB, \
       g INT AS (id + u) STORED, v VARCHAR(30) AS (CONCAT(s, 'x')) VIRTUAL, \
       ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE (v)); \
     CREATE TABLE b (k VARCHAR(9) PRIMARY KEY, a INT, t TEXT, \
       FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE ON UPDATE CASCADE); \
     CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(9), up INT, FOREIGN KEY (up) REFERENCES c (id), \
       FOREIGN KEY (k) REFERENCES b (k) ON DELETE SET NULL ON UPDATE CASCADE); \
     CREATE TABLE h (x INT, y VARCHAR(20), v VARCHAR(30) AS (CONCAT(y, x)) VIRTUAL, KEY (v)); \
     ALTER TABLE h ADD COLUMN later INT DEFAULT 7; CREATE TABLE other (n INT); INSERT INTO other VALUES (0)";

/// Rows as text, one after the other.
#[derive(Default)]
struct Rows(Vec<String>);

impl Sink for Rows {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.0.push(String::new());
        row.each(|_, value| {
            if let Some(row) = self.0.last_mut() {
                row.push_str(&format!("{value:?},"));
            }
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// All that the session sees, by the tables and by some of their indexes.
async fn seen(session: &mut Session) -> Vec<String> {
    let mut rows = Rows::default();
    let sql = "SELECT * FROM a ORDER BY id; SELECT * FROM b ORDER BY k; SELECT * FROM c ORDER BY id; \
               SELECT * FROM h ORDER BY x, y; SELECT COUNT(*), SUM(u) FROM a WHERE u > -1; SELECT v FROM h WHERE v > '' ORDER BY v";
    session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut rows).await.unwrap();
    rows.0
}

fn value(random: &mut Random) -> String {
    let values =
        ["NULL", "''", "'a'", "'A '", "0.0", "-0e0", "1e300", "'x\\0y'", "'3'", "4", "5.5", "'ßß'", "6", "7", "8"];
    values[random.below(values.len() as u64) as usize].to_owned()
}

fn statement(random: &mut Random) -> String {
    let [i, j, k] = std::array::from_fn(|_| random.below(9));
    let [v, w] = std::array::from_fn(|_| value(random));
    let ignore = ["", " IGNORE"][random.below(2) as usize];
    let row = format!("a (id, u, d, m, s) VALUES ({i}, {j}, {v}, {w}, 's{k}')");
    match random.below(28) {
        0..=2 => format!("INSERT{ignore} INTO {row}, ({j}, {k}, 1, 2, {v})"),
        3 => format!("INSERT{ignore} INTO {row} ON DUPLICATE KEY UPDATE id = {k}, u = {i}, s = {v}"),
        4 => format!("REPLACE INTO {row}, ({k}, {i}, 0, 0, NULL)"),
        5 => format!("UPDATE{ignore} a SET id = {i} WHERE id = {j}"),
        6 => format!("UPDATE{ignore} a SET u = {i}, s = {v} WHERE id IN ({j}, {k})"),
        7 => format!("UPDATE{ignore} a SET d = {v}, m = {w}, l = CONCAT(l, {v}) WHERE id < {k}"),
        8 => format!("DELETE{ignore} FROM a WHERE id = {i}"),
        9 => format!("DELETE{ignore} FROM a WHERE u > {i} LIMIT 2"),
        10..=12 => format!("INSERT{ignore} INTO b (k, a, t) VALUES ('K{i}', {j}, {v}), ('k{k}', {i}, {w})"),
        13 => format!("REPLACE INTO b (k, a, t) VALUES ('k{i} ', {j}, {v})"),
        14 => format!("UPDATE{ignore} b SET k = 'K{i}' WHERE a = {j}"),
        15 => format!("UPDATE{ignore} b SET a = {i} WHERE k = 'k{j}'"),
        16 => format!("DELETE{ignore} FROM b WHERE k IN ('k{i}', 'k{j}')"),
        17..=19 => format!("INSERT{ignore} INTO c (id, k, up) VALUES ({i}, 'k{j}', NULL), (NULL, 'K{k}', {i})"),
        20 => format!("UPDATE{ignore} c SET id = {i}, up = {k} WHERE id = {j}"),
        21 => format!("DELETE{ignore} FROM c WHERE id IN ({i}, {j})"),
        22 => format!("UPDATE{ignore} a, b SET a.s = {v}, b.t = {w}, b.a = {k} WHERE a.id = b.a AND a.id < {i}"),
        23 => format!("DELETE{ignore} a, c FROM a JOIN c ON c.id = a.id WHERE a.id < {i}"),
        24 => format!("INSERT{ignore} INTO h (x, y) SELECT id, {v} FROM a"),
        25 => format!("UPDATE{ignore} h SET x = x + 1, y = {v} WHERE x < {i}"),
        26 => "DELETE FROM h".to_owned(),
        _ => {
            ["DELETE FROM c", "DELETE IGNORE FROM b", "SET foreign_key_checks = 0"][random.below(3) as usize].to_owned()
        }
    }
}

/// One transaction, beside which `other` commits now and then.
async fn transaction(random: &mut Random, fixture: &Fixture, session: &mut Session, other: &mut Session) {
    let mut script = Vec::new();
    ok(run(session, "SET foreign_key_checks = 1; BEGIN").await);
    for _ in 0..=random.below(14) {
        let before = seen(session).await;
        let at_savepoint = random.below(5) == 0;
        let sql = statement(random);
        if at_savepoint {
            ok(run(session, "SAVEPOINT s").await);
        }
        let outcome = run(session, &sql).await;
        script.push(format!("{sql} -- {outcome:?}, {at_savepoint}"));
        if outcome.is_err() {
            assert_eq!(seen(session).await, before, "a statement that failed has left something: {script:#?}");
        }
        if at_savepoint && random.below(2) == 0 {
            ok(run(session, "ROLLBACK TO s").await);
            assert_eq!(seen(session).await, before, "ROLLBACK TO has left something: {script:#?}");
        }
        if random.below(2) == 0 {
            let pages = seen(session).await;
            ok(run(other, "UPDATE other SET n = n + 1").await);
            ok(run(session, "SELECT x FROM h WHERE x = 77777 FOR UPDATE").await);
            assert_eq!(seen(session).await, pages, "the list is not what the pages were: {script:#?}");
        }
    }
    let pages = seen(session).await;
    ok(run(other, "UPDATE other SET n = n + 1").await);
    ok(run(session, "COMMIT").await);
    assert_eq!(seen(&mut fixture.session()).await, pages, "COMMIT has not left what was there: {script:#?}");
}

#[test]
fn pages_and_list_say_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = number("TIDEGATE_WRITERS_SEED").unwrap_or(1);
    let rounds = number("TIDEGATE_WRITERS_ROUNDS").unwrap_or(100);
    println!("seed {seed}, {rounds} rounds");
    local(async {
        let fixture = Fixture::new(&format!("same-{seed}"), TABLES).await;
        let (mut session, mut other) = (fixture.session(), fixture.session());
        let mut random = Random::new(seed);
        ok(run(&mut session, "SET sql_mode = ''").await);
        for _ in 0..rounds {
            transaction(&mut random, &fixture, &mut session, &mut other).await;
        }
        fixture.engine.as_ref().unwrap().check("test").await.unwrap();
    });
}
