//! Tables that statements write to: what their definitions decide, worked out once for each plan and not for each statement or row.
//!
//! Plans of SQL (`translate::dml`) and those of requests to open tables (`table::plans`) name their tables by a [`TargetTable`],
//! and [`Writer`](crate::exec::write::Writer) writes to nothing else. A plan is run with the definitions that it was made of
//! ([`Plan::is_current`](crate::translate::plan::Plan)), and so is what stands here.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use tidegate_rows::ServerError;

use super::{
    Session,
    programs::FiredCell,
    rules::{Rule, RuleKind, rules_of},
    view::through::Through,
};
use crate::{
    catalog::{Index, Table, TableState, references::Reference},
    coerce::Target,
    env::Env,
    errors,
    parse::KeyKind,
    schema::Schema,
    store::prepared::Text,
    value::Datum,
};

/// A table that a plan writes to.
#[derive(Debug)]
pub(crate) struct TargetTable {
    pub(crate) schema: Arc<Schema>,
    pub(crate) table: Arc<Table>,
    /// Defaults, generated columns and CHECK constraints, in the order in which they are evaluated.
    pub(crate) rules: Box<[Rule]>,
    /// The other tables that cascades may change when rows of this one are updated or deleted.
    pub(crate) reached: Box<[Arc<TableState>]>,
    /// The foreign keys that refer to this table.
    pub(crate) references: Box<[Reference]>,
    /// Its triggers, as far as the plan may fire them.
    pub(crate) triggers: FiredCell,
    /// What the statement names instead of the table.
    pub(crate) view: Option<Box<WrittenView>>,
    texts: Texts,
}

/// A view that a statement writes through.
#[derive(Debug)]
pub(crate) struct WrittenView {
    pub(crate) schema: Arc<Schema>,
    pub(crate) name: String,
    /// It does not show the AUTO_INCREMENT column.
    pub(crate) hides_auto: bool,
}

/// The texts that find and change single rows, made when a statement needs them first.
#[derive(Debug, Default)]
struct Texts {
    insert: OnceCell<Text>,
    delete: OnceCell<Text>,
    row: OnceCell<Text>,
    unique: OnceCell<Box<[UniqueKey]>>,
    /// By the columns that they set.
    updates: RefCell<Vec<(Box<[usize]>, Rc<Text>)>>,
}

/// An index that keeps rows out.
#[derive(Debug)]
pub(crate) struct UniqueKey {
    /// Its position among the table's indexes.
    pub(crate) index: usize,
    /// The positions of its columns, the values of which are the parameters of `find`.
    pub(crate) columns: Box<[usize]>,
    /// Finds the number of the row that has a key.
    pub(crate) find: Text,
}

/// Sets of columns whose UPDATE is remembered: rows of one statement differ in the generated columns that change with them.
const UPDATES_MAX: usize = 8;

impl TargetTable {
    /// A table of a schema by the newest definitions.
    ///
    /// # Errors
    /// Those of the table's expressions; storage errors.
    pub(crate) fn of(session: &Session<'_>, schema: &Arc<Schema>, table: &Arc<Table>) -> Result<Self, ServerError> {
        let rules = if table.has_rules() { rules_of(&session.within(Some(schema)), table)? } else { Vec::new() };
        let catalog = schema.catalog()?;
        Ok(Self {
            schema: Arc::clone(schema),
            table: Arc::clone(table),
            rules: rules.into(),
            reached: catalog.reached_from(table),
            references: catalog.references_to(table.id).into(),
            triggers: FiredCell::default(),
            view: None,
            texts: Texts::default(),
        })
    }

    /// The same for a statement that names a view, of whose tables it is the one with this number. Its rows are to pass `seen` too.
    pub(crate) fn through(self, view: &Through, place: usize, seen: Option<Rule>) -> Self {
        let auto = self.table.auto_column();
        let shows =
            |position| (0..view.view.columns.len()).any(|column| view.base_of(column) == Some((place, position)));
        let hides_auto = auto.is_some_and(|position| !shows(position));
        let mut rules = self.rules.into_vec();
        // MariaDB looks at the constraints behind it.
        let at = rules.iter().position(|rule| matches!(rule.kind, RuleKind::Check(_))).unwrap_or(rules.len());
        rules.splice(at..at, seen);
        let written = WrittenView { schema: Arc::clone(&view.schema), name: view.view.name.clone(), hides_auto };
        Self { rules: rules.into(), view: Some(Box::new(written)), ..self }
    }

    /// What the statement names: the table, or a view of it, with its schema.
    pub(crate) fn named(&self) -> (&Schema, &str) {
        match &self.view {
            Some(view) => (&view.schema, &view.name),
            None => (&self.schema, crate::temporary_name::shown(&self.table.name)),
        }
    }

    /// The error of a row that a rule does not let pass.
    #[cold]
    pub(crate) fn refused_by(&self, rule: &RuleKind) -> ServerError {
        match rule {
            RuleKind::Check(name) => {
                errors::check_failed(name, &self.schema.name, crate::temporary_name::shown(&self.table.name))
            }
            _ => {
                let (schema, view) = self.named();
                errors::not_seen(&schema.name, view)
            }
        }
    }

    /// Whether a plan has triggers to fire here.
    pub(crate) fn has_triggers(&self) -> bool {
        self.triggers.get().is_some_and(|triggers| !triggers.is_empty())
    }

    /// Where a value of a column goes, for its conversion and the messages about that.
    pub(crate) fn target<'t>(&'t self, column: usize, row: usize, strict: bool, env: &'t Env) -> Target<'t> {
        Target {
            schema: &self.schema.name,
            table: crate::temporary_name::shown(&self.table.name),
            view: self.view.as_ref().map(|view| (view.schema.name.as_str(), view.name.as_str())),
            column: &self.table.columns[column],
            row,
            strict,
            env,
        }
    }

    /// Inserts a row; its last parameter is the row id, NULL for the next one, where that is no column.
    pub(crate) fn insert_text(&self) -> &Text {
        self.texts.insert.get_or_init(|| {
            let mut columns: Vec<String> = self.table.columns.iter().map(|column| format!("c{}", column.id)).collect();
            if self.table.rowid_column().is_none() {
                columns.push("rowid".to_owned());
            }
            let params: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
            format!("INSERT INTO t{} ({}) VALUES ({})", self.table.id, columns.join(", "), params.join(", ")).into()
        })
    }

    /// Deletes the row of a number.
    pub(crate) fn delete_text(&self) -> &Text {
        self.texts.delete.get_or_init(|| format!("DELETE FROM t{} WHERE rowid = ?1", self.table.id).into())
    }

    /// All columns of the row of a number.
    pub(crate) fn row_text(&self) -> &Text {
        self.texts.row.get_or_init(|| {
            let columns: Vec<String> = self.table.columns.iter().map(|column| format!("c{}", column.id)).collect();
            format!("SELECT {} FROM t{} WHERE rowid = ?1", columns.join(", "), self.table.id).into()
        })
    }

    /// Sets the columns of these changes, whose number is their parameter's; behind them comes the row's number.
    pub(crate) fn update_text(&self, changes: &[(usize, Datum)]) -> Rc<Text> {
        let mut known = self.texts.updates.borrow_mut();
        let sets = |columns: &[usize]| columns.iter().eq(changes.iter().map(|(column, _)| column));
        if let Some((_, text)) = known.iter().find(|(columns, _)| sets(columns)) {
            return Rc::clone(text);
        }
        let columns: Box<[usize]> = changes.iter().map(|(column, _)| *column).collect();
        let set = |(number, column): (usize, &usize)| format!("c{} = ?{}", self.table.columns[*column].id, number + 1);
        let list: Vec<String> = columns.iter().enumerate().map(set).collect();
        let (id, last) = (self.table.id, columns.len() + 1);
        let text = Rc::new(Text::from(format!("UPDATE t{id} SET {} WHERE rowid = ?{last}", list.join(", "))));
        if known.len() < UPDATES_MAX {
            known.push((columns, Rc::clone(&text)));
        }
        text
    }

    /// The indexes that keep rows out, in the order in which MariaDB looks at them: the primary key, those without NULL, the rest.
    pub(crate) fn unique_keys(&self) -> &[UniqueKey] {
        self.texts.unique.get_or_init(|| {
            let table = &self.table;
            let unique = table.indexes.iter().enumerate().filter(|(_, index)| index.kind.is_unique());
            let mut keys: Vec<UniqueKey> = unique.map(|(at, index)| UniqueKey::of(table, at, index)).collect();
            let is_nullable = |key: &UniqueKey| key.columns.iter().any(|column| table.columns[*column].nullable);
            keys.sort_by_key(|key| {
                let index = key.index_of(table);
                (index.kind != KeyKind::Primary, table.is_hashed(index), is_nullable(key), index.is_over_prefix())
            });
            keys.into()
        })
    }
}

impl UniqueKey {
    fn of(table: &Table, at: usize, index: &Index) -> Self {
        let columns: Box<[usize]> = index.parts.iter().filter_map(|part| table.position(part.column)).collect();
        let values = index.parts.iter().zip(&columns).enumerate().map(|(number, (part, column))| {
            let value = format!("?{}", number + 1);
            part.key_sql(&table.columns[*column], &value)
        });
        let equal: Vec<String> =
            table.key_parts(index).into_iter().zip(values).map(|(key, value)| format!("{key} = {value}")).collect();
        let find = format!("SELECT rowid FROM t{} WHERE {}", table.id, equal.join(" AND ")).into();
        Self { index: at, columns, find }
    }

    /// The index itself.
    pub(crate) fn index_of<'t>(&self, table: &'t Table) -> &'t Index {
        &table.indexes[self.index]
    }
}
