//! `tidegate demo`: writes a sample site into a directory and serves it.
//!
//! The site is `examples/demo/` of the source tree. What a person changes in the directory is kept: files that exist are
//! not written again, so the demo is a place to try things out.

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
const FILES: [(&str, &str); 4] = [
    ("nginx.conf", include_str!("../../../examples/demo/nginx.conf")),
    ("mime.types", include_str!("../../../examples/demo/mime.types")),
    ("world.sql", include_str!("../../../examples/demo/world.sql")),
    ("html/index.html", include_str!("../../../examples/demo/html/index.html")),
];

/// What `tidegate demo --help` prints.
pub(crate) const HELP: &str = "Usage: tidegate demo [DIRECTORY]

Writes a sample site into DIRECTORY (default: tidegate-demo in the directory for temporary files) and serves it on
http://127.0.0.1:8080 until Ctrl-C. Files that are there are kept: the site is yours to change.

Environment:
  TIDEGATE_DEMO_PORT : serve on this port instead of 8080

Options:
  -h, --help         : this help

";

/// What stands before the port in the configuration.
const LISTEN: &str = "listen 127.0.0.1:";

/// What there is to try.
const TRY: [&str; 8] =
    ["/", "/cities", "/cities.csv", "/search?q=ba", "/hello?name=you", "/report", "/transfer?amount=10", "/sleepers"];

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
    println!("The demo's files are in {}; the configuration is nginx.conf there.", directory.display());
    println!("Its database meanwhile: tidegate sql --data {} world", directory.join("data").display());
    println!("Try, and stop with Ctrl-C:");
    for path in TRY {
        println!("  http://127.0.0.1:{port}{path}");
    }
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

/// Writes what is not there yet; answers the port of the configuration, which is `port` if there is one.
fn write_site(directory: &Path, port: Option<u16>) -> io::Result<u16> {
    for directory in [directory.join("logs"), directory.join("html")] {
        fs::create_dir_all(directory)?;
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        if !path.exists() {
            fs::write(path, text)?;
        }
    }
    let path = directory.join("nginx.conf");
    let text = fs::read_to_string(&path)?;
    let parts = text.split_once(LISTEN).and_then(|(before, rest)| Some((before, rest.split_once(';')?)));
    let Some((before, (written, after))) = parts else { return Ok(port.unwrap_or(PORT_DEFAULT)) };
    let wanted = port.or(written.parse().ok()).unwrap_or(PORT_DEFAULT);
    if written != wanted.to_string() {
        fs::write(&path, format!("{before}{LISTEN}{wanted};{after}"))?;
    }
    Ok(wanted)
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
        fs::remove_dir_all(&directory).expect("there");
        std::os::unix::fs::symlink("/", &directory).expect("linked");
        assert!(claim(&directory).is_err(), "a link");
        fs::remove_file(&directory).expect("there");
    }
}
