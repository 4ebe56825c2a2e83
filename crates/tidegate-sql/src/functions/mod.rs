//! The function library.
//!
//! One file for a family; each exports `FUNCTIONS` (what users can call) and `UDFS` (helpers that only translations
//! call). Adding a function is adding an entry; adding a family is adding a file and a line in [`FAMILIES`].
//!
//! A [`Function`] says what it wants of its arguments ([`Want`]), what type it gives, and is either Rust code that SQLite calls
//! ([`Kind::Udf`]) or a rewriting at translation time ([`Kind::Macro`]). The translator converts arguments before the
//! call, so that code sees one representation only: characters as TEXT, numbers as wanted, dates packed.

pub(crate) mod abi;
mod aggregate;
mod cast;
mod clock;
mod control;
mod datetime;
mod extract;
mod fulltext;
mod hash;
mod inet;
pub(crate) mod info;
mod json;
mod json_table;
mod like;
mod math;
mod operators;
mod regexp;
mod sequence;
mod string;

use sqlparser::ast::{DuplicateTreatment, Expr, FunctionArguments};

use self::abi::{Aggregate, Scalar, Udf};
use crate::{
    errors,
    store::conn::SqliteError,
    translate::{Code, Coercibility, Ex, Res, Translator, meet, scope::Scope},
    value::{Base, Rep, SqlType, collation::Collation},
};

pub(crate) use datetime::interval;
#[cfg(test)]
pub(crate) use like::matches_like;
pub(crate) use operators::cast_val;

/// What a function wants an argument to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Characters, or bytes of a binary string.
    Text,
    /// The bytes of a text in its character set, which are what is stored for those that are parts of UTF-8.
    Bytes,
    /// A whole number.
    Int,
    Uint,
    Real,
    Datetime,
    Time,
    /// As it is.
    Any,
}

/// A function that users can call.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) kind: Kind,
}

/// How a function is done.
pub(crate) enum Kind {
    /// Rust code that SQLite calls under the name `f_` + name; the last want holds for all further arguments.
    Udf { wants: &'static [Want], ty: fn(&[Ex]) -> SqlType, udf: Udf },
    /// A rewriting.
    Macro(fn(&mut Translator<'_>, &[Ex]) -> Res<Ex>),
}

/// A family of functions.
pub(crate) struct Family {
    pub(crate) functions: &'static [Function],
    pub(crate) udfs: &'static [Udf],
    pub(crate) aggregates: &'static [Aggregate],
}

static FAMILIES: &[Family] = &[
    operators::FAMILY,
    cast::FAMILY,
    control::FAMILY,
    string::FAMILY,
    math::FAMILY,
    datetime::FAMILY,
    extract::FAMILY,
    fulltext::FAMILY,
    clock::FAMILY,
    hash::FAMILY,
    inet::FAMILY,
    info::FAMILY,
    json::FAMILY,
    like::FAMILY,
    regexp::FAMILY,
    sequence::FAMILY,
    aggregate::FAMILY,
];

/// Longest string that a function makes.
pub(crate) const RESULT_BYTES_MAX: usize = 64 << 20;

/// Arguments of a call: SQLite's own limit.
const ARGUMENTS_MAX: usize = 1000;

/// No limit to the number of arguments.
pub(crate) const MANY: usize = usize::MAX;

/// A function in Rust that gives NULL for NULL; its SQLite name must be `f_` and the name in small letters.
pub(crate) const fn udf(
    name: &'static str,
    sqlite: &'static str,
    min: usize,
    max: usize,
    wants: &'static [Want],
    ty: fn(&[Ex]) -> SqlType,
    call: Scalar,
) -> Function {
    Function { name, min, max, kind: Kind::Udf { wants, ty, udf: Udf::new(sqlite, -1, call) } }
}

/// As [`udf`], but sees NULLs.
pub(crate) const fn udf_lenient(
    name: &'static str,
    sqlite: &'static str,
    min: usize,
    max: usize,
    wants: &'static [Want],
    ty: fn(&[Ex]) -> SqlType,
    call: Scalar,
) -> Function {
    Function { name, min, max, kind: Kind::Udf { wants, ty, udf: Udf::lenient(sqlite, -1, call) } }
}

/// As [`udf_lenient`], with effects, or with a result that depends on the calls before it.
pub(crate) const fn udf_volatile(
    name: &'static str,
    sqlite: &'static str,
    min: usize,
    max: usize,
    wants: &'static [Want],
    ty: fn(&[Ex]) -> SqlType,
    call: Scalar,
) -> Function {
    Function { name, min, max, kind: Kind::Udf { wants, ty, udf: Udf::volatile(sqlite, -1, call) } }
}

/// As [`udf_lenient`], with a new result at each call.
pub(crate) const fn udf_fresh(
    name: &'static str,
    sqlite: &'static str,
    ty: fn(&[Ex]) -> SqlType,
    call: Scalar,
) -> Function {
    Function { name, min: 0, max: 0, kind: Kind::Udf { wants: &[], ty, udf: Udf::fresh(sqlite, -1, call) } }
}

/// A rewriting.
pub(crate) const fn rewrite(
    name: &'static str,
    min: usize,
    max: usize,
    f: fn(&mut Translator<'_>, &[Ex]) -> Res<Ex>,
) -> Function {
    Function { name, min, max, kind: Kind::Macro(f) }
}

/// Makes all functions known to a connection.
///
/// # Errors
/// SQLite's, when it has no memory.
pub(crate) fn register(db: *mut libsqlite3_sys::sqlite3) -> Result<(), SqliteError> {
    json_table::register(db)?;
    for family in FAMILIES {
        for udf in family.udfs {
            abi::register(db, udf)?;
        }
        for function in family.functions {
            if let Kind::Udf { udf, .. } = &function.kind {
                abi::register(db, udf)?;
            }
        }
        for aggregate in family.aggregates {
            abi::register_aggregate(db, aggregate)?;
        }
    }
    Ok(())
}

fn find(name: &str) -> Option<&'static Function> {
    FAMILIES.iter().flat_map(|family| family.functions).find(|function| function.name == name)
}

/// A call of a function by its name in capitals, with translated arguments.
///
/// # Errors
/// 1305 for an unknown function, 1582 for the wrong number of arguments, what the function says.
pub(crate) fn call(translator: &mut Translator<'_>, name: &str, args: &[Ex]) -> Res<Ex> {
    let Some(function) = find(name) else {
        let schema = translator.session.schema.map_or("", |schema| &schema.name);
        return Err(errors::unknown_function(schema, name));
    };
    if args.len() < function.min || args.len() > function.max {
        // Functions with a rule of their own in MySQL's grammar fail there.
        const GRAMMAR: [&str; 22] = [
            "ADDDATE",
            "CHAR",
            "COALESCE",
            "DATE",
            "DAY",
            "FORMAT",
            "HOUR",
            "IF",
            "INSERT",
            "LEFT",
            "MINUTE",
            "MOD",
            "MONTH",
            "REPEAT",
            "REPLACE",
            "REVERSE",
            "RIGHT",
            "SECOND",
            "SUBDATE",
            "SUBSTRING",
            "TRUNCATE",
            "WEEK",
        ];
        if GRAMMAR.contains(&name) {
            return Err(errors::syntax(")"));
        }
        return Err(errors::wrong_param_count(name));
    }
    let aggregate = args.iter().any(|arg| arg.aggregate);
    let mut ex = match &function.kind {
        Kind::Macro(f) => f(translator, args)?,
        Kind::Udf { wants, ty, udf } => {
            if udf.ordered {
                translator.effects.note_both();
            } else if !udf.pure {
                translator.effects.note_fresh();
            }
            let mut ty = ty(args);
            let mut coercibility = Coercibility::Number;
            let (mut binary, mut latin1) = (false, None);
            if ty.base.is_character() || ty.base.is_binary() {
                coercibility = Coercibility::Literal;
                let mut strings = args.iter().enumerate().filter(|(index, arg)| {
                    want(wants, *index) == Want::Text && (arg.ty.base.is_character() || arg.ty.base.is_binary())
                });
                if let Some((_, first)) = strings.next() {
                    let mut met = first.clone();
                    for (_, arg) in strings {
                        let (collation, coercibility) = meet(&met, arg, name)?;
                        met.ty.collation = collation;
                        met.coercibility = coercibility;
                    }
                    coercibility = met.coercibility;
                    binary = met.ty.collation == Collation::BINARY;
                    latin1 = Some(met.ty.collation).filter(|collation| collation.is_latin1());
                    if ty.collation == Collation::DEFAULT {
                        ty = with_collation(ty, met.ty.collation);
                    }
                }
            }
            let texts: Vec<String> = args
                .iter()
                .enumerate()
                .map(|(index, arg)| match want(wants, index) {
                    // Where one operand is a binary string all of them are.
                    Want::Text if binary => translator.wanted(arg, Want::Bytes),
                    Want::Text if latin1.is_some() => {
                        translator.meeting(arg, latin1.unwrap_or(Collation::DEFAULT), &name.to_ascii_lowercase())
                    }
                    want => translator.wanted(arg, want),
                })
                .collect();
            let nullable = !udf.strict || args.iter().any(|arg| arg.nullable);
            let counted = match udf.name {
                "f_left" | "f_right" => args.get(1),
                "f_substring" => args.get(2),
                _ => None,
            };
            if let Some(most) = counted.and_then(|ex| translator.constant_int(ex)).filter(|_| ty.base.is_character()) {
                let length = ty.length.min(u32::try_from(most.max(0)).unwrap_or(u32::MAX));
                ty = SqlType { marks: ty.marks, ..SqlType::string(length, ty.collation) };
            }
            let function = match udf.name {
                "f_upper" | "f_ucase" if ty.collation.is_latin1() => "tg_latin1_upper",
                "f_lower" | "f_lcase" if ty.collation.is_latin1() => "tg_latin1_lower",
                name => name,
            };
            let ex = Ex::sql(called(function, texts)?, ty);
            Ex { coercibility, nullable, ..ex }
        }
    };
    ex.aggregate |= aggregate;
    Ok(ex)
}

fn with_collation(ty: SqlType, collation: Collation) -> SqlType {
    if collation != Collation::BINARY {
        return SqlType { collation, ..ty };
    }
    let base = match ty.base {
        Base::Char => Base::Binary,
        Base::Varchar => Base::Varbinary,
        Base::MediumText | Base::Text | Base::TinyText => Base::MediumBlob,
        Base::LongText => Base::LongBlob,
        other => other,
    };
    SqlType { base, collation, ..ty }
}

fn want(wants: &[Want], index: usize) -> Want {
    wants.get(index).or(wants.last()).copied().unwrap_or(Want::Any)
}

impl Translator<'_> {
    /// An argument's text as a function wants it.
    pub(crate) fn wanted(&mut self, ex: &Ex, want: Want) -> String {
        match want {
            Want::Any => self.text(ex),
            Want::Text if ex.ty.rep() == Rep::Blob => self.text(ex),
            Want::Text => self.convert(ex, Rep::Text),
            Want::Bytes if ex.ty.collation.is_latin1() => self.convert(ex, Rep::Blob),
            Want::Bytes => self.wanted(ex, Want::Text),
            // What is beyond the signed range stays: the function takes it for the largest number that it knows.
            Want::Int if ex.ty.rep() == Rep::Uint => self.convert(ex, Rep::Uint),
            Want::Int => self.convert(ex, Rep::Int),
            Want::Uint => self.convert(ex, Rep::Uint),
            Want::Real => self.convert(ex, Rep::Real),
            Want::Datetime => self.convert(ex, Rep::Datetime),
            Want::Time => self.convert(ex, Rep::Time),
        }
    }
}

/// `text COLLATE name`.
///
/// # Errors
/// 1273 for an unknown collation, 1253 for one of another character set.
pub(crate) fn collate(translator: &mut Translator<'_>, ex: Ex, name: &str) -> Res<Ex> {
    let collation = Collation::by_name(name).ok_or_else(|| Collation::unknown(name))?;
    let text = ex.ty.base.is_character();
    if text && collation.charset() != ex.ty.collation.charset() {
        return Err(errors::collation_charset(name, ex.ty.collation.charset()));
    }
    let sql = translator.convert(&ex, Rep::Text);
    let ty = SqlType::varchar(ex.ty.length, collation);
    Ok(Ex { coercibility: Coercibility::Explicit, code: Code::Sql(sql), ty, origin: None, ..ex })
}

/// Whether there is a function of this name (in capitals).
pub(crate) fn exists(name: &str) -> bool {
    find(name).is_some() || datetime::is_of_intervals(name)
}

/// Whether a function is an aggregate, by its name in capitals.
pub(crate) fn is_aggregate(name: &str) -> bool {
    aggregate::is_aggregate(name)
}

/// A call as it was parsed: aggregates and window functions have clauses of their own.
///
/// # Errors
/// As [`call`].
pub(crate) fn function(
    translator: &mut Translator<'_>,
    name: &str,
    function: &sqlparser::ast::Function,
    scope: &Scope<'_>,
) -> Res<Ex> {
    if aggregate::is_aggregate(name) || function.over.is_some() {
        return aggregate::translate(translator, name, function, scope);
    }
    if let FunctionArguments::List(list) = &function.args
        && (!list.clauses.is_empty() || matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)))
    {
        return Err(errors::syntax(name));
    }
    if let Some(result) = datetime::with_interval(translator, name, function, scope) {
        return result;
    }
    let args = translator.arguments(&function.args, scope)?;
    call(translator, name, &args)
}

/// A form that the parser wrote as a call of an internal function.
///
/// # Errors
/// As [`call`].
pub(crate) fn special(translator: &mut Translator<'_>, name: &str, args: &[&Expr], scope: &Scope<'_>) -> Res<Ex> {
    match (name, args) {
        ("values", [column]) => {
            let column = match column {
                Expr::Identifier(name) => &name.value,
                Expr::CompoundIdentifier(parts) => &parts[parts.len() - 1].value,
                other => return Err(errors::syntax(other)),
            };
            match scope.new_value(column) {
                Some(value) => Ok(value),
                None if scope.has_new_values() => Err(errors::unknown_column(column, "field list")),
                None => Err(errors::syntax(format!("values({column})"))),
            }
        }
        ("variable", [name]) => info::variable(translator, name),
        ("assign", [name, value]) => {
            let value = translator.expr(value, scope)?;
            info::assign(translator, name, &value)
        }
        ("null_like", [operand]) => {
            let ex = translator.expr(operand, scope)?;
            Ok(Ex { code: Code::Sql("NULL".to_owned()), nullable: true, origin: None, ..ex })
        }
        ("match", [mode, against, columns @ ..]) => {
            translator.match_against(&string_value(mode), against, columns, scope)
        }
        ("default", columns) => info::default_of(translator, columns, scope),
        ("next_value" | "last_value" | "set_value", args) => sequence::special(translator, name, args, scope),
        ("interval", _) => Err(errors::syntax("INTERVAL")),
        ("collate", [operand, collation]) => {
            let ex = translator.expr(operand, scope)?;
            collate(translator, ex, &string_value(collation))
        }
        ("introducer", [operand, charset]) => introduced(translator, operand, &string_value(charset), scope),
        _ => {
            let (strings, plain): (Vec<&&Expr>, Vec<&&Expr>) = args.iter().partition(|arg| is_string(arg));
            let options: Vec<String> = strings.iter().map(|arg| string_value(arg)).collect();
            match name {
                "cast" | "using" | "binary" | "date_literal" | "time_literal" | "timestamp_literal" => {
                    cast::special(translator, name, args, scope)
                }
                "extract" => {
                    let operand =
                        plain.first().copied().or(strings.get(1).copied()).ok_or_else(|| errors::syntax("EXTRACT"))?;
                    let ex = translator.expr(operand, scope)?;
                    extract::extract(translator, &options[0], &ex)
                }
                "trim_both" | "trim_leading" | "trim_trailing" => {
                    let args = args.iter().map(|arg| translator.expr(arg, scope)).collect::<Res<Vec<_>>>()?;
                    call(translator, &name.to_ascii_uppercase(), &args)
                }
                _ => Err(errors::unsupported(name)),
            }
        }
    }
}

/// A text of another character set: `_latin1 'text'`.
fn introduced(translator: &mut Translator<'_>, operand: &Expr, charset: &str, scope: &Scope<'_>) -> Res<Ex> {
    let ex = translator.expr(operand, scope)?;
    let collation = Collation::of_charset(charset).ok_or_else(|| Collation::unknown_charset(charset))?;
    let sql = if collation == Collation::BINARY {
        translator.convert(&ex, Rep::Blob)
    } else if collation.is_latin1() {
        format!("tg_from_latin1({})", translator.convert(&ex, Rep::Blob))
    } else {
        translator.convert(&ex, Rep::Text)
    };
    let ty = SqlType::varchar(ex.ty.length, collation);
    Ok(Ex { coercibility: Coercibility::Literal, code: Code::Sql(sql), ty, origin: None, ..ex })
}

/// The call of a function in Rust.
fn called(name: &str, args: Vec<String>) -> Res<String> {
    match name {
        "f_concat" if args.len() > ARGUMENTS_MAX => Ok(nested(name, args)),
        name if args.len() > ARGUMENTS_MAX => {
            let name = name.trim_start_matches("f_").to_ascii_uppercase();
            Err(errors::unsupported(format!("more than {ARGUMENTS_MAX} arguments of {name}()")))
        }
        name => Ok(format!("{name}({})", args.join(", "))),
    }
}

/// A call of one of SQLite's functions that can be called with its own values, with any number of arguments: one is
/// the value.
fn nested(name: &str, mut args: Vec<String>) -> String {
    while args.len() > ARGUMENTS_MAX {
        args = args.chunks(ARGUMENTS_MAX).map(|part| nested(name, part.to_vec())).collect();
    }
    match args.as_slice() {
        [only] => only.clone(),
        _ => format!("{name}({})", args.join(", ")),
    }
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, sqlparser::ast::Value::SingleQuotedString(_)))
}

/// The text of a string that the parser itself has written.
pub(crate) fn string_value(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match &value.value {
            sqlparser::ast::Value::SingleQuotedString(text) => text.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The type of functions that give a signed BIGINT.
pub(crate) fn bigint(_: &[Ex]) -> SqlType {
    SqlType::bigint()
}

/// The type of functions that give an INT.
pub(crate) fn int(_: &[Ex]) -> SqlType {
    SqlType::new(Base::Int)
}

/// The type of functions that give a DOUBLE.
pub(crate) fn double(_: &[Ex]) -> SqlType {
    SqlType::new(Base::Double)
}

/// Characters as long as the first argument.
pub(crate) fn like_first(args: &[Ex]) -> SqlType {
    SqlType::string(args.first().map_or(0, text_length), Collation::DEFAULT)
}

/// Characters of a value as a text.
pub(crate) fn text_length(ex: &Ex) -> u32 {
    match ex.ty.base {
        Base::Decimal => ex.ty.length + u32::from(ex.ty.decimals > 0) + u32::from(!ex.ty.unsigned),
        Base::Datetime | Base::Timestamp => 19 + u32::from(ex.ty.decimals) + u32::from(ex.ty.decimals > 0),
        Base::Time => 10 + u32::from(ex.ty.decimals) + u32::from(ex.ty.decimals > 0),
        Base::Float | Base::Double => 23,
        Base::Enum | Base::Set => ex
            .ty
            .members
            .iter()
            .flat_map(|members| members.iter())
            .map(|member| member.chars().count() as u32 + 1)
            .sum(),
        _ => ex.ty.length,
    }
}

/// Characters as long as all arguments together.
pub(crate) fn all_lengths(args: &[Ex]) -> SqlType {
    let length = args.iter().fold(0u32, |sum, arg| sum.saturating_add(text_length(arg)));
    SqlType::string(length, Collation::DEFAULT)
}

/// Characters of any length.
pub(crate) fn long_text(_: &[Ex]) -> SqlType {
    SqlType::new(Base::LongText)
}
