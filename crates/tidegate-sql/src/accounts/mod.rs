//! Accounts: who may log in from where, and what they may do.
//!
//! All accounts are one value that never changes ([`State`]); a change makes another one, writes it to the disk and then
//! publishes it, with a new version. A session works out what its account may do when it meets a new version
//! ([`Access`]). Plans are made for one [`Access::kind`] and one version, which are among the
//! [`Inputs`](crate::translate::Inputs) of a translation: whatever way a statement takes to a plan, it gets none that was
//! made for somebody else's privileges or for those of before a REVOKE.
//!
//! The users of the configuration are accounts that no statement changes. Whoever is inside of the process is none of them,
//! and may do everything.
//!
//! On the disk accounts are the statements that make them again, in `accounts.sql` of the data directory.
//!
//! Reading order: [`privileges`], [`patterns`], [`salted`], [`account`], [`access`], this, [`changes`] (what statements do). Who
//! may run them is in `session/account_statements.rs`, what other statements need in `session/checks.rs` and
//! `translate/access.rs`, the file in `accounts_file.rs`.
//!
//! Source: MariaDB's documentation, "Account Management SQL Commands".

mod access;
mod account;
mod changes;
mod patterns;
mod privileges;
mod salted;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

pub(crate) use self::{
    access::Access,
    account::Account,
    changes::{At, Grant, existing, name_of, restore, secret_of},
    privileges::{KINDS, Privileges, Reach},
};
use self::{account::Grants, patterns::closeness};
pub use self::{
    account::{Plugin, Secret},
    patterns::Origin,
};
use crate::account_name::Name;

/// A user of the configuration, who may do everything, from any host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredUser {
    /// The name.
    pub name: String,
    /// The password; may be empty.
    pub password: Box<[u8]>,
}

/// The account that somebody logs in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The host of the account: `%` for any.
    pub host: String,
    /// What proves who it is.
    pub secret: Secret,
    /// Nobody may log in with it.
    pub is_locked: bool,
}

/// All accounts.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) accounts: BTreeMap<Name, Account>,
    /// The process itself and the users of the configuration; they hide accounts of the same names.
    fixed: BTreeMap<Name, Account>,
    next_number: u64,
}

/// The accounts of an engine.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// Grows with each change, behind it.
    version: Arc<AtomicU64>,
    state: Mutex<Arc<State>>,
    configured: Mutex<Vec<ConfiguredUser>>,
    /// Held while a change is on its way to the disk.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    /// What decoys are chosen by.
    decoys: RandomState,
}

/// The account of whoever is inside of the process.
pub(crate) fn process() -> Name {
    Name::new("root", "localhost")
}

impl State {
    /// An account by its name.
    pub(crate) fn find(&self, name: &Name) -> Option<&Account> {
        self.fixed.get(name).or_else(|| self.accounts.get(name))
    }

    /// Whether an account is the process's or the configuration's: every role is theirs to give.
    pub(crate) fn is_fixed(&self, name: &Name) -> bool {
        self.fixed.contains_key(name)
    }

    /// The role of a name.
    pub(crate) fn role(&self, role: &str) -> Option<&Account> {
        self.accounts.get(&Name::new(role, "")).filter(|account| account.is_role)
    }

    /// All accounts, those of the process and the configuration first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Account> {
        let others = self.accounts.iter().filter(|(name, _)| !self.fixed.contains_key(name));
        self.fixed.values().chain(others.map(|(_, account)| account))
    }

    /// The account that a user from somewhere logs in with: that whose host describes it most closely.
    fn for_login(&self, user: &str, origin: Origin) -> Option<&Account> {
        let rank = |host: &str| if host.contains('/') { usize::MAX - 1 } else { closeness(host) };
        let may = |account: &&Account| {
            account.name.user == user
                && !account.is_role
                && account.name != process()
                && origin.is_meant_by(&account.name.host)
        };
        // Of equals the last one is the closest, and the configuration's.
        let mut found: Vec<&Account> = self.all().filter(may).collect();
        found.reverse();
        found.into_iter().max_by_key(|account| rank(&account.name.host))
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn fixed_account(&mut self, name: Name, secret: Secret) {
        let global = Privileges::all(Reach::Server).and(Privileges::GRANT);
        let account = Account {
            number: self.number(),
            is_role: false,
            secret,
            is_locked: false,
            grants: Grants { global, ..Grants::default() },
            roles: BTreeMap::new(),
            default_role: None,
            name: name.clone(),
        };
        self.fixed.insert(name, account);
    }

    fn configure(&mut self, users: &[ConfiguredUser]) {
        self.fixed.clear();
        self.fixed_account(process(), Secret::none());
        for user in users {
            self.fixed_account(Name::new(&user.name, "%"), Secret::Password(user.password.clone()));
        }
    }

    /// The grants of an account and of roles that it has, each role with those that were granted to it.
    fn grants_of(&self, account: &Account, role: Option<&str>) -> Vec<Arc<Grants>> {
        let mut found = vec![Arc::new(account.grants.clone())];
        let mut seen: Vec<&str> = Vec::new();
        let mut next: Vec<&str> = role.into_iter().collect();
        while let Some(role) = next.pop() {
            if let Some(account) = self.role(role).filter(|_| !seen.contains(&role)) {
                seen.push(&account.name.user);
                found.push(Arc::new(account.grants.clone()));
                next.extend(account.roles.keys().map(String::as_str));
            }
        }
        found
    }

    /// What an account may do with a role, or nothing if it is gone. `from` is the host that its user comes from.
    pub(crate) fn access(&self, name: &Name, from: &str, role: Option<&str>) -> Access {
        let Some(account) = self.find(name) else {
            return Access::new(name.clone(), from, None, Vec::new(), u64::MAX);
        };
        let role = role.filter(|role| account.roles.contains_key(*role)).and_then(|role| self.role(role));
        let grants = self.grants_of(account, role.map(|role| role.name.user.as_str()));
        // Numbers of accounts are small, and a role's is none.
        let kind = account.number << 32 | role.map_or(0, |role| role.number);
        Access::new(name.clone(), from, role.map(|role| role.name.user.clone()), grants, kind)
    }
}

impl Accounts {
    /// These, and the users of a configuration.
    pub(crate) fn new(mut state: State, users: &[ConfiguredUser]) -> Self {
        state.configure(users);
        Self {
            version: Arc::new(AtomicU64::new(1)),
            state: Mutex::new(Arc::new(state)),
            configured: Mutex::new(users.to_vec()),
            changing: Arc::default(),
            decoys: RandomState::new(),
        }
    }

    /// The version: what was worked out under another one may not hold any more.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The version as it changes, for those who have to see that.
    pub(crate) fn shared_version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// All accounts as they are.
    pub(crate) fn now(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the users of a configuration in place of those before.
    pub(crate) fn configure(&self, users: &[ConfiguredUser]) {
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        if *configured == users {
            return;
        }
        *configured = users.to_vec();
        self.set(&configured, State::clone(&self.now()));
    }

    /// `configured` is locked by the caller, so that one state follows the other.
    fn set(&self, configured: &[ConfiguredUser], mut state: State) {
        state.configure(configured);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Has a changed state, which is on the disk, in place of the one before.
    pub(crate) fn publish(&self, mut state: State) {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        state.next_number = state.next_number.max(self.now().next_number);
        self.set(&configured, state);
    }

    /// The account that a user from somewhere logs in with.
    pub(crate) fn login(&self, user: &str, origin: Origin) -> Option<Login> {
        let state = self.now();
        let account = state.for_login(user, origin)?;
        Some(Login { host: account.name.host.clone(), secret: account.secret.clone(), is_locked: account.is_locked })
    }

    /// The secret of some other account, always the same one for a name as long as accounts do not change: somebody who does
    /// not exist is asked for what users are asked for.
    pub(crate) fn decoy(&self, user: &[u8]) -> Option<Secret> {
        let state = self.now();
        let users = || state.all().filter(|account| !account.is_role && account.name != process());
        let count = users().count() as u64;
        let index = self.decoys.hash_one(user).checked_rem(count)?;
        users().nth(index as usize).map(|account| account.secret.clone())
    }
}
