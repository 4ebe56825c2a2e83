//! The binary under test: its directory, its configuration, its start and its end.

use super::case::Case;
use super::files;
use super::vars::Vars;
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{POLL, Process, patient};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{env, thread};

/// How long a start may take. A debug build on a loaded machine needs seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a graceful exit may take after the last response.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Ports that every case may use: `$TEST_PORT`, `$TEST_PORT_2` ….
const PORTS: usize = 4;

/// Which server the cases run against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// Our binary.
    Tidegate(PathBuf),
    /// The distribution's nginx, which tells whether our expectations are right.
    Nginx(PathBuf),
}

impl ServerKind {
    /// The program to run.
    pub(crate) fn binary(&self) -> &Path {
        match self {
            ServerKind::Tidegate(path) | ServerKind::Nginx(path) => path,
        }
    }

    /// Lines that must stand before everything else.
    pub(crate) fn preamble(&self) -> String {
        match self {
            ServerKind::Tidegate(_) => String::new(),
            ServerKind::Nginx(_) => load_module_lines(Path::new("/usr/lib/nginx/modules")),
        }
    }
}

/// One `load_module` per dynamic module; ndk goes first, since others need its symbols.
fn load_module_lines(dir: &Path) -> String {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut modules: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "so")).collect();
    modules.sort_by_key(|p| (!p.ends_with("ndk_http_module.so"), p.clone()));
    modules.iter().map(|p| format!("load_module {};\n", p.display())).collect()
}

/// A case's directory with everything that the server reads.
pub(crate) struct Site {
    scratch: Scratch,
    pub(crate) vars: Vars,
}

impl Site {
    /// Writes configuration and files of a case into a fresh directory.
    ///
    /// # Errors
    /// When a variable is unknown or a file cannot be written.
    pub(crate) fn create(case: &Case, kind: &ServerKind, services: &Vars, keep: bool) -> Result<Site, String> {
        let scratch = Scratch::new("case", keep)?;
        let mut site = Site { scratch, vars: services.clone() };
        let dir = site.dir().display().to_string();
        site.vars.set("TEST_DIR", dir);
        site.vars.set("TEST_CONF_FILES", paths::repository().join("conf").display());
        site.choose_ports();
        for dir in ["conf", "logs", "html"] {
            fs::create_dir(site.dir().join(dir)).map_err(|e| format!("cannot create {dir}: {e}"))?;
        }
        site.write_config(case, kind, case.value("config"))?;
        site.write_files(case, "user_files")?;
        Ok(site)
    }

    /// The prefix (`-p`).
    pub(crate) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// The port that requests go to.
    pub(crate) fn port(&self) -> Result<u16, String> {
        self.vars.get("TEST_PORT").and_then(|p| p.parse().ok()).ok_or_else(|| "no $TEST_PORT".to_owned())
    }

    /// Chooses new free ports.
    pub(crate) fn choose_ports(&mut self) {
        self.vars.set("TEST_PORT", free_port());
        for number in 2..=PORTS {
            self.vars.set(&format!("TEST_PORT_{number}"), free_port());
        }
    }

    /// Writes `conf/nginx.conf` with `config` as the content of its server.
    ///
    /// # Errors
    /// When a variable is unknown or the file cannot be written.
    pub(crate) fn write_config(&self, case: &Case, kind: &ServerKind, config: Option<&str>) -> Result<(), String> {
        let text = match case.value("conf_file") {
            Some(whole) => format!("{}{whole}", kind.preamble()),
            None => format!("{}{}", kind.preamble(), template(case, config, kind)),
        };
        let text = self.vars.expand(&text)?;
        fs::write(self.dir().join("conf/nginx.conf"), text).map_err(|e| format!("cannot write nginx.conf: {e}"))
    }

    /// Writes the files of a section below `html`.
    ///
    /// # Errors
    /// As [`files::write`].
    pub(crate) fn write_files(&self, case: &Case, section: &str) -> Result<(), String> {
        let Some(section) = case.section(section) else { return Ok(()) };
        files::write(&self.dir().join("html"), &self.vars.expand(&section.value)?, section.escapes)
    }

    /// The command line up to the configuration, with stdout and stderr going to files in the directory.
    ///
    /// # Errors
    /// When these files cannot be created.
    pub(crate) fn command(&self, kind: &ServerKind) -> Result<Command, String> {
        let output = |name: &str| {
            let path = self.dir().join(name);
            File::create(&path).map(Stdio::from).map_err(|e| format!("cannot create {}: {e}", path.display()))
        };
        let mut command = Command::new(kind.binary());
        command.arg("-p").arg(format!("{}/", self.dir().display()));
        command.args(["-c", "conf/nginx.conf", "-e", "logs/error.log"]);
        command.current_dir(self.dir()).stdin(Stdio::null()).stdout(output("stdout")?).stderr(output("stderr")?);
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "ASAN_OPTIONS", "LSAN_OPTIONS"] {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        // What a panic writes is tried with it.
        command.env("RUST_BACKTRACE", "1");
        Ok(command)
    }

    /// A file of the directory as text, empty when there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read(self.dir().join(name)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The process id in the pid file, once its line is complete.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.dir().join("logs/nginx.pid")).ok()?;
        text.strip_suffix('\n')?.trim().parse().ok().map(Pid::from_raw)
    }

    /// Sends a signal to the process of the pid file.
    ///
    /// # Errors
    /// For an unknown name, a missing pid file, or a process that is gone.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let signal = Signal::from_str(&format!("SIG{name}")).map_err(|_| format!("unknown signal \"{name}\""))?;
        let pid = self.pid().ok_or("no pid file to take the signal's target from")?;
        kill(pid, signal).map_err(|e| format!("cannot send {name} to {pid}: {e}"))
    }
}

/// The configuration around the fragments of a case.
fn template(case: &Case, config: Option<&str>, kind: &ServerKind) -> String {
    let section = |name: &str| case.value(name).unwrap_or_default();
    let master = if case.master { "on" } else { "off" };
    let level = case.value("log_level").unwrap_or("info");
    let server = config.map_or_else(String::new, |config| {
        format!(
            "    server {{\n        listen 127.0.0.1:$TEST_PORT;\n        server_name localhost;\n\n{config}\n    }}\n"
        )
    });
    // Debian's nginx would write to its own directories; what our binary does not have, it does not get.
    let paths = match kind {
        ServerKind::Nginx(..) => {
            "access_log logs/access.log; client_body_temp_path client_body_temp; proxy_temp_path proxy_temp; fastcgi_temp_path fastcgi_temp; uwsgi_temp_path uwsgi_temp; \
             scgi_temp_path scgi_temp;"
        }
        ServerKind::Tidegate(..) => "",
    };
    format!(
        "daemon off;\nmaster_process {master};\nworker_processes 1;\npid logs/nginx.pid;\n\
         error_log logs/error.log {level};\n{}\nevents {{\n    worker_connections 256; {}\n}}\nhttp {{\n    \
         default_type text/plain;\n    \
         {paths}\n{}\n{server}}}\n",
        section("main_config"),
        section("events"),
        section("http_config"),
    )
}

/// A started server.
pub(crate) struct Server {
    pub(crate) process: Process,
}

impl Server {
    /// Starts the binary and waits for its pid file, which it writes when its sockets listen.
    ///
    /// # Errors
    /// When it ends or time is up before that; holds what it wrote.
    pub(crate) fn start(site: &Site, kind: &ServerKind) -> Result<Server, String> {
        let mut process = Process::spawn(&mut site.command(kind)?)?;
        let patience = patient(START_TIMEOUT);
        let deadline = Instant::now() + patience;
        loop {
            if site.pid().is_some() {
                return Ok(Server { process });
            }
            if let Some(status) = process.exited() {
                return Err(format!("the server ended before it was ready ({status})\n{}", site.read("stderr")));
            }
            if Instant::now() > deadline {
                return Err(format!("no pid file {patience:?} after the start\n{}", site.read("stderr")));
            }
            thread::sleep(POLL);
        }
    }

    /// Asks for a graceful exit and says what was wrong with it.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(status) = self.process.exited() {
            problems.push(format!("the server ended by itself ({status})"));
        } else {
            self.process.signal(Signal::SIGQUIT);
            let patience = patient(STOP_TIMEOUT);
            match self.process.wait(patience) {
                None => problems.push(format!("the server was still there {patience:?} after QUIT")),
                Some(status) if !status.success() => {
                    problems.push(format!("after QUIT the server ended with {status}"))
                }
                Some(_) => {}
            }
        }
        problems
    }
}
