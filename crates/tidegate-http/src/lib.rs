//! Wire protocols of the web, without configuration.
