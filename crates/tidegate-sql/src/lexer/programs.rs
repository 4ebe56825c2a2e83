//! Where a statement ends that holds others: the definition of a stored program, and a block that stands by itself, have a `;` behind
//! each of their own.
//!
//! Only words are looked at: whatever opens a block (BEGIN, IF, CASE, LOOP, REPEAT, WHILE, FOR) has an END. The parser, which
//! knows the grammar, reads up to the place that is found here, and says what is wrong if that is not where the program ends.

use super::{LexError, LexMode, Piece, Scan};

/// A block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// CASE within an expression: what follows its THEN is no statement.
    Expression,
    Statements,
}

/// What stands in front of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The head of a trigger, up to FOR EACH ROW.
    Trigger,
    /// The head of an event, up to DO.
    Event,
    /// The head of a procedure or function: its body may begin anywhere.
    Routine,
    /// A statement begins.
    Statement,
    /// The head of a handler: whether a condition follows, or else its statement.
    Handler { names: bool },
    /// END: a word behind it says what of.
    End,
    /// Somewhere in a statement.
    Inside,
}

/// Words that begin a statement with others in it that needs no program around it, besides BEGIN NOT ATOMIC.
pub(crate) const BLOCKS: [&str; 6] = ["IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR"];

/// Where the definition of a stored program, or the block, at `sql[from..]` ends: behind its `;`, or with the text. `None` if that is another
/// statement.
///
/// # Errors
/// As [`tokens`](super::tokens()).
pub(super) fn program_end(sql: &[u8], from: usize, mode: LexMode) -> Result<Option<usize>, LexError> {
    let mut scan = Scan { sql, pos: from, mode, in_hint: false };
    let (mut before, mut open) = match block_alone(sql, from, mode)? {
        Some((begins, open)) => {
            scan.pos = begins;
            (Before::Statement, open)
        }
        None => match head_of_program(&mut scan)? {
            Some(head) => (head, Vec::new()),
            None => return Ok(None),
        },
    };
    // A name that stands behind a word of the head, and what comes behind it.
    let mut named = None;
    loop {
        let (piece, start, end) = scan.next()?;
        let bytes = &sql[start..end];
        match piece {
            Piece::End => return Ok(Some(scan.pos)),
            Piece::Semicolon if open.is_empty() => return Ok(Some(scan.pos)),
            Piece::Semicolon => (before, named) = (Before::Statement, None),
            _ if named.is_some() => before = named.take().unwrap_or(before),
            // A label.
            Piece::Operator if bytes == b":" => before = Before::Statement,
            Piece::Word => {
                let is = |other: &str| bytes.eq_ignore_ascii_case(other.as_bytes());
                if before == Before::Statement && (is("FOLLOWS") || is("PRECEDES"))
                    || before == Before::Routine && (is("CHARACTER") || is("COMMENT"))
                {
                    named = Some(before);
                } else {
                    before = behind(bytes, before, &mut open, &scan);
                }
            }
            _ => {
                before = match before {
                    Before::Handler { .. } => Before::Handler { names: bytes == b"," },
                    Before::Statement | Before::End => Before::Inside,
                    head => head,
                }
            }
        }
    }
}

/// Where the first statement begins of a block that stands by itself, and the blocks that are open there.
fn block_alone(sql: &[u8], from: usize, mode: LexMode) -> Result<Option<(usize, Vec<Block>)>, LexError> {
    let mut scan = Scan { sql, pos: from, mode, in_hint: false };
    let mut next = || {
        let (piece, start, end) = scan.next()?;
        Ok(if matches!(piece, Piece::Word) { &sql[start..end] } else { &b""[..] })
    };
    let first = next()?;
    if first.eq_ignore_ascii_case(b"BEGIN") {
        let is_block = next()?.eq_ignore_ascii_case(b"NOT") && next()?.eq_ignore_ascii_case(b"ATOMIC");
        return Ok(is_block.then(|| (scan.pos, vec![Block::Statements])));
    }
    Ok(BLOCKS.iter().any(|word| first.eq_ignore_ascii_case(word.as_bytes())).then(|| (from, Vec::new())))
}

/// Takes the words up to the kind of a program.
fn head_of_program(scan: &mut Scan<'_>) -> Result<Option<Before>, LexError> {
    let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    let sql = scan.sql;
    let mut next = || {
        let (piece, start, end) = scan.next()?;
        Ok((piece, &sql[start..end]))
    };
    let alters = match next()? {
        (Piece::Word, word) if is(word, "CREATE") => false,
        // Of programs the only ones whose body can be altered are events.
        (Piece::Word, word) if is(word, "ALTER") => true,
        _ => return Ok(None),
    };
    let mut is_definer = false;
    loop {
        match next()? {
            (Piece::Word, word) if alters && !is(word, "EVENT") && !is(word, "DEFINER") && !is_definer => {
                return Ok(None);
            }
            (Piece::Word, word) if is(word, "TRIGGER") => return Ok(Some(Before::Trigger)),
            (Piece::Word, word) if is(word, "EVENT") => return Ok(Some(Before::Event)),
            (Piece::Word, word) if is(word, "PROCEDURE") || is(word, "FUNCTION") => return Ok(Some(Before::Routine)),
            (Piece::Word, word) if is(word, "DEFINER") => is_definer = true,
            (Piece::Word, word) if ["OR", "REPLACE", "AGGREGATE"].iter().any(|other| is(word, other)) => {}
            (Piece::End | Piece::Semicolon, _) => return Ok(None),
            // A view may have a definer too.
            (Piece::Word, word) if is(word, "VIEW") || is(word, "SQL") => return Ok(None),
            _ if is_definer => {}
            _ => return Ok(None),
        }
    }
}

/// Words that begin a statement without blocks as the body of a procedure or function.
const PLAIN: [&str; 12] =
    ["SET", "RETURN", "INSERT", "UPDATE", "DELETE", "REPLACE", "SELECT", "WITH", "CALL", "DO", "SIGNAL", "EXECUTE"];

/// Opens and closes blocks by a word; answers what stands in front of the next piece.
fn behind(word: &[u8], before: Before, open: &mut Vec<Block>, scan: &Scan<'_>) -> Before {
    let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    let is_one_of = |others: &[&str]| others.iter().any(|other| is(other));
    let mut before = before;
    match before {
        Before::Trigger => return if is("ROW") { Before::Statement } else { before },
        Before::Event => return if is("DO") { Before::Statement } else { before },
        // `END IF`, `END LOOP`.
        Before::End if is_one_of(&["IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR"]) => return Before::Inside,
        Before::End => before = Before::Inside,
        Before::Handler { .. } if is_one_of(&["FOR", "NOT", "SQLSTATE", "VALUE"]) => {
            return Before::Handler { names: true };
        }
        Before::Handler { names: true } => return Before::Handler { names: false },
        Before::Handler { names: false } => before = Before::Statement,
        Before::Routine if is_one_of(&PLAIN) => return Before::Inside,
        Before::Routine | Before::Statement | Before::Inside => {}
    }
    let begins = before != Before::Inside;
    if is("END") {
        open.pop();
        return Before::End;
    }
    if is("CASE") {
        open.push(if begins { Block::Statements } else { Block::Expression });
        return Before::Inside;
    }
    if begins && is("BEGIN") || is("LOOP") || begins && is("REPEAT") && !scan.comes(b"(") {
        open.push(Block::Statements);
        return Before::Statement;
    }
    // `IF NOT EXISTS` belongs to a head.
    let is_if = is("IF") && !(before == Before::Routine && (scan.comes(b"NOT") || scan.comes(b"EXISTS")));
    if is("WHILE") || begins && (is_if || is("FOR")) {
        open.push(Block::Statements);
        return Before::Inside;
    }
    if is("HANDLER") && !begins {
        return Before::Handler { names: true };
    }
    // In a statement `DO expression` the word is the first one.
    let leads = is("THEN") || is("ELSE") || is("DO") && !begins;
    match before {
        _ if leads && open.last() != Some(&Block::Expression) => Before::Statement,
        Before::Routine => Before::Routine,
        _ => Before::Inside,
    }
}

impl Scan<'_> {
    /// Whether these bytes come next, in any case.
    fn comes(&self, bytes: &[u8]) -> bool {
        let mut ahead = Scan { sql: self.sql, pos: self.pos, mode: self.mode, in_hint: self.in_hint };
        ahead.next().is_ok_and(|(_, start, end)| self.sql[start..end].eq_ignore_ascii_case(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str) {
        let text = format!("{program}; select 1");
        let end = program_end(text.as_bytes(), 0, LexMode::default()).unwrap();
        assert_eq!(end, Some(program.len() + 1), "{:?}", end.map(|end| &text[..end]));
        assert_eq!(program_end(program.as_bytes(), 0, LexMode::default()).unwrap(), Some(program.len()));
    }

    #[test]
    fn programs_end_where_their_blocks_do() {
        check("create trigger t before insert on u for each row set new.a = 1");
        check("CREATE OR REPLACE DEFINER=`root`@`localhost` TRIGGER t AFTER DELETE ON u FOR EACH ROW BEGIN END");
        check("create trigger t before insert on u for each row follows v set new.a = if(1, 2, 3)");
        check("create procedure p() begin declare continue handler for not found set a = if(1, 2, 3); end");
        check(
            "create function f(a int) returns varchar(3) character set utf8mb4 comment 'x' begin return if(a, 'b', 'c'); end",
        );
        check(
            "create definer = current_user() trigger if not exists t before update on u for each row begin set @a = 1; end",
        );
        check(
            "create trigger t before insert on u for each row if new.a then set new.b = if(1, 2, 3); else set new.b = 2; end if",
        );
        check(
            "create trigger t before insert on u for each row begin set @a = case when 1 then if(1, 2, 3) else 4 end; end",
        );
        check(
            "create trigger t before insert on u for each row case new.a when 1 then set @a = 1; else begin end; end case",
        );
        check("create procedure p(a int, out b int) l: loop leave l; end loop l");
        check(
            "create procedure p() begin repeat set a = repeat('x', 3); until a end repeat; while a do set a = 1; end while; end",
        );
        check("create procedure p() begin declare continue handler for not found, sqlstate '42000' begin end; end");
        check(
            "create procedure p() begin declare exit handler for sqlexception if a then set b = 1; end if; select ';'; end",
        );
        check("create procedure p() a: begin do if(1, 2, 3); for i in 1..3 do begin end; end for; end a");
        check("create function f(a int) returns int return case when a then 1 else 2 end");
        check("create event e on schedule every 1 hour do begin delete from t; end");
        check("alter event e on schedule every 1 hour do begin delete from t; end");
        check("alter definer = root@localhost event e comment 'x'");
        check("begin not atomic declare a int; if a then set a = 1; end if; end");
        check("BEGIN NOT ATOMIC IF 1 THEN SELECT ';'; END IF; END");
        check("if exists (select 1) then select if(1, 2, 3); else begin end; end if");
        check("for r in (select a from t) do select r.a; end for");
        check("while 1 do set @a = 1; end while");
        check(
            "create trigger t before insert on u for each row begin drop table if exists t; if 1 then if 2 then set @a=1; end if; end if; end",
        );
    }

    #[test]
    fn other_statements_are_none() {
        for text in [
            "alter table event add a int",
            "alter function f comment 'x'",
            "select 1",
            "create table trigger_ (a int)",
            "create view v as select 1",
            "drop trigger t",
            "create",
            "",
            "begin",
            "begin work",
            "begin not",
        ] {
            assert_eq!(program_end(text.as_bytes(), 0, LexMode::default()).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_cut_ends_with_itself() {
        let text =
            "create trigger t before insert on u for each row begin if a then set @b = 'x'; end if; end; select 1";
        let mode = LexMode::default();
        for end in 0..text.len() {
            if let Ok(Some(at)) = program_end(&text.as_bytes()[..end], 0, mode) {
                assert!(at <= end);
            }
        }
    }
}
