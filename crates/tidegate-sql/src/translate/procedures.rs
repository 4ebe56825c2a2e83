//! Procedures that triggers and functions call: what they must not do there, and their plans.

use std::rc::Rc;

use tidegate_rows::ServerError;

use super::{
    Res, Session,
    calls::{self, CallPlan},
    programs::{Body, Gathered, Planned, PlannedKind},
};
use crate::{
    errors,
    parse::{
        Call, Statement,
        program::code::{Fragment, FragmentKind},
    },
};

impl Body {
    /// Why a statement must not stand in a procedure that a trigger or function calls, if it must not.
    pub(super) fn refused(&self, fragment: &Fragment, statement: &Statement) -> Option<ServerError> {
        if fragment.kind != FragmentKind::Statement {
            return None;
        }
        Some(match statement {
            Statement::Insert(insert) if insert.returning.is_none() => return None,
            Statement::Delete(delete) if delete.returning.is_none() => return None,
            Statement::Update(_) => return None,
            Statement::Query(_) | Statement::Insert(_) | Statement::Delete(_) | Statement::Show(_) => {
                errors::result_set_refused(if self.table.is_some() { "a trigger" } else { "a function" })
            }
            Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::ExecuteImmediate { .. }
            | Statement::Deallocate(_) => errors::refused_in_trigger("Dynamic SQL"),
            Statement::Begin { .. }
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::CreateDatabase { .. }
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::DropTable { .. }
            | Statement::Truncate(_)
            | Statement::AlterTable { .. }
            | Statement::RenameTable(_)
            | Statement::CreateView { .. }
            | Statement::DropView { .. }
            | Statement::AlterRoutine(_)
            | Statement::DropProgram { .. }
            | Statement::Account(_) => errors::commit_in_trigger(),
            _ => errors::unsupported("this statement in a procedure that a trigger or function calls"),
        })
    }

    /// CALL: the query of its arguments, and the body of the procedure.
    pub(super) fn plan_call(
        &self,
        session: Session<'_>,
        fragment: &Fragment,
        call: &Call,
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<Planned> {
        let failed = |error| Planned { kind: PlannedKind::Failed(error), variables: Vec::new(), calls: Box::default() };
        let head = match calls::head(&session, call, (&*self.code, fragment.scope), &self.acting, gathered) {
            Ok(head) => head,
            Err(error) => return Ok(failed(error)),
        };
        let argument = |index: &usize| {
            let (from, to) = call.arguments[*index].span;
            fragment.text.get(from..to).unwrap_or_default()
        };
        let texts: Vec<&str> = head.taken.iter().map(argument).collect();
        let (mut given, mut variables, mut all) = (None, Vec::new(), Vec::new());
        if !texts.is_empty() {
            let text = format!("SELECT {}", texts.join(", "));
            let arguments = Fragment { text, kind: FragmentKind::Value, scope: fragment.scope };
            let planned = self.plan(session, &arguments, depth, gathered)?;
            let PlannedKind::Query(feed) = planned.kind else { return Ok(planned) };
            (given, variables, all) = (Some(feed), planned.variables, planned.calls.into_vec());
        }
        all.push(Rc::clone(&head.called));
        calls::plan(session, &all, self.used(), depth + 1, gathered)?;
        let plan = CallPlan { called: head.called, given, taken: head.taken, places: head.places };
        Ok(Planned { kind: PlannedKind::Call(plan), variables, calls: all.into() })
    }
}
