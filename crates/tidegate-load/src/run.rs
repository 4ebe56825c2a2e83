//! A run: its threads, its signals and its seconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::live::Live;
use crate::plan::Plan;
use crate::script::Script;
use crate::tally::Tally;
use crate::worker::{self, Outcome};

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) begin: Instant,
    /// The end of the warm-up.
    pub(crate) measured_from: Instant,
    /// No request begins after it.
    pub(crate) end: Option<Instant>,
    /// Requests that may still begin, where they are counted.
    left: Option<AtomicU64>,
    stopped: AtomicBool,
    /// A script cannot go on: no thread begins a further request.
    given_up: AtomicBool,
    /// Threads that have not come to their end.
    running: AtomicUsize,
    /// Seconds that the threads have handed over, all together.
    handed_over: AtomicU64,
    /// What each thread has counted and the main thread has not taken yet.
    outboxes: Vec<Mutex<Tally>>,
}

impl Shared {
    fn new(plan: &Plan) -> Self {
        let begin = Instant::now();
        let measured_from = begin + plan.warm_up;
        Self {
            begin,
            measured_from,
            end: plan.duration.map(|duration| measured_from + duration),
            left: plan.number.map(AtomicU64::new),
            stopped: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            running: AtomicUsize::new(plan.threads),
            handed_over: AtomicU64::new(0),
            outboxes: (0..plan.threads).map(|_| Mutex::new(Tally::new(plan.urls.len()))).collect(),
        }
    }

    /// Takes the right to begin requests; `false` when none is left.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> bool {
        let Some(left) = &self.left else { return true };
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(count));
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether the run was interrupted.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the run for all threads, once the requests under way have ended.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether a thread has given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Takes what a thread has counted in so many seconds.
    pub(crate) fn take_over(&self, thread: usize, tally: &Tally, seconds: u64) {
        self.outbox(thread).add(tally);
        self.handed_over.fetch_add(seconds, Ordering::Release);
    }

    /// How many requests may still begin, where they are counted.
    fn left(&self) -> Option<u64> {
        self.left.as_ref().map(|left| left.load(Ordering::Relaxed))
    }

    fn outbox(&self, thread: usize) -> MutexGuard<'_, Tally> {
        self.outboxes[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all threads have counted since the last call.
    fn collect(&self, sum: &mut Tally) {
        sum.reset();
        for thread in 0..self.outboxes.len() {
            let mut outbox = self.outbox(thread);
            sum.add(&outbox);
            outbox.reset();
        }
    }
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Second {
    /// How long it was.
    pub(crate) seconds: f64,
    /// Those that came before the end of the measured time.
    pub(crate) responses: u64,
    pub(crate) failed: u64,
    /// 50th, 90th and 99th percentile and the maximum, in microseconds.
    pub(crate) latency: [u64; 4],
}

/// What a run came to.
pub(crate) struct Results {
    pub(crate) tally: Tally,
    /// From the end of the warm-up to the end of the run.
    pub(crate) elapsed: Duration,
    pub(crate) seconds: Vec<Second>,
    pub(crate) unsent: u64,
    pub(crate) was_interrupted: bool,
    /// Time of the processor that the generator has used itself since the warm-up, in the program and in the system.
    pub(crate) processor: (Duration, Duration),
    /// Responses a second of the threads, ten times a second.
    pub(crate) rates: Vec<u64>,
    pub(crate) scripts: Vec<Script>,
}

impl Results {
    /// Responses a second.
    pub(crate) fn rate(&self) -> f64 {
        (self.tally.all.responses - self.tally.late) as f64 / self.elapsed.as_secs_f64().max(1e-6)
    }
}

/// The threads hand over what they have counted at each full second; it is looked at a little later.
const GRACE: Duration = Duration::from_millis(20);

/// A thread that gets no processor is waited for until then.
const GRACE_MAX: Duration = Duration::from_millis(500);

/// The exit status of a run that was interrupted a second time, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;

const SIGNAL: Token = Token(0);
const FINISHED: Token = Token(1);

/// Runs the plan to its end, or until it is interrupted.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn run(plan: &Plan, scripts: Vec<Script>, live: &mut Live) -> Result<Results, String> {
    raise_limit(plan)?;
    let fault = |error: io::Error| format!("the run cannot begin: {error}");
    // Blocked before the threads begin, which inherit that: the signals come here.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        signals.add(signal);
    }
    signals.thread_block().map_err(|error| fault(error.into()))?;
    let signal = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signal = signal.map_err(|error| fault(error.into()))?;
    let mut poll = Poll::new().map_err(fault)?;
    poll.registry().register(&mut SourceFd(&signal.as_fd().as_raw_fd()), SIGNAL, Interest::READABLE).map_err(fault)?;
    let finished = Waker::new(poll.registry(), FINISHED).map_err(fault)?;
    let shared = Shared::new(plan);
    let (outcomes, (seconds, before)) = thread::scope(|scope| {
        let mut scripts = scripts.into_iter();
        let threads: Vec<_> = (0..plan.threads)
            .map(|number| {
                let (script, shared, finished) = (scripts.next(), &shared, &finished);
                scope.spawn(move || {
                    let outcome = worker::run(plan, shared, number, script);
                    shared.running.fetch_sub(1, Ordering::Release);
                    // If nobody can be told, the next second is soon enough.
                    let _ = finished.wake();
                    outcome
                })
            })
            .collect();
        let watched = watch(plan, &shared, &mut poll, &signal, live);
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (outcomes, watched)
    });
    // What follows ends as any program does.
    let _ = signals.thread_unblock();
    let mut all = Vec::new();
    for outcome in outcomes {
        all.push(outcome.map_err(|_| "a thread has failed".to_owned())?.map_err(fault)?);
    }
    Ok(sum_up(plan, &shared, all, seconds, before))
}

fn sum_up(
    plan: &Plan,
    shared: &Shared,
    outcomes: Vec<Outcome>,
    seconds: Vec<Second>,
    before: (Duration, Duration),
) -> Results {
    let after = processor_time();
    let was_interrupted = shared.is_stopped();
    let mut last = shared.measured_from;
    let mut results = Results {
        tally: Tally::new(plan.urls.len()),
        elapsed: Duration::ZERO,
        seconds,
        unsent: 0,
        was_interrupted,
        processor: (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)),
        rates: Vec::new(),
        scripts: Vec::new(),
    };
    for outcome in outcomes {
        results.tally.add(&outcome.tally);
        results.unsent += outcome.unsent;
        last = last.max(outcome.last);
        results.rates.extend(outcome.rates);
        results.scripts.extend(outcome.script);
    }
    // Requests beyond the number that was asked for are not due.
    results.unsent = results.unsent.min(shared.left().unwrap_or(u64::MAX));
    let now = Instant::now();
    // All of its time counts in a run of a given time, even if the server has stopped to answer before its end.
    let end = match shared.end {
        _ if was_interrupted => now,
        Some(end) if now >= end => end,
        _ => last,
    };
    results.elapsed = end.saturating_duration_since(shared.measured_from);
    results
}

/// Shows the seconds as they pass, until all threads have ended. Answers them, and what the generator had used of the processor when
/// the warm-up was over.
fn watch(
    plan: &Plan,
    shared: &Shared,
    poll: &mut Poll,
    signal: &SignalFd,
    live: &mut Live,
) -> (Vec<Second>, (Duration, Duration)) {
    const SECOND: Duration = Duration::from_secs(1);
    let mut events = Events::with_capacity(4);
    let mut seconds = Vec::new();
    let mut tally = Tally::new(plan.urls.len());
    let (mut since, mut number) = (shared.measured_from, 1);
    let mut next = since + SECOND;
    let mut used_before = None;
    loop {
        let now = Instant::now();
        if now >= shared.measured_from {
            used_before.get_or_insert_with(processor_time);
        }
        let wait = match used_before {
            Some(_) => (next + GRACE).saturating_duration_since(now).max(GRACE),
            None => shared.measured_from.saturating_duration_since(now),
        };
        // An error is an interruption: the loop looks again.
        let _ = poll.poll(&mut events, Some(wait));
        while let Ok(Some(_)) = signal.read_signal() {
            if shared.stopped.swap(true, Ordering::Relaxed) {
                // Twice: a script does not come to an end.
                live.end();
                std::process::exit(INTERRUPTED);
            }
        }
        let now = Instant::now();
        let over = shared.running.load(Ordering::Acquire) == 0;
        let is_whole = shared.handed_over.load(Ordering::Acquire) >= plan.threads as u64 * number;
        if !over && now < next + if is_whole { GRACE } else { GRACE_MAX } {
            continue;
        }
        shared.collect(&mut tally);
        let until = if over { now } else { next };
        let length = until.min(shared.end.unwrap_or(until)).saturating_duration_since(since).as_secs_f64();
        if !tally.is_empty() || !over {
            let second = Second::new(&tally, length);
            live.second(&second, until.saturating_duration_since(shared.begin), &tally);
            // A short rest says little about a rate, and what is waited for behind the end nothing.
            if shared.end.is_none_or(|end| since < end) && (length >= 0.5 || seconds.is_empty()) {
                seconds.push(second);
            }
        }
        if over {
            live.end();
            return (seconds, used_before.unwrap_or_else(processor_time));
        }
        since = next;
        next += SECOND;
        number += 1;
    }
}

impl Second {
    fn new(tally: &Tally, seconds: f64) -> Self {
        let latency = &tally.all.latency;
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| latency.value_at_quantile(quantile));
        let (responses, failed) = (tally.all.responses - tally.late, tally.all.failed);
        Self { seconds: seconds.max(1e-3), responses, failed, latency: [p50, p90, p99, latency.max()] }
    }
    /// Responses a second.
    pub(crate) fn rate(&self) -> f64 {
        self.responses as f64 / self.seconds
    }
}

/// Descriptors of the run itself, and of each thread's loop.
const FILES: u64 = 16;
const FILES_OF_THREAD: u64 = 3;

/// Lets the process have as many descriptors as it may.
///
/// # Errors
/// Those are fewer than the connections need: most of what such a run counts would be its own failures.
fn raise_limit(plan: &Plan) -> Result<(), String> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let limit = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    let connections = plan.connections as u64;
    // No more are opened than there are requests, unless they stand by for a rate, or others come before.
    let opened = match plan.number {
        Some(number) if plan.rate.is_none() && plan.warm_up.is_zero() => number.min(connections),
        _ => connections,
    };
    let needed = opened + plan.threads as u64 * FILES_OF_THREAD + FILES;
    if needed > limit {
        return Err(format!(
            "{connections} connections need {needed} open files, but this process may have {limit}: `ulimit -Hn` tells the limit"
        ));
    }
    Ok(())
}

fn processor_time() -> (Duration, Duration) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (Duration::ZERO, Duration::ZERO) };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(value.tv_sec().max(0) as u64, (value.tv_usec().max(0) * 1000) as u32)
    };
    (time(usage.user_time()), time(usage.system_time()))
}
