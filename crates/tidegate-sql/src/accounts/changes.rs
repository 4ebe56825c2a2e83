//! What statements do to accounts, once it is known that they may.

use std::collections::BTreeMap;

use tidegate_rows::ServerError;

use super::{
    State,
    account::{Account, Grants, Plugin, Secret},
    privileges::{Privileges, Reach},
};
use crate::{
    account_name::Name,
    errors,
    parse::{
        account::{AccountStatement, Given, Identified, Level, Wanted, Who},
        program::RoutineKind,
    },
};

type Res<T> = Result<T, ServerError>;

/// Bytes of a user's or a role's name.
const USER_BYTES_MAX: usize = 128;
/// Bytes of a host.
const HOST_BYTES_MAX: usize = 255;

/// What GRANT gives and REVOKE takes, with all names known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) at: At,
    pub(crate) privileges: Privileges,
    /// Of columns by their names as written.
    pub(crate) columns: Vec<(String, Privileges)>,
}

/// Where privileges hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    Server,
    Schema(String),
    Table(String, String),
    /// A procedure or function, its name in lower case.
    Routine(RoutineKind, String, String),
}

impl Grant {
    /// What a statement is about; `current` is the schema of names without one.
    ///
    /// # Errors
    /// 1064 for what is no privilege, 1144 and 1221 for one that cannot be had there, 1046 without a schema.
    pub(crate) fn of(given: &Given, current: Option<&str>) -> Res<Self> {
        let current = || current.map(str::to_owned).ok_or_else(errors::no_database);
        let (at, reach) = match &given.level {
            Level::Server => (At::Server, Reach::Server),
            Level::Schema(schema) => (At::Schema(schema.clone()), Reach::Schema),
            Level::CurrentSchema => (At::Schema(current()?), Reach::Schema),
            Level::Table(schema, table) => {
                let schema = schema.clone().map_or_else(current, Ok)?;
                (At::Table(schema, table.clone()), Reach::Table)
            }
            Level::Routine(kind, schema, name) => {
                let schema = schema.clone().map_or_else(current, Ok)?;
                return Self::of_routine(At::Routine(*kind, schema, name.to_lowercase()), given);
            }
        };
        let mut grant = Self { at, privileges: Privileges::NONE, columns: Vec::new() };
        let Some(wanted) = &given.privileges else {
            grant.privileges = Privileges::all(reach);
            return Ok(grant);
        };
        for wanted in wanted {
            grant.add(wanted, reach)?;
        }
        Ok(grant)
    }

    fn of_routine(at: At, given: &Given) -> Res<Self> {
        let all = Privileges::OF_ROUTINES;
        let mut grant = Self { at, privileges: Privileges::NONE, columns: Vec::new() };
        let Some(wanted) = &given.privileges else { return Ok(Self { privileges: all, ..grant }) };
        for Wanted { name, columns } in wanted {
            if name.eq_ignore_ascii_case("USAGE") {
                continue;
            }
            let privilege = Privileges::named(name).ok_or_else(|| errors::syntax(name))?;
            if !all.and(Privileges::GRANT).has(privilege) || !columns.is_empty() {
                return Err(errors::illegal_grant());
            }
            grant.privileges = grant.privileges.and(privilege);
        }
        Ok(grant)
    }

    fn add(&mut self, Wanted { name, columns }: &Wanted, reach: Reach) -> Res<()> {
        if name.eq_ignore_ascii_case("USAGE") && columns.is_empty() {
            return Ok(());
        }
        let privilege = Privileges::named(name).ok_or_else(|| errors::syntax(name))?;
        if !Privileges::all(reach).and(Privileges::GRANT).has(privilege) {
            return Err(if reach == Reach::Schema {
                errors::wrong_usage("DB GRANT", "GLOBAL PRIVILEGES")
            } else {
                errors::illegal_grant()
            });
        }
        if columns.is_empty() {
            self.privileges = self.privileges.and(privilege);
            return Ok(());
        }
        if reach != Reach::Table || !Privileges::OF_COLUMNS.has(privilege) {
            return Err(errors::wrong_usage("COLUMN GRANT", "NON-COLUMN PRIVILEGES"));
        }
        self.columns.extend(columns.iter().map(|column| (column.clone(), privilege)));
        Ok(())
    }

    /// What is given on columns, together.
    pub(crate) fn of_columns(&self) -> Privileges {
        self.columns.iter().fold(Privileges::NONE, |all, (_, privilege)| all.and(*privilege))
    }
}

/// The account that a statement names, where the session's own has no meaning.
pub(crate) fn name_of(who: &Who) -> Res<Name> {
    match who {
        Who::Named { user, host } => Ok(Name::new(user, host.as_deref().unwrap_or("%"))),
        Who::Current | Who::CurrentRole => Err(errors::syntax("CURRENT_USER")),
    }
}

/// The secret that a statement gives a user.
///
/// # Errors
/// 1524 for an unknown plugin, 1372 for what it cannot have made.
pub(crate) fn secret_of(identified: Option<&Identified>) -> Res<Secret> {
    let plugin = |name: &Option<String>| match name {
        Some(name) => Plugin::named(name).ok_or_else(|| errors::unknown_plugin(name)),
        None => Ok(Plugin::Native),
    };
    Ok(match identified {
        None => Secret::none(),
        Some(Identified::By { plugin: name, password }) => {
            let plugin = plugin(name)?;
            Secret::Digest { plugin, digits: plugin.digits_of(password) }
        }
        Some(Identified::Digits { plugin: name, digits }) => {
            let plugin = plugin(name)?;
            if !plugin.takes(digits) {
                return Err(errors::wrong_password_hash());
            }
            Secret::Digest { plugin, digits: plugin.written(digits) }
        }
    })
}

/// Does what a statement says that was read from the file of accounts.
///
/// # Errors
/// Whatever does not fit to what was read before.
pub(crate) fn restore(state: &mut State, statement: &AccountStatement) -> Res<()> {
    match statement {
        AccountStatement::CreateUser { users, locked, .. } => users.iter().try_for_each(|user| {
            let name = name_of(&user.who)?;
            let made = state.create(&name, secret_of(user.identified.as_ref())?, *locked);
            if made { Ok(()) } else { Err(errors::account_failed("CREATE USER", name.quoted())) }
        }),
        AccountStatement::CreateRole { roles, .. } => roles.iter().try_for_each(|role| {
            let made = state.create(&Name::new(role, ""), Secret::none(), false);
            if made { Ok(()) } else { Err(errors::account_failed("CREATE ROLE", role)) }
        }),
        AccountStatement::Grant { given, to, grant_option } => {
            let grant = Grant::of(given, None)?;
            to.iter().try_for_each(|user| {
                let name = existing(state, &user.who)?;
                state.grant(&name, &grant, *grant_option)
            })
        }
        AccountStatement::GrantRole { roles, to, admin } => to.iter().try_for_each(|who| {
            let name = existing(state, who)?;
            roles.iter().try_for_each(|role| state.grant_role(role, &name, *admin))
        }),
        AccountStatement::SetDefaultRole { role, who } => {
            let name = existing(state, who)?;
            state.own(&name).ok_or_else(errors::no_such_user)?.default_role.clone_from(role);
            Ok(())
        }
        _ => Err(errors::internal("not a statement that makes accounts")),
    }
}

/// The user or, without a host, the role of a name.
pub(crate) fn existing(state: &State, who: &Who) -> Res<Name> {
    if let Who::Named { user, host: None } = who
        && state.role(user).is_some()
    {
        return Ok(Name::new(user, ""));
    }
    name_of(who)
}

impl State {
    /// An account that may be changed.
    pub(crate) fn own(&mut self, name: &Name) -> Option<&mut Account> {
        if self.fixed.contains_key(name) { None } else { self.accounts.get_mut(name) }
    }

    /// Makes an account; answers whether the name was free and can be one.
    pub(crate) fn create(&mut self, name: &Name, secret: Secret, is_locked: bool) -> bool {
        let is_role = name.host.is_empty();
        let fits = !name.user.is_empty() && name.user.len() <= USER_BYTES_MAX && name.host.len() <= HOST_BYTES_MAX;
        let quotes = name.host.contains(['\'', '"', '`', '\0']) || name.user.contains('\0');
        if !fits || quotes || self.find(name).is_some() || is_role && is_reserved(&name.user) {
            return false;
        }
        let account = Account {
            number: self.number(),
            name: name.clone(),
            is_role,
            secret,
            is_locked,
            grants: Grants::default(),
            roles: BTreeMap::new(),
            default_role: None,
        };
        self.accounts.insert(name.clone(), account);
        true
    }

    /// Drops an account; answers whether there was one.
    pub(crate) fn drop(&mut self, name: &Name) -> bool {
        if self.own(name).is_none() {
            return false;
        }
        let is_role = self.accounts.remove(name).is_some_and(|account| account.is_role);
        if is_role {
            for account in self.accounts.values_mut() {
                account.roles.remove(&name.user);
                if account.default_role.as_ref() == Some(&name.user) {
                    account.default_role = None;
                }
            }
        }
        true
    }

    /// Gives an account another name; answers whether it has it.
    pub(crate) fn rename(&mut self, from: &Name, to: &Name) -> bool {
        let free = !to.user.is_empty() && to.user.len() <= USER_BYTES_MAX && to.host.len() <= HOST_BYTES_MAX;
        if !free || self.find(to).is_some() || self.own(from).is_none_or(|account| account.is_role) {
            return false;
        }
        if let Some(account) = self.accounts.remove(from) {
            self.accounts.insert(to.clone(), Account { name: to.clone(), ..account });
        }
        true
    }

    /// Gives privileges to an account.
    ///
    /// # Errors
    /// 1133 if there is none.
    pub(crate) fn grant(&mut self, name: &Name, grant: &Grant, grant_option: bool) -> Res<()> {
        if self.fixed.contains_key(name) {
            // It has everything.
            return Ok(());
        }
        let account = self.own(name).ok_or_else(errors::no_such_user)?;
        let mut given = grant.privileges;
        if grant_option {
            given = given.and(Privileges::GRANT);
        }
        let grants = &mut account.grants;
        match &grant.at {
            At::Server => grants.global = grants.global.and(given),
            At::Schema(schema) => {
                let known = grants.schemas.entry(schema.clone()).or_default();
                *known = known.and(given);
            }
            At::Table(schema, table) => {
                let known = grants.tables.entry((schema.clone(), table.clone())).or_default();
                known.table = known.table.and(given);
                for (column, privilege) in &grant.columns {
                    let known = known.columns.entry(column.to_lowercase()).or_default();
                    *known = known.and(*privilege);
                }
            }
            At::Routine(kind, schema, name) => {
                let known = grants.routines.entry((*kind, schema.clone(), name.clone())).or_default();
                *known = known.and(given);
            }
        }
        grants.tidy();
        Ok(())
    }

    /// Takes privileges from an account.
    ///
    /// # Errors
    /// 1141, 1147 and 1403 if it has none there, 1396 for one that stands in the configuration.
    pub(crate) fn revoke(&mut self, name: &Name, grant: &Grant) -> Res<()> {
        let taken = grant.privileges;
        let none = || errors::no_such_grant(&name.user, &name.host);
        if self.fixed.contains_key(name) {
            return Err(errors::account_failed("REVOKE", name.quoted()));
        }
        let grants = &mut self.own(name).ok_or_else(none)?.grants;
        match &grant.at {
            At::Server => grants.global = grants.global.without(taken),
            At::Schema(schema) => {
                let known = grants.schemas.get_mut(schema).ok_or_else(none)?;
                *known = known.without(taken);
            }
            At::Table(schema, table) => {
                let none = || errors::no_such_table_grant(&name.user, &name.host, table);
                let known = grants.tables.get_mut(&(schema.clone(), table.clone())).ok_or_else(none)?;
                known.table = known.table.without(taken);
                // What is taken for the table is taken for each column, too.
                known.columns.values_mut().for_each(|column| *column = column.without(taken));
                for (column, privilege) in &grant.columns {
                    if let Some(known) = known.columns.get_mut(&column.to_lowercase()) {
                        *known = known.without(*privilege);
                    }
                }
            }
            At::Routine(kind, schema, routine) => {
                let none = || errors::no_such_routine_grant(&name.user, &name.host, routine);
                let known = grants.routines.get_mut(&(*kind, schema.clone(), routine.clone())).ok_or_else(none)?;
                *known = known.without(taken);
            }
        }
        grants.tidy();
        Ok(())
    }

    /// Takes everything from an account; answers whether there is one that can be changed.
    pub(crate) fn revoke_all(&mut self, name: &Name) -> bool {
        let Some(account) = self.own(name) else { return false };
        account.grants = Grants::default();
        account.roles.clear();
        account.default_role = None;
        true
    }

    /// Whether a role has another one, or is it.
    pub(crate) fn includes(&self, role: &str, wanted: &str) -> bool {
        let mut seen = Vec::new();
        let mut next = vec![role];
        while let Some(role) = next.pop() {
            if role == wanted {
                return true;
            }
            if let Some(account) = self.role(role).filter(|_| !seen.contains(&role)) {
                seen.push(role);
                next.extend(account.roles.keys().map(String::as_str));
            }
        }
        false
    }

    /// Gives a role to an account, or to another role.
    ///
    /// # Errors
    /// 1959 if there is no such role, 1133 if there is no such account, 1961 if the role has the other one already.
    pub(crate) fn grant_role(&mut self, role: &str, to: &Name, admin: bool) -> Res<()> {
        if self.role(role).is_none() {
            return Err(errors::no_such_role(role));
        }
        if to.host.is_empty() && self.includes(role, &to.user) {
            return Err(errors::role_in_circle(role, &to.user));
        }
        if self.fixed.contains_key(to) {
            return Ok(());
        }
        let account = self.own(to).ok_or_else(errors::no_such_user)?;
        *account.roles.entry(role.to_owned()).or_default() |= admin;
        Ok(())
    }

    /// Takes a role, or only the right to grant it on.
    ///
    /// # Errors
    /// 1962 if the account has no such role.
    pub(crate) fn revoke_role(&mut self, role: &str, from: &Name, admin_only: bool) -> Res<()> {
        let quoted = from.quoted();
        let none = || errors::role_not_granted(role, &quoted);
        let account = self.own(from).ok_or_else(none)?;
        let admin = account.roles.get_mut(role).ok_or_else(none)?;
        if admin_only {
            *admin = false;
            return Ok(());
        }
        account.roles.remove(role);
        account.default_role.take_if(|default| *default == role);
        Ok(())
    }
}

/// Whether a word cannot be a role's name.
fn is_reserved(role: &str) -> bool {
    ["none", "public", "current_role", "current_user"].iter().any(|word| role.eq_ignore_ascii_case(word))
}
