//! MySQL's expressions for `sqlparser`: precedence, prefixes and infixes are decided here, not by the library.
//!
//! The library's own `MySqlDialect` gives `&&`, `||`, `XOR` and `BINARY` the wrong precedence and reads many forms in ways that
//! MySQL does not. Here every prefix and infix is taken over, after MySQL's grammar: predicates (IN, BETWEEN,
//! LIKE, REGEXP) bind tighter than comparisons. The library still parses SELECT, joins, CTEs and windows.
//!
//! Forms that its tree has no place for become calls of functions whose names begin with [`SPECIAL`].

mod forms;
mod matches;
mod sequences;
mod words;

use std::any::TypeId;

use sqlparser::{
    ast::{
        BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
        ObjectName, UnaryOperator, Value, ValueWithSpan,
    },
    dialect::{Dialect, MySqlDialect},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token, TokenWithSpan},
};

/// First character of the names of internal functions; no identifier of a user can hold it unquoted.
pub(crate) const SPECIAL: char = '\u{1}';

/// MySQL as the sessions of this engine speak it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MySql {
    /// `||` concatenates.
    pub(crate) pipes_as_concat: bool,
    /// In `a JOIN b JOIN c ON x ON y` the last two tables are joined first. Otherwise `a JOIN b` is a join without a condition.
    pub(crate) nested_joins: bool,
}

use forms::{
    cast, char_function, extract, identifier_or_word, interval, introducer, open, parenthesis, position, starts_query,
    substring, trim, unit_first,
};
pub(crate) use words::is_reserved;

type Parsed = Result<Expr, ParserError>;

/// Stack that copying a level of a tree takes, in a build without optimisation.
const COPY_BYTES: usize = 8 << 10;

/// Operators that lean on each other: copying and dropping such a tree recurses as deep.
const CHAIN_MAX: usize = 500;

mod prec {
    pub(super) const OR: u8 = 10;
    pub(super) const XOR: u8 = 20;
    pub(super) const AND: u8 = 30;
    pub(super) const NOT: u8 = 40;
    pub(super) const COMPARE: u8 = 50;
    pub(super) const PREDICATE: u8 = 60;
    pub(super) const BIT_OR: u8 = 70;
    pub(super) const BIT_AND: u8 = 80;
    pub(super) const SHIFT: u8 = 90;
    pub(super) const ADD: u8 = 100;
    pub(super) const MULTIPLY: u8 = 110;
    pub(super) const BIT_XOR: u8 = 120;
    pub(super) const CONCAT: u8 = 125;
    pub(super) const UNARY: u8 = 130;
    pub(super) const COLLATE: u8 = 150;
}

impl Dialect for MySql {
    fn dialect(&self) -> TypeId {
        // The library asks for MySQL by type in places without an option.
        TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        MySqlDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        MySqlDialect {}.is_identifier_part(ch)
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn supports_select_modifiers(&self) -> bool {
        true
    }

    fn supports_table_hints(&self) -> bool {
        true
    }

    fn supports_cross_join_constraint(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nested_joins
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    // `INSERT … SELECT 1 ON DUPLICATE KEY UPDATE …`: ON is a reserved word.
    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        *kw != Keyword::ON && MySqlDialect {}.is_column_alias(kw, parser)
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        explicit || MySqlDialect {}.is_table_factor_alias(explicit, kw, parser)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Parsed> {
        Some(prefix(parser))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Parsed> {
        let depth = left_depth(expr);
        if depth > CHAIN_MAX {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let left = stacker::maybe_grow(depth * COPY_BYTES, CHAIN_MAX * COPY_BYTES, || expr.clone());
        Some(self.infix(parser, left, precedence))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        Some(Ok(self.precedence(parser)))
    }
}

/// Whether `token` is the bare word `word`, in any case.
pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Takes the bare word if it comes next.
pub(crate) fn take_word(parser: &mut Parser, word: &str) -> bool {
    let found = is_word(parser.peek_token_ref(), word);
    if found {
        parser.advance_token();
    }
    found
}

/// Takes all the bare words if they come next in this order.
pub(crate) fn take_words(parser: &mut Parser, words: &[&str]) -> bool {
    let found = words.iter().enumerate().all(|(n, word)| is_word(parser.peek_nth_token_ref(n), word));
    if found {
        for _ in words {
            parser.advance_token();
        }
    }
    found
}

/// Takes an optional token that changes nothing.
pub(crate) fn skip(parser: &mut Parser, token: &Token) {
    let _ = parser.consume_token(token);
}

/// A syntax error at the next token.
pub(crate) fn unexpected<T>(parser: &Parser) -> Result<T, ParserError> {
    parser.expected_ref("something else", parser.peek_token_ref())
}

/// Requires the bare word.
pub(crate) fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    if take_word(parser, word) { Ok(()) } else { unexpected(parser) }
}

/// A call of an internal function.
fn special(name: &str, args: Vec<Expr>) -> Expr {
    call(Ident::new(format!("{SPECIAL}{name}")), args)
}

fn call(name: Ident, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A call of a function with arguments of any form.
pub(crate) fn call_with(name: &str, args: Vec<FunctionArg>) -> Expr {
    let Expr::Function(mut function) = call(Ident::new(name), Vec::new()) else { return string("") };
    function.args =
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() });
    Expr::Function(function)
}

fn value(value: Value, span: Span) -> Expr {
    Expr::Value(ValueWithSpan { value, span })
}

fn string(text: impl Into<String>) -> Expr {
    value(Value::SingleQuotedString(text.into()), Span::empty())
}

fn prefix(parser: &mut Parser) -> Parsed {
    let next = parser.peek_token_ref();
    let span = next.span;
    match &next.token {
        Token::Placeholder(_)
        | Token::Number(..)
        | Token::HexStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::SingleQuotedByteStringLiteral(_) => literal(parser),
        Token::SingleQuotedString(_) => literal(parser),
        Token::DollarQuotedString(variable) => {
            let name = variable.value.clone();
            parser.advance_token();
            if parser.consume_token(&Token::Assignment) {
                let assigned = parser.parse_expr()?;
                return Ok(special("assign", vec![string(name), assigned]));
            }
            Ok(special("variable", vec![string(name)]))
        }
        Token::Minus => unary(parser, UnaryOperator::Minus, prec::UNARY),
        Token::Plus => unary(parser, UnaryOperator::Plus, prec::UNARY),
        Token::Tilde => unary(parser, UnaryOperator::BitwiseNot, prec::UNARY),
        Token::ExclamationMark => unary(parser, UnaryOperator::Not, prec::UNARY),
        Token::LParen => parenthesis(parser),
        Token::Word(word) if word.quote_style.is_none() => {
            let word = word.value.to_ascii_uppercase();
            keyword(parser, &word, span)
        }
        Token::Word(_) => name(parser),
        _ => unexpected(parser),
    }
}

fn unary(parser: &mut Parser, op: UnaryOperator, precedence: u8) -> Parsed {
    parser.advance_token();
    Ok(Expr::UnaryOp { op, expr: Box::new(parser.parse_subexpr(precedence - 1)?) })
}

/// A literal; strings that follow each other are one.
fn literal(parser: &mut Parser) -> Parsed {
    let TokenWithSpan { token, span } = parser.next_token();
    let is_literal = |token: &Token| {
        matches!(token, Token::SingleQuotedString(_))
            || matches!(token, Token::Placeholder(name) if name.starts_with(':'))
    };
    Ok(match token {
        Token::Placeholder(name) => {
            if name.starts_with(':') && is_literal(&parser.peek_token_ref().token) {
                // `'a' 'b'` or an alias in quotes: decided when literals stand in the text.
                return unexpected(parser);
            }
            value(Value::Placeholder(name), span)
        }
        Token::Number(number, _) => value(Value::Number(number, false), span),
        Token::HexStringLiteral(hex) => value(Value::HexStringLiteral(hex), span),
        Token::NationalStringLiteral(hex) => value(Value::NationalStringLiteral(hex), span),
        Token::SingleQuotedByteStringLiteral(bits) => value(Value::SingleQuotedByteStringLiteral(bits), span),
        Token::SingleQuotedString(mut text) => {
            while let Token::SingleQuotedString(more) = &parser.peek_token_ref().token {
                text.push_str(more);
                parser.advance_token();
            }
            value(Value::SingleQuotedString(text), span)
        }
        _ => return unexpected(parser),
    })
}

fn is_paren(token: &TokenWithSpan) -> bool {
    token.token == Token::LParen
}

fn keyword(parser: &mut Parser, word: &str, span: Span) -> Parsed {
    let called = is_paren(parser.peek_nth_token_ref(1));
    let before_string = matches!(
        &parser.peek_nth_token_ref(1).token,
        Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::HexStringLiteral(_)
            | Token::NationalStringLiteral(_)
    );
    match word {
        "NULL" => constant(parser, Value::Null, span),
        "TRUE" => constant(parser, Value::Boolean(true), span),
        "FALSE" => constant(parser, Value::Boolean(false), span),
        "NOT" => unary(parser, UnaryOperator::Not, prec::NOT + 1),
        "EXISTS" if called => {
            parser.advance_token();
            parser.advance_token();
            let subquery = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            Ok(Expr::Exists { subquery, negated: false })
        }
        "CASE" => {
            parser.advance_token();
            parser.parse_case_expr()
        }
        "BINARY" if !called || word == "BINARY" => {
            parser.advance_token();
            let operand = parser.parse_subexpr(prec::UNARY - 1)?;
            Ok(special("binary", vec![operand]))
        }
        "INTERVAL" => interval(parser),
        "ROW" if called => {
            parser.advance_token();
            parenthesis(parser)
        }
        "CAST" | "CONVERT" if called => cast(parser, word == "CAST"),
        "EXTRACT" if called => extract(parser),
        "SUBSTRING" | "SUBSTR" | "MID" if called => substring(parser),
        "TRIM" if called => trim(parser),
        "POSITION" if called => position(parser),
        "CHAR" if called => char_function(parser),
        "TIMESTAMPADD" | "TIMESTAMPDIFF" | "GET_FORMAT" if called => unit_first(parser, word),
        "VALUES" | "VALUE" | "DEFAULT" if called => {
            parser.advance_token();
            parser.advance_token();
            let column = name(parser)?;
            parser.expect_token(&Token::RParen)?;
            Ok(special(if word == "DEFAULT" { "default" } else { "values" }, vec![column]))
        }
        "DEFAULT" => {
            parser.advance_token();
            Ok(special("default", Vec::new()))
        }
        "DATE" | "TIME" | "TIMESTAMP" if before_string => {
            parser.advance_token();
            let text = literal(parser)?;
            Ok(special(&format!("{}_literal", word.to_ascii_lowercase()), vec![text]))
        }
        "CURRENT_DATE" | "CURRENT_TIME" | "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP" | "UTC_DATE"
        | "UTC_TIME" | "UTC_TIMESTAMP" | "CURRENT_USER"
            if !called =>
        {
            parser.advance_token();
            Ok(call(Ident::new(word), Vec::new()))
        }
        "MATCH" => matches::against(parser),
        _ if sequences::begins(parser, word) => sequences::call(parser, word),
        _ if word.starts_with('_') && before_string => introducer(parser, word),
        "IF" | "REPLACE" | "INSERT" | "LEFT" | "RIGHT" | "MOD" | "REPEAT" | "DATABASE" | "SCHEMA" | "TRUNCATE"
        | "CHARSET" | "COLLATION" | "USER" | "LIKE" | "RAND" | "PASSWORD" | "UUID" | "WEEK" | "QUARTER" | "FORMAT"
        | "COUNT"
            if called =>
        {
            function(parser)
        }
        _ if is_reserved(word) => unexpected(parser),
        _ => name(parser),
    }
}

fn constant(parser: &mut Parser, constant: Value, span: Span) -> Parsed {
    parser.advance_token();
    Ok(value(constant, span))
}

/// `a`, `t.a`, `s.t.a` or a function call.
fn name(parser: &mut Parser) -> Parsed {
    if is_paren(parser.peek_nth_token_ref(1)) {
        return function(parser);
    }
    let mut parts = vec![identifier(parser)?];
    while parser.peek_token_ref().token == Token::Period && matches!(parser.peek_nth_token_ref(1).token, Token::Word(_))
    {
        parser.advance_token();
        parts.push(identifier(parser)?);
    }
    if is_paren(parser.peek_token_ref()) && parts.len() == 2 {
        // `schema.function(…)`
        return parser.parse_function(ObjectName::from(parts));
    }
    Ok(if parts.len() == 1 { Expr::Identifier(parts.remove(0)) } else { Expr::CompoundIdentifier(parts) })
}

/// A name, quoted or not.
pub(crate) fn identifier(parser: &mut Parser) -> Result<Ident, ParserError> {
    let TokenWithSpan { token, span } = parser.peek_token_ref().clone();
    let Token::Word(word) = token else { return unexpected(parser) };
    if word.quote_style.is_none() && is_reserved(&word.value) {
        return unexpected(parser);
    }
    parser.advance_token();
    Ok(Ident { value: word.value, quote_style: word.quote_style, span })
}

fn function(parser: &mut Parser) -> Parsed {
    let TokenWithSpan { token, span } = parser.next_token();
    let Token::Word(word) = token else { return unexpected(parser) };
    parser.parse_function(ObjectName::from(vec![Ident { value: word.value, quote_style: word.quote_style, span }]))
}

impl MySql {
    fn precedence(self, parser: &Parser) -> u8 {
        let next = parser.peek_token_ref();
        match &next.token {
            Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
                "OR" => prec::OR,
                "XOR" => prec::XOR,
                "AND" => prec::AND,
                "IS" => prec::COMPARE,
                "IN" | "BETWEEN" | "LIKE" | "REGEXP" | "RLIKE" => prec::PREDICATE,
                "SOUNDS" if is_word(parser.peek_nth_token_ref(1), "LIKE") => prec::PREDICATE,
                "NOT"
                    if ["IN", "BETWEEN", "LIKE", "REGEXP", "RLIKE"]
                        .iter()
                        .any(|word| is_word(parser.peek_nth_token_ref(1), word)) =>
                {
                    prec::PREDICATE
                }
                "DIV" | "MOD" => prec::MULTIPLY,
                "COLLATE" => prec::COLLATE,
                _ => 0,
            },
            Token::StringConcat if self.pipes_as_concat => prec::CONCAT,
            Token::StringConcat => prec::OR,
            Token::Overlap => prec::AND,
            Token::Eq | Token::Spaceship | Token::GtEq | Token::Gt | Token::LtEq | Token::Lt | Token::Neq => {
                prec::COMPARE
            }
            Token::Pipe => prec::BIT_OR,
            Token::Ampersand => prec::BIT_AND,
            Token::ShiftLeft | Token::ShiftRight => prec::SHIFT,
            Token::Plus | Token::Minus => prec::ADD,
            Token::Mul | Token::Div | Token::Mod => prec::MULTIPLY,
            Token::Caret => prec::BIT_XOR,
            Token::Arrow | Token::LongArrow => prec::COLLATE,
            _ => 0,
        }
    }

    /// The operator that a token is, unless it is a predicate.
    fn binary_operator(self, token: &Token) -> Option<BinaryOperator> {
        Some(match token {
            Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
                "OR" => BinaryOperator::Or,
                "XOR" => BinaryOperator::Xor,
                "AND" => BinaryOperator::And,
                "DIV" => BinaryOperator::MyIntegerDivide,
                "MOD" => BinaryOperator::Modulo,
                _ => return None,
            },
            Token::StringConcat if self.pipes_as_concat => BinaryOperator::StringConcat,
            Token::StringConcat => BinaryOperator::Or,
            Token::Overlap => BinaryOperator::And,
            Token::Eq => BinaryOperator::Eq,
            Token::Spaceship => BinaryOperator::Spaceship,
            Token::GtEq => BinaryOperator::GtEq,
            Token::Gt => BinaryOperator::Gt,
            Token::LtEq => BinaryOperator::LtEq,
            Token::Lt => BinaryOperator::Lt,
            Token::Neq => BinaryOperator::NotEq,
            Token::Pipe => BinaryOperator::BitwiseOr,
            Token::Ampersand => BinaryOperator::BitwiseAnd,
            Token::ShiftLeft => BinaryOperator::PGBitwiseShiftLeft,
            Token::ShiftRight => BinaryOperator::PGBitwiseShiftRight,
            Token::Plus => BinaryOperator::Plus,
            Token::Minus => BinaryOperator::Minus,
            Token::Mul => BinaryOperator::Multiply,
            Token::Div => BinaryOperator::Divide,
            Token::Mod => BinaryOperator::Modulo,
            Token::Caret => BinaryOperator::BitwiseXor,
            _ => return None,
        })
    }

    fn infix(self, parser: &mut Parser, left: Expr, precedence: u8) -> Parsed {
        if self.binary_operator(&parser.peek_token_ref().token).is_some() {
            return self.chain(parser, left, precedence);
        }
        let token = parser.next_token().token;
        match &token {
            Token::Arrow | Token::LongArrow => {
                let path = literal(parser)?;
                let extracted = call(Ident::new("JSON_EXTRACT"), vec![left, path]);
                let unquoted = token == Token::LongArrow;
                Ok(if unquoted { call(Ident::new("JSON_UNQUOTE"), vec![extracted]) } else { extracted })
            }
            Token::Word(word) => match word.value.to_ascii_uppercase().as_str() {
                "COLLATE" => {
                    let name = collation_name(parser)?;
                    Ok(special("collate", vec![left, string(name)]))
                }
                "IS" => is_predicate(parser, left),
                "NOT" => self.predicate(parser, left, true),
                _ => {
                    parser.prev_token();
                    self.predicate(parser, left, false)
                }
            },
            _ => unexpected(parser),
        }
    }

    /// Operators of one precedence, all of them at once: the library hands over a copy of the left side for each call.
    fn chain(self, parser: &mut Parser, first: Expr, precedence: u8) -> Parsed {
        let mut left = first;
        // AND and OR do not care how they are nested: a balanced tree stays shallow.
        let logical = matches!(precedence, prec::AND | prec::OR);
        let mut operands = Vec::new();
        let mut length = 0;
        while self.precedence(parser) == precedence {
            let Some(op) = self.binary_operator(&parser.peek_token_ref().token) else { break };
            parser.advance_token();
            if precedence == prec::COMPARE
                && let Some(quantified) = quantified(parser, &left, &op)?
            {
                return Ok(quantified);
            }
            let right = parser.parse_subexpr(precedence)?;
            length += 1;
            if logical {
                operands.push(right);
            } else if length > CHAIN_MAX {
                return Err(ParserError::RecursionLimitExceeded);
            } else {
                left = Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
            }
        }
        if logical {
            operands.insert(0, left);
            let op = if precedence == prec::AND { BinaryOperator::And } else { BinaryOperator::Or };
            return Ok(balanced(operands, &op));
        }
        Ok(left)
    }

    fn predicate(self, parser: &mut Parser, left: Expr, negated: bool) -> Parsed {
        let expr = Box::new(left);
        if take_word(parser, "IN") {
            parser.expect_token(&Token::LParen)?;
            if starts_query(parser) {
                let subquery = parser.parse_query()?;
                parser.expect_token(&Token::RParen)?;
                return Ok(Expr::InSubquery { expr, subquery, negated });
            }
            let list = parser.parse_comma_separated(Parser::parse_expr)?;
            parser.expect_token(&Token::RParen)?;
            return Ok(Expr::InList { expr, list, negated });
        }
        if take_word(parser, "BETWEEN") {
            let low = Box::new(parser.parse_subexpr(prec::PREDICATE)?);
            expect_word(parser, "AND")?;
            let high = Box::new(parser.parse_subexpr(prec::COMPARE)?);
            return Ok(Expr::Between { expr, negated, low, high });
        }
        if take_word(parser, "LIKE") {
            let pattern = Box::new(parser.parse_subexpr(prec::PREDICATE)?);
            let escape_char =
                if take_word(parser, "ESCAPE") { Some(Box::new(parser.parse_subexpr(prec::PREDICATE)?)) } else { None };
            return Ok(Expr::Like { negated, any: false, expr, pattern, escape_char });
        }
        if take_word(parser, "REGEXP") || take_word(parser, "RLIKE") {
            let pattern = Box::new(parser.parse_subexpr(prec::PREDICATE)?);
            return Ok(Expr::RLike { negated, expr, pattern, regexp: true });
        }
        if take_words(parser, &["SOUNDS", "LIKE"]) {
            let right = parser.parse_subexpr(prec::PREDICATE)?;
            let soundex = |operand| Box::new(call(Ident::new("SOUNDEX"), vec![operand]));
            return Ok(Expr::BinaryOp { left: soundex(*expr), op: BinaryOperator::Eq, right: soundex(right) });
        }
        unexpected(parser)
    }
}

fn collation_name(parser: &mut Parser) -> Result<String, ParserError> {
    match &parser.peek_token_ref().token {
        Token::Word(_) => identifier_or_word(parser),
        Token::SingleQuotedString(name) => {
            let name = name.clone();
            parser.advance_token();
            Ok(name)
        }
        _ => unexpected(parser),
    }
}

fn is_predicate(parser: &mut Parser, left: Expr) -> Parsed {
    let negated = take_word(parser, "NOT");
    let left = Box::new(left);
    Ok(if take_word(parser, "NULL") {
        if negated { Expr::IsNotNull(left) } else { Expr::IsNull(left) }
    } else if take_word(parser, "TRUE") {
        if negated { Expr::IsNotTrue(left) } else { Expr::IsTrue(left) }
    } else if take_word(parser, "FALSE") {
        if negated { Expr::IsNotFalse(left) } else { Expr::IsFalse(left) }
    } else if take_word(parser, "UNKNOWN") {
        if negated { Expr::IsNotUnknown(left) } else { Expr::IsUnknown(left) }
    } else {
        return unexpected(parser);
    })
}

/// The operands joined by AND or OR in a tree of least depth, in their order.
fn balanced(mut operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    if operands.len() == 1 {
        return operands.remove(0);
    }
    let right = operands.split_off(operands.len() / 2);
    let (left, right) = (Box::new(balanced(operands, op)), Box::new(balanced(right, op)));
    Expr::BinaryOp { left, op: op.clone(), right }
}

/// How many operators stand on the left edge of a tree.
fn left_depth(expr: &Expr) -> usize {
    let mut depth = 0;
    let mut rest = expr;
    loop {
        depth += 1;
        rest = match rest {
            Expr::BinaryOp { left, .. } => left,
            Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => inner,
            Expr::Like { expr, .. }
            | Expr::RLike { expr, .. }
            | Expr::InList { expr, .. }
            | Expr::InSubquery { expr, .. }
            | Expr::Between { expr, .. }
            | Expr::Collate { expr, .. } => expr,
            Expr::Function(function) => match &function.args {
                FunctionArguments::List(list) => match list.args.first() {
                    Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) => first,
                    _ => return depth,
                },
                _ => return depth,
            },
            _ => return depth,
        };
    }
}

/// `= ANY (…)` and its kin.
fn quantified(parser: &mut Parser, left: &Expr, op: &BinaryOperator) -> Result<Option<Expr>, ParserError> {
    let Some(word) = ["ANY", "SOME", "ALL"].into_iter().find(|word| is_word(parser.peek_token_ref(), word)) else {
        return Ok(None);
    };
    if !is_paren(parser.peek_nth_token_ref(1)) {
        return Ok(None);
    }
    open(parser);
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    let (left, right) = (Box::new(left.clone()), Box::new(Expr::Subquery(query)));
    Ok(Some(if word == "ALL" {
        Expr::AllOp { left, compare_op: op.clone(), right }
    } else {
        Expr::AnyOp { left, compare_op: op.clone(), right, is_some: word == "SOME" }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::{LexMode, Literals, tokens};

    fn tree(sql: &str) -> String {
        fn show(expr: &Expr) -> String {
            match expr {
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", show(left), show(right)),
                Expr::UnaryOp { op, expr } => format!("({op} {})", show(expr)),
                Expr::Like { expr, pattern, .. } => format!("({} LIKE {})", show(expr), show(pattern)),
                Expr::Between { expr, low, high, .. } => {
                    format!("({} BETWEEN {} {})", show(expr), show(low), show(high))
                }
                Expr::Nested(expr) => show(expr),
                Expr::Function(function) => {
                    let FunctionArguments::List(list) = &function.args else { return String::new() };
                    let args: Vec<_> = list
                        .args
                        .iter()
                        .map(|arg| match arg {
                            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => show(expr),
                            other => other.to_string(),
                        })
                        .collect();
                    format!("{}({})", function.name.to_string().replace('`', ""), args.join(","))
                }
                other => other.to_string(),
            }
        }
        let dialect = MySql::default();
        let tokens = tokens(sql.as_bytes(), 0, LexMode::default(), Literals::Inline).unwrap().tokens;
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
        match parser.parse_expr() {
            Ok(expr) if parser.peek_token_ref().token == Token::EOF => show(&expr),
            Ok(_) => format!("rest at {}", parser.peek_token_ref().token),
            Err(error) => format!("error: {error}"),
        }
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        assert_eq!(tree(sql).replace(SPECIAL, "#"), expected, "{sql}");
    }

    #[test]
    fn precedence_is_mysqls() {
        check("a = 1 && b = 2", "((a = 1) AND (b = 2))");
        check("a = 1 || b = 2 AND c", "((a = 1) OR ((b = 2) AND c))");
        check("a = 1 XOR b = 2", "((a = 1) XOR (b = 2))");
        check("BINARY a = 'b'", "(#binary(a) = 'b')");
        check("- a * b", "((- a) * b)");
        check("!a = b", "((NOT a) = b)");
        check("NOT a = b", "(NOT (a = b))");
        check("NOT a AND b", "((NOT a) AND b)");
        check("a LIKE b = c", "((a LIKE b) = c)");
        check("a = b LIKE c", "(a = (b LIKE c))");
        check("x BETWEEN 1 AND 2 AND y", "((x BETWEEN 1 2) AND y)");
        check("1 | 2 & 3 << 4 + 5", "(1 | (2 & (3 << (4 + 5))))");
        check("2 ^ 3 * 4", "((2 ^ 3) * 4)");
        check("a MOD b DIV c", "((a % b) DIV c)");
        check("a <=> NULL", "(a <=> NULL)");
        check("d + INTERVAL 1 DAY", "(d + #interval(1,'day'))");
        check("'a' 'b'", "'ab'");
        check("@x := 1 + 2", "#assign('@x',(1 + 2))");
        check("trim(leading 'x' from y)", "#trim_leading(y,'x')");
        check("cast(a as decimal(10,2))", "#cast(a,'decimal',10,2)");
    }

    #[test]
    fn not_expressions() {
        for sql in ["", "1 +", "select", "a b", "(1", "from", "1 in ()"] {
            let shown = tree(sql);
            assert!(shown.starts_with("error") || shown.starts_with("rest"), "{sql}: {shown}");
        }
    }
}
