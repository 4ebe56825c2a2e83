//! `tidegate demo`: writes a sample site into a directory and serves it.
//!
//! The site is `examples/demo/` of the source tree. What a person changes in the directory is kept: files that exist are
//! not written again, so the demo is a place to try things out.

use std::{
    ffi::OsString,
    fs, io,
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

/// What there is to try.
const TRY: [&str; 8] =
    ["/", "/cities", "/cities.csv", "/search?q=ba", "/hello?name=you", "/report", "/transfer?amount=10", "/sleepers"];

/// Writes the site and serves it in the foreground.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let directory = match arguments {
        [] => std::env::temp_dir().join("tidegate-demo"),
        [directory] => PathBuf::from(directory),
        _ => {
            eprintln!("tidegate: usage: tidegate demo [DIRECTORY]");
            return 1;
        }
    };
    let port = match std::env::var("TIDEGATE_DEMO_PORT").map(|port| port.parse()) {
        Err(_) => PORT_DEFAULT,
        Ok(Ok(port)) => port,
        Ok(Err(_)) => {
            eprintln!("tidegate: TIDEGATE_DEMO_PORT is not a port");
            return 1;
        }
    };
    let directory = match write_site(&directory, port).and_then(|()| directory.canonicalize()) {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("tidegate: cannot write the demo to {}: {error}", directory.display());
            return 1;
        }
    };
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

fn write_site(directory: &Path, port: u16) -> io::Result<()> {
    for directory in [directory.join("logs"), directory.join("html")] {
        fs::create_dir_all(directory)?;
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        if !path.exists() {
            fs::write(path, text.replace("DEMO_PORT", &port.to_string()))?;
        }
    }
    Ok(())
}
