//! What is sent for a request.

use std::sync::Arc;

use bstr::{BString, ByteSlice};
use tidegate_core::{phase::Step, request::Request, template::Template, upstream::Settings};
use tidegate_http::handlersocket::{END, SEPARATOR, put_value};
use tidegate_net::log::Level;

use super::settings::{Columns, Filter, Find, Index, Limit, Modify, Within, count, is_plain};
use crate::{bound::Bound, pass::Pass};

/// All that a location's requests need, made once.
pub(super) struct Location {
    pub(super) settings: Settings,
    pub(super) pass: Pass,
    pub(super) secret: Option<Template>,
    pub(super) index: Index,
    pub(super) columns: Arc<Columns>,
    pub(super) action: Action,
}

/// What a request does.
pub(super) enum Action {
    Insert(Arc<Vec<Bound>>),
    Find {
        find: Arc<Find>,
        limit: Option<Limit>,
        within: Option<Within>,
        filters: Arc<Vec<Filter>>,
        modify: Option<Arc<Modify>>,
        /// A change answers with the rows as they were.
        answers_rows: bool,
    },
}

/// What the answer to a request tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tells {
    /// Rows.
    Rows,
    /// How many rows were changed.
    Changed,
    /// The number that a new row has got, if it got one.
    Inserted,
}

/// What is sent for one request.
pub(super) struct Prepared {
    /// What a new connection begins with: the secret, and the index that is opened. No byte of it is any different on a connection
    /// that can be used for the request.
    pub(super) greeting: BString,
    pub(super) line: Vec<u8>,
}

/// The number under which the one index of a connection is open.
const INDEX_NUMBER: u8 = b'0';

impl Action {
    /// Nothing changes by it.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self, Action::Find { modify: None, .. })
    }

    /// What its answer tells.
    pub(super) fn tells(&self) -> Tells {
        match self {
            Action::Insert(_) => Tells::Inserted,
            Action::Find { modify: Some(_), answers_rows: false, .. } => Tells::Changed,
            Action::Find { .. } => Tells::Rows,
        }
    }

    fn filters(&self) -> &[Filter] {
        match self {
            Action::Insert(_) => &[],
            Action::Find { filters, .. } => filters,
        }
    }
}

impl Location {
    /// Makes what is sent.
    ///
    /// # Errors
    /// The request ends with 400: what it has brought is no name or number. The log has the reason.
    pub(super) fn prepare(&self, req: &Request) -> Result<Prepared, Step> {
        let mut greeting = Vec::new();
        if let Some(secret) = &self.secret {
            greeting.extend_from_slice(b"A\t1\t");
            put_value(Some(&secret.eval_cow(req)), &mut greeting);
            greeting.push(END);
        }
        self.write_open(req, &mut greeting)?;
        let mut line = vec![INDEX_NUMBER];
        match &self.action {
            Action::Insert(values) => {
                put(b"+", &mut line);
                put_list(values, req, &mut line);
            }
            Action::Find { .. } => self.write_find(req, &mut line)?,
        }
        line.push(END);
        Ok(Prepared { greeting: greeting.into(), line })
    }

    /// `P 0 SCHEMA TABLE INDEX COLUMNS [FILTER_COLUMNS]`
    fn write_open(&self, req: &Request, out: &mut Vec<u8>) -> Result<(), Step> {
        out.extend_from_slice(&[b'P', SEPARATOR, INDEX_NUMBER]);
        let Index { schema, table, name } = &self.index;
        for name in [Some(schema), Some(table), name.as_ref()] {
            let name = name.map_or_else(|| b"PRIMARY".into(), |name| name.eval_cow(req));
            if !is_plain(&name) {
                return Err(refuse(req, "name of a schema, table or index", &name));
            }
            put(&name, out);
        }
        put(&self.columns.names, out);
        for (position, filter) in self.action.filters().iter().enumerate() {
            out.push(if position == 0 { SEPARATOR } else { b',' });
            out.extend_from_slice(&filter.column);
        }
        out.push(END);
        Ok(())
    }

    /// `OP COUNT VALUE … LIMIT OFFSET [@ …] [F …] [U …]`
    fn write_find(&self, req: &Request, out: &mut Vec<u8>) -> Result<(), Step> {
        let Action::Find { find, limit, within, filters, modify, answers_rows } = &self.action else { return Ok(()) };
        put(find.operator.as_bytes(), out);
        put_list(&find.key, req, out);
        let limits = limit.as_ref().map(|limit| (Some(&limit.limit), limit.offset.as_ref()));
        let (limit, offset) = limits.unwrap_or_default();
        for (template, default) in [(limit, 1), (offset, 0)] {
            put_number(number(template, default, req)?, out);
        }
        if let Some(within) = within {
            write_within(within, req, out)?;
        }
        for (position, filter) in filters.iter().enumerate() {
            put(if filter.stops { b"W" } else { b"F" }, out);
            put(filter.operator.as_bytes(), out);
            put_number(u32::try_from(position).unwrap_or(u32::MAX), out);
            put_bound(&filter.value, req, out);
        }
        if let Some(modify) = modify {
            put(&[modify.letter], out);
            if *answers_rows {
                out.push(b'?');
            }
            for value in &modify.values {
                put_bound(value, req, out);
            }
        }
        Ok(())
    }
}

/// `@ PART COUNT VALUE …`
fn write_within(within: &Within, req: &Request, out: &mut Vec<u8>) -> Result<(), Step> {
    let values = within.values.eval(req).unwrap_or_default();
    if values.is_empty() {
        return Err(refuse(req, "list of values", &values));
    }
    put(b"@", out);
    put_number(within.part, out);
    let commas = values.find_iter(b",").count();
    put_number(u32::try_from(commas + 1).unwrap_or(u32::MAX), out);
    for value in values.split_str(",") {
        out.push(SEPARATOR);
        put_value(Some(value), out);
    }
    Ok(())
}

/// The number of rows that a template says.
fn number(template: Option<&Template>, default: u32, req: &Request) -> Result<u32, Step> {
    let Some(template) = template else { return Ok(default) };
    let text = template.eval_cow(req);
    if text.is_empty() {
        return Ok(default);
    }
    count(&text).ok_or_else(|| refuse(req, "number of rows", &text))
}

#[cold]
fn refuse(req: &Request, what: &str, text: &[u8]) -> Step {
    req.log(Level::Info, format_args!("handlersocket: client sent invalid {what} \"{}\"", text.as_bstr()));
    Step::Status(400)
}

/// Appends a token that needs no escapes.
fn put(token: &[u8], out: &mut Vec<u8>) {
    out.push(SEPARATOR);
    out.extend_from_slice(token);
}

fn put_number(number: u32, out: &mut Vec<u8>) {
    put(itoa::Buffer::new().format(number).as_bytes(), out);
}

fn put_bound(value: &Bound, req: &Request, out: &mut Vec<u8>) {
    out.push(SEPARATOR);
    put_value(value.eval(req).as_deref(), out);
}

/// `COUNT VALUE …`
fn put_list(values: &[Bound], req: &Request, out: &mut Vec<u8>) {
    put_number(u32::try_from(values.len()).unwrap_or(u32::MAX), out);
    for value in values {
        put_bound(value, req, out);
    }
}
