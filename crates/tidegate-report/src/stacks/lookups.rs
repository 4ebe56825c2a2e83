//! Databases and caches that are asked by protocols of their own, without a web server: MariaDB, also through its plug-in HandlerSocket,
//! and memcached.

use super::{Door, Found, Lack, Part, Route, Setup, Side, Stack, Tools, lookup};
use crate::matrix::Service;
use crate::services;
use std::path::Path;

pub(super) const MARIADB: Stack = Stack {
    id: "mariadb",
    name: "MariaDB",
    side: Side::Peer,
    rivals: &[],
    routes: &MARIADB_ROUTES,
    full_only: &[],
    find: find_mariadb,
    start: start_mariadb,
};

pub(super) const MEMCACHED: Stack = Stack {
    id: "memcached",
    name: "memcached",
    side: Side::Peer,
    rivals: &[],
    routes: &MEMCACHED_ROUTES,
    full_only: &[],
    find: find_memcached,
    start: start_memcached,
};

const MARIADB_ROUTES: [Route; 2] = [lookup("HandlerSocket", Door::HandlerSocket), lookup("SQL", Door::MySql)];
const MEMCACHED_ROUTES: [Route; 1] = [lookup("", Door::Memcached)];

/// Where Debian's package puts the plug-in.
const PLUGIN: &str = "/usr/lib/mysql/plugin/handlersocket.so";

fn find_mariadb(_: &Tools) -> Result<Found, String> {
    let version = services::version(Service::MariaDb).ok_or("MariaDB is not installed")?;
    let missing = (!Path::new(PLUGIN).is_file()).then(|| {
        (Lack::Door(Door::HandlerSocket), format!("{PLUGIN} is not there (Debian: apt install mariadb-server)"))
    });
    Ok(Found { versions: vec![version], without: missing.into_iter().collect() })
}

fn start_mariadb(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let mut settings = Vec::new();
    if Path::new(PLUGIN).is_file() {
        let port = |number: u16| number.to_string();
        settings = vec![
            "--plugin-maturity=beta".to_owned(),
            "--plugin-load-add=handlersocket.so".to_owned(),
            format!("--handlersocket-port={}", port(setup.ports.of(Door::HandlerSocket))),
            // It wants one; nothing is written through it.
            format!("--handlersocket-port-wr={}", port(setup.ports.of(Door::MemoryOnly))),
            "--handlersocket-address=127.0.0.1".to_owned(),
            format!("--handlersocket-threads={}", setup.workers.max(1)),
            "--handlersocket-threads-wr=1".to_owned(),
            "--handlersocket-plain-secret=".to_owned(),
            "--handlersocket-plain-secret-wr=".to_owned(),
        ];
    }
    let process = services::start_mariadb(setup.dir, setup.ports.of(Door::MySql), setup.cores, &settings)?;
    Ok(vec![Part::new("mariadbd", process)])
}

fn find_memcached(_: &Tools) -> Result<Found, String> {
    let version = services::version(Service::Memcached).ok_or("memcached is not installed")?;
    Ok(Found { versions: vec![version], without: Vec::new() })
}

fn start_memcached(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let process = services::spawn_memcached(setup.dir, setup.ports.of(Door::Memcached), setup.cores)?;
    Ok(vec![Part::new("memcached", process)])
}
