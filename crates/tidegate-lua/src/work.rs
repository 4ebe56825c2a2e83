//! Work of our own functions that grows with what a script passes to them.
//!
//! Tables that hold one another several times stand for many more values than there are in memory: thirty tables, each
//! twice in the next, are a billion strings to whoever writes them out. LuaJIT stops scripts at their instructions and
//! refuses Lua memory; a loop of ours sees neither, so it asks here.

use crate::error::LuaError;
use crate::stack::Lua;
use crate::{budget, memory};

/// Steps of such a loop between two questions, where a step is short.
pub(crate) const STEPS_MAX: usize = 1024;

/// Why a function must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// The script is being stopped: it gets the error that says why at its next instruction.
    Stopped,
    /// What was made so far does not fit into the memory that the script may use.
    Memory,
}

impl Excess {
    /// The error's words.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Memory => "not enough memory",
        }
    }
}

impl From<Excess> for LuaError {
    fn from(excess: Excess) -> Self {
        match excess {
            Excess::Stopped => budget::stop_error(),
            Excess::Memory => LuaError::new(excess.message()),
        }
    }
}

/// Whether a function that was called in `lua` may go on; `bytes` is what it has made so far outside of Lua's memory.
///
/// # Errors
/// It must not: the error is the function's.
#[inline]
pub(crate) fn check(lua: &Lua, bytes: usize) -> Result<(), Excess> {
    if budget::is_stopped() {
        return Err(Excess::Stopped);
    }
    if memory::has_room(lua, bytes) { Ok(()) } else { Err(Excess::Memory) }
}
