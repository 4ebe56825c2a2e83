//! What `memcached`, `memc` and `redis` have in common: a command goes out, and a value or a line comes back.
//!
//! A connection serves another request only if the answer was read to its exact end and nothing stood behind it.

use std::rc::Rc;

use tidegate_core::{
    error_log,
    phase::Step,
    request::Request,
    upstream::{HeadPart, Measure, Promise, Protocol, SendBody, Settings, Source, UpstreamConf, Written},
};
use tidegate_http::{BodyPart, ResponseHead, SizedValue};
use tidegate_net::log::Level;

/// The settings of a location. The client gets an error page for a key that is not there, and the server waits while the
/// client is slow: nothing goes to the disk.
pub(crate) fn settings(conf: &UpstreamConf) -> Settings {
    let mut settings = conf.settings(&[], "");
    settings.temp_file_bytes_max = 0;
    settings.intercept_errors = true;
    settings.intercept_always = 404..405;
    settings
}

/// The part of such a protocol that is its own: one command and its answer.
pub(crate) trait Query {
    /// Scheme of the servers' addresses in the error log.
    const SCHEME: &'static str;
    /// The server, as the error log says it.
    const SERVER: &'static str;

    /// Whether the client's body follows the command, and CR LF behind it.
    fn sends_body(&self) -> bool {
        false
    }

    /// The command only reads, and the server answers commands in their order: how to tell where an answer ends.
    fn shares(&self) -> Option<Measure> {
        None
    }

    /// Appends the command.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads the head of the answer off `input`; `None` while it is incomplete.
    ///
    /// # Errors
    /// Text for the log: why it makes no sense.
    fn read_head(&self, input: &[u8], head: &mut ResponseHead) -> Result<Option<Answer>, String>;

    /// The head becomes the head of the response.
    fn answered(&self, _req: &Rc<Request>) {}
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Length of the head.
    pub head_bytes: usize,
    /// What follows it.
    pub content: SizedValue,
    /// The server may not have understood all of the command.
    pub is_doubtful: bool,
    /// There is no such key.
    pub is_missing: bool,
}

/// One request's conversation with a server.
pub(crate) struct Conversation<'a, Q> {
    req: &'a Rc<Request>,
    query: Q,
    /// The key, for the log.
    key: &'a [u8],
    content: SizedValue,
    /// What the log gets besides errors that end the exchange.
    messages: Vec<(Level, String)>,
    is_doubtful: bool,
    /// The answer has been read to its end, and nothing stood behind it.
    is_exact: bool,
}

impl<'a, Q: Query> Conversation<'a, Q> {
    pub(crate) fn new(req: &'a Rc<Request>, key: &'a [u8], query: Q) -> Self {
        Conversation {
            req,
            query,
            key,
            content: SizedValue::new(0, b""),
            messages: Vec::new(),
            is_doubtful: false,
            is_exact: false,
        }
    }

    fn say(&mut self, level: Level, message: std::fmt::Arguments<'_>) {
        if error_log::enabled(self.req, level) {
            self.messages.push((level, message.to_string()));
        }
    }
}

impl<Q: Query> Protocol for Conversation<'_, Q> {
    const SCHEME: &'static str = Q::SCHEME;

    fn body(&self, req: &Request) -> SendBody {
        if self.query.sends_body() { SendBody::Framed(Source::Loaded(req.body.len())) } else { SendBody::None }
    }

    fn write_request(&mut self, _: &Rc<Request>, body: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        self.query.write(out);
        let promise = if body == SendBody::None { Promise::Bytes(0) } else { Promise::LastFrame };
        Ok(Written { uri: 0..0, promise })
    }

    fn shares(&self) -> Option<Measure> {
        self.query.shares()
    }

    fn frame(&self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
        if last {
            out.extend_from_slice(b"\r\n");
        }
    }

    fn begin_try(&mut self) {
        (self.is_doubtful, self.is_exact) = (false, false);
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        let Some(answer) = self.query.read_head(input, head)? else { return Ok(HeadPart::Partial(0)) };
        if answer.is_missing {
            let key = bstr::BStr::new(self.key);
            self.say(Level::Info, format_args!("key: \"{key}\" was not found by {}", Q::SERVER));
        }
        self.content = answer.content;
        self.is_doubtful = answer.is_doubtful;
        // A miss ends with its head, and an error page may answer without asking for a body.
        self.is_exact = self.content.is_rest(&input[answer.head_bytes..]);
        Ok(HeadPart::Complete(answer.head_bytes))
    }

    fn take_messages(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.messages)
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        self.query.answered(self.req);
        head.content_length != Some(0) && !self.req.is_head()
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        if self.req.is_head() {
            // The value may be long, and nobody wants it.
            self.is_exact = self.content.is_rest(input);
            return Ok(BodyPart::End(input.len()));
        }
        match self.content.decode(input) {
            Ok(BodyPart::End(used)) => {
                self.is_exact = used == input.len();
                if !self.is_exact {
                    self.say(Level::Warn, format_args!("{} sent more than its answer", Q::SERVER));
                }
                Ok(BodyPart::End(input.len()))
            }
            Ok(part) => Ok(part),
            Err(error) => {
                self.is_exact = false;
                self.say(Level::Error, format_args!("{} sent {error}", Q::SERVER));
                Ok(BodyPart::End(input.len()))
            }
        }
    }

    fn is_complete_at_close(&self) -> bool {
        false
    }

    fn is_reusable(&self, _: &ResponseHead) -> bool {
        self.is_exact && !self.is_doubtful
    }
}
