//! The command line: nginx's options with nginx's texts.
//!
//! nginx reads its options by hand, and scripts depend on the details (`-tq`, `-cfile`, `-s` checked before anything
//! else happens), so this does too. Sub-commands are words without a dash; nginx has none.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::identity::Identity;

/// Directory that relative paths start from, unless a package or `-p` says otherwise.
pub(crate) const PREFIX: &str = match option_env!("TIDEGATE_PREFIX") {
    Some(prefix) => prefix,
    None => "/usr/local/tidegate/",
};

/// The configuration file, below the prefix unless absolute.
pub(crate) const CONF_PATH: &str = match option_env!("TIDEGATE_CONF_PATH") {
    Some(path) => path,
    None => "conf/nginx.conf",
};

/// The error log until the configuration names one, below the prefix unless absolute.
pub(crate) const ERROR_LOG_PATH: &str = match option_env!("TIDEGATE_ERROR_LOG_PATH") {
    Some(path) => path,
    None => "logs/error.log",
};

/// What `-s` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalName {
    Stop,
    Quit,
    Reopen,
    Reload,
}

/// What the options say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) help: bool,
    pub(crate) version: bool,
    pub(crate) configure: bool,
    pub(crate) test: bool,
    pub(crate) dump: bool,
    pub(crate) quiet: bool,
    pub(crate) signal: Option<SignalName>,
    pub(crate) prefix: Option<PathBuf>,
    pub(crate) error_log: Option<OsString>,
    pub(crate) conf: Option<PathBuf>,
    pub(crate) globals: Option<OsString>,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// nginx's sentence about the first argument that it would refuse.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let show = || argument.to_string_lossy();
        let Some(mut letters) = argument.as_bytes().strip_prefix(b"-") else {
            return Err(format!("invalid option: \"{}\"", show()));
        };
        if letters == b"-help" {
            options.help = true;
            continue;
        }
        if letters == b"-version" {
            options.version = true;
            continue;
        }
        while let [letter, tail @ ..] = letters {
            letters = tail;
            // The value of an option is the rest of its word, or the next word.
            let mut value = |what: &str| {
                let inline = (!tail.is_empty()).then(|| OsString::from_vec(tail.to_vec()));
                let value = inline.or_else(|| rest.next().filter(|word| !word.is_empty()).cloned());
                value.ok_or_else(|| format!("option \"-{}\" requires {what}", char::from(*letter)))
            };
            match letter {
                b'?' | b'h' => options.help = true,
                b'v' => options.version = true,
                b'V' => options.configure = true,
                b't' => options.test = true,
                b'T' => (options.test, options.dump) = (true, true),
                b'q' => options.quiet = true,
                b'p' => options.prefix = Some(value("directory name")?.into()),
                b'e' => options.error_log = Some(value("file name")?),
                b'c' => options.conf = Some(value("file name")?.into()),
                b'g' => options.globals = Some(value("parameter")?),
                b's' => options.signal = Some(parse_signal(&value("parameter")?)?),
                other => return Err(format!("invalid option: \"{}\"", char::from(*other))),
            }
            if matches!(letter, b'p' | b'e' | b'c' | b'g' | b's') {
                break;
            }
        }
    }
    Ok(options)
}

fn parse_signal(name: &OsString) -> Result<SignalName, String> {
    match name.as_bytes() {
        b"stop" => Ok(SignalName::Stop),
        b"quit" => Ok(SignalName::Quit),
        b"reopen" => Ok(SignalName::Reopen),
        b"reload" => Ok(SignalName::Reload),
        _ => Err(format!("invalid option: \"-s {}\"", name.to_string_lossy())),
    }
}

/// What `-h` prints below the version.
pub(crate) fn help_text(identity: Identity) -> String {
    let name = identity.name();
    let options = format!(
        "Usage: {name} [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {PREFIX})
  -e filename   : set error log file (default: {ERROR_LOG_PATH})
  -c filename   : set configuration file (default: {CONF_PATH})
  -g directives : set global directives out of configuration file

"
    );
    match identity {
        Identity::Nginx => options,
        Identity::Tidegate => options + &crate::commands::help_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    #[track_caller]
    fn refused(line: &str, expected: &str) {
        assert_eq!(parse(&words(line)), Err(expected.to_owned()));
    }

    #[test]
    fn options_combine_as_in_nginx() {
        let expected = Options { test: true, quiet: true, conf: Some("x".into()), ..Options::default() };
        for line in ["-t -q -c x", "-tq -cx", "-tqc x", "-tqcx"] {
            assert_eq!(parse(&words(line)), Ok(expected.clone()), "{line}");
        }
        let all = parse(&words("-p /srv -e stderr -g daemon -s reload -T")).expect("valid");
        assert_eq!(all.prefix, Some("/srv".into()));
        assert_eq!(all.error_log, Some("stderr".into()));
        assert_eq!(all.globals, Some("daemon".into()));
        assert_eq!(all.signal, Some(SignalName::Reload));
        assert!(all.test && all.dump);
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        refused("-x", "invalid option: \"x\"");
        refused("foo", "invalid option: \"foo\"");
        refused("-s foo", "invalid option: \"-s foo\"");
        refused("-s", "option \"-s\" requires parameter");
        refused("-g", "option \"-g\" requires parameter");
        refused("-c", "option \"-c\" requires file name");
        refused("-e", "option \"-e\" requires file name");
        refused("-t -p", "option \"-p\" requires directory name");
    }
}
