//! Listening sockets: opened with the rights of the supervisor, kept over reloads, handed to workers.
//!
//! A set of sockets is built for a configuration from three sources, in this order: the set before it (same address,
//! same descriptor), sockets [provided](Provided) by another process (the supervisor at a reload, the old binary at an
//! upgrade), and new ones. Dropping a set closes what no later set and no worker uses.
//!
//! What this does not know: which server answers on a socket. One address is one entry here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::log::{Level, SysError, note};

/// `listen … backlog` where none is given, as nginx has it on Linux.
pub const BACKLOG_DEFAULT: i32 = 511;

/// nginx's attempts at an address that is in use, and the time between them: the old process may be leaving.
const BIND_ATTEMPTS: u32 = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

/// Reuseport sockets of one address, at most; more workers share them.
const REUSEPORT_SOCKETS_MAX: usize = 512;

/// Where to listen. Shown as nginx shows it: `0.0.0.0:80`, `[::1]:80`, `unix:/run/gate.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// An IPv4 or IPv6 address and port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ListenAddr {
    fn to_sock_addr(&self) -> io::Result<SockAddr> {
        match self {
            Self::Tcp(address) => Ok((*address).into()),
            Self::Unix(path) => SockAddr::unix(path),
        }
    }

    fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let address = SockRef::from(&fd).local_addr().ok()?;
        match address.as_socket() {
            Some(address) => Some(Self::Tcp(address)),
            None => address.as_pathname().map(|path| Self::Unix(path.to_owned())),
        }
    }
}

/// `so_keepalive=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// `off`
    Off,
    /// `on`, or the three values of which each may be left to the system.
    On {
        /// Silence before the first probe.
        idle: Option<Duration>,
        /// Time between probes.
        interval: Option<Duration>,
        /// Probes without an answer until the connection is given up.
        count: Option<u32>,
    },
}

/// Parameters of `listen` that belong to the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections waiting to be accepted.
    pub backlog: i32,
    /// One socket for each worker; the kernel distributes.
    pub reuseport: bool,
    /// Accept when the first bytes have come.
    pub deferred: bool,
    /// TCP keep-alive; the system's default when not given.
    pub so_keepalive: Option<KeepAlive>,
    /// Queue of TCP fast open.
    pub fastopen: Option<i32>,
    /// An IPv6 socket takes no IPv4 connections.
    pub ipv6only: bool,
    /// Receive buffer in bytes.
    pub rcvbuf: Option<usize>,
    /// Send buffer in bytes.
    pub sndbuf: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: BACKLOG_DEFAULT,
            reuseport: false,
            deferred: false,
            so_keepalive: None,
            fastopen: None,
            ipv6only: true,
            rcvbuf: None,
            sndbuf: None,
        }
    }
}

/// An address with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSpec {
    /// The address.
    pub addr: ListenAddr,
    /// The options of the socket.
    pub options: ListenOptions,
}

/// What a worker accepts on. It makes its own descriptor of `fd`, and closes that when it stops accepting.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The address and its options.
    pub spec: ListenSpec,
    /// The listening socket: non-blocking, closed on exec.
    pub fd: Arc<OwnedFd>,
}

/// The reason for opening the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve: an address in use is tried again for two seconds.
    Serve,
    /// To see whether it could be (`-t`): a running server may hold the address.
    Test,
}

/// Not all sockets could be opened; the log says which and why.
#[derive(Debug, thiserror::Error)]
#[error("still could not bind()")]
pub struct CouldNotBind;

/// Open sockets that another process gave us, until a set takes them.
#[derive(Debug, Default)]
pub struct Provided(Vec<(ListenAddr, OwnedFd)>);

impl Provided {
    /// Adds a listening socket.
    ///
    /// # Errors
    /// The descriptor is no bound socket.
    pub fn add(&mut self, fd: OwnedFd) -> io::Result<()> {
        let addr = ListenAddr::of(fd.as_fd()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTSOCK))?;
        set_cloexec(fd.as_fd())?;
        self.0.push((addr, fd));
        Ok(())
    }

    /// Takes over the sockets that an old binary names in the environment variable `NGINX`, as `3;4;5;`.
    ///
    /// Call it once and early: nothing else may use those descriptors.
    pub fn inherit(variable: &str) -> Self {
        let mut provided = Self::default();
        note(Level::Notice, format_args!("using inherited sockets from \"{variable}\""));
        for number in variable.split([';', ':']).filter(|number| !number.is_empty()) {
            let Ok(number) = number.parse::<RawFd>() else {
                note(
                    Level::Emerg,
                    format_args!(
                        "invalid socket number \"{number}\" in NGINX environment variable, ignoring the rest of the variable"
                    ),
                );
                break;
            };
            // SAFETY: fcntl on a number reads its flags, whether it is open or not.
            if number <= 2 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
                note(Level::Alert, format_args!("inherited socket #{number} is not open"));
                continue;
            }
            // SAFETY: the descriptor is open (checked above), and at start-up only the variable knows about it.
            let fd = unsafe { OwnedFd::from_raw_fd(number) };
            if let Err(error) = provided.add(fd) {
                note(
                    Level::Crit,
                    format_args!("getsockname() of inherited socket #{number} failed {}", SysError(&error)),
                );
            }
        }
        provided
    }

    fn take(&mut self, addr: &ListenAddr) -> Option<OwnedFd> {
        let index = self.0.iter().position(|(known, _)| known == addr)?;
        Some(self.0.remove(index).1)
    }
}

/// The listening sockets of one configuration.
#[derive(Debug, Default, Clone)]
pub struct Sockets {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    spec: ListenSpec,
    /// One, or with `reuseport` one for each worker.
    fds: Vec<Arc<OwnedFd>>,
}

impl Sockets {
    /// Opens what `specs` ask for, for this many workers; sockets of `previous` stay open under their descriptors.
    ///
    /// Sleeps between attempts when an address is in use, so it does not belong on a thread that serves.
    ///
    /// # Errors
    /// [`CouldNotBind`] after every failure was logged.
    pub fn open(
        specs: &[ListenSpec],
        worker_count: usize,
        previous: &Self,
        provided: &mut Provided,
        purpose: Purpose,
    ) -> Result<Self, CouldNotBind> {
        let mut entries: Vec<_> = specs.iter().map(|spec| previous.reuse(spec, provided)).collect();
        for attempt in 1..=BIND_ATTEMPTS {
            let mut in_use = false;
            for entry in &mut entries {
                match entry.complete(worker_count, purpose) {
                    Ok(()) => {}
                    Err(error) => {
                        let retry = error.source.kind() == io::ErrorKind::AddrInUse;
                        if retry && purpose == Purpose::Test {
                            continue;
                        }
                        note(Level::Emerg, format_args!("{error}"));
                        if !retry {
                            return Err(CouldNotBind);
                        }
                        in_use = true;
                    }
                }
            }
            if !in_use {
                return Ok(Self { entries });
            }
            if attempt < BIND_ATTEMPTS {
                note(Level::Notice, format_args!("try again to bind() after {}ms", BIND_PAUSE.as_millis()));
                std::thread::sleep(BIND_PAUSE);
            }
        }
        note(Level::Emerg, format_args!("{CouldNotBind}"));
        Err(CouldNotBind)
    }

    fn reuse(&self, spec: &ListenSpec, provided: &mut Provided) -> Entry {
        let known = self.entries.iter().find(|entry| entry.spec.addr == spec.addr);
        let mut fds = known.map_or_else(Vec::new, |entry| entry.fds.clone());
        while let Some(fd) = provided.take(&spec.addr) {
            // A supervisor hands over all that it has at each reload: most are other descriptors of sockets known here.
            let is_known = fds.iter().any(|known| is_same_socket(known.as_fd(), fd.as_fd()));
            if !is_known {
                fds.push(Arc::new(fd));
            }
        }
        for fd in &fds {
            if let Err(error) = apply_again(SockRef::from(&**fd), spec) {
                note(Level::Alert, format_args!("setsockopt() on {} failed {}, ignored", spec.addr, SysError(&error)));
            }
        }
        Entry { spec: spec.clone(), fds }
    }

    /// What worker `id` of `worker_count` accepts on. No socket is left out, even when there are more than workers.
    pub fn for_worker(&self, id: usize, worker_count: usize) -> Vec<Listener> {
        let worker_count = worker_count.max(1);
        let of_entry = |entry: &Entry| -> Vec<Listener> {
            let shared = !entry.spec.options.reuseport;
            let mine = |index: usize| {
                shared
                    || index % worker_count == id % worker_count
                    || (id >= entry.fds.len() && index == id % entry.fds.len())
            };
            let fds = entry.fds.iter().enumerate().filter(|(index, _)| mine(*index));
            fds.map(|(_, fd)| Listener { spec: entry.spec.clone(), fd: Arc::clone(fd) }).collect()
        };
        self.entries.iter().flat_map(of_entry).collect()
    }

    /// Every descriptor, to hand it to another process.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entries.iter().flat_map(|entry| entry.fds.iter().map(|fd| fd.as_fd()))
    }

    /// The value of the environment variable `NGINX` for the binary that takes over.
    pub fn to_variable(&self) -> String {
        self.fds().map(|fd| format!("{};", fd.as_raw_fd())).collect()
    }

    /// The addresses, with the ports that the system chose where the configuration says 0.
    pub fn addresses(&self) -> impl Iterator<Item = ListenAddr> {
        self.entries.iter().filter_map(|entry| entry.fds.first().and_then(|fd| ListenAddr::of(fd.as_fd())))
    }

    /// Removes the files of Unix sockets that `next` does not listen on; the last step of a reload or an exit.
    pub fn unlink_removed(&self, next: &Self) {
        for entry in &self.entries {
            let kept = next.entries.iter().any(|other| other.spec.addr == entry.spec.addr);
            if let (ListenAddr::Unix(path), false) = (&entry.spec.addr, kept)
                && let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                note(Level::Emerg, format_args!("unlink() \"{}\" failed {}", path.display(), SysError(&error)));
            }
        }
    }
}

/// A step of opening a socket that failed, in nginx's words.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed {}", SysError(source))]
struct BindError {
    step: String,
    #[source]
    source: io::Error,
}

impl Entry {
    /// Opens the sockets that are missing.
    fn complete(&mut self, worker_count: usize, purpose: Purpose) -> Result<(), BindError> {
        let wanted = if self.spec.options.reuseport { worker_count.clamp(1, REUSEPORT_SOCKETS_MAX) } else { 1 };
        while self.fds.len() < wanted {
            let fd = open_one(&self.spec, purpose)?;
            self.fds.push(Arc::new(fd));
            if purpose == Purpose::Test {
                break;
            }
        }
        Ok(())
    }
}

fn open_one(spec: &ListenSpec, purpose: Purpose) -> Result<OwnedFd, BindError> {
    let addr = &spec.addr;
    let failed = |step: String| move |source| BindError { step, source };
    let sock_addr = addr.to_sock_addr().map_err(failed(format!("bind() to {addr}")))?;
    let domain = match addr {
        ListenAddr::Tcp(address) => Domain::for_address(*address),
        ListenAddr::Unix(_) => Domain::UNIX,
    };
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), None).map_err(failed(format!("socket() {addr}")))?;
    apply_before_bind(&socket, spec).map_err(failed(format!("setsockopt() on {addr}")))?;
    match addr {
        ListenAddr::Tcp(_) => socket.bind(&sock_addr).map_err(failed(format!("bind() to {addr}")))?,
        // Binding leaves a file behind, which a test must not.
        ListenAddr::Unix(_) if purpose == Purpose::Test => return Ok(socket.into()),
        ListenAddr::Unix(path) => {
            bind_unix(&socket, &sock_addr, path).map_err(failed(format!("bind() to {addr}")))?;
        }
    }
    if purpose == Purpose::Serve {
        let backlog = spec.options.backlog;
        apply_again(SockRef::from(&socket), spec).map_err(failed(format!("setsockopt() on {addr}")))?;
        socket.listen(backlog).map_err(failed(format!("listen() to {addr}, backlog {backlog}")))?;
    }
    Ok(socket.into())
}

/// Binds to a path; a file that a dead server left behind is replaced.
fn bind_unix(socket: &Socket, addr: &SockAddr, path: &Path) -> io::Result<()> {
    match socket.bind(addr) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && nobody_listens(addr) => {
            std::fs::remove_file(path)?;
            socket.bind(addr)?;
        }
        other => other?,
    }
    // Access is restricted by the directory, as with nginx.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
}

fn nobody_listens(addr: &SockAddr) -> bool {
    let Ok(probe) = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None) else { return false };
    probe.connect(addr).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Options that binding looks at.
fn apply_before_bind(socket: &Socket, spec: &ListenSpec) -> io::Result<()> {
    let options = &spec.options;
    let ListenAddr::Tcp(address) = &spec.addr else { return Ok(()) };
    socket.set_reuse_address(true)?;
    if options.reuseport {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(options.ipv6only)?;
    }
    Ok(())
}

/// Options that may change while the socket lives.
fn apply_again(socket: SockRef<'_>, spec: &ListenSpec) -> io::Result<()> {
    let options = &spec.options;
    socket.set_nonblocking(true)?;
    if let Some(size) = options.rcvbuf {
        socket.set_recv_buffer_size(size)?;
    }
    if let Some(size) = options.sndbuf {
        socket.set_send_buffer_size(size)?;
    }
    if matches!(spec.addr, ListenAddr::Unix(_)) {
        return Ok(());
    }
    if options.reuseport {
        socket.set_reuse_port(true)?;
    }
    match options.so_keepalive {
        None => {}
        Some(KeepAlive::Off) => socket.set_keepalive(false)?,
        Some(KeepAlive::On { idle, interval, count }) => {
            let values = TcpKeepalive::new();
            let values = match idle {
                Some(idle) => values.with_time(idle),
                None => values,
            };
            let values = match interval {
                Some(interval) => values.with_interval(interval),
                None => values,
            };
            let values = match count {
                Some(count) => values.with_retries(count),
                None => values,
            };
            socket.set_tcp_keepalive(&values)?;
        }
    }
    set_tcp_option(&socket, libc::TCP_DEFER_ACCEPT, i32::from(options.deferred))?;
    if let Some(queue) = options.fastopen {
        set_tcp_option(&socket, libc::TCP_FASTOPEN, queue)?;
    }
    // On a socket that listens already this changes the backlog; on a new one it comes later.
    if socket.is_listener().unwrap_or(false) {
        socket.listen(options.backlog)?;
    }
    Ok(())
}

fn set_tcp_option(socket: &SockRef<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed; pointer and length describe one live integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether two descriptors name one socket. Where the system does not tell, they do not.
fn is_same_socket(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    let identity = |fd: BorrowedFd<'_>| -> io::Result<(u64, u64)> {
        let metadata = std::fs::File::from(fd.try_clone_to_owned()?).metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    };
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

fn set_cloexec(fd: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&fd).set_cloexec(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> ListenSpec {
        let addr = ListenAddr::Tcp(address.parse().expect("an address"));
        ListenSpec { addr, options: ListenOptions::default() }
    }

    fn open(specs: &[ListenSpec], workers: usize, previous: &Sockets) -> Sockets {
        Sockets::open(specs, workers, previous, &mut Provided::default(), Purpose::Serve).expect("opened")
    }

    fn numbers(sockets: &Sockets) -> Vec<RawFd> {
        sockets.fds().map(|fd| fd.as_raw_fd()).collect()
    }

    /// The spec with the port that the system chose.
    fn bound(sockets: &Sockets) -> Vec<ListenSpec> {
        let options = || ListenOptions::default();
        sockets.addresses().map(|addr| ListenSpec { addr, options: options() }).collect()
    }

    #[test]
    fn addresses_are_shown_as_nginx_shows_them() {
        for (addr, expected) in [
            (tcp("0.0.0.0:80").addr, "0.0.0.0:80"),
            (tcp("[::1]:8080").addr, "[::1]:8080"),
            (ListenAddr::Unix("/run/x.sock".into()), "unix:/run/x.sock"),
        ] {
            assert_eq!(addr.to_string(), expected);
        }
    }

    #[test]
    fn the_same_address_keeps_its_descriptor() {
        let first = open(&[tcp("127.0.0.1:0"), tcp("127.0.0.1:0")], 1, &Sockets::default());
        let specs = bound(&first);
        // The set knows them by port 0; give it the real ones.
        let mut first = first;
        for (entry, spec) in first.entries.iter_mut().zip(&specs) {
            entry.spec = spec.clone();
        }
        let second = open(&specs[1..], 1, &first);
        assert_eq!(numbers(&second), numbers(&first)[1..]);
    }

    #[test]
    fn an_address_in_use_fails_a_start_and_not_a_test() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let spec = tcp(&taken.local_addr().expect("bound").to_string());
        let error = open_one(&spec, Purpose::Serve).expect_err("in use");
        assert_eq!(error.to_string(), format!("bind() to {} failed (98: Address already in use)", spec.addr));
        let mut provided = Provided::default();
        let tested = Sockets::open(&[spec], 1, &Sockets::default(), &mut provided, Purpose::Test);
        assert!(tested.is_ok());
    }

    #[test]
    fn reuseport_gives_each_worker_its_socket() {
        let mut any = tcp("127.0.0.1:0");
        any.options.reuseport = true;
        // It stays open: nobody else can take the port.
        let probe = open(&[any], 1, &Sockets::default());
        let mut spec = bound(&probe).remove(0);
        spec.options.reuseport = true;
        let two = open(std::slice::from_ref(&spec), 2, &Sockets::default());
        assert_eq!(two.fds().count(), 2);
        for (id, workers, expected) in [(0, 2, vec![0]), (1, 2, vec![1]), (0, 1, vec![0, 1]), (2, 3, vec![0])] {
            let fds: Vec<_> = two.for_worker(id, workers).iter().map(|listener| listener.fd.as_raw_fd()).collect();
            let expected: Vec<_> = expected.into_iter().map(|index: usize| numbers(&two)[index]).collect();
            assert_eq!(fds, expected, "worker {id} of {workers}");
        }
        let three = open(&[spec], 3, &two);
        assert_eq!(numbers(&three)[..2], numbers(&two)[..]);
        assert_eq!(three.fds().count(), 3);
    }

    #[test]
    fn provided_sockets_are_used() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let spec = tcp(&listener.local_addr().expect("bound").to_string());
        let fd = OwnedFd::from(listener);
        let number = fd.as_raw_fd();
        let mut provided = Provided::default();
        provided.add(fd).expect("a socket");
        let sockets = Sockets::open(&[spec], 1, &Sockets::default(), &mut provided, Purpose::Serve).expect("opened");
        assert_eq!(numbers(&sockets), [number]);
        assert_eq!(sockets.to_variable(), format!("{number};"));
        let file = std::fs::File::open("/dev/null").expect("opened");
        assert!(provided.add(file.into()).is_err());
    }

    #[test]
    fn a_socket_that_is_provided_again_stays_one() {
        let first = open(&[tcp("127.0.0.1:0")], 1, &Sockets::default());
        let specs = bound(&first);
        let mut sockets = first;
        sockets.entries[0].spec = specs[0].clone();
        let expected = numbers(&sockets);
        for _ in 0..3 {
            let mut provided = Provided::default();
            let copies: Vec<_> = sockets.fds().map(|fd| fd.try_clone_to_owned().expect("a copy")).collect();
            copies.into_iter().for_each(|fd| provided.add(fd).expect("a socket"));
            sockets = Sockets::open(&specs, 1, &sockets, &mut provided, Purpose::Serve).expect("opened");
            assert_eq!(numbers(&sockets), expected);
        }
    }

    #[test]
    fn files_of_unix_sockets_come_and_go() {
        let path = std::env::temp_dir().join(format!("tidegate-sock-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let spec = ListenSpec { addr: ListenAddr::Unix(path.clone()), options: ListenOptions::default() };
        let first = open(std::slice::from_ref(&spec), 1, &Sockets::default());
        // Somebody listens: not ours to take.
        assert!(open_one(&spec, Purpose::Serve).is_err());
        drop(first);
        assert!(path.exists());
        let second = open(&[spec], 1, &Sockets::default());
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o666);
        second.unlink_removed(&second.clone());
        assert!(path.exists());
        second.unlink_removed(&Sockets::default());
        assert!(!path.exists());
    }

    #[test]
    fn options_reach_the_socket() {
        let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
        let mut spec = tcp(if has_ipv6 { "[::1]:0" } else { "127.0.0.1:0" });
        spec.options.so_keepalive =
            Some(KeepAlive::On { idle: Some(Duration::from_secs(60)), interval: None, count: None });
        spec.options.deferred = true;
        spec.options.fastopen = Some(3);
        spec.options.rcvbuf = Some(64 << 10);
        let sockets = open(&[spec], 1, &Sockets::default());
        let fd = sockets.fds().next().expect("one socket");
        let socket = SockRef::from(&fd);
        assert!(socket.keepalive().expect("read") && socket.is_listener().expect("read"));
        assert!(!has_ipv6 || socket.only_v6().expect("read"));
        assert!(socket.recv_buffer_size().expect("read") >= 64 << 10);
        assert!(socket.nonblocking().expect("read"));
    }
}
