//! From a statement's tree to SQLite's text, typed.
//!
//! Each expression is translated with its MySQL type ([`Ex`]); where two meet, the rules of MySQL decide on which
//! representation they meet ([`crate::value::Rep`]) and the conversion is written out. SQLite's own affinities and conversions never
//! apply. Literals and other values that are constant while a statement runs become parameters, converted once when they are
//! bound.
//!
//! Reading order: this file (context, constants, conversions), `scope` (names), `expr` (operators), `select`, `dml`.

pub(crate) mod about;
mod access;
mod affinity;
pub(crate) mod assign;
pub(crate) mod calls;
mod clauses;
mod codes;
pub(crate) mod compare;
pub(crate) mod dml;
pub(crate) mod effects;
pub(crate) mod expr;
mod from;
mod full_group;
mod illegal;
pub(crate) mod inputs;
pub(crate) mod json_table;
mod library;
pub(crate) mod like;
mod limit;
pub(crate) mod list;
pub(crate) mod literals;
pub(crate) mod load;
pub(crate) mod local_names;
pub(crate) mod locking;
mod matches;
mod meet;
mod names;
mod param;
pub(crate) mod params;
pub(crate) mod plan;
pub(crate) mod procedures;
pub(crate) mod programs;
pub(crate) mod returning;
pub(crate) mod revise;
mod rollup;
pub(crate) mod rules;
mod safe_updates;
pub(crate) mod scope;
pub(crate) mod select;
pub(crate) mod target_table;
pub(crate) mod types;
mod union;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod windows;

use std::{cell::Cell, rc::Rc, sync::Arc};

use sqlparser::tokenizer::TokenWithSpan;
use tidegate_rows::ServerError;

use crate::{
    accounts::{Access, Privileges},
    catalog::TableState,
    errors,
    lexer::Literal,
    schema::Schema,
    store::{conn::quote, made_rows::MadeRows},
    translate::params::Params,
    value::{Base, Datum, Rep, SqlType, collation::Collation},
};

pub(crate) use codes::{conversion_code, rep_of_code};
pub(crate) use inputs::{Inputs, Session};
pub(crate) use library::Library;
use local_names::Names;
pub(crate) use meet::meet;
pub(crate) use param::{ParamKind, variable_text};

pub(crate) type Res<T> = Result<T, ServerError>;

/// Where a constant comes from when the statement is bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// Literal of the statement's text, by its number.
    Literal(usize),
    /// A number of the statement's text behind a minus, by its number.
    Negative(usize),
    /// Parameter of the caller, by its number.
    Param(usize),
    /// A variable of the stored program that runs, by its slot.
    Local(usize),
    /// A value known now.
    Value(Datum, Rep),
    /// The statement's time: as a date and time cut to so many digits of the second; in UTC or the session's zone.
    Now {
        decimals: u8,
        utc: bool,
    },
    /// The statement's date.
    Today {
        utc: bool,
    },
    /// The statement's time of day.
    TimeOfDay {
        decimals: u8,
        utc: bool,
    },
    /// The session's last AUTO_INCREMENT value.
    LastInsertId,
    RowCount,
    FoundRows,
    ConnectionId,
    /// `user()`
    User,
    /// `current_user()`
    CurrentUser,
    /// A side of the range of a LIKE pattern.
    Pattern {
        pattern: like::Given,
        escape: Option<u32>,
        collation: Collation,
        side: like::Side,
    },
}

/// A parameter of SQLite's statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bind {
    pub(crate) source: Source,
    /// What it must look like.
    pub(crate) rep: Rep,
    /// Type of a text that stands for something: a member of an ENUM.
    pub(crate) members: Option<Arc<[Box<str>]>>,
}

/// How strongly an expression insists on its collation; the smaller wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Coercibility {
    Explicit,
    Mixed,
    Column,
    System,
    Literal,
    Number,
    Null,
}

/// The text of an expression, or the constant that it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Code {
    Sql(String),
    Const(Source),
}

/// A typed expression.
#[derive(Debug, Clone)]
pub(crate) struct Ex {
    pub(crate) code: Code,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) coercibility: Coercibility,
    /// The column that this is, for the description of results.
    pub(crate) origin: Option<Origin>,
    pub(crate) aggregate: bool,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) alias: String,
    pub(crate) column: String,
    pub(crate) flags: u16,
}

/// Whether the value of a constant alone does not tell what a conversion makes of it: a date looks like its midnight, and only the
/// type has the number of digits of a second that are shown. The bytes of a text are those of its character set.
fn is_dated(ex: &Ex, to: Rep) -> bool {
    match to {
        Rep::Int | Rep::Uint | Rep::Real | Rep::Dec => ex.ty.base == Base::Date,
        Rep::Blob if ex.ty.rep() == Rep::Text => ex.ty.collation.is_latin1(),
        Rep::Text | Rep::Blob => ex.ty.base.is_temporal(),
        _ => false,
    }
}

/// One translation.
pub(crate) struct Translator<'a> {
    pub(crate) session: Session<'a>,
    /// What the session, or the definer of the view that is translated, may do; `None` for everything.
    pub(crate) access: Option<Rc<Access>>,
    /// What the tables of the FROM that is translated are for, besides reading them.
    writes: Privileges,
    pub(crate) sql: &'a [u8],
    pub(crate) literals: literals::Literals<'a>,
    pub(crate) params: &'a [ParamKind],
    pub(crate) tokens: &'a [TokenWithSpan],
    pub(crate) binds: Vec<Bind>,
    /// How far the statement's text names columns of the result.
    pub(crate) named_to: usize,
    /// Whether the plan can serve again; [`serves_once`](Self::serves_once) says that it cannot.
    cacheable: Cell<bool>,
    /// The schemas whose catalogues the plan was made from, with their versions then.
    pub(crate) catalogs: Vec<(Arc<Schema>, u64)>,
    /// The schema whose file the statement runs on.
    pub(crate) home: Option<Arc<Schema>>,
    /// Other schemas that must be attached.
    pub(crate) attached: Vec<Arc<Schema>>,
    pub(crate) reads: Vec<Arc<TableState>>,
    pub(crate) read_names: Vec<(String, String)>,
    /// The states of the tables and views that `read_names` names.
    pub(crate) read_states: Vec<Arc<TableState>>,
    pub(crate) ctes: Vec<scope::Cte>,
    /// Texts become numbers and dates when they are looked at, not when they are bound: in statements that write.
    pub(crate) late: bool,
    /// Conversions warn also where the statement is strict: in conditions that read no row.
    pub(crate) lenient: bool,
    /// Columns outside of aggregates, while ONLY_FULL_GROUP_BY asks for them.
    bare: Vec<full_group::Bare>,
    /// Select lists that are being translated: the lengths of their literals are those of the result's columns.
    describing: usize,
    /// Aggregates whose arguments are being translated.
    aggregating: usize,
    /// The calls so far that are new at each evaluation.
    pub(crate) effects: effects::Effects,
    /// The outermost query whose columns were named so far, by its level.
    reached: std::cell::Cell<usize>,
    /// The LIMIT of the outermost query, if the statement gives it none.
    pub(crate) outermost_limit: Option<u64>,
    pub(crate) locks: locking::Locks,
    /// What the WHERE of the query around FROM says about names.
    pub(crate) conditions: about::Conditions,
    /// The rows of tables that are in no file.
    pub(crate) made_rows: Vec<MadeRows>,
    /// The values of the parameters where they are known; a plan that depends on one serves once.
    pub(crate) values: Params<'a>,
    /// What names mean to the stored program that the text is a part of.
    pub(crate) program: Option<Names<'a>>,
    /// The user variables that this part reads, as what it takes them.
    pub(crate) program_variables: Vec<(String, SqlType)>,
    /// The calls of stored functions.
    pub(crate) calls: Vec<Rc<calls::Called>>,
    /// What these functions return depends on more than tables and their arguments.
    pub(crate) calls_read_more: bool,
    /// A query in a trigger or function has FOR UPDATE or FOR SHARE.
    pub(crate) programs_lock_rows: bool,
    /// What CURRENT_USER() answers where somebody else than the session acts.
    pub(crate) current_user: Option<Rc<str>>,
    aliases: usize,
    views: usize,
    depth: usize,
    /// Constants that stand in comparisons.
    compared_constants: usize,
    /// The first operation on a value that has none of this kind.
    illegal: illegal::Illegal,
}

/// Views inside of views.
const VIEW_DEPTH_MAX: usize = 32;

impl<'a> Translator<'a> {
    /// A translation of one statement: its text and literals, the kinds of its parameters and the integers among them, its tokens.
    pub(crate) fn new(
        session: Session<'a>,
        sql: &'a [u8],
        literals: &'a [Literal],
        (params, given): (&'a [ParamKind], &'a [Option<i64>]),
        tokens: &'a [TokenWithSpan],
    ) -> Self {
        Self {
            access: session.limits(),
            writes: Privileges::NONE,
            session,
            sql,
            literals: literals::Literals::new(sql, literals, given),
            params,
            tokens,
            binds: Vec::new(),
            named_to: 0,
            cacheable: Cell::new(true),
            catalogs: Vec::new(),
            home: None,
            attached: Vec::new(),
            reads: Vec::new(),
            read_names: Vec::new(),
            read_states: Vec::new(),
            ctes: Vec::new(),
            late: false,
            lenient: false,
            bare: Vec::new(),
            aggregating: 0,
            describing: 0,
            effects: effects::Effects::default(),
            reached: std::cell::Cell::new(usize::MAX),
            outermost_limit: None,
            locks: locking::Locks::default(),
            conditions: about::Conditions::default(),
            made_rows: Vec::new(),
            values: Params::NONE,
            program: None,
            program_variables: Vec::new(),
            calls: Vec::new(),
            calls_read_more: false,
            programs_lock_rows: false,
            current_user: None,
            aliases: 0,
            views: 0,
            depth: 0,
            compared_constants: 0,
            illegal: illegal::Illegal::default(),
        }
    }

    /// Whether the statement assigns to a user variable.
    pub(crate) fn assigns(&self, name: &str) -> bool {
        use sqlparser::tokenizer::Token;
        self.tokens.windows(2).any(|pair| {
            pair[1].token == Token::Assignment
                && matches!(&pair[0].token, Token::DollarQuotedString(variable)
                    if variable.value[1..].trim_matches(['`', '\'', '"']).eq_ignore_ascii_case(name))
        })
    }

    /// Whether the statement calls LAST_INSERT_ID() with an argument.
    pub(crate) fn sets_last_insert_id(&self) -> bool {
        use sqlparser::tokenizer::Token;
        self.tokens.windows(3).any(|three| {
            crate::dialect::is_word(&three[0], "LAST_INSERT_ID")
                && three[1].token == Token::LParen
                && three[2].token != Token::RParen
        })
    }

    /// Translates the arguments of an aggregate.
    pub(crate) fn inside_aggregate<T>(&mut self, inside: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.aggregating += 1;
        let result = inside(self);
        self.aggregating -= 1;
        result
    }

    /// A fresh name for SQLite.
    pub(crate) fn alias(&mut self, prefix: &str) -> String {
        self.aliases += 1;
        format!("{prefix}{}", self.aliases)
    }

    /// A number of its own for a call that keeps something from row to row.
    pub(crate) fn next_site(&mut self) -> usize {
        self.aliases += 1;
        self.aliases
    }

    /// The characters of a constant in the statement, those of its bytes for `0x2C`; its value becomes part of the plan.
    pub(crate) fn constant_text(&mut self, ex: &Ex) -> Option<String> {
        match &ex.code {
            Code::Const(Source::Literal(index)) => {
                let text = self.literals.text(*index);
                let kind = self.literals.kind(*index)?;
                String::from_utf8(literals::literal_bytes(kind, text, self.session.inputs.lex_mode())).ok()
            }
            Code::Const(Source::Value(Datum::Text(text) | Datum::Blob(text), Rep::Text | Rep::Blob)) => {
                String::from_utf8(text.to_vec()).ok()
            }
            Code::Const(Source::Value(Datum::Int(value), _)) => Some(value.to_string()),
            _ => None,
        }
    }

    /// The value of a constant whole number in the statement; its value becomes part of the plan.
    pub(crate) fn constant_int(&mut self, ex: &Ex) -> Option<i64> {
        if ex.ty.rep() != Rep::Int {
            return None;
        }
        if let Code::Sql(sql) = &ex.code {
            // `-5`: the parameter of a literal behind a sign.
            let number: usize = sql.strip_prefix("(-?")?.strip_suffix(')')?.parse().ok()?;
            let source = self.binds.get(number.checked_sub(1)?)?.source.clone();
            let positive = Ex::constant(source, ex.ty.clone());
            return self.constant_text(&positive)?.parse::<i64>().ok()?.checked_neg();
        }
        self.constant_text(ex)?.parse().ok()
    }

    /// The integer that was given for a parameter of the statement; the plan serves that one alone.
    pub(crate) fn given_int(&self, ex: &Ex) -> Option<i64> {
        match ex.code {
            Code::Const(Source::Param(index)) => self.literals.given_int(index),
            _ => None,
        }
    }

    /// The parameter that carries a constant as `rep`.
    pub(crate) fn bind(&mut self, source: &Source, rep: Rep, members: Option<Arc<[Box<str>]>>) -> String {
        if self.binds.len() >= literals::BINDS_MAX
            && let Some(text) = self.in_place(source, rep)
        {
            return text;
        }
        let bind = Bind { source: source.clone(), rep, members };
        // Long lists are not searched: looking for each value among all others would take forever.
        let known = if self.binds.len() <= 64 { self.binds.iter().position(|known| *known == bind) } else { None };
        let index = match known {
            Some(index) => index,
            None => {
                self.binds.push(bind);
                self.binds.len() - 1
            }
        };
        format!("?{}", index + 1)
    }

    /// The expression's text in its own representation.
    pub(crate) fn text(&mut self, ex: &Ex) -> String {
        match &ex.code {
            Code::Sql(sql) => sql.clone(),
            Code::Const(source) => {
                let source = source.clone();
                self.bind(&source, ex.ty.rep(), None)
            }
        }
    }

    /// The expression's text converted to another representation.
    pub(crate) fn convert(&mut self, ex: &Ex, to: Rep) -> String {
        let from = ex.ty.rep();
        let dated = is_dated(ex, to);
        // A text that is no number fails a strict statement only where it is looked at: not when it is bound.
        let textual = from == Rep::Text || from == Rep::Blob && !ex.ty.marks.number;
        let late = self.late && textual && !matches!(to, Rep::Null | Rep::Text | Rep::Blob);
        if let (Code::Const(source), false) = (&ex.code, dated || late) {
            let mut source = source.clone();
            if let (Source::Value(Datum::Blob(bytes), Rep::Blob), true) = (&source, ex.ty.marks.number)
                && matches!(to, Rep::Int | Rep::Uint | Rep::Real | Rep::Dec | Rep::Number)
            {
                source = Source::Value(Datum::from_u64(crate::value::number::big_endian(bytes)), Rep::Uint);
            }
            return self.bind(&source, to, None);
        }
        let mut sql = if illegal::is_legal(from, to) { self.text(ex) } else { self.refused_conversion(ex, to) };
        if ex.ty.marks.dated && matches!(to, Rep::Int | Rep::Uint | Rep::Real | Rep::Dec) {
            let number = Ex::sql(format!("tg_dated_number({sql})"), SqlType::decimal(20, 6));
            return self.convert(&number, to);
        }
        if ex.ty.marks.json && ex.ty.rep() == Rep::Text && !matches!(to, Rep::Text | Rep::Blob) {
            // A JSON string counts as what stands in it.
            let read = if compare::is_extract(ex) { "tg_json_plain" } else { "f_json_unquote" };
            sql = format!("{read}({sql})");
        }
        use Rep::*;
        match (from, to) {
            (Null, _) => sql,
            (_, Number) if !late => sql,
            (a, b) if a == b => sql,
            (Int | Time | Datetime, Uint) if from == Int => sql,
            (Uint | Set | Enum, Int | Uint) if from != Uint || to == Uint => sql,
            (Int | Enum, Real) => format!("CAST({sql} AS REAL)"),
            (Int, Text) if !ex.ty.zerofill => format!("CAST({sql} AS TEXT)"),
            (Text, Blob) if ex.ty.collation.is_latin1() => format!("tg_latin1({sql})"),
            (Text, Blob) => format!("CAST({sql} AS BLOB)"),
            (Blob, Text) => format!("CAST({sql} AS TEXT)"),
            (Uint, Text | Blob) if ex.ty.base == Base::Bit => {
                let bytes = format!("tg_bit_bytes({sql}, {})", ex.ty.length.div_ceil(8).clamp(1, 8));
                if to == Text { format!("CAST({bytes} AS TEXT)") } else { bytes }
            }
            (Enum | Set, Text) => {
                let members = ex.ty.members.clone().unwrap_or_else(|| Arc::from([]));
                let list: Vec<&str> = members.iter().map(|member| &**member).collect();
                let name = if from == Enum { "tg_enum" } else { "tg_set" };
                format!("{name}({sql}, {})", quote(&list.join("\u{1f}")))
            }
            (Enum | Set, Datetime | Timestamp | Time) => {
                let text = Ex::sql(self.convert(ex, Text), SqlType::varchar(ex.ty.length, ex.ty.collation));
                self.convert(&text, to)
            }
            (Enum | Set, Blob) => {
                let text = self.convert(ex, Text);
                if ex.ty.collation.is_latin1() { format!("tg_latin1({text})") } else { format!("CAST({text} AS BLOB)") }
            }
            _ => {
                let code = conversion_code(from, to);
                let base = match ex.ty.base {
                    Base::Date => 1,
                    Base::Float => 2,
                    _ => 0,
                };
                let width = if ex.ty.zerofill { ex.ty.length } else { 0 };
                let name = if self.lenient { "tg_cv_lenient" } else { "tg_cv" };
                format!("{name}({sql}, {code}, {}, {base}, {width})", ex.ty.decimals)
            }
        }
    }

    /// The expression as a text of a character set: of bytes those characters that they are there.
    pub(crate) fn as_text_in(&mut self, ex: &Ex, collation: Collation) -> String {
        match (ex.ty.rep(), collation.is_latin1()) {
            (Rep::Blob, true) => format!("tg_from_latin1({})", self.text(ex)),
            (Rep::Blob, false) => format!("tg_utf8({})", self.text(ex)),
            (_, true) if !ex.ty.collation.is_latin1() => format!("tg_to_latin1({})", self.convert(ex, Rep::Text)),
            _ => self.convert(ex, Rep::Text),
        }
    }

    /// The expression as a text that meets others in a collation of latin1: characters that latin1 lacks are an error then.
    pub(crate) fn meeting(&mut self, ex: &Ex, collation: Collation, operation: &str) -> String {
        if collation.is_latin1() && ex.ty.rep() == Rep::Blob {
            return self.as_text_in(ex, collation);
        }
        let sql = self.convert(ex, Rep::Text);
        let wider = matches!(ex.ty.rep(), Rep::Text) && ex.ty.collation.char_bytes_max() > 1;
        if !collation.is_latin1() || !wider {
            return sql;
        }
        format!("tg_meets_latin1({sql}, {}, {}, {})", collation.0, ex.ty.collation.0, quote(operation))
    }

    /// The expression for a function that works on texts, or on bytes if that is where its operands meet.
    pub(crate) fn operand_in(&mut self, ex: &Ex, collation: Collation, operation: &str) -> String {
        if collation == Collation::BINARY && ex.ty.collation.is_latin1() {
            return self.convert(ex, Rep::Blob);
        }
        self.meeting(ex, collation, operation)
    }

    /// As [`convert`](Self::convert); a constant is converted when it is bound, where the worst is a warning.
    pub(crate) fn convert_early(&mut self, ex: &Ex, to: Rep) -> String {
        let late = self.late;
        self.late = late && !ex.is_const();
        let sql = self.convert(ex, to);
        self.late = late;
        sql
    }

    /// The expression as a truth value.
    pub(crate) fn truth(&mut self, ex: &Ex) -> String {
        if let Code::Sql(sql) = &ex.code
            && let Some(condition) = matches::condition(sql)
        {
            return condition;
        }
        match ex.ty.rep() {
            Rep::Null | Rep::Int | Rep::Real | Rep::Enum | Rep::Number => self.text(ex),
            Rep::Datetime | Rep::Time | Rep::Timestamp => {
                let sql = self.text(ex);
                format!("({sql} <> 0)")
            }
            Rep::Uint | Rep::Set => {
                let sql = self.text(ex);
                format!("({sql} <> 0)")
            }
            Rep::Fixed(_) => self.refused("<>", &[&ex.ty, &SqlType::bigint()]),
            Rep::Dec | Rep::Text | Rep::Blob => self.convert_early(ex, Rep::Real),
        }
    }

    /// The text with the collation that comparisons of it obey.
    pub(crate) fn collated(&mut self, ex: &Ex) -> String {
        let sql = self.text(ex);
        match ex.ty.rep() {
            Rep::Text => format!("{sql} COLLATE {}", ex.ty.collation.sqlite_name()),
            // A quotient is grouped by the digits that it shows.
            Rep::Dec if sql.contains("tg_dec_div(") => format!("tg_dec_round({sql}, {})", ex.ty.decimals),
            _ => sql,
        }
    }

    /// Makes a schema's tables reachable; answers the prefix of their names.
    pub(crate) fn reach(&mut self, schema: &Arc<Schema>) -> String {
        match &self.home {
            None => {
                self.home = Some(Arc::clone(schema));
                String::new()
            }
            Some(home) if Arc::ptr_eq(home, schema) => String::new(),
            Some(_) => {
                if !self.attached.iter().any(|known| Arc::ptr_eq(known, schema)) {
                    self.attached.push(Arc::clone(schema));
                }
                format!("x{}.", schema.id)
            }
        }
    }

    /// Translates another text into the same statement: a view's.
    pub(crate) fn with_text<T>(
        &mut self,
        session: Session<'_>,
        sql: &[u8],
        tokens: &[TokenWithSpan],
        f: impl FnOnce(&mut Translator<'_>) -> Res<T>,
    ) -> Res<T> {
        use std::mem::take;
        let mut inner = Translator {
            access: self.access.clone(),
            binds: take(&mut self.binds),
            cacheable: self.cacheable.clone(),
            catalogs: take(&mut self.catalogs),
            home: self.home.take(),
            attached: take(&mut self.attached),
            reads: take(&mut self.reads),
            read_names: take(&mut self.read_names),
            read_states: take(&mut self.read_states),
            late: self.late,
            lenient: self.lenient,
            effects: self.effects,
            locks: self.locks.take(),
            made_rows: take(&mut self.made_rows),
            calls: take(&mut self.calls),
            current_user: self.current_user.clone(),
            aliases: self.aliases,
            views: self.views,
            depth: self.depth,
            compared_constants: self.compared_constants,
            illegal: take(&mut self.illegal),
            ..Translator::new(session, sql, &[], (&[], &[]), tokens)
        };
        let result = f(&mut inner);
        self.binds = inner.binds;
        self.cacheable = inner.cacheable;
        self.catalogs = inner.catalogs;
        self.home = inner.home;
        self.attached = inner.attached;
        self.reads = inner.reads;
        self.read_names = inner.read_names;
        self.read_states = inner.read_states;
        self.made_rows = inner.made_rows;
        self.calls = inner.calls;
        self.aliases = inner.aliases;
        self.locks.found = inner.locks.found;
        self.effects = inner.effects;
        self.illegal = inner.illegal;
        result
    }

    /// Runs `f` for the text of a view, whose names and literals have nothing to do with the statement's.
    pub(crate) fn in_view<T>(&mut self, name: &str, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.views >= VIEW_DEPTH_MAX {
            return Err(errors::unsupported(format!("views nested this deeply ({name})")));
        }
        self.views += 1;
        let ctes = std::mem::take(&mut self.ctes);
        let result = f(self);
        self.ctes = ctes;
        self.views -= 1;
        result
    }
}

impl Ex {
    /// An expression that is SQLite's text.
    pub(crate) fn sql(sql: String, ty: SqlType) -> Self {
        let coercibility =
            if ty.base.is_character() || ty.base.is_binary() { Coercibility::Literal } else { Coercibility::Number };
        Self { code: Code::Sql(sql), ty, nullable: true, coercibility, origin: None, aggregate: false }
    }

    /// A constant.
    pub(crate) fn constant(source: Source, ty: SqlType) -> Self {
        Self { code: Code::Const(source), nullable: false, ..Self::sql(String::new(), ty) }
    }

    /// NULL.
    pub(crate) fn null() -> Self {
        Self {
            coercibility: Coercibility::Null,
            nullable: true,
            ..Self::constant(Source::Value(Datum::Null, Rep::Null), SqlType::new(Base::Null))
        }
    }

    /// A text known now.
    pub(crate) fn known_text(text: &str) -> Self {
        let ty = SqlType::varchar(text.chars().count() as u32, Collation::DEFAULT);
        Self { coercibility: Coercibility::System, ..Self::constant(Source::Value(Datum::text(text), Rep::Text), ty) }
    }

    /// A whole number known now.
    pub(crate) fn known_int(value: i64) -> Self {
        Self::constant(Source::Value(Datum::Int(value), Rep::Int), SqlType::bigint())
    }

    /// Whether the value is the same for all rows.
    pub(crate) fn is_const(&self) -> bool {
        matches!(self.code, Code::Const(_))
    }

    /// A YEAR as the number that it is.
    pub(crate) fn without_year(mut self) -> Self {
        if self.ty.base == Base::Year {
            self.ty = SqlType { length: 4, ..SqlType::new(Base::Int) };
        }
        self
    }

    /// The same with NULLs or without.
    pub(crate) fn with_nullable(self, nullable: bool) -> Self {
        Self { nullable, ..self }
    }
}
