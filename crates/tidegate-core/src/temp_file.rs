//! Names of temporary files: bodies of requests, responses that wait for slow clients, responses that are being stored.
//!
//! All of them are made here. Another process may use the same directory (the binary that this one takes the place of, or
//! one that was killed and left its files), so a name is only this file's once the system has made the file anew. Numbers begin
//! anywhere: one process after another would otherwise meet the files of those before it one by one.

use std::{
    fs::{self, File},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Names have ten digits, as in nginx.
const NUMBER_MAX: u64 = 9_999_999_999;

/// Names that are tried. Where so many are taken by chance the directory is beyond use.
const TRIES_MAX: usize = 100;

/// Only the server's user may read what passes through.
///
/// Source: nginx, `NGX_FILE_OWNER_ACCESS`.
const MODE: u32 = 0o600;

static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(random()));

/// Why there is no temporary file.
#[derive(Debug, thiserror::Error)]
#[error("open() \"{}\" failed", path.display())]
pub(crate) struct CreateError {
    /// The name that was tried last.
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

/// Makes a new file in `directory`, and the directory if it is not there; gives the file, to read and write, and its path.
///
/// # Errors
/// [`CreateError`]: the system refuses, or all names that were tried are taken.
pub(crate) fn create(directory: &Path) -> Result<(File, PathBuf), CreateError> {
    create_numbered(directory, "", numbers())
}

/// Makes a new file beside `target`, whose name begins like that of the other.
///
/// # Errors
/// As [`create`].
pub(crate) fn create_beside(target: &Path) -> Result<(File, PathBuf), CreateError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    create_numbered(target.parent().unwrap_or(Path::new("/")), &format!("{name}."), numbers())
}

fn numbers() -> impl Iterator<Item = u64> {
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    std::iter::once(first).chain(std::iter::repeat_with(jump)).take(TRIES_MAX)
}

fn create_numbered(
    directory: &Path,
    prefix: &str,
    numbers: impl Iterator<Item = u64>,
) -> Result<(File, PathBuf), CreateError> {
    let mut refused = None;
    for number in numbers {
        let path = directory.join(format!("{prefix}{:010}", number % (NUMBER_MAX + 1)));
        let open = || File::options().read(true).write(true).create_new(true).mode(MODE).open(&path);
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_directory(directory).and_then(|()| open()),
            opened => opened,
        };
        match opened {
            Ok(file) => return Ok((file, path)),
            Err(source) => {
                let is_taken = source.kind() == io::ErrorKind::AlreadyExists;
                refused = Some(CreateError { path, source });
                if !is_taken {
                    break;
                }
            }
        }
    }
    Err(refused
        .unwrap_or_else(|| CreateError { path: directory.to_owned(), source: io::ErrorKind::AlreadyExists.into() }))
}

/// Makes a directory that only the server's user can look into, and those above it.
fn create_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(MODE | 0o100).create(directory)
}

/// Goes on from elsewhere: the neighbours of a name that is taken are probably taken too.
#[cold]
fn jump() -> u64 {
    let number = random();
    NEXT.store(number + 1, Ordering::Relaxed);
    number
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish() % (NUMBER_MAX + 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A directory that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Scratch(std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let scratch = Scratch::new("taken-names");
        let directory = scratch.0.join("made/here");
        let (mut file, path) = create_numbered(&directory, "", 7..9).expect("a file");
        assert!(path.ends_with("0000000007"));
        file.write_all(b"kept").expect("written");
        let (_, other) = create_numbered(&directory, "", 7..9).expect("a file");
        assert!(other.ends_with("0000000008"));
        assert_eq!(fs::read(&path).expect("read"), b"kept");
        let error = create_numbered(&directory, "", 7..9).expect_err("both names are taken");
        assert_eq!((error.source.kind(), error.path), (io::ErrorKind::AlreadyExists, other));
    }

    #[test]
    fn names_differ() {
        let scratch = Scratch::new("names");
        let names: std::collections::HashSet<_> = (0..100).map(|_| create(&scratch.0).expect("a file").1).collect();
        assert_eq!(names.len(), 100);
    }
}
