//! Columns of a result set, as MySQL's protocol describes them.

/// Type of a column, with the numbers of MySQL's protocol.
///
/// Source: MySQL internals, `enum_field_types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ColumnType {
    /// `DECIMAL` of servers before 5.0.
    Decimal = 0,
    /// `TINYINT`.
    Tiny = 1,
    /// `SMALLINT`.
    Short = 2,
    /// `INT`.
    Long = 3,
    /// `FLOAT`.
    Float = 4,
    /// `DOUBLE`.
    Double = 5,
    /// The type of `NULL`.
    Null = 6,
    /// `TIMESTAMP`.
    Timestamp = 7,
    /// `BIGINT`.
    LongLong = 8,
    /// `MEDIUMINT`.
    Int24 = 9,
    /// `DATE`.
    Date = 10,
    /// `TIME`.
    Time = 11,
    /// `DATETIME`.
    Datetime = 12,
    /// `YEAR`.
    Year = 13,
    /// `DATE` in storage.
    NewDate = 14,
    /// `VARCHAR` in storage.
    Varchar = 15,
    /// `BIT`.
    Bit = 16,
    /// `VECTOR` of MySQL 9.
    Vector = 242,
    /// `JSON`.
    Json = 245,
    /// `DECIMAL`.
    NewDecimal = 246,
    /// `ENUM`.
    Enum = 247,
    /// `SET`.
    Set = 248,
    /// `TINYBLOB`, `TINYTEXT`.
    TinyBlob = 249,
    /// `MEDIUMBLOB`, `MEDIUMTEXT`.
    MediumBlob = 250,
    /// `LONGBLOB`, `LONGTEXT`.
    LongBlob = 251,
    /// `BLOB`, `TEXT`.
    Blob = 252,
    /// `VARCHAR`, `VARBINARY`.
    VarString = 253,
    /// `CHAR`, `BINARY`; also `ENUM` and `SET` as servers send them.
    String = 254,
    /// Geometry.
    Geometry = 255,
}

impl ColumnType {
    /// The type with the protocol's number `code`, or `None` for a number that no server sends.
    pub fn from_code(code: u8) -> Option<Self> {
        use ColumnType::*;
        const LOW: [ColumnType; 17] = [
            Decimal, Tiny, Short, Long, Float, Double, Null, Timestamp, LongLong, Int24, Date, Time, Datetime, Year,
            NewDate, Varchar, Bit,
        ];
        const HIGH: [ColumnType; 11] =
            [Json, NewDecimal, Enum, Set, TinyBlob, MediumBlob, LongBlob, Blob, VarString, String, Geometry];
        match code {
            0..=16 => Some(LOW[usize::from(code)]),
            242 => Some(Vector),
            245..=255 => Some(HIGH[usize::from(code - 245)]),
            _ => None,
        }
    }

    /// Whether values are numbers whose text needs no quotes in JSON.
    pub fn is_number(self) -> bool {
        use ColumnType::*;
        matches!(self, Decimal | Tiny | Short | Long | Float | Double | LongLong | Int24 | Year | NewDecimal)
    }
}

/// Flags of a column, with the bits of MySQL's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnFlags(pub u16);

impl ColumnFlags {
    /// The column cannot be NULL.
    pub const NOT_NULL: u16 = 1;
    /// Part of the primary key.
    pub const PRIMARY_KEY: u16 = 2;
    /// Part of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// Part of a key that is not unique.
    pub const MULTIPLE_KEY: u16 = 8;
    /// A BLOB or TEXT.
    pub const BLOB: u16 = 16;
    /// Unsigned number.
    pub const UNSIGNED: u16 = 32;
    /// `ZEROFILL`.
    pub const ZEROFILL: u16 = 64;
    /// Binary collation.
    pub const BINARY: u16 = 128;
    /// An `ENUM`.
    pub const ENUM: u16 = 256;
    /// `AUTO_INCREMENT`.
    pub const AUTO_INCREMENT: u16 = 512;
    /// A `TIMESTAMP`.
    pub const TIMESTAMP: u16 = 1024;
    /// A `SET`.
    pub const SET: u16 = 2048;

    /// Whether the number is unsigned.
    pub fn is_unsigned(self) -> bool {
        self.0 & Self::UNSIGNED != 0
    }
}

/// What MariaDB tells of a column whose type has no number of its own in the protocol.
///
/// Source: MariaDB's documentation, "Result Set Packets", extended metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extended {
    /// Nothing.
    #[default]
    None,
    /// `UUID`.
    Uuid,
    /// `INET4`.
    Inet4,
    /// `INET6`.
    Inet6,
    /// Texts are JSON.
    Json,
}

/// One column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Schema of the table, empty for an expression.
    pub schema: Box<[u8]>,
    /// Alias of the table.
    pub table: Box<[u8]>,
    /// Name of the table.
    pub org_table: Box<[u8]>,
    /// Alias of the column: the name that users see.
    pub name: Box<[u8]>,
    /// Name of the column in its table.
    pub org_name: Box<[u8]>,
    /// Number of the collation; 63 is `binary`.
    pub collation: u16,
    /// Display width in bytes.
    pub length: u32,
    /// Type of the values.
    pub kind: ColumnType,
    /// Flags.
    pub flags: ColumnFlags,
    /// Digits behind the point; 31 means that they vary.
    pub decimals: u8,
    /// What the type is called where that says more.
    pub extended: Extended,
}

impl Column {
    /// Number of the collation `binary`.
    pub const COLLATION_BINARY: u16 = 63;

    /// A column of an expression: only a name and a type.
    pub fn expression(name: impl Into<Box<[u8]>>, kind: ColumnType) -> Self {
        Self {
            schema: Box::default(),
            table: Box::default(),
            org_table: Box::default(),
            name: name.into(),
            org_name: Box::default(),
            collation: if kind.is_number() { Self::COLLATION_BINARY } else { 45 },
            length: 0,
            kind,
            flags: ColumnFlags::default(),
            decimals: 0,
            extended: Extended::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_protocols() {
        for code in 0..=255u8 {
            if let Some(kind) = ColumnType::from_code(code) {
                assert_eq!(kind as u8, code);
            }
        }
        assert_eq!((0..=255u8).filter_map(ColumnType::from_code).count(), 29);
    }
}
