//! Messages in the embedded database, and the broker of all workers.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_core::conf::Config;
use tidegate_net::clock;
use tidegate_queue::{Broker, Place, Scan};
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::{
    Engine, Session,
    table::{Comparison, Each, Filter, OpenTable, Otherwise, Request, Rows, Test},
};
use tokio::sync::Notify;

use super::{
    MODULE,
    beanstalk::pauses::Pauses,
    counts::Counts,
    gather::{Gather, bytes, number},
    keeper,
    limits::Limits,
    message::Message,
    outbox,
    results::Waiters,
    settings::KnownSettings,
    subscriptions,
    tables::{DEAD, DEFINITIONS, READY, Tables, UPGRADE},
    time_of_day,
};
use crate::database::{self, schemas};

/// Places that a look into the store finds, at most.
const SCAN_PLACES: u64 = 64;
/// Sessions that a worker keeps for the next requests.
const SESSIONS_KEPT: usize = 64;
/// MySQL's number for a schema that does not exist.
const UNKNOWN_DATABASE: u16 = 1049;
/// MySQL's number for a column that does not exist.
pub(super) const UNKNOWN_COLUMN: u16 = 1054;
/// MySQL's number for a table that does not exist.
pub(super) const NO_SUCH_TABLE: u16 = 1146;
/// MySQL's number for a transaction that was undone to let others go on.
const DEADLOCK: u16 = 1213;
/// MySQL's number for a key that another row has.
pub(super) const DUPLICATE_KEY: u16 = 1062;

/// What all workers share of the queues of one data directory. It outlives reloads.
pub(super) struct Home {
    pub(super) broker: Arc<Broker>,
    /// Who has it looks after messages whose time has come.
    pub(super) keeping: tokio::sync::Mutex<()>,
    /// A message was stored whose time may come before all others'.
    pub(super) due_changed: Notify,
    /// When the time of the next delayed message comes.
    pub(super) due: keeper::Due,
    /// Who has it makes the tables.
    making: tokio::sync::Mutex<()>,
    /// What is known of the settings of queues.
    pub(super) settings: Mutex<KnownSettings>,
    /// The limits of queues that have none of their own: those of the newest configuration.
    pub(super) limits: Mutex<Limits>,
    /// How many messages there are.
    pub(super) counts: Counts,
    /// What is known of subscriptions. Who publishes holds it until the commit.
    pub(super) subscriptions: tokio::sync::RwLock<subscriptions::Known>,
    /// Who has it makes or ends subscriptions.
    pub(super) clearing: tokio::sync::Mutex<()>,
    /// Who has one carries messages out of the outbox of that schema.
    outboxes: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Queues of which nobody knows whether a commit that was broken off has come about. The keeper finds out.
    doubtful: Mutex<BTreeSet<String>>,
    /// Queues that are paused for a time.
    pub(super) pauses: Pauses,
    /// Who waits for results.
    pub(super) waiters: Waiters,
}

static HOMES: Mutex<Vec<(PathBuf, Arc<Home>)>> = Mutex::new(Vec::new());

thread_local! {
    static STORES: RefCell<Vec<(PathBuf, Rc<Store>)>> = const { RefCell::new(Vec::new()) };
}

impl Home {
    fn of(path: &PathBuf) -> Result<Arc<Self>, String> {
        let mut homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, home)) = homes.iter().find(|(known, _)| known == path) {
            return Ok(home.clone());
        }
        let mut chance = [0; 8];
        getrandom::fill(&mut chance).map_err(|error| format!("no random number: {error}"))?;
        let broker = Broker::new(u64::from_le_bytes(chance), clock::steady_ms);
        let home = Arc::new(Home {
            broker,
            keeping: tokio::sync::Mutex::new(()),
            due_changed: Notify::new(),
            due: keeper::Due::default(),
            making: tokio::sync::Mutex::new(()),
            settings: Mutex::default(),
            limits: Mutex::default(),
            counts: Counts::default(),
            subscriptions: tokio::sync::RwLock::default(),
            clearing: tokio::sync::Mutex::new(()),
            outboxes: Mutex::default(),
            doubtful: Mutex::default(),
            pauses: Pauses::default(),
            waiters: Waiters::default(),
        });
        homes.push((path.clone(), home.clone()));
        Ok(home)
    }

    /// The lock of whoever carries messages out of a schema.
    pub(super) fn outbox(&self, schema: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        outboxes.entry(schema.to_owned()).or_default().clone()
    }

    /// Queues that were doubted since this was asked for.
    pub(super) fn take_doubtful(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.doubtful.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A commit to these queues may have come about or not, or may still come about.
    pub(super) fn doubt(&self, queues: impl IntoIterator<Item = String>) {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
        self.due_changed.notify_one();
    }
}

/// The queues of a data directory, for one worker.
pub(super) struct Store {
    pub(super) engine: Engine,
    pub(super) home: Arc<Home>,
    tables: RefCell<Option<Rc<Tables>>>,
    sessions: RefCell<Vec<Session>>,
}

/// Why the store has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// There is no database, for now or for ever.
    #[error("{0}")]
    Unavailable(String),
    /// The database has refused.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Others have taken room in a queue: [`Store::with_room`] tries again when they have filled it.
    #[error("others store messages in the queue {queue:?}")]
    RoomIsTaken { queue: String },
    /// A message that was to make room has gone by itself: [`Store::with_room`] looks for another one.
    #[error("a message that was to make room has gone")]
    HasGone,
    /// There is no room in a queue. Whoever publishes may try again.
    #[error("the queue {queue:?} is full: it may have {length_max} messages")]
    Full { queue: String, length_max: u64 },
}

impl StoreError {
    /// A transaction was undone because others have waited for it, and it for them: it may be done again.
    pub(super) fn is_deadlock(&self) -> bool {
        matches!(self, StoreError::Query(QueryError::Server(error)) if error.code == DEADLOCK)
    }
}

impl From<tidegate_rows::ServerError> for StoreError {
    fn from(error: tidegate_rows::ServerError) -> Self {
        StoreError::Query(error.into())
    }
}

/// A session with the tables. It is kept for the next request if all went well ([`Store::give_back`]).
pub(super) struct Open {
    pub(super) session: Session,
    pub(super) tables: Rc<Tables>,
}

impl Store {
    /// The queues of a configuration. The first call of a worker begins to look after messages whose time comes.
    ///
    /// # Errors
    /// Why there is no database, as a sentence.
    pub(super) fn of(config: &Config) -> Result<Rc<Self>, StoreError> {
        let engine = database::reopen(config).map_err(StoreError::Unavailable)?;
        let path = database::data_path(config);
        let known = STORES
            .with_borrow(|stores| stores.iter().find(|(known, _)| *known == path).map(|(_, store)| store.clone()));
        if let Some(store) = known {
            return Ok(store);
        }
        let home = Home::of(&path).map_err(StoreError::Unavailable)?;
        *home.limits.lock().unwrap_or_else(PoisonError::into_inner) = config.http_conf(&MODULE).limits();
        let store = Rc::new(Store { engine, home, tables: RefCell::default(), sessions: RefCell::default() });
        STORES.with_borrow_mut(|stores| stores.push((path, store.clone())));
        tokio::task::spawn_local(keeper::keep(store.clone()));
        Ok(store)
    }

    /// The queues of a directory for a thread that is no worker. It leaves what time brings to the workers.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn beside_workers(engine: &Engine, path: &Path) -> Result<Rc<Self>, StoreError> {
        let home = Home::of(&path.to_owned()).map_err(StoreError::Unavailable)?;
        let engine = engine.clone();
        Ok(Rc::new(Store { engine, home, tables: RefCell::default(), sessions: RefCell::default() }))
    }

    /// The broker.
    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.home.broker
    }

    /// A session and the tables, which are made if there are none.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn open(&self) -> Result<Open, StoreError> {
        let kept = self.sessions.borrow_mut().pop();
        let mut session = match kept {
            Some(session) => session,
            None => self.engine.session("")?,
        };
        let opened = self.tables.borrow().clone();
        if let Some(tables) = opened {
            self.home.counts.count_first(&mut session).await?;
            return Ok(Open { session, tables });
        }
        let tables = Rc::new(tables(&self.home, &mut session).await?);
        *self.tables.borrow_mut() = Some(tables.clone());
        self.home.counts.count_first(&mut session).await?;
        Ok(Open { session, tables })
    }

    /// Takes a session back whose requests have ended.
    pub(super) fn give_back(&self, open: Open) {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() < SESSIONS_KEPT && !open.session.in_transaction() {
            sessions.push(open.session);
        }
    }

    /// The tables are gone, or other ones.
    pub(super) fn forget_tables(&self) {
        *self.tables.borrow_mut() = None;
        self.home.counts.forget();
    }

    /// Tables may be gone, or other ones: they are opened anew, and queues are looked at anew.
    pub(super) fn doubt(&self, error: &QueryError) {
        match error {
            QueryError::Server(error) if error.code == DUPLICATE_KEY => return,
            QueryError::Server(error) if matches!(error.code, UNKNOWN_DATABASE | NO_SUCH_TABLE) => {
                self.forget_tables();
            }
            _ => {}
        }
        self.broker().forget_all();
    }

    /// Carries out requests.
    ///
    /// # Errors
    /// The first request that has failed; the others may have been carried out.
    pub(super) async fn carry_out(
        &self,
        mut open: Open,
        requests: &[(&OpenTable, Request<'_>)],
    ) -> Result<Gather, StoreError> {
        let mut gather = Gather::default();
        open.session.run_requests(requests, &mut gather).await;
        self.give_back(open);
        if let Some(at) = gather.ended.iter().position(Result::is_err)
            && let Err(error) = gather.ended.swap_remove(at)
        {
            self.doubt(&error);
            return Err(error.into());
        }
        Ok(gather)
    }

    /// Looks for the next messages that wait in a queue.
    ///
    /// # Errors
    /// Storage errors; the next in line looks then.
    pub(super) async fn scan(&self, queue: &str, scan: Scan) -> Result<(), StoreError> {
        let places = self.places(queue, READY, scan.after(), SCAN_PLACES).await?;
        scan.found(&places, (places.len() as u64) < SCAN_PLACES);
        Ok(())
    }

    /// Places of messages in one state, in their order.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn places(
        &self,
        queue: &str,
        state: i64,
        after: Option<Place>,
        count_max: u64,
    ) -> Result<Vec<Place>, StoreError> {
        let [queue, state] = [Value::Bytes(queue.as_bytes()), Value::Int(state)];
        let after = after.unwrap_or(Place { priority: 0, id: 0 });
        let key = [queue, state, Value::Uint(after.priority.into()), Value::Uint(after.id)];
        let test = Test::Compares(Comparison::Equal);
        let filters =
            [(0, queue), (1, state)].map(|(column, value)| Filter { column, test, value, otherwise: Otherwise::Stop });
        let rows = Rows { filters: &filters, limit: count_max, ..Rows::new(Comparison::Greater, &key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.next, Request::Find(rows))]).await?;
        Ok(found.rows.iter().filter_map(|row| place_of(row)).collect())
    }

    /// Reads messages of a queue that are in a state, in no particular order.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn read(&self, queue: &str, state: i64, ids: &[u64]) -> Result<Vec<Message>, StoreError> {
        let values: Vec<Value<'_>> = ids.iter().map(|id| Value::Uint(*id)).collect();
        let rows = Rows { each: Some(Each { part: 0, values: &values }), ..Rows::with_key(&[Value::Null]) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let table = if state == DEAD { &tables.dead } else { &tables.read };
        let found = self.carry_out(open, &[(table, Request::Find(rows))]).await?;
        let now_ms = time_of_day::now_ms();
        let is_wanted = |row: &&Vec<Param>| {
            let expires_ms = number(row.get(5));
            let is_over = expires_ms != 0 && expires_ms <= now_ms;
            if is_over {
                // Somebody may have had it when the keeper came for it.
                self.home.due_changed.notify_one();
            }
            bytes(row.get(1)).is_some_and(|name| name == queue.as_bytes())
                && number(row.get(2)) == state.unsigned_abs()
                && !is_over
        };
        Ok(found.rows.iter().filter(is_wanted).map(|row| Message::of(row)).collect())
    }
}

/// Makes the tables of a data directory that are not there, those of the outboxes of these schemas too.
///
/// # Errors
/// Storage errors; others may have been made then.
pub(super) async fn prepare(engine: &Engine, path: &PathBuf, outboxes: &[String]) -> Result<(), StoreError> {
    let home = Home::of(path).map_err(StoreError::Unavailable)?;
    let mut session = engine.session("")?;
    tables(&home, &mut session).await?;
    for schema in outboxes {
        outbox::table(&mut session, schema).await?;
    }
    Ok(())
}

/// The tables, which are made if there are none.
async fn tables(home: &Home, session: &mut Session) -> Result<Tables, StoreError> {
    match Tables::open(session) {
        Err(error) if matches!(error.code, UNKNOWN_DATABASE | NO_SUCH_TABLE | UNKNOWN_COLUMN) => {
            // Everybody needs them at once.
            let _making = home.making.lock().await;
            make_tables(session).await
        }
        tables => Ok(tables?),
    }
}

/// Makes the tables that are not there, and brings those of former versions up to date.
async fn make_tables(session: &mut Session) -> Result<Tables, StoreError> {
    schemas::execute(session, DEFINITIONS.as_bytes()).await?;
    match Tables::open(session) {
        Err(error) if error.code == UNKNOWN_COLUMN => {
            schemas::execute(session, UPGRADE.as_bytes()).await?;
            Ok(Tables::open(session)?)
        }
        tables => Ok(tables?),
    }
}

/// The place that a row of `next` tells.
fn place_of(row: &[Param]) -> Option<Place> {
    let priority = u32::try_from(number(row.first())).ok()?;
    Some(Place { priority, id: number(row.get(1)) })
}
