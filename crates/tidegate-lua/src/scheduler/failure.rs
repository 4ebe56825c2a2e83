//! What the log says of a script that failed.

use std::rc::Rc;

use super::run::Run;
use super::thread::{LightThread, key_of};
use crate::error::FailureKind;
use crate::host::LogLevel;
use crate::stack::Coroutine;
use crate::traceback;

/// Stacks of coroutines that an error has gone through so far.
pub(super) struct NotedFailure {
    message: Vec<u8>,
    coroutines: Vec<Vec<u8>>,
}

impl Run {
    /// Remembers the stack of a coroutine whose error goes on to the coroutine that resumed it (`coroutine.wrap`).
    pub(crate) fn note_failure(&self, lua: Coroutine, message: &[u8]) {
        let levels = traceback::levels(lua);
        let mut slot = self.rest().failure.borrow_mut();
        match &mut *slot {
            Some(failure) if failure.message == message => failure.coroutines.push(levels),
            _ => *slot = Some(NotedFailure { message: message.to_vec(), coroutines: vec![levels] }),
        }
    }

    #[cold]
    pub(super) fn log_failure(&self, thread: &Rc<LightThread>, kind: FailureKind) {
        // SAFETY: it has failed, and nobody but the scheduler works with what it has left.
        let message = traceback::error_text(unsafe { thread.coroutine.lua() });
        let is_entry = Rc::ptr_eq(thread, &self.entry);
        let (mut text, trace) = match (self.phase().failure_prefix(), is_entry) {
            (Some(prefix), true) => {
                let trace = [b"stack traceback:", traceback::levels(thread.coroutine).as_slice()].concat();
                (format!("{prefix}: ").into_bytes(), trace)
            }
            _ => {
                let noted = self.rest().failure.take().filter(|failure| failure.message == message);
                let below = noted.map_or_else(Vec::new, |failure| failure.coroutines);
                let own = self.parents(thread).into_iter().map(traceback::levels);
                let who = if is_entry { "entry" } else { "user" };
                let text = format!("lua {who} thread aborted: {}: ", kind.as_str()).into_bytes();
                (text, traceback::of_coroutines(below.into_iter().chain(own)))
            }
        };
        text.extend_from_slice(&message);
        text.push(b'\n');
        text.extend_from_slice(&trace);
        self.host.log(LogLevel::Error, &text);
    }

    /// The coroutine that failed and the light threads above it that are still alive.
    fn parents(&self, thread: &LightThread) -> Vec<Coroutine> {
        let mut chain = vec![thread.coroutine];
        let mut above = thread.parent.get();
        while let Some(lua) = above {
            // A parent that is no light thread may be collected by now: it is compared, not looked into.
            if !self.is_alive(lua) || chain.contains(&lua) {
                break;
            }
            chain.push(lua);
            above = self.find_thread(key_of(lua)).and_then(|thread| thread.parent.get());
        }
        chain
    }
}
