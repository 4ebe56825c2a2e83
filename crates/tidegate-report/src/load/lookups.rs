//! The load of lookups, [`crate::lookups`]: the running program once more, on the load's cores.

use super::{Ask, Generator, Load};
use std::path::PathBuf;
use std::process::{Command, Output};

/// The running program, which becomes the load.
pub struct Lookups {
    /// Where it is.
    pub program: PathBuf,
    /// Its sub-command; what [`crate::lookups::Options`] has follows.
    pub itself: &'static str,
}

impl Generator for Lookups {
    fn version(&self) -> String {
        "a load of lookups of this command's own".to_owned()
    }

    fn command(&self, ask: &Ask<'_>) -> Result<Command, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", ask.cores]).arg(&self.program).args([self.itself, "--lookups", ask.url]);
        command.args(["--clients", &ask.clients.to_string(), "--seconds", &ask.time.as_secs().max(1).to_string()]);
        Ok(command)
    }

    fn read(&self, output: &Output) -> Result<Load, String> {
        let words = || {
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("the load of lookups said: {out}{err}")
        };
        let load: Load = serde_json::from_slice(&output.stdout).map_err(|_| words())?;
        if load.requests > 0 { Ok(load) } else { Err(words()) }
    }
}
