//! One file for each nginx-style module.
//!
//! A module's file holds its directive table, its configuration struct, how inner levels inherit, its variables and its
//! handlers. Adding a feature is adding a file and a line in [`MODULES`], whose order is the order in which handlers of
//! a phase and filters run.
//!
//! What this crate does not know: how requests are read and written, and Lua.

pub mod drizzle;
pub mod rds_csv;
pub mod rds_json;
pub mod rewrite;
pub mod upstream;

use tidegate_core::module::AnyModule;

/// The modules, in the order in which their handlers and filters run, one to a line.
///
/// Filters see a response in this order: those that replace bodies first, those that measure or encode them last.
#[rustfmt::skip]
pub static MODULES: &[&dyn AnyModule] = &[
    &rewrite::MODULE,
    &upstream::MODULE,
    &drizzle::MODULE,
    &rds_json::MODULE,
    &rds_csv::MODULE,
];
