//! `--backup`: copies of schemas while they are in use.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Failure;
use super::client::Client;

/// Schemas that have no file.
const VIRTUAL: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

/// Copies a schema into `target`, or all of them into the directory `target`.
///
/// # Errors
/// The server's, or the file system's. A target that exists is left alone.
pub(super) fn run(client: &mut Client, schema: Option<&str>, target: &Path) -> Result<(), Failure> {
    if let Some(schema) = schema {
        return copy(client, schema, target);
    }
    let schemas = schemas(client)?;
    if let [only] = schemas.as_slice()
        && !target.is_dir()
    {
        return copy(client, only, target);
    }
    fs::create_dir_all(target).map_err(|error| named(target, &error))?;
    for schema in schemas {
        let file = tidegate_sql::file_of_schema(&schema);
        copy(client, &schema, &target.join(file))?;
    }
    Ok(())
}

/// The schemas that have a file.
///
/// # Errors
/// The server's.
pub(super) fn schemas(client: &mut Client) -> Result<Vec<String>, Failure> {
    let names = client.rows("SHOW DATABASES")?.into_iter().flatten();
    Ok(names.filter(|name| !VIRTUAL.contains(&name.as_str())).collect())
}

fn named(path: &Path, error: &io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

fn copy(client: &mut Client, schema: &str, target: &Path) -> Result<(), Failure> {
    if target.exists() {
        return Err(Failure::Other(format!("{} exists", target.display())));
    }
    let made: PathBuf = client.copy(schema)?;
    let moved = move_file(&made, target);
    if moved.is_err() {
        let _ = fs::remove_file(&made);
    }
    moved.map_err(|error| named(target, &error))
}

/// Moves a file, to another file system if need be.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
        moved => return moved,
    }
    let mut target = File::create_new(to)?;
    io::copy(&mut File::open(from)?, &mut target)?;
    target.sync_all()?;
    fs::remove_file(from)
}
