//! The statements about accounts: who may run them, and what they answer.

use std::sync::Arc;

use tidegate_rows::{QueryError, ServerError, Sink};

use super::{Core, rows};
use crate::{
    account_name::Name,
    accounts::{Access, At, Grant, Privileges, Secret, State, existing, name_of, secret_of},
    errors,
    identifier::quoted,
    parse::{
        account::{AccountStatement, Given, RoleChoice, UserSpec, Who},
        program::routine,
    },
};

type Res<T> = Result<T, ServerError>;

/// What a statement has done to some accounts, and to which it could not do it.
type Failed = Vec<String>;

/// Carries out a statement about accounts.
///
/// # Errors
/// What its user may not do, accounts that are not there; storage errors.
pub(crate) fn run(
    core: &mut Core,
    statement: AccountStatement,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    match statement {
        AccountStatement::ShowGrants(of) => return show_grants(core, of.as_ref(), more, sink),
        AccountStatement::ShowCreateUser(who) => return show_create_user(core, &who, more, sink),
        AccountStatement::SetRole(choice) => set_role(core, choice)?,
        change => {
            core.commit_open()?;
            let access = core.env.access();
            permit(core, &access, &change)?;
            check_objects(core, &change)?;
            let current = core.schema.as_ref().map(|schema| schema.name.clone());
            let accounts = Arc::clone(&core.env.accounts);
            let directory = Arc::clone(&core.engine.directory);
            let maker = Maker { access: &access, current: current.as_deref() };
            let (word, failed, notes) = accounts.change(&directory, |state| maker.apply(state, &change))?;
            notes.into_iter().for_each(|note| core.env.note(note));
            if !failed.is_empty() {
                return Err(match change {
                    AccountStatement::RevokeAll(_) => errors::cannot_revoke_all(),
                    _ => errors::account_failed(word, failed.join(",")),
                }
                .into());
            }
        }
    }
    core.ok(0, more, sink);
    Ok(())
}

/// Whether a session may change accounts like that.
fn permit(core: &Core, access: &Access, statement: &AccountStatement) -> Res<()> {
    let is_own = |who: &Who| matches!(who, Who::Current) || name_of(who).is_ok_and(|name| name == access.name);
    match statement {
        AccountStatement::CreateUser { .. }
        | AccountStatement::AlterUser { .. }
        | AccountStatement::DropUser { .. }
        | AccountStatement::RenameUser(_)
        | AccountStatement::CreateRole { .. }
        | AccountStatement::DropRole { .. }
        | AccountStatement::RevokeAll(_) => access.want_global(Privileges::CREATE_USER),
        AccountStatement::SetPassword { who, .. } | AccountStatement::SetDefaultRole { who, .. } => {
            if is_own(who) {
                Ok(())
            } else {
                access.want_in_schema("mysql", Privileges::UPDATE)
            }
        }
        AccountStatement::Grant { given, to, .. } => {
            if to.iter().any(|user| user.identified.is_some()) {
                access.want_global(Privileges::CREATE_USER)?;
            }
            permit_grant(core, access, given)
        }
        AccountStatement::Revoke { given, .. } => permit_grant(core, access, given),
        AccountStatement::GrantRole { roles, .. } | AccountStatement::RevokeRole { roles, .. } => {
            let state = core.env.accounts.now();
            let account = state.find(&access.name);
            let administers = |role: &String| account.is_some_and(|account| account.roles.get(role) == Some(&true));
            match roles.iter().find(|role| !state.is_fixed(&access.name) && !administers(role)) {
                Some(_) => Err(errors::not_admin_of_role(&access.name.user, &access.name.host)),
                None => Ok(()),
            }
        }
        // These have been answered before.
        AccountStatement::SetRole(_) | AccountStatement::ShowGrants(_) | AccountStatement::ShowCreateUser(_) => Ok(()),
    }
}

/// Nobody gives or takes what he does not have, nor without GRANT OPTION.
fn permit_grant(core: &Core, access: &Access, given: &Given) -> Res<()> {
    let current = core.schema.as_ref().map(|schema| schema.name.clone());
    let grant = Grant::of(given, current.as_deref())?;
    let wanted = grant.privileges.and(Privileges::GRANT);
    match &grant.at {
        At::Server if access.global().has(wanted) => Ok(()),
        At::Server => Err(errors::access_denied(&access.name.user, &access.name.host)),
        // A pattern reaches further than the schema of its name.
        At::Schema(pattern) if access.on_pattern(pattern).has(wanted) => Ok(()),
        At::Schema(pattern) => Err(access.no_schema(pattern)),
        At::Table(schema, table) => {
            access.want_on_table(schema, table, wanted)?;
            grant
                .columns
                .iter()
                .try_for_each(|(column, privilege)| access.want_on_column((schema, table), column, *privilege))
        }
        At::Routine(kind, schema, name) if access.on_routine(schema, *kind, name).has(wanted) => Ok(()),
        At::Routine(_, schema, name) => {
            let (user, host) = (&access.name.user, &access.name.host);
            Err(errors::routine_denied("grant", user, host, format!("{schema}.{name}")))
        }
    }
}

/// Privileges are granted on tables, columns and routines that are there, unless they are to be made.
fn check_objects(core: &Core, statement: &AccountStatement) -> Res<()> {
    let AccountStatement::Grant { given, .. } = statement else { return Ok(()) };
    let grant = Grant::of(given, core.schema.as_ref().map(|schema| schema.name.as_str()))?;
    if let At::Routine(kind, schema, name) = &grant.at {
        let catalog = core.engine.schema(schema).and_then(|schema| schema.catalog());
        let is_there = catalog.is_ok_and(|all| routine::named(all.routines(), *kind, name).is_some());
        let shown = || format!("{schema}.{name}");
        return if is_there { Ok(()) } else { Err(errors::unknown_program(kind.word(), shown())) };
    }
    let At::Table(schema, table) = &grant.at else { return Ok(()) };
    if crate::schema::is_virtual(schema) || grant.privileges.has(Privileges::CREATE) && grant.of_columns().is_empty() {
        return Ok(());
    }
    let missing = || errors::no_such_table(schema, table);
    let catalog = core.engine.schema(schema).map_err(|_| missing())?.catalog()?;
    let found = catalog.table(table).ok_or_else(missing)?;
    match grant.columns.iter().find(|(column, _)| found.column(column).is_none()) {
        Some((column, _)) => Err(errors::unknown_column(column, table)),
        None => Ok(()),
    }
}

/// The session that changes accounts.
struct Maker<'a> {
    access: &'a Access,
    current: Option<&'a str>,
}

/// The operation as errors name it, for which accounts it failed, and notes.
type Applied = (&'static str, Failed, Vec<ServerError>);

impl Maker<'_> {
    /// The account that a statement means.
    fn name(&self, state: &State, who: &Who) -> Res<Name> {
        match who {
            Who::Current => Ok(self.access.name.clone()),
            Who::CurrentRole => {
                let role = self.access.role.as_deref().ok_or_else(|| errors::no_such_role("NONE"))?;
                Ok(Name::new(role, ""))
            }
            who => existing(state, who),
        }
    }

    /// The user that a statement means, where a role of the name is not.
    fn user(&self, state: &State, who: &Who) -> Res<Name> {
        if let Who::Named { .. } = who { name_of(who) } else { self.name(state, who) }
    }

    fn apply(&self, state: &mut State, statement: &AccountStatement) -> Res<Applied> {
        let (mut failed, mut notes) = (Failed::new(), Vec::new());
        let word = match statement {
            AccountStatement::CreateUser { users, or_replace, if_not_exists, locked } => {
                for user in users {
                    self.create_user(state, user, (*or_replace, *if_not_exists, *locked), (&mut failed, &mut notes))?;
                }
                "CREATE USER"
            }
            AccountStatement::AlterUser { users, if_exists, locked } => {
                for user in users {
                    self.alter_user(state, user, (*if_exists, *locked), (&mut failed, &mut notes))?;
                }
                "ALTER USER"
            }
            AccountStatement::DropUser { users, if_exists } => {
                let names = users.iter().map(|who| self.user(state, who)).collect::<Res<Vec<Name>>>()?;
                drop_all(state, &names, *if_exists, (&mut failed, &mut notes));
                "DROP USER"
            }
            AccountStatement::DropRole { roles, if_exists } => {
                let names: Vec<Name> = roles.iter().map(|role| Name::new(role, "")).collect();
                drop_all(state, &names, *if_exists, (&mut failed, &mut notes));
                "DROP ROLE"
            }
            AccountStatement::RenameUser(pairs) => {
                for (from, to) in pairs {
                    let (from, to) = (name_of(from)?, name_of(to)?);
                    if !state.rename(&from, &to) {
                        failed.push(from.quoted());
                    }
                }
                "RENAME USER"
            }
            AccountStatement::CreateRole { roles, or_replace, if_not_exists, admin } => {
                self.create_roles(
                    state,
                    roles,
                    (*or_replace, *if_not_exists),
                    admin.as_ref(),
                    (&mut failed, &mut notes),
                )?;
                "CREATE ROLE"
            }
            AccountStatement::RevokeAll(users) => {
                for who in users {
                    let name = self.name(state, who)?;
                    if !state.revoke_all(&name) {
                        failed.push(name.quoted());
                    }
                }
                "REVOKE"
            }
            statement => return self.apply_grants(state, statement).map(|()| ("GRANT", failed, notes)),
        };
        Ok((word, failed, notes))
    }

    fn apply_grants(&self, state: &mut State, statement: &AccountStatement) -> Res<()> {
        match statement {
            AccountStatement::Grant { given, to, grant_option } => {
                let grant = Grant::of(given, self.current)?;
                to.iter().try_for_each(|user| {
                    let name = self.name(state, &user.who)?;
                    if let Some(identified) = &user.identified {
                        let secret = secret_of(Some(identified))?;
                        if let Some(account) = state.own(&name) {
                            account.secret = secret;
                        } else if !state.create(&name, secret, false) {
                            return Err(errors::account_failed("GRANT", name.quoted()));
                        }
                    }
                    state.grant(&name, &grant, *grant_option)
                })
            }
            AccountStatement::Revoke { given, from } => {
                let grant = Grant::of(given, self.current)?;
                from.iter().try_for_each(|who| state.revoke(&self.name(state, who)?, &grant))
            }
            AccountStatement::GrantRole { roles, to, admin } => to.iter().try_for_each(|who| {
                let name = self.name(state, who)?;
                roles.iter().try_for_each(|role| state.grant_role(role, &name, *admin))
            }),
            AccountStatement::RevokeRole { roles, from, admin } => from.iter().try_for_each(|who| {
                let name = self.name(state, who)?;
                roles.iter().try_for_each(|role| state.revoke_role(role, &name, *admin))
            }),
            AccountStatement::SetPassword { who, identified } => {
                let name = self.name(state, who)?;
                let secret = secret_of(Some(identified))?;
                let exists = state.find(&name).is_some();
                let account = state.own(&name).filter(|account| !account.is_role).ok_or_else(|| match exists {
                    true => errors::account_failed("SET PASSWORD", name.quoted()),
                    false => errors::no_such_user(),
                })?;
                account.secret = secret;
                Ok(())
            }
            AccountStatement::SetDefaultRole { role, who } => {
                let name = self.name(state, who)?;
                let account = state.own(&name).ok_or_else(errors::no_such_user)?;
                if let Some(role) = role.as_ref().filter(|role| !account.roles.contains_key(*role)) {
                    return Err(errors::no_such_role(role));
                }
                account.default_role.clone_from(role);
                Ok(())
            }
            _ => Err(errors::internal("not a statement that changes accounts")),
        }
    }

    fn create_user(
        &self,
        state: &mut State,
        user: &UserSpec,
        (or_replace, if_not_exists, locked): (bool, bool, bool),
        (failed, notes): (&mut Failed, &mut Vec<ServerError>),
    ) -> Res<()> {
        let name = name_of(&user.who)?;
        let secret = secret_of(user.identified.as_ref())?;
        if or_replace {
            state.drop(&name);
        }
        if state.find(&name).is_some() && if_not_exists {
            notes.push(errors::account_exists("USER", name.quoted()));
        } else if !state.create(&name, secret, locked) {
            failed.push(name.quoted());
        }
        Ok(())
    }

    fn alter_user(
        &self,
        state: &mut State,
        user: &UserSpec,
        (if_exists, locked): (bool, Option<bool>),
        (failed, notes): (&mut Failed, &mut Vec<ServerError>),
    ) -> Res<()> {
        let name = self.name(state, &user.who)?;
        let secret = user.identified.as_ref().map(|identified| secret_of(Some(identified))).transpose()?;
        let is_missing = state.find(&name).is_none();
        match state.own(&name).filter(|account| !account.is_role) {
            Some(account) => {
                account.is_locked = locked.unwrap_or(account.is_locked);
                account.secret = secret.unwrap_or_else(|| account.secret.clone());
            }
            None if if_exists && is_missing => notes.push(errors::no_such_account(name.quoted())),
            None => failed.push(name.quoted()),
        }
        Ok(())
    }

    fn create_roles(
        &self,
        state: &mut State,
        roles: &[String],
        (or_replace, if_not_exists): (bool, bool),
        admin: Option<&Who>,
        (failed, notes): (&mut Failed, &mut Vec<ServerError>),
    ) -> Res<()> {
        let admin = self.name(state, admin.unwrap_or(&Who::Current))?;
        for role in roles {
            let name = Name::new(role, "");
            if or_replace {
                state.drop(&name);
            }
            if state.find(&name).is_some() && if_not_exists {
                notes.push(errors::account_exists("ROLE", name.quoted()));
            } else if state.create(&name, Secret::none(), false) {
                state.grant_role(role, &admin, true)?;
            } else {
                failed.push(name.quoted());
            }
        }
        Ok(())
    }
}

fn drop_all(state: &mut State, names: &[Name], if_exists: bool, (failed, notes): (&mut Failed, &mut Vec<ServerError>)) {
    for name in names {
        if state.drop(name) {
            continue;
        }
        if if_exists && state.find(name).is_none() {
            notes.push(errors::no_such_account(name.quoted()));
        } else {
            failed.push(name.quoted());
        }
    }
}

fn set_role(core: &Core, choice: RoleChoice) -> Res<()> {
    if let RoleChoice::Named(role) = &choice {
        let access = core.env.access();
        let state = core.env.accounts.now();
        if !state.find(&access.name).is_some_and(|account| account.roles.contains_key(role)) {
            return Err(errors::no_such_role(role));
        }
    }
    core.env.set_role(choice);
    Ok(())
}

fn show_grants(core: &mut Core, of: Option<&Who>, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let access = core.env.access();
    let state = core.env.accounts.now();
    let maker = Maker { access: &access, current: None };
    let name = maker.name(&state, of.unwrap_or(&Who::Current))?;
    let own = name == access.name;
    let role_of_own = name.host.is_empty()
        && state
            .find(&access.name)
            .is_some_and(|account| account.roles.keys().any(|role| state.includes(role, &name.user)));
    if !own && !role_of_own {
        access.want_in_schema("mysql", Privileges::SELECT)?;
    }
    let account = state.find(&name).ok_or_else(|| errors::no_such_grant(&name.user, &name.host))?;
    let mut lines = account.grant_statements(true);
    if let (None, Some(role)) = (of, access.role.as_deref().and_then(|role| state.role(role))) {
        lines.extend(role.grant_statements(true));
    }
    if let Some(role) = &account.default_role {
        lines.push(format!("SET DEFAULT ROLE {} FOR {}", quoted(role), name.in_sql()));
    }
    let rows: Vec<Vec<Option<String>>> = lines.into_iter().map(|line| vec![Some(line)]).collect();
    rows::rows(core, &[&format!("Grants for {name}")], &rows, more, sink)
}

fn show_create_user(core: &mut Core, who: &Who, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let access = core.env.access();
    let state = core.env.accounts.now();
    let name = Maker { access: &access, current: None }.name(&state, who)?;
    if name != access.name {
        access.want_in_schema("mysql", Privileges::SELECT)?;
    }
    let account = state.find(&name).filter(|account| !account.is_role);
    let account = account.ok_or_else(|| errors::account_failed("SHOW CREATE USER", name.quoted()))?;
    let row = vec![Some(account.create_statement())];
    rows::rows(core, &[&format!("CREATE USER for {name}")], &[row], more, sink)
}
