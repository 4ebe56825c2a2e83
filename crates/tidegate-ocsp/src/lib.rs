//! The status of certificates, as their responders tell it (OCSP).
//!
//! A [`Staple`] is the status of a certificate of ours, which handshakes show; a thread of the process keeps it fresh. An
//! [`Inquiry`] asks for the status of what a client has shown, on the worker that serves the client.
//!
//! What it does not know: directives, requests, connections of clients. What questions and answers look like is
//! [`tidegate_tls::ocsp`].
//!
//! In reading order:
//!
//! - [`responder`]: who is asked, and how
//! - [`staple`]: the status of our certificates; `keeper`: the thread that fetches it
//! - [`inquiry`]: the status of clients' certificates; [`cache`]: what is remembered of it
//!
//! Source: RFC 6960, RFC 5019.

#![forbid(unsafe_code)]

pub mod cache;
pub mod inquiry;
mod keeper;
pub mod responder;
pub mod staple;

pub use cache::Cache;
pub use inquiry::Inquiry;
pub use keeper::keep;
pub use responder::{Responder, Way};
pub use staple::Staple;
