//! When a client makes more work than it is worth.
//!
//! What is bounded elsewhere: requests under way (`open`), header blocks (`input`), answers that the client does not read
//! (`serve` reads no further frame then), bytes of bodies (windows). Here is what such bounds let through: frames that are
//! cheap to send and bring nothing.

use tidegate_http::http2::HEADER_BYTES;

/// Bytes that need not be content. Source: nginx, `ngx_http_v2_read_handler`, "http2 flood detected".
const OVERHEAD_BYTES: u64 = 1 << 20;

/// So much of what comes may be something else than content.
const OVERHEAD_FACTOR: u64 = 8;

/// Requests that a client may take back ahead of those that it lets be answered.
const RESETS_MAX: u32 = 256;

/// Streams beyond those that it may have at a time, which a client may open ahead of those that it lets be answered; as many as it may have, if that
/// is more. Source: nginx, `ngx_http_v2_state_headers`, "client sent too many refused streams".
const REFUSALS_MAX: usize = 100;

/// What went out since that was last counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outgoing {
    total_bytes: u64,
    content_bytes: u64,
    answers: u32,
}

impl Outgoing {
    /// Adds a frame of a response.
    pub(super) fn add_frame(&mut self, payload_bytes: u64) {
        self.total_bytes += HEADER_BYTES as u64 + payload_bytes;
        self.content_bytes += payload_bytes;
    }
    /// Adds the end of a response that its client has let come.
    pub(super) fn add_answer(&mut self) {
        self.answers += 1;
    }
}

/// What a connection has brought so far, in both directions: who is sent much has much to give leave for.
#[derive(Debug, Default)]
pub(super) struct Flood {
    total_bytes: u64,
    content_bytes: u64,
    resets: u32,
    refusals: usize,
    refusals_max: usize,
}

impl Flood {
    /// Of a connection that may have so many streams at a time.
    pub(super) fn new(streams_max: usize) -> Self {
        Flood { refusals_max: streams_max.max(REFUSALS_MAX), ..Flood::default() }
    }
    /// Counts a frame; `content_bytes` of it are of a request.
    pub(super) fn count_frame(&mut self, payload_bytes: usize, content_bytes: usize) {
        self.total_bytes += (HEADER_BYTES + payload_bytes) as u64;
        self.content_bytes += content_bytes as u64;
    }
    /// Counts a request that the client took back before it was answered.
    pub(super) fn count_reset(&mut self) {
        self.resets += 1;
    }
    /// Counts what went out.
    pub(super) fn count_outgoing(&mut self, outgoing: Outgoing) {
        let Outgoing { total_bytes, content_bytes, answers } = outgoing;
        self.total_bytes += total_bytes;
        self.content_bytes += content_bytes;
        self.resets = self.resets.saturating_sub(answers);
        self.refusals = self.refusals.saturating_sub(answers as usize);
    }
    /// Counts a stream that there was no place for.
    pub(super) fn count_refusal(&mut self) {
        self.refusals += 1;
    }
    /// Why it is too much.
    pub(super) fn verdict(&self) -> Option<&'static str> {
        if self.total_bytes / OVERHEAD_FACTOR > self.content_bytes + OVERHEAD_BYTES {
            return Some("http2 flood detected");
        }
        if self.refusals > self.refusals_max {
            return Some("client sent too many refused streams");
        }
        (self.resets > RESETS_MAX).then_some("client resets too many requests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_frames_are_too_many_at_last() {
        let mut flood = Flood::default();
        let frames = (1..2_000_000).find(|_| {
            flood.count_frame(0, 0);
            flood.verdict().is_some()
        });
        // Nine bytes each, of which an eighth is let through.
        assert_eq!(frames, Some((OVERHEAD_BYTES + 1) * OVERHEAD_FACTOR / 9 + 1));
        let mut fair = Flood::new(1);
        for _ in 0..2_000_000 {
            fair.count_frame(20, 20);
        }
        assert_eq!(fair.verdict(), None);
    }

    const ANSWER: Outgoing = Outgoing { total_bytes: 0, content_bytes: 0, answers: 1 };

    #[test]
    fn who_is_sent_much_may_give_leave_for_it() {
        let mut flood = Flood::default();
        // A frame that gives leave for the next 4 KB.
        for _ in 0..2_000_000 {
            flood.count_frame(4, 0);
            let mut outgoing = Outgoing::default();
            outgoing.add_frame(4096);
            flood.count_outgoing(outgoing);
        }
        assert_eq!(flood.verdict(), None);
        // One that gives leave for a byte.
        let mut flood = Flood::default();
        let frames = (1..2_000_000).find(|_| {
            flood.count_frame(4, 0);
            let mut outgoing = Outgoing::default();
            outgoing.add_frame(1);
            flood.count_outgoing(outgoing);
            flood.verdict().is_some()
        });
        assert!(frames.is_some());
    }

    #[test]
    fn refusals_end() {
        for (streams_max, expected) in [(1, REFUSALS_MAX), (128, 128)] {
            let mut flood = Flood::new(streams_max);
            flood.count_refusal();
            flood.count_outgoing(ANSWER);
            for _ in 0..expected {
                flood.count_refusal();
                assert_eq!(flood.verdict(), None);
            }
            flood.count_refusal();
            assert!(flood.verdict().is_some());
        }
    }

    #[test]
    fn resets_are_paid_with_answers() {
        let mut flood = Flood::default();
        for _ in 0..10_000 {
            flood.count_reset();
            flood.count_outgoing(ANSWER);
        }
        for _ in 0..RESETS_MAX {
            flood.count_reset();
        }
        assert_eq!(flood.verdict(), None);
        flood.count_reset();
        assert!(flood.verdict().is_some());
    }
}
