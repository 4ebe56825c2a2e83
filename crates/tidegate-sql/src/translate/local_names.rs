//! What names in a stored program mean: local variables, fields of records, columns of NEW and OLD.

use tidegate_rows::ServerError;

use super::{Code as Text, Coercibility, Ex, Source, Translator};
use crate::{
    catalog::Table,
    column::same_name,
    env::programs::Reading,
    errors,
    parse::program::code::{Code, Shape},
    value::SqlType,
};

type Res<T> = Result<T, ServerError>;

/// What a name in a fragment may mean besides a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(super) code: &'a Code,
    pub(super) scope: usize,
    pub(super) shape: &'a Shape,
    /// The table of NEW and OLD, in a trigger.
    pub(super) row: Option<&'a Table>,
    pub(super) is_ahead: bool,
}

impl<'a> Names<'a> {
    /// Those that a statement of a procedure knows.
    pub(crate) fn of_call(reading: &'a Reading) -> Self {
        Self { code: &reading.code, scope: reading.scope, shape: &reading.shape, row: None, is_ahead: false }
    }

    /// Whether the plan is made before the program runs, and serves it again: user variables have other values then.
    pub(crate) fn are_planned_ahead(&self) -> bool {
        self.is_ahead
    }

    /// Whether a name means the record of a loop.
    pub(super) fn has_record(&self, name: &str) -> bool {
        self.code.record(self.scope, name).is_some()
    }

    /// Slots: those of local variables, then NEW, then OLD.
    fn find(&self, parts: &[&str]) -> Option<Res<(usize, SqlType)>> {
        match parts {
            [name] => {
                let slot = self.code.slot(self.scope, name)?;
                Some(Ok((slot, self.code.type_of(slot).clone())))
            }
            [row, name] => {
                if let Some(record) = self.code.record(self.scope, row) {
                    let slot = self.code.field(record, name);
                    let field = slot.and_then(|slot| Some((slot, self.shape.type_of(slot)?.clone())));
                    return Some(field.ok_or_else(|| errors::no_such_field(row, name)));
                }
                let table = self.row?;
                let (shown, begin) = match () {
                    () if row.eq_ignore_ascii_case("NEW") => ("NEW", new_slot(self.code, 0)),
                    () if row.eq_ignore_ascii_case("OLD") => ("OLD", old_slot(self.code, table, 0)),
                    () => return None,
                };
                let Some((position, column)) = table.column(name) else {
                    return Some(Err(errors::unknown_column(name, shown)));
                };
                Some(Ok((begin + position, column.ty.clone())))
            }
            _ => None,
        }
    }
}

/// The slot of a column of NEW.
pub(crate) fn new_slot(code: &Code, column: usize) -> usize {
    code.variables.len() + column
}

/// The slot of a column of OLD.
pub(crate) fn old_slot(code: &Code, table: &Table, column: usize) -> usize {
    new_slot(code, table.columns.len()) + column
}

impl Translator<'_> {
    /// What a name means to the program that is translated: a local variable, or a column of NEW or OLD.
    ///
    /// # Errors
    /// 1054 for a column that is not there.
    pub(crate) fn local(&mut self, parts: &[&str]) -> Res<Option<Ex>> {
        let Some(found) = self.program.and_then(|names| names.find(parts)) else { return Ok(None) };
        let (slot, ty) = found?;
        let sql = self.bind(&Source::Local(slot), ty.rep(), None);
        let is_text = ty.base.is_character() || ty.base.is_binary();
        let coercibility = if is_text { Coercibility::Column } else { Coercibility::Number };
        Ok(Some(Ex { code: Text::Sql(sql), coercibility, ..Ex::sql(String::new(), ty.stored()) }))
    }
}

/// Whether tokens name a column of NEW or OLD, for what a definition must not say.
pub(crate) fn is_row(word: &str) -> bool {
    same_name(word, "NEW") || same_name(word, "OLD")
}
