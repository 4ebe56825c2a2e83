//! Reloads and upgrades: nobody who talks to the server notices.

mod support;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::{Signal, kill};
use support::{Site, children, connect, eventually, free_port, get, is_running, wait_until_read};

const MODES: [&str; 2] = ["master_process off;", "master_process on;"];

fn shows_version(response: &str) -> bool {
    response.contains("\r\nServer: tidegate/")
}

#[test]
fn a_reload_serves_the_new_configuration() {
    for main in MODES {
        let mut site = Site::new(main, "");
        site.start();
        assert!(shows_version(&site.get()));
        site.configure(&format!("{main} worker_processes 3;"), "server_tokens off;");
        site.signal(Signal::SIGHUP);
        eventually("the new configuration serves", || (!shows_version(&site.get())).then_some(()));
        site.quit();
    }
}

#[test]
fn reloads_in_a_row_end_with_the_last_configuration() {
    for main in MODES {
        let mut site = Site::new(main, "");
        site.start();
        for round in 0..10 {
            site.configure(main, &format!("location = / {{ return 200 round{round}; }}"));
            site.signal(Signal::SIGHUP);
        }
        eventually("the last configuration serves", || site.get().ends_with("\r\n\r\nround9").then_some(()));
        site.quit();
    }
}

#[test]
fn a_server_process_that_died_ahead_of_a_reload_comes_back_with_the_new_configuration() {
    let main = "master_process on;";
    let mut site = Site::new(main, "");
    site.start();
    let died = site.server_pid();
    // Both signals wait for the supervisor, who is told of the lower number first.
    site.signal(Signal::SIGSTOP);
    kill(died, Signal::SIGKILL).expect("killed");
    eventually("the server process has died", || (!is_running(died)).then_some(()));
    site.configure(main, "location = / { return 200 new; }");
    site.signal(Signal::SIGHUP);
    site.signal(Signal::SIGCONT);
    eventually("a server process is there", || children(site.pid()).into_iter().find(|pid| *pid != died));
    assert!(site.get().ends_with("\r\n\r\nnew"));
    site.quit();
}

#[test]
fn a_reload_opens_and_closes_ports() {
    for main in MODES {
        let mut site = Site::new(main, "");
        site.start();
        let extra = free_port();
        site.configure(main, &format!("listen 127.0.0.1:{extra} reuseport;"));
        site.signal(Signal::SIGHUP);
        eventually("the new port answers", || get(extra, "/").ok());
        site.configure(main, "");
        site.signal(Signal::SIGHUP);
        eventually("the old port is closed", || connect(extra).is_err().then_some(()));
        site.get();
        site.quit();
    }
}

#[test]
fn a_bad_configuration_leaves_the_old_one_serving() {
    for main in MODES {
        let mut site = Site::new(main, "");
        site.start();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let bad = [
            ("retrun 200;".to_owned(), "unknown directive \"retrun\""),
            (format!("listen {};", taken.local_addr().expect("bound")), "still could not bind()"),
            ("error_log no/such/dir/x.log;".to_owned(), "no/such/dir/x.log\" failed (2:"),
        ];
        for (server, logged) in bad {
            site.configure(main, &format!("server_tokens off; {server}"));
            site.signal(Signal::SIGHUP);
            site.wait_for_log(logged);
            assert!(shows_version(&site.get()));
        }
        // And a good one afterwards is taken.
        site.configure(main, "server_tokens off;");
        site.signal(Signal::SIGHUP);
        eventually("the new configuration serves", || (!shows_version(&site.get())).then_some(()));
        site.quit();
    }
}

#[test]
fn pid_file_and_unix_sockets_follow_a_reload() {
    for main in MODES {
        let mut site = Site::new(main, "");
        let (first, second) = (site.dir.join("1.sock"), site.dir.join("2.sock"));
        site.configure(main, &format!("listen unix:{};", first.display()));
        site.start();
        assert!(first.exists());
        let port = site.port;
        site.write_conf(&format!(
            "{main} error_log logs/error.log notice; pid logs/other.pid; events {{ }} http {{ server {{ \
             listen 127.0.0.1:{port}; listen unix:{}; }} }}",
            second.display()
        ));
        let pid = site.pid();
        site.signal(Signal::SIGHUP);
        eventually("the pid file has moved", || {
            (!site.dir.join("logs/nginx.pid").exists() && site.dir.join("logs/other.pid").exists()).then_some(())
        });
        assert!(!first.exists() && second.exists());
        kill(pid, Signal::SIGQUIT).expect("delivered");
        assert_eq!(site.wait().code(), Some(0));
        assert!(!second.exists() && !site.dir.join("logs/other.pid").exists());
    }
}

#[test]
fn reloads_under_load_lose_no_request() {
    for (main, listen) in [(MODES[0], ""), (MODES[1], ""), (MODES[1], " reuseport")] {
        let mut site = Site::new(main, "");
        let port = site.port;
        let conf = |name: &str, workers: usize| {
            format!(
                "{main} worker_processes {workers}; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }} \
                 http {{ server {{ listen 127.0.0.1:{port}{listen}; server_name {name}; }} }}"
            )
        };
        site.write_conf(&conf("first", 2));
        site.start();
        let done = AtomicBool::new(false);
        let answered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|number| {
                    let (done, answered) = (&done, &answered);
                    scope.spawn(move || {
                        while !done.load(Ordering::Relaxed) {
                            // Half of them keep their connections.
                            let requests = if number % 2 == 0 { 1 } else { 20 };
                            if let Err(error) = talk(port, requests, answered) {
                                return Some(error);
                            }
                        }
                        None
                    })
                })
                .collect();
            for round in 0..20 {
                let before = site.log().matches("reconfiguring").count();
                site.write_conf(&conf(&format!("round{round}"), 2));
                site.signal(Signal::SIGHUP);
                eventually("it reloads", || (site.log().matches("reconfiguring").count() > before).then_some(()));
                // A little load on each configuration.
                let target = answered.load(Ordering::Relaxed) + 20;
                eventually("requests are answered", || (answered.load(Ordering::Relaxed) > target).then_some(()));
            }
            done.store(true, Ordering::Relaxed);
            for client in clients {
                let error = client.join().expect("no panic");
                assert!(error.is_none(), "{main}{listen}: a request failed: {error:?}");
            }
        });
        site.quit();
        assert!(!site.log().contains("[alert]"), "{}", site.log());
    }
}

/// Sends requests one after the other on one connection. A server that is leaving may close it between two of them.
fn talk(port: u16, requests: usize, answered: &AtomicUsize) -> std::io::Result<()> {
    let mut stream = connect(port)?;
    for number in 1..=requests {
        let connection = if number == requests { "close" } else { "keep-alive" };
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
        let sent = stream.write_all(request.as_bytes());
        let response = sent.and_then(|()| read_response(&mut stream));
        match response {
            Ok(true) => answered.fetch_add(1, Ordering::Relaxed),
            // Closed before the request was looked at: clients repeat it, as RFC 9112 has it.
            Ok(false) | Err(_) if number > 1 => return Ok(()),
            Ok(false) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// Reads head and body. `false` if the connection ended before the first byte.
fn read_response(stream: &mut std::net::TcpStream) -> std::io::Result<bool> {
    let mut response = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&response).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Ok(true);
            }
        }
        match stream.read(&mut buf)? {
            0 if response.is_empty() => return Ok(false),
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => response.extend_from_slice(&buf[..count]),
        }
    }
}

#[test]
fn old_workers_finish_their_requests() {
    for main in MODES {
        let mut site = Site::new(main, "");
        site.start();
        let mut slow = connect(site.port).expect("connected");
        slow.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        wait_until_read(&slow);
        site.configure(main, "server_tokens off;");
        site.signal(Signal::SIGHUP);
        eventually("the new configuration serves", || (!shows_version(&site.get())).then_some(()));
        slow.write_all(b"Host: localhost\r\n\r\n").expect("sent");
        let mut answer = String::new();
        slow.read_to_string(&mut answer).expect("an answer");
        assert!(shows_version(&answer), "{answer}");
        site.quit();
    }
}

#[test]
fn a_new_binary_takes_over_the_sockets() {
    let site = Site::new("", "");
    let old = site.start_daemon();
    kill(old, Signal::SIGUSR2).expect("delivered");
    let new = eventually("there is a new supervisor", || site.try_pid().filter(|pid| *pid != old));
    assert!(site.dir.join("logs/nginx.pid.oldbin").exists());
    site.wait_for_log("using inherited sockets from \"");
    // The old server process goes, its supervisor stays until it is told to.
    kill(old, Signal::SIGWINCH).expect("delivered");
    eventually("the old server process is gone", || {
        let children = support::children(old);
        children.iter().all(|pid| *pid == new || !is_running(*pid)).then_some(())
    });
    site.get();
    kill(old, Signal::SIGQUIT).expect("delivered");
    eventually("the old supervisor is gone", || (!is_running(old)).then_some(()));
    assert!(!site.dir.join("logs/nginx.pid.oldbin").exists());
    site.get();
    assert_eq!(site.pid(), new);
    site.quit_daemon();
}

#[test]
fn an_upgrade_may_be_taken_back() {
    let site = Site::new("", "");
    let unix = site.dir.join("site.sock");
    site.configure("", &format!("listen unix:{};", unix.display()));
    let old = site.start_daemon();
    kill(old, Signal::SIGUSR2).expect("delivered");
    let new = eventually("there is a new supervisor", || site.try_pid().filter(|pid| *pid != old));
    site.wait_for_log("using inherited sockets from \"");
    kill(new, Signal::SIGQUIT).expect("delivered");
    eventually("the old one has its pid file back", || site.try_pid().filter(|pid| *pid == old));
    site.get();
    // The socket still is the old one's.
    assert!(unix.exists());
    site.quit_daemon();
    assert!(!unix.exists());
}

/// What a process holds: descriptors, threads, resident memory in kB.
fn holdings(pid: nix::unistd::Pid) -> (usize, usize, usize) {
    let count = |name: &str| std::fs::read_dir(format!("/proc/{pid}/{name}")).expect("our process").count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("our process");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of proc(5)");
    let rss = rss.trim().strip_suffix(" kB").expect("in kB").parse().expect("a number");
    (count("fd"), count("task"), rss)
}

#[test]
fn reloads_leave_nothing_behind() {
    /// A reload may keep what the allocator has not given back; a configuration with its Lua machines is larger than this.
    const RSS_KB_MAX: usize = 100;
    let rounds: usize = std::env::var("TIDEGATE_RELOADS").map_or(60, |text| text.parse().expect("a number"));
    for main in MODES {
        let main = format!("{main} worker_processes 2;");
        let mut site = Site::new(&main, "");
        let (extra, unix) = (free_port(), site.dir.join("x.sock"));
        let server = |round: usize| {
            format!(
                "listen 127.0.0.1:{extra} reuseport; listen unix:{}; location = / {{ return 200 round{round}-; }}
                 location /lua {{ content_by_lua_block {{ ngx.say(1) }} }}",
                unix.display()
            )
        };
        site.configure(&main, &server(0));
        site.start();
        let pid = if main.contains("process on") { site.server_pid() } else { site.pid() };
        let mut reload = |round: usize| {
            site.configure(&main, &server(round));
            site.signal(Signal::SIGHUP);
            eventually("the new configuration serves", || {
                site.get().ends_with(&format!("round{round}-")).then_some(())
            });
        };
        let warm_up = rounds / 3;
        (1..=warm_up).for_each(&mut reload);
        let (fds, threads, rss_kb) = settled(pid);
        (warm_up + 1..=rounds).for_each(&mut reload);
        eventually("descriptors and threads are those of before", || {
            let (fds_now, threads_now, _) = holdings(pid);
            (fds_now <= fds && threads_now <= threads).then_some(())
        });
        let (_, _, rss_now_kb) = holdings(pid);
        let grown_kb = rss_now_kb.saturating_sub(rss_kb);
        eprintln!("{main} {rounds} reloads: {fds} descriptors, {threads} threads, {rss_kb} kB and {grown_kb} kB more");
        assert!(grown_kb < (rounds - warm_up) * RSS_KB_MAX, "{grown_kb} kB more after {} reloads", rounds - warm_up);
        site.quit();
    }
}

/// What the process holds when the workers of the reload before have gone.
fn settled(pid: nix::unistd::Pid) -> (usize, usize, usize) {
    let mut last = holdings(pid);
    let mut same = 0;
    eventually("old workers are gone", || {
        let now = holdings(pid);
        same = if (now.0, now.1) == (last.0, last.1) { same + 1 } else { 0 };
        last = now;
        (same > 200).then_some(last)
    })
}
