//! Expressions: literals, names, operators and predicates. Functions are in `crate::functions`.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, UnaryOperator, Value,
};

use super::{
    Code, Coercibility, Ex, Res, Source, Translator, illegal,
    scope::{Named, Scope},
    select::Wanted,
    types::{
        bits_beside_others, blob_of, common_of, decimal_result, digits, double_of, is_constant, is_negated_constant,
        numeric, settled, unsigned_operand,
    },
};
use crate::{
    dialect::SPECIAL,
    errors,
    lexer::LiteralKind,
    value::{Base, Datum, Rep, SqlType, collation::Collation, decimal, decimal::Decimal, types::NOT_FIXED},
};

/// Expressions inside of each other; each level takes some kilobytes of the statement's stack.
const DEPTH_MAX: usize = 200;

/// Characters of a number that is an INT in results; what can be longer is a BIGINT.
const INT_LENGTH_MAX: u32 = 10;

impl Translator<'_> {
    /// Translates an expression.
    ///
    /// # Errors
    /// MySQL's for unknown names and wrong operands; 1235 for forms that this engine lacks.
    pub(crate) fn expr(&mut self, expr: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        if self.depth >= DEPTH_MAX {
            return Err(errors::unsupported("expressions nested this deeply"));
        }
        self.depth += 1;
        let result = self.expr_inside(expr, scope);
        self.depth -= 1;
        result
    }

    fn expr_inside(&mut self, expr: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        match expr {
            Expr::Value(value) => self.value(&value.value),
            Expr::Identifier(name) => self.name(&[&name.value], scope),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
                self.name(&parts, scope)
            }
            Expr::Nested(inner) => self.expr(inner, scope),
            Expr::UnaryOp { op, expr } => self.unary(op, expr, scope),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, scope),
            Expr::IsNull(inner) => self.is_null(inner, false, scope),
            Expr::IsNotNull(inner) => self.is_null(inner, true, scope),
            Expr::IsTrue(inner) => self.is_truth(inner, "IS TRUE", scope),
            Expr::IsNotTrue(inner) => self.is_truth(inner, "IS NOT TRUE", scope),
            Expr::IsFalse(inner) => self.is_truth(inner, "IS FALSE", scope),
            Expr::IsNotFalse(inner) => self.is_truth(inner, "IS NOT FALSE", scope),
            Expr::IsUnknown(inner) => self.is_truth(inner, "IS NULL", scope),
            Expr::IsNotUnknown(inner) => self.is_truth(inner, "IS NOT NULL", scope),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, scope),
            Expr::InSubquery { expr, subquery, negated } => self.in_subquery(expr, subquery, *negated, scope),
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, scope),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), *negated, scope)
            }
            Expr::RLike { negated, expr, pattern, .. } => self.regexp(expr, pattern, *negated, scope),
            Expr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false, scope),
            Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, scope),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), scope)
            }
            Expr::Exists { subquery, negated } => {
                let rel = self.for_each_row(scope, |t, scope| t.query(subquery, Some(scope), Wanted::Any))?;
                let not = if *negated { "NOT " } else { "" };
                Ok(Ex::sql(format!("({not}EXISTS ({}))", rel.sql), SqlType::boolean()).with_nullable(false))
            }
            Expr::Collate { expr, collation } => {
                let ex = self.expr(expr, scope)?;
                (self.session.library.collate)(self, ex, collation.to_string().trim_matches(['`', '\'', '"']))
            }
            Expr::Subquery(query) => self.scalar_subquery(query, scope),
            Expr::Function(function) => self.function(function, scope),
            Expr::Tuple(_) => Err(errors::operand_columns(1)),
            other => Err(errors::unsupported(describe(other))),
        }
    }

    fn name(&mut self, parts: &[&str], scope: &Scope<'_>) -> Res<Ex> {
        Ok(self.meaning(parts, scope)?.ex)
    }

    /// What a name means.
    ///
    /// # Errors
    /// 1052 and 1054.
    pub(super) fn meaning(&mut self, parts: &[&str], scope: &Scope<'_>) -> Res<Named> {
        let named = self.resolve(parts, scope)?;
        self.reached.set(self.reached.get().min(named.level));
        if named.column.is_some() && self.wants_full_groups() {
            self.note_bare(&named.ex);
        }
        Ok(named)
    }

    fn value(&mut self, value: &Value) -> Res<Ex> {
        Ok(match value {
            Value::Null => Ex::null(),
            Value::Boolean(flag) => Ex { ty: SqlType::boolean(), ..Ex::known_int(i64::from(*flag)) },
            Value::Placeholder(name) => {
                let (kind, number) = name.split_at(1);
                let index: usize = number.parse().map_err(|_| errors::syntax(name))?;
                if kind == ":" { self.literal(index) } else { self.param(index)? }
            }
            Value::Number(text, _) => number(text)?,
            Value::SingleQuotedString(text) => Ex { coercibility: Coercibility::Literal, ..Ex::known_text(text) },
            Value::HexStringLiteral(hex) => as_number(binary(crate::value::number::hex_bytes(hex))),
            Value::NationalStringLiteral(hex) => marked(binary(crate::value::number::hex_bytes(hex))),
            Value::SingleQuotedByteStringLiteral(bits) => as_number(binary(crate::value::number::bit_bytes(bits))),
            other => return Err(errors::unsupported(other)),
        })
    }

    fn literal(&mut self, index: usize) -> Ex {
        let Some(kind) = self.literals.kind(index) else { return Ex::null() };
        let len = if self.describing > 0 { self.literals.length(index) } else { longest(kind) };
        let ty = match kind {
            LiteralKind::Int => SqlType { length: len, ..SqlType::new(Base::Int) },
            LiteralKind::Long => SqlType { length: len, ..SqlType::new(Base::Big) },
            LiteralKind::Uint => SqlType { length: len, ..SqlType::ubigint() },
            LiteralKind::Decimal(precision, scale) => {
                if u32::from(precision) > decimal::PRECISION_MAX || scale > decimal::SCALE_MAX {
                    SqlType::new(Base::Double)
                } else {
                    SqlType::decimal(u32::from(precision), scale)
                }
            }
            LiteralKind::Double => SqlType::new(Base::Double),
            LiteralKind::Text { .. } => SqlType::varchar(len, self.session.inputs.collation),
            LiteralKind::Hex | LiteralKind::HexNumber => SqlType::varchar(len.div_ceil(2), Collation::BINARY),
            LiteralKind::Bits => SqlType::varchar(len.div_ceil(8), Collation::BINARY),
        };
        let ty = match kind {
            LiteralKind::HexNumber | LiteralKind::Bits => numeric(ty),
            LiteralKind::Hex => {
                let mut ty = ty;
                ty.marks.hex = true;
                ty
            }
            _ => ty,
        };
        let coercibility =
            if ty.base.is_character() || ty.base.is_binary() { Coercibility::Literal } else { Coercibility::Number };
        Ex { coercibility, ..Ex::constant(Source::Literal(index), ty) }
    }

    fn unary(&mut self, op: &UnaryOperator, operand: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        let ex = self.expr(operand, scope)?;
        match op {
            UnaryOperator::Plus => Ok(ex),
            UnaryOperator::Not => {
                let truth = self.truth(&ex);
                Ok(Ex { aggregate: ex.aggregate, ..Ex::sql(format!("(NOT {truth})"), SqlType::boolean()) }
                    .with_nullable(ex.nullable))
            }
            UnaryOperator::Minus => self.negate(ex),
            UnaryOperator::BitwiseNot => {
                let sql = self.bit_operand(&ex);
                Ok(Ex { aggregate: ex.aggregate, ..Ex::sql(format!("tg_bitnot({sql})"), SqlType::ubigint()) })
            }
            other => Err(errors::unsupported(other)),
        }
    }

    fn negate(&mut self, ex: Ex) -> Res<Ex> {
        let (sql, ty) = match ex.ty.rep() {
            Rep::Null => return Ok(Ex { ty: SqlType::new(Base::Double), ..ex }),
            Rep::Uint
                if matches!(ex.code, Code::Const(Source::Param(_)))
                    || ex.is_const() && self.constant_text(&ex).is_some_and(|text| text != "9223372036854775808") =>
            {
                let sql = self.convert(&ex, Rep::Dec);
                (format!("tg_dec_neg({sql})"), SqlType::decimal(20, 0))
            }
            Rep::Datetime | Rep::Timestamp | Rep::Time => {
                let (precision, scale) = digits(&ex);
                let sql = self.convert(&ex, Rep::Dec);
                (format!("tg_dec_neg({sql})"), SqlType::decimal(precision, scale))
            }
            Rep::Int => {
                let sql = self.text(&ex);
                let native = ex.ty.base != Base::Big || ex.is_const();
                let length = ex.ty.length + 1;
                let base = match ex.ty.base {
                    Base::Tiny | Base::Small | Base::Medium | Base::Int if native && length <= INT_LENGTH_MAX => {
                        Base::Int
                    }
                    Base::Tiny | Base::Small | Base::Medium | Base::Int if native => Base::Big,
                    base if native => base,
                    _ => Base::Big,
                };
                let sql = if native { format!("(-{sql})") } else { format!("tg_neg({sql})") };
                (
                    sql,
                    SqlType {
                        length,
                        unsigned: false,
                        ..SqlType::new(if base == Base::Year { Base::Int } else { base })
                    },
                )
            }
            Rep::Uint => {
                let sql = self.convert(&ex, Rep::Uint);
                (format!("tg_neg({sql})"), SqlType::bigint())
            }
            Rep::Dec => {
                let sql = self.text(&ex);
                (format!("tg_dec_neg({sql})"), SqlType { unsigned: false, ..ex.ty.clone() })
            }
            kind => {
                let sql = self.convert(&ex, Rep::Real);
                let decimals = if kind == Rep::Real { ex.ty.decimals } else { NOT_FIXED };
                (format!("(-{sql})"), SqlType { decimals, ..SqlType::new(Base::Double) })
            }
        };
        Ok(Ex { aggregate: ex.aggregate, ..Ex::sql(sql, ty) }.with_nullable(ex.nullable))
    }

    pub(super) fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        use BinaryOperator as Op;
        if let (Expr::Tuple(a), Expr::Tuple(b)) = (unnest(left), unnest(right)) {
            return self.compare_rows(a, op, b, scope);
        }
        if matches!(op, Op::And | Op::Or) {
            return self.logical(left, op, right, scope);
        }
        // Date arithmetic: the interval is no value of its own.
        let dated = match (op, interval_of(unnest(left)), interval_of(unnest(right))) {
            (Op::Plus | Op::Minus, false, true) => Some((left, right, *op == Op::Minus)),
            (Op::Plus, true, false) => Some((right, left, false)),
            _ => None,
        };
        if let Some((date, amount, minus)) = dated {
            let date = self.expr(date, scope)?;
            let aggregate = date.aggregate;
            let ex = (self.session.library.interval)(self, date, unnest(amount), minus, scope)?;
            return Ok(Ex { aggregate, ..ex });
        }
        // A chain of operators is as deep as it is long, and no level of its own.
        let mut links = vec![(op, right)];
        let mut first = left;
        while let Expr::BinaryOp { left, op, right } = first
            && is_link(left, op, right)
        {
            links.push((op, right));
            first = left;
        }
        let mut ex = self.expr(first, scope)?;
        for (op, right) in links.into_iter().rev() {
            let (a, b) = (ex, self.expr(right, scope)?);
            ex = self.operator(&a, op, &b)?;
            ex.aggregate |= a.aggregate || b.aggregate;
        }
        Ok(ex)
    }

    fn operator(&mut self, a: &Ex, op: &BinaryOperator, b: &Ex) -> Res<Ex> {
        use BinaryOperator as Op;
        illegal::check_operands(op, a, b)?;
        match op {
            Op::Eq => self.compare(a, "=", b),
            Op::NotEq => self.compare(a, "<>", b),
            Op::Lt => self.compare(a, "<", b),
            Op::LtEq => self.compare(a, "<=", b),
            Op::Gt => self.compare(a, ">", b),
            Op::GtEq => self.compare(a, ">=", b),
            Op::Spaceship => Ok(self.compare(a, "IS", b)?.with_nullable(false)),
            Op::Xor => {
                let (x, y) = (self.truth(a), self.truth(b));
                Ok(Ex::sql(format!("(({x} <> 0) <> ({y} <> 0))"), SqlType::boolean()))
            }
            Op::Plus => self.arithmetic(a, "add", '+', b),
            Op::Minus => self.arithmetic(a, "sub", '-', b),
            Op::Multiply => self.arithmetic(a, "mul", '*', b),
            Op::Divide => self.divide(a, b),
            Op::MyIntegerDivide => self.integer_divide(a, b),
            Op::Modulo => self.modulo(a, b),
            Op::BitwiseOr => self.bits("tg_bitor", a, b),
            Op::BitwiseAnd => self.bits("tg_bitand", a, b),
            Op::BitwiseXor => self.bits("tg_bitxor", a, b),
            Op::PGBitwiseShiftLeft => self.bits("tg_shl", a, b),
            Op::PGBitwiseShiftRight => self.bits("tg_shr", a, b),
            Op::StringConcat => (self.session.library.call)(self, "CONCAT", &[a.clone(), b.clone()]),
            other => Err(errors::unsupported(other)),
        }
    }

    /// AND and OR. A chain is one level however long it is: statements with hundreds of alternatives are common.
    fn logical(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr, scope: &Scope<'_>) -> Res<Ex> {
        let mut operands = Vec::new();
        let mut open = vec![right, left];
        while let Some(expr) = open.pop() {
            match expr {
                Expr::BinaryOp { left, op: other, right } if other == op => open.extend([&**right, &**left]),
                operand => operands.push(operand),
            }
        }
        let (mut texts, mut aggregate, mut nullable) = (Vec::new(), false, false);
        for operand in operands {
            let ex = self.expr(operand, scope)?;
            aggregate |= ex.aggregate;
            nullable |= ex.nullable;
            texts.push(if self.late && !ex.is_const() && is_constant(&ex) && !ex.aggregate {
                self.constant_condition(operand, scope)?
            } else {
                self.truth(&ex)
            });
        }
        let word = if *op == BinaryOperator::And { "AND" } else { "OR" };
        Ok(Ex { aggregate, ..Ex::sql(balanced(&texts, word), SqlType::boolean()) }.with_nullable(nullable))
    }

    /// A condition that reads no row: it is looked at before the statement is strict about values.
    fn constant_condition(&mut self, operand: &Expr, scope: &Scope<'_>) -> Res<String> {
        let before = (self.late, self.lenient);
        (self.late, self.lenient) = (false, true);
        let truth = self.expr(operand, scope).map(|ex| self.truth(&ex));
        (self.late, self.lenient) = before;
        truth
    }

    fn arithmetic(&mut self, a: &Ex, name: &str, symbol: char, b: &Ex) -> Res<Ex> {
        let nullable = a.nullable || b.nullable;
        let (sql, ty) = match Self::number_kind(a, b) {
            Rep::Real => {
                let (x, y) = (self.convert(a, Rep::Real), self.convert(b, Rep::Real));
                (format!("tg_real({x} {symbol} {y})"), double_of(a, b))
            }
            Rep::Dec => {
                let (x, y) = (self.convert(a, Rep::Dec), self.convert(b, Rep::Dec));
                let ty = decimal_result(a, b, symbol);
                let scale = ty.decimals;
                (format!("tg_dec_{name}({x}, {y}, {scale})"), ty)
            }
            kind => {
                let small = |ex: &Ex| {
                    matches!(ex.ty.base, Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Year)
                        && ex.ty.rep() == Rep::Int
                };
                let unsigned = a.ty.unsigned && a.ty.base.is_integer() || b.ty.unsigned && b.ty.base.is_integer();
                let (x, y) = (self.whole(a), self.whole(b));
                let both = unsigned_operand(a) && unsigned_operand(b);
                let length = if symbol == '*' { digits(a).0 + digits(b).0 } else { digits(a).0.max(digits(b).0) + 1 };
                let unsigned = unsigned || kind == Rep::Uint && a.ty.rep() != Rep::Set && b.ty.rep() != Rep::Set;
                let unsigned = unsigned && !a.ty.base.is_temporal() && !b.ty.base.is_temporal();
                let truth = |ex: &Ex| ex.is_const() && ex.ty.is_bool();
                let ty = match SqlType::whole(length + u32::from(!both), unsigned) {
                    ty if symbol == '*'
                        && (truth(a) && (truth(b) || b.ty.base.is_temporal())
                            || truth(b) && a.ty.base.is_temporal()) =>
                    {
                        SqlType { base: Base::Big, ..ty }
                    }
                    ty => ty,
                };
                if small(a) && small(b) && !unsigned && symbol != '*' {
                    (format!("({x} {symbol} {y})"), ty)
                } else {
                    let unsigned = i32::from(ty.unsigned);
                    (format!("tg_int_{name}({x}, {y}, {unsigned})"), ty)
                }
            }
        };
        Ok(Ex::sql(sql, ty).with_nullable(nullable))
    }

    /// An operand as a whole number, signed or not.
    fn whole(&mut self, ex: &Ex) -> String {
        match ex.ty.rep() {
            Rep::Uint | Rep::Set => self.convert(ex, Rep::Uint),
            Rep::Blob if ex.ty.marks.number => self.convert(ex, Rep::Uint),
            _ => self.convert(ex, Rep::Int),
        }
    }

    fn divide(&mut self, a: &Ex, b: &Ex) -> Res<Ex> {
        let more_digits = self.session.inputs.division_digits;
        if Self::number_kind(a, b) == Rep::Real {
            let (x, y) = (self.convert(a, Rep::Real), self.convert(b, Rep::Real));
            let ty = double_of(a, b);
            let decimals = if ty.decimals >= NOT_FIXED { NOT_FIXED } else { (ty.decimals + more_digits).min(30) };
            return Ok(Ex::sql(format!("tg_real_div({x}, {y})"), SqlType { decimals, ..ty }));
        }
        let (x, y) = (self.convert(a, Rep::Dec), self.convert(b, Rep::Dec));
        let (pa, sa) = digits(a);
        let (_, sb) = digits(b);
        let scale = (u32::from(sa) + u32::from(more_digits)).min(u32::from(decimal::SCALE_MAX)) as u8;
        let precision = (pa + u32::from(sb) + u32::from(more_digits)).max(u32::from(scale) + 1);
        // The quotient has more digits than it shows: whole groups of nine, as MySQL's arithmetic works.
        let groups = |scale: u32| scale.div_ceil(9) * 9;
        let (fa, fb) = (groups(u32::from(sa)), groups(u32::from(sb)));
        let more = u32::from(more_digits).saturating_sub(fa - u32::from(sa) + fb - u32::from(sb));
        let kept = groups(fa + fb + more).clamp(u32::from(scale), u32::from(decimal::SCALE_MAX));
        let unsigned = unsigned_operand(a) && unsigned_operand(b);
        let ty = SqlType { unsigned, ..SqlType::decimal(precision.min(decimal::PRECISION_MAX), scale) };
        Ok(Ex::sql(format!("tg_dec_div({x}, {y}, {kept}, {scale})"), ty))
    }

    fn integer_divide(&mut self, a: &Ex, b: &Ex) -> Res<Ex> {
        let unsigned = a.ty.unsigned && a.ty.base.is_integer()
            || b.ty.unsigned && b.ty.base.is_integer()
            || a.ty.is_hex()
            || b.ty.is_hex();
        let whole = match a.ty.rep() {
            Rep::Text | Rep::Blob => a.ty.length.clamp(1, 21),
            Rep::Null | Rep::Real if a.is_const() || is_negated_constant(a) || a.ty.rep() == Rep::Null => 5,
            _ => digits(a).0.saturating_sub(u32::from(digits(a).1)).min(21),
        };
        let ty = SqlType::whole(whole, unsigned);
        let flag = i32::from(unsigned);
        let sql = match Self::number_kind(a, b) {
            Rep::Int | Rep::Uint => {
                let (x, y) = (self.whole(a), self.whole(b));
                format!("tg_int_div({x}, {y}, {flag})")
            }
            _ => {
                let (x, y) = (self.convert(a, Rep::Dec), self.convert(b, Rep::Dec));
                format!("tg_dec_intdiv({x}, {y}, {flag})")
            }
        };
        Ok(Ex::sql(sql, ty))
    }

    /// `a % b`.
    ///
    /// # Errors
    /// None; division by zero is NULL.
    pub(crate) fn modulo(&mut self, a: &Ex, b: &Ex) -> Res<Ex> {
        Ok(match Self::number_kind(a, b) {
            Rep::Real => {
                let (x, y) = (self.convert(a, Rep::Real), self.convert(b, Rep::Real));
                let ty = SqlType { unsigned: a.ty.unsigned || a.ty.is_hex(), ..double_of(a, b) };
                Ex::sql(format!("tg_real_mod({x}, {y})"), ty)
            }
            Rep::Dec => {
                let (x, y) = (self.convert(a, Rep::Dec), self.convert(b, Rep::Dec));
                let ((pa, sa), (pb, sb)) = (digits(a), digits(b));
                let ty = SqlType { unsigned: a.ty.unsigned, ..SqlType::decimal(pa.max(pb), sa.max(sb)) };
                Ex::sql(format!("tg_dec_mod({x}, {y})"), ty)
            }
            _ => {
                let (x, y) = (self.whole(a), self.whole(b));
                let unsigned = a.ty.unsigned && a.ty.base.is_integer();
                let length = digits(a).0.max(digits(b).0) + u32::from(!unsigned);
                let ty = SqlType::whole(length, unsigned);
                Ex::sql(format!("tg_int_mod({x}, {y})"), ty)
            }
        })
    }

    fn bits(&mut self, name: &str, a: &Ex, b: &Ex) -> Res<Ex> {
        let (x, y) = (self.bit_operand(a), self.bit_operand(b));
        Ok(Ex::sql(format!("{name}({x}, {y})"), SqlType::ubigint()).with_nullable(a.nullable || b.nullable))
    }

    /// An operand of a bit operator: texts are numbers first and rounded then.
    fn bit_operand(&mut self, ex: &Ex) -> String {
        let bytes = ex.ty.rep() == Rep::Blob && !ex.ty.marks.number && !ex.ty.marks.hex;
        if !bytes && !matches!(ex.ty.rep(), Rep::Text | Rep::Real | Rep::Datetime | Rep::Timestamp | Rep::Time) {
            return self.convert(ex, Rep::Uint);
        }
        let number = Ex::sql(self.convert(ex, Rep::Dec), SqlType::decimal(decimal::PRECISION_MAX, decimal::SCALE_MAX));
        self.convert(&number, Rep::Uint)
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        whens: &[CaseWhen],
        otherwise: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        // Unlike `=` it takes a number beside a YEAR for what it is.
        let operand = operand.map(|operand| self.expr(operand, scope)).transpose()?;
        let operand = operand.map(|operand| operand.without_year().with_quoted_json());
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for when in whens {
            let condition = self.expr(&when.condition, scope)?;
            conditions.push(match &operand {
                Some(operand) => self.compare(operand, "=", &condition.without_year().with_quoted_json())?,
                None => condition,
            });
            results.push(self.expr(&when.result, scope)?);
        }
        match otherwise {
            Some(otherwise) => results.push(self.expr(otherwise, scope)?),
            None => results.push(Ex::null()),
        }
        self.choose(if otherwise.is_some() { "case" } else { "if" }, &conditions, &results)
    }

    /// `CASE WHEN c0 THEN r0 … ELSE rn END` with results of one type.
    ///
    /// # Errors
    /// 1267 for collations that do not meet.
    pub(crate) fn choose(&mut self, operation: &str, conditions: &[Ex], results: &[Ex]) -> Res<Ex> {
        let common = self.common_type(results, operation)?;
        let mut sql = String::from("CASE");
        for (condition, result) in conditions.iter().zip(results) {
            let (condition, result) = (self.truth(condition), self.as_type(result, &common.ty));
            sql.push_str(&format!(" WHEN {condition} THEN {result}"));
        }
        if let Some(last) = results.get(conditions.len()) {
            let last = self.as_type(last, &common.ty);
            sql.push_str(&format!(" ELSE {last}"));
        }
        sql.push_str(" END");
        let aggregate = conditions.iter().chain(results).any(|ex| ex.aggregate);
        Ok(Ex { code: Code::Sql(format!("({sql})")), aggregate, ..common })
    }

    /// The type in which several results meet; the code of the answer means nothing.
    ///
    /// # Errors
    /// 1267 for collations that do not meet.
    pub(crate) fn common_type(&mut self, all: &[Ex], operation: &str) -> Res<Ex> {
        let count = all.iter().filter(|ex| ex.ty.base != Base::Null).count();
        let mut known = all.iter().filter(|ex| ex.ty.base != Base::Null);
        let Some(first) = known.next() else {
            let text = matches!(operation, "if" | "UNION");
            return Ok(if text { Ex { ty: SqlType::new(Base::Char), ..Ex::null() } } else { Ex::null() });
        };
        let mut common = Ex { origin: None, ..first.clone() };
        if !matches!(operation, "if" | "nullif") || count > 1 {
            common.ty.marks.hex = false;
        }
        for ex in known {
            let (collation, coercibility) = illegal::meet_as_results(&common, ex, operation)?;
            common.ty = common_of(&common.ty, &ex.ty, collation);
            common.coercibility = coercibility;
        }
        common.nullable = all.iter().any(|ex| ex.nullable);
        let union = operation == "UNION";
        if let Some(ty) = bits_beside_others(all).filter(|_| union) {
            common.ty = ty;
        }
        if !(union && matches!(common.ty.base, Base::Bit | Base::Year)) {
            common.ty = settled(common.ty);
        }
        // NULL has a sign, and with and without one meet as decimals.
        let signed = matches!(operation, "case" | "coalesce") && all.iter().any(|ex| ex.ty.base == Base::Null);
        if signed && common.ty.unsigned && common.ty.base.is_integer() && common.ty.base != Base::Year {
            common.ty = SqlType::decimal(digits(&common).0, 0);
        }
        if common.ty.base.is_blob() && !union {
            common.ty = SqlType { marks: common.ty.marks, ..blob_of(common.ty.length, common.ty.collation) };
        }
        common.ty.marks.stored = union;
        Ok(common)
    }

    /// An expression's text as a value of another type.
    pub(crate) fn as_type(&mut self, ex: &Ex, ty: &SqlType) -> String {
        if ty.rep() == Rep::Text {
            return self.meeting(ex, ty.collation, "case");
        }
        let sql = self.convert(ex, ty.rep());
        if ty.rep() == Rep::Dec && (ex.ty.rep() == Rep::Text || sql.contains("tg_dec_div(")) {
            return format!("tg_dec_round({sql}, {})", ty.decimals);
        }
        sql
    }

    fn scalar_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Res<Ex> {
        let rel = self.for_each_row(scope, |t, scope| t.query(query, Some(scope), Wanted::Columns(1)))?;
        let column = rel.column_ex(0);
        let ty = column.ty.clone();
        // SQLite takes the first row of many; MySQL refuses. A LIMIT of one or an aggregate gives one at most.
        let sql = if rel.single {
            format!("({})", rel.sql)
        } else {
            let alias = self.alias("s");
            format!("(SELECT tg_single({alias}.r0) FROM (SELECT * FROM ({}) LIMIT 2) AS {alias})", rel.sql)
        };
        Ok(Ex { coercibility: column.coercibility, ..Ex::sql(sql, ty) })
    }

    /// Translates the plain arguments of a function.
    ///
    /// # Errors
    /// Those of the arguments; 1064 for `*` where it cannot stand.
    pub(crate) fn arguments(&mut self, args: &FunctionArguments, scope: &Scope<'_>) -> Res<Vec<Ex>> {
        arguments(args)?.iter().map(|arg| self.expr(arg, scope)).collect()
    }
}

/// The operands joined so that the tree is as flat as it can be: SQLite limits its depth.
fn balanced(texts: &[String], word: &str) -> String {
    match texts {
        [only] => only.clone(),
        _ if texts.len() <= 8 => format!("({})", texts.join(&format!(" {word} "))),
        _ => {
            let (left, right) = texts.split_at(texts.len() / 2);
            format!("({} {word} {})", balanced(left, word), balanced(right, word))
        }
    }
}

/// The argument expressions of a call.
pub(crate) fn arguments(args: &FunctionArguments) -> Res<Vec<&Expr>> {
    match args {
        FunctionArguments::None => Ok(Vec::new()),
        FunctionArguments::Subquery(_) => Err(errors::unsupported("a query as argument without parentheses")),
        FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
                other => Err(errors::syntax(other)),
            })
            .collect(),
    }
}

/// Without parentheses around it.
pub(crate) fn unnest(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnest(inner),
        other => other,
    }
}

fn interval_of(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    function.name.to_string().trim_matches('`').strip_prefix(SPECIAL) == Some("interval")
}

/// Whether an operation is of two values: no condition, no rows, no interval.
fn is_link(left: &Expr, op: &BinaryOperator, right: &Expr) -> bool {
    let (left, right) = (unnest(left), unnest(right));
    let rows = matches!((left, right), (Expr::Tuple(_), Expr::Tuple(_)));
    !matches!(op, BinaryOperator::And | BinaryOperator::Or) && !rows && !interval_of(left) && !interval_of(right)
}

fn describe(expr: &Expr) -> String {
    let text = expr.to_string();
    text.chars().filter(|c| *c != SPECIAL).take(60).collect()
}

/// The length of a literal where nothing depends on it: of the longest that such plans serve.
fn longest(kind: LiteralKind) -> u32 {
    match kind {
        LiteralKind::Int => 10,
        LiteralKind::Long => 19,
        LiteralKind::Uint => 20,
        _ => 255,
    }
}

fn number(text: &str) -> Res<Ex> {
    if let Ok(value) = text.parse::<i64>() {
        let ty =
            SqlType { length: text.len() as u32, ..SqlType::new(if text.len() < 10 { Base::Int } else { Base::Big }) };
        return Ok(Ex { ty, ..Ex::known_int(value) });
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(Ex::constant(Source::Value(Datum::from_u64(value), Rep::Uint), SqlType::ubigint()));
    }
    if !text.contains(['e', 'E'])
        && let Some((value, _)) = Decimal::parse_prefix(text.as_bytes())
    {
        let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u8);
        let precision = text.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count().max(1) as u32;
        return Ok(Ex::constant(
            Source::Value(Datum::Blob(value.to_blob()), Rep::Dec),
            SqlType::decimal(precision, scale),
        ));
    }
    let value: f64 = text.parse().map_err(|_| errors::syntax(text))?;
    Ok(Ex::constant(Source::Value(Datum::Real(value), Rep::Real), SqlType::new(Base::Double)))
}

/// A binary literal that is a number where a number is wanted.
fn as_number(ex: Ex) -> Ex {
    let ty = numeric(ex.ty.clone());
    Ex { ty, ..ex }
}

/// `x'41'`: described as MariaDB does.
fn marked(ex: Ex) -> Ex {
    let mut ty = ex.ty.clone();
    ty.marks.hex = true;
    Ex { ty, ..ex }
}

fn binary(bytes: Vec<u8>) -> Ex {
    let ty = SqlType::varchar(bytes.len() as u32, Collation::BINARY);
    Ex { coercibility: Coercibility::Literal, ..Ex::constant(Source::Value(Datum::Blob(bytes.into()), Rep::Blob), ty) }
}
