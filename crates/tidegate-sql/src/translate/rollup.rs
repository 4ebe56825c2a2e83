//! GROUP BY … WITH ROLLUP: SQLite has no such thing, so each level of groups is a query of its own, and they are joined by
//! UNION ALL in MariaDB's order. In a level the columns that it does not group by are NULL, but not inside of aggregates.

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr,
    GroupByWithModifier, Select, SelectItem, Value, ValueWithSpan,
};
use sqlparser::tokenizer::Span;

use super::{
    Code, Ex, Res, Translator,
    expr::unnest,
    scope::Scope,
    select::{Rel, RelColumn, render},
};
use crate::{column::same_name, errors};

/// Keys of a grouping; each is a query more.
const KEYS_MAX: usize = 16;

/// What a grouping goes by.
struct Key {
    expr: Expr,
    /// The item of the SELECT list that it is, if it names one.
    item: Option<usize>,
}

/// Whether a SELECT asks for it.
pub(super) fn wanted(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(_, modifiers) if modifiers.iter().any(|m| matches!(m, GroupByWithModifier::Rollup)))
}

impl Translator<'_> {
    /// Translates a SELECT with ROLLUP.
    ///
    /// # Errors
    /// 1221 with ORDER BY; 1235 for what cannot be taken apart.
    pub(super) fn rollup(&mut self, select: &Select, limit: &str, outer: Option<&Scope<'_>>) -> Res<Rel> {
        let GroupByExpr::Expressions(terms, _) = &select.group_by else { return Err(errors::syntax("ROLLUP")) };
        if terms.len() > KEYS_MAX {
            return Err(errors::unsupported("WITH ROLLUP over this many columns"));
        }
        if select.distinct.is_some() || !select.named_window.is_empty() {
            return Err(errors::unsupported("WITH ROLLUP together with DISTINCT or windows"));
        }
        // Which columns are NULL depends on the literals in them.
        self.serves_once();
        let mut scope = Scope { parent: outer, ..Scope::default() };
        self.from(&select.from, &mut scope)?;
        let keys = terms.iter().map(|term| self.key_of(term, select, &scope)).collect::<Res<Vec<_>>>()?;
        let mut levels = Vec::new();
        for kept in (0..=keys.len()).rev() {
            levels.push(level(self, select, &keys, kept)?);
        }
        let mut rels = Vec::new();
        for level in &levels {
            let parts = self.select(level, &[], outer)?;
            rels.push(render(self, &parts, None));
        }
        let width = rels[0].columns.len();
        let shown = width - keys.len() * 2;
        let mut columns = Vec::new();
        for index in 0..width {
            let all: Vec<Ex> = rels.iter().map(|rel| rel.columns[index].ex.clone()).collect();
            let mut common = self.common_type(&all, "rollup")?;
            common.origin = None;
            common.nullable = true;
            columns.push(RelColumn { name: rels[0].columns[index].name.clone(), ex: common, derived: None });
        }
        let texts: Vec<String> = rels.iter().map(|rel| self.retyped(rel, &columns)).collect();
        let alias = self.alias("s");
        let items: Vec<String> = (0..shown).map(|index| format!("{alias}.r{index} AS r{index}")).collect();
        let mut order = Vec::new();
        for key in 0..keys.len() {
            let value = &columns[shown + key * 2 + 1].ex;
            let sorted = Ex { code: Code::Sql(format!("{alias}.r{}", shown + key * 2 + 1)), ..value.clone() };
            order.push(format!("{alias}.r{}", shown + key * 2));
            order.push(self.collated(&sorted));
        }
        let all = format!("SELECT {} FROM ({}) AS {alias}", items.join(", "), texts.join(" UNION ALL "));
        let sql = format!("{all} ORDER BY {}{limit}", order.join(", "));
        columns.truncate(shown);
        let counts = select.select_modifiers.as_ref().is_some_and(|modifiers| modifiers.sql_calc_found_rows);
        Ok(Rel {
            sql,
            columns,
            single: false,
            locked: None,
            row_ids: Some(Vec::new()),
            unlimited: counts.then_some(all),
        })
    }

    /// What a term of GROUP BY means: a position, an alias that is no table's column, or itself.
    fn key_of(&mut self, term: &Expr, select: &Select, scope: &Scope<'_>) -> Res<Key> {
        let items = &select.projection;
        if let Some(position) = self.position(term, items.len())? {
            return match &items[position] {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Ok(Key { expr: expr.clone(), item: Some(position) })
                }
                _ => Err(errors::unsupported("WITH ROLLUP by the position of *")),
            };
        }
        if let Expr::Identifier(name) = unnest(term)
            && !matches!(scope.locate(&[&name.value]), Ok(Some(_)))
        {
            for (index, item) in items.iter().enumerate() {
                if let SelectItem::ExprWithAlias { expr, alias } = item
                    && same_name(&alias.value, &name.value)
                {
                    return Ok(Key { expr: expr.clone(), item: Some(index) });
                }
            }
        }
        Ok(Key { expr: unnest(term).clone(), item: None })
    }
}

/// The SELECT of one level: grouped by the first keys, the others NULL; behind its items, for each key, whether it is rolled up and its
/// value.
fn level(t: &Translator<'_>, select: &Select, keys: &[Key], kept: usize) -> Res<Select> {
    let mut level = select.clone();
    let (stay, gone) = keys.split_at(kept);
    for (index, item) in level.projection.iter_mut().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                if gone.iter().any(|key| key.item == Some(index)) =>
            {
                *expr = null_like(expr);
            }
            _ if stay.iter().any(|key| key.item == Some(index)) => {}
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => blank(t, expr, gone),
            _ => return Err(errors::unsupported("WITH ROLLUP together with *")),
        }
    }
    for (index, key) in keys.iter().enumerate() {
        let rolled = index >= kept;
        level.projection.push(SelectItem::UnnamedExpr(number(if rolled { "1" } else { "0" })));
        level.projection.push(SelectItem::UnnamedExpr(if rolled { null() } else { key.expr.clone() }));
    }
    if let Some(having) = &mut level.having {
        blank(t, having, gone);
    }
    // A constant divides nothing, and a number would be read as a position.
    let terms = keys[..kept].iter().map(|key| unnest(&key.expr)).filter(|expr| !matches!(expr, Expr::Value(_)));
    let terms: Vec<Expr> = terms.cloned().collect();
    let whole = terms.is_empty();
    level.group_by = GroupByExpr::Expressions(terms, Vec::new());
    if whole {
        // A total of nothing is no row.
        let some = Expr::BinaryOp { left: Box::new(count_all()), op: BinaryOperator::Gt, right: Box::new(number("0")) };
        level.having = Some(match level.having.take() {
            Some(having) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(having))),
                op: BinaryOperator::And,
                right: Box::new(some),
            },
            None => some,
        });
    }
    Ok(level)
}

fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan { value, span: Span::empty() })
}

fn number(text: &str) -> Expr {
    value(Value::Number(text.to_owned(), false))
}

fn null() -> Expr {
    value(Value::Null)
}

/// NULL of the type of an expression.
fn null_like(key: &Expr) -> Expr {
    let arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(key.clone()));
    crate::dialect::call_with(&format!("{}null_like", crate::dialect::SPECIAL), vec![arg])
}

fn count_all() -> Expr {
    crate::dialect::call_with("COUNT", vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
}

/// Puts NULL in the place of the keys, except inside of aggregates.
fn blank(t: &Translator<'_>, expr: &mut Expr, keys: &[Key]) {
    if let Some(key) = keys.iter().find(|key| same(t, expr, &key.expr)) {
        *expr = null_like(&key.expr);
        return;
    }
    match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => blank(t, inner, keys),
        Expr::BinaryOp { left, right, .. } => {
            blank(t, left, keys);
            blank(t, right, keys);
        }
        Expr::Between { expr, low, high, .. } => {
            blank(t, expr, keys);
            blank(t, low, keys);
            blank(t, high, keys);
        }
        Expr::Like { expr, pattern, .. } | Expr::RLike { expr, pattern, .. } => {
            blank(t, expr, keys);
            blank(t, pattern, keys);
        }
        Expr::InList { expr, list, .. } => {
            blank(t, expr, keys);
            list.iter_mut().for_each(|item| blank(t, item, keys));
        }
        Expr::Tuple(list) => list.iter_mut().for_each(|item| blank(t, item, keys)),
        Expr::Case { operand, conditions, else_result, .. } => {
            operand.iter_mut().for_each(|operand| blank(t, operand, keys));
            for when in conditions {
                blank(t, &mut when.condition, keys);
                blank(t, &mut when.result, keys);
            }
            else_result.iter_mut().for_each(|result| blank(t, result, keys));
        }
        Expr::Function(function) => {
            let name = function.name.to_string().trim_matches('`').to_ascii_uppercase();
            if (t.session.library.is_aggregate)(&name) {
                return;
            }
            if let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut function.args {
                for arg in args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                        blank(t, expr, keys);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Whether two expressions are the same as far as a reader sees; a column with its table is the column.
fn same(t: &Translator<'_>, a: &Expr, b: &Expr) -> bool {
    let column = |expr: &Expr| match unnest(expr) {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()),
        _ => None,
    };
    match (column(a), column(b)) {
        (Some(a), Some(b)) => same_name(&a, &b),
        (None, None) => !matches!(unnest(a), Expr::Value(_)) && spelled(t, unnest(a)) == spelled(t, unnest(b)),
        _ => false,
    }
}

/// The text of an expression with its literals in place of their numbers.
fn spelled(t: &Translator<'_>, expr: &Expr) -> String {
    let text = expr.to_string();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(':') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        match rest[..len].parse::<usize>().ok().filter(|index| *index < t.literals.count()) {
            Some(index) => {
                out.push('\u{1}');
                out.push_str(&String::from_utf8_lossy(t.literals.text(index)));
                out.push('\u{1}');
                rest = &rest[len..];
            }
            None => out.push(':'),
        }
    }
    out.push_str(rest);
    out
}
