//! Which schemas and tables a query on `information_schema` is about: what is not needed is not looked up.
//!
//! `WHERE table_schema = … AND table_name = …` keeps the number of a database's tables out of the price of looking at one of them.
//! The condition stays in the query, so that this may let through too much, never too little.

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, TableFactor, TableWithJoins,
};

use super::{Code, Source, Translator, expr::unnest, params::Params, scope::Scope};
use crate::{
    dialect::SPECIAL,
    parse::to_table_name,
    value::{Rep, Val},
};

/// The conditions of a query's WHERE about the names of schemas and tables.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<Condition>);

/// A column that has one of some values.
#[derive(Debug)]
struct Condition {
    /// The alias of the table, if it is named.
    alias: Option<String>,
    part: Part,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Schema,
    Table,
}

/// What one table of FROM is about.
#[derive(Debug, Default)]
pub(crate) struct About {
    schemas: Vec<Vec<String>>,
    tables: Vec<Vec<String>>,
}

impl About {
    /// Whether a schema may have rows that are wanted.
    pub(crate) fn wants_schema(&self, name: &str) -> bool {
        self.schemas.iter().all(|values| values.iter().any(|value| may_be_equal(value, name)))
    }

    /// Whether a table may have rows that are wanted.
    pub(crate) fn wants_table(&self, name: &str) -> bool {
        self.tables.iter().all(|values| values.iter().any(|value| may_be_equal(value, name)))
    }
}

/// Whether two names are equal in some collation. Letters of other alphabets have equals that only a collation knows.
fn may_be_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_end_matches(' '), b.trim_end_matches(' '));
    !a.is_ascii() || !b.is_ascii() || a.eq_ignore_ascii_case(b)
}

impl Conditions {
    /// Those that hold for each row of a query, if a table of `information_schema` is in its FROM.
    pub(crate) fn of(select: &Select, translator: &mut Translator<'_>) -> Self {
        let mut found = Vec::new();
        let is_virtual = translator.session.inputs.virtual_schema.is_some();
        if !is_virtual && !select.from.iter().any(reads_information_schema) {
            return Self::default();
        }
        let mut open: Vec<&Expr> = select.selection.iter().collect();
        while let Some(expr) = open.pop() {
            match unnest(expr) {
                Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([&**left, &**right]),
                Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                    found.extend(condition(left, &[right], translator));
                    found.extend(condition(right, &[left], translator));
                }
                Expr::InList { expr, list, negated: false } => {
                    let list: Vec<&Expr> = list.iter().collect();
                    found.extend(condition(expr, &list, translator));
                }
                _ => {}
            }
        }
        Self(found)
    }

    /// Those about the table with an alias.
    pub(crate) fn about(&self, alias: &str) -> About {
        let of = |part| {
            let own = |condition: &&Condition| {
                condition.part == part && condition.alias.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(alias))
            };
            self.0.iter().filter(own).map(|condition| condition.values.clone()).collect()
        };
        About { schemas: of(Part::Schema), tables: of(Part::Table) }
    }
}

fn reads_information_schema(tables: &TableWithJoins) -> bool {
    std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)).any(|factor| match factor {
        TableFactor::Table { name, .. } => to_table_name(name)
            .and_then(|name| name.schema)
            .is_some_and(|schema| schema.eq_ignore_ascii_case("information_schema")),
        TableFactor::NestedJoin { table_with_joins, .. } => reads_information_schema(table_with_joins),
        _ => false,
    })
}

fn condition(column: &Expr, values: &[&Expr], translator: &mut Translator<'_>) -> Option<Condition> {
    let names = match without_binary(column) {
        Expr::Identifier(name) => std::slice::from_ref(name),
        Expr::CompoundIdentifier(names) => names.as_slice(),
        _ => return None,
    };
    let (name, before) = names.split_last()?;
    let part = match name.value.to_ascii_lowercase().as_str() {
        "table_schema" | "constraint_schema" => Part::Schema,
        "table_name" => Part::Table,
        _ => return None,
    };
    let values = values.iter().map(|value| text_of(value, translator)).collect::<Option<Vec<_>>>()?;
    Some(Condition { alias: before.last().map(|name| name.value.clone()), part, values })
}

/// The operand of BINARY, or the expression itself.
fn without_binary(expr: &Expr) -> &Expr {
    let expr = unnest(expr);
    match expr {
        Expr::Function(function) if function.name.to_string().trim_matches('`') == format!("{SPECIAL}binary") => {
            match &function.args {
                FunctionArguments::List(list) => match list.args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] => unnest(operand),
                    _ => expr,
                },
                _ => expr,
            }
        }
        _ => expr,
    }
}

/// The characters of a constant text, of a parameter or of DATABASE().
fn text_of(expr: &Expr, translator: &mut Translator<'_>) -> Option<String> {
    match unnest(expr) {
        value @ Expr::Value(_) => {
            let ex = translator.expr(value, &Scope::default()).ok()?;
            match &ex.code {
                Code::Const(Source::Param(index)) => match translator.given().value(*index)? {
                    Val::Text(text) => String::from_utf8(text.into_owned()).ok(),
                    _ => None,
                },
                _ if ex.ty.rep() == Rep::Text => translator.constant_text(&ex),
                _ => None,
            }
        }
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            let is_current = matches!(name.as_str(), "database" | "schema");
            let current = translator.session.schema.filter(|_| is_current)?;
            Some(current.name.clone())
        }
        _ => None,
    }
}

impl<'a> Translator<'a> {
    /// The values of the statement's parameters, as far as they are known: the plan serves once.
    fn given(&self) -> Params<'a> {
        self.serves_once();
        self.values
    }
}
