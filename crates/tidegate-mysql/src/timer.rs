//! A time-out that costs next to nothing when it does not strike.
//!
//! Every wait of a connection has a deadline, and hardly any is reached. Arming a timer for each wait would take more
//! time than reading the answer, so one timer stays armed and is only moved when it fires before the deadline of the
//! wait under way, or was set for later than that.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of a connection. It belongs to the runtime that it was first polled on: [`reset`](Self::reset) before the
/// connection moves.
#[derive(Debug, Default)]
pub(crate) struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl LazyTimer {
    /// Ready once `deadline` has passed.
    pub(crate) fn poll_deadline(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }

    /// Forgets the timer.
    pub(crate) fn reset(&mut self) {
        self.sleep = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, time::Duration};

    #[tokio::test(start_paused = true)]
    async fn deadlines_in_any_order() {
        let mut timer = LazyTimer::default();
        for seconds in [10, 1, 5, 0] {
            let start = Instant::now();
            let deadline = start + Duration::from_secs(seconds);
            poll_fn(|cx| timer.poll_deadline(deadline, cx)).await;
            assert!((Instant::now() - start).abs_diff(Duration::from_secs(seconds)) <= Duration::from_millis(2));
        }
    }
}
