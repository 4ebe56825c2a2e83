//! INSERT and REPLACE, row by row.

use std::sync::Arc;

use super::{
    auto::Interval,
    conflict::{entry, is_foreign_key},
    write::{Res, ReturnedRows, Writer, Written, internal},
};
use crate::{
    catalog::Table,
    coerce::Target,
    column::Default,
    errors,
    parse::program::{Event, Timing},
    store::conn::{Cell, Stmt},
    temporary_name::shown,
    translate::{
        assign::{LateValue, RowValue},
        dml::{Cellish, InsertPlan, InsertRow},
        rules::RuleKind,
        target_table::TargetTable,
    },
    value::{Datum, Val},
};

pub(super) struct InsertRun {
    pub(super) stmt: Stmt,
    pub(super) written: Written,
    pub(super) rows: usize,
    pub(super) duplicates: usize,
    /// Values of AUTO_INCREMENT that the statement has reserved.
    autos: Interval,
    pub(super) single: bool,
    /// The row id is no column: SQLite's statement has a parameter for it.
    hides_rowid: bool,
}

impl Writer<'_> {
    /// Carries out INSERT or REPLACE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn insert(&mut self, plan: &InsertPlan) -> Res<Written> {
        let table = &plan.to.table;
        let mut run = InsertRun {
            stmt: self.prepared(plan.to.insert_text())?,
            written: Written {
                touched: vec![Arc::clone(&table.state)],
                returned: plan.returning.as_ref().map(|returning| ReturnedRows::new(&returning.returned)),
                ..Written::default()
            },
            rows: 0,
            duplicates: 0,
            autos: Interval::for_rows(plan.rows.len()),
            single: plan.query.is_none() && plan.load.is_none() && plan.rows.len() == 1,
            hides_rowid: table.rowid_column().is_none(),
        };
        self.env.ignoring.set(plan.ignore);
        self.env.set_abort_on_warning(self.strict() && !plan.ignore);
        self.nulls_later = plan.to.fires(Event::Insert, Timing::Before);
        let result = self.tell_omitted(plan).and_then(|()| self.insert_rows(plan, &mut run));
        self.env.set_abort_on_warning(false);
        self.env.ignoring.set(false);
        let InsertRun { stmt, mut written, rows, duplicates, single, .. } = run;
        self.stmts.keep_in_any_case(plan.to.insert_text(), stmt);
        result?;
        if plan.query.is_some() && plan.on_duplicate.is_some() && written.last_insert_id.is_none() {
            // Here MariaDB answers generated values only.
            written.insert_id = 0;
        }
        if plan.load.is_none() && plan.to.view.as_ref().is_some_and(|view| view.hides_auto) {
            // What nobody sees through the view is not what LAST_INSERT_ID() is about.
            written.last_insert_id = None;
        }
        if plan.load.is_some() {
            let deleted = if plan.replace { duplicates as u64 } else { 0 };
            let skipped = rows as u64 + deleted - written.affected.min(rows as u64 + deleted);
            let warnings = self.env.warning_count();
            written.info = format!("Records: {rows}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}");
        } else if !single {
            written.info = format!("Records: {rows}  Duplicates: {duplicates}  Warnings: {}", self.env.warning_count());
        }
        Ok(written)
    }

    /// Columns without a default that get no value: they are complained of once, ahead of all rows, unless triggers may fill them.
    fn tell_omitted(&mut self, plan: &InsertPlan) -> Res<()> {
        self.omitted_told = !self.nulls_later;
        if self.nulls_later {
            return Ok(());
        }
        for (position, column) in plan.to.table.columns.iter().enumerate() {
            if column.lacks_default() && !plan.columns.contains(&position) {
                self.default(&self.target(&plan.to, position, 1, plan.ignore))?;
            }
        }
        Ok(())
    }

    pub(super) fn insert_rows(&mut self, plan: &InsertPlan, run: &mut InsertRun) -> Res<()> {
        if let Some(load) = &plan.load {
            return self.load_rows(plan, load, run);
        }
        if let Some(feed) = &plan.query {
            let rows = self.collect(feed)?;
            for (number, row) in rows.iter().enumerate() {
                let (values, pending) =
                    self.row_of((&plan.to, &plan.columns), number + 1, false, plan.ignore, |_, index| {
                        let column = &plan.to.table.columns[plan.columns[index]];
                        Ok(Given::Value(feed.outs[index].value_for(row[index].as_cell(), &column.ty)))
                    })?;
                self.insert_one(plan, run, values, &pending, row)?;
            }
            return Ok(());
        }
        for (number, row) in plan.rows.iter().enumerate() {
            let row = self.values_row(plan, row, number + 1, run.single);
            let Some((values, pending)) = self.or_skip(row, plan.ignore && !run.single)? else {
                run.rows += 1;
                continue;
            };
            self.insert_one(plan, run, values, &pending, &[])?;
        }
        Ok(())
    }

    pub(super) fn values_row(
        &mut self,
        plan: &InsertPlan,
        row: &InsertRow,
        number: usize,
        single: bool,
    ) -> Res<(Vec<Datum>, Vec<usize>)> {
        let evaluated = row.feed.as_ref().map(|feed| self.collect(feed)).transpose()?;
        let outs = row.feed.as_ref().map_or(&[][..], |feed| &feed.outs);
        let constants = self.constants;
        self.row_of((&plan.to, &plan.columns), number, single, plan.ignore, |_, index| {
            let target = &plan.to.table.columns[plan.columns[index]].ty;
            Ok(match row.values.get(index) {
                None | Some(Cellish::Default) => Given::Default,
                Some(Cellish::Const(source)) => match constants.plain(source, target) {
                    Some(stored) => Given::Stored(stored),
                    None => Given::Value(constants.value_for(source, target)?),
                },
                Some(Cellish::Column(column)) => match &evaluated {
                    Some(rows) => Given::Value(outs[*column].value_for(rows.cells[*column].as_cell(), target)),
                    None => Given::Default,
                },
                Some(Cellish::Late(late)) => Given::Late(late),
            })
        })
    }

    /// With IGNORE a row that a CHECK or a view's check option refuses, that of JSON included, is left out: unless it is the only
    /// one of VALUES.
    pub(super) fn or_skip<T>(&self, row: Res<T>, ignore: bool) -> Res<Option<T>> {
        match row {
            Err(error) if ignore && matches!(error.code, 4025 | 1369) => {
                self.env.warn(error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// All columns of a new row: given values coerced, the others by default; and those whose default is an expression.
    pub(super) fn row_of<'v>(
        &mut self,
        (to, columns): (&TargetTable, &[usize]),
        number: usize,
        single: bool,
        ignore: bool,
        mut given: impl FnMut(&Self, usize) -> Res<Given<'v>>,
    ) -> Res<(Vec<Datum>, Vec<usize>)> {
        let table = &to.table;
        let mut row: Vec<Option<Datum>> = vec![None; table.columns.len()];
        for (index, &column) in columns.iter().enumerate() {
            let given = given(self, index)?;
            if matches!(given, Given::Default) {
                continue;
            }
            if table.columns[column].generated.is_some() {
                self.generated_value(table, column, ignore)?;
                continue;
            }
            if let Given::Stored(value) = given {
                row[column] = Some(value);
                continue;
            }
            let late = match given {
                Given::Late(late) => Some((self.late(late, |value| stored_so_far(table, &row, value))?, &late.out)),
                _ => None,
            };
            let target = self.target(to, column, number, ignore);
            let value = match (given, &late) {
                (Given::Value(value), _) => value,
                (_, Some((value, out))) => out.value_for(value.as_cell(), &target.column.ty),
                (_, None) => continue,
            };
            row[column] = Some(self.store(&target, value, single)?);
        }
        let mut pending = Vec::new();
        self.omitted.clear();
        if self.nulls_later {
            self.omitted.extend((0..row.len()).filter(|column| row[*column].is_none()));
        }
        let row = row
            .into_iter()
            .enumerate()
            .map(|(column, value)| match value {
                Some(value) => Ok(value),
                None => {
                    if matches!(table.columns[column].default, Default::Expression(_)) {
                        pending.push(column);
                    }
                    self.left_out((to, columns), column, number, ignore)
                }
            })
            .collect::<Res<Vec<_>>>()?;
        Ok((row, pending))
    }

    /// The value of a column that gets none, or DEFAULT: where that is said the error names the column, not the view.
    fn left_out(
        &self,
        (to, columns): (&TargetTable, &[usize]),
        column: usize,
        number: usize,
        ignore: bool,
    ) -> Res<Datum> {
        let target = self.target(to, column, number, ignore);
        match target.view {
            _ if self.omitted_told && target.column.lacks_default() && !columns.contains(&column) => {
                Ok(target.implicit_default())
            }
            Some(_) if columns.contains(&column) => self.default(&Target { view: None, ..target }),
            _ => self.default(&target),
        }
    }

    /// A value for a generated column: refused, or ignored with a warning.
    pub(super) fn generated_value(&self, table: &Table, column: usize, ignore: bool) -> Res<()> {
        let error = errors::generated_value(&table.columns[column].name, shown(&table.name));
        if self.strict() && !ignore {
            return Err(error);
        }
        self.env.warn(error);
        Ok(())
    }

    /// Evaluates the expressions of a row: 4025 or 1369 if it may not be written. Defaults count for the columns in `pending`.
    pub(super) fn apply_rules(
        &mut self,
        to: &TargetTable,
        row: &mut [Datum],
        pending: &[usize],
        number: usize,
        ignore: bool,
    ) -> Res<()> {
        self.apply_some_rules(to, row, pending, number, ignore, true)
    }

    /// As [`apply_rules`](Self::apply_rules), with or without the CHECK constraints and what a view wants.
    pub(super) fn apply_some_rules(
        &mut self,
        to: &TargetTable,
        row: &mut [Datum],
        pending: &[usize],
        number: usize,
        ignore: bool,
        checks: bool,
    ) -> Res<()> {
        let constants = self.constants;
        for rule in &to.rules {
            if !checks && matches!(&rule.kind, RuleKind::Check(_) | RuleKind::Seen) {
                continue;
            }
            if matches!(&rule.kind, RuleKind::Default(column) if !pending.contains(column)) {
                continue;
            }
            let mut stmt = self.prepared(&rule.sql)?;
            let result = match &rule.kind {
                RuleKind::Check(_) | RuleKind::Seen => {
                    let passes = rule.passes(&mut stmt, &constants, row);
                    passes.and_then(|passes| if passes { Ok(None) } else { Err(to.refused_by(&rule.kind)) })
                }
                RuleKind::Default(column) | RuleKind::Generated(column) => {
                    let target = self.target(to, *column, number, ignore);
                    rule.stored(&mut stmt, &constants, row, &target).map(|value| Some((*column, value)))
                }
            };
            self.stmts.keep_in_any_case(&rule.sql, stmt);
            if let Some((column, value)) = result? {
                row[column] = value;
            }
        }
        Ok(())
    }

    pub(super) fn insert_one(
        &mut self,
        plan: &InsertPlan,
        run: &mut InsertRun,
        mut row: Vec<Datum>,
        pending: &[usize],
        selected: &[Datum],
    ) -> Res<()> {
        self.go_on()?;
        run.rows += 1;
        let (to, table) = (&*plan.to, &plan.to.table);
        let Some(pending) = self.shown_to_triggers(plan, &mut row, pending, run)? else { return Ok(()) };
        let before = run.autos.next;
        let generated = self.auto_increment(table, &mut row, &mut run.autos)?;
        if !to.rules.is_empty() {
            let passed = self.apply_rules(to, &mut row, pending, run.rows, plan.ignore);
            if self.or_skip(passed, plan.ignore && !run.single)?.is_none() {
                run.autos.step_back(before, generated);
                return Ok(());
            }
        }
        let hidden = if run.hides_rowid { self.hidden_rowid(table)? } else { None };
        loop {
            bind_row(&mut run.stmt, &row, run.hides_rowid.then_some(hidden))?;
            let result = self.attempt(|| run.stmt.step());
            run.stmt.reset();
            run.autos.tried();
            let error = match result {
                Ok(_) => return self.note_inserted(plan, self.conn.last_insert_rowid(), &row, generated, run),
                Err(error) => error,
            };
            if !error.is_unique() {
                let refused = self.refused_child(&error, to, &row);
                if plan.ignore && is_foreign_key(&error) {
                    self.env.warn(refused);
                    return Ok(());
                }
                return Err(refused);
            }
            let Some((rowid, index)) = self.conflict(to, &row)? else { return Err(internal(error)) };
            if plan.query.is_some() || plan.load.is_some() {
                self.pass_refused_auto(table, &row, generated)?;
            }
            self.meet_row(table, rowid, plan.replace || plan.on_duplicate.is_some())?;
            if plan.replace {
                if self.keeps_row(to, (rowid, index), &row)? {
                    return self.note_inserted(plan, rowid, &row, generated, run);
                }
                self.delete_row(to, rowid)?;
                run.written.cascades = true;
                run.written.affected += 1;
                run.duplicates += 1;
                continue;
            }
            if let Some(upsert) = &plan.on_duplicate {
                run.duplicates += 1;
                run.autos.step_back(before, generated);
                run.written.cascades = true;
                self.update_duplicate(plan, upsert, rowid, &row, selected, run)?;
                return self.note_returned(plan, rowid, &mut run.written);
            }
            self.keep_conflict(to, rowid, index, &row)?;
            let error = errors::duplicate_entry(entry(table, index, &row), &index.name);
            if plan.ignore {
                run.autos.step_back(before, generated);
                run.duplicates += 1;
                self.env.warn(error);
                return Ok(());
            }
            return Err(error);
        }
    }

    /// Counts a row that is in the table, with what was generated for it.
    fn note_inserted(
        &mut self,
        plan: &InsertPlan,
        rowid: i64,
        row: &[Datum],
        generated: Option<u64>,
        run: &mut InsertRun,
    ) -> Res<()> {
        run.written.affected += 1;
        self.note_auto(&plan.to.table, row, generated, &mut run.written);
        if plan.to.fires(Event::Insert, Timing::After) {
            self.fire(&plan.to, Event::Insert, Timing::After, None, Some(&mut row.to_vec()))?;
        }
        self.note_returned(plan, rowid, &mut run.written)
    }
}

/// What the text of a statement gives for a column.
pub(super) enum Given<'v> {
    Default,
    Value(Val<'v>),
    /// In the form in which its column stores it.
    Stored(Datum),
    Late(&'v LateValue),
}

/// What an expression of a row sees of a column: the value that is stored, or the one that stands there before.
fn stored_so_far(table: &Table, row: &[Option<Datum>], value: RowValue) -> Datum {
    let RowValue::Stored(column) = value else { return Datum::Null };
    if let Some(stored) = &row[column] {
        return stored.clone();
    }
    let column = &table.columns[column];
    match &column.default {
        Default::Literal { value, .. } => value.clone(),
        Default::None if !column.nullable => crate::coerce::implicit_default(&column.ty),
        _ => Datum::Null,
    }
}

/// Binds the values of a row, and the `rowid` where the statement has a parameter for it.
pub(super) fn bind_row(stmt: &mut Stmt, row: &[Datum], rowid: Option<Option<i64>>) -> Res<()> {
    for (index, value) in row.iter().enumerate() {
        stmt.bind(index + 1, value.as_cell()).map_err(internal)?;
    }
    if let Some(rowid) = rowid {
        stmt.bind(row.len() + 1, rowid.map_or(Cell::Null, Cell::Int)).map_err(internal)?;
    }
    Ok(())
}
