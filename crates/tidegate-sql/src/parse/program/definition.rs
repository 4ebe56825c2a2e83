//! The head of a definition: CREATE … TRIGGER up to the body, and what all kinds have in common.

use sqlparser::{
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};
use tidegate_rows::ServerError;

use super::{
    code::Code,
    compile::{self, Kind, Reading, Wrong},
    event::{self, EventHead, EventStatement},
    signature::{self, CreateRoutine, Signature},
    trigger::{Event, Timing},
};
use crate::{
    dialect::{MySql, expect_word, identifier, is_word, skip, take_word, take_words, unexpected},
    errors, lexer,
    parse::{self, Span, TableName, account::Who},
};

/// A definition of a stored program.
#[derive(Debug, Clone)]
pub(crate) enum Definition {
    Trigger(Box<CreateTrigger>),
    Routine(Box<CreateRoutine>),
    Event(Box<EventStatement>),
    /// Statements that need no program around them: the text.
    Block(String),
}

/// CREATE TRIGGER.
#[derive(Debug, Clone)]
pub(crate) struct CreateTrigger {
    pub(crate) or_replace: bool,
    pub(crate) definer: Option<Who>,
    pub(crate) head: Head,
    /// From the word TRIGGER on.
    pub(crate) text: String,
}

/// What stands in front of a trigger's body.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) if_not_exists: bool,
    pub(crate) name: TableName,
    pub(crate) timing: Timing,
    pub(crate) event: Event,
    pub(crate) table: TableName,
    /// FOLLOWS or PRECEDES another one.
    pub(crate) order: Option<Order>,
    /// Where `ON table` stands.
    pub(crate) on: Span,
    /// Where the body begins.
    pub(crate) body: usize,
}

/// The place of a trigger.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) follows: bool,
    pub(crate) other: String,
    /// Where this is said; the body follows.
    from: usize,
}

/// Whether tokens are those of a definition that is read here.
pub(crate) fn begins(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter();
    let Some(first) = words.next() else { return false };
    if begins_block(tokens) {
        return true;
    }
    if is_word(first, "ALTER") {
        return is_alter_event(tokens);
    }
    if !is_word(first, "CREATE") {
        return false;
    }
    // Behind the definer, which may have any name.
    let kind =
        |token: &TokenWithSpan| ["TRIGGER", "PROCEDURE", "FUNCTION", "EVENT"].iter().any(|word| is_word(token, word));
    let other = |token: &TokenWithSpan| {
        ["TABLE", "VIEW", "INDEX", "USER", "ROLE", "DATABASE", "SCHEMA"].iter().any(|word| is_word(token, word))
    };
    words.take(12).find(|token| kind(token) || other(token)).is_some_and(kind)
}

/// `BEGIN NOT ATOMIC`, or a statement with others in it.
fn begins_block(tokens: &[TokenWithSpan]) -> bool {
    match tokens {
        [first, not, atomic, ..] if is_word(first, "BEGIN") => is_word(not, "NOT") && is_word(atomic, "ATOMIC"),
        [first, ..] => lexer::BLOCKS.iter().any(|word| is_word(first, word)),
        [] => false,
    }
}

/// `ALTER [DEFINER = …] EVENT`: the event's name comes behind it, which tells it from a table of this name.
fn is_alter_event(tokens: &[TokenWithSpan]) -> bool {
    let at = match tokens.get(1) {
        Some(token) if is_word(token, "EVENT") => 1,
        Some(token) if is_word(token, "DEFINER") => {
            tokens.iter().take(12).position(|token| is_word(token, "EVENT")).unwrap_or(0)
        }
        _ => 0,
    };
    at > 0
}

/// Reads a definition.
///
/// # Errors
/// 1064 with the place; what a program must not hold.
pub(crate) fn parse(sql: &[u8], tokens: &[TokenWithSpan], reading: Reading) -> Result<Definition, ServerError> {
    let dialect = MySql { pipes_as_concat: reading.pipes_as_concat, nested_joins: false };
    let mut p = Parser::new(&dialect).with_recursion_limit(100).with_tokens_with_locations(tokens.to_vec());
    let read = create(&mut p, sql, reading);
    finish(read, &p, sql)
}

/// Reads a trigger as a schema keeps it.
///
/// # Errors
/// As [`parse()`].
pub(crate) fn read(text: &str, reading: Reading) -> Result<(Head, Code), ServerError> {
    let (mut head, code) = read_kept(text, reading, trigger)?;
    (head.on, head.body) = ((head.on.0 - KEPT_FROM, head.on.1 - KEPT_FROM), head.body - KEPT_FROM);
    Ok((head, code))
}

/// Reads a procedure or function as a schema keeps it.
///
/// # Errors
/// As [`parse()`].
pub(crate) fn read_routine(text: &str, reading: Reading) -> Result<(Signature, Code), ServerError> {
    let (mut head, code) = read_kept(text, reading, signature::routine)?;
    let kept = |(from, to): Span| (from - KEPT_FROM, to - KEPT_FROM);
    head.params_at = kept(head.params_at);
    head.returns = head.returns.map(|(ty, at)| (ty, kept(at)));
    (head.says_from, head.body) = kept((head.says_from, head.body));
    Ok((head, code))
}

/// Reads an event as a schema keeps it.
///
/// # Errors
/// As [`parse()`].
pub(crate) fn read_event(text: &str, reading: Reading) -> Result<(EventHead, Code), ServerError> {
    read_kept(text, reading, event::kept)
}

/// Reads a block that stands by itself.
///
/// # Errors
/// As [`parse()`].
pub(crate) fn read_block(text: &str, reading: Reading) -> Result<Code, ServerError> {
    read_text(text, reading, block)
}

fn block(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<Code, Wrong> {
    compile::body(p, sql, Kind::Procedure, reading, Vec::new(), None)
}

/// Where the text that is kept begins in the one that is read.
const KEPT_FROM: usize = "CREATE ".len();

fn read_kept<T: Send>(
    text: &str,
    reading: Reading,
    kind: fn(&mut Parser, &[u8], Reading) -> Result<T, Wrong>,
) -> Result<T, ServerError> {
    read_text(&format!("CREATE {text}"), reading, |p, sql, reading| {
        p.advance_token();
        kind(p, sql, reading)
    })
}

fn read_text<T: Send>(
    text: &str,
    reading: Reading,
    read: impl FnOnce(&mut Parser, &[u8], Reading) -> Result<T, Wrong> + Send,
) -> Result<T, ServerError> {
    crate::task::on_thread_stack(|| {
        let tokens = lexer::tokens(text.as_bytes(), 0, reading.mode, lexer::Literals::Inline);
        let tokens = tokens.map_err(|error| parse::near(text.as_bytes(), error.at))?.tokens;
        let dialect = MySql { pipes_as_concat: reading.pipes_as_concat, nested_joins: false };
        let mut p = Parser::new(&dialect).with_recursion_limit(100).with_tokens_with_locations(tokens);
        let read = read(&mut p, text.as_bytes(), reading);
        finish(read, &p, text.as_bytes())
    })
}

/// What was read, if it is all there is.
fn finish<T>(read: Result<T, Wrong>, p: &Parser, sql: &[u8]) -> Result<T, ServerError> {
    let next = p.peek_token_ref();
    match read {
        Ok(read) if next.token == Token::EOF => Ok(read),
        Ok(_) | Err(Wrong::Syntax) => Err(parse::near(sql, next.span.start.column as usize)),
        Err(Wrong::Refused(error)) => Err(error),
    }
}

fn create(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<Definition, Wrong> {
    if take_word(p, "ALTER") {
        let definer = definer(p)?;
        return Ok(Definition::Event(Box::new(event::alter(p, sql, reading, definer)?)));
    }
    if !is_word(p.peek_token_ref(), "CREATE") {
        let from = p.peek_token_ref().span.start.column as usize;
        block(p, sql, reading)?;
        return Ok(Definition::Block(String::from_utf8_lossy(&sql[from..end_of(p, sql)]).into_owned()));
    }
    expect_word(p, "CREATE")?;
    let or_replace = take_words(p, &["OR", "REPLACE"]);
    let definer = definer(p)?;
    if is_word(p.peek_token_ref(), "AGGREGATE") {
        return Err(errors::unsupported("CREATE AGGREGATE").into());
    }
    if is_word(p.peek_token_ref(), "EVENT") {
        let create = event::create(p, sql, reading, or_replace, definer)?;
        if or_replace && create.if_not_exists {
            return Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS").into());
        }
        return Ok(Definition::Event(Box::new(create)));
    }
    let from = p.peek_token_ref().span.start.column as usize;
    if is_word(p.peek_token_ref(), "PROCEDURE") || is_word(p.peek_token_ref(), "FUNCTION") {
        let (signature, _) = signature::routine(p, sql, reading)?;
        if or_replace && signature.if_not_exists {
            return Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS").into());
        }
        let text = String::from_utf8_lossy(&sql[from..end_of(p, sql)]).into_owned();
        return Ok(Definition::Routine(Box::new(CreateRoutine { or_replace, definer, signature, text })));
    }
    let (mut head, _) = trigger(p, sql, reading)?;
    if or_replace && head.if_not_exists {
        return Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS").into());
    }
    let to = end_of(p, sql);
    let text = |(from, to): Span| String::from_utf8_lossy(&sql[from..to]).into_owned();
    // Its place is kept as a number: the trigger that the words name may go.
    let (order_from, order_to) = head.order.as_ref().map_or((to, to), |order| (order.from, head.body));
    let text = text((from, order_from)) + &text((order_to, to));
    (head.on, head.body) = ((head.on.0 - from, head.on.1 - from), head.body - from - (order_to - order_from));
    Ok(Definition::Trigger(Box::new(CreateTrigger { or_replace, definer, head, text })))
}

fn definer(p: &mut Parser) -> Result<Option<Who>, Wrong> {
    if !take_word(p, "DEFINER") {
        return Ok(None);
    }
    skip(p, &Token::Eq);
    Ok(Some(parse::accounts::who(p)?))
}

/// Where the last token that was read ends.
pub(super) fn end_of(p: &Parser, sql: &[u8]) -> usize {
    let last = p.get_current_token();
    let last = if last.token == Token::EOF { p.get_previous_token() } else { last };
    (last.span.end.column as usize).min(sql.len())
}

/// From the word TRIGGER on.
fn trigger(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<(Head, Code), Wrong> {
    expect_word(p, "TRIGGER")?;
    let if_not_exists = take_words(p, &["IF", "NOT", "EXISTS"]);
    let name = parse::table_name(p)?;
    let timing = if take_word(p, "BEFORE") {
        Timing::Before
    } else {
        expect_word(p, "AFTER")?;
        Timing::After
    };
    let events = [(Event::Insert, "INSERT"), (Event::Update, "UPDATE"), (Event::Delete, "DELETE")];
    let Some((event, _)) = events.into_iter().find(|(_, word)| take_word(p, word)) else {
        return Ok(unexpected(p)?);
    };
    let on = p.peek_token_ref().span.start.column as usize;
    expect_word(p, "ON")?;
    let table = parse::table_name(p)?;
    let on = (on, p.get_current_token().span.end.column as usize);
    for word in ["FOR", "EACH", "ROW"] {
        expect_word(p, word)?;
    }
    let from = p.peek_token_ref().span.start.column as usize;
    let follows = take_word(p, "FOLLOWS");
    let order = if follows || take_word(p, "PRECEDES") {
        let other = identifier(p)?.value;
        Some(Order { follows, other, from })
    } else {
        None
    };
    let body = p.peek_token_ref().span.start.column as usize;
    let kind = Kind::Trigger {
        changes_new: timing == Timing::Before && event != Event::Delete,
        has_new: event != Event::Delete,
    };
    let code = compile::body(p, sql, kind, reading, Vec::new(), None)?;
    Ok((Head { if_not_exists, name, timing, event, table, order, on, body }, code))
}
