//! nginx with ngx_lua, and lua-resty-mysql where that is found.

use super::{Found, Lack, Part, Route, Setup, Side, Stack, Tools, route, user_line};
use crate::matrix::Service;
use crate::places;
use std::path::{Path, PathBuf};

pub(super) const STACK: Stack = Stack {
    id: "nginx-lua",
    name: "nginx, ngx_lua, lua-resty-mysql",
    side: Side::Peer,
    rivals: &[],
    routes: &ROUTES,
    full_only: &[],
    find,
    start,
};

const ROUTES: [Route; 6] = [
    route("cpu", "", "/cpu?n=10000", &[]),
    route("sleep", "resty.mysql", "/mysql/sleep", &[Service::MariaDb]),
    route("row", "resty.mysql", "/mysql/row", &[Service::MariaDb]),
    route("rows", "resty.mysql", "/mysql/rows", &[Service::MariaDb]),
    route("post", "resty.mysql INSERT", "/insert", &[Service::MariaDb]),
    route("retwis", "resty.redis", "/retwis-redis/timeline", &[Service::Redis]),
];

/// Where Debian's packages put dynamic modules.
pub(super) const MODULES: &str = "/usr/lib/nginx/modules";

/// OpenResty's nginx has everything built in.
const OPENRESTY: &str = "/usr/local/openresty/nginx/sbin/nginx";

/// A program, and the lines that load its modules.
fn program() -> Result<(PathBuf, String), String> {
    if Path::new(OPENRESTY).is_file() {
        return Ok((OPENRESTY.into(), String::new()));
    }
    let nginx = places::program("nginx").ok_or("nginx is not installed")?;
    let module = |name: &str| Path::new(MODULES).join(format!("{name}.so"));
    let needed = [module("ndk_http_module"), module("ngx_http_lua_module")];
    if let Some(missing) = needed.iter().find(|file| !file.is_file()) {
        return Err(format!("{} is not there (Debian: apt install libnginx-mod-http-lua)", missing.display()));
    }
    Ok((nginx, needed.map(|file| format!("load_module {};\n", file.display())).concat()))
}

/// Whether nginx finds a Lua library, by its own paths or by ours.
fn has_library(tools: &Tools, file: &str) -> bool {
    let usual = ["/usr/local/openresty/lualib", "/usr/share/lua/5.1", "/usr/local/share/lua/5.1"].map(PathBuf::from);
    tools.lua_libs.iter().chain(&usual).any(|dir| dir.join(file).is_file())
}

fn find(tools: &Tools) -> Result<Found, String> {
    let (nginx, _) = program()?;
    let version = crate::machine::first_line(&nginx.to_string_lossy(), &["-v"]);
    let lacks = |service: Service, driver: &str| {
        let missing = [driver, "resty/sha256.lua"].into_iter().find(|file| !has_library(tools, file))?;
        let libraries = "lua-resty-mysql, lua-resty-redis, lua-resty-string";
        let reason = format!("{missing} is not there (name its directory with --lua-lib: {libraries})");
        Some((Lack::Service(service), reason))
    };
    let without = [lacks(Service::MariaDb, "resty/mysql.lua"), lacks(Service::Redis, "resty/redis.lua")];
    Ok(Found { versions: vec![version], without: without.into_iter().flatten().collect() })
}

fn start(setup: &Setup<'_>) -> Result<Vec<Part>, String> {
    let (nginx, modules) = program()?;
    setup.write_files()?;
    setup.write_lua()?;
    setup.write_retwis()?;
    let libraries = setup.tools.lua_libs.iter().map(|dir| format!("{}/?.lua", dir.display()));
    let patterns: Vec<String> = std::iter::once("$prefix/lua/?.lua".to_owned()).chain(libraries).collect();
    let path = format!("lua_package_path \"{};;\";", patterns.join(";"));
    let mut locations = include_str!("../../sources/nginx-lua.conf").to_owned();
    if setup.redis.is_some() {
        locations += include_str!("../../sources/retwis-redis.conf");
    }
    let places = [
        ("@MODULES@", modules.as_str()),
        ("@UPSTREAMS@", path.as_str()),
        ("@LOCATIONS@", &locations),
        ("@USER@", user_line()),
    ];
    setup.write("nginx.conf", include_str!("../../sources/nginx.conf"), &places)?;
    start_nginx(setup, &nginx)
}

/// Starts nginx on the configuration of the stack's directory.
pub(super) fn start_nginx(setup: &Setup<'_>, program: &Path) -> Result<Vec<Part>, String> {
    let prefix = format!("{}/", setup.dir.display());
    let arguments = ["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"];
    Ok(vec![Part::new("nginx", setup.spawn(program, &arguments, &[])?)])
}
