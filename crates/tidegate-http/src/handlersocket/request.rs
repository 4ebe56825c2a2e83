//! What a client asks: lines to be read by a server.
//!
//! [`line()`] finds the next line of an input and [`Command::of`] what it is. How many values a request for rows has depends on the
//! index that it names, so that [`OnIndex::read`] is told about that.

use super::{END, Tokens, number_of, value_of};
use crate::handlersocket::answer::Refusal;

/// Values of one list of a request. A byte of a line may be a value, which takes a hundred bytes by the time that it
/// is compared, and no index has as many parts.
pub const VALUES_MAX: usize = 100_000;

/// Filters of a request: each is a term of one expression, of which SQLite takes about a thousand.
pub const FILTERS_MAX: usize = 900;

/// The next line, without its end, and the bytes that it takes; `None` while it is not complete.
///
/// `seen` bytes of the input are known to hold no end of a line.
pub fn line(input: &mut [u8], seen: usize) -> Option<(&mut [u8], usize)> {
    let end = seen + memchr::memchr(END, input.get(seen..)?)?;
    let line = &mut input[..end];
    let size = if line.ends_with(b"\r") { end - 1 } else { end };
    Some((&mut line[..size], end + 1))
}

/// A request.
#[derive(Debug)]
pub enum Command<'a> {
    /// `P`: open an index under a number.
    Open(Open<'a>),
    /// `A`: here is the secret.
    Auth(Auth<'a>),
    /// Something about rows of an index that is open.
    OnIndex(OnIndex<'a>),
    /// None of these.
    Unknown,
}

/// `P NUMBER SCHEMA TABLE INDEX COLUMNS [FILTER_COLUMNS]`
#[derive(Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// The number that requests will name.
    pub number: u32,
    /// The schema.
    pub schema: &'a [u8],
    /// The table.
    pub table: &'a [u8],
    /// The name of the index, or its position where that begins with a digit; empty is `PRIMARY`.
    pub index: &'a [u8],
    /// Columns to be answered and set.
    pub columns: Columns<'a>,
    /// Columns for filters.
    pub filter_columns: Columns<'a>,
}

/// Names of columns with commas in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    /// The names.
    pub fn names(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|byte| *byte == b',').filter(move |_| !self.0.is_empty())
    }
}

/// `A TYPE SECRET`
#[derive(Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The type is the only one that there is, 1.
    pub is_plain: bool,
    /// What the client knows.
    pub secret: &'a [u8],
}

/// A request that names an open index, and what follows the number.
pub struct OnIndex<'a> {
    /// The number of the index.
    pub number: u32,
    tokens: Tokens<'a>,
}

impl std::fmt::Debug for OnIndex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnIndex").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What a request does: the token behind the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `+`: a new row.
    Insert,
    /// `S`: a statement, which no server knows to run.
    Sql,
}

/// Part of a list of values.
pub type Part = std::ops::Range<usize>;

/// A request about rows. Its values are in the list that [`OnIndex::read`] appends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub operator: Operator,
    /// Values of the key, or of a new row.
    pub values: Part,
    /// How many values were announced: more than are in `values` if the line has too few. The rest are empty.
    pub count: u32,
    /// At most so many rows; 0 stands for 1.
    pub limit: u32,
    /// Behind so many others.
    pub offset: u32,
    /// `@`: a part of the key, and values that it has one after the other.
    pub within: Option<(u32, Part)>,
    /// Positions of this request's filters in the list that [`OnIndex::read`] appends to.
    pub filters: Part,
    /// What becomes of the rows that are found.
    pub change: Option<Change>,
}

/// A filter: rows that do not compare so are not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// `W`: the first such row is the end.
    pub ends: bool,
    /// How the column compares with the value.
    pub test: Test,
    /// Position among the filter columns.
    pub column: u32,
    /// Position of the value in the list of values.
    pub value: usize,
}

/// How a filter compares; NULL is less than anything else and equals itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the operator of its name")]
pub enum Test {
    Equal,
    NotEqual,
    Greater,
    AtLeast,
    Less,
    AtMost,
    /// An operator of one byte, or of two with `=`, that is none: no row passes.
    Never,
    /// Any other operator: all rows pass.
    Always,
}

/// `U`, `D`, `+` or `-`, each perhaps with `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub kind: ChangeKind,
    /// `?`: the answer are the rows as they were.
    pub answers_rows: bool,
    /// A value for each column.
    pub values: Part,
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The columns get these values.
    Update,
    /// It is deleted.
    Delete,
    /// These numbers are added to the columns.
    Increment,
    /// These numbers are taken from the columns, unless one would change its sign.
    Decrement,
    /// There is no such change.
    Unknown,
}

impl<'a> Command<'a> {
    /// What a line is.
    pub fn of(line: &'a mut [u8]) -> Self {
        let mut tokens = Tokens::of(line);
        let word = tokens.next();
        match word {
            [b'P'] => Command::Open(Open {
                number: number_of(tokens.next()),
                schema: tokens.next(),
                table: tokens.next(),
                index: tokens.next(),
                columns: Columns(tokens.next()),
                filter_columns: Columns(tokens.next()),
            }),
            [b'A'] => Command::Auth(Auth {
                is_plain: tokens.next() == b"1",
                secret: value_of(tokens.next()).unwrap_or_default(),
            }),
            [b'0'..=b'9', ..] => Command::OnIndex(OnIndex { number: number_of(word), tokens }),
            _ => Command::Unknown,
        }
    }
}

impl<'a> OnIndex<'a> {
    /// Reads the rest of the line, for an index with so many columns and filter columns. Values and filters are appended to the
    /// lists; a value may be anything that is made of a string or NULL.
    ///
    /// # Errors
    /// The answer, if the line is none that can be carried out.
    pub fn read<V: From<Option<&'a [u8]>>>(
        mut self,
        columns: usize,
        filter_columns: usize,
        values: &mut Vec<V>,
        filters: &mut Vec<Filter>,
    ) -> Result<Request, Refusal> {
        let tokens = &mut self.tokens;
        let operator = tokens.next();
        let count = number_of(tokens.next());
        let mut request = Request {
            operator: Operator::Sql,
            values: take_values(tokens, count as usize, values)?,
            count,
            limit: number_of(tokens.next()),
            offset: number_of(tokens.next()),
            within: None,
            filters: filters.len()..filters.len(),
            change: None,
        };
        // What follows may be refused before the operator is.
        if !tokens.is_at_end() && tokens.peek() == Some(b'@') {
            request.within = Some(take_within(tokens, values)?);
        }
        while let Some(kind @ (b'W' | b'F')) = tokens.peek() {
            if filters.len() - request.filters.start == FILTERS_MAX {
                return Err(Refusal::FilterColumn);
            }
            filters.push(take_filter(tokens, kind == b'W', filter_columns, values)?);
        }
        request.filters.end = filters.len();
        if tokens.peek().is_some() {
            request.change = take_change(tokens, columns, values);
        }
        request.operator = operator_of(operator).ok_or(Refusal::Operator)?;
        if count == 0 {
            return Err(Refusal::KeyLength);
        }
        Ok(request)
    }
}

/// Appends the values of so many tokens, or of all that there are.
fn take_values<'a, V: From<Option<&'a [u8]>>>(
    tokens: &mut Tokens<'a>,
    count: usize,
    values: &mut Vec<V>,
) -> Result<Part, Refusal> {
    let start = values.len();
    while values.len() - start < count && !tokens.is_at_end() {
        if values.len() - start == VALUES_MAX {
            return Err(Refusal::KeyLength);
        }
        values.push(V::from(value_of(tokens.next())));
    }
    Ok(start..values.len())
}

fn take_within<'a, V: From<Option<&'a [u8]>>>(
    tokens: &mut Tokens<'a>,
    values: &mut Vec<V>,
) -> Result<(u32, Part), Refusal> {
    tokens.next();
    let part = number_of(tokens.next());
    let count = number_of(tokens.next()) as usize;
    let start = values.len();
    if count > VALUES_MAX {
        return Err(Refusal::WithinLength);
    }
    while values.len() - start < count && !tokens.is_at_end() {
        // A byte 0 alone is no NULL here.
        let token = tokens.next();
        let value = if *token == [super::NULL] { &*token } else { value_of(token).unwrap_or_default() };
        values.push(V::from(Some(value)));
    }
    let found = start..values.len();
    // DeNA's server takes those that are missing for empty strings, however many there are said to be.
    if found.is_empty() || found.len() < count { Err(Refusal::WithinLength) } else { Ok((part, found)) }
}

fn take_filter<'a, V: From<Option<&'a [u8]>>>(
    tokens: &mut Tokens<'a>,
    ends: bool,
    filter_columns: usize,
    values: &mut Vec<V>,
) -> Result<Filter, Refusal> {
    let kind = tokens.next();
    let test = test_of(tokens.next());
    let column = number_of(tokens.next());
    let value = value_of(tokens.next());
    if kind.len() != 1 {
        return Err(Refusal::FilterType);
    }
    if column as usize >= filter_columns {
        return Err(Refusal::FilterColumn);
    }
    values.push(V::from(value));
    Ok(Filter { ends, test, column, value: values.len() - 1 })
}

/// The change at the end of a line. An empty token is none, and hides what follows.
fn take_change<'a, V: From<Option<&'a [u8]>>>(
    tokens: &mut Tokens<'a>,
    columns: usize,
    values: &mut Vec<V>,
) -> Option<Change> {
    let (kind, answers_rows) = match *tokens.next() {
        [] => return None,
        [kind, ref rest @ ..] => (kind, rest.first() == Some(&b'?')),
    };
    let kind = match kind {
        b'U' => ChangeKind::Update,
        b'D' => ChangeKind::Delete,
        b'+' => ChangeKind::Increment,
        b'-' => ChangeKind::Decrement,
        _ => ChangeKind::Unknown,
    };
    let start = values.len();
    values.extend((0..columns).map(|_| V::from(value_of(tokens.next()))));
    Some(Change { kind, answers_rows, values: start..values.len() })
}

fn operator_of(token: &[u8]) -> Option<Operator> {
    Some(match token {
        b"=" => Operator::Equal,
        b">" => Operator::Greater,
        b">=" => Operator::AtLeast,
        b"<" => Operator::Less,
        b"<=" => Operator::AtMost,
        b"+" => Operator::Insert,
        b"S" => Operator::Sql,
        _ => return None,
    })
}

fn test_of(token: &[u8]) -> Test {
    match token {
        b"=" => Test::Equal,
        b"!=" => Test::NotEqual,
        b">" => Test::Greater,
        b">=" => Test::AtLeast,
        b"<" => Test::Less,
        b"<=" => Test::AtMost,
        [_] | [_, b'='] => Test::Never,
        _ => Test::Always,
    }
}

/// The number that a value adds to a column: digits behind a sign, up to the first byte that is none, modulo 2^64.
pub fn addend(value: &[u8]) -> i64 {
    let (negative, digits) = match value {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0i64, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    if negative { number.wrapping_neg() } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Values<'a> = Vec<Option<&'a [u8]>>;

    /// Reads the line of an index with two columns and one filter column, tabs written as `|`.
    #[track_caller]
    fn check(text: &str, expected: Result<&str, Refusal>) {
        let mut line = text.replace('|', "\t").into_bytes();
        let Command::OnIndex(request) = Command::of(&mut line) else { panic!("{text}: no request") };
        let (mut values, mut filters): (Values<'_>, _) = (Vec::new(), Vec::new());
        let read = request.read(2, 1, &mut values, &mut filters);
        assert_eq!(
            read.map(|read| shown(&read, &values, &filters)).as_deref(),
            expected.as_ref().map(|text| *text),
            "{text}"
        );
    }

    fn shown(read: &Request, values: &Values<'_>, filters: &[Filter]) -> String {
        let value = |value: &Option<&[u8]>| value.map_or("NULL".to_owned(), |value| value.escape_ascii().to_string());
        let list = |part: &Part| values[part.clone()].iter().map(value).collect::<Vec<_>>().join(",");
        let Request { operator, count, limit, offset, .. } = read;
        let mut text = format!("{operator:?} {}/{count} {limit}+{offset}", list(&read.values));
        if let Some((part, within)) = &read.within {
            text += &format!(" @{part}:{}", list(within));
        }
        for filter in &filters[read.filters.clone()] {
            let kind = if filter.ends { 'W' } else { 'F' };
            text += &format!(" {kind}{}{:?}{}", filter.column, filter.test, value(&values[filter.value]));
        }
        if let Some(change) = &read.change {
            let asks = if change.answers_rows { "?" } else { "" };
            text += &format!(" {:?}{asks} {}", change.kind, list(&change.values));
        }
        text
    }

    #[test]
    fn requests_for_rows() {
        check("1|=|1|a", Ok("Equal a/1 0+0"));
        check("1|>=|2|a|\0|5|6", Ok("AtLeast a,NULL/2 5+6"));
        check("1|<|1|", Ok("Less /1 0+0"));
        check("1|<=|2|a", Ok("AtMost a/2 0+0"));
        check("1|>|4000000000|a", Ok("Greater a/4000000000 0+0"));
        check("1|+|2|a\u{1}Ib|\u{1}@", Ok("Insert a\\tb,\\x00/2 0+0"));
        check("1|=|1|a|x1y2|-3", Ok("Equal a/1 12+3"));
        check("1|=|1|a|1|0|", Ok("Equal a/1 1+0"));
        check("1|S|1|a", Ok("Sql a/1 0+0"));
    }

    #[test]
    fn values_for_a_part_of_the_key() {
        check("1|=|1|a|9|0|@|0|3|x||\0", Ok("Equal a/1 9+0 @0:x,,\\x00"));
        check("1|=|1|a|9|0|@x|5|1|x|D", Ok("Equal a/1 9+0 @5:x Delete ,"));
        for text in ["1|=|1|a|9|0|@", "1|=|1|a|9|0|@|0|0|x", "1|=|1|a|9|0|@|0|2|x", "1|=|1|a|9|0|@|0|4000000000|x"] {
            check(text, Err(Refusal::WithinLength));
        }
    }

    #[test]
    fn lists_are_bounded() {
        let of = |list: &str, count: usize| {
            let mut line = list.replace('N', &count.to_string()).replace('|', "\t").into_bytes();
            line.resize(line.len() + count, b'\t');
            let Command::OnIndex(request) = Command::of(&mut line) else { panic!("no request") };
            let mut values = Values::new();
            request.read(2, 1, &mut values, &mut Vec::new()).map(|_| values.len())
        };
        for (list, refusal, others) in [
            ("1|=|N", Refusal::KeyLength, 0),
            ("1|+|N", Refusal::KeyLength, 0),
            ("1|=|1|a|1|0|@|0|N", Refusal::WithinLength, 1),
        ] {
            assert_eq!(of(list, VALUES_MAX), Ok(VALUES_MAX + others), "{list}");
            assert_eq!(of(list, VALUES_MAX + 1), Err(refusal), "{list}");
            assert_eq!(of(list, 20 * VALUES_MAX), Err(refusal), "{list}");
        }
        let filters = |count: usize| {
            let mut line = format!("1\t=\t1\ta\t1\t0{}", "\tF\t=\t0\tx".repeat(count)).into_bytes();
            let Command::OnIndex(request) = Command::of(&mut line) else { panic!("no request") };
            request.read(2, 1, &mut Values::new(), &mut Vec::new()).map(|read| read.filters.len())
        };
        assert_eq!(filters(FILTERS_MAX), Ok(FILTERS_MAX));
        assert_eq!(filters(FILTERS_MAX + 1), Err(Refusal::FilterColumn));
    }

    #[test]
    fn filters_and_changes() {
        check("1|=|1|a|1|0|F|!=|0|x|W|<|0|\0|U|p|q", Ok("Equal a/1 1+0 F0NotEqualx W0LessNULL Update p,q"));
        check("1|=|1|a|1|0|+?|5", Ok("Equal a/1 1+0 Increment? 5,"));
        check("1|=|1|a|1|0|-|5|6|7", Ok("Equal a/1 1+0 Decrement 5,6"));
        check("1|=|1|a|1|0|F|<>|0|x|F|!|0|x|F|+=|0|x", Ok("Equal a/1 1+0 F0Alwaysx F0Neverx F0Neverx"));
        check("1|=|1|a|1|0|F", Ok("Equal a/1 1+0 F0Always"));
        check("1|=|1|a|1|0||x", Ok("Equal a/1 1+0"));
        check("1|=|1|a|1|0|u|x", Ok("Equal a/1 1+0 Unknown x,"));
        check("1|=|1|a|1|0|FF|=|0|x", Err(Refusal::FilterType));
        check("1|=|1|a|1|0|F|=|1|x", Err(Refusal::FilterColumn));
    }

    #[test]
    fn wrong_requests() {
        for text in ["1", "1|", "1|==|1|a", "1|x|1|a", "1||1|a"] {
            check(text, Err(Refusal::Operator));
        }
        for text in ["1|=", "1|=|0", "1|=|x|a", "1|+|0"] {
            check(text, Err(Refusal::KeyLength));
        }
    }

    #[test]
    fn commands_are_told_apart() {
        let mut line = b"P\t3\tshop\tcats\t\tid,name\tage".to_vec();
        let Command::Open(open) = Command::of(&mut line) else { panic!("no open_index") };
        assert_eq!((open.number, open.schema, open.table, open.index), (3, &b"shop"[..], &b"cats"[..], &b""[..]));
        assert!(open.columns.names().eq([&b"id"[..], b"name"]) && open.filter_columns.names().eq([&b"age"[..]]));
        let mut line = b"P".to_vec();
        let Command::Open(open) = Command::of(&mut line) else { panic!("no open_index") };
        assert_eq!((open.number, open.columns.names().count()), (0, 0));
        let mut line = b"A\t1\tsec\x01@ret".to_vec();
        let Command::Auth(auth) = Command::of(&mut line) else { panic!("no auth") };
        assert_eq!(auth, Auth { is_plain: true, secret: b"sec\0ret" });
        for text in ["", "\tP", "x", "PP\t1", "p\t1", "-1\t=\t1\ta"] {
            assert!(matches!(Command::of(&mut text.as_bytes().to_vec()), Command::Unknown), "{text}");
        }
    }

    #[test]
    fn lines_end_where_they_end() {
        for (input, expected) in [
            (&b""[..], None),
            (b"abc", None),
            (b"\nabc", Some((&b""[..], 1))),
            (b"ab\r\nc\n", Some((b"ab", 4))),
            (b"ab\rc\n", Some((b"ab\rc", 5))),
        ] {
            let mut bytes = input.to_vec();
            assert_eq!(line(&mut bytes, 0).map(|(line, used)| (&*line, used)), expected, "{input:?}");
        }
    }

    #[test]
    fn lines_that_are_cut_anywhere_are_read() {
        let whole = b"1\t=\t2\ta\x01I\t\0\t1\t0\t@\t1\t2\tx\ty\tF\t>=\t0\t5\tW\t=\t0\t\0\tU?\tp\tq";
        for size in 0..=whole.len() {
            let mut line = whole[..size].to_vec();
            let Command::OnIndex(request) = Command::of(&mut line) else { continue };
            let (mut values, mut filters): (Values<'_>, _) = (Vec::new(), Vec::new());
            if let Ok(read) = request.read(2, 1, &mut values, &mut filters) {
                shown(&read, &values, &filters);
            }
        }
    }

    #[test]
    fn addends_are_whole_numbers() {
        for (text, number) in [
            (&b""[..], 0),
            (b"12x3", 12),
            (b"-7", -7),
            (b"+7", 7),
            (b"x7", 0),
            (b"--7", 0),
            (b"9223372036854775808", i64::MIN),
        ] {
            assert_eq!(addend(text), number, "{text:?}");
        }
    }
}
