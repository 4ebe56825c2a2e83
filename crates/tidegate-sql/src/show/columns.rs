//! `information_schema.columns`: a row for each column that the session may do something with.

use super::{create::now_text, tables::each_table};
use crate::{
    accounts::{Privileges, Reach},
    catalog::Table,
    column::{Column, Default},
    parse::KeyKind,
    store::made_rows::{Item, Rows},
    temporary_name::is_hidden,
    translate::{Res, Translator, about::About},
    value::{Base, Datum, Rep, SqlType, types::NOT_FIXED},
};

fn key_of(table: &Table, column: &Column) -> &'static str {
    let primary = table.shown_primary().map(|index| index.id);
    let mut best = "";
    for index in &table.indexes {
        let Some(place) = index.parts.iter().position(|part| part.column == column.id) else { continue };
        match index.kind {
            _ if primary == Some(index.id) => return "PRI",
            KeyKind::Unique if index.parts.len() == 1 => best = "UNI",
            _ if place == 0 && best.is_empty() => best = "MUL",
            _ => {}
        }
    }
    best
}

fn default_texts(column: &Column) -> (Item, Item) {
    match &column.default {
        Default::None if column.nullable => ("NULL".into(), Item::Null),
        Default::None => (Item::Null, Item::Null),
        Default::Null => ("NULL".into(), Item::Null),
        Default::Literal { text, quoted, value } => {
            let written = super::create::default_text(&column.ty, text, *quoted, value);
            let shown = match value {
                _ if !quoted || column.ty.base.is_blob() => written.clone(),
                Datum::Blob(bytes) if column.ty.rep() == Rep::Blob => String::from_utf8_lossy(bytes).into_owned(),
                _ => text.clone(),
            };
            (written.into(), shown.into())
        }
        Default::Now => (now_text(column).into(), now_text(column).into()),
        Default::Expression(text) => {
            let shown = super::expression::shown_default(text);
            (shown.as_str().into(), shown.as_str().into())
        }
    }
}

pub(super) fn columns(translator: &Translator<'_>, about: &About) -> Res<Rows> {
    let mut rows = Rows::new();
    let access = translator.now().env.access();
    each_table(translator, about, |schema, _, table| {
        let whole = access.is_unlimited() || is_hidden(&table.name);
        for (position, column) in table.columns.iter().enumerate() {
            let held = match whole {
                true => Privileges::OF_COLUMNS,
                false => access.on_column(schema, &table.name, &column.name),
            };
            if held.has_any(Privileges::all(Reach::Table)) {
                rows.push(column_row(schema, table, position, column, held));
            }
        }
    })?;
    Ok(rows)
}

/// The digits of a number, in all and behind the point.
fn digits_of(ty: &SqlType) -> (Item, Item) {
    match ty.base {
        Base::Decimal => (Item::Int(i64::from(ty.length)), Item::Int(i64::from(ty.decimals))),
        Base::Float => {
            (Item::Int(12), if ty.decimals == NOT_FIXED { Item::Null } else { Item::Int(i64::from(ty.decimals)) })
        }
        Base::Double => (
            Item::Int(if ty.decimals == NOT_FIXED { 22 } else { i64::from(ty.length) }),
            if ty.decimals == NOT_FIXED { Item::Null } else { Item::Int(i64::from(ty.decimals)) },
        ),
        Base::Bit => (Item::Int(i64::from(ty.length)), Item::Null),
        Base::Year => (Item::Null, Item::Null),
        base if base.is_integer() => {
            let digits = match ty.base {
                Base::Tiny => 3,
                Base::Small => 5,
                Base::Medium => 7,
                Base::Int => 10,
                _ => {
                    if ty.unsigned {
                        20
                    } else {
                        19
                    }
                }
            };
            (Item::Int(digits), Item::Int(0))
        }
        _ => (Item::Null, Item::Null),
    }
}

/// What is told of a type: its name, the lengths of a text, the digits of a number and of a second, character set and collation, and
/// the type as it is written.
pub(crate) fn type_items(ty: &SqlType) -> [Item; 9] {
    let string = ty.base.is_character() || ty.base.is_binary();
    let chars = match ty.base {
        Base::Char | Base::Varchar | Base::Binary | Base::Varbinary => i64::from(ty.length),
        Base::Enum | Base::Set => i64::from(ty.describe(b"", false).length / ty.collation.sent().char_bytes_max()),
        _ => i64::from(ty.length),
    };
    let octets = if ty.base.is_blob() { chars } else { chars * i64::from(ty.collation.char_bytes_max()) };
    let (precision, scale) = digits_of(ty);
    let temporal = matches!(ty.base, Base::Time | Base::Datetime | Base::Timestamp);
    let text = |item: &str| if ty.base.is_character() { Item::from(item) } else { Item::Null };
    [
        ty.data_type().into(),
        if string { chars.into() } else { Item::Null },
        if string { octets.into() } else { Item::Null },
        precision,
        scale,
        if temporal { i64::from(ty.decimals).into() } else { Item::Null },
        text(ty.collation.charset()),
        text(ty.collation.name()),
        super::create::type_name(ty).into(),
    ]
}

fn column_row(schema: &str, table: &Table, position: usize, column: &Column, held: Privileges) -> Vec<Item> {
    let (default, shown) = default_texts(column);
    let mut extra: Vec<String> = Vec::new();
    if let Some(generated) = &column.generated {
        extra.push(if generated.stored { "STORED GENERATED" } else { "VIRTUAL GENERATED" }.into());
    }
    if column.auto_increment {
        extra.push("auto_increment".to_owned());
    }
    if column.on_update {
        extra.push(format!("on update {}", now_text(column)));
    }
    let privileges: Vec<String> = held
        .each()
        .filter(|(one, _)| Privileges::OF_COLUMNS.has(*one))
        .map(|(_, kind)| kind.name.to_lowercase())
        .collect();
    let mut row: Vec<Item> = vec![
        "def".into(),
        schema.into(),
        table.name.as_str().into(),
        column.name.as_str().into(),
        (position as i64 + 1).into(),
        default,
        if column.nullable { "YES" } else { "NO" }.into(),
    ];
    row.extend(type_items(&column.ty));
    row.extend([
        key_of(table, column).into(),
        extra.join(" ").into(),
        privileges.join(",").into(),
        column.comment.as_str().into(),
        if column.generated.is_some() { "ALWAYS" } else { "NEVER" }.into(),
        column.generated.as_ref().map_or(Item::Null, |made| super::expression::shown(&made.text).into()),
        shown,
    ]);
    row
}
