//! What a stored program is when its text has been read: a flat list of operations with jumps.
//!
//! Nothing in it depends on a schema: names of tables and columns stay in the texts of the statements and expressions, which
//! become plans when the program is about to run. Local variables have numbers, their *slots*, over the whole program.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    column::{Column, same_name},
    value::{Base, SqlType, collation::Collation},
};

/// Shapes of one program whose numbers are known at a time. Each is what its queries gave, which changes with definitions.
const SHAPES_MAX: usize = 16;

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
    pub(crate) records: Vec<Record>,
    /// Those of inner blocks stand behind those of outer ones.
    pub(crate) handlers: Vec<Handler>,
    /// The numbers of the last shapes.
    pub(super) shapes: Mutex<Vec<(Shape, u64)>>,
}

/// The row of a FOR loop over a cursor.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) cursor: usize,
    /// The columns that the program names, with the slots of their values.
    pub(crate) fields: Vec<(String, usize)>,
}

/// What the fields of records are, which the queries of their cursors decide: that is known when these have been planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shape {
    types: Vec<(usize, SqlType)>,
}

impl Shape {
    /// The type of a field by its slot; `None` if no query so far has given it.
    pub(crate) fn type_of(&self, slot: usize) -> Option<&SqlType> {
        self.types.iter().find(|(known, _)| *known == slot).map(|(_, ty)| ty)
    }

    /// The shape when the query of a fragment has these columns.
    pub(crate) fn with(&self, code: &Code, query: FragmentId, column: impl Fn(&str) -> Option<SqlType>) -> Self {
        let mut types = self.types.clone();
        let records = code.records.iter().filter(|record| code.cursors[record.cursor].query == query);
        for (name, slot) in records.flat_map(|record| &record.fields) {
            types.retain(|(known, _)| known != slot);
            if let Some(ty) = column(name) {
                // NULL alone has no type that a value could be kept as.
                let ty = if ty.base == Base::Null { SqlType::varchar(0, Collation::DEFAULT) } else { ty };
                types.push((*slot, ty));
            }
        }
        types.sort_by_key(|(slot, _)| *slot);
        Self { types }
    }
}

/// A number that no other program, and no other shape of one, has.
pub(crate) fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
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
    /// The record that its loop has.
    pub(crate) record: Option<usize>,
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
    /// OPEN, or the start of a FOR loop.
    Open {
        cursor: usize,
        record: Option<usize>,
    },
    Fetch {
        cursor: usize,
        places: Vec<Place>,
    },
    /// The next row of a FOR loop, which goes on `behind` it if there is none.
    FetchRecord {
        record: usize,
        behind: usize,
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

    /// The record that a scope knows by a name.
    pub(crate) fn record(&self, scope: usize, name: &str) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at.and_then(|at| self.scopes.get(at)) {
            if let Some(record) = scope.record.filter(|record| same_name(&self.records[*record].name, name)) {
                return Some(record);
            }
            at = scope.parent;
        }
        None
    }

    /// The slot of a field, if the program names it.
    pub(crate) fn field(&self, record: usize, name: &str) -> Option<usize> {
        self.records[record].fields.iter().find(|(known, _)| same_name(known, name)).map(|(_, slot)| *slot)
    }

    /// The record and the name of the field that has a slot, if one has it.
    pub(crate) fn field_at(&self, slot: usize) -> Option<(&Record, &str)> {
        self.records.iter().find_map(|record| {
            let (name, _) = record.fields.iter().find(|(_, known)| *known == slot)?;
            Some((record, name.as_str()))
        })
    }

    /// What plans of statements are told apart by that were made for a shape.
    pub(crate) fn number_of(&self, shape: &Shape) -> u64 {
        if shape.types.is_empty() {
            return self.number;
        }
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, number)) = shapes.iter().find(|(known, _)| known == shape) {
            return *number;
        }
        if shapes.len() >= SHAPES_MAX {
            shapes.remove(0);
        }
        let number = next_number();
        shapes.push((shape.clone(), number));
        number
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
    fn plans_of_another_shape_have_another_number() {
        let code = Code {
            number: next_number(),
            scopes: vec![Scope { record: Some(0), ..Scope::default() }, Scope { parent: Some(0), ..Scope::default() }],
            cursors: vec![Cursor { query: 7, params: Vec::new(), within: Range { from: 0, to: 9 } }],
            records: vec![Record { name: "r".into(), cursor: 0, fields: vec![("a".into(), 4), ("b".into(), 5)] }],
            ..Code::default()
        };
        assert_eq!((code.record(1, "R"), code.record(1, "a")), (Some(0), None));
        assert_eq!((code.field(0, "B"), code.field(0, "c")), (Some(5), None));
        let column = |wanted: &'static str, ty: SqlType| move |name: &str| (name == wanted).then(|| ty.clone());
        let none = Shape::default();
        let number = none.with(&code, 7, column("a", SqlType::bigint()));
        let text = none.with(&code, 7, column("a", SqlType::new(Base::LongText)));
        assert_eq!(number.type_of(4), Some(&SqlType::bigint()));
        assert_eq!(number.type_of(5), None, "the query has no such column");
        assert_eq!(number.with(&code, 8, column("a", SqlType::ubigint())), number, "another query");
        assert_eq!(code.number_of(&none), code.number);
        let first = code.number_of(&number);
        assert!(first != code.number && first != code.number_of(&text));
        assert_eq!(code.number_of(&number.clone()), first);
        // The oldest of too many is forgotten.
        for length in 0..SHAPES_MAX as u32 {
            code.number_of(&none.with(&code, 7, column("a", SqlType::varchar(length, Collation::DEFAULT))));
        }
        assert_ne!(code.number_of(&number), first);
        // NULL becomes something that a value can be kept as.
        assert!(none.with(&code, 7, column("b", SqlType::new(Base::Null))).type_of(5).is_some());
    }

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
