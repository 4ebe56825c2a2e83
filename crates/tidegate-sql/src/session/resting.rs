//! A transaction between two statements: what it holds rests with the engine, which can end it ([`crate::schema::transactions`]).

use std::{
    rc::Rc,
    sync::{Arc, Weak, atomic::Ordering},
};

use super::{
    Res,
    transaction::{Place, Transaction},
};
use crate::{
    env::Env,
    errors,
    row_locks::Owner,
    schema::transactions::{Bulk, Ended, Held, Open},
    session::pool::Pool,
    store::private::former::Former,
};

/// What stays with the session while its transaction rests.
#[derive(Default)]
pub(super) struct Resting {
    /// `None` for a statement alone, which never rests.
    open: Option<Arc<Open>>,
    /// Of each place, in their order, what is not in `open`.
    kept: Vec<Kept>,
}

struct Kept {
    pool: Rc<Pool>,
    owner: Option<Arc<Owner>>,
    former: Option<Former>,
}

impl Resting {
    pub(super) fn of(open: Arc<Open>) -> Self {
        Self { open: Some(open), kept: Vec::new() }
    }

    /// Shows others whether the transaction only reads.
    pub(super) fn shows_read_only(&self, read_only: bool) {
        if let Some(open) = &self.open {
            open.read_only.store(read_only, Ordering::Relaxed);
        }
    }

    /// The transaction, as others see it.
    pub(super) fn open(&self) -> Weak<Open> {
        self.open.as_ref().map_or_else(Weak::new, Arc::downgrade)
    }
}

impl Transaction {
    /// Goes on with the transaction.
    ///
    /// # Errors
    /// 1927 if it was ended while it rested; there is nothing left of it then.
    pub(super) fn resume(&mut self) -> Res<()> {
        let Resting { open: Some(open), kept } = &mut self.resting else { return Ok(()) };
        let (transaction, connection_id) = (Arc::downgrade(open), open.client.id);
        let mut kept = kept.drain(..);
        let resumed = open.resume(|held| {
            let Held { schema: _, conn, guard, defined, reader, owner: _, bulk, left } = held;
            if let Some(Kept { pool, owner, former }) = kept.next() {
                let transaction = transaction.clone();
                let former = former.or(bulk.map(|bulk| bulk.former));
                if let Some(left) = left {
                    pool.put(left);
                }
                self.places.push(Place {
                    conn,
                    pool,
                    guard,
                    former,
                    defined,
                    turn: None,
                    reader,
                    owner,
                    transaction,
                    connection_id,
                });
            }
        });
        drop(kept);
        resumed.map_err(|Ended| match self.has_ended() {
            true => errors::read_for_too_long(),
            false => errors::connection_killed(),
        })
    }

    /// Shows others which statement runs.
    pub(super) fn runs(&self, sql: &[u8]) {
        if let Some(open) = &self.resting.open {
            open.runs(sql.trim_ascii().strip_suffix(b";").unwrap_or(sql.trim_ascii()));
        }
    }

    /// Leaves the transaction alone until its session's next statement.
    pub(super) fn rest(&mut self, env: &Env) {
        let writes = self.places.iter_mut().any(|place| place.guard.is_some() || place.has_private_changes());
        let Resting { open: Some(open), kept } = &mut self.resting else { return };
        let (touched, savepoints) = (&self.touched, &self.savepoints);
        let held = self.places.drain(..).map(|place| {
            let Place { conn, pool, guard, former, defined, turn: _, reader, owner, transaction: _, connection_id: _ } =
                place;
            let schema = Arc::clone(&pool.schema);
            let owner_id = owner.as_ref().map(|owner| owner.id());
            let mut former = former;
            let bulk = match &owner {
                Some(owner) if guard.is_some() => former
                    .take_if(|former| former.knows(savepoints))
                    .map(|former| Bulk { former, tables: touched.clone(), owner: Arc::clone(owner) }),
                _ => None,
            };
            kept.push(Kept { pool, owner, former });
            Held { schema, conn, guard, defined, reader, owner: owner_id, bulk, left: None }
        });
        open.rest(env.idle_limits.get().of(writes), self.changed, held);
    }

    /// Has what rests back, to give it up.
    pub(super) fn take_back(&mut self) {
        // Whether it was ended does not matter any more.
        let _ = self.resume();
    }
}
