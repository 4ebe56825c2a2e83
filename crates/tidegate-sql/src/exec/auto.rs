//! AUTO_INCREMENT: which value comes next, and what the file says about it.

use std::sync::atomic::Ordering;

use super::write::{Res, Writer, Written, auto_beyond_rowid, internal};
use crate::{
    catalog::Table,
    errors, sql_mode,
    store::{conn::Cell, private::watch::Watch},
    value::{Datum, uint_of},
};

/// The values that a statement has reserved for rows to come, as InnoDB does (`innodb_autoinc_lock_mode` = 1): as many as VALUES has
/// rows; for other rows, whose number nobody knows, one, then two, four, …. What is left when the statement ends is lost.
#[derive(Debug, Default)]
pub(super) struct Interval {
    /// What the next row gets, if any values have been reserved.
    pub(super) next: Option<u64>,
    /// What comes behind the last value.
    behind: u64,
    /// How often values were reserved.
    times: u32,
    /// Rows that VALUES has; 0 if nobody knows how many there are.
    rows: u64,
    /// Rows for which values have been reserved and that have not been tried yet.
    announced: u64,
}

/// As many values are reserved at most for rows of which nobody knows how many there are.
const RESERVED_MAX: u64 = 65_535;

impl Interval {
    /// For so many rows; 0 if nobody knows.
    pub(super) fn for_rows(rows: usize) -> Self {
        Self { rows: rows as u64, ..Self::default() }
    }

    /// How many values to reserve.
    fn wanted(&self) -> u64 {
        match if self.times == 0 { self.rows } else { self.announced } {
            0 => 1u64.checked_shl(self.times).unwrap_or(RESERVED_MAX).min(RESERVED_MAX),
            rows => rows,
        }
    }

    fn taken(&mut self, first: u64, behind: u64) {
        self.announced = self.wanted();
        self.times += 1;
        self.next = Some(first);
        self.behind = behind;
    }

    /// A row has a value of its own: those behind it come next.
    fn pass(&mut self, value: &Datum, numbers: crate::env::Numbers) {
        let value = if matches!(value, Datum::Int(value) if *value < 0) { 0 } else { uint_of(value.as_cell()) };
        if let Some(next) = self.next.filter(|next| value >= *next) {
            self.next = Some(numbers.next_auto(value.saturating_add(1)).max(next));
        }
    }

    /// A row has been tried.
    pub(super) fn tried(&mut self) {
        self.announced = self.announced.saturating_sub(1);
    }

    /// A row was refused: the next one gets what it had.
    pub(super) fn step_back(&mut self, before: Option<u64>, generated: Option<u64>) {
        self.next = before.or(generated);
    }
}

impl Writer<'_> {
    /// The AUTO_INCREMENT column, if the row leaves its value open with NULL or 0.
    pub(super) fn wants_auto(&self, table: &Table, row: &[Datum]) -> Option<usize> {
        let column = table.auto_column()?;
        let zero = row[column] == Datum::Int(0) && self.env.sql_mode.get() & sql_mode::NO_AUTO_VALUE_ON_ZERO == 0;
        (row[column].is_null() || zero).then_some(column)
    }

    /// Fills in an AUTO_INCREMENT column that got NULL or 0; answers the value.
    pub(super) fn auto_increment(
        &mut self,
        table: &Table,
        row: &mut [Datum],
        interval: &mut Interval,
    ) -> Res<Option<u64>> {
        let Some(column) = self.wants_auto(table, row) else {
            if let Some(column) = table.auto_column() {
                interval.pass(&row[column], self.env.numbers.get());
            }
            return Ok(None);
        };
        let next = match interval.next.filter(|next| *next < interval.behind) {
            Some(next) => next,
            None => self.reserve(table, column, interval)?,
        };
        let (_, most) = table.columns[column].ty.int_range();
        if table.rowid_column() == Some(column) && next > i64::MAX as u64 && most > i64::MAX as u64 {
            return Err(auto_beyond_rowid());
        }
        if next == u64::MAX {
            return Err(errors::auto_increment_exhausted());
        }
        if next > most && self.strict() && !self.env.ignoring.get() {
            return Err(errors::auto_increment_range(&table.columns[column].name));
        }
        let next = next.min(most);
        interval.next = Some(self.env.numbers.get().next_auto(next.saturating_add(1)));
        row[column] = Datum::from_u64(next);
        Ok(Some(next))
    }

    /// Takes values for rows to come; answers the first. Nobody else gets them, whatever becomes of the rows.
    fn reserve(&mut self, table: &Table, column: usize, interval: &mut Interval) -> Res<u64> {
        let numbers = self.env.numbers.get();
        let counter = self.next_auto(table, column)?;
        let (first, count, most) = match numbers.insert_id {
            Some(id) => {
                self.env.numbers.set(crate::env::Numbers { insert_id: None, ..numbers });
                (id, 1, u64::MAX)
            }
            // A statement that runs again takes what it had, and no more of that: what comes behind may be somebody else's.
            None => match self.env.autos.get().next(table.id) {
                Some((taken, behind)) => (taken, interval.wanted(), behind),
                None => (numbers.next_auto(counter), interval.wanted(), u64::MAX),
            },
        };
        let last = first.saturating_add((count - 1).saturating_mul(numbers.auto_step));
        let behind = numbers.auto_behind(last).min(most);
        table.state.next_auto.fetch_max(behind, Ordering::AcqRel);
        self.env.autos.set(self.env.autos.get().with(table.id, first, behind));
        interval.taken(first, behind);
        Ok(first)
    }

    /// A row with a value of its own was refused: where MariaDB's statement is one that tries other rows, new ones come behind it.
    pub(super) fn pass_refused_auto(&mut self, table: &Table, row: &[Datum], generated: Option<u64>) -> Res<()> {
        let Some(column) = table.auto_column().filter(|_| generated.is_none()) else { return Ok(()) };
        self.raise_auto(table, &[(column, row[column].clone())])
    }

    pub(super) fn next_auto(&mut self, table: &Table, column: usize) -> Res<u64> {
        let known = table.state.next_auto.load(Ordering::Acquire);
        if known != 0 {
            return Ok(known);
        }
        let sql = format!("SELECT max(c{}) FROM t{}", table.columns[column].id, table.id);
        let mut stmt = self.conn.prepare(&sql).map_err(internal)?;
        stmt.step().map_err(internal)?;
        let most = match stmt.cell(0) {
            Cell::Int(value) if value < 0 => 0,
            cell => uint_of(cell),
        };
        let next = most.saturating_add(1).max(table.state.stored_auto.load(Ordering::Acquire)).max(1);
        table.state.next_auto.store(next, Ordering::Release);
        Ok(next)
    }

    /// The row id of a new row in a table that has it for itself: SQLite would give the same one to transactions that do
    /// not see each other's rows. `None` as long as none has written to the table.
    pub(super) fn hidden_rowid(&mut self, table: &Table) -> Res<Option<i64>> {
        let next = &table.state.next_rowid;
        if next.load(Ordering::Acquire) == 0 && !self.conn.is_private() {
            return Ok(None);
        }
        if next.load(Ordering::Acquire) == 0 {
            let mut stmt = self.conn.prepare(&format!("SELECT max(rowid) FROM t{}", table.id)).map_err(internal)?;
            stmt.step().map_err(internal)?;
            let most = if let Cell::Int(most) = stmt.cell(0) { most } else { 0 };
            next.store(most.max(0).saturating_add(1), Ordering::Release);
        }
        Ok(Some(next.fetch_add(1, Ordering::AcqRel)))
    }

    pub(super) fn note_auto(&mut self, table: &Table, row: &[Datum], generated: Option<u64>, written: &mut Written) {
        let Some(column) = table.auto_column() else { return };
        match generated {
            Some(value) => {
                written.last_insert_id.get_or_insert(value);
                written.insert_id = written.last_insert_id.unwrap_or(value);
            }
            None => {
                let explicit = uint_of(row[column].as_cell());
                let negative = matches!(row[column], Datum::Int(value) if value < 0);
                if written.last_insert_id.is_none() {
                    written.insert_id = explicit;
                }
                let known = table.state.next_auto.load(Ordering::Acquire);
                if !negative && known != 0 && explicit >= known {
                    table.state.next_auto.store(self.env.numbers.get().auto_behind(explicit), Ordering::Release);
                }
            }
        }
    }

    /// An UPDATE has written AUTO_INCREMENT values: new rows come behind them, also when the transaction is rolled back.
    pub(super) fn raise_auto(&mut self, table: &Table, changes: &[(usize, Datum)]) -> Res<()> {
        let Some(column) = table.auto_column() else { return Ok(()) };
        let Some((_, value)) = changes.iter().find(|(changed, _)| *changed == column) else { return Ok(()) };
        if value.is_null() || matches!(value, Datum::Int(value) if *value < 0) {
            return Ok(());
        }
        let behind = self.env.numbers.get().auto_behind(uint_of(value.as_cell()));
        if behind > self.next_auto(table, column)? {
            table.state.next_auto.store(behind, Ordering::Release);
        }
        Ok(())
    }

    /// Remembers the counter if an UPDATE assigns the column: values may become smaller again, the counter must not.
    pub(super) fn keep_raised_auto(&mut self, table: &Table, mut columns: impl Iterator<Item = usize>) -> Res<()> {
        if columns.any(|column| table.columns[column].auto_increment) { self.keep_auto(table) } else { Ok(()) }
    }

    /// Remembers the next AUTO_INCREMENT value in the file before rows go, so that none is given twice.
    pub(super) fn keep_auto(&mut self, table: &Table) -> Res<()> {
        let Some(column) = table.auto_column() else { return Ok(()) };
        let next = self.next_auto(table, column)?;
        if next == table.state.stored_auto.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(log) = self.conn.watch().and_then(Watch::log) {
            log.keep_auto(table.id, &table.state);
            return Ok(());
        }
        let mut stmt = self.conn.prepare("UPDATE tg_table SET next_auto = ?1 WHERE id = ?2").map_err(internal)?;
        stmt.bind(1, Datum::from_u64(next).as_cell()).map_err(internal)?;
        stmt.bind(2, Cell::Int(table.id)).map_err(internal)?;
        stmt.run().map_err(internal)?;
        table.state.stored_auto.store(next, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_reserved_for_the_rows_that_are_announced_or_twice_as_many_each_time() {
        let mut known = Interval::for_rows(4);
        known.tried();
        assert_eq!(known.wanted(), 4, "however many have come before");
        known.taken(7, 11);
        known.tried();
        known.pass(&Datum::Int(100), crate::env::Numbers::default());
        known.tried();
        assert_eq!((known.next, known.wanted()), (Some(101), 2), "for the rows that are left");
        known.pass(&Datum::Int(-1), crate::env::Numbers::default());
        assert_eq!(known.next, Some(101));
        let mut unknown = Interval::for_rows(0);
        for expected in [1, 2, 4, 8] {
            assert_eq!(unknown.wanted(), expected);
            unknown.taken(1, 2);
            (0..expected).for_each(|_| unknown.tried());
        }
        unknown.times = 200;
        assert_eq!(unknown.wanted(), RESERVED_MAX);
    }
}
