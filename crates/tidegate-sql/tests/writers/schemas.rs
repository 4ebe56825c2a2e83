//! Schemas that come and go while others read them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Fixture, local, ok, run};

const ROUNDS: usize = 100;
/// No such schema, no such table, and a table that was changed behind the snapshot.
const GONE: [u16; 3] = [1049, 1146, 1412];

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
