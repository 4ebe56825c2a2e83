//! One contestant with the configuration of a benchmark.

use super::definition::{Bench, Kind, Rival};
use crate::cases::Vars;
use crate::paths::Scratch;
use crate::ports::free_port;
use crate::process::{POLL, Process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The core of the servers and the core of the load.
pub(super) const SERVER_CORE: &str = "0";
pub(super) const LOAD_CORE: &str = "1";
/// As `taskset` reads it: those that are not there do not count.
const ALL_CORES: &str = "0-1023";

/// Connections of a server, unless a benchmark has more.
const SITE_CLIENTS_MAX: usize = 12_000;
/// Descriptors of a server besides.
const OTHER_FILES: usize = 8000;

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A server program that takes part.
#[derive(Clone)]
pub(crate) struct Contestant {
    /// `nginx`, `tidegate` or `former`, an older tidegate.
    pub(super) name: &'static str,
    pub(super) binary: PathBuf,
}

impl Contestant {
    pub(super) fn nginx(binary: PathBuf) -> Contestant {
        Contestant { name: "nginx", binary }
    }

    pub(super) fn tidegate(binary: PathBuf) -> Contestant {
        Contestant { name: "tidegate", binary }
    }

    pub(super) fn former(binary: PathBuf) -> Contestant {
        Contestant { name: "former", binary }
    }

    /// Whether it takes part where ours is compared with that rival.
    pub(super) fn is_in(&self, rival: Rival) -> bool {
        self.name == "tidegate" || self.name == rival.name()
    }

    /// The prefix of its own sections.
    pub(super) fn sections(&self) -> &'static str {
        if self.name == "nginx" { "nginx" } else { "tidegate" }
    }

    /// What `-v` says.
    pub(super) fn version(&self) -> String {
        let output = Command::new(&self.binary).arg("-v").output();
        let text = output.map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned());
        text.unwrap_or_default().lines().next().unwrap_or("unknown version").to_owned()
    }
}

/// A configuration on disk.
pub(super) struct Site {
    scratch: Scratch,
    pub(super) vars: Vars,
    pub(super) port: u16,
    has_all_cores: bool,
}

impl Site {
    /// Writes configuration and files.
    pub(super) fn create(
        bench: &Bench,
        vars: &Vars,
        contestant: &Contestant,
        backend: Option<u16>,
    ) -> Result<Site, String> {
        let scratch = Scratch::new("bench", false)?;
        let port = free_port();
        let mut vars = vars.clone();
        vars.set("TEST_PORT", port);
        vars.set("TEST_PORT_3", free_port());
        vars.set("TEST_DIR", scratch.path().display());
        if let Some(backend) = backend {
            vars.set("TEST_PORT_2", backend);
        }
        let own = contestant.sections();
        let config = bench.config(own, "config");
        let http = bench.config(own, "http_config");
        let modules = if own == "nginx" { modules(bench.value("nginx_modules")) } else { String::new() };
        let has_all_cores = bench.kind == Kind::Sysbench || bench.value("cores").trim() == "all";
        let clients_max = SITE_CLIENTS_MAX.max(bench.connections + 2000);
        let site = Site { scratch, vars, port, has_all_cores };
        site.write(&format!(
            "{modules}{}{}",
            if own == "tidegate" { bench.value("tidegate_main_config") } else { "" },
            template(
                own,
                match bench.value("workers").trim() {
                    "" if bench.kind == Kind::Sysbench => "auto",
                    "" => "1",
                    workers => workers,
                },
                clients_max,
                &http,
                &format!("listen 127.0.0.1:$TEST_PORT {};\n{config}", bench.value("listen"))
            )
        ))?;
        let files = site.vars.expand(bench.value("user_files"))?;
        crate::cases::write_files(&site.dir().join("html"), &files)?;
        Ok(site)
    }

    /// The same for the server behind a proxy.
    pub(super) fn create_backend(bench: &Bench) -> Result<Site, String> {
        let scratch = Scratch::new("bench", false)?;
        let port = free_port();
        let mut vars = Vars::default();
        vars.set("TEST_PORT", port);
        let site = Site { scratch, vars, port, has_all_cores: false };
        let content = bench.value("backend");
        site.write(&template("nginx", "1", SITE_CLIENTS_MAX, "", &format!("listen 127.0.0.1:$TEST_PORT;\n{content}")))?;
        Ok(site)
    }

    pub(super) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    fn write(&self, text: &str) -> Result<(), String> {
        for dir in ["conf", "logs", "html"] {
            fs::create_dir_all(self.dir().join(dir)).map_err(|e| format!("cannot create {dir}: {e}"))?;
        }
        fs::write(self.dir().join("conf/nginx.conf"), self.vars.expand(text)?)
            .map_err(|e| format!("cannot write nginx.conf: {e}"))
    }

    /// The command line of a server on this site, pinned to the servers' core unless it has all of them.
    pub(super) fn command(&self, binary: &Path) -> Command {
        let mut command = Command::new("taskset");
        // Where the other one has all cores, ours has them too.
        command.args(["-c", if self.has_all_cores { ALL_CORES } else { SERVER_CORE }]).arg(binary);
        command.arg("-p").arg(format!("{}/", self.dir().display()));
        command.args(["-c", "conf/nginx.conf", "-e", "logs/error.log"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The end of the error log.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read(self.dir().join("logs/error.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

fn modules(names: &str) -> String {
    let lines = names.split_whitespace().map(|n| format!("load_module /usr/lib/nginx/modules/{n}.so;\n"));
    lines.collect()
}

/// Nothing logged, keep-alive without end.
fn template(name: &str, workers: &str, clients_max: usize, http: &str, server: &str) -> String {
    // A package's nginx keeps these outside of the prefix; ours does not.
    let paths = match name {
        "nginx" => {
            "client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n"
        }
        _ => "",
    };
    // Workers that keep the rights of whoever runs this can read its files wherever they are.
    let user = if nix::unistd::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\nworker_processes {workers};\nworker_rlimit_nofile {};\npid logs/nginx.pid;\nerror_log logs/error.log warn;\n\
         events {{ worker_connections {clients_max}; }}\nhttp {{\naccess_log off;\ndefault_type text/plain;\n\
         keepalive_timeout 600s;\nkeepalive_requests 100000000;\n{paths}{http}\nserver {{\n{server}\n}}\n}}\n",
        clients_max + OTHER_FILES
    )
}

/// A started contestant or backend.
pub(super) struct Running {
    process: Process,
}

impl Running {
    /// Starts a server and waits until it accepts connections.
    pub(super) fn start(site: &Site, binary: &Path) -> Result<Running, String> {
        let mut process = Process::spawn(&mut site.command(binary))?;
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", site.port)).is_err() {
            if let Some(status) = process.exited() {
                return Err(format!("{} ended at its start ({status}): {}", binary.display(), site.last_words()));
            }
            if Instant::now() > deadline {
                return Err(format!("{} does not answer: {}", binary.display(), site.last_words()));
            }
            thread::sleep(POLL);
        }
        Ok(Running { process })
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // TERM, not QUIT: idle connections of a load generator need no grace.
        self.process.signal(Signal::SIGTERM);
        self.process.wait(Duration::from_secs(3));
    }
}
