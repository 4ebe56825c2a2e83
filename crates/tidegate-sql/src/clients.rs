//! The clients of an engine: which there are, what they do, and the one handle with which somebody else ends that.
//!
//! A [`Client`] is listed from [`Session::connect`](crate::Session::connect) until its session goes. A session inside of
//! the process that was not connected is listed while one of its statements waits or has been suspended: what ends sooner
//! is over before anybody could read about it, and pays nothing.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Instant,
};

use tidegate_rows::ServerError;

use crate::{account_name::Name, errors};

/// Bytes of a statement's text that others can read about.
const INFO_BYTES_MAX: usize = 64 << 10;

/// The user of a session inside of the process that names none.
const INSIDE_USER: &str = "root";
const INSIDE_HOST: &str = "localhost";

/// What is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kill {
    /// The statement that runs.
    Query = 1,
    /// The statement and the connection.
    Connection = 2,
}

/// Who talks to an engine through a session.
#[derive(Debug)]
pub struct Client {
    /// `connection_id()`.
    pub id: u64,
    clients: Arc<Clients>,
    /// 0, or the [`Kill`] that was asked for.
    killed: AtomicU8,
    /// Of whoever runs the statement, or waits for the next one, and the least that wakes it.
    waker: Mutex<Option<(Waker, Kill)>>,
    /// It is listed until its session goes, not for a statement alone.
    connected: AtomicBool,
    runs: AtomicBool,
    /// When the statement began, or when the last one has ended, in microseconds since the list was made.
    since_us: AtomicU64,
    about: Mutex<About>,
}

/// What a list of clients shows.
#[derive(Debug, Default)]
struct About {
    user: Option<Box<str>>,
    host: Option<Box<str>>,
    account_host: Option<Box<str>>,
    schema: Box<str>,
    info: Option<Box<[u8]>>,
}

/// A line of `SHOW PROCESSLIST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) host: String,
    pub(crate) schema: String,
    pub(crate) runs: bool,
    pub(crate) micros: u64,
    pub(crate) info: Option<Box<[u8]>>,
}

/// All clients of an engine that are listed.
#[derive(Debug)]
pub(crate) struct Clients {
    began: Instant,
    next_id: AtomicU64,
    listed: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Logins since the engine was opened.
    connections: AtomicU64,
    /// Bytes that all clients have sent and were sent.
    received: AtomicU64,
    sent: AtomicU64,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            next_id: AtomicU64::new(1),
            listed: Mutex::default(),
            connections: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    /// A client that is not listed yet.
    pub(crate) fn make(self: &Arc<Self>) -> Arc<Client> {
        Arc::new(Client {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            clients: Arc::clone(self),
            killed: AtomicU8::new(0),
            waker: Mutex::default(),
            connected: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            since_us: AtomicU64::new(0),
            about: Mutex::default(),
        })
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Ends what a client does; `false` if there is none of this number.
    pub(crate) fn kill(&self, id: u64, kill: Kill) -> bool {
        let Some(client) = lock(&self.listed).get(&id).cloned() else { return false };
        client.kill(kill);
        true
    }

    /// Ends what all clients of a user do; answers their number.
    pub(crate) fn kill_user(&self, user: &str, kill: Kill) -> usize {
        let of_user = |client: &&Arc<Client>| client.user() == user;
        let found: Vec<_> = lock(&self.listed).values().filter(of_user).cloned().collect();
        found.iter().for_each(|client| client.kill(kill));
        found.len()
    }

    /// What a client runs, if that is listed.
    pub(crate) fn statement(&self, id: u64) -> Option<String> {
        let client = lock(&self.listed).get(&id).cloned()?;
        let about = lock(&client.about);
        about.info.as_deref().map(|info| String::from_utf8_lossy(info).into_owned())
    }

    /// Number of clients that are listed, and of those with a statement under way.
    pub(crate) fn count(&self) -> (usize, usize) {
        let listed = lock(&self.listed);
        (listed.len(), listed.values().filter(|client| client.runs.load(Ordering::Relaxed)).count())
    }

    /// Number of logins since the engine was opened.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes received from clients and sent to them since the engine was opened.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }

    /// The user of a client that is listed.
    pub(crate) fn user_of(&self, id: u64) -> Option<String> {
        Some(lock(&self.listed).get(&id)?.user())
    }

    /// All that are listed, and `own` with its text, which may not be.
    pub(crate) fn lines(&self, own: &Arc<Client>, text: Option<&[u8]>) -> Vec<Line> {
        let mut clients: BTreeMap<u64, Arc<Client>> = lock(&self.listed).clone();
        clients.insert(own.id, Arc::clone(own));
        let now_us = self.now_us();
        clients
            .values()
            .map(|client| {
                let about = lock(&client.about);
                let is_own = client.id == own.id;
                let info = if is_own { text.map(cut) } else { about.info.clone() };
                let known = client.connected.load(Ordering::Relaxed) || !is_own;
                Line {
                    id: client.id,
                    user: about.user.as_deref().unwrap_or(INSIDE_USER).to_owned(),
                    host: about.host.as_deref().unwrap_or(INSIDE_HOST).to_owned(),
                    schema: about.schema.to_string(),
                    runs: is_own || client.runs.load(Ordering::Relaxed),
                    micros: if known { now_us.saturating_sub(client.since_us.load(Ordering::Relaxed)) } else { 0 },
                    info,
                }
            })
            .collect()
    }
}

fn cut(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(INFO_BYTES_MAX)].into()
}

impl Client {
    /// Ends what it does. A statement ends with error 1317 and leaves its transaction open; with [`Kill::Connection`]
    /// [`is_gone`](Self::is_gone) holds from now on, and whoever runs its connection is woken.
    pub fn kill(&self, kill: Kill) {
        // A kill of a statement must not hide that of the connection.
        self.killed.fetch_max(kill as u8, Ordering::AcqRel);
        // Woken under the lock: who has taken a waker away may rely on that it is not used any more.
        let mut waker = lock(&self.waker);
        if let Some((waker, _)) = waker.take_if(|(_, least)| *least <= kill) {
            waker.wake();
        }
    }

    /// Counts bytes that came from the client (`Bytes_received`).
    pub fn count_received(&self, bytes: usize) {
        self.clients.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that the client was sent (`Bytes_sent`).
    pub fn count_sent(&self, bytes: usize) {
        self.clients.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the connection is to be closed.
    pub fn is_gone(&self) -> bool {
        self.killed.load(Ordering::Acquire) >= Kill::Connection as u8
    }

    /// Whether the statement that runs has to end.
    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire) != 0
    }

    /// The error of a statement that had to end.
    pub(crate) fn kill_error(&self) -> ServerError {
        if self.is_gone() { errors::connection_killed() } else { errors::interrupted() }
    }

    /// Notes whom [`kill`](Self::kill) has to wake; forgotten when it has.
    pub fn wakes(&self, waker: &Waker) {
        let mut slot = lock(&self.waker);
        match &mut *slot {
            Some((known, least)) => {
                known.clone_from(waker);
                *least = Kill::Query;
            }
            None => *slot = Some((waker.clone(), Kill::Query)),
        }
    }

    /// Notes whom [`kill`](Self::kill) has to wake when it ends the connection, and wakes it now if it has ended already.
    pub fn wakes_at_end(&self, waker: Waker) {
        let mut slot = lock(&self.waker);
        // Looked at under the lock: who ends it later takes the waker from here.
        if self.is_gone() {
            waker.wake();
        } else {
            *slot = Some((waker, Kill::Connection));
        }
    }

    /// Waits until the statement that runs has to end.
    pub(crate) async fn killed(&self) {
        poll_fn(|cx| {
            self.wakes(cx.waker());
            if self.is_killed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Nobody is woken by [`kill`](Self::kill) until the next call of [`wakes`](Self::wakes).
    pub fn forget_waker(&self) {
        lock(&self.waker).take();
    }

    /// The user's name, as it logged in.
    pub fn user(&self) -> String {
        lock(&self.about).user.as_deref().unwrap_or(INSIDE_USER).to_owned()
    }

    /// Name and host of the account that the user has logged in with: `current_user()`.
    pub(crate) fn account(&self) -> String {
        let about = lock(&self.about);
        let host = about.account_host.as_deref().unwrap_or(INSIDE_HOST);
        format!("{}@{host}", about.user.as_deref().unwrap_or(INSIDE_USER))
    }

    /// Name of the user and the host it has come from: `user()`.
    pub(crate) fn origin(&self) -> String {
        let about = lock(&self.about);
        // The port, which lists show, is no part of it.
        let host =
            about.host.as_deref().map_or(INSIDE_HOST, |host| host.rsplit_once(':').map_or(host, |(host, _)| host));
        format!("{}@{host}", about.user.as_deref().unwrap_or(INSIDE_USER))
    }

    /// The account that the user has logged in with; `None` inside of the process.
    pub(crate) fn logged_in(&self) -> Option<Name> {
        let about = lock(&self.about);
        Some(Name::new(about.user.as_deref()?, about.account_host.as_deref()?))
    }

    /// The host that the user has come from, as errors name it: this machine is `localhost`.
    pub(crate) fn host(&self) -> String {
        let origin = self.origin();
        let host = origin.rsplit_once('@').map_or("", |(_, host)| host);
        match host.parse::<std::net::IpAddr>() {
            Ok(address) if address.is_loopback() => INSIDE_HOST.to_owned(),
            _ => host.to_owned(),
        }
    }

    /// Says who it is: the user, the host it comes from (with a port), the host of the account.
    pub(crate) fn identify(&self, user: &str, host: &str, account_host: &str) {
        let mut about = lock(&self.about);
        about.user = Some(user.into());
        about.host = Some(host.into());
        about.account_host = Some(account_host.into());
    }

    /// Lists it until its session goes.
    pub(crate) fn connect(self: &Arc<Self>) {
        if !self.connected.swap(true, Ordering::Relaxed) {
            self.since_us.store(self.clients.now_us(), Ordering::Relaxed);
            self.clients.connections.fetch_add(1, Ordering::Relaxed);
            lock(&self.clients.listed).insert(self.id, Arc::clone(self));
        }
    }

    /// Whether it is listed until its session goes.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Its session goes.
    pub(crate) fn disconnect(&self) {
        self.forget_waker();
        if self.connected.swap(false, Ordering::Relaxed) {
            lock(&self.clients.listed).remove(&self.id);
        }
    }

    /// It has another current schema.
    pub(crate) fn set_schema(&self, schema: &str) {
        lock(&self.about).schema = schema.into();
    }

    /// A text of statements begins to run.
    #[inline]
    pub(crate) fn begin(&self) {
        if self.killed.load(Ordering::Relaxed) == Kill::Query as u8 {
            // It was meant for a statement that has ended by itself.
            let _ = self.killed.compare_exchange(Kill::Query as u8, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        if self.connected.load(Ordering::Relaxed) {
            self.since_us.store(self.clients.now_us(), Ordering::Relaxed);
            self.runs.store(true, Ordering::Relaxed);
        }
    }

    /// It has run.
    #[inline]
    pub(crate) fn end(&self) {
        if self.connected.load(Ordering::Relaxed) {
            self.since_us.store(self.clients.now_us(), Ordering::Relaxed);
            self.runs.store(false, Ordering::Relaxed);
        }
    }
}

/// A statement that others can read about until this is dropped.
pub(crate) struct Listing(Arc<Client>);

impl Listing {
    /// Shows what a client runs.
    pub(crate) fn of(client: &Arc<Client>, text: &[u8]) -> Self {
        lock(&client.about).info = Some(cut(text));
        if !client.connected.load(Ordering::Relaxed) {
            client.since_us.store(client.clients.now_us(), Ordering::Relaxed);
            client.runs.store(true, Ordering::Relaxed);
            lock(&client.clients.listed).insert(client.id, Arc::clone(client));
        }
        Self(Arc::clone(client))
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let client = &self.0;
        lock(&client.about).info = None;
        // Nobody has to be woken for a statement that has ended.
        lock(&client.waker).take();
        if !client.connected.load(Ordering::Relaxed) {
            client.runs.store(false, Ordering::Relaxed);
            lock(&client.clients.listed).remove(&client.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it was woken.
    #[derive(Default)]
    struct Woken(AtomicU64);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn users(clients: &Arc<Clients>) -> Vec<String> {
        let own = clients.make();
        let lines = clients.lines(&own, Some(b"show processlist"));
        lines.into_iter().filter(|line| line.id != own.id).map(|line| format!("{}:{}", line.user, line.runs)).collect()
    }

    #[test]
    fn lists_those_who_are_there() {
        let clients = Arc::new(Clients::default());
        let (app, inside) = (clients.make(), clients.make());
        app.identify("app", "10.0.0.1:5", "%");
        app.connect();
        assert_eq!((app.account(), app.origin()), ("app@%".into(), "app@10.0.0.1".into()));
        assert_eq!(inside.account(), "root@localhost");
        assert_eq!(users(&clients), ["app:false"]);
        app.begin();
        let listing = Listing::of(&inside, b"select 1");
        assert_eq!(users(&clients), ["app:true", "root:true"]);
        assert_eq!(clients.count(), (2, 2));
        drop(listing);
        app.end();
        assert_eq!(users(&clients), ["app:false"]);
        app.disconnect();
        assert_eq!(clients.count(), (0, 0));
    }

    #[test]
    fn a_kill_of_a_statement_does_not_reach_the_next() {
        let clients = Arc::new(Clients::default());
        let client = clients.make();
        client.connect();
        assert!(!clients.kill(client.id + 1, Kill::Query));
        assert!(clients.kill(client.id, Kill::Query) && client.is_killed() && !client.is_gone());
        client.begin();
        assert!(!client.is_killed());
        assert!(clients.kill(client.id, Kill::Connection));
        assert_eq!(clients.kill_user("root", Kill::Query), 1);
        client.begin();
        assert!(client.is_gone());
    }

    #[test]
    fn a_kill_wakes_once() {
        let clients = Arc::new(Clients::default());
        let client = clients.make();
        let count = Arc::new(Woken::default());
        client.wakes(&Waker::from(Arc::clone(&count)));
        client.kill(Kill::Query);
        client.kill(Kill::Connection);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        client.wakes_at_end(Waker::from(Arc::clone(&count)));
        assert_eq!(count.0.load(Ordering::Relaxed), 2, "it has ended before");
    }

    #[test]
    fn a_kill_of_a_statement_wakes_nobody_who_waits_for_the_end() {
        let clients = Arc::new(Clients::default());
        let client = clients.make();
        let woken = Arc::new(Woken::default());
        client.wakes_at_end(Waker::from(Arc::clone(&woken)));
        client.kill(Kill::Query);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        client.kill(Kill::Connection);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
