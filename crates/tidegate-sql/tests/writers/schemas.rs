//! Schemas that come and go while others read them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tidegate_sql::{Durability, EngineOptions, Session};

use super::{Fixture, local, ok, run};

const ROUNDS: usize = 100;
/// No such schema, no such table, and a table that was changed behind the snapshot.
const GONE: [u16; 3] = [1049, 1146, 1412];
/// What is there already, or is not there to be dropped.
const OTHERS_WERE_FIRST: [u16; 3] = [1007, 1008, 1050];
/// Sessions that all make and drop the same schemas, on several threads.
const THREADS: usize = 4;
const SESSIONS: usize = 13;
const SCHEMAS: usize = 3;
const STATEMENTS: usize = 20;

#[test]
fn nobody_is_told_of_locks_when_a_schema_is_made_anew() {
    local(async {
        let fixture = Fixture::new("schemas", "SELECT 1").await;
        let is_over = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (engine, is_over) = (fixture.engine.clone().unwrap(), Arc::clone(&is_over));
                std::thread::spawn(move || {
                    local(async move {
                        let mut session = engine.session("test").unwrap();
                        while !is_over.load(Ordering::Relaxed) {
                            let outcome = run(&mut session, "SELECT n FROM other.t").await;
                            assert!(outcome.as_ref().map_or_else(|code| GONE.contains(code), |_| true), "{outcome:?}");
                        }
                    });
                })
            })
            .collect();
        let mut session = fixture.session();
        let makes = ["DROP DATABASE IF EXISTS other", "CREATE DATABASE other", "CREATE TABLE other.t (n INT)"];
        for round in 0..ROUNDS {
            for statement in makes {
                ok(run(&mut session, statement).await);
            }
            ok(run(&mut session, &format!("INSERT INTO other.t VALUES ({round})")).await);
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// Makes and drops schemas, and uses what is there; each session in an order of its own.
async fn make_and_drop(mut session: Session, mut number: usize) {
    for _ in 0..STATEMENTS {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (statement, schema) = ((number >> 33) % 8, (number >> 40) % SCHEMAS);
        let sql = match statement {
            0 => format!("DROP DATABASE s{schema}"),
            1 => format!("DROP DATABASE IF EXISTS s{schema}"),
            2 => format!("CREATE DATABASE s{schema}"),
            3 => format!("CREATE DATABASE IF NOT EXISTS s{schema}"),
            4 => format!("CREATE TABLE s{schema}.t (n INT)"),
            5 => format!("INSERT INTO s{schema}.t VALUES (1), (2)"),
            6 => format!("SELECT COUNT(*) FROM s{schema}.t"),
            _ => format!("SELECT COUNT(*) FROM s{schema}.t a JOIN s{}.t b ON a.n = b.n", (schema + 1) % SCHEMAS),
        };
        let outcome = run(&mut session, &sql).await;
        let is_expected = |code: &u16| GONE.contains(code) || OTHERS_WERE_FIRST.contains(code);
        assert!(outcome.as_ref().map_or_else(is_expected, |_| true), "{sql}: {outcome:?}");
    }
}

#[test]
fn sessions_that_make_and_drop_the_same_schemas_hear_only_what_others_have_done() {
    for durability in [Durability::Normal, Durability::Full] {
        local(async {
            let fixture = Fixture::new(&format!("crowd-{durability:?}"), "SELECT 1").await;
            let mut options = EngineOptions::new(&fixture.path);
            options.durability = durability;
            fixture.engine.as_ref().unwrap().configure(options).unwrap();
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let engine = fixture.engine.clone().unwrap();
                    std::thread::spawn(move || {
                        local(async move {
                            let sessions: Vec<_> = (0..SESSIONS)
                                .map(|number| {
                                    let session = engine.session("test").unwrap();
                                    tokio::task::spawn_local(make_and_drop(session, thread * SESSIONS + number))
                                })
                                .collect();
                            for session in sessions {
                                session.await.unwrap();
                            }
                        });
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            let mut session = fixture.session();
            for schema in 0..SCHEMAS {
                let sql = format!("CREATE DATABASE IF NOT EXISTS s{schema}; DROP DATABASE s{schema}");
                ok(run(&mut session, &sql).await);
            }
            let left: Vec<_> =
                std::fs::read_dir(&fixture.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.iter().all(|file| !file.to_string_lossy().starts_with('s')), "{left:?}");
        });
    }
}

#[test]
fn the_first_who_read_a_large_catalogue_do_not_wait_for_each_other() {
    local(async {
        let tables: Vec<String> = (0..300).map(|number| format!("CREATE TABLE t{number} (n INT, KEY (n))")).collect();
        let mut fixture = Fixture::new("catalogue", &tables.join("; ")).await;
        fixture.engine = None;
        let mut options = EngineOptions::new(&fixture.path);
        options.durability = Durability::Normal;
        fixture.engine = Some(tidegate_sql::Engine::open(options).unwrap());
        let both = [0, 1].map(|_| fixture.start(fixture.session(), "SELECT COUNT(*) FROM t7"));
        for running in both {
            assert_eq!(running.end().await.1, Ok(vec![0]));
        }
    });
}
