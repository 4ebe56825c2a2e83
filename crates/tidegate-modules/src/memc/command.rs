//! The command that a request's variables stand for, and what its answer means for the response.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bstr::{BStr, ByteSlice};
use tidegate_core::{phase::Step, request::Request, upstream::Measure, variable::VariableId};
use tidegate_http::{
    Method, ResponseHead, SizedValue,
    memcached::{self, Command, EXPTIME_MAX, FLAGS_MAX, GetReply, VALUE_BYTES_MAX},
};
use tidegate_net::log::Level;

use super::Location;
use crate::{
    key_value::{Answer, Query},
    memcached::{key_of, measure_get, number, read_get_reply},
};

/// The command of a request: that of `$memc_cmd`, else the one that the method means.
///
/// # Errors
/// There is none, or it is not allowed; the log has the reason.
pub(super) fn choose(location: &Location, req: &Request) -> Result<Command, Step> {
    let name = req.variable_bytes(location.variables.cmd).unwrap_or_default();
    let command = match req.method.get() {
        _ if !name.is_empty() => Command::named(&name).ok_or_else(|| {
            req.log(Level::Error, format_args!("ngx_memc: unknown $memc_cmd \"{}\"", BStr::new(&name)));
            Step::Status(400)
        })?,
        Method::Get | Method::Head => Command::Get,
        Method::Post => Command::Add,
        Method::Put => Command::Set,
        Method::Delete => Command::Delete,
        _ => {
            let head = req.head.borrow();
            let method = BStr::new(req.method_text(&head));
            req.log(Level::Error, format_args!("ngx_memc: $memc_cmd variable not found for HTTP {method} requests"));
            return Err(Step::Status(400));
        }
    };
    if !location.cmds_allowed.contains(command) {
        let name = command.name();
        req.log(Level::Error, format_args!("ngx_memc: memcached command \"{name}\" not allowed"));
        return Err(Step::Status(403));
    }
    Ok(command)
}

/// The numbers of a command.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    exptime: Option<u64>,
    flags: Option<u64>,
    /// By how much `incr` and `decr` change a value.
    delta: Option<u64>,
}

impl Numbers {
    /// Reads the numbers that the command has.
    ///
    /// # Errors
    /// One is none, or out of range: the server would not understand the command; the log has the reason.
    pub(super) fn read(location: &Location, req: &Request, command: Command) -> Result<Numbers, Step> {
        let variables = &location.variables;
        let mut numbers = Numbers::default();
        if command.is_storage() || matches!(command, Command::FlushAll | Command::Delete) {
            numbers.exptime = read_number(req, variables.exptime, "memc_exptime", EXPTIME_MAX)?;
        }
        if command.is_storage() {
            numbers.flags = read_number(req, variables.flags, "memc_flags", FLAGS_MAX)?;
        }
        if matches!(command, Command::Incr | Command::Decr) {
            numbers.delta = Some(read_delta(req, variables.value, command)?);
        }
        Ok(numbers)
    }
}

fn read_number(req: &Request, variable: VariableId, name: &str, max: u64) -> Result<Option<u64>, Step> {
    let text = req.variable_bytes(variable).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    match number(&text, max) {
        Some(number) => Ok(Some(number)),
        None => {
            let text = BStr::new(&text);
            req.log(Level::Error, format_args!("variable \"${name}\" takes invalid value: {text}"));
            Err(Step::Status(400))
        }
    }
}

fn read_delta(req: &Request, variable: VariableId, command: Command) -> Result<u64, Step> {
    let text = req.variable_bytes(variable).unwrap_or_default();
    if text.is_empty() {
        let name = command.name();
        req.log(Level::Error, format_args!("the \"$memc_value\" variable is required for command \"{name}\""));
        return Err(Step::Status(400));
    }
    number(&text, u64::MAX).ok_or_else(|| {
        let text = BStr::new(&text);
        req.log(Level::Error, format_args!("variable \"$memc_value\" is invalid for incr/decr: {text}"));
        Step::Status(400)
    })
}

/// A command, complete.
#[derive(Debug)]
pub(super) struct Asked {
    command: Command,
    numbers: Numbers,
    /// Empty for commands that have none.
    pub key: Vec<u8>,
    value: Value,
}

/// What a storage command stores.
#[derive(Debug)]
enum Value {
    /// `$memc_value`, or nothing.
    Bytes(Vec<u8>),
    /// The client's body, of so many bytes.
    Body(u64),
}

impl Asked {
    /// The command of a request whose body has been read. Flags and the time of expiry get the values that they have when
    /// nobody sets them.
    ///
    /// # Errors
    /// It has no key, or no value; the log has the reason.
    pub(super) fn new(
        location: &Location,
        req: &Rc<Request>,
        command: Command,
        numbers: Numbers,
    ) -> Result<Self, Step> {
        let variables = &location.variables;
        let key = if command.has_key() { key_of(req, variables.key, "memc_key")? } else { Vec::new() };
        let mut value = Value::Bytes(Vec::new());
        if command.is_storage() {
            value = read_value(req, variables.value)?;
            for (number, variable) in [(numbers.flags, variables.flags), (numbers.exptime, variables.exptime)] {
                if number.is_none() {
                    let _ = req.set_variable(variable, Some(b"0"));
                }
            }
        }
        Ok(Asked { command, numbers, key, value })
    }
}

fn read_value(req: &Request, variable: VariableId) -> Result<Value, Step> {
    let value = match req.variable_bytes(variable) {
        Some(value) => Value::Bytes(value),
        None if req.body.is_empty() && !announced_body(req) => {
            let message = format_args!("neither the \"$memc_value\" variable nor the request body is available");
            req.log(Level::Error, message);
            return Err(Step::Status(500));
        }
        None => Value::Body(req.body.len()),
    };
    if value.bytes() > VALUE_BYTES_MAX {
        req.log(Level::Error, format_args!("a value of {} bytes is too long for memcached", value.bytes()));
        return Err(Step::Status(413));
    }
    Ok(value)
}

/// The client announced a body, though it is empty: so is the value.
fn announced_body(req: &Request) -> bool {
    let head = req.head.borrow();
    !req.is_subrequest() && (head.chunked || head.content_length.is_some())
}

impl Value {
    fn bytes(&self) -> u64 {
        match self {
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Body(bytes) => *bytes,
        }
    }
}

/// A command and the flags of the value that it finds.
pub(super) struct Reply<'a> {
    asked: &'a Asked,
    location: &'a Location,
    flags: RefCell<Vec<u8>>,
    is_found: Cell<bool>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(asked: &'a Asked, location: &'a Location) -> Self {
        Reply { asked, location, flags: RefCell::default(), is_found: Cell::new(false) }
    }

    fn read_get(&self, input: &[u8], head: &mut ResponseHead) -> Result<Option<Answer>, String> {
        let Some((reply, answer)) = read_get_reply(input, &self.asked.key, head)? else { return Ok(None) };
        self.is_found.set(false);
        if let GetReply::Value { flags, .. } = reply {
            self.is_found.set(true);
            self.flags.replace(flags.to_vec());
        }
        Ok(Some(answer))
    }
}

impl Query for Reply<'_> {
    const SCHEME: &'static str = "memcached://";
    const SERVER: &'static str = "memcached";

    fn sends_body(&self) -> bool {
        matches!(self.asked.value, Value::Body(_))
    }

    fn shares(&self) -> Option<Measure> {
        (self.location.shares && self.asked.command == Command::Get).then_some(measure_get)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Asked { command, numbers, key, value } = self.asked;
        if !command.is_storage() {
            return memcached::write_command(*command, key, numbers.delta.or(numbers.exptime), out);
        }
        let (flags, exptime) = (numbers.flags.unwrap_or(0), numbers.exptime.unwrap_or(0));
        memcached::write_storage(*command, key, flags, exptime, value.bytes(), out);
        if let Value::Bytes(bytes) = value {
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The answer to all but `get` is the response's content as it is.
    fn read_head(&self, input: &[u8], head: &mut ResponseHead) -> Result<Option<Answer>, String> {
        let command = self.asked.command;
        if command == Command::Get {
            return self.read_get(input, head);
        }
        let parsed = memcached::parse_reply(command, input).map_err(|error| {
            let (name, line) = (command.name(), BStr::new(input.lines().next().unwrap_or_default()));
            format!("memcached sent {error} for command \"{name}\": \"{line}\"")
        })?;
        let Some((outcome, bytes)) = parsed else { return Ok(None) };
        head.status = match outcome {
            memcached::Outcome::Stored => 201,
            memcached::Outcome::Done => 200,
            memcached::Outcome::NotFound => 404,
            memcached::Outcome::Refused => 502,
        };
        let is_missing = outcome == memcached::Outcome::NotFound;
        // The error page for a key that is not there takes the place of the answer.
        let (head_bytes, content_bytes) = if is_missing { (bytes, 0) } else { (0, bytes as u64) };
        head.content_length = Some(content_bytes);
        let content = SizedValue::new(content_bytes, b"");
        // A server that refuses a line may take the value behind it for another one, and answer that as well.
        let is_doubtful = outcome == memcached::Outcome::Refused;
        Ok(Some(Answer { head_bytes, content, is_doubtful, is_missing }))
    }

    fn answered(&self, req: &Rc<Request>) {
        if !self.is_found.get() {
            return;
        }
        let flags = self.flags.borrow();
        let _ = req.set_variable(self.location.variables.flags, Some(&flags));
        if self.location.flags_to_last_modified
            && let Some(seconds) = number(&flags, FLAGS_MAX)
        {
            let mut response = req.response.borrow_mut();
            response.last_modified = Some(seconds as i64);
            response.conditions_are_tested = false;
        }
    }
}
