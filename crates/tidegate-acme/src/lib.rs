//! Certificates that come and are renewed by themselves, by ACME (RFC 8555).
//!
//! An [`Order`] is a certificate that the configuration asks for. It always has one to show: at first that of the last run, or
//! one that the server has made itself. One thread of the process asks authorities for the rest; workers only look at
//! [`Order::managed`] and at the answers to challenges.
//!
//! What it does not know: directives, requests, listening sockets.
//!
//! In reading order:
//!
//! - [`order`]: names, type of key, the certificate of the moment; [`key`]: keys of certificates
//! - [`issuer`]: an authority, and our account there; `register`: the request for it
//! - `keeper`: the thread; when a certificate is to be renewed, and when to try again
//! - `issue`: one conversation with an authority, from the order to the certificate
//! - `under_way`: an order at the authority, kept until its certificate is
//! - `patience`: authorities that want to be asked later
//! - [`http_challenge`]: answers to challenges by HTTP; those by TLS are in `tidegate_tls`
//! - `store`: what outlives the process; `http`: requests to authorities
//!
//! Source: RFC 8555, RFC 8737 (TLS-ALPN-01), RFC 8738 (addresses), RFC 9773 (ARI).

#![forbid(unsafe_code)]

mod http;
pub mod http_challenge;
mod issue;
pub mod issuer;
mod keeper;
pub mod key;
pub mod order;
mod patience;
mod register;
mod store;
mod under_way;

pub use issuer::Issuer;
pub use keeper::keep;
pub use key::KeyType;
pub use order::Order;
