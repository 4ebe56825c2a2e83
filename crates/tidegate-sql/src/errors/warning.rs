//! What a statement warns of.

use tidegate_rows::ServerError;

/// Codes of errors that strict mode makes of warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// `Note` or `Warning` or `Error`.
    pub(crate) level: &'static str,
    pub(crate) code: u16,
    pub(crate) state: [u8; 5],
    pub(crate) message: String,
}

impl From<ServerError> for Warning {
    fn from(error: ServerError) -> Self {
        Self { level: "Warning", code: error.code, state: error.sqlstate, message: error.message }
    }
}
