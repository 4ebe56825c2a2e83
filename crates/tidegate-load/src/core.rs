//! What the connections of a thread share: the requests to send, the time, and everything that is counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use mio::Registry;

use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::run::Shared;
use crate::script::Script;
use crate::tally::Tally;

/// Bytes read at a time: what one turn of a large response brings.
const READ_BYTES: usize = 64 << 10;

/// A connection that could not be made is tried again after this time: whoever refuses connections gets no more of them than
/// the kernel can answer beside other work.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// A request that was begun and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// When it was due; a latency counts from here.
    pub(crate) start: Instant,
    /// When it was sent, or when its connection was begun; the time-out counts from here.
    pub(crate) sent: Instant,
    /// Number of its URL.
    pub(crate) url: u16,
    /// How many connections have ended without a look at it or at any other request.
    pub(crate) refusals: u8,
}

/// Shared by the connections of a thread.
pub(crate) struct Core<'r> {
    pub(crate) plan: &'r Plan,
    shared: &'r Shared,
    pub(crate) registry: Registry,
    pub(crate) script: Option<Script>,
    /// As late as the last response, or the beginning of this turn.
    pub(crate) now: Instant,
    /// What was counted since it was handed over last.
    pub(crate) tally: Tally,
    pub(crate) pace: Pace,
    /// Where the next request stands in the order of URLs.
    next: usize,
    /// Places for a request that want one, by their connections: those that look for one now, ...
    pub(crate) eager: Vec<u32>,
    /// ... those that wait until one is due, ...
    pub(crate) idle: VecDeque<u32>,
    /// ... and those that pause.
    pub(crate) later: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Requests under way.
    pub(crate) in_flight: usize,
    /// No further request is begun.
    pub(crate) is_ending: bool,
    /// When the last request of the measured time ended, with a response or without.
    pub(crate) last: Instant,
    /// What all connections read into.
    pub(crate) buf: Box<[u8]>,
}

impl<'r> Core<'r> {
    pub(crate) fn new(
        plan: &'r Plan,
        shared: &'r Shared,
        registry: Registry,
        script: Option<Script>,
        pace: Pace,
        thread: usize,
    ) -> Self {
        Core {
            plan,
            shared,
            registry,
            script,
            now: Instant::now(),
            tally: Tally::new(plan.urls.len()),
            pace,
            // Threads begin at different places of the order.
            next: thread * plan.order.len() / plan.threads.max(1),
            eager: Vec::new(),
            idle: VecDeque::new(),
            later: BinaryHeap::new(),
            in_flight: 0,
            is_ending: false,
            last: shared.measured_from,
            buf: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }

    /// The next request to begin, if one is to begin now.
    #[inline]
    pub(crate) fn begin(&mut self) -> Option<Flight> {
        let start = match &self.pace {
            Pace::Closed => self.now,
            Pace::Even(schedule) => schedule.due(),
        };
        if self.is_ending || start > self.now || self.shared.end.is_some_and(|end| start >= end) {
            return None;
        }
        // Those of the warm-up are not counted.
        if start >= self.shared.measured_from && !self.shared.take(1) {
            self.is_ending = true;
            return None;
        }
        if let Pace::Even(schedule) = &mut self.pace {
            schedule.advance();
        }
        let url = self.plan.order[self.next % self.plan.order.len()];
        self.next = (self.next + 1) % self.plan.order.len();
        self.in_flight += 1;
        Some(Flight { start, sent: self.now, url, refusals: 0 })
    }

    /// A request begins now, since its connection stands; one of the warm-up stays one.
    pub(crate) fn begin_again(&self, flight: &mut Flight) {
        let is_counted = |time: Instant| time >= self.shared.measured_from;
        if is_counted(flight.start) == is_counted(self.now) {
            flight.start = self.now;
        }
    }

    /// A script has put further requests into the message of one that was begun: they count too.
    pub(crate) fn begin_more(&mut self, start: Instant, count: u64) {
        if start >= self.shared.measured_from {
            self.shared.take(count);
        }
    }

    /// A response is complete. Its request stays under way until [`Self::land`].
    #[inline]
    pub(crate) fn responded(&mut self, flight: &Flight, status: u16) {
        self.now = Instant::now();
        if flight.start < self.shared.measured_from {
            return;
        }
        // Between two looks at the requests under way.
        if self.now.saturating_duration_since(flight.sent) > self.plan.timeout {
            self.tally.failure(flight.url.into(), &Failure::late());
            self.last = self.now;
            return;
        }
        let micros = self.now.saturating_duration_since(flight.start).as_micros() as u64;
        self.tally.response(flight.url.into(), status, micros);
        self.last = self.now;
        if self.shared.end.is_some_and(|end| self.now > end) {
            self.tally.late += 1;
        }
    }

    /// A request has ended, with or without a response: its place is free.
    #[inline]
    pub(crate) fn land(&mut self, connection: u32) {
        self.in_flight -= 1;
        self.eager.push(connection);
    }

    /// A request was begun that nobody can make: the run ends.
    pub(crate) fn abandon(&mut self) {
        self.in_flight -= 1;
        self.is_ending = true;
    }

    /// A request has failed; its place is free.
    pub(crate) fn failed(&mut self, connection: u32, flight: &Flight, failure: &Failure) {
        if flight.start >= self.shared.measured_from {
            self.tally.failure(flight.url.into(), failure);
            self.last = self.now;
        }
        self.in_flight -= 1;
        if failure.kind.is_connecting() {
            self.later.push(Reverse((self.now + PAUSE, connection)));
        } else {
            self.eager.push(connection);
        }
    }

    /// Something went wrong that no request was about.
    pub(crate) fn fault(&mut self, failure: &Failure) {
        if self.now >= self.shared.measured_from {
            self.tally.failures.count(failure);
        }
    }

    /// Bytes of responses have come.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        if self.now >= self.shared.measured_from {
            self.tally.bytes += bytes as u64;
        }
    }
}
