//! Points on disk: a file for each, written again after each round, so that a run that was broken off goes on.

use crate::machine::Cores;
use crate::matrix::Size;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Which point it is: a work, done by a stack in one of its ways, for so many clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// `Work::id`.
    pub work: String,
    /// `Stack::id`.
    pub stack: String,
    /// `Route::path`.
    pub path: String,
    /// Connections.
    pub clients: usize,
}

impl Key {
    /// As it is written on the command line: `rows/tidegate-embedded/drizzle/30`.
    #[must_use]
    pub fn name(&self) -> String {
        let path = if self.path.is_empty() { "-" } else { &self.path };
        format!("{}/{}/{path}/{}", self.work, self.stack, self.clients)
    }

    fn file(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
        let path: String = self.path.chars().map(plain).collect();
        format!("{}.{}.{path}.{}.json", self.work, self.stack, self.clients)
    }
}

/// What one part of a stack has used in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartUse {
    /// The program.
    pub name: String,
    /// CPU time for each request, in microseconds.
    pub us_per_request: f64,
    /// The part of user space, between 0 and 1.
    pub user_share: f64,
    /// Context switches for each request, because a thread waited,
    pub voluntary: f64,
    /// and because another one was to run.
    pub involuntary: f64,
    /// Its memory in bytes, what it shares divided by those that share it; 0 in rounds that did not look.
    pub memory_bytes: u64,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Answers.
    pub requests: u64,
    /// Answers a second.
    pub per_second: f64,
    /// Latency in microseconds.
    pub p50_us: f64,
    /// Of 99 in 100.
    pub p99_us: f64,
    /// Of all.
    pub max_us: f64,
    /// Errors of sockets, and answers other than 2xx and 3xx.
    pub failed: u64,
    /// The part of the time in which the servers' cores were idle.
    pub idle: f64,
    /// Memory that was free meanwhile, in bytes.
    pub memory_free_bytes: u64,
    /// By program.
    pub parts: Vec<PartUse>,
}

impl Sample {
    /// CPU time for each request of all parts, in microseconds.
    #[must_use]
    pub fn us_per_request(&self) -> f64 {
        self.parts.iter().map(|part| part.us_per_request).sum()
    }

    /// Context switches for each request of all parts, voluntary and involuntary.
    #[must_use]
    pub fn switches(&self) -> (f64, f64) {
        self.parts.iter().fold((0.0, 0.0), |(a, b), part| (a + part.voluntary, b + part.involuntary))
    }
}

/// A point with its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Which it is.
    pub key: Key,
    /// The load's command line, with the port that the server had.
    pub command: String,
    /// Seconds of a round.
    pub seconds: u64,
    /// The rounds.
    pub rounds: Vec<Sample>,
    /// Why there are no more.
    pub problem: Option<String>,
}

/// A stack that takes part, with its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    /// `Stack::id`.
    pub id: String,
    /// `Stack::name`.
    pub name: String,
    /// Programs and libraries.
    pub versions: Vec<String>,
}

/// What all points of a directory have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// How much of the matrix.
    pub matrix: Size,
    /// Rounds of a point.
    pub rounds: usize,
    /// Seconds of a round; some works take more.
    pub seconds: u64,
    /// Who has which cores.
    pub cores: Cores,
    /// Processor, memory, kernel.
    pub machine: String,
    /// The load generator.
    pub generator: String,
    /// Our binary: version, size, time of its making.
    pub binary: String,
    /// Databases and caches.
    pub services: Vec<String>,
    /// Who takes part.
    pub stacks: Vec<Participant>,
    /// What does not, and why.
    pub left_out: Vec<String>,
    /// When it began.
    pub begun: String,
    /// The command of the report, which repeats a point with some options more.
    pub command: String,
}

impl Run {
    /// Why points of an earlier run cannot stand beside those of this one; `None` if they can. Rounds and the size of the matrix may
    /// differ, and stacks may come and go.
    #[must_use]
    pub fn differs_from(&self, before: &Run) -> Option<String> {
        let told = |what: &str, then: &str, now: &str| (then != now).then(|| format!("{what}: {then} then, {now} now"));
        told("machine", &before.machine, &self.machine)
            .or_else(|| told("load generator", &before.generator, &self.generator))
            .or_else(|| told("binary", &before.binary, &self.binary))
            .or_else(|| told("cores", &format!("{:?}", before.cores), &format!("{:?}", self.cores)))
            .or_else(|| told("seconds of a round", &before.seconds.to_string(), &self.seconds.to_string()))
            .or_else(|| {
                self.stacks.iter().find_map(|stack| {
                    let then = before.stacks.iter().find(|then| then.id == stack.id)?;
                    told(&stack.name, &then.versions.join(", "), &stack.versions.join(", "))
                })
            })
    }
}

/// A directory of points.
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(dir: &Path) -> Result<Store, String> {
        let points = dir.join("points");
        fs::create_dir_all(&points).map_err(|e| format!("{}: {e}", points.display()))?;
        Ok(Store { dir: dir.to_owned() })
    }

    /// Keeps other reports from measuring into the directory, as long as the file is open.
    ///
    /// # Errors
    /// When one does so already, or the file cannot be made.
    pub fn lock(&self) -> Result<File, String> {
        let path = self.dir.join("lock");
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(format!(
                "another report measures into {}: each would spoil the other's figures",
                self.dir.display()
            )),
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    /// The run whose points are here.
    ///
    /// # Errors
    /// When there is none, or the file cannot be read.
    pub fn run(&self) -> Result<Run, String> {
        read(&self.dir.join("run.json"))
    }

    /// Begins or continues a run.
    ///
    /// # Errors
    /// When the directory has points of another one; says how they differ.
    pub fn begin(&self, run: &Run) -> Result<(), String> {
        let file = self.dir.join("run.json");
        if file.is_file()
            && let Some(difference) = run.differs_from(&self.run()?)
        {
            return Err(format!(
                "{} has points of another run ({difference}): --fresh begins anew, --out chooses another directory",
                self.dir.display()
            ));
        }
        write(&file, run)
    }

    /// Removes points and run.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub fn clear(&self) -> Result<(), String> {
        let points = self.dir.join("points");
        fs::remove_dir_all(&points).map_err(|e| format!("{}: {e}", points.display()))?;
        match fs::remove_file(self.dir.join("run.json")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(format!("{}: {e}", self.dir.display())),
            _ => {}
        }
        Store::open(&self.dir).map(drop)
    }

    /// A point, if it has been begun. A file that cannot be read is as none: the point is measured again.
    #[must_use]
    pub fn point(&self, key: &Key) -> Option<Point> {
        read(&self.dir.join("points").join(key.file())).ok().filter(|point: &Point| point.key == *key)
    }

    /// Writes a point: all of it is there, or all of what was there before.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, point: &Point) -> Result<(), String> {
        write(&self.dir.join("points").join(point.key.file()), point)
    }

    /// All points.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        let dir = self.dir.join("points");
        let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let files =
            entries.flatten().map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|e| e == "json"));
        let mut points: Vec<Point> = files.filter_map(|file| read(&file).ok()).collect();
        points.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(points)
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, String> {
    let text = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", file.display()))
}

fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(value).map_err(|e| format!("{}: {e}", file.display()))?;
    let new = file.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, file)).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::places::Scratch;

    pub(crate) fn key(work: &str, stack: &str, path: &str, clients: usize) -> Key {
        Key { work: work.to_owned(), stack: stack.to_owned(), path: path.to_owned(), clients }
    }

    pub(crate) fn sample(per_second: f64, p99_us: f64) -> Sample {
        let part = PartUse {
            name: "server".to_owned(),
            us_per_request: 8.0,
            user_share: 0.25,
            voluntary: 0.5,
            involuntary: 0.125,
            memory_bytes: 3 << 20,
        };
        Sample {
            requests: 1000,
            per_second,
            p50_us: p99_us / 2.0,
            p99_us,
            max_us: p99_us * 2.0,
            failed: 0,
            idle: 0.125,
            memory_free_bytes: 4 << 30,
            parts: vec![part],
        }
    }

    pub(crate) fn run() -> Run {
        let participant = |id: &str, name: &str| Participant {
            id: id.to_owned(),
            name: name.to_owned(),
            versions: vec![format!("{id} 1.0")],
        };
        Run {
            matrix: Size::Small,
            rounds: 5,
            seconds: 1,
            cores: Cores { servers: "0".to_owned(), load: "1".to_owned() },
            machine: "2 x a processor".to_owned(),
            generator: "wrk 4.1".to_owned(),
            binary: "tidegate 0.1".to_owned(),
            services: vec!["MariaDB 10".to_owned()],
            stacks: vec![
                participant("floor", "do-nothing server"),
                participant("tidegate-embedded", "Tidegate, embedded database"),
                participant("go", "Go, net/http, database/sql"),
            ],
            left_out: vec!["Python: python3 is not installed".to_owned()],
            begun: "2026-01-01 00:00 UTC".to_owned(),
            command: "cargo xtask report".to_owned(),
        }
    }

    #[test]
    fn a_run_that_was_broken_off_goes_on() {
        let scratch = Scratch::new("points", false).expect("a directory");
        let store = Store::open(scratch.path()).expect("a store");
        store.begin(&run()).expect("begun");
        let key = key("rows", "go", "a path, with blanks", 30);
        assert_eq!(store.point(&key), None);
        let mut point = Point {
            key: key.clone(),
            command: "wrk".to_owned(),
            seconds: 1,
            rounds: vec![sample(10.0, 5.0)],
            problem: None,
        };
        store.save(&point).expect("saved");
        point.rounds.push(sample(11.0, 6.0));
        store.save(&point).expect("saved");
        // What a writer that was killed leaves behind is no point.
        fs::write(scratch.path().join("points/rows.go.30.new"), "{").expect("written");

        let again = Store::open(scratch.path()).expect("a store");
        again.begin(&Run { rounds: 9, matrix: Size::Full, ..run() }).expect("it goes on");
        assert_eq!(again.point(&key), Some(point.clone()));
        assert_eq!(again.points().expect("points"), [point]);
        again.clear().expect("cleared");
        assert_eq!(again.points().expect("points"), []);
        assert!(again.run().is_err());
    }

    #[test]
    fn one_report_at_a_time_measures_into_a_directory() {
        let scratch = Scratch::new("points", false).expect("a directory");
        let store = Store::open(scratch.path()).expect("a store");
        let held = store.lock().expect("nobody else");
        let refusal = Store::open(scratch.path()).expect("a store").lock().err().unwrap_or_default();
        assert!(refusal.starts_with("another report measures into "), "{refusal}");
        drop(held);
        store.lock().expect("it is over");
    }

    #[test]
    fn a_file_that_was_cut_is_measured_again() {
        let scratch = Scratch::new("points", false).expect("a directory");
        let store = Store::open(scratch.path()).expect("a store");
        let key = key("cpu", "go", "", 1);
        let point = Point {
            key: key.clone(),
            command: String::new(),
            seconds: 1,
            rounds: vec![sample(1.0, 1.0)],
            problem: None,
        };
        store.save(&point).expect("saved");
        let file = scratch.path().join("points").join(key.file());
        let text = fs::read(&file).expect("text");
        fs::write(&file, &text[..text.len() / 2]).expect("written");
        assert_eq!(store.point(&key), None);
    }

    #[test]
    fn points_of_another_machine_or_version_are_refused() {
        let scratch = Scratch::new("points", false).expect("a directory");
        let store = Store::open(scratch.path()).expect("a store");
        store.begin(&run()).expect("begun");
        let mut newer = run();
        newer.stacks[2].versions = vec!["go 2.0".to_owned()];
        let fewer = Run { stacks: vec![run().stacks.remove(0)], ..run() };
        for (other, expected) in [
            (Run { binary: "tidegate 0.2".to_owned(), ..run() }, Some("binary: tidegate 0.1 then, tidegate 0.2 now")),
            (Run { seconds: 3, ..run() }, Some("seconds of a round: 1 then, 3 now")),
            (newer, Some("Go, net/http, database/sql: go 1.0 then, go 2.0 now")),
            (fewer, None),
        ] {
            let refusal = store.begin(&other).err();
            assert_eq!(refusal.is_some(), expected.is_some(), "{refusal:?}");
            assert!(refusal.unwrap_or_default().contains(expected.unwrap_or_default()));
        }
    }
}
