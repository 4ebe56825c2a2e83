//! Plans: what a statement becomes.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tidegate_rows::Column;

use super::{
    Bind, Source,
    calls::Called,
    dml::{DeletePlan, InsertPlan, UpdatePlan},
    locking::Locking,
    target_table::TargetTable,
    walk::Walk,
};
use crate::{catalog::TableState, schema::Schema, store::made_rows::MadeRows, value::out::Out};

/// A translated statement.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: PlanKind,
    /// The schema whose file it runs on; `None` for statements without tables.
    pub(crate) home: Option<Arc<Schema>>,
    /// Other schemas that must be attached.
    pub(crate) attached: Vec<Arc<Schema>>,
    /// The schemas whose catalogues the plan was made from, with their versions then.
    pub(crate) catalogs: Vec<(Arc<Schema>, u64)>,
    /// How far the statement's text names the columns of the result.
    pub(crate) named_to: usize,
    pub(crate) read_names: Vec<(String, String)>,
    /// The states of the tables and views that `read_names` names.
    pub(crate) read_states: Vec<Arc<TableState>>,
    /// The result depends on more than these tables and the settings of the session, as far as the translation tells: on the
    /// clock, on chance, on what the session has done, on tables that are made for the statement.
    pub(crate) reads_more: bool,
    /// The calls of stored functions, which SQLite's statements name by their numbers.
    pub(crate) calls: Box<[Rc<Called>]>,
    /// The tables that these functions write to.
    pub(crate) called: Box<[Rc<TargetTable>]>,
    /// Rows of `information_schema`, until the plan has served: it does so once.
    pub(crate) made_rows: RefCell<Vec<MadeRows>>,
    /// A query of the statement has FOR UPDATE or FOR SHARE.
    pub(crate) locks_rows: bool,
    /// What it reaches, by its text.
    pub(crate) named: Named,
}

/// What the text of a statement says that it reaches.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    /// A row by its number, and nothing else but what this row refers to.
    Row { table: i64, rowid: Source },
    /// Rows of VALUES.
    NewRows,
    /// Whatever it finds.
    Any,
}

/// The kinds of plans.
#[derive(Debug)]
pub(crate) enum PlanKind {
    Select(SelectPlan),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
}

impl PlanKind {
    /// The tables that it writes to, without those that triggers change.
    pub(crate) fn targets(&self) -> Vec<&Rc<TargetTable>> {
        match self {
            Self::Insert(insert) => vec![&insert.to],
            Self::Update(update) => update.targets.iter().map(|target| &target.to).collect(),
            Self::Delete(delete) => delete.targets.iter().map(|(of, _)| of).collect(),
            Self::Select(_) => Vec::new(),
        }
    }
}

/// A query with its described columns.
#[derive(Debug)]
pub(crate) struct SelectPlan {
    pub(crate) sql: String,
    pub(crate) columns: Box<[Column]>,
    pub(crate) outs: Box<[Out]>,
    pub(crate) binds: Box<[Bind]>,
    /// FOR UPDATE or FOR SHARE.
    pub(crate) locking: Option<Locking>,
    /// The query is `SELECT SLEEP(n)`: it needs no connection, and ten thousand sleepers would need as many.
    pub(crate) nap: bool,
    /// The rows without LIMIT, for SQL_CALC_FOUND_ROWS.
    pub(crate) found_rows_sql: Option<String>,
    /// What SQLite cannot say of the rows that are wanted.
    pub(crate) walk: Option<Walk>,
}
