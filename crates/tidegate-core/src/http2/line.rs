//! Who is next: the streams with something to send, by their priorities (RFC 9218, section 10).
//!
//! The most urgent ones go first. Among those that are as urgent, responses of which a part is of use take turns; the others
//! are sent one after the other, the oldest first. The two groups take turns as well, so that neither waits for ever.

use std::collections::VecDeque;

use tidegate_http::http2::priority::Priority;

/// A line of streams, each with its number.
pub(super) struct Line<T> {
    lanes: [Lane<T>; Priority::URGENCIES],
    /// Bits of the lanes that are not empty.
    filled: u8,
}

/// Streams of one urgency.
struct Lane<T> {
    /// By number.
    whole: VecDeque<(u32, T)>,
    /// In the order of their turns.
    shared: VecDeque<(u32, T)>,
    /// Whose turn it is, if both have any.
    shared_is_next: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let lane = |_| Lane { whole: VecDeque::new(), shared: VecDeque::new(), shared_is_next: false };
        Line { lanes: std::array::from_fn(lane), filled: 0 }
    }
}

impl<T> Line<T> {
    /// Lines a stream up behind those of its priority.
    pub(super) fn push(&mut self, priority: Priority, id: u32, stream: T) {
        let lane = self.lane(priority);
        if priority.incremental {
            lane.shared.push_back((id, stream));
        } else {
            let at = lane.whole.partition_point(|&(other, _)| other < id);
            lane.whole.insert(at, (id, stream));
        }
    }
    /// Puts a stream back whose turn could not be used: it is the next one of its priority.
    pub(super) fn put_back(&mut self, priority: Priority, id: u32, stream: T) {
        let lane = self.lane(priority);
        lane.shared_is_next = priority.incremental;
        let group = if priority.incremental { &mut lane.shared } else { &mut lane.whole };
        group.push_front((id, stream));
    }
    /// Takes the stream whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let urgency = self.filled.trailing_zeros() as usize;
        let lane = self.lanes.get_mut(urgency)?;
        let from_shared = lane.whole.is_empty() || (lane.shared_is_next && !lane.shared.is_empty());
        lane.shared_is_next = !from_shared;
        let group = if from_shared { &mut lane.shared } else { &mut lane.whole };
        let next = group.pop_front();
        if lane.whole.is_empty() && lane.shared.is_empty() {
            self.filled &= !(1 << urgency);
        }
        next.map(|(_, stream)| stream)
    }
    /// Takes a stream out of the line, in which it has this priority.
    pub(super) fn remove(&mut self, priority: Priority, id: u32) -> Option<T> {
        let lane = &mut self.lanes[usize::from(priority.urgency)];
        let group = if priority.incremental { &mut lane.shared } else { &mut lane.whole };
        let at = group.iter().position(|&(other, _)| other == id)?;
        let removed = group.remove(at);
        if lane.whole.is_empty() && lane.shared.is_empty() {
            self.filled &= !(1 << priority.urgency);
        }
        removed.map(|(_, stream)| stream)
    }
    /// Empties the line.
    pub(super) fn clear(&mut self) {
        *self = Line::default();
    }
    /// The lane of a priority, which is about to be filled.
    fn lane(&mut self, priority: Priority) -> &mut Lane<T> {
        self.filled |= 1 << priority.urgency;
        &mut self.lanes[usize::from(priority.urgency)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    /// The order of turns of streams that each want two; `streams` are numbers, urgencies and whether a part is of use.
    #[track_caller]
    fn check(streams: &[(u32, u8, bool)], expected: &[u32]) {
        let mut line = Line::default();
        for &(id, urgency, incremental) in streams {
            line.push(priority(urgency, incremental), id, (id, urgency, incremental, 2));
        }
        let mut turns = Vec::new();
        while let Some((id, urgency, incremental, left)) = line.pop() {
            turns.push(id);
            if left > 1 {
                line.push(priority(urgency, incremental), id, (id, urgency, incremental, left - 1));
            }
        }
        assert_eq!(turns, expected);
        assert_eq!(line.filled, 0);
    }

    #[test]
    fn turns() {
        check(&[(1, 3, true), (3, 3, true), (5, 3, true)], &[1, 3, 5, 1, 3, 5]);
        check(&[(5, 3, false), (1, 3, false), (3, 3, false)], &[1, 1, 3, 3, 5, 5]);
        check(&[(1, 7, true), (3, 0, false), (5, 3, true), (7, 0, true)], &[3, 7, 3, 7, 5, 5, 1, 1]);
        check(&[(1, 3, false), (3, 3, false), (5, 3, true)], &[1, 5, 1, 5, 3, 3]);
    }

    #[test]
    fn streams_leave_and_come_back() {
        let mut line = Line::default();
        for id in [1, 3, 5] {
            line.push(priority(3, true), id, id);
        }
        assert_eq!(line.pop(), Some(1));
        line.put_back(priority(3, true), 1, 1);
        assert_eq!(line.remove(priority(3, true), 3), Some(3));
        assert_eq!(line.remove(priority(3, true), 3), None);
        assert_eq!(line.remove(priority(3, false), 1), None);
        line.push(priority(1, false), 3, 3);
        assert_eq!((line.pop(), line.pop(), line.pop(), line.pop()), (Some(3), Some(1), Some(5), None));
    }
}
