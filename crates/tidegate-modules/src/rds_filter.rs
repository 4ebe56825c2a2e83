//! The filter behind `rds_json` and `rds_csv`: a body of type `application/x-resty-dbd-stream` becomes text, whoever
//! produced it. Responses of `drizzle_pass` have their format from the beginning and never come here as streams.
//!
//! The stream may arrive in any pieces. What follows its end is dropped; a body that is no such stream ends the response
//! where the mistake is, and the connection with it, so that nobody takes it for complete.

use std::{cell::RefCell, rc::Rc};

use tidegate_core::{
    output::{Buf, Chunk, Closed},
    phase::{Program, Ready},
    request::Request,
};
use tidegate_net::log::Level;
use tidegate_rows::rds::{RDS_CONTENT_TYPE, RdsReader};

use crate::row_format::{Results, RowFormat};

/// The conversion of one response.
#[derive(Default)]
struct Conversion(RefCell<State>);

#[derive(Default)]
enum State {
    /// The body is something else.
    #[default]
    None,
    Reading(RdsReader, RowFormat),
    /// The body was no stream: the response has ended.
    Failed,
}

/// Adds the filter to a location in which `rds_json` or `rds_csv` (`name`) is on.
pub(crate) fn install(program: &mut Program, name: &'static str) {
    program.header_filter(|req| {
        filter_header(req);
        Ready::Now(Ok(()))
    });
    program.body_filter(move |req, chunk| Ready::Now(filter_body(req, chunk, name)));
}

fn filter_header(req: &Rc<Request>) {
    {
        let response = req.response.borrow();
        let is_success = (200..300).contains(&response.status) && !matches!(response.status, 204 | 205);
        if !is_success || response.content_type != RDS_CONTENT_TYPE.as_bytes() {
            return;
        }
    }
    let (format, content_type) = RowFormat::of(req, Results::One);
    if matches!(format, RowFormat::Rds(_)) {
        return;
    }
    *req.context::<Conversion>().0.borrow_mut() = State::Reading(RdsReader::default(), format);
    let mut response = req.response.borrow_mut();
    response.content_type.clear();
    response.content_type.extend_from_slice(content_type);
    response.filter_need_in_memory = true;
    response.body_is_changed();
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk, name: &str) -> Result<Chunk, Closed> {
    let Some(conversion) = req.find_context::<Conversion>() else { return Ok(chunk) };
    let mut state = conversion.0.borrow_mut();
    let (reader, format) = match &mut *state {
        State::None => return Ok(chunk),
        State::Reading(reader, format) => (reader, format),
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
            && !reader.is_done()
        {
            result = reader.feed(bytes, format, &mut out);
        }
    }
    if chunk.last && !reader.is_done() && result.is_ok() {
        result = reader.finish();
    }
    if let Err(error) = result
        && !reader.is_done()
    {
        *state = State::Failed;
        req.log(Level::Error, format_args!("{name}: {error}"));
        return Err(Closed);
    }
    let mut changed = Chunk::bytes(out);
    (changed.flush, changed.last) = (chunk.flush, chunk.last);
    Ok(changed)
}
