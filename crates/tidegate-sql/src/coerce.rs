//! Values on their way into a column: MySQL's conversions with MySQL's errors.
//!
//! In strict mode whatever would change a value is an error; otherwise (and for IGNORE) it is a warning and the nearest value is
//! stored.

use std::borrow::Cow;

use crate::{
    column::Column,
    env::Env,
    errors,
    value::{
        Base, Datum, Rep, SqlType, Val,
        decimal::{Decimal, PRECISION_MAX, pow10},
        latin1,
        number::{parse_decimal, parse_digits, parse_f64},
        temporal::{self, Datetime, TIME_MAX},
        texts::{position, printable, rounded_to, with_question_marks},
        types::NOT_FIXED,
    },
};
use tidegate_rows::ServerError;

/// Where a value goes, for the messages.
pub(crate) struct Target<'a> {
    pub(crate) schema: &'a str,
    pub(crate) table: &'a str,
    /// The view that the statement names, with its schema.
    pub(crate) view: Option<(&'a str, &'a str)>,
    pub(crate) column: &'a Column,
    /// Counts from 1.
    pub(crate) row: usize,
    /// Errors instead of warnings.
    pub(crate) strict: bool,
    pub(crate) env: &'a Env,
}

/// Microseconds since 1970 that a TIMESTAMP can be; 0 is the zero date.
const TIMESTAMPS: std::ops::Range<i64> = 1..(i32::MAX as i64 + 1) * 1_000_000;

type Res<T> = Result<T, ServerError>;

impl Target<'_> {
    /// The stored form of a value for the column. NULL stays NULL: whether it is allowed is the caller's question.
    ///
    /// # Errors
    /// 1264, 1265, 1292, 1366, 1406 in strict mode.
    pub(crate) fn coerce(&self, value: Val<'_>) -> Res<Datum> {
        if value.is_null() {
            return Ok(Datum::Null);
        }
        let ty = &self.column.ty;
        let is_fixed = matches!(value, Val::Fixed(_)) || matches!(ty.base, Base::Fixed(_));
        // Values are large to move, and most are of other types.
        let value = if is_fixed { self.assignable(value)? } else { value };
        match ty.base {
            Base::Fixed(kind) => self.fixed(kind, value),
            Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Big => self.integer(value),
            Base::Decimal => self.decimal(value),
            Base::Float | Base::Double => self.real(value),
            Base::Bit => self.bit(value),
            Base::Year => self.year(value),
            Base::Date | Base::Datetime | Base::Timestamp => self.datetime(value),
            Base::Time => self.time(value),
            Base::Enum => self.enumeration(value),
            Base::Set => self.set(value),
            Base::Json => self.json(value),
            base if base.is_binary() => self.bytes(value),
            Base::Null => Ok(Datum::Null),
            _ => self.text(value),
        }
    }

    /// An error in strict mode, a warning otherwise.
    pub(crate) fn complain(&self, error: ServerError) -> Res<()> {
        if self.strict {
            return Err(error);
        }
        // What is cut for its length is told in other words than what is refused for it.
        let error = if error.code == 1406 { errors::data_truncated(self.name(), self.row) } else { error };
        self.env.warn(error);
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.column.name
    }

    pub(crate) fn shown(value: &Val<'_>) -> String {
        let mut text = Vec::new();
        value.write(Base::Null, 0, None, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// A text that should be a number: complains about what is none.
    fn number_text(&self, text: &[u8], clean: bool, any: bool, kind: &str) -> Res<()> {
        if clean {
            return Ok(());
        }
        if any {
            return self.complain(errors::data_truncated(self.name(), self.row));
        }
        let text = String::from_utf8_lossy(text);
        self.complain(errors::wrong_value_for_type(kind, text, self.schema, self.table, self.name(), self.row))
    }

    fn integer(&self, value: Val<'_>) -> Res<Datum> {
        let (low, high) = self.column.ty.int_range();
        if let Val::Text(text) | Val::Blob(text) = &value
            && let Some(number) = parse_digits(text).filter(|number| *number <= high)
        {
            return Ok(Datum::from_u64(number));
        }
        let value_sign = match &value {
            Val::Dec(value) => Some(value.mantissa < 0),
            _ => None,
        };
        let number: i128 = match &value {
            Val::Int(value) => i128::from(*value),
            Val::Uint(value) => i128::from(*value),
            Val::Text(text) | Val::Blob(text) if matches!(value, Val::Text(_)) || !text.is_empty() => {
                let parsed = parse_decimal(text);
                let any = Decimal::parse_prefix(text).is_some();
                let whole = parsed.value.round_to_int();
                if !any && parse_f64(text).value.abs() > 1e37 {
                    i128::MAX
                } else if any && (whole < i128::from(low) || whole > i128::from(high)) {
                    // What is out of range is told before what was cut off.
                    whole
                } else {
                    self.number_text(text, parsed.clean, any, "integer")?;
                    parsed.value.round_to_int()
                }
            }
            // Doubles round to even halves, exact numbers away from zero.
            other => match other.to_int() {
                Ok(number) | Err((number, _)) => number,
            },
        };
        let clamped = number.clamp(i128::from(low), i128::from(high));
        // An exact fraction below zero is no unsigned number, though it rounds to one.
        let below = self.column.ty.unsigned && matches!(&value_sign, Some(true));
        if clamped != number || below {
            self.complain(errors::out_of_range(self.name(), self.row))?;
        }
        Ok(if clamped < 0 { Datum::Int(clamped as i64) } else { Datum::from_u64(clamped as u64) })
    }

    fn decimal(&self, value: Val<'_>) -> Res<Datum> {
        let ty = &self.column.ty;
        let limit = pow10(ty.length.min(PRECISION_MAX)).unwrap_or(i128::MAX) - 1;
        let most = Decimal { mantissa: limit, scale: ty.decimals };
        let number = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let parsed = parse_decimal(text);
                let any = Decimal::parse_prefix(text).is_some();
                self.number_text(text, parsed.clean, any, "decimal")?;
                Some(parsed.value)
            }
            Val::Real(value) if value.abs() >= 1e38 => None,
            other => match other.to_decimal() {
                Ok(number) | Err((number, _)) => Some(number),
            },
        };
        let scaled = number.and_then(|number| number.rescale(ty.decimals));
        let negative = match (&value, number) {
            (Val::Real(value), None) => *value < 0.0,
            (_, number) => number.is_some_and(|number| number.mantissa < 0),
        };
        let stored = match scaled {
            Some(scaled) if scaled.mantissa.abs() <= limit && !(ty.unsigned && scaled.mantissa < 0) => {
                if number.is_some_and(|number| number != scaled) {
                    self.env.note(errors::data_truncated(self.name(), self.row));
                }
                scaled
            }
            _ => {
                self.complain(errors::out_of_range(self.name(), self.row))?;
                match (negative, ty.unsigned) {
                    (false, _) => most,
                    (true, true) => Decimal::ZERO,
                    (true, false) => Decimal { mantissa: -limit, scale: ty.decimals },
                }
            }
        };
        Ok(Datum::Blob(stored.to_blob()))
    }

    fn real(&self, value: Val<'_>) -> Res<Datum> {
        let ty = &self.column.ty;
        let mut number = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let parsed = parse_f64(text);
                let any = Decimal::parse_prefix(text).is_some() || parsed.value != 0.0;
                self.number_text(text, parsed.clean, any, if ty.base == Base::Float { "float" } else { "double" })?;
                parsed.value
            }
            other => match other.to_f64() {
                Ok(number) | Err((number, _)) => number,
            },
        };
        let most = if ty.decimals != NOT_FIXED {
            // As MariaDB does it: the part behind the point alone is rounded.
            let unit = 10f64.powi(i32::from(ty.decimals));
            let whole = number.floor();
            number = whole + ((number - whole) * unit).round_ties_even() / unit;
            10f64.powi(ty.length as i32 - i32::from(ty.decimals)) - 1.0 / unit
        } else if ty.base == Base::Float {
            f64::from(f32::MAX)
        } else {
            f64::MAX
        };
        if number.abs() > most || (ty.unsigned && number < 0.0) {
            self.complain(errors::out_of_range(self.name(), self.row))?;
            number = if ty.unsigned && number < 0.0 { 0.0 } else { most.copysign(number) };
        }
        if ty.base == Base::Float {
            number = f64::from(number as f32);
        }
        Ok(Datum::Real(if number == 0.0 { 0.0 } else { number }))
    }

    fn bit(&self, value: Val<'_>) -> Res<Datum> {
        let width = self.column.ty.length.clamp(1, 64);
        let number: i128 = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let significant = &text[text.iter().take_while(|byte| **byte == 0).count()..];
                if significant.len() > 8 {
                    i128::MAX
                } else {
                    significant.iter().fold(0i128, |value, byte| value << 8 | i128::from(*byte))
                }
            }
            other => match other.to_int() {
                Ok(number) | Err((number, _)) => {
                    if number < 0 {
                        i128::from(number as i64 as u64)
                    } else {
                        number
                    }
                }
            },
        };
        let most = i128::from(u64::MAX >> (64 - width));
        if number > most {
            self.complain(errors::too_long(self.name(), self.row))?;
            return Ok(Datum::from_u64(most as u64));
        }
        Ok(Datum::from_u64(number as u64))
    }

    fn year(&self, value: Val<'_>) -> Res<Datum> {
        let mut zero = 0;
        if let Val::Text(text) | Val::Blob(text) = &value {
            let (parsed, any) = (parse_decimal(text), Decimal::parse_prefix(text).is_some());
            self.number_text(text, parsed.clean, any, "integer")?;
            // '0000' is the year zero; any other text of zeros is two digits of a year.
            zero = if any && text.len() != 4 { 2000 } else { 0 };
        }
        if let Val::Datetime(packed) = &value {
            let mut date = Vec::new();
            Datetime::unpack(*packed).write_date(&mut date);
            let date = String::from_utf8_lossy(&date).into_owned();
            let wrong = errors::incorrect_column_value("date", date, self.schema, self.table, self.name(), self.row);
            self.complain(wrong)?;
            return Ok(Datum::Int(0));
        }
        let number = match value.to_decimal() {
            Ok(number) | Err((number, _)) => number.round_to_int(),
        };
        let year = match number {
            0 => zero,
            1..=99 => i128::from(temporal::century(number as i64)),
            1901..=2155 => number,
            _ => {
                self.complain(errors::out_of_range(self.name(), self.row))?;
                0
            }
        };
        Ok(Datum::Int(year as i64))
    }

    fn kind(&self) -> &'static str {
        match self.column.ty.base {
            Base::Date => "date",
            Base::Time => "time",
            Base::Timestamp => "datetime",
            _ => "datetime",
        }
    }

    fn wrong_moment(&self, value: &Val<'_>) -> ServerError {
        errors::incorrect_column_value(self.kind(), Self::shown(value), self.schema, self.table, self.name(), self.row)
    }

    fn datetime(&self, value: Val<'_>) -> Res<Datum> {
        let ty = &self.column.ty;
        if let (Val::Timestamp(micros), Base::Timestamp) = (&value, ty.base) {
            let unit = 10i64.pow(u32::from(6 - ty.decimals.min(6)));
            return Ok(Datum::Int(micros - micros.rem_euclid(unit)));
        }
        let parsed = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let parsed = temporal::parse_datetime(text);
                if parsed.is_some_and(|parsed| parsed.truncated) {
                    self.complain(errors::data_truncated(self.name(), self.row))?;
                }
                parsed.map(|parsed| parsed.value)
            }
            other => other.to_datetime().ok().flatten(),
        };
        let mode = self.env.sql_mode.get();
        let allowed = parsed.filter(|moment| {
            if moment.is_zero_date() {
                mode & crate::sql_mode::NO_ZERO_DATE == 0 || !self.strict
            } else {
                !moment.has_zero() || mode & crate::sql_mode::NO_ZERO_IN_DATE == 0
            }
        });
        let Some(moment) = allowed else {
            if self.strict {
                return Err(self.wrong_moment(&value));
            }
            self.env.warn(errors::data_truncated(self.name(), self.row));
            return Ok(Datum::Int(0));
        };
        Ok(Datum::Int(match ty.base {
            Base::Date => {
                if moment.time_micros() != 0 {
                    self.env.note(errors::data_truncated(self.name(), self.row));
                }
                moment.date_only().pack()
            }
            Base::Timestamp => {
                if moment == Datetime::default() {
                    return Ok(Datum::Int(0));
                }
                match crate::value::local::local_to_timestamp(moment.truncate(ty.decimals))
                    .filter(|micros| TIMESTAMPS.contains(micros))
                {
                    Some(micros) => micros,
                    None => {
                        self.complain(self.wrong_moment(&value))?;
                        0
                    }
                }
            }
            _ => moment.truncate(ty.decimals).pack(),
        }))
    }

    fn time(&self, value: Val<'_>) -> Res<Datum> {
        let time = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let parsed = temporal::parse_time(text);
                if parsed.is_some_and(|(_, truncated, _)| truncated) {
                    if self.strict {
                        return Err(self.wrong_moment(&value));
                    }
                    self.env.warn(errors::data_truncated(self.name(), self.row));
                }
                parsed.map(|(time, ..)| time)
            }
            other => other.to_time().ok().flatten(),
        };
        let Some(time) = time else {
            self.complain(self.wrong_moment(&value))?;
            return Ok(Datum::Int(0));
        };
        if time.abs() > TIME_MAX {
            if self.strict {
                return Err(self.wrong_moment(&value));
            }
            self.env.warn(errors::out_of_range(self.name(), self.row));
            return Ok(Datum::Int(temporal::truncate_micros(TIME_MAX, self.column.ty.decimals) * time.signum()));
        }
        Ok(Datum::Int(temporal::truncate_micros(time, self.column.ty.decimals)))
    }

    fn to_bytes<'v>(&self, value: Val<'v>) -> Cow<'v, [u8]> {
        match value {
            Val::Text(text) | Val::Blob(text) => text,
            other => {
                let mut text = Vec::new();
                let base = match other.rep() {
                    Rep::Datetime | Rep::Timestamp => Base::Datetime,
                    Rep::Time => Base::Time,
                    _ => Base::Null,
                };
                other.write(base, self.column.ty.decimals, None, &mut text);
                text.into()
            }
        }
    }

    /// A double on its way into a text: rounded if it fits only so.
    fn short_number<'v>(&self, value: Val<'v>) -> Val<'v> {
        let ty = &self.column.ty;
        let Val::Real(number) = value else { return value };
        if ty.base.is_blob() {
            return value;
        }
        let mut written = Vec::new();
        value.write(Base::Double, NOT_FIXED, None, &mut written);
        if written.len() > ty.length as usize
            && let Some(rounded) = rounded_to(number, ty.length as usize)
        {
            return Val::Text(rounded.into_bytes().into());
        }
        Val::Text(written.into())
    }

    fn text(&self, value: Val<'_>) -> Res<Datum> {
        let ty = &self.column.ty;
        let value = self.short_number(value);
        let value = match value {
            Val::Blob(bytes) if ty.collation.is_latin1() => Val::Text(latin1::decode(&bytes).into_bytes().into()),
            value => value,
        };
        let bytes = self.to_bytes(value);
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(error) => {
                let shown = printable(&bytes[error.valid_up_to()..]);
                self.complain(errors::wrong_value_for_type(
                    "string",
                    shown,
                    self.schema,
                    self.table,
                    self.name(),
                    self.row,
                ))?;
                Cow::Owned(with_question_marks(&bytes))
            }
        };
        let bytes_max = ty.collation.char_bytes_max() as usize;
        let too_long = |c: char| match ty.collation.is_latin1() {
            true => latin1::byte_of(u32::from(c)).is_none(),
            false => c.len_utf8() > bytes_max,
        };
        // UTF-8 has no character of more than four bytes, and long texts come often.
        let found = if bytes_max < 4 { text.char_indices().find(|(_, c)| too_long(*c)) } else { None };
        if let Some((at, _)) = found {
            let shown = printable(&text.as_bytes()[at..]);
            self.complain(errors::wrong_value_for_type(
                "string",
                shown,
                self.schema,
                self.table,
                self.name(),
                self.row,
            ))?;
            let replaced: String = text.chars().map(|c| if too_long(c) { '?' } else { c }).collect();
            return self.fit(&replaced);
        }
        self.fit(&text)
    }

    /// Text within the column's length.
    fn fit(&self, text: &str) -> Res<Datum> {
        let ty = &self.column.ty;
        let end = if ty.base.is_blob() {
            let limit = ty.length as usize;
            if text.len() <= limit {
                text.len()
            } else {
                (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
            }
        } else if text.len() <= ty.length as usize {
            text.len()
        } else {
            text.char_indices().nth(ty.length as usize).map_or(text.len(), |(at, _)| at)
        };
        let (mut kept, lost) = text.split_at(end);
        if !lost.is_empty() {
            if lost.bytes().all(|byte| byte == b' ') && !ty.base.is_blob() {
                self.env.note(errors::data_truncated(self.name(), self.row));
            } else {
                self.complain(errors::too_long(self.name(), self.row))?;
            }
        }
        if ty.base == Base::Char {
            kept = kept.trim_end_matches(' ');
        }
        Ok(Datum::text(kept))
    }

    fn bytes(&self, value: Val<'_>) -> Res<Datum> {
        let ty = &self.column.ty;
        let value = self.short_number(value);
        let bytes = self.to_bytes(value);
        let limit = ty.length as usize;
        let mut kept = &bytes[..];
        if bytes.len() > limit {
            self.complain(errors::too_long(self.name(), self.row))?;
            kept = &bytes[..limit];
        }
        let mut stored = kept.to_vec();
        if ty.base == Base::Binary {
            stored.resize(limit, 0);
        }
        Ok(Datum::Blob(stored.into()))
    }

    fn enumeration(&self, value: Val<'_>) -> Res<Datum> {
        let members = self.column.ty.members.as_deref().unwrap_or_default();
        let collation = self.column.ty.collation;
        let by_number = |number: i128| (1..=members.len() as i128).contains(&number).then_some(number as i64);
        let found = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let named = members.iter().position(|member| collation.compare(member.as_bytes(), text).is_eq());
                named.map(|index| index as i64 + 1).or_else(|| position(text.trim_ascii_end()).and_then(by_number))
            }
            // The part behind the point of a number does not count.
            Val::Dec(number) => by_number(number.truncate(0).mantissa),
            Val::Real(number) => by_number(number.trunc() as i128),
            other => match other.to_int() {
                Ok(0) => Some(0).filter(|_| !self.strict),
                Ok(number) | Err((number, _)) => by_number(number),
            },
        };
        match found {
            Some(index) => Ok(Datum::Int(index)),
            None => {
                self.complain(errors::data_truncated(self.name(), self.row))?;
                Ok(Datum::Int(0))
            }
        }
    }

    fn set(&self, value: Val<'_>) -> Res<Datum> {
        let members = self.column.ty.members.as_deref().unwrap_or_default();
        let collation = self.column.ty.collation;
        let all = if members.len() >= 64 { u64::MAX } else { (1 << members.len()) - 1 };
        let (bits, complete) = match &value {
            Val::Text(text) | Val::Blob(text) => {
                let mut bits = 0u64;
                let mut complete = true;
                for part in text.split(|byte| *byte == b',').filter(|_| !text.is_empty()) {
                    match members.iter().position(|member| collation.compare(member.as_bytes(), part).is_eq()) {
                        Some(index) => bits |= 1 << index,
                        None => complete = false,
                    }
                }
                match position(text).filter(|_| !complete && bits == 0) {
                    Some(number) => (number as u64 & all, number >= 0 && number <= i128::from(all)),
                    None => (bits, complete),
                }
            }
            other => {
                // The part behind the point of a number does not count.
                let number = match other {
                    Val::Dec(number) => number.truncate(0).mantissa,
                    Val::Real(number) => number.trunc() as i128,
                    other => match other.to_int() {
                        Ok(number) | Err((number, _)) => number,
                    },
                };
                (number as u64 & all, number >= 0 && number <= i128::from(all))
            }
        };
        if !complete {
            self.complain(errors::data_truncated(self.name(), self.row))?;
        }
        Ok(Datum::from_u64(bits))
    }

    fn json(&self, value: Val<'_>) -> Res<Datum> {
        let bytes = self.to_bytes(value);
        if !crate::value::json::is_valid(&bytes) {
            let name = format!("{}.{}", self.table, self.name());
            return Err(errors::check_failed(name, self.schema, self.table));
        }
        Ok(Datum::Text(bytes.into_owned().into()))
    }

    /// The value that an omitted or NULL column gets when nothing stops it: zero, empty, the first member.
    pub(crate) fn implicit_default(&self) -> Datum {
        implicit_default(&self.column.ty)
    }
}

/// What stands in a column that must not be NULL and has no default: zero, the empty text, the first member.
pub(crate) fn implicit_default(ty: &SqlType) -> Datum {
    match ty.rep() {
        Rep::Int | Rep::Uint | Rep::Set | Rep::Datetime | Rep::Timestamp | Rep::Time => Datum::Int(0),
        Rep::Enum => Datum::Int(1),
        Rep::Real | Rep::Number => Datum::Real(0.0),
        Rep::Dec => Datum::Blob(Decimal::ZERO.to_blob()),
        Rep::Fixed(kind) => Datum::Blob(vec![0; kind.size()].into()),
        Rep::Blob if ty.base == Base::Binary => Datum::Blob(vec![0; ty.length as usize].into()),
        Rep::Blob => Datum::Blob(Box::default()),
        Rep::Text | Rep::Null => Datum::Text(Box::default()),
    }
}
