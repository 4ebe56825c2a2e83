//! `tidegate load` against the server, and against servers that misbehave.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::authority::Authority;
use support::load::{all_well, failures, load, report};
use support::{Site, binary};

fn site(server: &str) -> Site {
    let mut site = Site::new("worker_processes 1;", server);
    site.start();
    site
}

/// A server that gives each request on its connections the next answer and closes; whoever connects and asks nothing, as the
/// generator does at its beginning, takes none.
struct Raw {
    port: u16,
    thread: std::thread::JoinHandle<()>,
}

impl Raw {
    fn start(answers: Vec<Vec<u8>>, mut write: impl FnMut(&mut TcpStream, &[u8]) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let thread = std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            let mut answer = answers.next();
            while let Some(bytes) = &answer {
                let mut stream = support::accept(&listener);
                if has_asked(&mut stream) {
                    write(&mut stream, bytes);
                    answer = answers.next();
                }
            }
        });
        Self { port, thread }
    }
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
    fn finish(self) {
        self.thread.join().expect("all answers were wanted");
    }
}

/// Reads a request's head; `false` if none comes.
fn has_asked(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return false,
            Ok(count) => head.extend_from_slice(&piece[..count]),
        }
    }
    true
}

fn at_once(stream: &mut TcpStream, bytes: &[u8]) {
    // A client that has seen enough closes.
    let _ = stream.write_all(bytes);
}

#[test]
fn connections_are_kept_or_not() {
    let site = site("keepalive_requests 100000; location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let kept = report(&["-c", "4", "-n", "203", "-t", "2", &url]);
    all_well(&kept, 203);
    assert_eq!(kept["connections_opened"], 4);
    assert!(kept["requests_per_s"].as_f64().expect("a rate") > 0.0);
    let new = report(&["-c", "4", "-n", "50", "--no-keep-alive", &url]);
    all_well(&new, 50);
    assert_eq!(new["connections_opened"], 50);
    // Requests of the warm-up are others.
    all_well(&report(&["-c", "2", "-n", "50", "--warm-up", "50ms", &url]), 50);
    // By time, with a warm-up; the text.
    let output = load(&["-c", "2", "-d", "200ms", "--warm-up", "50ms", "--latency", "-q", &url]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("99.999 %") && text.contains("\nRequests/sec: "), "{text}");
}

#[test]
fn a_server_that_closes_connections_is_followed() {
    let site = site("http2 on; keepalive_requests 10; location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    for arguments in [&["-c", "3"][..], &["-c", "2", "--http2"], &["-c", "2", "--http2", "--streams", "7"]] {
        let report = report(&[arguments, &["-n", "200", &url]].concat());
        all_well(&report, 200);
        assert!(report["connections_opened"].as_u64().expect("a number") >= 20, "{report:#}");
    }
}

#[test]
fn what_requests_are_made_of() {
    let site = site(
        "location /echo { content_by_lua_block { ngx.req.read_body() \
             if ngx.req.get_method() ~= 'PUT' or ngx.req.get_body_data() ~= 'a=b' or ngx.var.http_x_a ~= '1' \
             or ngx.var.remote_user ~= 'tom' or ngx.var.cookie_c ~= '2' or ngx.var.content_type ~= 'text/x' \
             or ngx.var.http_host ~= 'other' then ngx.exit(400) end ngx.say('ok') } }\
         location /form { content_by_lua_block { \
             if ngx.var.content_type ~= 'application/x-www-form-urlencoded' or ngx.req.get_method() ~= 'POST' then ngx.exit(400) end } }\
         location /head { return 200 hello; } location /gone { return 410; } location /none { return 204; }",
    );
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", site.port);
    let more = ["-H", "X-A: 1", "-H", "host: other", "-A", "tom:cat", "-C", "c=2", "-T", "text/x"];
    all_well(&report(&[&["-n", "5", "-m", "PUT", "-b", "a=b"][..], &more, &[&url("/echo")]].concat()), 5);
    let body = site.dir.join("body");
    std::fs::write(&body, "a=b").expect("written");
    let from_file = ["-n", "5", "-m", "PUT", "-p", body.to_str().expect("text")];
    all_well(&report(&[&from_file[..], &more, &[&url("/echo")]].concat()), 5);
    all_well(&report(&["-n", "5", "-b", "a=b", &url("/form")]), 5);
    all_well(&report(&["-n", "5", "-m", "HEAD", &url("/head")]), 5);
    // Several URLs by weight; statuses.
    let list = site.dir.join("urls");
    std::fs::write(&list, format!("# a list\n2={}\n", url("/none"))).expect("written");
    let first = format!("7={}", url("/head"));
    let several = report(&["-n", "100", "--urls-file", list.to_str().expect("text"), &first, &url("/gone")]);
    assert_eq!(several["result"]["statuses"], serde_json::json!({ "200": 70, "204": 20, "410": 10 }));
    assert_eq!(several["error_statuses"], 10);
    assert_eq!(several["urls"][0]["result"]["responses"], 70);
    assert_eq!(several["urls"][1]["result"]["statuses"], serde_json::json!({ "410": 10 }));
    let gone = load(&["-n", "3", "-q", &url("/gone")]);
    let text = String::from_utf8_lossy(&gone.stdout);
    assert!(gone.status.code() == Some(1) && text.contains("410: 3") && text.contains("400 and above"), "{text}");
}

#[test]
fn at_a_constant_rate_latencies_count_from_when_requests_were_due() {
    let site =
        site("location / { content_by_lua_block { ngx.sleep(0.02) ngx.say('ok') } } location /now { return 200; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    // The tenth request is due after 9 ms. It is answered after all of them, 200 ms at the least.
    let report_slow = report(&["-c", "1", "-n", "10", "-R", "1000", &url]);
    all_well(&report_slow, 10);
    assert!(report_slow["result"]["latency_us"]["max"].as_u64().expect("a latency") >= 190_000, "{report_slow:#}");
    // Twenty requests at 200 a second cannot take less.
    let report_even = report(&["-c", "4", "-t", "2", "-n", "20", "--rate", "200", &format!("{url}now")]);
    all_well(&report_even, 20);
    assert!(report_even["elapsed_s"].as_f64().expect("a time") >= 0.095, "{report_even:#}");
    let busy = report(&["-c", "1", "-d", "200ms", "-R", "10k", &url]);
    assert!(busy["not_sent"].as_u64().expect("a number") > 1000, "{busy:#}");
}

#[test]
fn bodies_end_as_their_heads_say() {
    let site = site(
        "location /chunked { content_by_lua_block { for i = 1, 50 do ngx.print(('x'):rep(i * 97)) ngx.flush(true) end } }\
         location /large { content_by_lua_block { ngx.header.content_length = 3000000 ngx.print(('y'):rep(3000000)) } }",
    );
    for path in ["chunked", "large"] {
        let report = report(&["-n", "7", "-c", "2", &format!("http://127.0.0.1:{}/{path}", site.port)]);
        all_well(&report, 7);
    }
    // The server closes after each: a client that did not know could have asked again by then.
    let answers: [&[u8]; 5] = [
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\nConnection: close\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
    ];
    let byte_by_byte = |stream: &mut TcpStream, bytes: &[u8]| {
        stream.set_nodelay(true).expect("set");
        bytes.iter().for_each(|byte| at_once(stream, &[*byte]));
    };
    for write in [at_once as fn(&mut TcpStream, &[u8]), byte_by_byte] {
        let raw = Raw::start(answers.map(<[u8]>::to_vec).to_vec(), write);
        all_well(&report(&["-n", "5", "-c", "1", &raw.url()]), 5);
        raw.finish();
    }
}

#[test]
fn responses_that_are_cut_are_failures() {
    for whole in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let cuts: Vec<Vec<u8>> = (0..=whole.len()).map(|end| whole[..end].to_vec()).collect();
        let count = cuts.len();
        let raw = Raw::start(cuts, at_once);
        let report = report(&["-c", "1", "-n", &count.to_string(), &raw.url()]);
        assert_eq!(report["result"]["statuses"], serde_json::json!({ "200": 1 }), "{report:#}");
        let seen = [failures(&report, "closed"), failures(&report, "cut")];
        assert_eq!(seen, [1, count as u64 - 2], "{report:#}");
        raw.finish();
    }
    let nonsense: [&[u8]; 4] = [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    ];
    let raw = Raw::start(nonsense.map(<[u8]>::to_vec).to_vec(), at_once);
    let report = report(&["-c", "1", "-n", "4", &raw.url()]);
    assert_eq!((failures(&report, "malformed"), report["failed"].as_u64()), (4, Some(4)), "{report:#}");
    raw.finish();
}

#[test]
fn connections_that_are_needed_no_more_are_closed() {
    // It serves one connection after the other, as a server does that has a process for each and not enough of them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("bound").port());
    let server = std::thread::spawn(move || {
        let mut served = 0;
        while served < 2 {
            let mut stream = support::accept(&listener);
            let mut asked = 0;
            while has_asked(&mut stream) {
                at_once(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                asked += 1;
            }
            served += usize::from(asked > 0);
        }
    });
    let report = report(&["-c", "2", "-d", "200ms", "--timeout", "60s", &url]);
    server.join().expect("both were served");
    assert_eq!((&report["failures"], &report["connections_opened"]), (&serde_json::json!({}), &2.into()), "{report:#}");
}

#[test]
fn what_does_not_answer() {
    // A listener that nobody accepts from: the kernel connects, and that is all.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("bound").port());
    let silent = report(&["-c", "2", "-n", "6", "--timeout", "50ms", &url]);
    assert_eq!((failures(&silent, "time-out"), silent["result"]["responses"].as_u64()), (6, Some(0)), "{silent:#}");
    let silent = report(&["-c", "1", "-n", "3", "--timeout", "50ms", "--http2", "--streams", "3", &url]);
    assert_eq!(failures(&silent, "time-out"), 3, "{silent:#}");
    drop(listener);
    let refused = load(&["-n", "1", &url]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("connection refused"), "{said}");
    // One that goes when the first has connected.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("bound").port());
    let gone = std::thread::spawn(move || drop(support::accept(&listener)));
    let report = report(&["-c", "1", "-n", "5", &url]);
    gone.join().expect("accepted");
    assert!(failures(&report, "refused") >= 4 && report["failed"] == 5, "{report:#}");
}

#[test]
fn unix_sockets() {
    let mut site = Site::new("worker_processes 1;", "");
    let socket = site.dir.join("s");
    let socket = socket.to_str().expect("text");
    site.configure("worker_processes 1;", &format!("listen unix:{socket}; location / {{ return 200 $uri$host; }}"));
    site.start();
    all_well(&report(&["-n", "20", &format!("http://unix:{socket}:/a")]), 20);
    all_well(&report(&["-n", "20", "--no-keep-alive", "--unix", socket, "http://example.com/a"]), 20);
    let missing = load(&["--unix", "/nowhere/s", "http://a/"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot connect to unix:/nowhere/s: no such file"));
}

#[test]
fn tls_and_http2() {
    let mut site = Site::new("worker_processes 1;", "");
    let authority = Authority::new();
    authority.certify(&site, "localhost");
    std::fs::write(site.dir.join("conf/ca.pem"), &authority.pem).expect("written");
    std::fs::write(site.dir.join("conf/other.pem"), Authority::named("other").pem).expect("written");
    let port = support::free_port();
    let body = "ngx.req.read_body() local body = ngx.req.get_body_data() or io.open(ngx.req.get_body_file()):read('*a') \
                if #body ~= 300000 then ngx.exit(400) end ngx.print(('z'):rep(200000))";
    site.configure(
        "worker_processes 1;",
        &format!(
            "http2 on; listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key; \
             location / {{ return 200 hello; }} location /body {{ content_by_lua_block {{ {body} }} }}"
        ),
    );
    site.start();
    let file = |name: &str| site.dir.join("conf").join(name).to_str().expect("text").to_owned();
    let url = format!("https://localhost:{port}/");
    all_well(&report(&["-n", "40", "-c", "4", "--ca", &file("ca.pem"), &url]), 40);
    all_well(&report(&["-n", "10", "--no-keep-alive", "--resume", &url]), 10);
    all_well(&report(&["-n", "90", "-c", "3", "--http2", "--streams", "5", &url]), 90);
    std::fs::write(site.dir.join("body"), vec![b'a'; 300_000]).expect("written");
    let body = site.dir.join("body").to_str().expect("text").to_owned();
    for server in [format!("{url}body"), format!("http://127.0.0.1:{}/body", site.port)] {
        for more in [&[][..], &["--http2", "--streams", "3"]] {
            all_well(&report(&[&["-n", "9", "-c", "2", "-p", &body, &server], more].concat()), 9);
        }
    }
    let distrusted = report(&["-n", "3", "-c", "1", "--ca", &file("other.pem"), &url]);
    assert_eq!(failures(&distrusted, "TLS"), 3, "{distrusted:#}");
}

const SCRIPT: &str = r#"
local threads = {}
function setup(thread)
    thread:set("id", #threads + 1)
    thread:set("shared", { list = { 1, 2 } })
    threads[#threads + 1] = thread
end
function init(args)
    wrk.headers["X-Init"] = args[1] .. shared.list[2]
    sent, seen, wrong = 0, 0, 0
end
function request()
    sent = sent + 1
    if sent % 2 == 0 then
        return wrk.format("POST", "/echo", nil, "body" .. sent) .. wrk.format("HEAD", "/echo")
    end
    return wrk.format(nil, "/echo?" .. id)
end
function response(status, headers, body)
    seen = seen + 1
    if status ~= 200 or headers["X-Seen"] ~= "a2" then wrong = wrong + 1 end
    if body ~= "" and not body:find("^POST body%d+$") and body ~= "GET " .. id then wrong = wrong + 1 end
end
function done(summary, latency, requests)
    local seen, wrong = 0, 0
    for _, thread in ipairs(threads) do
        seen = seen + thread:get("seen")
        wrong = wrong + thread:get("wrong")
    end
    local value, count = latency(1)
    print("done", summary.requests, seen, wrong, summary.errors.status, value <= latency:percentile(99) and count >= 1)
end
"#;

#[test]
fn scripts_of_wrk() {
    let site = site(
        "http2 on; location /echo { content_by_lua_block { ngx.req.read_body() ngx.header.X_Seen = ngx.var.http_x_init \
         ngx.print(ngx.req.get_method(), ' ', ngx.req.get_body_data() or ngx.var.args) } } \
         location /large { content_by_lua_block { local mb = ('x'):rep(2^20) for i = 1, 70 do ngx.print(mb) ngx.flush(true) end } }",
    );
    let url = format!("http://127.0.0.1:{}/", site.port);
    let file = site.dir.join("script.lua");
    let path = file.to_str().expect("text");
    let run = |script: &str, arguments: &[&str]| {
        std::fs::write(&file, script).expect("written");
        let output = load(&[&["-q", "-s", path], arguments].concat());
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (out, said) = run(SCRIPT, &["-t", "2", "-c", "4", "-n", "100", &url, "--", "a"]);
    let done = out.lines().find(|line| line.starts_with("done")).unwrap_or_else(|| panic!("{out}{said}"));
    let words: Vec<&str> = done.split('\t').collect();
    assert!(words[1] == words[2] && words[1].parse::<u64>().expect("a number") >= 100, "{done}");
    assert_eq!(words[3..], ["0", "0", "true"], "{done}");
    // A request at a time over HTTP/2; field names are small there.
    let single = "wrk.headers['X-Init'] = 'q' function response(status, headers, body) \
                  if headers['x-seen'] ~= 'q' or body ~= 'GET z' then os.exit(9) end end";
    let (out, said) = run(single, &["-c", "2", "-n", "20", "--http2", "--streams", "2", &format!("{url}echo?z")]);
    assert!(out.contains("200: 20"), "{out}{said}");
    let (out, said) =
        run("function delay() return 1 end function response() wrk.thread:stop() end", &["-d", "60", &url]);
    assert!(out.contains("403: "), "{out}{said}");
    // More of a body than a script sees.
    let large =
        "function response(status, headers, body) if #body < 64 * 2^20 or #body > 65 * 2^20 then error('size') end end";
    let (out, said) = run(large, &["-n", "1", "-c", "1", "--timeout", "1m", &format!("{url}large")]);
    assert!(out.contains("200: 1") && said.is_empty(), "{out}{said}");
    // Scripts that cannot go on.
    for (script, expected) in [
        ("syntax error", "script.lua:1: "),
        ("error('no')", "no"),
        ("function init() error('early') end", "early"),
        ("function request() return 'GET /' end", "whole HTTP requests"),
        ("local n = 0 function request() n = n + 1 if n == 3 then error('late') end return wrk.format() end", "late"),
        ("function response() error('seen') end", "seen"),
        ("function done() error('at the end') end", "at the end"),
    ] {
        let (_, said) = run(script, &["-n", "10", "-c", "1", &url]);
        assert!(said.contains("tidegate load: ") && said.contains(expected), "{script}: {said}");
    }
}

#[test]
fn interrupted_it_reports_what_there_is() {
    let site = site("location / { return 200 hello; }");
    let mut command = binary();
    command.args(["load", "-d", "1h", "-c", "2", &format!("http://127.0.0.1:{}/", site.port)]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("begun");
    // The line of the first second.
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("requests/s") && line.contains("errors 0"), "{line}");
    kill(Pid::from_raw(child.id().try_into().expect("a process number")), Signal::SIGINT).expect("delivered");
    let output = support::finish(child);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(" s, interrupted\n") && text.contains("200: ") && text.contains("\nRequests/sec: "),
        "{text}"
    );
}

#[test]
fn a_script_without_end_is_interrupted_twice() {
    let site = site("location / { return 200 hello; }");
    let file = site.dir.join("script.lua");
    std::fs::write(&file, "function response() io.stderr:write('in it\\n') while true do end end").expect("written");
    let mut command = binary();
    command.args(["load", "-q", "-s", file.to_str().expect("text"), &format!("http://127.0.0.1:{}/", site.port)]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("begun");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "in it\n");
    let pid = Pid::from_raw(child.id().try_into().expect("a process number"));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        kill(pid, signal).expect("delivered");
    }
    assert_eq!(support::finish(child).status.code(), Some(130));
}

#[test]
fn reports_are_compared_and_drawn() {
    let site = site("location / { return 200 hello; }");
    let url = format!("http://127.0.0.1:{}/", site.port);
    let [a, b, hdr] = ["a.json", "b.json", "a.hgrm"].map(|name| site.dir.join(name).to_str().expect("text").to_owned());
    for (file, connections) in [(&a, "1"), (&b, "2")] {
        let output = load(&["-q", "--json", "-n", "100", "-c", connections, "--hdr", &hdr, &url]);
        std::fs::write(file, &output.stdout).expect("written");
    }
    let output = load(&["--compare", &a, &b]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("connections: 1 in A, 2 in B"), "{text}");
    assert!(text.contains("requests/s") && text.contains("too short to tell"), "{text}");
    let drawn = std::fs::read_to_string(&hdr).expect("the file");
    assert!(drawn.contains("1/(1-Percentile)") && drawn.contains("Total count    =          100]"), "{drawn}");
    let bad = load(&["--compare", &a, &hdr]);
    assert!(
        bad.status.code() == Some(1) && String::from_utf8_lossy(&bad.stderr).contains("no report of tidegate load")
    );
}

#[test]
fn wrong_commands_say_what_is_wrong() {
    for (arguments, expected) in [
        (&[][..], "no URL"),
        (&["localhost"], "begins with neither http:// nor https://"),
        (&["http://a/", "http://b/"], "different servers"),
        (&["-m", "G T", "http://a/"], "is no method"),
        (&["-H", "nocolon", "http://a/"], "is no header field"),
        (&["-p", "/nowhere/file", "http://a/"], "/nowhere/file: no such file"),
        (&["-s", "/nowhere/file", "http://127.0.0.1:1/"], "connection refused"),
        (&["-d", "soon", "http://a/"], "expected a time"),
        (&["-c", "0", "http://a/"], "expected a number"),
        (&["-d", "0", "http://a/"], "longer than 0"),
        (&["--timeout", "0ms", "http://a/"], "longer than 0"),
        (&["--streams", "2", "http://a/"], "--http2"),
        (&["http://nowhere.invalid/"], "no address of nowhere.invalid"),
    ] {
        let output = load(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
    let help = load(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("as ab -k"));
}
