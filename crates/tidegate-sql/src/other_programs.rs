//! What other programs find in a schema's file, when the engine leaves it to them.

use std::{
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use tidegate_rows::ServerError;

use crate::{
    catalog_file::{self, views},
    directory::Directory,
    schema::Schema,
    settings::Settings,
    store::conn::{Conn, SqliteError, to_server_error},
};

/// How long a statement that writes while the process ends is waited for.
const WRITER_ENDS: Duration = Duration::from_millis(100);
/// How long all files together may take. A supervisor ends a process a second after TERM, and then a log would stay behind anyway.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Shows the tables of a copy under their names. Nobody else has it open.
///
/// # Errors
/// Storage errors: the copy may be spoilt then.
pub(crate) fn show_in_copy(path: &Path) -> Result<(), ServerError> {
    let internal = |error: SqliteError| to_server_error(&error);
    let mut conn = Conn::open_copy(path).map_err(internal)?;
    if let Some(catalog) = catalog_file::load(&conn, None)? {
        conn.begin_immediate().map_err(internal)?;
        views::show(&conn, catalog.tables.values().map(AsRef::as_ref)).map_err(internal)?;
        conn.commit().map_err(internal)?;
    }
    Ok(())
}

/// Leaves the files of a directory, as far as nobody writes to them for long.
pub(crate) fn leave(directory: &Directory, settings: &Settings) {
    let begun = Instant::now();
    for schema in directory.schemas() {
        if begun.elapsed() >= LEAVE_MAX {
            settings.report("not all files of the database were left to other programs: there was no time");
            return;
        }
        if let Err(error) = schema.leave() {
            let name = &schema.name;
            settings.report(&format!("other programs do not find the tables of schema \"{name}\": {}", error.message));
        }
    }
}

impl Schema {
    /// Moves the log into the file and cuts it to nothing, and shows the tables under their names, if the file does not.
    ///
    /// # Errors
    /// Storage errors: the file has the same tables as before.
    fn leave(&self) -> Result<(), ServerError> {
        let Some(catalog) = self.catalog_in_use().filter(|_| !self.is_lost() && !self.sync.has_failed()) else {
            return Ok(());
        };
        let Some(_writer) = self.writer.acquire_within(WRITER_ENDS) else { return Ok(()) };
        if self.is_dropped() {
            return Ok(());
        }
        let mut conn = self.open_to_leave()?;
        let mut show = || -> Result<(), SqliteError> {
            // A log that somebody still reads stays.
            conn.empty_log()?;
            if self.views_wanted.load(Ordering::Acquire) {
                conn.begin_immediate()?;
                views::show(&conn, catalog.tables.values().map(AsRef::as_ref))?;
                conn.commit()?;
                self.views_wanted.store(false, Ordering::Release);
                conn.empty_log()?;
            }
            Ok(())
        };
        show().map_err(|error| to_server_error(&error))
    }
}
