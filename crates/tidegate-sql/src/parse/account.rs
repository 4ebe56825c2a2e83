//! The trees of statements about accounts.

use super::program::RoutineKind;

/// A user as a statement names it; the session's own, or one by name and host. A role, or a user of any host, has no host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Current,
    CurrentRole,
    Named { user: String, host: Option<String> },
}

/// How a user is to prove who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identified {
    /// By a password, which a plugin may be named for.
    By { plugin: Option<String>, password: String },
    /// By what a plugin keeps of a password.
    Digits { plugin: Option<String>, digits: String },
}

/// A user with what a statement says about it.
#[derive(Debug, Clone)]
pub(crate) struct UserSpec {
    pub(crate) who: Who,
    pub(crate) identified: Option<Identified>,
}

/// What a GRANT or REVOKE is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Level {
    Server,
    /// A pattern of names.
    Schema(String),
    /// All tables of the current schema.
    CurrentSchema,
    /// A table, with its schema if that is named.
    Table(Option<String>, String),
    /// A procedure or function, with its schema if that is named.
    Routine(RoutineKind, Option<String>, String),
}

/// A privilege by its name, for all or for some columns.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
}

/// What GRANT gives and REVOKE takes.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// None for ALL PRIVILEGES.
    pub(crate) privileges: Option<Vec<Wanted>>,
    pub(crate) level: Level,
}

/// A statement about accounts.
#[derive(Debug, Clone)]
pub(crate) enum AccountStatement {
    CreateUser { users: Vec<UserSpec>, or_replace: bool, if_not_exists: bool, locked: bool },
    AlterUser { users: Vec<UserSpec>, if_exists: bool, locked: Option<bool> },
    DropUser { users: Vec<Who>, if_exists: bool },
    RenameUser(Vec<(Who, Who)>),
    CreateRole { roles: Vec<String>, or_replace: bool, if_not_exists: bool, admin: Option<Who> },
    DropRole { roles: Vec<String>, if_exists: bool },
    Grant { given: Given, to: Vec<UserSpec>, grant_option: bool },
    Revoke { given: Given, from: Vec<Who> },
    RevokeAll(Vec<Who>),
    GrantRole { roles: Vec<String>, to: Vec<Who>, admin: bool },
    RevokeRole { roles: Vec<String>, from: Vec<Who>, admin: bool },
    SetPassword { who: Who, identified: Identified },
    SetRole(RoleChoice),
    SetDefaultRole { role: Option<String>, who: Who },
    ShowGrants(Option<Who>),
    ShowCreateUser(Who),
}

/// The role that a session has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RoleChoice {
    /// The account's default.
    #[default]
    Default,
    None,
    Named(String),
}
