//! The scheduler of light threads, directly on `lua_resume` and `lua_yield`.
//!
//! A [`Run`] is one execution of one chunk: its entry thread and the light threads that `ngx.thread.spawn` adds. The
//! common chunk never waits: [`start`] runs it to its end and allocates nothing. A chunk that waits becomes a
//! [`Waiting`] future, which the phase awaits.
//!
//! # How a function waits
//!
//! The Rust half of an API function stores a future with [`Run::wait`]; its Lua half then calls `await()`
//! (`lualib/tidegate/api/coroutine.lua`), which yields one private token. The scheduler polls the future, stores its
//! [`Answer`] and resumes the thread; `await` collects the answer, inside the coroutine, where errors may be raised.
//! When the answer is there at once, neither happens: the function just returns it.
//!
//! # User coroutines
//!
//! They are LuaJIT's own; switching between them costs nothing extra. When a function waits inside of one, the token
//! comes out of the user's `coroutine.resume`, whose replacement (same Lua file) hands it on to the coroutine around
//! it and so on, until the whole light thread is suspended. No user ever sees the token.
//!
//! # Invariants
//!
//! * I1: a yield never crosses a Rust frame, since Rust never calls Lua from a function that may wait.
//! * I2: [`current`](with_run) is set exactly while `lua_resume` is on the stack, and nests.
//! * I3: no `RefCell` of a run is borrowed while Lua runs or a future is polled.

mod answer;
mod failure;
mod run;
mod thread;
mod threads;
mod turn;
mod waker;

#[cfg(test)]
mod reuse;
#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use run::{Outcome, Run, Started, Stop, start, start_with, with_run};
pub(crate) use thread::LightThread;
pub(crate) use turn::Turn;
pub use turn::Waiting;
