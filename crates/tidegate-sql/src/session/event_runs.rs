//! When events have run, as the files of their schemas say it.

use std::sync::Arc;

use super::{Core, Res, pool::Pool, waiting::acquire_for};
use crate::{
    catalog_file::programs,
    parse::program::event::Event,
    schema::Schema,
    store::conn::{Conn, to_server_error},
};

/// Has the file say that an event runs at a moment, in seconds since 1970, by a short transaction of its own.
///
/// # Errors
/// 1205, storage errors.
pub(crate) fn note(core: &Core, schema: &Arc<Schema>, event: &Event, at: i64) -> Res<()> {
    schema.may_write()?;
    let guard = acquire_for(schema, &core.env, &[])?;
    let pool = Pool::of(schema);
    let mut conn = pool.take()?;
    let noted = write(&mut conn, schema, event, at);
    if noted.is_err() {
        conn.rollback();
    }
    pool.put(conn);
    drop(guard);
    noted?;
    core.make_durable(schema)
}

/// The transaction. The definitions stay what they are: no plan is made anew.
fn write(conn: &mut Conn, schema: &Schema, event: &Event, at: i64) -> Res<()> {
    let internal = |error| to_server_error(&error);
    conn.begin_immediate().map_err(internal)?;
    programs::note_run(conn, &event.kept, at).map_err(internal)?;
    let reserved = schema.commits.reserve(conn)?;
    conn.commit().map_err(internal)?;
    schema.note_commit(reserved, std::iter::empty());
    Ok(())
}
