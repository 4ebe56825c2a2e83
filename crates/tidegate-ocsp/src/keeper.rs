//! The thread that keeps staples fresh: each has a task, which ends when no configuration has the staple any more.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tidegate_net::{
    clock,
    log::{Level, note},
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{LocalSet, spawn_local},
    time::sleep,
};

use crate::staple::Staple;

/// Responders that are asked at the same time.
const UNDER_WAY_MAX: usize = 16;

/// Pause after the first failure in a row, and how much longer the next ones are.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
const BACK_OFF_FACTOR: u32 = 6;
/// Longest pause after failures.
///
/// Source: nginx, `ngx_ssl_stapling_ocsp_handler`.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// How long a task sleeps at most: clocks are set, machines sleep, staples go.
const SLEEP_MAX: Duration = Duration::from_secs(300);

/// Keeps staples fresh from now on, as long as a configuration has them. Those that are looked after already go on.
///
/// # Errors
/// The thread cannot be started.
pub fn keep<'s>(staples: impl IntoIterator<Item = &'s Arc<Staple>>) -> std::io::Result<()> {
    static KEEPER: OnceLock<mpsc::UnboundedSender<Weak<Staple>>> = OnceLock::new();
    for staple in staples.into_iter().filter(|staple| staple.begin_keeping()) {
        if KEEPER.get().is_none() {
            let (sender, staples) = mpsc::unbounded_channel();
            start(staples)?;
            // Of two workers that come at the same time, the second one's thread ends with its end of the channel.
            let _ = KEEPER.set(sender);
        }
        if let Some(keeper) = KEEPER.get() {
            // A thread that has panicked takes no more; the log has the reason.
            let _ = keeper.send(Arc::downgrade(staple));
        }
    }
    Ok(())
}

fn start(mut staples: mpsc::UnboundedReceiver<Weak<Staple>>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tend_all = async move {
        let turns = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        while let Some(staple) = staples.recv().await {
            spawn_local(tend(staple, turns.clone()));
        }
    };
    std::thread::Builder::new().name("ocsp".to_owned()).spawn(move || LocalSet::new().block_on(&runtime, tend_all))?;
    Ok(())
}

async fn tend(staple: Weak<Staple>, turns: Arc<Semaphore>) {
    let mut failures = 0;
    loop {
        let Some(staple) = staple.upgrade() else { return };
        let wait = staple.due().saturating_sub(now());
        let pause = if wait > 0 {
            Duration::from_secs(wait.unsigned_abs()).min(SLEEP_MAX)
        } else {
            let Ok(_turn) = turns.acquire().await else { return };
            work(&staple, &mut failures).await
        };
        drop(staple);
        sleep(pause).await;
    }
}

/// Fetches once. Answers after which time there may be more to do.
async fn work(staple: &Staple, failures: &mut u32) -> Duration {
    clock::update();
    match staple.refresh(now).await {
        Ok(()) => {
            *failures = 0;
            Duration::ZERO
        }
        Err(error) => {
            let pause = back_off(*failures);
            *failures = failures.saturating_add(1);
            let (name, responder) = (staple.name(), staple.responder());
            note(
                Level::Error,
                format_args!(
                    "{error} while requesting certificate status, responder: {responder}, certificate: \"{name}\"; next try in {} s",
                    pause.as_secs()
                ),
            );
            pause
        }
    }
}

fn back_off(failures: u32) -> Duration {
    let pause = BACK_OFF_FACTOR.checked_pow(failures).and_then(|factor| BACK_OFF_FIRST.checked_mul(factor));
    pause.map_or(BACK_OFF_MAX, |pause| pause.min(BACK_OFF_MAX))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_grow_to_a_limit() {
        let seconds: Vec<_> = (0..4).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(seconds, [10, 60, 300, 300]);
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
    }
}
