//! Node.js: its own `http`, `cluster`, and mysql2 and redis from npm.

use super::{Door, Found, Lack, Part, Route, Setup, Side, Stack, Tools, kept, prepare, route};
use crate::matrix::Service;
use crate::places;

pub(super) const STACK: Stack = Stack {
    id: "node",
    name: "Node.js, mysql2",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &[],
    find,
    start,
};

const ROUTES: [Route; 9] = [
    route("static-13", "", "/13.txt", &[]),
    route("static-13-close", "", "/13.txt", &[]),
    route("static-100k", "", "/100k.txt", &[]),
    route("static-1m", "", "/1m.txt", &[]),
    route("cpu", "", "/cpu?n=10000", &[]),
    route("sleep", "mysql2", "/sleep", &[Service::MariaDb]),
    route("row", "mysql2", "/row", &[Service::MariaDb]),
    route("rows", "mysql2", "/rows", &[Service::MariaDb]),
    route("retwis", "redis", "/retwis/timeline", &[Service::Redis]),
];

/// Drivers with their versions, and the services that they are for.
const DRIVERS: [(&str, &str, Service); 2] =
    [("mysql2", "mysql2@3", Service::MariaDb), ("redis", "redis@4", Service::Redis)];

fn find(tools: &Tools) -> Result<Found, String> {
    let node = places::program("node").ok_or("node is not installed")?;
    let mut versions = vec![format!("Node.js {}", crate::machine::first_line(&node.to_string_lossy(), &["--version"]))];
    let mut without = Vec::new();
    for (name, package, service) in DRIVERS {
        match driver(tools, name, package) {
            Ok(version) => versions.push(format!("{name} {version}")),
            Err(reason) => without.push((Lack::Service(service), reason)),
        }
    }
    Ok(Found { versions, without })
}

/// The version of a driver, which is installed where it is missing.
fn driver(tools: &Tools, name: &str, package: &str) -> Result<String, String> {
    let dir = kept(tools, "node")?;
    let file = dir.join(format!("node_modules/{name}/package.json"));
    if !file.is_file() {
        if !tools.fetches {
            return Err(format!("{name} is not there (--fetch gets it from npm)"));
        }
        let npm = places::program("npm").ok_or("npm is not installed")?;
        let arguments = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", package];
        prepare(&dir, &npm, &arguments, &[])?;
    }
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let about: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(about["version"].as_str().unwrap_or_default().to_owned())
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let node = places::program("node").ok_or("node is not installed")?;
    setup.write_files()?;
    // Node.js looks for libraries from the script upwards.
    let dir = kept(setup.tools, "node")?;
    let script = dir.join("server.js");
    for (file, text) in
        [("server.js", include_str!("../../sources/server.js")), ("retwis.js", include_str!("../../sources/retwis.js"))]
    {
        std::fs::write(dir.join(file), text).map_err(|e| format!("{file}: {e}"))?;
    }
    let port_of = |driver: &str, port: Option<u16>| {
        port.filter(|_| dir.join("node_modules").join(driver).is_dir()).unwrap_or(0).to_string()
    };
    let (database, redis) = (port_of("mysql2", setup.database), port_of("redis", setup.redis));
    let (script, root) = (script.display().to_string(), setup.dir.join("html").display().to_string());
    let (port, workers) = (setup.ports.of(Door::Http).to_string(), setup.workers.to_string());
    let process =
        setup.spawn(&node, &[&script, &port, &workers, &database, &root, &redis], &[("NODE_ENV", "production")])?;
    Ok(vec![Part::new("node", process)])
}
