//! Scripts in Lua, as wrk runs them.
//!
//! Each thread has a machine of its own, and one more runs `setup` and `done`; all of them have loaded the script. The
//! functions around the script's own are Lua too (`wrk.lua`); what they need of the system is [`native`].
//!
//! Source: wrk's SCRIPTING.

mod message;
mod native;

use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_lua::error::LuaError;
use tidegate_lua::plain::Machine;
use tidegate_lua::stack::{Lua, Ref};

use crate::block::split_field;
use crate::failure::plain;
use crate::plan::{Address, Plan};

pub(crate) use message::Message;

/// Functions around those of the script.
const WRK: &str = include_str!("wrk.lua");

/// The script of one thread, or that for `setup` and `done`.
#[derive(Debug)]
pub(crate) struct Script {
    machine: Machine,
    /// What `wrk.lua` returns.
    entries: Ref,
    makes_requests: bool,
    wants_responses: bool,
    has_delay: bool,
    message: Message,
    has_stopped: bool,
    /// Where this thread connects to, if the script has chosen.
    address: Option<Address>,
    /// Why the script cannot go on.
    fault: Option<String>,
}

/// What the machines are made of.
#[derive(Debug)]
pub(crate) struct Source {
    text: Vec<u8>,
    name: CString,
    arguments: Vec<String>,
}

/// An error of a script that was called as a part of a larger step.
fn failed(failure: tidegate_lua::error::Failure) -> LuaError {
    LuaError::Bare(failure.message)
}

impl Source {
    /// Reads a script; its `init` gets the arguments.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn read(file: &Path, arguments: &[String]) -> Result<Self, String> {
        let text = std::fs::read(file).map_err(|error| format!("{}: {}", file.display(), plain(&error)))?;
        let name = CString::new(format!("@{}", file.display())).map_err(|_| "the script's name has a zero in it")?;
        Ok(Self { text, name, arguments: arguments.to_vec() })
    }

    /// Makes all machines and runs `setup` and `init` for each thread, as wrk does: ahead of the first request.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn start(&self, plan: &Plan) -> Result<(Script, Vec<Script>), String> {
        let mut main = Script::load(self, plan, None)?;
        let threads: Result<Vec<Script>, String> =
            (0..plan.threads).map(|number| Script::load(self, plan, Some(number))).collect();
        native::lend(threads?);
        for number in 0..plan.threads {
            main.call(b"setup", |lua| lua.push_integer(number as i64), 1, |_| Ok(()))?;
            native::with_thread(number, |script| script.init(plan, &self.arguments))
                .unwrap_or_else(|| Err("a thread's script is not there".to_owned()))?;
        }
        Ok((main, native::take_back()))
    }
}

impl Script {
    fn load(source: &Source, plan: &Plan, number: Option<usize>) -> Result<Self, String> {
        let mut machine = Machine::new().map_err(|failure| failure.to_string())?;
        let entries = machine.with(|lua| {
            lua.load(WRK.as_bytes(), c"=tidegate load").map_err(failed)?;
            native::push(lua);
            push_target(lua, plan);
            match number {
                Some(number) => lua.push_integer(number as i64),
                None => lua.push_nil(),
            }
            lua.call(3, 1).map_err(failed)?;
            let entries = lua.make_ref();
            lua.load(&source.text, &source.name).map_err(failed)?;
            lua.call(0, 0).map_err(failed)?;
            Ok(entries)
        });
        Ok(Self {
            entries: entries.map_err(|failure| failure.to_string())?,
            machine,
            makes_requests: false,
            wants_responses: false,
            has_delay: false,
            message: Message::default(),
            has_stopped: false,
            address: None,
            fault: None,
        })
    }

    /// Calls one of the entries with the arguments that `push` pushes, and takes its three results.
    fn call<R>(
        &mut self,
        name: &[u8],
        push: impl FnOnce(&mut Lua),
        count: i32,
        take: impl FnOnce(&mut Lua) -> Result<R, LuaError>,
    ) -> Result<R, String> {
        let entries = self.entries;
        let result = self.machine.with(|lua| {
            lua.reserve(16)?;
            lua.push_ref(entries);
            lua.raw_get_field(-1, name);
            push(lua);
            lua.call(count, 3).map_err(failed)?;
            take(lua)
        });
        result.map_err(|failure| failure.to_string())
    }

    fn init(&mut self, plan: &Plan, arguments: &[String]) -> Result<(), String> {
        let url = plan.urls[0].text.clone();
        let push = |lua: &mut Lua| {
            lua.push_table(arguments.len() as i32, 1);
            for (number, argument) in std::iter::once(&url).chain(arguments).enumerate() {
                lua.push_bytes(argument.as_bytes());
                lua.raw_set_index(-2, number as i32);
            }
        };
        let has = self.call(b"init", push, 1, |lua| Ok([-3, -2, -1].map(|index| lua.to_bool(index))))?;
        [self.makes_requests, self.wants_responses, self.has_delay] = has;
        self.has_stopped |= self.call(b"has_stopped", |_| {}, 0, |lua| Ok(lua.to_bool(-3)))?;
        if !self.makes_requests {
            self.make_message()?;
            self.check_for_http2(plan)?;
        }
        Ok(())
    }

    fn check_for_http2(&self, plan: &Plan) -> Result<(), String> {
        if plan.is_http2 && self.message.to_heads().len() > 1 {
            return Err("over HTTP/2 request() has to return one request".to_owned());
        }
        Ok(())
    }

    /// Asks the script for the next request.
    fn make_message(&mut self) -> Result<(), String> {
        let mut message = std::mem::take(&mut self.message);
        let made = self.call(
            b"request",
            |_| {},
            0,
            |lua| match lua.to_bytes(-3) {
                Some(text) => message.set(text).map_err(LuaError::from),
                None => Err(LuaError::new("request() has to return a string")),
            },
        );
        self.message = message;
        made
    }

    /// The next request; `None` when the script cannot make one, which ends the run.
    pub(crate) fn request(&mut self, plan: &Plan) -> Option<&Message> {
        if self.makes_requests
            && let Err(fault) = self.make_message().and_then(|()| self.check_for_http2(plan))
        {
            self.stop_for(fault);
            return None;
        }
        Some(&self.message)
    }

    /// Whether the script wants to see responses.
    pub(crate) fn wants_responses(&self) -> bool {
        self.wants_responses
    }

    /// Shows the script a response; `fields` are its header lines.
    pub(crate) fn response(&mut self, status: u16, fields: &[u8], body: &[u8]) {
        let push = |lua: &mut Lua| {
            lua.push_integer(i64::from(status));
            lua.push_table(0, 8);
            for line in fields.split(|byte| *byte == b'\n') {
                if let Some((name, value)) = split_field(line) {
                    lua.push_bytes(name);
                    lua.push_bytes(value);
                    lua.raw_set(-3);
                }
            }
            lua.push_bytes(body);
        };
        match self.call(b"response", push, 3, |lua| Ok(lua.to_bool(-3))) {
            Ok(stopped) => self.has_stopped |= stopped,
            Err(fault) => self.stop_for(fault),
        }
    }

    /// How long to wait before the next request, if the script says.
    pub(crate) fn delay(&mut self) -> Option<Duration> {
        /// An hour: more is a mistake.
        const DELAY_MS_MAX: f64 = 3_600_000.0;
        if !self.has_delay {
            return None;
        }
        match self.call(b"delay", |_| {}, 0, |lua| Ok(lua.to_number(-3))) {
            Ok(ms) => ms.filter(|ms| *ms > 0.0).map(|ms| Duration::from_secs_f64(ms.min(DELAY_MS_MAX) / 1e3)),
            Err(fault) => {
                self.stop_for(fault);
                None
            }
        }
    }

    fn stop_for(&mut self, fault: String) {
        self.has_stopped = true;
        self.fault.get_or_insert(fault);
    }

    /// Whether the script has ended its thread.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Why it could not go on.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Where the thread connects to, if the script has chosen.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }
}

/// What a run came to, for `done`.
#[derive(Debug)]
pub(crate) struct Summary<'s> {
    pub(crate) duration: Duration,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Errors as wrk sorts them: connect, read, write, status, timeout.
    pub(crate) errors: [u64; 5],
    pub(crate) latency: &'s Histogram<u64>,
    pub(crate) rates: &'s Histogram<u64>,
}

impl Script {
    /// Runs `done`, which may ask the threads' machines.
    ///
    /// # Errors
    /// The error of the script.
    pub(crate) fn done(&mut self, threads: Vec<Script>, summary: &Summary) -> Result<(), String> {
        native::lend(threads);
        let push = |lua: &mut Lua| {
            push_summary(lua, summary);
            push_statistics(lua, summary.latency);
            push_statistics(lua, summary.rates);
        };
        let done = self.call(b"done", push, 3, |_| Ok(()));
        drop(native::take_back());
        done
    }
}

fn set_number(lua: &mut Lua, name: &[u8], value: f64) {
    lua.push_number(value);
    lua.raw_set_field(-2, name);
}

fn push_summary(lua: &mut Lua, summary: &Summary) {
    lua.push_table(0, 4);
    set_number(lua, b"duration", summary.duration.as_micros() as f64);
    set_number(lua, b"requests", summary.requests as f64);
    set_number(lua, b"bytes", summary.bytes as f64);
    lua.push_table(0, 5);
    for (name, count) in [&b"connect"[..], b"read", b"write", b"status", b"timeout"].into_iter().zip(summary.errors) {
        set_number(lua, name, count as f64);
    }
    lua.raw_set_field(-2, b"errors");
}

fn push_statistics(lua: &mut Lua, histogram: &Histogram<u64>) {
    lua.push_table(0, 8);
    let numbers = [
        (&b"min"[..], histogram.min() as f64),
        (b"max", histogram.max() as f64),
        (b"mean", histogram.mean()),
        (b"stdev", histogram.stdev()),
        (b"total", histogram.len() as f64),
    ];
    for (name, value) in numbers {
        set_number(lua, name, value);
    }
    let recorded: Vec<(u64, u64)> =
        histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
    let columns: [(&[u8], fn(&(u64, u64)) -> u64); 2] = [(b"values", |step| step.0), (b"counts", |step| step.1)];
    for (name, column) in columns {
        lua.push_table(recorded.len() as i32, 0);
        for (at, step) in recorded.iter().enumerate() {
            lua.push_number(column(step) as f64);
            lua.raw_set_index(-2, at as i32 + 1);
        }
        lua.raw_set_field(-2, name);
    }
}

/// What the options say, as the script finds it.
fn push_target(lua: &mut Lua, plan: &Plan) {
    let url = &plan.urls[0];
    lua.push_table(0, 9);
    let mut texts = vec![
        (&b"scheme"[..], if url.is_tls { "https" } else { "http" }.to_owned()),
        (b"host", url.host.clone()),
        (b"method", plan.form.method.clone()),
        (b"path", url.path.clone()),
        (b"authority", url.authority()),
        (b"address", plan.address.to_string()),
    ];
    texts.extend(url.port.map(|port| (&b"port"[..], port.to_string())));
    for (name, text) in texts {
        lua.push_bytes(text.as_bytes());
        lua.raw_set_field(-2, name);
    }
    if !plan.form.body.is_empty() {
        lua.push_bytes(&plan.form.body);
        lua.raw_set_field(-2, b"body");
    }
    lua.push_table(0, plan.form.fields.len() as i32);
    for (name, value) in &plan.form.fields {
        lua.push_bytes(value.as_bytes());
        lua.raw_set_field(-2, name.as_bytes());
    }
    if plan.form.close {
        lua.push_bytes(b"close");
        lua.raw_set_field(-2, b"Connection");
    }
    lua.raw_set_field(-2, b"headers");
}
