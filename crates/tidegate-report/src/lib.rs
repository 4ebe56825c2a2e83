//! Comparisons of web stacks on this machine: each is started on the same cores, asked the same, and drawn beside the others.
//!
//! `cargo xtask report` and `tidegate report` are this with their own ways to a binary. Reading order: [`matrix`] says what is
//! measured, [`stacks`] by whom; [`run`] starts and measures, with [`services`] (and [`mariadb`]) behind the servers, a [`load`] in front of them and
//! what the kernel tells ([`usage`], [`machine`]); `interrupt` ends it all; [`points`] keeps the figures, [`stats`] compares them, [`page`] draws;
//! [`seeds`] are figures of others; [`floor`] is the server below which none gets, [`lookups`] the load where there is no HTTP.
//!
//! It knows nothing of how Tidegate works: to it, the binary is one program among others.

#![deny(missing_docs)]

mod ahead;
mod client;
pub mod floor;
pub mod interrupt;
pub mod load;
pub mod lookups;
pub mod machine;
pub mod mariadb;
pub mod matrix;
pub mod options;
pub mod page;
pub mod places;
pub mod points;
mod poll;
#[path = "../../../tests/support/ports.rs"]
mod ports;
pub mod process;
pub mod progress;
mod retwis;
pub mod run;
pub mod seeds;
pub mod services;
pub mod stacks;
pub mod stats;
pub mod usage;
