//! Comparisons and predicates, and the ground on which two types meet.

use sqlparser::ast::{BinaryOperator, Expr, Query};

use super::{
    Code, Ex, Res, Translator, affinity, expr::unnest, illegal::illegal_types, meet, scope::Scope, select::Wanted,
    types::is_constant,
};
use crate::{
    errors,
    value::{Base, Rep, SqlType, collation::Collation},
};

/// On what two operands are compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ground {
    /// Representations that SQLite compares as they are.
    Native,
    As(Rep),
    Text(Collation),
}

/// Whether an operand stands in the list of an IN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Yes,
    No,
}

/// Constants of comparisons that SQLite may compare with each other.
const LISTED_CONSTANTS_MAX: usize = 256;

/// Longer lists of rows are made a table, if they can be.
const COMPARED_ROWS_MAX: usize = 32;

impl Translator<'_> {
    pub(super) fn compare_rows(&mut self, a: &[Expr], op: &BinaryOperator, b: &[Expr], scope: &Scope<'_>) -> Res<Ex> {
        if a.len() != b.len() {
            return Err(errors::operand_columns(a.len()));
        }
        let joiner = match op {
            BinaryOperator::Eq | BinaryOperator::Spaceship => " AND ",
            BinaryOperator::NotEq => " OR ",
            BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
                return self.order_rows(a, op, b, scope);
            }
            _ => return Err(errors::unsupported(op)),
        };
        let mut parts = Vec::new();
        let mut aggregate = false;
        for (x, y) in a.iter().zip(b) {
            let ex = self.row_part(x, op, y, scope)?;
            aggregate |= ex.aggregate;
            parts.push(self.text(&ex));
        }
        Ok(Ex { aggregate, ..Ex::sql(format!("({})", parts.join(joiner)), SqlType::boolean()) })
    }

    /// The comparison of two columns of rows, in which a number beside a YEAR is that number.
    fn row_part(&mut self, x: &Expr, op: &BinaryOperator, y: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        let year = |expr: &Expr| {
            let named = super::select::name_parts(expr).and_then(|parts| scope.resolve(&parts, true).ok());
            named.is_some_and(|named| named.ex.ty.base == Base::Year)
        };
        if !year(x) && !year(y) {
            return self.binary(x, op, y, scope);
        }
        let (x, y) = (self.expr(x, scope)?.without_year(), self.expr(y, scope)?.without_year());
        match op {
            BinaryOperator::NotEq => self.compare(&x, "<>", &y),
            BinaryOperator::Spaceship => Ok(self.compare(&x, "IS", &y)?.with_nullable(false)),
            _ => self.compare(&x, "=", &y),
        }
    }

    /// `(a, b) < (c, d)`: the first difference decides.
    pub(super) fn order_rows(&mut self, a: &[Expr], op: &BinaryOperator, b: &[Expr], scope: &Scope<'_>) -> Res<Ex> {
        let strict = if matches!(op, BinaryOperator::Lt | BinaryOperator::LtEq) { "<" } else { ">" };
        let mut aggregate = false;
        let mut sql = match op {
            BinaryOperator::LtEq | BinaryOperator::GtEq => "1".to_owned(),
            _ => "0".to_owned(),
        };
        for (x, y) in a.iter().zip(b).rev() {
            let (x, y) = (self.expr(x, scope)?, self.expr(y, scope)?);
            aggregate |= x.aggregate || y.aggregate;
            let (before, same) = (self.compare(&x, strict, &y)?, self.compare(&x, "=", &y)?);
            let (before, same) = (self.text(&before), self.text(&same));
            sql = format!("({before} OR ({same} AND {sql}))");
        }
        Ok(Ex { aggregate, ..Ex::sql(sql, SqlType::boolean()) })
    }

    /// What two operands are compared on.
    ///
    /// # Errors
    /// 1267 for collations that do not meet, 4078 for types that do not.
    pub(crate) fn ground(&self, a: &Ex, b: &Ex) -> Res<Ground> {
        self.ground_of(a, b, "=")
    }

    /// What two operands of an operation are compared on.
    fn ground_of(&self, a: &Ex, b: &Ex, operation: &str) -> Res<Ground> {
        use Rep::*;
        let (x, y) = (a.ty.rep(), b.ty.rep());
        let text = |rep: Rep| matches!(rep, Text | Blob);
        let hybrid = |ex: &Ex| ex.ty.marks.number && ex.ty.rep() == Blob;
        let whole = |rep: Rep| matches!(rep, Int | Uint);
        let temporal = |rep: Rep| matches!(rep, Datetime | Timestamp | Time);
        Ok(match (x, y) {
            (Null, _) | (_, Null) => Ground::Native,
            (Fixed(x), Fixed(y)) if x == y => Ground::Native,
            (Fixed(kind), other) | (other, Fixed(kind)) if text(other) => Ground::As(Fixed(kind)),
            (Fixed(_), _) | (_, Fixed(_)) => return Err(illegal_types(operation, &[&a.ty, &b.ty])),
            (x, y) if whole(x) && whole(y) => Ground::Native,
            (x, y) if (text(x) || matches!(x, Enum | Set)) && (text(y) || matches!(y, Enum | Set)) => {
                let (collation, _) = meet(a, b, "=")?;
                if collation == Collation::BINARY { Ground::As(Blob) } else { Ground::Text(collation) }
            }
            (x, y) if temporal(x) && temporal(y) => {
                if x == y {
                    Ground::Native
                } else {
                    Ground::As(Datetime)
                }
            }
            (Time, y) if text(y) => Ground::As(Time),
            (x, Time) if text(x) => Ground::As(Time),
            (Timestamp, y) if text(y) && b.is_const() => Ground::As(Timestamp),
            (x, Timestamp) if text(x) && a.is_const() => Ground::As(Timestamp),
            (x, y) if temporal(x) && text(y) || text(x) && temporal(y) => Ground::As(Datetime),
            // Times beat numbers, as they beat texts.
            (Time, _) | (_, Time) => Ground::As(Time),
            (x, y) if temporal(x) || temporal(y) => Ground::As(Datetime),
            (x, _) if whole(x) && hybrid(b) => Ground::As(Uint),
            (_, y) if whole(y) && hybrid(a) => Ground::As(Uint),
            // A number in quotes is compared as what it says, so that an index serves.
            (x, y) if whole(x) && text(y) && b.is_const() && !a.is_const() => Ground::As(Number),
            (x, y) if text(x) && whole(y) && a.is_const() && !b.is_const() => Ground::As(Number),
            (Dec, y) if whole(y) || y == Dec => Ground::As(Dec),
            (x, Dec) if whole(x) => Ground::As(Dec),
            (Enum | Set, y) if whole(y) => Ground::As(Uint),
            (x, Enum | Set) if whole(x) => Ground::As(Uint),
            _ => Ground::As(Real),
        })
    }

    /// An operand as it is compared on `ground`.
    ///
    /// Beside a column of numbers the constants of a list (`listed`) and bytes are converted when they are bound, as MySQL converts them
    /// once; elsewhere they fail a strict statement where they are looked at.
    fn beside(&mut self, ex: &Ex, other: &Ex, ground: &Ground, listed: Listed) -> String {
        let late = self.late;
        let once = listed == Listed::Yes || ex.ty.rep() == Rep::Blob;
        self.late &= !(once && other.origin.is_some() && other.ty.base.is_number());
        let sql = self.on_ground(ex, ground);
        self.late = late;
        sql
    }

    /// An operand as it is compared on `ground`.
    pub(crate) fn on_ground(&mut self, ex: &Ex, ground: &Ground) -> String {
        match ground {
            Ground::Native => self.text(ex),
            Ground::As(rep @ (Rep::Datetime | Rep::Timestamp | Rep::Time))
                if !ex.ty.base.is_temporal() && ex.ty.rep() != Rep::Null =>
            {
                // A text or number that is no time is compared as the zero date, with a warning.
                let sql = self.convert(ex, *rep);
                if ex.is_const() {
                    return format!("ifnull({sql}, 0)");
                }
                let text = self.text(ex);
                format!("(CASE WHEN {text} IS NOT NULL THEN ifnull({sql}, 0) END)")
            }
            Ground::As(rep) => self.convert(ex, *rep),
            Ground::Text(collation) => self.meeting(ex, *collation, "="),
        }
    }

    /// A comparison.
    ///
    /// # Errors
    /// 1267 for collations that do not meet.
    pub(crate) fn compare(&mut self, a: &Ex, op: &str, b: &Ex) -> Res<Ex> {
        // What JSON_EXTRACT has found is compared with a text as what stands in it.
        let plain = |extract: &Ex, other: &Ex| match &extract.code {
            Code::Sql(sql) if is_extract(extract) && other.ty.rep() == Rep::Text && !other.ty.marks.json => {
                let mut ty = extract.ty.clone();
                ty.marks.json = false;
                Some(Ex { code: Code::Sql(format!("f_json_unquote({sql})")), ty, ..extract.clone() })
            }
            _ => None,
        };
        let (plain_a, plain_b) = (plain(a, b), plain(b, a));
        let (a, b) = (plain_a.as_ref().unwrap_or(a), plain_b.as_ref().unwrap_or(b));
        let mut ground = self.ground_of(a, b, if op == "IS" { "<=>" } else { op })?;
        // A quotient and a number in quotes meet as decimals, unless both are constant.
        let quoted =
            |x: &Ex, y: &Ex| x.ty.rep() == Rep::Dec && !is_constant(x) && y.ty.rep() == Rep::Text && y.is_const();
        if quoted(a, b) || quoted(b, a) {
            ground = Ground::As(Rep::Dec);
        }
        let (mut x, mut y) = (self.beside(a, b, &ground, Listed::No), self.beside(b, a, &ground, Listed::No));
        if ground == Ground::As(Rep::Dec) {
            // Decimals are compared by the digits that they show.
            let round = |ex: &Ex, sql: String| {
                let computed =
                    ex.ty.rep() == Rep::Dec && matches!(&ex.code, Code::Sql(sql) if sql.contains("tg_dec_div("));
                if computed { format!("tg_dec_round({sql}, {})", ex.ty.decimals) } else { sql }
            };
            (x, y) = (round(a, x), round(b, y));
        }
        // A number of two digits is a year of our time where it meets a YEAR.
        match (a.ty.base == Base::Year, b.ty.base == Base::Year) {
            (true, false) if is_constant(b) && b.ty.rep() != Rep::Null => y = format!("tg_year({y})"),
            (false, true) if is_constant(a) && a.ty.rep() != Rep::Null => x = format!("tg_year({x})"),
            _ => {}
        }
        (x, y) = (self.beyond_many(a, x), self.beyond_many(b, y));
        let collate = match ground {
            Ground::Text(collation) => format!(" COLLATE {}", collation.sqlite_name()),
            _ => String::new(),
        };
        let aggregate = a.aggregate || b.aggregate;
        let whole = ground == Ground::Native && op == "=";
        let either_way = if whole { affinity::equal(a, &x, b, &y) } else { None };
        let ex = Ex::sql(either_way.unwrap_or_else(|| format!("({x}{collate} {op} {y})")), SqlType::boolean());
        Ok(Ex { aggregate, ..ex }.with_nullable(a.nullable || b.nullable))
    }

    /// An operand that SQLite does not look for among the constants before it, if it is one and there are many: in a CASE
    /// with thousands of branches that took longer than everything else together.
    fn beyond_many(&mut self, ex: &Ex, sql: String) -> String {
        self.compared_constants += usize::from(ex.is_const());
        // A call is evaluated at its first use, and is in no list.
        let listed = !ex.is_const() || self.compared_constants <= LISTED_CONSTANTS_MAX;
        if listed { sql } else { format!("ifnull({sql}, NULL)") }
    }

    /// A comparison on a ground that more than its two operands have chosen.
    fn compare_on(&mut self, ground: &Ground, a: &Ex, op: &str, b: &Ex) -> Ex {
        let (x, y) = (self.on_ground(a, ground), self.on_ground(b, ground));
        let (x, y) = (self.beyond_many(a, x), self.beyond_many(b, y));
        let collate = match ground {
            Ground::Text(collation) => format!(" COLLATE {}", collation.sqlite_name()),
            _ => String::new(),
        };
        let ex = Ex::sql(format!("({x}{collate} {op} {y})"), SqlType::boolean());
        Ex { aggregate: a.aggregate || b.aggregate, ..ex }.with_nullable(a.nullable || b.nullable)
    }

    /// The kind of number that arithmetic on two operands gives.
    pub(super) fn number_kind(a: &Ex, b: &Ex) -> Rep {
        let kind = |ex: &Ex| match ex.ty.rep() {
            Rep::Int | Rep::Enum => Rep::Int,
            Rep::Uint | Rep::Set => Rep::Uint,
            Rep::Blob if ex.ty.marks.number => Rep::Uint,
            Rep::Dec => Rep::Dec,
            Rep::Datetime | Rep::Timestamp | Rep::Time => {
                if ex.ty.decimals > 0 {
                    Rep::Dec
                } else {
                    Rep::Int
                }
            }
            _ => Rep::Real,
        };
        match (kind(a), kind(b)) {
            (Rep::Real, _) | (_, Rep::Real) => Rep::Real,
            (Rep::Dec, _) | (_, Rep::Dec) => Rep::Dec,
            (Rep::Uint, _) | (_, Rep::Uint) => Rep::Uint,
            _ => Rep::Int,
        }
    }

    pub(super) fn is_null(&mut self, inner: &Expr, negated: bool, scope: &Scope<'_>) -> Res<Ex> {
        let ex = self.expr(inner, scope)?;
        let sql = self.text(&ex);
        let not = if negated { "NOT " } else { "" };
        let aggregate = ex.aggregate;
        Ok(Ex { aggregate, ..Ex::sql(format!("({sql} IS {not}NULL)"), SqlType::boolean()) }.with_nullable(false))
    }

    pub(super) fn is_truth(&mut self, inner: &Expr, test: &str, scope: &Scope<'_>) -> Res<Ex> {
        let ex = self.expr(inner, scope)?;
        let sql = self.truth(&ex);
        let aggregate = ex.aggregate;
        Ok(Ex { aggregate, ..Ex::sql(format!("({sql} {test})"), SqlType::boolean()) }.with_nullable(false))
    }

    pub(super) fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool, scope: &Scope<'_>) -> Res<Ex> {
        if let Expr::Tuple(row) = unnest(expr) {
            return self.rows_in_list(row, list, negated, scope);
        }
        let left = self.expr(expr, scope)?;
        let mut items = list.iter().map(|item| self.expr(item, scope)).collect::<Res<Vec<_>>>()?;
        if let [item] = items.as_slice() {
            // A list of one is a comparison.
            let ex = self.compare(&left, if negated { "<>" } else { "=" }, item)?;
            return Ok(Ex { nullable: true, ..ex });
        }
        // Each constant of the list may stand for a year; beside a column they are numbers.
        let years = left.ty.base == Base::Year && items.iter().all(is_constant);
        let left = if years { left } else { left.without_year() };
        if !years {
            items = items.into_iter().map(Ex::without_year).collect();
        }
        let aggregate = left.aggregate || items.iter().any(|item| item.aggregate);
        let mut grounds = Vec::new();
        for item in &items {
            grounds.push(self.ground(&left, item)?);
        }
        // All texts of the list are compared in one collation.
        let texts: Vec<&Ex> = grounds
            .iter()
            .zip(&items)
            .filter(|(ground, _)| matches!(ground, Ground::Text(_)))
            .map(|(_, ex)| ex)
            .collect();
        let mut common = left.clone();
        for text in &texts {
            let (collation, coercibility) = meet(&common, text, "in")?;
            common.ty.collation = collation;
            common.coercibility = coercibility;
        }
        for ground in grounds.iter_mut().filter(|ground| matches!(ground, Ground::Text(_))) {
            *ground = Ground::Text(common.ty.collation);
        }
        let mut known: Vec<&Ground> =
            grounds.iter().zip(&items).filter(|(_, item)| item.ty.rep() != Rep::Null).map(|(g, _)| g).collect();
        known.dedup();
        let not = if negated { "NOT " } else { "" };
        let sql = if known.len() <= 1 && !years {
            let ground = known.first().map_or(Ground::Native, |ground| (*ground).clone());
            let x = self.on_ground(&left, &ground);
            let collate = match &ground {
                Ground::Text(collation) => format!(" COLLATE {}", collation.sqlite_name()),
                _ => String::new(),
            };
            let list: Vec<String> = items.iter().map(|item| self.beside(item, &left, &ground, Listed::Yes)).collect();
            format!("({x}{collate} {not}IN ({}))", list.join(", "))
        } else {
            let mut parts = Vec::new();
            for (item, ground) in items.iter().zip(&grounds) {
                let ex = match ground {
                    Ground::Text(_) => self.compare_on(ground, &left, "=", item),
                    _ => self.compare(&left, "=", item)?,
                };
                parts.push(self.text(&ex));
            }
            format!("({not}({}))", any_of(&parts))
        };
        Ok(Ex { aggregate, ..Ex::sql(sql, SqlType::boolean()) })
    }

    pub(super) fn rows_in_list(&mut self, row: &[Expr], list: &[Expr], negated: bool, scope: &Scope<'_>) -> Res<Ex> {
        if list.len() > COMPARED_ROWS_MAX {
            let (binds, effects) = (self.binds.len(), self.effects);
            if let Ok(Some(ex)) = self.rows_in_values(row, list, negated, scope) {
                return Ok(ex);
            }
            self.binds.truncate(binds);
            self.effects = effects;
        }
        let mut parts = Vec::new();
        for item in list {
            let Expr::Tuple(other) = unnest(item) else { return Err(errors::operand_columns(row.len())) };
            let ex = self.compare_rows(row, &BinaryOperator::Eq, other, scope)?;
            parts.push(self.text(&ex));
        }
        let not = if negated { "NOT " } else { "" };
        Ok(Ex::sql(format!("({not}({}))", any_of(&parts)), SqlType::boolean()))
    }

    /// A long list of rows as a table, where each column is compared on one ground. SQLite compares each constant of an expression with
    /// all before it when it plans, and would try a list of comparisons one by one for each row.
    fn rows_in_values(&mut self, row: &[Expr], list: &[Expr], negated: bool, scope: &Scope<'_>) -> Res<Option<Ex>> {
        let lefts = row.iter().map(|item| self.expr(item, scope)).collect::<Res<Vec<_>>>()?;
        let mut rows = Vec::with_capacity(list.len());
        for item in list {
            let Expr::Tuple(other) = unnest(item) else { return Ok(None) };
            rows.push(other.iter().map(|item| self.expr(item, scope)).collect::<Res<Vec<_>>>()?);
        }
        let is_plain = |ex: &Ex| !ex.aggregate && ex.ty.base != Base::Year;
        if rows.iter().any(|row| row.len() != lefts.len()) || !lefts.iter().chain(rows.iter().flatten()).all(is_plain) {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for (index, left) in lefts.iter().enumerate() {
            let mut common: Option<Ground> = None;
            for item in rows.iter().map(|row| &row[index]).filter(|item| item.ty.rep() != Rep::Null) {
                let ground = self.ground(left, item)?;
                if common.get_or_insert_with(|| ground.clone()) != &ground {
                    return Ok(None);
                }
            }
            columns.push(common.unwrap_or(Ground::Native));
        }
        let mut heads = Vec::new();
        for (left, ground) in lefts.iter().zip(&columns) {
            let x = self.on_ground(left, ground);
            heads.push(match ground {
                Ground::Text(collation) => format!("{x} COLLATE {}", collation.sqlite_name()),
                _ => x,
            });
        }
        let mut sql = String::new();
        for row in &rows {
            let items: Vec<String> = (row.iter().zip(&lefts).zip(&columns))
                .map(|((item, left), ground)| self.beside(item, left, ground, Listed::Yes))
                .collect();
            sql.push_str(if sql.is_empty() { "(" } else { ", (" });
            sql.push_str(&items.join(", "));
            sql.push(')');
        }
        let not = if negated { "NOT " } else { "" };
        let sql = format!("(({}) {not}IN (VALUES {sql}))", heads.join(", "));
        Ok(Some(Ex::sql(sql, SqlType::boolean())))
    }

    pub(super) fn in_subquery(&mut self, expr: &Expr, query: &Query, negated: bool, scope: &Scope<'_>) -> Res<Ex> {
        let not = if negated { "NOT " } else { "" };
        if let Expr::Tuple(row) = unnest(expr) {
            let columns = Wanted::Columns(row.len());
            let mut rel = self.for_each_row(scope, |t, scope| t.query(query, Some(scope), columns))?;
            let mut parts = Vec::new();
            for (index, item) in row.iter().enumerate() {
                let left = self.expr(item, scope)?;
                let right = rel.column_ex(index);
                let ground = self.ground(&left, &right)?;
                parts.push(self.on_ground(&left, &ground));
                rel = self.convert_column(rel, index, &ground);
            }
            return Ok(Ex::sql(format!("(({}) {not}IN ({}))", parts.join(", "), rel.sql), SqlType::boolean()));
        }
        let left = self.expr(expr, scope)?;
        let rel = self.for_each_row(scope, |t, scope| t.query(query, Some(scope), Wanted::Columns(1)))?;
        let ground = self.ground(&left, &rel.column_ex(0))?;
        let x = self.on_ground(&left, &ground);
        let collate = match &ground {
            Ground::Text(collation) => format!(" COLLATE {}", collation.sqlite_name()),
            _ => String::new(),
        };
        let rel = self.convert_column(rel, 0, &ground);
        let rel = if ground == Ground::Native { self.without_affinity(&left, rel) } else { rel };
        Ok(Ex {
            aggregate: left.aggregate,
            ..Ex::sql(format!("({x}{collate} {not}IN ({}))", rel.sql), SqlType::boolean())
        })
    }

    pub(super) fn between(
        &mut self,
        expr: &Expr,
        low: &Expr,
        high: &Expr,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        let ex = self.expr(expr, scope)?.with_quoted_json();
        let (low, high) = (self.expr(low, scope)?.with_quoted_json(), self.expr(high, scope)?.with_quoted_json());
        let grounds = [self.ground(&ex, &low)?, self.ground(&ex, &high)?];
        let number = |ground: &Ground| {
            matches!(ground, Ground::Native | Ground::As(Rep::Dec | Rep::Real | Rep::Number | Rep::Uint))
        };
        let plain = ![&ex, &low, &high].iter().any(|ex| ex.ty.base.is_temporal());
        let (from, to) = if grounds[0] == grounds[1] || plain && grounds.iter().all(number) {
            (self.compare(&ex, ">=", &low)?, self.compare(&ex, "<=", &high)?)
        } else {
            let ground = common_ground(&[&ex, &low, &high], &grounds);
            (self.compare_on(&ground, &ex, ">=", &low), self.compare_on(&ground, &ex, "<=", &high))
        };
        let (a, b) = (self.text(&from), self.text(&to));
        let not = if negated { "NOT " } else { "" };
        let aggregate = from.aggregate || to.aggregate;
        Ok(Ex { aggregate, ..Ex::sql(format!("({not}({a} AND {b}))"), SqlType::boolean()) })
    }

    pub(super) fn regexp(&mut self, expr: &Expr, pattern: &Expr, negated: bool, scope: &Scope<'_>) -> Res<Ex> {
        let (text, pattern) = (self.expr(expr, scope)?, self.expr(pattern, scope)?);
        if !(self.session.library.exists)("REGEXP_LIKE") {
            return Err(errors::unsupported("REGEXP"));
        }
        let ex = (self.session.library.call)(self, "REGEXP_LIKE", &[text, pattern])?;
        if !negated {
            return Ok(ex);
        }
        let sql = self.text(&ex);
        Ok(Ex::sql(format!("(NOT {sql})"), SqlType::boolean()))
    }

    pub(super) fn quantified(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        all: bool,
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        let Expr::Subquery(query) = right else {
            return Err(errors::unsupported("ANY of something else than a query"));
        };
        let a = self.expr(left, scope)?;
        let rel = self.for_each_row(scope, |t, scope| t.query(query, Some(scope), Wanted::Columns(1)))?;
        let op_text = match op {
            BinaryOperator::Eq => "=",
            BinaryOperator::NotEq => "<>",
            BinaryOperator::Lt => "<",
            BinaryOperator::LtEq => "<=",
            BinaryOperator::Gt => ">",
            BinaryOperator::GtEq => ">=",
            other => return Err(errors::unsupported(other)),
        };
        // Three-valued: `max` and `min` of the comparisons with NULLs counted apart.
        let alias = self.alias("s");
        let mut column = rel.column_ex(0);
        column.code = Code::Sql(format!("{alias}.r0"));
        let compared = self.compare(&a, op_text, &column)?;
        let compared = self.text(&compared);
        let sql = if all {
            format!(
                "(SELECT CASE WHEN count(*) = 0 THEN 1 WHEN total({compared} = 0) > 0 THEN 0 WHEN count({compared}) < count(*) THEN NULL ELSE 1 END FROM ({}) AS {alias})",
                rel.sql
            )
        } else {
            format!(
                "(SELECT CASE WHEN count(*) = 0 THEN 0 WHEN total({compared}) > 0 THEN 1 WHEN count({compared}) < count(*) THEN NULL ELSE 0 END FROM ({}) AS {alias})",
                rel.sql
            )
        };
        Ok(Ex::sql(sql, SqlType::boolean()))
    }
}

/// Conditions joined by OR, in a tree whose depth SQLite allows.
fn any_of(parts: &[String]) -> String {
    /// Conditions in a row.
    const CHAIN_MAX: usize = 100;
    if parts.len() <= CHAIN_MAX {
        return parts.join(" OR ");
    }
    let (first, second) = parts.split_at(parts.len() / 2);
    format!("({}) OR ({})", any_of(first), any_of(second))
}

/// The ground on which all of several operands meet: times before numbers before texts, where the pairs alone would meet on `grounds`.
fn common_ground(all: &[&Ex], grounds: &[Ground]) -> Ground {
    let known = || all.iter().map(|ex| ex.ty.rep()).filter(|rep| *rep != Rep::Null);
    let temporal = |rep: &Rep| matches!(rep, Rep::Datetime | Rep::Timestamp | Rep::Time);
    let text = |rep: &Rep| matches!(rep, Rep::Text | Rep::Blob | Rep::Enum | Rep::Set);
    if let Some(first) = known().find(temporal) {
        let same = known().filter(temporal).all(|rep| rep == first);
        return Ground::As(if same { first } else { Rep::Datetime });
    }
    if known().all(|rep| text(&rep)) {
        let binary = grounds.contains(&Ground::As(Rep::Blob));
        let collation = grounds.iter().find_map(|ground| match ground {
            Ground::Text(collation) => Some(*collation),
            _ => None,
        });
        return match collation {
            Some(collation) if !binary => Ground::Text(collation),
            _ => Ground::As(Rep::Blob),
        };
    }
    let exact = known().all(|rep| matches!(rep, Rep::Int | Rep::Uint | Rep::Dec));
    Ground::As(if exact { Rep::Dec } else { Rep::Real })
}

impl Ex {
    /// What JSON_EXTRACT has found with its quotes, also beside a text: CASE and BETWEEN do not take them off as `=` does.
    pub(super) fn with_quoted_json(self) -> Self {
        match &self.code {
            Code::Sql(sql) if is_extract(&self) => Self { code: Code::Sql(format!("({sql})")), ..self },
            _ => self,
        }
    }
}

/// Whether an expression is a call of JSON_EXTRACT.
pub(crate) fn is_extract(ex: &Ex) -> bool {
    matches!(&ex.code, Code::Sql(sql) if sql.starts_with("f_json_extract("))
}
