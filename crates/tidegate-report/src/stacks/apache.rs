//! Apache: the event model with php-fpm, and processes with PHP inside (mod_php).

use super::{Found, Part, Route, Setup, Side, Stack, Tools, php, route};
use crate::matrix::Service;
use crate::places;
use std::path::{Path, PathBuf};

pub(super) const EVENT: Stack = Stack {
    id: "apache-event",
    name: "Apache event, php-fpm",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &["row", "rows", "sleep"],
    find: find_event,
    start: start_event,
};

pub(super) const PREFORK: Stack = Stack {
    id: "apache-prefork",
    name: "Apache prefork, mod_php",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &["row", "rows", "sleep"],
    find: find_prefork,
    start: start_prefork,
};

const ROUTES: [Route; 10] = [
    route("static-13", "", "/13.txt", &[]),
    route("static-13-close", "", "/13.txt", &[]),
    route("static-100k", "", "/100k.txt", &[]),
    route("static-1m", "", "/1m.txt", &[]),
    route("php", "", "/hello.php", &[]),
    route("php-close", "", "/hello.php", &[]),
    route("cpu", "", "/cpu.php?n=10000", &[]),
    route("sleep", "mysqli", "/query.php?q=sleep", &[Service::MariaDb]),
    route("row", "mysqli", "/query.php?q=row", &[Service::MariaDb]),
    route("rows", "mysqli", "/query.php?q=rows", &[Service::MariaDb]),
];

/// Where Debian's packages put modules.
const MODULES: &str = "/usr/lib/apache2/modules";

fn program(modules: &[&str]) -> Result<PathBuf, String> {
    let apache = places::program("apache2").ok_or("apache2 is not installed (Debian: apt install apache2-bin)")?;
    match modules.iter().find(|name| !Path::new(MODULES).join(name).is_file()) {
        Some(missing) => Err(format!("Apache's {missing} is not in {MODULES}")),
        None => Ok(apache),
    }
}

fn find_event(_: &Tools) -> Result<Found, String> {
    let apache = program(&["mod_mpm_event.so", "mod_proxy_fcgi.so"])?;
    let version = crate::machine::first_line(&apache.to_string_lossy(), &["-v"]);
    Ok(Found { versions: vec![version, php::find_fpm()?], without: php::without_database().into_iter().collect() })
}

/// The version in the name of the module, `8.2`.
fn php_version() -> Option<String> {
    let names =
        std::fs::read_dir(MODULES).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut versions: Vec<String> =
        names.filter_map(|name| Some(name.strip_prefix("libphp")?.strip_suffix(".so")?.to_owned())).collect();
    versions.sort();
    versions.pop()
}

fn find_prefork(_: &Tools) -> Result<Found, String> {
    let apache = program(&["mod_mpm_prefork.so"])?;
    let php = php_version().ok_or("Apache has no mod_php (Debian: apt install libapache2-mod-php)")?;
    let version = crate::machine::first_line(&apache.to_string_lossy(), &["-v"]);
    Ok(Found {
        versions: vec![version, format!("mod_php {php}")],
        without: php::without_database().into_iter().collect(),
    })
}

fn start_event(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let fpm = php::start_fpm(setup)?;
    let apache = start(setup, include_str!("../../sources/apache-event.conf"))?;
    Ok(vec![apache, fpm])
}

fn start_prefork(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    Ok(vec![start(setup, include_str!("../../sources/apache-prefork.conf"))?])
}

fn start(setup: &Setup<'_>, more: &str) -> Result<Part, String> {
    let apache = program(&[])?;
    setup.write_files()?;
    php::write_scripts(setup)?;
    let version = php_version().unwrap_or_default();
    // It refuses to serve as root.
    let user = if nix::unistd::geteuid().is_root() { "User www-data\nGroup www-data" } else { "" };
    let places = [("@MORE@", more), ("@MODULES@", MODULES), ("@PHP@", &version), ("@USER@", user)];
    let file = setup.write("apache.conf", include_str!("../../sources/apache.conf"), &places)?;
    let file = file.display().to_string();
    Ok(Part::new("apache2", setup.spawn(&apache, &["-f", &file, "-D", "FOREGROUND"], &[])?))
}
