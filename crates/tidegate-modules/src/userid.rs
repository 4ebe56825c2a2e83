//! `userid`: cookies that tell one browser from another.
//!
//! An identifier has four words: the service (or the address that was connected to), the time, the process, and a number.
//! A cookie is their bytes in base64; variables and logs show the words in hexadecimal digits, as the machine reads them.
//!
//! `$uid_reset` is a variable for configurations to define: not empty and not `0`, the browser gets a new identifier; `log`, the error log has a
//! line about it.
//!
//! Source: nginx, `ngx_http_userid_filter_module`.

use std::{
    cell::Cell,
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Directive, Module},
    output::Closed,
    phase::Ready,
    request::Request,
    upstream::directives::fill,
    variable::{VariableDef, VariableId},
};
use tidegate_http::{basic_auth::decode_base64, cookie::cookie, date::write_cookie_date};
use tidegate_net::Peer;
use tidegate_net::{clock, log::Level};

const OFF: u32 = 0;
const LOG: u32 = 1;
const V1: u32 = 2;
const ON: u32 = 3;

/// The time at which a cookie expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expires {
    /// With the browser.
    Never,
    /// In so many seconds.
    In(i64),
    /// The latest time that a cookie can have.
    Max,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    userid: Option<u32>,
    userid_service: Option<u64>,
    userid_name: Option<BString>,
    userid_domain: Option<BString>,
    userid_path: Option<BString>,
    userid_expires: Option<Expires>,
    /// Text that follows the cookie.
    userid_flags: Option<BString>,
    userid_p3p: Option<BString>,
    /// `None` inside for `off`.
    userid_mark: Option<Option<u8>>,
    /// `$uid_reset`, known where `userid` stands.
    reset: Option<VariableId>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("userid", 1, 1, userid)
            .syntax("on | v1 | log | off")
            .default("off")
            .doc("Sets cookies that tell browsers apart, or only reads them."),
        Directive::number("userid_service", |c: &mut Conf| &mut c.userid_service)
            .doc("Number of the service that gives identifiers out, instead of the server's address."),
        Directive::text("userid_name", |c: &mut Conf| &mut c.userid_name).default("uid").doc("Name of the cookie."),
        Directive::text("userid_domain", |c: &mut Conf| &mut c.userid_domain)
            .default("none")
            .doc("Domain of the cookie."),
        Directive::text("userid_path", |c: &mut Conf| &mut c.userid_path).default("/").doc("Path of the cookie."),
        Directive::custom("userid_expires", 1, 1, expires)
            .syntax("time | max | off")
            .default("off")
            .doc("Time that browsers keep the cookie."),
        Directive::custom("userid_flags", 1, u16::MAX, flags)
            .syntax("off | flag ...")
            .default("off")
            .doc("Flags of the cookie: secure, httponly, samesite=strict, samesite=lax, samesite=none."),
        Directive::text("userid_p3p", |c: &mut Conf| &mut c.userid_p3p)
            .default("none")
            .doc("Value of the field P3P that goes with the cookie."),
        Directive::custom("userid_mark", 1, 1, mark)
            .syntax("letter | digit | = | off")
            .default("off")
            .doc("Character in the cookie's padding; cookies without it are sent again."),
    ],
    variables: &[
        VariableDef::new("uid_got", got, "Name and identifier of the cookie that the browser sent."),
        VariableDef::new("uid_set", set, "Name and identifier of the cookie that the browser gets."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; userid, userid_service, userid_name, userid_domain, userid_path, userid_expires,
            userid_flags, userid_p3p, userid_mark, reset);
    },
    install: |conf, program| {
        if matches!(conf.userid, Some(V1 | ON)) {
            let conf = conf.clone();
            program.header_filter(move |req| Ready::Now(conf.filter(req)));
        }
    },
    example: "
        userid on;
        userid_name uid;
        userid_expires 365d;
    ",
    ..Module::named("userid")
};

fn emerg(arg: &ast::Arg, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn userid(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    const WORDS: [(&str, u32); 4] = [("off", OFF), ("log", LOG), ("v1", V1), ("on", ON)];
    let arg = &directive.args[0];
    let level = values::word(arg.value.as_bstr(), &WORDS)
        .map_err(|_| Diagnostic::unknown_value(&arg.value, arg.span, WORDS.map(|(word, _)| word)))?;
    // A variable for `map` and `set`; without them it has no value.
    let reset = build.variables.define_capture("uid_reset".into());
    conf.reset = Some(reset.map_err(|error| emerg(arg, error.to_string()))?);
    fill(&mut conf.userid, level, directive)
}

fn expires(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let expires = match &**arg.value {
        b"max" => Expires::Max,
        b"off" => Expires::Never,
        text => {
            let time = values::time_seconds(text.as_bstr()).map_err(|_| emerg(arg, "invalid value"))?;
            Expires::In(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
        }
    };
    fill(&mut conf.userid_expires, expires, directive)
}

fn flags(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    const KNOWN: [&str; 5] = ["secure", "httponly", "samesite=strict", "samesite=lax", "samesite=none"];
    let mut words: Vec<&str> = Vec::new();
    for arg in &directive.args {
        if arg.value == "off" && directive.args.len() == 1 {
            break;
        }
        let known = KNOWN.iter().find(|word| arg.value == **word);
        words.push(known.ok_or_else(|| Diagnostic::invalid_parameter(&arg.value, arg.span, KNOWN))?);
    }
    // Of several values of SameSite the last one counts.
    let same_site = words.iter().rev().find(|word| word.starts_with("samesite"));
    let mut text = String::new();
    for word in KNOWN.iter().filter(|word| words.contains(word)) {
        if !word.starts_with("samesite") || same_site == Some(word) {
            text = text + "; " + word;
        }
    }
    fill(&mut conf.userid_flags, text.into(), directive)
}

fn mark(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let mark = match &**arg.value {
        b"off" => None,
        &[mark] if mark.is_ascii_alphanumeric() || mark == b'=' => Some(mark),
        _ => return Err(emerg(arg, "value must be \"off\" or a single letter, digit or \"=\"")),
    };
    fill(&mut conf.userid_mark, mark, directive)
}

/// An identifier.
type Uid = [u8; 16];

/// What is known of a request.
#[derive(Default)]
struct Known {
    got: Option<Uid>,
    /// The cookie has the mark that it should have.
    is_marked: bool,
    set: Cell<Option<Uid>>,
    decided: Cell<bool>,
}

/// Length of an identifier in base64, without padding.
const UID_BASE64_BYTES: usize = 22;

/// A browser's cookie lives to here for the word `max`.
const MAX: &str = "; expires=Thu, 31-Dec-37 23:55:55 GMT";

/// First number of identifiers, and the step from one to the next.
///
/// Source: nginx.
const SEQUENCE: (u32, u32) = (0x0303_0302, 0x100);

fn show(name: &[u8], uid: &Uid, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.push(b'=');
    for word in uid.as_chunks::<4>().0 {
        out.extend_from_slice(format!("{:08X}", u32::from_ne_bytes(*word)).as_bytes());
    }
}

fn got(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let conf = req.module_conf(&MODULE);
    let uid = if conf.level() == OFF { None } else { conf.known(req).got };
    uid.inspect(|uid| show(conf.name(), uid, out)).is_some()
}

fn set(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let conf = req.module_conf(&MODULE);
    let uid = if conf.level() < V1 { None } else { conf.decide(req) };
    uid.inspect(|uid| show(conf.name(), uid, out)).is_some()
}

impl Conf {
    fn level(&self) -> u32 {
        self.userid.unwrap_or(OFF)
    }

    fn name(&self) -> &[u8] {
        self.userid_name.as_ref().map_or(b"uid", |name| name)
    }

    fn known(&self, req: &Request) -> Rc<Known> {
        if let Some(known) = req.find_context::<Known>() {
            return known;
        }
        let mut known = Known::default();
        let main = req.main();
        let head = main.head.borrow();
        if let Some(value) = cookie(&head.fields, self.name()) {
            // Only so much of it: marks and other padding follow.
            let uid = value.get(..UID_BASE64_BYTES).and_then(decode_base64);
            known.got = uid.and_then(|uid| Uid::try_from(uid).ok());
            if known.got.is_none() {
                let what = if value.len() < UID_BASE64_BYTES { "too short" } else { "invalid" };
                let (name, value) = (BStr::new(self.name()), BStr::new(value));
                req.log(Level::Error, format_args!("client sent {what} userid cookie \"{name}={value}\""));
            }
            let padding = value.get(UID_BASE64_BYTES..).unwrap_or_default();
            known.is_marked = match self.userid_mark.flatten() {
                None => true,
                Some(mark) => padding.starts_with(&[mark, b'=']),
            };
        }
        drop(head);
        let known = Rc::new(known);
        req.set_context(known.clone());
        known
    }

    /// The identifier that the browser is to get, if any.
    fn decide(&self, req: &Request) -> Option<Uid> {
        let known = self.known(req);
        if !known.decided.replace(true) {
            known.set.set(match known.got {
                Some(uid) if !self.is_reset(req, &uid) => (!known.is_marked).then_some(uid),
                _ => Some(self.create(req)),
            });
        }
        known.set.get()
    }

    fn is_reset(&self, req: &Request, uid: &Uid) -> bool {
        let mut value = Vec::new();
        if let Some(reset) = self.reset {
            req.variable(reset, &mut value);
        }
        if value == b"log" {
            let mut shown = Vec::new();
            show(self.name(), uid, &mut shown);
            req.log(Level::Notice, format_args!("userid cookie \"{}\" was reset", BStr::new(&shown)));
        }
        !matches!(&value[..], b"" | b"0")
    }

    fn create(&self, req: &Request) -> Uid {
        static NUMBER: AtomicU32 = AtomicU32::new(SEQUENCE.0);
        static PROCESS: OnceLock<u32> = OnceLock::new();
        // Two processes that have the same number one after the other began at different times.
        let process = *PROCESS.get_or_init(|| {
            let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_micros());
            (micros / 20) << 16 | (std::process::id() & 0xffff)
        });
        let number = NUMBER.fetch_add(SEQUENCE.1, Ordering::Relaxed);
        let time = u32::try_from(clock::now_unix()).unwrap_or(0);
        let service = self.userid_service.map(|service| service as u32);
        let words = if self.level() == V1 {
            [service.unwrap_or(0), time, process, number].map(u32::to_ne_bytes)
        } else {
            let service = match (service, req.connection().local_addr()) {
                (Some(service), _) => service.to_be_bytes(),
                (None, Peer::Inet(address)) => match address.ip() {
                    IpAddr::V4(ip) => ip.octets(),
                    IpAddr::V6(ip) => (ip.to_bits() as u32).to_be_bytes(),
                },
                (None, Peer::Unix) => [0; 4],
            };
            [service, time.to_be_bytes(), process.to_be_bytes(), number.to_be_bytes()]
        };
        let mut uid = Uid::default();
        uid.as_chunks_mut::<4>().0.copy_from_slice(&words);
        uid
    }

    fn filter(self: &Arc<Self>, req: &Rc<Request>) -> Result<(), Closed> {
        if req.is_subrequest() {
            return Ok(());
        }
        let Some(uid) = self.decide(req) else { return Ok(()) };
        let mut encoded = STANDARD.encode(uid).into_bytes();
        if let Some(mark) = self.userid_mark.flatten() {
            encoded[UID_BASE64_BYTES] = mark;
        }
        let mut line = [self.name(), b"=", &encoded].concat();
        match self.userid_expires.unwrap_or(Expires::Never) {
            Expires::Never => {}
            Expires::Max => line.extend_from_slice(MAX.as_bytes()),
            Expires::In(seconds) => {
                line.extend_from_slice(b"; expires=");
                write_cookie_date(clock::now_unix().saturating_add(seconds), &mut line);
            }
        }
        if let Some(domain) = self.userid_domain.as_ref().filter(|domain| *domain != "none") {
            line.extend_from_slice(b"; domain=");
            line.extend_from_slice(domain);
        }
        line.extend_from_slice(b"; path=");
        line.extend_from_slice(self.userid_path.as_ref().map_or(b"/", |path| path));
        line.extend_from_slice(self.userid_flags.as_ref().map_or(b"", |flags| flags));
        let mut response = req.response.borrow_mut();
        response.fields.append_known(tidegate_http::Known::SetCookie, &line);
        if let Some(p3p) = self.userid_p3p.as_ref().filter(|p3p| *p3p != "none") {
            response.fields.append(b"P3P", p3p);
        }
        Ok(())
    }
}
