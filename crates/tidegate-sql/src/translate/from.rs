//! FROM: tables, derived tables and joins.

use std::collections::HashSet;

use sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use super::{
    Coercibility, Res, Translator,
    scope::{Scope, Source, SourceColumn},
    select::{Rel, Wanted},
};
use crate::{
    column::same_name,
    errors,
    parse::{TableName, to_table_name},
};

impl Translator<'_> {
    /// The text of FROM; its tables join the scope.
    ///
    /// # Errors
    /// Unknown tables, aliases used twice, those of the conditions.
    pub(crate) fn from(&mut self, from: &[TableWithJoins], scope: &mut Scope<'_>) -> Res<String> {
        let before = self.effects;
        let text = self.tables(from, scope)?;
        if self.effects.ordered == before.ordered {
            return Ok(text);
        }
        // SQLite computes a table when its loop begins: what has effects must be the outermost.
        scope.sources.clear();
        scope.in_order = true;
        self.tables(from, scope)
    }

    fn tables(&mut self, from: &[TableWithJoins], scope: &mut Scope<'_>) -> Res<String> {
        let (mut texts, mut first) = (Vec::new(), 0);
        for item in from {
            if is_dual(item) {
                continue;
            }
            let before = self.effects;
            let sql = self.joined(item, scope)?;
            if self.effects.ordered > before.ordered {
                texts.insert(first, sql);
                first += 1;
                continue;
            }
            // In MySQL a comma binds looser than JOIN, in SQLite they are the same.
            let right =
                |join: &Join| matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
            let apart = from.len() > 1 && item.joins.iter().any(right);
            texts.push(if apart { format!("({sql})") } else { sql });
        }
        let mut seen = HashSet::new();
        for source in &scope.sources {
            if !seen.insert((source.alias.clone(), source.schema.clone())) {
                return Err(errors::not_unique_alias(&source.alias));
            }
        }
        Ok(texts.join(if scope.in_order { " CROSS JOIN " } else { ", " }))
    }

    fn joined(&mut self, item: &TableWithJoins, scope: &mut Scope<'_>) -> Res<String> {
        let mut sql = self.factor(&item.relation, scope)?;
        for join in &item.joins {
            sql = self.join(sql, join, scope)?;
        }
        Ok(sql)
    }

    pub(super) fn join(&mut self, left: String, join: &Join, scope: &mut Scope<'_>) -> Res<String> {
        if join.global {
            return Err(errors::unsupported("GLOBAL JOIN"));
        }
        let (word, constraint, outer) = match &join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::StraightJoin(constraint) => ("JOIN", constraint, Side::Neither),
            JoinOperator::CrossJoin(constraint) => ("JOIN", constraint, Side::Neither),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                ("LEFT JOIN", constraint, Side::Right)
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                ("RIGHT JOIN", constraint, Side::Left)
            }
            _ => return Err(errors::unsupported("this kind of JOIN")),
        };
        let (before, effects) = (scope.sources.len(), self.effects);
        let right = self.factor(&join.relation, scope)?;
        let has_effects = self.effects.ordered > effects.ordered;
        if has_effects && (outer != Side::Neither || before > 1 && !matches!(constraint, JoinConstraint::None)) {
            return Err(errors::unsupported(
                "effects in a table that is joined with conditions to several, or by LEFT or RIGHT JOIN",
            ));
        }
        if outer == Side::Right {
            scope.sources[before..].iter_mut().for_each(|source| source.outer = true);
        }
        if outer == Side::Left {
            scope.sources[..before].iter_mut().for_each(|source| source.outer = true);
        }
        let condition = match constraint {
            JoinConstraint::None => String::new(),
            JoinConstraint::On(expr) => {
                scope.clause = "on clause";
                let ex = self.expr(expr, scope)?;
                let sql = self.truth(&ex);
                scope.clause = "field list";
                format!(" ON {sql}")
            }
            JoinConstraint::Using(names) => {
                let mut columns = Vec::new();
                for name in names {
                    let name = to_table_name(name).ok_or_else(|| errors::syntax(name))?;
                    columns.push(name.name);
                }
                self.using(&columns, before, outer, scope)?
            }
            JoinConstraint::Natural => {
                let right: Vec<String> = scope.sources[before..]
                    .iter()
                    .flat_map(|source| &source.columns)
                    .map(|column| column.name.clone())
                    .collect();
                let common: Vec<String> = right
                    .into_iter()
                    .filter(|name| {
                        scope.sources[..before]
                            .iter()
                            .any(|source| source.columns.iter().any(|column| same_name(&column.name, name)))
                    })
                    .collect();
                self.using(&common, before, outer, scope)?
            }
        };
        if condition.is_empty() && word != "JOIN" {
            return Err(errors::syntax(word));
        }
        Ok(match word {
            "JOIN" if has_effects => format!("{right} CROSS JOIN {left}{condition}"),
            "JOIN" if scope.in_order => format!("{left} CROSS JOIN {right}{condition}"),
            _ => format!("{left} {word} {right}{condition}"),
        })
    }

    /// The condition of USING: the columns of both sides are equal, and shown once.
    fn using(&mut self, names: &[String], before: usize, outer: Side, scope: &mut Scope<'_>) -> Res<String> {
        let mut conditions = Vec::new();
        for name in names {
            let find = |sources: &[Source]| -> Option<(usize, usize)> {
                sources.iter().enumerate().find_map(|(at, source)| {
                    let column =
                        source.columns.iter().position(|column| !column.hidden && same_name(&column.name, name))?;
                    Some((at, column))
                })
            };
            let unknown = || errors::unknown_column(name, "from clause");
            let (a, a_column) = find(&scope.sources[..before]).ok_or_else(unknown)?;
            let (b, b_column) = find(&scope.sources[before..]).ok_or_else(unknown)?;
            scope.sources[a].may_read(a_column)?;
            scope.sources[before + b].may_read(b_column)?;
            let (x, y) = (scope.sources[a].ex(a_column), scope.sources[before + b].ex(b_column));
            let equal = self.compare(&x, "=", &y)?;
            conditions.push(self.text(&equal));
            if outer == Side::Left {
                scope.sources[a].columns[a_column].hidden = true;
            } else {
                scope.sources[before + b].columns[b_column].hidden = true;
            }
        }
        Ok(if conditions.is_empty() { String::new() } else { format!(" ON {}", conditions.join(" AND ")) })
    }

    fn factor(&mut self, factor: &TableFactor, scope: &mut Scope<'_>) -> Res<String> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints: _,
            } if with_hints.is_empty() => {
                if !partitions.is_empty() {
                    return Err(errors::unsupported("partitions"));
                }
                let name = to_table_name(name).ok_or_else(|| errors::syntax(name))?;
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                self.named(&name, alias, scope)
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                let alias = alias.as_ref().ok_or_else(|| errors::syntax(""))?;
                let rel = self.computed_once(|t| t.query(subquery, scope.parent, Wanted::Any))?;
                let given: Vec<&str> = alias.columns.iter().map(|column| column.name.value.as_str()).collect();
                Ok(self.derived(rel, &alias.name.value, &given, scope)?)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let sql = self.joined(table_with_joins, scope)?;
                Ok(if table_with_joins.joins.is_empty() { sql } else { format!("({sql})") })
            }
            TableFactor::JsonTable { json_expr, json_path, columns, alias } => {
                self.json_table(json_expr, (json_path, columns), alias.as_ref(), scope)
            }
            TableFactor::Derived { lateral: true, .. } => Err(errors::unsupported("LATERAL")),
            _ => Err(errors::unsupported("this kind of table in FROM")),
        }
    }

    pub(super) fn derived(&mut self, rel: Rel, alias: &str, given: &[&str], scope: &mut Scope<'_>) -> Res<String> {
        let sql_alias = self.alias("a");
        let columns = source_columns(&rel, given)?;
        let row_ids = rel.row_ids.map(|ids| {
            let ids = ids.into_iter().enumerate();
            ids.map(|(index, table)| (table, format!("{sql_alias}.l{index}"))).collect()
        });
        let computed = Source::computed(alias.to_owned(), sql_alias.clone(), columns);
        scope.sources.push(Source { single: rel.single, row_ids, ..computed });
        Ok(format!("({}) AS {sql_alias}", rel.sql))
    }

    fn named(&mut self, name: &TableName, alias: Option<String>, scope: &mut Scope<'_>) -> Res<String> {
        if name.schema.is_none()
            && let Some(cte) = self.ctes.iter().rev().find(|cte| same_name(&cte.name, &name.name)).cloned()
        {
            if cte.fresh {
                // Each reference computes it anew.
                self.effects.note_both();
            }
            let sql_alias = self.alias("a");
            let alias = alias.unwrap_or_else(|| name.name.clone());
            scope.sources.push(Source::computed(alias, sql_alias.clone(), cte.columns));
            return Ok(format!("{} AS {sql_alias}", cte.sql));
        }
        let schema_name = name.schema.as_deref().or(self.session.inputs.virtual_schema);
        if let Some(schema) = schema_name.filter(|schema| schema.eq_ignore_ascii_case("information_schema")) {
            return (self.session.library.information_schema)(self, schema, &name.name, alias, scope);
        }
        if let Some(sql) = schema_name.filter(|schema| schema.eq_ignore_ascii_case("mysql")).and_then(|schema| {
            (self.session.library.mysql_schema)(self, schema, &name.name, alias.clone(), scope).transpose()
        }) {
            return sql;
        }
        let (schema, table) = self.visible_table(name)?;
        let denied = self.may_name(&schema, &table)?;
        let alias = alias.unwrap_or_else(|| name.name.clone());
        if let Some(text) = table.view.clone() {
            let is_written = !self.writes.is_empty();
            let shape = if is_written { self.shape_of(&schema, &table)? } else { None };
            let shows = shape.is_some() || self.shows_view_rows(&alias);
            self.note_read(&schema, &table);
            let rel = self.computed_once(|t| t.view(&table, &text, &schema, shows))?;
            let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let sql = self.derived(rel, &alias, &names, scope)?;
            if let Some(source) = scope.sources.last_mut() {
                source.denied = denied;
                source.schema.clone_from(&schema.name);
                let through = is_written.then(|| self.through((&schema, &table), shape, source.row_ids.as_deref()));
                source.through = through.map(Box::new);
            }
            return Ok(sql);
        }
        if table.is_sequence() {
            // It changes with statements that only read.
            self.effects.note_fresh();
        }
        let (sql, mut source) = self.table_source(&schema, &table, &alias);
        source.denied = denied;
        scope.sources.push(source);
        Ok(sql)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Neither,
    Left,
    Right,
}

fn is_dual(item: &TableWithJoins) -> bool {
    matches!(&item.relation, TableFactor::Table { name, alias: None, .. } if name.to_string().eq_ignore_ascii_case("dual"))
        && item.joins.is_empty()
}

/// The columns of a derived table, under names of its own if it has them.
pub(crate) fn source_columns(rel: &Rel, given: &[&str]) -> Res<Vec<SourceColumn>> {
    if !given.is_empty() && given.len() != rel.columns.len() {
        return Err(errors::wrong_value_count(1));
    }
    let columns: Vec<SourceColumn> = rel
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| SourceColumn {
            name: given.get(index).map_or_else(|| column.name.clone(), |name| (*name).to_owned()),
            sql: format!("r{index}"),
            ty: column.ex.ty.clone().stored(),
            nullable: column.ex.nullable,
            coercibility: match column.ex.coercibility {
                Coercibility::Explicit | Coercibility::Mixed | Coercibility::System | Coercibility::Literal => {
                    Coercibility::Column
                }
                other => other,
            },
            origin: column.ex.origin.clone(),
            hidden: false,
        })
        .collect();
    for (index, column) in columns.iter().enumerate() {
        if columns[..index].iter().any(|other| same_name(&other.name, &column.name)) {
            return Err(errors::duplicate_column(&column.name));
        }
    }
    Ok(columns)
}
