//! `--backup`: copies of schemas while they are in use; `--restore`: schemas of such copies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
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
    fs::create_dir_all(target).map_err(|error| named(target, &error))?;
    for schema in schemas {
        let file = tidegate_sql::file_of_schema(&schema);
        copy(client, &schema, &target.join(file))?;
    }
    Ok(())
}

/// Makes a schema of a copy, or schemas of all copies in the directory `source`. `data` is the data directory.
///
/// # Errors
/// 1007 for a schema that exists, the server's, or the file system's.
pub(super) fn restore(client: &mut Client, schema: Option<&str>, source: &Path, data: &Path) -> Result<(), Failure> {
    if !source.is_dir() {
        let name = schema.map(str::to_owned).or_else(|| schema_of(source));
        let name = name.ok_or_else(|| {
            Failure::Other(format!("{}: which schema? \"tidegate sql SCHEMA --restore FILE\"", source.display()))
        })?;
        return restore_one(client, &name, source, data);
    }
    let mut copies = Vec::new();
    for entry in fs::read_dir(source).map_err(|error| named(source, &error))? {
        let path = entry.map_err(|error| named(source, &error))?.path();
        copies.extend(
            schema_of(&path).filter(|name| schema.is_none_or(|wanted| wanted == name)).map(|name| (name, path)),
        );
    }
    if copies.is_empty() {
        return Err(Failure::Other(format!("{}: no copies of schemas there", source.display())));
    }
    copies.sort();
    copies.iter().try_for_each(|(name, path)| restore_one(client, name, path, data))
}

fn schema_of(copy: &Path) -> Option<String> {
    tidegate_sql::schema_of_file(copy.file_name()?.to_str()?)
}

fn restore_one(client: &mut Client, schema: &str, copy: &Path, data: &Path) -> Result<(), Failure> {
    let ready = data.join(tidegate_sql::file_to_restore(schema));
    let _ = fs::remove_file(&ready);
    let copied = File::options().write(true).create_new(true).mode(0o600).open(&ready).and_then(|mut to| {
        // The server makes the schema, and it runs as another user than who restores.
        let owner = fs::metadata(data)?;
        fchown(&to, Some(owner.uid()), Some(owner.gid()))?;
        io::copy(&mut File::open(copy)?, &mut to)?;
        to.sync_all()
    });
    let done = copied.map_err(|error| named(copy, &error)).and_then(|()| client.restore(schema));
    // It has become the schema's file, or is of no use.
    let _ = fs::remove_file(&ready);
    done
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
