//! Columns, and their names as MySQL compares and quotes them.

use crate::value::{Base, Datum, Rep, SqlType};

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its physical name is `c` and this number.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) default: Default,
    pub(crate) on_update: bool,
    pub(crate) auto_increment: bool,
    pub(crate) generated: Option<Generated>,
    pub(crate) comment: String,
}

/// How the values of a generated column come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) text: String,
    /// STORED rather than VIRTUAL: only for show, both are stored.
    pub(crate) stored: bool,
}

/// The default value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Default {
    None,
    Null,
    /// The text as written, quoted or a number, and the stored value.
    Literal {
        text: String,
        quoted: bool,
        value: Datum,
    },
    Now,
    /// An expression, evaluated for each row.
    Expression(String),
}

impl Column {
    /// Whether a row that gives it no value is wrong.
    pub(crate) fn lacks_default(&self) -> bool {
        let may_be_left_out =
            self.generated.is_some() || self.nullable || self.auto_increment || self.ty.base == Base::Enum;
        self.default == Default::None && !may_be_left_out
    }

    /// A variable of a stored program, which is one that nobody stores.
    pub(crate) fn variable(id: u32, name: &str, ty: SqlType) -> Self {
        Self {
            id,
            name: name.to_owned(),
            ty,
            nullable: true,
            default: Default::Null,
            on_update: false,
            auto_increment: false,
            generated: None,
            comment: String::new(),
        }
    }

    /// SQLite's type and collation.
    pub(crate) fn storage(&self) -> String {
        match self.ty.rep() {
            Rep::Int | Rep::Datetime | Rep::Timestamp | Rep::Time | Rep::Enum => "INTEGER".into(),
            Rep::Uint | Rep::Set => "ANY".into(),
            Rep::Real => "REAL".into(),
            Rep::Dec | Rep::Blob | Rep::Fixed(_) | Rep::Null | Rep::Number => "BLOB".into(),
            Rep::Text => format!("TEXT COLLATE {}", self.ty.collation.sqlite_name()),
        }
    }
}

/// Whether two names of columns, aliases or indexes are the same.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}
