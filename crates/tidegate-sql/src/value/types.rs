//! MySQL's types: of columns and of expressions alike.

use std::sync::Arc;

use tidegate_rows::{Column, ColumnFlags, ColumnType, Extended, ServerError};

use super::{
    collation::{Collation, collation_of},
    fixed::Fixed,
};

/// The type's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    Null,
    Tiny,
    Small,
    Medium,
    Int,
    Big,
    Bit,
    Year,
    Float,
    Double,
    Decimal,
    Date,
    Time,
    Datetime,
    Timestamp,
    Char,
    Varchar,
    TinyText,
    Text,
    MediumText,
    LongText,
    Binary,
    Varbinary,
    TinyBlob,
    Blob,
    MediumBlob,
    LongBlob,
    Json,
    Enum,
    Set,
    Fixed(Fixed),
}

/// How a value of a type looks to SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rep {
    /// Always NULL.
    Null,
    /// INTEGER.
    Int,
    /// INTEGER, or an 8-byte BLOB from 2^63 on.
    Uint,
    /// REAL.
    Real,
    /// BLOB, see [`super::decimal`].
    Dec,
    /// TEXT.
    Text,
    /// BLOB.
    Blob,
    /// INTEGER, packed date and time.
    Datetime,
    /// INTEGER, microseconds since 1970 in UTC.
    Timestamp,
    /// INTEGER, microseconds.
    Time,
    /// INTEGER, number of the member.
    Enum,
    /// As `Uint`, one bit for each member.
    Set,
    /// BLOB, see [`super::fixed`].
    Fixed(Fixed),
    /// Parameters only: INTEGER (or `Uint`'s BLOB) for the text of a whole number, REAL for any other.
    Number,
}

/// `decimals` of a floating-point type without a fixed number of them.
pub(crate) const NOT_FIXED: u8 = 31;

/// A type with everything that describes a column of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SqlType {
    pub(crate) base: Base,
    pub(crate) unsigned: bool,
    pub(crate) zerofill: bool,
    /// Display width of numbers, precision of decimals, characters (or bytes) of strings, bits of BIT.
    pub(crate) length: u32,
    /// Digits behind the point; of seconds for temporal types.
    pub(crate) decimals: u8,
    pub(crate) collation: Collation,
    /// Members of ENUM and SET.
    pub(crate) members: Option<Arc<[Box<str>]>>,
    pub(crate) marks: Marks,
}

/// What else is known of an expression's value; two types are the same whatever their marks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// A truth value: JSON writes it as one.
    pub(crate) bool: bool,
    /// JSON: JSON does not quote it.
    pub(crate) json: bool,
    /// `0x41` or `b'1'`: a number where a number is wanted.
    pub(crate) number: bool,
    /// `x'41'`: described as without sign.
    pub(crate) hex: bool,
    /// A value of a column or an aggregate: texts of any size are described as BLOB.
    pub(crate) stored: bool,
    /// CAST AS CHAR: a text that counts as a number without digits behind the point.
    pub(crate) cast: bool,
    /// The sum of a text and an interval: a text that is a moment where a number is wanted.
    pub(crate) dated: bool,
    /// A column called REAL, which is FLOAT in one sql_mode.
    pub(crate) real: bool,
}

impl PartialEq for Marks {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl SqlType {
    /// Gives a type of characters its character set and collation; with those of bytes it becomes a type of bytes. A type that
    /// was declared BINARY has the `_bin` collation of its character set unless one is named.
    ///
    /// # Errors
    /// Those of [`collation_of`].
    pub(crate) fn set_charset(
        &mut self,
        charset: Option<&str>,
        collation: Option<&str>,
        otherwise: Collation,
    ) -> Result<(), ServerError> {
        let wants_binary = self.collation.is_binary_order() && collation.is_none();
        let found = collation_of(charset, collation, otherwise)?;
        self.collation = if wants_binary { found.binary_order() } else { found };
        if self.collation == Collation::BINARY {
            self.base = match self.base {
                Base::Char => Base::Binary,
                Base::Varchar => Base::Varbinary,
                Base::TinyText => Base::TinyBlob,
                Base::Text => Base::Blob,
                Base::MediumText => Base::MediumBlob,
                Base::LongText => Base::LongBlob,
                other => other,
            };
        }
        Ok(())
    }

    /// A type with the usual length.
    pub(crate) fn new(base: Base) -> Self {
        let (length, decimals) = match base {
            Base::Tiny => (4, 0),
            Base::Small => (6, 0),
            Base::Medium => (9, 0),
            Base::Int => (11, 0),
            Base::Big => (20, 0),
            Base::Bit => (1, 0),
            Base::Year => (4, 0),
            Base::Float => (12, NOT_FIXED),
            Base::Double => (22, NOT_FIXED),
            Base::Decimal => (10, 0),
            Base::Date | Base::Time => (10, 0),
            Base::Datetime | Base::Timestamp => (19, 0),
            Base::Char | Base::Binary => (1, 0),
            Base::TinyText | Base::TinyBlob => (255, 0),
            Base::Text | Base::Blob => (65_535, 0),
            Base::MediumText | Base::MediumBlob => (16_777_215, 0),
            Base::LongText | Base::LongBlob | Base::Json => (u32::MAX, 0),
            Base::Fixed(kind) => (kind.chars_max(), 0),
            Base::Varchar | Base::Varbinary | Base::Enum | Base::Set | Base::Null => (0, 0),
        };
        let collation = if base.is_character() { Collation::DEFAULT } else { Collation::BINARY };
        Self {
            base,
            unsigned: base == Base::Year,
            zerofill: base == Base::Year,
            length,
            decimals,
            collation,
            members: None,
            marks: Marks::default(),
        }
    }

    /// A signed BIGINT, the type of most integer expressions.
    pub(crate) fn bigint() -> Self {
        Self::new(Base::Big)
    }

    /// The type of comparisons.
    pub(crate) fn boolean() -> Self {
        Self { length: 1, marks: Marks { bool: true, ..Marks::default() }, ..Self::new(Base::Int) }
    }

    /// Unsigned BIGINT.
    pub(crate) fn ubigint() -> Self {
        Self { unsigned: true, ..Self::new(Base::Big) }
    }

    /// DECIMAL with so many digits, of them `scale` behind the point.
    pub(crate) fn decimal(precision: u32, scale: u8) -> Self {
        Self { length: precision, decimals: scale, ..Self::new(Base::Decimal) }
    }

    /// Characters, at most `length` of them.
    pub(crate) fn varchar(length: u32, collation: Collation) -> Self {
        let base = if collation == Collation::BINARY { Base::Varbinary } else { Base::Varchar };
        Self { length, collation, ..Self::new(base) }
    }

    /// Characters, at most `length` of them, of the smallest type that holds them.
    pub(crate) fn string(length: u32, collation: Collation) -> Self {
        if collation == Collation::BINARY {
            return match length {
                0..=65_535 => Self::varchar(length, collation),
                65_536..=16_777_215 => Self { length, ..Self::new(Base::MediumBlob) },
                _ => Self { length, ..Self::new(Base::LongBlob) },
            };
        }
        match length.saturating_mul(collation.char_bytes_max()) {
            0..=65_535 => Self::varchar(length, collation),
            65_536..=16_777_215 => Self { length, collation, ..Self::new(Base::MediumText) },
            _ => Self { length, collation, ..Self::new(Base::LongText) },
        }
    }

    /// A whole number of at most so many characters, sign included.
    pub(crate) fn whole(length: u32, unsigned: bool) -> Self {
        let base = if length <= 9 { Base::Int } else { Base::Big };
        Self { length, unsigned, ..Self::new(base) }
    }

    /// The same type as JSON.
    pub(crate) fn json(mut self) -> Self {
        self.marks.json = true;
        self
    }

    /// The same type as a value of a column or an aggregate.
    pub(crate) fn stored(mut self) -> Self {
        self.marks.stored = true;
        self
    }

    /// Whether JSON takes values as they are.
    pub(crate) fn is_json(&self) -> bool {
        self.marks.json || self.base == Base::Json
    }

    /// Whether this is a literal of hexadecimal digits or bits.
    pub(crate) fn is_hex(&self) -> bool {
        self.marks.number || self.marks.hex
    }

    /// Whether values are truth values.
    pub(crate) fn is_bool(&self) -> bool {
        self.marks.bool && self.base == Base::Int
    }

    /// A temporal type with `decimals` digits of a second.
    pub(crate) fn temporal(base: Base, decimals: u8) -> Self {
        Self { decimals, ..Self::new(base) }
    }

    /// How values look to SQLite.
    pub(crate) fn rep(&self) -> Rep {
        match self.base {
            Base::Null => Rep::Null,
            Base::Big if self.unsigned => Rep::Uint,
            Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Big | Base::Year => Rep::Int,
            Base::Bit => Rep::Uint,
            Base::Float | Base::Double => Rep::Real,
            Base::Decimal => Rep::Dec,
            Base::Date | Base::Datetime => Rep::Datetime,
            Base::Timestamp => Rep::Timestamp,
            Base::Time => Rep::Time,
            Base::Enum => Rep::Enum,
            Base::Set => Rep::Set,
            Base::Fixed(kind) => Rep::Fixed(kind),
            base if base.is_binary() => Rep::Blob,
            _ => Rep::Text,
        }
    }

    /// Bounds of an integer type.
    pub(crate) fn int_range(&self) -> (i64, u64) {
        let bits = match self.base {
            Base::Tiny => 8,
            Base::Small => 16,
            Base::Medium => 24,
            Base::Int => 32,
            _ => 64,
        };
        if self.unsigned { (0, u64::MAX >> (64 - bits)) } else { (-1 << (bits - 1), (1 << (bits - 1)) - 1) }
    }

    /// The column that clients see for an expression of this type.
    pub(crate) fn describe(&self, name: &[u8], not_null: bool) -> Column {
        let mut flags = 0;
        if not_null {
            flags |= ColumnFlags::NOT_NULL;
        }
        let fixed = matches!(self.base, Base::Fixed(_));
        if self.unsigned
            || self.is_hex()
            || self.base == Base::Bit
            || fixed
            || self.base == Base::Timestamp && self.marks.stored
        {
            flags |= ColumnFlags::UNSIGNED;
        }
        if self.zerofill {
            flags |= ColumnFlags::ZEROFILL;
        }
        match self.base {
            Base::Enum => flags |= ColumnFlags::ENUM,
            Base::Set => flags |= ColumnFlags::SET,
            Base::Timestamp => flags |= ColumnFlags::TIMESTAMP,
            base if base.is_blob() => flags |= ColumnFlags::BLOB,
            _ => {}
        }
        if self.collation.is_binary_order() && !fixed {
            flags |= ColumnFlags::BINARY;
        }
        let kind = self.column_type();
        let mut column = Column::expression(name, kind);
        column.flags = ColumnFlags(flags);
        column.decimals = self.decimals;
        // Clients get the text of values that have one of their own.
        column.collation = if fixed { Collation::DEFAULT.0 } else { self.collation.sent().0 };
        column.length = self.display_length();
        column.extended = match self.base {
            Base::Fixed(Fixed::Uuid) => Extended::Uuid,
            Base::Fixed(Fixed::Inet4) => Extended::Inet4,
            Base::Fixed(Fixed::Inet6) => Extended::Inet6,
            base if self.is_json() && base.is_character() => Extended::Json,
            _ => Extended::None,
        };
        column
    }

    fn column_type(&self) -> ColumnType {
        match self.base {
            Base::Null => ColumnType::Null,
            Base::Tiny => ColumnType::Tiny,
            Base::Small => ColumnType::Short,
            Base::Medium => ColumnType::Int24,
            Base::Int => ColumnType::Long,
            Base::Big => ColumnType::LongLong,
            Base::Bit => ColumnType::Bit,
            Base::Year => ColumnType::Year,
            Base::Float => ColumnType::Float,
            Base::Double => ColumnType::Double,
            Base::Decimal => ColumnType::NewDecimal,
            Base::Date => ColumnType::Date,
            Base::Time => ColumnType::Time,
            Base::Datetime => ColumnType::Datetime,
            Base::Timestamp => ColumnType::Timestamp,
            Base::Char | Base::Binary | Base::Enum | Base::Set | Base::Fixed(_) => ColumnType::String,
            Base::Varchar | Base::Varbinary => ColumnType::VarString,
            Base::TinyText | Base::TinyBlob if !self.marks.stored => ColumnType::TinyBlob,
            Base::MediumText | Base::MediumBlob if !self.marks.stored => ColumnType::MediumBlob,
            Base::LongText | Base::LongBlob | Base::Json if !self.marks.stored => ColumnType::LongBlob,
            _ => ColumnType::Blob,
        }
    }

    fn display_length(&self) -> u32 {
        let fraction = if self.decimals == 0 { 0 } else { u32::from(self.decimals) + 1 };
        match self.base {
            Base::Decimal => {
                let point = u32::from(self.decimals > 0);
                self.length + point + u32::from(!self.unsigned)
            }
            Base::Datetime | Base::Timestamp => 19 + fraction,
            Base::Time => 10 + fraction,
            Base::Fixed(_) => self.length * Collation::DEFAULT.char_bytes_max(),
            Base::Char | Base::Varchar => self.length.saturating_mul(self.collation.sent().char_bytes_max()),
            Base::Enum | Base::Set => {
                let lengths =
                    self.members.iter().flat_map(|members| members.iter()).map(|member| member.chars().count());
                let chars = if self.base == Base::Enum {
                    lengths.max().unwrap_or(0)
                } else {
                    let count = self.members.as_ref().map_or(0, |members| members.len());
                    lengths.sum::<usize>() + count.saturating_sub(1)
                };
                (chars as u32).saturating_mul(self.collation.sent().char_bytes_max())
            }
            _ => self.length,
        }
    }

    /// The type as `SHOW CREATE TABLE` and `information_schema.columns.column_type` write it.
    pub(crate) fn sql_name(&self) -> String {
        let mut name = match self.base {
            Base::Decimal => format!("decimal({},{})", self.length, self.decimals),
            Base::Float | Base::Double if self.decimals != NOT_FIXED => {
                format!("{}({},{})", self.data_type(), self.length, self.decimals)
            }
            Base::Tiny | Base::Small | Base::Medium | Base::Int | Base::Big | Base::Bit | Base::Year => {
                format!("{}({})", self.data_type(), self.length)
            }
            Base::Char | Base::Varchar | Base::Binary | Base::Varbinary => {
                format!("{}({})", self.data_type(), self.length)
            }
            Base::Time | Base::Datetime | Base::Timestamp if self.decimals > 0 => {
                format!("{}({})", self.data_type(), self.decimals)
            }
            Base::Enum | Base::Set => {
                let members = self.members.iter().flat_map(|members| members.iter());
                let quoted: Vec<String> = members.map(|member| format!("'{}'", member.replace('\'', "''"))).collect();
                format!("{}({})", self.data_type(), quoted.join(","))
            }
            _ => self.data_type().to_owned(),
        };
        if self.unsigned && self.base != Base::Year {
            name.push_str(" unsigned");
        }
        if self.zerofill && self.base != Base::Year {
            name.push_str(" zerofill");
        }
        name
    }

    /// The bare name of the type.
    pub(crate) fn data_type(&self) -> &'static str {
        match self.base {
            Base::Null => "null",
            Base::Tiny => "tinyint",
            Base::Small => "smallint",
            Base::Medium => "mediumint",
            Base::Int => "int",
            Base::Big => "bigint",
            Base::Bit => "bit",
            Base::Year => "year",
            Base::Float => "float",
            Base::Double => "double",
            Base::Decimal => "decimal",
            Base::Date => "date",
            Base::Time => "time",
            Base::Datetime => "datetime",
            Base::Timestamp => "timestamp",
            Base::Char => "char",
            Base::Varchar => "varchar",
            Base::TinyText => "tinytext",
            Base::Text => "text",
            Base::MediumText => "mediumtext",
            Base::LongText | Base::Json => "longtext",
            Base::Binary => "binary",
            Base::Varbinary => "varbinary",
            Base::TinyBlob => "tinyblob",
            Base::Blob => "blob",
            Base::MediumBlob => "mediumblob",
            Base::LongBlob => "longblob",
            Base::Enum => "enum",
            Base::Set => "set",
            Base::Fixed(kind) => kind.name(),
        }
    }
}

impl Base {
    /// Strings with a character set.
    pub(crate) fn is_character(self) -> bool {
        use Base::*;
        matches!(self, Char | Varchar | TinyText | Text | MediumText | LongText | Json | Enum | Set)
    }

    /// Strings of bytes.
    pub(crate) fn is_binary(self) -> bool {
        use Base::*;
        matches!(self, Binary | Varbinary | TinyBlob | Blob | MediumBlob | LongBlob)
    }

    /// TEXT and BLOB of any size: no default, no full index in MySQL.
    pub(crate) fn is_blob(self) -> bool {
        use Base::*;
        matches!(self, TinyText | Text | MediumText | LongText | Json | TinyBlob | Blob | MediumBlob | LongBlob)
    }

    /// Whole numbers.
    pub(crate) fn is_integer(self) -> bool {
        use Base::*;
        matches!(self, Tiny | Small | Medium | Int | Big | Bit | Year)
    }

    /// Numbers of any kind.
    pub(crate) fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Base::Float | Base::Double | Base::Decimal)
    }

    /// Dates and times.
    pub(crate) fn is_temporal(self) -> bool {
        matches!(self, Base::Date | Base::Time | Base::Datetime | Base::Timestamp)
    }
}
