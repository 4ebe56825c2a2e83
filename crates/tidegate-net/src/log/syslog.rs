//! `syslog:server=…`: log lines as datagrams (RFC 3164), to a host or a local socket.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Mutex;

use super::Level;
use crate::clock;

/// Port of a syslog server that names none.
const PORT_DEFAULT: u16 = 514;

/// Longest datagram; local syslog daemons cut at 8 KiB, so the rest would be lost anyway.
const DATAGRAM_BYTES_MAX: usize = 8 * 1024;

/// nginx takes tags of letters, digits and `_`, 32 of them at most, as RFC 3164 asks.
const TAG_BYTES_MAX: usize = 32;

/// Facilities by their number, as `facility=` names them.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// A parsed `syslog:` destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogTarget {
    server: Server,
    facility: u8,
    severity: Level,
    tag: String,
    hostname: bool,
}

/// Where datagrams go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Udp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl SyslogTarget {
    /// Parses what follows `syslog:`, for example `server=127.0.0.1:514,facility=local7,tag=gate`.
    ///
    /// # Errors
    /// A sentence in nginx's words that says which parameter is wrong. A host name is resolved here, once.
    pub fn parse(parameters: &str) -> Result<Self, String> {
        let mut server = None;
        let mut facility = 23;
        let mut severity = Level::Info;
        let mut tag = "nginx".to_owned();
        let mut hostname = true;
        for parameter in parameters.split(',') {
            match parameter.split_once('=') {
                Some(("server", address)) if server.is_none() => server = Some(parse_server(address)?),
                Some(("server", _)) => return Err("duplicate syslog \"server\"".to_owned()),
                Some(("facility", name)) => {
                    let known = FACILITIES.iter().position(|known| *known == name);
                    facility = known.ok_or_else(|| format!("unknown syslog facility \"{name}\""))? as u8;
                }
                Some(("severity", name)) => {
                    severity = name.parse().map_err(|()| format!("unknown syslog severity \"{name}\""))?;
                }
                Some(("tag", name)) => tag = parse_tag(name)?,
                None if parameter == "nohostname" => hostname = false,
                _ => return Err(format!("unknown syslog parameter \"{parameter}\"")),
            }
        }
        let server = server.ok_or_else(|| "no syslog server specified".to_owned())?;
        Ok(Self { server, facility, severity, tag, hostname })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Writes the header of a datagram sent now: `<PRI>Nov 20 09:30:00 host tag: `.
    fn header(&self, level: Option<Level>, host: &str, out: &mut Vec<u8>) {
        let severity = level.unwrap_or(self.severity).syslog_severity();
        let priority = u16::from(self.facility) * 8 + u16::from(severity);
        let time = clock::syslog_time();
        // Writing to a vector cannot fail.
        let _ = if self.hostname {
            write!(out, "<{priority}>{time} {host} {}: ", self.tag)
        } else {
            write!(out, "<{priority}>{time} {}: ", self.tag)
        };
    }
}

fn parse_server(address: &str) -> Result<Server, String> {
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(Server::Unix(PathBuf::from(path)));
    }
    let bad = |why: &str| format!("{why} in syslog server \"{address}\"");
    if address.is_empty() {
        return Err(bad("no host"));
    }
    let with_port = if address.ends_with(']') || !address.contains(':') {
        format!("{address}:{PORT_DEFAULT}")
    } else {
        address.to_owned()
    };
    let mut found = with_port.to_socket_addrs().map_err(|_| bad("host not found"))?;
    found.next().map(Server::Udp).ok_or_else(|| bad("host not found"))
}

fn parse_tag(tag: &str) -> Result<String, String> {
    if tag.len() > TAG_BYTES_MAX {
        return Err("syslog tag length exceeds 32".to_owned());
    }
    if tag.is_empty() || !tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("syslog \"tag\" only allows alphanumeric characters and underscore".to_owned());
    }
    Ok(tag.to_owned())
}

/// The sending side; opened at the first line and again after a failure.
#[derive(Debug)]
pub(super) struct Sender {
    target: SyslogTarget,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    socket: Option<Socket>,
    host: Option<String>,
    datagram: Vec<u8>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Sender {
    pub(super) fn new(target: SyslogTarget) -> Self {
        Self { target, state: Mutex::new(State::default()) }
    }

    pub(super) fn target(&self) -> &SyslogTarget {
        &self.target
    }

    /// Sends one line without its newline; the level takes the place of `severity=` when there is one.
    pub(super) fn send(&self, level: Option<Level>, line: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let state = &mut *state;
        let host = state.host.get_or_insert_with(host_name);
        state.datagram.clear();
        self.target.header(level, host, &mut state.datagram);
        state.datagram.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        state.datagram.truncate(DATAGRAM_BYTES_MAX);
        if state.socket.is_none() {
            state.socket = Some(connect(&self.target.server)?);
        }
        let sent = match &state.socket {
            Some(Socket::Udp(socket)) => socket.send(&state.datagram),
            Some(Socket::Unix(socket)) => socket.send(&state.datagram),
            None => return Ok(()),
        };
        match sent {
            Ok(_) => Ok(()),
            Err(error) => {
                // A restarted syslog daemon has a new socket behind the same name.
                state.socket = None;
                Err(error)
            }
        }
    }
}

fn connect(server: &Server) -> io::Result<Socket> {
    match server {
        Server::Udp(address) => {
            let local: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
            let socket = UdpSocket::bind(local)?;
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Ok(Socket::Udp(socket))
        }
        Server::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_nonblocking(true)?;
            Ok(Socket::Unix(socket))
        }
    }
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is ours and its true length is passed; the last byte stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    if failed {
        return "localhost".to_owned();
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(parameters: &str, expected: &str) {
        assert_eq!(SyslogTarget::parse(parameters).expect_err("refused"), expected);
    }

    #[test]
    fn bad_parameters_are_named() {
        refused("", "unknown syslog parameter \"\"");
        refused("facility=local7", "no syslog server specified");
        refused("server=127.0.0.1,facility=x", "unknown syslog facility \"x\"");
        refused("server=127.0.0.1,severity=x", "unknown syslog severity \"x\"");
        refused("server=127.0.0.1,server=127.0.0.1", "duplicate syslog \"server\"");
        refused("server=127.0.0.1,tag=a-b", "syslog \"tag\" only allows alphanumeric characters and underscore");
        refused("server=127.0.0.1,colour=red", "unknown syslog parameter \"colour=red\"");
    }

    #[test]
    fn a_line_arrives_as_one_datagram() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = server.local_addr().expect("bound");
        let target = SyslogTarget::parse(&format!("server={address},facility=local0,tag=gate,nohostname"))
            .expect("a good target");
        let sender = Sender::new(target);
        sender.send(Some(Level::Error), b"hello\n").expect("sent");
        let mut buf = [0; 256];
        let len = server.recv(&mut buf).expect("received");
        let text = String::from_utf8_lossy(&buf[..len]).into_owned();
        assert!(text.starts_with("<131>"), "{text}");
        assert!(text.ends_with(" gate: hello"), "{text}");
    }
}
