//! Plans of the statements and expressions of stored programs.
//!
//! They are made together with the plan of the statement that may run the program, so that this knows all tables that it may
//! reach. What a fragment of a program cannot do (a table that is not there, a column) is kept as its error: it counts when the
//! fragment runs, if it does, and a handler may deal with it, as in MariaDB.
//!
//! What the fields of a FOR loop's record are is known when the query of its cursor is planned ([`Body::learn`]), which stands in front of
//! the loop. If that has to be planned anew and gives other types, all fragments are ([`Planned::era`]).

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use sqlparser::tokenizer::TokenWithSpan;
use tidegate_rows::ServerError;

use super::{
    Library, Session, Source, Translator,
    calls::{self, CallPlan, Called, StoredFunction},
    dml::Feed,
    local_names::Names,
    plan::PlanKind,
    procedures::SetPlan,
    select::Wanted,
    target_table::TargetTable,
    types::stored,
    variable_text,
};
use crate::{
    accounts::{Access, Privileges},
    catalog::{Table, TableState},
    column::same_name,
    env::Env,
    errors,
    lexer::Literals,
    parse::{
        self, Statement,
        program::{
            Event, Timing,
            code::{Code, Fragment, FragmentId, FragmentKind, Shape},
            kept::Kept,
            trigger::Trigger,
        },
    },
    schema::Schema,
    sql_mode,
    store::made_rows::MadeRows,
    task, temporary_name,
    value::{Base, Rep, SqlType, collation::Collation},
};

type Res<T> = Result<T, ServerError>;

/// Fragments that the plan of one statement may hold, with those of the programs that its programs run.
const FRAGMENTS_MAX: usize = 10_000;

/// Triggers that fire and functions that call each other; each level takes some kilobytes of the statement's stack.
const DEPTH_MAX: usize = 32;

/// A trigger with the plans of its body.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) event: Event,
    pub(crate) timing: Timing,
    pub(crate) body: Body,
}

/// The body of a trigger or function with the plans of its parts.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) code: Arc<Code>,
    /// The mode that it was made under, and runs in.
    pub(crate) sql_mode: u64,
    collation: Collation,
    /// The schema of the program, which is the current one for its statements.
    schema: Arc<Schema>,
    /// The table of NEW and OLD, in a trigger.
    pub(super) table: Option<Arc<Table>>,
    library: &'static Library,
    /// As whom it runs.
    pub(super) acting: Acting,
    plans: Box<[RefCell<Rc<Planned>>]>,
    /// What the fields of its records are.
    shape: RefCell<Rc<Shape>>,
    /// How often that has changed.
    era: Cell<u64>,
    /// The schema whose file the statement around it runs on, if that is any by then.
    home: Option<Arc<Schema>>,
    /// The tables that it writes to, with those of the functions that it calls.
    targets: Box<[Rc<TargetTable>]>,
    /// The tables that the statements around it use, which it must not change.
    used: Rc<[Used]>,
}

/// As whom a part of a statement runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acting {
    /// What that one may do; `None` for everything.
    pub(crate) access: Option<Rc<Access>>,
    /// What CURRENT_USER() answers, unless it is the session's.
    pub(crate) user: Option<Rc<str>>,
}

/// A table in use, by its schema and number.
type Used = (u64, i64);

/// The plan of a fragment.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) kind: PlannedKind,
    /// The user variables that it reads, as what it takes them.
    pub(super) variables: Vec<(String, SqlType)>,
    /// The functions that it calls.
    pub(super) calls: Box<[Rc<Called>]>,
    /// The columns of a query.
    pub(crate) names: Box<[String]>,
    /// Rows of `information_schema`, which SQLite's statements find while they are here.
    pub(super) _made_rows: Box<[MadeRows]>,
    /// The fields of records were these when it was made.
    pub(super) era: u64,
}

#[derive(Debug)]
pub(crate) enum PlannedKind {
    Query(Feed),
    Write(PlanKind),
    Call(CallPlan),
    Set(SetPlan),
    Failed(ServerError),
}

/// What the plan of a statement depends on, with all the programs that it may run.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) home: Option<Arc<Schema>>,
    attached: Vec<Arc<Schema>>,
    catalogs: Vec<(Arc<Schema>, u64)>,
    read_names: Vec<(String, String)>,
    read_states: Vec<Arc<TableState>>,
    serves_once: bool,
    /// The result depends on more than tables.
    reads_more: bool,
    /// A query has FOR UPDATE or FOR SHARE.
    pub(super) locks_rows: bool,
    fragments: usize,
    /// The functions that are planned already.
    pub(super) functions: Vec<Rc<StoredFunction>>,
    /// Those that are being planned, by the numbers of their schemas and their own.
    pub(super) open: Vec<(u64, i64)>,
}

/// Triggers of a table that a plan writes to; none until they were looked up.
pub(crate) type FiredCell = OnceCell<Box<[Fired]>>;

impl Translator<'_> {
    /// Plans what the triggers of the tables do that a plan writes to, and the functions that it calls.
    ///
    /// # Errors
    /// What cannot be read of them; 1449 for a definer that is gone; 1142 for one who may not use triggers.
    pub(crate) fn plan_programs(&mut self, kind: &PlanKind) -> Res<()> {
        let targets = targets_of(kind);
        let is_plain =
            |to: &&Rc<TargetTable>| to.schema.catalog().is_ok_and(|all| all.triggers_of(to.table.id).is_empty());
        if self.calls.is_empty() && targets.iter().map(|(to, _)| to).all(is_plain) {
            return Ok(());
        }
        let mut gathered = Gathered {
            home: self.home.clone(),
            attached: std::mem::take(&mut self.attached),
            catalogs: std::mem::take(&mut self.catalogs),
            read_names: std::mem::take(&mut self.read_names),
            read_states: std::mem::take(&mut self.read_states),
            ..Gathered::default()
        };
        let session = self.session;
        let used = used_by(&session, &gathered.read_names, &targets);
        let planned = plan_targets(session, &targets, &used, 0, &mut gathered);
        let planned = planned.and_then(|()| calls::plan(session, &self.calls, &used, 0, &mut gathered));
        self.home = gathered.home;
        self.attached = gathered.attached;
        self.catalogs = gathered.catalogs;
        self.read_names = gathered.read_names;
        self.read_states = gathered.read_states;
        self.calls_read_more = gathered.reads_more;
        self.programs_lock_rows = gathered.locks_rows;
        if gathered.serves_once {
            self.serves_once();
        }
        planned
    }
}

/// The triggers of a table for all that may be done to its rows, for those who write without statements. Answers the schemas that
/// they depend on.
///
/// # Errors
/// As [`Translator::plan_programs`].
pub(crate) fn plan_table(
    session: Session<'_>,
    to: &Rc<TargetTable>,
    version: u64,
) -> Res<(Vec<Arc<Schema>>, Vec<(Arc<Schema>, u64)>)> {
    let mut gathered = Gathered {
        home: Some(Arc::clone(&to.schema)),
        catalogs: vec![(Arc::clone(&to.schema), version)],
        ..Gathered::default()
    };
    let all: &[Event] = &[Event::Insert, Event::Update, Event::Delete];
    plan_targets(session, &[(to, all)], &[(to.schema.id, to.table.id)].into(), 0, &mut gathered)?;
    if gathered.serves_once {
        return Err(errors::unsupported(format!(
            "writing to {} past SQL, whose triggers read settings",
            to.table.name
        )));
    }
    Ok((gathered.attached, gathered.catalogs))
}

/// The tables that a plan writes to, and what for.
fn targets_of(kind: &PlanKind) -> Vec<(&Rc<TargetTable>, &'static [Event])> {
    match kind {
        PlanKind::Select(_) => Vec::new(),
        PlanKind::Insert(insert) => {
            let events: &[Event] = match (insert.replace, insert.on_duplicate.is_some()) {
                (true, _) => &[Event::Insert, Event::Delete],
                (false, true) => &[Event::Insert, Event::Update],
                (false, false) => &[Event::Insert],
            };
            vec![(&insert.to, events)]
        }
        PlanKind::Update(update) => update.targets.iter().map(|target| (&target.to, &[Event::Update][..])).collect(),
        PlanKind::Delete(delete) => delete.targets.iter().map(|(of, _)| (of, &[Event::Delete][..])).collect(),
    }
}

/// The tables that a statement uses.
fn used_by(session: &Session<'_>, read: &[(String, String)], targets: &[(&Rc<TargetTable>, &[Event])]) -> Rc<[Used]> {
    let number = |(schema, table): &(String, String)| {
        let schema = session.schema_named(schema).ok()?;
        let table = schema.catalog().ok()?.table(table)?.id;
        Some((schema.id, table))
    };
    let written = targets.iter().map(|(to, _)| (to.schema.id, to.table.id));
    written.chain(read.iter().filter_map(number)).collect()
}

fn plan_targets(
    session: Session<'_>,
    targets: &[(&Rc<TargetTable>, &[Event])],
    used: &Rc<[Used]>,
    depth: usize,
    gathered: &mut Gathered,
) -> Res<()> {
    for (to, events) in targets {
        if to.triggers.get().is_some() {
            continue;
        }
        gathered.depend_on(&to.schema);
        let catalog = to.schema.catalog()?;
        let mut list = Vec::new();
        for trigger in catalog.triggers_of(to.table.id) {
            let (head, code) = trigger.read()?;
            if !events.contains(&head.event) {
                continue;
            }
            if is_too_deep(depth) {
                return Err(too_deep());
            }
            let table = Some(Arc::clone(&to.table));
            let acting = Acting {
                access: access_of(&session, to, trigger)?,
                user: Some(trigger.kept.shown_definer().to_string().into()),
            };
            let mut body = Body::new(&trigger.kept, code, (&to.schema, table), session.library, acting, used);
            body.plan_all(session, depth, gathered)?;
            let fired = Fired { event: head.event, timing: head.timing, body };
            list.push(fired);
        }
        // Nobody else has looked them up meanwhile.
        let _ = to.triggers.set(list.into());
    }
    Ok(())
}

/// 1235 for programs that run each other this deeply.
pub(super) fn too_deep() -> ServerError {
    errors::unsupported("triggers and functions that run each other this deeply")
}

/// Whether programs run each other so deeply that no more may.
pub(super) fn is_too_deep(depth: usize) -> bool {
    depth >= DEPTH_MAX
}

/// What the definer of a trigger may do.
fn access_of(session: &Session<'_>, to: &TargetTable, trigger: &Trigger) -> Res<Option<Rc<Access>>> {
    let Some(name) = &trigger.kept.definer else { return Ok(None) };
    let access = session.access_of(name)?;
    if let Some(access) = &access {
        access.want_on_table(&to.schema.name, &to.table.name, Privileges::TRIGGER)?;
    }
    Ok(access)
}

impl Gathered {
    pub(super) fn depend_on(&mut self, schema: &Arc<Schema>) {
        if !self.catalogs.iter().any(|(known, _)| Arc::ptr_eq(known, schema)) {
            self.catalogs.push((Arc::clone(schema), schema.version()));
        }
    }
}

impl Body {
    /// One whose parts have no plans yet; `within` its schema, for rows of a table.
    pub(super) fn new(
        kept: &Kept,
        code: &Arc<Code>,
        within: (&Arc<Schema>, Option<Arc<Table>>),
        library: &'static Library,
        acting: Acting,
        used: &Rc<[Used]>,
    ) -> Self {
        Self {
            code: Arc::clone(code),
            sql_mode: kept.sql_mode,
            collation: kept.collation,
            schema: Arc::clone(within.0),
            table: within.1,
            library,
            acting,
            plans: Box::default(),
            shape: RefCell::default(),
            era: Cell::new(0),
            home: None,
            targets: Box::default(),
            used: Rc::clone(used),
        }
    }

    /// Plans all parts.
    ///
    /// # Errors
    /// 1235 for too many; what ends the statement.
    pub(super) fn plan_all(&mut self, session: Session<'_>, depth: usize, gathered: &mut Gathered) -> Res<()> {
        let fragments = 0..self.code.fragments.len();
        let plans = fragments.map(|index| -> Res<Planned> {
            let planned = self.plan(session, &self.code.fragments[index], depth, gathered)?;
            self.learn(index, &planned);
            Ok(planned)
        });
        let mut plans = plans.collect::<Res<Vec<_>>>()?;
        // Those of before knew of fewer records, and name none of these.
        plans.iter_mut().for_each(|planned| planned.era = self.era.get());
        let mut targets: Vec<Rc<TargetTable>> = Vec::new();
        for planned in &plans {
            if let PlannedKind::Write(kind) = &planned.kind {
                targets.extend(kind.targets().into_iter().cloned());
            }
            calls::add_targets(&planned.calls, &mut targets);
        }
        self.targets = targets.into();
        self.plans = plans.into_iter().map(|planned| RefCell::new(Rc::new(planned))).collect();
        self.home.clone_from(&gathered.home);
        Ok(())
    }

    /// Takes note of the columns of a query whose rows a record has.
    fn learn(&self, fragment: FragmentId, planned: &Planned) {
        let PlannedKind::Query(feed) = &planned.kind else { return };
        let known = Rc::clone(&self.shape.borrow());
        let shape = known.with(&self.code, fragment, |name| {
            let position = planned.names.iter().position(|known| same_name(known, name))?;
            Some(feed.outs.get(position)?.ty.clone())
        });
        if shape != *known {
            *self.shape.borrow_mut() = Rc::new(shape);
            self.era.set(self.era.get() + 1);
        }
    }

    /// The type of a field of a record, by its slot.
    pub(crate) fn field_type(&self, slot: usize) -> Option<SqlType> {
        self.shape.borrow().type_of(slot).cloned()
    }

    /// The tables that its statements write to, without those that triggers of these change in turn.
    pub(crate) fn targets(&self) -> &[Rc<TargetTable>] {
        &self.targets
    }

    /// The tables that the statements around it use.
    pub(super) fn used(&self) -> &Rc<[Used]> {
        &self.used
    }

    /// The plan of a fragment, made anew if user variables or fields of records have other types by now.
    ///
    /// # Errors
    /// Those of making it.
    pub(crate) fn planned(&self, fragment: usize, env: &Env) -> Res<Rc<Planned>> {
        let known = Rc::clone(&self.plans[fragment].borrow());
        if known.era == self.era.get() && known.variables.iter().all(|(name, ty)| variable_type(env, name) == *ty) {
            return Ok(known);
        }
        let engine = env.engine().ok_or_else(|| errors::internal("a program without its engine"))?;
        let mut gathered = Gathered { home: self.home.clone(), ..Gathered::default() };
        let session = Session::new(&engine, self.library, Some(&self.schema), env);
        let mut planned = self.plan(session, &self.code.fragments[fragment], 0, &mut gathered)?;
        self.learn(fragment, &planned);
        planned.era = self.era.get();
        let planned = Rc::new(planned);
        *self.plans[fragment].borrow_mut() = Rc::clone(&planned);
        Ok(planned)
    }

    pub(super) fn plan(
        &self,
        session: Session<'_>,
        fragment: &Fragment,
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<Planned> {
        gathered.fragments += 1;
        if gathered.fragments > FRAGMENTS_MAX {
            return Err(errors::unsupported("stored programs that run this many others"));
        }
        if task::tick() {
            return Err(errors::interrupted());
        }
        let mut session = session.within(Some(&self.schema));
        session.inputs.sql_mode = self.sql_mode;
        session.inputs.collation = self.collation;
        session.inputs.select_limit = u64::MAX;
        let concat = session.inputs.has(sql_mode::PIPES_AS_CONCAT);
        let text = fragment.text.as_bytes();
        let (statement, tokens) = parse::parse(text, 0, session.inputs.lex_mode(), concat, Literals::Inline)?;
        if let Statement::Call(call) = &statement {
            return self.plan_call(session, fragment, call, depth, gathered);
        }
        if let Some(error) = self.refused(fragment, &statement) {
            return Ok(Planned::failed(error));
        }
        if let Statement::Set(items) = &statement {
            return self.plan_set(session, fragment, items, depth, gathered);
        }
        self.plan_statement(session, fragment, (&statement, &tokens), depth, gathered)
    }

    /// A query, or a statement that writes.
    fn plan_statement(
        &self,
        session: Session<'_>,
        fragment: &Fragment,
        (statement, tokens): (&Statement, &[TokenWithSpan]),
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<Planned> {
        let shape = Rc::clone(&self.shape.borrow());
        let text = fragment.text.as_bytes();
        let mut inner = Translator::new(session, text, &[], (&[], &[]), tokens);
        inner.access.clone_from(&self.acting.access);
        inner.current_user.clone_from(&self.acting.user);
        let row = self.table.as_deref();
        inner.program = Some(Names { code: &self.code, scope: fragment.scope, shape: &shape, row, is_ahead: true });
        // What a value is assigned to decides about its warnings.
        inner.late = fragment.kind != FragmentKind::Query;
        inner.home.clone_from(&gathered.home);
        inner.attached = std::mem::take(&mut gathered.attached);
        inner.catalogs = std::mem::take(&mut gathered.catalogs);
        let mut names = Vec::new();
        let kind = kind_of(&mut inner, statement, &mut names);
        let read = std::mem::take(&mut inner.read_names);
        let variables = std::mem::take(&mut inner.program_variables);
        let called: Box<[Rc<Called>]> = std::mem::take(&mut inner.calls).into();
        (gathered.home, gathered.attached) = (inner.home.take(), std::mem::take(&mut inner.attached));
        gathered.catalogs = std::mem::take(&mut inner.catalogs);
        gathered.serves_once |= !inner.is_cacheable();
        gathered.locks_rows |= inner.locks.found.is_some();
        gathered.reads_more |= !variables.is_empty() || inner.effects.fresh > called.len() || reads_session(&kind);
        let used = match &kind {
            Ok(PlannedKind::Write(write)) => used_by(&session, &read, &targets_of(write)),
            _ => used_by(&session, &read, &[]),
        };
        let used: Rc<[Used]> = self.used.iter().chain(used.iter()).copied().collect();
        let kind = match kind {
            Ok(PlannedKind::Write(kind)) => self.plan_write(session, kind, &used, depth, gathered)?,
            Ok(kind) => kind,
            Err(error) => PlannedKind::Failed(error),
        };
        gathered.read_names.extend(read);
        gathered.read_states.append(&mut inner.read_states);
        calls::plan(session, &called, &used, depth + 1, gathered)?;
        let made_rows = std::mem::take(&mut inner.made_rows).into();
        Ok(Planned { kind, variables, calls: called, names: names.into(), _made_rows: made_rows, era: 0 })
    }

    /// A statement that writes, with the triggers that it fires in turn; `used` are its own tables too.
    fn plan_write(
        &self,
        session: Session<'_>,
        kind: PlanKind,
        used: &Rc<[Used]>,
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<PlannedKind> {
        let targets = targets_of(&kind);
        let elsewhere = |to: &TargetTable| !gathered.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, &to.schema));
        if targets.iter().any(|(to, _)| elsewhere(to)) {
            return Ok(PlannedKind::Failed(errors::unsupported("a trigger or function that writes to another schema")));
        }
        let in_use = |to: &TargetTable| self.used.contains(&(to.schema.id, to.table.id));
        if let Some((to, _)) = targets.iter().find(|(to, _)| in_use(to)) {
            let name = temporary_name::shown(&to.table.name);
            return Ok(PlannedKind::Failed(errors::table_used_by_statement(name)));
        }
        plan_targets(session, &targets, used, depth + 1, gathered)?;
        Ok(PlannedKind::Write(kind))
    }
}

impl Planned {
    /// What tells an error when it is to run.
    pub(super) fn failed(error: ServerError) -> Self {
        Self {
            kind: PlannedKind::Failed(error),
            variables: Vec::new(),
            calls: Box::default(),
            names: Box::default(),
            _made_rows: Box::default(),
            era: 0,
        }
    }
}

/// Whether a query takes constants of the session, or of its moment.
fn reads_session(kind: &Res<PlannedKind>) -> bool {
    let Ok(PlannedKind::Query(feed)) = kind else { return false };
    feed.binds.iter().any(|bind| !matches!(bind.source, Source::Local(_)) && bind.source.is_of_session())
}

/// Translates a fragment; `names` gets the columns of a query.
fn kind_of(inner: &mut Translator<'_>, statement: &Statement, names: &mut Vec<String>) -> Res<PlannedKind> {
    let kind = match statement {
        Statement::Query(query) => {
            let rel = inner.query(query, None, Wanted::Any)?;
            let outs = rel.columns.iter().map(|column| stored(&column.ex)).collect();
            let binds = std::mem::take(&mut inner.binds);
            names.extend(rel.columns.iter().map(|column| column.name.clone()));
            PlannedKind::Query(Feed { sql: rel.sql.into(), binds, outs, walk: None })
        }
        Statement::Insert(insert) => PlannedKind::Write(PlanKind::Insert(inner.insert(insert)?)),
        Statement::Update(update) => PlannedKind::Write(PlanKind::Update(inner.update(update)?)),
        Statement::Delete(delete) => PlannedKind::Write(PlanKind::Delete(inner.delete(delete)?)),
        _ => return Err(errors::unsupported("this statement in a trigger or function")),
    };
    inner.check_operations()?;
    Ok(kind)
}

/// The type of a user variable as fragments take it.
pub(crate) fn variable_type(env: &Env, name: &str) -> SqlType {
    let value = env.user_variable(name);
    match value.ty.rep() {
        _ if value.value.is_null() => SqlType::new(Base::Null),
        Rep::Text => variable_text(value.ty.collation),
        Rep::Blob => SqlType::new(Base::LongBlob),
        _ => value.ty,
    }
}
