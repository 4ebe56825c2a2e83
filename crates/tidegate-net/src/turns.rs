//! Fair turns for tasks that stand for many clients.
//!
//! The event loop gives each task that is ready its turn, in the order in which they became ready, and the turn of a
//! connection's task serves one client. The task that accepts connections and the one that watches parked connections act
//! for all whom nobody serves yet. With a fixed number of clients a turn, those would wait for a round of the loop each
//! time, however many others a round serves: under thousands of busy clients some would never be heard. So such a task
//! serves as many clients in a turn as had theirs while it waited for it, and always a few.

use std::cell::Cell;

/// Clients who are served in a turn while nobody else is ready: short enough that nobody who becomes ready notices.
pub(crate) const CLIENTS_MIN: usize = 16;

thread_local! {
    static SERVED: Cell<u64> = const { Cell::new(0) };
}

/// Counts a client who had a turn.
pub(crate) fn note() {
    SERVED.set(SERVED.get().wrapping_add(1));
}

/// Ends the turn; answers, when the next one begins, how many clients may be served in it.
pub(crate) async fn next() -> usize {
    let before = SERVED.get();
    tokio::task::yield_now().await;
    let others = SERVED.get().wrapping_sub(before);
    usize::try_from(others).unwrap_or(usize::MAX).max(CLIENTS_MIN)
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, rc::Rc, task::Poll};

    use tokio::{
        runtime::{Builder, LocalOptions},
        task::spawn_local,
    };

    use super::*;

    /// Ends a turn and is ready for the next one.
    async fn be_ready_again() {
        let mut yielded = false;
        poll_fn(|cx| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// How many may be served after a turn in which this many others are ready.
    async fn after(others: usize) -> usize {
        let ended = Rc::new(Cell::new(false));
        for _ in 0..others {
            let ended = ended.clone();
            spawn_local(async move {
                while !ended.get() {
                    note();
                    be_ready_again().await;
                }
            });
        }
        let count = next().await;
        ended.set(true);
        next().await;
        count
    }

    #[test]
    fn as_many_as_the_others_had() {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).expect("an event loop");
        // What a runtime is blocked on is no task like the others.
        runtime.block_on(async {
            let counts = spawn_local(async { [after(0).await, after(5).await, after(500).await, after(3000).await] });
            let [none, few, hundreds, thousands] = counts.await.expect("no panic");
            assert_eq!(none, CLIENTS_MIN);
            // The event loop looks for events once in 61 turns; others may have theirs until then.
            assert!((CLIENTS_MIN..200).contains(&few), "{few}");
            assert!((500..700).contains(&hundreds), "{hundreds}");
            assert!((3000..3200).contains(&thousands), "{thousands}");
        });
    }
}
