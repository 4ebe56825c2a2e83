//! What a message is, and how a request describes one.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value as Json};
use tidegate_conf::values;
use tidegate_http::{Fields, Known};
use tidegate_rows::Param;

use super::{
    answer::Refused,
    gather::{bytes, number},
};

/// The priority of a message of which nothing else is said.
pub(super) const PRIORITY_DEFAULT: u32 = 1024;
/// Bytes of a queue's name, and of a unique key: what the table has room for.
pub(super) const NAME_BYTES_MAX: usize = 200;
/// Fields of a request that are headers of its message begin so, in any case.
const HEADER_FIELD: &[u8] = b"queue-header-";
/// The longest delay and time to live: a hundred years. Sums with the time of day stay far from overflow.
pub(super) const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A message that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewMessage {
    pub(super) body: Bytes,
    pub(super) priority: u32,
    pub(super) delay_ms: u64,
    pub(super) ttl_ms: Option<u64>,
    pub(super) unique_key: Option<Bytes>,
    /// How long a client of beanstalkd may have it.
    pub(super) lease_ms: Option<u64>,
    /// How long its result is kept for the publisher.
    pub(super) result_ms: Option<u64>,
    /// Messages of one key come one at a time, in their order.
    pub(super) ordering_key: Option<Bytes>,
    /// An object of JSON, as text.
    pub(super) headers: Option<String>,
}

/// A message as a consumer gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub id: u64,
    /// Its urgency; 0 comes first.
    pub priority: u64,
    /// When it was published: milliseconds since 1970.
    pub published_ms: u64,
    /// How often it has failed.
    pub attempts: u64,
    /// An object of JSON whose values are strings.
    pub headers: Option<Bytes>,
    /// What it says.
    pub body: Bytes,
    /// Messages of one key come one at a time, in their order.
    pub ordering_key: Option<Bytes>,
    /// Why it has failed at last, of a dead message of which somebody has said so.
    pub(super) reason: Option<Bytes>,
    /// Somebody wants its result.
    pub(super) has_result: bool,
}

impl Message {
    /// The message of a row with the columns of `Tables::read` or `Tables::dead`.
    pub(super) fn of(row: &[Param]) -> Self {
        Message {
            id: number(row.first()),
            priority: number(row.get(3)),
            published_ms: number(row.get(4)),
            attempts: number(row.get(6)),
            headers: bytes(row.get(7)),
            body: bytes(row.get(8)).unwrap_or_default(),
            ordering_key: bytes(row.get(10)),
            reason: bytes(row.get(11)),
            has_result: number(row.get(9)) > 0,
        }
    }

    /// Bytes that it has in an answer, about.
    pub(super) fn size(&self) -> usize {
        self.body.len() + self.headers.as_ref().map_or(0, Bytes::len)
    }

    /// Whether nothing depends on its end: neither a result nor the next message of its key.
    pub(super) fn is_plain(&self) -> bool {
        !self.has_result && self.ordering_key.is_none()
    }
}

impl NewMessage {
    /// A message with this content, of which nothing else is said.
    pub(super) fn new(body: Bytes) -> Self {
        NewMessage {
            body,
            priority: PRIORITY_DEFAULT,
            delay_ms: 0,
            ttl_ms: None,
            unique_key: None,
            lease_ms: None,
            result_ms: None,
            ordering_key: None,
            headers: None,
        }
    }

    /// Takes a parameter; answers whether there is one of this name.
    ///
    /// # Errors
    /// The value is no such thing.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, Refused> {
        match name {
            "priority" => self.priority = priority(value)?,
            "delay" => self.delay_ms = time_ms(name, value)?,
            "ttl" => self.ttl_ms = Some(time_ms(name, value)?.max(1)),
            "result" => self.result_ms = Some(time_ms(name, value)?.max(1)),
            "unique" => self.unique_key = Some(key(name, value)?),
            "ordering_key" => self.ordering_key = Some(key(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A message as an object of JSON describes it.
    ///
    /// # Errors
    /// It is no object, has unknown members, members of wrong types, or no body.
    pub(super) fn of_json(json: &Json) -> Result<Self, Refused> {
        let Json::Object(members) = json else { return Err(Refused::bad("a message must be an object")) };
        let mut message = NewMessage::new(Bytes::new());
        let mut has_body = false;
        for (name, value) in members {
            match (name.as_str(), value) {
                ("body" | "base64", _) if has_body => return Err(Refused::bad("a message has one body")),
                ("body", Json::String(text)) => {
                    message.body = Bytes::copy_from_slice(text.as_bytes());
                    has_body = true;
                }
                ("base64", Json::String(text)) => {
                    use base64::{Engine as _, engine::general_purpose::STANDARD};
                    let decoded = STANDARD.decode(text).map_err(|_| Refused::bad("\"base64\" is not base64"))?;
                    message.body = decoded.into();
                    has_body = true;
                }
                ("headers", Json::Object(fields)) if fields.values().all(Json::is_string) => {
                    message.headers = Some(value.to_string());
                }
                ("delay" | "ttl" | "priority" | "unique" | "ordering_key" | "result", Json::String(text)) => {
                    message.set(name, text)?;
                }
                ("delay" | "ttl" | "priority" | "result", Json::Number(number)) => {
                    message.set(name, &number.to_string())?;
                }
                (
                    "body" | "base64" | "unique" | "ordering_key" | "delay" | "ttl" | "priority" | "result" | "headers",
                    _,
                ) => {
                    return Err(Refused::bad(format!("\"{name}\" has a value of the wrong type")));
                }
                _ => return Err(Refused::bad(format!("unknown member \"{name}\" of a message"))),
            }
        }
        if has_body { Ok(message) } else { Err(Refused::bad("a message needs \"body\" or \"base64\"")) }
    }
}

/// The headers of a message that the fields of its request tell: `Queue-Header-NAME` is the header NAME. Names are in lower case, as
/// clients of HTTP/2 send them; several fields of one name are one header, as a proxy may make of them.
///
/// # Errors
/// A value is not UTF-8.
///
/// Source: RFC 9110, section 5.3.
pub(super) fn headers_of(fields: &Fields) -> Result<Option<String>, Refused> {
    let mut headers = Map::new();
    for (field, value, _) in fields.iter().filter(|(.., known)| *known == Known::Other) {
        let Some((begin, name)) = field.split_at_checked(HEADER_FIELD.len()) else { continue };
        if name.is_empty() || !begin.eq_ignore_ascii_case(HEADER_FIELD) {
            continue;
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let value =
            std::str::from_utf8(value).map_err(|_| Refused::bad(format!("the header {name:?} is not UTF-8")))?;
        match headers.get_mut(&name) {
            Some(Json::String(values)) => {
                values.push_str(", ");
                values.push_str(value);
            }
            _ => drop(headers.insert(name, value.into())),
        }
    }
    Ok((!headers.is_empty()).then(|| Json::Object(headers).to_string()))
}

/// A time as the configuration has it: `90`, `500ms`, `2m`.
///
/// # Errors
/// It is none, or too long.
pub(super) fn time_ms(name: &str, value: &str) -> Result<u64, Refused> {
    let time = values::time(value.into()).ok().filter(|time| *time <= TIME_MAX);
    let time = time.ok_or_else(|| Refused::bad(format!("\"{name}\" is no time: {value:?}")))?;
    Ok(millis(time))
}

/// The value of a parameter that says how long a consumer is to have messages, in milliseconds. Not 0: nobody could settle them in that time.
///
/// # Errors
/// It is none.
pub(super) fn lease_ms(name: &str, value: &str) -> Result<u64, Refused> {
    match time_ms(name, value)? {
        0 => Err(Refused::bad(format!("\"{name}\" must be longer than 0"))),
        lease_ms => Ok(lease_ms),
    }
}

/// A time in milliseconds, as the store and the broker have it.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn priority(value: &str) -> Result<u32, Refused> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let priority = value.parse().ok().filter(|_| is_plain);
    priority.ok_or_else(|| Refused::bad(format!("\"priority\" is no number from 0 to 4294967295: {value:?}")))
}

fn key(name: &str, value: &str) -> Result<Bytes, Refused> {
    if value.is_empty() || value.len() > NAME_BYTES_MAX {
        return Err(Refused::bad(format!("\"{name}\" must have 1 to 200 bytes")));
    }
    Ok(Bytes::copy_from_slice(value.as_bytes()))
}

/// Checks the name of a queue.
///
/// # Errors
/// It is empty, too long, or has other characters than letters, digits and `.`, `_`, `-`, `:`.
pub(super) fn check_name(name: &str) -> Result<(), Refused> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
        let message = "a queue's name has 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\"";
        return Err(Refused::bad(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Result<NewMessage, &str>) {
        let json = serde_json::from_str(json).expect("JSON");
        let message = NewMessage::of_json(&json).map_err(|refused| refused.message);
        assert_eq!(message, expected.map_err(str::to_owned), "{json}");
    }

    #[test]
    fn json_describes_messages() {
        let plain = NewMessage::new("a".into());
        check(r#"{"body":"a"}"#, Ok(plain.clone()));
        check(r#"{"base64":"AP8="}"#, Ok(NewMessage::new(vec![0, 0xff].into())));
        let full = NewMessage {
            priority: 0,
            delay_ms: 1500,
            ttl_ms: Some(60_000),
            unique_key: Some("k".into()),
            result_ms: Some(3_600_000),
            ordering_key: Some("o".into()),
            headers: Some(r#"{"a":"b"}"#.to_owned()),
            ..plain
        };
        let json = r#"{"body":"a","priority":0,"delay":"1500ms","ttl":60,"unique":"k","ordering_key":"o","result":"1h","headers":{"a":"b"}}"#;
        check(json, Ok(full));
        check("[]", Err("a message must be an object"));
        check("{}", Err("a message needs \"body\" or \"base64\""));
        check(r#"{"body":"a","base64":"YQ=="}"#, Err("a message has one body"));
        check(r#"{"base64":"?"}"#, Err("\"base64\" is not base64"));
        check(r#"{"body":7}"#, Err("\"body\" has a value of the wrong type"));
        check(r#"{"body":"a","headers":{"a":1}}"#, Err("\"headers\" has a value of the wrong type"));
        check(r#"{"body":"a","color":1}"#, Err("unknown member \"color\" of a message"));
        check(r#"{"body":"a","delay":-1}"#, Err("\"delay\" is no time: \"-1\""));
        check(r#"{"body":"a","priority":1.5}"#, Err("\"priority\" is no number from 0 to 4294967295: \"1.5\""));
        check(r#"{"body":"a","ordering_key":7}"#, Err("\"ordering_key\" has a value of the wrong type"));
        check(r#"{"body":"a","unique":""}"#, Err("\"unique\" must have 1 to 200 bytes"));
    }

    #[test]
    fn fields_of_a_request_are_headers() {
        let headers = |fields: &[(&str, &[u8])]| {
            let mut all = Fields::new();
            fields.iter().for_each(|(name, value)| all.append(name.as_bytes(), value));
            headers_of(&all).map_err(|refused| refused.message)
        };
        assert_eq!(
            headers(&[("Content-Type", b"text/plain"), ("Queue-Header", b"a"), ("Queue-Header-", b"b")]),
            Ok(None)
        );
        let told = headers(&[("Queue-Header-Lang", b"de"), ("Accept", b"*/*"), ("queue-header-LANG", b"en, \"fr\"")]);
        assert_eq!(told, Ok(Some(r#"{"lang":"de, en, \"fr\""}"#.to_owned())));
        assert_eq!(headers(&[("Queue-Header-A", b"\xff")]), Err("the header \"a\" is not UTF-8".to_owned()));
    }

    #[test]
    fn names_are_checked() {
        for name in ["a", "jobs.mail:high_1-x", &"a".repeat(200)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a/b", "a'b", "a b", "a\0", "ä", &"a".repeat(201)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
