//! `reserve`: a client gets a job of one of its tubes, and waits for one if there is none.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use tidegate_http::beanstalk::{answer, write_job};
use tidegate_net::{clock, session::Session, worker::Worker};
use tidegate_queue::{InLine, Lease, Turn};

use super::{client::Client, held::Held, jobs::Job, stats::Counters, tubes::Tube};
use crate::queue::{
    store::{Store, StoreError},
    tables::READY,
};

/// How long a client has a job until it is read how long it may.
const LEASE_MS: u64 = 60_000;
/// Bytes of a client's next commands that are read while it waits for a job.
const INPUT_BYTES_MAX: usize = 4 << 10;

/// The lines that a client stands in, each with its tube.
struct Lines(Vec<(Arc<Tube>, InLine)>);

/// A client is waiting, for as long as this lives.
struct Waiting<'a>(&'a Counters);

impl<'a> Waiting<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(counters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Commands that ask for a job in the same way, on their way to jobs.
pub(super) struct Reserving<'a> {
    store: &'a Store,
    lines: Lines,
    /// When the client has waited for long enough; `None` for never.
    end_ms: Option<u64>,
    /// What has come while the client waited: of which line.
    came: Option<(usize, Vec<Lease>)>,
}

impl<'a> Reserving<'a> {
    /// Gets in line for up to `count` jobs.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn begin(
        store: &'a Store,
        client: &mut Client,
        count: usize,
        timeout_s: Option<u32>,
    ) -> Result<Self, StoreError> {
        client.works();
        // Jobs of one tube are in their order; those of several are compared one by one.
        let max = if client.watched.len() == 1 { count } else { 1 };
        for watched in &client.watched {
            // The broker knows of a pause then.
            store.settings(&watched.0.name).await?;
        }
        let end_ms = timeout_s.map(|seconds| clock::steady_ms().saturating_add(u64::from(seconds) * 1000));
        let tubes = client.watched.iter().map(|watched| watched.0.clone());
        let lines = tubes.map(|tube| (tube.clone(), store.broker().line_up(&tube.name, max, LEASE_MS))).collect();
        Ok(Reserving { store, lines: Lines(lines), end_ms, came: None })
    }

    /// Gives the client what is to be had now; answers how many jobs that is.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn take(
        &mut self,
        client: &mut Client,
        ttr_default_ms: u64,
        output: &mut Vec<u8>,
    ) -> Result<usize, StoreError> {
        loop {
            let came = match self.came.take() {
                Some(came) => Some(came),
                None => self.lines.take_first(self.store).await?,
            };
            let Some((at, leases)) = came else { return Ok(0) };
            let tube = self.lines.0[at].0.clone();
            let given = give(self.store, &tube, leases, ttr_default_ms, client, output).await?;
            if given > 0 {
                return Ok(given);
            }
        }
    }

    /// Leaves what may come to others for as long as the client does not wait for it. It keeps its places in the lines.
    pub(super) fn step_aside(&mut self) {
        self.lines.0.iter_mut().for_each(|(_, line)| line.step_aside());
    }

    /// Waits until there is something, or answers why not. `input` gets what the client sends meanwhile. A worker that ends lets its
    /// clients wait no longer than `wait_max`.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn wait(
        &mut self,
        session: &Session,
        (worker, wait_max): (&Worker, Duration),
        client: &mut Client,
        input: &mut Vec<u8>,
    ) -> Result<Option<&'static [u8]>, StoreError> {
        let may_wait_ms = client.may_wait_ms();
        if may_wait_ms == Some(0) {
            return Ok(Some(answer::DEADLINE_SOON));
        }
        let left_ms = self.end_ms.map(|end| end.saturating_sub(clock::steady_ms()));
        if left_ms == Some(0) {
            return Ok(Some(answer::TIMED_OUT));
        }
        let (wait_ms, over) = match (left_ms, may_wait_ms) {
            (Some(left), Some(may)) if may < left => (Some(may), answer::DEADLINE_SOON),
            (None, Some(may)) => (Some(may), answer::DEADLINE_SOON),
            (left, _) => (left, answer::TIMED_OUT),
        };
        let _waiting = Waiting::new(&client.common.counters);
        let timer = async {
            match wait_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let farewell = async {
            worker.quitting().await;
            tokio::time::sleep(wait_max).await;
        };
        tokio::pin!(timer, farewell);
        loop {
            tokio::select! {
                biased;
                (at, turn) = poll_fn(|cx| self.lines.poll_turn(cx)) => match turn {
                    Turn::Scan(scan) => Box::pin(self.store.scan(&self.lines.0[at].0.name, scan)).await?,
                    Turn::Messages(leases) => {
                        self.came = Some((at, leases));
                        return Ok(None);
                    }
                },
                () = &mut timer => {
                    self.store.home.due.have_come().await;
                    self.came = self.lines.take_first(self.store).await?;
                    return Ok(self.came.is_none().then_some(over));
                }
                // Others serve it when it comes again.
                () = &mut farewell => return Ok(Some(answer::TIMED_OUT)),
                // Who sends no more and waits for a job gets what is said to those who have waited for too long.
                () = closed(session, input) => return Ok(Some(answer::TIMED_OUT)),
            }
        }
    }
}

impl Lines {
    /// What is to be had now: of the tube with the most urgent job.
    async fn take_first(&mut self, store: &Store) -> Result<Option<(usize, Vec<Lease>)>, StoreError> {
        let mut best: Option<(usize, Vec<Lease>)> = None;
        for (at, (tube, line)) in self.0.iter_mut().enumerate() {
            while let Some(turn) = line.turn_now().await {
                match turn {
                    Turn::Scan(scan) => store.scan(&tube.name, scan).await?,
                    Turn::Messages(leases) => {
                        let place = leases.first().map(Lease::place);
                        let is_first = |best: &Vec<Lease>| place < best.first().map(Lease::place);
                        // The others go back where they were.
                        if best.as_ref().is_none_or(|(_, best)| is_first(best)) {
                            best = Some((at, leases));
                        }
                        break;
                    }
                }
            }
        }
        Ok(best)
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Turn)> {
        for (at, (_, line)) in self.0.iter_mut().enumerate() {
            if let Poll::Ready(turn) = line.poll_turn(cx) {
                return Poll::Ready((at, turn));
            }
        }
        Poll::Pending
    }
}

/// Waits until the client closes its end, and takes what it sends until then, up to a limit.
async fn closed(session: &Session, input: &mut Vec<u8>) {
    poll_fn(|cx| {
        while input.len() < INPUT_BYTES_MAX {
            if std::task::ready!(session.stream.poll_read_ready(cx)).is_err() {
                return Poll::Ready(());
            }
            input.reserve(INPUT_BYTES_MAX / 4);
            match session.stream.try_read_buf(input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    })
    .await;
}

/// Gives a client jobs that it has leases of; answers how many were there.
async fn give(
    store: &Store,
    tube: &Arc<Tube>,
    leases: Vec<Lease>,
    ttr_default_ms: u64,
    client: &mut Client,
    output: &mut Vec<u8>,
) -> Result<usize, StoreError> {
    let ids: Vec<u64> = leases.iter().map(Lease::message).collect();
    let mut jobs = store.read_jobs(&ids, true).await?;
    let mut given = 0;
    for lease in leases {
        let is_it = |job: &Job| job.place.id == lease.message() && job.state == READY && job.tube == *tube.name;
        match jobs.iter().position(is_it) {
            Some(at) => {
                let job = jobs.swap_remove(at);
                if job.is_plain {
                    lease.note_plain();
                }
                hold(store, tube, lease, job.ttr_ms.unwrap_or(ttr_default_ms), client);
                write_job("RESERVED", job.place.id, &job.body, output);
                given += 1;
            }
            None => {
                lease.gone();
                // If its time to live is over, the keeper has left it alone as long as somebody had it.
                store.home.due_changed.notify_one();
            }
        }
    }
    Ok(given)
}

/// A client has a job now, for its time to run.
pub(super) fn hold(store: &Store, tube: &Arc<Tube>, lease: Lease, ttr_ms: u64, client: &mut Client) {
    store.broker().extend(&tube.name, lease.receipt(), ttr_ms);
    let deadline_ms = clock::steady_ms().saturating_add(ttr_ms);
    let held = Held { tube: tube.clone(), ttr_ms, deadline_ms, lease };
    if let Some(earlier) = client.held.insert(held) {
        // Its time was over, or it could not have been given again.
        earlier.lease.keep();
    }
}
