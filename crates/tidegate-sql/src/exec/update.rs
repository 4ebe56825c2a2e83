//! UPDATE, ON DUPLICATE KEY UPDATE and DELETE, row by row.

use std::{collections::HashSet, sync::Arc};

use tidegate_rows::ServerError;

use super::{
    Out,
    conflict::is_foreign_key,
    insert::InsertRun,
    write::{Res, ReturnedRows, Rows, Writer, Written, internal},
};
use crate::{
    coerce::Target,
    errors,
    parse::program::{Event, Timing},
    store::{
        conn::{Cell, SqliteError, Step},
        keys,
    },
    translate::{
        assign::RowValue,
        dml::{Cellish, DeletePlan, InsertPlan, UpdatePlan, UpdateTarget, Upsert},
        target_table::TargetTable,
    },
    value::{Datum, uint_of},
};

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Yes,
    /// It was the same before.
    No,
    /// It may not be like that; a warning says so.
    Refused,
}

impl Writer<'_> {
    pub(super) fn update_duplicate(
        &mut self,
        plan: &InsertPlan,
        upsert: &Upsert,
        rowid: i64,
        row: &[Datum],
        selected: &[Datum],
        run: &mut InsertRun,
    ) -> Res<()> {
        let table = &plan.to.table;
        let input = |value: RowValue, changes: &[(usize, Datum)], cells: &[Datum]| match value {
            RowValue::Fed(index) => cells[index].clone(),
            RowValue::Stored(column) => changed(changes, column).unwrap_or(&cells[column]).clone(),
            RowValue::Refused(column) => row[column].clone(),
            RowValue::Selected(index) => selected[index].clone(),
        };
        let nulls_later = std::mem::replace(&mut self.nulls_later, plan.to.fires(Event::Update, Timing::Before));
        let mut stmt = self.prepared(&upsert.feed.sql)?;
        let cells = self.constants.bind(&mut stmt, &upsert.feed.binds).and_then(|mut stmt| {
            let base = upsert.feed.binds.len();
            for (index, value) in upsert.inputs.iter().enumerate() {
                stmt.bind(base + index + 1, input(*value, &[], &[]).as_cell()).map_err(internal)?;
            }
            stmt.bind(base + upsert.inputs.len() + 1, Cell::Int(rowid)).map_err(internal)?;
            if stmt.step().map_err(internal)? != Step::Row {
                return Err(errors::internal("the duplicate row has gone"));
            }
            Ok((0..stmt.column_count()).map(|index| stmt.cell(index).to_owned()).collect::<Vec<_>>())
        });
        self.stmts.keep(&upsert.feed.sql, stmt);
        let cells = cells?;
        let mut changes = Vec::new();
        for (&column, value) in upsert.columns.iter().zip(&upsert.values) {
            let late = match value {
                Cellish::Late(late) => Some(self.late(late, |value| input(value, &changes, &cells))?),
                _ => None,
            };
            let target = self.target(&plan.to, column, run.rows, plan.ignore);
            let new = match self.new_value(&target, value, late.as_ref(), &cells, &upsert.feed.outs)? {
                // Only an AUTO_INCREMENT column comes here without an error.
                Datum::Null if !target.column.nullable => target.implicit_default(),
                new => new,
            };
            change(&mut changes, column, new);
        }
        let number = table.auto_column().map(|auto| uint_of(changed(&changes, auto).unwrap_or(&cells[auto]).as_cell()));
        debug_assert_eq!(upsert.old, table.columns.len());
        let old = |column: usize| &cells[column];
        let is_written = self.write_changes(&plan.to, rowid, changes, old, plan.ignore)?;
        self.nulls_later = nulls_later;
        if is_written {
            run.written.affected += 2;
            run.written.insert_id = number.unwrap_or(run.written.insert_id);
        } else if self.env.found_rows_flag.get() {
            run.written.affected += 1;
        }
        self.keep_raised_auto(table, upsert.columns.iter().copied())
    }

    /// The value that a column gets: `late` is what an expression over the row gives, if the value is one.
    fn new_value(
        &self,
        target: &Target<'_>,
        value: &Cellish,
        late: Option<&Datum>,
        cells: &[Datum],
        outs: &[Out],
    ) -> Res<Datum> {
        let ty = &target.column.ty;
        let value = match value {
            // Where DEFAULT is said the error names the column, not the view.
            Cellish::Default => return self.default(&Target { view: None, ..*target }),
            Cellish::Const(source) => self.constants.value_for(source, ty)?,
            Cellish::Column(index) => outs[*index].value_for(cells[*index].as_cell(), ty),
            Cellish::Late(expression) => expression.out.value_for(late.unwrap_or(&Datum::Null).as_cell(), ty),
        };
        self.store(target, value, false)
    }

    /// Writes changed columns of one row; answers whether any value is a new one.
    pub(super) fn write_changes<'d>(
        &mut self,
        to: &TargetTable,
        rowid: i64,
        changes: Vec<(usize, Datum)>,
        old: impl Fn(usize) -> &'d Datum,
        ignore: bool,
    ) -> Res<bool> {
        if to.fires_for(Event::Update) {
            return self.write_fired(to, rowid, &changes, ignore);
        }
        Ok(self.write_plainly(to, rowid, changes, old, ignore)? == Changed::Yes)
    }

    /// As [`write_changes`](Self::write_changes), past the triggers.
    pub(super) fn write_plainly<'d>(
        &mut self,
        to: &TargetTable,
        rowid: i64,
        mut changes: Vec<(usize, Datum)>,
        old: impl Fn(usize) -> &'d Datum,
        ignore: bool,
    ) -> Res<Changed> {
        let table = &to.table;
        if changes.iter().all(|(column, new)| new == old(*column)) {
            return Ok(Changed::No);
        }
        for (index, column) in table.columns.iter().enumerate() {
            if column.on_update && !changes.iter().any(|(changed, _)| *changed == index) {
                changes.push((index, self.now(column)));
            }
        }
        if !to.rules.is_empty() {
            let mut row = self.whole_row(to, rowid)?;
            for (column, value) in &changes {
                row[*column] = value.clone();
            }
            let before = row.clone();
            let passed = self.apply_rules(to, &mut row, &[], 1, ignore);
            if self.or_skip(passed, ignore)?.is_none() {
                return Ok(Changed::Refused);
            }
            let generated = row.into_iter().enumerate().filter(|(column, value)| *value != before[*column]);
            changes.extend(generated);
        }
        let text = to.update_text(&changes);
        let mut stmt = self.prepared(&text)?;
        for (number, (_, value)) in changes.iter().enumerate() {
            stmt.bind(number + 1, value.as_cell()).map_err(internal)?;
        }
        stmt.bind(changes.len() + 1, Cell::Int(rowid)).map_err(internal)?;
        let result = self.attempt(|| stmt.run());
        self.stmts.keep(&text, stmt);
        let Err(error) = result else {
            self.raise_auto(table, &changes)?;
            return Ok(Changed::Yes);
        };
        let error = self.refused_changes(&error, to, rowid, &changes)?;
        if ignore && matches!(error.code, 1062 | 1451 | 1452) {
            self.env.warn(error);
            return Ok(Changed::Refused);
        }
        Err(error)
    }

    /// The error of changes that an index or a foreign key refuses.
    fn refused_changes(
        &mut self,
        error: &SqliteError,
        to: &TargetTable,
        rowid: i64,
        changes: &[(usize, Datum)],
    ) -> Res<ServerError> {
        if error.is_unique() {
            return self.update_conflict(to, rowid, changes);
        }
        let is_changed = |id: &u32| changes.iter().any(|(column, _)| to.table.columns[*column].id == *id);
        if !to.table.foreign_keys.iter().any(|key| key.columns.iter().any(is_changed)) {
            return Ok(self.refused_parent(error, to, rowid));
        }
        let row = self.changed_row(to, rowid, changes)?;
        Ok(self.refused_child(error, to, &row))
    }

    /// A row as it stands.
    pub(super) fn whole_row(&mut self, to: &TargetTable, rowid: i64) -> Res<Vec<Datum>> {
        let mut stmt = self.prepared(to.row_text())?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        stmt.step().map_err(internal)?;
        let row = (0..to.table.columns.len()).map(|index| stmt.cell(index).to_owned()).collect();
        self.stmts.keep(to.row_text(), stmt);
        Ok(row)
    }

    /// A row as it would be with some changes.
    pub(super) fn changed_row(&mut self, to: &TargetTable, rowid: i64, changes: &[(usize, Datum)]) -> Res<Vec<Datum>> {
        let mut row = self.whole_row(to, rowid)?;
        for (column, value) in changes {
            row[*column] = value.clone();
        }
        Ok(row)
    }

    /// Carries out UPDATE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn update(&mut self, plan: &UpdatePlan) -> Res<Written> {
        self.env.set_abort_on_warning(self.strict() && !plan.ignore);
        let result = match &plan.revised {
            Some(insert) => self.revise(plan, insert),
            None => self.update_rows(plan),
        };
        self.env.set_abort_on_warning(false);
        result
    }

    pub(super) fn update_rows(&mut self, plan: &UpdatePlan) -> Res<Written> {
        let rows = self.collect(&plan.feed)?;
        let mut written = Written::default();
        let (mut matched, mut changed) = (0, 0);
        self.env.ignoring.set(plan.ignore);
        let result = plan
            .targets
            .iter()
            .try_for_each(|target| self.update_target(plan, target, &rows, &mut matched, &mut changed));
        self.env.ignoring.set(false);
        result?;
        written.touched = plan.targets.iter().map(|target| Arc::clone(&target.to.table.state)).collect();
        if changed == 0 {
            written.touched.clear();
        }
        if let Some(returned) = &plan.returning {
            let mut old = ReturnedRows::new(returned);
            for value in rows.iter().flat_map(|cells| &cells[1..=returned.outs.len()]) {
                old.push(value.clone(), self.memory_max)?;
            }
            written.returned = Some(old);
        }
        written.affected = if self.env.found_rows_flag.get() { matched } else { changed };
        written.info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {}", self.env.warning_count());
        Ok(written)
    }

    pub(super) fn update_target(
        &mut self,
        plan: &UpdatePlan,
        target: &UpdateTarget,
        rows: &Rows,
        matched: &mut u64,
        changed: &mut u64,
    ) -> Res<()> {
        self.nulls_later = target.to.fires(Event::Update, Timing::Before);
        let mut seen = HashSet::new();
        for cells in rows.iter() {
            let Datum::Int(rowid) = cells[target.rowid] else { continue };
            if !seen.insert(rowid) {
                continue;
            }
            self.lock_row(&target.to.table, rowid)?;
            *matched += 1;
            let changes = self.changes_of(plan, target, cells, *matched as usize)?;
            let old = |column: usize| {
                let place = target.assignments.iter().find(|(known, ..)| *known == column);
                place.map_or(&Datum::Null, |(_, old, _)| &cells[*old])
            };
            if self.write_changes(&target.to, rowid, changes, old, plan.ignore)? {
                *changed += 1;
            }
        }
        self.keep_raised_auto(&target.to.table, target.assignments.iter().map(|(column, ..)| *column))
    }

    /// The new values of a row; none if the row stays as it is.
    pub(super) fn changes_of(
        &mut self,
        plan: &UpdatePlan,
        target: &UpdateTarget,
        cells: &[Datum],
        number: usize,
    ) -> Res<Vec<(usize, Datum)>> {
        let mut changes = Vec::with_capacity(target.assignments.len());
        for (column, _, value) in &target.assignments {
            if target.to.table.columns[*column].generated.is_some() {
                if !matches!(value, Cellish::Default) {
                    self.generated_value(&target.to.table, *column, plan.ignore)?;
                }
                continue;
            }
            let late = match value {
                Cellish::Late(late) => Some(self.late(late, |value| match value {
                    RowValue::Fed(index) => cells[index].clone(),
                    RowValue::Stored(column) => target.value_of(column, &changes, cells),
                    RowValue::Refused(_) | RowValue::Selected(_) => Datum::Null,
                })?),
                _ => None,
            };
            let place = self.target(&target.to, *column, number, plan.ignore);
            let new = self.new_value(&place, value, late.as_ref(), cells, &plan.feed.outs).and_then(|new| {
                // No number is made for the AUTO_INCREMENT column of a row that is there.
                if new.is_null() && !place.column.nullable && !self.nulls_later {
                    self.not_null(&place, false)
                } else {
                    Ok(new)
                }
            });
            match self.or_skip(new, plan.ignore)? {
                Some(new) => change(&mut changes, *column, new),
                None => return Ok(Vec::new()),
            }
        }
        Ok(changes)
    }

    /// Carries out DELETE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn delete(&mut self, plan: &DeletePlan) -> Res<Written> {
        let mut written = Written::default();
        for (of, _) in &plan.targets {
            self.keep_auto(&of.table)?;
            written.touched.push(Arc::clone(&of.table.state));
        }
        if plan.direct {
            self.delete_directly(plan)?;
            written.affected = self.conn.changes();
            return Ok(written);
        }
        let rows = self.collect(&plan.feed)?;
        written.returned = plan.returning.as_ref().map(ReturnedRows::new);
        for (of, column) in &plan.targets {
            let mut seen = HashSet::new();
            for cells in rows.iter() {
                let Datum::Int(rowid) = cells[*column] else { continue };
                if !seen.insert(rowid) {
                    continue;
                }
                self.lock_row(&of.table, rowid)?;
                let old = self.before_delete(of, rowid)?;
                match self.try_delete(of, rowid)? {
                    Ok(()) => {
                        written.affected += self.conn.changes().min(1);
                        self.after_delete(of, old)?;
                        if let Some(returned) = &mut written.returned {
                            let mut values = cells[column + 1..].iter();
                            values.try_for_each(|value| returned.push(value.clone(), self.memory_max))?;
                        }
                    }
                    Err(error) => {
                        let refused = self.refused_parent(&error, of, rowid);
                        self.go_on()?;
                        if !plan.ignore || !is_foreign_key(&error) {
                            return Err(refused);
                        }
                        self.env.warn(refused);
                    }
                }
            }
        }
        Ok(written)
    }

    /// Lets SQLite find and delete the rows.
    fn delete_directly(&mut self, plan: &DeletePlan) -> Res<()> {
        let (of, _) = &plan.targets[0];
        // Prepared without a hook, a statement for all rows empties a table as a whole, and tells a later one nothing.
        let finds_some = plan.feed.sql.contains(" WHERE ");
        let is_for_locks = self.conn.watch().is_some();
        let is_for_keys = self.conn.notes_keys() && !is_for_locks && !finds_some;
        let kept =
            self.conn.is_private() || finds_some || !is_for_locks && (!is_for_keys || self.has_many(of.table.id)?);
        let mut stmt = if !kept {
            self.conn.prepare(&plan.feed.sql).map_err(internal)?
        } else if is_for_keys {
            // Nobody wants to hear of so many, and one by one they take longer.
            self.conn.note_many(of.table.id);
            let keys = self.conn.set_keys(None);
            let stmt = self.prepared(&plan.feed.sql);
            self.conn.set_keys(keys);
            stmt?
        } else {
            self.prepared(&plan.feed.sql)?
        };
        let result = self.constants.bind(&mut stmt, &plan.feed.binds).and_then(|mut stmt| {
            stmt.run().or_else(|error| {
                if is_foreign_key(&error) && self.conn.watch().is_some() {
                    self.meet_children_of(plan)?;
                }
                Err(self.parent_error(&error, of))
            })
        });
        if kept {
            self.stmts.keep(&plan.feed.sql, stmt);
        }
        result
    }

    /// Whether a table has more rows than a commit tells the keys of.
    fn has_many(&self, table: i64) -> Res<bool> {
        let sql = format!("SELECT 1 FROM t{table} LIMIT 1 OFFSET {}", keys::ROWS_MAX);
        Ok(self.conn.prepare(&sql).map_err(internal)?.step().map_err(internal)? == Step::Row)
    }

    /// As [`meet_children`](Self::meet_children), of all the rows that a DELETE finds.
    fn meet_children_of(&mut self, plan: &DeletePlan) -> Res<()> {
        let (of, _) = &plan.targets[0];
        let Some(rest) = plan.feed.sql.strip_prefix("DELETE") else { return Ok(()) };
        let mut stmt = self.conn.prepare(&format!("SELECT rowid{rest}")).map_err(internal)?;
        let constants = self.constants;
        let mut stmt = constants.bind(&mut stmt, &plan.feed.binds)?;
        while stmt.step().map_err(internal)? == Step::Row {
            if let Cell::Int(rowid) = stmt.cell(0) {
                self.meet_children(of, rowid)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete_row(&mut self, of: &TargetTable, rowid: i64) -> Res<()> {
        self.keep_auto(&of.table)?;
        let old = self.before_delete(of, rowid)?;
        self.try_delete(of, rowid)?.map_err(|error| self.refused_parent(&error, of, rowid))?;
        self.after_delete(of, old)
    }

    /// Deletes the row of a number; answers what SQLite says of that.
    fn try_delete(&mut self, of: &TargetTable, rowid: i64) -> Res<Result<(), SqliteError>> {
        let mut stmt = self.prepared(of.delete_text())?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        let result = self.attempt(|| stmt.run());
        self.stmts.keep(of.delete_text(), stmt);
        Ok(result)
    }
}

impl UpdateTarget {
    /// Whether rows may get other keys in an index.
    pub(crate) fn changes_keys(&self) -> bool {
        let is_assigned =
            |id: u32| self.assignments.iter().any(|(column, _, _)| self.to.table.columns[*column].id == id);
        let changes_itself = |id: u32| {
            let column = self.to.table.position(id).map(|position| &self.to.table.columns[position]);
            column.is_some_and(|column| column.generated.is_some() || column.on_update)
        };
        let mut parts = self.to.table.indexes.iter().flat_map(|index| &index.parts);
        parts.any(|part| is_assigned(part.column) || changes_itself(part.column))
    }

    /// A column of the row as it is after some changes.
    fn value_of(&self, column: usize, changes: &[(usize, Datum)], cells: &[Datum]) -> Datum {
        let old = || self.assignments.iter().find(|(known, ..)| *known == column).map(|(_, old, _)| &cells[*old]);
        changed(changes, column).or_else(old).cloned().unwrap_or(Datum::Null)
    }
}

/// The new value of a column.
fn changed(changes: &[(usize, Datum)], column: usize) -> Option<&Datum> {
    changes.iter().find(|(known, _)| *known == column).map(|(_, value)| value)
}

/// Gives a column another value; the last one counts.
fn change(changes: &mut Vec<(usize, Datum)>, column: usize, value: Datum) {
    match changes.iter_mut().find(|(known, _)| *known == column) {
        Some((_, known)) => *known = value,
        None => changes.push((column, value)),
    }
}
