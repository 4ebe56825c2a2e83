//! One request's conversation with a server.

use std::rc::Rc;

use bstr::{BStr, ByteSlice};
use tidegate_core::{
    phase::Step,
    request::Request,
    upstream::{HeadPart, Promise, Protocol, SendBody, Written},
};
use tidegate_http::{
    BodyPart, ResponseHead,
    handlersocket::{END, reply::Head},
};
use tidegate_net::log::Level;

use super::{
    request::{Location, Prepared, Tells},
    rows::Answer,
};

/// The error of a table that is not there.
const OPEN_TABLE: &[u8] = b"open_table";
/// The error of a server that cannot use its tables at the moment.
const LOCK_TABLES: &[u8] = b"lock_tables";
/// The storage engine's number of a key that is there already.
const DUPLICATE_KEY: &[u8] = b"121";

/// Asks a server and reads its answers: those to the greeting, then the one to the request.
pub(super) struct Conversation<'a> {
    req: &'a Rc<Request>,
    location: &'a Location,
    prepared: Prepared,
    /// Answers that come ahead of the one to the request.
    greetings_left: usize,
    /// The connection is not what the greeting says: the server has refused a part of it.
    is_refused: bool,
    /// The end of the answer has come.
    is_done: bool,
    /// Nothing has come behind it.
    is_exact: bool,
    messages: Vec<(Level, String)>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(req: &'a Rc<Request>, location: &'a Location, prepared: Prepared) -> Self {
        Conversation {
            req,
            location,
            prepared,
            greetings_left: 0,
            is_refused: false,
            is_done: false,
            is_exact: false,
            messages: Vec::new(),
        }
    }

    /// An answer has this head; answers whether it is the one to the request.
    fn take_success(&mut self, columns: u32, rest: &[u8]) -> Result<bool, String> {
        if self.greetings_left > 0 {
            if rest.first() != Some(&END) {
                return Err("handlersocket sent values where none were asked for".to_owned());
            }
            self.greetings_left -= 1;
            return Ok(false);
        }
        let expected = match self.location.action.tells() {
            Tells::Rows => self.location.columns.len(),
            Tells::Changed | Tells::Inserted => 1,
        };
        if columns as usize != expected {
            return Err(format!("handlersocket sent rows of {columns} values instead of {expected}"));
        }
        Ok(true)
    }

    /// The request, or a part of the greeting, has failed: the status for that.
    #[cold]
    fn take_failure(&mut self, class: u32, word: &[u8], is_last: bool) -> u16 {
        let (status, level) = match (class, word) {
            (1, OPEN_TABLE) => (410, Level::Notice),
            (1, LOCK_TABLES) | (3, _) => (502, Level::Error),
            (1, DUPLICATE_KEY) => (409, Level::Notice),
            _ => (500, Level::Error),
        };
        self.messages.push((level, format!("handlersocket sent error {class} \"{}\"", word.as_bstr())));
        // The answers to the rest of what was sent have not been read.
        self.is_refused = self.greetings_left > 0;
        self.is_done = true;
        self.is_exact = is_last;
        status
    }
}

impl Protocol for Conversation<'_> {
    const SCHEME: &'static str = "handlersocket://";

    fn body(&self, _: &Request) -> SendBody {
        SendBody::None
    }

    fn write_request(&mut self, _: &Rc<Request>, _: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        out.extend_from_slice(&self.prepared.line);
        Ok(Written { uri: 0..0, promise: Promise::Bytes(0) })
    }

    fn connection_state(&self) -> &BStr {
        self.prepared.greeting.as_bstr()
    }

    fn write_greeting(&mut self, out: &mut Vec<u8>) {
        self.greetings_left = memchr::memchr_iter(END, &self.prepared.greeting).count();
        out.extend_from_slice(&self.prepared.greeting);
    }

    /// The method says nothing about what the request does.
    fn is_repeatable(&self, _: &Request) -> bool {
        self.location.action.only_reads()
    }

    fn begin_try(&mut self) {
        (self.greetings_left, self.is_refused, self.is_done, self.is_exact) = (0, false, false, false);
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        let mut used = 0;
        loop {
            let read = Head::read(&input[used..]).map_err(|error| format!("handlersocket sent {error}"))?;
            let Some((found, length)) = read else { return Ok(HeadPart::Partial(used)) };
            used += length;
            match found {
                Head::Failure { class, word } => {
                    head.status = self.take_failure(class, word, used == input.len());
                    return Ok(HeadPart::Complete(used));
                }
                Head::Success { columns } if self.take_success(columns, &input[used..])? => {
                    head.status = 200;
                    return Ok(HeadPart::Complete(used));
                }
                // The end of its line, too.
                Head::Success { .. } => used += 1,
            }
        }
    }

    fn take_messages(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.messages)
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        if head.status != 200 {
            return false;
        }
        Answer::begin(self.req, &self.location.columns, self.location.action.tells());
        !self.req.is_head()
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        if self.req.is_head() {
            // There may be many rows, and nobody wants them.
            return Ok(BodyPart::End(input.len()));
        }
        if self.is_done {
            self.is_exact = input.is_empty();
            return Ok(BodyPart::End(input.len()));
        }
        match memchr::memchr(END, input) {
            None if input.is_empty() => Ok(BodyPart::Partial),
            None => Ok(BodyPart::Data { start: 0, end: input.len() }),
            Some(at) => {
                self.is_done = true;
                Ok(BodyPart::Data { start: 0, end: at + 1 })
            }
        }
    }

    fn is_complete_at_close(&self) -> bool {
        self.is_done
    }

    fn is_reusable(&self, _: &ResponseHead) -> bool {
        self.is_exact && !self.is_refused
    }
}
