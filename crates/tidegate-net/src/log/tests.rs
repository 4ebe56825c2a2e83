//! The writer thread, seen from outside. All tests of this crate share one process and so one writer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Arc<LogFile> {
    let file = LogFile::register(Destination::File(path.to_owned()));
    open_registered().expect("opened");
    file
}

#[track_caller]
fn wait_for(path: &Path, expected: &str) {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text == expected {
            return;
        }
        assert!(Instant::now() < give_up, "{} holds {text:?}, not {expected:?}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_path_is_one_file() {
    let dir = Dir::new("one");
    let path = dir.file("a.log");
    let (first, second) = (open(&path), open(&path));
    assert!(Arc::ptr_eq(&first, &second));
    let missing = LogFile::register(Destination::File(dir.file("no/such/dir.log")));
    let error = missing.open().expect_err("no such directory");
    assert!(error.to_string().ends_with("failed (2: No such file or directory)"), "{error}");
}

#[test]
fn lines_appear_without_flushing_and_in_order() {
    start_writer().expect("a thread");
    let dir = Dir::new("order");
    let path = dir.file("a.log");
    let log = AccessLog::new(open(&path), None);
    let mut expected = String::new();
    for number in 0..1000 {
        log.write(|line| line.extend_from_slice(format!("line {number}").as_bytes()));
        expected += &format!("line {number}\n");
    }
    wait_for(&path, &expected);
}

#[test]
fn threads_lose_nothing() {
    start_writer().expect("a thread");
    let dir = Dir::new("threads");
    let path = dir.file("a.log");
    let log = AccessLog::new(open(&path), None);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    log.write(|line| line.extend_from_slice(b"0123456789"));
                }
            });
        }
    });
    flush();
    let text = std::fs::read_to_string(&path).expect("readable");
    assert_eq!(text.lines().filter(|line| *line == "0123456789").count(), 20_000);
    assert_eq!(text.len(), 20_000 * 11);
}

#[test]
fn buffers_are_written_when_due() {
    start_writer().expect("a thread");
    let dir = Dir::new("buffers");
    let path = dir.file("due.log");
    let flush = Some(Duration::from_millis(20));
    let log = AccessLog::new(open(&path), Some(Buffering { size: 1 << 16, flush, gzip: None }));
    log.write(|line| line.extend_from_slice(b"abc"));
    wait_for(&path, "abc\n");
}

#[test]
fn gzip_buffers_are_members() {
    start_writer().expect("a thread");
    let dir = Dir::new("gzip");
    let path = dir.file("a.log.gz");
    let log = AccessLog::new(open(&path), Some(Buffering { size: 4, flush: None, gzip: Some(1) }));
    for line in [b"abc", b"def", b"ghi"] {
        log.write(|out| out.extend_from_slice(line));
    }
    flush();
    let packed = std::fs::read(&path).expect("readable");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, "abc\ndef\nghi\n");
}

#[test]
fn reopening_follows_the_name() {
    start_writer().expect("a thread");
    let dir = Dir::new("reopen");
    let (path, old) = (dir.file("a.log"), dir.file("a.log.1"));
    let log = AccessLog::new(open(&path), None);
    log.write(|line| line.extend_from_slice(b"before"));
    flush();
    std::fs::rename(&path, &old).expect("renamed");
    // Files of other tests may be gone by now; theirs are not looked at.
    let _ = reopen();
    log.write(|line| line.extend_from_slice(b"after"));
    wait_for(&path, "after\n");
    wait_for(&old, "before\n");
}

#[test]
fn computed_paths_reach_their_files() {
    start_writer().expect("a thread");
    let dir = Dir::new("computed");
    let log = AccessLog::with_computed_path(None);
    for host in ["a", "b", "a"] {
        let path = dir.file(host).into_os_string().into_encoded_bytes();
        log.write_to(&path, |line| line.extend_from_slice(host.as_bytes()));
    }
    wait_for(&dir.file("a"), "a\na\n");
    wait_for(&dir.file("b"), "b\n");
}

#[test]
fn a_log_that_takes_nothing_loses_lines_not_memory() {
    start_writer().expect("a thread");
    let file = open(Path::new("/dev/full"));
    let log = AccessLog::new(Arc::clone(&file), None);
    log.write(|line| line.extend_from_slice(b"x"));
    flush();
    // Either still counted or reported already by the writer.
    let _ = file.take_lost();
    log.write(|line| line.extend_from_slice(b"x"));
    flush();
}
