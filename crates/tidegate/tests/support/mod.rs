//! A server of the real binary in a directory of its own.

// Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod answers;
pub(crate) mod authority;
pub(crate) mod go_tool;
pub(crate) mod http2;
pub(crate) mod load;
pub(crate) mod mariadb;
pub(crate) mod pebble;
#[path = "../../../../tests/support/ports.rs"]
pub(crate) mod ports;
pub(crate) mod queues;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) use ports::free_port;

/// No step of any test takes longer, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a configuration, and the server that runs on it.
pub(crate) struct Site {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    child: Option<Child>,
}

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

/// Tries until `found` answers, and fails after [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < give_up, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Site {
    /// A directory whose `main` stands at the top of the configuration and `server` in its only server.
    pub(crate) fn new(main: &str, server: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tidegate-it-{}-{number}", std::process::id()));
        for sub in ["conf", "logs", "html"] {
            std::fs::create_dir_all(dir.join(sub)).expect("a directory");
        }
        let site = Self { dir, port: free_port(), child: None };
        site.configure(main, server);
        site
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, main: &str, server: &str) {
        let port = self.port;
        self.write_conf(&format!(
            "{main}\nerror_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ }}\n\
             http {{ server {{ listen 127.0.0.1:{port}; server_name localhost; {server} }} }}\n"
        ));
    }

    /// Puts the text in place of the configuration in one step: a server may be reading it.
    pub(crate) fn write_conf(&self, text: &str) {
        let (new, path) = (self.dir.join("conf/new"), self.dir.join("conf/nginx.conf"));
        std::fs::write(&new, text).expect("written");
        std::fs::rename(new, path).expect("renamed");
    }

    /// The binary with this site's prefix.
    pub(crate) fn command(&self) -> Command {
        let mut command = binary();
        command.arg("-p").arg(&self.dir);
        command
    }

    /// Runs the binary with further arguments to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        output(self.command().args(arguments))
    }

    /// Starts in the foreground and waits until it serves.
    #[track_caller]
    pub(crate) fn start(&mut self) {
        let child = self.command().args(["-g", "daemon off;"]).stdin(Stdio::null()).spawn().expect("the binary runs");
        self.child = Some(child);
        self.wait_until_serving();
    }

    /// Starts in the background. When the command returns, the server process has reported to its supervisor.
    #[track_caller]
    pub(crate) fn start_daemon(&self) -> Pid {
        let status = self.command().stdout(Stdio::null()).status().expect("the binary runs");
        assert!(status.success(), "{}", self.log());
        self.try_pid().expect("the pid file is there at once")
    }

    /// Ends what [`Self::start_daemon`] started.
    #[track_caller]
    pub(crate) fn quit_daemon(&self) {
        let pid = self.pid();
        self.signal(Signal::SIGQUIT);
        eventually("it ends", || (!is_running(pid)).then_some(()));
        self.check_gone();
    }

    #[track_caller]
    pub(crate) fn wait_until_serving(&self) {
        eventually("the server answers", || get(self.port, "/").ok());
    }

    /// The number in the pid file.
    #[track_caller]
    pub(crate) fn pid(&self) -> Pid {
        eventually("there is a pid file", || self.try_pid())
    }

    pub(crate) fn try_pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.dir.join("logs/nginx.pid")).ok()?;
        Some(Pid::from_raw(text.strip_suffix('\n')?.parse().expect("a number")))
    }

    /// The process that serves: the only one of a server that runs in the foreground without a supervisor, else the one under it.
    #[track_caller]
    pub(crate) fn server(&self) -> Pid {
        children(self.pid()).first().copied().unwrap_or_else(|| self.pid())
    }

    /// The process under the supervisor.
    #[track_caller]
    pub(crate) fn server_pid(&self) -> Pid {
        eventually("there is a server process", || children(self.pid()).first().copied())
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("delivered");
    }

    /// Waits for the end of what [`Self::start`] started.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("started");
        let status = eventually("the process ends", || child.try_wait().expect("our child"));
        self.child = None;
        status
    }

    /// Kills the supervisor and the process under it, which would otherwise serve on to its graceful end.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        // Stopped first: the supervisor is not to start another server, nor the server to see that its supervisor has gone.
        let supervisor = self.pid();
        let _ = kill(supervisor, Signal::SIGSTOP);
        let mut processes = children(supervisor);
        processes.push(supervisor);
        for pid in &processes {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        self.wait();
        eventually("all are gone", || (!processes.iter().any(|pid| is_running(*pid))).then_some(()));
    }

    /// Ends the server gracefully and checks that it leaves nothing behind.
    #[track_caller]
    pub(crate) fn quit(&mut self) {
        self.signal(Signal::SIGQUIT);
        assert_eq!(self.wait().code(), Some(0), "{}", self.log());
        self.check_gone();
    }

    #[track_caller]
    pub(crate) fn check_gone(&self) {
        assert_eq!(self.try_pid(), None);
        TcpListener::bind(("127.0.0.1", self.port)).map(drop).expect("the port is free");
    }

    /// The answer to a request for `/`.
    #[track_caller]
    pub(crate) fn get(&self) -> String {
        get(self.port, "/").expect("an answer")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("logs/error.log")).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) {
        eventually(&format!("the log says {text:?}"), || self.log().contains(text).then_some(()));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Only a test that failed leaves processes.
        let of_file = |name: &str| {
            let text = std::fs::read_to_string(self.dir.join("logs").join(name)).ok()?;
            text.trim().parse().ok().map(Pid::from_raw)
        };
        for pid in ["nginx.pid", "nginx.pid.oldbin"].into_iter().filter_map(of_file) {
            for pid in children(pid).into_iter().chain([pid]) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- error log\n{}", self.log());
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A connection that fails rather than hangs.
pub(crate) fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// One request on a connection of its own; the whole response.
pub(crate) fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = connect(port)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    if response.starts_with("HTTP/1.1 ") { Ok(response) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// The next connection of a listener; fails after [`PATIENCE`] rather than hang.
#[track_caller]
pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("set");
    let (stream, _) = eventually("somebody connects", || listener.accept().ok());
    stream.set_nonblocking(false).expect("set");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Waits until the server has accepted a connection of ours and has read all that was sent on it.
#[track_caller]
pub(crate) fn wait_until_read(stream: &TcpStream) {
    let ours = stream.local_addr().expect("connected").port();
    let theirs = stream.peer_addr().expect("connected").port();
    eventually("the server has read it", || {
        // From proc(5): local address, remote address, state, queues and, as the tenth word, the number of the socket,
        // 0 until it was accepted.
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
        let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| {
            let ends_with = |word: &str, port: u16| word.ends_with(&format!(":{port:04X}"));
            row.len() > 9 && ends_with(row[1], theirs) && ends_with(row[2], ours)
        })?;
        (row[4].ends_with(":00000000") && row[9] != "0").then_some(())
    });
}

/// Runs a program to its end and fails rather than hang.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> Output {
    finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
}

/// Waits for the end of a program and fails rather than hang.
#[track_caller]
pub(crate) fn finish(child: Child) -> Output {
    let pid = Pid::from_raw(child.id().try_into().expect("a process number"));
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    if let Ok(output) = end.recv_timeout(PATIENCE) {
        return output.expect("its output");
    }
    let _ = kill(pid, Signal::SIGKILL);
    panic!("process {pid} does not end");
}

/// The processes whose parent this is.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw).collect()
}

/// Whether a process runs; one that ended and was not waited for does not.
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// What a symbolic link in `/proc` leads to.
pub(crate) fn link(pid: Pid, name: &str) -> PathBuf {
    std::fs::read_link(Path::new("/proc").join(pid.to_string()).join(name)).expect("our process")
}
