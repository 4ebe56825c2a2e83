//! The filter that makes a body of a server's answer: JSON, CSV or RDS, as the location says.
//!
//! The values may arrive in any pieces. An answer that ends too early, or within a row, ends the response and the connection with it, so
//! that nobody takes it for complete.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use bstr::ByteSlice;
use tidegate_core::{
    output::{Buf, Chunk, Closed},
    phase::{Program, Ready},
    request::Request,
};
use tidegate_http::handlersocket::reply::Values;
use tidegate_net::log::Level;
use tidegate_rows::{Format, Summary, Value};

use super::{request::Tells, settings::Columns};
use crate::row_format::{Results, RowFormat};

/// The conversion of one response.
#[derive(Default)]
pub(super) struct Answer(RefCell<State>);

#[derive(Default)]
enum State {
    /// The response is something else.
    #[default]
    None,
    /// An answer is about to come.
    Awaited(Arc<Columns>, Tells),
    Reading(Box<Reading>),
    /// The response has ended too early.
    Failed,
}

/// What has been read of an answer.
struct Reading {
    values: Values,
    rows: Rows,
}

/// Where the values go.
struct Rows {
    format: RowFormat,
    tells: Tells,
    columns: Arc<Columns>,
    /// The columns have been written.
    has_begun: bool,
    /// Position of the next value in its row.
    column: usize,
    /// The answer's one value: the number that it should be, if it is one.
    number: Option<Option<u64>>,
}

impl Answer {
    /// The body of the response will be values of a server.
    pub(super) fn begin(req: &Rc<Request>, columns: &Arc<Columns>, tells: Tells) {
        *req.context::<Answer>().0.borrow_mut() = State::Awaited(columns.clone(), tells);
    }
}

/// Adds the filter to a location.
pub(super) fn install(program: &mut Program) {
    program.header_filter(|req| {
        filter_header(req);
        Ready::Now(Ok(()))
    });
    program.body_filter(|req, chunk| Ready::Now(filter_body(req, chunk)));
}

fn filter_header(req: &Rc<Request>) {
    let Some(answer) = req.find_context::<Answer>() else { return };
    let mut state = answer.0.borrow_mut();
    let State::Awaited(columns, tells) = &*state else { return };
    let (format, content_type) = RowFormat::of(req, Results::One);
    let content_type = content_type.to_vec();
    let (columns, tells) = (columns.clone(), *tells);
    let rows = Rows { format, tells, columns, has_begun: false, column: 0, number: None };
    *state = State::Reading(Box::new(Reading { values: Values::default(), rows }));
    let mut response = req.response.borrow_mut();
    response.content_type = content_type;
    response.filter_need_in_memory = true;
    response.body_is_changed();
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk) -> Result<Chunk, Closed> {
    let Some(answer) = req.find_context::<Answer>() else { return Ok(chunk) };
    let mut state = answer.0.borrow_mut();
    let reading = match &mut *state {
        State::None | State::Awaited(..) => return Ok(chunk),
        State::Reading(reading) => reading,
        State::Failed => return Err(Closed),
    };
    if req.response.borrow().header_only {
        return Ok(chunk);
    }
    chunk.read_files()?;
    let mut out = Vec::new();
    let mut result = Ok(());
    for buf in &chunk.bufs {
        if let Buf::Bytes(bytes) = buf
            && result.is_ok()
        {
            result = reading.feed(bytes, &mut out);
        }
    }
    if chunk.last && !reading.values.is_done() && result.is_ok() {
        result = Err("an answer without an end".to_owned());
    }
    if let Err(error) = result {
        *state = State::Failed;
        req.log(Level::Error, format_args!("handlersocket sent {error}"));
        return Err(Closed);
    }
    let mut changed = Chunk::bytes(out);
    (changed.flush, changed.last) = (chunk.flush, chunk.last);
    Ok(changed)
}

impl Reading {
    /// Reads a piece of the answer and appends what becomes of it.
    ///
    /// # Errors
    /// Text for the log: why the answer makes no sense.
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let Reading { values, rows } = self;
        if values.is_done() {
            return Ok(());
        }
        values.feed(piece, |value| rows.take(value, out)).map_err(|error| error.to_string())?;
        if values.is_done() { rows.finish(out) } else { Ok(()) }
    }
}

impl Rows {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.tells == Tells::Rows && !std::mem::replace(&mut self.has_begun, true) {
            self.format.columns(&self.columns.described, out);
        }
    }

    /// Takes the next value.
    fn take(&mut self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        if self.tells != Tells::Rows {
            let number = value.and_then(|text| text.to_str().ok()).and_then(|text| text.parse().ok());
            self.number = Some(number);
            return;
        }
        self.begin(out);
        if self.column == 0 {
            self.format.begin_row(out);
        }
        self.format.value(self.column, value.map_or(Value::Null, Value::Bytes), out);
        self.column += 1;
        if self.column >= self.columns.len() {
            self.column = 0;
            self.format.end_row(out);
        }
    }

    /// The answer has ended.
    ///
    /// # Errors
    /// Text for the log: it has ended too early, or told something else than a number.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.column > 0 {
            return Err("a row that ends too early".to_owned());
        }
        let summary = match (self.tells, self.number) {
            (Tells::Rows, _) => Summary::default(),
            (_, Some(None)) => return Err("something else than a number".to_owned()),
            (Tells::Changed, None) => return Err("no number of rows".to_owned()),
            (Tells::Changed, Some(Some(number))) => Summary { affected_rows: number, ..Summary::default() },
            (Tells::Inserted, number) => {
                let insert_id = number.flatten().unwrap_or(0);
                Summary { affected_rows: 1, insert_id, ..Summary::default() }
            }
        };
        self.begin(out);
        self.format.end_result(&summary, out);
        Ok(())
    }
}
