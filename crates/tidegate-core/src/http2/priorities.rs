//! What clients say about priorities (RFC 9218): a field of the request, and frames before and after it.

use std::{collections::VecDeque, rc::Rc};

use tidegate_http::http2::{ErrorCode, FrameHeader, STREAM_MAX, priority::Priority};

use super::{
    input::{Fault, Input, fault},
    stream::Stream,
};

/// Priorities of requests that have not come yet; the oldest ones are forgotten.
const EARLY_MAX: usize = 16;

/// Priorities of requests that have not come yet.
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<(u32, Priority)>);

impl Early {
    fn put(&mut self, id: u32, priority: Priority) {
        self.take(id);
        if self.0.len() >= EARLY_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, priority));
    }
    /// That of a request that comes now.
    pub(super) fn take(&mut self, id: u32) -> Option<Priority> {
        let at = self.0.iter().position(|&(other, _)| other == id)?;
        self.0.remove(at).map(|(_, priority)| priority)
    }
}

impl Input {
    /// A PRIORITY_UPDATE frame (RFC 9218, section 7.1).
    pub(super) fn priority_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let Some((id, field)) = payload.split_first_chunk::<4>() else {
            return Err(fault(ErrorCode::FrameSizeError, "client sent PRIORITY_UPDATE frame with incorrect length"));
        };
        let id = u32::from_be_bytes(*id) & STREAM_MAX;
        if header.stream != 0 || id.is_multiple_of(2) {
            return Err(fault(ErrorCode::ProtocolError, "client sent PRIORITY_UPDATE frame with incorrect identifier"));
        }
        let priority = Priority::parse(field);
        if id > self.last_stream {
            self.early.put(id, priority);
        } else if let Some(stream) = self.mux.find(id) {
            self.mux.set_priority(&stream, priority);
        }
        Ok(())
    }

    /// Gives a new stream the priority that its client wants.
    pub(super) fn begin_priority(&mut self, stream: &Rc<Stream>) {
        if let Some(priority) = self.early.take(stream.id).or(self.head.priority()) {
            stream.priority.set(priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_priorities_are_bounded() {
        let mut early = Early::default();
        let priority = |urgency| Priority { urgency, incremental: false };
        for id in 0..EARLY_MAX as u32 + 1 {
            early.put(2 * id + 1, priority(1));
            early.put(2 * id + 1, priority(2));
        }
        assert_eq!(early.0.len(), EARLY_MAX);
        assert_eq!((early.take(1), early.take(3), early.take(3)), (None, Some(priority(2)), None));
    }
}
