//! ALTER TABLE and RENAME TABLE.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    AlterRoutine, Outcome, Result, Statement, TableName, accounts,
    column::{column, column_rest, default},
    comma_separated, database,
    ddl::{
        CheckSpec, ColumnSpec, DefaultSpec, ForeignKeySpec, IndexSpec, Refused, TableOptions, column_references,
        constraint, if_exists, if_not_exists, table_options,
    },
    program::{self, RoutineKind},
    sequence, table_name, view, word_or_string,
};
use crate::{
    dialect::{expect_word, identifier, is_word, skip, take_word, take_words, unexpected},
    errors,
};

/// One change of ALTER TABLE.
#[derive(Debug, Clone)]
pub(crate) enum AlterItem {
    AddColumn {
        spec: ColumnSpec,
        place: Place,
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
    },
    ChangeColumn {
        old: String,
        spec: ColumnSpec,
        place: Place,
        if_exists: bool,
    },
    RenameColumn {
        old: String,
        new: String,
    },
    AlterDefault {
        column: String,
        default: DefaultSpec,
    },
    AddIndex(IndexSpec),
    AddForeignKey(ForeignKeySpec),
    AddCheck(CheckSpec),
    DropIndex {
        name: String,
        if_exists: bool,
    },
    DropPrimary,
    DropForeignKey {
        name: String,
        if_exists: bool,
    },
    /// A CHECK of the table; unless `is_check` a foreign key or a unique index as well.
    DropConstraint {
        name: String,
        if_exists: bool,
        is_check: bool,
    },
    RenameIndex {
        old: String,
        new: String,
    },
    RenameTable(TableName),
    Options(TableOptions),
    /// CONVERT TO CHARACTER SET.
    Convert {
        charset: String,
        collation: Option<String>,
    },
    /// ENABLE KEYS, ORDER BY and others that change no result.
    Nothing,
}

impl AlterItem {
    /// Whether this is more than another name for the table.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(self, Self::RenameTable(_) | Self::Nothing)
    }
}

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Place {
    #[default]
    Same,
    First,
    After(String),
}

pub(super) fn rename(p: &mut Parser) -> Result<Outcome> {
    if take_word(p, "USER") {
        return accounts::rename(p);
    }
    if !take_word(p, "TABLE") {
        expect_word(p, "TABLES")?;
    }
    Ok(Ok(Statement::RenameTable(comma_separated(p, |p| {
        let from = table_name(p)?;
        expect_word(p, "TO")?;
        Ok((from, table_name(p)?))
    })?)))
}

pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    if take_word(p, "USER") {
        return accounts::alter(p);
    }
    if take_word(p, "DATABASE") || take_word(p, "SCHEMA") {
        return database::alter(p);
    }
    for kind in [RoutineKind::Procedure, RoutineKind::Function] {
        if take_word(p, kind.word()) {
            let name = table_name(p)?;
            let changes = program::signature::changes(p)?;
            return Ok(Ok(Statement::AlterRoutine(Box::new(AlterRoutine { kind, name, changes }))));
        }
    }
    if take_word(p, "SEQUENCE") {
        return sequence::alter(p);
    }
    if ["ALGORITHM", "DEFINER", "SQL", "VIEW"].iter().any(|word| is_word(p.peek_token_ref(), word)) {
        return view::alter(p);
    }
    take_word(p, "IGNORE");
    if !take_word(p, "TABLE") {
        let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
        return Ok(Err(errors::unsupported(format!("ALTER {}", word.value.to_ascii_uppercase()))));
    }
    let if_exists = if_exists(p);
    let table = table_name(p)?;
    let mut items = Vec::new();
    loop {
        match alter_item(p, &mut items)? {
            Ok(()) => {}
            Err(error) => return Ok(Err(error)),
        }
        if !p.consume_token(&Token::Comma) {
            break;
        }
    }
    Ok(Ok(Statement::AlterTable { table, if_exists, items }))
}

fn place(p: &mut Parser) -> Result<Place> {
    if take_word(p, "FIRST") {
        Ok(Place::First)
    } else if take_word(p, "AFTER") {
        Ok(Place::After(identifier(p)?.value))
    } else {
        Ok(Place::Same)
    }
}

fn alter_item(p: &mut Parser, items: &mut Vec<AlterItem>) -> Result<Refused<()>> {
    if take_word(p, "ADD") {
        return alter_add(p, items);
    }
    let item = if take_word(p, "DROP") {
        alter_drop(p)?
    } else if take_word(p, "MODIFY") || is_word(p.peek_token_ref(), "CHANGE") {
        let change = take_word(p, "CHANGE");
        take_word(p, "COLUMN");
        let if_exists = if_exists(p);
        let old = identifier(p)?.value;
        let new = if change { identifier(p)?.value } else { old.clone() };
        match column_rest(p, new)? {
            Ok(spec) => AlterItem::ChangeColumn { old, spec, place: place(p)?, if_exists },
            Err(error) => return Ok(Err(error)),
        }
    } else if take_word(p, "ALTER") {
        take_word(p, "COLUMN");
        let column = identifier(p)?.value;
        if take_words(p, &["DROP", "DEFAULT"]) {
            AlterItem::AlterDefault { column, default: DefaultSpec::None }
        } else if take_words(p, &["SET", "DEFAULT"]) {
            match default(p)? {
                Ok(default) => AlterItem::AlterDefault { column, default },
                Err(error) => return Ok(Err(error)),
            }
        } else {
            return unexpected(p);
        }
    } else if take_word(p, "RENAME") {
        alter_rename(p)?
    } else if take_words(p, &["CONVERT", "TO"]) {
        if !take_words(p, &["CHARACTER", "SET"]) {
            expect_word(p, "CHARSET")?;
        }
        let charset = word_or_string(p)?;
        let collation = if take_word(p, "COLLATE") { Some(word_or_string(p)?) } else { None };
        AlterItem::Convert { charset, collation }
    } else if take_words(p, &["ENABLE", "KEYS"]) || take_words(p, &["DISABLE", "KEYS"]) || take_word(p, "FORCE") {
        AlterItem::Nothing
    } else if take_word(p, "ALGORITHM") || take_word(p, "LOCK") {
        skip(p, &Token::Eq);
        p.advance_token();
        AlterItem::Nothing
    } else if take_words(p, &["ORDER", "BY"]) {
        comma_separated(p, |p| p.parse_order_by_expr())?;
        AlterItem::Nothing
    } else {
        let before = p.index();
        let options = table_options(p)?;
        if p.index() == before {
            return unexpected(p);
        }
        AlterItem::Options(options)
    };
    items.push(item);
    Ok(Ok(()))
}

fn alter_add(p: &mut Parser, items: &mut Vec<AlterItem>) -> Result<Refused<()>> {
    let quoted = matches!(&p.peek_token_ref().token, Token::Word(word) if word.quote_style.is_some());
    if !quoted && let Some(item) = constraint(p)? {
        return Ok(item.map(|item| items.push(item)));
    }
    take_word(p, "COLUMN");
    let if_not_exists = if_not_exists(p);
    if p.consume_token(&Token::LParen) {
        loop {
            match column(p)? {
                Ok(spec) => {
                    let key = column_references(p, &spec.name)?;
                    items.push(AlterItem::AddColumn { spec, place: Place::Same, if_not_exists });
                    items.extend(key.map(AlterItem::AddForeignKey));
                }
                Err(error) => return Ok(Err(error)),
            }
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        p.expect_token(&Token::RParen)?;
        return Ok(Ok(()));
    }
    match column(p)? {
        Ok(spec) => {
            let key = column_references(p, &spec.name)?;
            let place = place(p)?;
            items.push(AlterItem::AddColumn { spec, place, if_not_exists });
            items.extend(key.map(AlterItem::AddForeignKey));
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn alter_drop(p: &mut Parser) -> Result<AlterItem> {
    if take_words(p, &["PRIMARY", "KEY"]) {
        return Ok(AlterItem::DropPrimary);
    }
    if take_words(p, &["FOREIGN", "KEY"]) {
        let if_exists = if_exists(p);
        return Ok(AlterItem::DropForeignKey { name: identifier(p)?.value, if_exists });
    }
    // CHECK is MySQL's word.
    let is_check = take_word(p, "CHECK");
    if is_check || take_word(p, "CONSTRAINT") {
        let if_exists = if_exists(p);
        return Ok(AlterItem::DropConstraint { name: identifier(p)?.value, if_exists, is_check });
    }
    if take_word(p, "INDEX") || take_word(p, "KEY") {
        let if_exists = if_exists(p);
        return Ok(AlterItem::DropIndex { name: identifier(p)?.value, if_exists });
    }
    take_word(p, "COLUMN");
    let if_exists = if_exists(p);
    let name = identifier(p)?.value;
    if !take_word(p, "CASCADE") {
        take_word(p, "RESTRICT");
    }
    Ok(AlterItem::DropColumn { name, if_exists })
}

fn alter_rename(p: &mut Parser) -> Result<AlterItem> {
    if take_word(p, "COLUMN") {
        let old = identifier(p)?.value;
        expect_word(p, "TO")?;
        return Ok(AlterItem::RenameColumn { old, new: identifier(p)?.value });
    }
    if take_word(p, "INDEX") || take_word(p, "KEY") {
        let old = identifier(p)?.value;
        expect_word(p, "TO")?;
        return Ok(AlterItem::RenameIndex { old, new: identifier(p)?.value });
    }
    if !take_word(p, "TO") {
        take_word(p, "AS");
    }
    Ok(AlterItem::RenameTable(table_name(p)?))
}
