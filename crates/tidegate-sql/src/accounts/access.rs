//! What a session may do: what its account and the role that is enabled were granted.

use std::sync::Arc;

use tidegate_rows::ServerError;

use super::{
    account::Grants,
    patterns::closeness,
    privileges::{Privileges, Reach},
};
use crate::{account_name::Name, errors, parse::program::RoutineKind};

/// What a session, or the definer of a view, may do.
#[derive(Debug)]
pub(crate) struct Access {
    /// The account.
    pub(crate) name: Name,
    /// The host that the user comes from: errors about tables name it.
    pub(crate) from: String,
    /// The role that is enabled.
    pub(crate) role: Option<String>,
    /// The account's own grants, and those of the role and of the roles that were granted to that.
    pub(super) grants: Vec<Arc<Grants>>,
    global: Privileges,
    /// What plans are told apart by: 0 for who may do everything.
    pub(crate) kind: u64,
}

impl Access {
    /// Whoever is inside of the process.
    pub(crate) fn owner() -> Self {
        let global = Privileges::all(Reach::Server).and(Privileges::GRANT);
        let name = Name::new("root", "localhost");
        Self { name, from: "localhost".into(), role: None, grants: Vec::new(), global, kind: 0 }
    }

    /// Somebody who may do nothing.
    pub(crate) fn nobody() -> Self {
        Self::new(Name::new("", ""), "", None, Vec::new(), u64::MAX)
    }

    /// Of somebody who was granted this; `kind` is a number that only equal grants share.
    pub(super) fn new(name: Name, from: &str, role: Option<String>, grants: Vec<Arc<Grants>>, kind: u64) -> Self {
        let global = grants.iter().fold(Privileges::NONE, |all, grants| all.and(grants.global));
        let kind = if global.has(Privileges::all(Reach::Server)) { 0 } else { kind };
        Self { name, from: from.to_owned(), role, grants, global, kind }
    }

    /// Whether nothing has to be asked, except whether privileges may be given to others.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.kind == 0
    }

    /// What holds everywhere.
    pub(crate) fn global(&self) -> Privileges {
        self.global
    }

    /// What holds in all of a schema.
    pub(crate) fn on_schema(&self, schema: &str) -> Privileges {
        self.grants.iter().fold(self.global, |all, grants| all.and(grants.of_schema(schema)))
    }

    /// Whether somebody has made a program, or may do everything; the process itself is no account.
    pub(crate) fn is_definer(&self, definer: Option<&Name>) -> bool {
        self.is_unlimited() || definer.is_some_and(|definer| *definer == self.name)
    }

    /// What holds for a procedure or function.
    pub(crate) fn on_routine(&self, schema: &str, kind: RoutineKind, name: &str) -> Privileges {
        let of_routine = self.grants.iter().map(|grants| grants.of_routine(schema, kind, name));
        of_routine.fold(self.on_schema(schema), Privileges::and)
    }

    /// What holds for all of a table.
    pub(crate) fn on_table(&self, schema: &str, table: &str) -> Privileges {
        let of_table = self.grants.iter().filter_map(|grants| grants.of_table(schema, table));
        of_table.fold(self.on_schema(schema), |all, grant| all.and(grant.table))
    }

    /// What holds for a column, with what holds for its table.
    pub(crate) fn on_column(&self, schema: &str, table: &str, column: &str) -> Privileges {
        let column = column.to_lowercase();
        let of_table = self.grants.iter().filter_map(|grants| grants.of_table(schema, table));
        let of_column = of_table.filter_map(|grant| grant.columns.get(&column));
        of_column.fold(self.on_table(schema, table), |all, grant| all.and(*grant))
    }

    /// What holds for the table or for one of its columns.
    pub(crate) fn within_table(&self, schema: &str, table: &str) -> Privileges {
        let of_table = self.grants.iter().filter_map(|grants| grants.of_table(schema, table));
        let columns = of_table.flat_map(|grant| grant.columns.values());
        columns.fold(self.on_table(schema, table), |all, grant| all.and(*grant))
    }

    /// Whether there is anything in a schema that the session may do something with.
    pub(crate) fn sees_schema(&self, schema: &str) -> bool {
        let of_schemas = Privileges::all(Reach::Schema);
        self.on_schema(schema).has_any(of_schemas.and(Privileges::SHOW_DATABASES)) || self.has_objects_in(schema)
    }

    /// Whether something was granted on a table or routine of a schema.
    fn has_objects_in(&self, schema: &str) -> bool {
        self.grants.iter().any(|grants| {
            grants.tables.keys().any(|(known, _)| known == schema)
                || grants.routines.keys().any(|(_, known, _)| known == schema)
        })
    }

    /// Whether the session may use a schema.
    fn may_enter(&self, schema: &str) -> bool {
        self.on_schema(schema).has_any(Privileges::all(Reach::Schema)) || self.has_objects_in(schema)
    }

    /// Whether a table is there, as far as the session is to know.
    pub(crate) fn sees_table(&self, schema: &str, table: &str) -> bool {
        self.within_table(schema, table).has_any(Privileges::all(Reach::Table))
    }

    /// Wants one of some privileges everywhere.
    ///
    /// # Errors
    /// 1227.
    pub(crate) fn want_global(&self, any: Privileges) -> Result<(), ServerError> {
        if self.global.has_any(any) { Ok(()) } else { Err(errors::missing_privilege(any.names())) }
    }

    /// Wants privileges in a schema.
    ///
    /// # Errors
    /// 1044.
    pub(crate) fn want_in_schema(&self, schema: &str, all: Privileges) -> Result<(), ServerError> {
        if self.on_schema(schema).has(all) { Ok(()) } else { Err(self.no_schema(schema)) }
    }

    /// Wants to have a schema as the current one.
    ///
    /// # Errors
    /// 1044.
    pub(crate) fn want_schema(&self, schema: &str) -> Result<(), ServerError> {
        if self.is_unlimited() || schema.eq_ignore_ascii_case("information_schema") || self.may_enter(schema) {
            return Ok(());
        }
        Err(self.no_schema(schema))
    }

    /// What holds in all schemas of a pattern.
    pub(crate) fn on_pattern(&self, pattern: &str) -> Privileges {
        if closeness(pattern) == usize::MAX {
            return self.on_schema(&pattern.replace('\\', ""));
        }
        let same = self.grants.iter().filter_map(|grants| grants.schemas.get(pattern));
        same.fold(self.global, |all, granted| all.and(*granted))
    }

    /// 1044.
    pub(crate) fn no_schema(&self, schema: &str) -> ServerError {
        errors::schema_denied(&self.name.user, &self.name.host, schema)
    }

    /// Wants privileges on a table.
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn want_on_table(&self, schema: &str, table: &str, all: Privileges) -> Result<(), ServerError> {
        let missing = all.without(self.on_table(schema, table));
        if missing.is_empty() { Ok(()) } else { Err(self.table_denied(&missing.names(), schema, table)) }
    }

    /// Wants a privilege on a table, or on one of its columns.
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn want_within_table(&self, schema: &str, table: &str, wanted: Privileges) -> Result<(), ServerError> {
        if self.within_table(schema, table).has_any(wanted) {
            return Ok(());
        }
        Err(self.table_denied(&wanted.names(), schema, table))
    }

    /// 1142 for a command that is named so.
    pub(crate) fn table_denied(&self, command: &str, schema: &str, table: &str) -> ServerError {
        errors::table_denied(command, &self.name.user, &self.from, schema, table)
    }

    /// Wants a privilege on a column.
    ///
    /// # Errors
    /// 1143.
    pub(crate) fn want_on_column(&self, at: (&str, &str), column: &str, wanted: Privileges) -> Result<(), ServerError> {
        if self.on_column(at.0, at.1, column).has(wanted) {
            return Ok(());
        }
        Err(self.column_denied(&wanted.names(), column, at.1))
    }

    /// 1143 for a command that is named so.
    pub(crate) fn column_denied(&self, command: &str, column: &str, table: &str) -> ServerError {
        errors::column_denied(command, &self.name.user, &self.from, column, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::account::TableGrant;

    #[test]
    fn what_was_granted_holds_there_and_nowhere_else() {
        let mut own = Grants::default();
        own.schemas.insert("shop".into(), Privileges::SELECT);
        let columns = [("name".to_owned(), Privileges::UPDATE)].into();
        own.tables.insert(("crm".into(), "people".into()), TableGrant { table: Privileges::INSERT, columns });
        let role = Grants { global: Privileges::PROCESS, ..Grants::default() };
        let access = Access::new(Name::new("a", "%"), "h", Some("r".into()), vec![own.into(), role.into()], 7);
        assert!(!access.is_unlimited() && access.want_global(Privileges::PROCESS).is_ok());
        assert_eq!(access.want_global(Privileges::RELOAD).unwrap_err().code, 1227);
        assert!(access.want_on_table("shop", "t", Privileges::SELECT).is_ok());
        assert_eq!(access.want_on_table("shop", "t", Privileges::INSERT).unwrap_err().code, 1142);
        assert!(access.want_on_column(("crm", "people"), "Name", Privileges::UPDATE.and(Privileges::INSERT)).is_ok());
        assert_eq!(access.want_on_column(("crm", "people"), "id", Privileges::UPDATE).unwrap_err().code, 1143);
        assert!(access.want_within_table("crm", "people", Privileges::UPDATE).is_ok());
        assert!(access.sees_table("crm", "people") && !access.sees_table("crm", "secrets"));
        assert!(access.sees_schema("crm") && access.want_schema("crm").is_ok() && !access.sees_schema("other"));
        assert_eq!(access.want_schema("other").unwrap_err().code, 1044);
        assert!(access.want_schema("information_schema").is_ok());
    }

    #[test]
    fn who_may_do_everything_is_not_told_apart() {
        let all = Grants { global: Privileges::all(Reach::Server), ..Grants::default() };
        let access = Access::new(Name::new("a", "%"), "h", None, vec![all.into()], 7);
        assert!(access.is_unlimited() && !access.global().has(Privileges::GRANT));
        assert!(Access::owner().is_unlimited() && Access::owner().global().has(Privileges::GRANT));
    }
}
