//! Aggregates and window functions.

use std::collections::BTreeSet;

use sqlparser::ast::{
    DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Value, WindowType,
};

use super::{
    Family,
    abi::{Accumulate, Aggregate, Args, Out},
};
use crate::{
    errors,
    store::conn::{Cell, quote},
    translate::{Ex, Res, Translator, expr::arguments, scope::Scope, types::digits, windows::window_name},
    value::{
        Base, Datum, Rep, SqlType,
        collation::Collation,
        decimal::{Decimal, PRECISION_MAX, SCALE_MAX},
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: &[], udfs: &[], aggregates: AGGREGATES };

static AGGREGATES: &[Aggregate] = &[
    Aggregate { name: "tg_sum", count: 1, make: || Box::new(Sum::default()) },
    Aggregate { name: "tg_avg", count: 2, make: || Box::new(Average::default()) },
    Aggregate { name: "tg_real_sum", count: 1, make: || Box::new(RealSum::default()) },
    Aggregate { name: "tg_real_avg", count: 1, make: || Box::new(RealSum { average: true, ..RealSum::default() }) },
    Aggregate { name: "tg_bit_and", count: 1, make: || Box::new(Bits { value: u64::MAX, fold: |a, b| a & b }) },
    Aggregate { name: "tg_bit_or", count: 1, make: || Box::new(Bits { value: 0, fold: |a, b| a | b }) },
    Aggregate { name: "tg_bit_xor", count: 1, make: || Box::new(Bits { value: 0, fold: |a, b| a ^ b }) },
    Aggregate { name: "tg_var_pop", count: 1, make: || Box::new(Variance::new(false, false)) },
    Aggregate { name: "tg_var_samp", count: 1, make: || Box::new(Variance::new(true, false)) },
    Aggregate { name: "tg_std_pop", count: 1, make: || Box::new(Variance::new(false, true)) },
    Aggregate { name: "tg_std_samp", count: 1, make: || Box::new(Variance::new(true, true)) },
    Aggregate { name: "tg_single", count: 1, make: || Box::new(Single::default()) },
    Aggregate { name: "tg_group_concat", count: 1, make: || Box::new(GroupConcat::default()) },
    Aggregate { name: "tg_count_rows", count: -1, make: || Box::new(CountRows::default()) },
];

static NAMES: &[&str] = &[
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "GROUP_CONCAT",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "STD",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
    "ANY_VALUE",
    "JSON_ARRAYAGG",
    "JSON_OBJECTAGG",
];

/// Whether a function is an aggregate.
pub(super) fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Exact sum of whole numbers or decimals.
#[derive(Default)]
struct Sum {
    total: Option<Decimal>,
    count: u64,
}

fn number(args: &Args<'_>) -> Option<Decimal> {
    match args.cell(0) {
        Cell::Null => None,
        _ => Some(args.dec(0)),
    }
}

fn out_of_range() -> ServerError {
    errors::value_out_of_range("DECIMAL", "sum")
}

impl Accumulate for Sum {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if let Some(value) = number(args) {
            self.count += 1;
            self.total = Some(self.total.unwrap_or(Decimal::ZERO).add(value).ok_or_else(out_of_range)?);
        }
        Ok(())
    }
    fn remove(&mut self, args: &Args<'_>) -> Done {
        if let Some(value) = number(args) {
            self.count -= 1;
            self.total = Some(self.total.unwrap_or(Decimal::ZERO).sub(value).ok_or_else(out_of_range)?);
        }
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        if let Some(total) = self.total.filter(|_| self.count > 0) {
            out.dec(total);
        }
        Ok(())
    }
}

/// Exact average: the second argument is the scale of the result.
#[derive(Default)]
struct Average {
    sum: Sum,
    scale: u8,
}

impl Accumulate for Average {
    fn add(&mut self, args: &Args<'_>) -> Done {
        self.scale = args.int(1).clamp(0, SCALE_MAX.into()) as u8;
        self.sum.add(args)
    }
    fn remove(&mut self, args: &Args<'_>) -> Done {
        self.sum.remove(args)
    }
    fn value(&self, out: &mut Out) -> Done {
        if let Some(total) = self.sum.total.filter(|_| self.sum.count > 0) {
            let count = Decimal::from_int(i128::from(self.sum.count));
            out.dec(total.div(count, self.scale).ok_or_else(out_of_range)?);
        }
        Ok(())
    }
}

/// Sum or average of doubles, added up in the order in which they come.
#[derive(Default)]
struct RealSum {
    total: f64,
    count: u64,
    average: bool,
}

impl Accumulate for RealSum {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if !args.is_null(0) {
            self.total += args.real(0);
            self.count += 1;
        }
        Ok(())
    }
    fn remove(&mut self, args: &Args<'_>) -> Done {
        if !args.is_null(0) {
            self.total -= args.real(0);
            self.count -= 1;
        }
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        if self.count > 0 {
            out.real(if self.average { self.total / self.count as f64 } else { self.total });
        }
        Ok(())
    }
}

struct Bits {
    value: u64,
    fold: fn(u64, u64) -> u64,
}

impl Accumulate for Bits {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if !args.is_null(0) {
            self.value = (self.fold)(self.value, args.uint(0));
        }
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        out.uint(self.value);
        Ok(())
    }
}

/// Variance by Welford's method.
struct Variance {
    sample: bool,
    root: bool,
    count: f64,
    mean: f64,
    squares: f64,
}

impl Variance {
    fn new(sample: bool, root: bool) -> Self {
        Self { sample, root, count: 0.0, mean: 0.0, squares: 0.0 }
    }
}

impl Accumulate for Variance {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if !args.is_null(0) {
            let value = args.real(0);
            self.count += 1.0;
            let delta = value - self.mean;
            self.mean += delta / self.count;
            self.squares += delta * (value - self.mean);
        }
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        let divisor = if self.sample { self.count - 1.0 } else { self.count };
        if divisor > 0.0 {
            let variance = self.squares / divisor;
            out.real(if self.root { variance.sqrt() } else { variance });
        }
        Ok(())
    }
}

/// The only value of a scalar sub-query.
#[derive(Default)]
struct Single {
    value: Option<Datum>,
}

impl Accumulate for Single {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if self.value.is_some() {
            return Err(errors::subquery_rows());
        }
        self.value = Some(args.cell(0).to_owned());
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        out.datum(self.value.as_ref().unwrap_or(&Datum::Null));
        Ok(())
    }
}

/// GROUP_CONCAT: texts that bring their separator in front. Cut at `group_concat_max_len`.
#[derive(Default)]
struct GroupConcat {
    text: Option<Vec<u8>>,
    rows: u64,
    cut: bool,
}

impl Accumulate for GroupConcat {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if args.is_null(0) || self.cut {
            return Ok(());
        }
        let most = crate::env::current(|env| env.group_concat_max_len.get()).unwrap_or(usize::MAX);
        let bytes = args.bytes(0);
        self.rows += 1;
        // Four digits say how long the separator behind them is.
        let digits = bytes.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
        let separator = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
        let value = &bytes[(4 + if self.text.is_some() { 0 } else { separator }).min(bytes.len())..];
        let text = self.text.get_or_insert_default();
        text.extend_from_slice(value);
        if text.len() > most {
            let mut end = most;
            while end > 0 && text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            text.truncate(end);
            self.cut = true;
            crate::env::current(|env| env.warn(errors::cut_by_group_concat(self.rows)));
        }
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        if let Some(text) = &self.text {
            out.text(text);
        }
        Ok(())
    }
}

/// COUNT(DISTINCT a, b): rows without NULL, each combination once. Texts come as weights.
#[derive(Default)]
struct CountRows {
    seen: BTreeSet<Vec<u8>>,
}

impl Accumulate for CountRows {
    fn add(&mut self, args: &Args<'_>) -> Done {
        let mut key = Vec::new();
        for index in 0..args.len() {
            match args.cell(index) {
                Cell::Null => return Ok(()),
                Cell::Int(value) => key.extend_from_slice(&value.to_le_bytes()),
                Cell::Real(value) => key.extend_from_slice(&value.to_le_bytes()),
                Cell::Text(bytes) | Cell::Blob(bytes) => {
                    key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    key.extend_from_slice(bytes);
                }
            }
        }
        self.seen.insert(key);
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        out.int(self.seen.len() as i64);
        Ok(())
    }
}

/// Translates an aggregate or a window function.
///
/// # Errors
/// 1235 for what this engine lacks, 1305 for unknown functions.
pub(super) fn translate(
    t: &mut Translator<'_>,
    name: &str,
    function: &sqlparser::ast::Function,
    scope: &Scope<'_>,
) -> Res<Ex> {
    let FunctionArguments::List(list) = &function.args else { return Err(errors::syntax(name)) };
    let over = match &function.over {
        None => None,
        Some(WindowType::NamedWindow(window)) => Some(format!(" OVER {}", window_name(&window.value))),
        Some(WindowType::WindowSpec(spec)) => Some(format!(" OVER ({})", t.window_spec(spec, scope)?)),
    };
    let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    let mut ex = match (name, is_aggregate(name)) {
        ("GROUP_CONCAT" | "JSON_ARRAYAGG", _) => {
            if over.is_some() {
                return Err(errors::unsupported(format!("{name} as a window function")));
            }
            t.inside_aggregate(|t| match name {
                "GROUP_CONCAT" => group_concat(t, list, distinct, scope),
                _ => json_arrayagg(t, list, distinct, scope),
            })?
        }
        (_, true) => {
            if !list.clauses.is_empty() {
                return Err(errors::syntax(name));
            }
            match over {
                None => t.inside_aggregate(|t| aggregate(t, name, list, distinct, false, scope))?,
                // The arguments of a window function are the group's: aggregates too.
                Some(_) => aggregate(t, name, list, distinct, true, scope)?,
            }
        }
        _ => window(t, name, function, scope)?,
    };
    if let Some(over) = over {
        if distinct {
            return Err(errors::unsupported("DISTINCT in a window function"));
        }
        let sql = t.text(&ex);
        ex.code = crate::translate::Code::Sql(format!("{sql}{over}"));
    } else {
        ex.aggregate = true;
    }
    Ok(ex)
}

fn is_star(list: &FunctionArgumentList) -> bool {
    matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
}

fn aggregate(
    t: &mut Translator<'_>,
    name: &str,
    list: &FunctionArgumentList,
    distinct: bool,
    window: bool,
    scope: &Scope<'_>,
) -> Res<Ex> {
    let count_type = SqlType { length: 21, ..SqlType::bigint() };
    if name == "COUNT" && is_star(list) && !distinct {
        return Ok(Ex::sql("count(*)".into(), count_type).with_nullable(false));
    }
    let args = FunctionArguments::List(list.clone());
    let args = arguments(&args)?.iter().map(|arg| t.expr(arg, scope)).collect::<Res<Vec<_>>>()?;
    if !window && args.iter().any(|arg| arg.aggregate) {
        return Err(errors::invalid_group_use());
    }
    if name == "COUNT" && distinct && args.len() > 1 {
        return count_rows(t, &args, count_type);
    }
    if let ("JSON_OBJECTAGG", [key, value]) = (name, args.as_slice()) {
        let (key, value) = (t.convert(key, Rep::Text), super::json::argument(t, value));
        let ty = SqlType { length: u32::MAX, ..SqlType::new(Base::Text) }.stored().json();
        return Ok(Ex::sql(format!("tg_json_objectagg({key}, {value})"), ty));
    }
    let [arg] = args.as_slice() else { return Err(errors::syntax(name)) };
    let each = if distinct { "DISTINCT " } else { "" };
    let found = match name {
        "COUNT" => {
            let sql = t.collated(arg);
            Ex::sql(format!("count({each}{sql})"), count_type).with_nullable(false)
        }
        "SUM" => sum(t, arg, each),
        "AVG" => average(t, arg, distinct)?,
        "MIN" | "MAX" => {
            let lower = name.to_ascii_lowercase();
            let (sql, ty) = match arg.ty.rep() {
                Rep::Enum | Rep::Set => {
                    let sql = t.convert(arg, Rep::Text);
                    (
                        format!("{sql} COLLATE {}", arg.ty.collation.sqlite_name()),
                        crate::translate::types::settled(arg.ty.clone()),
                    )
                }
                _ => (t.collated(arg), crate::translate::types::settled(arg.ty.clone())),
            };
            let ty = match arg.ty.base {
                // Of a column the type is the column's, of an expression the widest of its kind.
                base if base.is_integer()
                    && base != Base::Year
                    && !arg.ty.is_bool()
                    && arg.origin.is_none()
                    && !arg.ty.marks.stored =>
                {
                    SqlType { base: Base::Big, ..ty }
                }
                Base::Char | Base::Binary if arg.origin.is_none() => {
                    SqlType { marks: ty.marks, ..SqlType::varchar(ty.length, ty.collation) }
                }
                Base::Null => SqlType::new(Base::Char),
                base if base.is_blob() => {
                    let mut ty = ty;
                    ty.marks.stored = false;
                    ty
                }
                _ => ty,
            };
            Ex { coercibility: arg.coercibility, ..Ex::sql(format!("{lower}({sql})"), ty) }
        }
        "ANY_VALUE" => Ex { origin: None, ..arg.clone() },
        "BIT_AND" | "BIT_OR" | "BIT_XOR" => {
            let sql = t.convert(arg, Rep::Uint);
            Ex::sql(format!("tg_{}({sql})", name.to_ascii_lowercase()), SqlType::ubigint()).with_nullable(false)
        }
        _ => {
            let function = match name {
                "VARIANCE" | "VAR_POP" => "tg_var_pop",
                "VAR_SAMP" => "tg_var_samp",
                "STDDEV_SAMP" => "tg_std_samp",
                _ => "tg_std_pop",
            };
            let exact = arg.ty.rep() == Rep::Dec || arg.ty.base.is_integer();
            let decimals =
                if exact { digits(arg).1 + t.session.inputs.division_digits } else { crate::value::types::NOT_FIXED };
            let sql = t.convert(arg, Rep::Real);
            Ex::sql(format!("{function}({each}{sql})"), SqlType { decimals, ..SqlType::new(Base::Double) })
        }
    };
    Ok(Ex { aggregate: arg.aggregate, ..found })
}

/// Whether values add up as decimals.
fn exact(arg: &Ex) -> bool {
    arg.ty.rep() == Rep::Dec
        || arg.ty.base.is_integer()
        || arg.ty.base.is_temporal()
        || matches!(arg.ty.base, Base::Enum | Base::Set)
}

fn sum(t: &mut Translator<'_>, arg: &Ex, each: &str) -> Ex {
    if exact(arg) {
        let (precision, scale) = digits(arg);
        let sql = if arg.ty.rep() == Rep::Int { t.text(arg) } else { t.convert(arg, Rep::Dec) };
        let ty = SqlType::decimal((precision + 22).min(PRECISION_MAX), scale);
        return Ex::sql(format!("tg_sum({each}{sql})"), ty);
    }
    let sql = t.convert(arg, Rep::Real);
    let decimals = if arg.ty.rep() == Rep::Real { arg.ty.decimals } else { crate::value::types::NOT_FIXED };
    Ex::sql(format!("tg_real_sum({each}{sql})"), SqlType { decimals, ..SqlType::new(Base::Double) })
}

fn average(t: &mut Translator<'_>, arg: &Ex, distinct: bool) -> Res<Ex> {
    if exact(arg) {
        let (precision, scale) = digits(arg);
        let sql = t.convert(arg, Rep::Dec);
        let more = t.session.inputs.division_digits;
        let scale = (scale + more).min(SCALE_MAX);
        if distinct {
            // SQLite's DISTINCT takes one argument: the average is a quotient then.
            let quotient = format!(
                "tg_dec_div(tg_sum(DISTINCT {sql}), tg_cv(count(DISTINCT {sql}), {}, 0, 0, 0), {scale}, {scale})",
                16 + 4
            );
            return Ok(Ex::sql(quotient, SqlType::decimal((precision + u32::from(more)).min(PRECISION_MAX), scale)));
        }
        let ty = SqlType::decimal((precision + u32::from(more)).max(u32::from(scale) + 1).min(PRECISION_MAX), scale);
        return Ok(Ex::sql(format!("tg_avg({sql}, {scale})"), ty));
    }
    let each = if distinct { "DISTINCT " } else { "" };
    let sql = t.convert(arg, Rep::Real);
    let decimals = match arg.ty.decimals {
        crate::value::types::NOT_FIXED.. => crate::value::types::NOT_FIXED,
        decimals if arg.ty.rep() == Rep::Real || arg.ty.marks.cast => {
            (decimals + t.session.inputs.division_digits).min(30)
        }
        _ => crate::value::types::NOT_FIXED,
    };
    Ok(Ex::sql(format!("tg_real_avg({each}{sql})"), SqlType { decimals, ..SqlType::new(Base::Double) }))
}

fn count_rows(t: &mut Translator<'_>, args: &[Ex], ty: SqlType) -> Res<Ex> {
    let mut texts = Vec::new();
    for arg in args {
        let sql = t.text(arg);
        texts.push(if arg.ty.rep() == Rep::Text { format!("tg_weights({sql}, {})", arg.ty.collation.0) } else { sql });
    }
    Ok(Ex::sql(format!("tg_count_rows({})", texts.join(", ")), ty).with_nullable(false))
}

fn group_concat(t: &mut Translator<'_>, list: &FunctionArgumentList, distinct: bool, scope: &Scope<'_>) -> Res<Ex> {
    let args = FunctionArguments::List(FunctionArgumentList { clauses: Vec::new(), ..list.clone() });
    let args = arguments(&args)?.iter().map(|arg| t.expr(arg, scope)).collect::<Res<Vec<_>>>()?;
    let text = if args.len() == 1 { args[0].clone() } else { super::call(t, "CONCAT", &args)? };
    let (mut separator, mut order) = (",".to_owned(), String::new());
    for clause in &list.clauses {
        match clause {
            FunctionArgumentClause::Separator(value) => {
                let ex = t.expr(&sqlparser::ast::Expr::Value(value.clone()), scope)?;
                if matches!(value.value, Value::Null) {
                    return Err(errors::syntax("NULL"));
                }
                separator = t.constant_text(&ex).ok_or_else(|| errors::syntax("SEPARATOR"))?;
            }
            FunctionArgumentClause::OrderBy(terms) => {
                order = aggregate_order(t, terms, scope)?;
            }
            _ => return Err(errors::unsupported("this clause of GROUP_CONCAT")),
        }
    }
    let collation = if text.ty.base.is_character() { text.ty.collation } else { Collation::DEFAULT };
    let sql = t.convert(&text, Rep::Text);
    let ty = SqlType { collation, ..SqlType::new(Base::MediumText) }.stored();
    // With DISTINCT an aggregate takes one argument: each value brings its separator, the first of which goes again.
    let each = if distinct { "DISTINCT " } else { "" };
    if separator.len() > 0xffff {
        return Err(errors::unsupported("a SEPARATOR of this length"));
    }
    let front = quote(&format!("{:04x}{separator}", separator.len()));
    let collate = collation.sqlite_name();
    Ok(Ex::sql(format!("tg_group_concat({each}({front} || {sql}) COLLATE {collate}{order})"), ty))
}

/// JSON_ARRAYAGG: as GROUP_CONCAT, of JSON texts, NULLs too.
fn json_arrayagg(t: &mut Translator<'_>, list: &FunctionArgumentList, distinct: bool, scope: &Scope<'_>) -> Res<Ex> {
    let args = FunctionArguments::List(FunctionArgumentList { clauses: Vec::new(), ..list.clone() });
    let args = arguments(&args)?.iter().map(|arg| t.expr(arg, scope)).collect::<Res<Vec<_>>>()?;
    let [arg] = args.as_slice() else { return Err(errors::syntax("JSON_ARRAYAGG")) };
    let mut order = String::new();
    for clause in &list.clauses {
        let FunctionArgumentClause::OrderBy(terms) = clause else {
            return Err(errors::unsupported("this clause of JSON_ARRAYAGG"));
        };
        order = aggregate_order(t, terms, scope)?;
    }
    let each = if distinct { "DISTINCT " } else { "" };
    let sql = super::json::argument(t, arg);
    let ty = SqlType { length: u32::MAX, ..SqlType::new(Base::Text) }.stored().json();
    Ok(Ex::sql(format!("tg_json_arrayagg({each}{sql}{order})"), ty))
}

/// ORDER BY inside of an aggregate; equal rows stay in the order in which they come.
fn aggregate_order(t: &mut Translator<'_>, terms: &[sqlparser::ast::OrderByExpr], scope: &Scope<'_>) -> Res<String> {
    let mut texts = Vec::new();
    for term in terms {
        let ex = t.expr(&term.expr, scope)?;
        let descending = matches!(term.options.sort, Some(sqlparser::ast::OrderBySort::Desc));
        texts.push(format!("{}{}", t.collated(&ex), if descending { " DESC" } else { "" }));
    }
    Ok(format!(" ORDER BY {}", texts.join(", ")))
}

/// Functions that need OVER.
fn window(t: &mut Translator<'_>, name: &str, function: &sqlparser::ast::Function, scope: &Scope<'_>) -> Res<Ex> {
    let args = t.arguments(&function.args, scope)?;
    let lower = name.to_ascii_lowercase();
    // Of a column the type is the column's, of an expression the widest of its kind.
    let widest = |ex: &Ex| match ex.ty.base {
        base if base.is_integer() && base != Base::Year && !ex.ty.is_bool() && ex.origin.is_none() => {
            SqlType { base: Base::Big, ..ex.ty.clone() }
        }
        _ => ex.ty.clone(),
    };
    Ok(match (name, args.as_slice()) {
        ("ROW_NUMBER" | "RANK" | "DENSE_RANK", []) => {
            Ex::sql(format!("{lower}()"), SqlType { length: 21, ..SqlType::bigint() }).with_nullable(false)
        }
        ("PERCENT_RANK" | "CUME_DIST", []) => {
            Ex::sql(format!("{lower}()"), SqlType { decimals: 10, ..SqlType::new(Base::Double) })
        }
        ("NTILE", [count]) => {
            let sql = t.convert(count, Rep::Int);
            Ex::sql(format!("ntile({sql})"), SqlType::bigint())
        }
        ("FIRST_VALUE" | "LAST_VALUE", [value]) => {
            Ex { origin: None, ..Ex::sql(format!("{lower}({})", t.text(value)), widest(value)) }
        }
        ("NTH_VALUE", [value, number]) => {
            let (value_sql, number) = (t.text(value), t.convert(number, Rep::Int));
            Ex::sql(format!("nth_value({value_sql}, {number})"), widest(value))
        }
        ("LAG" | "LEAD", [value]) => Ex::sql(format!("{lower}({})", t.text(value)), widest(value)),
        ("LAG" | "LEAD", [value, offset]) => {
            let (value_sql, offset) = (t.text(value), t.convert(offset, Rep::Int));
            Ex::sql(format!("{lower}({value_sql}, {offset})"), widest(value))
        }
        ("LAG" | "LEAD", [value, offset, default]) => {
            let common = t.common_type(&[value.clone(), default.clone()], name)?;
            let (value_sql, default) = (t.as_type(value, &common.ty), t.as_type(default, &common.ty));
            let offset = t.convert(offset, Rep::Int);
            Ex::sql(format!("{lower}({value_sql}, {offset}, {default})"), common.ty)
        }
        _ => return Err(errors::unsupported(format!("{name} as a window function"))),
    })
}
