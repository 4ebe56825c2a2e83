//! The run: finds the stacks, starts those of a work, and measures them in turns until each point has its rounds.

use crate::ahead::Stock;
use crate::client;
use crate::interrupt;
use crate::load::{self, Ask, Generator, Generators, Load};
use crate::machine::{self, Cores, Ticks};
use crate::matrix::{Service, WORKS, Work};
use crate::options::Options;
use crate::places::Scratch;
use crate::points::{Key, PartUse, Participant, Point, Run, Sample, Store};
use crate::process::{Group, POLL, lead_group};
use crate::progress::Progress;
use crate::services::{self, Services};
use crate::stacks::{Door, Found, Part, Ports, Route, STACKS, Setup, Side, Stack, Tools};
use crate::usage::{self, Snapshot};
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Requests before the first round: scripts are compiled, pools and caches filled.
const WARM_REQUESTS: usize = 30;

/// One point that is to be measured.
#[derive(Clone, Copy)]
struct Planned {
    work: &'static Work,
    stack: &'static Stack,
    route: &'static Route,
    clients: usize,
}

impl Planned {
    fn key(&self) -> Key {
        Key {
            work: self.work.id.to_owned(),
            stack: self.stack.id.to_owned(),
            path: self.route.path.to_owned(),
            clients: self.clients,
        }
    }
}

/// What takes part on this machine, and sentences about what does not.
struct Field {
    found: Vec<(&'static Stack, Found)>,
    /// Protocols that something puts a load on.
    doors: Vec<Door>,
    left_out: Vec<String>,
}

/// Measures what is missing and draws the pages in `out`. False when a point could not be measured.
///
/// # Errors
/// When nothing can be measured at all, or files cannot be written.
pub fn run(options: &Options, tools: &Tools, out: &Path) -> Result<bool, String> {
    if options.render && !out.join("run.json").is_file() {
        return Err(format!("{} has no points of a report: --out names its directory", out.display()));
    }
    let store = Store::open(out)?;
    if options.render {
        return crate::page::write(&store, out).map(|()| true);
    }
    let generators = Generators::find(tools)?;
    let field = find(tools, &generators);
    let plan = plan(options, &field);
    if plan.is_empty() {
        return Err("no point has that name, or no stack is there for it".to_owned());
    }
    if options.list {
        list(&plan, &field);
        return Ok(true);
    }
    let cores = options.cores();
    cores.check()?;
    let _lock = store.lock()?;
    if options.fresh {
        store.clear()?;
    }
    store.begin(&describe(options, tools, &field, &generators))?;
    for sentence in &field.left_out {
        println!("left out: {sentence}");
    }
    raise_file_limit();
    interrupt::watch("interrupted: the same command goes on; --render draws what there is")?;
    let measuring = Measuring { options, tools, generators: &generators, store: &store, cores };
    measuring.all(&plan)?;
    crate::page::write(&store, out)?;
    println!("{}", out.join("report.html").display());
    let points = store.points()?;
    for point in &points {
        if let Some(problem) = &point.problem {
            println!("no figures: {}: {}", point.key.name(), problem.lines().next().unwrap_or_default());
        }
    }
    Ok(points.iter().all(|point| point.problem.is_none()))
}

fn find(tools: &Tools, generators: &Generators) -> Field {
    let doors = Door::ALL.into_iter().filter(|door| generators.of(*door).is_some()).collect();
    let mut field = Field { found: Vec::new(), doors, left_out: generators.left_out().into_iter().collect() };
    for stack in STACKS {
        match (stack.find)(tools) {
            Ok(found) => {
                for (lack, reason) in &found.without {
                    field.left_out.push(format!("{} without {}: {reason}", stack.name, lack.name()));
                }
                field.found.push((stack, found));
            }
            Err(reason) => field.left_out.push(format!("{}: {reason}", stack.name)),
        }
    }
    for service in Service::ALL {
        if services::version(service).is_none() {
            field.left_out.push(format!("everything behind {service:?}: it is not installed"));
        }
    }
    field
}

/// The points in the order in which they are measured first: by work, clients, and then stack, so that stacks take turns.
fn plan(options: &Options, field: &Field) -> Vec<Planned> {
    let is_there = |service: &Service| services::version(*service).is_some();
    let mut plan = Vec::new();
    for work in WORKS {
        for &clients in work.clients(options.matrix) {
            for (stack, found) in &field.found {
                for route in stack.routes_of(work, options.matrix) {
                    let planned = Planned { work, stack, route, clients };
                    let is_asked = field.doors.contains(&route.door);
                    if is_asked
                        && found.has(route)
                        && route.uses.iter().all(is_there)
                        && options.wants(&planned.key().name())
                    {
                        plan.push(planned);
                    }
                }
            }
        }
    }
    plan
}

fn list(plan: &[Planned], field: &Field) {
    for planned in plan {
        println!("{}", planned.key().name());
    }
    for sentence in &field.left_out {
        println!("left out: {sentence}");
    }
}

fn describe(options: &Options, tools: &Tools, field: &Field, generators: &Generators) -> Run {
    let version = machine::first_line(&tools.tidegate.to_string_lossy(), &["-v"]);
    let made = std::fs::metadata(&tools.tidegate).ok();
    let size = made.as_ref().map_or(0, std::fs::Metadata::len);
    let time = made.and_then(|made| made.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
    let mut binary = format!("{version}, {size} bytes");
    if let Some(time) = time {
        let _ = write!(
            binary,
            ", made {}",
            machine::first_line("date", &["-u", "-d", &format!("@{}", time.as_secs()), "+%F %T"])
        );
    }
    let participants = field.found.iter().map(|(stack, found)| Participant {
        id: stack.id.to_owned(),
        name: stack.name.to_owned(),
        versions: found.versions.clone(),
    });
    Run {
        matrix: options.matrix,
        rounds: options.rounds,
        seconds: options.seconds,
        cores: options.cores(),
        machine: machine::describe(),
        generator: generators.version(),
        binary,
        services: Service::ALL.into_iter().filter_map(services::version).collect(),
        stacks: participants.collect(),
        left_out: field.left_out.clone(),
        begun: machine::first_line("date", &["-u", "+%F %R UTC"]),
        command: tools.command.to_owned(),
    }
}

/// Servers with thousands of connections inherit the limit.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // With a lower limit the points with many clients fail, and say so.
    let _ = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
}

/// A stack that runs.
struct Live {
    stack: &'static Stack,
    parts: Vec<Part>,
    ports: Ports,
    scratch: Scratch,
    /// Routes that have had their first requests.
    warm: Vec<(Door, &'static str)>,
    /// What was posted ahead.
    stock: Stock,
}

impl Live {
    /// Where a route is.
    fn address(&self, route: &Route) -> String {
        format!("{}://127.0.0.1:{}{}", route.door.scheme(), self.ports.of(route.door), route.url)
    }
}

/// The stacks of a work: those that run, and those that could not be started, with the reason.
#[derive(Default)]
struct Lives {
    running: Vec<Live>,
    dead: Vec<(&'static str, String)>,
}

impl Lives {
    /// Forgets a stack of which a program has ended by itself: it is started again when it is wanted.
    fn bury(&mut self, stack: &Stack) {
        let is_there = |live: &mut Live| live.stack.id != stack.id || !live.parts.iter_mut().any(Part::has_ended);
        self.running.retain_mut(is_there);
    }
}

struct Measuring<'a> {
    options: &'a Options,
    tools: &'a Tools,
    generators: &'a Generators,
    store: &'a Store,
    cores: Cores,
}

impl Measuring<'_> {
    fn all(&self, plan: &[Planned]) -> Result<(), String> {
        let left = |planned: &Planned| self.rounds_left(&planned.key()) as u32 * self.time(planned);
        let mut progress = Progress::new(plan.iter().map(left).sum());
        let wanted: Vec<Service> =
            Service::ALL.into_iter().filter(|s| plan.iter().any(|p| p.route.uses.contains(s))).collect();
        let mut services = None;
        for work in WORKS {
            let points: Vec<Planned> =
                plan.iter().filter(|p| p.work.id == work.id && self.rounds_left(&p.key()) > 0).copied().collect();
            if points.is_empty() {
                continue;
            }
            if services.is_none() {
                services = Some(Services::start(&wanted, &self.cores.servers));
            }
            if let Some(services) = &services {
                self.work(&points, services, &mut progress)?;
            }
        }
        progress.end_line();
        Ok(())
    }

    fn time(&self, planned: &Planned) -> Duration {
        Duration::from_secs(planned.work.seconds(planned.clients, self.options.seconds))
    }

    fn rounds_left(&self, key: &Key) -> usize {
        self.store.point(key).map_or(self.options.rounds, |point| match point.problem {
            // What failed is tried again.
            Some(_) => self.options.rounds,
            None => self.options.rounds.saturating_sub(point.rounds.len()),
        })
    }

    /// Starts the stacks of a work and measures them in turns.
    fn work(&self, points: &[Planned], services: &Services, progress: &mut Progress) -> Result<(), String> {
        let mut lives = Lives::default();
        let mut failed: Vec<Key> = Vec::new();
        for planned in points {
            let outcome = self.ready(planned, services, &mut lives);
            if let Err(problem) = outcome {
                failed.push(planned.key());
                let rounds = self.rounds_left(&planned.key()) as u32;
                self.fail(planned, problem)?;
                progress.advance(rounds * self.time(planned), &planned.key().name());
            }
        }
        for _ in 0..self.options.rounds {
            for planned in points.iter().filter(|planned| !failed.contains(&planned.key())) {
                if self.rounds_left(&planned.key()) == 0 {
                    continue;
                }
                lives.bury(planned.stack);
                if let Err(problem) = self.ready(planned, services, &mut lives) {
                    self.fail(planned, problem)?;
                } else if let Some(live) = lives.running.iter().find(|live| live.stack.id == planned.stack.id) {
                    self.round(planned, live, services)?;
                }
                progress.advance(self.time(planned), &planned.key().name());
            }
        }
        Ok(())
    }

    /// The stack of a point runs, and answers as it should.
    fn ready(&self, planned: &Planned, services: &Services, lives: &mut Lives) -> Result<(), String> {
        if !planned.route.is_served(services) {
            let reason = planned.route.uses.iter().find_map(|service| services.why_missing(*service));
            return Err(reason.unwrap_or("a service is missing").to_owned());
        }
        let live = self.live(planned.stack, services, lives)?;
        let port = live.ports.of(Door::Http);
        if let Some(ahead) = &planned.route.ahead {
            live.stock.fill(ahead, port, self.time(planned).as_secs())?;
        }
        let warm = (planned.route.door, planned.route.url);
        if live.warm.contains(&warm) {
            return Ok(());
        }
        if planned.route.door != Door::Http {
            self.first_lookups(planned, live)?;
            live.warm.push(warm);
            return Ok(());
        }
        check(planned, port).map_err(|problem| format!("{problem}{}", services::last_words(live.scratch.path())))?;
        // Answers that take a second would take half a minute.
        let more = if planned.work.answer_seconds.is_none() { WARM_REQUESTS } else { 0 };
        for _ in 0..more {
            check(planned, port)?;
        }
        if planned.route.ahead.is_some() {
            live.stock.take(1 + more as u64)?;
        }
        live.warm.push(warm);
        Ok(())
    }

    /// A second of lookups by one client, all of which find their row.
    fn first_lookups(&self, planned: &Planned, live: &Live) -> Result<(), String> {
        let url = live.address(planned.route);
        let generator = self.generators.of(planned.route.door).ok_or("nothing puts a load on it")?;
        let ask = Ask { clients: 1, time: Duration::from_secs(1), ..self.ask(planned, live, &url) };
        let output = generator.command(&ask)?.output().map_err(|e| format!("the load: {e}"))?;
        let words = |problem: String| format!("{problem}{}", services::last_words(live.scratch.path()));
        match generator.read(&output).map_err(words)? {
            Load { failed: 0, .. } => Ok(()),
            load => Err(words(format!("{} of {} lookups failed", load.failed, load.requests))),
        }
    }

    /// The load of a round.
    fn ask<'b>(&'b self, planned: &Planned, live: &'b Live, url: &'b str) -> Ask<'b> {
        Ask {
            url,
            clients: planned.clients,
            time: self.time(planned),
            closes: planned.work.closes,
            body: planned.work.body,
            cores: &self.cores.load,
            dir: live.scratch.path(),
        }
    }

    /// The running stack; it is started if it was not.
    fn live<'l>(
        &self,
        stack: &'static Stack,
        services: &Services,
        lives: &'l mut Lives,
    ) -> Result<&'l mut Live, String> {
        if let Some((_, reason)) = lives.dead.iter().find(|(id, _)| *id == stack.id) {
            return Err(reason.clone());
        }
        if let Some(index) = lives.running.iter().position(|live| live.stack.id == stack.id) {
            return Ok(&mut lives.running[index]);
        }
        match self.start(stack, services) {
            Ok(live) => {
                lives.running.push(live);
                lives.running.last_mut().ok_or_else(|| "it does not run".to_owned())
            }
            Err(reason) => {
                println!("{}: {reason}", stack.name);
                lives.dead.push((stack.id, reason.clone()));
                Err(reason)
            }
        }
    }

    fn start(&self, stack: &'static Stack, services: &Services) -> Result<Live, String> {
        let scratch = Scratch::new("stack", false)?;
        let setup = Setup {
            dir: scratch.path(),
            ports: Ports::free(),
            cores: &self.cores.servers,
            workers: self.cores.servers_count(),
            database: services.port(Service::MariaDb),
            memcached: services.port(Service::Memcached),
            redis: services.port(Service::Redis),
            tools: self.tools,
        };
        let mut parts = (stack.start)(&setup)?;
        let ports = setup.ports;
        let deadline = Instant::now() + services::START_TIMEOUT;
        let is_open = |door: &Door| TcpStream::connect(("127.0.0.1", ports.of(*door))).is_ok();
        let is_used = |door: &&Door| stack.routes.iter().any(|route| route.door == **door);
        // A door that does not open is found out by the first request.
        while !Door::ALL.iter().filter(is_used).any(is_open) {
            let has_ended = parts.iter_mut().any(Part::has_ended);
            if has_ended || Instant::now() > deadline {
                return Err(format!("it does not listen{}", services::last_words(scratch.path())));
            }
            thread::sleep(POLL);
        }
        Ok(Live { stack, parts, ports, scratch, warm: Vec::new(), stock: Stock::default() })
    }

    /// Notes why there are no figures.
    fn fail(&self, planned: &Planned, problem: String) -> Result<(), String> {
        let seconds = self.time(planned).as_secs();
        let rounds = self.store.point(&planned.key()).map(|point| point.rounds).unwrap_or_default();
        let point = Point { key: planned.key(), command: String::new(), seconds, rounds, problem: Some(problem) };
        self.store.save(&point)
    }

    /// Measures one round and writes it down.
    fn round(&self, planned: &Planned, live: &Live, services: &Services) -> Result<(), String> {
        let key = planned.key();
        let before = self.store.point(&key);
        let mut rounds = before.map(|point| point.rounds).unwrap_or_default();
        let url = live.address(planned.route);
        let ask = self.ask(planned, live, &url);
        let generator = self.generators.of(planned.route.door).ok_or("nothing puts a load on it")?;
        let command = load::typed(&generator.command(&ask)?);
        let outcome = measure(planned, generator, (&ask, &self.cores.servers), live, services, rounds.is_empty());
        let outcome = outcome.and_then(|sample| {
            let taken = planned.route.ahead.as_ref().map_or(Ok(()), |_| live.stock.take(sample.requests));
            taken.map(|()| sample)
        });
        let problem = match outcome {
            Ok(sample) if sample.failed > sample.requests / 50 => {
                let words = services::last_words(live.scratch.path());
                Some(format!("{} of {} requests failed{words}", sample.failed, sample.requests))
            }
            Ok(sample) => {
                rounds.push(sample);
                None
            }
            // Of a server that has ended in the middle, say.
            Err(problem) => {
                live.stock.forget();
                Some(format!("{problem}{}", services::last_words(live.scratch.path())))
            }
        };
        self.store.save(&Point { key, command, seconds: ask.time.as_secs(), rounds, problem })
    }
}

/// Puts the load on, and says what it has cost.
fn measure(
    planned: &Planned,
    generator: &dyn Generator,
    (ask, server_cores): (&Ask<'_>, &str),
    live: &Live,
    services: &Services,
    looks_at_memory: bool,
) -> Result<Sample, String> {
    let mut parts: Vec<_> = live.parts.iter().map(|part| (part.name, part.pid())).collect();
    parts.extend(planned.route.uses.iter().filter_map(|service| services.part(*service)));
    let mut command = generator.command(ask)?;
    lead_group(&mut command);
    let before: Vec<Snapshot> = parts.iter().map(|(_, pid)| Snapshot::of(*pid)).collect();
    let ticks = Ticks::of(server_cores);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|e| format!("cannot run {:?}: {e}", command.get_program()))?;
    let _group = Group::of(&child);
    // In the middle of the load memory is what it is under load.
    thread::sleep(ask.time / 2);
    let memory_free_bytes = machine::memory_available();
    let memory: Vec<u64> =
        parts.iter().map(|(_, pid)| if looks_at_memory { usage::memory_bytes(*pid) } else { 0 }).collect();
    let output = child.wait_with_output().map_err(|e| format!("the load: {e}"))?;
    let idle = Ticks::of(server_cores).idle_since(&ticks);
    let load = generator.read(&output)?;
    let uses = parts.iter().zip(&before).zip(memory).map(|((part, before), memory_bytes)| {
        let used = Snapshot::of(part.1).since(before);
        let each = |count: u64| count as f64 / load.requests.max(1) as f64;
        PartUse {
            name: part.0.to_owned(),
            us_per_request: each(used.nanoseconds) / 1e3,
            user_share: used.user_share,
            voluntary: each(used.voluntary),
            involuntary: each(used.involuntary),
            memory_bytes,
        }
    });
    Ok(sample(load, idle, memory_free_bytes, uses.collect()))
}

fn sample(load: Load, idle: f64, memory_free_bytes: u64, parts: Vec<PartUse>) -> Sample {
    Sample {
        requests: load.requests,
        per_second: load.per_second,
        p50_us: load.p50_us,
        p99_us: load.p99_us,
        max_us: load.max_us,
        failed: load.failed,
        idle,
        memory_free_bytes,
        parts,
    }
}

/// The answer is the expected one: a fast error page would win every comparison.
fn check(planned: &Planned, port: u16) -> Result<(), String> {
    let (status, body) = client::ask(port, planned.route.url, planned.work.body)?;
    let text = String::from_utf8_lossy(&body);
    let is_floor = planned.stack.side == Side::Floor;
    let is_expected = body.len() >= planned.work.bytes_min && text.contains(planned.work.expect);
    if status == 200 && (is_floor || is_expected) {
        return Ok(());
    }
    let shown: String = text.chars().take(200).collect();
    Err(format!("unexpected answer, {status} with {} bytes: {shown}", body.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Size;
    use crate::stacks::Lack;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Cli::parse_from([&["report"], arguments].concat()).options
    }

    fn field() -> Field {
        let is_taken = |stack: &&Stack| matches!(stack.id, "floor" | "tidegate-embedded" | "node");
        let found = STACKS.iter().filter(is_taken).map(|stack| (stack, Found::default())).collect();
        Field { found, doors: Door::ALL.into(), left_out: Vec::new() }
    }

    #[test]
    fn stacks_take_turns_at_the_same_number_of_clients() {
        let plan = plan(&options(&["--matrix", "full", "--only", "static-13/"]), &field());
        let names: Vec<_> = plan.iter().take(4).map(|planned| planned.key().name()).collect();
        assert_eq!(
            names,
            ["static-13/floor/-/1", "static-13/tidegate-embedded/-/1", "static-13/node/-/1", "static-13/floor/-/2"]
        );
        assert_eq!(plan.len(), 30);
    }

    #[test]
    fn directories_of_libraries_are_found_from_anywhere() {
        let here = std::env::current_dir().expect("a directory");
        let dirs = options(&["--lua-lib", "lua-resty-mysql/lib:/usr/share/lua"]).lua_libs();
        assert_eq!(dirs, [here.join("lua-resty-mysql/lib"), "/usr/share/lua".into()]);
    }

    #[test]
    fn what_a_stack_lacks_is_not_planned() {
        let mut field = field();
        for (_, found) in &mut field.found {
            found.without = vec![(Lack::Service(Service::MariaDb), "no driver".to_owned())];
        }
        let plan = plan(&options(&[]), &field);
        assert!(plan.iter().all(|planned| !planned.route.uses.contains(&Service::MariaDb)));
        assert!(plan.iter().any(|planned| planned.work.id == "rows"));
    }

    /// The small matrix on a machine that has everything, without the time between rounds.
    #[test]
    fn the_small_matrix_is_small_and_the_full_one_ends_within_two_hours() {
        let seconds = |size: Size| -> u64 {
            let points = WORKS.iter().flat_map(|work| {
                let series = STACKS.iter().map(|stack| stack.routes_of(work, size).count()).sum::<usize>() as u64;
                work.clients(size).iter().map(move |&clients| work.seconds(clients, 1) * series)
            });
            points.sum::<u64>() * 5
        };
        assert!(seconds(Size::Small) <= 510, "{} s", seconds(Size::Small));
        assert!(seconds(Size::Full) <= 6000, "{} s", seconds(Size::Full));
    }
}
