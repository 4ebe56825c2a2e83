//! SHOW CREATE TABLE, as MariaDB writes it.

use tidegate_rows::{QueryError, Sink};

use crate::{
    catalog::{Column, Default, Table},
    errors,
    parse::KeyKind,
    session::Core,
    value::{Base, collation::Collation},
};

/// Answers SHOW CREATE TABLE or VIEW.
///
/// # Errors
/// 1146, 1347.
pub(super) fn show_create(
    core: &mut Core,
    schema: &str,
    name: &str,
    view: bool,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let catalog = core.engine.schema(schema)?.catalog()?;
    let table = catalog.table(name).ok_or_else(|| errors::no_such_table(schema, name))?;
    if let Some(text) = &table.view {
        let text = format!(
            "CREATE ALGORITHM=UNDEFINED DEFINER={} SQL SECURITY {} VIEW {} AS {text}",
            table.definer().shown().in_sql(),
            table.definer().security(),
            quote(&table.name)
        );
        let row = vec![Some(table.name.clone()), Some(text), Some("utf8mb4".into()), Some("utf8mb4_general_ci".into())];
        return super::rows(
            core,
            &["View", "Create View", "character_set_client", "collation_connection"],
            &[row],
            more,
            sink,
        );
    }
    if view {
        return Err(errors::not_a_view(schema, name).into());
    }
    let mut text = create_table(table);
    let mode = core.env.sql_mode.get();
    if mode & crate::variables::ANSI != 0 {
        text.truncate(text.rfind("\n) ").map_or(text.len(), |at| at + 2));
    }
    if mode & crate::variables::ANSI_QUOTES != 0 {
        text = ansi_quotes(&text);
    }
    let row = vec![Some(crate::ddl::temporary::shown(&table.name).to_owned()), Some(text)];
    super::rows(core, &["Table", "Create Table"], &[row], more, sink)
}

/// The same statement with names in double quotes.
fn ansi_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = None;
    for c in text.chars() {
        match (inside, c) {
            (None, '\'') | (Some('\''), '\'') => {
                inside = if inside.is_none() { Some('\'') } else { None };
                out.push(c);
            }
            // A doubled backtick ends one name and begins another, which doubles the quote that stands for it.
            (None | Some('`'), '`') => {
                inside = if inside.is_none() { Some('`') } else { None };
                out.push('"');
            }
            (Some('`'), '"') => out.push_str("\"\""),
            _ => out.push(c),
        }
    }
    out
}

/// A name in MySQL's quotes.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n"))
}

/// The statement that makes the table.
pub(crate) fn create_table(table: &Table) -> String {
    let mut items: Vec<String> =
        table.columns.iter().map(|column| format!("  {}", column_text(table, column))).collect();
    for index in &table.indexes {
        let parts: Vec<String> = index
            .parts
            .iter()
            .map(|part| {
                let name = table.position(part.column).map_or(String::new(), |at| quote(&table.columns[at].name));
                let prefix = part.prefix.map_or(String::new(), |prefix| format!("({prefix})"));
                format!("{name}{prefix}{}", if part.descending { " DESC" } else { "" })
            })
            .collect();
        let head = match index.kind {
            KeyKind::Primary => "PRIMARY KEY".to_owned(),
            KeyKind::Unique => format!("UNIQUE KEY {}", quote(&index.name)),
            KeyKind::Plain => format!("KEY {}", quote(&index.name)),
        };
        let comment =
            if index.comment.is_empty() { String::new() } else { format!(" COMMENT {}", string(&index.comment)) };
        items.push(format!("  {head} ({}){comment}", parts.join(",")));
    }
    let mut foreign_keys: Vec<_> = table.foreign_keys.iter().collect();
    foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
    for key in foreign_keys {
        let columns: Vec<String> =
            key.columns.iter().filter_map(|id| table.position(*id)).map(|at| quote(&table.columns[at].name)).collect();
        let references: Vec<String> =
            key.references.iter().map(|name| quote(name.split('\0').next().unwrap_or(name))).collect();
        let action = |event: &str, action: &str| {
            if action == "RESTRICT" { String::new() } else { format!(" ON {event} {action}") }
        };
        items.push(format!(
            "  CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}{}",
            quote(&key.name),
            columns.join(", "),
            quote(key.table.split('\0').next().unwrap_or(&key.table)),
            references.join(", "),
            action("DELETE", &key.on_delete),
            action("UPDATE", &key.on_update)
        ));
    }
    for check in table.checks.iter().filter(|check| check.column.is_none()) {
        items.push(format!("  CONSTRAINT {} CHECK ({})", quote(&check.name), super::expression::shown(&check.text)));
    }
    let next = table
        .state
        .next_auto
        .load(std::sync::atomic::Ordering::Acquire)
        .max(table.state.stored_auto.load(std::sync::atomic::Ordering::Acquire));
    let auto =
        if next > 1 && table.auto_column().is_some() { format!(" AUTO_INCREMENT={next}") } else { String::new() };
    let comment = if table.comment.is_empty() { String::new() } else { format!(" COMMENT={}", string(&table.comment)) };
    format!(
        "CREATE {}TABLE {} (\n{}\n) ENGINE={}{auto} DEFAULT CHARSET={} COLLATE={}{comment}",
        if crate::ddl::temporary::is_hidden(&table.name) { "TEMPORARY " } else { "" },
        quote(crate::ddl::temporary::shown(&table.name)),
        items.join(",\n"),
        table.engine,
        table.collation.charset(),
        table.collation.name()
    )
}

fn column_text(table: &Table, column: &Column) -> String {
    let mut text = format!("{} {}", quote(&column.name), column.ty.sql_name());
    if column.ty.base.is_character() && (column.ty.collation != table.collation || column.ty.base == Base::Json) {
        text.push_str(&collation_text(column.ty.collation));
    }
    if !column.nullable {
        text.push_str(" NOT NULL");
    } else if column.ty.base == Base::Timestamp {
        text.push_str(" NULL");
    }
    if let Some(generated) = &column.generated {
        // A generated column has neither default nor NOT NULL of its own.
        let kind = if generated.stored { "STORED" } else { "VIRTUAL" };
        text.push_str(&format!(" GENERATED ALWAYS AS ({}) {kind}", super::expression::shown(&generated.text)));
        return text;
    }
    match &column.default {
        Default::None if column.nullable => text.push_str(" DEFAULT NULL"),
        Default::None => {}
        Default::Null => text.push_str(" DEFAULT NULL"),
        Default::Literal { text: value, quoted: true, .. } => text.push_str(&format!(" DEFAULT {}", string(value))),
        Default::Literal { text: value, .. } => text.push_str(&format!(" DEFAULT {value}")),
        Default::Now => text.push_str(&format!(" DEFAULT {}", now_text(column))),
        Default::Expression(default) => {
            text.push_str(&format!(" DEFAULT {}", super::expression::shown_default(default)));
        }
    }
    if column.on_update {
        text.push_str(&format!(" ON UPDATE {}", now_text(column)));
    }
    if column.auto_increment {
        text.push_str(" AUTO_INCREMENT");
    }
    if !column.comment.is_empty() {
        text.push_str(&format!(" COMMENT {}", string(&column.comment)));
    }
    if let Some(check) = table.checks.iter().find(|check| check.column == Some(column.id)) {
        text.push_str(&format!(" CHECK ({})", super::expression::shown(&check.text)));
    }
    if column.ty.base == Base::Json {
        text.push_str(&format!(" CHECK (json_valid({}))", quote(&column.name)));
    }
    text
}

fn collation_text(collation: Collation) -> String {
    format!(" CHARACTER SET {} COLLATE {}", collation.charset(), collation.name())
}

/// `current_timestamp()` with the column's digits.
pub(super) fn now_text(column: &Column) -> String {
    if column.ty.decimals == 0 {
        "current_timestamp()".into()
    } else {
        format!("current_timestamp({})", column.ty.decimals)
    }
}
