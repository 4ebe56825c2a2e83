//! Runs one case from an empty directory to the last check.

use super::case::{Case, Mode};
use super::check;
use super::client::Client;
use super::output;
use super::peer::Peer;
use super::script::{self, Action, Step, Text, Until};
use super::server::{Server, ServerKind, Site};
use super::sockets;
use super::vars::Vars;
use crate::process::{self, POLL, Process, patient};
use crate::sections;
use crate::services::{Network, Service};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two tries of a request that is repeated until its response is the expected one.
const EVENTUALLY_PAUSE: Duration = Duration::from_millis(20);
/// Starts with other ports after "Address already in use": somebody else took the port first.
const START_TRIES: usize = 3;
/// How long a process may be there after its parent has ended.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a line may take to its log after the response. Only a case that fails, or whose line comes with the end of the
/// server, waits that long.
const LOGS_PATIENCE: Duration = Duration::from_secs(2);

/// What running a case needs besides the case.
pub(crate) struct Settings {
    pub(crate) kind: ServerKind,
    pub(crate) services: Vars,
    /// Services that this machine cannot have, each with the reason.
    pub(crate) absent: Vec<(Service, String)>,
    /// Where the cases of [`Service::MariaDb3306`] run.
    pub(crate) network: Option<Network>,
    /// Leaves the case's directory and names it in the report.
    pub(crate) keep: bool,
}

/// Runs a case and returns what was wrong; nothing means that it passed.
pub(crate) fn run(case: &Case, settings: &Settings) -> Vec<String> {
    let network = settings.network.as_ref().filter(|_| case.services.contains(&Service::MariaDb3306));
    let _visit = match network.map(Network::enter).transpose() {
        Ok(visit) => visit,
        Err(mistake) => return vec![mistake],
    };
    let site = match Site::create(case, &settings.kind, &settings.services, settings.keep) {
        Ok(site) => site,
        Err(mistake) => return vec![mistake],
    };
    let (site, mut problems) = match &case.mode {
        Mode::Serve => serve(case, settings, site),
        Mode::MustDie { code } => {
            let problems = command(&site, settings, &[], *code, case.timeout);
            (site, problems)
        }
        Mode::Command { args, code } => {
            let problems = command(&site, settings, args, *code, case.timeout);
            (site, problems)
        }
    };
    problems.extend(end_leftovers(&site));
    problems.extend(check::logs(case, &site).unwrap_or_else(|mistake| vec![mistake]));
    if !problems.is_empty() {
        let log = output::tail(&site.read("logs/error.log"), 12);
        if !log.is_empty() {
            problems.push(format!("the error log ends with\n{log}"));
        }
        if settings.keep {
            problems.push(format!("kept: {}", site.dir().display()));
        }
    }
    problems
}

/// Nothing may run any more when a case is over, not even a daemon that should have refused its configuration.
fn end_leftovers(site: &Site) -> Option<String> {
    let deadline = Instant::now() + patient(LEFTOVERS_PATIENCE);
    let mut left = process::working_in(site.dir());
    while !left.is_empty() && Instant::now() < deadline {
        thread::sleep(POLL);
        left = process::working_in(site.dir());
    }
    for pid in &left {
        // ESRCH: it has ended by itself.
        let _ = kill(*pid, Signal::SIGKILL);
    }
    (!left.is_empty()).then(|| format!("{} processes were left behind", left.len()))
}

fn command(site: &Site, settings: &Settings, args: &[String], code: i32, timeout: Duration) -> Vec<String> {
    let outcome = (|| {
        let mut command = site.command(&settings.kind)?;
        for arg in args {
            command.arg(site.vars.expand(arg)?);
        }
        let mut process = Process::spawn(&mut command)?;
        match process.wait(timeout) {
            None => Err(format!("still running after {timeout:?}, expected to end with status {code}")),
            Some(status) if status.code() != Some(code) => Err(format!("ended with {status}, expected status {code}")),
            Some(_) => Ok(()),
        }
    })();
    outcome.err().into_iter().collect()
}

fn serve(case: &Case, settings: &Settings, mut site: Site) -> (Site, Vec<String>) {
    let mut tries = 1;
    let server = loop {
        match Server::start(&site, &settings.kind) {
            Ok(server) => break server,
            Err(problem) if problem.contains("Address already in use") && tries < START_TRIES => {
                tries += 1;
                site.choose_ports();
                let again = site
                    .write_files(case, "user_files")
                    .and_then(|()| site.write_config(case, &settings.kind, case.value("config")));
                if let Err(mistake) = again {
                    return (site, vec![mistake]);
                }
            }
            Err(problem) => return (site, vec![problem]),
        }
    };
    let peer = match Peer::start(case, &site.vars) {
        Ok(peer) => peer,
        Err(mistake) => return (site, vec![mistake]),
    };
    let mut talk = Talk { case, settings, site: &site, client: None, received: Vec::new(), index: 0 };
    let mut problems = talk.run().unwrap_or_else(|mistake| vec![mistake]);
    drop(talk);
    if problems.is_empty() {
        wait_for_logs(case, &site);
    }
    if let Some(peer) = peer {
        let received = peer.finish();
        problems.extend(check::query(case, &site.vars, &received).unwrap_or_else(|mistake| vec![mistake]));
    }
    problems.extend(server.stop());
    (site, problems)
}

/// A response may be here before its request is logged, and a single process ends at once when it is told to: gives the
/// expected lines a moment. What is still missing then is judged after the end.
fn wait_for_logs(case: &Case, site: &Site) {
    let deadline = Instant::now() + patient(LOGS_PATIENCE);
    while check::logs(case, site).is_ok_and(|problems| !problems.is_empty()) && Instant::now() < deadline {
        thread::sleep(POLL);
    }
}

/// The conversation of a case.
struct Talk<'a> {
    case: &'a Case,
    settings: &'a Settings,
    site: &'a Site,
    client: Option<Client>,
    /// Everything received on the connections before the current one.
    received: Vec<u8>,
    /// Index of the next response.
    index: usize,
}

impl Talk<'_> {
    fn run(&mut self) -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        for step in &self.case.steps {
            for action in &step.actions {
                self.act(action)?;
            }
            let deadline = Instant::now() + self.case.timeout;
            loop {
                let found = self.step(step);
                let is_wanted = found.as_ref().is_ok_and(Vec::is_empty);
                if is_wanted || !step.eventually || Instant::now() > deadline {
                    problems.extend(found.unwrap_or_else(|problem| vec![problem]));
                    break;
                }
                thread::sleep(EVENTUALLY_PAUSE);
            }
            self.index += step.methods.len();
        }
        problems.extend(self.end()?);
        Ok(problems)
    }

    fn act(&self, action: &Action) -> Result<(), String> {
        match action {
            Action::Wait(time) => thread::sleep(*time),
            Action::Signal(name) => self.site.signal(name)?,
            Action::Write => self.site.write_files(self.case, "later_files")?,
            Action::Remove(name) => {
                let path = self.site.dir().join("html").join(self.site.vars.expand(name)?);
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|e| format!("cannot remove {}: {e}", path.display()))?;
            }
            Action::Reload => {
                self.site.write_config(self.case, &self.settings.kind, self.case.value("later_config"))?;
                self.site.signal("HUP")?;
            }
            Action::Seen { path, text } => self.wait_until_seen(path, &self.site.vars.expand(text)?)?,
            Action::Disconnected { port } => {
                let port = self.site.vars.expand(port)?.parse().map_err(|_| format!("\"{port}\" is no port"))?;
                if !sockets::wait_until_disconnected(port, self.case.timeout) {
                    return Err(format!("the server keeps its connection to port {port}"));
                }
            }
        }
        Ok(())
    }

    fn wait_until_seen(&self, path: &str, text: &str) -> Result<(), String> {
        let deadline = Instant::now() + self.case.timeout;
        while !fs::read_to_string(self.site.dir().join(path)).is_ok_and(|found| found.contains(text)) {
            if Instant::now() > deadline {
                return Err(format!("{path} does not say \"{text}\""));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Sends a step's bytes and checks its responses.
    fn step(&mut self, step: &Step) -> Result<Vec<String>, String> {
        if !step.same_connection {
            self.hang_up();
        }
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::connect(self.site.port()?, self.case.timeout)?),
        };
        let mut unsent = Vec::new();
        for part in &step.parts {
            if part.until != Until::Now {
                client.send(&std::mem::take(&mut unsent));
                wait(client, &part.until)?;
            }
            unsent.extend(part_bytes(self.case, &self.site.vars, &part.text)?);
        }
        client.send(&unsent);
        if self.case.value("shutdown").is_some() {
            client.finish_sending();
        }
        if let Some(note) = self.case.value("abort").filter(|_| !step.eventually) {
            wait(client, &Until::parse(note)?)?;
            self.client = None;
            return Ok(Vec::new());
        }
        self.responses(step)
    }

    fn responses(&mut self, step: &Step) -> Result<Vec<String>, String> {
        let client = self.client.as_mut().ok_or("no connection")?;
        let raw_only = ["raw_response", "raw_response_like"].iter().any(|s| self.case.value(s).is_some())
            && self.case.value("error_code").is_none();
        if raw_only {
            client.wait_closed()?;
            return Ok(Vec::new());
        }
        let mut problems = Vec::new();
        for (offset, method) in step.methods.iter().enumerate() {
            let response = client.response(method)?;
            let announced = response.header("Connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
            problems.extend(check::response(self.case, &self.site.vars, self.index + offset, &response));
            let is_last = offset + 1 == step.methods.len();
            if announced || (is_last && self.case.value("connection") == Some("closed")) {
                client.wait_closed()?;
            }
        }
        problems.extend(client.surplus());
        Ok(problems)
    }

    fn hang_up(&mut self) {
        if let Some(client) = self.client.take() {
            self.received.extend_from_slice(&client.received);
        }
    }

    fn end(&mut self) -> Result<Vec<String>, String> {
        self.hang_up();
        check::raw(self.case, &self.site.vars, &self.received)
    }
}

/// Waits for what stands in front of a client's next bytes, or of its end.
fn wait(client: &mut Client, until: &Until) -> Result<(), String> {
    match until {
        Until::Now => {}
        Until::Read => client.wait_until_read(),
        Until::Received(text) => client.wait_until_received(&sections::unescape(text))?,
        Until::Time(time) => {
            client.wait_until_read();
            thread::sleep(*time);
        }
    }
    Ok(())
}

fn part_bytes(case: &Case, vars: &Vars, text: &Text) -> Result<Vec<u8>, String> {
    match text {
        Text::Raw(text) => Ok(sections::unescape(&vars.expand(&text.replace('\n', ""))?)),
        Text::Request { line, headers, body, close } => {
            let escapes = case.block.sections.iter().any(|s| s.escapes && s.name.contains("request"));
            let body = vars.expand(body)?;
            let body = if escapes { sections::unescape(&body) } else { body.into_bytes() };
            Ok(script::request_bytes(&vars.expand(line)?, &vars.expand(headers)?, &body, *close))
        }
    }
}
