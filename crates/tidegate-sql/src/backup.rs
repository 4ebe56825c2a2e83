//! A copy of a schema while it is in use.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use tidegate_rows::ServerError;

use crate::{
    engine::Engine,
    errors,
    file_names::COPY_SUFFIX,
    other_programs,
    store::conn::{check_file, quote, to_server_error},
    task,
};

/// Gives the file to its owner alone, and to the disk.
fn make_durable(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.sync_all()
}

impl Engine {
    /// Copies a schema as it is at this moment into a new file of the data directory, on the disk when this ends. The
    /// caller moves the file to where it belongs; under the name `SCHEMA.db` it is a schema of another data directory.
    ///
    /// Commits go on meanwhile. The copying itself writes on the calling thread.
    ///
    /// # Errors
    /// 1049 if the schema does not exist, storage errors.
    pub async fn backup(&self, schema: &str) -> Result<PathBuf, ServerError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let session = self.session("")?;
        let source = self.inner.schema(schema)?;
        let mut copy = source.path.clone().into_os_string();
        copy.push(format!("-{}{COPY_SUFFIX}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let copy = PathBuf::from(copy);
        let sql = format!("VACUUM INTO {}", quote(&copy.to_string_lossy()));
        let ran = task::run(session.env(), sql.as_bytes(), || {
            let conn = source.open()?;
            conn.execute(&sql).map_err(|error| to_server_error(&error))?;
            other_programs::show_in_copy(&copy)
        });
        let done = match ran.await {
            Ok(Ok(())) => make_durable(&copy).map_err(errors::storage),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(errors::out_of_memory()),
        };
        if let Err(error) = done {
            let _ = fs::remove_file(&copy);
            return Err(error);
        }
        Ok(copy)
    }

    /// Makes a schema of the copy that stands ready under [`file_to_restore`](crate::file_to_restore) in the data directory.
    /// Reads all of it on the calling thread.
    ///
    /// # Errors
    /// 1007 if the schema exists, 1034 if the file is no copy of a schema or damaged, storage errors.
    pub fn restore(&self, schema: &str) -> Result<(), ServerError> {
        self.inner.directory.restore_schema(schema)
    }

    /// Checks a schema's file from end to end: pages, order, indexes against their tables.
    ///
    /// # Errors
    /// 1049 if the schema does not exist; what is wrong with the file.
    pub async fn check(&self, schema: &str) -> Result<(), ServerError> {
        let session = self.session("")?;
        let schema = self.inner.schema(schema)?;
        let ran = task::run(session.env(), b"", || {
            let conn = schema.open()?;
            check_file(&conn)
        });
        ran.await.unwrap_or_else(|_| Err(errors::out_of_memory()))
    }
}
