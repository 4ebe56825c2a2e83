//! ANALYZE TABLE.

use super::{Core, Res, waiting::acquire};
use crate::{
    session::pool::Pool,
    store::{conn::to_server_error, statistics},
};

impl Core {
    /// Renews what the planner knows of a table. Others may read and change it meanwhile, but for the moment that this has the write
    /// lock. The open transaction is committed.
    ///
    /// # Errors
    /// 1205 if others keep the write lock for too long, storage errors.
    pub(crate) fn analyse(&mut self, schema: &str, name: &str) -> Res<()> {
        self.commit_open()?;
        let schema = self.engine.schema(schema)?;
        schema.may_write()?;
        let guard = acquire(&schema, &self.env)?;
        let Some(table) = schema.catalog()?.table(name).filter(|table| !table.is_view()).cloned() else {
            return Ok(());
        };
        let pool = Pool::of(&schema);
        let mut conn = pool.take()?;
        let renewed = conn
            .begin_immediate()
            .and_then(|()| statistics::renew(&conn, &mut std::iter::once(table)))
            .and_then(|()| conn.commit());
        if renewed.is_err() {
            conn.rollback();
        }
        pool.put(conn);
        drop(guard);
        renewed.map_err(|error| to_server_error(&error))?;
        self.make_durable(&schema)
    }
}
