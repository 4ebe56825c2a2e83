//! Tidegate: with the database inside, with MariaDB, with php-fpm.

use super::{Door, Found, Part, Route, Setup, Side, Stack, Tools, lookup, php, route, user_line};
use crate::ahead::Ahead;
use crate::matrix::Service;
use crate::{retwis, services};

pub(super) const EMBEDDED: Stack = Stack {
    id: "tidegate-embedded",
    name: "Tidegate, embedded database",
    side: Side::Ours,
    rivals: &[],
    routes: &EMBEDDED_ROUTES,
    full_only: &[],
    find,
    start: start_embedded,
};

pub(super) const MARIADB: Stack = Stack {
    id: "tidegate-mariadb",
    name: "Tidegate, MariaDB",
    side: Side::Ours,
    rivals: &[],
    routes: &MARIADB_ROUTES,
    full_only: &[],
    find,
    start: start_mariadb,
};

pub(super) const PHP: Stack = Stack {
    id: "tidegate-php",
    name: "Tidegate, php-fpm",
    side: Side::Ours,
    rivals: &["nginx-php", "apache-event", "apache-prefork"],
    routes: &PHP_ROUTES,
    full_only: &[],
    find: find_with_php,
    start: start_with_php,
};

const EMBEDDED_ROUTES: [Route; 24] = [
    route("static-13", "", "/13.txt", &[]),
    route("static-13-close", "", "/13.txt", &[]),
    route("static-100k", "", "/100k.txt", &[]),
    route("static-1m", "", "/1m.txt", &[]),
    route("cpu", "", "/cpu?n=10000", &[]),
    route("sleep", "drizzle", "/drizzle/sleep", &[]),
    route("row", "drizzle", "/drizzle/row", &[]),
    route("row", "capture, rds.parser, cjson", "/capture/row", &[]),
    route("row", "resty.mysql", "/mysql/row", &[]),
    route("row", "tidegate.sql", "/sql/row", &[]),
    route("row", "srcache", "/cached/row", &[]),
    route("rows", "drizzle", "/drizzle/rows", &[]),
    route("rows", "capture, rds.parser, cjson", "/capture/rows", &[]),
    route("rows", "resty.mysql", "/mysql/rows", &[]),
    route("rows", "tidegate.sql", "/sql/rows", &[]),
    route("rows", "srcache", "/cached/rows", &[]),
    route("post", "queue_api nq", "/nq/post", &[]),
    Route { ahead: Some(MESSAGES), ..route("pull", "queue_api nq", "/nq/pull", &[]) },
    lookup("HandlerSocket", Door::HandlerSocket),
    lookup("SQL", Door::MySql),
    lookup("memcached table=", Door::Memcached),
    lookup("memcached zone=", Door::MemoryOnly),
    route("retwis", "tidegate.sql", "/retwis/timeline", &[]),
    route("retwis", "resty.redis", "/retwis-redis/timeline", &[Service::Redis]),
];

/// A thousand is the most that nq's `post` takes.
const MESSAGES: Ahead = Ahead { url: "/nq/post", body: messages, at_once: 1000, per_second: 60_000 };

fn messages(count: usize) -> String {
    let texts = vec![r#""hello world""#; count].join(",");
    format!(r#"{{"sender":"sender1","messages":{{"queue1":[{texts}]}}}}"#)
}

const MARIADB_ROUTES: [Route; 11] = [
    route("sleep", "drizzle", "/drizzle/sleep", &[Service::MariaDb]),
    route("sleep", "resty.mysql", "/mysql/sleep", &[Service::MariaDb]),
    route("row", "drizzle", "/drizzle/row", &[Service::MariaDb]),
    route("row", "capture, rds.parser, cjson", "/capture/row", &[Service::MariaDb]),
    route("row", "resty.mysql", "/mysql/row", &[Service::MariaDb]),
    route("row", "srcache, memcached", "/cached/row", &[Service::MariaDb, Service::Memcached]),
    route("rows", "drizzle", "/drizzle/rows", &[Service::MariaDb]),
    route("rows", "capture, rds.parser, cjson", "/capture/rows", &[Service::MariaDb]),
    route("rows", "resty.mysql", "/mysql/rows", &[Service::MariaDb]),
    route("rows", "srcache, memcached", "/cached/rows", &[Service::MariaDb, Service::Memcached]),
    route("post", "resty.mysql INSERT", "/insert", &[Service::MariaDb]),
];

const PHP_ROUTES: [Route; 6] = [
    route("php", "", "/hello.php", &[]),
    route("php-close", "", "/hello.php", &[]),
    route("cpu", "", "/cpu.php?n=10000", &[]),
    route("sleep", "mysqli", "/query.php?q=sleep", &[Service::MariaDb]),
    route("row", "mysqli", "/query.php?q=row", &[Service::MariaDb]),
    route("rows", "mysqli", "/query.php?q=rows", &[Service::MariaDb]),
];

fn find(tools: &Tools) -> Result<Found, String> {
    if !tools.tidegate.is_file() {
        return Err(format!("{} is not there", tools.tidegate.display()));
    }
    let version = crate::machine::first_line(&tools.tidegate.to_string_lossy(), &["-v"]);
    Ok(Found { versions: vec![version], without: Vec::new() })
}

fn find_with_php(tools: &Tools) -> Result<Found, String> {
    let mut found = find(tools)?;
    found.versions.push(php::find_fpm()?);
    found.without = php::without_database().into_iter().collect();
    Ok(found)
}

fn start_embedded(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    setup.write("world.sql", &services::world(), &[])?;
    // What a script takes for MariaDB's port: there is none, so it asks the database inside.
    let inside = Setup { database: None, memcached: None, ..*setup };
    setup.write("retwis.sql", &retwis::sql(), &[])?;
    setup.write_retwis()?;
    let database = include_str!("../../sources/tidegate-database.conf");
    let upstreams = "lua_package_path \"$prefix/lua/?.lua;;\"; srcache_zone zone=pages:100m; upstream world { drizzle_server embedded dbname=world; }";
    let mut locations = vec![
        include_str!("../../sources/tidegate-sql.conf"),
        include_str!("../../sources/tidegate-embedded.conf"),
        include_str!("../../sources/retwis-tidegate.conf"),
    ];
    locations.extend(setup.redis.map(|_| include_str!("../../sources/retwis-redis.conf")));
    start(&inside, database, upstreams, &locations.concat())
}

fn start_mariadb(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let mut upstreams =
        "upstream world { drizzle_server 127.0.0.1:@DATABASE_PORT@ dbname=world user=monty password=some_pass \
                         protocol=mysql; drizzle_keepalive max=1024 overflow=ignore mode=single; }"
            .to_owned();
    let mut locations = include_str!("../../sources/tidegate-sql.conf").to_owned();
    if setup.memcached.is_some() {
        upstreams +=
            " upstream memcached { server 127.0.0.1:@MEMCACHED_PORT@; keepalive 64; keepalive_requests 100000000; }";
        locations += include_str!("../../sources/tidegate-memcached.conf");
    }
    start(setup, "", &upstreams, &locations)
}

fn start_with_php(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let fpm = php::start_fpm(setup)?;
    let upstreams = php::upstream(setup);
    let mut parts = start(setup, "", &upstreams, include_str!("../../sources/fastcgi.conf"))?;
    parts.push(fpm);
    Ok(parts)
}

fn start(setup: &Setup<'_>, database: &str, upstreams: &str, locations: &str) -> Result<Vec<Part>, String> {
    setup.write_files()?;
    setup.write_lua()?;
    setup.write("logs/error.log", "", &[])?;
    let places =
        [("@DATABASE@", database), ("@UPSTREAMS@", upstreams), ("@LOCATIONS@", locations), ("@USER@", user_line())];
    setup.write("tidegate.conf", include_str!("../../sources/tidegate.conf"), &places)?;
    let prefix = format!("{}/", setup.dir.display());
    let arguments = ["-p", &prefix, "-c", "tidegate.conf", "-e", "logs/error.log"];
    Ok(vec![Part::new("tidegate", setup.spawn(&setup.tools.tidegate, &arguments, &[])?)])
}
