//! `tidegate load`: what its report says of runs in which something ends early, fails, or is not to be had.

mod support;

use std::net::TcpListener;

use support::Site;
use support::load::{all_well, failures, report};

fn site(server: &str) -> Site {
    let mut site = Site::new("worker_processes 1;", server);
    site.start();
    site
}

#[test]
fn requests_beyond_the_number_are_not_due() {
    let site = site(
        "location / { return 200 hello; } location /slow { content_by_lua_block { ngx.sleep(0.02) ngx.say('ok') } }",
    );
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", site.port);
    let done = report(&["-c", "4", "-n", "20", "-R", "400", "-d", "60s", &url("/")]);
    all_well(&done, 20);
    assert_eq!(done["not_sent"], 0, "{done:#}");
    // Time is over before the number: no more are missing than were wanted.
    let cut = report(&["-c", "1", "-n", "50", "-R", "10k", "-d", "200ms", &url("/slow")]);
    let (sent, left) = (cut["result"]["responses"].as_u64(), cut["not_sent"].as_u64());
    assert_eq!(sent.zip(left).map(|(sent, left)| sent + left), Some(50), "{cut:#}");
}

#[test]
fn requests_that_fail_take_their_time_too() {
    // The kernel connects, and that is all.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("bound").port());
    let silent = report(&["-c", "1", "-n", "3", "--timeout", "50ms", &url]);
    assert_eq!(failures(&silent, "time-out"), 3, "{silent:#}");
    assert!(silent["elapsed_s"].as_f64().is_some_and(|elapsed| elapsed >= 0.15), "{silent:#}");
}

#[test]
fn the_generator_costs_nothing_while_it_waits_and_its_warm_up_is_not_counted() {
    let site = site("location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let used = |report: &serde_json::Value| {
        let part = |name: &str| report["generator"][name].as_f64().expect("seconds");
        part("user_s") + part("system_s")
    };
    // Full seconds lie between two looks at the connections.
    let idle = report(&["-c", "1", "-d", "4s", "--warm-up", "50ms", "-R", "10", &url]);
    assert!(used(&idle) < 0.1, "{idle:#}");
    // A closed loop for 1 s, of which the last 20 ms count: the rest would be many times the time of one core.
    let warm = report(&["-c", "8", "-d", "20ms", "--warm-up", "1s", &url]);
    assert!(used(&warm) < 0.3, "{warm:#}");
}

#[test]
fn what_was_asked_for_is_told_and_secrets_are_not() {
    let site = site("location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let script = site.dir.join("script.lua");
    std::fs::write(&script, "wrk.headers['X-B'] = '2'").expect("written");
    let script = script.to_str().expect("text");
    let kept = report(&[
        "-n",
        "1",
        "-s",
        script,
        "-H",
        "X-A: 1",
        "-A",
        "tom:cat",
        "-C",
        "session=7",
        "-b",
        "abc",
        &url,
        "--",
        "x",
        "y",
    ]);
    let plan = &kept["plan"];
    assert_eq!(plan["script"], format!("{script} x y"), "{plan:#}");
    assert_eq!(plan["body_bytes"], 3);
    let headers = plan["headers"].to_string();
    assert!(headers.contains("X-A: 1") && headers.contains("Cookie: …"), "{headers}");
    assert!(!headers.contains("dG9t") && !headers.contains("session"), "{headers}");
}
