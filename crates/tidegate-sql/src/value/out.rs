//! How stored values are shown.

use tidegate_rows::{Field, Unpack, Value};

use super::{Base, Cell, Rep, SqlType, Val, decimal::Decimal, latin1, temporal::Datetime, types::NOT_FIXED, uint_of};

/// How a column's stored form becomes the sink's value.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    pub(crate) ty: SqlType,
    pub(crate) rep: Rep,
}

impl Out {
    /// For a column of a type.
    pub(crate) fn of(ty: &SqlType) -> Self {
        Self { ty: ty.clone(), rep: ty.rep() }
    }

    /// For a row id.
    pub(crate) fn rowid() -> Self {
        Self::of(&SqlType::bigint())
    }

    /// A value as the sink gets it.
    #[inline]
    pub(crate) fn field<'v>(&'v self, cell: Cell<'v>) -> Field<'v> {
        Field::Plain(match (cell, self.rep) {
            (Cell::Null, _) => Value::Null,
            (Cell::Int(value), Rep::Int) if !self.ty.zerofill => Value::Int(value),
            (Cell::Text(text), _) => Value::Bytes(text),
            (Cell::Blob(blob), Rep::Blob) => Value::Bytes(blob),
            (cell, Rep::Uint) if !self.ty.zerofill && self.ty.base != Base::Bit => Value::Uint(uint_of(cell)),
            // The text of any other number with a point depends on its type: FLOAT has six digits, DOUBLE(9,2) two behind the point.
            (Cell::Real(value), Rep::Real)
                if self.ty.base == Base::Double && self.ty.decimals >= NOT_FIXED && value.is_finite() =>
            {
                Value::Double(value)
            }
            (Cell::Int(packed), _) => return Field::Packed(Value::Int(packed), self),
            (Cell::Real(packed), _) => return Field::Packed(Value::Double(packed), self),
            (Cell::Blob(packed), _) => return Field::Packed(Value::Bytes(packed), self),
        })
    }

    /// The value of a cell, for storing it in a column of the type `column`.
    ///
    /// Only the type knows the text of a value as a reader sees it: the zeros behind a DECIMAL, the fraction of a time, the member
    /// of an ENUM. A column of text gets that text. For a column of numbers a DATE is one of eight digits, a member of an ENUM its
    /// position, and a SET its members' bits.
    pub(crate) fn value_for<'v>(&self, cell: Cell<'v>, column: &SqlType) -> Val<'v> {
        // A number is the position of a member for ENUM and the members' bits for SET.
        let strings = matches!(column.rep(), Rep::Text | Rep::Blob)
            || self.ty.base.is_temporal() && matches!(column.base, Base::Enum | Base::Set | Base::Bit);
        let year = column.base == Base::Year;
        let numbers = matches!(column.rep(), Rep::Int | Rep::Uint | Rep::Real | Rep::Dec);
        match Val::of(cell, self.rep) {
            Val::Text(text) if self.ty.collation.is_latin1() && column.rep() == Rep::Blob => {
                Val::Blob(latin1::encode(&text).into())
            }
            value @ (Val::Null | Val::Text(_) | Val::Blob(_)) => value,
            Val::Datetime(packed) if self.ty.base == Base::Date && numbers && !strings && !year => {
                Val::Int(Datetime::unpack(packed).to_number() / 1_000_000)
            }
            // The digits of bits, unless a column of TEXT or BLOB takes their bytes.
            value if self.ty.base == Base::Bit && strings && !column.base.is_blob() => value,
            // As many digits as the column has room for.
            Val::Real(value) if strings && self.ty.base == Base::Double && self.ty.decimals >= NOT_FIXED => {
                Val::Real(value)
            }
            // More digits than the type shows are kept, and ZEROFILL is not copied, as in MariaDB.
            Val::Dec(value) if strings => Val::Dec(value.rescale(self.ty.decimals.max(value.scale)).unwrap_or(value)),
            // Columns of bytes take the bytes.
            value @ Val::Fixed(_) => value,
            Val::Int(position) if numbers && self.rep == Rep::Enum => Val::Int(position),
            Val::Uint(members) if numbers && self.rep == Rep::Set => Val::Uint(members),
            _ if strings || matches!(self.rep, Rep::Enum | Rep::Set) => {
                let mut text = Vec::new();
                self.write(cell, &mut text);
                Val::Text(text.into())
            }
            value => value,
        }
    }

    /// Appends the text of a value.
    pub(crate) fn write(&self, cell: Cell<'_>, buf: &mut Vec<u8>) {
        match self.rep {
            Rep::Enum => {
                let index = if let Cell::Int(index) = cell { index } else { 0 };
                let members = self.ty.members.as_deref().unwrap_or_default();
                let member = usize::try_from(index - 1).ok().and_then(|index| members.get(index));
                buf.extend_from_slice(member.map_or(&b""[..], |member| member.as_bytes()));
            }
            Rep::Set => {
                let bits = uint_of(cell);
                let members = self.ty.members.as_deref().unwrap_or_default();
                let mut first = true;
                for (_, member) in members.iter().enumerate().filter(|(index, _)| bits >> (index % 64) & 1 == 1) {
                    if !first {
                        buf.push(b',');
                    }
                    first = false;
                    buf.extend_from_slice(member.as_bytes());
                }
            }
            // The century is kept, and shown by nothing.
            Rep::Int if self.ty.base == Base::Year && self.ty.length == 2 => {
                let year = if let Cell::Int(year) = cell { year.rem_euclid(100) } else { 0 };
                buf.extend([b'0' + (year / 10) as u8, b'0' + (year % 10) as u8]);
            }
            Rep::Uint if self.ty.base == Base::Bit => {
                let bytes = uint_of(cell).to_be_bytes();
                let len = (self.ty.length as usize).div_ceil(8).clamp(1, 8);
                buf.extend_from_slice(&bytes[8 - len..]);
            }
            Rep::Dec => {
                if let Cell::Blob(blob) = cell
                    && let Some(value) = Decimal::decode(blob)
                {
                    let value = value.rescale(self.ty.decimals).unwrap_or(value);
                    if self.ty.zerofill {
                        let mut text = Vec::new();
                        value.write(&mut text);
                        let width = self.ty.length as usize + usize::from(self.ty.decimals > 0);
                        buf.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
                        buf.extend_from_slice(&text);
                    } else {
                        value.write(buf);
                    }
                }
            }
            _ => Val::of(cell, self.rep).write_text(&self.ty, buf),
        }
    }
}

impl Unpack for Out {
    fn append_text(&self, packed: Value<'_>, out: &mut Vec<u8>) {
        let cell = match packed {
            Value::Int(packed)
                if self.rep == Rep::Datetime && self.ty.base == Base::Datetime && self.ty.decimals == 0 =>
            {
                return out.extend_from_slice(&datetime_text(Datetime::unpack(packed)));
            }
            Value::Int(packed) => Cell::Int(packed),
            Value::Double(packed) => Cell::Real(packed),
            Value::Bytes(packed) => Cell::Blob(packed),
            // [`Out::field`] packs nothing else.
            Value::Null | Value::Uint(_) | Value::Float(_) => return,
        };
        self.write(cell, out);
    }
}

/// `YYYY-MM-DD hh:mm:ss`: the most frequent of the types whose text has to be made.
#[inline]
fn datetime_text(value: Datetime) -> [u8; 19] {
    let mut text = *b"0000-00-00 00:00:00";
    let two = |number: i64| {
        let number = number.unsigned_abs() % 100;
        [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
    };
    let parts = [
        (0, value.year / 100),
        (2, value.year),
        (5, value.month),
        (8, value.day),
        (11, value.hour),
        (14, value.minute),
        (17, value.second),
    ];
    for (at, number) in parts {
        text[at..at + 2].copy_from_slice(&two(number));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_of_two_digits() {
        let out = Out::of(&SqlType { length: 2, ..SqlType::new(Base::Year) });
        for (year, shown) in [(0, "00"), (1901, "01"), (1980, "80"), (2010, "10"), (2155, "55")] {
            let mut text = Vec::new();
            out.write(Cell::Int(year), &mut text);
            assert_eq!(text, shown.as_bytes());
        }
    }

    #[test]
    fn a_datetime_has_the_text_that_all_others_have() {
        for (year, month, day, hour, minute, second) in [
            (0, 0, 0, 0, 0, 0),
            (1, 2, 3, 4, 5, 6),
            (1970, 1, 1, 0, 0, 0),
            (2026, 11, 22, 14, 30, 59),
            (9999, 12, 31, 23, 59, 59),
        ] {
            let value = Datetime { year, month, day, hour, minute, second, micros: 0 };
            let mut text = Vec::new();
            value.write(0, &mut text);
            assert_eq!(datetime_text(Datetime::unpack(value.pack())), text.as_slice());
        }
    }
}
