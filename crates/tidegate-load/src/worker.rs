//! The event loop of a thread.

use std::cmp::Reverse;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::connection::Connection;
use crate::core::Core;
use crate::pace::{Pace, Schedule};
use crate::plan::Plan;
use crate::run::Shared;
use crate::script::Script;
use crate::tally::Tally;

/// How often requests are looked at that wait too long, and whether the run is interrupted.
const SWEEP: Duration = Duration::from_millis(100);

/// How often counts go to the main thread, which shows them.
const SECOND: Duration = Duration::from_secs(1);

/// Events taken at a time.
const EVENTS: usize = 1024;

/// The token of the timer; connections have theirs from 0.
const TIMER: Token = Token(usize::MAX - 1);

/// What a thread comes to.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// When the last request ended.
    pub(crate) last: Instant,
    /// Requests that were due and could not be begun: all connections were busy.
    pub(crate) unsent: u64,
    /// Responses a second, ten times a second.
    pub(crate) rates: Vec<u64>,
    pub(crate) script: Option<Script>,
}

/// A thread's connections and its clock.
struct Worker<'r> {
    core: Core<'r>,
    shared: &'r Shared,
    number: usize,
    connections: Vec<Connection>,
    poll: Poll,
    /// Wakes the thread when a request is due, exactly: the poll's own time-out counts whole milliseconds.
    timer: TimerFd,
    timer_at: Option<Instant>,
    next_sweep: Instant,
    next_second: Instant,
    total: Tally,
    rates: Rates,
}

/// Samples of how many responses come.
struct Rates {
    since: Instant,
    /// Responses that were counted before the last hand-over.
    responses: u64,
    seen: u64,
    samples: Vec<u64>,
}

/// Samples that a thread keeps: a day of them.
const SAMPLES_MAX: usize = 864_000;

/// Loads the server with this thread's share until the run ends.
///
/// # Errors
/// The system gives no descriptors for the loop itself.
pub(crate) fn run(plan: &Plan, shared: &Shared, number: usize, script: Option<Script>) -> io::Result<Outcome> {
    let mut worker = Worker::new(plan, shared, number, script)?;
    worker.start();
    worker.turn_until_end()?;
    Ok(worker.finish())
}

impl<'r> Worker<'r> {
    fn new(plan: &'r Plan, shared: &'r Shared, number: usize, script: Option<Script>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER, Interest::READABLE)?;
        let pace = match plan.rate {
            None => Pace::Closed,
            Some(rate) => Pace::Even(Schedule::new(shared.begin, rate, number, plan.threads)),
        };
        let core = Core::new(plan, shared, poll.registry().try_clone()?, script, pace, number);
        // The first connections go to the first threads where there is a rest.
        let share = plan.connections / plan.threads + usize::from(number < plan.connections % plan.threads);
        let now = Instant::now();
        Ok(Self {
            connections: (0..share).map(|number| Connection::new(number as u32, &core)).collect(),
            core,
            shared,
            number,
            poll,
            timer,
            timer_at: None,
            next_sweep: now + SWEEP,
            next_second: shared.measured_from + SECOND,
            total: Tally::new(plan.urls.len()),
            rates: Rates { since: shared.measured_from, responses: 0, seen: 0, samples: Vec::new() },
        })
    }

    /// Gives all places something to do.
    fn start(&mut self) {
        let core = &mut self.core;
        for connection in &mut self.connections {
            for _ in 0..core.plan.streams {
                connection.seek(core);
            }
            // Connections stand by the time that their first requests are due.
            if matches!(core.pace, Pace::Even(_)) && core.plan.keep_alive {
                connection.stand_by(core);
            }
        }
    }

    fn turn_until_end(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.core.now = Instant::now();
            for event in &events {
                // The timer has no connection: it has done its work by waking.
                if let Some(connection) = self.connections.get_mut(event.token().0) {
                    connection.ready(event, &mut self.core);
                    self.serve_eager();
                }
            }
            self.core.now = Instant::now();
            self.serve_later();
            self.serve_due();
            // A full second that has passed is handed over at once: until then there would be nothing to wait for.
            if self.core.now >= self.next_sweep.min(self.next_second) {
                self.sweep();
            }
            if self.is_done() {
                return Ok(());
            }
        }
    }

    /// How long to wait for events.
    fn timeout(&mut self) -> Duration {
        let now = self.core.now;
        let mut until = self.next_sweep.min(self.next_second);
        if let Some(end) = self.shared.end.filter(|end| *end > now) {
            until = until.min(end);
        }
        if let Some(Reverse((time, _))) = self.core.later.peek() {
            until = until.min(*time);
        }
        if let Pace::Even(schedule) = &self.core.pace {
            let due = schedule.due();
            if !self.core.idle.is_empty() && due > now && !self.core.is_ending && self.timer_at != Some(due) {
                let after = Expiration::OneShot(TimeSpec::from_duration(due - now));
                // The sweep is the fallback.
                if self.timer.set(after, TimerSetTimeFlags::empty()).is_ok() {
                    self.timer_at = Some(due);
                }
            }
        }
        until.saturating_duration_since(now)
    }

    /// Places that have become free take their next requests.
    #[inline]
    fn serve_eager(&mut self) {
        while let Some(number) = self.core.eager.pop() {
            self.connections[number as usize].seek(&mut self.core);
        }
    }

    /// Places whose pause is over.
    fn serve_later(&mut self) {
        while let Some(Reverse((time, number))) = self.core.later.peek().copied() {
            if time > self.core.now && !self.core.is_ending {
                return;
            }
            self.core.later.pop();
            self.connections[number as usize].seek_now(&mut self.core);
            self.serve_eager();
        }
    }

    /// Requests that are due go to the connections that have waited longest.
    fn serve_due(&mut self) {
        if !matches!(self.core.pace, Pace::Even(_)) {
            return;
        }
        while let Some(number) = self.core.idle.pop_front() {
            let Some(flight) = self.core.begin() else {
                self.core.idle.push_front(number);
                return;
            };
            self.connections[number as usize].dispatch(flight, &mut self.core);
            self.serve_eager();
        }
    }

    /// What is done ten times a second, and at each full second.
    fn sweep(&mut self) {
        let now = self.core.now;
        self.next_sweep = now + SWEEP;
        for connection in &mut self.connections {
            connection.sweep(&mut self.core);
        }
        self.serve_eager();
        self.rates.sample(now, self.core.tally.all.responses);
        if now >= self.next_second {
            let passed = (now - self.next_second).as_secs() as u32 + 1;
            self.next_second += SECOND * passed;
            self.hand_over(passed.into());
        }
    }

    /// Gives what was counted in some seconds to the main thread.
    fn hand_over(&mut self, seconds: u64) {
        let tally = &mut self.core.tally;
        self.rates.responses += tally.all.responses;
        self.shared.take_over(self.number, tally, seconds);
        self.total.add(tally);
        tally.reset();
    }

    fn is_done(&mut self) -> bool {
        let core = &mut self.core;
        if core.script.as_ref().is_some_and(|script| script.fault().is_some()) {
            self.shared.give_up();
        }
        let is_over = self.shared.end.is_some_and(|end| core.now >= end) || self.shared.is_given_up();
        if is_over || core.script.as_ref().is_some_and(Script::has_stopped) {
            core.is_ending = true;
        }
        (core.is_ending && core.in_flight == 0) || self.shared.is_stopped()
    }

    fn finish(mut self) -> Outcome {
        self.hand_over(0);
        let now = self.core.now;
        let unsent = match &self.core.pace {
            Pace::Even(schedule) => schedule.left_before(self.shared.end.map_or(now, |end| end.min(now))),
            Pace::Closed => 0,
        };
        Outcome { tally: self.total, last: self.core.last, unsent, rates: self.rates.samples, script: self.core.script }
    }
}

impl Rates {
    /// Takes a sample; `current` were counted since the last hand-over.
    fn sample(&mut self, now: Instant, current: u64) {
        let span = now.saturating_duration_since(self.since);
        if span < SWEEP || self.samples.len() >= SAMPLES_MAX {
            return;
        }
        let responses = self.responses + current;
        self.samples.push(((responses - self.seen) as f64 / span.as_secs_f64()) as u64);
        (self.since, self.seen) = (now, responses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_day_are_kept() {
        let begin = Instant::now();
        let mut rates = Rates { since: begin, responses: 0, seen: 0, samples: Vec::new() };
        for number in 1..=SAMPLES_MAX as u32 + 10 {
            // Too early for a sample.
            rates.sample(begin + SWEEP * number - SWEEP / 2, u64::from(number) * 7);
            rates.sample(begin + SWEEP * number, u64::from(number) * 7);
        }
        assert_eq!((rates.samples.len(), rates.samples[0]), (SAMPLES_MAX, 70));
        assert!(rates.samples.iter().all(|sample| (69..=70).contains(sample)));
    }
}
