//! What columns of views are shown with: defaults and comments.

use super::Core;
use crate::{
    catalog::Table,
    coerce::implicit_default,
    column::{Column, Default},
    translate::{Origin, select::RelColumn},
    value::{Base, Datum, out::Out},
};

/// A column of a view, as its text gives it now.
pub(super) fn view_column(core: &Core, found: RelColumn, name: String, id: u32) -> Column {
    let (ty, nullable) = (found.ex.ty, found.ex.nullable);
    let shown = found.ex.origin.as_ref().and_then(|origin| {
        of_table(core, origin, |_, column| {
            let default = match &column.default {
                _ if column.auto_increment => implicit(column),
                _ if column.generated.is_some() => Default::None,
                default => default.clone(),
            };
            (default, column.comment.clone())
        })
    });
    let mut column = Column {
        id,
        name,
        ty,
        nullable,
        default: Default::None,
        on_update: false,
        auto_increment: false,
        generated: None,
        comment: String::new(),
    };
    match shown {
        Some((default, comment)) => (column.default, column.comment) = (default, comment),
        None if !nullable => column.default = implicit(&column),
        None => {}
    }
    column
}

/// Looks at the column of a table that an expression is.
fn of_table<T>(core: &Core, origin: &Origin, look: impl FnOnce(&Table, &Column) -> T) -> Option<T> {
    let catalog = core.engine.schema(&origin.schema).ok()?.catalog().ok()?;
    let table = catalog.table(&origin.table)?;
    let (_, column) = table.column(&origin.column)?;
    Some(look(table, column))
}

/// The default that MariaDB shows where an expression cannot be NULL.
fn implicit(column: &Column) -> Default {
    let value = implicit_default(&column.ty);
    if let Datum::Blob(_) | Datum::Text(_) = &value
        && !column.ty.base.is_number()
    {
        return Default::Literal { text: String::new(), quoted: true, value };
    }
    let mut text = Vec::new();
    Out::of(&column.ty).write(value.as_cell(), &mut text);
    let text = if column.ty.base == Base::Enum { Vec::new() } else { text };
    Default::Literal { text: String::from_utf8_lossy(&text).into_owned(), quoted: !column.ty.base.is_number(), value }
}
