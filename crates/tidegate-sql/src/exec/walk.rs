//! Walks through an index: what SQLite's WHERE and LIMIT cannot say.
//!
//! A row of the query ends with a verdict on it: counted, skipped, or the end of the walk. Rows are counted here, behind the
//! verdict, and a key of which a part has several values is looked up for one of them after the other.

use tidegate_rows::{QueryError, ServerError, Sink};

use super::bind::Constants;
use crate::{
    errors,
    store::conn::{Bound, Cell, Step, Stmt, to_server_error},
    translate::{
        Bind,
        params::{Made, MadeParam, Params},
        plan::SelectPlan,
        walk::Walk,
    },
};

/// What a query says of a row in its last column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Counts,
    Skip,
    Stop,
}

impl Verdict {
    /// The verdict's number in the query.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Counts => 0,
            Self::Skip => 1,
            Self::Stop => 2,
        }
    }

    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Int(0) => Self::Counts,
            Cell::Int(1) => Self::Skip,
            _ => Self::Stop,
        }
    }
}

/// Rows that are still to be left out and to be taken.
struct Count {
    offset: u64,
    limit: u64,
}

impl Walk {
    /// Runs a query and hands over the rows that count, each with the number of its columns without the verdict. `begun` is asked
    /// when it has its snapshot.
    ///
    /// # Errors
    /// The query's, those of `begun` and `take`.
    pub(crate) fn run<E: From<ServerError>>(
        &self,
        stmt: &mut Stmt,
        binds: &[Bind],
        constants: Constants<'_>,
        mut begun: impl FnMut() -> Result<(), E>,
        mut take: impl FnMut(&Bound<'_>, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = |index| constants.params.int(index).map_or(0, i64::unsigned_abs);
        let mut count = Count { offset: number(self.limit + 1), limit: number(self.limit) };
        let Some(part) = self.each else {
            return count.rows(constants.bind(stmt, binds)?, &mut begun, &mut take).map(drop);
        };
        let Params::Made(Made { values: given, revise }) = constants.params else {
            return Err(errors::internal("a walk with a text").into());
        };
        let Some((MadeParam::Each(each), others)) = given.split_last() else {
            return Err(errors::internal("a walk without its keys").into());
        };
        let mut values: Vec<MadeParam<'_>> = others.to_vec();
        for value in each {
            values[part] = value.clone();
            let one = Constants { params: Params::Made(Made { values: &values, revise }), ..constants };
            if !count.rows(one.bind(stmt, binds)?, &mut begun, &mut take)? {
                break;
            }
        }
        Ok(())
    }
}

impl Count {
    /// Steps to the end of a query; answers whether there may be more rows for other keys.
    fn rows<E: From<ServerError>>(
        &mut self,
        mut stmt: Bound<'_>,
        begun: &mut impl FnMut() -> Result<(), E>,
        take: &mut impl FnMut(&Bound<'_>, usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let width = stmt.column_count() - 1;
        let mut step = stmt.step().map_err(|error| to_server_error(&error))?;
        begun()?;
        while self.limit > 0 {
            if step == Step::Done {
                return Ok(true);
            }
            match Verdict::of(stmt.cell(width)) {
                Verdict::Skip => {}
                Verdict::Stop => return Ok(false),
                Verdict::Counts if self.offset > 0 => self.offset -= 1,
                Verdict::Counts => {
                    self.limit -= 1;
                    take(&stmt, width)?;
                }
            }
            step = stmt.step().map_err(|error| to_server_error(&error))?;
        }
        Ok(false)
    }
}

/// A walk of a query whose rows go to a sink: how many there were.
///
/// # Errors
/// Those of `begun`, the query's, or that the sink has gone.
pub(crate) fn pump(
    walk: &Walk,
    stmt: &mut Stmt,
    select: &SelectPlan,
    constants: Constants<'_>,
    begun: impl Fn() -> Result<(), ServerError>,
    sink: &mut dyn Sink,
) -> Result<u64, QueryError> {
    let mut rows = 0;
    walk.run(
        stmt,
        &select.binds,
        constants,
        || Ok(begun()?),
        |stmt, _| {
            if rows == 0 {
                sink.columns(&select.columns);
            }
            rows += 1;
            super::send_row(stmt, &select.outs, sink)
        },
    )?;
    if rows == 0 {
        sink.columns(&select.columns);
    }
    Ok(rows)
}
