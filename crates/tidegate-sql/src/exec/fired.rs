//! The rows that a statement writes, where triggers see them before and after.
//!
//! Before a row is written its triggers see all its columns with their defaults and generated values. What they leave in NEW is
//! what is written, so NULL and CHECK are looked at behind them.

use super::{
    insert::InsertRun,
    update::Changed,
    write::{Res, Writer},
};
use crate::{
    parse::program::{Event, Timing},
    translate::{dml::InsertPlan, target_table::TargetTable},
    value::Datum,
};

impl Writer<'_> {
    /// As [`before_insert`](Self::before_insert), where there are such triggers. Answers the defaults that are still to be evaluated;
    /// `None` if the row is left out.
    ///
    /// # Errors
    /// As [`before_insert`](Self::before_insert).
    pub(super) fn shown_to_triggers<'p>(
        &mut self,
        plan: &InsertPlan,
        row: &mut Vec<Datum>,
        pending: &'p [usize],
        run: &InsertRun,
    ) -> Res<Option<&'p [usize]>> {
        if !self.nulls_later {
            return Ok(Some(pending));
        }
        let seen = self.before_insert(plan, row, pending, run);
        Ok(self.or_skip(seen, plan.ignore && !run.single)?.map(|()| &[][..]))
    }

    /// Runs the triggers that come before a row is inserted, whose expressions are evaluated behind them once more.
    ///
    /// # Errors
    /// Those of the triggers; 1048, 1364.
    fn before_insert(
        &mut self,
        plan: &InsertPlan,
        row: &mut Vec<Datum>,
        pending: &[usize],
        run: &InsertRun,
    ) -> Res<()> {
        let (to, table) = (&*plan.to, &plan.to.table);
        let omitted = std::mem::take(&mut self.omitted);
        self.show_rules(to, row, pending, plan.ignore)?;
        // A number that nobody has given is shown as 0.
        let auto = table.auto_column().filter(|auto| omitted.contains(auto) && row[*auto].is_null());
        if let Some(auto) = auto {
            row[auto] = Datum::Int(0);
        }
        self.fire(to, Event::Insert, Timing::Before, None, Some(row))?;
        if let Some(auto) = auto.filter(|auto| row[*auto] == Datum::Int(0)) {
            row[auto] = Datum::Null;
        }
        for (position, column) in table.columns.iter().enumerate() {
            if !row[position].is_null() || column.nullable || column.auto_increment || column.generated.is_some() {
                continue;
            }
            let target = self.target(to, position, run.rows, plan.ignore);
            row[position] = if !omitted.contains(&position) {
                self.not_null(&target, run.single)?
            } else if target.strict {
                return Err(target.no_default());
            } else {
                self.env.warn(target.no_default());
                target.implicit_default()
            };
        }
        Ok(())
    }

    /// Evaluates defaults and generated columns, for triggers to see them.
    fn show_rules(&mut self, to: &TargetTable, row: &mut [Datum], pending: &[usize], ignore: bool) -> Res<()> {
        if to.rules.is_empty() { Ok(()) } else { self.apply_some_rules(to, row, pending, 1, ignore, false) }
    }

    /// Writes changes of a row whose triggers see it before and after, also if nothing changes.
    ///
    /// # Errors
    /// Those of the triggers; as without them.
    pub(super) fn write_fired(
        &mut self,
        to: &TargetTable,
        rowid: i64,
        changes: &[(usize, Datum)],
        ignore: bool,
    ) -> Res<bool> {
        let table = &to.table;
        let old = self.whole_row(to, rowid)?;
        let mut new = old.clone();
        for (column, value) in changes {
            new[*column] = value.clone();
        }
        if to.fires(Event::Update, Timing::Before) {
            self.show_rules(to, &mut new, &[], ignore)?;
            self.fire(to, Event::Update, Timing::Before, Some(&old), Some(&mut new))?;
            for (position, column) in table.columns.iter().enumerate() {
                if new[position].is_null() && !column.nullable && column.generated.is_none() {
                    let target = self.target(to, position, 1, ignore);
                    new[position] = self.not_null(&target, false)?;
                }
            }
        }
        let is_given = |column: &usize| changes.iter().any(|(given, _)| given == column);
        let is_other = |column: &usize| table.columns[*column].generated.is_none() && new[*column] != old[*column];
        let columns = (0..new.len()).filter(|column| is_other(column) || is_given(column));
        let changes = columns.map(|column| (column, new[column].clone())).collect();
        let changed = self.write_plainly(to, rowid, changes, |column| &old[column], ignore)?;
        if changed != Changed::Refused && to.fires(Event::Update, Timing::After) {
            let mut new = if changed == Changed::Yes { self.whole_row(to, rowid)? } else { old.clone() };
            self.fire(to, Event::Update, Timing::After, Some(&old), Some(&mut new))?;
        }
        Ok(changed == Changed::Yes)
    }

    /// Runs the triggers that come before a row is deleted; answers it, if somebody wants to hear of it.
    ///
    /// # Errors
    /// Those of the triggers.
    pub(super) fn before_delete(&mut self, of: &TargetTable, rowid: i64) -> Res<Option<Vec<Datum>>> {
        if !of.fires_for(Event::Delete) {
            return Ok(None);
        }
        let old = self.whole_row(of, rowid)?;
        self.fire(of, Event::Delete, Timing::Before, Some(&old), None)?;
        Ok(Some(old))
    }

    /// Runs the triggers that come behind.
    ///
    /// # Errors
    /// Those of the triggers.
    pub(super) fn after_delete(&mut self, of: &TargetTable, old: Option<Vec<Datum>>) -> Res<()> {
        match old {
            Some(old) => self.fire(of, Event::Delete, Timing::After, Some(&old), None),
            None => Ok(()),
        }
    }
}
