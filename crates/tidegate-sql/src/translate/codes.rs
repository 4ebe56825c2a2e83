//! The numbers under which SQLite's functions know representations.

use crate::value::{Fixed, Rep};

/// The number by which `tg_cv` knows a conversion.
pub(crate) fn conversion_code(from: Rep, to: Rep) -> i64 {
    rep_code(from) * 16 + rep_code(to)
}

fn rep_code(rep: Rep) -> i64 {
    match rep {
        Rep::Null => 0,
        Rep::Int => 1,
        Rep::Uint => 2,
        Rep::Real => 3,
        Rep::Dec => 4,
        Rep::Text => 5,
        Rep::Blob => 6,
        Rep::Datetime => 7,
        Rep::Timestamp => 8,
        Rep::Time => 9,
        Rep::Enum => 10,
        Rep::Set => 11,
        Rep::Number => 12,
        Rep::Fixed(Fixed::Uuid) => 13,
        Rep::Fixed(Fixed::Inet4) => 14,
        Rep::Fixed(Fixed::Inet6) => 15,
    }
}

/// The representation with a number.
pub(crate) fn rep_of_code(code: i64) -> Rep {
    match code {
        1 => Rep::Int,
        2 => Rep::Uint,
        3 => Rep::Real,
        4 => Rep::Dec,
        5 => Rep::Text,
        6 => Rep::Blob,
        7 => Rep::Datetime,
        8 => Rep::Timestamp,
        9 => Rep::Time,
        10 => Rep::Enum,
        11 => Rep::Set,
        12 => Rep::Number,
        13 => Rep::Fixed(Fixed::Uuid),
        14 => Rep::Fixed(Fixed::Inet4),
        15 => Rep::Fixed(Fixed::Inet6),
        _ => Rep::Null,
    }
}
