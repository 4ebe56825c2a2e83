//! What a search says: the words, phrases and operators of its text.
//!
//! In boolean mode a text is
//!
//! ```text
//! query  = { [ "+" | "-" | ">" | "<" | "~" ] ( "(" query ")" | term | phrase ) }
//! term   = { "*" } characters [ "*" ]
//! phrase = '"' characters '"' [ "@" number ]
//! ```
//!
//! In natural language mode there are no operators but a star that stands alone: all else between spaces is a term.
//!
//! Quotation marks without a second one or with nothing between, `%` and spaces count for nothing. A term is all characters up to the
//! next space or operator; where they are several words, each has the term's operator. Words behind the first are left out if they are too
//! short or too long, and so is a single character before others (`O'Reilly`). Words at the beginning of a phrase that no search
//! finds are left out too. All of this is what MariaDB 10.11 does with InnoDB's tables, found by trying; so are the errors.

use std::collections::HashSet;

use super::{
    Mode, Rules,
    words::{PASSED, Word, Words},
};

/// Brackets inside of each other.
const DEPTH_MAX: usize = 64;

/// What is done with the rows that something finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// They are found as well.
    May,
    /// `+`: no others are found.
    Must,
    /// `-`: they are not found.
    Not,
    /// `>`: found as well, with a rank that is greater by one.
    More,
    /// `<`: found as well, with a rank that is less by one.
    Less,
    /// `~`: those that something before has found rank less by one.
    Negate,
}

/// What finds rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Word(String),
    /// All words that begin like this.
    Prefix(String),
    /// Words one behind the other.
    Phrase(Vec<Word>),
    /// Words that are all among so many in a row.
    Near(Vec<String>, u64),
    Group(Vec<(Operator, Item)>),
    /// A word that no search finds.
    Nothing,
}

/// A search.
pub(crate) type Query = Vec<(Operator, Item)>;

/// Why a search cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// What stands at the wrong place, and what should stand there.
    Unexpected(&'static str, &'static str),
    TooDeep,
}

/// Reads a search.
///
/// # Errors
/// In boolean mode with strict rules, for what the grammar does not know; brackets nested too deeply.
pub(crate) fn read(text: &str, words: &Words, mode: Mode) -> Result<Query, Unreadable> {
    let Mode { boolean, rules } = mode;
    let mut reader = Reader { rest: text, words, rules, token: Token::End, boolean };
    reader.advance();
    let mut query = reader.query(0)?;
    while reader.token != Token::End {
        // A bracket that closes nothing.
        reader.unexpected(reader.token, "$end")?;
        reader.advance();
        query.extend(reader.query(0)?);
    }
    Ok(without_repetitions(query))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    End,
    Sign(char),
    Number(&'t str),
    Term(&'t str),
    Text(&'t str),
}

impl Token<'_> {
    /// As MariaDB calls it.
    fn name(self) -> &'static str {
        match self {
            Token::End => "$end",
            Token::Sign('+') => "'+'",
            Token::Sign('-') => "'-'",
            Token::Sign('<') => "'<'",
            Token::Sign('>') => "'>'",
            Token::Sign('~') => "'~'",
            Token::Sign('(') => "'('",
            Token::Sign(')') => "')'",
            Token::Sign('*') => "'*'",
            Token::Sign(_) => "'@'",
            Token::Number(_) => "FTS_NUMB",
            Token::Term(_) => "FTS_TERM",
            Token::Text(_) => "FTS_TEXT",
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    words: &'t Words,
    rules: Rules,
    boolean: bool,
    /// What comes next.
    token: Token<'t>,
}

const SIGNS: [char; 9] = ['+', '-', '<', '>', '~', '(', ')', '*', '@'];

impl<'t> Reader<'t> {
    fn advance(&mut self) {
        let is_sign = |c: char| self.boolean && SIGNS.contains(&c);
        let is_between = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '%' | '\0');
        loop {
            self.rest = self.rest.trim_start_matches(is_between);
            let Some(first) = self.rest.chars().next() else {
                self.token = Token::End;
                return;
            };
            if first == '"' {
                let inside = &self.rest[1..];
                let end = inside.find(['"', '\n']).filter(|end| inside[*end..].starts_with('"'));
                let Some(end) = end else {
                    self.rest = inside;
                    continue;
                };
                self.rest = &inside[end + 1..];
                if end == 0 {
                    continue;
                }
                self.token = Token::Text(&inside[..end]);
                return;
            }
            if is_sign(first) {
                self.token = Token::Sign(first);
                self.rest = &self.rest[1..];
                return;
            }
            let is_end = |c: char| c == '"' || is_sign(c) || is_between(c);
            let (term, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
            self.token = match term {
                "*" => Token::Sign('*'),
                _ if term.bytes().all(|byte| byte.is_ascii_digit()) => Token::Number(term),
                _ => Token::Term(term),
            };
            self.rest = rest;
            return;
        }
    }

    /// Up to the end or a closing bracket.
    fn query(&mut self, depth: usize) -> Result<Query, Unreadable> {
        if depth > DEPTH_MAX {
            return Err(Unreadable::TooDeep);
        }
        let mut query = Query::new();
        loop {
            let operator = match self.token {
                Token::Sign('+') => Some(Operator::Must),
                Token::Sign('-') => Some(Operator::Not),
                Token::Sign('>') => Some(Operator::More),
                Token::Sign('<') => Some(Operator::Less),
                Token::Sign('~') => Some(Operator::Negate),
                _ => None,
            };
            if operator.is_some() {
                self.advance();
            }
            let is_free = operator.is_none();
            let operator = operator.unwrap_or(Operator::May);
            match self.token {
                Token::Sign('(') => self.group(operator, depth, &mut query)?,
                Token::Text(text) => {
                    self.advance();
                    let phrase = self.near(text)?;
                    query.push((operator, phrase));
                }
                Token::Sign('*') => {
                    while self.token == Token::Sign('*') {
                        self.advance();
                    }
                    match self.token {
                        Token::Term(term) | Token::Number(term) => self.starred(term, operator, &mut query),
                        other => self.unexpected(other, "FTS_TERM or FTS_NUMB or '*'")?,
                    }
                }
                Token::Term(term) | Token::Number(term) => self.starred(term, operator, &mut query),
                Token::End | Token::Sign(')') if is_free => return Ok(without_repetitions(query)),
                other => {
                    let expected = if is_free && depth == 0 { "$end" } else { "" };
                    self.unexpected(other, expected)?;
                    if is_free {
                        self.advance();
                    }
                }
            }
        }
    }

    fn group(&mut self, operator: Operator, depth: usize, query: &mut Query) -> Result<(), Unreadable> {
        self.advance();
        let inside = self.query(depth + 1)?;
        if self.token == Token::Sign(')') {
            self.advance();
        } else {
            self.unexpected(self.token, "")?;
        }
        if !inside.is_empty() {
            query.push((operator, Item::Group(inside)));
        }
        Ok(())
    }

    /// What should not stand here: an error, or nothing for those who forgive.
    fn unexpected(&self, token: Token<'_>, expected: &'static str) -> Result<(), Unreadable> {
        match self.rules {
            Rules::Strict => Err(Unreadable::Unexpected(token.name(), expected)),
            Rules::Forgiving => Ok(()),
        }
    }

    /// A term, and the star that may follow.
    fn starred(&mut self, term: &str, operator: Operator, query: &mut Query) {
        self.advance();
        if self.token == Token::Sign('*') {
            self.advance();
            self.prefix(term, operator, query);
        } else {
            self.term(term, operator, query);
        }
    }

    fn term(&self, term: &str, operator: Operator, query: &mut Query) {
        let words: Vec<Word> = self.words.of_search(term, self.rules).collect();
        query.extend(self.wanted(&words).map(|word| (operator, found_by(word))));
    }

    /// A term whose last word is the beginning of others.
    fn prefix(&self, term: &str, operator: Operator, query: &mut Query) {
        let mut words: Vec<Word> = self.words.of_search(term, self.rules).collect();
        let Some(last) = words.pop() else { return };
        let is_alone = words.is_empty();
        query.extend(self.wanted(&words).map(|word| (operator, found_by(word))));
        if is_alone || last.kept || self.rules == Rules::Strict && last.fits {
            query.push((operator, Item::Prefix(last.form.trim_start_matches(PASSED).to_owned())));
        }
    }

    /// The words of a term that count.
    fn wanted<'w>(&self, words: &'w [Word]) -> impl Iterator<Item = &'w Word> {
        let (strict, many) = (self.rules == Rules::Strict, words.len() > 1);
        let counts = move |(index, word): &(usize, &Word)| {
            word.kept || strict && (word.fits || *index == 0 && !(many && word.is_character))
        };
        words.iter().enumerate().filter(counts).map(|(_, word)| word)
    }

    fn near(&mut self, text: &str) -> Result<Item, Unreadable> {
        if self.token != Token::Sign('@') {
            return Ok(self.phrase(text));
        }
        self.advance();
        let Token::Number(number) = self.token else {
            self.unexpected(self.token, "FTS_NUMB")?;
            return Ok(self.phrase(text));
        };
        self.advance();
        let kept = self.words.of_search(text, self.rules).filter(|word| word.kept).map(|word| word.form);
        Ok(Item::Near(kept.collect(), number.parse().unwrap_or(u64::MAX)))
    }

    fn phrase(&self, text: &str) -> Item {
        let mut words: Vec<Word> = self.words.of_search(text, self.rules).skip_while(|word| !word.kept).collect();
        match words.len() {
            0 => Item::Nothing,
            1 => Item::Word(words.remove(0).form),
            _ => Item::Phrase(words),
        }
    }
}

fn found_by(word: &Word) -> Item {
    if word.kept { Item::Word(word.form.clone()) } else { Item::Nothing }
}

/// Each word once, where it must be there if it must anywhere: what is said twice counts once.
fn without_repetitions(query: Query) -> Query {
    let form = |(operator, item): &(Operator, Item), wanted: Operator| match item {
        Item::Word(form) if *operator == wanted => Some(form.clone()),
        _ => None,
    };
    let mut must: HashSet<String> = query.iter().filter_map(|part| form(part, Operator::Must)).collect();
    let mut may = must.clone();
    let mut kept = query;
    kept.retain(|part| match (form(part, Operator::Must), form(part, Operator::May)) {
        (Some(form), _) => must.remove(&form),
        (_, Some(form)) => may.insert(form),
        _ => true,
    });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::collation::Collation;

    /// A query in a short form of its own.
    fn shown(query: &Query) -> String {
        let item = |(operator, item): &(Operator, Item)| {
            let sign = match operator {
                Operator::May => "",
                Operator::Must => "+",
                Operator::Not => "-",
                Operator::More => ">",
                Operator::Less => "<",
                Operator::Negate => "~",
            };
            let item = match item {
                Item::Word(form) => form.clone(),
                Item::Prefix(form) => format!("{form}*"),
                Item::Phrase(words) => {
                    let words: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
                    format!("\"{}\"", words.join(" ").replace('\u{e0ff}', "!"))
                }
                Item::Near(forms, distance) => format!("\"{}\"@{distance}", forms.join(" ")),
                Item::Group(query) => format!("({})", shown(query)),
                Item::Nothing => "0".to_owned(),
            };
            format!("{sign}{item}")
        };
        query.iter().map(item).collect::<Vec<_>>().join(" ")
    }

    fn try_read(text: &str, boolean: bool, rules: Rules) -> Result<String, Unreadable> {
        let words = Words::of(Collation::DEFAULT);
        read(text, &words, Mode { boolean, rules }).map(|query| shown(&query))
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(try_read(text, true, Rules::Strict).as_deref(), Ok(expected));
    }

    #[track_caller]
    fn check_error(text: &str, unexpected: &str, expected: &str) {
        match try_read(text, true, Rules::Strict) {
            Err(Unreadable::Unexpected(found, wanted)) => assert_eq!((found, wanted), (unexpected, expected)),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn boolean_searches() {
        check("", "");
        check("+quick -fox >brown <dog ~cat", "+quick -fox >brown <dog ~cat");
        check("quick-fox", "quick -fox");
        check("+quick (brown +(>one <two))", "+quick (brown +(>one <two))");
        check("+() +quick", "+quick");
        check("qui* *fox **dog cat *", "qui* fox* dog cat*");
        check("+the +quick x", "+0 +quick 0");
        check("\"the quick the fox\" \"fox\" \"the\" \"\"", "\"quick !the fox\" fox 0");
        check("+\"\" quick +\",\"", "+quick +0");
        check("\"quick fox\" @3 \"one two\"@4", "\"quick fox\"@3 \"one two\"@4");
        check("\"quick fox", "quick fox");
        check("+quick,fox -one'two", "+quick +fox -one -two");
        check("+o'neil to'neil the'fox o", "+neil 0 0 fox 0");
        check("+.,; brown%dog & cat", "brown dog cat");
        check("quick quick +quick", "+quick");
        check("o* foo,b*", "o* foo");
        check("12 345 678*", "0 345 678*");
    }

    #[test]
    fn what_cannot_be_read() {
        check_error("+", "$end", "");
        check_error("quick -", "$end", "");
        check_error("(quick", "$end", "");
        check_error("quick)", "')'", "$end");
        check_error("quick @3", "'@'", "$end");
        check_error("++quick", "'+'", "");
        check_error("*", "$end", "FTS_TERM or FTS_NUMB or '*'");
        check_error("quick**", "$end", "FTS_TERM or FTS_NUMB or '*'");
        check_error("*+quick", "'+'", "FTS_TERM or FTS_NUMB or '*'");
        check_error("\"two\" @x", "FTS_TERM", "FTS_NUMB");
        let deep = "(".repeat(100_000);
        assert_eq!(try_read(&deep, true, Rules::Strict), Err(Unreadable::TooDeep));
    }

    #[test]
    fn those_who_forgive_read_everything() {
        for (text, expected) in [
            ("+the +lazy +abc", "+lazy"),
            ("+ +lazy (", "+lazy"),
            (") lazy ) +quick (", "lazy +quick"),
            ("++lazy @@ \"brown dogs\" @", "+lazy \"brown dogs\""),
            ("* lazy** -", "lazy*"),
        ] {
            assert_eq!(try_read(text, true, Rules::Forgiving).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn natural_searches() {
        for (text, expected) in [
            ("MySQL tutorial", "mysql tutorial"),
            ("+quick (fox) - the*", "quick fox 0"),
            ("one \"quick fox\" fox-one", "one \"quick fox\" fox"),
            ("quick,fox o'neil", "quick fox neil"),
            ("qui * * fox ** *dog", "qui* fox dog"),
        ] {
            assert_eq!(try_read(text, false, Rules::Strict).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn stars_of_natural_searches_are_alone() {
        let expected = Err(Unreadable::Unexpected("$end", "FTS_TERM or FTS_NUMB or '*'"));
        assert_eq!(try_read("\"quick fox\"*", false, Rules::Strict), expected);
    }

    #[test]
    fn any_text_ends() {
        let signs: Vec<char> = "+-<>~()*@\"% abc1\n".chars().collect();
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(signs[(state >> 33) as usize % signs.len()]);
            }
            for (boolean, rules) in [(false, Rules::Strict), (true, Rules::Strict), (true, Rules::Forgiving)] {
                let result = try_read(&text, boolean, rules);
                assert!(rules == Rules::Strict || result.is_ok(), "{text}: {result:?}");
            }
        }
    }
}
