//! `tidegate demo`: writes a sample site into a directory and serves it.
//!
//! The site is `examples/demo/` of the source tree. What a person changes in the directory is kept, so the demo is a place
//! to try things out. The files as they were written stand in `.written` there, too: a file that nobody has changed since
//! is replaced by that of a newer version.

mod tools;

use std::{
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::identity::Identity;

/// Port that the site is served on; `TIDEGATE_DEMO_PORT` names another.
const PORT_DEFAULT: u16 = 8080;

/// The files of the site.
const FILES: [(&str, &str); 21] = [
    ("nginx.conf", include_str!("../../../examples/demo/nginx.conf")),
    ("mime.types", include_str!("../../../examples/demo/mime.types")),
    ("world.sql", include_str!("../../../examples/demo/world.sql")),
    ("html/index.html", include_str!("../../../examples/demo/html/index.html")),
    ("html/page.html", include_str!("../../../examples/demo/html/page.html")),
    ("html/hello.php", include_str!("../../../examples/demo/html/hello.php")),
    ("fastcgi.conf", include_str!("../../../conf/fastcgi.conf")),
    ("lua/retwis/app.lua", include_str!("../../../examples/retwis/lua/retwis/app.lua")),
    ("lua/retwis/password.lua", include_str!("../../../examples/retwis/lua/retwis/password.lua")),
    ("lua/retwis/store_redis.lua", include_str!("../../../examples/retwis/lua/retwis/store_redis.lua")),
    ("lua/retwis/store_sql.lua", include_str!("../../../examples/retwis/lua/retwis/store_sql.lua")),
    ("lua/retwis/template.lua", include_str!("../../../examples/retwis/lua/retwis/template.lua")),
    ("retwis/home.html", include_str!("../../../examples/retwis/templates/home.html")),
    ("retwis/layout.html", include_str!("../../../examples/retwis/templates/layout.html")),
    ("retwis/posts.html", include_str!("../../../examples/retwis/templates/posts.html")),
    ("retwis/problem.html", include_str!("../../../examples/retwis/templates/problem.html")),
    ("retwis/profile.html", include_str!("../../../examples/retwis/templates/profile.html")),
    ("retwis/timeline.html", include_str!("../../../examples/retwis/templates/timeline.html")),
    ("retwis/welcome.html", include_str!("../../../examples/retwis/templates/welcome.html")),
    ("retwis.sql", include_str!("../../../examples/retwis/retwis.sql")),
    ("html/retwis/style.css", include_str!("../../../examples/retwis/html/style.css")),
];

/// What `tidegate demo --help` prints.
pub(crate) const HELP: &str = "Usage: tidegate demo [DIRECTORY]

Writes a sample site into DIRECTORY (default: tidegate-demo in the directory for temporary files) and serves it on
http://127.0.0.1:8080 until Ctrl-C. Files that are there are kept: the site is yours to change.
Where php-fpm and memcached are installed, the demo starts them for itself.

Environment:
  TIDEGATE_DEMO_PORT : serve on this port instead of 8080

Options:
  -h, --help         : this help

";

/// Directory with the files as they were written last.
const WRITTEN: &str = ".written";

/// What stands before the port in the configuration.
const LISTEN: &str = "listen 127.0.0.1:";

/// What there is to try.
const TRY: [&str; 13] = [
    "/",
    "/cities",
    "/cities.csv",
    "/search?q=ba",
    "/hello?name=you",
    "/report",
    "/cached",
    "/api",
    "/hello.php?name=you",
    "/page?name=you",
    "/transfer?amount=10",
    "/sleepers",
    "/retwis/",
];

/// Writes the site and serves it in the foreground.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let (directory, is_shared) = match arguments {
        [] => (std::env::temp_dir().join("tidegate-demo"), true),
        [directory] if !directory.as_encoded_bytes().starts_with(b"-") => (PathBuf::from(directory), false),
        _ => {
            eprintln!("tidegate: usage: tidegate demo [DIRECTORY]; `tidegate demo --help` tells more");
            return 1;
        }
    };
    let port = match std::env::var("TIDEGATE_DEMO_PORT").map(|port| port.parse()) {
        Err(_) => None,
        Ok(Ok(port)) => Some(port),
        Ok(Err(_)) => {
            eprintln!("tidegate: TIDEGATE_DEMO_PORT is not a port");
            return 1;
        }
    };
    if is_shared && let Err(problem) = claim(&directory) {
        eprintln!("tidegate: {}: {problem}; \"tidegate demo DIRECTORY\" takes another one", directory.display());
        return 1;
    }
    let written = write_site(&directory, port).and_then(|port| Ok((directory.canonicalize()?, port)));
    let (directory, port) = match written {
        Ok(written) => written,
        Err(error) => {
            eprintln!("tidegate: cannot write the demo to {}: {error}", directory.display());
            return 1;
        }
    };
    if let Some(free) = other_port(port) {
        eprintln!("tidegate: TIDEGATE_DEMO_PORT={free} tidegate demo takes another port; {port} is in use");
        return 1;
    }
    introduce(&directory, port);
    // The sockets of other programs are named from here: the path of a socket has little room.
    if let Err(error) = std::env::set_current_dir(&directory) {
        eprintln!("tidegate: {}: {error}", directory.display());
        return 1;
    }
    let _tools = tools::start(&directory);
    let mut prefix = directory.clone().into_os_string();
    prefix.push("/");
    let arguments: Vec<OsString> = vec![
        "-p".into(),
        prefix,
        "-c".into(),
        directory.join("nginx.conf").into(),
        "-g".into(),
        "daemon off; master_process off;".into(),
    ];
    crate::run(Identity::Tidegate, &arguments)
}

/// Says what there is.
fn introduce(directory: &Path, port: u16) {
    println!("The demo's files are in {}; the configuration is nginx.conf there.", directory.display());
    println!("Its database meanwhile: tidegate sql --data {} world", directory.join("data").display());
    println!(
        "For programs of MySQL and MariaDB: mysql -S {} -u demo -pdemo world",
        directory.join("mysql.sock").display()
    );
    println!("Try, and stop with Ctrl-C:");
    for path in TRY {
        println!("  http://127.0.0.1:{port}{path}");
    }
}

/// A port to take instead, if somebody listens on `port` already.
fn other_port(port: u16) -> Option<u16> {
    let is_used = |port: u16| {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    };
    is_used(port).then(|| (port..=u16::MAX).skip(1).find(|port| !is_used(*port)).unwrap_or(PORT_DEFAULT))
}

/// Makes the directory, where everybody may make one of this name: what somebody else has put there is not to be run.
fn claim(directory: &Path) -> Result<(), String> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map_err(|error| error.to_string()),
    }
    let found = fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
    let is_ours = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if is_ours { Ok(()) } else { Err("belongs to somebody else".to_owned()) }
}

/// Writes what is not there yet or has not been changed since it was written; answers the port of the configuration, which
/// is `port` if there is one.
fn write_site(directory: &Path, port: Option<u16>) -> io::Result<u16> {
    let written = directory.join(WRITTEN);
    fs::create_dir_all(directory.join("logs"))?;
    let conf = fs::read_to_string(directory.join("nginx.conf")).ok();
    let port = port.or_else(|| port_of(conf.as_deref()?)).unwrap_or(PORT_DEFAULT);
    for (name, text) in FILES {
        let (path, written) = (directory.join(name), written.join(name));
        for file in [&path, &written] {
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
        }
        let there = fs::read_to_string(&path).ok();
        let before = fs::read_to_string(&written).ok();
        let is_same = |other: &Option<String>| there.as_deref().map(plain) == other.as_deref().map(plain);
        if there.is_none() || is_same(&before) {
            write_if_other(&path, there.as_deref(), &with_port(text, port))?;
        } else if before.as_deref() != Some(text) && !is_same(&Some(text.to_owned())) {
            println!("{name} is kept: it is not as this version would write it. Remove it to have it written again.");
        }
        write_if_other(&written, before.as_deref(), text)?;
    }
    let path = directory.join("nginx.conf");
    let conf = fs::read_to_string(&path)?;
    write_if_other(&path, Some(&conf), &with_port(&conf, port))?;
    Ok(port)
}

fn write_if_other(path: &Path, there: Option<&str>, text: &str) -> io::Result<()> {
    if there == Some(text) { Ok(()) } else { fs::write(path, text) }
}

/// The text before the port of a configuration, the port, and the text behind it.
fn around_port(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(LISTEN)?;
    let (port, after) = rest.split_once(';')?;
    Some((before, port, after))
}

fn port_of(conf: &str) -> Option<u16> {
    around_port(conf)?.1.parse().ok()
}

/// A file that serves on a port, if it says on which.
fn with_port(text: &str, port: u16) -> String {
    match around_port(text) {
        Some((before, _, after)) => format!("{before}{LISTEN}{port};{after}"),
        None => text.to_owned(),
    }
}

/// A file whatever its port.
fn plain(text: &str) -> String {
    with_port(text, PORT_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_in_use() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        assert!(other_port(port).is_some_and(|other| other != port));
        drop(taken);
        assert_eq!(other_port(port), None);
    }

    #[test]
    fn a_directory_that_is_kept() {
        let directory = std::env::temp_dir().join(format!("tidegate-demo-test-{}", std::process::id()));
        assert_eq!(claim(&directory), Ok(()));
        assert_eq!(write_site(&directory, None).expect("written"), PORT_DEFAULT);
        assert_eq!(write_site(&directory, Some(4711)).expect("written"), 4711, "another port");
        assert_eq!(write_site(&directory, None).expect("written"), 4711, "the port of the file");
        let conf = fs::read_to_string(directory.join("nginx.conf")).expect("there");
        assert!(conf.contains("listen 127.0.0.1:4711;"), "{conf}");
        assert_eq!(claim(&directory), Ok(()), "it is still ours");
        // An older version has written the page; a person has changed the configuration.
        let page = directory.join("html/index.html");
        fs::write(&page, "old").expect("written");
        fs::write(directory.join(WRITTEN).join("html/index.html"), "old").expect("written");
        fs::write(directory.join("nginx.conf"), format!("# mine\n{conf}")).expect("written");
        assert_eq!(write_site(&directory, None).expect("written"), 4711);
        assert_eq!(fs::read_to_string(&page).expect("there"), FILES[3].1);
        assert!(fs::read_to_string(directory.join("nginx.conf")).expect("there").starts_with("# mine"));
        fs::write(&page, "mine").expect("written");
        assert_eq!(write_site(&directory, None).expect("written"), 4711);
        assert_eq!(fs::read_to_string(&page).expect("there"), "mine");
        fs::remove_dir_all(&directory).expect("there");
        std::os::unix::fs::symlink("/", &directory).expect("linked");
        assert!(claim(&directory).is_err(), "a link");
        fs::remove_file(&directory).expect("there");
    }
}
