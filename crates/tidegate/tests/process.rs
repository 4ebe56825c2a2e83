//! Starting, stopping, supervising: what systemd, scripts and harnesses rely on.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{PATIENCE, Site, connect, eventually, is_running, link, wait_until_read};

const ALONE: &str = "master_process off;";
const SUPERVISED: &str = "master_process on;";

#[test]
fn signals_end_it_and_nothing_stays_behind() {
    for main in [ALONE, SUPERVISED] {
        for signal in [Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGINT] {
            let mut site = Site::new(main, "");
            site.start();
            site.signal(signal);
            assert_eq!(site.wait().code(), Some(0), "{main} {signal}");
            site.check_gone();
            assert!(!site.log().contains("[alert]"), "{}", site.log());
        }
    }
}

#[test]
fn options_send_signals() {
    let mut site = Site::new(SUPERVISED, "");
    site.start();
    for (name, logged) in [("reload", "reconfiguring"), ("reopen", "reopening logs"), ("stop", "exiting")] {
        assert!(site.run(&["-s", name]).status.success());
        site.wait_for_log(logged);
    }
    assert_eq!(site.wait().code(), Some(0));
    site.start();
    assert!(site.run(&["-s", "quit"]).status.success());
    assert_eq!(site.wait().code(), Some(0));
    site.check_gone();
}

#[test]
fn a_daemon_serves_when_the_command_returns() {
    for main in [ALONE, SUPERVISED] {
        let site = Site::new(main, "");
        let here = std::env::current_dir().expect("somewhere");
        let pid = site.start_daemon();
        site.get();
        assert_eq!(link(pid, "cwd"), here);
        for (stream, expected) in [("fd/0", Path::new("/dev/null")), ("fd/1", Path::new("/dev/null"))] {
            assert_eq!(link(pid, stream), expected);
        }
        assert_eq!(link(pid, "fd/2"), site.dir.join("logs/error.log"));
        site.quit_daemon();
    }
}

#[test]
fn a_start_that_fails_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    for (main, server, expected) in [
        (ALONE.to_owned(), format!("listen {};", taken.local_addr().expect("bound")), "Address already in use"),
        (
            "pid no/such/dir/x.pid;".to_owned(),
            String::new(),
            "no/such/dir/x.pid\" failed (2: No such file or directory)",
        ),
        ("user no-such-user;".to_owned(), String::new(), "getpwnam(\"no-such-user\") failed"),
        ("error_log no/such/dir/x.log;".to_owned(), String::new(), "no/such/dir/x.log\" failed (2:"),
        ("worker_cpu_affinity 012;".to_owned(), String::new(), "invalid character \"2\" in \"worker_cpu_affinity\""),
    ] {
        let site = Site::new("", "");
        let port = site.port;
        let pid = if main.starts_with("pid") { "" } else { "pid logs/nginx.pid;" };
        site.write_conf(&format!(
            "{main} {pid} events {{ }} http {{ server {{ listen 127.0.0.1:{port}; {server} }} }}"
        ));
        if main.starts_with("user") && !nix::unistd::Uid::effective().is_root() {
            continue;
        }
        let output = site.run(&[]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{main}{server}: {err}");
        assert!(err.contains("tidegate: [emerg]") && err.contains(expected), "{expected:?} is not in {err}");
        assert!(site.log().contains(expected), "{expected:?} is not in {}", site.log());
        site.check_gone();
    }
}

#[test]
fn a_server_process_that_dies_comes_back() {
    let site = Site::new("worker_processes 2;", "");
    let supervisor = site.start_daemon();
    for signal in [Signal::SIGKILL, Signal::SIGABRT] {
        let first = site.server_pid();
        kill(first, signal).expect("delivered");
        eventually("it is gone", || (!is_running(first)).then_some(()));
        // Connections wait in the queue of the socket, which the supervisor holds open.
        site.get();
        assert_ne!(site.server_pid(), first);
        assert_eq!(site.pid(), supervisor);
        site.wait_for_log(&format!(
            "[alert] {supervisor}#{supervisor}: worker process {first} exited on signal {}",
            signal as i32
        ));
    }
    site.quit_daemon();
}

#[test]
fn a_server_process_without_supervisor_goes() {
    let mut site = Site::new(SUPERVISED, "");
    site.start();
    let server = site.server_pid();
    site.signal(Signal::SIGKILL);
    site.wait();
    eventually("it ends", || (!is_running(server)).then_some(()));
    eventually("the port is free", || TcpListener::bind(("127.0.0.1", site.port)).ok());
    std::fs::remove_file(site.dir.join("logs/nginx.pid")).expect("left behind by the kill");
    // And the next start finds nothing in its way.
    site.start();
    site.quit();
}

#[test]
fn logs_are_reopened() {
    for main in [ALONE, SUPERVISED] {
        let mut site = Site::new(main, "");
        site.start();
        let (current, old) = (site.dir.join("logs/error.log"), site.dir.join("logs/error.log.1"));
        std::fs::rename(&current, &old).expect("renamed");
        site.signal(Signal::SIGUSR1);
        eventually("there is a new log", || current.exists().then_some(()));
        site.quit();
        assert!(site.log().contains(": exit\n"), "{}", site.log());
        let before = std::fs::read_to_string(&old).expect("there");
        assert!(before.contains("reopening logs") && !before.contains(": exit\n"), "{before}");
    }
}

#[test]
fn a_graceful_end_waits_for_requests_only() {
    for main in [ALONE, SUPERVISED] {
        let mut site = Site::new(main, "");
        site.start();
        let mut idle = connect(site.port).expect("connected");
        idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut first = [0; 12];
        idle.read_exact(&mut first).expect("an answer");
        let mut slow = connect(site.port).expect("connected");
        slow.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        // The beginning of the request must have been read, or it would be refused as new.
        wait_until_read(&slow);
        site.signal(Signal::SIGQUIT);
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).expect("closed");
        eventually("the port refuses", || connect(site.port).is_err().then_some(()));
        slow.write_all(b"Host: localhost\r\n\r\n").expect("sent");
        let mut answer = String::new();
        slow.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        assert_eq!(site.wait().code(), Some(0));
        site.check_gone();
    }
}

#[test]
fn a_graceful_end_may_be_limited() {
    let mut site = Site::new("worker_shutdown_timeout 100ms;", "");
    site.start();
    let mut slow = connect(site.port).expect("connected");
    slow.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
    wait_until_read(&slow);
    site.quit();
}

#[test]
fn a_unix_socket_is_removed_at_the_end() {
    for main in [ALONE, SUPERVISED] {
        let mut site = Site::new(main, "");
        let path = site.dir.join("x.sock");
        site.configure(main, &format!("listen unix:{};", path.display()));
        site.start();
        let mut stream = UnixStream::connect(&path).expect("listening");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        site.quit();
        assert!(!path.exists());
    }
}

#[test]
fn the_server_process_changes_its_user() {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let mut site = Site::new("user nobody;", "");
    site.start();
    let uid = |pid: Pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("running");
        status.lines().find(|line| line.starts_with("Uid:")).expect("a line").to_owned()
    };
    let nobody = nix::unistd::User::from_name("nobody").expect("asked").expect("there").uid;
    assert_eq!(uid(site.server_pid()), format!("Uid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}"));
    assert_eq!(uid(site.pid()), "Uid:\t0\t0\t0\t0");
    // What workers write to is theirs.
    let temp = std::fs::metadata(site.dir.join("client_body_temp")).expect("made");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&temp), nobody.as_raw());
    // A reload reads what only root may read, and opens a log where only root may write.
    let secret = site.dir.join("conf/secret.conf");
    std::fs::write(&secret, "server_tokens off;").expect("written");
    let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, only_owner).expect("changed");
    site.configure("user nobody; error_log logs/second.log notice;", "include secret.conf;");
    site.signal(Signal::SIGHUP);
    eventually("the new configuration serves", || site.get().contains("\r\nServer: tidegate\r\n").then_some(()));
    site.quit();
    let second = std::fs::read_to_string(site.dir.join("logs/second.log")).expect("there");
    assert!(second.contains(": exit\n"), "{second}");
}

#[test]
fn errors_reach_the_default_file_where_only_syslog_is_named() {
    let syslog = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut site = Site::new("", "");
    site.write_conf(&format!(
        "error_log syslog:server={} info;\nmaster_process off;\npid logs/nginx.pid;\nevents {{ }}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{}; root html; }} }}\n",
        syslog.local_addr().expect("bound"),
        site.port
    ));
    site.start();
    let response = support::get(site.port, "/missing").expect("an answer");
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    site.wait_for_log("/missing\" failed (2: No such file or directory)");
    site.quit();
}
