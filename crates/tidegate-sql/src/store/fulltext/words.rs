//! Words: where they begin and end in a text, which of them are searched for, and the form in which an index has them.
//!
//! A word is a run of letters, digits, marks and `_`. Its form ([`Words::form`]) is made of the weights of the column's collation, so
//! that words are the same if they compare as equal, and one begins with another if its characters do. All characters of a form are such
//! that FTS5's tokenizer `ascii` takes them for parts of a word and leaves them as they are.
//!
//! Words that no search finds (too short, too long, stop words) are in the index too, with [`PASSED`] before them: they stand
//! between others in phrases, and no search for what words begin with meets them. Between the texts of two columns stands
//! [`BORDER`], so that no phrase reaches from one into the other.

use std::{cell::RefCell, collections::HashSet, rc::Rc};

use unicode_normalization::char::is_combining_mark;

use super::Rules;
use crate::value::collation::{Collation, Order};

/// Characters of the shortest word that is searched for (`innodb_ft_min_token_size`).
pub(crate) const CHARS_MIN: usize = 3;
/// Characters of the longest one (`innodb_ft_max_token_size`).
pub(crate) const CHARS_MAX: usize = 84;
/// Characters of the shortest one for MyISAM (`ft_min_word_len`).
const FORGIVING_CHARS_MIN: usize = 4;

/// What InnoDB leaves out if it is not told otherwise (`INNODB_FT_DEFAULT_STOPWORD`).
#[rustfmt::skip]
static STOP_WORDS: [&str; 35] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how", "i", "in", "is", "it",
    "la", "of", "on", "or", "that", "the", "this", "to", "und", "was", "what", "when", "where", "who", "will", "with",
    "www",
];

/// Begins the form of a word that no search finds.
pub(super) const PASSED: char = '\u{e0ff}';
/// Stands between the texts of two columns.
const BORDER: &str = "\u{e0fe}";
/// Stands for a word that is too long to be kept.
const LONG: &str = "\u{e0fd}";

/// The words of texts of one collation.
pub(crate) struct Words {
    order: Order,
    stop: HashSet<String>,
}

/// A word of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) form: String,
    /// Searches find it.
    pub(crate) kept: bool,
    /// Its length is that of words which searches find.
    pub(crate) fits: bool,
    pub(crate) is_character: bool,
}

thread_local! {
    static KNOWN: RefCell<Vec<(Collation, Rc<Words>)>> = const { RefCell::new(Vec::new()) };
}

impl Words {
    /// Those of a collation.
    pub(crate) fn of(collation: Collation) -> Rc<Self> {
        KNOWN.with_borrow_mut(|known| {
            if let Some((_, words)) = known.iter().find(|(other, _)| *other == collation) {
                return Rc::clone(words);
            }
            let words = Rc::new(Self::new(collation.order()));
            known.push((collation, Rc::clone(&words)));
            words
        })
    }

    fn new(order: Order) -> Self {
        let mut words = Self { order, stop: HashSet::new() };
        words.stop = STOP_WORDS.iter().map(|word| words.form(word)).collect();
        words
    }

    /// Appends the words of a column's text, which others may follow.
    pub(crate) fn write(&self, text: &[u8], out: &mut String) {
        if !out.is_empty() {
            out.push(' ');
            out.push_str(BORDER);
        }
        for word in parts(&String::from_utf8_lossy(text)) {
            let length = word.chars().take(CHARS_MAX + 1).count();
            out.push(' ');
            if length > CHARS_MAX {
                out.push_str(LONG);
                continue;
            }
            let form = self.form(word);
            if !self.is_kept(length, &form, Rules::Strict) {
                out.push(PASSED);
            }
            out.push_str(&form);
        }
    }

    /// The words of a part of a search, in their order.
    pub(crate) fn of_search<'t>(&'t self, text: &'t str, rules: Rules) -> impl Iterator<Item = Word> + 't {
        parts(text).map(move |word| {
            let length = word.chars().take(CHARS_MAX + 1).count();
            let mut form = if length > CHARS_MAX { LONG.to_owned() } else { self.form(word) };
            let is_indexed = self.is_kept(length, &form, Rules::Strict);
            let kept = self.is_kept(length, &form, rules);
            if !is_indexed && length <= CHARS_MAX {
                form.insert(0, PASSED);
            }
            Word { form, kept, fits: fits(length, rules), is_character: length == 1 }
        })
    }

    fn is_kept(&self, length: usize, form: &str, rules: Rules) -> bool {
        fits(length, rules) && !form.is_empty() && !self.stop.contains(form)
    }

    /// What all words have in common that compare as equal.
    pub(crate) fn form(&self, word: &str) -> String {
        let mut form = String::with_capacity(word.len());
        if let Order::Unicode(table) = self.order {
            let mut weights = Vec::with_capacity(2 * word.len());
            table.write_weights(word.as_bytes(), &mut weights);
            form.extend(weights.chunks_exact(2).map(|pair| of_weight(u16::from_be_bytes([pair[0], pair[1]]))));
            return form;
        }
        form.extend(word.chars().map(|c| match self.order {
            Order::General => of_general(self.order.weight(u32::from(c))),
            // Weights are numbers of one byte.
            Order::Latin1(_) => char::from_u32(0x100 + self.order.weight(u32::from(c))).unwrap_or(c),
            _ if c.is_ascii_uppercase() || c == '_' => private(c),
            _ => c,
        }));
        form
    }
}

fn fits(length: usize, rules: Rules) -> bool {
    let least = if rules == Rules::Forgiving { FORGIVING_CHARS_MIN } else { CHARS_MIN };
    (least..=CHARS_MAX).contains(&length)
}

/// The words of a text as they stand there.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| !(c == '_' || c.is_alphanumeric() || is_combining_mark(c));
    text.split(is_between).filter(|word| !word.is_empty())
}

/// A character of no language for one of ASCII.
fn private(c: char) -> char {
    char::from_u32(0xe000 + u32::from(c)).unwrap_or(c)
}

/// The character for a weight of `general_ci`, which is a letter in its great form or a character.
fn of_general(weight: u32) -> char {
    match char::from_u32(weight) {
        Some('_') => private('_'),
        Some(c) => c.to_ascii_lowercase(),
        None => char::REPLACEMENT_CHARACTER,
    }
}

/// The character for a primary weight, of as few bytes as can be.
fn of_weight(weight: u16) -> char {
    let weight = u32::from(weight);
    char::from_u32(if weight < 0xd000 { 0x800 + weight } else { 0x1_0000 + weight })
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(parts(text).collect::<Vec<_>>(), expected);
    }

    fn collation(name: &str) -> Collation {
        Collation::by_name(name).expect("a collation")
    }

    #[test]
    fn words_end_where_innodb_ends_them() {
        check("", &[]);
        check(
            "foo_bar baz-qux don't it's 1.5 O'Reilly",
            &["foo_bar", "baz", "qux", "don", "t", "it", "s", "1", "5", "O", "Reilly"],
        );
        check("hello😀world x²y ½abc ①two", &["hello", "world", "x²y", "½abc", "①two"]);
        check("e\u{301}cole हिन्दी ไทยภาษา", &["e\u{301}cole", "हिन्दी", "ไทยภาษา"]);
        check("em—dash…end\0nul", &["em", "dash", "end", "nul"]);
    }

    #[test]
    fn forms_are_equal_where_words_are() {
        for (name, a, b, equal) in [
            ("utf8mb4_general_ci", "École", "ecole", true),
            ("utf8mb4_general_ci", "straße", "strase", true),
            ("utf8mb4_general_ci", "foo_bar", "FOO_BAR", true),
            ("utf8mb4_unicode_ci", "straße", "STRASSE", true),
            ("utf8mb4_0900_ai_ci", "École", "ecole", true),
            ("utf8mb4_bin", "School", "school", false),
            ("utf8mb4_bin", "a_b", "a_b", true),
            ("latin1_swedish_ci", "ÉCOLE", "ecole", true),
            ("latin1_general_cs", "School", "school", false),
        ] {
            let words = Words::of(collation(name));
            assert_eq!(words.form(a) == words.form(b), equal, "{name}: {a} and {b}");
        }
    }

    /// What FTS5's tokenizer would divide or change would be found by nobody.
    #[test]
    fn forms_are_words_of_the_tokenizer() {
        for collation in Collation::all().filter(|collation| *collation != Collation::BINARY) {
            let words = Words::of(collation);
            let all: String = ('\u{21}'..'\u{2fff}').filter(|c| *c == '_' || c.is_alphanumeric()).collect();
            let form = words.form(&all);
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || !c.is_ascii();
            assert!(form.chars().all(is_part), "{}: {form}", collation.name());
        }
    }

    #[test]
    fn what_no_search_finds_is_passed() {
        let words = Words::of(Collation::DEFAULT);
        let mut out = String::new();
        words.write("The quick ox".as_bytes(), &mut out);
        words.write("a".repeat(85).as_bytes(), &mut out);
        assert_eq!(out, " \u{e0ff}the quick \u{e0ff}ox \u{e0fe} \u{e0fd}");
        let kept = |rules| words.of_search("the fox jumps", rules).map(|word| word.kept).collect::<Vec<_>>();
        assert_eq!(kept(Rules::Strict), [false, true, true]);
        assert_eq!(kept(Rules::Forgiving), [false, false, true]);
    }
}
