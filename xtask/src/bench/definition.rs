//! `bench/*.bench`: what is measured, in the sections of `docs/testing.md` and a few of its own.

use super::sizes;
use crate::paths;
use crate::sections::{self, Block, Section};
use crate::services::Service;
use std::fs;

/// How the figure of a benchmark comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// CPU per request under load.
    Http,
    /// Memory per idle keep-alive connection.
    IdleMemory,
    /// The p99 of a normal client beside many slow ones.
    SlowClients,
    /// Time of `-t`.
    ConfigTest,
    /// Time from the start to the first answer.
    Start,
    /// The p99 of many clients whose requests wait for a database.
    Waiting,
    /// The p99 of others beside them.
    BesideWaiting,
    /// Growth of memory while a slow client reads many rows.
    StreamMemory,
    /// Requests that fail while the configuration is loaded again and again.
    Reload,
    /// Elapsed time per request: writes that wait for the disk.
    Rate,
    /// The p99 beside a client that asks for something heavy.
    Beside,
    /// The median latency beside many streams of events that the load makes.
    BesideStreams,
    /// Elapsed time per transaction of sysbench, on the MySQL port and on MariaDB.
    Sysbench,
    /// The p99 of many clients that wait for a second.
    Sleepers,
    /// CPU time of a statement over three sizes.
    Statements,
    /// Time per item of a large task by that of a small one.
    Growth,
    /// Memory per request that waits.
    WaitingMemory,
    /// Time of `tidegate lua -e SCRIPT`.
    ScriptStart,
    /// The p99 of many clients that want one entry of a cache which is missing.
    Crowd,
    /// Memory for each entry of a cache's index.
    Entries,
    /// CPU per request of a port that speaks in lines.
    Lines,
    /// Elapsed time per request of such a port.
    LinesRate,
    /// Memory per idle connection of such a port.
    LinesMemory,
    /// Elapsed time per request to a queue.
    QueueRate,
    /// Elapsed time for each of many who wait for a queue.
    QueueWoken,
    /// When the last of them has its answer.
    QueueLast,
    /// Elapsed time per job of beanstalkd's protocol.
    JobsRate,
    /// CPU time of a request over sizes of a queue.
    Flat,
    /// The p99 under load.
    P99,
    /// CPU time of a request over three sizes.
    Sizes,
    /// Memory of a server over three sizes of its configuration.
    SizesMemory,
}

/// Whose figure ours is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rival {
    Nginx,
    /// An older binary of ours.
    Former,
    /// Ourselves, without what goes on beside the load.
    Lone,
    MariaDb,
    Memcached,
    Beanstalkd,
}

impl Rival {
    fn named(name: &str) -> Option<Rival> {
        let all = [Rival::Nginx, Rival::Former, Rival::Lone, Rival::MariaDb, Rival::Memcached, Rival::Beanstalkd];
        all.into_iter().find(|rival| rival.name() == name)
    }

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rival::Nginx => "nginx",
            Rival::Former => "former",
            Rival::Lone => "lone",
            Rival::MariaDb => "mariadb",
            Rival::Memcached => "memcached",
            Rival::Beanstalkd => "beanstalkd",
        }
    }
}

/// One `===` block.
pub(crate) struct Bench {
    pub(crate) title: String,
    pub(crate) kind: Kind,
    /// Whose figure ours is divided by.
    pub(crate) against: Rival,
    /// Path and query of the request.
    pub(crate) url: String,
    pub(crate) connections: usize,
    /// Arguments for wrk besides connections, time and URL.
    pub(crate) wrk: Vec<String>,
    /// Ours by nginx's, at most.
    pub(crate) ratio: Option<f64>,
    /// The same for user-space time.
    pub(crate) user_ratio: Option<f64>,
    pub(crate) services: Vec<Service>,
    /// The services' CPU counts as well.
    pub(crate) counts_services: bool,
    pub(crate) block: Block,
}

const SECTIONS: &[&str] = &[
    "kind",
    "config",
    "nginx_config",
    "tidegate_config",
    "http_config",
    "nginx_http_config",
    "tidegate_http_config",
    "tidegate_main_config",
    "counted",
    "nginx_modules",
    "backend",
    "user_files",
    "listen",
    "url",
    "scheme",
    "connections",
    "wrk",
    "h2load",
    "script",
    "expect",
    "ratio",
    "user_ratio",
    "services",
    "beside",
    "against",
    "sysbench",
    "sizes",
    "prepare",
    "before",
    "statement",
    "repeat",
    "connect",
    "open",
    "request",
    "depth",
    "answer_lines",
    "rival_connect",
    "rival_open",
    "rival_request",
    "rival_answer_lines",
    "rival_prepare",
    "rival_sysbench",
    "post",
    "fill",
    "settled",
    "wake",
    "workers",
    "cores",
];

impl Bench {
    /// A section's text, or nothing.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.block.value(name).unwrap_or_default()
    }

    /// The same with other sections.
    pub(crate) fn with_block(&self, block: Block) -> Bench {
        let (title, url, wrk) = (self.title.clone(), self.url.clone(), self.wrk.clone());
        Bench { title, url, wrk, services: self.services.clone(), block, ..*self }
    }

    /// `config` or the one that only this contestant (`nginx` or `tidegate`) has.
    pub(crate) fn config(&self, contestant: &str, section: &str) -> String {
        let own = self.block.value(&format!("{contestant}_{section}"));
        own.unwrap_or_else(|| self.value(section)).to_owned()
    }
}

/// Files with their benchmarks, in the order of their names.
///
/// # Errors
/// Names the file and the mistake.
pub(crate) fn load() -> Result<Vec<(String, Vec<Bench>)>, String> {
    let mut files = Vec::new();
    for (label, blocks) in blocks()? {
        let mut benches = Vec::new();
        for block in &blocks {
            benches.extend(parse_all(block).map_err(|e| format!("bench/{label}.bench: {e}"))?);
        }
        files.push((label, benches));
    }
    Ok(files)
}

fn blocks() -> Result<Vec<(String, Vec<Block>)>, String> {
    let dir = paths::repository().join("bench");
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
        if path.extension().is_none_or(|e| e != "bench") {
            continue;
        }
        let label = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        files.push((label, sections::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// The benchmarks of a block: one for each number of connections.
fn parse_all(block: &Block) -> Result<Vec<Bench>, String> {
    let numbers: Vec<&str> = block.value("connections").unwrap_or("64").split_whitespace().collect();
    let parse = |number: &&str| {
        let mut bench = parse(block.clone(), number)?;
        if numbers.len() > 1 {
            bench.title = format!("{}; {number} clients", bench.title);
        }
        Ok(bench)
    };
    numbers.iter().map(parse).collect()
}

fn parse(block: Block, connections: &str) -> Result<Bench, String> {
    block.expect_names(SECTIONS)?;
    let title = block.title.clone();
    let number = |name: &str| -> Result<Option<f64>, String> {
        let parsed = block.value(name).map(|v| v.trim().parse());
        parsed.transpose().map_err(|_| format!("{title}: \"{name}\" is no number"))
    };
    let kind = match block.value("kind").unwrap_or("http") {
        "http" => Kind::Http,
        "idle_memory" => Kind::IdleMemory,
        "slow_clients" => Kind::SlowClients,
        "config_test" => Kind::ConfigTest,
        "start" => Kind::Start,
        "waiting" => Kind::Waiting,
        "beside_waiting" => Kind::BesideWaiting,
        "stream_memory" => Kind::StreamMemory,
        "reload" => Kind::Reload,
        "rate" => Kind::Rate,
        "beside" => Kind::Beside,
        "beside_streams" => Kind::BesideStreams,
        "sysbench" => Kind::Sysbench,
        "sleepers" => Kind::Sleepers,
        "growth" => Kind::Growth,
        "statements" => Kind::Statements,
        "waiting_memory" => Kind::WaitingMemory,
        "script_start" => Kind::ScriptStart,
        "crowd" => Kind::Crowd,
        "entries" => Kind::Entries,
        "lines" => Kind::Lines,
        "lines_rate" => Kind::LinesRate,
        "lines_memory" => Kind::LinesMemory,
        "queue_rate" => Kind::QueueRate,
        "queue_woken" => Kind::QueueWoken,
        "queue_last" => Kind::QueueLast,
        "jobs_rate" => Kind::JobsRate,
        "flat" => Kind::Flat,
        "p99" => Kind::P99,
        "sizes" => Kind::Sizes,
        "sizes_memory" => Kind::SizesMemory,
        other => return Err(format!("{title}: unknown kind \"{other}\"")),
    };
    let words = block.value("services").unwrap_or_default().split_whitespace();
    let services = words.map(|w| Service::named(w).ok_or_else(|| format!("{title}: unknown service \"{w}\"")));
    let against = block.value("against").unwrap_or("nginx");
    Ok(Bench {
        kind,
        against: Rival::named(against).ok_or_else(|| format!("{title}: unknown rival \"{against}\""))?,
        url: block.value("url").unwrap_or("/").to_owned(),
        connections: connections.parse().map_err(|_| format!("{title}: \"{connections}\" is no number"))?,
        wrk: block.value("wrk").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
        ratio: number("ratio")?,
        user_ratio: number("user_ratio")?,
        services: services.collect::<Result<_, _>>()?,
        counts_services: match block.value("counted") {
            None => false,
            Some("services") => true,
            Some(other) => return Err(format!("{title}: \"counted\" is \"services\" or not there, not \"{other}\"")),
        },
        title: block.title.clone(),
        block,
    })
}

/// The benchmarks as end-to-end cases with one request each, so that their configurations never rot: label and block.
///
/// # Errors
/// As [`load`].
pub(crate) fn smoke_blocks() -> Result<Vec<(String, Block)>, String> {
    let mut cases = Vec::new();
    for (label, benches) in load()? {
        for bench in benches {
            // Those under a load of their own have nothing to show for one request.
            let has_load_of_its_own = matches!(
                bench.kind,
                Kind::ConfigTest
                    | Kind::StreamMemory
                    | Kind::Rate
                    | Kind::Beside
                    | Kind::BesideStreams
                    | Kind::Sysbench
                    | Kind::Statements
                    | Kind::WaitingMemory
                    | Kind::ScriptStart
                    | Kind::Crowd
                    | Kind::Entries
                    | Kind::Lines
                    | Kind::LinesRate
                    | Kind::LinesMemory
                    | Kind::QueueRate
                    | Kind::QueueWoken
                    | Kind::QueueLast
                    | Kind::JobsRate
                    | Kind::Flat
            );
            if !has_load_of_its_own {
                cases.push((format!("bench/{label}"), smoke_block(&bench)));
            }
        }
    }
    Ok(cases)
}

fn smoke_block(bench: &Bench) -> Block {
    let sized = matches!(bench.kind, Kind::Sizes | Kind::SizesMemory).then(|| sizes::sized(bench, 10));
    let bench = sized.as_ref().unwrap_or(bench);
    let mut block = Block { title: bench.title.clone(), line: bench.block.line, sections: Vec::new() };
    let mut add = |name: &str, value: String| {
        let section = Section { name: name.to_owned(), escapes: false, chomp: false, value, line: bench.block.line };
        block.sections.push(section);
    };
    let backend = match bench.value("backend") {
        "" => String::new(),
        content => format!("server {{ listen 127.0.0.1:$TEST_PORT_2; {content} }}"),
    };
    add("config", bench.config("tidegate", "config"));
    // No application's copies of libraries are needed for one request.
    let http = bench.config("tidegate", "http_config").replace("$TEST_LUA_PATH", "");
    add("http_config", format!("{http}{backend}"));
    add("main_config", bench.value("tidegate_main_config").to_owned());
    add("user_files", bench.value("user_files").to_owned());
    add("services", bench.value("services").to_owned());
    add("request", format!("GET {}", bench.url.replace("SIZE", "1000")));
    if !bench.value("expect").is_empty() {
        add("response_body_like", bench.value("expect").to_owned());
    }
    if bench.block.section("tidegate_config").is_some() || bench.block.section("tidegate_http_config").is_some() {
        add("tidegate_only", "the other side of the benchmark is configured in another way".to_owned());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_understood() {
        let files = load().unwrap();
        assert!(!files.is_empty());
        let is_named = |b: &Bench| !b.title.is_empty() && (b.ratio.is_some() || b.kind == Kind::Reload);
        assert!(files.iter().flat_map(|(_, benches)| benches).all(is_named));
    }
}
