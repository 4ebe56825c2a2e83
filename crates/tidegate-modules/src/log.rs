//! `access_log` and `log_format`.
//!
//! A format is compiled when it is read; a request appends its parts straight to the line that goes to the log's
//! buffer. Writing is the core's `log`, off the event loop.
//!
//! Source: nginx, `ngx_http_log_module`.

use std::{
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{
    Diagnostic, Level as Severity, ast,
    template::{Segment, parse_template},
    values,
};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    static_files::open::Want,
    template::Template,
    variable::VariableId,
};
use tidegate_net::log::{AccessLog, Buffering, Destination, LogFile, OpenLogFileCache};

/// The format of logs that name none.
const COMBINED: &[u8] = b"$remote_addr - $remote_user [$time_local] \"$request\" \
    $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// The log of a configuration that names none.
const DEFAULT_PATH: &[u8] = b"logs/access.log";

/// How values are made safe for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escaping {
    /// `\xHH` for quotes, backslashes and what is not printable ASCII; `-` for a missing value.
    Default,
    /// As in JSON strings.
    Json,
    /// As it is.
    None,
}

#[derive(Debug)]
enum Part {
    Literal(BString),
    Variable(VariableId),
    Capture(u8),
}

/// A `log_format`.
#[derive(Debug)]
struct Format {
    escaping: Escaping,
    parts: Vec<Part>,
}

/// Where the lines of one `access_log` go.
#[derive(Debug)]
enum Target {
    Fixed(Arc<AccessLog>),
    /// A path with variables; the log is made when `open_log_file_cache` is known.
    Computed {
        path: Template,
        log: OnceLock<Arc<AccessLog>>,
    },
}

/// One `access_log`.
#[derive(Debug)]
struct Entry {
    target: Target,
    format: Arc<Format>,
    /// `if=`
    condition: Option<Template>,
}

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    access_log: Option<Arc<Vec<Entry>>>,
    off: Option<bool>,
    open_log_file_cache: Option<Option<OpenLogFileCache>>,
    /// At the `http` level: all formats by name.
    formats: Vec<(BString, Arc<Format>)>,
    /// At the `http` level: all logs by file, so that those of one file share its buffers.
    files: Vec<(BString, Option<Buffering>, Arc<AccessLog>)>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("log_format", 2, u16::MAX, log_format)
            .within(Context::HTTP)
            .syntax("name [escape=default|json|none] string ...")
            .default("combined \"...\"")
            .doc("A format of access logs."),
        Directive::custom("access_log", 1, u16::MAX, access_log)
            .within(Context::ALL_IF.or(Context::LIMIT_EXCEPT))
            .syntax("path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | off")
            .default("logs/access.log combined")
            .doc("File or other destination of the access log, and the format of its lines."),
        Directive::custom("open_log_file_cache", 1, 4, open_log_file_cache)
            .syntax("off | max=number [inactive=time] [min_uses=number] [valid=time]")
            .default("off")
            .doc("Number of logs with variables in their path that stay open."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; open_log_file_cache);
        if child.access_log.is_none() && child.off.is_none() {
            child.access_log.clone_from(&parent.access_log);
            child.off = parent.off;
        }
    },
    finish: Some(finish),
    install: |conf, program| {
        let Some(entries) = conf.access_log.clone().filter(|_| conf.off.is_none()) else { return };
        for entry in &*entries {
            if let Target::Computed { log, .. } = &entry.target {
                log.get_or_init(|| AccessLog::with_computed_path(conf.open_log_file_cache.flatten()));
            }
        }
        program.on(Phase::Log, move |req| handle(req, &entries));
    },
    example: r#"
        log_format timed '$remote_addr "$request" $status $body_bytes_sent $request_time';
        access_log logs/timed.log timed buffer=32k flush=1s;
    "#,
    ..Module::named("log")
};

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// The configuration of the `http` level, which may be the one at hand.
fn http_conf<'c>(conf: &'c mut Conf, build: &'c mut Build<'_>) -> &'c mut Conf {
    match build.http_level() {
        Some(http) if http != build.level() => build.conf_mut(&MODULE, http),
        _ => conf,
    }
}

fn log_format(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (name, mut texts) = (&directive.args[0], &directive.args[1..]);
    if conf.formats.iter().any(|(known, _)| *known == name.value) || name.value == "combined" {
        return Err(emerg(name, format!("duplicate \"log_format\" name \"{}\"", name.value)));
    }
    let mut escaping = Escaping::Default;
    if let Some(word) = texts[0].value.strip_prefix(b"escape=") {
        escaping = match word {
            b"default" => Escaping::Default,
            b"json" => Escaping::Json,
            b"none" => Escaping::None,
            _ => {
                return Err(emerg(&texts[0], format!("unknown log format escaping \"{}\"", BStr::new(word))));
            }
        };
        texts = &texts[1..];
    }
    let mut parts = Vec::new();
    for text in texts {
        compile(text.value.as_bstr(), text.span, &mut parts, build)?;
    }
    conf.formats.push((name.value.clone(), Arc::new(Format { escaping, parts })));
    Ok(())
}

fn compile(
    text: &BStr,
    span: tidegate_conf::Span,
    parts: &mut Vec<Part>,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    for segment in parse_template(text).map_err(|error| error.diagnostic(span))? {
        parts.push(match segment {
            Segment::Literal(text) => Part::Literal(text),
            Segment::Variable(name) => Part::Variable(build.reference(name.as_bstr(), span)),
            Segment::Capture(group) => Part::Capture(group),
        });
    }
    Ok(())
}

/// The format called `name`, in any case.
fn format_named(
    name: &[u8],
    conf: &mut Conf,
    span: tidegate_conf::Span,
    build: &mut Build<'_>,
) -> Result<Option<Arc<Format>>, Diagnostic> {
    let formats = &http_conf(conf, build).formats;
    if let Some((_, format)) = formats.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(Some(format.clone()));
    }
    if !name.eq_ignore_ascii_case(b"combined") {
        return Ok(None);
    }
    let mut parts = Vec::new();
    compile(COMBINED.as_bstr(), span, &mut parts, build)?;
    let format = Arc::new(Format { escaping: Escaping::Default, parts });
    http_conf(conf, build).formats.push(("combined".into(), format.clone()));
    Ok(Some(format))
}

/// Parameters behind path and format.
#[derive(Default)]
struct Parameters {
    size: Option<usize>,
    flush: Option<Duration>,
    gzip: Option<u32>,
    condition: Option<Template>,
}

impl Parameters {
    fn parse(args: &[ast::Arg], build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let mut parameters = Parameters::default();
        for arg in args {
            let wrong = |what: &str, value: &[u8]| emerg(arg, format!("invalid {what} \"{}\"", BStr::new(value)));
            if let Some(size) = arg.value.strip_prefix(b"buffer=") {
                let parsed = values::size(size.as_bstr()).ok().filter(|&size| size > 0);
                let parsed = parsed.and_then(|size| usize::try_from(size).ok());
                parameters.size = Some(parsed.ok_or_else(|| wrong("buffer size", size))?);
            } else if let Some(time) = arg.value.strip_prefix(b"flush=") {
                let parsed = values::time(time.as_bstr()).ok().filter(|time| !time.is_zero());
                parameters.flush = Some(parsed.ok_or_else(|| wrong("flush time", time))?);
            } else if arg.value == "gzip" {
                parameters.gzip = Some(1);
            } else if let Some(level) = arg.value.strip_prefix(b"gzip=") {
                let parsed = values::integer(level.as_bstr()).ok().and_then(|level| u32::try_from(level).ok());
                let parsed = parsed.filter(|level| (1..=9).contains(level));
                parameters.gzip = Some(parsed.ok_or_else(|| wrong("compression level", level))?);
            } else if let Some(condition) = arg.value.strip_prefix(b"if=") {
                parameters.condition = Some(build.template_at(condition.as_bstr(), arg.span)?);
            } else {
                let known = ["buffer=", "gzip", "gzip=", "flush=", "if="];
                return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, known));
            }
        }
        if parameters.gzip.is_some() {
            parameters.size.get_or_insert(64 << 10);
        }
        Ok(parameters)
    }

    fn buffering(&self) -> Option<Buffering> {
        self.size.map(|size| Buffering { size, flush: self.flush, gzip: self.gzip })
    }
}

fn access_log(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let path = &directive.args[0];
    if path.value == "off" {
        conf.off = Some(true);
        return match directive.args.get(1) {
            None => Ok(()),
            Some(arg) => Err(Diagnostic::invalid_parameter(&arg.value, arg.span, [])),
        };
    }
    let name = directive.args.get(1);
    let span = name.unwrap_or(path).span;
    let name = name.map_or(b"combined".as_bstr(), |arg| arg.value.as_bstr());
    let Some(format) = format_named(name, conf, span, build)? else {
        return Err(Diagnostic::new(Severity::Emerg, span, format!("unknown log format \"{name}\"")));
    };
    let parameters = Parameters::parse(directive.args.get(2..).unwrap_or_default(), build)?;
    if parameters.flush.is_some() && parameters.size.is_none() {
        return Err(emerg(path, format!("no buffer is defined for access_log \"{}\"", path.value)));
    }
    let target = target(conf, path, parameters.buffering(), build)?;
    let entry = Entry { target, format, condition: parameters.condition };
    let entries = conf.access_log.get_or_insert_default();
    Arc::get_mut(entries).expect("levels share logs only after everything was read").push(entry);
    Ok(())
}

fn target(
    conf: &mut Conf,
    path: &ast::Arg,
    buffering: Option<Buffering>,
    build: &mut Build<'_>,
) -> Result<Target, Diagnostic> {
    if path.value.starts_with(b"syslog:") {
        if buffering.is_some() {
            return Err(emerg(path, "logs to syslog cannot be buffered".to_owned()));
        }
        let destination = Destination::parse(&path.value.to_str_lossy(), &build.prefix)
            .map_err(|error| emerg(path, error.to_string()))?;
        return Ok(Target::Fixed(AccessLog::new(LogFile::register(destination), None)));
    }
    if path.value.contains(&b'$') {
        if buffering.is_some() {
            return Err(emerg(path, "buffered logs cannot have variables in name".to_owned()));
        }
        let full = build.full_path(path.value.as_bstr());
        let path = build.template_at(<[u8]>::from_path(&full).unwrap_or_default().as_bstr(), path.span)?;
        return Ok(Target::Computed { path, log: OnceLock::new() });
    }
    let full = build.full_path(path.value.as_bstr());
    fixed(http_conf(conf, build), path, full, buffering).map(Target::Fixed)
}

/// The log of a file: one object for all directives that name it in the same way.
fn fixed(
    http: &mut Conf,
    path: &ast::Arg,
    full: std::path::PathBuf,
    buffering: Option<Buffering>,
) -> Result<Arc<AccessLog>, Diagnostic> {
    let key = BString::from(<[u8]>::from_path(&full).unwrap_or_default());
    for (known, other, log) in &http.files {
        match (*known == key, other, &buffering) {
            (true, other, new) if other == new => return Ok(log.clone()),
            (true, Some(_), Some(_)) => {
                let message = format!("access_log \"{}\" already defined with conflicting parameters", path.value);
                return Err(emerg(path, message));
            }
            _ => {}
        }
    }
    let log = AccessLog::new(LogFile::register(Destination::File(full)), buffering);
    http.files.push((key, buffering, log.clone()));
    Ok(log)
}

fn open_log_file_cache(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.open_log_file_cache.is_some() {
        return Err(duplicate(directive));
    }
    let seconds = Duration::from_secs;
    let mut cache = OpenLogFileCache { count_max: 0, inactive: seconds(10), uses_min: 1, valid: seconds(60) };
    for arg in &directive.args {
        let wrong = || emerg(arg, format!("invalid \"open_log_file_cache\" parameter \"{}\"", arg.value));
        let number = |text: &[u8]| values::integer(text.as_bstr()).map_err(|_| wrong());
        let time = |text: &[u8]| values::time_seconds(text.as_bstr()).map_err(|_| wrong());
        if arg.value == "off" {
            conf.open_log_file_cache = Some(None);
        } else if let Some(max) = arg.value.strip_prefix(b"max=") {
            cache.count_max = usize::try_from(number(max)?).unwrap_or(usize::MAX);
        } else if let Some(uses) = arg.value.strip_prefix(b"min_uses=") {
            cache.uses_min = u32::try_from(number(uses)?).unwrap_or(u32::MAX);
        } else if let Some(inactive) = arg.value.strip_prefix(b"inactive=") {
            cache.inactive = time(inactive)?;
        } else if let Some(valid) = arg.value.strip_prefix(b"valid=") {
            cache.valid = time(valid)?;
        } else {
            return Err(wrong());
        }
    }
    if conf.open_log_file_cache.is_none() {
        if cache.count_max == 0 {
            let last = directive.args.last().unwrap_or(&directive.name);
            return Err(emerg(last, "\"open_log_file_cache\" must have \"max\" parameter".to_owned()));
        }
        conf.open_log_file_cache = Some(Some(cache));
    }
    Ok(())
}

/// A configuration without any `access_log` has one.
fn finish(conf: &mut Conf, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.access_log.is_some() || conf.off.is_some() || build.http_level().is_none() {
        return Ok(());
    }
    // The text is ours, so nothing in it can be wrong, and no place is ever shown.
    let span = tidegate_conf::Span { file: tidegate_conf::FileId(0), start: 0, end: 0 };
    let mut parts = Vec::new();
    compile(COMBINED.as_bstr(), span, &mut parts, build)?;
    let format = Arc::new(Format { escaping: Escaping::Default, parts });
    let arg = ast::Arg { value: DEFAULT_PATH.into(), span, quoted: false };
    let log = fixed(conf, &arg, build.full_path(DEFAULT_PATH.as_bstr()), None)?;
    conf.access_log = Some(Arc::new(vec![Entry { target: Target::Fixed(log), format, condition: None }]));
    Ok(())
}

fn handle(req: &Rc<Request>, entries: &[Entry]) -> Outcome {
    for entry in entries {
        if let Some(condition) = &entry.condition
            && matches!(&*condition.eval_cow(req), b"" | b"0")
        {
            continue;
        }
        match &entry.target {
            Target::Fixed(log) => log.write(|line| entry.format.write(req, line)),
            Target::Computed { path, log } => {
                if let Some(log) = log.get()
                    && has_root(req)
                {
                    log.write_to(&path.eval(req), |line| entry.format.write(req, line));
                }
            }
        }
    }
    Ready::Now(Step::Declined)
}

/// A path that a client has a say in makes logs only for sites that exist: their root must be there.
fn has_root(req: &Request) -> bool {
    let mut path = Vec::new();
    match req.map_uri_to_path(&mut path) {
        Some(root_len) => req.open_file(&path[..root_len], Want::Info).is_ok_and(|root| root.is_directory()),
        None => false,
    }
}

impl Format {
    /// Appends a line, without its end.
    fn write(&self, req: &Request, line: &mut Vec<u8>) {
        for part in &self.parts {
            let start = line.len();
            let found = match part {
                Part::Literal(text) => {
                    line.extend_from_slice(text);
                    continue;
                }
                Part::Variable(id) => req.variable(*id, line),
                Part::Capture(group) => req.capture(usize::from(*group), line),
            };
            match self.escaping {
                Escaping::Default if !found => line.push(b'-'),
                Escaping::Default => escape(line, start),
                Escaping::Json => escape_json(line, start),
                Escaping::None => {}
            }
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Escapes what stands in `line` from `start` on.
fn escape(line: &mut Vec<u8>, start: usize) {
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    let Some(at) = line[start..].iter().position(|byte| !is_plain(byte)) else { return };
    let rest = line.split_off(start + at);
    for byte in rest {
        if is_plain(&byte) {
            line.push(byte);
        } else {
            line.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Escapes what stands in `line` from `start` on for a JSON string.
pub(crate) fn escape_json(line: &mut Vec<u8>, start: usize) {
    let is_plain = |&byte: &u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    let Some(at) = line[start..].iter().position(|byte| !is_plain(byte)) else { return };
    let rest = line.split_off(start + at);
    for byte in rest {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x08 => line.extend_from_slice(b"\\b"),
            0x0c => line.extend_from_slice(b"\\f"),
            0..=0x1f => {
                line.extend_from_slice(b"\\u00");
                line.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        #[track_caller]
        fn check(value: &[u8], expected: &str, expected_json: &[u8]) {
            for (escape, expected) in
                [(escape as fn(&mut Vec<u8>, usize), expected.as_bytes()), (escape_json, expected_json)]
            {
                let mut line = b"\"\\".to_vec();
                line.extend_from_slice(value);
                escape(&mut line, 2);
                assert_eq!(line[2..].as_bstr(), expected.as_bstr());
            }
        }
        check(b"", "", b"");
        check(b"plain text ~", "plain text ~", b"plain text ~");
        check(b"a\"b\\c", "a\\x22b\\x5Cc", b"a\\\"b\\\\c");
        check(b"\xe4\x7f", "\\xE4\\x7F", b"\xe4\x7f");
        check(b"\n\r\t\x08\x0c\x01", "\\x0A\\x0D\\x09\\x08\\x0C\\x01", b"\\n\\r\\t\\b\\f\\u0001");
    }
}
