//! How a session comes by numbers of sequences that are not in memory.
//!
//! Outside of statements that write, the file is told of numbers in a short transaction of its own, and they are given when that is
//! on the disk. Whoever holds the write lock already writes with its own changes what the file has to say.

use std::sync::Arc;

use super::{Res, pool::Pool, transaction::make_durable, waiting::acquire};
use crate::{
    catalog::{
        Table,
        sequence::{Mark, Numbers, Row},
    },
    env::{
        Env,
        sequences::{Reserve, run_out},
    },
    errors,
    schema::Schema,
    store::conn::{Cell, Conn, Step, to_server_error},
};

/// Reads the row of a sequence.
///
/// # Errors
/// Storage errors.
pub(crate) fn read_row(conn: &Conn, table: &Table) -> Res<Row> {
    let internal = |error| to_server_error(&error);
    let columns: Vec<String> = table.columns.iter().map(|column| format!("c{}", column.id)).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), table.physical());
    let mut stmt = conn.prepare(&sql).map_err(internal)?;
    if stmt.step().map_err(internal)? != Step::Row {
        return Err(errors::storage(format!("the sequence {} has no row", table.name)));
    }
    Ok(Row::of(std::array::from_fn(|index| if let Cell::Int(value) = stmt.cell(index) { value } else { 0 })))
}

/// Has the file say where a sequence stands, inside of the caller's transaction.
///
/// # Errors
/// Storage errors.
fn write_mark(conn: &mut Conn, table: &Table, mark: Mark) -> Res<()> {
    let [next, .., round] = table.columns.as_slice() else {
        return Err(errors::internal("a sequence without columns"));
    };
    let sql = format!("UPDATE {} SET c{} = ?1, c{} = ?2", table.physical(), next.id, round.id);
    let values = [Cell::Int(mark.next), Cell::Int(mark.round)];
    conn.run_kept(&sql, values.into_iter()).map(drop).map_err(|error| to_server_error(&error))
}

/// Writes what a statement has taken beyond what the file says, with its changes.
///
/// # Errors
/// Storage errors.
pub(crate) fn write_marks(env: &Env, conn: &mut Conn) -> Res<()> {
    env.marks().iter().try_for_each(|(table, mark)| write_mark(conn, table, *mark))
}

/// As [`crate::env::sequences::Reserves`].
pub(super) fn reserve(env: &Env, schema: &Arc<Schema>, table: &Arc<Table>, reserve: Reserve) -> Res<bool> {
    let engine = env.engine().ok_or_else(|| errors::internal("a session without an engine"))?;
    let pool = Pool::of(schema);
    if reserve == Reserve::Load {
        if table.state.sequence.numbers().is_some() {
            return Ok(true);
        }
        let conn = pool.take()?;
        let row = read_row(&conn, table);
        pool.put(conn);
        table.state.sequence.numbers().get_or_insert(Numbers::of(&row?));
        return Ok(true);
    }
    schema.may_write()?;
    let guard = env.lend_of_statement(schema).map_or_else(|| acquire(schema, env), Ok)?;
    if reserve == Reserve::More && has_safe(table) {
        // Somebody else has reserved some meanwhile.
        return Ok(true);
    }
    let mut conn = pool.take()?;
    let reserved = write_more(&mut conn, schema, table, reserve);
    if let Err(error) = &reserved {
        conn.rollback();
        if reserve != Reserve::More && error.code != errors::SEQUENCE_RUN_OUT {
            // It is where the file says, not where it was to be set.
            table.state.sequence.numbers().take();
        }
    }
    pool.put(conn);
    drop(guard);
    let Some(mark) = reserved? else { return Ok(false) };
    make_durable(&engine, schema)?;
    table.state.sequence.settle(mark);
    Ok(true)
}

fn has_safe(table: &Table) -> bool {
    table.state.sequence.numbers().as_ref().is_some_and(Numbers::is_safe)
}

/// Tells the file of more numbers, or of others; `None` if the sequence stays where it is. The caller has the write lock.
fn write_more(conn: &mut Conn, schema: &Schema, table: &Arc<Table>, reserve: Reserve) -> Res<Option<Mark>> {
    let internal = |error| to_server_error(&error);
    // It may have been dropped or defined anew while this session waited for the lock.
    let current = schema.catalog()?;
    let is_there = current.by_id(table.id).is_some_and(|now| Arc::ptr_eq(&now.state, &table.state));
    if !is_there {
        return Err(errors::no_such_table(&schema.name, crate::temporary_name::shown(&table.name)));
    }
    conn.begin_immediate().map_err(internal)?;
    let mark = {
        let mut numbers = table.state.sequence.numbers();
        let numbers = match &mut *numbers {
            Some(numbers) => numbers,
            none => none.insert(Numbers::of(&read_row(conn, table)?)),
        };
        match reserve {
            Reserve::Set { round, .. } if !numbers.has_round(round) => return Err(run_out(schema, table)),
            Reserve::Set { value, used, round } => numbers.set(value, used, round),
            Reserve::Load | Reserve::More => Some(numbers.extend().ok_or_else(|| run_out(schema, table))?),
        }
    };
    let Some(mark) = mark else {
        conn.rollback();
        return Ok(None);
    };
    write_mark(conn, table, mark)?;
    let reserved = schema.commits.reserve(conn)?;
    conn.commit().map_err(internal)?;
    schema.note_commit(reserved, std::iter::once(&table.state));
    Ok(Some(mark))
}
