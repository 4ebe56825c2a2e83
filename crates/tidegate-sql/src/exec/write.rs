//! INSERT, UPDATE and DELETE, row by row: values are coerced in Rust, conflicts are looked up, rows are compared before they
//! are written. The caller holds the write lock and an open transaction.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use tidegate_rows::ServerError;

use super::{
    Out,
    bind::Constants,
    conflict::{entry, is_foreign_key},
    rules::{Rule, RuleKind},
};
use crate::{
    catalog::{Column, Default, Table, TableState},
    coerce::Target,
    engine::Schema,
    errors,
    session::Env,
    store::conn::{Cell, Conn, SqliteError, Step, Stmt, to_server_error},
    translate::dml::{Cellish, DeletePlan, Feed, InsertPlan, InsertRow, UpdatePlan, UpdateTarget, Upsert},
    value::{Base, Datum, Rep, Val, uint_of},
    variables,
};

pub(super) type Res<T> = Result<T, ServerError>;

/// What a writing statement did.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) affected: u64,
    pub(crate) insert_id: u64,
    pub(crate) info: String,
    /// What `LAST_INSERT_ID()` answers from now on, if the statement has generated a value.
    pub(crate) last_insert_id: Option<u64>,
    pub(crate) touched: Vec<Arc<TableState>>,
    /// An INSERT has deleted or updated rows: their foreign keys may have reached other tables.
    pub(crate) cascades: bool,
}

/// What a statement needs while it writes.
pub(crate) struct Writer<'a> {
    pub(crate) conn: &'a mut Conn,
    pub(crate) constants: Constants<'a>,
    pub(crate) env: &'a Env,
    pub(crate) memory_max: usize,
    /// Prepared statements that survive the statement: the plan's main one.
    pub(crate) stmts: &'a mut Vec<Stmt>,
}

pub(super) fn internal(error: SqliteError) -> ServerError {
    if error.message.contains("no such table: main.t") {
        // A foreign key whose parent does not exist (yet).
        return errors::child_row("the referenced table does not exist");
    }
    if error.code & 0xff == libsqlite3_sys::SQLITE_MISMATCH {
        // An AUTO_INCREMENT primary key is SQLite's row id, which has a sign.
        return errors::unsupported("values from 2^63 on in an AUTO_INCREMENT primary key");
    }
    to_server_error(&error)
}

/// Statements that a plan keeps prepared.
const STMTS_MAX: usize = 16;

/// Rows of a feed, with a bound on their memory.
struct Rows {
    cells: Vec<Datum>,
    width: usize,
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = &[Datum]> {
        self.cells.chunks(self.width.max(1))
    }
}

impl Writer<'_> {
    fn strict(&self) -> bool {
        self.env.sql_mode.get() & (variables::STRICT_TRANS_TABLES | variables::STRICT_ALL_TABLES) != 0
    }

    fn target<'t>(
        &'t self,
        schema: &'t Schema,
        table: &'t Table,
        column: usize,
        row: usize,
        ignore: bool,
    ) -> Target<'t> {
        Target {
            schema: &schema.name,
            table: crate::ddl::temporary::shown(&table.name),
            column: &table.columns[column],
            row,
            strict: self.strict() && !ignore,
            env: self.env,
        }
    }

    /// The INSERT itself, which stands last among the kept statements.
    fn main(&mut self, sql: impl FnOnce() -> String) -> Res<Stmt> {
        match self.stmts.pop() {
            Some(stmt) => Ok(stmt),
            None => self.conn.prepare(&sql()).map_err(internal),
        }
    }

    /// A statement with this text: one that an earlier run has prepared, or a new one.
    fn prepared(&mut self, sql: &str) -> Res<Stmt> {
        match self.stmts.iter().position(|stmt| stmt.sql_is(sql)) {
            Some(index) => Ok(self.stmts.remove(index)),
            None => self.conn.prepare(sql).map_err(internal),
        }
    }

    /// Keeps a statement for the next run; in front, because the plan's main one is taken from the end.
    fn keep(&mut self, mut stmt: Stmt) {
        stmt.reset();
        stmt.clear_bindings();
        if self.stmts.len() < STMTS_MAX {
            self.stmts.insert(0, stmt);
        }
    }

    fn collect(&mut self, feed: &Feed) -> Res<Rows> {
        let mut stmt = self.prepared(&feed.sql)?;
        let result = self.read_all(&mut stmt, feed);
        self.keep(stmt);
        result
    }

    fn read_all(&self, stmt: &mut Stmt, feed: &Feed) -> Res<Rows> {
        self.constants.bind(stmt, &feed.binds)?;
        let width = stmt.column_count();
        let mut rows = Rows { cells: Vec::new(), width };
        let mut bytes = 0usize;
        while stmt.step().map_err(internal)? == Step::Row {
            for index in 0..width {
                let cell = stmt.cell(index);
                bytes += size_of::<Datum>();
                if let Cell::Text(data) | Cell::Blob(data) = cell {
                    bytes += data.len();
                }
                rows.cells.push(cell.to_owned());
            }
            if bytes > self.memory_max {
                return Err(errors::unsupported("a statement that changes this much at once; divide it"));
            }
        }
        Ok(rows)
    }

    /// The default value of a column.
    fn default(&self, target: &Target<'_>) -> Res<Datum> {
        let column = target.column;
        Ok(match &column.default {
            Default::Literal { value, .. } => value.clone(),
            Default::Null => Datum::Null,
            Default::Now => self.now(column),
            // Evaluated when the row is complete.
            Default::Expression(_) => Datum::Null,
            Default::None if column.generated.is_some() => Datum::Null,
            Default::None if column.nullable => Datum::Null,
            Default::None if column.auto_increment => Datum::Null,
            Default::None if column.ty.base == Base::Enum => target.implicit_default(),
            Default::None => {
                let error = errors::no_default(&column.name);
                if target.strict {
                    return Err(error);
                }
                self.env.warn(error);
                target.implicit_default()
            }
        })
    }

    fn now(&self, column: &Column) -> Datum {
        let decimals = column.ty.decimals;
        if column.ty.rep() == Rep::Timestamp {
            let micros = self.env.now_micros();
            let unit = 10i64.pow(u32::from(6 - decimals.min(6)));
            return Datum::Int(micros - micros.rem_euclid(unit));
        }
        Datum::Int(self.env.now_local().truncate(decimals).pack())
    }

    /// A value in its column's stored form, with the rules for NULL.
    fn store(&self, target: &Target<'_>, value: Val<'_>, single_row: bool) -> Res<Datum> {
        let stored = target.coerce(value)?;
        if stored.is_null() && !target.column.nullable && target.column.ty.base == Base::Timestamp {
            return Ok(self.now(target.column));
        }
        if stored.is_null() && !target.column.nullable && !target.column.auto_increment {
            let error = errors::null_not_allowed(&target.column.name);
            if target.strict || single_row && !target.env.ignoring.get() {
                return Err(error);
            }
            self.env.warn(error);
            return Ok(target.implicit_default());
        }
        Ok(stored)
    }

    /// Carries out INSERT or REPLACE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn insert(&mut self, plan: &InsertPlan) -> Res<Written> {
        let table = &plan.table;
        let mut run = InsertRun {
            stmt: self.main(|| insert_sql(table))?,
            written: Written { touched: vec![Arc::clone(&table.state)], ..Written::default() },
            rows: 0,
            duplicates: 0,
            spare: None,
            single: plan.query.is_none() && plan.rows.len() == 1,
        };
        self.env.ignoring.set(plan.ignore);
        self.env.set_abort_on_warning(self.strict() && !plan.ignore);
        let result = self.insert_rows(plan, &mut run);
        self.env.set_abort_on_warning(false);
        self.env.ignoring.set(false);
        run.stmt.reset();
        run.stmt.clear_bindings();
        if let Err(error) = result {
            self.stmts.push(run.stmt);
            return Err(error);
        }
        let InsertRun { stmt, mut written, rows, duplicates, single, .. } = run;
        self.stmts.push(stmt);
        if !single {
            written.info = format!("Records: {rows}  Duplicates: {duplicates}  Warnings: {}", self.env.warning_count());
        }
        Ok(written)
    }

    fn insert_rows(&mut self, plan: &InsertPlan, run: &mut InsertRun) -> Res<()> {
        if let Some(feed) = &plan.query {
            let rows = self.collect(feed)?;
            for (number, row) in rows.iter().enumerate() {
                let (values, pending) = self.row_of(plan, number + 1, false, |index| {
                    Ok(Some(Val::of(row[index].as_cell(), feed.outs[index].rep))
                        .map(|value| named(value, &feed.outs[index])))
                })?;
                self.insert_one(plan, run, values, &pending)?;
            }
            return Ok(());
        }
        for (number, row) in plan.rows.iter().enumerate() {
            let row = self.values_row(plan, row, number + 1, run.single);
            let Some((values, pending)) = self.or_skip(row, plan.ignore && !run.single)? else {
                run.rows += 1;
                continue;
            };
            self.insert_one(plan, run, values, &pending)?;
        }
        Ok(())
    }

    fn values_row(
        &mut self,
        plan: &InsertPlan,
        row: &InsertRow,
        number: usize,
        single: bool,
    ) -> Res<(Vec<Datum>, Vec<usize>)> {
        let evaluated = row.feed.as_ref().map(|feed| self.collect(feed)).transpose()?;
        let outs = row.feed.as_ref().map_or(&[][..], |feed| &feed.outs);
        let constants = self.constants;
        self.row_of(plan, number, single, |index| {
            Ok(match row.values.get(index) {
                None | Some(Cellish::Default) => None,
                Some(Cellish::Const(source)) => Some(constants.value(source)?),
                Some(Cellish::Column(column)) => evaluated
                    .as_ref()
                    .map(|rows| named(Val::of(rows.cells[*column].as_cell(), outs[*column].rep), &outs[*column])),
            })
        })
    }

    /// With IGNORE a row that a CHECK refuses, that of JSON included, is left out: unless it is the only one of VALUES.
    fn or_skip<T>(&self, row: Res<T>, ignore: bool) -> Res<Option<T>> {
        match row {
            Err(error) if ignore && error.code == 4025 => {
                self.env.warn(error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// All columns of a new row: given values coerced, the others by default; and those whose default is an expression.
    fn row_of<'v>(
        &self,
        plan: &InsertPlan,
        number: usize,
        single: bool,
        mut value: impl FnMut(usize) -> Res<Option<Val<'v>>>,
    ) -> Res<(Vec<Datum>, Vec<usize>)> {
        let table = &plan.table;
        let mut row: Vec<Option<Datum>> = vec![None; table.columns.len()];
        for (index, &column) in plan.columns.iter().enumerate() {
            if let Some(value) = value(index)? {
                if table.columns[column].generated.is_some() {
                    self.generated_value(table, column, plan.ignore)?;
                    continue;
                }
                let target = self.target(&plan.schema, table, column, number, plan.ignore);
                row[column] = Some(self.store(&target, value, single)?);
            }
        }
        let mut pending = Vec::new();
        let row = row
            .into_iter()
            .enumerate()
            .map(|(column, value)| match value {
                Some(value) => Ok(value),
                None => {
                    if matches!(table.columns[column].default, Default::Expression(_)) {
                        pending.push(column);
                    }
                    self.default(&self.target(&plan.schema, table, column, number, plan.ignore))
                }
            })
            .collect::<Res<Vec<_>>>()?;
        Ok((row, pending))
    }

    /// A value for a generated column: refused, or ignored with a warning.
    fn generated_value(&self, table: &Table, column: usize, ignore: bool) -> Res<()> {
        let error = errors::generated_value(&table.columns[column].name, &table.name);
        if self.strict() && !ignore {
            return Err(error);
        }
        self.env.warn(error);
        Ok(())
    }

    /// Evaluates the expressions of a row: 4025 if it may not be written. Defaults count for the columns in `pending`.
    fn apply_rules(
        &mut self,
        rules: &[Rule],
        schema: &Schema,
        table: &Table,
        row: &mut [Datum],
        pending: &[usize],
        number: usize,
        ignore: bool,
    ) -> Res<()> {
        let constants = self.constants;
        for rule in rules {
            if matches!(&rule.kind, RuleKind::Default(column) if !pending.contains(column)) {
                continue;
            }
            let mut stmt = self.prepared(&rule.sql)?;
            let result = match &rule.kind {
                RuleKind::Check(name) => rule.passes(&mut stmt, &constants, row).and_then(|passes| {
                    if passes { Ok(None) } else { Err(errors::check_failed(name, &schema.name, &table.name)) }
                }),
                RuleKind::Default(column) | RuleKind::Generated(column) => {
                    let target = self.target(schema, table, *column, number, ignore);
                    rule.stored(&mut stmt, &constants, row, &target).map(|value| Some((*column, value)))
                }
            };
            self.keep(stmt);
            match result {
                Ok(Some((column, value))) => row[column] = value,
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn insert_one(
        &mut self,
        plan: &InsertPlan,
        run: &mut InsertRun,
        mut row: Vec<Datum>,
        pending: &[usize],
    ) -> Res<()> {
        run.rows += 1;
        let table = &plan.table;
        let generated = match (run.spare, self.wants_auto(table, &row)) {
            (Some(spare), Some(column)) => {
                run.spare = None;
                row[column] = Datum::from_u64(spare);
                Some(spare)
            }
            _ => self.auto_increment(table, &mut row)?,
        };
        if !plan.rules.is_empty() {
            let passed = self.apply_rules(&plan.rules, &plan.schema, table, &mut row, pending, run.rows, plan.ignore);
            if self.or_skip(passed, plan.ignore && !run.single)?.is_none() {
                return Ok(());
            }
        }
        loop {
            for (index, value) in row.iter().enumerate() {
                run.stmt.bind(index + 1, value.as_cell()).map_err(internal)?;
            }
            let result = run.stmt.step();
            run.stmt.reset();
            let error = match result {
                Ok(_) => {
                    run.written.affected += 1;
                    self.note_auto(table, &row, generated, &mut run.written);
                    return Ok(());
                }
                Err(error) => error,
            };
            if !error.is_unique() {
                let refused = self.child_error(&error, &plan.schema, table, &row);
                if plan.ignore && is_foreign_key(&error) {
                    self.env.warn(refused);
                    return Ok(());
                }
                return Err(refused);
            }
            let Some((rowid, index)) = self.conflict(table, &row)? else { return Err(internal(error)) };
            if plan.replace {
                self.delete_row(&plan.schema, table, rowid)?;
                run.written.cascades = true;
                run.written.affected += 1;
                run.duplicates += 1;
                continue;
            }
            if let Some(upsert) = &plan.on_duplicate {
                run.duplicates += 1;
                run.spare = run.spare.or(generated);
                run.written.cascades = true;
                return self.update_duplicate(plan, upsert, rowid, &row, run);
            }
            let error = errors::duplicate_entry(entry(table, index, &row), &index.name);
            if plan.ignore {
                run.spare = run.spare.or(generated);
                run.duplicates += 1;
                self.env.warn(error);
                return Ok(());
            }
            return Err(error);
        }
    }

    /// The AUTO_INCREMENT column, if the row leaves its value open with NULL or 0.
    fn wants_auto(&self, table: &Table, row: &[Datum]) -> Option<usize> {
        let column = table.auto_column()?;
        let zero = row[column] == Datum::Int(0) && self.env.sql_mode.get() & variables::NO_AUTO_VALUE_ON_ZERO == 0;
        (row[column].is_null() || zero).then_some(column)
    }

    /// Fills in an AUTO_INCREMENT column that got NULL or 0; answers the value.
    fn auto_increment(&mut self, table: &Table, row: &mut [Datum]) -> Res<Option<u64>> {
        let Some(column) = self.wants_auto(table, row) else { return Ok(None) };
        let next = self.next_auto(table, column)?;
        let (_, most) = table.columns[column].ty.int_range();
        let most = if table.rowid_column() == Some(column) { most.min(i64::MAX as u64) } else { most };
        if next > most || next == u64::MAX {
            return Err(errors::auto_increment_exhausted());
        }
        table.state.next_auto.store(next + 1, Ordering::Release);
        row[column] = Datum::from_u64(next);
        Ok(Some(next))
    }

    fn next_auto(&mut self, table: &Table, column: usize) -> Res<u64> {
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

    fn note_auto(&mut self, table: &Table, row: &[Datum], generated: Option<u64>, written: &mut Written) {
        let Some(column) = table.auto_column() else { return };
        match generated {
            Some(value) => {
                written.last_insert_id.get_or_insert(value);
                written.insert_id = written.last_insert_id.unwrap_or(value);
            }
            None => {
                let explicit = uint_of(row[column].as_cell());
                let negative = matches!(row[column], Datum::Int(value) if value < 0);
                if written.last_insert_id.is_none() && !negative {
                    written.insert_id = explicit;
                }
                let known = table.state.next_auto.load(Ordering::Acquire);
                if !negative && known != 0 && explicit >= known {
                    table.state.next_auto.store(explicit.saturating_add(1), Ordering::Release);
                }
            }
        }
    }

    fn delete_row(&mut self, schema: &Schema, table: &Table, rowid: i64) -> Res<()> {
        self.keep_auto(table)?;
        let mut stmt = self.conn.prepare(&format!("DELETE FROM t{} WHERE rowid = ?1", table.id)).map_err(internal)?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        stmt.run().map_err(|error| self.parent_error(&error, schema, table))
    }

    /// Remembers the next AUTO_INCREMENT value in the file before rows go, so that none is given twice.
    fn keep_auto(&mut self, table: &Table) -> Res<()> {
        let Some(column) = table.auto_column() else { return Ok(()) };
        let next = self.next_auto(table, column)?;
        if next == table.state.stored_auto.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut stmt = self.conn.prepare("UPDATE tg_table SET next_auto = ?1 WHERE id = ?2").map_err(internal)?;
        stmt.bind(1, Datum::from_u64(next).as_cell()).map_err(internal)?;
        stmt.bind(2, Cell::Int(table.id)).map_err(internal)?;
        stmt.run().map_err(internal)?;
        table.state.stored_auto.store(next, Ordering::Release);
        Ok(())
    }

    fn update_duplicate(
        &mut self,
        plan: &InsertPlan,
        upsert: &Upsert,
        rowid: i64,
        row: &[Datum],
        run: &mut InsertRun,
    ) -> Res<()> {
        let table = &plan.table;
        let mut stmt = self.conn.prepare(&upsert.feed.sql).map_err(internal)?;
        self.constants.bind(&mut stmt, &upsert.feed.binds)?;
        let base = upsert.feed.binds.len();
        let count = stmt.parameter_count();
        for (index, value) in row.iter().enumerate() {
            if base + index < count {
                stmt.bind(base + index + 1, value.as_cell()).map_err(internal)?;
            }
        }
        stmt.bind(base + row.len() + 1, Cell::Int(rowid)).map_err(internal)?;
        if stmt.step().map_err(internal)? != Step::Row {
            return Err(errors::internal("the duplicate row has gone"));
        }
        let cells: Vec<Datum> = (0..stmt.column_count()).map(|index| stmt.cell(index).to_owned()).collect();
        drop(stmt);
        let mut changes = Vec::new();
        for (&column, value) in upsert.columns.iter().zip(&upsert.values) {
            let target = self.target(&plan.schema, table, column, run.rows, plan.ignore);
            let new = self.new_value(&target, value, &cells, &upsert.feed.outs)?;
            changes.push((column, new));
        }
        if let Some(auto) = table.auto_column() {
            run.written.insert_id = uint_of(cells[auto].as_cell());
        }
        debug_assert_eq!(upsert.old, table.columns.len());
        let old = |column: usize| &cells[column];
        if self.write_changes(table, rowid, changes, old, &plan.schema, plan.ignore, &plan.rules)? {
            run.written.affected += 2;
        } else if self.env.found_rows_flag.get() {
            run.written.affected += 1;
        }
        Ok(())
    }

    fn new_value(&self, target: &Target<'_>, value: &Cellish, cells: &[Datum], outs: &[Out]) -> Res<Datum> {
        match value {
            Cellish::Default => self.default(target),
            Cellish::Const(source) => self.store(target, self.constants.value(source)?, false),
            Cellish::Column(index) => {
                let value = named(Val::of(cells[*index].as_cell(), outs[*index].rep), &outs[*index]);
                self.store(target, value, false)
            }
        }
    }

    /// Writes changed columns of one row; answers whether any value is a new one.
    fn write_changes<'d>(
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
        let result = stmt.run();
        self.keep(stmt);
        let Err(error) = result else { return Ok(true) };
        let error = if error.is_unique() {
            self.update_conflict(table, rowid, &changes)?
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
                self.child_error(&error, schema, table, &row)
            } else {
                self.parent_error(&error, schema, table)
            }
        };
        if ignore && matches!(error.code, 1062 | 1451 | 1452) {
            self.env.warn(error);
            return Ok(false);
        }
        Err(error)
    }

    /// A row as it stands.
    fn whole_row(&mut self, table: &Table, rowid: i64) -> Res<Vec<Datum>> {
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
        let result = self.update_rows(plan);
        self.env.set_abort_on_warning(false);
        result
    }

    fn update_rows(&mut self, plan: &UpdatePlan) -> Res<Written> {
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
        written.affected = if self.env.found_rows_flag.get() { matched } else { changed };
        written.info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {}", self.env.warning_count());
        Ok(written)
    }

    fn update_target(
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
            *matched += 1;
            let number = *matched as usize;
            let mut changes = Vec::with_capacity(target.assignments.len());
            for (column, _, value) in &target.assignments {
                if target.table.columns[*column].generated.is_some() {
                    if !matches!(value, Cellish::Default) {
                        self.generated_value(&target.table, *column, plan.ignore)?;
                    }
                    continue;
                }
                let place = self.target(&target.schema, &target.table, *column, number, plan.ignore);
                let new = self.new_value(&place, value, cells, &plan.feed.outs);
                match self.or_skip(new, plan.ignore)? {
                    Some(new) => changes.push((*column, new)),
                    None => {
                        changes.clear();
                        break;
                    }
                }
            }
            let old = |column: usize| {
                let place = target.assignments.iter().find(|(known, ..)| *known == column);
                place.map_or(&Datum::Null, |(_, old, _)| &cells[*old])
            };
            if self.write_changes(&target.table, rowid, changes, old, &target.schema, plan.ignore, &target.rules)? {
                *changed += 1;
            }
        }
        Ok(())
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
            let mut stmt = self.prepared(&plan.feed.sql)?;
            let result = self.constants.bind(&mut stmt, &plan.feed.binds).and_then(|()| {
                stmt.run().map_err(|error| {
                    let (schema, table, _) = &plan.targets[0];
                    self.parent_error(&error, schema, table)
                })
            });
            stmt.reset();
            self.keep(stmt);
            result?;
            written.affected = self.conn.changes();
            return Ok(written);
        }
        let rows = self.collect(&plan.feed)?;
        for (schema, table, column) in &plan.targets {
            let mut stmt =
                self.conn.prepare(&format!("DELETE FROM t{} WHERE rowid = ?1", table.id)).map_err(internal)?;
            let mut seen = HashSet::new();
            for cells in rows.iter() {
                let Datum::Int(rowid) = cells[*column] else { continue };
                if !seen.insert(rowid) {
                    continue;
                }
                stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
                match stmt.run() {
                    Ok(()) => written.affected += self.conn.changes().min(1),
                    Err(error) if plan.ignore && is_foreign_key(&error) => {
                        self.env.warn(self.parent_error(&error, schema, table));
                    }
                    Err(error) => return Err(self.parent_error(&error, schema, table)),
                }
            }
        }
        Ok(written)
    }
}

struct InsertRun {
    stmt: Stmt,
    written: Written,
    rows: usize,
    duplicates: usize,
    /// A generated AUTO_INCREMENT value that a duplicate row did not use.
    spare: Option<u64>,
    single: bool,
}

/// A value of ENUM or SET by its text, so that it means the same in another column.
fn named<'v>(value: Val<'v>, out: &Out) -> Val<'v> {
    if matches!(out.rep, Rep::Enum | Rep::Set) && !value.is_null() {
        let mut text = Vec::new();
        let datum = value.into_datum();
        out.write(datum.as_cell(), &mut text);
        return Val::Text(text.into());
    }
    if out.ty.base == Base::Date || out.ty.zerofill {
        return value;
    }
    value
}

fn insert_sql(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| format!("c{}", column.id)).collect();
    let params: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO t{} ({}) VALUES ({})", table.id, columns.join(", "), params.join(", "))
}
