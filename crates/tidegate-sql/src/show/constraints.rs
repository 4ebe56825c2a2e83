//! The tables of `information_schema` about constraints.

use super::tables::each_table;
use crate::{
    catalog::Table,
    identifier::quoted,
    parse::KeyKind,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator, about::About},
    value::Base,
};

fn plain(name: &str) -> &str {
    name.split('\0').next().unwrap_or(name)
}

pub(super) fn key_column_usage(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    each_table(translator, about, |schema, _, table| {
        let name_of = |id: u32| table.position(id).map_or("", |at| table.columns[at].name.as_str());
        let mut row = |constraint: &str, column: &str, number: usize, parent: Option<(&str, &str)>| {
            rows.push(vec![
                "def".into(),
                schema.into(),
                constraint.into(),
                "def".into(),
                schema.into(),
                table.name.as_str().into(),
                column.into(),
                (number as i64 + 1).into(),
                if parent.is_some() { (number as i64 + 1).into() } else { Item::Null },
                if parent.is_some() { schema.into() } else { Item::Null },
                parent.map_or(Item::Null, |(table, _)| table.into()),
                parent.map_or(Item::Null, |(_, column)| column.into()),
            ]);
        };
        for index in table.indexes.iter().filter(|index| index.kind.is_unique()) {
            for (number, part) in index.parts.iter().enumerate() {
                row(&index.name, name_of(part.column), number, None);
            }
        }
        for key in &table.foreign_keys {
            for (number, id) in key.columns.iter().enumerate() {
                row(&key.name, name_of(*id), number, Some((plain(&key.table), plain(&key.references[number]))));
            }
        }
    })?;
    Ok(rows)
}

pub(super) fn table_constraints(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    each_table(translator, about, |schema, _, table| {
        let mut row = |name: &str, kind: &str| {
            rows.push(vec![
                "def".into(),
                schema.into(),
                name.into(),
                schema.into(),
                table.name.as_str().into(),
                kind.into(),
            ]);
        };
        for index in &table.indexes {
            match index.kind {
                KeyKind::Primary => row(&index.name, "PRIMARY KEY"),
                KeyKind::Unique => row(&index.name, "UNIQUE"),
                KeyKind::Plain | KeyKind::Fulltext => {}
            }
        }
        for key in &table.foreign_keys {
            row(&key.name, "FOREIGN KEY");
        }
        for check in checks_of(table) {
            row(&check.name, "CHECK");
        }
    })?;
    Ok(rows)
}

/// A CHECK as MariaDB tells it: one that stands with its column has the column's name.
struct ShownCheck {
    name: String,
    level: &'static str,
    clause: String,
}

fn checks_of(table: &Table) -> Vec<ShownCheck> {
    let mut checks = Vec::new();
    for column in &table.columns {
        let own = table.checks.iter().find(|check| check.column == Some(column.id));
        let clause = match own {
            Some(check) => super::expression::shown(&check.text),
            None if column.ty.base == Base::Json => format!("json_valid({})", quoted(&column.name)),
            None => continue,
        };
        checks.push(ShownCheck { name: column.name.clone(), level: "Column", clause });
    }
    for check in table.checks.iter().filter(|check| check.column.is_none()) {
        let clause = super::expression::shown(&check.text);
        checks.push(ShownCheck { name: check.name.clone(), level: "Table", clause });
    }
    checks
}

pub(super) fn check_constraints(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    each_table(translator, about, |schema, _, table| {
        for check in checks_of(table) {
            rows.push(vec![
                "def".into(),
                schema.into(),
                table.name.as_str().into(),
                check.name.into(),
                check.level.into(),
                check.clause.into(),
            ]);
        }
    })?;
    Ok(rows)
}

pub(super) fn referential_constraints(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    each_table(translator, about, |schema, _, table| {
        for key in &table.foreign_keys {
            rows.push(vec![
                "def".into(),
                schema.into(),
                key.name.as_str().into(),
                "def".into(),
                schema.into(),
                "PRIMARY".into(),
                "NONE".into(),
                key.on_update.as_str().into(),
                key.on_delete.as_str().into(),
                table.name.as_str().into(),
                plain(&key.table).into(),
            ]);
        }
    })?;
    Ok(rows)
}
