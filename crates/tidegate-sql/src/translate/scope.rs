//! Names: which tables and columns an expression can see.

use std::{rc::Rc, sync::Arc};

use super::{
    Code, Coercibility, Ex, Origin, Res, Translator,
    access::Denied,
    list::{Listed, Sees},
    view::through::Through,
};
use crate::{
    accounts::Privileges,
    catalog::Table,
    column::{Column, same_name},
    errors,
    parse::{KeyKind, TableName},
    schema::{Schema, is_virtual},
    value::SqlType,
};
use tidegate_rows::ColumnFlags;

/// A table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The name that users write.
    pub(crate) alias: String,
    pub(crate) schema: String,
    /// The name in SQLite's text.
    pub(crate) sql_alias: String,
    pub(crate) columns: Vec<SourceColumn>,
    pub(crate) table: Option<Arc<Table>>,
    pub(crate) home: Option<Arc<Schema>>,
    /// The right side of a LEFT JOIN: any column may be NULL.
    pub(crate) outer: bool,
    /// It has one row at most.
    pub(crate) single: bool,
    /// The name of the row id in SQLite's text, for a base table.
    pub(crate) rowid: String,
    /// Whose rows its rows are: tables, and their row ids in SQLite's text; none for rows that are computed. `None` if that
    /// cannot be told.
    pub(crate) row_ids: Option<Vec<(i64, String)>>,
    /// What of it the session may not read; `None` if it may read all.
    pub(crate) denied: Option<Rc<Denied>>,
    /// The view that this is, in a statement that writes.
    pub(crate) through: Option<Box<Through>>,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A column of a table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct SourceColumn {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) coercibility: Coercibility,
    pub(crate) origin: Option<Origin>,
    /// Joined by USING or NATURAL: shown once, by its first table.
    pub(crate) hidden: bool,
}

/// All that one SELECT sees, and what surrounds it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'a> {
    pub(crate) sources: Vec<Source>,
    pub(crate) parent: Option<&'a Scope<'a>>,
    /// The select list, as far as it is known.
    pub(crate) list: Vec<Listed>,
    /// The columns of GROUP BY, for HAVING.
    pub(crate) groups: Vec<Listed>,
    /// What a name may mean.
    pub(crate) sees: Sees,
    /// What VALUES(column) and a row alias mean in ON DUPLICATE KEY UPDATE.
    pub(crate) new_row: Option<NewRow>,
    /// Columns that an UPDATE has assigned already, with what they are now.
    pub(crate) assigned: Vec<(String, usize, Ex)>,
    /// The tables are read in the order of the text.
    pub(crate) in_order: bool,
    /// Where unknown names are reported to be.
    pub(crate) clause: &'static str,
}

/// What a name means.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) ex: Ex,
    /// Alias of the table and name of the column, if it is one.
    pub(crate) column: Option<(String, String)>,
    /// The level of the query that knows it.
    pub(crate) level: usize,
}

impl Named {
    fn item(ex: Ex) -> Self {
        Self { ex, column: None, level: 0 }
    }
}

/// The row that INSERT could not insert: its columns as parameters.
#[derive(Debug, Clone)]
pub(crate) struct NewRow {
    pub(crate) alias: Option<String>,
    pub(crate) columns: Vec<SourceColumn>,
}

/// A common table expression.
#[derive(Debug, Clone)]
pub(crate) struct Cte {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) columns: Vec<SourceColumn>,
    /// It stands as a whole where it is referred to, since each reference gives other values.
    pub(crate) fresh: bool,
}

impl SourceColumn {
    /// A column as it stands in its table's file.
    pub(crate) fn stored(column: &Column) -> Self {
        let is_text = column.ty.base.is_character() || column.ty.base.is_binary();
        Self {
            name: column.name.clone(),
            sql: format!("c{}", column.id),
            ty: column.ty.clone().stored(),
            nullable: column.nullable,
            coercibility: if is_text { Coercibility::Column } else { Coercibility::Number },
            origin: None,
            hidden: false,
        }
    }

    fn to_ex(&self, source: &Source) -> Ex {
        Ex {
            code: Code::Sql(format!("{}.{}", source.sql_alias, self.sql)),
            ty: self.ty.clone(),
            nullable: self.nullable || source.outer,
            coercibility: self.coercibility,
            origin: self.origin.clone().map(|mut origin| {
                origin.alias.clone_from(&source.alias);
                origin
            }),
            aggregate: false,
        }
    }
}

impl Source {
    /// A table of rows that are computed, all of which may be read.
    pub(crate) fn computed(alias: String, sql_alias: String, columns: Vec<SourceColumn>) -> Self {
        Self {
            alias,
            schema: String::new(),
            sql_alias,
            columns,
            table: None,
            home: None,
            outer: false,
            single: false,
            rowid: String::new(),
            row_ids: Some(Vec::new()),
            denied: None,
            through: None,
        }
    }

    /// The row id in SQLite's text.
    pub(crate) fn rowid_text(&self) -> String {
        format!("{}.{}", self.sql_alias, self.rowid)
    }

    /// The table, by its place among those of a view, and the position there that a column has.
    pub(super) fn base_of(&self, column: usize) -> Option<(usize, usize)> {
        self.through.as_ref().map_or(Some((0, column)), |view| view.base_of(column))
    }

    /// A column as an expression.
    pub(crate) fn ex(&self, index: usize) -> Ex {
        self.columns[index].to_ex(self)
    }
}

impl Scope<'_> {
    /// Finds what the parts of a name mean, here or in what surrounds the query; `aggregating` within the arguments of an aggregate.
    ///
    /// # Errors
    /// 1052 if it could be more than one thing, 1054 if it is none.
    pub(crate) fn resolve(&self, parts: &[&str], aggregating: bool) -> Res<Named> {
        let mut found = self.own(parts, aggregating)?;
        let mut at = self;
        while let (None, Some(scope)) = (&found, at.parent) {
            found = scope.seen_from_inside(parts)?;
            at = scope;
        }
        let found = found.ok_or_else(|| errors::unknown_column(parts.join("."), self.clause_name()))?;
        Ok(Named { level: at.level(), ..found })
    }

    /// What a name means in this query itself.
    fn own(&self, parts: &[&str], aggregating: bool) -> Res<Option<Named>> {
        if self.sees == Sees::List && !aggregating {
            return Ok(self.in_having(parts)?.map(Named::item));
        }
        if let Some(column) = self.column(parts)? {
            return Ok(Some(column));
        }
        match self.sees {
            Sees::Both | Sees::List => Ok(self.behind_tables(parts, false)?.map(Named::item)),
            Sees::Tables | Sees::TablesOnly => Ok(None),
        }
    }

    /// What a name of a sub-query means in this one.
    fn seen_from_inside(&self, parts: &[&str]) -> Res<Option<Named>> {
        if let Some(column) = self.column(parts)? {
            let (Sees::List, Some((alias, name))) = (self.sees, &column.column) else { return Ok(Some(column)) };
            // HAVING must know the column as well.
            let found = self.in_having(&[alias, name])?.map(Named::item);
            return found.map(Some).ok_or_else(|| errors::unknown_column(parts.join("."), "where clause"));
        }
        match self.sees {
            Sees::Tables => Ok(None),
            Sees::TablesOnly | Sees::Both => Ok(self.behind_tables(parts, true)?.map(Named::item)),
            Sees::List => {
                if self.listed(parts)?.is_none() {
                    return Ok(self.in_having(parts)?.map(Named::item));
                }
                Ok(self.behind_tables(parts, true)?.map(Named::item))
            }
        }
    }

    /// How many queries are around this one.
    pub(super) fn level(&self) -> usize {
        self.parent.map_or(0, |parent| parent.level() + 1)
    }

    /// Whether an expression here is evaluated for each of several rows.
    pub(super) fn has_sources(&self) -> bool {
        !self.sources.is_empty() || self.parent.is_some_and(Scope::has_sources)
    }

    pub(super) fn clause_name(&self) -> &'static str {
        if self.clause.is_empty() { "field list" } else { self.clause }
    }

    /// A column of this query's tables, or of the row that INSERT could not insert.
    fn column(&self, parts: &[&str]) -> Res<Option<Named>> {
        if let Some((source, column)) = self.locate(parts)? {
            return self.readable_column(source, column).map(Some);
        }
        if let ([qualifiers @ .., name], Some(row)) = (parts, &self.new_row)
            && let ([alias], Some(known)) = (qualifiers, &row.alias)
            && *alias == known
        {
            return Ok(row.column(name).map(Named::item));
        }
        Ok(None)
    }

    /// The source and the place in it of the column that a name means.
    ///
    /// # Errors
    /// 1052 if several tables have one.
    pub(super) fn locate(&self, parts: &[&str]) -> Res<Option<(usize, usize)>> {
        let Some((name, qualifiers)) = parts.split_last() else { return Ok(None) };
        let mut found = None;
        for (index, source) in self.sources.iter().enumerate() {
            let fits = match qualifiers {
                [] => true,
                [table] => source.alias == *table,
                [schema, table] => source.alias == *table && source.schema == *schema,
                _ => false,
            };
            if !fits {
                continue;
            }
            let hits = source.columns.iter().enumerate().filter(|(_, column)| same_name(&column.name, name));
            for (column, _) in hits.filter(|(_, column)| !column.hidden || !qualifiers.is_empty()) {
                if found.is_some() {
                    return Err(errors::ambiguous_column(parts.join("."), self.clause_name()));
                }
                found = Some((index, column));
            }
        }
        Ok(found)
    }

    /// As [`own_column`](Self::own_column), if the session may read it.
    ///
    /// # Errors
    /// 1143 if not.
    pub(super) fn readable_column(&self, index: usize, column: usize) -> Res<Named> {
        self.sources[index].may_read(column)?;
        Ok(self.own_column(index, column))
    }

    /// A column of a source: what an UPDATE has assigned to it, if it has.
    pub(super) fn own_column(&self, index: usize, column: usize) -> Named {
        let source = &self.sources[index];
        let known = &source.columns[column];
        let assigned = self.assigned.iter().find(|(name, at, _)| *at == index && same_name(name, &known.name));
        let ex = assigned.map_or_else(|| known.to_ex(source), |(_, _, ex)| ex.clone());
        Named { ex, column: Some((source.alias.clone(), known.name.clone())), level: 0 }
    }

    /// The source with an alias.
    pub(crate) fn source(&self, name: &TableName) -> Option<(usize, &Source)> {
        self.sources.iter().enumerate().find(|(_, source)| {
            source.alias == name.name && name.schema.as_ref().is_none_or(|schema| *schema == source.schema)
        })
    }

    /// Whether this is ON DUPLICATE KEY UPDATE.
    pub(crate) fn has_new_values(&self) -> bool {
        self.new_row.is_some() || self.parent.is_some_and(Scope::has_new_values)
    }

    /// A column of the row that INSERT could not insert.
    pub(crate) fn new_value(&self, name: &str) -> Option<Ex> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if let Some(row) = &current.new_row {
                return row.column(name);
            }
            scope = current.parent;
        }
        None
    }
}

impl NewRow {
    fn column(&self, name: &str) -> Option<Ex> {
        let column = self.columns.iter().find(|column| same_name(&column.name, name))?;
        Some(Ex {
            code: Code::Sql(column.sql.clone()),
            ty: column.ty.clone(),
            nullable: true,
            coercibility: Coercibility::Column,
            origin: None,
            aggregate: false,
        })
    }
}

impl Translator<'_> {
    /// The schema that a name means.
    ///
    /// # Errors
    /// 1046 without a current schema, 1049 for one that does not exist.
    pub(crate) fn schema_of(&self, name: &TableName) -> Res<Arc<Schema>> {
        match &name.schema {
            Some(schema) => self.session.schema_named(schema),
            None => self.session.schema.cloned().ok_or_else(errors::no_database),
        }
    }

    /// A base table or view by its name.
    ///
    /// # Errors
    /// 1146 if there is none.
    pub(crate) fn table(&mut self, name: &TableName) -> Res<(Arc<Schema>, Arc<Table>)> {
        if let Some(schema) = name.schema.as_ref().filter(|schema| is_virtual(schema)) {
            return Err(errors::no_such_table(schema, &name.name));
        }
        let schema = match (self.schema_of(name), &name.schema) {
            // A table of a schema that is not there is not there.
            (Err(error), Some(schema)) if error.code == 1049 => return Err(errors::no_such_table(schema, &name.name)),
            (schema, _) => schema?,
        };
        let catalog = self.catalog(&schema)?;
        let hidden = self.session.temporary(&schema.name, &name.name);
        let table = catalog
            .table(hidden.as_deref().unwrap_or(&name.name))
            .ok_or_else(|| errors::no_such_table(&schema.name, &name.name))?;
        Ok((Arc::clone(&schema), Arc::clone(table)))
    }

    /// As [`table`](Self::table) for whoever may know that it is there: to others it is denied whether it exists or not.
    ///
    /// # Errors
    /// 1142, 1146.
    pub(super) fn visible_table(&mut self, name: &TableName) -> Res<(Arc<Schema>, Arc<Table>)> {
        match (self.table(name), &self.access) {
            (Err(error), Some(access)) if matches!(error.code, 1146 | 1049) => {
                let current = || self.session.schema.map_or_else(String::new, |schema| schema.name.clone());
                let schema = name.schema.clone().unwrap_or_else(current);
                let wanted = if self.writes.is_empty() { Privileges::SELECT } else { self.writes };
                Err(if access.sees_table(&schema, &name.name) {
                    error
                } else {
                    access.table_denied(&wanted.names(), &schema, &name.name)
                })
            }
            (found, _) => found,
        }
    }

    /// The sequence with a name, for one who may do that with it.
    ///
    /// # Errors
    /// 4091, 4089, 1142.
    pub(crate) fn sequence(&mut self, name: &TableName, wanted: Privileges) -> Res<(Arc<Schema>, Arc<Table>)> {
        let (schema, table) = self.visible_table(name).map_err(|error| match error.code {
            1146 => errors::unknown_sequences(&name.name),
            _ => error,
        })?;
        self.may(&schema, &table, wanted)?;
        if !table.is_sequence() {
            return Err(errors::not_a_sequence(&schema.name, crate::temporary_name::shown(&table.name)));
        }
        Ok((schema, table))
    }

    /// What a name means here: to the stored program that the text is a part of, or in its tables.
    ///
    /// # Errors
    /// 1052 and 1054.
    pub(super) fn resolve(&mut self, parts: &[&str], scope: &Scope<'_>) -> Res<Named> {
        match self.local(parts)? {
            Some(ex) => Ok(Named { ex, column: None, level: scope.level() }),
            None => scope.resolve(parts, self.aggregating > 0),
        }
    }

    /// Notes that the statement depends on a table or view.
    pub(crate) fn note_read(&mut self, schema: &Schema, table: &Table) {
        self.read_names.push((schema.name.clone(), table.name.clone()));
        self.read_states.push(Arc::clone(&table.state));
    }

    /// A base table as a source under a fresh alias, and SQLite's text of it.
    pub(crate) fn table_source(&mut self, schema: &Arc<Schema>, table: &Arc<Table>, alias: &str) -> (String, Source) {
        let prefix = self.reach(schema);
        if !self.reads.iter().any(|known| Arc::ptr_eq(known, &table.state)) {
            self.reads.push(Arc::clone(&table.state));
            self.note_read(schema, table);
        }
        let sql_alias = self.alias("a");
        let columns = table
            .columns
            .iter()
            .map(|column| SourceColumn {
                origin: Some(Origin {
                    schema: schema.name.clone(),
                    table: crate::temporary_name::shown(&table.name).to_owned(),
                    alias: alias.to_owned(),
                    column: column.name.clone(),
                    flags: column_flags(table, column.id),
                }),
                ..SourceColumn::stored(column)
            })
            .collect();
        let sql = format!("{prefix}{} AS {sql_alias}", table.physical());
        let row_ids = Some(vec![(table.id, format!("{sql_alias}.rowid"))]);
        let source = Source {
            alias: alias.to_owned(),
            schema: schema.name.clone(),
            sql_alias,
            row_ids,
            columns,
            table: Some(Arc::clone(table)),
            home: Some(Arc::clone(schema)),
            outer: false,
            single: false,
            rowid: "rowid".to_owned(),
            denied: None,
            through: None,
        };
        (sql, source)
    }
}

/// Flags that a column has by the indexes of its table.
pub(crate) fn column_flags(table: &Table, id: u32) -> u16 {
    let mut flags = 0;
    for index in &table.indexes {
        let Some(place) = index.parts.iter().position(|part| part.column == id) else { continue };
        flags |= match index.kind {
            KeyKind::Primary => ColumnFlags::PRIMARY_KEY,
            KeyKind::Unique if index.parts.len() == 1 => ColumnFlags::UNIQUE_KEY,
            _ if place == 0 => ColumnFlags::MULTIPLE_KEY,
            _ => 0,
        };
    }
    if table.columns.iter().any(|column| column.id == id && column.auto_increment) {
        flags |= ColumnFlags::AUTO_INCREMENT;
    }
    flags
}
