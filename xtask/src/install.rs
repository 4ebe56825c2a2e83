//! `cargo xtask install`: Debian and Ubuntu packages that tests and benchmarks talk to, only what is missing.

use crate::paths;
use clap::{Args, ValueEnum};
use std::path::Path;
use std::process::{Command, Stdio};

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// For what; everything if nothing is named
    #[arg(value_enum)]
    groups: Vec<Group>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// A C toolchain and the servers that cases talk to
    Tests,
    /// nginx with its modules, and wrk
    Bench,
    /// Peers of the report that Debian has
    Report,
    /// The Perl harness of the public suites
    Conformance,
    /// WordPress, MediaWiki and phpMyAdmin with PHP, and a browser; only if it is named
    Applications,
}

/// Something that must be there, and the packages that bring it; the first that apt knows is taken.
struct Need {
    group: Group,
    /// A program's name, or the path of a file, in which one `*` stands for a version.
    what: &'static str,
    packages: &'static [&'static str],
}

const fn need(group: Group, what: &'static str, packages: &'static [&'static str]) -> Need {
    Need { group, what, packages }
}

const MODULES: &str = "/usr/lib/nginx/modules";

/// Where Debian has a `-core` package of a database, that one brings the program: it starts nothing at boot.
const NEEDS: &[Need] = &[
    need(Group::Tests, "cc", &["gcc"]),
    // The fuzz targets are compiled with their driver.
    need(Group::Tests, "c++", &["g++"]),
    need(Group::Tests, "make", &["make"]),
    need(Group::Tests, "mariadbd", &["mariadb-server-core", "mariadb-server-core-10.6", "mariadb-server"]),
    need(Group::Tests, "mariadb-install-db", &["mariadb-server-core", "mariadb-server-core-10.6", "mariadb-server"]),
    need(Group::Tests, "mariadb", &["mariadb-client-core", "mariadb-client-core-10.6", "mariadb-client"]),
    need(Group::Tests, "mysqldump", &["mariadb-client", "mariadb-client-10.6"]),
    // No `-core` package has the plugin of the login method `client_ed25519`.
    need(Group::Tests, "/usr/lib/mysql/plugin/auth_ed25519.so", &["mariadb-server", "mariadb-server-10.6"]),
    // Nor has one HandlerSocket.
    need(Group::Tests, "/usr/lib/mysql/plugin/handlersocket.so", &["mariadb-server", "mariadb-server-10.6"]),
    need(Group::Tests, "memcached", &["memcached"]),
    need(Group::Tests, "redis-server", &["redis-server"]),
    need(Group::Tests, "php-fpm", &["php-fpm"]),
    // Pebble, an authority, and h2spec, a suite for HTTP/2, are Go packages that the tests build.
    need(Group::Tests, "go", &["golang-go"]),
    need(Group::Tests, "ip", &["iproute2"]),
    // The load of `tidegate report`.
    need(Group::Tests, "wrk", &["wrk"]),
    need(Group::Tests, "taskset", &["util-linux"]),
    need(Group::Tests, "/usr/share/lua/5.1/cjson/util.lua", &["lua-cjson"]),
    need(Group::Tests, "/usr/share/lua/5.1/re.lua", &["lua-lpeg"]),
    need(Group::Tests, "/usr/share/lua/5.1/socket.lua", &["lua-socket"]),
    need(Group::Bench, "nginx", &["nginx"]),
    need(Group::Bench, "wrk", &["wrk"]),
    need(Group::Bench, "h2load", &["nghttp2-client"]),
    need(Group::Bench, "curl", &["curl"]),
    need(Group::Bench, "beanstalkd", &["beanstalkd"]),
    need(Group::Bench, "sysbench", &["sysbench"]),
    need(Group::Bench, "taskset", &["util-linux"]),
    need(Group::Bench, "ngx_http_lua_module.so", &["libnginx-mod-http-lua"]),
    need(Group::Bench, "ngx_http_echo_module.so", &["libnginx-mod-http-echo"]),
    need(Group::Bench, "ngx_http_headers_more_filter_module.so", &["libnginx-mod-http-headers-more-filter"]),
    need(Group::Bench, "ngx_http_set_misc_module.so", &["libnginx-mod-http-set-misc"]),
    need(Group::Bench, "ngx_http_memc_module.so", &["libnginx-mod-http-memc"]),
    need(Group::Bench, "ngx_http_srcache_filter_module.so", &["libnginx-mod-http-srcache-filter"]),
    need(Group::Bench, "/usr/share/lua/5.1/cjson/util.lua", &["lua-cjson"]),
    need(Group::Report, "/usr/lib/apache2/modules/mod_proxy_fcgi.so", &["apache2-bin"]),
    need(Group::Report, "/etc/php/*/mods-available/mysqli.ini", &["php-mysql"]),
    need(Group::Report, "/usr/lib/apache2/modules/libphp*.so", &["libapache2-mod-php"]),
    need(Group::Report, "node", &["nodejs"]),
    need(Group::Report, "npm", &["npm"]),
    need(Group::Report, "python3", &["python3"]),
    need(Group::Conformance, "python3", &["python3"]),
    need(Group::Conformance, "curl", &["curl"]),
    need(Group::Conformance, "openssl", &["openssl"]),
    need(Group::Conformance, "ip", &["iproute2"]),
    need(Group::Conformance, "/usr/share/perl5/Test/Base.pm", &["libtest-base-perl"]),
    need(Group::Conformance, "/usr/share/perl5/Test/LongString.pm", &["libtest-longstring-perl"]),
    need(Group::Conformance, "/usr/share/perl5/List/MoreUtils.pm", &["liblist-moreutils-perl"]),
    need(Group::Conformance, "/usr/share/perl5/LWP.pm", &["libwww-perl"]),
    need(Group::Conformance, "/usr/share/perl5/URI.pm", &["liburi-perl"]),
    need(Group::Conformance, "/usr/share/perl5/Text/Diff.pm", &["libtext-diff-perl"]),
    need(Group::Conformance, "/usr/share/perl5/IPC/Run.pm", &["libipc-run-perl"]),
    need(Group::Conformance, "/usr/share/perl5/Protocol/WebSocket.pm", &["libprotocol-websocket-perl"]),
    need(Group::Conformance, "/usr/lib/x86_64-linux-gnu/perl5/5.36/FCGI.pm", &["libfcgi-perl"]),
    need(Group::Conformance, "/usr/share/perl5/SCGI.pm", &["libscgi-perl"]),
    need(Group::Applications, "/usr/share/wordpress/wp-includes/version.php", &["wordpress"]),
    need(
        Group::Applications,
        "/usr/share/wordpress/wp-content/themes/*/style.css",
        &["wordpress-theme-twentytwentythree"],
    ),
    need(Group::Applications, "/usr/share/mediawiki/index.php", &["mediawiki"]),
    need(Group::Applications, "/usr/share/phpmyadmin/index.php", &["phpmyadmin"]),
    need(Group::Applications, "php-fpm", &["php-fpm"]),
    need(Group::Applications, "/etc/php/*/mods-available/mysqli.ini", &["php-mysql"]),
    need(Group::Applications, "/etc/php/*/mods-available/apcu.ini", &["php-apcu"]),
    need(Group::Applications, "node", &["nodejs"]),
    need(Group::Applications, "chromium", &["chromium"]),
    need(Group::Applications, "mariadb", &["mariadb-client-core", "mariadb-client"]),
    need(Group::Conformance, "uwsgi", &["uwsgi-core"]),
    need(Group::Conformance, "/usr/lib/uwsgi/plugins/python3_plugin.so", &["uwsgi-plugin-python3"]),
];

impl Need {
    fn is_met(&self) -> bool {
        is_there(self.what)
    }
}

/// Whether there is this program or file; one `*` in a path stands for a version.
pub(crate) fn is_there(what: &str) -> bool {
    if let Some((before, after)) = what.split_once('*') {
        has_a_version(before, after)
    } else if what.starts_with('/') {
        Path::new(what).exists()
    } else if what.ends_with(".so") {
        Path::new(MODULES).join(what).exists()
    } else {
        paths::program(what).or_else(|| paths::versioned_program(what)).is_some()
    }
}

/// Whether there is a file whose path begins and ends so.
fn has_a_version(before: &str, after: &str) -> bool {
    let (dir, name) = before.rsplit_once('/').unwrap_or(("", before));
    let entries = Path::new(dir).read_dir().into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut paths = names.filter(|found| found.starts_with(name)).map(|found| match after.split_once('/') {
        Some((_, below)) => format!("{dir}/{found}/{below}"),
        None => format!("{dir}/{found}"),
    });
    paths.any(|path| path.ends_with(after) && Path::new(&path).exists())
}

/// Installs the chosen groups.
///
/// # Errors
/// When something is missing and cannot be installed; names the packages.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let all = [Group::Tests, Group::Bench, Group::Report, Group::Conformance];
    let groups = if options.groups.is_empty() { &all[..] } else { &options.groups };
    install(groups)?;
    Ok(true)
}

/// Installs what `cargo xtask test` needs.
///
/// # Errors
/// As [`run`].
pub(crate) fn tests() -> Result<(), String> {
    install(&[Group::Tests])
}

/// Installs what `cargo xtask bench` needs.
///
/// # Errors
/// As [`run`].
pub(crate) fn benchmarks() -> Result<(), String> {
    install(&[Group::Tests, Group::Bench])
}

/// Installs what `cargo xtask report` compares with.
///
/// # Errors
/// As [`run`].
pub(crate) fn report() -> Result<(), String> {
    install(&[Group::Tests, Group::Bench, Group::Report])
}

/// Installs what `cargo xtask conformance` needs.
///
/// # Errors
/// As [`run`].
pub(crate) fn conformance() -> Result<(), String> {
    install(&[Group::Tests, Group::Conformance])
}

/// Installs what `cargo xtask applications` uses.
///
/// # Errors
/// As [`run`].
pub(crate) fn applications() -> Result<(), String> {
    install(&[Group::Applications])
}

fn install(groups: &[Group]) -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|n| groups.contains(&n.group) && !n.is_met()).collect();
    if missing.is_empty() {
        println!("everything is installed");
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|n| n.what).collect();
    println!("missing: {}", names.join(", "));
    let hint = || {
        let packages: Vec<&str> = missing.iter().map(|n| n.packages[0]).collect();
        format!("install the packages {} (or what your system calls them) and try again", packages.join(" "))
    };
    if paths::program("apt-get").is_none() {
        return Err(format!("this is not Debian or Ubuntu: {}", hint()));
    }
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root && paths::program("sudo").is_none() {
        return Err(format!("apt-get needs root, and there is no sudo: as root, {}", hint()));
    }
    apt_get(is_root, &["update", "-qq"])?;
    let mut packages: Vec<&str> = missing.iter().map(|n| available(n.packages)).collect();
    packages.dedup();
    println!("apt-get install {}", packages.join(" "));
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&packages);
    apt_get(is_root, &arguments)?;
    match missing.iter().find(|n| !n.is_met()) {
        Some(need) => Err(format!("{} is still missing after installing {}", need.what, need.packages[0])),
        None => Ok(()),
    }
}

/// The first package that this release has.
fn available(packages: &'static [&'static str]) -> &'static str {
    let is_known = |name: &&&str| {
        let output = Command::new("apt-cache").args(["show", "--no-all-versions", name]).stderr(Stdio::null()).output();
        output.is_ok_and(|o| o.status.success() && !o.stdout.is_empty())
    };
    packages.iter().find(is_known).unwrap_or(&packages[0])
}

fn apt_get(is_root: bool, arguments: &[&str]) -> Result<(), String> {
    let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
    if !is_root {
        command.args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    }
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let status = command.status().map_err(|e| format!("cannot run apt-get: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("apt-get {} ended with {status}", arguments.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_a_version_in_their_paths() {
        let scratch = paths::Scratch::new("install", false).unwrap();
        let dir = scratch.path().display().to_string();
        std::fs::create_dir_all(scratch.path().join("8.2/mods")).unwrap();
        std::fs::write(scratch.path().join("8.2/mods/a.ini"), "").unwrap();
        std::fs::write(scratch.path().join("lib8.2.so"), "").unwrap();
        for (before, after, expected) in
            [("/", "/mods/a.ini", true), ("/", "/mods/b.ini", false), ("/lib", ".so", true), ("/lib", ".a", false)]
        {
            assert_eq!(has_a_version(&format!("{dir}{before}"), after), expected, "{before}*{after}");
        }
    }
}
