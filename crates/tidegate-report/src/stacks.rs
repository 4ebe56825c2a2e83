//! The stacks: what each is, what it answers, how it is found and started. One file each.

mod apache;
mod floor;
mod go;
mod lookups;
mod nginx_lua;
mod nginx_php;
mod node;
mod php;
mod python;
mod tidegate;

use crate::ahead::Ahead;
use crate::matrix::{Service, Size, Work, work};
use crate::ports::free_port;
use crate::process::Process;
use crate::retwis;
use crate::services::{self, Services};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// A way from a request to its answer.
#[derive(Debug)]
pub struct Route {
    /// The work that it does.
    pub work: &'static str,
    /// What the stack calls it; empty where it has one way only.
    pub path: &'static str,
    /// By which protocol,
    pub door: Door,
    /// and where it is.
    pub url: &'static str,
    /// Services behind it, whose CPU time is its own.
    pub uses: &'static [Service],
    /// What is posted ahead of each round.
    pub ahead: Option<Ahead>,
}

/// A web server with its language and its way to a database.
pub struct Stack {
    /// One word, of which names of files are made.
    pub id: &'static str,
    /// What people read.
    pub name: &'static str,
    /// Whose stack it is: ours, a peer's, or nobody's.
    pub side: Side,
    /// Peers that it is compared with in words; all of them if none is named.
    pub rivals: &'static [&'static str],
    /// What it answers.
    pub routes: &'static [Route],
    /// Works that it does in the full matrix only.
    pub full_only: &'static [&'static str],
    /// Looks whether this machine has it, and gets ready what it needs.
    pub find: fn(&Tools) -> Result<Found, String>,
    /// Starts it at `Setup::ports`, of which it opens those that its routes have.
    pub start: fn(&Setup<'_>) -> Result<Vec<Part>, String>,
}

/// Whose stack it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Tidegate's.
    Ours,
    /// One that Tidegate is compared with.
    Peer,
    /// The do-nothing server.
    Floor,
}

/// A stack that this machine has.
#[derive(Debug, Default)]
pub struct Found {
    /// Programs and libraries with their versions.
    pub versions: Vec<String>,
    /// Routes that need this are left out, with the reason.
    pub without: Vec<(Lack, String)>,
}

/// What a stack may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A way to a service, which runs.
    Service(Service),
    /// A protocol.
    Door(Door),
}

impl Lack {
    /// What people read.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Lack::Service(service) => format!("{service:?}"),
            Lack::Door(door) => format!("{door:?}"),
        }
    }
}

impl Found {
    /// Whether all that a route needs of the stack is there.
    #[must_use]
    pub fn has(&self, route: &Route) -> bool {
        self.without.iter().all(|(lack, _)| match lack {
            Lack::Service(service) => !route.uses.contains(service),
            Lack::Door(door) => route.door != *door,
        })
    }
}

/// By which protocol a route is asked. A stack has a port for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// HTTP.
    Http,
    /// HandlerSocket.
    HandlerSocket,
    /// memcached's.
    Memcached,
    /// memcached's once more, for what is in memory only.
    MemoryOnly,
    /// MySQL's.
    MySql,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 5] = [Door::Http, Door::HandlerSocket, Door::Memcached, Door::MemoryOnly, Door::MySql];

    /// The scheme of an address.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Door::Http => "http",
            Door::HandlerSocket => "handlersocket",
            Door::Memcached | Door::MemoryOnly => "memcached",
            Door::MySql => "mysql",
        }
    }
}

/// The ports of a stack, one for each [`Door`].
#[derive(Debug, Clone, Copy)]
pub struct Ports([u16; Door::ALL.len()]);

impl Ports {
    /// Free ones.
    #[must_use]
    pub fn free() -> Ports {
        Ports(Door::ALL.map(|_| free_port()))
    }

    /// Where a door is.
    #[must_use]
    pub fn of(&self, door: Door) -> u16 {
        self.0[door as usize]
    }
}

/// What stacks are made of on this machine.
pub struct Tools {
    /// Our own binary.
    pub tidegate: PathBuf,
    /// The command of the report, as people type it.
    pub command: &'static str,
    /// The sub-command with which the running program becomes a part of a report, see [`crate::options::Options::run_as_part`].
    pub itself: &'static str,
    /// Directories with Lua libraries for nginx.
    pub lua_libs: Vec<PathBuf>,
    /// Where libraries of peers and what is built of them stay between two runs.
    pub kept: PathBuf,
    /// Whether what is missing there may be got from the registries of npm, PyPI and Go.
    pub fetches: bool,
}

/// How one stack is to be started.
pub struct Setup<'a> {
    /// A directory of its own.
    pub dir: &'a Path,
    /// Where it is to listen.
    pub ports: Ports,
    /// Its cores, as `taskset` reads them,
    pub cores: &'a str,
    /// and how many they are.
    pub workers: usize,
    /// MariaDB's port.
    pub database: Option<u16>,
    /// memcached's port.
    pub memcached: Option<u16>,
    /// Redis' port.
    pub redis: Option<u16>,
    /// What it is made of.
    pub tools: &'a Tools,
}

/// A process of a stack, with all below it.
pub struct Part {
    /// What people read.
    pub name: &'static str,
    process: Process,
}

impl Part {
    fn new(name: &'static str, process: Process) -> Part {
        Part { name, process }
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.process.exited().is_some()
    }
}

/// All stacks, in the order of the report.
pub static STACKS: &[Stack] = &[
    floor::STACK,
    tidegate::EMBEDDED,
    tidegate::MARIADB,
    tidegate::PHP,
    nginx_lua::STACK,
    nginx_php::STACK,
    apache::EVENT,
    apache::PREFORK,
    node::STACK,
    python::STACK,
    go::STACK,
    lookups::MARIADB,
    lookups::MEMCACHED,
];

impl Stack {
    /// The routes to a work.
    pub fn routes_of(&self, work: &Work, size: Size) -> impl Iterator<Item = &'static Route> {
        let id = work.id;
        let is_left_out = size == Size::Small && self.full_only.contains(&id);
        self.routes.iter().filter(move |route| route.work == id && !is_left_out)
    }
}

impl Route {
    /// Whether all that it uses runs.
    #[must_use]
    pub fn is_served(&self, services: &Services) -> bool {
        self.uses.iter().all(|service| services.port(*service).is_some())
    }

    /// The work that it does.
    ///
    /// # Panics
    /// Not for the routes of [`STACKS`], as a test sees.
    #[must_use]
    pub fn work(&self) -> &'static Work {
        work(self.work).expect("each route has a work")
    }
}

const fn route(work: &'static str, path: &'static str, url: &'static str, uses: &'static [Service]) -> Route {
    Route { work, path, door: Door::Http, url, uses, ahead: None }
}

/// A row by its key, by a protocol of the database's own.
const fn lookup(path: &'static str, door: Door) -> Route {
    Route { work: "lookup", path, door, url: "", uses: &[], ahead: None }
}

impl Setup<'_> {
    /// Fills a template: `@NAME@` stands for a value, `more` for those of this stack; writes it below the directory.
    fn write(&self, file: &str, template: &str, more: &[(&str, &str)]) -> Result<PathBuf, String> {
        let mut text = template.to_owned();
        for (name, value) in more {
            text = text.replace(name, value);
        }
        let number = |port: Option<u16>| port.map_or_else(|| "0".to_owned(), |port| port.to_string());
        for (name, value) in [
            ("@DIR@", self.dir.display().to_string()),
            ("@PORT@", self.ports.of(Door::Http).to_string()),
            ("@HANDLERSOCKET_PORT@", self.ports.of(Door::HandlerSocket).to_string()),
            ("@TABLE_PORT@", self.ports.of(Door::Memcached).to_string()),
            ("@MEMORY_PORT@", self.ports.of(Door::MemoryOnly).to_string()),
            ("@MYSQL_PORT@", self.ports.of(Door::MySql).to_string()),
            ("@WORKERS@", self.workers.to_string()),
            ("@DATABASE_PORT@", number(self.database)),
            ("@MEMCACHED_PORT@", number(self.memcached)),
            ("@REDIS_PORT@", number(self.redis)),
        ] {
            text = text.replace(name, &value);
        }
        let path = self.dir.join(file);
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(self.dir)).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
        Ok(path)
    }

    /// The files that are served as they are.
    fn write_files(&self) -> Result<(), String> {
        self.write("html/13.txt", "Hello, world!", &[])?;
        self.write("html/100k.txt", &"0123456789abcdef".repeat(6400), &[])?;
        self.write("html/1m.txt", &"0123456789abcdef".repeat(65536), &[])?;
        Ok(())
    }

    /// The scripts that Tidegate and nginx run.
    fn write_lua(&self) -> Result<(), String> {
        for (file, text) in [
            ("lua/cpu.lua", include_str!("../sources/cpu.lua")),
            ("lua/mysql.lua", include_str!("../sources/mysql.lua")),
            ("lua/insert.lua", include_str!("../sources/insert.lua")),
            ("lua/capture.lua", include_str!("../sources/capture.lua")),
            ("lua/sql.lua", include_str!("../sources/sql.lua")),
        ] {
            self.write(file, text, &[])?;
        }
        Ok(())
    }

    /// The application of `examples/retwis`.
    fn write_retwis(&self) -> Result<(), String> {
        retwis::FILES.iter().try_for_each(|(file, text)| self.write(file, text, &[]).map(drop))
    }

    /// Starts a program on the servers' cores.
    fn spawn(&self, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Process, String> {
        let mut command = services::command(program, self.cores, self.dir)?;
        command.args(arguments).envs(variables.iter().copied());
        Process::spawn(&mut command)
    }
}

/// `user root;` where workers would otherwise be somebody who may not read the directory.
fn user_line() -> &'static str {
    if nix::unistd::geteuid().is_root() { "user root;" } else { "" }
}

/// Runs a command that gets a library or builds something, in a directory; what it said is the error.
fn prepare(dir: &Path, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let mut command = std::process::Command::new(program);
    command.current_dir(dir).args(arguments).envs(variables.iter().copied()).stdin(std::process::Stdio::null());
    let output = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(format!("{} {} failed: {}", program.display(), arguments.join(" "), last.join(" ")))
}

/// A directory for what a stack needs of others, made where it is missing.
fn kept(tools: &Tools, name: &str) -> Result<PathBuf, String> {
    let dir = tools.kept.join(name);
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::WORKS;

    #[test]
    fn every_route_has_a_work_and_a_name_of_its_own() {
        for (index, stack) in STACKS.iter().enumerate() {
            assert!(STACKS[..index].iter().all(|other| other.id != stack.id), "{}", stack.id);
            let is_peer = |id: &&str| STACKS.iter().any(|other| other.id == *id && other.side == Side::Peer);
            assert!(stack.rivals.iter().all(is_peer), "{}", stack.id);
            for (index, route) in stack.routes.iter().enumerate() {
                assert!(work(route.work).is_some(), "{}: {}", stack.id, route.work);
                let is_same = |other: &Route| other.work == route.work && other.path == route.path;
                assert!(!stack.routes[..index].iter().any(is_same), "{}: {}", stack.id, route.url);
            }
        }
    }

    #[test]
    fn every_work_is_done_by_us_and_has_a_floor() {
        for work in WORKS {
            let sides = |side| {
                STACKS.iter().filter(move |stack| stack.side == side).flat_map(|s| s.routes_of(work, Size::Full))
            };
            assert!(sides(Side::Ours).next().is_some(), "{}", work.id);
            // Where no server could do more than a number that is known, that one is the limit. The do-nothing server speaks HTTP.
            let has_floor = work.answer_seconds.is_none() && sides(Side::Ours).any(|route| route.door == Door::Http);
            assert_eq!(sides(Side::Floor).count(), usize::from(has_floor), "{}", work.id);
        }
        assert!(WORKS.iter().any(|work| !work.clients(Size::Small).is_empty()));
    }

    #[test]
    fn templates_have_no_open_places() {
        let scratch = crate::places::Scratch::new("stacks", false).expect("a directory");
        let tools = Tools {
            tidegate: PathBuf::new(),
            command: "",
            itself: "",
            lua_libs: Vec::new(),
            kept: scratch.path().to_owned(),
            fetches: false,
        };
        let setup = Setup {
            dir: scratch.path(),
            ports: Ports([8080, 1, 2, 3, 4]),
            cores: "0",
            workers: 3,
            database: Some(3306),
            memcached: None,
            redis: None,
            tools: &tools,
        };
        let more = [("@MORE@", "x@PORT@")];
        let file = setup
            .write("a/b.conf", "@MORE@ @WORKERS@ @DATABASE_PORT@ @MEMCACHED_PORT@ @MYSQL_PORT@", &more)
            .expect("written");
        assert_eq!(fs::read_to_string(file).expect("text"), "x8080 3 3306 0 4");
    }
}
