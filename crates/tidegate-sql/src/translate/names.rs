//! Names of the columns of a result: an alias, a column, or the expression as it was written.

use sqlparser::{
    ast::{Expr, SelectItem, UnaryOperator, Value},
    tokenizer::{Token, TokenWithSpan},
};

use super::{Code, Ex, Source as Constant, Translator, expr::unnest};
use crate::dialect::is_word;

impl Translator<'_> {
    /// The name of a column without alias: the column's, or the expression as it was written.
    pub(super) fn item_name(&mut self, expr: &Expr, text: Option<&str>) -> String {
        match expr {
            // A sign that changes nothing does not stay, nor do parentheses around a literal behind it.
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner }
                if matches!(unnest(inner), Expr::Value(_))
                    && !text.is_some_and(|text| {
                        text.trim_start_matches(['+', '(', ' ']).to_ascii_lowercase().starts_with("x'")
                    }) =>
            {
                let text = text.map(|text| text.trim_start_matches(['+', ' ']));
                let text = match (&**inner, text) {
                    (Expr::Nested(inside), Some(text)) if !matches!(**inside, Expr::Nested(_)) => {
                        Some(text.trim_start_matches('(').trim_end_matches(')').trim())
                    }
                    (_, text) => text,
                };
                self.item_name(unnest(inner), text)
            }
            Expr::Function(function)
                if function.name.to_string().trim_matches('`') == format!("{}introducer", crate::dialect::SPECIAL) =>
            {
                let text = text.unwrap_or_default();
                let at = text.find(['\'', '"']).filter(|at| !text[..*at].ends_with(['x', 'X']));
                let first = at.and_then(|at| first_string(&text[at..], self.session.inputs.lex_mode()));
                first.unwrap_or_else(|| text.to_owned())
            }
            Expr::Identifier(name) => name.value.clone(),
            Expr::CompoundIdentifier(parts) => match (parts.as_slice(), self.program) {
                ([row, field], Some(names)) if names.has_record(&row.value) => format!("{}.{}", row.value, field.value),
                _ => parts.last().map_or(String::new(), |part| part.value.clone()),
            },
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value
                    && let Some(index) = name.strip_prefix(':').and_then(|index| index.parse::<usize>().ok())
                    && matches!(self.literals.kind(index), Some(crate::lexer::LiteralKind::Text { .. }))
                {
                    let ex = Ex { code: Code::Const(Constant::Literal(index)), ..Ex::null() };
                    return self.constant_text(&ex).unwrap_or_default();
                }
                match &value.value {
                    Value::SingleQuotedString(joined) => return joined.clone(),
                    Value::Null => return "NULL".into(),
                    Value::Boolean(flag) => return if *flag { "TRUE" } else { "FALSE" }.into(),
                    _ => {}
                }
                text.map_or_else(|| expr.to_string(), str::to_owned)
            }
            _ => text.map_or_else(|| expr.to_string(), str::to_owned),
        }
    }

    /// The text of each item of the select list as written, without its alias. Literals in it become part of the plan.
    /// `start` is the place of the word SELECT or RETURNING.
    pub(super) fn item_texts(&mut self, items: &[SelectItem], start: u64) -> Vec<String> {
        let begins = |token: &TokenWithSpan| is_word(token, "SELECT") || is_word(token, "RETURNING");
        let Some(first) = self.tokens.iter().position(|token| token.span.start.column == start && begins(token)) else {
            return Vec::new();
        };
        const MODIFIERS: [&str; 10] = [
            "DISTINCT",
            "DISTINCTROW",
            "ALL",
            "HIGH_PRIORITY",
            "STRAIGHT_JOIN",
            "SQL_SMALL_RESULT",
            "SQL_BIG_RESULT",
            "SQL_BUFFER_RESULT",
            "SQL_NO_CACHE",
            "SQL_CALC_FOUND_ROWS",
        ];
        let mut index = first + 1;
        while MODIFIERS.iter().any(|word| is_word(&self.tokens[index], word)) {
            index += 1;
        }
        let (mut texts, mut depth, mut begin, mut last) = (Vec::new(), 0usize, index, index);
        let sql = self.sql;
        let text = |from: usize, to: usize, tokens: &[TokenWithSpan]| {
            let range = tokens[from].span.start.column as usize..tokens[to].span.end.column as usize;
            String::from_utf8_lossy(sql.get(range).unwrap_or_default()).into_owned()
        };
        loop {
            let token = &self.tokens[index];
            let ends = token.token == Token::EOF || depth == 0 && ends_list(&self.tokens[..=index]);
            if ends || depth == 0 && token.token == Token::Comma {
                texts.push(text(begin, last, self.tokens));
                let unnamed = matches!(items.get(texts.len() - 1), Some(SelectItem::UnnamedExpr(_)));
                if unnamed {
                    if last > begin || matches!(self.tokens[begin].token, Token::Placeholder(_)) {
                        self.named_to = self.named_to.max(self.tokens[last].span.end.column as usize);
                    }
                    self.fix_literals(begin, last);
                }
                begin = index + 1;
            }
            if ends {
                return texts;
            }
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            last = index;
            index += 1;
        }
    }

    fn fix_literals(&mut self, from: usize, to: usize) {
        for token in &self.tokens[from..=to] {
            if let Token::Placeholder(name) = &token.token
                && let Some(index) = name.strip_prefix(':').and_then(|index| index.parse().ok())
            {
                self.literals.fix(index);
            }
        }
    }
}

/// Whether the last of these tokens ends a select list, outside of parentheses.
fn ends_list(tokens: &[TokenWithSpan]) -> bool {
    const ENDS: [&str; 14] = [
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "UNION",
        "INTO",
        "FOR",
        "LOCK",
        "WINDOW",
        "EXCEPT",
        "INTERSECT",
        "PROCEDURE",
    ];
    let Some((last, before)) = tokens.split_last() else { return true };
    // `NEXT VALUE FOR name` is an expression.
    let is_value_for = is_word(last, "FOR")
        && matches!(before, [.., next, value] if is_word(value, "VALUE") && (is_word(next, "NEXT") || is_word(next, "PREVIOUS")));
    last.token == Token::RParen || !is_value_for && ENDS.iter().any(|word| is_word(last, word))
}

/// The first of several strings that stand beside each other.
fn first_string(text: &str, mode: crate::lexer::LexMode) -> Option<String> {
    let tokens = crate::lexer::tokens(text.as_bytes(), 0, mode, crate::lexer::Literals::Inline).ok()?.tokens;
    match &tokens.first()?.token {
        Token::SingleQuotedString(first) => Some(first.clone()),
        _ => None,
    }
}

/// Bytes of a column's name that clients see.
///
/// Source: MariaDB, `MAX_ALIAS_NAME`.
const SHOWN_BYTES_MAX: usize = 255;

/// A column's name as clients see it: names are utf8mb3, and a NUL is written. A text is cut that nobody gave as a name.
pub(super) fn shown_name(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(SHOWN_BYTES_MAX));
    if !name.chars().any(|c| c > '\u{ffff}' || c == '\0') {
        return name;
    }
    name.chars().map(|c| if c > '\u{ffff}' { '?' } else { c }).collect::<String>().replace('\0', "\\x00")
}
