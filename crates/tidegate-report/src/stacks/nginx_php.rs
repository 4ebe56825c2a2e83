//! nginx with php-fpm, and nginx alone for files.

use super::{Found, Part, Route, Setup, Side, Stack, Tools, nginx_lua, php, route, user_line};
use crate::matrix::Service;
use crate::places;

pub(super) const STACK: Stack = Stack {
    id: "nginx-php",
    name: "nginx, php-fpm",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &[],
    find,
    start,
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

fn find(_: &Tools) -> Result<Found, String> {
    let nginx = places::program("nginx").ok_or("nginx is not installed")?;
    let version = crate::machine::first_line(&nginx.to_string_lossy(), &["-v"]);
    Ok(Found { versions: vec![version, php::find_fpm()?], without: php::without_database().into_iter().collect() })
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let nginx = places::program("nginx").ok_or("nginx is not installed")?;
    setup.write_files()?;
    let fpm = php::start_fpm(setup)?;
    let upstreams = php::upstream(setup);
    let places = [
        ("@MODULES@", ""),
        ("@UPSTREAMS@", upstreams.as_str()),
        ("@LOCATIONS@", include_str!("../../sources/fastcgi.conf")),
        ("@USER@", user_line()),
    ];
    setup.write("nginx.conf", include_str!("../../sources/nginx.conf"), &places)?;
    let mut parts = nginx_lua::start_nginx(setup, &nginx)?;
    parts.push(fpm);
    Ok(parts)
}
