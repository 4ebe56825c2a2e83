//! From a statement's tree to its plan.

use std::rc::Rc;

use tidegate_rows::QueryError;

use super::explain::{Explained, Names};
use super::{Core, Res};
use crate::{
    errors,
    exec::bind::Constants,
    lexer::{self, Literals, Normalised},
    parse::{self, Statement},
    schema::Schema,
    session::pool::Pool,
    sql_mode,
    store::conn::{Cell, Step, to_server_error},
    temporary_name::is_hidden,
    translate::{
        self, ParamKind, Translator,
        literals::{Looked, number_in_order},
        params::{Params, Text},
        plan::{Named, Plan, PlanKind, SelectPlan},
        select::Wanted,
    },
    value::out::Out,
};

/// What `SELECT SLEEP(n)` becomes.
pub(super) const NAP_SQL: &str = "SELECT f_sleep(?1) AS r0";

impl Core {
    /// Translates a statement: the plan, the literals that shaped it, whether it can serve again.
    pub(super) fn translate(
        &mut self,
        statement: &Statement,
        constants: Constants<'_>,
        kinds: &[ParamKind],
        tokens: &[sqlparser::tokenizer::TokenWithSpan],
    ) -> Res<(Plan, Looked, bool)> {
        let session = translate::Session::new(&self.engine, &self.above.library, self.schema.as_ref(), &self.env);
        let given: Vec<_> = (0..kinds.len()).map(|index| constants.params.int(index)).collect();
        let program = self.env.program();
        let mut translator = Translator::new(session, constants.sql, constants.literals, (kinds, &given), tokens);
        translator.program = program.as_ref().map(translate::local_names::Names::of_call);
        translator.values = constants.params;
        translator.late = !matches!(statement, Statement::Query(_));
        let kind = match statement {
            Statement::Query(query) => query_plan(&mut translator, query)?,
            Statement::Insert(insert) => PlanKind::Insert(translator.insert(insert)?),
            Statement::Update(update) => PlanKind::Update(translator.update(update)?),
            Statement::Delete(delete) => PlanKind::Delete(translator.delete(delete)?),
            _ => return Err(errors::internal("this statement has no plan")),
        };
        translator.check_operations()?;
        translator.plan_programs(&kind)?;
        let cacheable = translator.is_cacheable();
        let called = translate::calls::targets(&translator.calls);
        if matches!(&kind, PlanKind::Select(select) if select.locking.is_some()) && !called.is_empty() {
            return Err(errors::unsupported("FOR UPDATE in a query whose functions write"));
        }
        if matches!(kind, PlanKind::Select(_)) && translator.programs_lock_rows && called.is_empty() {
            return Err(errors::unsupported("a query whose functions lock rows and write none"));
        }
        let plan = Plan {
            named: named_of(statement, tokens, &kind, &translator),
            reads_more: !cacheable || reads_more(&kind, &translator),
            kind,
            home: translator.home,
            attached: translator.attached,
            catalogs: translator.catalogs,
            read_names: translator.read_names,
            read_states: translator.read_states,
            named_to: translator.named_to,
            made_rows: translator.made_rows.into(),
            called,
            calls: translator.calls.into(),
            locks_rows: translator.locks.found.is_some() || translator.programs_lock_rows,
        };
        Ok((plan, translator.literals.into_looked(), cacheable))
    }

    /// The lines of SQLite's plan for the statement in a part of the text.
    pub(crate) fn explain(&mut self, text: Text<'_>, from: usize, to: usize) -> Result<Vec<Explained>, QueryError> {
        let part = &text.sql[from..to];
        let mut scan = Normalised::default();
        lexer::normalise(part, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(part, error.at))?;
        let concat = self.env.statement_mode() & sql_mode::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(part, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        let constants = Constants { sql: part, literals: &[], params: text.params, env: &Rc::clone(&self.env) };
        let kinds: Vec<ParamKind> = text.params.kinds().collect();
        let (plan, ..) = self.translate(&statement, constants, &kinds, &tokens)?;
        self.may_explain(&plan)?;
        let sql = match &plan.kind {
            PlanKind::Select(select) => select.sql.as_str(),
            PlanKind::Update(update) => &update.feed.sql,
            PlanKind::Delete(delete) => &delete.feed.sql,
            PlanKind::Insert(_) => return Ok(vec![Explained::plain("INSERT")]),
        };
        let Some(home) = plan.home.as_ref().or(self.schema.as_ref()) else {
            return Ok(vec![Explained::plain("No tables used")]);
        };
        let pool = Pool::of(home);
        let mut conn = pool.take()?;
        self.attach(&mut conn, &plan)?;
        let names = Names::of(sql, home, plan.attached.iter())?;
        // SQLite explains by what the connection knows; only a step finds out that definitions or statistics have changed.
        conn.hold_snapshot().map_err(|error| to_server_error(&error))?;
        let mut lines = Vec::new();
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(|error| to_server_error(&error))?;
        while stmt.step().map_err(|error| to_server_error(&error))? == Step::Row {
            if let Cell::Text(line) = stmt.cell(3) {
                lines.push(names.explain(&String::from_utf8_lossy(line)));
            }
        }
        drop(stmt);
        pool.put(conn);
        Ok(lines)
    }

    /// A plan shows the tables that views are made of: that takes privileges on these.
    fn may_explain(&self, plan: &Plan) -> Res<()> {
        if self.env.rights().0 == 0 {
            return Ok(());
        }
        let access = self.env.access();
        let is_seen = |(schema, table): &(String, String)| is_hidden(table) || access.sees_table(schema, table);
        if plan.read_names.iter().all(is_seen) { Ok(()) } else { Err(errors::view_not_explained()) }
    }

    /// PREPARE reports what is wrong at once.
    pub(super) fn check_prepared(&mut self, sql: &[u8]) -> Res<()> {
        let concat = self.env.statement_mode() & sql_mode::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(sql, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        if !matches!(
            statement,
            Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
        ) {
            return Ok(());
        }
        let mut scan = Normalised::default();
        lexer::normalise(sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(sql, error.at))?;
        let kinds = vec![ParamKind::Null; scan.params];
        let env = Rc::clone(&self.env);
        let constants = Constants { sql, literals: &[], params: Params::NONE, env: &env };
        match self.translate(&statement, constants, &kinds, &tokens) {
            // What depends on the parameters is told when they are there.
            Err(error) if errors::is_of_names(error.code) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Plan {
    /// Whether the files have the definitions that the plan was made for. Asked behind the moment of a snapshot: if that has seen
    /// a commit of other definitions, this finds out.
    #[inline]
    pub(crate) fn is_of_the_files(&self) -> bool {
        // In this order: a change that is over by now has changed the version.
        self.catalogs.iter().all(|(schema, _)| !schema.redefinition.runs()) && self.is_current()
    }

    /// Whether it was made for definitions of before this version of a schema's.
    pub(crate) fn is_older(&self, schema: &Schema, version: u64) -> bool {
        self.catalogs.iter().any(|(known, planned)| known.id == schema.id && *planned < version)
    }

    /// Whether the schemas still look as they did when the plan was made.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.catalogs.iter().all(|(schema, version)| schema.version() == *version && !schema.is_closed())
    }
}

/// Translates a query of its own.
fn query_plan(translator: &mut Translator<'_>, query: &sqlparser::ast::Query) -> Res<PlanKind> {
    let limit = translator.session.inputs.select_limit;
    translator.outermost_limit = (limit < u64::MAX).then_some(limit.min(i64::MAX as u64));
    let rel = translator.query(query, None, Wanted::Any)?;
    let columns = rel.columns.iter().map(|column| column.describe()).collect();
    let outs = rel.columns.iter().map(|column| Out::of(&column.ex.ty)).collect();
    if rel.unlimited.is_some() && translator.effects.ordered > 0 {
        return Err(errors::unsupported("SQL_CALC_FOUND_ROWS in a query with effects"));
    }
    let (mut sql, mut binds) = (rel.sql, std::mem::take(&mut translator.binds));
    if rel.unlimited.is_none() && translator.locks.found.is_none() {
        (sql, binds) = number_in_order(sql, binds);
    }
    Ok(PlanKind::Select(SelectPlan {
        nap: translator.home.is_none() && sql == NAP_SQL,
        sql,
        columns,
        outs,
        binds: binds.into(),
        locking: translator.locks.found.take(),
        found_rows_sql: rel.unlimited,
        walk: None,
    }))
}

/// What the text of a statement says that it reaches: anything, if triggers are fired or functions called.
fn named_of(
    statement: &Statement,
    tokens: &[sqlparser::tokenizer::TokenWithSpan],
    kind: &PlanKind,
    translator: &Translator<'_>,
) -> Named {
    // A view may have other names for the columns, and conditions about other rows.
    if !translator.calls.is_empty() || kind.targets().iter().any(|to| to.has_triggers() || to.view.is_some()) {
        return Named::Any;
    }
    Named::of(statement, tokens, kind, (&translator.read_names, translator.home.as_ref()))
}

/// Whether a plan's result depends on more than tables, as far as its translation tells.
fn reads_more(kind: &PlanKind, translator: &Translator<'_>) -> bool {
    let PlanKind::Select(select) = kind else { return true };
    select.locking.is_some()
        || translator.effects.fresh > translator.calls.len()
        || translator.calls_read_more
        || !translator.made_rows.is_empty()
        || select.binds.iter().any(|bind| bind.source.is_of_session())
}
