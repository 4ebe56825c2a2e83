//! `connect`: a connection from the pool, or a new one.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use socket2::SockRef;
use tidegate_core::resolver;
use tidegate_net::{client_socket::ClientSocket, stream::Stream};
use tokio::net::TcpSocket;

use super::conn::Conn;
use super::failure::{Failure, debug, push_nil_error};
use super::owner::Closing;
use super::pool::{self, Grant, Offer, Place, Queued};
use super::settings::{Settings, with_resolver};
use super::tcp::{Busy, Call, Operation, Tcp, call, check_phase};
use super::transport::Transport;
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::{Lua, Type};

/// The address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Inet(SocketAddr),
    Name(String, u16),
    Unix(PathBuf),
}

/// What the last argument may say.
#[derive(Default)]
struct Options {
    key: Option<Vec<u8>>,
    size: Option<usize>,
    backlog: Option<usize>,
}

/// `connect(socket, host, port?, options?)`: results, or nothing when the Lua half is to await.
pub(super) fn connect(lua: &mut Lua) -> CResult {
    let mut count = lua.top();
    if !(2..=4).contains(&count) {
        let text = "ngx.socket connect: expecting 2, 3, or 4 arguments (including the object), but seen";
        return Err(LuaError::from(format!("{text} {count}")));
    }
    check_phase()?;
    let Call { tcp, host } = call(lua)?;
    lua.check_bytes(2)?;
    let settings = Settings::of(&host);
    let options = if lua.type_of(count) == Type::Table {
        count -= 1;
        options(lua, count + 1, &settings)?
    } else {
        Options::default()
    };
    let target = match target(lua, count.min(3)) {
        Ok(target) => target,
        Err(message) => return push_nil_error(lua, &message),
    };
    let key = options.key.unwrap_or_else(|| default_key(lua, &target));
    if let Err(refusal) = make_ready(&tcp, &host) {
        return refusal.end(lua);
    }
    tcp.key.replace(key.clone());
    tcp.own(&host);

    let pool = match options.size {
        Some(size) => match pool::find_or_make(&host, &key, size, options.backlog) {
            Ok(pool) => Some(pool),
            Err(why) => return push_nil_error(lua, why),
        },
        None => pool::find(&key),
    };
    let limit = tcp.connect_timeout.get().unwrap_or(settings.connect_timeout);
    debug(&host, || format!("lua tcp socket connect timeout: {}", limit.as_millis()));
    let job = Job { tcp: tcp.clone(), host, target, limit, log_errors: settings.log_errors };
    match pool.map(|pool| pool.ask(())) {
        None => job.begin(lua, None),
        Some(Offer::Grant(Grant::Conn(conn))) => {
            debug(&job.host, || {
                let address = Rc::as_ptr(&conn) as usize;
                format!("lua tcp socket get keepalive peer: using connection {address:016X}")
            });
            job.tcp.attach(conn, &job.host);
            lua.push_integer(1);
            Ok(1)
        }
        Some(Offer::Grant(Grant::Place(place))) => job.begin(lua, Some(place)),
        Some(Offer::Queue(queued)) => {
            debug(&job.host, || {
                let key = String::from_utf8_lossy(&key);
                format!("lua tcp socket queue connect operation for connection pool \"{key}\"")
            });
            let busy = tcp.occupy(Operation::Connect);
            wait(lua, job.queue(queued, busy))
        }
        Some(Offer::Full) => push_nil_error(lua, "too many waiting connect operations"),
    }
}

fn wait(lua: &mut Lua, future: impl Future<Output = Answer> + 'static) -> CResult {
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// Demands that the socket may connect, and ends its former connection.
fn make_ready(tcp: &Rc<Tcp>, host: &Host) -> Result<(), super::tcp::Refusal> {
    if tcp.was_used() {
        debug(host, || "lua reuse socket upstream ctx".to_owned());
    }
    if let Some(conn) = tcp.conn() {
        tcp.check_owner(host)?;
        tcp.check_idle(&[Operation::Connect, Operation::Read, Operation::Write])?;
        if conn.is_downstream() {
            return Err(LuaError::new("attempt to re-connect a request socket").into());
        }
        debug(host, || "lua tcp socket reconnect without shutting down".to_owned());
        tcp.close_now();
    }
    tcp.check_idle(&[Operation::Connect])?;
    tcp.last_failure.set(0);
    Ok(())
}

fn options(lua: &mut Lua, index: i32, settings: &Settings) -> Result<Options, LuaError> {
    let bad = |what: &str, name: &str, value: String| {
        LuaError::argument(index, format!("bad \"{name}\" option {what}: {value}"))
    };
    // No option, or one of a wrong type.
    let number = |lua: &mut Lua, name: &'static str| -> Result<Option<i64>, LuaError> {
        lua.raw_get_field(index, name.as_bytes());
        let value = lua.to_number(-1);
        let (kind, absent) = (lua.type_name(-1), lua.is_none_or_nil(-1));
        lua.pop(1);
        match value {
            Some(value) => Ok(Some(value as i64)),
            None if absent || name == "backlog" => Ok(None),
            None => Err(bad("type", name, kind.to_owned())),
        }
    };
    let mut options = Options::default();
    if let Some(size) = number(lua, "pool_size")? {
        let size = usize::try_from(size).ok().filter(|&size| size > 0);
        options.size = Some(size.ok_or_else(|| {
            bad("value", "pool_size", number(lua, "pool_size").ok().flatten().unwrap_or(0).to_string())
        })?);
    }
    if let Some(backlog) = number(lua, "backlog")? {
        let backlog = usize::try_from(backlog).map_err(|_| bad("value", "backlog", backlog.to_string()))?;
        options.backlog = Some(backlog);
        options.size = options.size.or(Some(settings.pool_size));
    }
    lua.raw_get_field(index, b"pool");
    match lua.type_of(-1) {
        Type::String | Type::Number => options.key = lua.to_bytes(-1).map(<[u8]>::to_vec),
        Type::Nil => {}
        _ => return Err(bad("type", "pool", lua.type_name(-1).to_owned())),
    }
    lua.pop(1);
    Ok(options)
}

/// Reads host and port from arguments 2 and 3; an error is what the script gets.
fn target(lua: &mut Lua, count: i32) -> Result<Target, String> {
    let host = lua.to_bytes(2).unwrap_or_default();
    let unix = host.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"unix:"));
    let port = if count == 3 { lua.to_number(3) } else { None };
    let port = match port {
        Some(port) => u16::try_from(port as i64).map_err(|_| format!("bad port number: {}", port as i64))?,
        None if unix => 0,
        None => return Err("missing the port number".to_owned()),
    };
    let text = String::from_utf8_lossy(host);
    if unix {
        let path = &text[5..];
        if path.is_empty() {
            return Err(format!("failed to parse host name \"{text}\": no path in the unix domain socket"));
        }
        return Ok(Target::Unix(PathBuf::from(path)));
    }
    host_target(&text, port)
}

/// `127.0.0.1`, `[::1]`, a name.
pub(crate) fn host_target(text: &str, port: u16) -> Result<Target, String> {
    let bad = |why: &str| Err(format!("failed to parse host name \"{text}\": {why}"));
    if let Some(inner) = text.strip_prefix('[') {
        return match inner.strip_suffix(']').map(str::parse::<IpAddr>) {
            Some(Ok(ip)) if ip.is_ipv6() => Ok(Target::Inet(SocketAddr::new(ip, port))),
            _ => bad("invalid IPv6 address"),
        };
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(Target::Inet(SocketAddr::new(ip, port)));
    }
    if text.is_empty() {
        return bad("no host");
    }
    if text.bytes().any(|byte| matches!(byte, b'/' | b' ' | b'\0' | b':')) {
        return bad(if text.contains(':') { "invalid port" } else { "invalid host" });
    }
    Ok(Target::Name(text.to_owned(), port))
}

/// The pool's name where none was given.
fn default_key(lua: &mut Lua, target: &Target) -> Vec<u8> {
    let host = lua.to_bytes(2).unwrap_or_default();
    match target {
        Target::Inet(address) => [host, b":", address.port().to_string().as_bytes()].concat(),
        Target::Name(_, port) => [host, b":", port.to_string().as_bytes()].concat(),
        Target::Unix(_) => host.to_vec(),
    }
}

/// One `connect`.
struct Job {
    tcp: Rc<Tcp>,
    host: Host,
    target: Target,
    limit: Duration,
    log_errors: bool,
}

impl Job {
    /// Connects at once where the system allows it, or waits.
    fn begin(self, lua: &mut Lua, place: Option<Place<Rc<Conn>>>) -> CResult {
        if let Target::Unix(path) = &self.target {
            match ClientSocket::connect_local(path).map(Stream::Client) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    let call = format!("connect() to unix:{}", path.display());
                    return self.finish(result.map_err(Failure::from), place, &call).push(lua);
                }
            }
        }
        let busy = self.tcp.occupy(Operation::Connect);
        wait(lua, self.run(place, busy))
    }

    /// Waits for its turn, then connects.
    async fn queue(self, queued: Queued<Rc<Conn>>, busy: Busy) -> Answer {
        let Ok(grant) = tokio::time::timeout(self.limit, queued.granted()).await else {
            if self.log_errors {
                let (host, port) = match &self.target {
                    Target::Inet(address) => (address.ip().to_string(), address.port()),
                    Target::Name(name, port) => (name.clone(), *port),
                    Target::Unix(path) => (format!("unix:{}", path.display()), 0),
                };
                let message =
                    format!("lua tcp socket queued connect timed out, when trying to connect to {host}:{port}");
                self.host.log(LogLevel::Error, message.as_bytes());
            }
            return Answer::NilError("timeout".into());
        };
        queued.leave();
        match grant {
            Grant::Conn(conn) => {
                self.tcp.attach(conn, &self.host);
                Answer::One
            }
            Grant::Place(place) => self.run(Some(place), busy).await,
        }
    }

    async fn run(self, place: Option<Place<Rc<Conn>>>, busy: Busy) -> Answer {
        let answer = match self.addresses().await {
            Err(message) => Answer::NilError(message.into()),
            Ok(addresses) => {
                self.tcp.dialing.set(true);
                let connected = tokio::time::timeout(self.limit, self.connect_any(&addresses)).await;
                if connected.is_err() && self.log_errors {
                    let to = match (&self.target, addresses.first()) {
                        (Target::Unix(path), _) => format!("unix:{}", path.display()),
                        (_, Some(address)) => address.to_string(),
                        (_, None) => String::new(),
                    };
                    let message = format!("lua tcp socket connect timed out, when connecting to {to}");
                    self.host.log(LogLevel::Error, message.as_bytes());
                }
                self.finish(connected.unwrap_or(Err(Failure::TimedOut)), place, "connect()")
            }
        };
        drop(busy);
        answer
    }

    /// Takes the new connection, or says what went wrong.
    fn finish(&self, connected: Result<Stream, Failure>, place: Option<Place<Rc<Conn>>>, call: &str) -> Answer {
        match connected {
            Ok(stream) => {
                let conn = Conn::new(Transport::Plain(stream));
                conn.place.replace(place);
                self.tcp.attach(conn, &self.host);
                Answer::One
            }
            Err(failure) => {
                self.tcp.note(&failure);
                if self.log_errors {
                    failure.log_call(&self.host, call);
                }
                Answer::NilError(failure.message())
            }
        }
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        match &self.target {
            Target::Inet(address) => Ok(vec![*address]),
            Target::Unix(_) => Ok(Vec::new()),
            Target::Name(name, port) => resolve(&self.host, name, *port).await,
        }
    }

    async fn connect_any(&self, addresses: &[SocketAddr]) -> Result<Stream, Failure> {
        if let Target::Unix(path) = &self.target {
            // Only when the listener's queue is full: the system gives no event for that.
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                match ClientSocket::connect_local(path).map(Stream::Client) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result.map_err(Failure::from),
                }
            }
        }
        let mut last = Failure::Text("no live connection".into());
        for address in addresses {
            match self.connect_inet(*address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    async fn connect_inet(&self, address: SocketAddr) -> io::Result<Stream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(local) = self.tcp.bind.get().filter(|local| local.is_ipv4() == address.is_ipv4()) {
            if self.tcp.transparent.get() && local.is_ipv4() {
                SockRef::from(&socket).set_ip_transparent_v4(true)?;
            }
            socket.bind(local)?;
        }
        Ok(Stream::Tcp(socket.connect(address).await?))
    }
}

/// The addresses of `name`; an error is what the script gets.
pub(crate) async fn resolve(host: &Host, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    // A clone of two words: the configuration may go while the answer is on its way.
    let conf = with_resolver(host, |conf| resolver::Conf {
        resolver: conf.resolver.clone(),
        resolver_timeout: conf.resolver_timeout,
    });
    let found = conf.resolve(name).await;
    match found {
        Ok(found) => Ok(found.addresses.iter().map(|&ip| SocketAddr::new(ip, port)).collect()),
        Err(error) => Err(format!("{name} could not be resolved ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, expected: Result<Target, &str>) {
        let expected = expected.map_err(|why| format!("failed to parse host name \"{host}\": {why}"));
        assert_eq!(host_target(host, 80), expected);
    }

    #[test]
    fn hosts() {
        check("127.0.0.1", Ok(Target::Inet(([127, 0, 0, 1], 80).into())));
        check("[::1]", Ok(Target::Inet("[::1]:80".parse().expect("an address"))));
        check("localhost", Ok(Target::Name("localhost".to_owned(), 80)));
        check("[::1", Err("invalid IPv6 address"));
        check("", Err("no host"));
        check("a b", Err("invalid host"));
        check("a:80", Err("invalid port"));
    }
}
