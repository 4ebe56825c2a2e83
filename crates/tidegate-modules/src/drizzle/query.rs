//! `drizzle_query`: which statement a request runs.

use std::sync::OnceLock;

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};
use tidegate_core::{
    conf::{Build, MethodSet},
    request::Request,
    template::Template,
};
use tidegate_http::Method;
use tidegate_mysql::read_only::{self, Reading};

/// The statements of a level: one for all methods, and those for some.
#[derive(Debug, Default)]
pub struct Queries {
    default: Option<Query>,
    by_method: Vec<(MethodSet, Query)>,
}

/// One `drizzle_query`.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) text: Template,
    /// As the configuration has it, and where.
    written: (BString, Span),
    /// What is known of a text without variables.
    known: OnceLock<Traits>,
}

/// What matters about a statement besides its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    /// It changes nothing: nobody misses it when its client has gone.
    pub(super) only_reads: bool,
    /// One answer serves all that ask at one moment.
    pub(super) may_be_shared: bool,
    /// It may run on a connection behind others.
    pub(super) may_travel: bool,
    /// The statement may have several results.
    pub(super) has_several_results: bool,
    /// How many of its bytes are sent: what follows a last semicolon would be an empty statement with a result of its own.
    pub(super) len: usize,
}

/// Why a request has no statement.
pub(super) enum NoQuery {
    /// There are statements, but not for its method.
    Method,
    /// There is none at all.
    Missing,
}

impl Queries {
    /// Takes a `drizzle_query [method ...] statement`.
    pub(super) fn add(&mut self, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        let emerg = |arg: &ast::Arg, message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
        let Some((statement, names)) = directive.args.split_last() else {
            return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
        };
        if statement.value.is_empty() {
            return Err(emerg(statement, format!("drizzle: empty value in \"{}\" directive", directive.name())));
        }
        let query = Query {
            text: build.template(statement)?,
            written: (statement.value.clone(), statement.span),
            known: OnceLock::new(),
        };
        if names.is_empty() {
            if self.default.replace(query).is_some() {
                return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
            }
            return Ok(());
        }
        let mut methods = MethodSet::default();
        for arg in names {
            let method = Method::of(&arg.value.to_ascii_uppercase());
            if matches!(method, Method::Other | Method::Trace | Method::Connect) {
                return Err(emerg(arg, format!("drizzle: invalid method \"{}\"", arg.value)));
            }
            if methods.contains(method) || self.by_method.iter().any(|(others, _)| others.contains(method)) {
                let message =
                    format!("drizzle: \"{}\" directive for method \"{}\" is duplicate", directive.name(), arg.value);
                return Err(emerg(arg, message));
            }
            methods.insert(method);
        }
        self.by_method.push((methods, query));
        Ok(())
    }

    /// All statements as the configuration has them, and where.
    pub(super) fn written(&self) -> impl Iterator<Item = (&[u8], Span)> {
        let queries = self.default.iter().chain(self.by_method.iter().map(|(_, query)| query));
        queries.map(|query| (query.written.0.as_slice(), query.written.1))
    }

    /// The statement for a request.
    pub(super) fn of(&self, req: &Request) -> Result<&Query, NoQuery> {
        let method = req.method.get();
        let own = self.by_method.iter().find(|(methods, _)| methods.contains(method)).map(|(_, query)| query);
        let missing = if self.by_method.is_empty() { NoQuery::Missing } else { NoQuery::Method };
        own.or(self.default.as_ref()).ok_or(missing)
    }
}

impl Query {
    /// What matters about the statement whose text for a request is `sql`.
    pub(super) fn traits(&self, sql: &[u8]) -> Traits {
        match self.text.as_literal() {
            Some(_) => *self.known.get_or_init(|| Traits::of(sql)),
            None => Traits::of(sql),
        }
    }
}

impl Traits {
    fn of(sql: &[u8]) -> Self {
        if let Some(reading) = read_only::reading(sql) {
            return Traits::of_reading(Some(reading), false, sql.len());
        }
        let one = len_of_one(sql);
        let reading = one.and_then(|len| read_only::reading(&sql[..len]));
        Traits::of_reading(reading, one.is_none() || is_call(sql), one.unwrap_or(sql.len()))
    }

    fn of_reading(reading: Option<Reading>, has_several_results: bool, len: usize) -> Self {
        Traits {
            only_reads: reading.is_some(),
            may_be_shared: reading.is_some_and(|reading| reading.may_be_shared),
            may_travel: reading.is_some_and(|reading| reading.may_travel),
            has_several_results,
            len,
        }
    }
}

/// Whether the statement calls a procedure.
fn is_call(sql: &[u8]) -> bool {
    sql.trim_ascii_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"call"))
}

/// Length of the one statement in a text, without a semicolon at its end, or `None` if there are several.
fn len_of_one(sql: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < sql.len() {
        let skipped = super::params::skip_quoted(sql, at);
        if skipped > at {
            at = skipped;
        } else if sql[at] == b';' {
            return is_blank(&sql[at + 1..]).then_some(at);
        } else {
            at += 1;
        }
    }
    Some(sql.len())
}

/// Whether nothing follows but spaces, semicolons and comments.
fn is_blank(rest: &[u8]) -> bool {
    let mut at = 0;
    while at < rest.len() {
        let skipped = super::params::skip_quoted(rest, at);
        let is_comment = skipped > at && !matches!(rest[at], b'\'' | b'"' | b'`');
        if is_comment {
            at = skipped;
        } else if rest[at].is_ascii_whitespace() || rest[at] == b';' {
            at += 1;
        } else {
            return false;
        }
    }
    true
}

/// The name of a location for a message.
pub(super) fn location_of(req: &Request) -> BString {
    req.level().name.as_bstr().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, one: Option<&str>) {
        assert_eq!(len_of_one(sql.as_bytes()).map(|len| &sql[..len]), one);
    }

    #[test]
    fn one_statement_or_several() {
        check("insert into t values (';')", Some("insert into t values (';')"));
        check("update t set a = 1; ", Some("update t set a = 1"));
        check("update t set a = 1;; -- done\n", Some("update t set a = 1"));
        check("select 1; select 2", None);
        check("select 1 -- ; select 2", Some("select 1 -- ; select 2"));
        check("set @a = 1; select @a", None);
        check("select 1;/* x */'y'", None);
        assert!(is_call(b" CALL p()") && !is_call(b"cal"));
    }
}
