//! What tables tell about accounts: `mysql.user` and its like, and the tables of privileges in `information_schema`.
//!
//! The tables of `mysql` are made from the accounts when they are read, and take SELECT on them; those of
//! `information_schema` show the session's own account to everybody.

use tidegate_rows::Sink;

use super::{Done, rows, tables::Definition};
use crate::{
    account_name::Name,
    accounts::{Account, KINDS, Privileges},
    session::Core,
    store::made_rows::{Item, Rows},
    translate::{Res, Translator, scope::Scope},
};

#[rustfmt::skip]
static TABLES: &[Definition] = &[
    Definition { name: "user", columns: "Host User Password Select_priv Insert_priv Update_priv Delete_priv Create_priv Drop_priv Reload_priv Shutdown_priv Process_priv File_priv Grant_priv References_priv Index_priv Alter_priv Show_db_priv Super_priv Create_tmp_table_priv Lock_tables_priv Execute_priv Repl_slave_priv Repl_client_priv Create_view_priv Show_view_priv Create_routine_priv Alter_routine_priv Create_user_priv Event_priv Trigger_priv Create_tablespace_priv Delete_history_priv ssl_type ssl_cipher x509_issuer x509_subject max_questions# max_updates# max_connections# max_user_connections# plugin authentication_string password_expired is_role default_role max_statement_time", make: |t, _| Ok(users(t)) },
    Definition { name: "db", columns: "Host Db User Select_priv Insert_priv Update_priv Delete_priv Create_priv Drop_priv Grant_priv References_priv Index_priv Alter_priv Create_tmp_table_priv Lock_tables_priv Create_view_priv Show_view_priv Create_routine_priv Alter_routine_priv Execute_priv Event_priv Trigger_priv Delete_history_priv", make: |t, _| Ok(schemas(t)) },
    Definition { name: "tables_priv", columns: "Host Db User Table_name Grantor Timestamp Table_priv Column_priv", make: |t, _| Ok(tables(t)) },
    Definition { name: "columns_priv", columns: "Host Db User Table_name Column_name Timestamp Column_priv", make: |t, _| Ok(columns(t)) },
    Definition { name: "procs_priv", columns: "Host Db User Routine_name Routine_type Grantor Proc_priv Timestamp", make: |t, _| Ok(routines(t)) },
    Definition { name: "proxies_priv", columns: "Host User Proxied_host Proxied_user With_grant# Grantor Timestamp", make: |_, _| Ok(Vec::new()) },
    Definition { name: "roles_mapping", columns: "Host User Role Admin_option", make: |t, _| Ok(roles_mapping(t)) },
];

/// When a privilege was granted is not kept.
const TIMESTAMP: &str = "0000-00-00 00:00:00";

/// A table of the schema `mysql` in FROM; `None` if there is none of this name.
///
/// # Errors
/// 1142 for whoever may not read it.
pub(crate) fn mysql_schema(
    translator: &mut Translator<'_>,
    schema: &str,
    name: &str,
    alias: Option<String>,
    scope: &mut Scope<'_>,
) -> Res<Option<String>> {
    let Some(table) = TABLES.iter().find(|table| table.name == name) else { return Ok(None) };
    if let Some(access) = &translator.access {
        access.want_on_table("mysql", table.name, Privileges::SELECT)?;
    }
    super::tables::made_table(translator, table, schema, alias, scope, str::to_owned).map(Some)
}

/// The names of the tables of `mysql` that the session may read.
pub(super) fn mysql_tables(translator: &Translator<'_>) -> impl Iterator<Item = &'static str> {
    let access = translator.now().env.access();
    let may_read = access.on_schema("mysql").has(Privileges::SELECT);
    TABLES.iter().map(|table| table.name).filter(move |_| may_read)
}

/// Calls `f` for each account.
fn each(translator: &Translator<'_>, mut f: impl FnMut(&Account)) {
    translator.now().env.accounts.now().all().for_each(&mut f);
}

/// Calls `f` for each account that the session may know of: its own, and all for who may read `mysql`.
fn each_known(translator: &Translator<'_>, mut f: impl FnMut(&Account)) {
    let access = translator.now().env.access();
    let knows_all = access.on_schema("mysql").has(Privileges::SELECT);
    each(translator, |account| {
        let is_own = account.name == access.name
            || account.is_role && access.role.as_ref().is_some_and(|role| *role == account.name.user);
        if knows_all || is_own {
            f(account);
        }
    });
}

fn yes(is: bool) -> Item {
    if is { "Y" } else { "N" }.into()
}

/// The columns of privileges in MariaDB's order: GRANT OPTION stands before REFERENCES.
fn flags(held: Privileges, of: &[Privileges]) -> Vec<Item> {
    of.iter().map(|privilege| yes(held.has(*privilege))).collect()
}

fn users(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    let with_columns =
        KINDS.iter().filter(|kind| !kind.column.is_empty()).filter_map(|kind| Privileges::named(kind.name));
    let mut of: Vec<Privileges> = with_columns.collect();
    let place = of.iter().position(|privilege| *privilege == Privileges::REFERENCES).unwrap_or(of.len());
    of.insert(place, Privileges::GRANT);
    each(translator, |account| {
        let (plugin, digits) = account.secret.shown();
        let native = if plugin == crate::accounts::Plugin::Native { digits } else { "" };
        let mut row: Vec<Item> =
            vec![account.name.host.as_str().into(), account.name.user.as_str().into(), native.into()];
        row.extend(flags(account.grants.global, &of));
        row.extend(["", "", "", ""].map(Item::from));
        row.extend([0; 4].map(Item::Int));
        row.push(if account.is_role { "" } else { plugin.name() }.into());
        row.extend([digits.into(), yes(false), yes(account.is_role)]);
        row.extend([account.default_role.as_deref().unwrap_or_default().into(), "0.000000".into()]);
        rows.push(row);
    });
    rows
}

fn schemas(translator: &Translator<'_>) -> Rows {
    use Privileges as P;
    let of = [
        P::SELECT,
        P::INSERT,
        P::UPDATE,
        P::DELETE,
        P::CREATE,
        P::DROP,
        P::GRANT,
        P::REFERENCES,
        P::INDEX,
        P::ALTER,
        P::CREATE_TEMPORARY_TABLES,
        P::LOCK_TABLES,
        P::CREATE_VIEW,
        P::SHOW_VIEW,
        P::CREATE_ROUTINE,
        P::ALTER_ROUTINE,
        P::EXECUTE,
        P::EVENT,
        P::TRIGGER,
        P::DELETE_HISTORY,
    ];
    let mut rows = Rows::new();
    each(translator, |account| {
        for (schema, held) in &account.grants.schemas {
            let mut row: Vec<Item> =
                vec![account.name.host.as_str().into(), schema.as_str().into(), account.name.user.as_str().into()];
            row.extend(flags(*held, &of));
            rows.push(row);
        }
    });
    rows
}

/// The members of a SET as `tables_priv` has it.
fn members(held: Privileges) -> Item {
    let name = |text: &str| {
        let mut text = text.to_ascii_lowercase();
        text[..1].make_ascii_uppercase();
        text
    };
    let mut names: Vec<String> = held.each().map(|(_, kind)| name(kind.name)).collect();
    if held.has(Privileges::GRANT) {
        names.push("Grant".to_owned());
    }
    names.join(",").into()
}

fn tables(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each(translator, |account| {
        for ((schema, table), grant) in &account.grants.tables {
            let of_columns = grant.columns.values().fold(Privileges::NONE, |all, columns| all.and(*columns));
            rows.push(vec![
                account.name.host.as_str().into(),
                schema.as_str().into(),
                account.name.user.as_str().into(),
                table.as_str().into(),
                "".into(),
                TIMESTAMP.into(),
                members(grant.table),
                members(of_columns),
            ]);
        }
    });
    rows
}

fn columns(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each(translator, |account| {
        for ((schema, table), grant) in &account.grants.tables {
            for (column, held) in &grant.columns {
                rows.push(vec![
                    account.name.host.as_str().into(),
                    schema.as_str().into(),
                    account.name.user.as_str().into(),
                    table.as_str().into(),
                    column.as_str().into(),
                    TIMESTAMP.into(),
                    members(*held),
                ]);
            }
        }
    });
    rows
}

fn routines(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each(translator, |account| {
        for ((kind, schema, name), held) in &account.grants.routines {
            rows.push(vec![
                account.name.host.as_str().into(),
                schema.as_str().into(),
                account.name.user.as_str().into(),
                name.as_str().into(),
                kind.word().into(),
                "".into(),
                members(*held),
                TIMESTAMP.into(),
            ]);
        }
    });
    rows
}

fn roles_mapping(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each(translator, |account| {
        for (role, admin) in &account.roles {
            let Name { user, host } = &account.name;
            rows.push(vec![host.as_str().into(), user.as_str().into(), role.as_str().into(), yes(*admin)]);
        }
    });
    rows
}

/// Rows for each privilege that is held: the grantee, `def`, what it is on, its name, and whether it may be granted on.
fn privileges(rows: &mut Rows, account: &Account, on: &[&str], held: Privileges, option: Privileges) {
    let names = held.each().map(|(_, kind)| kind.name);
    let names: Vec<&str> = if held.without(Privileges::GRANT).is_empty() { vec!["USAGE"] } else { names.collect() };
    for name in names {
        let mut row: Vec<Item> = vec![account.name.grantee().into(), "def".into()];
        row.extend(on.iter().map(|part| Item::from(*part)));
        row.extend([name.into(), if option.has(Privileges::GRANT) { "YES" } else { "NO" }.into()]);
        rows.push(row);
    }
}

pub(super) fn user_privileges(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each_known(translator, |account| {
        privileges(&mut rows, account, &[], account.grants.global, account.grants.global);
    });
    rows
}

pub(super) fn schema_privileges(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each_known(translator, |account| {
        for (schema, held) in &account.grants.schemas {
            privileges(&mut rows, account, &[schema], *held, *held);
        }
    });
    rows
}

pub(super) fn table_privileges(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each_known(translator, |account| {
        for ((schema, table), grant) in &account.grants.tables {
            if !grant.table.is_empty() {
                privileges(&mut rows, account, &[schema, table], grant.table, grant.table);
            }
        }
    });
    rows
}

pub(super) fn column_privileges(translator: &Translator<'_>) -> Rows {
    let mut rows = Rows::new();
    each_known(translator, |account| {
        for ((schema, table), grant) in &account.grants.tables {
            for (column, held) in &grant.columns {
                privileges(&mut rows, account, &[schema, table, column], *held, grant.table);
            }
        }
    });
    rows
}

pub(super) fn applicable_roles(translator: &Translator<'_>) -> Rows {
    let access = translator.now().env.access();
    let mut rows = Rows::new();
    each(translator, |account| {
        for (role, admin) in account.roles.iter().filter(|_| account.name == access.name) {
            let word = |is: bool| Item::from(if is { "YES" } else { "NO" });
            let is_default = account.default_role.as_ref() == Some(role);
            rows.push(vec![account.name.to_string().into(), role.as_str().into(), word(*admin), word(is_default)]);
        }
    });
    rows
}

pub(super) fn enabled_roles(translator: &Translator<'_>) -> Rows {
    let access = translator.now().env.access();
    vec![vec![access.role.as_deref().map_or(Item::Null, Item::from)]]
}

/// SHOW PRIVILEGES.
///
/// # Errors
/// When the sink has gone.
pub(super) fn show_privileges(core: &mut Core, more: bool, sink: &mut dyn Sink) -> Done {
    let mut list: Vec<Vec<Option<String>>> = KINDS
        .iter()
        .map(|kind| {
            let (name, context, comment) = kind.described();
            vec![Some(name), Some(context.to_owned()), Some(comment.to_owned())]
        })
        .collect();
    let others = [
        [
            "Grant option",
            "Databases,Tables,Functions,Procedures",
            "To give to other users those privileges you possess",
        ],
        ["Usage", "Server Admin", "No privileges - allow connect only"],
    ];
    list.extend(others.map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
    list.sort();
    rows(core, &["Privilege", "Context", "Comment"], &list, more, sink)
}

#[cfg(test)]
mod tests {
    use super::TABLES;
    use crate::store::made_rows::COLUMNS_MAX;

    #[test]
    fn every_table_has_room_for_its_columns() {
        for table in TABLES {
            assert!(table.columns.split(' ').count() <= COLUMNS_MAX, "{}", table.name);
        }
    }
}
