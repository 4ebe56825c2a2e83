//! What a stored program is when its text has been read: a flat list of operations with jumps.
//!
//! Nothing in it depends on a schema: names of tables and columns stay in the texts of the statements and expressions, which
//! become plans when the program is about to run. Local variables have numbers, their *slots*, over the whole program.

use crate::{
    column::{Column, same_name},
    value::SqlType,
};

/// The body of a stored program.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// What plans of its statements are told apart by; no other program has it.
    pub(crate) number: u64,
    /// The name of a function, for errors.
    pub(crate) name: String,
    /// The variable that gets what a function returns.
    pub(crate) result: Option<usize>,
    pub(crate) ops: Vec<Op>,
    /// The line of each operation, counted from 1 within the definition.
    pub(crate) lines: Vec<u32>,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) scopes: Vec<Scope>,
    /// Local variables; a slot is an index here.
    pub(crate) variables: Vec<Column>,
    pub(crate) cursors: Vec<Cursor>,
    /// Those of inner blocks stand behind those of outer ones.
    pub(crate) handlers: Vec<Handler>,
}

/// The number of a [`Fragment`].
pub(crate) type FragmentId = usize;

/// A statement, or a query that gives an expression's value.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) text: String,
    pub(crate) kind: FragmentKind,
    /// The [`Scope`] that knows its local variables.
    pub(crate) scope: usize,
}

/// What a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FragmentKind {
    /// `SELECT` and an expression.
    Value,
    /// A query.
    Query,
    /// INSERT, UPDATE, DELETE, REPLACE.
    Write,
    /// Any statement of a procedure, whose rows are the client's.
    Statement,
}

/// The local variables of a block.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) parent: Option<usize>,
    pub(crate) names: Vec<(String, usize)>,
}

/// A cursor: its query, and the operations of its block.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) query: FragmentId,
    /// The variables that OPEN gives values.
    pub(crate) params: Vec<usize>,
    pub(crate) within: Range,
}

/// Operations from one to before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Range {
    pub(crate) fn has(self, at: usize) -> bool {
        self.from <= at && at < self.to
    }
}

/// One operation.
#[derive(Debug)]
pub(crate) enum Op {
    Assign {
        to: Place,
        value: FragmentId,
    },
    /// A variable without DEFAULT: NULL whenever its block begins.
    Clear(usize),
    Jump(usize),
    /// Goes on at `to` unless the condition is true; `behind` is where the whole statement ends.
    Unless {
        condition: FragmentId,
        to: usize,
        behind: usize,
    },
    /// Goes on at the start whose number the value is, counted from 1.
    Branch {
        value: FragmentId,
        starts: Vec<usize>,
        behind: usize,
    },
    /// A statement that gives no rows.
    Run(FragmentId),
    /// SELECT … INTO
    Into {
        query: FragmentId,
        places: Vec<Place>,
    },
    Open(usize),
    Fetch {
        cursor: usize,
        places: Vec<Place>,
    },
    Close(usize),
    Signal(Box<Signal>),
    Diagnostics(Box<Diagnostics>),
    /// CASE has no branch for its value.
    NoBranch,
    /// The statement of a CONTINUE handler has ended.
    EndHandler,
    /// The last operation of a block.
    EndBlock,
    /// RETURN of a function.
    Return(FragmentId),
    /// The end of a function, which RETURN has to come before.
    NoReturn,
    End,
}

/// Where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Local(usize),
    /// A column of NEW.
    New(String),
    /// `@name`
    User(String),
}

/// SIGNAL and RESIGNAL.
#[derive(Debug)]
pub(crate) struct Signal {
    /// `None` for RESIGNAL without a condition: the one that is handled.
    pub(crate) condition: Option<Condition>,
    pub(crate) resignals: bool,
    pub(crate) message: Option<FragmentId>,
    pub(crate) number: Option<FragmentId>,
}

/// GET DIAGNOSTICS: what of the statement, or of one of its conditions.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    /// The number of the condition, counted from 1.
    pub(crate) condition: Option<FragmentId>,
    pub(crate) items: Vec<(Place, DiagnosticsItem)>,
}

/// What GET DIAGNOSTICS asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiagnosticsItem {
    /// How many conditions there are.
    Number,
    RowCount,
    State,
    Errno,
    Message,
    /// Of these nothing is known.
    Nothing,
}

/// What a handler is for, or DECLARE CONDITION names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    Number(u16),
    State([u8; 5]),
    Warning,
    NotFound,
    Exception,
}

/// A handler.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) conditions: Vec<Condition>,
    /// The operations whose conditions it handles: those of its block.
    pub(crate) within: Range,
    /// Its own operations.
    pub(crate) body: Range,
    /// How many blocks are around it.
    pub(crate) depth: usize,
    /// Where an EXIT handler goes on; a CONTINUE handler goes back.
    pub(crate) exit: Option<usize>,
}

/// How well a handler fits: the best one of a block handles the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    Class,
    State,
    Number,
}

impl Condition {
    /// How well it fits an error, or a warning of one.
    pub(crate) fn fit(&self, code: u16, state: &[u8; 5], is_warning: bool) -> Option<Fit> {
        let class = &state[..2];
        let fits = match self {
            Self::Number(number) => return (*number == code).then_some(Fit::Number),
            Self::State(known) => return (known == state).then_some(Fit::State),
            Self::Warning => is_warning && class != b"02",
            Self::NotFound => class == b"02",
            Self::Exception => !is_warning && class != b"02" && class != b"01",
        };
        fits.then_some(Fit::Class)
    }
}

impl Code {
    /// The slot of a local variable that a scope knows.
    pub(crate) fn slot(&self, scope: usize, name: &str) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at.and_then(|at| self.scopes.get(at)) {
            if let Some((_, slot)) = scope.names.iter().rev().find(|(known, _)| same_name(known, name)) {
                return Some(*slot);
            }
            at = scope.parent;
        }
        None
    }

    /// Whether a call leaves something behind besides what it returns: rows, or values of user variables.
    pub(crate) fn has_effects(&self) -> bool {
        let is_user = |place: &Place| matches!(place, Place::User(_));
        let writes = |fragment: &Fragment| {
            matches!(fragment.kind, FragmentKind::Write | FragmentKind::Statement)
                || memchr::memmem::find(fragment.text.as_bytes(), b":=").is_some()
        };
        self.fragments.iter().any(writes)
            || self.ops.iter().any(|op| match op {
                Op::Assign { to, .. } => is_user(to),
                Op::Into { places, .. } | Op::Fetch { places, .. } => places.iter().any(is_user),
                Op::Diagnostics(wanted) => wanted.items.iter().any(|(place, _)| is_user(place)),
                _ => false,
            })
    }

    /// The type of a local variable.
    pub(crate) fn type_of(&self, slot: usize) -> &SqlType {
        &self.variables[slot].ty
    }

    /// The handler of an error, or of a warning, at an operation.
    pub(crate) fn handler(&self, at: usize, code: u16, state: &[u8; 5], is_warning: bool) -> Option<usize> {
        let covers = |handler: &&(usize, &Handler)| handler.1.within.has(at);
        let fits = self.handlers.iter().enumerate().filter(|known| covers(&known)).filter_map(|(index, handler)| {
            let fit = handler.conditions.iter().filter_map(|known| known.fit(code, state, is_warning)).max()?;
            Some((handler.depth, fit, index))
        });
        fits.max_by_key(|(depth, fit, _)| (*depth, *fit)).map(|(.., index)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_handler_that_fits_best_is_chosen() {
        let handler = |conditions: &[Condition], from, to, depth| Handler {
            conditions: conditions.to_vec(),
            within: Range { from, to },
            body: Range { from: 0, to: 0 },
            depth,
            exit: None,
        };
        let code = Code {
            handlers: vec![
                handler(&[Condition::Number(1062), Condition::Exception], 0, 100, 1),
                handler(&[Condition::Exception], 10, 20, 2),
                handler(&[Condition::State(*b"23000")], 10, 20, 2),
                handler(&[Condition::NotFound], 10, 20, 2),
                handler(&[Condition::Warning], 10, 20, 2),
            ],
            ..Code::default()
        };
        assert_eq!(code.handler(15, 1062, b"23000", false), Some(2));
        assert_eq!(code.handler(15, 1146, b"42S02", false), Some(1));
        assert_eq!(code.handler(5, 1062, b"23000", false), Some(0));
        assert_eq!(code.handler(15, 1329, b"02000", false), Some(3));
        assert_eq!(code.handler(15, 1265, b"01000", true), Some(4));
        assert_eq!(code.handler(100, 1062, b"23000", false), None);
    }
}
