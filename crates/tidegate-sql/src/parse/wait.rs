//! `WAIT n` and `NOWAIT`: how long one statement waits for locks. Neither is read by the library where MariaDB has it.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::is_word;

/// Begins the name of the clause that stands for `WAIT n` behind FOR UPDATE or FOR SHARE; no table's name has it.
const MARK: &str = "\0wait ";
/// A year: longer ones are all the same.
const SECONDS_MAX: u64 = 31_536_000;

/// The seconds that the name in a FOR clause stands for; `None` if that is a table's.
pub(crate) fn seconds_of(name: &str) -> Option<u64> {
    name.strip_prefix(MARK)?.parse().ok()
}

/// Takes the clause out of a statement that defines or locks tables, and answers its seconds. That of a query becomes a FOR clause
/// of its own.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Option<u64> {
    if !tokens.iter().any(|token| is_word(token, "WAIT") || is_word(token, "NOWAIT")) {
        return None;
    }
    if is_about_tables(tokens) {
        return take_of_tables(tokens);
    }
    let mut at = 1;
    while at < tokens.len() {
        let (before, from) = tokens.split_at(at);
        if is_behind_for(before)
            && let Some(seconds) = wait(from)
        {
            let words = [("FOR", None), ("SHARE", None), ("OF", None), (&*format!("{MARK}{seconds}"), Some('`'))];
            let span = from[0].span;
            let clause = words.map(|(word, quote)| TokenWithSpan { token: Token::make_word(word, quote), span });
            tokens.splice(at..at + 2, clause);
        }
        at += 1;
    }
    None
}

/// `WAIT n` at the beginning.
fn wait(tokens: &[TokenWithSpan]) -> Option<u64> {
    match tokens {
        [word, number, ..] if is_word(word, "WAIT") => match &number.token {
            Token::Number(text, _) => Some(text.parse::<u64>().ok()?.min(SECONDS_MAX)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether these end with FOR UPDATE or FOR SHARE, perhaps OF a table.
fn is_behind_for(tokens: &[TokenWithSpan]) -> bool {
    let ends_with_for = |tokens: &[TokenWithSpan]| match tokens {
        [.., first, second] => is_word(first, "FOR") && (is_word(second, "UPDATE") || is_word(second, "SHARE")),
        _ => false,
    };
    match tokens {
        [rest @ .., of, _name] if is_word(of, "OF") => ends_with_for(rest),
        _ => ends_with_for(tokens),
    }
}

fn is_about_tables(tokens: &[TokenWithSpan]) -> bool {
    let is =
        |at: usize, words: &[&str]| tokens.get(at).is_some_and(|token| words.iter().any(|word| is_word(token, word)));
    is(0, &["ALTER", "DROP", "TRUNCATE", "RENAME", "OPTIMIZE", "LOCK"])
        || is(0, &["CREATE"]) && (1..5).any(|at| is(at, &["INDEX"]))
}

fn take_of_tables(tokens: &mut Vec<TokenWithSpan>) -> Option<u64> {
    let mut depth = 0usize;
    for at in 0..tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 || at == 0 {
            continue;
        }
        if let Some(seconds) = wait(&tokens[at..]) {
            tokens.drain(at..at + 2);
            return Some(seconds);
        }
        if is_word(&tokens[at], "NOWAIT")
            && ends_a_name(&tokens[..at], tokens.get(at + 1).filter(|next| next.token != Token::EOF))
        {
            tokens.remove(at);
            return Some(0);
        }
    }
    None
}

/// Whether what stands before NOWAIT is a table's name, or the list of an index, and NOWAIT none itself.
fn ends_a_name(before: &[TokenWithSpan], next: Option<&TokenWithSpan>) -> bool {
    let begins_names = ["TABLE", "TABLES", "EXISTS", "ON"];
    let follows_a_word = |words: &[&str], tokens: &[TokenWithSpan]| {
        tokens.last().is_some_and(|token| words.iter().any(|word| is_word(token, word)))
    };
    match before {
        [.., last] if last.token == Token::RParen => true,
        _ if next.is_none() => {
            let is_name = |token: &Token| matches!(token, Token::Word(_));
            !follows_a_word(&begins_names, before)
                && !follows_a_word(&["COLUMN", "INDEX", "KEY", "DROP", "TO", "AS"], before)
                && before.last().is_some_and(|last| is_name(&last.token))
        }
        [rest @ .., _, point, _] if point.token == Token::Period => follows_a_word(&begins_names, rest),
        [rest @ .., _] => follows_a_word(&begins_names, rest),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::{self, LexMode, Literals};

    fn taken(sql: &str) -> (Option<u64>, String) {
        let mut tokens = lexer::tokens(sql.as_bytes(), 0, LexMode::default(), Literals::Inline).unwrap().tokens;
        let seconds = take(&mut tokens);
        let tokens = tokens.iter().filter(|token| token.token != Token::EOF);
        let words: Vec<String> = tokens.map(|token| token.token.to_string()).collect();
        (seconds, words.join(" "))
    }

    #[test]
    fn the_clause_is_found_where_it_stands_for_nothing_else() {
        for (sql, seconds, rest) in [
            ("ALTER TABLE a.t WAIT 5 ADD x INT", Some(5), "ALTER TABLE a . `t` ADD x INT"),
            ("ALTER TABLE t NOWAIT ADD nowait INT", Some(0), "ALTER TABLE t ADD nowait INT"),
            ("DROP TABLE IF EXISTS a, b NOWAIT", Some(0), "DROP TABLE IF EXISTS a , b"),
            (
                "CREATE UNIQUE INDEX i ON t (wait, nowait) NOWAIT",
                Some(0),
                "CREATE UNIQUE INDEX i ON t ( wait , nowait )",
            ),
            ("RENAME TABLE t WAIT 99999999999 TO u", Some(SECONDS_MAX), "RENAME TABLE t TO u"),
            ("LOCK TABLES t READ NOWAIT", Some(0), "LOCK TABLES t READ"),
        ] {
            assert_eq!(taken(sql), (seconds, rest.to_owned()), "{sql}");
        }
        for sql in [
            "DROP TABLE nowait",
            "DROP TABLE a , nowait",
            "ALTER TABLE t ADD wait INT",
            "ALTER TABLE t DROP nowait",
            "ALTER TABLE t ADD nowait INT",
            "RENAME TABLE t TO nowait",
            "SELECT wait FROM t",
            "SELECT 1 wait FROM t FOR UPDATE NOWAIT",
            "INSERT INTO t VALUES ( 1 )",
        ] {
            assert_eq!(taken(sql), (None, sql.to_owned()));
        }
        let (seconds, text) = taken("SELECT wait FROM t FOR UPDATE OF t WAIT 7");
        assert_eq!((seconds, text.contains("WAIT 7")), (None, false));
        let name = text.rsplit(' ').take(2).collect::<Vec<_>>();
        assert_eq!(seconds_of(&format!("{} {}", name[1], name[0]).replace('`', "")), Some(7));
        assert_eq!(seconds_of("t"), None);
    }
}
