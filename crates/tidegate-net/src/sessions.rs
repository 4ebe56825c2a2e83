//! The sessions of a worker: started, parked when nothing happens on them, closed when there are too many.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    rc::{Rc, Weak},
    sync::atomic::Ordering::Relaxed,
};

use slab::Slab;
use socket2::SockRef;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{
    Peer,
    client_socket::ClientSocket,
    clock,
    counters::COUNTERS,
    log::{self, Level},
    parked::{self, Parked},
    places::Newcomer,
    service::{Conversation, HasSession, Opening},
    session::{End, Session},
    stream::Stream,
    worker::Worker,
};

/// A worker with more connections than this parks those early that have not asked for anything yet: what they hold adds up.
/// Who has asked before may do so again at any moment, and would be parked for each time that a busy worker lets it wait.
const UNPARKED_MAX: usize = 256;

/// Time between two searches for connections to park while many new ones arrive.
const PARK_EARLY_CHECK_MS: u64 = 50;

/// Time without a byte after which a worker with more than [`UNPARKED_MAX`] connections parks one without a request. A client
/// that opens thousands of connections needs so long until it sends a request on each: to park and wake all of them would
/// take as long as to accept and answer them.
const PARK_EARLY_AFTER_MS: u64 = 250;

/// Places of connections that an idle worker keeps.
const CONNECTIONS_KEPT: usize = 1024;

/// Connections that are parked or closed in one go. Requests wait meanwhile, and thousands of connections can be due at
/// the same moment when thousands of clients have come at the same moment.
const TURN_MAX: usize = 16;

/// Idle connections that are closed at a time when a worker has as many as it may.
///
/// Source: nginx, `ngx_drain_connections`.
const DRAINED_MAX: usize = 32;

/// The connections of a worker.
pub(crate) struct Sessions {
    /// Those that have tasks.
    pub(crate) talking: RefCell<Slab<Weak<dyn HasSession>>>,
    /// Those that have none.
    pub(crate) parked: RefCell<parked::Table>,
    /// When it was last looked for some to park, in milliseconds.
    looked_ms: Cell<u64>,
    /// Connections are being parked, a few at a time.
    parking: Cell<bool>,
    /// Parked connections whose time is over are being ended, a few at a time.
    pub(crate) ending_parked: Cell<bool>,
    /// There were many connections with tasks, and now there is none: memory may go back to the system.
    pub(crate) rush_is_over: Cell<bool>,
    /// Connections that are open now.
    pub(crate) open: Cell<usize>,
    /// Those of them that were told to go, to make room.
    surplus: Cell<usize>,
    /// When it was last noted that idle connections are closed to make room, in milliseconds.
    drained_ms: Cell<u64>,
}

impl Sessions {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Sessions {
            talking: RefCell::default(),
            parked: RefCell::new(parked::Table::new()?),
            looked_ms: Cell::new(0),
            parking: Cell::new(false),
            ending_parked: Cell::new(false),
            rush_is_over: Cell::new(false),
            open: Cell::new(0),
            surplus: Cell::new(0),
            drained_ms: Cell::new(0),
        })
    }
}

impl Worker {
    /// Finds a worker for a client who came here: this one, or another that has less to do.
    pub(crate) fn welcome(self: &Rc<Self>, newcomer: Newcomer) {
        if let Some(Newcomer { socket, peer, port }) = self.place.offer(newcomer) {
            self.admit_at(socket, peer, port);
        }
    }

    /// Takes in those whom other workers give, until they do no more.
    pub(crate) async fn take_newcomers(self: Rc<Self>, mut newcomers: UnboundedReceiver<Newcomer>) {
        // Who is on the way is not left behind.
        let hold = self.hold();
        while let Some(Newcomer { socket, peer, port }) = newcomers.recv().await {
            self.place.note_arrival();
            self.admit_at(socket, peer, port);
        }
        drop(hold);
    }

    /// Takes in a client who came through the socket of the port at this position.
    pub(crate) fn admit_at(self: &Rc<Self>, socket: OwnedFd, peer: Peer, position: usize) {
        let position = reached(&socket, &self.port(position).shared_with).unwrap_or(position);
        self.admit(socket, peer, position);
    }

    fn admit(self: &Rc<Self>, socket: OwnedFd, peer: Peer, port: usize) {
        clock::update();
        let sessions = &self.sessions;
        if sessions.open.get() - sessions.surplus.get() >= self.settings.connections_max && !self.drain() {
            let count = self.settings.connections_max;
            log::note(Level::Alert, format_args!("{count} worker_connections are not enough"));
            return;
        }
        let stream = match ClientSocket::register(socket) {
            Ok(socket) => Stream::Client(socket),
            Err(error) => {
                return log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error)));
            }
        };
        COUNTERS.accepted.fetch_add(1, Relaxed);
        COUNTERS.active.fetch_add(1, Relaxed);
        sessions.open.set(sessions.open.get() + 1);
        let now_ms = clock::steady_ms();
        if sessions.talking.borrow().len() > UNPARKED_MAX
            && now_ms.saturating_sub(sessions.looked_ms.get()) >= PARK_EARLY_CHECK_MS
        {
            self.check_sessions(now_ms);
        }
        let session = Session::new(stream, peer, port);
        // A newcomer whom another worker has given may arrive late.
        session.closing.set(self.is_quitting());
        self.open(Opening { session, input: Vec::new(), memo: None });
    }

    /// Makes a parked connection a conversation again. `expired`: because its time is over.
    pub(crate) fn resume(self: &Rc<Self>, parked: Parked, expired: bool) {
        match parked.wake(expired, self.is_quitting()) {
            Ok(opening) => self.open(opening),
            Err(error) => {
                log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error)));
                self.forget_open();
            }
        }
    }

    /// Gives a connection that is counted as open to its service.
    fn open(self: &Rc<Self>, opening: Opening) {
        self.port(opening.session.port).service.begin(self, opening);
    }

    /// Starts the task of a conversation.
    pub fn start<C: Conversation>(self: &Rc<Self>, conversation: C) {
        self.check_from_now_on();
        let conversation = Rc::new(conversation);
        let seen: Rc<dyn HasSession> = conversation.clone();
        let mut talking = self.sessions.talking.borrow_mut();
        let key = talking.insert(Rc::downgrade(&seen));
        self.place.set_talking(talking.len());
        drop((talking, seen));
        let task = Task { worker: self.clone(), key, parked: Cell::new(false), surplus: Cell::new(false) };
        tokio::task::spawn_local(async move {
            let mut conversation = conversation;
            while conversation.converse(&task.worker).await == End::Idle {
                match task.park(conversation) {
                    Ok(()) => return,
                    Err(shared) => conversation = shared,
                }
            }
            task.surplus.set(conversation.session().surplus.get());
        });
    }

    /// Counts parked connections as waiting for a request or as reading one.
    pub(crate) fn count_parked(&self, is_reading: bool, change: i64) {
        let count = if is_reading { &self.uncounted.reading } else { &self.uncounted.waiting };
        count.set(count.get() + change);
    }
    /// A connection is closed.
    pub(crate) fn forget_open(&self) {
        self.sessions.open.set(self.sessions.open.get() - 1);
        COUNTERS.active.fetch_sub(1, Relaxed);
        self.note_end();
    }

    /// Closes some idle connections, those first that are idle for longest; answers whether there were any.
    #[cold]
    fn drain(&self) -> bool {
        enum Idle {
            Talking(Rc<dyn HasSession>),
            Parked(usize),
        }
        let sessions = &self.sessions;
        let mut idle: Vec<_> = {
            let talking = sessions.talking.borrow();
            let talking = talking.iter().filter_map(|(_, talk)| talk.upgrade()).filter(|talk| talk.session().is_idle());
            let parked = sessions.parked.borrow();
            let parked = parked.idle().map(|(since_ms, key)| (since_ms, Idle::Parked(key)));
            talking.map(|talk| (talk.session().idle_since_ms.get(), Idle::Talking(talk))).chain(parked).collect()
        };
        idle.sort_by_key(|(since_ms, _)| *since_ms);
        idle.truncate((idle.len() / 8).clamp(1, DRAINED_MAX));
        for (_, idle) in &idle {
            match idle {
                Idle::Talking(talk) => {
                    sessions.surplus.set(sessions.surplus.get() + 1);
                    talk.session().give_up();
                }
                Idle::Parked(key) => self.drop_parked(*key),
            }
        }
        let now_ms = clock::steady_ms();
        if !idle.is_empty() && now_ms.saturating_sub(sessions.drained_ms.get()) >= 1000 {
            sessions.drained_ms.set(now_ms);
            let count = self.settings.connections_max;
            log::note(Level::Warn, format_args!("{count} worker_connections are not enough, reusing connections"));
        }
        !idle.is_empty()
    }

    /// Wakes connections whose time is over, and those that have waited long enough to be parked.
    pub(crate) fn check_sessions(self: &Rc<Self>, now_ms: u64) {
        let sessions = &self.sessions;
        sessions.looked_ms.set(now_ms);
        let talking = sessions.talking.borrow();
        let usual_ms = self.settings.park_after_ms;
        let fresh_ms = if talking.len() > UNPARKED_MAX { PARK_EARLY_AFTER_MS.min(usual_ms) } else { usual_ms };
        let is_quiet = move |session: &Session| {
            session.is_quiet(now_ms, if session.requests.get() == 0 { fresh_ms } else { usual_ms })
        };
        let mut quiet = Vec::new();
        for (key, talk) in talking.iter() {
            let Some(talk) = talk.upgrade() else { continue };
            talk.session().check_deadline(now_ms);
            if !sessions.parking.get() && is_quiet(talk.session()) {
                quiet.push(key);
            }
        }
        drop(talking);
        self.in_turns(
            |sessions| &sessions.parking,
            quiet,
            move |worker, key| {
                let talk = worker.sessions.talking.borrow().get(key).and_then(Weak::upgrade);
                // Another connection may have the place by now.
                if let Some(talk) = talk.filter(|talk| is_quiet(talk.session())) {
                    talk.session().begin_parking();
                }
            },
        );
    }

    /// Does `act` for each of `keys`, [`TURN_MAX`] at a time, with other work in between. Meanwhile `under_way` is set: who
    /// looks for more waits, so that no two such rounds add up.
    pub(crate) fn in_turns(
        self: &Rc<Self>,
        under_way: fn(&Sessions) -> &Cell<bool>,
        keys: Vec<usize>,
        act: impl Fn(&Rc<Self>, usize) + 'static,
    ) {
        if keys.len() <= TURN_MAX {
            return keys.into_iter().for_each(|key| act(self, key));
        }
        under_way(&self.sessions).set(true);
        let round = Round { worker: self.clone(), under_way };
        tokio::task::spawn_local(async move {
            for keys in keys.chunks(TURN_MAX) {
                keys.iter().for_each(|key| act(&round.worker, *key));
                tokio::task::yield_now().await;
            }
        });
    }
}

/// The more exact address, among those that share a socket, that a client has connected to.
fn reached(client: &OwnedFd, shared_with: &[(SocketAddr, usize)]) -> Option<usize> {
    if shared_with.is_empty() {
        return None;
    }
    let reached = SockRef::from(client).local_addr().ok()?.as_socket()?;
    shared_with.iter().find(|(address, _)| *address == reached).map(|(_, position)| *position)
}

/// A round of [`Worker::in_turns`]: however it ends, another may begin.
struct Round {
    worker: Rc<Worker>,
    under_way: fn(&Sessions) -> &Cell<bool>,
}

impl Drop for Round {
    fn drop(&mut self) {
        (self.under_way)(&self.worker.sessions).set(false);
    }
}

/// The task of a conversation, as its worker knows it.
struct Task {
    worker: Rc<Worker>,
    key: usize,
    /// The connection stays open when the task ends.
    parked: Cell<bool>,
    /// It was told to go.
    surplus: Cell<bool>,
}

impl Task {
    /// Puts the connection, on which nothing has happened for a while, into the table of those; it is given back if
    /// somebody else refers to it, who may have plans.
    fn park<C: Conversation>(&self, conversation: Rc<C>) -> Result<(), Rc<C>> {
        let conversation = Rc::try_unwrap(conversation)?;
        let deadline_ms = conversation.session().deadline_ms.get();
        let parked = Parked::of(conversation.park()).and_then(|parked| {
            let is_reading = !parked.input.is_empty();
            self.worker.sessions.parked.borrow_mut().insert(parked, deadline_ms).map(|()| is_reading)
        });
        match parked {
            Ok(is_reading) => {
                self.worker.count_parked(is_reading, 1);
                self.parked.set(true);
            }
            Err(error) => log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error))),
        }
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let sessions = &self.worker.sessions;
        let mut talking = sessions.talking.borrow_mut();
        talking.try_remove(self.key);
        self.worker.place.set_talking(talking.len());
        if talking.is_empty() && talking.capacity() > CONNECTIONS_KEPT {
            // Nothing holds on to the memory of a rush.
            *talking = Slab::new();
            sessions.rush_is_over.set(true);
        }
        drop(talking);
        if self.surplus.get() {
            sessions.surplus.set(sessions.surplus.get() - 1);
        }
        if !self.parked.get() {
            self.worker.forget_open();
        }
    }
}
