//! A loaded configuration: levels, servers, locations, variables.
//!
//! Loading goes through [`build::Build`]; what comes out is a [`Config`], which never changes and is shared by all
//! workers. A reload makes a new one.

mod absent;
pub mod build;
mod load;

use std::{collections::HashMap, path::PathBuf, rc::Rc, sync::Arc};

use bstr::{BStr, BString};
pub use build::Build;
pub use load::{LoadError, LoadOptions, load};
use tidegate_conf::Diagnostics;
use tidegate_http::Method;
use tidegate_net::service::Service;

use crate::{
    listeners::ListenSpec,
    location::Locations,
    module::{AnyConf, Checked, Context, Module, WorkerEnd},
    phase::Program,
    server_name::ServerNames,
    variable::Variables,
};

/// Number of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelId(pub u32);

/// Number of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId(pub u32);

/// Some of the request methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MethodSet(u32);

impl MethodSet {
    /// Adds a method.
    pub fn insert(&mut self, method: Method) {
        self.0 |= 1 << method as u32;
    }
    /// Whether `method` is one of them.
    pub fn contains(self, method: Method) -> bool {
        self.0 & (1 << method as u32) != 0
    }
}

/// One block of the configuration with all that its directives, and those of the blocks around it, say.
pub struct Level {
    /// Kind of block.
    pub kind: Context,
    /// The block around it.
    pub parent: Option<LevelId>,
    /// What stands between `location` and `{`, without the modifier; the name of an upstream; empty otherwise.
    pub name: BString,
    /// Handlers; empty for levels that no request is ever at.
    pub program: Program,
    /// Locations inside this block.
    pub locations: Locations,
    /// `limit_except`: requests with another method than these are at that level instead.
    pub limit_except: Option<(MethodSet, LevelId)>,
    /// What the core itself looks at for each request.
    pub(crate) core: CoreConfs,
    confs: Box<[Arc<AnyConf>]>,
}

/// The core's own modules at a level, without a look at the slots.
pub(crate) struct CoreConfs {
    pub(crate) http: Arc<crate::http_core::Conf>,
    pub(crate) http2: Arc<crate::http2_settings::Conf>,
    pub(crate) keepalive: Arc<crate::keepalive::Conf>,
    pub(crate) limit_rate: Arc<crate::limit_rate::Conf>,
}

impl CoreConfs {
    fn of(confs: &[Arc<AnyConf>]) -> Self {
        CoreConfs {
            http: typed(confs, &crate::http_core::MODULE),
            http2: typed(confs, &crate::http2_settings::MODULE),
            keepalive: typed(confs, &crate::keepalive::MODULE),
            limit_rate: typed(confs, &crate::limit_rate::MODULE),
        }
    }
}

fn typed<C: Send + Sync + 'static>(confs: &[Arc<AnyConf>], module: &'static Module<C>) -> Arc<C> {
    confs[module.slot.get()].clone().downcast::<C>().expect("a slot holds its module's configuration")
}

impl Level {
    /// What a module's directives say at this level.
    pub fn conf<C: Send + Sync + 'static>(&self, module: &'static Module<C>) -> &C {
        self.confs[module.slot.get()].downcast_ref::<C>().expect("a slot holds its module's configuration")
    }

    /// The same, to keep.
    pub fn conf_arc<C: Send + Sync + 'static>(&self, module: &'static Module<C>) -> Arc<C> {
        typed(&self.confs, module)
    }
}

/// A `server { }`.
pub struct Server {
    /// Its level.
    pub level: LevelId,
    /// First of its names, for logs and redirects.
    pub name: BString,
    /// Its named locations, by name with the `@`.
    pub named: HashMap<BString, LevelId>,
}

/// An address with the servers that listen on it.
pub struct Listen {
    /// Address and options of the socket.
    pub spec: ListenSpec,
    /// The server for names that no other has.
    pub default: ServerId,
    /// Servers by name.
    pub names: ServerNames,
    /// All names belong to the default server: none needs to be looked up.
    pub one_server: bool,
    /// PROXY protocol is expected.
    pub proxy_protocol: bool,
    /// HTTP/2 is spoken, whatever the servers say.
    pub http2: bool,
    /// TLS is expected; where a `listen` says so.
    pub ssl: Option<tidegate_conf::Span>,
    /// Exact addresses of the same port that this wildcard address accepts for: they have no socket of their own.
    pub shared_with: Vec<(std::net::SocketAddr, usize)>,
    /// A wildcard address accepts for this one.
    pub is_shared: bool,
}

/// Makes the service of a worker that answers at an address.
pub type OpenService = Arc<dyn Fn(&Arc<Config>) -> Rc<dyn Service> + Send + Sync>;

/// An address with a service that is not HTTP.
#[derive(Clone)]
pub struct ServiceListen {
    /// Address and options of the socket.
    pub spec: ListenSpec,
    /// Where the `listen` stands.
    pub span: tidegate_conf::Span,
    /// Makes the service of a worker.
    pub open: OpenService,
}

/// A loaded configuration.
pub struct Config {
    /// All levels; the first is the top level of the file.
    pub levels: Vec<Level>,
    /// The `http` level, if the file has one.
    pub http: Option<LevelId>,
    /// All servers.
    pub servers: Vec<Server>,
    /// All addresses.
    pub listens: Vec<Listen>,
    /// All addresses of other services.
    pub services: Vec<ServiceListen>,
    /// All variables.
    pub variables: Variables,
    /// Levels of `upstream` blocks by name, in lower case; see [`find_upstream`](Self::find_upstream).
    pub upstreams: HashMap<BString, LevelId>,
    /// Directories that the configuration has workers write to.
    pub temp_paths: Vec<PathBuf>,
    /// As `temp_paths`; the server starts without them.
    pub data_paths: Vec<PathBuf>,
    /// Directory that relative paths start from (`-p`).
    pub prefix: PathBuf,
    /// The configuration file.
    pub conf_path: PathBuf,
    /// Text of all files, for `-T`.
    pub sources: tidegate_conf::SourceMap,
    /// Warnings and notices that came up, in nginx's one-line form.
    pub warnings: Vec<(tidegate_conf::Level, String)>,
    registry: &'static crate::registry::Registry,
}

impl Config {
    /// The top level.
    pub fn main_level(&self) -> &Level {
        &self.levels[0]
    }
    /// What the directives of the top level say.
    pub fn main(&self) -> &crate::main_conf::Conf {
        self.main_level().conf(&crate::main_conf::MODULE)
    }
    /// What the directives of `events` say.
    pub fn events(&self) -> &crate::main_conf::EventsConf {
        self.main_level().conf(&crate::main_conf::EVENTS)
    }
    /// The `http` level, or the top level for a file without one.
    pub fn http_level(&self) -> &Level {
        &self.levels[self.http.unwrap_or(LevelId(0)).0 as usize]
    }
    /// What a module's directives say at the `http` level.
    pub fn http_conf<C: Send + Sync + 'static>(&self, module: &'static Module<C>) -> &C {
        self.http_level().conf(module)
    }
    /// Addresses to listen on.
    pub fn listen_specs(&self) -> Vec<ListenSpec> {
        let of_http = self.listens.iter().filter(|listen| !listen.is_shared).map(|listen| listen.spec.clone());
        of_http.chain(self.services.iter().map(|service| service.spec.clone())).collect()
    }
    /// The server of an address for names that no other has. `listen` is the position among [`listens`](Self::listens).
    pub fn default_server(&self, listen: usize) -> ServerId {
        self.listens.get(listen).map_or(ServerId(0), |listen| listen.default)
    }
    /// What applies to a connection of an address until a request has chosen its server.
    pub(crate) fn default_http(&self, listen: usize) -> &crate::http_core::Conf {
        let server = &self.servers[self.default_server(listen).0 as usize];
        &self.levels[server.level.0 as usize].core.http
    }
    /// The level of the `upstream` block of this name, in any case.
    pub fn find_upstream(&self, name: &[u8]) -> Option<LevelId> {
        if name.iter().any(u8::is_ascii_uppercase) {
            return self.upstreams.get(&BString::from(name.to_ascii_lowercase())).copied();
        }
        self.upstreams.get(BStr::new(name)).copied()
    }
    /// A path as nginx understands it: relative ones start from the prefix.
    pub fn full_path(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.prefix.join(std::ffi::OsStr::from_bytes(path))
    }
    /// Lets each module look at all levels that have a configuration of its own.
    fn check(&self, diagnostics: &mut Diagnostics) {
        for level in &self.levels {
            let outer = level.parent.map(|parent| &self.levels[parent.0 as usize].confs);
            for (slot, (module, conf)) in self.registry.modules().iter().zip(&level.confs).enumerate() {
                if !outer.is_some_and(|outer| Arc::ptr_eq(&outer[slot], conf)) {
                    module.check(&**conf, &Checked { config: self, level }, diagnostics);
                }
            }
        }
    }
    /// Calls each module's worker set-up on the current thread.
    ///
    /// # Errors
    /// The first module's that cannot start.
    pub fn init_worker(&self) -> Result<(), String> {
        let level = self.http_level();
        let modules = self.registry.modules().iter().zip(&level.confs);
        modules.into_iter().try_for_each(|(module, conf)| module.init_worker(conf))
    }
    /// Lets each module end its work on the current thread.
    pub async fn exit_worker(&self, end: WorkerEnd) {
        let level = self.http_level();
        for (module, conf) in self.registry.modules().iter().zip(&level.confs) {
            if let Some(future) = module.exit_worker(conf, end) {
                future.await;
            }
        }
    }
    /// The modules.
    pub fn registry(&self) -> &'static crate::registry::Registry {
        self.registry
    }
}
