//! Programs that tests talk to and that are had as Go packages: built once, below `target/go`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of a package, e.g. `example.com/tool/cmd/tool@v1.0.0`. Several tests may want it at the same time.
#[track_caller]
pub(crate) fn go_tool(package: &str) -> PathBuf {
    let (path, version) = package.split_once('@').expect("a version");
    let name = path.rsplit('/').next().expect("a name");
    // The test's own program is in `target/debug/deps`.
    let target = Path::new(env!("CARGO_BIN_EXE_tidegate")).ancestors().nth(2).expect("the target directory");
    let directory = target.join("go").join(format!("{name}-{version}"));
    let program = directory.join(name);
    fs::create_dir_all(&directory).expect("a directory");
    let lock = File::create(directory.join("lock")).expect("a file");
    lock.lock().expect("locked");
    if !program.exists() {
        // `go install` writes a program in pieces; a name is given to a whole one.
        let new = directory.join("new");
        let built = Command::new("go").args(["install", package]).env("GOBIN", &new).output();
        let built = built.unwrap_or_else(|error| panic!("go: {error}: `cargo xtask install tests` installs it"));
        assert!(built.status.success(), "{package}: {}", String::from_utf8_lossy(&built.stderr));
        fs::rename(new.join(name), &program).expect("renamed");
    }
    program
}
