//! The connection of a client: requests that have come together are answered together.

use std::{
    cell::Cell,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tidegate_core::conf::Config;
use tidegate_http::memcached_server::{
    Exptime, LINE_BYTES_MAX, Parsed, Request, Words, error, parse, write_key_flag, write_line,
};
use tidegate_net::{
    buffers, clock,
    log::Level,
    service::{Conversation, HasSession, Memo, Opening, Service},
    session::{End, Session, Wait},
    worker::Worker,
};

use super::{
    auth::{self, Login},
    batch,
    spec::{Facts, Items, Spec, version, write_general, write_items, write_keys, write_settings, write_slabs},
    stats::Counters,
    table::{Table, sweep},
    zone::Zone,
};
use crate::database::{BLOCK, guarded, port::socket::Socket};

/// The protocol's name in the log.
const PROTOCOL: &str = "memcached";
/// How long the rest of a request may take to arrive, in milliseconds.
const READ_TIME_MAX_MS: u64 = 60_000;
/// How long a client may take nothing of what it is sent, in milliseconds.
const WRITE_TIME_MAX_MS: u64 = 60_000;
/// Bytes of answers that leave before the next is made.
pub(super) const OUTPUT_BYTES: usize = 64 << 10;
/// Requests that are answered before other connections have their turn.
const TURN_REQUESTS: u32 = 256;
/// Requests to a table that are answered together, at most.
const TOGETHER_MAX: usize = 64;
/// Room for each read, in bytes; larger requests get as much again as has come.
const READ_BYTES: usize = 16 << 10;

/// Where items are, opened.
enum Store {
    Zone(Arc<Zone>),
    Table(Rc<Table>),
    /// The configuration was refused.
    Nowhere,
}

/// memcached's protocol at an address.
pub(super) struct Port(Rc<Shared>);

/// What the connections of a worker have in common.
struct Shared {
    config: Arc<Config>,
    spec: Arc<Spec>,
    store: Store,
    /// Expired rows are looked for.
    sweeps: Cell<bool>,
}

impl Port {
    pub(super) fn open(config: &Arc<Config>, spec: &Arc<Spec>) -> Rc<dyn Service> {
        let store = match &spec.items {
            Items::Zone(name) => config.http_conf(&BLOCK).memcached.open_zone(name).map_or(Store::Nowhere, Store::Zone),
            Items::Table(place) => Store::Table(Rc::new(Table::new(config, place))),
        };
        let shared = Shared { config: config.clone(), spec: spec.clone(), store, sweeps: Cell::new(false) };
        Rc::new(Port(Rc::new(shared)))
    }
}

impl Shared {
    /// Bytes of the largest item.
    fn item_bytes_max(&self) -> usize {
        match &self.store {
            Store::Zone(zone) => zone.item_bytes_max(),
            _ => self.config.http_conf(&BLOCK).memcached.item_bytes_max(),
        }
    }
}

impl Shared {
    fn facts(&self) -> Facts {
        let (counters, sizes) = match &self.store {
            Store::Zone(zone) => (zone.counters(), Some(zone.sizes())),
            Store::Table(table) => (table.place.counters(), None),
            Store::Nowhere => (Counters::default(), None),
        };
        Facts { counters, sizes, item_bytes_max: self.item_bytes_max() }
    }
}

impl Service for Port {
    fn begin(&self, worker: &Rc<Worker>, opening: Opening) {
        if let Store::Table(table) = &self.0.store
            && !self.0.sweeps.replace(true)
        {
            tokio::task::spawn_local(sweep(table.clone(), worker.clone()));
        }
        worker.start(Talk::new(opening, &self.0));
    }
    /// Only whole requests are waited for at length.
    fn head_timeout_ms(&self) -> u64 {
        READ_TIME_MAX_MS
    }
    fn stays_parked(&self, _: &[u8], _: usize) -> bool {
        false
    }
}

/// A client, counted while it is connected.
struct Client {
    spec: Arc<Spec>,
    may_ask: bool,
}

impl Client {
    fn new(spec: &Arc<Spec>) -> Self {
        spec.connections.fetch_add(1, Ordering::Relaxed);
        spec.connections_total.fetch_add(1, Ordering::Relaxed);
        Client { spec: spec.clone(), may_ask: !spec.asks_for_password }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.spec.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The talk with a client.
struct Talk {
    session: Session,
    shared: Rc<Shared>,
    /// `None` while it is used.
    client: Cell<Option<Client>>,
    /// Bytes that came while it was parked.
    input: Cell<Vec<u8>>,
}

impl Talk {
    fn new(opening: Opening, shared: &Rc<Shared>) -> Self {
        let Opening { session, input, memo } = opening;
        let client = memo.and_then(|memo| (*memo).downcast::<Client>().ok()).map(|client| *client);
        if client.is_none() {
            session.set_nodelay();
        }
        let client = client.unwrap_or_else(|| Client::new(&shared.spec));
        Talk { session, shared: shared.clone(), client: Cell::new(Some(client)), input: Cell::new(input) }
    }
}

impl HasSession for Talk {
    fn session(&self) -> &Session {
        &self.session
    }
}

impl Conversation for Talk {
    async fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> End {
        let Some(mut client) = self.client.take() else { return End::Closed };
        let mut input = self.input.take();
        if input.capacity() == 0 {
            input = buffers::take();
        }
        let mut line = Line {
            session: &self.session,
            shared: &self.shared,
            worker,
            input,
            output: buffers::take(),
            skip: 0,
            answered: 0,
        };
        let end = guarded::guarded(&self.session, PROTOCOL, line.talk(&mut client)).await;
        let Line { input, output, .. } = line;
        buffers::give(input);
        buffers::give(output);
        if end == End::Idle {
            self.client.set(Some(client));
        }
        end
    }

    fn park(self) -> Opening {
        let Talk { session, client, input, .. } = self;
        let memo = client.into_inner().map(|client| -> Memo { Box::new(Box::new(client)) });
        Opening { session, input: input.into_inner(), memo }
    }
}

/// Why a talk is over.
enum Over {
    /// The client wants it so, or cannot be understood; what was answered is still sent.
    Quit,
    /// The socket has failed, or nobody reads.
    Lost,
}

/// What is to be read next.
enum Wanted {
    /// A request, as nothing of one is there.
    Request,
    /// The rest of one, of so many bytes if that is known.
    Rest(Option<usize>),
}

/// A connection with its buffers.
struct Line<'a> {
    session: &'a Session,
    shared: &'a Shared,
    worker: &'a Rc<Worker>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of a value that nobody wants, still to come.
    skip: u64,
    answered: u32,
}

impl Line<'_> {
    /// Talks until the connection ends, or nothing has happened on it for a while.
    async fn talk(&mut self, client: &mut Client) -> End {
        loop {
            let wanted = self.answer_all(client).await;
            let sent = match wanted {
                Err(Over::Lost) => return End::Closed,
                _ => self.send().await,
            };
            match (wanted, sent) {
                (Ok(wanted), Ok(())) => match self.read(&wanted).await {
                    Some(end) => return end,
                    None => continue,
                },
                _ => return End::Closed,
            }
        }
    }

    /// Reads what comes next; answers how the talk ends, if it does.
    async fn read(&mut self, wanted: &Wanted) -> Option<End> {
        let is_idle = matches!(wanted, Wanted::Request) && self.skip == 0;
        let session = self.session;
        if is_idle {
            session.requests.set(session.requests.get() + 1);
            session.await_request(true);
        }
        // A client that never pauses would keep a worker that is to end.
        if is_idle && self.worker.is_quitting() && self.answered > 0 {
            return Some(End::Closed);
        }
        let has_come = self.input.len();
        let room = match wanted {
            Wanted::Rest(Some(bytes)) => (bytes - has_come).min(has_come.max(READ_BYTES)),
            _ => has_come.clamp(LINE_BYTES_MAX, READ_BYTES),
        };
        self.input.reserve(room);
        let waiting = is_idle.then(|| self.worker.waiting());
        let time_max_ms = if is_idle { 0 } else { READ_TIME_MAX_MS };
        let input = &mut self.input;
        let came = session.wait(time_max_ms, |cx| {
            loop {
                match session.stream.try_read_buf(input) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return std::task::Poll::Ready(read),
                }
                std::task::ready!(session.stream.poll_read_ready(cx))?;
            }
        });
        let came = came.await;
        drop(waiting);
        session.end_await();
        match came {
            Ok(Wait::Ready(count @ 1..)) => {
                session.set_fresh(false);
                session.request_has_come();
                self.shared.spec.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
                None
            }
            Ok(Wait::Closing) if is_idle && session.take_parking() => Some(End::Idle),
            Ok(Wait::TimedOut) => {
                guarded::note(session, PROTOCOL, Level::Info, format_args!("client timed out"));
                Some(End::Closed)
            }
            _ => Some(End::Closed),
        }
    }

    /// Sends all answers.
    async fn send(&mut self) -> Result<(), Over> {
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            match self.session.stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = self.session.wait(WRITE_TIME_MAX_MS, |cx| self.session.stream.poll_write_ready(cx));
                    if !matches!(ready.await, Ok(Wait::Ready(()))) {
                        return Err(Over::Lost);
                    }
                }
                Err(_) => return Err(Over::Lost),
            }
        }
        self.shared.spec.bytes_written.fetch_add(self.output.len() as u64, Ordering::Relaxed);
        self.output.clear();
        // Nobody keeps the memory of one large value.
        self.output.shrink_to(2 * OUTPUT_BYTES);
        Ok(())
    }

    /// Answers all requests that are there in full.
    async fn answer_all(&mut self, client: &mut Client) -> Result<Wanted, Over> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        // Requests to a table, which run together.
        let mut together = Vec::new();
        let wanted = loop {
            if self.skip > 0 {
                let count = usize::try_from(self.skip).map_or(input.len() - at, |skip| skip.min(input.len() - at));
                (at, self.skip) = (at + count, self.skip - count as u64);
            }
            if at == input.len() {
                break Ok(Wanted::Request);
            }
            let item_bytes_max = match client.may_ask {
                true => self.shared.item_bytes_max(),
                false => auth::LOGIN_BYTES_MAX,
            };
            match parse(&input[at..], item_bytes_max) {
                Parsed::Partial { bytes } => break Ok(Wanted::Rest(bytes)),
                Parsed::Hopeless => {
                    guarded::note(self.session, PROTOCOL, Level::Info, format_args!("client sent too long a line"));
                    break Err(Over::Quit);
                }
                Parsed::Request { request, bytes, skip } => {
                    (at, self.skip) = (at + bytes, skip);
                    let answered = match &self.shared.store {
                        Store::Table(table) if client.may_ask => {
                            together.push(request);
                            match together.len() < TOGETHER_MAX {
                                true => Ok(()),
                                false => self.answer_from_table(table, &mut together).await,
                            }
                        }
                        _ => self.answer(&request, client).await,
                    };
                    if let Err(over) = answered {
                        break Err(over);
                    }
                }
            }
        };
        if let Store::Table(table) = &self.shared.store
            && !together.is_empty()
            && !matches!(wanted, Err(Over::Lost))
        {
            self.answer_from_table(table, &mut together).await?;
        }
        drop(together);
        self.input = input;
        self.input.drain(..at);
        self.input.shrink_to(4 * READ_BYTES + self.input.len());
        wanted
    }

    /// Answers requests that have come together, up to one that ends the talk.
    async fn answer_from_table(&mut self, table: &Rc<Table>, together: &mut Vec<Request<'_>>) -> Result<(), Over> {
        self.answered = self.answered.wrapping_add(1);
        self.worker.count_request();
        let item_bytes_max = self.shared.item_bytes_max();
        let mut rest = &together[..];
        while !rest.is_empty() {
            let count = rest.iter().take_while(|request| !is_of_port(request)).count();
            let (batch, others) = rest.split_at(count);
            if !batch.is_empty() {
                let socket = Socket::new(self.session);
                let answered = batch::answer(table, batch, item_bytes_max, &socket, &mut self.output);
                answered.await.map_err(|_| Over::Lost)?;
            }
            if self.output.len() >= OUTPUT_BYTES {
                self.send().await?;
            }
            rest = others;
            if let Some((request, others)) = others.split_first() {
                self.answer_of_port(request)?;
                rest = others;
            }
        }
        together.clear();
        Ok(())
    }

    /// Answers what is not about items.
    fn answer_of_port(&mut self, request: &Request<'_>) -> Result<(), Over> {
        match request {
            Request::Stats(words) => self.statistics(words.clone()),
            Request::Version => write_line(version().as_bytes(), &mut self.output),
            // What memcached tells of an item is of memory.
            Request::Debug(_) => write_line(error::UNKNOWN, &mut self.output),
            _ => return Err(Over::Quit),
        }
        Ok(())
    }

    async fn answer(&mut self, request: &Request<'_>, client: &mut Client) -> Result<(), Over> {
        self.worker.count_request();
        self.answered = self.answered.wrapping_add(1);
        if self.answered.is_multiple_of(TURN_REQUESTS) {
            tokio::task::yield_now().await;
        }
        if self.output.len() >= OUTPUT_BYTES {
            self.send().await?;
        }
        if !client.may_ask {
            return self.log_in(request, client);
        }
        let Store::Zone(zone) = &self.shared.store else { return Err(Over::Quit) };
        let now_s = clock::now_ms() / 1000;
        match request {
            Request::Get { keys, with_cas, touch } => return self.get(zone, keys.clone(), *with_cas, *touch).await,
            Request::One(op) => zone.carry_out(op, now_s, &mut self.output),
            Request::TooLarge { key, removes, quiet } => {
                if *removes {
                    zone.remove(&key.bytes);
                }
                if !quiet {
                    write_line(error::TOO_LARGE, &mut self.output);
                }
            }
            Request::FlushAll { at, quiet } => {
                zone.flush(*at, now_s);
                if !quiet {
                    write_line(b"OK", &mut self.output);
                }
            }
            Request::Debug(key) => match zone.describe(key, now_s) {
                Some(text) => {
                    let mut shown = Vec::new();
                    write_key_flag(key, &mut shown);
                    // As a flag, but for its letter.
                    self.output.extend_from_slice(b"ME ");
                    self.output.extend_from_slice(shown[2..].strip_suffix(b" b").unwrap_or(&shown[2..]));
                    self.output.push(b' ');
                    write_line(text.as_bytes(), &mut self.output);
                }
                None => write_line(b"EN", &mut self.output),
            },
            Request::Said(answer) => {
                if let Some(answer) = answer {
                    write_line(answer, &mut self.output);
                }
            }
            Request::Stats(_) | Request::Version | Request::Quit => return self.answer_of_port(request),
        }
        Ok(())
    }

    fn log_in(&mut self, request: &Request<'_>, client: &mut Client) -> Result<(), Over> {
        let users = self.shared.config.http_conf(&BLOCK).users.as_deref().unwrap_or_default();
        let spec = &self.shared.spec;
        match auth::log_in(request, users, self.session.peer, &mut self.output) {
            Login::Done => client.may_ask = true,
            Login::Failed => {
                spec.logins_failed.fetch_add(1, Ordering::Relaxed);
            }
            Login::Refused => return Ok(()),
            Login::Quit => return Err(Over::Quit),
        }
        spec.logins.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn get(&mut self, zone: &Zone, keys: Words<'_>, with_cas: bool, touch: Option<Exptime>) -> Result<(), Over> {
        for key in keys {
            if self.output.len() >= OUTPUT_BYTES {
                self.send().await?;
            }
            zone.get(key, with_cas, touch, clock::now_ms() / 1000, &mut self.output);
        }
        write_line(b"END", &mut self.output);
        Ok(())
    }

    fn statistics(&mut self, mut words: Words<'_>) {
        let out = &mut self.output;
        let word = words.next().unwrap_or_default();
        match (word, &self.shared.store) {
            (b"reset", Store::Zone(zone)) => zone.reset_counters(),
            (b"reset", Store::Table(table)) => table.place.reset_counters(),
            _ => {}
        }
        let facts = self.shared.facts();
        match (word, &self.shared.store) {
            (b"", _) => write_general(&self.shared.spec, &facts, out),
            (b"settings", _) => write_settings(&self.shared.spec, &facts, out),
            (b"items", _) => write_items(&facts, out),
            (b"slabs", _) => write_slabs(&facts, out),
            (b"reset", _) => return write_line(b"RESET", out),
            (b"cachedump", Store::Zone(zone)) => {
                let limit = words.nth(1).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
                let Some(limit) = limit else { return write_line(b"CLIENT_ERROR bad command line", out) };
                write_keys(zone, limit, out);
            }
            _ => return write_line(error::UNKNOWN, out),
        }
        write_line(b"END", out);
    }
}

/// Whether a request is not about items.
fn is_of_port(request: &Request<'_>) -> bool {
    matches!(request, Request::Stats(_) | Request::Version | Request::Debug(_) | Request::Quit)
}
