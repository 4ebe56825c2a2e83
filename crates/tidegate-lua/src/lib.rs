//! Lua inside: the virtual machine, the scheduler of light threads, the `ngx` API.
//!
//! What it does not know: how requests arrive or responses leave, which is the core's.
//!
//! Reading order:
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`stack`], [`function`](mod@function), [`error`], [`userdata`] | the thin layer over LuaJIT's C API, and its rules |
//! | [`vm`], `memory`, `budget` | a virtual machine and the two limits on it |
//! | `panics` | how a panic below Lua ends its request, not the process |
//! | [`chunk`] | code of `*_by_lua*` directives, compiled once |
//! | [`command`] | scripts run by `tidegate lua` |
//! | [`phase`], [`host`] | where a script runs and for whom |
//! | [`scheduler`], `timers` | entry threads, light threads, waits, timers |
//! | [`code`], [`directives`], [`set_by_lua`], [`settings`], `phases`, `balancer`, `peer_handshake`, `worker` | the nginx modules made of all this |
//! | `handshake` | scripts in handshakes with clients |
//! | `c_api` | what scripts reach of them by `ffi.C`, under names of lua-nginx-module |
//! | `pipe` | child processes of `ngx.pipe` |
//! | `worker_thread`, `portable` | threads of `ngx.run_worker_thread`, and values that go there |
//! | [`plain`] | machines with Lua's own library alone, for scripts that no server runs |
//! | [`shdict`] | the zones of `lua_shared_dict` |
//! | `socket` | cosockets |
//! | `mysql` | `resty.mysql` on the native client and the embedded engine |
//! | `sql` | `tidegate.sql`: statements on the embedded engine |
//! | `api` | the `ngx.*` families; how to add one stands there |
//! | `syntax` | what `-t` finds in Lua code |
//! | `init_once` | what makes `init_by_lua*` count once, although each worker runs it |
//! | `bundle` | the Lua sources in the binary (`lualib/`) |

// Only to be linked.
use tidegate_luajit as _;

pub mod chunk;
pub mod code;
pub mod command;
pub mod directives;
pub mod error;
pub mod function;
pub mod host;
pub mod phase;
pub mod plain;
pub mod scheduler;
pub mod set_by_lua;
pub mod settings;
pub mod shdict;
pub mod socket;
pub mod stack;
pub mod userdata;
pub mod vm;

mod allocator;
mod api;
mod balancer;
mod budget;
mod bundle;
mod bytecode;
mod c_api;
mod entries;
mod handshake;
mod init_once;
mod mark;
mod memory;
mod mysql;
mod panics;
mod peer_handshake;
mod phases;
mod pipe;
mod portable;
mod protected;
mod request_context;
mod rows;
mod sql;
mod syntax;
mod timers;
mod traceback;
mod work;
mod worker;
mod worker_thread;

#[cfg(test)]
mod soundness;
#[cfg(test)]
mod testing;

pub use directives::MODULES;
#[cfg(feature = "fuzzing")]
pub use mysql::check_any_result;
