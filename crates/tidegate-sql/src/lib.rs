//! The embedded engine: MySQL's dialect over SQLite.
