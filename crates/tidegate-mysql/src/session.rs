//! Which statements leave something behind in their session: variables, locks, temporary tables, another schema.
//!
//! A pool resets a session before its next use only if it must, since a reset costs the server about as much as a small
//! statement. The judgement errs on the safe side: a statement that is not understood counts as one that leaves traces.
//!
//! Two things escape it, and are accepted: `last_insert_id()` and its like show what the statement before did, and a
//! stored function or a trigger may set a user variable that nobody sees in the statement.

/// Words that begin statements which leave a session as it was, unless something in [`leaves_traces`] says otherwise.
const CLEAN: &[&[u8]] = &[
    b"select",
    b"insert",
    b"update",
    b"delete",
    b"replace",
    b"show",
    b"with",
    b"values",
    b"explain",
    b"describe",
    b"desc",
    b"kill",
    b"commit",
    b"rollback",
    b"truncate",
    b"analyze",
    b"optimize",
    b"check",
    b"grant",
    b"revoke",
    b"do",
];

/// Whether running `sql` may change the state of the session.
pub fn leaves_traces(sql: &[u8]) -> bool {
    let sql = sql.trim_ascii();
    let sql = sql.strip_suffix(b";").unwrap_or(sql);
    let start = sql.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'(').unwrap_or(sql.len());
    let sql = &sql[start..];
    let len = sql.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = &sql[..len];
    if !CLEAN.iter().any(|clean| word.eq_ignore_ascii_case(clean)) {
        return true;
    }
    // A batch, a user variable, a comment that some server runs. (To set up a search for two bytes takes longer than the search.)
    if memchr::memchr2(b';', b'@', sql).is_some()
        || memchr::memchr_iter(b'/', sql).any(|at| sql.get(at + 1) == Some(&b'*'))
    {
        return true;
    }
    // get_lock(), is_used_lock(), release_all_locks(): the first holds its lock until the session ends.
    memchr::memchr_iter(b'_', sql)
        .any(|at| sql.get(at + 1..at + 5).is_some_and(|word| word.eq_ignore_ascii_case(b"lock")))
}

/// Whether the statement may change the session's schema, which no reset brings back.
pub fn may_change_schema(sql: &[u8]) -> bool {
    let has = |word: &[u8]| sql.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    has(b"use") || has(b"database") || has(b"schema")
}

/// Whether a statement that [leaves traces](leaves_traces) may make the session hold what others wait for, or what costs the
/// server memory: GET_LOCK(), LOCK TABLES, FLUSH TABLES, temporary tables.
pub fn may_hold(sql: &[u8]) -> bool {
    let has = |word: &[u8]| sql.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    has(b"lock") || has(b"flush") || has(b"temporary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks() {
        for holds in
            ["SELECT GET_LOCK('a', 1)", "lock tables t write", "Flush tables", "create TEMPORARY table t (a int)"]
        {
            assert!(may_hold(holds.as_bytes()), "{holds}");
        }
        assert!(!may_hold(b"set @a = 1"));
    }

    #[test]
    fn traces() {
        for clean in [
            "select * from cats",
            "SELECT 1;",
            " (select 1) union (select 2)",
            "insert into cats values (1, 'x')",
            "with a as (select 1) select * from a",
            "show tables",
            "update blocked set x_ = 1",
        ] {
            assert!(!leaves_traces(clean.as_bytes()), "{clean}");
        }
        for dirty in [
            "",
            "set names latin1",
            "use world",
            "create temporary table t (a int)",
            "select @a := 1",
            "select get_lock('a', 1)",
            "SELECT GET_LOCK('a', 1)",
            "select 1; set @a = 1",
            "begin",
            "start transaction",
            "lock tables t write",
            "call p()",
            "/*!50000 set @x = 1 */",
            "select /*! sql_no_cache */ 1",
            "prepare s from 'select 1'",
            "-- comment\nset @a = 1",
            "selectx",
        ] {
            assert!(leaves_traces(dirty.as_bytes()), "{dirty}");
        }
    }

    #[test]
    fn schemas() {
        assert!(may_change_schema(b"USE world"));
        assert!(may_change_schema(b"drop database world"));
        assert!(!may_change_schema(b"set names utf8"));
    }
}
