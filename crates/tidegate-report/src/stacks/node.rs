//! Node.js: its own `http`, `cluster`, and mysql2 from npm.

use super::{Found, Part, Route, Setup, Side, Stack, Tools, kept, prepare, route};
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

const ROUTES: [Route; 8] = [
    route("static-13", "", "/13.txt", &[]),
    route("static-13-close", "", "/13.txt", &[]),
    route("static-100k", "", "/100k.txt", &[]),
    route("static-1m", "", "/1m.txt", &[]),
    route("cpu", "", "/cpu?n=10000", &[]),
    route("sleep", "mysql2", "/sleep", &[Service::MariaDb]),
    route("row", "mysql2", "/row", &[Service::MariaDb]),
    route("rows", "mysql2", "/rows", &[Service::MariaDb]),
];

/// The driver and its version.
const DRIVER: &str = "mysql2@3";

fn find(tools: &Tools) -> Result<Found, String> {
    let node = places::program("node").ok_or("node is not installed")?;
    let mut versions = vec![format!("Node.js {}", crate::machine::first_line(&node.to_string_lossy(), &["--version"]))];
    let dir = kept(tools, "node")?;
    let package = dir.join("node_modules/mysql2/package.json");
    let mut without = None;
    if !package.is_file() {
        let outcome = match places::program("npm") {
            _ if !tools.fetches => Err("mysql2 is not there (--fetch gets it from npm)".to_owned()),
            None => Err("npm is not installed".to_owned()),
            Some(npm) => prepare(
                &dir,
                &npm,
                &["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", DRIVER],
                &[],
            ),
        };
        without = outcome.err().map(|reason| (Service::MariaDb, reason));
    }
    let text = std::fs::read_to_string(package).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    versions.extend(package["version"].as_str().map(|version| format!("mysql2 {version}")));
    Ok(Found { versions, without })
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let node = places::program("node").ok_or("node is not installed")?;
    setup.write_files()?;
    // Node.js looks for libraries from the script upwards.
    let script = kept(setup.tools, "node")?.join("server.js");
    std::fs::write(&script, include_str!("../../sources/server.js"))
        .map_err(|e| format!("{}: {e}", script.display()))?;
    let has_driver = kept(setup.tools, "node")?.join("node_modules/mysql2").is_dir();
    let database = setup.database.filter(|_| has_driver).unwrap_or(0).to_string();
    let (script, root) = (script.display().to_string(), setup.dir.join("html").display().to_string());
    let (port, workers) = (setup.port.to_string(), setup.workers.to_string());
    let process = setup.spawn(&node, &[&script, &port, &workers, &database, &root], &[("NODE_ENV", "production")])?;
    Ok(vec![Part::new("node", process)])
}
