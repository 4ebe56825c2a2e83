//! In what a statement was prepared: it means the same whenever it runs.

use tidegate_rows::QueryError;

use super::{Core, Session};

/// What a prepared statement keeps of the session: the schema of its unqualified names, and how its text is read.
///
/// Source: MariaDB, which changes the database and the mode for each execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Name of the current schema; `None` if there was none.
    pub schema: Option<String>,
    /// `sql_mode`, as bits.
    pub sql_mode: u64,
}

impl Session {
    /// The next statement is one that was prepared in `context`.
    pub fn prepared_in(&mut self, context: Context) {
        self.core.context = Some(context);
    }
}

impl Core {
    /// In what a statement is that is prepared now.
    pub(super) fn prepared_context(&self) -> Context {
        Context { schema: self.schema_name(), sql_mode: self.env.sql_mode.get() }
    }

    fn schema_name(&self) -> Option<String> {
        let of_tables = self.schema.as_ref().map(|schema| schema.name.to_string());
        of_tables.or_else(|| self.env.virtual_schema().map(str::to_owned))
    }

    /// Runs a prepared statement where it was prepared; afterwards the session is where it was.
    ///
    /// # Errors
    /// 1049 if that schema is gone; those of the statement.
    pub(crate) fn within(
        &mut self,
        context: &Context,
        run: impl FnOnce(&mut Self) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let mode = self.env.prepared_mode.replace(Some(context.sql_mode));
        let here = self.schema_name();
        let result = if here == context.schema {
            run(self)
        } else {
            // Statements that run each other are few; the outermost knows where the session belongs.
            let outermost = self.away_from.is_none();
            self.away_from.get_or_insert_with(|| here.clone());
            let result = match &context.schema {
                Some(name) => self.use_schema(name).map_err(QueryError::from),
                None => {
                    self.leave_schema();
                    Ok(())
                }
            };
            let result = result.and_then(|()| run(self));
            self.go_to(here);
            if outermost {
                self.away_from = None;
            }
            result
        };
        self.env.prepared_mode.set(mode);
        result
    }

    /// An execution that was abandoned has left the session elsewhere.
    pub(super) fn come_back(&mut self) {
        self.env.prepared_mode.set(None);
        if let Some(home) = self.away_from.take() {
            self.go_to(home);
        }
    }

    fn go_to(&mut self, schema: Option<String>) {
        if schema.is_none_or(|name| self.use_schema(&name).is_err()) {
            self.leave_schema();
        }
    }
}
