//! What is chosen on the command line, of `cargo xtask report` and of `tidegate report`.

use crate::machine::Cores;
use crate::matrix::Size;
use crate::{floor, lookups};
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;
use std::time::Duration;

/// The options that both commands have.
#[derive(clap::Args, Debug, Clone)]
#[group(id = "report")]
pub struct Options {
    /// How much is measured: ten minutes or two hours
    #[arg(long, value_enum, default_value = "small")]
    pub matrix: Size,
    /// Where points, plots and pages go
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Rounds of each point; the servers take turns
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,
    /// Seconds of a round; works that wait take longer ones
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Points whose names have this in them, WORK/STACK/PATH/CLIENTS; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Cores of the servers, as taskset reads them
    #[arg(long, value_name = "CORES")]
    pub server_cores: Option<String>,
    /// Cores of the load
    #[arg(long, value_name = "CORES")]
    pub load_cores: Option<String>,
    /// Directories of Lua libraries for nginx, divided by colons: lua-resty-mysql/lib:lua-resty-string/lib
    #[arg(long, value_name = "DIRS", env = "TIDEGATE_BENCH_LUA_LIB")]
    pub lua_lib: Option<String>,
    /// Forgets the points of an earlier run
    #[arg(long)]
    pub fresh: bool,
    /// Names the points, and what is missing here, without measuring
    #[arg(long)]
    pub list: bool,
    /// Draws the pages again from the points that are there
    #[arg(long)]
    pub render: bool,
    /// The load of lookups
    #[command(flatten)]
    pub lookups: lookups::Options,
    /// Serves as the do-nothing server at this port
    #[arg(long, hide = true, value_name = "PORT")]
    pub floor: Option<u16>,
}

impl Options {
    /// Runs as a part of a report, if that is what is asked for: the do-nothing server, the load of lookups.
    ///
    /// # Errors
    /// When the port is taken, or the server cannot be reached.
    pub fn run_as_part(&self) -> Option<Result<bool, String>> {
        if let Some(port) = self.floor {
            return Some(floor::serve(port).map(|()| true).map_err(|e| format!("port {port}: {e}")));
        }
        let address = self.lookups.lookups.as_ref()?;
        Some(lookups::run(address, self.lookups.clients, Duration::from_secs(self.seconds)))
    }

    /// Who has which cores.
    #[must_use]
    pub fn cores(&self) -> Cores {
        let usual = Cores::usual();
        Cores {
            servers: self.server_cores.clone().unwrap_or(usual.servers),
            load: self.load_cores.clone().unwrap_or(usual.load),
        }
    }

    /// Whether a point of that name is wanted.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }

    /// The directories of `--lua-lib`. A server that looks into them works in a directory of its own.
    #[must_use]
    pub fn lua_libs(&self) -> Vec<PathBuf> {
        let dirs = self.lua_lib.iter().flat_map(|dirs| std::env::split_paths(dirs).collect::<Vec<_>>());
        dirs.map(|dir| std::path::absolute(&dir).unwrap_or(dir)).collect()
    }
}
