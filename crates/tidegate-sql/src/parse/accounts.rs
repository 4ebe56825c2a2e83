//! Statements about accounts: CREATE, ALTER, DROP and RENAME USER, roles, GRANT and REVOKE, SET PASSWORD and SET ROLE.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Outcome, Result, Statement, TableName, comma_separated, parenthesised, program::RoutineKind, table_name,
    word_or_string,
};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    parse::account::{AccountStatement, Given, Identified, Level, RoleChoice, UserSpec, Wanted, Who},
    value::number::hex_bytes,
};

fn done(statement: AccountStatement) -> Outcome {
    Ok(Statement::Account(Box::new(statement)))
}

fn refused(what: &str) -> Outcome {
    Err(errors::unsupported(what))
}

/// `user`, `user@host`, `CURRENT_USER`.
pub(crate) fn who(p: &mut Parser) -> Result<Who> {
    for (word, meant) in [("CURRENT_USER", Who::Current), ("CURRENT_ROLE", Who::CurrentRole)] {
        if take_word(p, word) {
            if p.consume_token(&Token::LParen) {
                p.expect_token(&Token::RParen)?;
            }
            return Ok(meant);
        }
    }
    let user = word_or_string(p)?;
    let Token::DollarQuotedString(variable) = &p.peek_token_ref().token else {
        return Ok(Who::Named { user, host: None });
    };
    let Some(host) = variable.value.strip_prefix('@').filter(|host| !host.starts_with('@')) else {
        return unexpected(p);
    };
    let host = host.trim_matches(['\'', '"', '`']);
    let host = if host.is_empty() { "%" } else { host }.to_ascii_lowercase();
    p.advance_token();
    Ok(Who::Named { user, host: Some(host) })
}

/// `IDENTIFIED …` behind a user.
fn identified(p: &mut Parser) -> Result<std::result::Result<Option<Identified>, tidegate_rows::ServerError>> {
    if !take_word(p, "IDENTIFIED") {
        return Ok(Ok(None));
    }
    if take_word(p, "BY") {
        if take_word(p, "PASSWORD") {
            return Ok(Ok(Some(Identified::Digits { plugin: None, digits: string(p)? })));
        }
        return Ok(Ok(Some(Identified::By { plugin: None, password: string(p)? })));
    }
    if !take_word(p, "VIA") {
        expect_word(p, "WITH")?;
    }
    let plugin = Some(word_or_string(p)?);
    let identified = if take_word(p, "USING") || take_word(p, "AS") {
        if take_word(p, "PASSWORD") {
            p.expect_token(&Token::LParen)?;
            let password = string(p)?;
            p.expect_token(&Token::RParen)?;
            Identified::By { plugin, password }
        } else {
            Identified::Digits { plugin, digits: digits(p)? }
        }
    } else if take_word(p, "BY") {
        Identified::By { plugin, password: string(p)? }
    } else {
        Identified::Digits { plugin, digits: String::new() }
    };
    if is_word(p.peek_token_ref(), "OR") {
        return Ok(Err(errors::unsupported("several ways to log in for one user")));
    }
    Ok(Ok(Some(identified)))
}

/// What a plugin keeps: a text, or its bytes in hexadecimal, as MySQL shows it where it is asked to.
fn digits(p: &mut Parser) -> Result<String> {
    let (Token::HexStringLiteral(hex) | Token::NationalStringLiteral(hex)) = &p.peek_token_ref().token else {
        return string(p);
    };
    let Ok(text) = String::from_utf8(hex_bytes(hex)) else { return unexpected(p) };
    p.advance_token();
    Ok(text)
}

fn string(p: &mut Parser) -> Result<String> {
    let Token::SingleQuotedString(text) = &p.peek_token_ref().token else { return unexpected(p) };
    let text = text.clone();
    p.advance_token();
    Ok(text)
}

type Specs = std::result::Result<Vec<UserSpec>, tidegate_rows::ServerError>;

fn specs(p: &mut Parser) -> Result<Specs> {
    let mut users = Vec::new();
    loop {
        let who = who(p)?;
        match identified(p)? {
            Ok(identified) => users.push(UserSpec { who, identified }),
            Err(error) => return Ok(Err(error)),
        }
        if !p.consume_token(&Token::Comma) {
            return Ok(Ok(users));
        }
    }
}

/// What MySQL writes behind each account and means nothing more than the default; anything else there is refused.
const DEFAULTS: [&[&str]; 4] = [
    &["PASSWORD", "HISTORY", "DEFAULT"],
    &["PASSWORD", "REUSE", "INTERVAL", "DEFAULT"],
    &["PASSWORD", "REQUIRE", "CURRENT", "DEFAULT"],
    &["PASSWORD", "REQUIRE", "CURRENT", "OPTIONAL"],
];

/// What stands behind the users of CREATE and ALTER USER: whether they are locked.
fn options(p: &mut Parser) -> Result<std::result::Result<Option<bool>, tidegate_rows::ServerError>> {
    if take_word(p, "REQUIRE") && !take_word(p, "NONE") {
        return Ok(Err(errors::unsupported("REQUIRE of accounts")));
    }
    if is_word(p.peek_token_ref(), "WITH") {
        return Ok(Err(errors::unsupported("limits of accounts")));
    }
    let mut locked = None;
    loop {
        if DEFAULTS.iter().any(|words| take_words(p, words)) {
            continue;
        }
        if take_words(p, &["ACCOUNT", "LOCK"]) {
            locked = Some(true);
        } else if take_words(p, &["ACCOUNT", "UNLOCK"]) {
            locked = Some(false);
        } else if take_words(p, &["PASSWORD", "EXPIRE"]) {
            if !take_word(p, "NEVER") && !take_word(p, "DEFAULT") {
                return Ok(Err(errors::unsupported("passwords that expire")));
            }
        } else {
            return Ok(Ok(locked));
        }
    }
}

/// CREATE USER or ROLE, behind these words.
pub(super) fn create(p: &mut Parser, or_replace: bool, is_role: bool) -> Result<Outcome> {
    let if_not_exists = take_words(p, &["IF", "NOT", "EXISTS"]);
    if is_role {
        let roles = comma_separated(p, word_or_string)?;
        let admin = if take_words(p, &["WITH", "ADMIN"]) { Some(who(p)?) } else { None };
        return Ok(done(AccountStatement::CreateRole { roles, or_replace, if_not_exists, admin }));
    }
    let users = match specs(p)? {
        Ok(users) => users,
        Err(error) => return Ok(Err(error)),
    };
    Ok(match options(p)? {
        Ok(locked) => {
            let locked = locked.unwrap_or(false);
            done(AccountStatement::CreateUser { users, or_replace, if_not_exists, locked })
        }
        Err(error) => Err(error),
    })
}

/// ALTER USER, behind these words.
pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    let if_exists = take_words(p, &["IF", "EXISTS"]);
    let users = match specs(p)? {
        Ok(users) => users,
        Err(error) => return Ok(Err(error)),
    };
    Ok(match options(p)? {
        Ok(locked) => done(AccountStatement::AlterUser { users, if_exists, locked }),
        Err(error) => Err(error),
    })
}

/// DROP USER or ROLE, behind these words.
pub(super) fn drop(p: &mut Parser, is_role: bool) -> Result<Outcome> {
    let if_exists = take_words(p, &["IF", "EXISTS"]);
    Ok(done(if is_role {
        AccountStatement::DropRole { roles: comma_separated(p, word_or_string)?, if_exists }
    } else {
        AccountStatement::DropUser { users: comma_separated(p, who)?, if_exists }
    }))
}

/// RENAME USER, behind these words.
pub(super) fn rename(p: &mut Parser) -> Result<Outcome> {
    Ok(done(AccountStatement::RenameUser(comma_separated(p, |p| {
        let from = who(p)?;
        expect_word(p, "TO")?;
        Ok((from, who(p)?))
    })?)))
}

/// The words of a privilege up to its columns, a comma, ON or TO.
fn privilege(p: &mut Parser) -> Result<Wanted> {
    let mut words = Vec::new();
    while let Token::Word(word) = &p.peek_token_ref().token
        && (words.is_empty() || !["ON", "TO", "FROM"].iter().any(|end| word.value.eq_ignore_ascii_case(end)))
    {
        words.push(word.value.clone());
        p.advance_token();
    }
    if words.is_empty() {
        // A role may be a string.
        words.push(word_or_string(p)?);
    }
    let has_columns = p.peek_token_ref().token == Token::LParen;
    let columns = if has_columns { parenthesised(p, |p| Ok(identifier(p)?.value))? } else { Vec::new() };
    Ok(Wanted { name: words.join(" "), columns })
}

/// What stands between GRANT or REVOKE and ON: `None` for ALL.
fn privileges(p: &mut Parser) -> Result<Option<Vec<Wanted>>> {
    if take_word(p, "ALL") {
        take_word(p, "PRIVILEGES");
        return Ok(None);
    }
    Ok(Some(comma_separated(p, privilege)?))
}

/// What stands behind ON.
fn level(p: &mut Parser) -> Result<std::result::Result<Level, tidegate_rows::ServerError>> {
    let follows = !matches!(p.peek_nth_token_ref(1).token, Token::Period);
    if follows && is_word(p.peek_token_ref(), "PACKAGE") {
        return Ok(Err(errors::unsupported("privileges on a package")));
    }
    for kind in [RoutineKind::Procedure, RoutineKind::Function] {
        if follows && take_word(p, kind.word()) {
            let TableName { schema, name } = table_name(p)?;
            return Ok(Ok(Level::Routine(kind, schema, name)));
        }
    }
    take_word(p, "TABLE");
    if p.consume_token(&Token::Mul) {
        if p.consume_token(&Token::Period) {
            p.expect_token(&Token::Mul)?;
            return Ok(Ok(Level::Server));
        }
        return Ok(Ok(Level::CurrentSchema));
    }
    let first = identifier(p)?.value;
    if !p.consume_token(&Token::Period) {
        return Ok(Ok(Level::Table(None, first)));
    }
    if p.consume_token(&Token::Mul) {
        return Ok(Ok(Level::Schema(first)));
    }
    Ok(Ok(Level::Table(Some(first), identifier(p)?.value)))
}

fn role_names(wanted: Option<Vec<Wanted>>, p: &Parser) -> Result<Vec<String>> {
    match wanted {
        Some(wanted) if wanted.iter().all(|wanted| wanted.columns.is_empty()) => {
            Ok(wanted.into_iter().map(|wanted| wanted.name).collect())
        }
        _ => unexpected(p),
    }
}

/// GRANT, behind this word.
pub(super) fn grant(p: &mut Parser) -> Result<Outcome> {
    if is_word(p.peek_token_ref(), "PROXY") {
        return Ok(refused("GRANT PROXY"));
    }
    let wanted = privileges(p)?;
    if take_word(p, "TO") {
        let roles = role_names(wanted, p)?;
        let to = comma_separated(p, who)?;
        let admin = take_words(p, &["WITH", "ADMIN", "OPTION"]);
        return Ok(done(AccountStatement::GrantRole { roles, to, admin }));
    }
    expect_word(p, "ON")?;
    let level = match level(p)? {
        Ok(level) => level,
        Err(error) => return Ok(Err(error)),
    };
    expect_word(p, "TO")?;
    let to = match specs(p)? {
        Ok(to) => to,
        Err(error) => return Ok(Err(error)),
    };
    if take_word(p, "REQUIRE") && !take_word(p, "NONE") {
        return Ok(refused("REQUIRE of accounts"));
    }
    let grant_option = take_words(p, &["WITH", "GRANT", "OPTION"]);
    if is_word(p.peek_token_ref(), "WITH") || grant_option && p.peek_token_ref().token != Token::EOF {
        return Ok(refused("limits of accounts"));
    }
    Ok(done(AccountStatement::Grant { given: Given { privileges: wanted, level }, to, grant_option }))
}

/// REVOKE, behind this word.
pub(super) fn revoke(p: &mut Parser) -> Result<Outcome> {
    if is_word(p.peek_token_ref(), "PROXY") {
        return Ok(refused("REVOKE PROXY"));
    }
    let admin = take_words(p, &["ADMIN", "OPTION", "FOR"]);
    let privileges = privileges(p)?;
    if privileges.is_none() && p.consume_token(&Token::Comma) {
        for word in ["GRANT", "OPTION", "FROM"] {
            expect_word(p, word)?;
        }
        return Ok(done(AccountStatement::RevokeAll(comma_separated(p, who)?)));
    }
    if take_word(p, "FROM") {
        let roles = role_names(privileges, p)?;
        return Ok(done(AccountStatement::RevokeRole { roles, from: comma_separated(p, who)?, admin }));
    }
    if admin {
        return unexpected(p);
    }
    expect_word(p, "ON")?;
    let level = match level(p)? {
        Ok(level) => level,
        Err(error) => return Ok(Err(error)),
    };
    expect_word(p, "FROM")?;
    let from = comma_separated(p, who)?;
    Ok(done(AccountStatement::Revoke { given: Given { privileges, level }, from }))
}

/// SET PASSWORD, SET ROLE and SET DEFAULT ROLE, behind SET; `None` for anything else.
pub(super) fn set(p: &mut Parser) -> Result<Option<Outcome>> {
    let assigns = matches!(p.peek_nth_token_ref(1).token, Token::Assignment)
        || p.peek_nth_token_ref(1).token == Token::Eq && !is_word(p.peek_token_ref(), "PASSWORD");
    if assigns {
        return Ok(None);
    }
    if take_words(p, &["DEFAULT", "ROLE"]) {
        let role = role(p)?;
        let who = if take_word(p, "FOR") { who(p)? } else { Who::Current };
        return Ok(Some(done(AccountStatement::SetDefaultRole { role, who })));
    }
    if take_word(p, "ROLE") {
        let choice = match take_word(p, "DEFAULT") {
            true => RoleChoice::Default,
            false => role(p)?.map_or(RoleChoice::None, RoleChoice::Named),
        };
        return Ok(Some(done(AccountStatement::SetRole(choice))));
    }
    if !take_word(p, "PASSWORD") {
        return Ok(None);
    }
    let who = if take_word(p, "FOR") { who(p)? } else { Who::Current };
    p.expect_token(&Token::Eq)?;
    let identified = if take_word(p, "PASSWORD") {
        p.expect_token(&Token::LParen)?;
        let password = string(p)?;
        p.expect_token(&Token::RParen)?;
        Identified::By { plugin: None, password }
    } else {
        Identified::Digits { plugin: None, digits: string(p)? }
    };
    Ok(Some(done(AccountStatement::SetPassword { who, identified })))
}

fn role(p: &mut Parser) -> Result<Option<String>> {
    if take_word(p, "NONE") { Ok(None) } else { Ok(Some(word_or_string(p)?)) }
}

/// SHOW GRANTS, behind these words.
pub(super) fn show_grants(p: &mut Parser) -> Result<Outcome> {
    let of = if take_word(p, "FOR") { Some(who(p)?) } else { None };
    Ok(done(AccountStatement::ShowGrants(of)))
}

/// SHOW CREATE USER, behind these words.
pub(super) fn show_create_user(p: &mut Parser) -> Result<Outcome> {
    let who = if p.peek_token_ref().token == Token::EOF { Who::Current } else { who(p)? };
    Ok(done(AccountStatement::ShowCreateUser(who)))
}
