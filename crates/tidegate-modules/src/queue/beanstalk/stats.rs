//! Statistics: what is counted, and the texts that tell it.

use std::{
    fmt::Write as _,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tidegate_http::beanstalk::Command;
use tidegate_net::clock;

use super::{
    jobs::Job,
    tubes::{Common, Tube},
};
use crate::{
    database::beanstalk::Settings,
    queue::{
        counts::URGENT_BELOW,
        store::Store,
        tables::{BLOCKED, DEAD, DELAYED},
        time_of_day,
    },
};

/// The commands that are counted, in the order in which they are told.
const COMMANDS: [&str; 21] = [
    "put",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "reserve",
    "reserve-with-timeout",
    "delete",
    "release",
    "use",
    "watch",
    "ignore",
    "bury",
    "kick",
    "touch",
    "stats",
    "stats-job",
    "stats-tube",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
];

/// What has happened since the server has started.
pub(super) struct Counters {
    commands: [AtomicU64; COMMANDS.len()],
    pauses: AtomicU64,
    pub(super) jobs_total: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) connections_total: AtomicU64,
    pub(super) producers: AtomicU64,
    pub(super) workers: AtomicU64,
    pub(super) waiting: AtomicU64,
    since_ms: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            commands: std::array::from_fn(|_| AtomicU64::new(0)),
            pauses: AtomicU64::new(0),
            jobs_total: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            producers: AtomicU64::new(0),
            workers: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            since_ms: clock::steady_ms(),
        }
    }
}

impl Counters {
    /// Counts a command, unless it was refused.
    pub(super) fn count(&self, command: &Command<'_>) {
        let at = match command {
            Command::Put { .. } | Command::PutTooBig | Command::PutWithoutEnd => 0,
            Command::Peek(_) => 1,
            Command::PeekReady => 2,
            Command::PeekDelayed => 3,
            Command::PeekBuried => 4,
            Command::Reserve { timeout_s: None } => 5,
            Command::Reserve { timeout_s: Some(_) } => 6,
            Command::Delete(_) => 7,
            Command::Release { .. } => 8,
            Command::Use(_) => 9,
            Command::Watch(_) => 10,
            Command::Ignore(_) => 11,
            Command::Bury { .. } => 12,
            Command::Kick(_) => 13,
            Command::Touch(_) => 14,
            Command::Stats => 15,
            Command::StatsJob(_) => 16,
            Command::StatsTube(_) => 17,
            Command::ListTubes => 18,
            Command::ListTubeUsed => 19,
            Command::ListTubesWatched => 20,
            Command::PauseTube { .. } => {
                self.pauses.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Command::ReserveJob(_) | Command::KickJob(_) | Command::Quit | Command::Refused(_) => return,
        };
        self.commands[at].fetch_add(1, Ordering::Relaxed);
    }
}

/// Jobs by their states.
#[derive(Debug, Default)]
struct Counted {
    urgent: u64,
    ready: u64,
    reserved: u64,
    delayed: u64,
    buried: u64,
}

impl Counted {
    /// The jobs of a tube, or of all. Looks at those only that clients have.
    fn of(store: &Store, tube: Option<&str>) -> Self {
        let counts = &store.home.counts;
        let count = tube.map_or_else(|| counts.of_all(), |tube| counts.of(tube));
        let (reserved, urgent) = store.broker().leased_below(tube, URGENT_BELOW);
        let (reserved, urgent) = (reserved as u64, urgent as u64);
        Counted {
            urgent: count.urgent.saturating_sub(urgent),
            ready: count.ready.saturating_sub(reserved),
            reserved,
            // Jobs that wait for others of their ordering key are not to be had either.
            delayed: count.delayed + count.blocked,
            buried: count.dead,
        }
    }

    fn write(&self, out: &mut String) {
        let Counted { urgent, ready, reserved, delayed, buried } = self;
        line(out, "current-jobs-urgent", urgent);
        line(out, "current-jobs-ready", ready);
        line(out, "current-jobs-reserved", reserved);
        line(out, "current-jobs-delayed", delayed);
        line(out, "current-jobs-buried", buried);
    }
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = writeln!(out, "{name}: {value}");
}

/// A text, in quotes as beanstalkd has them since 1.13: a tube may have a name that YAML takes for a number, and what begins with `#` for
/// nothing at all.
fn quoted(out: &mut String, name: &str, value: &str) {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    line(out, name, format_args!("\"{value}\""));
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The answer to `stats`.
pub(super) fn general(store: &Store, common: &Common, settings: Settings) -> String {
    let counters = &common.counters;
    let counted = Counted::of(store, None);
    let mut tubes = common.names_in_use();
    tubes.extend(store.home.counts.queues().into_iter().map(|(name, _)| name));
    let mut out = "---\n".to_owned();
    counted.write(&mut out);
    for (name, count) in COMMANDS.iter().zip(&counters.commands) {
        line(&mut out, &format!("cmd-{name}"), load(count));
    }
    line(&mut out, "cmd-pause-tube", load(&counters.pauses));
    line(&mut out, "job-timeouts", store.broker().expired_total());
    line(&mut out, "total-jobs", load(&counters.jobs_total));
    line(&mut out, "max-job-size", settings.job_bytes_max());
    line(&mut out, "current-tubes", tubes.len());
    line(&mut out, "current-connections", load(&counters.connections));
    line(&mut out, "current-producers", load(&counters.producers));
    line(&mut out, "current-workers", load(&counters.workers));
    line(&mut out, "current-waiting", load(&counters.waiting));
    line(&mut out, "total-connections", load(&counters.connections_total));
    process(&mut out, counters, settings);
    out
}

/// What is told of the process and the machine.
fn process(out: &mut String, counters: &Counters, settings: Settings) {
    use nix::sys::{resource, utsname};
    static ID: OnceLock<String> = OnceLock::new();
    line(out, "pid", std::process::id());
    quoted(out, "version", concat!("1.12.0+tidegate-", env!("CARGO_PKG_VERSION")));
    let usage = resource::getrusage(resource::UsageWho::RUSAGE_SELF).ok();
    for (name, time) in [
        ("rusage-utime", usage.as_ref().map(resource::Usage::user_time)),
        ("rusage-stime", usage.as_ref().map(resource::Usage::system_time)),
    ] {
        let (seconds, micros) = time.map_or((0, 0), |time| (time.tv_sec(), time.tv_usec()));
        line(out, name, format_args!("{seconds}.{micros:06}"));
    }
    line(out, "uptime", clock::steady_ms().saturating_sub(counters.since_ms) / 1000);
    for name in ["oldest-index", "current-index", "records-migrated", "records-written", "max-size"] {
        line(out, &format!("binlog-{name}"), 0);
    }
    line(out, "draining", settings.is_draining());
    let id = ID.get_or_init(|| {
        let mut chance = [0; 8];
        // Without chance all servers have the same name, which nobody relies on.
        let _ = getrandom::fill(&mut chance);
        format!("{:016x}", u64::from_le_bytes(chance))
    });
    line(out, "id", id);
    let names = utsname::uname().ok();
    let text =
        |name: Option<&std::ffi::OsStr>| name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    quoted(out, "hostname", &text(names.as_ref().map(utsname::UtsName::nodename)));
    quoted(out, "os", &text(names.as_ref().map(utsname::UtsName::version)));
    quoted(out, "platform", &text(names.as_ref().map(utsname::UtsName::machine)));
}

/// The answer to `stats-tube`.
pub(super) fn of_tube(store: &Store, name: &str, tube: Option<&Tube>) -> String {
    let counted = Counted::of(store, Some(name));
    let count = |counter: fn(&Tube) -> u64| tube.map_or(0, counter);
    let pause_left_ms = store.home.pauses.left_ms(name);
    let mut out = "---\n".to_owned();
    quoted(&mut out, "name", name);
    counted.write(&mut out);
    line(&mut out, "total-jobs", count(|tube| load(&tube.jobs_total)));
    line(&mut out, "current-using", count(|tube| tube.using.load(Ordering::Relaxed) as u64));
    line(&mut out, "current-watching", count(|tube| tube.watching.load(Ordering::Relaxed) as u64));
    line(&mut out, "current-waiting", store.broker().counts(name).waiting_consumers);
    line(&mut out, "cmd-delete", count(|tube| load(&tube.deletes)));
    line(&mut out, "cmd-pause-tube", count(|tube| load(&tube.pauses)));
    line(&mut out, "pause", if pause_left_ms > 0 { count(|tube| load(&tube.pause_s)) } else { 0 });
    line(&mut out, "pause-time-left", pause_left_ms / 1000);
    out
}

/// The answer to `stats-job`.
pub(super) fn of_job(job: &Job, time_left_ms: Option<u64>, ttr_ms: u64) -> String {
    let now_ms = time_of_day::now_ms();
    let (state, left_ms) = match (job.state, time_left_ms) {
        (_, Some(left)) => ("reserved", left),
        (DELAYED | BLOCKED, None) => ("delayed", job.due_ms.saturating_sub(now_ms)),
        (DEAD, None) => ("buried", 0),
        _ => ("ready", 0),
    };
    // What a job was delayed by when it was released is not kept.
    let delay_ms = match state {
        "delayed" if job.releases == 0 => job.due_ms.saturating_sub(job.published_ms),
        "delayed" => left_ms,
        _ => 0,
    };
    let mut out = "---\n".to_owned();
    line(&mut out, "id", job.place.id);
    quoted(&mut out, "tube", &job.tube);
    line(&mut out, "state", state);
    line(&mut out, "pri", job.place.priority);
    line(&mut out, "age", now_ms.saturating_sub(job.published_ms) / 1000);
    line(&mut out, "delay", delay_ms / 1000);
    line(&mut out, "ttr", ttr_ms / 1000);
    line(&mut out, "time-left", left_ms / 1000);
    line(&mut out, "file", 0);
    line(&mut out, "reserves", job.attempts + u64::from(state == "reserved"));
    line(&mut out, "timeouts", job.attempts.saturating_sub(job.releases + job.burials));
    line(&mut out, "releases", job.releases);
    line(&mut out, "buries", job.burials);
    line(&mut out, "kicks", job.kicks);
    out
}
