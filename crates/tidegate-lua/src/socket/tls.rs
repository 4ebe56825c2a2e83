//! `sslhandshake`, and the `lua_ssl_*` directives about it.
//!
//! Sessions are resumed by the TLS library, which keeps them for each server; the session that scripts get and give back
//! is a token without content, made by the Lua half.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bstr::ByteSlice;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error};
use tidegate_conf::diagnostic::Level as Severity;
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::{files, inherit, worker};
use tidegate_net::stream::Stream;
use tidegate_net::tls::HandshakeError;
use tidegate_tls::client::{ClientOptions, Identity};
use tidegate_tls::pem::{self, PemError};
use tidegate_tls::verify::VerifyError;
use tidegate_tls::versions::{Versions, WORDS};
use tidegate_tls::{Shared, ciphers};

use super::conn::Conn;
use super::failure::{debug, push_nil_error};
use super::owner::Closing;
use super::settings::Settings;
use super::tcp::{Busy, Call, Operation, Tcp, call};
use super::transport::Transport;
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub(crate) struct Conf {
    lua_ssl_trusted_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_crl: Option<Arc<Vec<CertificateRevocationListDer<'static>>>>,
    lua_ssl_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_certificate_key: Option<Arc<PrivateKeyDer<'static>>>,
    lua_ssl_protocols: Option<Versions>,
    lua_ssl_verify_depth: Option<u64>,
    lua_ssl_ciphers: Option<Arc<Vec<rustls::CipherSuite>>>,
}

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("lua_ssl_trusted_certificate", 1, 1, trusted)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates of authorities that cosockets trust."),
        Directive::custom("lua_ssl_crl", 1, 1, revoked)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates that are revoked."),
        Directive::custom("lua_ssl_certificate", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate = Some(Arc::new(read(directive, build, pem::certificates)?));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("Certificate that cosockets show to servers that ask for one."),
        Directive::custom("lua_ssl_certificate_key", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate_key = Some(Arc::new(read(directive, build, |text| pem::key(text, &[]))?));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("The private key of `lua_ssl_certificate`."),
        Directive::custom("lua_ssl_protocols", 1, u16::MAX, protocols)
            .within(Context::ALL)
            .syntax("version ...")
            .default("TLSv1.2 TLSv1.3")
            .doc("Versions of TLS that cosockets use. Versions before 1.2 are not offered."),
        Directive::number("lua_ssl_verify_depth", |c: &mut Conf| &mut c.lua_ssl_verify_depth)
            .within(Context::ALL)
            .default("100")
            .doc("Certificates that may stand between a server's and a trusted one."),
        Directive::custom("lua_ssl_ciphers", 1, 1, suites)
            .within(Context::ALL)
            .syntax("ciphers")
            .default("DEFAULT")
            .doc("Cipher suites of TLS 1.2, in OpenSSL's words; -t names those that are not offered."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent;
            lua_ssl_trusted_certificate, lua_ssl_crl, lua_ssl_certificate, lua_ssl_certificate_key, lua_ssl_protocols, lua_ssl_verify_depth, lua_ssl_ciphers,
        );
    },
    example: "
        lua_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
        lua_ssl_verify_depth 3;
    ",
    ..Module::named("lua_ssl")
};

fn read<T>(
    directive: &ast::Directive,
    build: &Build<'_>,
    parse: fn(&[u8]) -> Result<T, PemError>,
) -> Result<T, Diagnostic> {
    // As in nginx, certificates are looked for beside the configuration.
    let path = build.conf_dir.join(OsStr::from_bytes(&directive.args[0].value));
    let fail = |why: String| {
        let message = format!("cannot load certificate \"{}\": {why}", path.display());
        Diagnostic::new(Severity::Emerg, directive.args[0].span, message)
    };
    let text = files::read(&path).map_err(|error| fail(error.to_string()))?;
    parse(&text).map_err(|error| fail(error.to_string()))
}

fn trusted(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_trusted_certificate = Some(Arc::new(read(directive, build, pem::certificates)?));
    Ok(())
}

fn revoked(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_crl = Some(Arc::new(read(directive, build, pem::revocation_lists)?));
    Ok(())
}

fn suites(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let named = ciphers::suites(&arg.value.to_str_lossy());
    if named.found.is_empty() && named.absent.is_empty() {
        let message = format!("\"lua_ssl_ciphers\" names no cipher: \"{}\" (no cipher match)", arg.value);
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    }
    if !named.absent.is_empty() {
        build.diagnostics.warn(arg.span, format!("\"lua_ssl_ciphers\": not offered: {}", named.absent.join(", ")));
    }
    conf.lua_ssl_ciphers = Some(Arc::new(named.found));
    Ok(())
}

fn protocols(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut versions = Versions::NONE;
    for arg in &directive.args {
        let version = values::word(arg.value.as_bstr(), WORDS).map_err(|_| {
            let message = format!("invalid value \"{}\"", arg.value.as_bstr());
            Diagnostic::new(Severity::Emerg, arg.span, message)
        })?;
        versions.add(version);
    }
    if versions == Versions::NONE {
        let message = "\"lua_ssl_protocols\" names no version that is offered: TLSv1.2, TLSv1.3";
        return Err(Diagnostic::new(Severity::Emerg, directive.span, message));
    }
    conf.lua_ssl_protocols = Some(versions);
    Ok(())
}

/// What a handshake demands of a connection, and what an encrypted connection has proved.
#[derive(Clone)]
pub(super) struct Demand {
    options: ClientOptions,
    server_name: Option<Vec<u8>>,
}

impl Demand {
    /// What is missing in a connection whose handshake has met `proved`, if anything is.
    ///
    /// A connection that shows a client certificate acts for its owner, so that it serves no script without that
    /// certificate.
    fn missing_in(&self, proved: &Self) -> Option<&'static str> {
        // How a server name is told and whether sessions are resumed says nothing about the peer; whether the name was
        // verified is in `verify`, as a name that is given is verified then.
        let ClientOptions {
            verify,
            check_name: _,
            continues: _,
            depth_max,
            versions,
            ciphers,
            sends_name: _,
            resumes: _,
            trusted,
            revoked,
            identity,
        } = &self.options;
        let other = &proved.options;
        let same_name =
            |name: &Vec<u8>| proved.server_name.as_ref().is_some_and(|other| other.eq_ignore_ascii_case(name));
        if *verify && !other.verify {
            return Some("its certificate was not verified");
        }
        if *verify && (*trusted != other.trusted || *revoked != other.revoked || *depth_max != other.depth_max) {
            return Some("its certificate was verified by other rules");
        }
        if !self.server_name.as_ref().is_none_or(same_name) {
            return Some("it was made for another server name");
        }
        if *identity != other.identity {
            return Some("it was made with another client certificate");
        }
        if (other.versions.tls12 && !versions.tls12) || (other.versions.tls13 && !versions.tls13) {
            return Some("it was made with other versions of TLS");
        }
        if *ciphers != other.ciphers {
            return Some("it was made with other ciphers");
        }
        None
    }
}

thread_local! {
    /// Configurations made before: they also keep the sessions.
    static CLIENTS: RefCell<Vec<(ClientOptions, Arc<ClientConfig>)>> = const { RefCell::new(Vec::new()) };
}

/// Configurations kept for each worker; reloads leave old ones behind.
const CLIENTS_MAX: usize = 64;

fn client(options: &ClientOptions) -> Result<Arc<ClientConfig>, String> {
    let known = CLIENTS
        .with_borrow(|clients| clients.iter().find(|(known, _)| known == options).map(|(_, client)| client.clone()));
    if let Some(client) = known {
        return Ok(client);
    }
    let client = options.client().map_err(|error| error.to_string())?;
    CLIENTS.with_borrow_mut(|clients| {
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.push((options.clone(), client.clone()));
    });
    Ok(client)
}

/// `sslhandshake(socket, session?, server_name?, verify?, send_status_req?)`: `1` where the Lua half is to give a session,
/// `true` where the script wants none. Servers are always asked for the status of their certificates.
pub(super) fn handshake(lua: &mut Lua) -> CResult {
    if !(1..=5).contains(&lua.top()) {
        let text = "ngx.socket sslhandshake: expecting 1 ~ 5 arguments (including the object), but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let wants_session = lua.is_none_or_nil(2) || lua.to_bool(2);
    let server_name = lua.to_bytes(3).map(<[u8]>::to_vec);
    let verify = lua.to_bool(4);
    let conn = tcp.conn().filter(|conn| !conn.read_closed() && !conn.write_closed.get());
    let Some(conn) = conn else { return push_nil_error(lua, "closed") };
    let all = &[Operation::Connect, Operation::Read, Operation::Write];
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(all)) {
        return refusal.end(lua);
    }
    if conn.is_downstream() {
        return push_nil_error(lua, "not supported for downstream sockets");
    }
    let identity = tcp.identity.borrow().clone();
    let named = server_name.is_some();
    let options = options(&host, verify, named, named && wants_session, identity);
    let demand = Demand { options, server_name };
    // A connection of a pool: its handshake was done, for whoever made it.
    let missing = conn.proved.borrow().as_ref().map(|proved| demand.missing_in(proved));
    match missing {
        Some(None) => return push_session(lua, wants_session),
        Some(Some(missing)) => {
            tcp.close_now();
            return push_nil_error(lua, &format!("the connection of the pool does not fit: {missing}"));
        }
        None => {}
    }
    let name = match &demand.server_name {
        None => ServerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        Some(name) => match std::str::from_utf8(name).ok().and_then(|name| ServerName::try_from(name).ok()) {
            Some(name) => name.to_owned(),
            None => return push_nil_error(lua, "invalid server name"),
        },
    };
    let client = match client(&demand.options) {
        Ok(client) => client,
        Err(message) => return push_nil_error(lua, &message),
    };
    if let Some(name) = &demand.server_name {
        debug(&host, || format!("lua ssl server name: \"{}\"", name.as_bstr()));
    }
    let settings = Settings::of(&host);
    let limit = tcp.connect_timeout.get().unwrap_or(settings.connect_timeout);
    let busy = tcp.occupy(Operation::Connect);
    let job = Job { tcp, conn, host, client, name, demand, wants_session };
    with_run(|run| run.wait(lua, job.run(limit, settings.log_errors, busy)))
        .unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// What a handshake of a script of `host` is made with.
fn options(host: &Host, verify: bool, named: bool, resume: bool, identity: Option<Arc<Identity>>) -> ClientOptions {
    with_conf(host, |conf| {
        let configured = || {
            let (chain, key) = (conf.lua_ssl_certificate.clone()?, conf.lua_ssl_certificate_key.clone()?);
            Some(Arc::new(Identity { chain, key }))
        };
        ClientOptions {
            verify,
            check_name: named,
            continues: false,
            depth_max: conf.lua_ssl_verify_depth,
            versions: conf.lua_ssl_protocols.unwrap_or_default(),
            ciphers: ciphers::Choice { suites: conf.lua_ssl_ciphers.as_deref().cloned(), ..Default::default() },
            sends_name: named,
            resumes: resume,
            trusted: conf.lua_ssl_trusted_certificate.clone().map(Shared),
            revoked: conf.lua_ssl_crl.clone().map(Shared),
            identity: identity.or_else(configured).map(Shared),
        }
    })
}

/// The configuration of a client that verifies, if it verifies, whom the server's certificate is from, not whom it is
/// for; as the `lua_ssl_*` directives where `host` is have it.
///
/// # Errors
/// Why there is none, as a sentence.
pub(crate) fn client_without_name(host: &Host, verify: bool) -> Result<Arc<ClientConfig>, String> {
    client(&options(host, verify, false, false, None))
}

/// What scripts get for a certificate that was refused, in OpenSSL's words; `None` for other failures.
pub(crate) fn explain_certificate(error: &std::io::Error) -> Option<String> {
    explain(error.get_ref()?.downcast_ref::<Error>()?)
}

fn explain(error: &Error) -> Option<String> {
    VerifyError::of(error).map(|why| format!("{}: {why}", why.number()))
}

fn push_session(lua: &mut Lua, wants_session: bool) -> CResult {
    if wants_session {
        lua.push_integer(1);
    } else {
        lua.push_bool(true);
    }
    Ok(1)
}

fn with_conf<R>(host: &Host, body: impl FnOnce(&Conf) -> R) -> R {
    match host.request() {
        Some(req) => body(req.module_conf(&MODULE)),
        None => match worker::config() {
            Some(config) => body(config.http_conf(&MODULE)),
            None => body(&Conf::default()),
        },
    }
}

struct Job {
    tcp: Rc<Tcp>,
    conn: Rc<Conn>,
    host: Host,
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
    demand: Demand,
    wants_session: bool,
}

impl Job {
    async fn run(self, limit: Duration, log_errors: bool, busy: Busy) -> Answer {
        let plain = self.conn.transport().replace(Transport::Plain(Stream::Closed));
        let Transport::Plain(stream) = plain else { return Answer::NilError("closed".into()) };
        let connected = tokio::time::timeout(limit, shake_hands(&self.client, &self.name, stream)).await;
        drop(busy);
        let message = match connected {
            Ok(Ok(stream)) => {
                self.conn.transport().replace(Transport::Plain(stream));
                self.conn.proved.replace(Some(Box::new(self.demand)));
                let wants_session = self.wants_session;
                return Answer::Push(Box::new(move |lua| push_session(lua, wants_session)));
            }
            Err(_) => "timeout".to_owned(),
            Ok(Err(error)) => self.explain(&error, log_errors),
        };
        self.tcp.close_now();
        Answer::NilError(message.into())
    }

    /// What the script gets for a failed handshake, in OpenSSL's words.
    fn explain(&self, error: &HandshakeError, log_errors: bool) -> String {
        let log = |text: String| {
            if log_errors {
                self.host.log(LogLevel::Error, text.as_bytes());
            }
        };
        let HandshakeError::Tls(cause) = error else {
            log(format!("SSL_do_handshake() failed ({error})"));
            return "handshake failed".to_owned();
        };
        if VerifyError::of(cause) == Some(VerifyError::Name) {
            let name = self.demand.server_name.as_deref().unwrap_or_default().as_bstr();
            log(format!("lua ssl certificate does not match host \"{name}\""));
            return "certificate host mismatch".to_owned();
        }
        let Some(verify) = explain(cause) else {
            match cause {
                Error::AlertReceived(alert) => {
                    log(format!("SSL_do_handshake() failed ({cause}: SSL alert number {})", u8::from(*alert)));
                }
                _ => log(format!("SSL_do_handshake() failed ({cause})")),
            }
            return "handshake failed".to_owned();
        };
        log(format!("lua ssl certificate verify error: ({verify})"));
        verify
    }
}

async fn shake_hands(
    client: &Arc<ClientConfig>,
    name: &ServerName<'static>,
    stream: Stream,
) -> Result<Stream, HandshakeError> {
    let conn = ClientConnection::new(client.clone(), name.clone()).map_err(HandshakeError::Tls)?;
    let stream = stream.connect_tls(conn);
    match stream.as_tls() {
        Some(tls) => poll_fn(|cx| tls.poll_connect(cx)).await?,
        None => return Err(HandshakeError::Closed),
    }
    Ok(stream)
}
