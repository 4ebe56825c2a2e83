//! Plans made of names: what a translation makes of a text otherwise.

use std::{fmt::Write, rc::Rc, sync::Arc};

use tidegate_rows::ServerError;

use super::{Change, Comparison, OnDuplicate, OpenTable, Request, Rows};
use crate::{
    catalog::{Column, Index, Table, same_name},
    engine::Schema,
    errors,
    exec::{
        Out, Plan, PlanKind, SelectPlan,
        rules::{Rule, rules_of},
    },
    parse::KeyKind,
    session::Core,
    translate::{
        Bind, Session, Source,
        dml::{Cellish, DeletePlan, Feed, InsertPlan, InsertRow, UpdatePlan, UpdateTarget},
    },
    value::{Rep, SqlType},
};

type Res<T> = Result<T, ServerError>;

/// An open table as it is defined now.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) schema: Arc<Schema>,
    /// The version of the schema's definitions.
    version: u64,
    pub(super) table: Arc<Table>,
    index: Index,
    /// Positions of the index's columns.
    pub(super) parts: Vec<usize>,
    /// Positions of the open columns.
    columns: Vec<usize>,
    rules: Arc<[Rule]>,
}

impl OpenTable {
    /// The table by the newest definitions.
    ///
    /// # Errors
    /// As [`Session::open_table`](crate::Session::open_table).
    pub(super) fn known(&self, core: &Core) -> Res<Rc<Known>> {
        let schema = core.schema.as_ref().ok_or_else(errors::no_database)?;
        let current = |known: &&Rc<Known>| Arc::ptr_eq(&known.schema, schema) && known.version == schema.version();
        if let Some(known) = self.known.borrow().as_ref().filter(current) {
            return Ok(Rc::clone(known));
        }
        let known = Rc::new(self.look_up(core, schema)?);
        *self.known.borrow_mut() = Some(Rc::clone(&known));
        Ok(known)
    }

    fn look_up(&self, core: &Core, schema: &Arc<Schema>) -> Res<Known> {
        // The version is read before the catalogue is: a change in between makes this outdated, never wrong.
        let version = schema.version();
        let catalog = schema.catalog()?;
        let table = catalog.table(&self.table).filter(|table| !table.is_view());
        let table = table.ok_or_else(|| errors::no_such_table(&schema.name, &self.table))?;
        let index = table.indexes.iter().find(|index| same_name(&index.name, &self.index));
        let index = index.ok_or_else(|| errors::unknown_key(&self.index, &self.table))?.clone();
        let parts: Option<Vec<usize>> = index.parts.iter().map(|part| table.position(part.column)).collect();
        let column = |name: &String| {
            let found = table.column(name);
            found.map(|(position, _)| position).ok_or_else(|| errors::unknown_column(name, "field list"))
        };
        Ok(Known {
            schema: Arc::clone(schema),
            version,
            parts: parts.ok_or_else(|| errors::internal("an index without its columns"))?,
            index,
            columns: self.columns.iter().map(column).collect::<Res<_>>()?,
            rules: rules_of(&Session::new(&core.engine, Some(schema), &core.env), table)?.into(),
            table: Arc::clone(table),
        })
    }
}

impl Known {
    /// Words that stand for all requests which this one's plan serves, in the statement cache.
    pub(super) fn words(&self, request: &Request<'_>) -> String {
        let mut words = format!("\0{} {}", self.table.id, self.index.id);
        let key = |words: &mut String, rows: &Rows<'_>| {
            let _ = write!(words, " {:?} ", rows.comparison);
            words.extend(rows.key.iter().map(|value| if is_null(value) { 'n' } else { 'v' }));
        };
        let width = match request {
            Request::Find(rows) => {
                key(&mut words, rows);
                words.push_str(" find");
                self.columns.len()
            }
            Request::Insert(values, on_duplicate) => {
                let _ = write!(words, " insert {on_duplicate:?}");
                values.len()
            }
            Request::Update(rows, changes) => {
                key(&mut words, rows);
                words.push_str(" update ");
                words.extend(changes.iter().map(|change| if matches!(change, Change::Add(_)) { '+' } else { '=' }));
                changes.len()
            }
            Request::Delete(rows) => {
                key(&mut words, rows);
                words.push_str(" delete");
                0
            }
        };
        for column in &self.columns[..width.min(self.columns.len())] {
            let _ = write!(words, " {column}");
        }
        words
    }

    /// The plan of a request.
    ///
    /// # Errors
    /// 1235 for an empty key, one that is longer than the index, or more values than open columns.
    pub(super) fn plan(&self, request: &Request<'_>) -> Res<Plan> {
        let kind = match request {
            Request::Find(rows) => PlanKind::Select(self.find(rows)?),
            Request::Insert(values, on_duplicate) => PlanKind::Insert(self.insert(values.len(), *on_duplicate)?),
            Request::Update(rows, changes) => PlanKind::Update(self.update(rows, changes)?),
            Request::Delete(rows) => PlanKind::Delete(self.delete(rows)?),
        };
        Ok(Plan {
            kind,
            home: Some(Arc::clone(&self.schema)),
            attached: Vec::new(),
            catalogs: vec![(Arc::clone(&self.schema), self.version)],
            named_to: 0,
            read_names: vec![(self.schema.name.clone(), self.table.name.clone())],
            read_states: vec![Arc::clone(&self.table.state)],
            reads_more: false,
            made_rows: Vec::new().into(),
            locks_rows: false,
        })
    }

    fn column(&self, index: usize) -> &Column {
        &self.table.columns[self.columns[index]]
    }

    fn find(&self, rows: &Rows<'_>) -> Res<SelectPlan> {
        let columns = self.columns.iter().map(|&position| &self.table.columns[position]);
        let names: Vec<String> = columns.clone().map(|column| format!("c{}", column.id)).collect();
        // A row without columns is a row all the same.
        let names = if names.is_empty() { "1".to_owned() } else { names.join(", ") };
        let described = columns.clone().map(|column| {
            let mut described = column.ty.describe(column.name.as_bytes(), !column.nullable);
            described.schema = self.schema.name.as_bytes().into();
            described.table = self.table.name.as_bytes().into();
            described.org_table = self.table.name.as_bytes().into();
            described.org_name = column.name.as_bytes().into();
            described
        });
        Ok(SelectPlan {
            sql: format!("SELECT {names}{}", self.tail(rows)?),
            columns: described.collect(),
            outs: columns.map(|column| Out::of(&column.ty)).collect(),
            binds: self.binds(rows).into(),
            locking: None,
            nap: false,
            found_rows_sql: None,
        })
    }

    fn insert(&self, count: usize, on_duplicate: OnDuplicate) -> Res<InsertPlan> {
        self.check_width(count)?;
        let values = (0..count).map(|index| Cellish::Const(Source::Param(index))).collect();
        Ok(InsertPlan {
            schema: Arc::clone(&self.schema),
            table: Arc::clone(&self.table),
            columns: self.columns[..count].to_vec(),
            rows: vec![InsertRow { values, feed: None }],
            query: None,
            replace: on_duplicate == OnDuplicate::Replace,
            ignore: on_duplicate == OnDuplicate::Keep,
            on_duplicate: None,
            returning: None,
            rules: Arc::clone(&self.rules),
        })
    }

    fn update(&self, rows: &Rows<'_>, changes: &[Change<'_>]) -> Res<UpdatePlan> {
        self.check_width(changes.len())?;
        let mut binds = self.binds(rows);
        let (mut texts, mut outs) = (vec!["rowid".to_owned()], vec![Out::rowid()]);
        let mut assignments = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let column = self.column(index);
            texts.push(format!("c{}", column.id));
            outs.push(Out::of(&column.ty));
            let param = Source::Param(params_of(rows) + index);
            let (old, value) = (texts.len() - 1, Cellish::Const(param.clone()));
            let value = match change {
                Change::Set(_) => value,
                Change::Add(_) => {
                    if !column.ty.base.is_integer() {
                        return Err(errors::unsupported("adding to a column that holds no whole numbers"));
                    }
                    binds.push(Bind { source: param, rep: Rep::Int, members: None });
                    texts.push(format!("tg_add({}, c{}, ?{})", i32::from(column.ty.unsigned), column.id, binds.len()));
                    outs.push(Out::of(&if column.ty.unsigned { SqlType::ubigint() } else { SqlType::bigint() }));
                    Cellish::Column(texts.len() - 1)
                }
            };
            assignments.push((self.columns[index], old, value));
        }
        let sql = format!("SELECT {}{}", texts.join(", "), self.tail(rows)?);
        let target = UpdateTarget {
            schema: Arc::clone(&self.schema),
            table: Arc::clone(&self.table),
            rowid: 0,
            assignments,
            rules: Arc::clone(&self.rules),
        };
        Ok(UpdatePlan { targets: vec![target], feed: Feed { sql, binds, outs }, ignore: false })
    }

    fn delete(&self, rows: &Rows<'_>) -> Res<DeletePlan> {
        let sql = format!("SELECT rowid{}", self.tail(rows)?);
        Ok(DeletePlan {
            targets: vec![(Arc::clone(&self.schema), Arc::clone(&self.table), 0)],
            feed: Feed { sql, binds: self.binds(rows), outs: vec![Out::rowid()] },
            direct: false,
            ignore: false,
            returning: None,
        })
    }

    fn check_width(&self, count: usize) -> Res<()> {
        if count == 0 || count > self.columns.len() {
            return Err(errors::wrong_value_count(1));
        }
        Ok(())
    }

    /// The constants of [`tail`](Self::tail): the key, then limit and offset.
    fn binds(&self, rows: &Rows<'_>) -> Vec<Bind> {
        let bind = |index, rep| Bind { source: Source::Param(index), rep, members: None };
        let key = self.parts.iter().zip(rows.key).enumerate();
        let mut binds: Vec<Bind> =
            key.map(|(index, (part, _))| bind(index, bound_as(self.table.columns[*part].ty.rep()))).collect();
        binds.extend([bind(binds.len(), Rep::Int), bind(binds.len() + 1, Rep::Int)]);
        binds
    }

    /// FROM, WHERE, ORDER BY and LIMIT.
    fn tail(&self, rows: &Rows<'_>) -> Res<String> {
        if rows.key.is_empty() || rows.key.len() > self.parts.len() {
            return Err(errors::unsupported("a key with none or more values than its index has columns"));
        }
        let rowid = self.index.kind == KeyKind::Primary && self.table.rowid_column().is_some();
        let hint = if rowid {
            "NOT INDEXED".to_owned()
        } else {
            format!("INDEXED BY {}", self.table.physical_index(&self.index))
        };
        let parts: Vec<Part<'_>> = self.parts.iter().map(|&part| Part(&self.table.columns[part])).collect();
        let condition = condition(rows, &parts[..rows.key.len()]);
        let backwards = matches!(rows.comparison, Comparison::Less | Comparison::AtMost);
        let order = parts
            .iter()
            .zip(&self.index.parts)
            .map(|(part, known)| format!("c{}{}", part.0.id, if backwards != known.descending { " DESC" } else { "" }));
        let order: Vec<String> = order.collect();
        let count = rows.key.len();
        Ok(format!(
            " FROM t{} {hint} WHERE {condition} ORDER BY {} LIMIT ?{} OFFSET ?{}",
            self.table.id,
            order.join(", "),
            count + 1,
            count + 2
        ))
    }
}

/// How many values a request's rows have.
fn params_of(rows: &Rows<'_>) -> usize {
    rows.key.len() + 2
}

pub(super) fn is_null(value: &tidegate_rows::Value<'_>) -> bool {
    matches!(value, tidegate_rows::Value::Null)
}

/// What a stored value of a column is bound as.
fn bound_as(rep: Rep) -> Rep {
    match rep {
        Rep::Enum => Rep::Int,
        Rep::Set => Rep::Uint,
        rep => rep,
    }
}

/// A column of the index.
struct Part<'a>(&'a Column);

impl Part<'_> {
    fn equals(&self, number: usize, null: bool) -> String {
        if null { format!("c{} IS NULL", self.0.id) } else { format!("c{} = ?{number}", self.0.id) }
    }

    /// Whether the column stands behind (or in front of) the value in the index, in which NULL comes first.
    fn beyond(&self, operator: char, number: usize, null: bool) -> String {
        let id = self.0.id;
        match (operator, null) {
            ('>', true) => format!("c{id} IS NOT NULL"),
            ('<', true) => "0".to_owned(),
            ('<', false) if self.0.nullable => format!("(c{id} < ?{number} OR c{id} IS NULL)"),
            _ => format!("c{id} {operator} ?{number}"),
        }
    }
}

/// The condition that rows compare with the key in this way.
fn condition(rows: &Rows<'_>, parts: &[Part<'_>]) -> String {
    let keys = || parts.iter().zip(rows.key).enumerate().map(|(at, (part, value))| (part, at + 1, is_null(value)));
    let (operator, or_equal) = match rows.comparison {
        Comparison::Equal => {
            let equal: Vec<String> = keys().map(|(part, number, null)| part.equals(number, null)).collect();
            return equal.join(" AND ");
        }
        Comparison::Greater => ('>', false),
        Comparison::AtLeast => ('>', true),
        Comparison::Less => ('<', false),
        Comparison::AtMost => ('<', true),
    };
    let has_nulls = keys().any(|(part, _, null)| null || part.0.nullable);
    if !has_nulls {
        let names: Vec<String> = parts.iter().map(|part| format!("c{}", part.0.id)).collect();
        let values: Vec<String> = (1..=parts.len()).map(|number| format!("?{number}")).collect();
        return format!("({}) {operator}{} ({})", names.join(", "), if or_equal { "=" } else { "" }, values.join(", "));
    }
    // Beyond in the first column, or equal there and beyond in the next, and so on.
    let mut text = if or_equal { "1".to_owned() } else { "0".to_owned() };
    for (part, number, null) in keys().collect::<Vec<_>>().into_iter().rev() {
        let (equal, beyond) = (part.equals(number, null), part.beyond(operator, number, null));
        text = format!("({beyond} OR {equal} AND {text})");
    }
    match (&parts[0], &rows.key[0]) {
        // What the index can begin with.
        (part, value) if operator == '>' && !is_null(value) => format!("c{} >= ?1 AND {text}", part.0.id),
        _ => text,
    }
}
