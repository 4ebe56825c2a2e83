//! Scripts run from a shell: `tidegate lua FILE`.
//!
//! The binary makes a configuration without servers whose `init_worker_by_lua` starts the script in a timer
//! (`lualib/tidegate/api/command.lua`); what the script is, is left here for it.

use std::sync::OnceLock;

/// A script that the command line asks to run.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// Modules to load first (`-l`).
    pub libraries: Vec<Vec<u8>>,
    /// Code to run first (`-e`).
    pub chunks: Vec<Vec<u8>>,
    /// The script.
    pub script: Script,
    /// Arguments of the script.
    pub arguments: Vec<Vec<u8>>,
}

/// The source of the script.
#[derive(Debug, Clone, Default)]
pub enum Script {
    /// There is none: only code from the command line.
    #[default]
    None,
    /// On the standard input.
    Stdin,
    /// In a file.
    File(Vec<u8>),
}

static COMMAND: OnceLock<Command> = OnceLock::new();

/// Leaves `command` for the first worker to run. Only the first call of a process counts.
pub fn set(command: Command) {
    let _ = COMMAND.set(command);
}

/// What there is to run.
pub(crate) fn get() -> Option<&'static Command> {
    COMMAND.get()
}

/// The code of `init_worker_by_lua` that runs the command.
pub const START: &str = "require('tidegate.command')()";
