//! Plans made of names: what a translation makes of a text otherwise.

use std::{fmt::Write, rc::Rc, sync::Arc};

use tidegate_rows::ServerError;

use super::{
    Answer, Change, Comparison, OnDuplicate, OpenTable, Otherwise, Request, Rows, Strictness,
    conditions::{Given, Part, meets, ranges, verdict},
};
use crate::{
    catalog::{Index, Table},
    column::{Column, same_name},
    errors,
    parse::KeyKind,
    schema::Schema,
    session::{Core, pool::Pool},
    temporary_name::is_hidden,
    translate::{
        Bind, Session, Source, conversion_code,
        dml::{Cellish, DeletePlan, Feed, InsertPlan, InsertRow, UpdatePlan, UpdateTarget},
        plan::{Named, Plan, PlanKind, SelectPlan},
        programs::plan_table,
        returning::Returned,
        target_table::TargetTable,
        walk::Walk,
    },
    value::{Base, Rep, SqlType, out::Out},
};

/// Room for the words of most requests.
const WORDS_BYTES: usize = 96;

type Res<T> = Result<T, ServerError>;

/// An open table as it is defined now.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) schema: Arc<Schema>,
    /// This thread's connections to it.
    pub(super) pool: Rc<Pool>,
    /// The version of the schema's definitions.
    version: u64,
    pub(super) table: Arc<Table>,
    index: Index,
    /// No two rows have the same key.
    identifies: bool,
    /// Positions of the index's columns.
    pub(super) parts: Vec<usize>,
    /// Positions of the open columns.
    columns: Vec<usize>,
    /// Positions of the columns that filters look at.
    pub(super) filters: Vec<usize>,
    strictness: Strictness,
    pub(super) target: Rc<TargetTable>,
    /// What else its triggers need, and the definitions that they were planned by.
    attached: Vec<Arc<Schema>>,
    catalogs: Vec<(Arc<Schema>, u64)>,
    /// What the words for its requests begin with.
    name: Box<str>,
    /// What they end with: the open columns.
    column_words: Box<str>,
    /// Where that ends for requests about so many columns.
    widths: Box<[usize]>,
}

impl OpenTable {
    /// The table by the newest definitions.
    ///
    /// # Errors
    /// As [`Session::open_table`](crate::Session::open_table).
    pub(super) fn known(&self, core: &Core) -> Res<Rc<Known>> {
        let current = |known: &&Rc<Known>| !known.schema.is_closed() && known.version == known.schema.version();
        if let Some(known) = self.known.borrow().as_ref().filter(current) {
            return Ok(Rc::clone(known));
        }
        let schema = core.engine.schema(&self.schema)?;
        let known = Rc::new(self.look_up(core, &schema)?);
        *self.known.borrow_mut() = Some(Rc::clone(&known));
        Ok(known)
    }

    fn look_up(&self, core: &Core, schema: &Arc<Schema>) -> Res<Known> {
        // The version is read before the catalogue is: a change in between makes this outdated, never wrong.
        let version = schema.version();
        let catalog = schema.catalog()?;
        let table = catalog.table(&self.table).filter(|table| !table.is_view() && !is_hidden(&table.name));
        let table = table.ok_or_else(|| errors::no_such_table(&schema.name, &self.table))?;
        let is_meant = |index: &&Index| index.kind.is_ordered() && same_name(&index.name, &self.index);
        let index = table.indexes.iter().find(is_meant);
        let index = index.ok_or_else(|| errors::unknown_key(&self.index, &self.table))?.clone();
        let parts: Option<Vec<usize>> = index.parts.iter().map(|part| table.position(part.column)).collect();
        let parts = parts.ok_or_else(|| errors::internal("an index without its columns"))?;
        let column = |name: &String| {
            let found = table.column(name);
            found.map(|(position, _)| position).ok_or_else(|| errors::unknown_column(name, "field list"))
        };
        let nearest = if self.strictness == Strictness::Nearest { "~" } else { "" };
        let name = format!("\0{} {}{nearest}", table.id, index.id);
        let columns = self.columns.iter().map(column).collect::<Res<Vec<_>>>()?;
        let session = Session::new(&core.engine, &core.above.library, Some(schema), &core.env);
        let target: Rc<TargetTable> = TargetTable::of(&session, schema, table)?.into();
        let (attached, catalogs) = plan_table(session, &target, version)?;
        let (mut column_words, mut widths) = (String::new(), vec![0]);
        for column in &columns {
            let _ = write!(column_words, " {column}");
            widths.push(column_words.len());
        }
        Ok(Known {
            schema: Arc::clone(schema),
            pool: Pool::of(schema),
            version,
            identifies: index.identifies_rows() && parts.iter().all(|part| !table.columns[*part].nullable),
            parts,
            index,
            columns,
            filters: self.filters.iter().map(column).collect::<Res<_>>()?,
            strictness: self.strictness,
            name: name.into(),
            column_words: column_words.into(),
            widths: widths.into(),
            target,
            attached,
            catalogs,
            table: Arc::clone(table),
        })
    }
}

impl Known {
    /// Whether both are of the same definitions of a schema.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.schema, &other.schema) && self.version == other.version
    }

    /// Words that stand for all requests which this one's plan serves, in the statement cache.
    pub(super) fn words(&self, request: &Request<'_>) -> String {
        let mut words = String::with_capacity(WORDS_BYTES);
        words.push_str(&self.name);
        let all = self.columns.len();
        let width = match request {
            Request::Find(rows) => {
                self.say_rows(&mut words, rows);
                words.push_str(" find");
                all
            }
            Request::Insert(values, on_duplicate) => {
                let _ = write!(words, " insert {on_duplicate:?}");
                values.len()
            }
            Request::Update(rows, changes, answer) => {
                self.say_rows(&mut words, rows);
                let _ = write!(words, " update {answer:?} ");
                words.extend(changes.iter().map(|change| match change {
                    Change::Keep => '.',
                    Change::Set(_) => '=',
                    Change::Add(_) => '+',
                    Change::Subtract(_) => '-',
                }));
                if *answer == Answer::OldRows { all } else { changes.len() }
            }
            Request::Delete(rows, answer) => {
                self.say_rows(&mut words, rows);
                let _ = write!(words, " delete {answer:?}");
                if *answer == Answer::OldRows { all } else { 0 }
            }
            Request::Revise(rows, _) => {
                self.say_rows(&mut words, rows);
                words.push_str(" revise");
                all
            }
        };
        words.push_str(&self.column_words[..self.widths[width.min(all)]]);
        words
    }

    fn say_rows(&self, words: &mut String, rows: &Rows<'_>) {
        words.push_str(rows.comparison.sign());
        // A key that is too long is an error of the plan.
        let knows_null = |part: usize| self.parts.get(part).is_none_or(|&column| self.knows_null(column));
        words.extend((0..rows.key.len()).map(|part| Given::of(rows, part, knows_null(part)).letter()));
        if self.finds_one(rows) {
            words.push('1');
        }
        if let Some(each) = &rows.each {
            let _ = write!(words, "@{}", each.part);
        }
        for filter in rows.filters {
            let null = if is_null(&filter.value) { "NULL" } else { "" };
            let column = self.filters.get(filter.column);
            let _ = write!(words, " {:?} {column:?} {:?} {null}", filter.otherwise, filter.test);
        }
    }

    /// The plan of a request.
    ///
    /// # Errors
    /// 1235 for an empty key, one that is longer than the index, or more values than open columns.
    pub(super) fn plan(&self, request: &Request<'_>) -> Res<Plan> {
        let kind = match request {
            Request::Find(rows) => PlanKind::Select(self.find(rows)?),
            Request::Insert(values, on_duplicate) => PlanKind::Insert(self.insert(values.len(), *on_duplicate)?),
            Request::Update(rows, changes, answer) => PlanKind::Update(self.update(rows, changes, *answer)?),
            Request::Delete(rows, answer) => PlanKind::Delete(self.delete(rows, *answer)?),
            Request::Revise(rows, _) => PlanKind::Update(self.revise(rows)?),
        };
        Ok(Plan {
            kind,
            home: Some(Arc::clone(&self.schema)),
            attached: self.attached.clone(),
            catalogs: self.catalogs.clone(),
            named_to: 0,
            read_names: vec![(self.schema.name.clone(), self.table.name.clone())],
            read_states: vec![Arc::clone(&self.table.state)],
            reads_more: false,
            calls: Box::default(),
            called: Box::default(),
            made_rows: Vec::new().into(),
            locks_rows: false,
            named: Named::Any,
        })
    }

    /// Whether NULL in a key means NULL: to whom the nearest value will do, it means zero or an empty text where there are no NULLs.
    pub(super) fn knows_null(&self, column: usize) -> bool {
        self.strictness == Strictness::Exact || self.table.columns[column].nullable
    }

    fn column(&self, index: usize) -> &Column {
        &self.table.columns[self.columns[index]]
    }

    fn find(&self, rows: &Rows<'_>) -> Res<SelectPlan> {
        let Returned { columns, outs } = self.returned();
        let mut texts = self.texts();
        if texts.is_empty() {
            // A row without columns is a row all the same.
            texts.push("1".to_owned());
        }
        let Feed { sql, binds, walk, .. } = self.feed(rows, texts, Vec::new(), Vec::new())?;
        Ok(SelectPlan {
            sql: sql.to_string(),
            columns,
            outs,
            binds: binds.into(),
            locking: None,
            nap: false,
            found_rows_sql: None,
            walk,
        })
    }

    /// The open columns as SQLite knows them.
    fn texts(&self) -> Vec<String> {
        self.columns.iter().map(|&position| format!("c{}", self.table.columns[position].id)).collect()
    }

    /// The open columns as a result has them.
    fn returned(&self) -> Returned {
        let columns = self.columns.iter().map(|&position| &self.table.columns[position]);
        Returned {
            columns: columns.clone().map(|column| described(&self.schema.name, &self.table, column)).collect(),
            outs: columns.map(|column| Out::of(&column.ty)).collect(),
        }
    }

    fn insert(&self, count: usize, on_duplicate: OnDuplicate) -> Res<InsertPlan> {
        self.check_width(count)?;
        let values = (0..count).map(|index| Cellish::Const(Source::Param(index))).collect();
        Ok(InsertPlan {
            to: Rc::clone(&self.target),
            columns: self.columns[..count].to_vec(),
            rows: vec![InsertRow { values, feed: None }],
            query: None,
            replace: on_duplicate == OnDuplicate::Replace,
            ignore: on_duplicate == OnDuplicate::Keep,
            on_duplicate: None,
            returning: None,
            load: None,
        })
    }

    fn update(&self, rows: &Rows<'_>, changes: &[Change<'_>], answer: Answer) -> Res<UpdatePlan> {
        self.check_width(changes.len())?;
        let (mut texts, mut outs) = (Vec::new(), Vec::new());
        if answer == Answer::OldRows {
            (texts, outs) = (self.texts(), self.returned().outs.into_vec());
        }
        let first = self.first_number(rows);
        let (mut binds, mut assignments, mut crosses) = (Vec::new(), Vec::new(), Vec::new());
        for (index, change) in changes.iter().enumerate() {
            let column = self.column(index);
            let param = Source::Param(params_of(rows) + index);
            let value = match change {
                Change::Keep => continue,
                Change::Set(_) => Cellish::Const(param),
                Change::Add(_) | Change::Subtract(_) => {
                    binds.push(Bind { source: param, rep: Rep::Int, members: None });
                    let (sum, crossing) = self.sum(column, change, first + binds.len() - 1);
                    crosses.extend(crossing);
                    texts.push(sum);
                    outs.push(Out::of(&if column.ty.unsigned { SqlType::ubigint() } else { SqlType::bigint() }));
                    Cellish::Column(texts.len())
                }
            };
            texts.push(format!("c{}", column.id));
            outs.push(Out::of(&column.ty));
            assignments.push((self.columns[index], texts.len(), value));
        }
        // A row without its number is left as it is.
        let rowid = match crosses.join(" OR ") {
            none if none.is_empty() => "rowid".to_owned(),
            crosses => format!("CASE WHEN {crosses} THEN NULL ELSE rowid END"),
        };
        texts.insert(0, rowid);
        outs.insert(0, Out::rowid());
        let returning = (answer == Answer::OldRows).then(|| Arc::new(self.returned()));
        let feed = self.feed(rows, texts, outs, binds)?;
        Ok(UpdatePlan { targets: vec![self.target(assignments)], feed, ignore: false, returning, revised: None })
    }

    fn target(&self, assignments: Vec<(usize, usize, Cellish)>) -> UpdateTarget {
        UpdateTarget { to: Rc::clone(&self.target), rowid: 0, assignments }
    }

    /// A sum or a difference of a column and parameter `number`; and when a difference has another sign than the column.
    fn sum(&self, column: &Column, change: &Change<'_>, number: usize) -> (String, Option<String>) {
        let is_integer = column.ty.base.is_integer();
        let old = if is_integer {
            format!("c{}", column.id)
        } else {
            let code = conversion_code(column.ty.rep(), Rep::Int);
            let number = format!("tg_cv_lenient(c{}, {code}, {}, 0, 0)", column.id, column.ty.decimals);
            // The number of a date has no time of the day.
            if column.ty.base == Base::Date { format!("({number} / 1000000)") } else { number }
        };
        let subtracts = matches!(change, Change::Subtract(_));
        let is_unsigned = is_integer && column.ty.unsigned;
        let nearest = self.strictness == Strictness::Nearest;
        let mode = i32::from(is_unsigned) + 2 * i32::from(nearest) + 4 * i32::from(subtracts);
        let crosses = subtracts.then(|| format!("tg_crosses({}, {old}, ?{number})", i32::from(is_unsigned)));
        (format!("tg_add({mode}, {old}, ?{number})"), crosses)
    }

    fn delete(&self, rows: &Rows<'_>, answer: Answer) -> Res<DeletePlan> {
        let (mut texts, mut outs) = (vec!["rowid".to_owned()], vec![Out::rowid()]);
        let returning = (answer == Answer::OldRows).then(|| Arc::new(self.returned()));
        if let Some(returned) = &returning {
            texts.extend(self.texts());
            outs.extend(returned.outs.iter().cloned());
        }
        Ok(DeletePlan {
            targets: vec![(Rc::clone(&self.target), 0)],
            feed: self.feed(rows, texts, outs, Vec::new())?,
            direct: false,
            ignore: false,
            returning,
        })
    }

    fn revise(&self, rows: &Rows<'_>) -> Res<UpdatePlan> {
        let width = self.columns.len();
        self.check_width(width)?;
        let mut texts = vec!["rowid".to_owned()];
        texts.extend(self.texts());
        let mut outs = vec![Out::rowid()];
        outs.extend(self.returned().outs);
        let assignments =
            (0..width).map(|index| (self.columns[index], index + 1, Cellish::Const(Source::Param(index))));
        Ok(UpdatePlan {
            targets: vec![self.target(assignments.collect())],
            feed: self.feed(rows, texts, outs, Vec::new())?,
            ignore: false,
            returning: None,
            revised: Some(Box::new(self.insert(width, OnDuplicate::Fail)?)),
        })
    }

    fn check_width(&self, count: usize) -> Res<()> {
        if count == 0 || count > self.columns.len() {
            return Err(errors::wrong_value_count(1));
        }
        Ok(())
    }

    /// Whether there can be one row at most, which is wanted then: nothing has to count them.
    fn finds_one(&self, rows: &Rows<'_>) -> bool {
        let is_whole_key = rows.comparison == Comparison::Equal && rows.key.len() == self.parts.len();
        self.identifies && is_whole_key && !walks(rows) && rows.limit > 0 && rows.offset == 0
    }

    /// The number of the first parameter of SQLite's behind those of [`feed`](Self::feed) itself.
    fn first_number(&self, rows: &Rows<'_>) -> usize {
        let filters = rows.filters.iter().filter(|filter| !is_null(&filter.value)).count();
        let bounds = if walks(rows) || self.finds_one(rows) { 0 } else { 2 };
        rows.key.len() + filters + bounds + 1
    }

    /// The query that finds a request's rows: these texts of them, with these constants behind its own.
    fn feed(&self, rows: &Rows<'_>, mut texts: Vec<String>, outs: Vec<Out>, more: Vec<Bind>) -> Res<Feed> {
        let count = rows.key.len();
        let each_fits = rows.each.as_ref().is_none_or(|each| each.part < count);
        if count == 0 || count > self.parts.len() || !each_fits {
            return Err(errors::unsupported("a key with none or more values than its index has columns"));
        }
        let bind = |index, rep| Bind { source: Source::Param(index), rep, members: None };
        let key = self.parts.iter().zip(rows.key).enumerate();
        let mut binds: Vec<Bind> =
            key.map(|(index, (part, _))| bind(index, bound_as(self.table.columns[*part].ty.rep()))).collect();
        let part = |&part: &usize| Part { column: &self.table.columns[part], knows_null: self.knows_null(part) };
        let parts: Vec<Part<'_>> = self.parts.iter().map(part).collect();
        let mut ranges = ranges(rows, &parts[..count]);
        let mut filters = Vec::new();
        for (index, filter) in rows.filters.iter().enumerate() {
            let position = self.filters.get(filter.column);
            let position =
                position.ok_or_else(|| errors::unsupported("a filter on a column that is not opened for it"))?;
            let column = &self.table.columns[*position];
            if !is_null(&filter.value) {
                binds.push(bind(count + 2 + index, bound_as(column.ty.rep())));
            }
            filters.push((filter.otherwise, meets(filter, column, binds.len())));
        }
        let limit = match (walks(rows), &rows.each) {
            (true, None) => String::new(),
            (true, Some(_)) => " LIMIT 1".to_owned(),
            (false, _) => {
                for (_, meets) in filters.drain(..) {
                    ranges.iter_mut().for_each(|range| *range += &format!(" AND {meets}"));
                }
                if self.finds_one(rows) {
                    String::new()
                } else {
                    binds.extend([bind(count, Rep::Int), bind(count + 1, Rep::Int)]);
                    format!(" LIMIT ?{} OFFSET ?{}", binds.len() - 1, binds.len())
                }
            }
        };
        let walk = walks(rows).then(|| {
            texts.push(verdict(filters.into_iter()));
            Walk { each: rows.each.as_ref().map(|each| each.part), limit: count }
        });
        debug_assert_eq!(binds.len() + 1, self.first_number(rows));
        binds.extend(more);
        let (texts, hint, order) = (texts.join(", "), self.hint(), self.order(rows, &parts));
        let walk_of =
            |range: &String| format!("SELECT {texts} FROM t{} {hint} WHERE {range} ORDER BY {order}", self.table.id);
        let sql = match &ranges[..] {
            [range] => walk_of(range) + &limit,
            ranges => {
                let walks: Vec<String> =
                    ranges.iter().map(|range| format!("SELECT * FROM ({})", walk_of(range))).collect();
                walks.join(" UNION ALL ") + &limit
            }
        };
        Ok(Feed { sql: sql.into(), binds, outs, walk })
    }

    /// What has SQLite use the index.
    fn hint(&self) -> String {
        if self.index.kind == KeyKind::Primary && self.table.rowid_column().is_some() {
            "NOT INDEXED".to_owned()
        } else {
            format!("INDEXED BY {}", self.table.physical_index(&self.index))
        }
    }

    fn order(&self, rows: &Rows<'_>, parts: &[Part<'_>]) -> String {
        let backwards = matches!(rows.comparison, Comparison::Less | Comparison::AtMost);
        let order = parts.iter().zip(&self.index.parts).map(|(part, known)| {
            format!("c{}{}", part.column.id, if backwards != known.descending { " DESC" } else { "" })
        });
        order.collect::<Vec<_>>().join(", ")
    }
}

/// Whether SQLite cannot say alone which rows are wanted.
fn walks(rows: &Rows<'_>) -> bool {
    rows.each.is_some() || rows.filters.iter().any(|filter| filter.otherwise == Otherwise::Stop)
}

/// A column of a table as results describe it.
pub(super) fn described(schema: &str, table: &Table, column: &Column) -> tidegate_rows::Column {
    let mut described = column.ty.describe(column.name.as_bytes(), !column.nullable);
    described.schema = schema.as_bytes().into();
    described.table = table.name.as_bytes().into();
    described.org_table = table.name.as_bytes().into();
    described.org_name = column.name.as_bytes().into();
    described
}

/// How many values a request's rows have.
fn params_of(rows: &Rows<'_>) -> usize {
    rows.key.len() + 2 + rows.filters.len()
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
