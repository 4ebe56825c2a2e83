//! CREATE VIEW and ALTER VIEW.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Outcome, Result, Span, Statement, TableName, account::Who, accounts, ddl::unless_exists, parenthesised, query_span,
    table_name,
};
use crate::dialect::{expect_word, identifier, skip, take_word, take_words, unexpected};

/// What becomes of a view of the name that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and the statement fails.
    Refused,
    /// It stays: IF NOT EXISTS.
    Kept,
    /// OR REPLACE
    Replaced,
    /// ALTER VIEW: there has to be one.
    Altered,
}

/// WITH CHECK OPTION: which conditions hold for rows that are written through a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckOption {
    /// Those of the view and of all that it is made of.
    Cascaded,
    /// Those of the view.
    Local,
}

impl CheckOption {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cascaded => "CASCADED",
            Self::Local => "LOCAL",
        }
    }

    /// The one of a word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        [Self::Cascaded, Self::Local].into_iter().find(|option| option.word() == word)
    }
}

/// ALGORITHM: how the rows of a view are to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Algorithm {
    /// As it comes.
    #[default]
    Undefined,
    /// Together with those of the statement that names the view.
    Merge,
    /// Ahead of that, so that nothing can be written through the view.
    Temptable,
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::Undefined, Self::Merge, Self::Temptable];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Undefined => "UNDEFINED",
            Self::Merge => "MERGE",
            Self::Temptable => "TEMPTABLE",
        }
    }

    /// The one of a word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.word() == word)
    }
}

/// CREATE VIEW or ALTER VIEW.
#[derive(Debug, Clone)]
pub(crate) struct CreateView {
    pub(crate) name: TableName,
    pub(crate) columns: Vec<String>,
    /// Where the query stands.
    pub(crate) text: Span,
    pub(crate) existing: Existing,
    pub(crate) definer: Option<Who>,
    /// SQL SECURITY INVOKER, or DEFINER, where it is said.
    pub(crate) is_invoker: Option<bool>,
    /// ALGORITHM, where it is said.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) check: Option<CheckOption>,
}

/// As whom a view is run and how, as far as the words in front of VIEW say.
#[derive(Debug, Default)]
pub(super) struct Security {
    definer: Option<Who>,
    is_invoker: Option<bool>,
    algorithm: Option<Algorithm>,
}

/// Reads the words in front of VIEW.
pub(super) fn security(p: &mut Parser) -> Result<Security> {
    let mut found = Security::default();
    loop {
        if take_word(p, "ALGORITHM") {
            skip(p, &Token::Eq);
            found.algorithm = Some(algorithm(p)?);
        } else if take_word(p, "DEFINER") {
            skip(p, &Token::Eq);
            found.definer = Some(accounts::who(p)?);
        } else if take_words(p, &["SQL", "SECURITY"]) {
            found.is_invoker = Some(take_word(p, "INVOKER"));
            if found.is_invoker == Some(false) {
                expect_word(p, "DEFINER")?;
            }
        } else {
            return Ok(found);
        }
    }
}

/// CREATE VIEW, behind this word.
pub(super) fn create(p: &mut Parser, or_replace: bool, security: Security) -> Result<Outcome> {
    let existing = match unless_exists(p, or_replace) {
        Err(error) => return Ok(Err(error)),
        Ok(true) => Existing::Kept,
        Ok(false) if or_replace => Existing::Replaced,
        Ok(false) => Existing::Refused,
    };
    Ok(Ok(view(p, existing, security)?))
}

/// ALTER VIEW, behind ALTER.
pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    let security = security(p)?;
    expect_word(p, "VIEW")?;
    Ok(Ok(view(p, Existing::Altered, security)?))
}

fn view(p: &mut Parser, existing: Existing, security: Security) -> Result<Statement> {
    let name = table_name(p)?;
    let columns = if p.peek_token_ref().token == Token::LParen {
        parenthesised(p, |p| Ok(identifier(p)?.value))?
    } else {
        Vec::new()
    };
    expect_word(p, "AS")?;
    let text = query_span(p)?;
    let check = check_option(p)?;
    let Security { definer, is_invoker, algorithm } = security;
    let view = CreateView { name, columns, text, existing, definer, is_invoker, algorithm, check };
    Ok(Statement::CreateView(Box::new(view)))
}

fn algorithm(p: &mut Parser) -> Result<Algorithm> {
    match Algorithm::ALL.into_iter().find(|algorithm| take_word(p, algorithm.word())) {
        Some(algorithm) => Ok(algorithm),
        None => unexpected(p),
    }
}

fn check_option(p: &mut Parser) -> Result<Option<CheckOption>> {
    if !take_word(p, "WITH") {
        return Ok(None);
    }
    let option = if take_word(p, "LOCAL") { CheckOption::Local } else { CheckOption::Cascaded };
    if option == CheckOption::Cascaded {
        take_word(p, "CASCADED");
    }
    expect_word(p, "CHECK")?;
    expect_word(p, "OPTION")?;
    Ok(Some(option))
}
