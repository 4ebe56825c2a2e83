//! UPDATE, ON DUPLICATE KEY UPDATE and DELETE, row by row.

use std::{collections::HashSet, sync::Arc};

use super::{
    Out,
    conflict::is_foreign_key,
    insert::InsertRun,
    rules::Rule,
    write::{Res, ReturnedRows, Rows, Writer, Written, internal},
};
use crate::{
    catalog::Table,
    coerce::Target,
    engine::Schema,
    errors,
    store::conn::{Cell, Step},
    translate::{
        assign::RowValue,
        dml::{Cellish, DeletePlan, InsertPlan, UpdatePlan, UpdateTarget, Upsert},
    },
    value::{Datum, uint_of},
};

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
        let table = &plan.table;
        let input = |value: RowValue, changes: &[(usize, Datum)], cells: &[Datum]| match value {
            RowValue::Fed(index) => cells[index].clone(),
            RowValue::Stored(column) => changed(changes, column).unwrap_or(&cells[column]).clone(),
            RowValue::Refused(column) => row[column].clone(),
            RowValue::Selected(index) => selected[index].clone(),
        };
        let mut stmt = self.conn.prepare(&upsert.feed.sql).map_err(internal)?;
        let mut stmt = self.constants.bind(&mut stmt, &upsert.feed.binds)?;
        let base = upsert.feed.binds.len();
        for (index, value) in upsert.inputs.iter().enumerate() {
            stmt.bind(base + index + 1, input(*value, &[], &[]).as_cell()).map_err(internal)?;
        }
        stmt.bind(base + upsert.inputs.len() + 1, Cell::Int(rowid)).map_err(internal)?;
        if stmt.step().map_err(internal)? != Step::Row {
            return Err(errors::internal("the duplicate row has gone"));
        }
        let cells: Vec<Datum> = (0..stmt.column_count()).map(|index| stmt.cell(index).to_owned()).collect();
        drop(stmt);
        let mut changes = Vec::new();
        for (&column, value) in upsert.columns.iter().zip(&upsert.values) {
            let late = match value {
                Cellish::Late(late) => Some(self.late(late, |value| input(value, &changes, &cells))?),
                _ => None,
            };
            let target = self.target(&plan.schema, table, column, run.rows, plan.ignore);
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
        if self.write_changes(table, rowid, changes, old, &plan.schema, plan.ignore, &plan.rules)? {
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
            Cellish::Default => return self.default(target),
            Cellish::Const(source) => self.constants.value_for(source, ty)?,
            Cellish::Column(index) => outs[*index].value_for(cells[*index].as_cell(), ty),
            Cellish::Late(expression) => expression.out.value_for(late.unwrap_or(&Datum::Null).as_cell(), ty),
        };
        self.store(target, value, false)
    }

    /// Writes changed columns of one row; answers whether any value is a new one.
    pub(super) fn write_changes<'d>(
        &mut self,
        table: &Table,
        rowid: i64,
        mut changes: Vec<(usize, Datum)>,
        old: impl Fn(usize) -> &'d Datum,
        schema: &Schema,
        ignore: bool,
        rules: &[Rule],
    ) -> Res<bool> {
        if changes.iter().all(|(column, new)| new == old(*column)) {
            return Ok(false);
        }
        for (index, column) in table.columns.iter().enumerate() {
            if column.on_update && !changes.iter().any(|(changed, _)| *changed == index) {
                changes.push((index, self.now(column)));
            }
        }
        if !rules.is_empty() {
            let mut row = self.whole_row(table, rowid)?;
            for (column, value) in &changes {
                row[*column] = value.clone();
            }
            let before = row.clone();
            let passed = self.apply_rules(rules, schema, table, &mut row, &[], 1, ignore);
            if self.or_skip(passed, ignore)?.is_none() {
                return Ok(false);
            }
            let generated = row.into_iter().enumerate().filter(|(column, value)| *value != before[*column]);
            changes.extend(generated);
        }
        let assignments: Vec<String> = changes
            .iter()
            .enumerate()
            .map(|(number, (column, _))| format!("c{} = ?{}", table.columns[*column].id, number + 1))
            .collect();
        let sql = format!("UPDATE t{} SET {} WHERE rowid = ?{}", table.id, assignments.join(", "), changes.len() + 1);
        let mut stmt = self.prepared(&sql)?;
        for (number, (_, value)) in changes.iter().enumerate() {
            stmt.bind(number + 1, value.as_cell()).map_err(internal)?;
        }
        stmt.bind(changes.len() + 1, Cell::Int(rowid)).map_err(internal)?;
        let result = self.attempt(|| stmt.run());
        self.keep(stmt);
        let Err(error) = result else {
            self.raise_auto(table, &changes)?;
            return Ok(true);
        };
        let error = if error.is_unique() {
            self.update_conflict(schema, table, rowid, &changes)?
        } else {
            let child = table
                .foreign_keys
                .iter()
                .any(|key| changes.iter().any(|(column, _)| key.columns.contains(&table.columns[*column].id)));
            if child {
                let mut row = self.whole_row(table, rowid)?;
                for (column, value) in &changes {
                    row[*column] = value.clone();
                }
                self.refused_child(&error, schema, table, &row)
            } else {
                self.refused_parent(&error, schema, table, rowid)
            }
        };
        if ignore && matches!(error.code, 1062 | 1451 | 1452) {
            self.env.warn(error);
            return Ok(false);
        }
        Err(error)
    }

    /// A row as it stands.
    pub(super) fn whole_row(&mut self, table: &Table, rowid: i64) -> Res<Vec<Datum>> {
        let columns: Vec<String> = table.columns.iter().map(|column| format!("c{}", column.id)).collect();
        let mut stmt = self.prepared(&format!("SELECT {} FROM t{} WHERE rowid = ?1", columns.join(", "), table.id))?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        stmt.step().map_err(internal)?;
        let row = (0..table.columns.len()).map(|index| stmt.cell(index).to_owned()).collect();
        self.keep(stmt);
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
        written.touched = plan.targets.iter().map(|target| Arc::clone(&target.table.state)).collect();
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
        let mut seen = HashSet::new();
        for cells in rows.iter() {
            let Datum::Int(rowid) = cells[target.rowid] else { continue };
            if !seen.insert(rowid) {
                continue;
            }
            self.lock_row(&target.table, rowid)?;
            *matched += 1;
            let changes = self.changes_of(plan, target, cells, *matched as usize)?;
            let old = |column: usize| {
                let place = target.assignments.iter().find(|(known, ..)| *known == column);
                place.map_or(&Datum::Null, |(_, old, _)| &cells[*old])
            };
            if self.write_changes(&target.table, rowid, changes, old, &target.schema, plan.ignore, &target.rules)? {
                *changed += 1;
            }
        }
        self.keep_raised_auto(&target.table, target.assignments.iter().map(|(column, ..)| *column))
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
            if target.table.columns[*column].generated.is_some() {
                if !matches!(value, Cellish::Default) {
                    self.generated_value(&target.table, *column, plan.ignore)?;
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
            let place = self.target(&target.schema, &target.table, *column, number, plan.ignore);
            let new = self.new_value(&place, value, late.as_ref(), cells, &plan.feed.outs).and_then(|new| {
                // No number is made for the AUTO_INCREMENT column of a row that is there.
                if new.is_null() && !place.column.nullable { self.not_null(&place, false) } else { Ok(new) }
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
        for (_, table, _) in &plan.targets {
            self.keep_auto(table)?;
            written.touched.push(Arc::clone(&table.state));
        }
        if plan.direct {
            self.delete_directly(plan)?;
            written.affected = self.conn.changes();
            return Ok(written);
        }
        let rows = self.collect(&plan.feed)?;
        written.returned = plan.returning.as_ref().map(ReturnedRows::new);
        for (schema, table, column) in &plan.targets {
            let mut stmt =
                self.conn.prepare(&format!("DELETE FROM t{} WHERE rowid = ?1", table.id)).map_err(internal)?;
            let mut seen = HashSet::new();
            for cells in rows.iter() {
                let Datum::Int(rowid) = cells[*column] else { continue };
                if !seen.insert(rowid) {
                    continue;
                }
                self.lock_row(table, rowid)?;
                stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
                match self.attempt(|| stmt.run()) {
                    Ok(()) => {
                        written.affected += self.conn.changes().min(1);
                        if let Some(returned) = &mut written.returned {
                            let mut values = cells[column + 1..].iter();
                            values.try_for_each(|value| returned.push(value.clone(), self.memory_max))?;
                        }
                    }
                    Err(error) => {
                        let refused = self.refused_parent(&error, schema, table, rowid);
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
        let (schema, table, _) = &plan.targets[0];
        // Prepared without a hook, a statement for all rows empties a table as a whole, and tells a later one nothing.
        let finds_some = plan.feed.sql.contains(" WHERE ");
        let kept = self.conn.is_private() || self.conn.watch().is_none() || finds_some;
        let mut stmt =
            if kept { self.prepared(&plan.feed.sql) } else { self.conn.prepare(&plan.feed.sql).map_err(internal) }?;
        let result = self.constants.bind(&mut stmt, &plan.feed.binds).and_then(|mut stmt| {
            stmt.run().or_else(|error| {
                if is_foreign_key(&error) && self.conn.watch().is_some() {
                    self.meet_children_of(plan)?;
                }
                Err(self.parent_error(&error, schema, table))
            })
        });
        if kept {
            self.keep(stmt);
        }
        result
    }

    /// As [`meet_children`](Self::meet_children), of all the rows that a DELETE finds.
    fn meet_children_of(&mut self, plan: &DeletePlan) -> Res<()> {
        let (schema, table, _) = &plan.targets[0];
        let Some(rest) = plan.feed.sql.strip_prefix("DELETE") else { return Ok(()) };
        let mut stmt = self.conn.prepare(&format!("SELECT rowid{rest}")).map_err(internal)?;
        let constants = self.constants;
        let mut stmt = constants.bind(&mut stmt, &plan.feed.binds)?;
        while stmt.step().map_err(internal)? == Step::Row {
            if let Cell::Int(rowid) = stmt.cell(0) {
                self.meet_children(schema, table, rowid)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete_row(&mut self, schema: &Schema, table: &Table, rowid: i64) -> Res<()> {
        self.keep_auto(table)?;
        let mut stmt = self.conn.prepare(&format!("DELETE FROM t{} WHERE rowid = ?1", table.id)).map_err(internal)?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        stmt.run().map_err(|error| self.refused_parent(&error, schema, table, rowid))
    }
}

impl UpdateTarget {
    /// Whether rows may get other keys in an index.
    pub(crate) fn changes_keys(&self) -> bool {
        let is_assigned = |id: u32| self.assignments.iter().any(|(column, _, _)| self.table.columns[*column].id == id);
        let changes_itself = |id: u32| {
            let column = self.table.position(id).map(|position| &self.table.columns[position]);
            column.is_some_and(|column| column.generated.is_some() || column.on_update)
        };
        let mut parts = self.table.indexes.iter().flat_map(|index| &index.parts);
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
