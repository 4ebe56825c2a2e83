//! Answers of the API: JSON, also of errors.

use std::{io::Write, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tidegate_core::{phase::Step, request::Request};
use tidegate_net::log::Level;
use tidegate_queue::Receipt;
use tidegate_rows::json::{TextOptions, append_string};

use super::{message::Message, publish::Published, store::StoreError};

/// A request that is not carried out: a status, and a sentence for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refused {
    /// The client has described something that there cannot be.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::with(400, message)
    }

    /// With another status.
    pub(super) fn with(status: u16, message: impl Into<String>) -> Self {
        Refused { status, message: message.into() }
    }

    /// The body of the answer.
    pub(super) fn json(&self) -> Vec<u8> {
        let mut out = b"{\"error\":".to_vec();
        append_string(&mut out, self.message.as_bytes(), TextOptions::default());
        out.extend_from_slice(b"}\n");
        out
    }

    /// The store has failed: the log knows why, the client that it may try again. A queue that is full is no failure: 507 says that
    /// there is no room for this at the moment (RFC 4918, section 11.5).
    pub(super) fn of_store(req: &Request, error: &StoreError) -> Self {
        if matches!(error, StoreError::Full { .. }) {
            return Self::with(507, error.to_string());
        }
        req.log(Level::Error, format_args!("queue: {error}"));
        Self::with(503, "the queue cannot be used at the moment")
    }
}

/// Sends an answer of JSON.
pub(super) async fn send(req: &Rc<Request>, status: u16, body: Vec<u8>) -> Step {
    {
        let mut response = req.response.borrow_mut();
        response.content_type.clear();
        response.content_type.extend_from_slice(b"application/json");
    }
    match req.send_complete(status, body.into()).wait().await {
        Ok(()) => Step::Ok,
        Err(_) => Step::Close,
    }
}

/// Writes what became of a published message.
pub(super) fn write_published(published: Published, out: &mut Vec<u8>) {
    let _ = match published {
        Published::New(id) => write!(out, "{{\"id\":{id}}}"),
        Published::Known(id) => write!(out, "{{\"id\":{id},\"duplicate\":true}}"),
    };
}

/// Writes a list, with commas between its members.
pub(super) fn write_list<T>(list: impl IntoIterator<Item = T>, out: &mut Vec<u8>, write: impl Fn(T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, member) in list.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(member, out);
    }
    out.push(b']');
}

/// Writes a message; with a receipt if somebody has it from now on.
pub(super) fn write_message(message: &Message, receipt: Option<Receipt>, out: &mut Vec<u8>) {
    let Message { id, priority, published_ms, attempts, headers, body, ordering_key, reason, .. } = message;
    let _ = write!(out, "{{\"id\":{id}");
    if let Some(receipt) = receipt {
        let _ = write!(out, ",\"receipt\":\"{receipt}\"");
    }
    let _ = write!(out, ",\"priority\":{priority},\"attempts\":{attempts},\"published_ms\":{published_ms}");
    if let Some(reason) = reason {
        out.extend_from_slice(b",\"reason\":");
        append_string(out, reason, TextOptions::default());
    }
    if let Some(headers) = headers {
        out.extend_from_slice(b",\"headers\":");
        out.extend_from_slice(headers);
    }
    if let Some(key) = ordering_key {
        out.extend_from_slice(b",\"ordering_key\":");
        append_string(out, key, TextOptions::default());
    }
    if std::str::from_utf8(body).is_ok() {
        out.extend_from_slice(b",\"body\":");
        append_string(out, body, TextOptions::default());
    } else {
        out.extend_from_slice(b",\"base64\":\"");
        out.extend_from_slice(STANDARD.encode(body).as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
}
