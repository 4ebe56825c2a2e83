//! Generations of workers that do nothing but obey.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Waits for the next outcome.
#[track_caller]
fn next(generations: &mut Generations) -> Vec<Outcome> {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let outcomes = generations.turn();
        if !outcomes.is_empty() {
            return outcomes;
        }
        assert!(Instant::now() < give_up, "nothing happened");
        let mut poll = libc::pollfd { fd: generations.fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let wait = generations
            .deadline()
            .map_or(100, |at| at.saturating_duration_since(Instant::now()).as_millis() as i32 + 1);
        // SAFETY: one live entry is passed with its count.
        unsafe { libc::poll(&raw mut poll, 1, wait.min(100)) };
    }
}

fn workers(count: usize, body: impl Fn(WorkerStart) -> WorkerFuture + Send + Sync + 'static) -> Workers {
    Workers { body: Arc::new(body), count, affinity: Vec::new(), shutdown_timeout: None }
}

/// Reports ready, then waits for a word.
fn obedient(seen: &Arc<Mutex<Vec<Control>>>) -> impl Fn(WorkerStart) -> WorkerFuture + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    move |mut start| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            start.ready.report();
            let control = start.control.recv().await.expect("told before the end");
            seen.lock().expect("free").push(control);
            Ok(())
        })
    }
}

#[test]
fn workers_start_quit_and_stop() {
    for (graceful, expected) in [(true, Control::Quit), (false, Control::Stop)] {
        let seen = Arc::default();
        let mut generations = Generations::new().expect("an event descriptor");
        generations.start(workers(2, obedient(&seen)), Sockets::default()).expect("started");
        assert_eq!(next(&mut generations), [Outcome::Serving]);
        if graceful {
            generations.quit();
        } else {
            generations.stop();
        }
        assert_eq!(next(&mut generations), [Outcome::Finished]);
        assert_eq!(*seen.lock().expect("free"), [expected; 2]);
    }
}

#[test]
fn a_reload_replaces_the_workers_when_the_new_ones_are_ready() {
    let (old, new) = (Arc::default(), Arc::default());
    let mut generations = Generations::new().expect("an event descriptor");
    generations.start(workers(1, obedient(&old)), Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    generations.start(workers(3, obedient(&new)), Sockets::default()).expect("started");
    assert!(old.lock().expect("free").is_empty());
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    while generations.generations.len() > 1 {
        generations.turn();
        std::thread::yield_now();
    }
    assert_eq!(*old.lock().expect("free"), [Control::Quit]);
    assert!(new.lock().expect("free").is_empty());
    generations.stop();
    assert_eq!(next(&mut generations), [Outcome::Finished]);
}

#[test]
fn a_generation_that_fails_leaves_the_old_one_serving() {
    let old = Arc::default();
    let mut generations = Generations::new().expect("an event descriptor");
    generations.start(workers(1, obedient(&old)), Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    let failing = workers(1, |_| Box::pin(async { Err("init_by_lua error".to_owned()) }));
    generations.start(failing, Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::StartFailed("init_by_lua error".to_owned())]);
    assert!(generations.is_serving() && old.lock().expect("free").is_empty());
    generations.quit();
    assert_eq!(next(&mut generations), [Outcome::Finished]);
}

#[test]
fn workers_of_a_generation_that_is_overtaken_finish_their_requests() {
    let (overtaken, new): (Arc<Mutex<Vec<Control>>>, _) = (Arc::default(), Arc::default());
    let mut generations = Generations::new().expect("an event descriptor");
    let seen = Arc::clone(&overtaken);
    let slow_second = move |mut start: WorkerStart| -> WorkerFuture {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            if start.id == 0 {
                start.ready.report();
            }
            let told = start.control.recv().await.expect("told before the end");
            seen.lock().expect("free").push(told);
            Ok(())
        })
    };
    generations.start(workers(2, slow_second), Sockets::default()).expect("started");
    generations.start(workers(1, obedient(&new)), Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    while generations.generations.len() > 1 {
        generations.turn();
        std::thread::yield_now();
    }
    assert_eq!(*overtaken.lock().expect("free"), [Control::Quit; 2]);
    generations.stop();
    assert_eq!(next(&mut generations), [Outcome::Finished]);
}

#[test]
fn a_first_generation_that_fails_is_the_end() {
    let mut generations = Generations::new().expect("an event descriptor");
    let failing = workers(1, |_| Box::pin(async { Err("no".to_owned()) }));
    generations.start(failing, Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::StartFailed("no".to_owned())]);
    assert!(!generations.is_serving());
}

#[test]
fn a_worker_that_panics_is_replaced() {
    let lives = Arc::new(AtomicUsize::new(0));
    let seen: Arc<Mutex<Vec<Control>>> = Arc::default();
    let mut generations = Generations::new().expect("an event descriptor");
    let counted = Arc::clone(&lives);
    let then = obedient(&seen);
    let body = move |start: WorkerStart| -> WorkerFuture {
        if counted.fetch_add(1, Ordering::SeqCst) > 0 {
            return then(start);
        }
        Box::pin(async move {
            start.ready.report();
            tokio::time::sleep(Duration::from_millis(1)).await;
            std::panic::resume_unwind(Box::new("quietly"));
        })
    };
    generations.start(workers(1, body), Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    while lives.load(Ordering::SeqCst) < 2 {
        assert_eq!(generations.turn(), []);
        std::thread::sleep(Duration::from_millis(5));
    }
    generations.quit();
    assert_eq!(next(&mut generations), [Outcome::Finished]);
}

#[test]
fn stragglers_are_cut_after_the_timeout() {
    let mut generations = Generations::new().expect("an event descriptor");
    let stubborn = |mut start: WorkerStart| -> WorkerFuture {
        Box::pin(async move {
            start.ready.report();
            while start.control.recv().await != Some(Control::Cut) {}
            Ok(())
        })
    };
    let shutdown_timeout = Some(Duration::from_millis(20));
    let workers = Workers { shutdown_timeout, ..workers(2, stubborn) };
    generations.start(workers, Sockets::default()).expect("started");
    assert_eq!(next(&mut generations), [Outcome::Serving]);
    let began = Instant::now();
    generations.quit();
    assert_eq!(next(&mut generations), [Outcome::Finished]);
    assert!(began.elapsed() >= Duration::from_millis(20));
}
