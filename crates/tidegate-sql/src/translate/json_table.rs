//! JSON_TABLE: a table in FROM whose rows are the parts of a JSON document.
//!
//! What its columns are is a text ([`Spec::read`]), which stands in the plan and is read again, once for each thread, where the rows are
//! computed (`functions/json_table.rs`). The document may be a column of a table that stands before it.
//!
//! Source: MariaDB, `JSON_TABLE`.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use sqlparser::ast::{
    Expr, JsonTableColumn, JsonTableColumnErrorHandling, JsonTableNamedColumn, JsonTableNestedColumn, TableAlias,
    TableFactor, Value, ValueWithSpan,
};

use super::{
    Code, Coercibility, Res, Translator,
    scope::{Scope, Source, SourceColumn},
};
use crate::{
    column::{Column, Default, same_name},
    dialect::MySql,
    errors,
    lexer::{LexMode, Literals, tokens},
    parse::column::type_from_catalog,
    store::{computed_rows::COLUMNS_MAX, conn::quote},
    value::{Rep, SqlType, json::path::Path},
};

/// What is done where a path finds nothing, or nothing that its column can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Otherwise {
    Null,
    Default(String),
    Error,
}

/// A column.
#[derive(Debug)]
pub(crate) struct TableColumn {
    pub(crate) column: Column,
    pub(crate) value: ColumnValue,
}

/// Where the value of a column comes from.
#[derive(Debug)]
pub(crate) enum ColumnValue {
    /// FOR ORDINALITY
    Number,
    /// PATH
    Found { path: Path, on_empty: Otherwise, on_error: Otherwise },
    /// EXISTS PATH
    Exists(Path),
}

/// A path whose values become rows, and what these have.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) path: Path,
    /// The places of its own columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) nested: Vec<Level>,
}

/// What a JSON_TABLE is.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) alias: String,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) root: Level,
}

/// Texts of which a thread keeps what they say.
const KEPT_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<HashMap<Box<[u8]>, Rc<Spec>>> = RefCell::default();
}

impl Spec {
    /// Reads what a table is: `JSON_TABLE(NULL, path COLUMNS (…)) AS alias`.
    ///
    /// # Errors
    /// 1064 for a text that is none, paths that are none; 1060, 1235.
    fn read(text: &str) -> Res<Self> {
        let wrong = || errors::syntax(text);
        let mode = LexMode { ansi_quotes: false, no_backslash_escapes: true };
        let tokens = tokens(text.as_bytes(), 0, mode, Literals::Inline).map_err(|_| wrong())?.tokens;
        let dialect = MySql::default();
        let mut parser = sqlparser::parser::Parser::new(&dialect).with_tokens_with_locations(tokens);
        let factor = parser.parse_table_factor().map_err(|_| wrong())?;
        let TableFactor::JsonTable { json_path, columns, alias: Some(alias), .. } = factor else { return Err(wrong()) };
        let mut all = Vec::new();
        let root = level(&mut all, &json_path, &columns)?;
        let spec = Self { alias: alias.name.value, columns: all, root };
        if spec.columns.len() > COLUMNS_MAX {
            return Err(errors::unsupported(format!("more than {COLUMNS_MAX} columns of JSON_TABLE")));
        }
        for (index, TableColumn { column, .. }) in spec.columns.iter().enumerate() {
            if spec.columns[..index].iter().any(|other| same_name(&other.column.name, &column.name)) {
                return Err(errors::duplicate_column(&column.name));
            }
        }
        Ok(spec)
    }

    /// As [`read`](Self::read), of a text that this thread may have read before.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub(crate) fn of(text: &[u8]) -> Res<Rc<Self>> {
        if let Some(known) = KEPT.with_borrow(|kept| kept.get(text).cloned()) {
            return Ok(known);
        }
        let spec = Rc::new(Self::read(&String::from_utf8_lossy(text))?);
        KEPT.with_borrow_mut(|kept| {
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(text.into(), Rc::clone(&spec));
        });
        Ok(spec)
    }
}

fn level(all: &mut Vec<TableColumn>, path: &ValueWithSpan, columns: &[JsonTableColumn]) -> Res<Level> {
    let mut level = Level { path: path_of(path)?, columns: Vec::new(), nested: Vec::new() };
    for column in columns {
        let (name, ty, value) = match column {
            JsonTableColumn::Nested(JsonTableNestedColumn { path, columns }) => {
                level.nested.push(self::level(all, path, columns)?);
                continue;
            }
            JsonTableColumn::ForOrdinality(name) => (name, type_of("INT")?, ColumnValue::Number),
            JsonTableColumn::Named(JsonTableNamedColumn { name, r#type, path, exists, on_empty, on_error }) => {
                let path = path_of(path)?;
                let (on_empty, on_error) = (otherwise(on_empty.as_ref()), otherwise(on_error.as_ref()));
                let value =
                    if *exists { ColumnValue::Exists(path) } else { ColumnValue::Found { path, on_empty, on_error } };
                (name, type_of(&r#type.to_string())?, value)
            }
        };
        level.columns.push(all.len());
        let column = Column {
            id: all.len() as u32,
            name: name.value.clone(),
            ty,
            nullable: true,
            default: Default::Null,
            on_update: false,
            auto_increment: false,
            generated: None,
            comment: String::new(),
        };
        all.push(TableColumn { column, value });
    }
    Ok(level)
}

/// The type of a column.
fn type_of(text: &str) -> Res<SqlType> {
    type_from_catalog(text, false).ok_or_else(|| errors::unsupported(format!("the type {text} in JSON_TABLE")))
}

fn string_of(value: &ValueWithSpan) -> String {
    match &value.value {
        Value::SingleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A path as it is written.
fn path_of(value: &ValueWithSpan) -> Res<Path> {
    let text = string_of(value);
    Path::parse(text.as_bytes()).map_err(|bad| bad.error(2, "JSON_TABLE"))
}

fn otherwise(clause: Option<&JsonTableColumnErrorHandling>) -> Otherwise {
    match clause {
        None | Some(JsonTableColumnErrorHandling::Null) => Otherwise::Null,
        Some(JsonTableColumnErrorHandling::Default(value)) => Otherwise::Default(string_of(value)),
        Some(JsonTableColumnErrorHandling::Error) => Otherwise::Error,
    }
}

impl Translator<'_> {
    /// A JSON_TABLE in FROM.
    ///
    /// # Errors
    /// 4177 without a name, those of [`Spec`] and of the document's expression.
    pub(super) fn json_table(
        &mut self,
        document: &Expr,
        (path, columns): (&ValueWithSpan, &[JsonTableColumn]),
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> Res<String> {
        let alias = alias.ok_or_else(errors::json_table_without_alias)?;
        let text = TableFactor::JsonTable {
            json_expr: Expr::Value(ValueWithSpan { value: Value::Null, span: path.span }),
            json_path: self.plain(path, scope)?,
            columns: self.plain_columns(columns, scope)?,
            alias: Some(alias.clone()),
        };
        let text = text.to_string();
        let spec = Spec::of(text.as_bytes())?;
        let ex = self.expr(document, scope)?;
        let document = self.convert(&ex, Rep::Text);
        let sql_alias = self.alias("a");
        let columns = spec
            .columns
            .iter()
            .map(|known| SourceColumn { coercibility: Coercibility::Column, ..SourceColumn::stored(&known.column) });
        scope.sources.push(Source::computed(alias.name.value.clone(), sql_alias.clone(), columns.collect()));
        Ok(format!("tg_json_table({}, {document}) AS {sql_alias}", quote(&text)))
    }

    /// A string of the text in quotes again, wherever it stands.
    fn plain(&mut self, value: &ValueWithSpan, scope: &Scope<'_>) -> Res<ValueWithSpan> {
        let Value::Placeholder(_) = &value.value else { return Ok(value.clone()) };
        let ex = self.expr(&Expr::Value(value.clone()), scope)?;
        match (&ex.code, self.constant_text(&ex)) {
            (Code::Const(_), Some(text)) => {
                Ok(ValueWithSpan { value: Value::SingleQuotedString(text), span: value.span })
            }
            _ => Err(errors::syntax("?")),
        }
    }

    fn plain_columns(&mut self, columns: &[JsonTableColumn], scope: &Scope<'_>) -> Res<Vec<JsonTableColumn>> {
        let mut plain = Vec::with_capacity(columns.len());
        for column in columns {
            plain.push(match column {
                JsonTableColumn::ForOrdinality(name) => JsonTableColumn::ForOrdinality(name.clone()),
                JsonTableColumn::Nested(nested) => JsonTableColumn::Nested(JsonTableNestedColumn {
                    path: self.plain(&nested.path, scope)?,
                    columns: self.plain_columns(&nested.columns, scope)?,
                }),
                JsonTableColumn::Named(named) => JsonTableColumn::Named(JsonTableNamedColumn {
                    path: self.plain(&named.path, scope)?,
                    on_empty: self.plain_otherwise(named.on_empty.as_ref(), scope)?,
                    on_error: self.plain_otherwise(named.on_error.as_ref(), scope)?,
                    ..named.clone()
                }),
            });
        }
        Ok(plain)
    }

    fn plain_otherwise(
        &mut self,
        clause: Option<&JsonTableColumnErrorHandling>,
        scope: &Scope<'_>,
    ) -> Res<Option<JsonTableColumnErrorHandling>> {
        Ok(match clause {
            Some(JsonTableColumnErrorHandling::Default(value)) => {
                Some(JsonTableColumnErrorHandling::Default(self.plain(value, scope)?))
            }
            other => other.cloned(),
        })
    }
}
