//! A typed value at run time, and the conversions between types that MySQL makes without being asked.

use std::borrow::Cow;

use super::{
    Base, Cell, Datum, Fixed, Rep, SqlType,
    decimal::Decimal,
    fixed::FixedValue,
    local,
    number::{self, parse_decimal, parse_f64, parse_int},
    temporal::{self, Datetime, datetime_from_number, parse_datetime, parse_time},
    uint_of,
};

/// A value together with what it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Val<'a> {
    Null,
    Int(i64),
    Uint(u64),
    Real(f64),
    Dec(Decimal),
    Text(Cow<'a, [u8]>),
    Blob(Cow<'a, [u8]>),
    /// Packed date and time.
    Datetime(i64),
    /// Microseconds since 1970.
    Timestamp(i64),
    /// Microseconds.
    Time(i64),
    /// UUID, INET4, INET6.
    Fixed(FixedValue),
}

/// What a conversion found wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incorrect(pub(crate) &'static str);

impl<'a> Val<'a> {
    /// The value that `cell` holds for SQLite.
    pub(crate) fn of(cell: Cell<'a>, rep: Rep) -> Self {
        match (cell, rep) {
            (Cell::Null, _) => Val::Null,
            (Cell::Int(value), Rep::Datetime) => Val::Datetime(value),
            (Cell::Int(value), Rep::Timestamp) => Val::Timestamp(value),
            (Cell::Int(value), Rep::Time) => Val::Time(value),
            (Cell::Int(value), Rep::Uint | Rep::Set) => Val::Uint(value as u64),
            (Cell::Blob(_), Rep::Uint | Rep::Set) => Val::Uint(uint_of(cell)),
            (Cell::Blob(blob), Rep::Dec) => Decimal::decode(blob).map_or(Val::Null, Val::Dec),
            (Cell::Blob(blob), Rep::Fixed(kind)) => kind.of_stored(blob).map_or(Val::Null, Val::Fixed),
            (Cell::Int(value), _) => Val::Int(value),
            (Cell::Real(value), _) => Val::Real(value),
            (Cell::Text(text), _) => Val::Text(Cow::Borrowed(text)),
            (Cell::Blob(blob), _) => Val::Blob(Cow::Borrowed(blob)),
        }
    }

    /// A value that somebody has given: characters as a text.
    pub(crate) fn given(value: tidegate_rows::Value<'a>) -> Self {
        use tidegate_rows::Value;
        match value {
            Value::Null => Val::Null,
            Value::Int(value) => Val::Int(value),
            Value::Uint(value) => Val::Uint(value),
            Value::Float(value) => Val::Real(f64::from(value)),
            Value::Double(value) => Val::Real(value),
            Value::Bytes(bytes) => Val::Text(Cow::Borrowed(bytes)),
        }
    }

    /// Whether this is NULL.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Val::Null)
    }

    /// The value's own representation.
    pub(crate) fn rep(&self) -> Rep {
        match self {
            Val::Null => Rep::Null,
            Val::Int(_) => Rep::Int,
            Val::Uint(_) => Rep::Uint,
            Val::Real(_) => Rep::Real,
            Val::Dec(_) => Rep::Dec,
            Val::Text(_) => Rep::Text,
            Val::Blob(_) => Rep::Blob,
            Val::Datetime(_) => Rep::Datetime,
            Val::Timestamp(_) => Rep::Timestamp,
            Val::Time(_) => Rep::Time,
            Val::Fixed(value) => Rep::Fixed(value.kind()),
        }
    }

    /// The stored form.
    pub(crate) fn into_datum(self) -> Datum {
        match self {
            Val::Null => Datum::Null,
            Val::Int(value) | Val::Datetime(value) | Val::Timestamp(value) | Val::Time(value) => Datum::Int(value),
            Val::Uint(value) => Datum::from_u64(value),
            Val::Real(value) => Datum::Real(value),
            Val::Dec(value) => Datum::Blob(value.to_blob()),
            Val::Text(text) => Datum::Text(text.into_owned().into()),
            Val::Blob(blob) => Datum::Blob(blob.into_owned().into()),
            Val::Fixed(value) => Datum::Blob(value.to_stored()),
        }
    }

    /// Converts the value to floating point.
    pub(crate) fn to_f64(&self) -> Result<f64, (f64, Incorrect)> {
        Ok(match self {
            Val::Null => 0.0,
            Val::Int(value) => *value as f64,
            Val::Uint(value) => *value as f64,
            Val::Real(value) => *value,
            Val::Dec(value) => value.to_f64(),
            Val::Text(text) | Val::Blob(text) => {
                let parsed = parse_f64(text);
                if !parsed.clean {
                    return Err((parsed.value, Incorrect("DOUBLE")));
                }
                parsed.value
            }
            Val::Fixed(_) => return Err((0.0, Incorrect("DOUBLE"))),
            Val::Datetime(_) | Val::Time(_) | Val::Timestamp(_) => match self.to_decimal() {
                Ok(value) | Err((value, _)) => value.to_f64(),
            },
        })
    }

    /// Converts the value to an exact number.
    pub(crate) fn to_decimal(&self) -> Result<Decimal, (Decimal, Incorrect)> {
        Ok(match self {
            Val::Null => Decimal::ZERO,
            Val::Int(value) => Decimal::from_int(i128::from(*value)),
            Val::Uint(value) => Decimal::from_int(i128::from(*value)),
            Val::Real(value) => Decimal::from_f64(*value).ok_or((Decimal::most(*value < 0.0), Incorrect("DECIMAL")))?,
            Val::Dec(value) => *value,
            Val::Text(text) | Val::Blob(text) => {
                let parsed = parse_decimal(text);
                if !parsed.clean {
                    return Err((parsed.value, Incorrect("DECIMAL")));
                }
                parsed.value
            }
            Val::Datetime(packed) => {
                let value = Datetime::unpack(*packed);
                with_micros(value.to_number(), value.micros)
            }
            Val::Fixed(_) => return Err((Decimal::ZERO, Incorrect("DECIMAL"))),
            Val::Timestamp(_) => return self.clone().local().to_decimal(),
            Val::Time(time) => with_micros(temporal::time_to_number(*time), time % 1_000_000),
        })
    }

    /// As a whole number of any size; fractions are rounded, those of times are cut, text is cut at the first byte that is no digit.
    pub(crate) fn to_int(&self) -> Result<i128, (i128, Incorrect)> {
        Ok(match self {
            Val::Null => 0,
            Val::Int(value) => i128::from(*value),
            Val::Uint(value) => i128::from(*value),
            Val::Real(value) => number::round_f64(*value),
            Val::Dec(value) => value.round_to_int(),
            Val::Text(text) => {
                let parsed = parse_int(text);
                if !parsed.clean {
                    return Err((parsed.value, Incorrect("INTEGER")));
                }
                parsed.value
            }
            Val::Blob(blob) => {
                let parsed = parse_int(blob);
                if !parsed.clean {
                    return Err((parsed.value, Incorrect("INTEGER")));
                }
                parsed.value
            }
            Val::Fixed(_) => return Err((0, Incorrect("INTEGER"))),
            Val::Datetime(_) | Val::Time(_) | Val::Timestamp(_) => match self.to_decimal() {
                // A fraction of a second is cut: rounding could give a second that no minute has.
                Ok(value) | Err((value, _)) => value.truncate(0).mantissa,
            },
        })
    }

    /// Converts the value to a date and time.
    pub(crate) fn to_datetime(&self) -> Result<Option<Datetime>, Incorrect> {
        let wrong = Incorrect("datetime");
        Ok(Some(match self {
            Val::Null => return Ok(None),
            Val::Datetime(packed) => Datetime::unpack(*packed),
            Val::Timestamp(_) => return self.clone().local().to_datetime(),
            Val::Time(time) => {
                let today = local::today();
                let total = today.total_micros().unwrap_or(0) + time;
                return Datetime::from_total_micros(total).map(Some).ok_or(wrong);
            }
            Val::Text(text) | Val::Blob(text) => parse_datetime(text).ok_or(wrong)?.value,
            Val::Fixed(_) => return Err(wrong),
            Val::Int(value) => datetime_from_number(*value).ok_or(wrong)?,
            Val::Uint(value) => i64::try_from(*value).ok().and_then(datetime_from_number).ok_or(wrong)?,
            Val::Real(_) | Val::Dec(_) => {
                let number = self.to_decimal().map_err(|_| wrong)?;
                if number.mantissa < 0 {
                    return Err(wrong);
                }
                let whole = number.truncate(0);
                let mut value = i64::try_from(whole.mantissa).ok().and_then(datetime_from_number).ok_or(wrong)?;
                let fraction = number.sub(whole).and_then(|fraction| fraction.rescale(6));
                value.micros = fraction.map_or(0, |fraction| fraction.mantissa as i64);
                value
            }
        }))
    }

    /// Converts the value to a TIME.
    pub(crate) fn to_time(&self) -> Result<Option<i64>, Incorrect> {
        let wrong = Incorrect("time");
        Ok(Some(match self {
            Val::Null => return Ok(None),
            Val::Time(time) => *time,
            Val::Datetime(packed) => Datetime::unpack(*packed).time_micros(),
            Val::Timestamp(_) => return self.clone().local().to_time(),
            Val::Text(text) | Val::Blob(text) => parse_time(text).ok_or(wrong)?.0,
            Val::Fixed(_) => return Err(wrong),
            Val::Int(value) => temporal::time_from_number(*value).ok_or(wrong)?,
            Val::Uint(value) => temporal::time_from_number(i64::try_from(*value).unwrap_or(i64::MAX)).ok_or(wrong)?,
            Val::Real(_) | Val::Dec(_) => {
                let (Ok(number) | Err((number, _))) = self.to_decimal();
                let whole = number.truncate(0);
                let most = if whole.mantissa < 0 { i64::MIN } else { i64::MAX };
                let time = temporal::time_from_number(i64::try_from(whole.mantissa).unwrap_or(most)).ok_or(wrong)?;
                time + number.sub(whole).and_then(|rest| rest.rescale(6)).map_or(0, |rest| rest.mantissa as i64)
            }
        }))
    }

    /// The value in a type of a fixed number of bytes.
    ///
    /// # Errors
    /// A text or bytes that are no such value, and values of all other types.
    pub(crate) fn to_fixed(&self, kind: Fixed) -> Result<Option<FixedValue>, Incorrect> {
        let found = match self {
            Val::Null => return Ok(None),
            Val::Text(text) => kind.parse(text),
            Val::Blob(bytes) => kind.of_bytes(bytes),
            // The text decides, as for all other values: an INET4 is no INET6.
            Val::Fixed(value) if value.kind() == kind => Some(*value),
            _ => None,
        };
        found.map(Some).ok_or(Incorrect(kind.name()))
    }

    /// A TIMESTAMP as date and time in the session's time zone; anything else as it is.
    pub(crate) fn local(self) -> Self {
        match self {
            Val::Timestamp(micros) => Val::Datetime(local::timestamp_to_local(micros).pack()),
            other => other,
        }
    }

    /// Appends the text of the value as a string function sees it.
    pub(crate) fn write_text(&self, ty: &SqlType, out: &mut Vec<u8>) {
        self.write(ty.base, ty.decimals, ty.zerofill.then_some(ty.length), out);
    }

    /// Appends the text; `width` fills numbers with zeros.
    pub(crate) fn write(&self, base: Base, decimals: u8, width: Option<u32>, out: &mut Vec<u8>) {
        match self {
            Val::Null => {}
            Val::Int(value) if width.is_some() => temporal::write_padded(*value, width.unwrap_or(0) as usize, out),
            Val::Int(value) => out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes()),
            Val::Uint(value) => {
                let mut buf = itoa::Buffer::new();
                let digits = buf.format(*value).as_bytes();
                out.extend(std::iter::repeat_n(b'0', (width.unwrap_or(0) as usize).saturating_sub(digits.len())));
                out.extend_from_slice(digits);
            }
            Val::Real(value) if decimals < super::types::NOT_FIXED && matches!(base, Base::Float | Base::Double) => {
                let mut text = format!("{value:.*}", usize::from(decimals));
                let shortest = number::plain(*value);
                if shortest.rsplit_once('.').map_or(0, |(_, digits)| digits.len()) <= usize::from(decimals) {
                    // More digits than the number has: zeros, not those of its binary form.
                    let (whole, digits) = shortest.split_once('.').unwrap_or((&shortest, ""));
                    text = if decimals == 0 {
                        whole.to_owned()
                    } else {
                        format!("{whole}.{digits:0<width$}", width = usize::from(decimals))
                    };
                }
                let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
                let text = if zero { text.trim_start_matches('-') } else { &text };
                out.extend_from_slice(text.as_bytes());
            }
            Val::Real(value) if base == Base::Float => number::write_f32(*value, out),
            Val::Real(value) => number::write_f64(*value, out),
            Val::Dec(value) => {
                let scaled = if base == Base::Decimal { value.rescale(decimals).unwrap_or(*value) } else { *value };
                let start = out.len();
                scaled.write(out);
                if let Some(width) = width {
                    let wanted = width as usize + usize::from(decimals > 0);
                    let missing = wanted.saturating_sub(out.len() - start);
                    out.splice(start..start, std::iter::repeat_n(b'0', missing));
                }
            }
            Val::Text(text) | Val::Blob(text) => out.extend_from_slice(text),
            Val::Datetime(packed) => {
                let value = Datetime::unpack(*packed);
                if base == Base::Date { value.write_date(out) } else { value.write(decimals, out) }
            }
            Val::Timestamp(_) => self.clone().local().write(Base::Datetime, decimals, width, out),
            Val::Time(time) => temporal::write_time(*time, decimals, out),
            Val::Fixed(value) => value.write(out),
        }
    }
}

fn with_micros(whole: i64, micros: i64) -> Decimal {
    if micros == 0 {
        return Decimal::from_int(i128::from(whole));
    }
    Decimal { mantissa: i128::from(whole) * 1_000_000 + i128::from(micros), scale: 6 }
}
