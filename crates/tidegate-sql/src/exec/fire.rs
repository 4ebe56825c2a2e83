//! Triggers: where the rows that a statement writes meet them.
//!
//! The writer of the statement ([`Writer`]) runs their programs on its own connection, inside of the statement's transaction, so
//! that a statement which fails takes with it what its triggers have done. A statement of a trigger that fails, and is handled,
//! leaves the rows that it has written until then, as in MariaDB.

use std::{rc::Rc, sync::Arc};

use super::{
    bind::Constants,
    program::{self, Host, Table},
    write::{Res, Writer, internal},
};
use crate::{
    catalog::TableState,
    column::Column,
    errors,
    parse::program::{Event, Timing, code::FragmentId},
    store::conn::{Cell, Step},
    temporary_name,
    translate::{
        dml::Feed,
        local_names::new_slot,
        params::Params,
        plan::PlanKind,
        procedures::SetPlan,
        programs::{Body, Fired, Planned, PlannedKind},
        target_table::TargetTable,
    },
    value::{Datum, SqlType, out::Out},
    variables,
};

/// Runs the statements of a trigger or function.
pub(super) struct BodyHost<'h, 'w> {
    pub(super) writer: &'h mut Writer<'w>,
    pub(super) body: &'h Body,
    /// The table of NEW, in a trigger.
    pub(super) to: Option<&'h TargetTable>,
}

impl TargetTable {
    /// Whether triggers run then.
    pub(crate) fn fires(&self, event: Event, timing: Timing) -> bool {
        self.triggers().iter().any(|fired| fired.event == event && fired.timing == timing)
    }

    /// Whether triggers run for an event.
    pub(crate) fn fires_for(&self, event: Event) -> bool {
        self.triggers().iter().any(|fired| fired.event == event)
    }

    fn triggers(&self) -> &[Fired] {
        self.triggers.get().map_or(&[], |triggers| triggers)
    }

    /// Adds the tables that its triggers may change, and theirs.
    pub(crate) fn add_fired<'t>(&'t self, all: &mut Vec<&'t Rc<TargetTable>>) {
        for to in self.triggers().iter().flat_map(|fired| fired.body.targets()) {
            all.push(to);
            to.add_fired(all);
        }
    }
}

impl Writer<'_> {
    /// Notes tables that programs have changed, for those who hear of commits.
    pub(crate) fn touch(&mut self, touched: Vec<Arc<TableState>>) {
        for state in touched {
            if !self.touched.iter().any(|known| Arc::ptr_eq(known, &state)) {
                self.touched.push(state);
            }
        }
    }

    /// Runs the triggers of a table for a row; `new` is changed by those that come before.
    ///
    /// # Errors
    /// What their programs fail with.
    pub(crate) fn fire(
        &mut self,
        to: &TargetTable,
        event: Event,
        timing: Timing,
        old: Option<&[Datum]>,
        mut new: Option<&mut Vec<Datum>>,
    ) -> Res<()> {
        for fired in to.triggers().iter().filter(|fired| fired.event == event && fired.timing == timing) {
            let width = to.table.columns.len();
            let begin = new_slot(&fired.body.code, 0);
            let mut frame = vec![Datum::Null; begin + 2 * width];
            if let Some(new) = &new {
                frame[begin..begin + width].clone_from_slice(new);
            }
            if let Some(old) = old {
                frame[begin + width..].clone_from_slice(old);
            }
            let env = self.env;
            let body = &fired.body;
            let outside = env.enter_program(frame, body.sql_mode);
            let ran = program::run(BodyHost { writer: self, body, to: Some(to) }, &body.code, env);
            let mut frame = env.leave_program(outside, ran.is_ok());
            // Of functions that the program has called.
            self.touch(env.take_touched());
            ran?;
            if let Some(new) = new.as_deref_mut() {
                for (value, changed) in new.iter_mut().zip(frame.drain(begin..begin + width)) {
                    *value = changed;
                }
            }
        }
        Ok(())
    }
}

impl BodyHost<'_, '_> {
    /// A writer for a statement of the program.
    fn inner(&mut self) -> Writer<'_> {
        let env = self.writer.env;
        Writer {
            conn: &mut *self.writer.conn,
            constants: Constants { sql: b"", literals: &[], params: Params::NONE, env },
            env,
            memory_max: self.writer.memory_max,
            stmts: self.writer.stmts.nested(),
            notes: self.writer.notes.as_deref_mut(),
            nulls_later: false,
            omitted: Vec::new(),
            omitted_told: false,
            touched: Vec::new(),
        }
    }

    fn planned(&self, fragment: FragmentId) -> Res<Rc<Planned>> {
        self.body.planned(fragment, self.writer.env)
    }

    /// SET. What a system variable was before is noted: a statement that runs again begins with that.
    fn set(&mut self, plan: &SetPlan) -> Res<()> {
        let env = self.writer.env;
        let engine = env.engine().ok_or_else(|| errors::internal("a program without its engine"))?;
        let values = self.inner().collect_some(&plan.given, 1)?;
        let mut given = plan.given.outs.iter().zip(&values).map(|(out, value)| program::user_value(out, value));
        let value = |_| given.next().ok_or_else(|| errors::internal("fewer values than SET wants"));
        let values = variables::values_of(&plan.items, value)?;
        variables::assign(&engine, env, &plan.items, values, true, |global, name, value| {
            env.note_setting(name, variables::value_of(&engine, env, name));
            variables::set_system(&engine, env, global, name, value, || Err(errors::autocommit_in_trigger()))
        })
    }
}

impl Host for BodyHost<'_, '_> {
    fn value(&mut self, fragment: FragmentId, take: &mut dyn FnMut(&Out, Cell<'_>) -> Res<()>) -> Res<()> {
        let planned = self.planned(fragment)?;
        let feed = query(&planned)?;
        let mut writer = self.inner();
        let [out] = feed.outs.as_slice() else { return Err(errors::operand_columns(1)) };
        let mut stmt = writer.prepared(&feed.sql)?;
        let constants = writer.constants;
        let taken =
            constants.bind(&mut stmt, &feed.binds).and_then(|mut stmt| match stmt.step().map_err(internal)? {
                Step::Row => take(out, stmt.cell(0)),
                Step::Done => take(out, Cell::Null),
            });
        writer.stmts.keep(&feed.sql, stmt);
        taken
    }

    fn rows(&mut self, fragment: FragmentId, most: usize) -> Res<Table> {
        let planned = self.planned(fragment)?;
        let feed = query(&planned)?;
        let cells = self.inner().collect_some(feed, most)?;
        Ok(Table::new(Rc::clone(&planned), cells))
    }

    fn opened(&mut self, _: FragmentId, _: &Table) {
        // The body has known it since the query was planned.
    }

    fn field_type(&self, slot: usize) -> Option<SqlType> {
        self.body.field_type(slot)
    }

    fn run(&mut self, fragment: FragmentId) -> Res<()> {
        let planned = self.planned(fragment)?;
        let kind = match &planned.kind {
            PlannedKind::Failed(error) => return Err(error.clone()),
            PlannedKind::Query(feed) => return self.inner().collect_some(feed, usize::MAX).map(drop),
            PlannedKind::Write(kind) => kind,
            PlannedKind::Set(set) => return self.set(set),
            PlannedKind::Call(call) => {
                let mut writer = self.inner();
                let called = writer.call_procedure(call);
                let touched = std::mem::take(&mut writer.touched);
                self.writer.touch(touched);
                let values = called?;
                let env = self.writer.env;
                let mut given_back = call.places.iter().zip(&values);
                return given_back.try_for_each(|((_, place), (out, value))| {
                    program::assign(&*self, &self.body.code, env, place, out, value)
                });
            }
        };
        let mut writer = self.inner();
        let written = match kind {
            PlanKind::Insert(insert) => writer.insert(insert),
            PlanKind::Update(update) => writer.update(update),
            PlanKind::Delete(delete) => writer.delete(delete),
            PlanKind::Select(_) => Err(errors::internal("a query among writes")),
        };
        let mut touched = std::mem::take(&mut writer.touched);
        let rows = written.as_ref().map_or(1, |written| written.affected);
        if rows > 0 {
            // Rows that a statement has written stay where its error is handled.
            for to in kind.targets() {
                to.table.state.changes.note(rows);
                touched.push(Arc::clone(&to.table.state));
                touched.extend(to.reached.iter().cloned());
            }
        }
        self.writer.touch(touched);
        if let Some(id) = written?.last_insert_id {
            self.writer.env.last_insert_id.set(id);
        }
        Ok(())
    }

    fn column_of_new(&self, name: &str) -> Res<(usize, &Column, [&str; 2])> {
        let unknown = || errors::unknown_column(name, "NEW");
        let to = self.to.ok_or_else(unknown)?;
        let (position, column) = to.table.column(name).ok_or_else(unknown)?;
        let slot = new_slot(&self.body.code, position);
        Ok((slot, column, [&to.schema.name, temporary_name::shown(&to.table.name)]))
    }
}

/// The query that a fragment is.
fn query(planned: &Planned) -> Res<&Feed> {
    match &planned.kind {
        PlannedKind::Query(feed) => Ok(feed),
        PlannedKind::Failed(error) => Err(error.clone()),
        PlannedKind::Write(_) | PlannedKind::Call(_) | PlannedKind::Set(_) => {
            Err(errors::internal("a write among queries"))
        }
    }
}
