//! Who is likely to join the open group while the disk is busy.
//!
//! Clients that have been answered come back with their next statement; nobody else is known. So a group that has as many
//! statements as clients were answered has nobody to wait for: it is written while the disk still works, and the next sync begins as soon
//! as that is done, without a pause in which nobody asks the disk for anything. Clients that do not come back are forgotten when the disk
//! has waited for them twice.

use std::cell::Cell;

/// How many clients of a thread are expected.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    /// Those who were answered before the group that was committed last, and since.
    counts: Cell<[u32; 2]>,
}

impl Returning {
    /// The statements of a group have been answered.
    pub(super) fn answered(&self, members: u32) {
        let [before, since] = self.counts.get();
        self.counts.set([before, since.saturating_add(members)]);
    }

    /// Whether a group of so many statements has everybody who is expected. False if nobody is known.
    pub(super) fn are_all(&self, members: u32) -> bool {
        let [before, since] = self.counts.get();
        let expected = before.saturating_add(since);
        expected > 0 && members >= expected
    }

    /// A group of so many statements has been committed.
    pub(super) fn committed(&self, members: u32) {
        let [before, since] = self.counts.get();
        // Whoever of those `before` is not among them is not expected any longer.
        self.counts.set([since.saturating_sub(members.saturating_sub(before)), 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_answered_is_expected_for_two_groups() {
        let returning = Returning::default();
        assert!(!returning.are_all(1), "nobody is known");
        returning.answered(8);
        assert!(!returning.are_all(7) && returning.are_all(8));
        returning.committed(8);
        assert!(!returning.are_all(8), "all are there");
        returning.answered(6);
        // The disk did not wait for two of them.
        returning.committed(4);
        returning.answered(3);
        assert!(!returning.are_all(4) && returning.are_all(5));
        // One of those two comes late; the other has gone.
        returning.committed(1);
        assert!(!returning.are_all(2) && returning.are_all(3));
        returning.committed(0);
        assert!(!returning.are_all(3));
    }
}
