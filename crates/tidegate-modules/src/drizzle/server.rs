//! `drizzle_server`: where a database listens, and how to log in there.

use std::{fs, path::PathBuf, time::Duration};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast, values};
use tidegate_core::conf::{Build, Config};
use tidegate_mysql::{
    Address, ConnectOptions, ServerOptions, TlsClient, TlsMode, TlsOptions, TlsVerify, compress::ZSTD_LEVEL_DEFAULT,
};

/// A `drizzle_server`.
#[derive(Debug, Clone)]
pub(super) struct ServerDraft {
    /// `None` for the embedded engine.
    options: Option<ServerOptions>,
    pub(super) dbname: String,
    /// Name and password for the embedded engine.
    login: (String, Vec<u8>),
    /// Place of the directive in the configuration.
    pub(super) span: Span,
}

/// MySQL's port.
const PORT_DEFAULT: u16 = 3306;

/// The parameters of `drizzle_server`, for "did you mean".
const WORDS: [&str; 19] = [
    "dbname=",
    "user=",
    "password=",
    "protocol=",
    "charset=",
    "weight=",
    "max_fails=",
    "fail_timeout=",
    "backup",
    "down",
    "ssl=",
    "ssl_verify=",
    "ssl_ca=",
    "ssl_cert=",
    "ssl_key=",
    "ssl_name=",
    "compress=",
    "public_key=",
    "init=",
];

/// What the parameters say, before it is known whether they fit each other.
struct Draft {
    options: ServerOptions,
    connect: ConnectOptions,
    tls: TlsOptions,
    /// `ssl=`; without it any other `ssl_…` parameter means `on`.
    tls_mode: Option<TlsMode>,
    has_tls_parameters: bool,
}

impl ServerDraft {
    /// Reads the directive's arguments, and the files that they name.
    pub(super) fn parse(directive: &ast::Directive, build: &Build<'_>) -> Result<Self, Diagnostic> {
        let name = &directive.args[0];
        let is_embedded = name.value == "embedded";
        let address = if is_embedded { Address::tcp("embedded", 0) } else { parse_address(name)? };
        let connect = ConnectOptions::new(address, "", "");
        let mut draft = Draft {
            options: ServerOptions::new(connect.clone()),
            connect,
            tls: TlsOptions::default(),
            tls_mode: None,
            has_tls_parameters: false,
        };
        for arg in &directive.args[1..] {
            draft.set(arg, build)?;
        }
        let dbname = draft.connect.schema.clone();
        if is_embedded {
            if !draft.connect.init.is_empty() {
                let message = "\"init=\" has no effect on the embedded engine".to_owned();
                let hint = "its sessions begin anew for each request: say it in the statement, or by SET GLOBAL";
                return Err(emerg(name, message).with_hint(hint));
            }
            let login = (draft.connect.user, draft.connect.password);
            return Ok(Self { options: None, dbname, login, span: name.span });
        }
        draft.set_tls(name)?;
        Ok(Self {
            options: Some(ServerOptions { connect: draft.connect.into(), ..draft.options }),
            dbname,
            login: Default::default(),
            span: name.span,
        })
    }

    /// What decides about the answers of the server: where it is, who asks, and how.
    pub(super) fn identity(&self) -> String {
        let Some(options) = &self.options else { return String::new() };
        let ConnectOptions { address, schema, user, charset, init, .. } = &*options.connect;
        format!("{address:?} {schema:?} {user:?} {charset:?} {init:?}")
    }

    /// Whether this is the engine inside the process.
    pub(super) fn is_embedded(&self) -> bool {
        self.options.is_none()
    }

    /// Whether the embedded engine knows the user.
    ///
    /// # Errors
    /// Why the login fails.
    pub(super) fn check_user(&self, config: &Config) -> Result<(), String> {
        crate::database::check_user(config, self.login.0.as_bytes(), &self.login.1)
    }

    /// Where to connect, with connections on which a text may hold several statements, or only one.
    pub(super) fn options(&self, batches: bool) -> Option<ServerOptions> {
        let options = self.options.clone()?;
        let connect = ConnectOptions { multi_statements: batches, ..(*options.connect).clone() };
        Some(ServerOptions { connect: connect.into(), ..options })
    }
}

impl Draft {
    fn set(&mut self, arg: &ast::Arg, build: &Build<'_>) -> Result<(), Diagnostic> {
        let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
        let (word, value) = split_word(&arg.value).unwrap_or((&arg.value, b""));
        let text = || String::from_utf8(value.to_vec()).map_err(|_| invalid());
        let number = || value.to_str().ok().and_then(|number| number.parse().ok()).ok_or_else(invalid);
        let file = || read_file(arg, value, build);
        let (options, connect) = (&mut self.options, &mut self.connect);
        match word {
            b"backup" if value.is_empty() => options.backup = true,
            b"down" if value.is_empty() => options.down = true,
            b"weight" => options.weight = number()?,
            b"max_fails" => options.max_fails = number()?,
            b"fail_timeout" => options.fail_timeout = time(value).ok_or_else(invalid)?,
            b"dbname" => connect.schema = text()?,
            b"user" => connect.user = text()?,
            b"password" => connect.password = value.to_vec(),
            b"charset" if !value.contains(&b'\'') => connect.charset = text()?,
            b"init" => connect.init.push(text()?),
            b"compress" if value == b"zstd" => {
                connect.compress = true;
                connect.zstd_level = Some(ZSTD_LEVEL_DEFAULT);
            }
            b"compress" => connect.compress = values::flag(value.as_bstr()).map_err(|_| invalid())?,
            b"public_key" => connect.server_public_key = Some(file()?),
            b"protocol" if value == b"mysql" => {}
            b"protocol" => {
                let message = format!("drizzle: invalid protocol: {} in \"drizzle_server\" directive", value.as_bstr());
                let diagnostic = Diagnostic::new(Severity::Emerg, arg.span, message);
                return Err(diagnostic.with_hint("the protocol is \"mysql\""));
            }
            b"ssl" => {
                self.tls_mode = Some(match value {
                    b"on" => TlsMode::Required,
                    b"prefer" => TlsMode::Preferred,
                    b"off" => TlsMode::Disabled,
                    _ => return Err(invalid()),
                });
            }
            _ if word.starts_with(b"ssl_") => {
                self.has_tls_parameters = true;
                match (word, value) {
                    (b"ssl_verify", b"on") => self.tls.verify = TlsVerify::Full,
                    (b"ssl_verify", b"ca") => self.tls.verify = TlsVerify::Authority,
                    (b"ssl_verify", b"off") => self.tls.verify = TlsVerify::None,
                    (b"ssl_ca", _) => self.tls.authorities = file()?,
                    (b"ssl_cert", _) => self.tls.certificate = file()?,
                    (b"ssl_key", _) => self.tls.key = file()?,
                    (b"ssl_name", _) => self.tls.server_name = Some(text()?),
                    _ => return Err(invalid()),
                }
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    /// Makes what encrypts the connections, if something does.
    fn set_tls(&mut self, name: &ast::Arg) -> Result<(), Diagnostic> {
        let implied = if self.has_tls_parameters { TlsMode::Required } else { TlsMode::Disabled };
        self.connect.tls_mode = self.tls_mode.unwrap_or(implied);
        if self.connect.tls_mode == TlsMode::Disabled {
            return Ok(());
        }
        if self.tls.verify != TlsVerify::None && self.tls.authorities.is_empty() {
            let message = format!("no \"ssl_ca\" to verify the certificate of \"{}\"", name.value);
            let hint = "name the file of the authority that signed it, or encrypt without verifying: ssl_verify=off";
            return Err(emerg(name, message).with_hint(hint));
        }
        if self.tls.certificate.is_empty() != self.tls.key.is_empty() {
            return Err(emerg(name, "\"ssl_cert\" and \"ssl_key\" belong together".to_owned()));
        }
        let client = TlsClient::new(&self.tls);
        let client =
            client.map_err(|error| emerg(name, format!("cannot set up TLS for \"{}\": {error}", name.value)))?;
        self.connect.tls = Some(client);
        Ok(())
    }
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// The content of a file that a parameter names; relative names start where the configuration file is, as those of
/// certificates do elsewhere.
fn read_file(arg: &ast::Arg, name: &[u8], build: &Build<'_>) -> Result<Vec<u8>, Diagnostic> {
    let path: PathBuf = build.conf_dir.join(name.to_path_lossy());
    fs::read(&path).map_err(|error| emerg(arg, format!("cannot read \"{}\": {error}", path.display())))
}

/// `word=value` at its first `=`.
pub(super) fn split_word(arg: &BString) -> Option<(&[u8], &[u8])> {
    let at = arg.find_byte(b'=')?;
    Some((&arg[..at], &arg[at + 1..]))
}

/// A time in nginx's notation.
pub(super) fn time(value: &[u8]) -> Option<Duration> {
    values::time(BStr::new(value)).ok()
}

fn parse_address(arg: &ast::Arg) -> Result<Address, Diagnostic> {
    let bad = || emerg(arg, format!("invalid address \"{}\"", arg.value));
    let text = arg.value.to_str().map_err(|_| bad())?;
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
        _ => (text, PORT_DEFAULT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(emerg(arg, format!("drizzle: no host in upstream \"{}\"", arg.value)));
    }
    Ok(Address::tcp(host, port))
}
