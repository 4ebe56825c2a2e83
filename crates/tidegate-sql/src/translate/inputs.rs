//! What a translation depends on besides the statement itself.
//!
//! A plan serves whoever has the same text with the same kinds of literals and parameters and equal [`Inputs`], as long as the
//! catalogues that it was made from are current. A translator reaches nothing else of the session: what it takes from
//! [`Translator::now`] makes its plan serve once.

use std::{rc::Rc, sync::Arc};

use tidegate_rows::ServerError;

use super::{Library, Res, Source, Translator};
use crate::{
    account_name::Name,
    accounts::Access,
    catalog::Catalog,
    env::Env,
    errors,
    lexer::LexMode,
    schema::Schema,
    shared::EngineInner,
    sql_mode,
    value::{SqlType, collation::Collation},
};

/// Everything of a session that decides about a translation: part of the statement cache's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) sql_mode: u64,
    /// Whether `\` escapes in patterns of LIKE: that is asked when a statement runs, not when it was prepared.
    pub(crate) like_escapes: bool,
    /// Of literals and of what is made of numbers.
    pub(crate) collation: Collation,
    /// The number of the current schema; 0 without one.
    pub(crate) schema: u64,
    /// The current schema if it is one without a file.
    pub(crate) virtual_schema: Option<&'static str>,
    /// The session's temporary tables, by a number that no other set of tables has; 0 without any.
    pub(crate) temporary: u64,
    /// `sql_select_limit`: rows that a query without LIMIT gives.
    pub(crate) select_limit: u64,
    /// `div_precision_increment`
    pub(crate) division_digits: u8,
    /// `sql_safe_updates`
    pub(crate) safe_updates: bool,
    /// What the session may do, by a number and the version of the accounts.
    pub(crate) rights: (u64, u64),
    /// The procedure that the text is a part of, and the scope of its names; zeros for none.
    pub(crate) program: (u64, usize),
}

impl Inputs {
    /// Those of a session.
    #[inline]
    pub(crate) fn of(schema: Option<&Arc<Schema>>, env: &Env) -> Self {
        Self {
            sql_mode: env.statement_mode(),
            like_escapes: env.sql_mode.get() & sql_mode::NO_BACKSLASH_ESCAPES == 0,
            collation: env.collation.get(),
            schema: schema.map_or(0, |schema| schema.id),
            // A view is in its own schema, wherever the session is.
            virtual_schema: if schema.is_none() { env.virtual_schema() } else { None },
            temporary: env.temporary_tables(),
            select_limit: env.numbers.get().select_limit,
            division_digits: env.numbers.get().division_digits,
            safe_updates: env.numbers.get().safe_updates,
            rights: env.rights(),
            program: env.program_number(),
        }
    }

    /// How strings and names are told apart.
    pub(crate) fn lex_mode(&self) -> LexMode {
        LexMode::of(self.sql_mode)
    }

    /// Whether a bit of sql_mode is set.
    pub(crate) fn has(&self, mode: u64) -> bool {
        self.sql_mode & mode != 0
    }
}

/// The session of a translation.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    /// The current schema.
    pub(crate) schema: Option<&'a Arc<Schema>>,
    pub(crate) inputs: Inputs,
    pub(crate) library: &'static Library,
    engine: &'a EngineInner,
    env: &'a Env,
}

/// A session as it is at this moment.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) engine: &'a EngineInner,
    pub(crate) env: &'a Env,
}

impl<'a> Session<'a> {
    /// The session with a current schema.
    pub(crate) fn new(
        engine: &'a EngineInner,
        library: &'static Library,
        schema: Option<&'a Arc<Schema>>,
        env: &'a Env,
    ) -> Self {
        Self { schema, inputs: Inputs::of(schema, env), library, engine, env }
    }

    /// The same session in another schema.
    pub(crate) fn within<'b>(self, schema: Option<&'b Arc<Schema>>) -> Session<'b>
    where
        'a: 'b,
    {
        Session::new(self.engine, self.library, schema, self.env)
    }

    /// The schema with a name.
    ///
    /// # Errors
    /// 1049 if it does not exist.
    pub(crate) fn schema_named(&self, name: &str) -> Result<Arc<Schema>, ServerError> {
        self.engine.schema(name)
    }

    /// What the session may do, unless that is everything: [`Inputs::rights`] decides about it.
    pub(crate) fn limits(&self) -> Option<Rc<Access>> {
        if self.inputs.rights.0 == 0 { None } else { Some(self.env.access()) }
    }

    /// What the definer of a view may do, unless that is everything; the version of the accounts decides about it.
    ///
    /// # Errors
    /// 1449 if there is no such account.
    pub(crate) fn access_of(&self, definer: &Name) -> Result<Option<Rc<Access>>, ServerError> {
        let state = self.engine.accounts.now();
        if state.find(definer).is_none() {
            return Err(errors::no_such_definer(&definer.user, &definer.host));
        }
        let access = state.access(definer, &definer.host, None);
        Ok((!access.is_unlimited()).then(|| Rc::new(access)))
    }

    /// The version that the server reports; it never changes.
    pub(crate) fn server_version(&self) -> &'a str {
        &self.engine.server_version
    }

    /// The catalogue's name of a temporary table: [`Inputs::temporary`] decides about it.
    pub(crate) fn temporary(&self, schema: &str, name: &str) -> Option<String> {
        if self.inputs.temporary == 0 { None } else { self.env.temporary(schema, name) }
    }
}

impl Source {
    /// Whether a constant is one of the session or its moment, not of the statement.
    pub(crate) fn is_of_session(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Negative(_) | Self::Param(_) | Self::Value(..) | Self::Pattern { .. } => false,
            Self::Now { .. } | Self::Today { .. } | Self::TimeOfDay { .. } => true,
            Self::Local(_) | Self::LastInsertId | Self::RowCount | Self::FoundRows => true,
            Self::ConnectionId | Self::User | Self::CurrentUser => true,
        }
    }
}

impl<'a> Translator<'a> {
    /// The session at this moment, with everything that is not among the [`Inputs`]: the plan serves once.
    pub(crate) fn now(&self) -> Now<'a> {
        self.serves_once();
        Now { engine: self.session.engine, env: self.session.env }
    }

    /// The type of a user variable; whoever asks sees that the plan serves no longer than it has that.
    pub(crate) fn variable_type(&self, name: &str) -> SqlType {
        super::programs::variable_type(self.session.env, name)
    }

    /// Makes the plan one that is not kept.
    pub(crate) fn serves_once(&self) {
        self.cacheable.set(false);
    }

    /// Whether the plan can serve again.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.cacheable.get()
    }

    /// The catalogue of a schema; the plan is current as long as it does not change.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn catalog(&mut self, schema: &Arc<Schema>) -> Res<Arc<Catalog>> {
        if !self.catalogs.iter().any(|(known, _)| Arc::ptr_eq(known, schema)) {
            // The version is read before the catalogue is: a change in between makes the plan stale, never wrong.
            self.catalogs.push((Arc::clone(schema), schema.version()));
        }
        schema.catalog()
    }
}
