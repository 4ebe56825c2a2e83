//! Queries: SELECT, WITH, grouping, ordering. Beside it stand `from`, `union`, `windows`, `names`, `full_group` and `rollup`.

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, GroupByWithModifier, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Value,
};

use super::{
    Code, Ex, Res, Translator,
    clauses::{check_clauses, check_wildcard},
    compare::Ground,
    expr::unnest,
    from::source_columns,
    full_group::Bare,
    list::{Listed, Match, Sees},
    locking::Locked,
    names::shown_name,
    scope::{Cte, Scope, Source},
};
use crate::{
    errors,
    parse::to_table_name,
    translate::locking::LockedRows,
    value::{Rep, SqlType},
};

/// How many columns the surrounding expression wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    Columns(usize),
}

/// A translated query; its columns are named `r0`, `r1`, …
#[derive(Debug, Clone)]
pub(crate) struct Rel {
    pub(crate) sql: String,
    pub(crate) columns: Vec<RelColumn>,
    /// One row at most.
    pub(crate) single: bool,
    /// The rows that it locks, if it was asked to lock and they can be told.
    pub(crate) locked: Option<LockedRows>,
    /// Whose rows its rows are: the tables of the row ids `l0`, `l1`, … behind its columns, if it has them. `None` if that cannot be
    /// told.
    pub(crate) row_ids: Option<Vec<i64>>,
    /// The query without its own LIMIT, for SQL_CALC_FOUND_ROWS.
    pub(crate) unlimited: Option<String>,
}

/// A column of a query; `derived` is the alias of the derived table that has it.
#[derive(Debug, Clone)]
pub(crate) struct RelColumn {
    pub(crate) name: String,
    pub(crate) ex: Ex,
    pub(crate) derived: Option<Box<str>>,
}

impl Rel {
    /// A column as an operand; only its type means something.
    pub(crate) fn column_ex(&self, index: usize) -> Ex {
        let column = &self.columns[index];
        Ex { code: Code::Sql(format!("r{index}")), nullable: true, ..column.ex.clone() }
    }
}

/// A SELECT before its text is put together.
pub(super) struct Parts {
    head: String,
    pub(super) items: Vec<RelColumn>,
    tail: String,
    limit_one: bool,
    /// The rows to be locked, if they can be told.
    locked: Option<Locked>,
    /// The row ids that are shown behind the items.
    row_ids: Option<Vec<(i64, String)>>,
}

impl Translator<'_> {
    /// Translates a query that may see `outer`.
    ///
    /// # Errors
    /// MySQL's, or 1235 for clauses that this engine lacks.
    pub(crate) fn query(&mut self, query: &Query, outer: Option<&Scope<'_>>, wanted: Wanted) -> Res<Rel> {
        // What a query reads, it only reads.
        let writes = std::mem::take(&mut self.writes);
        let rel = self.any_query(query, outer, wanted);
        self.writes = writes;
        rel
    }

    fn any_query(&mut self, query: &Query, outer: Option<&Scope<'_>>, wanted: Wanted) -> Res<Rel> {
        if query.fetch.is_some()
            || query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(errors::unsupported("this clause of a query"));
        }
        let depth = self.ctes.len();
        let with = query.with.as_ref().map(|with| self.with(with, outer)).transpose()?.unwrap_or_default();
        let order = match &query.order_by {
            None => &[][..],
            Some(order) => match &order.kind {
                OrderByKind::Expressions(list) if order.interpolate.is_none() => list.as_slice(),
                _ => return Err(errors::unsupported("ORDER BY ALL")),
            },
        };
        let limit = match &query.limit_clause {
            Some(limit) => Some(self.limit(limit)?),
            None => self.outermost_limit.take().map(|limit| (format!(" LIMIT {limit}"), limit == 1)),
        };
        self.outermost_limit = None;
        let mut rel =
            self.with_locks(query, (&with, depth), outer, |t| t.body(&query.body, order, limit.as_ref(), outer))?;
        self.ctes.truncate(depth);
        rel.sql = format!("{with}{}", rel.sql);
        rel.unlimited = rel.unlimited.map(|sql| format!("{with}{sql}"));
        if let Wanted::Columns(count) = wanted
            && rel.columns.len() != count
        {
            return Err(errors::operand_columns(count));
        }
        Ok(rel)
    }

    fn with(&mut self, with: &sqlparser::ast::With, outer: Option<&Scope<'_>>) -> Res<String> {
        let mut texts = Vec::new();
        for cte in &with.cte_tables {
            if cte.from.is_some() || cte.materialized.is_some() {
                return Err(errors::unsupported("this form of WITH"));
            }
            let name = cte.alias.name.value.clone();
            let sql = self.alias("q");
            let given: Vec<&str> = cte.alias.columns.iter().map(|column| column.name.value.as_str()).collect();
            let body = if with.recursive { self.recursive(&name, &sql, &given, &cte.query, outer)? } else { None };
            let fresh = self.effects.fresh;
            let rel = match body {
                Some(rel) => rel,
                None => self.computed_once(|t| t.query(&cte.query, outer, Wanted::Any))?,
            };
            let columns = source_columns(&rel, &given)?;
            if self.effects.fresh > fresh {
                self.ctes.push(Cte { name, sql: format!("({})", rel.sql), columns, fresh: true });
                continue;
            }
            let names: Vec<&str> = columns.iter().map(|column| column.sql.as_str()).collect();
            texts.push(format!("{sql}({}) AS ({})", names.join(", "), rel.sql));
            self.ctes.retain(|known| !(known.name == name && known.sql == sql));
            self.ctes.push(Cte { name, sql, columns, fresh: false });
        }
        if texts.is_empty() {
            return Ok(String::new());
        }
        let recursive = if with.recursive { "RECURSIVE " } else { "" };
        Ok(format!("WITH {recursive}{} ", texts.join(", ")))
    }

    pub(super) fn body(
        &mut self,
        body: &SetExpr,
        order: &[OrderByExpr],
        limit: Option<&(String, bool)>,
        outer: Option<&Scope<'_>>,
    ) -> Res<Rel> {
        let limit_text = limit.map_or("", |limit| &limit.0);
        match body {
            SetExpr::Select(select) if super::rollup::wanted(select) => {
                if !order.is_empty() {
                    return Err(errors::wrong_usage("CUBE/ROLLUP", "ORDER BY"));
                }
                self.rollup(select, limit_text, outer)
            }
            SetExpr::Select(select) => {
                let parts = self.select(select, order, outer)?;
                let mut rel = render(self, &parts, None);
                if let (Some(rows), Some(Locked::Result(_))) = (&mut rel.locked, &parts.locked) {
                    rows.sql.push_str(limit_text);
                }
                if counts_found_rows(body) {
                    rel.unlimited = Some(rel.sql.clone());
                }
                rel.single = parts.limit_one || limit.is_some_and(|limit| limit.1);
                rel.sql.push_str(limit_text);
                Ok(rel)
            }
            SetExpr::Query(query) if order.is_empty() && limit.is_none() => self.query(query, outer, Wanted::Any),
            SetExpr::Query(query) => {
                let inner = self.query(query, outer, Wanted::Any)?;
                let order = self.order_of_union(order, &inner.columns)?;
                let alias = self.alias("s");
                let single = inner.single || limit.is_some_and(|limit| limit.1);
                let sql = format!("SELECT * FROM ({}) AS {alias}{order}{limit_text}", inner.sql);
                Ok(Rel { sql, single, locked: None, ..inner })
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let mut rel = self.set_operation(left, *op, *set_quantifier, right, outer)?;
                let order = self.order_of_union(order, &rel.columns)?;
                if counts_found_rows(body) {
                    rel.unlimited = Some(rel.sql.clone());
                }
                rel.sql.push_str(&order);
                rel.sql.push_str(limit_text);
                rel.single = limit.is_some_and(|limit| limit.1);
                Ok(rel)
            }
            SetExpr::Values(_) => Err(errors::unsupported("VALUES as a query")),
            _ => Err(errors::unsupported("this form of a query")),
        }
    }

    /// A query with one column converted to what it is compared on.
    pub(crate) fn convert_column(&mut self, rel: Rel, index: usize, ground: &Ground) -> Rel {
        let rep = match ground {
            Ground::Native => return rel,
            Ground::As(rep) => *rep,
            Ground::Text(_) => Rep::Text,
        };
        if rel.columns[index].ex.ty.rep() == rep {
            return rel;
        }
        let alias = self.alias("s");
        let items: Vec<String> = (0..rel.columns.len())
            .map(|column| {
                let from = Ex { code: Code::Sql(format!("{alias}.r{column}")), ..rel.columns[column].ex.clone() };
                let sql = if column == index { self.on_ground(&from, ground) } else { self.text(&from) };
                format!("{sql} AS r{column}")
            })
            .collect();
        Rel { sql: format!("SELECT {} FROM ({}) AS {alias}", items.join(", "), rel.sql), ..rel }
    }

    /// The column that a literal number in ORDER BY or GROUP BY means.
    pub(super) fn position(&mut self, expr: &Expr, count: usize) -> Res<Option<usize>> {
        let number = match unnest(expr) {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => text.clone(),
                Value::Placeholder(name) if name.starts_with(':') => {
                    let index: usize = name[1..].parse().map_err(|_| errors::syntax(name))?;
                    if !matches!(self.literals.kind(index), Some(crate::lexer::LiteralKind::Int)) {
                        return Ok(None);
                    }
                    String::from_utf8_lossy(self.literals.text(index)).into_owned()
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let position: usize = number.parse().unwrap_or(0);
        if position == 0 || position > count {
            return Err(errors::unknown_column(number, "order clause"));
        }
        Ok(Some(position - 1))
    }

    pub(super) fn select(&mut self, select: &Select, order: &[OrderByExpr], outer: Option<&Scope<'_>>) -> Res<Parts> {
        check_clauses(select)?;
        let mut scope = Scope { parent: outer, ..Scope::default() };
        let (from, shows_row_ids) = self.lockable_from(select, &mut scope)?;
        let mut tail = if from.is_empty() { String::new() } else { format!(" FROM {from}") };
        let filter = self.effects;
        if let Some(selection) = &select.selection {
            tail.push_str(&self.filter(selection, &mut scope)?);
        }
        let is_filtered = self.skip_locked(&scope, &mut tail, select.selection.is_some());
        let all = tail.clone();
        scope.clause = "field list";
        let list = self.effects;
        let bare = self.projection(&select.projection, select.select_token.0.span.start.column, &mut scope)?;
        let items: Vec<RelColumn> = scope.list.iter().map(Listed::shown).collect();
        let groups = self.group_by(&select.group_by, &mut scope)?;
        let grouped = !groups.is_empty();
        let aggregate = items.iter().any(|item| item.ex.aggregate);
        if self.wants_full_groups() && (grouped || aggregate) {
            let texts: Vec<String> = groups.iter().map(|ex| self.text(ex)).collect();
            let texts: Vec<String> = texts.iter().map(|text| self.with_literals(text)).collect();
            self.check_full_groups(select, &scope, &items, &texts, &bare)?;
        }
        if grouped {
            let texts: Vec<String> = groups.iter().map(|ex| self.collated(ex)).collect();
            tail.push_str(&format!(" GROUP BY {}", texts.join(", ")));
        }
        if let Some(having) = &select.having {
            tail.push_str(&self.having(having, &mut scope, grouped || aggregate, is_filtered)?);
        }
        scope.sees = Sees::Both;
        tail.push_str(&self.windows(select, &scope)?);
        scope.clause = "order clause";
        let plain = !grouped && !aggregate && select.distinct.is_none() && select.named_window.is_empty();
        if !plain
            && self.effects.reading > list.reading
            && self.effects.writing > list.writing
            && (grouped || !order.is_empty())
        {
            return Err(errors::unsupported("reading a variable that a query with groups or DISTINCT assigns"));
        }
        if plain && self.sorts_first(order, &scope, filter, list)? {
            tail = self.sorted_source(&mut scope, &tail, order, "")?;
            scope.list.clear();
            scope.clause = "field list";
            self.projection(&select.projection, select.select_token.0.span.start.column, &mut scope)?;
            let items = scope.list.iter().map(Listed::shown).collect();
            return Ok(Parts { head: "SELECT ".into(), items, tail, limit_one: false, locked: None, row_ids: None });
        }
        tail.push_str(&match order {
            [] if plain => self.order_of_matches(select.selection.as_ref(), &scope)?,
            order => self.order_by(order, &scope)?,
        });
        let distinct = match &select.distinct {
            None | Some(Distinct::All) => "",
            Some(Distinct::Distinct) => "DISTINCT ",
            Some(Distinct::On(_)) => return Err(errors::unsupported("DISTINCT ON")),
        };
        let limit_one = !grouped && (aggregate || from.is_empty());
        let (locked, row_ids) = self.rows_of(&scope, plain, shows_row_ids, &all);
        Ok(Parts { head: format!("SELECT {distinct}"), items, tail, limit_one, locked, row_ids })
    }

    pub(super) fn filter(&mut self, selection: &Expr, scope: &mut Scope<'_>) -> Res<String> {
        scope.clause = "where clause";
        let ex = self.expr(selection, scope)?;
        if ex.aggregate {
            return Err(errors::invalid_group_use());
        }
        Ok(format!(" WHERE {}", self.truth(&ex)))
    }

    fn having(&mut self, having: &Expr, scope: &mut Scope<'_>, grouped: bool, filtered: bool) -> Res<String> {
        scope.clause = "having clause";
        scope.sees = Sees::List;
        let ex = self.expr(having, scope)?;
        let sql = self.truth(&ex);
        if grouped || ex.aggregate {
            // HAVING without GROUP BY needs an aggregate in SQLite.
            return Ok(format!(" HAVING {sql}"));
        }
        // Without groups HAVING is one more filter.
        Ok(if filtered { format!(" AND {sql}") } else { format!(" WHERE {sql}") })
    }

    /// The expressions of GROUP BY; they join the scope.
    fn group_by(&mut self, group: &GroupByExpr, scope: &mut Scope<'_>) -> Res<Vec<Ex>> {
        let GroupByExpr::Expressions(terms, modifiers) = group else { return Err(errors::unsupported("GROUP BY ALL")) };
        if modifiers.iter().any(|modifier| matches!(modifier, GroupByWithModifier::Rollup)) {
            return Err(errors::unsupported("WITH ROLLUP"));
        }
        if !modifiers.is_empty() {
            return Err(errors::unsupported("this modifier of GROUP BY"));
        }
        scope.clause = "group statement";
        scope.sees = Sees::Both;
        let mut groups = Vec::new();
        for term in terms {
            let group = self.group_term(term, scope)?;
            if group.ex.aggregate {
                return Err(errors::invalid_group_use());
            }
            group.again()?;
            groups.push(group);
        }
        scope.groups = groups;
        Ok(scope.groups.iter().map(|group| group.ex.clone()).collect())
    }

    fn group_term(&mut self, term: &Expr, scope: &Scope<'_>) -> Res<Listed> {
        if let Some(position) = self.position(term, scope.list.len())? {
            if scope.list[position].ex.aggregate {
                return Err(errors::cannot_group_on(&scope.list[position].name));
            }
            return Ok(scope.list[position].clone());
        }
        if let Some(parts) = name_parts(term)
            && let Some(known) = scope.group_column(&parts)?
        {
            if known.column.is_some() && self.wants_full_groups() {
                self.note_bare(&known.ex);
            }
            return Ok(known);
        }
        Ok(Listed { name: String::new(), ex: self.expr(term, scope)?, column: None, fresh: false })
    }

    /// The text of ORDER BY.
    ///
    /// # Errors
    /// Unknown names, those of the expressions.
    pub(crate) fn order_by(&mut self, order: &[OrderByExpr], scope: &Scope<'_>) -> Res<String> {
        let mut terms = Vec::new();
        for term in order {
            let text = match self.ordered_item(&term.expr, scope)? {
                Some(position) => (position + 1).to_string(),
                None => {
                    let ex = self.expr(&term.expr, scope)?;
                    if ex.is_const() {
                        continue;
                    }
                    self.collated(&ex)
                }
            };
            terms.push(format!("{text}{}", direction(term)?));
        }
        Ok(if terms.is_empty() { String::new() } else { format!(" ORDER BY {}", terms.join(", ")) })
    }

    /// The item of the select list that a term of ORDER BY means, by its position or name.
    pub(super) fn ordered_item(&mut self, term: &Expr, scope: &Scope<'_>) -> Res<Option<usize>> {
        if let Some(position) = self.position(term, scope.list.len())? {
            return Ok(Some(position));
        }
        let Some(parts) = name_parts(term) else { return Ok(None) };
        let found = scope.listed(&parts)?;
        if let Some((_, Match::Hidden)) = found {
            scope.locate(&parts)?;
        }
        Ok(found.map(|(position, _)| position))
    }

    /// The select list behind the word at `start`, which becomes the scope's; and the columns that each item names outside of aggregates if ONLY_FULL_GROUP_BY
    /// asks for them.
    pub(super) fn projection(
        &mut self,
        items: &[SelectItem],
        start: u64,
        scope: &mut Scope<'_>,
    ) -> Res<Vec<Vec<Bare>>> {
        let texts = self.item_texts(items, start);
        let mut bare = Vec::new();
        let aggregating = std::mem::take(&mut self.aggregating);
        scope.sees = Sees::TablesOnly;
        for (index, item) in items.iter().enumerate() {
            let (first, noted) = (scope.list.len(), self.bare.len());
            let star = match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = shown_name(self.item_name(expr, texts.get(index).map(String::as_str)));
                    self.item(expr, name, scope)?;
                    false
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    self.item(expr, alias.value.clone(), scope)?;
                    false
                }
                SelectItem::Wildcard(options) => {
                    check_wildcard(options)?;
                    if scope.sources.is_empty() {
                        return Err(errors::no_tables_used());
                    }
                    for source in &scope.sources {
                        scope.list.extend(all_columns(source, false)?);
                    }
                    true
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    check_wildcard(options)?;
                    let name = to_table_name(name).ok_or_else(|| errors::syntax(name))?;
                    let (_, source) = scope.source(&name).ok_or_else(|| errors::unknown_table_to_drop(&name.name))?;
                    scope.list.extend(all_columns(source, true)?);
                    true
                }
                _ => return Err(errors::unsupported(item)),
            };
            if self.wants_full_groups() {
                for item in &scope.list[first..] {
                    let from = if star { self.bare.len() } else { noted };
                    if star {
                        self.note_bare(&item.ex);
                    }
                    bare.push(self.bare[from..].to_vec());
                }
            }
        }
        self.aggregating = aggregating;
        Ok(bare)
    }

    /// An expression of the select list; it joins the scope's.
    fn item(&mut self, expr: &Expr, name: String, scope: &mut Scope<'_>) -> Res<()> {
        let fresh = self.effects.fresh;
        let (ex, column) = match name_parts(expr) {
            Some(parts) => {
                let named = self.meaning(&parts, scope)?;
                (named.ex, named.column)
            }
            None => (self.described(expr, scope)?, None),
        };
        scope.list.push(Listed { name, ex, column, fresh: self.effects.fresh > fresh });
        Ok(())
    }

    /// An expression whose type describes a column: its length is that of its literals.
    fn described(&mut self, expr: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        self.describing += 1;
        let ex = self.expr(expr, scope);
        self.describing -= 1;
        ex
    }
}

/// Whether a query says SQL_CALC_FOUND_ROWS: in a UNION its first part does.
fn counts_found_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.select_modifiers.as_ref().is_some_and(|modifiers| modifiers.sql_calc_found_rows)
        }
        SetExpr::SetOperation { left, .. } => counts_found_rows(left),
        SetExpr::Query(query) => counts_found_rows(&query.body),
        _ => false,
    }
}

/// `ASC` or `DESC`.
pub(super) fn direction(term: &OrderByExpr) -> Res<&'static str> {
    if term.with_fill.is_some() || term.options.nulls_first.is_some() {
        return Err(errors::unsupported("NULLS FIRST or LAST"));
    }
    Ok(match &term.options.sort {
        None | Some(sqlparser::ast::OrderBySort::Asc) => "",
        Some(sqlparser::ast::OrderBySort::Desc) => " DESC",
        Some(_) => return Err(errors::unsupported("ORDER BY USING")),
    })
}

fn all_columns(source: &Source, with_hidden: bool) -> Res<Vec<Listed>> {
    source.may_read_all()?;
    let shown = source.columns.iter().enumerate().filter(|(_, column)| with_hidden || !column.hidden);
    let listed = shown.map(|(index, column)| Listed {
        name: column.name.clone(),
        ex: source.ex(index),
        column: Some((source.alias.clone(), column.name.clone())),
        fresh: false,
    });
    Ok(listed.collect())
}

/// The parts of a name that stands alone.
pub(super) fn name_parts(expr: &Expr) -> Option<Vec<&str>> {
    match unnest(expr) {
        Expr::Identifier(name) => Some(vec![&name.value]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(|part| part.value.as_str()).collect()),
        _ => None,
    }
}

/// Puts a SELECT's text together; `types` says what the columns must be.
pub(super) fn render(translator: &mut Translator<'_>, parts: &Parts, types: Option<&[SqlType]>) -> Rel {
    let items: Vec<String> = parts
        .items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let sql = match types {
                Some(types) => translator.as_type(&item.ex, &types[index]),
                None => translator.text(&item.ex),
            };
            let collate = item.ex.ty.rep() == Rep::Text && item.ex.origin.is_none();
            let collate =
                if collate { format!(" COLLATE {}", item.ex.ty.collation.sqlite_name()) } else { String::new() };
            format!("{sql}{collate} AS r{index}")
        })
        .collect();
    let locked = parts.locked.as_ref().map(|locked| locked.query(&parts.head, &items, &parts.tail));
    let row_ids = parts.row_ids.iter().flatten().enumerate().map(|(index, (_, text))| format!("{text} AS l{index}"));
    let items: Vec<String> = items.into_iter().chain(row_ids).collect();
    Rel {
        sql: format!("{}{}{}", parts.head, items.join(", "), parts.tail),
        columns: parts.items.clone(),
        single: parts.limit_one,
        locked,
        row_ids: parts.row_ids.as_ref().map(|ids| ids.iter().map(|(table, _)| *table).collect()),
        unlimited: None,
    }
}
