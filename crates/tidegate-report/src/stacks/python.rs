//! Python: uvicorn with uvloop and httptools, and asyncmy, from PyPI.

use super::{Door, Found, Part, Route, Setup, Side, Stack, Tools, kept, prepare, route};
use crate::matrix::Service;
use crate::places;
use std::path::Path;
use std::process::Command;

pub(super) const STACK: Stack = Stack {
    id: "python",
    name: "Python, uvicorn, asyncmy",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &[],
    find,
    start,
};

const ROUTES: [Route; 4] = [
    route("cpu", "", "/cpu?n=10000", &[]),
    route("sleep", "asyncmy", "/sleep", &[Service::MariaDb]),
    route("row", "asyncmy", "/row", &[Service::MariaDb]),
    route("rows", "asyncmy", "/rows", &[Service::MariaDb]),
];

const PACKAGES: [&str; 4] = ["uvicorn", "uvloop", "httptools", "asyncmy"];

fn find(tools: &Tools) -> Result<Found, String> {
    let python = places::program("python3").ok_or("python3 is not installed")?;
    let dir = kept(tools, "python")?;
    let inside = dir.join("venv/bin/python");
    if versions(&inside).is_empty() {
        if !tools.fetches {
            return Err("uvicorn and asyncmy are not there (--fetch gets them from PyPI)".to_owned());
        }
        prepare(&dir, &python, &["-m", "venv", "--clear", "venv"], &[])?;
        let mut arguments = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        arguments.extend(PACKAGES);
        prepare(&dir, &inside, &arguments, &[])?;
    }
    let versions = versions(&inside);
    if versions.is_empty() {
        return Err(format!("{} cannot load uvicorn and asyncmy", inside.display()));
    }
    Ok(Found { versions, without: Vec::new() })
}

/// Of Python and the packages; none if one of them is missing.
fn versions(python: &Path) -> Vec<String> {
    let script = format!(
        "import asyncmy, httptools, uvicorn, uvloop, platform, importlib.metadata as m\nprint('Python', platform.python_version())\n\
         for p in {PACKAGES:?}: print(p, m.version(p))"
    );
    let output = Command::new(python).args(["-c", &script]).output();
    let text = output.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    text.unwrap_or_default().lines().map(str::to_owned).collect()
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let python = kept(setup.tools, "python")?.join("venv/bin/python");
    setup.write("app.py", include_str!("../../sources/app.py"), &[])?;
    let (port, workers) = (setup.ports.of(Door::Http).to_string(), setup.workers.to_string());
    let arguments = [
        "-m",
        "uvicorn",
        "app:app",
        "--host",
        "127.0.0.1",
        "--port",
        &port,
        "--workers",
        &workers,
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--log-level",
        "warning",
        "--backlog",
        "4096",
        "--lifespan",
        "off",
        "--timeout-keep-alive",
        "600",
    ];
    let database = setup.database.unwrap_or(0).to_string();
    let process = setup.spawn(&python, &arguments, &[("DATABASE_PORT", &database)])?;
    Ok(vec![Part::new("python", process)])
}
