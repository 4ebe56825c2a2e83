//! Go: `net/http` and `database/sql` with go-sql-driver/mysql.

use super::{Door, Found, Part, Route, Setup, Side, Stack, Tools, kept, prepare, route};
use crate::matrix::Service;
use crate::places;
use std::path::{Path, PathBuf};

pub(super) const STACK: Stack = Stack {
    id: "go",
    name: "Go, net/http, database/sql",
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
    route("sleep", "go-sql-driver", "/sleep", &[Service::MariaDb]),
    route("row", "go-sql-driver", "/row", &[Service::MariaDb]),
    route("rows", "go-sql-driver", "/rows", &[Service::MariaDb]),
];

/// The compiler: on the path, or where Go's own installation puts it.
fn compiler() -> Result<PathBuf, String> {
    let usual = Path::new("/usr/local/go/bin/go");
    let found = places::program("go").or_else(|| usual.is_file().then(|| usual.to_owned()));
    found.ok_or_else(|| "go is not installed".to_owned())
}

fn find(tools: &Tools) -> Result<Found, String> {
    let go = compiler()?;
    let dir = kept(tools, "go")?;
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).map_err(|e| format!("{name}: {e}"));
    write("main.go", include_str!("../../sources/main.go.txt"))?;
    if !dir.join("go.sum").is_file() {
        if !tools.fetches {
            return Err("go-sql-driver/mysql is not there (--fetch gets it from Go's proxy)".to_owned());
        }
        write("go.mod", include_str!("../../sources/go.mod.txt"))?;
        prepare(&dir, &go, &["mod", "tidy"], &[("GOFLAGS", "-mod=mod")])?;
    }
    prepare(&dir, &go, &["build", "-o", "server", "."], &[("GOFLAGS", "-mod=mod")])?;
    let module = std::fs::read_to_string(dir.join("go.mod")).unwrap_or_default();
    let driver = module
        .lines()
        .find_map(|line| line.trim_start_matches("require ").trim().strip_prefix("github.com/go-sql-driver/"));
    let mut versions = vec![crate::machine::first_line(&go.to_string_lossy(), &["version"])];
    versions.extend(driver.map(|text| format!("go-sql-driver/{text}")));
    Ok(Found { versions, without: Vec::new() })
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    setup.write_files()?;
    let program = kept(setup.tools, "go")?.join("server");
    let (port, database) = (setup.ports.of(Door::Http).to_string(), setup.database.unwrap_or(0).to_string());
    let root = setup.dir.join("html").display().to_string();
    Ok(vec![Part::new("go", setup.spawn(&program, &[&port, &database, &root], &[])?)])
}
