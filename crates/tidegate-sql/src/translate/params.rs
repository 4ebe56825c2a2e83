//! The parameters of a statement: a caller's, or the user variables of EXECUTE with all their types.

use std::{borrow::Cow, ops::Range};

use tidegate_rows::{ColumnType, Param, Value};

use super::{ParamKind, revise::Revise};
use crate::{
    env::UserValue,
    lexer::{self, LexMode},
    value::{
        Datum, Rep, Val,
        decimal::Decimal,
        temporal::{TIME_MAX, parse_datetime, parse_time},
    },
};

/// A text with one statement or several, and what belongs in place of its `?`.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) sql: &'a [u8],
    pub(crate) params: Params<'a>,
}

impl<'a> Text<'a> {
    /// The values of the `?` in a part of the text.
    pub(crate) fn params_within(self, part: (usize, usize), mode: LexMode) -> Params<'a> {
        match self.params.len() {
            0 => self.params,
            _ => self.params.part(lexer::params_within(self.sql, part, mode)),
        }
    }
}

/// Values for the `?` of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Params<'a> {
    /// What the caller has bound.
    Bound(&'a [Param]),
    /// The variables behind USING.
    Variables(&'a [UserValue]),
    /// Those of a statement without a text.
    Made(Made<'a>),
}

/// The values of a statement without a text, and who decides about its rows.
#[derive(Clone, Copy)]
pub(crate) struct Made<'a> {
    pub(crate) values: &'a [MadeParam<'a>],
    pub(crate) revise: Option<&'a dyn Revise>,
}

/// A value of a statement without a text.
#[derive(Debug, Clone)]
pub(crate) enum MadeParam<'a> {
    /// As somebody has given it.
    Given(Value<'a>),
    /// In the stored form of a column.
    Stored(Datum, Rep),
    /// Values of which each in turn stands in another one's place ([`Walk`](super::walk::Walk)).
    Each(Vec<MadeParam<'a>>),
}

impl<'a> Params<'a> {
    /// No parameters.
    pub(crate) const NONE: Self = Self::Bound(&[]);

    /// Number of parameters.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bound(params) => params.len(),
            Self::Variables(values) => values.len(),
            Self::Made(made) => made.values.len(),
        }
    }

    /// Those of these numbers; none if there are fewer.
    pub(crate) fn part(self, numbers: Range<usize>) -> Self {
        match self {
            Self::Bound(params) => Self::Bound(params.get(numbers).unwrap_or_default()),
            Self::Variables(values) => Self::Variables(values.get(numbers).unwrap_or_default()),
            Self::Made(made) => Self::Made(Made { values: made.values.get(numbers).unwrap_or_default(), ..made }),
        }
    }

    /// The kinds of all of them.
    pub(crate) fn kinds(self) -> impl Iterator<Item = ParamKind> {
        (0..self.len()).map(move |index| self.kind(index))
    }

    /// The type of a parameter, as far as a translation depends on it.
    #[inline]
    pub(crate) fn kind(self, index: usize) -> ParamKind {
        match self {
            Self::Bound(params) => match &params[index] {
                Param::Null => ParamKind::Null,
                Param::Int(_) => ParamKind::Int,
                Param::Uint(_) => ParamKind::Uint,
                Param::Double(_) => ParamKind::Double,
                Param::Bytes(_) => ParamKind::Bytes,
                Param::Typed(kind, text) => typed(*kind, text).map_or(ParamKind::Bytes, |(kind, _)| kind),
            },
            Self::Variables(values) => {
                let UserValue { value, ty } = &values[index];
                match (value.is_null(), ty.rep()) {
                    (true, _) | (_, Rep::Null) => ParamKind::Null,
                    (_, Rep::Int) => ParamKind::Int,
                    (_, Rep::Uint) => ParamKind::Uint,
                    (_, Rep::Real) => ParamKind::Double,
                    (_, Rep::Dec) => ParamKind::Decimal { decimals: ty.decimals },
                    (_, Rep::Blob) => ParamKind::Blob,
                    _ => ParamKind::Text(ty.collation),
                }
            }
            Self::Made(_) => ParamKind::Made,
        }
    }

    /// The value of a parameter that is a signed integer.
    pub(crate) fn int(self, index: usize) -> Option<i64> {
        match self.value(index)? {
            Val::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The text of a parameter that has come as a date or a time.
    pub(crate) fn temporal_text(self, index: usize) -> Option<&'a [u8]> {
        match self {
            Self::Bound(params) => match params.get(index)? {
                Param::Typed(_, text) => Some(text),
                _ => None,
            },
            Self::Variables(_) | Self::Made(_) => None,
        }
    }

    /// The value of a parameter; `None` if it was not given.
    #[inline]
    pub(crate) fn value(self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::Bound(params) => Some(match params.get(index)? {
                Param::Null => Val::Null,
                Param::Int(value) => Val::Int(*value),
                Param::Uint(value) => Val::Uint(*value),
                Param::Double(value) => Val::Real(*value),
                Param::Bytes(bytes) => Val::Text(Cow::Borrowed(bytes)),
                Param::Typed(kind, text) => {
                    typed(*kind, text).map_or_else(|| Val::Text(Cow::Borrowed(text)), |(_, value)| value)
                }
            }),
            Self::Variables(values) => {
                let UserValue { value, ty } = values.get(index)?;
                Some(match (Val::of(value.as_cell(), ty.rep()), ty.rep()) {
                    (Val::Dec(value), _) => Val::Dec(at_scale(value, ty.decimals)),
                    (value, _) => value,
                })
            }
            Self::Made(made) => Some(match made.values.get(index)? {
                MadeParam::Stored(datum, rep) => Val::of(datum.as_cell(), *rep),
                MadeParam::Given(value) => Val::given(*value),
                MadeParam::Each(_) => return None,
            }),
        }
    }
}

/// The type and the value of a parameter that a client has sent as a date, a time or a DECIMAL; `None` if its text is none.
///
/// Source: MariaDB, which shows all six digits of a second or none.
fn typed(kind: ColumnType, text: &[u8]) -> Option<(ParamKind, Val<'static>)> {
    let shown = |value: i64| if value % 1_000_000 == 0 { 0 } else { 6 };
    Some(match kind {
        ColumnType::Date | ColumnType::NewDate => {
            (ParamKind::Date, Val::Datetime(parse_datetime(text)?.value.date_only().pack()))
        }
        ColumnType::Datetime | ColumnType::Timestamp => {
            let moment = parse_datetime(text)?.value;
            (ParamKind::Datetime { decimals: shown(moment.micros) }, Val::Datetime(moment.pack()))
        }
        ColumnType::Time => {
            let (time, ..) = parse_time(text)?;
            let time = time.clamp(-TIME_MAX, TIME_MAX);
            (ParamKind::Time { decimals: shown(time) }, Val::Time(time))
        }
        ColumnType::Decimal | ColumnType::NewDecimal => {
            let (value, used) = Decimal::parse_prefix(text)?;
            if used != text.len() {
                return None;
            }
            (ParamKind::Decimal { decimals: value.scale }, Val::Dec(value))
        }
        _ => return None,
    })
}

/// A number with the digits behind the point that its variable has.
fn at_scale(value: Decimal, decimals: u8) -> Decimal {
    value.rescale(decimals).unwrap_or(value)
}
