//! The connection of a client: commands are carried out one after the other, puts and deletions that have come together together.
//!
//! A client that waits costs little: its buffers are given back, and what speaks to the store is boxed, so that the future of the
//! connection has no room for it.

use std::{
    cell::{Cell, OnceCell},
    io,
    ops::Range,
    rc::Rc,
    sync::Arc,
    task::{Poll, ready},
};

use tidegate_core::conf::Config;
use tidegate_http::beanstalk::{Command, Parsed, answer, end_of_line, parse};
use tidegate_net::{
    buffers,
    log::{self, Level},
    service::{Conversation, HasSession, Memo, Opening, Service},
    session::{End, Session, Wait},
    worker::Worker,
};

use super::{client::Client, commands::Desk, jobs::NewJob, reserve::Reserving, tubes::Common};
use crate::{
    database::{self, beanstalk::Settings, guarded},
    queue::{
        MODULE,
        message::millis,
        store::{Store, StoreError},
    },
};

/// The protocol's name in the log.
const PROTOCOL: &str = "beanstalk";
/// How long the rest of a command may take to arrive, in milliseconds.
const READ_TIME_MAX_MS: u64 = 60_000;
/// How long a client may take nothing of what it is sent, in milliseconds.
const WRITE_TIME_MAX_MS: u64 = 60_000;
/// Bytes of answers that leave before the next is made.
const OUTPUT_BYTES: usize = 64 << 10;
/// Commands that are carried out before other connections have their turn.
const TURN_COMMANDS: u32 = 256;
/// Commands of one kind that are carried out together.
const TOGETHER_MAX: usize = 64;
/// Jobs that are reserved together, of as many commands.
const RESERVES_MAX: usize = 8;
/// Room for each read, in bytes; larger jobs get as much again as has come.
const READ_BYTES: usize = 16 << 10;

/// Writes to the error log why a command has failed.
pub(super) fn complain(error: &impl std::fmt::Display) {
    log::note(Level::Error, format_args!("{PROTOCOL}: {error}"));
}

/// beanstalkd's protocol at an address.
struct Port(Rc<Shared>);

/// What the connections of a worker have in common.
struct Shared {
    config: Arc<Config>,
    settings: Settings,
    common: Arc<Common>,
    store: OnceCell<Rc<Store>>,
}

/// A port for clients of beanstalkd.
pub(crate) fn open(config: &Arc<Config>) -> Rc<dyn Service> {
    let settings = config.http_conf(&database::BLOCK).beanstalk;
    let common = Common::of(database::data_path(config));
    Rc::new(Port(Rc::new(Shared { config: config.clone(), settings, common, store: OnceCell::new() })))
}

impl Shared {
    /// The queues, if the database can be used.
    fn store(&self) -> Option<Rc<Store>> {
        if let Some(store) = self.store.get() {
            return Some(store.clone());
        }
        let store = Store::of(&self.config).map_err(|error| complain(&error)).ok()?;
        Some(self.store.get_or_init(|| store).clone())
    }

    /// Time to run of jobs whose publisher has said nothing.
    fn ttr_default_ms(&self) -> u64 {
        millis(self.config.http_conf(&MODULE).lease())
    }
}

impl Service for Port {
    fn begin(&self, worker: &Rc<Worker>, opening: Opening) {
        worker.start(Talk::new(opening, &self.0));
    }
    /// Only whole commands are waited for at length.
    fn head_timeout_ms(&self) -> u64 {
        READ_TIME_MAX_MS
    }
    fn stays_parked(&self, _: &[u8], _: usize) -> bool {
        false
    }
}

/// The talk with a client.
struct Talk {
    session: Session,
    shared: Rc<Shared>,
    /// `None` while it is used.
    client: Cell<Option<Box<Client>>>,
    /// Bytes that came while it was parked.
    input: Cell<Vec<u8>>,
}

impl Talk {
    fn new(opening: Opening, shared: &Rc<Shared>) -> Self {
        let Opening { session, input, memo } = opening;
        let client = memo.and_then(|memo| (*memo).downcast::<Client>().ok());
        if client.is_none() {
            session.set_nodelay();
        }
        let client = client.unwrap_or_else(|| Box::new(Client::new(&shared.common)));
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
        let mut line = Line {
            session: &self.session,
            shared: &self.shared,
            worker,
            input: self.input.take(),
            output: Vec::new(),
            skip: 0,
            is_too_long: false,
            carried_out: 0,
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
        let memo = client.into_inner().map(|client| -> Memo { Box::new(client) });
        Opening { session, input: input.into_inner(), memo }
    }
}

/// Why a talk is over.
enum Over {
    /// The client wants it so; what was answered is still sent.
    Quit,
    /// The socket has failed, or nobody reads.
    Lost,
}

/// What is to be read next.
enum Wanted {
    /// A command, as nothing of one is there.
    Command,
    /// The rest of one, of so many bytes if that is known.
    Rest(Option<usize>),
}

/// What comes next in the input.
enum Next {
    Nothing(Wanted),
    TooLong,
    /// A job, and the bytes of its command.
    Put(Put, usize),
    /// A number, and the bytes of its command.
    Delete(u64, usize),
    Reserve {
        timeout_s: Option<u32>,
        bytes: usize,
    },
    Quit,
    /// A command that stands for itself.
    Other,
}

/// Commands that are carried out together.
enum Together {
    Puts(Vec<Put>),
    Deletes(Vec<u64>),
}

/// A job that is to be put, with its place in the input.
struct Put {
    priority: u32,
    delay_s: u32,
    ttr_s: u32,
    body: Range<usize>,
}

impl Together {
    fn len(&self) -> usize {
        match self {
            Together::Puts(puts) => puts.len(),
            Together::Deletes(ids) => ids.len(),
        }
    }
}

/// A connection with its buffers.
struct Line<'a> {
    session: &'a Session,
    shared: &'a Shared,
    worker: &'a Rc<Worker>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of a job that nobody wants, still to come.
    skip: u64,
    /// The line that has begun is too long, and is dropped up to its end.
    is_too_long: bool,
    carried_out: u32,
}

impl Line<'_> {
    /// Talks until the connection ends, or nothing has happened on it for a while.
    async fn talk(&mut self, client: &mut Client) -> End {
        loop {
            let wanted = self.carry_out_all(client).await;
            let sent = match wanted {
                Err(Over::Lost) => return End::Closed,
                _ => self.send().await,
            };
            match (wanted, sent) {
                (Ok(wanted), Ok(())) => match self.read(&wanted, client).await {
                    Some(end) => return end,
                    None => continue,
                },
                _ => return End::Closed,
            }
        }
    }

    /// Reads what comes next; answers how the talk ends, if it does.
    async fn read(&mut self, wanted: &Wanted, client: &mut Client) -> Option<End> {
        let is_waiting = matches!(wanted, Wanted::Command) && self.skip == 0 && !self.is_too_long;
        client.forget_late();
        // A client with jobs is at work, not idle.
        let is_idle = is_waiting && client.held.is_empty();
        let session = self.session;
        if is_waiting {
            session.requests.set(session.requests.get() + 1);
            self.give_buffers();
        }
        if is_idle {
            session.await_request(true);
        }
        // A client that never pauses would keep a worker that is to end.
        if is_idle && self.worker.is_quitting() && self.carried_out > 0 {
            return Some(End::Closed);
        }
        let room = self.room_for(wanted);
        let waiting = is_idle.then(|| self.worker.waiting());
        let time_max_ms = match (is_idle, is_waiting) {
            (true, _) => 0,
            // It may be idle then.
            (false, true) => client.holds_ms().max(1),
            (false, false) => READ_TIME_MAX_MS,
        };
        let input = &mut self.input;
        let came = session.wait(time_max_ms, |cx| {
            loop {
                ready!(session.stream.poll_read_ready(cx))?;
                if input.capacity() == 0 {
                    *input = buffers::take();
                }
                input.reserve(room);
                match session.stream.try_read_buf(input) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            }
        });
        let came = came.await;
        drop(waiting);
        session.end_await();
        match came {
            Ok(Wait::Ready(1..)) => {
                session.set_fresh(false);
                session.request_has_come();
                None
            }
            Ok(Wait::Closing) if is_idle && session.take_parking() => Some(End::Idle),
            Ok(Wait::TimedOut) if is_waiting && !is_idle => None,
            Ok(Wait::TimedOut) => {
                guarded::note(session, PROTOCOL, Level::Info, format_args!("client timed out"));
                Some(End::Closed)
            }
            _ => Some(End::Closed),
        }
    }

    /// Bytes that are read at once.
    fn room_for(&self, wanted: &Wanted) -> usize {
        let has_come = self.input.len();
        match wanted {
            Wanted::Rest(Some(bytes)) => (bytes - has_come).min(has_come.max(READ_BYTES)),
            _ => READ_BYTES,
        }
    }

    /// Who waits needs no buffers.
    fn give_buffers(&mut self) {
        if self.input.is_empty() {
            buffers::give(std::mem::take(&mut self.input));
        }
        if self.output.is_empty() {
            buffers::give(std::mem::take(&mut self.output));
        }
    }

    /// Sends all answers.
    async fn send(&mut self) -> Result<(), Over> {
        self.send_or(|| ()).await
    }

    /// Sends all answers; tells `when_slow` each time that the client does not take them at once.
    async fn send_or(&mut self, mut when_slow: impl FnMut()) -> Result<(), Over> {
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            match self.session.stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    when_slow();
                    let ready = self.session.wait(WRITE_TIME_MAX_MS, |cx| self.session.stream.poll_write_ready(cx));
                    if !matches!(ready.await, Ok(Wait::Ready(()))) {
                        return Err(Over::Lost);
                    }
                }
                Err(_) => return Err(Over::Lost),
            }
        }
        self.output.clear();
        // Nobody keeps the memory of one large job.
        self.output.shrink_to(2 * OUTPUT_BYTES);
        Ok(())
    }

    /// Carries out all commands that are there in full.
    async fn carry_out_all(&mut self, client: &mut Client) -> Result<Wanted, Over> {
        let mut together = Together::Deletes(Vec::new());
        let mut at = 0;
        let wanted = loop {
            at += self.drop_unwanted(at);
            if self.output.len() >= OUTPUT_BYTES {
                self.send().await?;
            }
            let next = self.next(at, client);
            if !matches!(next, Next::Nothing(_) | Next::Put(..) | Next::Delete(..)) {
                self.flush(client, &mut together).await;
            }
            match next {
                Next::Nothing(wanted) => break wanted,
                Next::TooLong => self.is_too_long = true,
                Next::Put(put, bytes) => {
                    self.gather_put(client, &mut together, put).await;
                    at += bytes;
                }
                Next::Delete(id, bytes) => {
                    self.gather_delete(client, &mut together, id).await;
                    at += bytes;
                }
                Next::Reserve { timeout_s, bytes } => {
                    self.reserve(client, at, bytes, timeout_s).await?;
                    at = 0;
                }
                Next::Quit => return Err(Over::Quit),
                Next::Other => {
                    let Parsed::Command { command, bytes, skip } = parse(&self.input[at..], self.job_bytes_max())
                    else {
                        return Err(Over::Quit);
                    };
                    carry_out(self.shared, client, &command, &mut self.output).await;
                    (at, self.skip) = (at + bytes, skip);
                }
            }
            if self.carried_out >= TURN_COMMANDS {
                self.carried_out = 1;
                tokio::task::yield_now().await;
            }
        };
        self.flush(client, &mut together).await;
        self.input.drain(..at);
        self.input.shrink_to(4 * READ_BYTES + self.input.len());
        Ok(wanted)
    }

    fn job_bytes_max(&self) -> usize {
        self.shared.settings.job_bytes_max()
    }

    /// What is at `at` in the input. Counts commands.
    fn next(&mut self, at: usize, client: &Client) -> Next {
        if at == self.input.len() {
            return Next::Nothing(Wanted::Command);
        }
        if self.is_too_long {
            return Next::Nothing(Wanted::Rest(None));
        }
        let (command, bytes) = match parse(&self.input[at..], self.job_bytes_max()) {
            Parsed::Partial { bytes } => return Next::Nothing(Wanted::Rest(bytes)),
            Parsed::TooLong => return Next::TooLong,
            Parsed::Command { command, bytes, .. } => (command, bytes),
        };
        client.common.counters.count(&command);
        self.worker.count_request();
        self.carried_out += 1;
        match command {
            Command::Put { priority, delay_s, ttr_s, body } => {
                let end = at + bytes - 2;
                Next::Put(Put { priority, delay_s, ttr_s, body: end - body.len()..end }, bytes)
            }
            Command::Delete(id) => Next::Delete(id, bytes),
            Command::Reserve { timeout_s } => Next::Reserve { timeout_s, bytes },
            Command::Quit => Next::Quit,
            _ => Next::Other,
        }
    }

    async fn gather_put(&mut self, client: &mut Client, together: &mut Together, put: Put) {
        if !matches!(&*together, Together::Puts(puts) if puts.len() < TOGETHER_MAX) {
            self.flush(client, together).await;
            *together = Together::Puts(Vec::new());
        }
        if let Together::Puts(puts) = together {
            puts.push(put);
        }
    }

    async fn gather_delete(&mut self, client: &mut Client, together: &mut Together, id: u64) {
        if !matches!(&*together, Together::Deletes(ids) if ids.len() < TOGETHER_MAX) {
            self.flush(client, together).await;
            *together = Together::Deletes(Vec::new());
        }
        if let Together::Deletes(ids) = together {
            ids.push(id);
        }
    }

    /// Drops what nobody wants of the input from `at` on; answers how many bytes.
    fn drop_unwanted(&mut self, at: usize) -> usize {
        let rest = self.input.len() - at;
        if self.skip > 0 {
            let count = usize::try_from(self.skip).map_or(rest, |skip| skip.min(rest));
            self.skip -= count as u64;
            return count;
        }
        if !self.is_too_long {
            return 0;
        }
        match end_of_line(&self.input[at..]) {
            Some(bytes) => {
                self.is_too_long = false;
                self.output.extend_from_slice(answer::BAD_FORMAT);
                bytes
            }
            // Half of the end may be there.
            None => rest.saturating_sub(1),
        }
    }

    /// Carries out what was gathered.
    async fn flush(&mut self, client: &mut Client, together: &mut Together) {
        if together.len() == 0 {
            return;
        }
        let Some(store) = self.shared.store() else {
            (0..together.len()).for_each(|_| self.output.extend_from_slice(answer::INTERNAL_ERROR));
            *together = Together::Deletes(Vec::new());
            return;
        };
        let mut desk = desk(self.shared, &store, client, &mut self.output);
        match std::mem::replace(together, Together::Deletes(Vec::new())) {
            Together::Puts(puts) => {
                let jobs: Vec<NewJob<'_>> = puts
                    .into_iter()
                    .map(|put| NewJob {
                        priority: put.priority,
                        delay_ms: u64::from(put.delay_s) * 1000,
                        ttr_ms: u64::from(put.ttr_s.max(1)) * 1000,
                        body: &self.input[put.body],
                    })
                    .collect();
                Box::pin(desk.put(&jobs)).await;
            }
            Together::Deletes(ids) => {
                let before = desk.output.len();
                if let Err(error) = Box::pin(desk.delete(&ids)).await {
                    complain(&error);
                    self.output.truncate(before);
                    ids.iter().for_each(|_| self.output.extend_from_slice(answer::INTERNAL_ERROR));
                }
            }
        }
    }

    /// Carries out a command at `at`, of so many bytes, that asks for a job, and those behind it that ask in the same way. Takes them
    /// and all before them out of the input.
    async fn reserve(
        &mut self,
        client: &mut Client,
        at: usize,
        bytes: usize,
        timeout_s: Option<u32>,
    ) -> Result<(), Over> {
        let (first, mut rest) = self.input[at..].split_at(bytes);
        let mut count = 1;
        while count < RESERVES_MAX && rest.starts_with(first) {
            (count, rest) = (count + 1, &rest[bytes..]);
        }
        self.input.drain(..at + bytes);
        client.forget_late();
        // Those beyond what the client may have are answered in their own turn.
        let count = count.min(self.shared.settings.jobs_max().saturating_sub(client.held.len()));
        if count == 0 {
            self.output.extend_from_slice(answer::OUT_OF_MEMORY);
            return Ok(());
        }
        let Some(store) = self.shared.store() else {
            self.output.extend_from_slice(answer::INTERNAL_ERROR);
            return Ok(());
        };
        match self.reserve_of(&store, client, count, timeout_s).await {
            Ok(given) => {
                let others = given? - 1;
                (0..others).for_each(|_| client.common.counters.count(&Command::Reserve { timeout_s }));
                self.input.drain(..others * bytes);
            }
            Err(error) => {
                complain(&error);
                self.output.extend_from_slice(answer::INTERNAL_ERROR);
            }
        }
        Ok(())
    }

    /// Answers up to so many commands that ask for a job; answers how many.
    async fn reserve_of(
        &mut self,
        store: &Store,
        client: &mut Client,
        count: usize,
        timeout_s: Option<u32>,
    ) -> Result<Result<usize, Over>, StoreError> {
        let mut reserving = Box::pin(Reserving::begin(store, client, count, timeout_s)).await?;
        loop {
            let given = Box::pin(reserving.take(client, self.shared.ttr_default_ms(), &mut self.output)).await?;
            if given > 0 {
                return Ok(Ok(given));
            }
            // Nobody waits for earlier answers until a job comes. Who does not read them is to get none meanwhile.
            if let Err(over) = self.send_or(|| reserving.step_aside()).await {
                return Ok(Err(over));
            }
            self.give_buffers();
            let ending = (&**self.worker, self.shared.config.http_conf(&MODULE).wait_max());
            if let Some(answer) = reserving.wait(self.session, ending, client, &mut self.input).await? {
                self.output.extend_from_slice(answer);
                return Ok(Ok(1));
            }
        }
    }
}

fn desk<'a>(shared: &Shared, store: &'a Store, client: &'a mut Client, output: &'a mut Vec<u8>) -> Desk<'a> {
    Desk { store, client, settings: shared.settings, ttr_default_ms: shared.ttr_default_ms(), output }
}

/// Carries out a command that stands for itself.
async fn carry_out(shared: &Shared, client: &mut Client, command: &Command<'_>, output: &mut Vec<u8>) {
    let Some(store) = shared.store() else {
        output.extend_from_slice(answer::INTERNAL_ERROR);
        return;
    };
    let before = output.len();
    if let Err(error) = Box::pin(desk(shared, &store, client, output).carry_out(command)).await {
        complain(&error);
        output.truncate(before);
        output.extend_from_slice(answer::INTERNAL_ERROR);
    }
}
