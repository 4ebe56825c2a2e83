//! Leases: a message belongs to one consumer for a time.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    broker::{Broker, State},
    hands::Hands,
    window::Place,
};

/// A message that somebody has.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) number: u64,
    pub(crate) queue: Arc<str>,
    pub(crate) place: Place,
    pub(crate) deadline_ms: u64,
    /// It is being settled: its time does not end meanwhile.
    pub(crate) is_settling: bool,
    /// In whose hands it is, if that consumer wants to know when it is not any more.
    pub(crate) hands: Option<Arc<Hands>>,
    /// Whoever has read the message knows that nothing depends on its end.
    pub(crate) is_plain: bool,
    /// No consumer has it: it was [claimed](Broker::claim).
    pub(crate) is_claim: bool,
    /// Where it waits when the lease ends: somebody has [said](Broker::waits) so meanwhile.
    pub(crate) waits_then: Option<Place>,
}

/// What somebody in line was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) place: Place,
    pub(crate) number: u64,
}

/// By what a consumer names a lease: the message and the number of the lease, which no other lease of any process has.
///
/// As a text `7-8c1f03`: the message's number, and the lease's in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The message's number in the store.
    pub message: u64,
    lease: u64,
}

/// A text that is no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoReceipt;

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.message, self.lease)
    }
}

impl FromStr for Receipt {
    type Err = NoReceipt;

    fn from_str(text: &str) -> Result<Self, NoReceipt> {
        let (message, lease) = text.split_once('-').ok_or(NoReceipt)?;
        // The standard library would take signs.
        let is_plain =
            message.bytes().all(|byte| byte.is_ascii_digit()) && lease.bytes().all(|byte| byte.is_ascii_hexdigit());
        let numbers = message.parse().ok().zip(u64::from_str_radix(lease, 16).ok());
        let (message, lease) = numbers.filter(|_| is_plain).ok_or(NoReceipt)?;
        Ok(Receipt { message, lease })
    }
}

/// A message that was just given to a consumer, who does not have it yet: dropping this gives it back.
#[derive(Debug)]
pub struct Lease {
    broker: Arc<Broker>,
    place: Place,
    number: u64,
    is_over: bool,
}

impl Lease {
    pub(crate) fn new(broker: &Arc<Broker>, grant: Grant) -> Self {
        Lease { broker: broker.clone(), place: grant.place, number: grant.number, is_over: false }
    }

    /// The message's number in the store.
    pub fn message(&self) -> u64 {
        self.place.id
    }

    /// Where the message stands in its queue.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What the consumer names the lease by.
    pub fn receipt(&self) -> Receipt {
        Receipt { message: self.place.id, lease: self.number }
    }

    /// The message is in these hands until it is settled, or its time is over.
    pub fn put_into(&self, hands: &Arc<Hands>) {
        let mut state = self.broker.state();
        if let Some(held) = state.leases.get_mut(&self.place.id).filter(|held| held.number == self.number) {
            hands.take();
            if let Some(before) = held.hands.replace(hands.clone()) {
                before.let_go();
            }
        }
    }

    /// Whether the message is settled, or its time is over.
    pub fn has_ended(&self) -> bool {
        self.broker.state().leases.get(&self.place.id).is_none_or(|held| held.number != self.number)
    }

    /// Whoever settles it need not look at the message: nothing depends on its end.
    pub fn note_plain(&self) {
        let mut state = self.broker.state();
        if let Some(held) = state.leases.get_mut(&self.place.id).filter(|held| held.number == self.number) {
            held.is_plain = true;
        }
    }

    /// What was [claimed](Broker::claim) is a consumer's from now on.
    pub fn given(&self) {
        let mut state = self.broker.state();
        let Some(held) = state.leases.get_mut(&self.place.id).filter(|held| held.number == self.number) else { return };
        if std::mem::replace(&mut held.is_claim, false) {
            let queue = held.queue.clone();
            state.queue(&queue).claimed -= 1;
        }
    }

    /// The consumer has it until it settles it, or its time is over.
    pub fn keep(mut self) {
        self.is_over = true;
    }

    /// There is no such message, or it did not wait when somebody looked.
    pub fn gone(mut self) {
        self.end(false);
    }

    fn end(&mut self, waits: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let mut state = self.broker.state();
        let is_ours =
            state.leases.get(&self.place.id).is_some_and(|held| held.number == self.number && !held.is_settling);
        // Otherwise its time is over already.
        if is_ours && let Some(queue) = state.end_lease(self.place.id, waits) {
            self.broker.advance(&mut state, &queue);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end(true);
    }
}

/// A message whose fate is being written into the store: nobody else gets it or settles it. Dropping this lets the lease go on.
#[derive(Debug)]
pub struct Settling {
    broker: Arc<Broker>,
    queue: Arc<str>,
    place: Place,
    is_plain: bool,
    is_over: bool,
}

impl Settling {
    /// Begins to settle a message that somebody has, unless somebody else does already.
    pub(crate) fn begin(broker: &Arc<Broker>, state: &mut State, message: u64) -> Option<Self> {
        let held = state.leases.get_mut(&message).filter(|held| !held.is_settling)?;
        held.is_settling = true;
        let (queue, place, deadline_ms) = (held.queue.clone(), held.place, held.deadline_ms);
        let is_plain = held.is_plain;
        state.deadlines.remove(&(deadline_ms, message));
        Some(Settling { broker: broker.clone(), queue, place, is_plain, is_over: false })
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Where the message stood in it.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether [`Lease::note_plain`] was said of it.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The message waits no more: it is gone, or is to wait later, if nobody has said [meanwhile](Broker::waits) that it does.
    pub fn gone(mut self) {
        self.end(false);
    }

    /// The message waits again, where it stood.
    pub fn back(mut self) {
        self.end(true);
    }

    fn end(&mut self, waits: bool) {
        self.is_over = true;
        let mut state = self.broker.state();
        if let Some(queue) = state.end_lease(self.place.id, waits) {
            self.broker.advance(&mut state, &queue);
        }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.broker.state();
        if let Some(held) = state.leases.get_mut(&self.place.id) {
            held.is_settling = false;
            let deadline_ms = held.deadline_ms;
            self.broker.limit(&mut state.deadlines, deadline_ms, self.place.id);
        }
    }
}

impl Broker {
    /// Takes a lease of a certain message of a queue, whether it waits or not, for whoever is about to change it: it is in no
    /// [count](crate::Counts) until a consumer is [given](Lease::given) it. `None` if somebody has it.
    pub fn claim(self: &Arc<Self>, queue: &str, place: Place, lease_ms: u64) -> Option<Lease> {
        let deadline_ms = self.now_ms().saturating_add(lease_ms);
        let mut state = self.state();
        if state.leases.contains_key(&place.id) {
            return None;
        }
        let name = state.name_of(queue);
        state.last_lease = state.last_lease.wrapping_add(1);
        let number = state.last_lease;
        let known = state.queue(&name);
        known.window.remove(place);
        known.leased += 1;
        known.claimed += 1;
        let held = Held {
            number,
            queue: name,
            place,
            deadline_ms,
            is_settling: false,
            hands: None,
            is_plain: false,
            is_claim: true,
            waits_then: None,
        };
        state.leases.insert(place.id, held);
        self.limit(&mut state.deadlines, deadline_ms, place.id);
        Some(Lease::new(self, Grant { place, number }))
    }

    /// Begins to settle the lease of a message of this queue. `None` if it is over, never was, or is being settled.
    pub fn settle(self: &Arc<Self>, queue: &str, receipt: Receipt) -> Option<Settling> {
        let mut state = self.state();
        let held = state.leases.get(&receipt.message)?;
        if held.number != receipt.lease || &*held.queue != queue || held.deadline_ms <= self.now_ms() {
            return None;
        }
        Settling::begin(self, &mut state, receipt.message)
    }

    /// Lets a lease end so many milliseconds from now instead. False if it is over, never was, or is being settled.
    pub fn extend(&self, queue: &str, receipt: Receipt, lease_ms: u64) -> bool {
        let now = self.now_ms();
        let mut state = self.state();
        let Some(held) = state.leases.get_mut(&receipt.message) else { return false };
        let is_held =
            held.number == receipt.lease && &*held.queue == queue && held.deadline_ms > now && !held.is_settling;
        if is_held {
            let before = std::mem::replace(&mut held.deadline_ms, now.saturating_add(lease_ms));
            let deadline_ms = held.deadline_ms;
            state.deadlines.remove(&(before, receipt.message));
            self.limit(&mut state.deadlines, deadline_ms, receipt.message);
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_read_as_they_are_written() {
        let receipt = Receipt { message: 7, lease: 0x8c_1f03 };
        assert_eq!(receipt.to_string(), "7-8c1f03");
        assert_eq!("7-8c1f03".parse(), Ok(receipt));
        for text in
            ["", "7", "7-", "-7", "+7-1", "7-+1", "7-g", "7-1-1", "7-11112222333344445", "18446744073709551616-1"]
        {
            assert_eq!(text.parse::<Receipt>(), Err(NoReceipt), "{text}");
        }
    }
}
