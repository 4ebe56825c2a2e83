//! Procedures that triggers and functions call, and SET: what they must not do there, and their plans.

use std::rc::Rc;

use tidegate_rows::ServerError;

use super::{
    Res, Session,
    calls::{self, CallPlan},
    dml::Feed,
    programs::{Body, Gathered, Planned, PlannedKind},
};
use crate::parse::{
    Call, SetItem, SetValue, Span, Statement,
    program::code::{Fragment, FragmentKind},
};

/// SET in a trigger or function: what it sets, and the query of the expressions among its values.
#[derive(Debug)]
pub(crate) struct SetPlan {
    pub(crate) items: Box<[SetItem]>,
    pub(crate) given: Feed,
}

impl Body {
    /// Why a statement must not stand in a procedure that a trigger or function calls, if it must not.
    pub(super) fn refused(&self, fragment: &Fragment, statement: &Statement) -> Option<ServerError> {
        if fragment.kind != FragmentKind::Statement {
            return None;
        }
        statement.refused_beneath(if self.table.is_some() { "a trigger" } else { "a function" })
    }

    /// SET: the query of its values.
    pub(super) fn plan_set(
        &self,
        session: Session<'_>,
        fragment: &Fragment,
        items: &[SetItem],
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<Planned> {
        let spans = items.iter().filter_map(|item| match item {
            SetItem::User { value, .. } | SetItem::System { value: Some(SetValue::Expr(value)), .. } => Some(*value),
            _ => None,
        });
        let given = self.plan_values(session, fragment, spans, depth, gathered)?;
        Ok(match given.kind {
            PlannedKind::Query(feed) => {
                Planned { kind: PlannedKind::Set(SetPlan { items: items.into(), given: feed }), ..given }
            }
            _ => given,
        })
    }

    /// A query for the values of expressions that stand in a fragment; of none it gives one row all the same.
    fn plan_values(
        &self,
        session: Session<'_>,
        fragment: &Fragment,
        spans: impl Iterator<Item = Span>,
        depth: usize,
        gathered: &mut Gathered,
    ) -> Res<Planned> {
        let texts: Vec<&str> = spans.map(|(from, to)| fragment.text.get(from..to).unwrap_or_default()).collect();
        let text = if texts.is_empty() { "SELECT NULL".to_owned() } else { format!("SELECT {}", texts.join(", ")) };
        self.plan(session, &Fragment { text, kind: FragmentKind::Value, scope: fragment.scope }, depth, gathered)
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
        let head = match calls::head(&session, call, (&*self.code, fragment.scope), &self.acting, gathered) {
            Ok(head) => head,
            Err(error) => return Ok(Planned::failed(error)),
        };
        let spans = head.taken.iter().map(|index| call.arguments[*index].span);
        let planned = self.plan_values(session, fragment, spans, depth, gathered)?;
        let PlannedKind::Query(given) = planned.kind else { return Ok(planned) };
        let mut all = planned.calls.into_vec();
        all.push(Rc::clone(&head.called));
        calls::plan(session, &all, self.used(), depth + 1, gathered)?;
        let plan = CallPlan { called: head.called, given, taken: head.taken, places: head.places };
        Ok(Planned { kind: PlannedKind::Call(plan), calls: all.into(), ..planned })
    }
}
