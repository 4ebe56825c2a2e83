//! What a wait ends with.

use std::borrow::Cow;

use crate::error::CResult;
use crate::stack::{Coroutine, Lua};

/// What a wait ends with: the results of the API function that waited.
pub enum Answer {
    /// No values.
    Nothing,
    /// `true`.
    True,
    /// `1`, the old API's way to say yes.
    One,
    /// `nil` and a message.
    NilError(Cow<'static, str>),
    /// `false` and a message.
    FalseError(Cow<'static, str>),
    /// Whatever the function pushes, or the error that it returns. It runs inside the coroutine.
    Push(Box<dyn FnOnce(&mut Lua) -> CResult>),
    /// The results of a light thread that ended; they stand on its stack.
    Thread(Coroutine),
}

impl Answer {
    /// Pushes the results onto the coroutine that waited.
    pub(crate) fn push(self, lua: &mut Lua) -> CResult {
        match self {
            Self::Nothing => Ok(0),
            Self::True => {
                lua.push_bool(true);
                Ok(1)
            }
            Self::One => {
                lua.push_integer(1);
                Ok(1)
            }
            Self::NilError(message) => {
                lua.push_nil();
                lua.push_bytes(message.as_bytes());
                Ok(2)
            }
            Self::FalseError(message) => {
                lua.push_bool(false);
                lua.push_bytes(message.as_bytes());
                Ok(2)
            }
            Self::Push(push) => push(lua),
            Self::Thread(thread) => {
                lua.reserve(thread.top())?;
                Ok(lua.take(thread))
            }
        }
    }
}
