//! The do-nothing server: the line below which no server gets.

use super::{Door, Found, Part, Route, Setup, Side, Stack, Tools, route};

pub(super) const STACK: Stack = Stack {
    id: "floor",
    name: "do-nothing server",
    side: Side::Floor,
    rivals: &[],
    routes: &ROUTES,
    full_only: &[],
    find,
    start,
};

const ROUTES: [Route; 12] = [
    route("static-13", "", "/bytes/13", &[]),
    route("static-13-close", "", "/bytes/13", &[]),
    route("static-100k", "", "/bytes/102400", &[]),
    route("static-1m", "", "/bytes/1048576", &[]),
    route("php", "", "/bytes/13", &[]),
    route("php-close", "", "/bytes/13", &[]),
    route("cpu", "", "/bytes/50", &[]),
    route("row", "", "/bytes/100", &[]),
    route("rows", "", "/bytes/92160", &[]),
    route("post", "", "/bytes/14", &[]),
    route("pull", "", "/bytes/100", &[]),
    route("retwis", "", "/bytes/6500", &[]),
];

fn find(_: &Tools) -> Result<Found, String> {
    Ok(Found { versions: vec!["one thread, epoll, answers made before".to_owned()], without: Vec::new() })
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let program = std::env::current_exe().map_err(|e| format!("the running program: {e}"))?;
    let port = setup.ports.of(Door::Http).to_string();
    Ok(vec![Part::new("do-nothing server", setup.spawn(&program, &[setup.tools.itself, "--floor", &port], &[])?)])
}
