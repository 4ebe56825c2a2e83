//! What the workers of a generation are for: a configuration, with HTTP at its addresses.

use std::{cell::RefCell, future::Future, io, pin::Pin, rc::Rc, sync::Arc};

pub use tidegate_net::worker::{Hold, SettingUp, Worker, current, is_quitting};
use tidegate_net::{
    generations::WorkerBody,
    service::{Application, Port, Settings, WorkerEnd},
    worker,
};
use tidegate_reuse::Pool;

use crate::{conf::Config, connection::Connection, http1::HttpPort, request::Request, waiting};

/// Requests that a worker keeps for reuse.
const SPARES_MAX: usize = 256;

thread_local! {
    static REQUESTS: Pool<Rc<Request>> = const { Pool::new(SPARES_MAX) };
    static NOBODY: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
    static CONFIG: RefCell<Option<Arc<Config>>> = const { RefCell::new(None) };
}

/// The configuration of the worker whose thread this is.
pub fn config() -> Option<Arc<Config>> {
    CONFIG.with_borrow(Clone::clone)
}

/// The connection of requests that belong to nobody.
pub(crate) fn nobody() -> Rc<Connection> {
    NOBODY.with_borrow(Clone::clone).expect("requests are made on threads of workers")
}

/// A request that belongs to nobody yet.
pub(crate) fn take_request() -> Rc<Request> {
    REQUESTS.with(Pool::take)
}

/// Takes a request back, if nobody else has it. The next one, of any connection, finds its memory in the processor's cache.
pub(crate) fn give_request(req: Rc<Request>) {
    REQUESTS.with(|requests| requests.give(req));
}

/// What each worker thread does under `config`.
pub fn body(config: Arc<Config>) -> WorkerBody {
    Arc::new(move |start| Box::pin(worker::run(start, Site { config: config.clone() })))
}

/// Starts a worker beside the others that accepts no connections; see [`worker::start_agent`].
///
/// # Errors
/// The system refuses a thread.
pub fn start_agent(worker: &Rc<Worker>) -> io::Result<()> {
    let config = config().expect("a worker has a configuration");
    worker::start_agent(worker, body(config))
}

/// A configuration that is served.
struct Site {
    config: Arc<Config>,
}

impl Application for Site {
    fn settings(&self) -> Settings {
        let events = self.config.events();
        Settings { connections_max: events.connections_max(), park_after_ms: events.park_after_ms() }
    }

    fn begin(&self) -> Result<(), String> {
        NOBODY.set(Some(Rc::new(Connection::nobody(self.config.clone()))));
        CONFIG.set(Some(self.config.clone()));
        self.config.init_worker()
    }

    fn ports(&self) -> Vec<Port> {
        let port = |(index, listen): (usize, &crate::conf::Listen)| Port {
            address: listen.spec.addr.clone(),
            shared_with: listen.shared_with.clone(),
            service: Rc::new(HttpPort::new(self.config.clone(), index)),
        };
        let of_http = self.config.listens.iter().enumerate().map(port);
        let services = self.config.services.iter().map(|listen| Port {
            address: listen.spec.addr.clone(),
            shared_with: Vec::new(),
            service: (listen.open)(&self.config),
        });
        of_http.chain(services).collect()
    }

    fn check_deadlines(&self, now_ms: u64) {
        crate::upstream::keepalive::sweep(now_ms);
        crate::upstream::sweep_lanes(now_ms);
    }

    fn end(&self, end: WorkerEnd) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        if end == WorkerEnd::Cut {
            waiting::log_all();
        }
        Box::pin(self.config.exit_worker(end))
    }
}
