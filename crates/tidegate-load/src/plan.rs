//! All that a run is to do, made of the options.

use std::io::Read;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_tls::Shared;
use tidegate_tls::client::{ClientOptions, system_roots};

use crate::failure::plain;
use crate::options::Options;
use crate::target::{self, Form, Request, Url};

/// The end of a run without `-d` and `-n`.
const DURATION: Duration = Duration::from_secs(10);

/// Connections that a process may have at most: Linux has no more descriptors than this by default (`fs.nr_open`).
const CONNECTIONS_MAX: u64 = 1 << 20;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// TLS of all connections.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) urls: Vec<Url>,
    pub(crate) form: Form,
    /// The script with its arguments, as they were typed.
    pub(crate) script: Option<String>,
    /// One for each URL.
    pub(crate) requests: Vec<Request>,
    /// Numbers of requests, in the order in which a thread sends them, again and again.
    pub(crate) order: Vec<u16>,
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    pub(crate) is_http2: bool,
    /// Requests at a time on a connection.
    pub(crate) streams: usize,
    pub(crate) keep_alive: bool,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) duration: Option<Duration>,
    pub(crate) number: Option<u64>,
    pub(crate) rate: Option<f64>,
    pub(crate) warm_up: Duration,
    pub(crate) timeout: Duration,
}

impl Plan {
    /// Makes the plan; connects once to see whether there is a server.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn new(options: &Options) -> Result<Plan, String> {
        let (weights, urls) = urls(options)?;
        let first = urls.first().ok_or("no URL: tidegate load --help tells more")?;
        if let Some(other) = urls.iter().find(|url| !url.is_beside(first)) {
            return Err(format!("{} and {} are at different servers: each run loads one", first.text, other.text));
        }
        let form = form(options)?;
        let connections = options.connections.min(CONNECTIONS_MAX) as usize;
        let is_http2 = options.http2;
        let socket = options.unix.as_ref().or(first.socket.as_ref());
        Ok(Plan {
            requests: urls.iter().map(|url| form.request(url)).collect(),
            order: target::order(&weights)?,
            address: reach(first, socket, options.timeout)?,
            tls: if first.is_tls { Some(tls(options, first)?) } else { None },
            is_http2,
            streams: if is_http2 { options.streams.min(STREAMS_MAX) as usize } else { 1 },
            keep_alive: !options.no_keep_alive,
            connections,
            threads: options.threads.min(connections as u64).min(THREADS_MAX) as usize,
            duration: options.duration.or(if options.requests.is_none() { Some(DURATION) } else { None }),
            number: options.requests,
            rate: options.rate,
            warm_up: options.warm_up,
            timeout: options.timeout,
            script: options.script.as_ref().map(|file| {
                let words = std::iter::once(file.display().to_string()).chain(options.arguments.iter().cloned());
                words.collect::<Vec<_>>().join(" ")
            }),
            form,
            urls,
        })
    }
}

/// Streams of a connection: servers allow 100 to 256.
const STREAMS_MAX: u64 = 10_000;

/// Threads of a run: more than any machine has cores for.
const THREADS_MAX: u64 = 1024;

fn urls(options: &Options) -> Result<(Vec<u32>, Vec<Url>), String> {
    let mut texts = options.urls.clone();
    if let Some(file) = &options.urls_file {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {}", file.display(), plain(&error)))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        texts.extend(lines.map(str::to_owned));
    }
    if texts.len() > usize::from(u16::MAX) {
        return Err(format!("{} URLs are more than {}", texts.len(), u16::MAX));
    }
    let read: Result<Vec<(u32, Url)>, String> = texts.iter().map(|text| target::weighted(text)).collect();
    Ok(read?.into_iter().unzip())
}

/// Method, fields and body of the requests.
fn form(options: &Options) -> Result<Form, String> {
    let body = match (&options.body, &options.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(file)) => Some(read_body(file)?),
        (None, None) => None,
    };
    let method = options.method.clone().unwrap_or(if body.is_some() { "POST" } else { "GET" }.to_owned());
    if method.is_empty()
        || !method.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte))
    {
        return Err(format!("\"{method}\" is no method"));
    }
    let mut fields = Vec::new();
    for line in &options.headers {
        let field = line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let field = field.filter(|(name, value)| is_name(name) && is_value(value));
        fields.push(field.ok_or_else(|| format!("\"{line}\" is no header field: expected \"Name: value\""))?);
    }
    let has =
        |fields: &[(String, String)], name: &str| fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
    if body.is_some() && !has(&fields, "content-type") {
        let content_type = options.content_type.as_deref().unwrap_or("application/x-www-form-urlencoded");
        fields.push(("Content-Type".to_owned(), checked(content_type)?));
    }
    if let Some(auth) = &options.auth {
        let encoded = base64::engine::general_purpose::STANDARD.encode(auth);
        fields.push(("Authorization".to_owned(), format!("Basic {encoded}")));
    }
    if !options.cookies.is_empty() {
        fields.push(("Cookie".to_owned(), checked(&options.cookies.join("; "))?));
    }
    Ok(Form { method, fields, body: body.unwrap_or_default(), close: options.no_keep_alive })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

fn is_value(value: &str) -> bool {
    !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

fn checked(value: &str) -> Result<String, String> {
    if is_value(value) { Ok(value.to_owned()) } else { Err("a header field has a line end in it".to_owned()) }
}

fn read_body(file: &PathBuf) -> Result<Vec<u8>, String> {
    let read = if file.as_os_str() == "-" {
        let mut body = Vec::new();
        std::io::stdin().read_to_end(&mut body).map(|_| body)
    } else {
        std::fs::read(file)
    };
    read.map_err(|error| format!("{}: {}", file.display(), plain(&error)))
}

/// The address that answers.
fn reach(url: &Url, socket: Option<&PathBuf>, timeout: Duration) -> Result<Address, String> {
    if let Some(socket) = socket {
        let reached = UnixStream::connect(socket);
        reached.map_err(|error| format!("cannot connect to unix:{}: {}", socket.display(), plain(&error)))?;
        return Ok(Address::Unix(socket.clone()));
    }
    let port = url.port_number();
    let addresses = (url.host.as_str(), port).to_socket_addrs();
    let addresses = addresses.map_err(|error| format!("no address of {}: {}", url.host, plain(&error)))?;
    let mut fault = format!("{} has no address", url.host);
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1))) {
            Ok(_) => return Ok(Address::Tcp(address)),
            Err(error) => fault = format!("cannot connect to {address}: {}", plain(&error)),
        }
    }
    Err(fault)
}

/// TLS as the options want it: without options any server will do, as for ab and wrk.
fn tls(options: &Options, url: &Url) -> Result<Tls, String> {
    let trusted = match &options.ca {
        Some(file) => {
            let fault = |reason: &dyn std::fmt::Display| format!("{}: {reason}", file.display());
            let text = std::fs::read(file).map_err(|error| fault(&plain(&error)))?;
            Some(tidegate_tls::pem::certificates(&text).map_err(|error| fault(&error))?)
        }
        None if options.verify => {
            Some(system_roots().map_err(|error| format!("no authorities that the system trusts: {error}"))?)
        }
        None => None,
    };
    let name =
        ServerName::try_from(url.host.clone()).map_err(|_| format!("\"{}\" is no host name for TLS", url.host))?;
    let client = ClientOptions {
        verify: trusted.is_some(),
        check_name: trusted.is_some(),
        resumes: options.resume,
        trusted: trusted.map(|trusted| Shared(Arc::new(trusted))),
        ..ClientOptions::default()
    };
    let mut config = (*client.client().map_err(|error| error.to_string())?).clone();
    config.alpn_protocols = vec![if options.http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Tls { config: Arc::new(config), name })
}
