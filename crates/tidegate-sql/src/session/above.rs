//! What stands above sessions and they call: statements that have a layer of their own.

use tidegate_rows::{QueryError, Sink};

use super::Core;
use crate::{
    parse::{Show, Statement, TableName},
    translate::{Library, params::Text},
};

/// The layers above sessions; the engine gives them to each session that it makes.
pub(crate) struct Above {
    /// What translations call.
    pub(crate) library: Library,
    /// Runs a statement that changes definitions: [`ddl::run`](crate::ddl::run).
    pub(crate) define: fn(&mut Core, Statement, Text<'_>, bool, &mut dyn Sink) -> Result<Option<u64>, QueryError>,
    /// SHOW and DESCRIBE.
    pub(crate) show: fn(&mut Core, &Show, Text<'_>, bool, &mut dyn Sink) -> Result<(), QueryError>,
    /// EXPLAIN of a part of a text, as JSON or not.
    pub(crate) explain: fn(&mut Core, Text<'_>, (usize, usize), bool, bool, &mut dyn Sink) -> Result<(), QueryError>,
    /// CHECK, OPTIMIZE, ANALYZE and REPAIR TABLE.
    pub(crate) admin: fn(&mut Core, &str, &[TableName], bool, &mut dyn Sink) -> Result<(), QueryError>,
}
