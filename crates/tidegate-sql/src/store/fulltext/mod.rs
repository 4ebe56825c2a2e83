//! FULLTEXT indexes: words of texts, what a search means, which rows it finds and how well they fit.
//!
//! An index is a table of FTS5 without content (`tg_words7_3` for index 3 of table 7) with one column: the words of a row's columns, each in
//! a form that is the same for all that compare as equal ([`words`]). Triggers of SQLite's feed it (`crate::ddl::fulltext`): whatever
//! changes a row, be it a statement, a foreign key, another protocol or the commit of a private transaction, changes its words.
//! FTS5 keeps and merges lists of places, which its table `tg_places7_3` shows word by word. What a search means is decided here and not by
//! FTS5: [`query`] reads both modes as InnoDB does, [`search`] puts the lists together and ranks the rows, and [`found`]
//! gives them to SQLite's statements.
//!
//! Rules are InnoDB's, which MariaDB's documentation of full-text indexes describes: words of 3 to 84 characters that are no stop
//! words; a word weighs the square of the logarithm of the share of rows that have it, times how often the row has it. For tables
//! that say that they are MyISAM's or Aria's ([`Rules::Forgiving`]) searches are read as those engines do where MediaWiki depends on
//! it.

mod found;
pub(crate) mod index;
mod query;
mod search;
pub(crate) mod words;

pub(in crate::store) use found::register;

/// How a search is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    /// IN BOOLEAN MODE, rather than in that of natural language.
    pub(crate) boolean: bool,
    pub(crate) rules: Rules,
}

/// Whose rules decide about words that are in no index, and about searches that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// InnoDB's: a word that must be there and never is finds nothing, operators without words are errors.
    Strict,
    /// Those of MyISAM and Aria: words shorter than four characters and stop words count for nothing, as do operators without words.
    Forgiving,
}

impl Mode {
    /// The number under which SQLite's functions know it.
    pub(crate) fn number(self) -> i64 {
        i64::from(self.boolean) + 2 * i64::from(self.rules == Rules::Forgiving)
    }

    /// The mode with a number.
    pub(crate) fn of(number: i64) -> Self {
        Self { boolean: number & 1 != 0, rules: if number & 2 != 0 { Rules::Forgiving } else { Rules::Strict } }
    }
}

impl Rules {
    /// Those of a storage engine, by the name in a table's definition.
    pub(crate) fn of_engine(engine: &str) -> Self {
        let forgiving = ["MyISAM", "Aria"].iter().any(|name| engine.eq_ignore_ascii_case(name));
        if forgiving { Rules::Forgiving } else { Rules::Strict }
    }
}
