//! `tidegate load`: what its report says of runs in which something ends early, fails, or is not to be had.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;

use support::load::{all_well, failures, load, report};
use support::{Site, binary, output};

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
fn a_response_behind_its_time_has_not_come() {
    let site = site("location / { content_by_lua_block { ngx.sleep(0.08) ngx.say('ok') } }");
    let late = report(&["-c", "1", "-n", "3", "--timeout", "50ms", &format!("http://127.0.0.1:{}/", site.port)]);
    assert_eq!((failures(&late, "time-out"), late["result"]["responses"].as_u64()), (3, Some(0)), "{late:#}");
}

#[test]
fn seconds_behind_the_end_are_none_of_the_run() {
    let site = site("location / { content_by_lua_block { ngx.sleep(1.5) ngx.say('ok') } }");
    let waited = report(&["-c", "1", "-d", "300ms", "--timeout", "30s", &format!("http://127.0.0.1:{}/", site.port)]);
    all_well(&waited, 1);
    let seconds = waited["seconds"].as_array().expect("rows");
    assert_eq!((seconds.len(), seconds[0]["responses"].as_u64()), (1, Some(0)), "{waited:#}");
    assert!(seconds[0]["seconds"].as_f64().is_some_and(|length| length < 0.31), "{waited:#}");
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

#[test]
fn a_script_that_fails_in_one_thread_ends_the_run() {
    let site = site("location / { return 200 hello; }");
    let script = site.dir.join("script.lua");
    let text = "local threads = 0 function setup(thread) threads = threads + 1 thread:set('id', threads) end \
                local sent = 0 function request() sent = sent + 1 \
                if id == 2 and sent == 5 then error('the second is ill') end return wrk.format() end";
    std::fs::write(&script, text).expect("written");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let run = load(&["-q", "-d", "10m", "-t", "3", "-c", "3", "-s", script.to_str().expect("text"), &url]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code() == Some(1) && said.contains("the second is ill"), "{said}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("200: "), "what there is was reported");
}

#[test]
fn more_connections_than_open_files_are_refused_ahead_of_the_run() {
    let site = site("location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let limited = |arguments: &str| {
        let program = binary().get_program().to_string_lossy().into_owned();
        output(Command::new("sh").args(["-c", &format!("ulimit -n 64; exec {program} load -q {arguments} {url}")]))
    };
    let refused = limited("-c 100 -d 1s");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("this process may have 64"), "{said}");
    // Of a hundred connections five are opened.
    let few = limited("-c 100 -n 5");
    assert!(few.status.success(), "{}", String::from_utf8_lossy(&few.stderr));
}

/// Begins to serve each connection by its own words of HTTP/2, which come when something was asked; the answer is the URL, and what each
/// client has said.
fn http2_that_says(frames: &'static [u8]) -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("bound").port());
    let (said, heard) = mpsc::channel();
    // It ends with the test's process.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let asked = serve(&mut stream, frames);
            if !asked.is_empty() && said.send(asked).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

fn serve(stream: &mut TcpStream, frames: &[u8]) -> Vec<u8> {
    let (mut asked, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        if asked.is_empty() {
            // A client that has seen enough closes.
            let _ = stream.write_all(frames);
        }
        asked.extend_from_slice(&piece[..count]);
    }
    asked
}

#[test]
fn http2_servers_that_end_each_connection_or_begin_with_a_body_end_no_run_late() {
    // GOAWAY with NO_ERROR, which takes no stream.
    let (url, _heard) =
        http2_that_says(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let gone = report(&["-c", "1", "-n", "3", "--http2", &url]);
    assert_eq!((failures(&gone, "stream"), gone["failed"].as_u64()), (3, Some(3)), "{gone:#}");
    // DATA with END_STREAM on stream 1, without a head.
    let (url, _heard) = http2_that_says(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, b'x']);
    let headless = report(&["-c", "1", "-n", "1", "--http2", &url]);
    assert_eq!(
        (failures(&headless, "malformed"), headless["result"]["responses"].as_u64()),
        (1, Some(0)),
        "{headless:#}"
    );
    // HEADERS whose status is 99.
    let (url, _heard) =
        http2_that_says(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4, 1, 5, 0, 0, 0, 1, 0x08, 0x02, b'9', b'9']);
    let low = report(&["-c", "1", "-n", "1", "--http2", &url]);
    assert_eq!(failures(&low, "malformed"), 1, "{low:#}");
}

#[test]
fn a_response_ahead_of_the_end_of_its_request_ends_the_stream() {
    // HEADERS with END_HEADERS and END_STREAM on stream 1: the status is 200.
    let (url, heard) = http2_that_says(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]);
    let site = Site::new("", "");
    let body = site.dir.join("body");
    std::fs::write(&body, vec![b'a'; 300_000]).expect("written");
    let early = report(&["-c", "1", "-n", "1", "--http2", "-p", body.to_str().expect("text"), &url]);
    all_well(&early, 1);
    let asked = heard.recv_timeout(support::PATIENCE).expect("the request");
    // RST_STREAM of stream 1 with CANCEL.
    let reset = [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
    assert!(asked.windows(reset.len()).any(|window| window == reset), "the server would wait for the rest of the body");
}

#[test]
fn no_more_streams_than_are_usual_begin_ahead_of_the_settings() {
    // A server that says nothing at all.
    let (url, heard) = http2_that_says(&[]);
    let silent = report(&["-c", "1", "-n", "150", "--http2", "--streams", "150", "--timeout", "300ms", &url]);
    assert_eq!(failures(&silent, "time-out"), 150, "{silent:#}");
    let asked = heard.recv_timeout(support::PATIENCE).expect("the requests");
    // HEADERS with END_HEADERS and END_STREAM, and the first half of the stream's number.
    assert_eq!(asked.windows(4).filter(|window| *window == [1, 5, 0, 0]).count(), 100);
}
