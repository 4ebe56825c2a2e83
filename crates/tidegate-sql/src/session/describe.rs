//! What there is to know of a statement before it runs: what PREPARE of the protocol answers.

use std::rc::Rc;

use tidegate_rows::{Column, Flow, Param, QueryError, Row, Sink, SinkClosed, Summary};

use super::{Context, Core, Session, client::Over};
use crate::{
    errors,
    exec::bind::Constants,
    lexer::{self, Literals, Normalised},
    parse::{self, Statement},
    sql_mode, task,
    translate::{
        ParamKind,
        params::{Params, Text},
        plan::PlanKind,
    },
};

/// What is known of a statement before it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Number of its parameters.
    pub params: usize,
    /// The columns of its rows; none if it has no rows, or if they depend on the parameters.
    pub columns: Vec<Column>,
    /// In what it was prepared.
    pub context: Context,
}

impl Session {
    /// What there is to know of a statement; nothing of it runs.
    ///
    /// # Errors
    /// What is wrong with it whatever its parameters are: its syntax, tables and columns that are not there. A text may hold
    /// one statement: 1064 for more.
    pub async fn describe(&mut self, sql: &[u8]) -> Result<Description, QueryError> {
        let env = Rc::clone(&self.core.env);
        let core = &mut self.core;
        let _over = Over::of(&env.client);
        let described = task::run(&*env, sql, || core.describe(sql)).await;
        described.unwrap_or_else(|_| Err(errors::out_of_memory().into()))
    }
}

impl Core {
    fn describe(&mut self, sql: &[u8]) -> Result<Description, QueryError> {
        self.come_back();
        self.env.begin_statement();
        self.renew_schema();
        let mut scan = Normalised::default();
        lexer::normalise(sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(sql, error.at))?;
        if scan.text.is_empty() {
            return Err(errors::empty_query().into());
        }
        if !lexer::is_blank(sql, scan.rest, self.env.lex_mode()) {
            return Err(errors::syntax(String::from_utf8_lossy(&sql[scan.rest..])).into());
        }
        let concat = self.env.statement_mode() & sql_mode::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(sql, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        let params = scan.params;
        let columns = match &statement {
            Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                let kinds = vec![ParamKind::Null; params];
                let env = Rc::clone(&self.env);
                let constants = Constants { sql, literals: &[], params: Params::NONE, env: &env };
                match self.translate(&statement, constants, &kinds, &tokens) {
                    Ok((plan, ..)) => match &plan.kind {
                        PlanKind::Select(select) => select.columns.to_vec(),
                        PlanKind::Insert(insert) => {
                            insert.returning.as_ref().map_or_else(Vec::new, |rows| rows.returned.columns.to_vec())
                        }
                        PlanKind::Delete(delete) => {
                            delete.returning.as_ref().map_or_else(Vec::new, |rows| rows.columns.to_vec())
                        }
                        PlanKind::Update(_) => Vec::new(),
                    },
                    // What depends on the parameters is told when they are there.
                    Err(error) if params == 0 || errors::is_of_names(error.code) => return Err(error.into()),
                    Err(_) => Vec::new(),
                }
            }
            // These only read, and only their results tell what columns they have.
            Statement::Explain { .. } if params > 0 => Vec::new(),
            Statement::Show(_) | Statement::Explain { .. } => {
                let mut sink = Columns(Vec::new());
                self.run(Text { sql, params: Params::Bound(&vec![Param::Null; params]) }, &mut sink)?;
                sink.0
            }
            _ => Vec::new(),
        };
        Ok(Description { params, columns, context: self.prepared_context() })
    }
}

/// A sink that wants the columns alone.
struct Columns(Vec<Column>);

impl Sink for Columns {
    fn columns(&mut self, columns: &[Column]) {
        self.0 = columns.to_vec();
    }
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
