//! SHOW CREATE TABLE, as MariaDB writes it.

use tidegate_rows::{QueryError, Sink};

use crate::{
    catalog::{Table, sequence::Options},
    column::{Column, Default},
    errors,
    identifier::quoted,
    parse::{KeyKind, TableName},
    session::{Core, pool::Pool, sequences::read_row},
    temporary_name,
    value::{Base, Datum, Rep, SqlType, collation::Collation, uint_of},
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
        let check = table.check_option().map(|check| format!(" WITH {} CHECK OPTION", check.word()));
        let text = format!(
            "CREATE ALGORITHM={} DEFINER={} SQL SECURITY {} VIEW {} AS {text}{}",
            table.algorithm().word(),
            table.definer().shown().in_sql(),
            table.definer().security(),
            quoted(&table.name),
            check.unwrap_or_default()
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
    let next = crate::show::next_auto(core, schema, table)?;
    let mut text = create_table(table, next);
    let mode = core.env.sql_mode.get();
    if mode & crate::sql_mode::ANSI != 0 {
        text.truncate(text.rfind("\n) ").map_or(text.len(), |at| at + 2));
    }
    if mode & crate::sql_mode::ANSI_QUOTES != 0 {
        text = ansi_quotes(&text);
    }
    let row = vec![Some(crate::temporary_name::shown(&table.name).to_owned()), Some(text)];
    super::rows(core, &["Table", "Create Table"], &[row], more, sink)
}

/// Answers SHOW CREATE SEQUENCE.
///
/// # Errors
/// 1146, 4089, storage errors.
pub(super) fn show_create_sequence(
    core: &mut Core,
    name: &TableName,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = core.engine.schema(&super::schema_name(core, name.schema.as_deref())?)?;
    let table = crate::ddl::found_sequence(core, &schema, name)?;
    let pool = Pool::of(&schema);
    let conn = pool.take()?;
    let row = read_row(&conn, &table);
    pool.put(conn);
    let shown = temporary_name::shown(&table.name);
    let Options { minimum, maximum, start, increment, cache, cycles } = row?.options;
    let cache = if cache == 0 { "nocache".to_owned() } else { format!("cache {cache}") };
    let cycles = if cycles { "cycle" } else { "nocycle" };
    let comment = if table.comment.is_empty() { String::new() } else { format!(" COMMENT={}", string(&table.comment)) };
    let text = format!(
        "CREATE SEQUENCE {} start with {start} minvalue {minimum} maxvalue {maximum} increment by {increment} {cache} \
         {cycles} ENGINE={}{comment}",
        quoted(shown),
        table.shown_engine()
    );
    super::rows(core, &["Table", "Create Table"], &[vec![Some(shown.to_owned()), Some(text)]], more, sink)
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

/// A text in quotes, as MariaDB writes it: what no line of a dump can hold is escaped.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\'' => quoted.push_str("''"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// The statement that makes the table.
///
/// `next` is the next value of AUTO_INCREMENT.
pub(crate) fn create_table(table: &Table, next: u64) -> String {
    let mut items: Vec<String> =
        table.columns.iter().map(|column| format!("  {}", column_text(table, column))).collect();
    for index in &table.indexes {
        let parts: Vec<String> = index
            .parts
            .iter()
            .map(|part| {
                let name = table.position(part.column).map_or(String::new(), |at| quoted(&table.columns[at].name));
                let prefix = part.prefix.map_or(String::new(), |prefix| format!("({prefix})"));
                format!("{name}{prefix}{}", if part.descending { " DESC" } else { "" })
            })
            .collect();
        let head = match index.kind {
            KeyKind::Primary => "PRIMARY KEY".to_owned(),
            KeyKind::Unique => format!("UNIQUE KEY {}", quoted(&index.name)),
            KeyKind::Fulltext => format!("FULLTEXT KEY {}", quoted(&index.name)),
            KeyKind::Plain => format!("KEY {}", quoted(&index.name)),
        };
        let comment =
            if index.comment.is_empty() { String::new() } else { format!(" COMMENT {}", string(&index.comment)) };
        let hash = if table.is_hashed(index) { " USING HASH" } else { "" };
        items.push(format!("  {head} ({}){hash}{comment}", parts.join(",")));
    }
    let mut foreign_keys: Vec<_> = table.foreign_keys.iter().collect();
    foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
    for key in foreign_keys {
        let columns: Vec<String> =
            key.columns.iter().filter_map(|id| table.position(*id)).map(|at| quoted(&table.columns[at].name)).collect();
        let references: Vec<String> =
            key.references.iter().map(|name| quoted(name.split('\0').next().unwrap_or(name))).collect();
        let action = |event: &str, action: &str| {
            if action == "RESTRICT" { String::new() } else { format!(" ON {event} {action}") }
        };
        items.push(format!(
            "  CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}{}",
            quoted(&key.name),
            columns.join(", "),
            quoted(key.table.split('\0').next().unwrap_or(&key.table)),
            references.join(", "),
            action("DELETE", &key.on_delete),
            action("UPDATE", &key.on_update)
        ));
    }
    for check in table.checks.iter().filter(|check| check.column.is_none()) {
        items.push(format!("  CONSTRAINT {} CHECK ({})", quoted(&check.name), super::expression::shown(&check.text)));
    }
    let auto =
        if next > 1 && table.auto_column().is_some() { format!(" AUTO_INCREMENT={next}") } else { String::new() };
    let comment = if table.comment.is_empty() { String::new() } else { format!(" COMMENT={}", string(&table.comment)) };
    format!(
        "CREATE {}TABLE {} (\n{}\n) ENGINE={}{auto} {}{comment}",
        if crate::temporary_name::is_hidden(&table.name) { "TEMPORARY " } else { "" },
        quoted(crate::temporary_name::shown(&table.name)),
        items.join(",\n"),
        table.shown_engine(),
        texts_of(table)
    )
}

/// What stands behind the engine: the character set, or that the table is a sequence.
fn texts_of(table: &Table) -> String {
    if table.is_sequence() {
        return "SEQUENCE=1".to_owned();
    }
    format!("DEFAULT CHARSET={} COLLATE={}", table.collation.charset(), table.collation.name())
}

fn column_text(table: &Table, column: &Column) -> String {
    let mut text = format!("{} {}", quoted(&column.name), type_name(&column.ty));
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
        Default::Literal { text: given, quoted, value } => {
            text.push_str(&format!(" DEFAULT {}", default_text(&column.ty, given, *quoted, value)));
        }
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
        text.push_str(&format!(" CHECK (json_valid({}))", quoted(&column.name)));
    }
    text
}

/// The name of a type, its members as they are written.
pub(super) fn type_name(ty: &SqlType) -> String {
    match ty.members.as_deref() {
        Some(members) => {
            let members: Vec<String> = members.iter().map(|member| string(member)).collect();
            format!("{}({})", ty.data_type(), members.join(","))
        }
        None => ty.sql_name(),
    }
}

/// A literal default as it is written; bytes that are no text by their digits, which MariaDB sends as they are.
pub(super) fn default_text(ty: &SqlType, given: &str, quoted: bool, value: &Datum) -> String {
    match value {
        value if ty.base == Base::Bit => format!("b'{:b}'", uint_of(value.as_cell())),
        _ if !quoted => given.to_owned(),
        Datum::Blob(bytes) if ty.rep() == Rep::Blob => match std::str::from_utf8(bytes) {
            Ok(text) => string(text),
            Err(_) => format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>()),
        },
        _ => string(given),
    }
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
