//! Values that a statement assigns to columns, and what later ones of the same row see of them.
//!
//! MariaDB assigns from left to right: an expression sees the columns in front of it as they have just been stored, cut and
//! converted by their types. Where the text of the assigned expression gives the same value, it stands in place of the column.
//! Everything else is a [`LateValue`]: a query of its own over parameters, evaluated when the columns before it are stored.

use std::fmt::Write;

use sqlparser::ast::{Assignment, AssignmentTarget, Expr};

use super::{
    Bind, Code, Ex, Res, Translator,
    dml::{Cellish, Destination, Upsert, is_default},
    scope::{Scope, Source},
    types::stored,
};
use crate::{
    column::same_name,
    errors,
    store::prepared::Text,
    value::{Base, Rep, out::Out},
};

/// A value that is evaluated when the columns before it are stored.
#[derive(Debug, Clone)]
pub(crate) struct LateValue {
    pub(crate) sql: Text,
    pub(crate) binds: Vec<Bind>,
    pub(crate) out: Out,
    /// What the parameters behind the binds carry.
    pub(crate) inputs: Vec<RowValue>,
}

/// A value of the row that is being written, as a parameter carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue {
    /// A column of the query that feeds the statement.
    Fed(usize),
    /// A column of the row, as far as the row is made.
    Stored(usize),
    /// A column of the row that INSERT could not insert.
    Refused(usize),
    /// A column of the query whose rows are inserted.
    Selected(usize),
}

/// The columns of the query that feeds a statement.
#[derive(Debug, Default)]
pub(super) struct FeedColumns {
    pub(super) texts: Vec<String>,
    pub(super) outs: Vec<Out>,
}

/// Stands for a column that an earlier assignment has changed in a way that the text cannot repeat.
const UNREADABLE: &str = "tg_unreadable()";

/// Stands around a [`RowValue`] in a text whose parameters are not counted yet.
const MARK: char = '\u{1}';

impl RowValue {
    /// What stands for the value until its parameter has a number.
    pub(super) fn mark(self) -> String {
        let (kind, index) = match self {
            Self::Fed(index) => ('F', index),
            Self::Stored(index) => ('S', index),
            Self::Refused(index) => ('R', index),
            Self::Selected(index) => ('Q', index),
        };
        format!("{MARK}{kind}{index}{MARK}")
    }

    /// Reads a mark at the beginning of a text, with its length.
    fn of_mark(text: &str) -> Option<(Self, usize)> {
        let (inside, _) = text.strip_prefix(MARK)?.split_once(MARK)?;
        let (kind, index) = inside.split_at_checked(1)?;
        let index = index.parse().ok()?;
        let value = match kind {
            "F" => Self::Fed(index),
            "S" => Self::Stored(index),
            "R" => Self::Refused(index),
            "Q" => Self::Selected(index),
            _ => return None,
        };
        Some((value, inside.len() + 2))
    }
}

/// Makes the marks of a text parameters behind its `count` others; answers what they carry.
pub(super) fn number_marks(sql: &str, count: usize) -> (String, Vec<RowValue>) {
    let (mut out, mut values, mut rest) = (String::with_capacity(sql.len()), Vec::new(), sql);
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some((value, length)) = RowValue::of_mark(rest) else {
            out.push(MARK);
            rest = &rest[MARK.len_utf8()..];
            continue;
        };
        let known = values.iter().position(|known| *known == value);
        let index = known.unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        });
        let _ = write!(out, "?{}", count + index + 1);
        rest = &rest[length..];
    }
    out.push_str(rest);
    (out, values)
}

impl FeedColumns {
    /// The place of a column; it is fed from now on.
    fn place(&mut self, ex: &Ex, text: &str) -> usize {
        self.texts.iter().position(|known| known == text).unwrap_or_else(|| self.push(text.to_owned(), Out::of(&ex.ty)))
    }

    /// Feeds one more column; answers its place.
    pub(super) fn push(&mut self, text: String, out: Out) -> usize {
        self.texts.push(text);
        self.outs.push(out);
        self.texts.len() - 1
    }
}

impl Scope<'_> {
    /// What a column of a source is from now on.
    pub(super) fn assign(&mut self, source: usize, column: usize, ex: Ex) {
        let name = self.sources[source].columns[column].name.clone();
        self.assigned.retain(|(known, at, _)| !(*at == source && *known == name));
        self.assigned.push((name, source, ex));
    }

    /// The same after an assignment. In a view other columns may be the same one of its table; what is computed of columns cannot be
    /// told any more.
    fn assign_behind(&mut self, source: usize, column: usize, ex: Ex) {
        let known = &self.sources[source];
        if known.through.is_some() {
            let base = known.base_of(column);
            let others = (0..known.columns.len()).filter(|other| *other != column);
            let others: Vec<_> = others.map(|other| (other, known.base_of(other))).collect();
            for (other, of) in others {
                match of {
                    None => self.assign(source, other, self.column_as(source, other, UNREADABLE.to_owned())),
                    Some(_) if of == base => self.assign(source, other, ex.clone()),
                    Some(_) => {}
                }
            }
        }
        self.assign(source, column, ex);
    }

    /// The scope before the statement's assignments, for what is asked of columns and not of their values.
    pub(crate) fn unassigned(&self) -> Self {
        Self { assigned: Vec::new(), ..self.clone() }
    }

    /// Whether the statement has assigned a column already.
    fn is_assigned(&self, source: usize, column: usize) -> bool {
        let name = &self.sources[source].columns[column].name;
        self.assigned.iter().any(|(known, at, _)| *at == source && known == name)
    }

    /// A column of a source under another text.
    pub(super) fn column_as(&self, source: usize, column: usize, text: String) -> Ex {
        Ex { code: Code::Sql(text), origin: None, ..self.sources[source].ex(column) }
    }
}

impl Upsert {
    /// Numbers the columns of the query that the assignments name, in the order of their first use, behind `inserted` others.
    /// Answers their places among the columns of the query's tables.
    pub(super) fn number_selected(&mut self, inserted: usize) -> Vec<usize> {
        let mut used = Vec::new();
        let late = self.values.iter_mut().filter_map(|value| match value {
            Cellish::Late(late) => Some(&mut late.inputs),
            _ => None,
        });
        for input in late.chain([&mut self.inputs]).flatten() {
            if let RowValue::Selected(index) = input {
                let known = used.iter().position(|known| known == index);
                let place = known.unwrap_or_else(|| {
                    used.push(*index);
                    used.len() - 1
                });
                *index = inserted + place;
            }
        }
        self.selected = used.len();
        used
    }
}

impl Translator<'_> {
    /// The source and column that an assignment changes.
    ///
    /// # Errors
    /// 1052 and 1054.
    pub(super) fn target_column(&self, assignment: &Assignment, sources: &[Source]) -> Res<(usize, usize)> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(errors::unsupported("assignment to a row"));
        };
        let parts: Vec<String> =
            name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.clone()).collect();
        let (column, qualifiers) = parts.split_last().ok_or_else(|| errors::syntax(name))?;
        let shown = parts.join(".");
        let mut found = None;
        for (index, source) in sources.iter().enumerate() {
            let fits = match qualifiers {
                [] => true,
                [table] => source.alias == *table,
                [schema, table] => source.alias == *table && source.schema == *schema,
                _ => false,
            };
            let position = source.columns.iter().position(|known| same_name(&known.name, column));
            if let (true, Some(position)) = (fits, position) {
                if found.is_some() {
                    return Err(errors::ambiguous_column(shown, "field list"));
                }
                found = Some((index, position));
            }
        }
        found.ok_or_else(|| errors::unknown_column(shown, "field list"))
    }

    /// The new value of an assignment; later assignments of the same statement see it.
    ///
    /// # Errors
    /// Those of the expression; 1235 for what cannot be evaluated in MariaDB's order.
    pub(super) fn assigned_value(
        &mut self,
        value: &Expr,
        scope: &mut Scope<'_>,
        source: usize,
        column: usize,
        feed: &mut FeedColumns,
    ) -> Res<Cellish> {
        let mut seen = scope.column_as(source, column, UNREADABLE.to_owned());
        if is_default(value) {
            scope.assign_behind(source, column, seen);
            return Ok(Cellish::Default);
        }
        let (binds, effects) = (self.binds.len(), self.effects);
        let ex = self.expr(value, scope)?;
        if ex.aggregate {
            return Err(errors::invalid_group_use());
        }
        if matches!(&ex.code, Code::Sql(sql) if sql.contains(UNREADABLE)) {
            self.binds.truncate(binds);
            self.effects = effects;
            let late = self.late_assignment(value, scope, source, feed)?;
            scope.assign_behind(source, column, seen);
            return Ok(Cellish::Late(Box::new(late)));
        }
        // Only where storing changes nothing can later assignments read the expression in place of the column.
        let known = &scope.sources[source].columns[column];
        let same = ex.ty.rep() == Rep::Int && known.ty.rep() == Rep::Int && known.ty.base == Base::Big;
        if same && (known.nullable || !ex.nullable) && self.effects.fresh == effects.fresh {
            seen = Ex { code: ex.code.clone(), nullable: ex.nullable, ..seen };
        }
        scope.assign_behind(source, column, seen);
        Ok(match ex.code {
            Code::Const(constant) => Cellish::Const(constant),
            Code::Sql(ref sql) => Cellish::Column(feed.push(sql.clone(), stored(&ex))),
        })
    }

    /// The value of an assignment that reads columns of its row as they are stored by then.
    fn late_assignment(
        &mut self,
        value: &Expr,
        scope: &Scope<'_>,
        source: usize,
        feed: &mut FeedColumns,
    ) -> Res<LateValue> {
        let (mut marked, mut columns) = (scope.clone(), Vec::new());
        for at in 0..scope.sources.len() {
            for column in 0..scope.sources[at].columns.len() {
                let ex = scope.own_column(at, column).ex;
                let is_assigned = at == source && scope.is_assigned(at, column);
                let marked_as = match (&ex.code, scope.sources[at].base_of(column)) {
                    (_, Some((_, position))) if is_assigned => RowValue::Stored(position),
                    (Code::Sql(text), _) if text != UNREADABLE && !text.contains(MARK) => {
                        columns.push((text.clone(), ex.clone()));
                        RowValue::Fed(columns.len() - 1)
                    }
                    _ => continue,
                };
                marked.assign(at, column, scope.column_as(at, column, marked_as.mark()));
            }
        }
        let mut late = self.late_value(value, &marked)?;
        if late.sql.contains(UNREADABLE) {
            return Err(errors::unsupported("reading what the same statement has assigned in another table"));
        }
        if late.sql["SELECT".len()..].contains("SELECT ") {
            // Other rows are written by then, and the sub-query would see them.
            return Err(errors::unsupported("a sub-query beside a column that the same statement has assigned"));
        }
        for input in &mut late.inputs {
            if let RowValue::Fed(index) = input {
                let (text, ex) = &columns[*index];
                *index = feed.place(ex, text);
            }
        }
        Ok(late)
    }

    /// An expression as a query of its own, whose columns are marks.
    fn late_value(&mut self, value: &Expr, marked: &Scope<'_>) -> Res<LateValue> {
        let (others, effects) = (std::mem::take(&mut self.binds), self.effects);
        let ex = self.expr(value, marked)?;
        if ex.aggregate {
            return Err(errors::invalid_group_use());
        }
        let text = self.text(&ex);
        let binds = std::mem::replace(&mut self.binds, others);
        if self.effects.ordered > effects.ordered {
            return Err(errors::unsupported("effects beside a column that the same statement has assigned"));
        }
        let (sql, inputs) = number_marks(&format!("SELECT {text} AS r0"), binds.len());
        Ok(LateValue { sql: sql.into(), binds, out: stored(&ex), inputs })
    }

    /// A value of VALUES or SET that names columns of its own row; `row` keeps what they mean for the next one.
    pub(super) fn value_of_row(
        &mut self,
        value: &Expr,
        to: &Destination,
        row: &mut Option<Scope<'static>>,
    ) -> Res<Cellish> {
        if row.is_none() {
            let (_, source) = self.destination_source(to);
            let columns = source.columns.len();
            // The row is the statement's own.
            let source = Source { denied: None, ..source };
            let mut scope = Scope { sources: vec![source], ..Scope::default() };
            for column in 0..columns {
                if let Some((_, position)) = scope.sources[0].base_of(column) {
                    scope.assign(0, column, scope.column_as(0, column, RowValue::Stored(position).mark()));
                }
            }
            *row = Some(scope);
        }
        let row = row.as_ref().ok_or_else(|| errors::internal("a row without columns"))?;
        Ok(Cellish::Late(Box::new(self.late_value(value, row)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_parameters_behind_the_others() {
        let sql = format!(
            "SELECT ?1 + {} + {} + {} || '\u{1}'",
            RowValue::Fed(12).mark(),
            RowValue::Stored(0).mark(),
            RowValue::Fed(12).mark()
        );
        let (sql, values) = number_marks(&sql, 1);
        assert_eq!(sql, "SELECT ?1 + ?2 + ?3 + ?2 || '\u{1}'");
        assert_eq!(values, [RowValue::Fed(12), RowValue::Stored(0)]);
    }
}
