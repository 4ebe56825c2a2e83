//! What a session may do: worked out anew when accounts have changed.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::Env;
use crate::{account_name::Name, accounts::Access, parse::account::RoleChoice};

/// What a session may do, as far as it has been asked.
#[derive(Default)]
pub(crate) struct Rights {
    /// The version of the accounts by which this was worked out; 0 for none.
    version: Cell<u64>,
    kind: Cell<u64>,
    access: RefCell<Option<Rc<Access>>>,
    role: RefCell<RoleChoice>,
    /// The definer of the procedure that runs, if it runs as that one: `None` within for the process itself.
    acting: RefCell<Option<Option<Name>>>,
}

impl Env {
    /// What decides, together, about what the session may do: part of the key of its plans.
    #[inline]
    pub(crate) fn rights(&self) -> (u64, u64) {
        let version = self.accounts.version();
        if self.rights.version.get() != version {
            self.work_out_rights();
        }
        (self.rights.kind.get(), self.rights.version.get())
    }

    /// The version of the accounts by which that was worked out last.
    pub(crate) fn rights_version(&self) -> u64 {
        self.rights.version.get()
    }

    /// What the session may do.
    pub(crate) fn access(&self) -> Rc<Access> {
        self.rights();
        let known = self.rights.access.borrow().clone();
        known.unwrap_or_else(|| Rc::new(Access::nobody()))
    }

    /// Has another role from now on.
    pub(crate) fn set_role(&self, role: RoleChoice) {
        self.rights.role.replace(role);
        self.rights.version.set(0);
    }

    /// The account that CURRENT_USER() answers.
    pub(crate) fn current_account(&self) -> String {
        match &*self.rights.acting.borrow() {
            Some(Some(definer)) => definer.to_string(),
            Some(None) => crate::accounts::process().to_string(),
            None => self.client.account(),
        }
    }

    /// Acts as the definer of a procedure from now on, or as the session itself; answers as whom it did before.
    pub(crate) fn act_as(&self, definer: Option<Option<Name>>) -> Option<Option<Name>> {
        self.rights.version.set(0);
        self.rights.acting.replace(definer)
    }

    #[cold]
    fn work_out_rights(&self) {
        // Read first: what changes meanwhile makes this too old, and is met by the next statement.
        let version = self.accounts.version();
        let acting = self.rights.acting.borrow().clone();
        let access = match (acting, self.client.logged_in()) {
            (Some(None), _) | (None, None) => Access::owner(),
            (Some(Some(definer)), _) => {
                let state = self.accounts.now();
                let host = definer.host.clone();
                state.find(&definer).map_or_else(Access::nobody, |_| state.access(&definer, &host, None))
            }
            (None, Some(name)) => {
                let state = self.accounts.now();
                let role = match &*self.rights.role.borrow() {
                    RoleChoice::None => None,
                    RoleChoice::Default => state.find(&name).and_then(|account| account.default_role.clone()),
                    RoleChoice::Named(role) => Some(role.clone()),
                };
                state.access(&name, &self.client.host(), role.as_deref())
            }
        };
        self.rights.kind.set(access.kind);
        self.rights.access.replace(Some(Rc::new(access)));
        self.rights.version.set(version);
    }
}
