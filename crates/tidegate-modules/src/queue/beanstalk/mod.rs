//! `listen … beanstalk`: queues for clients of beanstalkd.
//!
//! The protocol is [`tidegate_http::beanstalk`]'s. A tube is a queue, a job a message, a buried job a dead message, the time to run the
//! time of a lease: [`jobs`] has them in the store, through [`tables`], [`tubes`] what is known of tubes beside that, [`pauses`] the
//! queues that are paused for a time, [`stats`] what is counted. [`port`] is the connection, [`client`] what belongs to it and [`held`] its jobs;
//! [`commands`] and [`reserve`] say what commands do.
//!
//! A connection owns the leases of its jobs: when it ends, in whatever way, they are given back.

mod client;
mod commands;
mod held;
mod jobs;
pub(in crate::queue) mod pauses;
mod port;
mod reserve;
mod stats;
pub(in crate::queue) mod tables;
mod tubes;

pub(crate) use port::open;
