//! The parameters of a statement: a caller's, or the user variables of EXECUTE with all their types.

use std::borrow::Cow;

use tidegate_rows::Param;

use crate::{
    session::UserValue,
    translate::ParamKind,
    value::{Rep, Val, decimal::Decimal},
};

/// A text with one statement or several, and what belongs in place of its `?`.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) sql: &'a [u8],
    pub(crate) params: Params<'a>,
}

/// Values for the `?` of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Params<'a> {
    /// What the caller has bound.
    Bound(&'a [Param]),
    /// The variables behind USING.
    Variables(&'a [UserValue]),
}

impl<'a> Params<'a> {
    /// No parameters.
    pub(crate) const NONE: Self = Self::Bound(&[]);

    /// Number of parameters.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bound(params) => params.len(),
            Self::Variables(values) => values.len(),
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
        }
    }

    /// The value of a parameter that is a signed integer.
    pub(crate) fn int(self, index: usize) -> Option<i64> {
        match self.value(index)? {
            Val::Int(value) => Some(value),
            _ => None,
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
            }),
            Self::Variables(values) => {
                let UserValue { value, ty } = values.get(index)?;
                Some(match (Val::of(value.as_cell(), ty.rep()), ty.rep()) {
                    (Val::Dec(value), _) => Val::Dec(at_scale(value, ty.decimals)),
                    (value, _) => value,
                })
            }
        }
    }
}

/// A number with the digits behind the point that its variable has.
fn at_scale(value: Decimal, decimals: u8) -> Decimal {
    value.rescale(decimals).unwrap_or(value)
}
