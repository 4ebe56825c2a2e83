//! What stored programs have of a session while they run: their variables, settings and warnings of their own.

use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::{Arc, Weak},
};

use tidegate_rows::ServerError;

use super::{Env, Numbers, TakenAutos};
use crate::{
    catalog::TableState,
    errors::Warning,
    parse::program::code::{Code, Shape},
    shared::EngineInner,
    task,
    value::Datum,
};

/// The part of a session that belongs to stored programs.
#[derive(Default)]
pub(crate) struct Programs {
    /// The engine, for statements that are planned while another one runs.
    engine: OnceCell<Weak<EngineInner>>,
    /// The variables of the program that runs, by their slots.
    locals: RefCell<Vec<Datum>>,
    /// The procedure of which a statement runs.
    reading: RefCell<Option<Reading>>,
    /// The same as numbers.
    reading_number: Cell<(u64, usize)>,
    /// The procedures that call each other now.
    calls: RefCell<Vec<Arc<Code>>>,
    /// The settings that programs have changed in the statement that runs, as they were before.
    settings: RefCell<Vec<(String, String)>>,
    /// Tables that functions have changed, until the statement around them takes note.
    touched: RefCell<Vec<Arc<TableState>>>,
}

/// The names of a procedure that a text knows which is a part of it.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) code: Arc<Code>,
    pub(crate) scope: usize,
    /// What the fields of its records are.
    pub(crate) shape: Arc<Shape>,
}

/// What the session is again when a call has ended.
pub(crate) struct OutsideCall {
    locals: Vec<Datum>,
    reading: Option<Reading>,
    sql_mode: u64,
    select_limit: u64,
}

/// What the session is again when a program has ended.
pub(crate) struct Outside {
    locals: Vec<Datum>,
    sql_mode: u64,
    warnings: Vec<Warning>,
    warning_total: usize,
    numbers: Numbers,
    autos: TakenAutos,
    last_insert_id: u64,
    row_count: i64,
    found_rows: i64,
    ignoring: bool,
    aborts: bool,
    aborting: Option<ServerError>,
}

impl Env {
    /// Whose session this is.
    pub(crate) fn belongs_to(&self, engine: &Arc<EngineInner>) {
        let _ = self.programs.engine.set(Arc::downgrade(engine));
    }

    /// The engine; `None` for what is no session.
    pub(crate) fn engine(&self) -> Option<Arc<EngineInner>> {
        self.programs.engine.get()?.upgrade()
    }

    /// The value in a slot of the program that runs.
    pub(crate) fn local(&self, slot: usize) -> Datum {
        self.programs.locals.borrow().get(slot).cloned().unwrap_or_default()
    }

    /// Sets the value in a slot of the program that runs.
    pub(crate) fn set_local(&self, slot: usize, value: Datum) {
        if let Some(known) = self.programs.locals.borrow_mut().get_mut(slot) {
            *known = value;
        }
    }

    /// The procedure whose names the text knows that runs.
    pub(crate) fn program(&self) -> Option<Reading> {
        self.programs.reading.borrow().clone()
    }

    /// The same as numbers; zeros for none.
    #[inline]
    pub(crate) fn program_number(&self) -> (u64, usize) {
        self.programs.reading_number.get()
    }

    /// A text runs that knows the names of a procedure, or of none; answers what did before.
    pub(crate) fn reads_as(&self, program: Option<Reading>) -> Option<Reading> {
        let number = |reading: &Reading| (reading.code.number_of(&reading.shape), reading.scope);
        self.programs.reading_number.set(program.as_ref().map_or((0, 0), number));
        self.programs.reading.replace(program)
    }

    /// Whether a procedure runs.
    #[inline]
    pub(crate) fn is_calling(&self) -> bool {
        !self.programs.calls.borrow().is_empty()
    }

    /// How many procedures run, and how many of them are this one.
    pub(crate) fn calls_of(&self, code: &Arc<Code>) -> (usize, usize) {
        let calls = self.programs.calls.borrow();
        (calls.len(), calls.iter().filter(|other| other.number == code.number).count())
    }

    /// A procedure begins, with these variables.
    pub(crate) fn enter_call(&self, code: &Arc<Code>, locals: Vec<Datum>, sql_mode: u64) -> OutsideCall {
        self.programs.calls.borrow_mut().push(Arc::clone(code));
        let numbers = self.numbers.get();
        // `sql_select_limit` is about what clients ask.
        self.numbers.set(Numbers { select_limit: u64::MAX, ..numbers });
        OutsideCall {
            locals: self.programs.locals.replace(locals),
            reading: self.reads_as(None),
            sql_mode: self.sql_mode.replace(sql_mode),
            select_limit: numbers.select_limit,
        }
    }

    /// A procedure has ended; answers its variables.
    pub(crate) fn leave_call(&self, outside: OutsideCall) -> Vec<Datum> {
        self.programs.calls.borrow_mut().pop();
        self.numbers.set(Numbers { select_limit: outside.select_limit, ..self.numbers.get() });
        self.sql_mode.set(outside.sql_mode);
        self.reads_as(outside.reading);
        self.programs.locals.replace(outside.locals)
    }

    /// A program begins, with these variables.
    pub(crate) fn enter_program(&self, locals: Vec<Datum>, sql_mode: u64) -> Outside {
        let numbers = self.numbers.get();
        // SET insert_id is about the statement's own row. Other settings that the program changes stay changed.
        self.numbers.set(Numbers { insert_id: None, ..numbers });
        let aborting = self.aborting.borrow_mut().take();
        task::set_warned(false);
        Outside {
            locals: self.programs.locals.replace(locals),
            sql_mode: self.sql_mode.replace(sql_mode),
            warnings: self.warnings.take(),
            warning_total: self.warning_total.replace(0),
            numbers,
            autos: self.autos.replace(TakenAutos::default()),
            last_insert_id: self.last_insert_id.get(),
            row_count: self.row_count.replace(0),
            found_rows: self.found_rows.get(),
            ignoring: self.ignoring.replace(false),
            aborts: self.abort_on_warning.replace(false),
            aborting,
        }
    }

    /// A program has ended; answers its variables. The warnings of one that has failed are its statement's.
    pub(crate) fn leave_program(&self, outside: Outside, succeeded: bool) -> Vec<Datum> {
        self.sql_mode.set(outside.sql_mode);
        self.numbers.set(Numbers { insert_id: outside.numbers.insert_id, ..self.numbers.get() });
        self.autos.set(outside.autos);
        self.last_insert_id.set(outside.last_insert_id);
        self.row_count.set(outside.row_count);
        self.found_rows.set(outside.found_rows);
        self.ignoring.set(outside.ignoring);
        self.abort_on_warning.set(outside.aborts);
        task::set_warned(outside.aborting.is_some());
        *self.aborting.borrow_mut() = outside.aborting;
        if succeeded {
            *self.warnings.borrow_mut() = outside.warnings;
            self.warning_total.set(outside.warning_total);
        }
        self.programs.locals.replace(outside.locals)
    }

    /// A function has ended; answers its variables. What has warned as it returned is the statement's.
    pub(crate) fn leave_function(&self, outside: Outside, succeeded: bool) -> Vec<Datum> {
        let own = if succeeded { self.warnings.take() } else { Vec::new() };
        let frame = self.leave_program(outside, succeeded);
        own.into_iter().for_each(|warning| self.push(warning));
        frame
    }

    /// Notes what a setting was that a program changes.
    pub(crate) fn note_setting(&self, name: &str, before: Option<String>) {
        let mut settings = self.programs.settings.borrow_mut();
        if let Some(before) = before
            && !settings.iter().any(|(known, _)| known == name)
        {
            settings.push((name.to_owned(), before));
        }
    }

    /// What the settings were that programs have changed since this was asked last.
    pub(crate) fn take_settings(&self) -> Vec<(String, String)> {
        self.programs.settings.take()
    }

    /// Notes tables that a function has changed.
    pub(crate) fn touch(&self, tables: Vec<Arc<TableState>>) {
        if !tables.is_empty() {
            self.programs.touched.borrow_mut().extend(tables);
        }
    }

    /// The tables that functions have changed since this was asked last.
    pub(crate) fn take_touched(&self) -> Vec<Arc<TableState>> {
        self.programs.touched.take()
    }

    /// A statement of a program begins.
    pub(crate) fn forget_warnings(&self) {
        if self.warning_total.replace(0) > 0 {
            self.warnings.borrow_mut().clear();
        }
    }

    /// Takes back what `begin_statement` did to the warnings: the statement only shows them.
    pub(crate) fn shown_warnings(&self) -> Vec<Warning> {
        self.shown.borrow().clone()
    }

    /// The warnings of the statement that runs.
    pub(crate) fn warnings_now(&self) -> Vec<Warning> {
        self.warnings.borrow().clone()
    }
}
