//! The select list as a source of names: what a name in HAVING, GROUP BY and ORDER BY means.
//!
//! The order is MariaDB's. A name that stands alone in ORDER BY is an item of the list; one in GROUP BY is too, unless a table
//! has another column of this name. Within an expression there the tables come first. HAVING sees no tables: its names are
//! columns of the group, then items of the list; only within aggregates it sees tables. What is found nowhere belongs to the
//! surrounding query. A sub-query sees the list behind the tables, but nothing of it in WHERE and ON.

use super::{
    Ex, Res,
    scope::{Named, Scope},
    select::RelColumn,
};
use crate::{column::same_name, errors};

/// An item of the select list, or a column of the group.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) ex: Ex,
    /// Alias of the table and name of the column, if it is one.
    pub(crate) column: Option<(String, String)>,
    /// Each evaluation gives another value, so that the expression must not be written twice.
    pub(crate) fresh: bool,
}

/// What names may mean where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sees {
    /// Columns of tables: WHERE, ON.
    #[default]
    Tables,
    /// The same, but sub-queries see the list as far as it goes: the select list itself.
    TablesOnly,
    /// Columns of tables, then the list: GROUP BY and ORDER BY.
    Both,
    /// The group and the list: HAVING.
    List,
}

/// How the list has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// By the name that the result's column has.
    Shown,
    /// By the name of the column that an alias hides.
    Hidden,
}

impl Listed {
    /// Whether it is the same column of the same table.
    fn is(&self, other: &Listed) -> bool {
        self.column.is_some() && self.ex.code == other.ex.code
    }

    /// The item as a column of the result.
    pub(super) fn shown(&self) -> RelColumn {
        let derived = self.column.as_ref().filter(|_| self.ex.origin.is_none()).map(|(alias, _)| alias.as_str().into());
        RelColumn { name: self.name.clone(), ex: self.ex.clone(), derived }
    }

    /// The item, where its text is repeated.
    ///
    /// # Errors
    /// 1235 if a second evaluation would give another value.
    pub(super) fn again(&self) -> Res<Ex> {
        if self.fresh {
            return Err(errors::unsupported(format!(
                "{} outside of the select list, as each evaluation gives another value; use a derived table",
                self.name
            )));
        }
        Ok(self.ex.clone())
    }
}

impl RelColumn {
    /// The column as a result describes it.
    pub(crate) fn describe(&self) -> tidegate_rows::Column {
        let mut described = self.ex.ty.describe(self.name.as_bytes(), !self.ex.nullable);
        if let Some(alias) = &self.derived {
            described.table = alias.as_bytes().into();
        }
        if let Some(origin) = &self.ex.origin {
            described.schema = origin.schema.as_bytes().into();
            described.table = origin.alias.as_bytes().into();
            described.org_table = origin.table.as_bytes().into();
            described.org_name = origin.column.as_bytes().into();
            described.flags.0 |= origin.flags;
        }
        described
    }
}

impl Scope<'_> {
    /// The item of the select list that a name means, by its position.
    ///
    /// # Errors
    /// 1052 if several columns could be meant.
    pub(super) fn listed(&self, parts: &[&str]) -> Res<Option<(usize, Match)>> {
        let Some((name, qualifiers)) = parts.split_last() else { return Ok(None) };
        let ambiguous = || errors::ambiguous_column(parts.join("."), self.clause_name());
        let (mut shown, mut hidden, mut doubtful) = (None::<usize>, None::<usize>, false);
        for (index, item) in self.list.iter().enumerate() {
            let known = |found: Option<usize>| found.is_some_and(|found| self.list[found].is(item));
            match (&item.column, qualifiers) {
                (Some((table, column)), [.., wanted]) if same_name(column, name) && table == wanted => {
                    if known(shown) {
                        continue;
                    }
                    if shown.is_some() {
                        return Err(ambiguous());
                    }
                    shown = Some(index);
                }
                (Some(_), []) if same_name(&item.name, name) => {
                    if known(shown) {
                        continue;
                    }
                    if shown.is_some() {
                        return Err(ambiguous());
                    }
                    shown = Some(index);
                }
                (Some((_, column)), []) if same_name(column, name) => {
                    if known(hidden) {
                        continue;
                    }
                    doubtful = hidden.is_some();
                    hidden = Some(index);
                }
                // MariaDB looks no further behind an expression of this name.
                (None, []) if same_name(&item.name, name) => {
                    shown = Some(index);
                    break;
                }
                _ => {}
            }
        }
        if shown.is_none() && doubtful {
            return Err(ambiguous());
        }
        Ok(shown.map(|index| (index, Match::Shown)).or(hidden.map(|index| (index, Match::Hidden))))
    }

    /// The column of the group that a name means.
    fn grouped(&self, parts: &[&str]) -> Res<Option<&Listed>> {
        let Some((name, qualifiers)) = parts.split_last() else { return Ok(None) };
        let mut found: Option<&Listed> = None;
        for group in &self.groups {
            let fits = match (&group.column, qualifiers) {
                (Some((table, column)), [.., wanted]) => same_name(column, name) && table == wanted,
                (Some((_, column)), []) => same_name(column, name) || same_name(&group.name, name),
                (None, []) => same_name(&group.name, name),
                _ => false,
            };
            if !fits || found.is_some_and(|found| found.is(group)) {
                continue;
            }
            if found.is_some() {
                return Err(errors::ambiguous_column(parts.join("."), self.clause_name()));
            }
            found = Some(group);
        }
        Ok(found)
    }

    /// A name in HAVING; `None` if only the surrounding query can know it.
    pub(super) fn in_having(&self, parts: &[&str]) -> Res<Option<Ex>> {
        let listed = self.listed(parts)?.map(|(index, _)| &self.list[index]);
        let found = match (self.grouped(parts)?, listed) {
            // A column of the group overshadows another item of this name.
            (Some(group), Some(item)) if group.ex.code != item.ex.code => Some(group),
            (_, Some(item)) => Some(item),
            (group, None) => group,
        };
        found.map(Listed::again).transpose()
    }

    /// An item of the list as names behind the tables see it.
    pub(super) fn behind_tables(&self, parts: &[&str], from_inside: bool) -> Res<Option<Ex>> {
        let Some((index, _)) = self.listed(parts)? else { return Ok(None) };
        let item = &self.list[index];
        if from_inside && item.ex.aggregate {
            return Err(errors::reference_to_group(&item.name));
        }
        item.again().map(Some)
    }

    /// What GROUP BY means by a name that stands alone.
    ///
    /// # Errors
    /// 1052 if several columns could be meant.
    pub(super) fn group_column(&self, parts: &[&str]) -> Res<Option<Listed>> {
        let listed = self.listed(parts)?;
        if matches!(listed, Some((_, Match::Hidden))) {
            self.locate(parts)?;
        }
        let place = match &listed {
            Some(_) => self.locate(parts).unwrap_or(None),
            None => self.locate(parts)?,
        };
        let Some((source, column)) = place else {
            return Ok(listed.map(|(index, _)| self.list[index].clone()));
        };
        let Named { ex, .. } = self.readable_column(source, column)?;
        let source = &self.sources[source];
        if let Some((index, _)) = listed
            && self.list[index].ex.code == ex.code
        {
            return Ok(Some(self.list[index].clone()));
        }
        let name = source.columns[column].name.clone();
        Ok(Some(Listed { name: name.clone(), ex, column: Some((source.alias.clone(), name)), fresh: false }))
    }
}
