//! Connections on which nothing happens: a descriptor and what must not be forgotten, nothing else.
//!
//! A connection that has waited for a request for a while, between two or in the middle of one, gives up its task, its
//! buffers and its place in the event loop. Its socket moves to an epoll instance of the worker that is watched as
//! one, and what is left is a [`Parked`] in a table. Bytes make it a connection again. So does its time limit, unless
//! all that it would do is close. A connection that is busy never comes here and pays nothing.
//!
//! A client that sends its request byte by byte stays here as long as its service has no use for the bytes: they are
//! only kept.
//!
//! A connection with TLS keeps that beside; records are read here, too, so that only plain text wakes it.
//!
//! What is considered and measured stands in `docs/decisions/0005-parked-connections.md`.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    rc::Rc,
};

use slab::Slab;
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    Peer, buffers,
    client_socket::{self, ClientSocket},
    clock,
    log::{self, Level},
    service::{Memo, Opening, Service},
    session::{BUSY_IDLE_MS_MAX, BUSY_WAIT_MS, FRESH_WAIT_MS_MAX, Session},
    stream::Stream,
    tls::ParkedTls,
    turns,
    worker::Worker,
};

/// Sockets that are asked for at a time.
const EVENTS_MAX: usize = 256;

/// A connection on which nothing happens.
pub(crate) struct Parked {
    // Dropped ahead of the socket: it may have told somebody the number of the descriptor.
    luggage: Option<Box<Luggage>>,
    socket: OwnedFd,
    port: u32,
    nodelay: bool,
    peer: Peer,
    number: u64,
    requests: u64,
    accepted_ms: u64,
    /// Since when it is idle, or when the first byte of the request came, in milliseconds.
    since_ms: u64,
    /// The part of a request that has come.
    pub(crate) input: Vec<u8>,
}

/// What many parked connections do without.
struct Luggage {
    memo: Option<Memo>,
    tls: Option<ParkedTls>,
}

impl Parked {
    /// The socket of a conversation and what must not be forgotten.
    pub(crate) fn of(opening: Opening) -> io::Result<Self> {
        let Opening { session, mut input, memo } = opening;
        let since_ms = if input.is_empty() { session.idle_since_ms.get() } else { session.head_since_ms.get() };
        if !input.is_empty() {
            // No more memory than the bytes need.
            let part = input.as_slice().into();
            buffers::give(std::mem::replace(&mut input, part));
        }
        let (nodelay, requests) = (session.nodelay.get(), session.requests.get());
        let (socket, tls) = session.stream.park()?;
        let has_luggage = memo.is_some() || tls.is_some();
        Ok(Parked {
            port: session.port as u32,
            nodelay,
            peer: session.peer,
            number: session.number,
            requests,
            accepted_ms: session.accepted_ms,
            since_ms,
            luggage: has_luggage.then(|| Box::new(Luggage { memo, tls })),
            input,
            socket,
        })
    }

    /// The connection again. `expired`: none of the bytes came in time. `closing`: its worker quits.
    pub(crate) fn wake(self, expired: bool, closing: bool) -> io::Result<Opening> {
        let Parked { socket, port, nodelay, peer, number, requests, accepted_ms, since_ms, luggage, input } = self;
        let (memo, tls) = luggage.map_or((None, None), |luggage| (luggage.memo, luggage.tls));
        let mut session = Session::nobody();
        session.stream = Stream::unpark(ClientSocket::register(socket)?, tls);
        (session.number, session.peer, session.port) = (number, peer, port as usize);
        session.accepted_ms = accepted_ms;
        session.requests.set(requests);
        session.fresh.set(requests == 0 && input.is_empty());
        session.nodelay.set(nodelay);
        session.head_since_ms.set(if input.is_empty() { 0 } else { since_ms });
        session.expired.set(expired);
        session.closing.set(closing);
        Ok(Opening { session, input, memo })
    }

    /// Tells a client whose connection is to be closed that nothing more comes, where its protocol has a word for that.
    fn say_farewell(&mut self) {
        if let Some(tls) = self.luggage.as_mut().and_then(|luggage| luggage.tls.as_mut()) {
            tls.say_farewell(self.socket.as_fd());
        }
    }

    /// Reads what has come, into what room there is or is made for a line; none of it is left unless the room is used up.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        buffer.reserve(64);
        match self.luggage.as_mut().and_then(|luggage| luggage.tls.as_mut()) {
            Some(tls) => tls.receive(self.socket.as_fd(), buffer),
            None => receive(self.socket.as_fd(), buffer),
        }
    }

    /// Whether it has not sent a byte yet.
    fn is_fresh(&self) -> bool {
        self.requests == 0 && self.input.is_empty()
    }
    /// Whether it waits for the next request.
    fn is_idle(&self) -> bool {
        self.requests > 0 && self.input.is_empty()
    }
}

/// A connection in its place in the table. Looking for those whose time is over touches the table alone.
struct Entry {
    /// When the wait is over, in milliseconds; 0 for never.
    deadline_ms: u64,
    parked: Box<Parked>,
}

impl Entry {
    /// The first bytes of a request have come: from now on its time counts. Answers when that is over, in milliseconds.
    fn begin_head(&mut self, service: &dyn Service) -> u64 {
        self.deadline_ms = self.parked.since_ms + service.head_timeout_ms();
        self.deadline_ms
    }
}

/// The parked connections of a worker.
pub(crate) struct Table {
    entries: Slab<Entry>,
    /// No deadline is earlier than this, in milliseconds; 0 when there is none.
    earliest_ms: u64,
    epoll: Rc<AsyncFd<Epoll>>,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// The system has no epoll instance to give.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = client_socket::watch(Epoll::new()?, Interest::READABLE)?;
        Ok(Table { entries: Slab::new(), earliest_ms: 0, epoll: Rc::new(epoll) })
    }
    /// When the table should be looked through next, in milliseconds; 0 for never.
    pub(crate) fn earliest_ms(&self) -> u64 {
        self.earliest_ms
    }
    /// Takes a connection in.
    ///
    /// # Errors
    /// The system cannot watch another socket; the connection is closed.
    pub(crate) fn insert(&mut self, parked: Parked, deadline_ms: u64) -> io::Result<()> {
        let place = self.entries.vacant_entry();
        self.epoll.get_ref().add(parked.socket.as_fd(), place.key())?;
        place.insert(Entry { deadline_ms, parked: Box::new(parked) });
        self.note_deadline(deadline_ms);
        Ok(())
    }
    /// Takes a connection out if its time is over.
    fn remove_expired(&mut self, key: usize, now_ms: u64) -> Option<Parked> {
        let deadline_ms = self.entries.get(key)?.deadline_ms;
        if deadline_ms != 0 && deadline_ms <= now_ms { self.remove(key) } else { None }
    }
    /// Takes a connection out; nobody watches its socket any more.
    fn remove(&mut self, key: usize) -> Option<Parked> {
        let entry = self.entries.try_remove(key)?;
        if self.entries.is_empty() {
            // Nothing holds on to the memory of a rush.
            (self.entries, self.earliest_ms) = (Slab::new(), 0);
        }
        self.epoll.get_ref().remove(entry.parked.socket.as_fd());
        Some(*entry.parked)
    }
    fn note_deadline(&mut self, deadline_ms: u64) {
        if deadline_ms != 0 && (self.earliest_ms == 0 || deadline_ms < self.earliest_ms) {
            self.earliest_ms = deadline_ms;
        }
    }
    /// The connections whose time is over.
    fn expired(&mut self, now_ms: u64) -> Vec<usize> {
        let mut found = Vec::new();
        if self.earliest_ms == 0 || now_ms < self.earliest_ms {
            return found;
        }
        let mut earliest_ms = u64::MAX;
        for (key, entry) in &self.entries {
            match entry.deadline_ms {
                0 => {}
                deadline_ms if deadline_ms <= now_ms => found.push(key),
                deadline_ms => earliest_ms = earliest_ms.min(deadline_ms),
            }
        }
        self.earliest_ms = if earliest_ms == u64::MAX { 0 } else { earliest_ms };
        found
    }
    /// Connections that wait for a request and may be closed: since when, in milliseconds, and which.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.parked.input.is_empty());
        waiting.map(|(key, entry)| (entry.parked.since_ms, key))
    }
}

/// What bytes or an end make of a parked connection.
enum Arrival {
    /// It becomes a connection again.
    Resume,
    /// It stays as it is.
    Stay,
    /// It is closed.
    Close,
}

impl Parked {
    /// Reads what has come. `ended`: so has the end of it, or an error.
    fn read(&mut self, ended: bool, service: &dyn Service) -> Arrival {
        let before = self.input.len();
        let (is_first, is_idle) = (before == 0, self.is_idle());
        let mut buffer = if is_first { buffers::take() } else { std::mem::take(&mut self.input) };
        let read = self.receive(&mut buffer);
        if is_first && !buffer.is_empty() {
            self.since_ms = clock::steady_ms();
        }
        let arrival = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && (is_idle || !ended) => Arrival::Stay,
            // A client that has nothing under way is free to go.
            Ok(0) | Err(_) if is_idle => Arrival::Close,
            // Without room left there may be more, of which no event would tell again.
            Ok(1..) if !ended && buffer.len() < buffer.capacity() && service.stays_parked(&buffer, before) => {
                Arrival::Stay
            }
            // Whatever it is, the connection can tell.
            _ => Arrival::Resume,
        };
        if is_first && (buffer.is_empty() || matches!(arrival, Arrival::Stay)) {
            // No more memory than the bytes need.
            self.input = buffer.as_slice().into();
            buffers::give(buffer);
        } else {
            self.input = buffer;
        }
        arrival
    }
}

impl Worker {
    /// Watches the parked connections; ends when the system fails it.
    pub(crate) async fn watch_parked(self: Rc<Self>) {
        let epoll = self.sessions.parked.borrow().epoll.clone();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        while let Ok(mut ready) = epoll.readable().await {
            clock::update();
            let mut left = turns::CLIENTS_MIN;
            loop {
                let wanted = left.min(EVENTS_MAX);
                let found = epoll.get_ref().wait(&mut events[..wanted]);
                for event in &events[..found] {
                    self.parked_event(event.u64 as usize, event.events);
                }
                if found < wanted {
                    ready.clear_ready();
                    break;
                }
                left -= found;
                if left == 0 {
                    left = turns::next().await;
                    clock::update();
                }
            }
        }
    }

    fn parked_event(self: &Rc<Self>, key: usize, events: u32) {
        const END: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        let mut table = self.sessions.parked.borrow_mut();
        let Some(entry) = table.entries.get_mut(key) else { return };
        let service = &*self.port(entry.parked.port as usize).service;
        let was_reading = !entry.parked.input.is_empty();
        let mut arrival = entry.parked.read(events & END as u32 != 0, service);
        let begins = !was_reading && !entry.parked.input.is_empty();
        if begins && self.is_quitting() {
            // How long a worker that quits waits for whom is the connection's business.
            arrival = Arrival::Resume;
        }
        if begins {
            self.count_parked(false, -1);
            self.count_parked(true, 1);
        }
        if begins && matches!(arrival, Arrival::Stay) {
            let deadline_ms = entry.begin_head(service);
            table.note_deadline(deadline_ms);
        }
        drop(table);
        if matches!(arrival, Arrival::Stay) {
            return;
        }
        let Some(parked) = self.take_parked(|table| table.remove(key)) else { return };
        match arrival {
            Arrival::Close => self.close_parked(parked),
            _ => self.resume(parked, false),
        }
    }

    /// What `take` takes out of the table, no longer counted.
    fn take_parked(&self, take: impl FnOnce(&mut Table) -> Option<Parked>) -> Option<Parked> {
        let parked = take(&mut self.sessions.parked.borrow_mut())?;
        self.count_parked(!parked.input.is_empty(), -1);
        Some(parked)
    }

    /// Looks for those whose time is over.
    pub(crate) fn check_parked(self: &Rc<Self>, now_ms: u64) {
        if self.sessions.ending_parked.get() {
            return;
        }
        let expired = self.sessions.parked.borrow_mut().expired(now_ms);
        self.in_turns(
            |sessions| &sessions.ending_parked,
            expired,
            move |worker, key| {
                // Another connection may have the place by now.
                let Some(mut parked) = worker.take_parked(|table| table.remove_expired(key, now_ms)) else { return };
                if parked.is_idle() {
                    parked.say_farewell();
                    worker.forget_open();
                } else {
                    worker.resume(parked, true);
                }
            },
        );
    }

    /// Closes one.
    pub(crate) fn drop_parked(&self, key: usize) {
        if let Some(mut parked) = self.take_parked(|table| table.remove(key)) {
            parked.say_farewell();
            self.forget_open();
        }
    }

    /// Closes all: the worker stops.
    pub(crate) fn drop_all_parked(&self) {
        let keys: Vec<_> = self.sessions.parked.borrow().entries.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.drop_parked(key));
    }

    /// The client closed its idle connection.
    fn close_parked(&self, parked: Parked) {
        let log = log::main();
        if log.enabled(Level::Info) {
            let message = format_args!("client {} closed keepalive connection", parked.peer);
            log.write(Level::Info, Some(parked.number), message, |_| ());
        }
        drop(parked);
        self.forget_open();
    }

    /// The worker shuts down: closes those that are idle, and leaves a moment to those that may be about to send something,
    /// as [`Session::close_when_idle`] does.
    pub(crate) fn quit_parked(&self, now_ms: u64) {
        let mut idle = Vec::new();
        let mut table = self.sessions.parked.borrow_mut();
        let mut earliest_ms = u64::MAX;
        for (key, Entry { deadline_ms, parked }) in &mut table.entries {
            let latest_ms = if parked.is_fresh() {
                now_ms + FRESH_WAIT_MS_MAX
            } else if !parked.is_idle() {
                continue;
            } else if now_ms.saturating_sub(parked.since_ms) < BUSY_IDLE_MS_MAX {
                now_ms + BUSY_WAIT_MS
            } else {
                idle.push(key);
                continue;
            };
            *deadline_ms = if *deadline_ms == 0 { latest_ms } else { latest_ms.min(*deadline_ms) };
            earliest_ms = earliest_ms.min(latest_ms);
        }
        if earliest_ms != u64::MAX {
            table.note_deadline(earliest_ms);
        }
        drop(table);
        idle.into_iter().for_each(|key| self.drop_parked(key));
    }
}

/// Reads once, into what room there is.
fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    let (start, len) = (room.as_mut_ptr().cast(), room.len());
    // SAFETY: `start` and `len` describe writable memory of `buffer`.
    let count = unsafe { libc::recv(socket.as_raw_fd(), start, len, 0) };
    let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has written `count` bytes behind the length, within the capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// An epoll instance.
struct Epoll(OwnedFd);

// SAFETY: the descriptor is that of the `OwnedFd` within, which is private and never exchanged.
unsafe impl client_socket::OwnsDescriptor for Epoll {}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl Epoll {
    fn new() -> io::Result<Self> {
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    fn control(&self, operation: i32, socket: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        // One event for what arrives at a time: it is read at once, and completely unless the connection resumes.
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: key as u64 };
        // SAFETY: both descriptors are open and the event lives through the call.
        let result = unsafe { libc::epoll_ctl(self.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
    fn add(&self, socket: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, key)
    }
    fn remove(&self, socket: BorrowedFd<'_>) {
        // A socket that is not there need not go.
        let _ = self.control(libc::EPOLL_CTL_DEL, socket, 0);
    }
    /// Events that are there now; how many.
    fn wait(&self, events: &mut [libc::epoll_event]) -> usize {
        let max = events.len() as i32;
        // SAFETY: the kernel writes at most `max` events, for which there is room.
        let count = unsafe { libc::epoll_wait(self.as_raw_fd(), events.as_mut_ptr(), max, 0) };
        // Interrupted or not, there is another look when something comes.
        usize::try_from(count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use super::*;

    /// A service whose requests begin with a line.
    struct Lines;

    impl Service for Lines {
        fn begin(&self, _: &Rc<Worker>, _: Opening) {}
        fn head_timeout_ms(&self) -> u64 {
            100
        }
        fn stays_parked(&self, input: &[u8], before: usize) -> bool {
            !input[before..].contains(&b'\n')
        }
    }

    fn pair(requests: u64, input: &[u8]) -> (UnixStream, Parked) {
        let (client, socket) = UnixStream::pair().expect("a pair of sockets");
        socket.set_nonblocking(true).expect("a socket that does not block");
        let parked = Parked {
            socket: socket.into(),
            port: 0,
            nodelay: false,
            peer: Peer::Unix,
            number: 1,
            requests,
            accepted_ms: 1,
            since_ms: 1,
            luggage: None,
            input: input.to_vec(),
        };
        (client, parked)
    }

    #[test]
    fn is_small() {
        assert!(size_of::<Parked>() + size_of::<Entry>() <= 128);
    }

    #[test]
    fn a_line_that_is_longer_than_the_room_for_it_is_read_on() {
        for before in [&b""[..], b"G"] {
            let (mut client, mut parked) = pair(1, before);
            if before.is_empty() {
                // The buffer that the next gets: one of a connection that was woken with a few bytes.
                buffers::give(Vec::with_capacity(64));
            }
            client.write_all(&[b'x'; 5000]).expect("sent");
            assert!(matches!(parked.read(false, &Lines), Arrival::Resume), "no event tells of the rest");
        }
    }

    #[test]
    fn bytes_inside_a_line_change_nothing() {
        let (mut client, mut parked) = pair(0, b"GE");
        assert!(matches!(parked.read(false, &Lines), Arrival::Stay));
        client.write_all(b"T / HT").expect("room");
        assert!(matches!(parked.read(false, &Lines), Arrival::Stay));
        assert_eq!(parked.input, b"GET / HT");
        client.write_all(b"TP/1.1\r\nH").expect("room");
        assert!(matches!(parked.read(false, &Lines), Arrival::Resume));
        assert_eq!(parked.input, b"GET / HTTP/1.1\r\nH");
    }

    #[test]
    fn the_first_line_resumes() {
        let (mut client, mut parked) = pair(3, b"");
        assert!(matches!(parked.read(false, &Lines), Arrival::Stay));
        client.write_all(b"G").expect("room");
        let idle_since_ms = parked.since_ms;
        assert!(matches!(parked.read(false, &Lines), Arrival::Stay));
        assert!(parked.since_ms > idle_since_ms, "the request begins with its first byte");
        assert_eq!((parked.input.as_slice(), parked.input.capacity()), (b"G".as_slice(), 1));
        let (mut client, mut parked) = pair(3, b"");
        client.write_all(b"GET / HTTP/1.1\r\n").expect("room");
        assert!(matches!(parked.read(false, &Lines), Arrival::Resume));
        assert_eq!(parked.input, b"GET / HTTP/1.1\r\n");
    }

    #[test]
    fn an_end_closes_what_is_idle_alone() {
        for (requests, input, closes) in [(1, "", true), (0, "", false), (1, "GET", false)] {
            let (client, mut parked) = pair(requests, input.as_bytes());
            drop(client);
            assert_eq!(matches!(parked.read(true, &Lines), Arrival::Close), closes, "{requests} {input}");
        }
    }

    #[tokio::test]
    async fn deadlines() {
        let mut table = Table::new().expect("an epoll instance");
        let mut clients = Vec::new();
        for deadline_ms in [50, 0, 30, 70] {
            let (client, parked) = pair(1, b"");
            clients.push(client);
            table.insert(parked, deadline_ms).expect("room");
        }
        assert_eq!(table.earliest_ms(), 30);
        assert!(table.expired(29).is_empty());
        assert_eq!(table.expired(50), [0, 2]);
        assert_eq!(table.earliest_ms(), 70);
        for key in 0..4 {
            assert!(table.remove(key).is_some());
        }
        assert!(table.entries.is_empty() && table.earliest_ms() == 0);
        assert!(table.remove(0).is_none());
    }
}
