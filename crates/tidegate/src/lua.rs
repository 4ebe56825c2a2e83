//! `tidegate lua FILE`: runs a Lua script with the whole API, as OpenResty's `resty` does.
//!
//! A configuration without servers is made of the options; its one worker runs on the main thread and starts the script
//! in a timer. The process ends with the script.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::worker;
use tidegate_lua::command::{self, Command, Script};
use tidegate_modules::database;
use tidegate_net::generations;
use tidegate_net::log::{self, Destination, ErrorLog, Level, LogFile};

use crate::engine::{BadConfiguration, Loader};
use crate::identity::Identity;

const HELP: &str = "Usage: tidegate lua [OPTIONS] [FILE [ARGUMENTS]]

Runs a Lua script with ngx.*, cosockets and the bundled libraries, in the context of a timer. Without FILE and -e, or
with - as FILE, the script is read from the standard input. A number that the script returns is the exit status.

Options:
  -e CODE              : run this code, before FILE; may be given several times
  -l LIBRARY           : load this module first
  -I DIRECTORY         : look for modules there first
  -c NUMBER            : how many connections may be open (default: 64)
  -j dump|v|off        : tell what the compiler does, or switch it off
  --shdict 'NAME SIZE' : a dictionary, as ngx.shared.NAME
  --http-conf TEXT     : configuration for the http block
  --main-conf TEXT     : configuration for the top level
  --http-include FILE  : a file for the http block
  --main-include FILE  : a file for the top level
  --ns ADDRESS         : ask this name server; may be given several times
  --errlog-level LEVEL : what is logged to the standard error (default: warn)
  -v, -V, --version    : show version and exit
  -h, --help           : this help

";

/// Exit status for a wrong command line.
const EXIT_USAGE: i32 = 2;

/// What the options say.
#[derive(Debug, Default)]
struct Options {
    command: Command,
    directories: Vec<Vec<u8>>,
    connections: Option<u32>,
    main_conf: Vec<Vec<u8>>,
    http_conf: Vec<Vec<u8>>,
    name_servers: Vec<Vec<u8>>,
    level: Option<Level>,
}

/// What the command line asks for.
enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Runs the script. Returns the exit status, if the script did not end the process itself.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    match parse(arguments) {
        Ok(Request::Help) => {
            print!("{HELP}");
            0
        }
        Ok(Request::Version) => {
            print!("{}", Identity::Tidegate.version_text());
            0
        }
        Ok(Request::Run(options)) => run_script(*options),
        Err(reason) => {
            eprintln!("tidegate: {reason}; tidegate lua --help tells more");
            EXIT_USAGE
        }
    }
}

/// Reads the options up to the script's name; what follows belongs to the script.
fn parse(arguments: &[OsString]) -> Result<Request, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    let mut file = None;
    while let Some(argument) = rest.next() {
        let text = argument.as_bytes();
        if text == b"--" {
            file = rest.next();
            break;
        }
        if text == b"-" || !text.starts_with(b"-") {
            file = Some(argument);
            break;
        }
        // `-eCODE`, `--name=value`, or the value in the next word.
        let (name, inline) = match text.strip_prefix(b"--") {
            Some(_) => match memchr::memchr(b'=', text) {
                Some(at) => (&text[..at], Some(text[at + 1..].to_vec())),
                None => (text, None),
            },
            None => (&text[..2], Some(text[2..].to_vec()).filter(|value| !value.is_empty())),
        };
        let shown = String::from_utf8_lossy(name).into_owned();
        let mut value = || {
            let next = || rest.next().map(|word| word.as_bytes().to_vec());
            inline.clone().or_else(next).ok_or_else(|| format!("option {shown} requires a value"))
        };
        match name {
            b"-h" | b"--help" => return Ok(Request::Help),
            b"-v" | b"-V" | b"--version" => return Ok(Request::Version),
            b"-e" => options.command.chunks.push(value()?),
            b"-l" => options.command.libraries.push(value()?),
            b"-I" => options.directories.push(value()?),
            b"-c" => options.connections = Some(number(&value()?)?),
            b"-j" => options.command.chunks.insert(0, compiler_chunk(&value()?)?),
            b"--shdict" => options.http_conf.push([b"lua_shared_dict ", &*value()?, b";"].concat()),
            b"--http-conf" => options.http_conf.push(value()?),
            b"--main-conf" => options.main_conf.push(value()?),
            b"--http-include" => options.http_conf.push([b"include ", &*quoted(&value()?), b";"].concat()),
            b"--main-include" => options.main_conf.push([b"include ", &*quoted(&value()?), b";"].concat()),
            b"--ns" => options.name_servers.push(value()?),
            b"--errlog-level" => options.level = Some(level(&value()?)?),
            // Accepted: what they switch off or on is not there or always so.
            b"--no-stream" | b"--resolve-ipv6" => {}
            _ => return Err(format!("unknown option {}", argument.to_string_lossy())),
        }
    }
    options.command.arguments = rest.map(|word| word.as_bytes().to_vec()).collect();
    options.command.script = match file {
        Some(file) if file != "-" => Script::File(file.as_bytes().to_vec()),
        Some(_) => Script::Stdin,
        None if options.command.chunks.is_empty() && std::io::stdin().is_terminal() => return Ok(Request::Help),
        None if options.command.chunks.is_empty() => Script::Stdin,
        None => Script::None,
    };
    Ok(Request::Run(Box::new(options)))
}

fn number(text: &[u8]) -> Result<u32, String> {
    let text = String::from_utf8_lossy(text);
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("\"{text}\" is not a number"))
}

fn level(text: &[u8]) -> Result<Level, String> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| format!("\"{text}\" is not a level of the error log"))
}

fn compiler_chunk(mode: &[u8]) -> Result<Vec<u8>, String> {
    Ok(match mode {
        b"off" => b"jit.off()".to_vec(),
        b"v" => b"require('jit.v').on()".to_vec(),
        b"dump" => b"require('jit.dump').on()".to_vec(),
        _ => return Err(format!("\"{}\" is none of dump, v, off", String::from_utf8_lossy(mode))),
    })
}

/// A word of the configuration language.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut word = vec![b'"'];
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            word.push(b'\\');
        }
        word.push(byte);
    }
    word.push(b'"');
    word
}

impl Options {
    /// The configuration.
    fn configuration(&self) -> Vec<u8> {
        let mut text = b"worker_processes 1; events { worker_connections ".to_vec();
        text.extend_from_slice(self.connections.unwrap_or(64).to_string().as_bytes());
        text.extend_from_slice(b"; } ");
        let join = |text: &mut Vec<u8>, list: &[Vec<u8>]| {
            list.iter().for_each(|part| text.extend([part, &b"\n"[..]].concat()));
        };
        join(&mut text, &self.main_conf);
        text.extend_from_slice(b" http { lua_socket_log_errors off; lua_regex_cache_max_entries 40960; ");
        if !self.directories.is_empty() {
            let templates = self.directories.iter().map(|dir| [dir, &b"/?.lua;"[..], dir, b"/?/init.lua;"].concat());
            let path = [templates.collect::<Vec<_>>().concat().as_slice(), b";"].concat();
            text.extend([b"lua_package_path ", &*quoted(&path), b"; "].concat());
        }
        if !self.name_servers.is_empty() {
            text.extend([b"resolver ", &*self.name_servers.join(&b' '), b"; "].concat());
        }
        join(&mut text, &self.http_conf);
        text.extend_from_slice(format!("init_worker_by_lua \"{}\"; }}", command::START).as_bytes());
        text
    }
}

fn run_script(options: Options) -> i32 {
    let stderr = LogFile::register(Destination::Stderr);
    let error_log = Arc::new(ErrorLog::new(vec![(options.level.unwrap_or(Level::Warn), stderr)]));
    log::set_main(error_log.clone());
    let here = match std::env::current_dir() {
        Ok(here) => here,
        Err(error) => {
            eprintln!("tidegate: cannot tell the current directory: {error}");
            return 1;
        }
    };
    let mut prefix = here.into_os_string();
    prefix.push("/");
    let loader = Loader {
        identity: Identity::Tidegate,
        conf_path: PathBuf::from(&prefix).join("command line"),
        prefix: prefix.into(),
        text: Some(options.configuration()),
        globals: None,
        testing: false,
        interactive: std::cell::Cell::new(true),
        error_log,
    };
    let Ok::<_, BadConfiguration>(config) = loader.load() else { return 1 };
    command::set(options.command);
    let ran = generations::run_alone(worker::body(config));
    database::leave();
    match ran {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("tidegate: {reason}");
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&words) {
            Ok(Request::Run(options)) => *options,
            Ok(_) => panic!("nothing to run"),
            Err(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn what_follows_the_script_is_its_own() {
        let parsed = options("-e print(1) -Ilib --shdict=d -l cjson x.lua -e y");
        assert_eq!(parsed.command.chunks, [b"print(1)"]);
        assert_eq!(parsed.directories, [b"lib"]);
        assert_eq!(parsed.http_conf, [b"lua_shared_dict d;"]);
        assert!(matches!(parsed.command.script, Script::File(path) if path == b"x.lua"));
        assert_eq!(parsed.command.arguments, [b"-e".to_vec(), b"y".to_vec()]);
        assert!(matches!(options("- a").command.script, Script::Stdin));
    }

    #[track_caller]
    fn refused(line: &str, expected: &str) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert_eq!(parse(&words).err().as_deref(), Some(expected));
    }

    #[test]
    fn mistakes_are_told() {
        refused("-x", "unknown option -x");
        refused("-e", "option -e requires a value");
        refused("-c none", "\"none\" is not a number");
        refused("--errlog-level loud", "\"loud\" is not a level of the error log");
        refused("-j on", "\"on\" is none of dump, v, off");
    }
}
