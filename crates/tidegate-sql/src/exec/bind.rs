//! Constants of a statement become parameters of SQLite's.

use std::borrow::Cow;

use tidegate_rows::ServerError;

use crate::{
    env::Env,
    errors,
    functions::cast_val,
    lexer::{Literal, LiteralKind},
    store::conn::{Bound, Cell, Stmt, to_server_error},
    translate::{
        Bind, ParamKind, Source,
        like::{Given, Side},
        literals::literal_bytes,
        params::Params,
    },
    value::{
        Base, Datum, Rep, SqlType, Val,
        decimal::Decimal,
        latin1,
        number::{big_endian, parse_f64},
        temporal::{Datetime, truncate_micros, write_time},
    },
};

/// What the constants of one statement come from.
#[derive(Clone, Copy)]
pub(crate) struct Constants<'a> {
    pub(crate) sql: &'a [u8],
    pub(crate) literals: &'a [Literal],
    pub(crate) params: Params<'a>,
    pub(crate) env: &'a Env,
}

type Res<T> = Result<T, ServerError>;

impl<'a> Constants<'a> {
    /// Binds all parameters of a statement, for one run.
    ///
    /// # Errors
    /// A value that cannot be what it stands for.
    #[inline]
    pub(crate) fn bind<'s>(&self, stmt: &'s mut Stmt, binds: &[Bind]) -> Res<Bound<'s>>
    where
        'a: 's,
    {
        let mut stmt = stmt.borrow_values();
        if binds.is_empty() {
            return Ok(stmt);
        }
        // A constant of a part that the plan has left out has no parameter.
        let count = stmt.parameter_count();
        // What a comparison makes of its constant is a warning at most, also where the statement is strict about values.
        let strict = self.env.abort_on_warning.replace(false);
        let bound = binds
            .iter()
            .enumerate()
            .take(count)
            .try_for_each(|(index, bind)| self.bind_one(&mut stmt, index + 1, bind));
        self.env.abort_on_warning.set(strict);
        bound.map(|()| stmt)
    }

    #[inline]
    fn bind_one(&self, stmt: &mut Bound<'_>, number: usize, bind: &Bind) -> Res<()> {
        if let Source::Local(slot) = bind.source {
            return stmt.bind(number, self.env.local(slot).as_cell()).map_err(|error| to_server_error(&error));
        }
        let numeric = matches!(bind.rep, Rep::Int | Rep::Uint | Rep::Real | Rep::Dec | Rep::Number);
        let value = if numeric { self.number(&bind.source) } else { self.value(&bind.source) }?;
        let internal = |error| to_server_error(&error);
        match (&value, bind.rep) {
            (Val::Int(value), Rep::Int | Rep::Uint) => stmt.bind(number, Cell::Int(*value)).map_err(internal),
            (Val::Text(Cow::Borrowed(text)), Rep::Text) => {
                // SAFETY: the bytes belong to the statement's text or parameters, which `bind` lets outlive the borrow of
                // the SQLite statement; nothing in this crate forgets a `Bound`.
                unsafe { stmt.bind_borrowed(number, Cell::Text(text)) }.map_err(internal)
            }
            _ => {
                let datum = self.represent(value, bind.rep)?.into_datum();
                stmt.bind(number, datum.as_cell()).map_err(internal)
            }
        }
    }

    /// A constant as a floating-point number; `None` for NULL.
    ///
    /// # Errors
    /// A value that cannot be one.
    pub(crate) fn real(&self, bind: &Bind) -> Res<Option<f64>> {
        Ok(match self.represent(self.value(&bind.source)?, Rep::Real)? {
            Val::Real(value) => Some(value),
            _ => None,
        })
    }

    fn represent(&self, value: Val<'a>, rep: Rep) -> Res<Val<'a>> {
        Ok(match (value, rep) {
            (Val::Null, _) => Val::Null,
            (value, rep) if value.rep() == rep => value,
            (Val::Text(text), Rep::Blob) => Val::Blob(text),
            (Val::Blob(text), Rep::Text) => Val::Text(text),
            (value, rep) => cast_val(value, rep)?,
        })
    }

    /// The value of a constant where a number is wanted: `0x41` and `b'101'` are numbers there.
    fn number(&self, source: &Source) -> Res<Val<'a>> {
        let value = self.value(source)?;
        if let (Source::Literal(index), Val::Blob(bytes)) = (source, &value)
            && self.literals.get(*index).is_some_and(|l| matches!(l.kind, LiteralKind::HexNumber | LiteralKind::Bits))
        {
            return Ok(Val::Uint(big_endian(bytes)));
        }
        Ok(value)
    }

    /// What a column of the type `column` stores for a literal that is stored as it is written: a number or ASCII text that
    /// fits. `None` where [`value_for`](Self::value_for) and a conversion have to find out.
    #[inline]
    pub(crate) fn plain(&self, source: &Source, column: &SqlType) -> Option<Datum> {
        let Source::Literal(index) = source else { return None };
        let literal = self.literals.get(*index)?;
        let bytes = self.sql.get(literal.start as usize..literal.end as usize)?;
        match (literal.kind, column.base) {
            (LiteralKind::Int | LiteralKind::Long, Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Big) => {
                let (value, (_, most)) = (whole_number(bytes), column.int_range());
                (value as u64 <= most).then_some(Datum::Int(value))
            }
            (
                LiteralKind::Text { escaped: false, .. },
                Base::Char | Base::Varchar | Base::TinyText | Base::Text | Base::MediumText | Base::LongText,
            ) => {
                // CHAR does not keep spaces at the end.
                let is_cut = column.base == Base::Char && bytes.ends_with(b" ");
                let fits = bytes.len() <= column.length as usize && bytes.is_ascii();
                (fits && !is_cut).then(|| Datum::Text(bytes.into()))
            }
            _ => None,
        }
    }

    /// The value of a constant, for storing it in a column of the type `column`.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub(crate) fn value_for(&self, source: &Source, column: &SqlType) -> Res<Val<'a>> {
        let value = match column.rep() {
            Rep::Int | Rep::Uint | Rep::Real | Rep::Dec if column.base != Base::Bit => self.number(source)?,
            _ => self.value(source)?,
        };
        Ok(match column.rep() {
            // Bytes are those of the connection's character set.
            Rep::Blob if self.env.collation.get().is_latin1() => match self.shown(source, value) {
                Val::Text(text) => Val::Blob(latin1::encode(&text).into()),
                value => value,
            },
            Rep::Text | Rep::Blob | Rep::Enum | Rep::Set => self.shown(source, value),
            Rep::Int | Rep::Uint | Rep::Real | Rep::Dec if column.base != Base::Year => match (source, value) {
                (Source::Today { .. }, Val::Datetime(day)) => Val::Int(Datetime::unpack(day).to_number() / 1_000_000),
                (Source::Param(index), Val::Datetime(day)) if self.params.kind(*index) == ParamKind::Date => {
                    Val::Int(Datetime::unpack(day).to_number() / 1_000_000)
                }
                (_, value) => value,
            },
            _ => value,
        })
    }

    /// A moment as the text that a reader sees: only what it comes from tells how much of it is shown.
    fn shown(&self, source: &Source, value: Val<'a>) -> Val<'a> {
        let mut text = Vec::new();
        match (source, &value) {
            (Source::Today { .. }, Val::Datetime(day)) => Datetime::unpack(*day).write_date(&mut text),
            (Source::Now { decimals, .. }, Val::Datetime(moment)) => {
                Datetime::unpack(*moment).write(*decimals, &mut text);
            }
            (Source::TimeOfDay { decimals, .. }, Val::Time(time)) => write_time(*time, *decimals, &mut text),
            (Source::Param(index), Val::Datetime(_) | Val::Time(_)) => {
                return self.params.temporal_text(*index).map_or(value, |text| Val::Text(Cow::Borrowed(text)));
            }
            _ => return value,
        }
        Val::Text(Cow::Owned(text))
    }

    /// The value of a constant.
    ///
    /// # Errors
    /// A parameter that was not given.
    #[inline]
    pub(crate) fn value(&self, source: &Source) -> Res<Val<'a>> {
        match source {
            Source::Literal(index) => self.literal(*index),
            Source::Negative(index) => Ok(match self.literal(*index)? {
                Val::Int(value) => Val::Int(-value),
                Val::Uint(value) if value == i64::MIN.unsigned_abs() => Val::Int(i64::MIN),
                Val::Uint(value) => Val::Dec(Decimal::from_int(-i128::from(value))),
                Val::Real(value) => Val::Real(-value),
                Val::Dec(value) => Val::Dec(value.negated()),
                other => other,
            }),
            Source::Pattern { pattern, escape, collation, side } => {
                let pattern = match pattern {
                    Given::Literal(index) => self.literal(*index)?,
                    Given::Param(index) => self.params.value(*index).ok_or_else(errors::wrong_execute_arguments)?,
                };
                let Val::Text(pattern) = pattern else { return Ok(Val::Null) };
                let range = collation.range_of(&pattern, *escape);
                let range = range.ok_or_else(|| errors::internal("a pattern without a range"))?;
                let text = if *side == Side::Low { range.low } else { range.high };
                Ok(Val::Text(Cow::Owned(text.into_bytes())))
            }
            Source::Param(index) => self.params.value(*index).ok_or_else(errors::wrong_execute_arguments),
            other => Ok(self.computed(other)),
        }
    }

    fn computed(&self, source: &Source) -> Val<'a> {
        let env = self.env;
        let now = |utc: bool| if utc { env.now_utc() } else { env.now_local() };
        match source {
            // The stored form of a decimal does not keep the zeros behind its point; its text does.
            Source::Value(Datum::Text(digits), Rep::Dec) => {
                Decimal::parse_prefix(digits).map_or(Val::Null, |(value, _)| Val::Dec(value))
            }
            Source::Value(datum, rep) => match Val::of(datum.as_cell(), *rep) {
                Val::Text(text) => Val::Text(Cow::Owned(text.into_owned())),
                Val::Blob(blob) => Val::Blob(Cow::Owned(blob.into_owned())),
                Val::Null => Val::Null,
                Val::Int(value) => Val::Int(value),
                Val::Uint(value) => Val::Uint(value),
                Val::Real(value) => Val::Real(value),
                Val::Dec(value) => Val::Dec(value),
                Val::Datetime(value) => Val::Datetime(value),
                Val::Timestamp(value) => Val::Timestamp(value),
                Val::Time(value) => Val::Time(value),
                Val::Fixed(value) => Val::Fixed(value),
            },
            Source::Now { decimals, utc } => Val::Datetime(now(*utc).truncate(*decimals).pack()),
            Source::Today { utc } => Val::Datetime(now(*utc).date_only().pack()),
            Source::TimeOfDay { decimals, utc } => Val::Time(truncate_micros(now(*utc).time_micros(), *decimals)),
            Source::LastInsertId => Val::Uint(env.last_insert_id.get()),
            Source::RowCount => Val::Int(env.row_count.get()),
            Source::FoundRows => Val::Int(env.found_rows.get()),
            Source::ConnectionId => Val::Uint(env.connection_id),
            Source::User => Val::Text(Cow::Owned(env.client.origin().into_bytes())),
            Source::CurrentUser => Val::Text(Cow::Owned(env.current_account().into_bytes())),
            // These have been dealt with.
            Source::Literal(_) | Source::Negative(_) | Source::Param(_) | Source::Local(_) | Source::Pattern { .. } => {
                Val::Null
            }
        }
    }

    #[inline]
    fn literal(&self, index: usize) -> Res<Val<'a>> {
        let Some(literal) = self.literals.get(index) else { return Ok(Val::Null) };
        let bytes = self.sql.get(literal.start as usize..literal.end as usize).unwrap_or_default();
        Ok(match literal.kind {
            LiteralKind::Int | LiteralKind::Long => Val::Int(whole_number(bytes)),
            LiteralKind::Text { escaped: false, .. } => Val::Text(Cow::Borrowed(bytes)),
            LiteralKind::Text { escaped: true, .. } => {
                Val::Text(Cow::Owned(literal_bytes(literal.kind, bytes, self.env.lex_mode())))
            }
            LiteralKind::Uint => {
                Val::Uint(std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX))
            }
            LiteralKind::Decimal(..) => match Decimal::parse_prefix(bytes) {
                Some((value, _)) => Val::Dec(value),
                None => Val::Real(parse_f64(bytes).value),
            },
            LiteralKind::Double => Val::Real(parse_f64(bytes).value),
            LiteralKind::Hex | LiteralKind::HexNumber | LiteralKind::Bits => {
                Val::Blob(Cow::Owned(literal_bytes(literal.kind, bytes, self.env.lex_mode())))
            }
        })
    }
}

/// The number that digits are; the lexer has seen that it fits.
#[inline]
fn whole_number(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |value, digit| value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')))
}
