//! Stored programs: what a schema keeps of them, how their text is read, how they run.
//!
//! A definition is kept as it was written ([`kept`], [`trigger`], [`routine`]). Its body becomes [`code`], a flat list of operations, when it is read
//! first ([`compile`]). The expressions and statements of SQL in it stay texts until a statement is planned that may run the
//! program: then each becomes a plan of its own (`translate/programs.rs`), for the types of the program's variables and for what its
//! definer may do. So a plan of a statement holds those of all programs that it may run, and is outdated when any table of theirs is
//! redefined. `exec/program.rs` carries operations out, `exec/fire.rs` is where rows that are written meet triggers. Definitions come
//! and go in `ddl/trigger.rs` and `ddl/routine.rs`, and are shown in `show/triggers.rs` and `show/routines.rs`.
//!
//! A procedure needs no plans ahead of time: `session/call.rs` gives its statements to the session one after the other. A function has
//! them as a trigger does (`translate/calls.rs`): SQLite calls it while it runs the statement around it (`exec/call.rs`).
//!
//! Local variables, NEW and OLD are values in a frame of the session (`env/programs.rs`), by their slots; expressions
//! read them as parameters ([`crate::translate::Source::Local`]).
//!
//! Nothing here waits by itself: a program runs in the coroutine of its statement, and lets others run as SQLite's steps do.

pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod definition;
pub(crate) mod event;
pub(crate) mod kept;
pub(crate) mod routine;
pub(crate) mod signature;
pub(crate) mod trigger;

pub(crate) use definition::{CreateTrigger, Definition, parse};
pub(crate) use signature::{CreateRoutine, RoutineKind};
pub(crate) use trigger::{Event, Timing};
