//! Lua inside: the virtual machine, the scheduler of light threads, the `ngx` API.
//!
//! What it does not know: how requests arrive or responses leave; a script's surroundings are a [`host::Host`].
//!
//! Reading order:
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`stack`], [`function`](mod@function), [`error`], [`userdata`] | the thin layer over LuaJIT's C API, and its rules |
//! | [`vm`], `memory`, `budget` | a virtual machine and the two limits on it |
//! | [`chunk`] | code of `*_by_lua*` directives, compiled once |
//! | [`phase`], [`host`] | where a script runs and for whom |
//! | [`scheduler`], `timers` | entry threads, light threads, waits, timers |
//! | `api` | the `ngx.*` families; how to add one stands there |
//! | `bundle` | the Lua sources in the binary (`lualib/`) |

pub mod chunk;
pub mod error;
pub mod function;
pub mod host;
pub mod phase;
pub mod scheduler;
pub mod stack;
pub mod userdata;
pub mod vm;

mod api;
mod budget;
mod bundle;
mod memory;
mod timers;
mod traceback;

#[cfg(test)]
mod testing;
