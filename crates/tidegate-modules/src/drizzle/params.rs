//! `drizzle_param`: `:name` in a statement becomes `?` with a bound value.

use std::collections::HashMap;

use bstr::{BStr, BString, ByteSlice};
use tidegate_core::request::Request;
use tidegate_mysql::Sharing;
use tidegate_rows::{Param, Statement};

use super::{
    Conf,
    backend::{Pipeline, Run},
    query::{Query, Traits},
};

/// A statement with its parameters, for one request.
pub(super) struct Statements {
    pub(super) sql: Vec<u8>,
    pub(super) params: Vec<Param>,
    pub(super) traits: Traits,
}

impl Statements {
    /// What a `drizzle_query` and the `drizzle_param`s say for a request.
    pub(super) fn of(req: &Request, conf: &Conf, query: &Query) -> Result<Statements, String> {
        let mut sql = query.text.eval(req);
        if sql.is_empty() {
            return Err("drizzle: empty \"drizzle_query\"".to_owned());
        }
        let traits = query.traits(&sql);
        sql.truncate(traits.len);
        let Some(params) = &conf.drizzle_param else {
            return Ok(Statements { sql, params: Vec::new(), traits });
        };
        let values: HashMap<&BStr, Param> = params
            .iter()
            .map(|(name, value)| (name.as_bstr(), value.eval(req).map_or(Param::Null, Param::Bytes)))
            .collect();
        let (sql, names) = replace_names(&sql);
        let params = names
            .iter()
            .map(|name| match values.get(name.as_bstr()) {
                Some(value) => Ok(value.clone()),
                None => Err(format!("drizzle: no \"drizzle_param\" for \":{name}\"")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Statements { sql, params, traits })
    }
}

impl Statements {
    /// The statement, and what the location says about it.
    pub(super) fn run<'a>(&'a self, conf: &'a Conf) -> Run<'a> {
        let is_one_pool = conf.drizzle_pass.as_ref().is_some_and(|pass| pass.as_literal().is_some());
        let sharing = match conf.drizzle_pipeline.unwrap_or(Pipeline::Auto) {
            Pipeline::Auto if self.traits.may_travel && is_one_pool => Some(Sharing::Auto(&conf.pace)),
            // Whoever writes wants to know whether it was done.
            Pipeline::Depth(depth) if depth > 1 && self.traits.only_reads => Some(Sharing::Depth(depth)),
            Pipeline::Auto | Pipeline::Depth(_) => None,
        };
        Run { statement: Statement { sql: &self.sql, params: &self.params }, sharing, watches: false }
    }
}

/// Replaces each `:name` outside of quotes and comments by `?`; answers the statement and the names in order.
pub(super) fn replace_names(sql: &[u8]) -> (Vec<u8>, Vec<BString>) {
    let mut out = Vec::with_capacity(sql.len());
    let mut names = Vec::new();
    let mut at = 0;
    while at < sql.len() {
        let skipped = skip_quoted(sql, at);
        if skipped > at {
            out.extend_from_slice(&sql[at..skipped]);
            at = skipped;
            continue;
        }
        let previous = at.checked_sub(1).map(|before| sql[before]);
        let is_name = sql[at] == b':'
            && !previous.is_some_and(|b| b == b':' || b.is_ascii_alphanumeric() || b == b'_')
            && sql.get(at + 1).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
        if !is_name {
            out.push(sql[at]);
            at += 1;
            continue;
        }
        let len = sql[at + 1..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        names.push(BString::from(&sql[at + 1..at + 1 + len]));
        out.push(b'?');
        at += 1 + len;
    }
    (out, names)
}

/// End of the quoted text or comment that begins at `at`, or `at` if none does.
pub(super) fn skip_quoted(sql: &[u8], at: usize) -> usize {
    let rest = &sql[at..];
    let to_line_end = || at + memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    match rest {
        [quote @ (b'\'' | b'"' | b'`'), ..] => {
            let mut end = at + 1;
            while end < sql.len() {
                match sql[end] {
                    b'\\' if *quote != b'`' => end += 2,
                    b if b == *quote => return end + 1,
                    _ => end += 1,
                }
            }
            sql.len()
        }
        [b'#', ..] => to_line_end(),
        [b'-', b'-', next, ..] if next.is_ascii_whitespace() => to_line_end(),
        [b'/', b'*', ..] => at + rest.find(b"*/").map_or(rest.len(), |end| end + 2),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str, expected_names: &[&str]) {
        let (sql, names) = replace_names(sql.as_bytes());
        assert_eq!(sql.as_bstr(), expected);
        assert_eq!(names, expected_names);
    }

    #[test]
    fn names_outside_of_quotes() {
        check("select * from cats where name = :name", "select * from cats where name = ?", &["name"]);
        check("select :a, :b_1,:a", "select ?, ?,?", &["a", "b_1", "a"]);
        check("select ':a', \":b\", `:c`, :d", "select ':a', \":b\", `:c`, ?", &["d"]);
        check(r"select 'it\':a', 'x'':y', :z", r"select 'it\':a', 'x'':y', ?", &["z"]);
        check("select 1 -- :a\n, :b # :c\n/* :d */", "select 1 -- :a\n, ? # :c\n/* :d */", &["b"]);
        check("select @x := 1, a:b, ::c, '12:30', :", "select @x := 1, a:b, ::c, '12:30', :", &[]);
        check("select 'open :a", "select 'open :a", &[]);
        check(r"select 'x\", r"select 'x\", &[]);
    }
}
