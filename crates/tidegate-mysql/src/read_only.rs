//! Which statements only read: those that may run a second time when nobody knows whether they ran once.
//!
//! The judgement errs on the safe side. It looks at words alone: the first one, those that make a `select` write, and the
//! names of the functions that are called, since a stored function may do anything. What it does not see is a view that
//! calls a stored function which writes.

use crate::session;

/// Words that begin statements which read.
const READS: &[&[u8]] = &[b"select", b"show", b"with", b"values", b"explain", b"describe", b"desc", b"table"];

/// Words that make such a statement write, lock, or run another.
const WRITES: &[&[u8]] = &[
    b"into",
    b"for",
    b"lock",
    b"procedure",
    b"analyze",
    b"insert",
    b"update",
    b"delete",
    b"replace",
    b"nextval",
    b"setval",
    b"lastval",
    b"next",
    b"previous",
];

/// Functions whose answer is meant for one caller alone.
const PERSONAL: &[&[u8]] = &[
    b"benchmark",
    b"connection_id",
    b"found_rows",
    b"last_insert_id",
    b"rand",
    b"random_bytes",
    b"row_count",
    b"sys_guid",
    b"uuid",
    b"uuid_short",
    b"uuid_v4",
    b"uuid_v7",
];

/// Words that begin statements which give rows of tables, and which an application runs often.
const SELECTS: &[&[u8]] = &[b"select", b"with", b"values", b"table"];

/// What makes a statement wait on purpose, or leaves something for the next one on its connection.
const LINGERS: &[&[u8]] = &[b"sleep", b"sql_calc_found_rows"];

/// What may stand before a parenthesis without being a function that somebody wrote, in the order of the alphabet.
#[rustfmt::skip]
const BUILT_IN: &[&str] = &[
    "abs", "adddate", "addtime", "all", "and", "any", "any_value", "as", "ascii", "atan", "avg", "between", "bin",
    "binary", "bit_and", "bit_count", "bit_length", "bit_or", "by", "case", "cast", "ceil", "ceiling", "char",
    "char_length", "character_length", "coalesce", "compress", "concat", "concat_ws", "connection_id", "conv",
    "convert", "cos", "count", "crc32", "curdate", "current_date", "current_time", "current_timestamp",
    "current_user", "curtime", "database", "date", "date_add", "date_format", "date_sub", "datediff", "day",
    "dayname", "dayofmonth", "dayofweek", "dayofyear", "decimal", "default", "degrees", "dense_rank", "distinct",
    "div", "else", "elt", "except", "exists", "exp", "extract", "field", "find_in_set", "first_value", "floor",
    "format", "found_rows", "from", "from_base64", "from_days", "from_unixtime", "greatest", "group_concat",
    "having", "hex", "hour", "if", "ifnull", "in", "index", "inet6_aton", "inet6_ntoa", "inet_aton", "inet_ntoa",
    "instr", "intersect", "interval", "is", "isnull", "join", "json_array", "json_arrayagg", "json_contains",
    "json_extract", "json_keys", "json_length", "json_object", "json_objectagg", "json_search", "json_type",
    "json_unquote", "json_valid", "json_value", "key", "lag", "last_day", "last_insert_id", "last_value", "lateral",
    "lcase", "lead", "least", "left", "length", "like", "limit", "ln", "locate", "log", "log10", "log2", "lower",
    "lpad", "ltrim", "make_set", "makedate", "maketime", "match", "max", "md5", "microsecond", "mid", "min",
    "minute", "mod", "month", "monthname", "not", "now", "nth_value", "ntile", "nullif", "oct", "octet_length",
    "on", "or", "ord", "over", "partition", "percent_rank", "period_diff", "pi", "position", "pow", "power",
    "quarter", "quote", "radians", "rand", "random_bytes", "rank", "regexp", "regexp_instr", "regexp_like",
    "regexp_replace", "regexp_substr", "repeat", "reverse", "right", "rlike", "round", "row", "row_count",
    "row_number", "rpad", "rtrim", "schema", "sec_to_time", "second", "select", "session_user", "sha", "sha1",
    "sha2", "sign", "sin", "sleep", "some", "soundex", "space", "sqrt", "std", "stddev", "str_to_date", "strcmp",
    "subdate", "substr", "substring", "substring_index", "subtime", "sum", "sys_guid", "sysdate", "system_user",
    "tan", "then", "time", "time_format", "time_to_sec", "timediff", "timestamp", "timestampadd", "timestampdiff",
    "to_base64", "to_days", "to_seconds", "trim", "truncate", "ucase", "uncompress", "unhex", "union",
    "unix_timestamp", "upper", "user", "using", "utc_date", "utc_time", "utc_timestamp", "uuid", "uuid_short",
    "uuid_v4", "uuid_v7", "values", "variance", "version", "week", "weekday", "weight_string", "when", "where",
    "xor", "year", "yearweek",
];

/// What a statement that changes nothing may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What it answers is the same for all that ask at one moment, so that one answer serves them all.
    pub may_be_shared: bool,
    /// It is a plain query that leaves nothing behind and asks for nothing of its connection, so that nobody can tell on which
    /// one it ran, or behind what.
    pub may_travel: bool,
}

/// Whether running `sql` changes nothing, so that running it once more does no harm.
pub fn only_reads(sql: &[u8]) -> bool {
    reading(sql).is_some()
}

/// Whether `sql` only reads, and what it answers is the same for all that ask at one moment.
pub fn may_be_shared(sql: &[u8]) -> bool {
    reading(sql).is_some_and(|reading| reading.may_be_shared)
}

/// Judges a statement; none if it may change something.
pub fn reading(sql: &[u8]) -> Option<Reading> {
    if session::leaves_traces(sql) {
        return None;
    }
    let mut words = Words { rest: sql };
    let first = match words.find(|item| matches!(item, Item::Word(_)))? {
        Item::Word(word) if is_in(word, READS) => word,
        _ => return None,
    };
    let (mut is_personal, mut lingers) = (false, false);
    let mut last = Item::Other;
    for item in words {
        match (item, last) {
            (Item::Word(word), _) if is_in(word, WRITES) || is_sequence(word) => return None,
            (Item::Word(word), _) => lingers |= is_in(word, LINGERS),
            (Item::Parenthesis, Item::Word(name)) if !is_built_in(name) => return None,
            (Item::Parenthesis, Item::Word(name)) => is_personal |= is_in(name, PERSONAL),
            // A function whose name is quoted, or follows that of its schema.
            (Item::Parenthesis, Item::Quoted) => return None,
            _ => {}
        }
        last = item;
    }
    Some(Reading { may_be_shared: !is_personal, may_travel: !is_personal && !lingers && is_in(first, SELECTS) })
}

/// Whether the word advances a sequence, as MariaDB's Oracle mode writes it: `numbers.nextval`.
fn is_sequence(word: &[u8]) -> bool {
    let name = memchr::memrchr(b'.', word).map(|dot| &word[dot + 1..]);
    name.is_some_and(|name| name.eq_ignore_ascii_case(b"nextval"))
}

fn is_in(word: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|other| word.eq_ignore_ascii_case(other))
}

fn is_built_in(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    BUILT_IN.binary_search_by(|known| known.as_bytes().cmp(&name)).is_ok()
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Word(&'a [u8]),
    Quoted,
    Parenthesis,
    Other,
}

/// The words of a statement; texts in quotes are one item, and so is a name with its schema.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Words<'a> {
    type Item = Item<'a>;
    fn next(&mut self) -> Option<Item<'a>> {
        self.rest = self.rest.trim_ascii_start();
        let first = *self.rest.first()?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | 0x80..);
        let (item, len) = match first {
            b'\'' | b'"' | b'`' => (Item::Quoted, quoted_len(self.rest)),
            b'(' => (Item::Parenthesis, 1),
            _ if is_name(&first) => {
                let len = self.rest.iter().take_while(|byte| is_name(byte)).count();
                (Item::Word(&self.rest[..len]), len)
            }
            _ => (Item::Other, 1),
        };
        self.rest = &self.rest[len..];
        Some(item)
    }
}

/// Length of the quoted text at the front, or of everything if it does not end.
fn quoted_len(text: &[u8]) -> usize {
    let quote = text[0];
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' if quote != b'`' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(BUILT_IN.is_sorted());
    }

    #[track_caller]
    fn check_travels(sql: &str, expected: bool) {
        assert_eq!(reading(sql.as_bytes()).is_some_and(|reading| reading.may_travel), expected, "{sql}");
    }

    #[test]
    fn statements_that_may_run_on_any_connection() {
        for travels in [
            "select * from cats where name = 'sleep(1)' and age in (1, 2) limit 1",
            "SELECT count(*) FROM `cats`;",
            "(select 1) union (select 2)",
            "with a as (select 1) select * from a",
            "select database(), user(), now()",
        ] {
            check_travels(travels, true);
        }
        for stays in [
            "select sleep(0)",
            "select SLEEP (1)",
            "select sql_calc_found_rows * from cats",
            "select found_rows()",
            "select row_count()",
            "select connection_id()",
            "select last_insert_id()",
            "select benchmark(9, 9)",
            "select get_lock('a', 1)",
            "select release_lock('a')",
            "select is_free_lock('a')",
            "select @a",
            "select @@last_insert_id",
            "select 1 into @a",
            "select 1 into outfile '/tmp/a'",
            "select * from cats for update",
            "select * from cats for share",
            "select * from cats lock in share mode",
            "select 1 procedure analyse()",
            "select 1; select 2",
            "select master_pos_wait('a', 1)",
            "select wait_for_executed_gtid_set('a')",
            "select my_function()",
            "show warnings",
            "show tables",
            "explain select 1",
            "call p()",
            "handler cats open",
            "update cats set age = 1",
        ] {
            check_travels(stays, false);
        }
    }

    #[track_caller]
    fn check(sql: &str, reads: bool, shared: bool) {
        assert_eq!((only_reads(sql.as_bytes()), may_be_shared(sql.as_bytes())), (reads, shared), "{sql}");
    }

    #[test]
    fn statements() {
        check("select * from cats where name = 'update me' and age in (1, 2)", true, true);
        check("SELECT count(*), Max (age) FROM cats;", true, true);
        check(" (select 1) union (select 2)", true, true);
        check("with a as (select 1) select * from a", true, true);
        check("show tables", true, true);
        check("select sleep(1)", true, true);
        check("select 'it''s', \"a\\\"b\", `my (column` from `t`", true, true);
        check("select uuid()", true, false);
        check("select Rand ()", true, false);
        check("select last_insert_id()", true, false);
        for writes in [
            "insert into cats values (1)",
            "with a as (select 1) delete from cats",
            "select * from cats for update",
            "select * from cats lock in share mode",
            "select 1 into outfile '/tmp/x'",
            "select nextval(s)",
            "select next value for s",
            "select s.nextval from dual",
            "select my_function(1)",
            "select test.my_function(1)",
            "select `my_function`(1)",
            "select get_lock('a', 1)",
            "select @a := 1",
            "select 1; delete from cats",
            "select 1 /* x */",
            "explain analyze update cats set age = 1",
            "call p()",
            "",
            "set names utf8",
        ] {
            check(writes, false, false);
        }
    }
}
