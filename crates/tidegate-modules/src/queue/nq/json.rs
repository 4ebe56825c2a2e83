//! JSON as nq's answers have it: `/` is escaped too, and bytes that are not UTF-8 are sent as they are.

use std::io::Write;

use bytes::Bytes;

/// A message as a receiver gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) sender: Option<Bytes>,
    pub(super) message: Bytes,
    /// Known of messages that come again.
    pub(super) created_time: Option<Bytes>,
}

/// Writes a text.
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..32 | 127 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Writes the members of an object.
pub(super) fn put_members<'a, T: 'a>(
    out: &mut Vec<u8>,
    members: impl IntoIterator<Item = (&'a str, T)>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_string(out, name.as_bytes());
        out.push(b':');
        put(out, value);
    }
}

/// Writes a list.
pub(super) fn put_list<T>(out: &mut Vec<u8>, list: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, value) in list.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(out, value);
    }
    out.push(b']');
}

/// An answer with an error behind the members of what was done.
pub(super) fn error(done: Vec<u8>, message: &str) -> Vec<u8> {
    let mut out = vec![b'{'];
    out.extend_from_slice(&done);
    if !done.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(b"\"_error\":");
    put_string(&mut out, message.as_bytes());
    out.push(b'}');
    out
}

/// The answer with messages of queues.
pub(super) fn messages(queues: &[(&str, Vec<Message>)]) -> Vec<u8> {
    let mut out = b"{\"messages\":{".to_vec();
    let members = queues.iter().map(|(queue, messages)| (*queue, messages));
    put_members(&mut out, members, |out, messages| put_list(out, messages, put_message));
    out.extend_from_slice(b"}}");
    out
}

fn put_message(out: &mut Vec<u8>, message: &Message) {
    let _ = write!(out, "{{\"id\":{}", message.id);
    let texts = [("sender", &message.sender), ("created_time", &message.created_time)];
    for (name, text) in texts {
        if let Some(text) = text {
            let _ = write!(out, ",\"{name}\":");
            put_string(out, text);
        }
    }
    out.extend_from_slice(b",\"message\":");
    put_string(out, &message.message);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_written_as_clients_of_nq_know_them() {
        let message =
            Message { id: 7, sender: None, message: Bytes::from_static(b"a/b\0\"\x7f\n"), created_time: None };
        let sent = Message { sender: Some("s".into()), created_time: Some("2017".into()), ..message.clone() };
        let answer = messages(&[("q", vec![message, sent]), ("r", vec![])]);
        let expected = concat!(
            r#"{"messages":{"q":[{"id":7,"message":"a\/b\u0000\"\u007f\n"},"#,
            r#"{"id":7,"sender":"s","created_time":"2017","message":"a\/b\u0000\"\u007f\n"}],"r":[]}}"#
        );
        assert_eq!(String::from_utf8(answer).as_deref(), Ok(expected));
        assert_eq!(error(Vec::new(), "e"), br#"{"_error":"e"}"#);
        assert_eq!(error(br#""q":[1]"#.to_vec(), "e"), br#"{"q":[1],"_error":"e"}"#);
    }
}
