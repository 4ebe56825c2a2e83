//! `listen … handlersocket`: the rows of the embedded engine for clients of DeNA's HandlerSocket, and for those that speak it badly.

mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use support::{PATIENCE, Site, eventually};

/// What DeNA's server was asked, and what it answered.
const RECORDED: &str = include_str!("handlersocket/requests.txt");
/// The tables that it was asked about.
const TABLES: &str = include_str!("handlersocket/tables.sql");

/// A server with both ports and the recorded tables.
fn site(more: &str) -> Site {
    configured(more, "")
}

fn configured(more: &str, events: &str) -> Site {
    let site = Site::new("", "location / { echo ok; }");
    std::fs::write(site.dir.join("tables.sql"), TABLES).expect("written");
    write(&site, more, events);
    site
}

fn write(site: &Site, more: &str, events: &str) {
    let http = format!("http {{ server {{ listen 127.0.0.1:{}; location / {{ echo ok; }} }} }}", site.port);
    site.write_conf(&format!(
        "error_log logs/error.log info;\npid logs/nginx.pid;\nevents {{ {events} }}\n{http}\n\
         database {{ schema hs init=tables.sql; listen unix:read.sock handlersocket;\n\
         listen unix:write.sock handlersocket write; listen unix:mysql.sock mysql; user root password=; {more} }}\n"
    ));
}

fn started(more: &str) -> Site {
    let mut site = site(more);
    site.start();
    site
}

/// Ends the server, whose log must not speak of a panic.
fn finish(mut site: Site) {
    site.quit();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("panicked"), "{log}");
}

/// Runs statements beside the clients.
fn sql(site: &Site, text: &str) {
    let mut command = support::binary();
    let data = site.dir.join("data");
    let done = command.arg("sql").arg("--data").arg(data).args(["hs", "-e", text]).output().expect("the binary runs");
    assert!(done.status.success(), "{text}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A client. Tabs are written `|` in what it says and hears.
struct Client(UnixStream);

impl Client {
    fn of(site: &Site, socket: &str) -> Self {
        let path: &Path = &site.dir.join(socket);
        let stream = eventually("the port is there", || UnixStream::connect(path).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Client(stream)
    }
    fn reader(site: &Site) -> Self {
        Self::of(site, "read.sock")
    }
    fn writer(site: &Site) -> Self {
        Self::of(site, "write.sock")
    }
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sent");
    }
    /// A line of the server, without its end; `None` at the end.
    fn hear(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.0.read(&mut byte).ok()? == 1 {
            if byte == *b"\n" {
                return Some(shown(&line));
            }
            line.push(byte[0]);
        }
        None
    }
    fn ask(&mut self, text: &str) -> String {
        self.send(&said(text));
        self.hear().unwrap_or_else(|| panic!("no answer to {text}"))
    }
    /// Opens index 1 with these columns.
    fn open(&mut self, what: &str) {
        assert_eq!(self.ask(&format!("P|1|hs|{what}")), "0|1");
    }
}

fn said(text: &str) -> Vec<u8> {
    let line = text.replace('|', "\t").replace("\\0", "\0").replace("\\1", "\x01").replace("\\r", "\r");
    let mut line = line.into_bytes();
    while let Some(at) = line.windows(2).position(|bytes| bytes == b"\\x") {
        line.splice(at..at + 2, [0xff]);
    }
    [&line[..], b"\n"].concat()
}

fn shown(line: &[u8]) -> String {
    let text: String = line.iter().map(|byte| char::from(*byte)).collect();
    text.replace('\t', "|").replace('\0', "\\0").replace('\x01', "\\1").replace('\r', "\\r")
}

/// The recorded requests for a port, with our answers.
fn recorded(port: &str) -> Vec<(&'static str, &'static str)> {
    let head = format!("== {port}");
    let lines = RECORDED.lines().skip_while(|line| *line != head).skip(1).take_while(|line| !line.starts_with("=="));
    let pair = |line: &'static str| {
        let (request, answer) = line.split_once(" => ").expect("an answer");
        (request, answer.rsplit_once(" ! ").map_or(answer, |(_, ours)| ours))
    };
    let pairs: Vec<_> = lines.map(pair).collect();
    assert!(pairs.len() > 50, "{port}");
    pairs
}

#[test]
fn answers_are_those_of_denas_server() {
    let site = started("");
    for port in ["read", "write"] {
        let mut client = Client::of(&site, &format!("{port}.sock"));
        for (request, answer) in recorded(port) {
            assert_eq!(client.ask(request), answer, "{request}");
        }
    }
    finish(site);
}

#[test]
fn columns_and_filters_have_bounds() {
    let site = started("");
    let mut client = Client::reader(&site);
    let columns = |count: usize| vec!["k"; count].join(",");
    for (count, answer) in [(1900, "0|1"), (1901, "2|1|fld")] {
        assert_eq!(client.ask(&format!("P|1|hs|kv|PRIMARY|{}", columns(count))), answer, "{count} columns");
        assert_eq!(client.ask(&format!("P|2|hs|kv|PRIMARY|k|{}", columns(count))), answer, "{count} for filters");
    }
    let row = format!("0|1900{}", "|a".repeat(1900));
    assert_eq!(client.ask("1|=|1|a"), row, "COLUMNS_MAX");
    for (count, answer) in [(900, "0|1|a"), (901, "2|1|filterfld")] {
        let filters = "|F|=|1899|a".repeat(count);
        assert_eq!(client.ask(&format!("2|=|1|a|1|0{filters}")), answer, "FILTERS_MAX: {count}");
    }
    finish(site);
}

#[test]
fn requests_that_arrive_together_are_answered_in_order() {
    let site = started("");
    for port in ["read", "write"] {
        let mut client = Client::of(&site, &format!("{port}.sock"));
        let together: Vec<u8> = recorded(port).iter().flat_map(|(request, _)| said(request)).collect();
        client.send(&together);
        for (request, answer) in recorded(port) {
            assert_eq!(client.hear().as_deref(), Some(answer), "{request}");
        }
    }
    finish(site);
}

#[test]
fn requests_that_arrive_byte_by_byte() {
    let site = started("");
    let mut client = Client::reader(&site);
    for (request, answer) in recorded("read").into_iter().take(40) {
        for byte in said(request) {
            client.send(&[byte]);
        }
        assert_eq!(client.hear().as_deref(), Some(answer), "{request}");
    }
    finish(site);
}

#[test]
fn what_is_cut_off_is_not_carried_out() {
    let site = started("");
    let insert = said("1|+|2|cut|\\0");
    for size in 0..insert.len() {
        let mut client = Client::writer(&site);
        client.open("kv|PRIMARY|k,v");
        client.send(&insert[..size]);
        client.0.shutdown(Shutdown::Write).expect("shut down");
        assert_eq!(client.hear(), None);
    }
    let mut client = Client::reader(&site);
    client.open("kv|PRIMARY|k,v");
    assert_eq!(client.ask("1|=|1|cut"), "0|2");
    finish(site);
}

#[test]
fn a_request_sees_what_stands_before_it() {
    let site = started("");
    let mut client = Client::writer(&site);
    client.open("pair|PRIMARY|a,b,c");
    let mut requests = Vec::new();
    for number in 0..300 {
        requests.extend(said(&format!("1|+|3|9|{number}|x{number}")));
        requests.extend(said(&format!("1|=|2|9|{number}")));
        requests.extend(said(&format!("1|=|2|9|{number}|1|0|D")));
        requests.extend(said(&format!("1|=|2|9|{number}")));
    }
    client.send(&requests);
    for number in 0..300 {
        assert_eq!(client.hear().as_deref(), Some("0|1"), "{number}");
        assert_eq!(client.hear(), Some(format!("0|3|9|{number}|x{number}")));
        assert_eq!(client.hear().as_deref(), Some("0|1|1"), "{number}");
        assert_eq!(client.hear().as_deref(), Some("0|3"), "{number}");
    }
    finish(site);
}

#[test]
fn many_clients_at_once() {
    let site = started("");
    std::thread::scope(|scope| {
        for worker in 0..50 {
            let site = &site;
            scope.spawn(move || {
                let mut client = Client::writer(site);
                client.open("pair|PRIMARY|a,b,c");
                for number in 0..10 {
                    assert_eq!(client.ask(&format!("1|+|3|{}|{number}|c", 100 + worker)), "0|1");
                }
                assert_eq!(client.ask("P|2|hs|pair|PRIMARY|c"), "0|1");
                assert_eq!(client.ask(&format!("2|=|1|{}|100|0|U|d", 100 + worker)), "0|1|10");
                // Some leave with an answer on its way, some in the middle of a line.
                client.send(&said("1|>=|1|0|1000|0")[..if worker % 2 == 0 { 16 } else { 4 }]);
            });
        }
    });
    let mut client = Client::reader(&site);
    client.open("pair|PRIMARY|a,b");
    let answer = client.ask("1|>=|1|100|1000|0");
    assert_eq!(answer.split('|').count(), 2 + 2 * 500);
    finish(site);
}

#[test]
fn definitions_change_under_an_open_index() {
    let site = started("");
    let sql = |text: &str| sql(&site, text);
    let mut client = Client::writer(&site);
    client.open("kv|n|k,n|u");
    assert_eq!(client.ask("1|=|1|1|1|0|F|>|0|5"), "0|2|a|1");
    sql("ALTER TABLE kv ADD COLUMN first INT FIRST, MODIFY n VARCHAR(10)");
    assert_eq!(client.ask("1|=|1|1|1|0|F|>|0|5"), "0|2|a|1");
    sql("ALTER TABLE kv DROP COLUMN u");
    assert_eq!(client.ask("1|=|1|1"), "2|1|fld");
    sql("ALTER TABLE kv ADD COLUMN u INT DEFAULT 9, DROP KEY n");
    assert_eq!(client.ask("1|=|1|1"), "2|1|idxnum");
    sql("ALTER TABLE kv ADD KEY n (n)");
    assert_eq!(client.ask("1|=|1|1|1|0|F|>|0|5"), "0|2|a|1");
    sql("DROP TABLE kv");
    assert_eq!(client.ask("1|=|1|1"), "1|1|open_table");
    assert_eq!(client.ask("1|+|1|x"), "1|1|open_table");
    assert_eq!(client.ask("P|2|hs|kv|n|k"), "1|1|open_table");
    sql("CREATE TABLE kv (k VARCHAR(9) PRIMARY KEY, n INT, u INT, KEY n (n))");
    assert_eq!(client.ask("1|+|2|x|7"), "0|1");
    assert_eq!(client.ask("1|=|1|7"), "0|2|x|7");
    sql("DROP DATABASE hs");
    assert_eq!(client.ask("1|=|1|7"), "1|1|open_table");
    finish(site);
}

#[test]
fn constraints_hold() {
    let site = started("");
    let tables = "CREATE TABLE cats (id INT PRIMARY KEY, age INT CHECK (age < 100));
         CREATE TABLE toys (id INT PRIMARY KEY, cat INT, FOREIGN KEY (cat) REFERENCES cats (id))";
    sql(&site, tables);
    let mut client = Client::writer(&site);
    client.open("cats|PRIMARY|id,age");
    assert_eq!(client.ask("P|2|hs|toys|PRIMARY|id,cat"), "0|1");
    assert_eq!(client.ask("1|+|2|1|5"), "0|1");
    assert_eq!(client.ask("1|+|2|2|100"), "1|1|4025");
    assert_eq!(client.ask("2|+|2|1|1"), "0|1");
    assert_eq!(client.ask("2|+|2|2|7"), "1|1|151");
    assert_eq!(client.ask("1|=|1|1|1|0|D"), "1|1|152");
    assert_eq!(client.ask("1|=|1|1|1|0|U|1|200"), "1|1|4025");
    assert_eq!(client.ask("1|=|1|1|1|0|U?|1|20"), "0|2|1|5");
    assert_eq!(client.ask("1|=|1|1"), "0|2|1|20");
    finish(site);
}

#[test]
fn secrets() {
    let site = started("handlersocket_plain_secret look; handlersocket_plain_secret_wr change;");
    for (socket, secret) in [("read.sock", "look"), ("write.sock", "change")] {
        let mut client = Client::of(&site, socket);
        assert_eq!(client.ask("P|1|hs|kv|PRIMARY|k"), "3|1|unauth");
        assert_eq!(client.ask("1|=|1|a"), "3|1|unauth");
        assert_eq!(client.ask("nonsense"), "2|1|cmd");
        assert_eq!(client.ask(&format!("A|2|{secret}")), "3|1|authtype");
        assert_eq!(client.ask(&format!("A|1|{secret}x")), "3|1|unauth");
        assert_eq!(client.ask(&format!("A|1|{}", &secret[1..])), "3|1|unauth");
        assert_eq!(client.ask("A|1|"), "3|1|unauth");
        assert_eq!(client.ask(&format!("A|1|{secret}")), "0|1");
        client.open("kv|PRIMARY|k");
        assert_eq!(client.ask("1|=|1|a"), "0|1|a");
        // A wrong secret takes the right back.
        assert_eq!(client.ask("A|1|wrong"), "3|1|unauth");
        assert_eq!(client.ask("1|=|1|a"), "3|1|unauth");
        // Who guesses is refused for a while, whatever comes.
        for _ in 0..10 {
            assert_eq!(Client::of(&site, socket).ask("A|1|wrong"), "3|1|unauth");
        }
        assert_eq!(client.ask(&format!("A|1|{secret}")), "3|1|unauth");
    }
    site.wait_for_log("handlersocket: wrong secret; it may not try again for a minute, client: unix:");
    // Strangers cannot have the server keep much.
    let mut client = Client::reader(&site);
    let _ = client.0.write_all(&vec![b'x'; 5 << 10]);
    assert_eq!(client.hear(), None);
    site.wait_for_log("handlersocket: a line is longer than those of clients that have not told the secret may be");
    finish(site);
}

#[test]
fn a_port_that_others_can_reach_needs_a_secret() {
    for (listen, secret, expected) in [
        ("9998 handlersocket", "", "there is no \"handlersocket_plain_secret\""),
        ("0.0.0.0:9999 handlersocket write", "handlersocket_plain_secret x;", "\"handlersocket_plain_secret_wr\""),
        ("0.0.0.0:9998 handlersocket", "handlersocket_plain_secret x;", ""),
        ("127.0.0.1:9998 handlersocket", "", ""),
        ("127.0.0.1:9998 handlersocket reads", "", "invalid parameter \"reads\""),
    ] {
        let site = site(&format!("listen {listen}; {secret}"));
        let tested = site.run(&["-t"]);
        let told = String::from_utf8_lossy(&tested.stderr).into_owned();
        assert_eq!(tested.status.success(), expected.is_empty(), "{listen}: {told}");
        assert!(told.contains(expected), "{listen}: {told}");
    }
}

#[test]
fn bounds() {
    let site = started("packet_size_max 100k;");
    let mut client = Client::reader(&site);
    for number in 0..1024 {
        assert_eq!(client.ask(&format!("P|{}|hs|kv|PRIMARY|k,v", number * 7)), "0|1");
    }
    assert_eq!(client.ask("P|4000000000|hs|kv|PRIMARY|k"), "2|1|stmtnum");
    assert_eq!(client.ask("P|7|hs|kv|n|n"), "0|1", "another one under the same number");
    assert_eq!(client.ask("7|=|1|1"), "0|1|1");
    assert_eq!(client.ask("4000000000|=|1|1"), "2|1|stmtnum");
    assert_eq!(client.ask("14|=|4000000000|a"), "2|1|kpnum");
    assert_eq!(client.ask("14|=|1|a|1|0|@|0|4000000000|a"), "2|1|invalueslen");
    let long = "x".repeat(90 << 10);
    assert_eq!(client.ask(&format!("14|=|1|{long}")), "0|2");
    // A line without an end. The server may close while it is being sent.
    let _ = client.0.write_all(&vec![b'x'; 300 << 10]);
    assert_eq!(client.hear(), None);
    site.wait_for_log("handlersocket: a line is longer than packet_size_max");
    let mut client = Client::reader(&site);
    client.send(b"/");
    assert_eq!(client.hear(), None, "a slash ends the connection");
    finish(site);
}

#[test]
fn a_slow_reader_gets_a_long_answer_whole() {
    let site = started("");
    let mut client = Client::writer(&site);
    client.open("kv|PRIMARY|k,v");
    let value = "v".repeat(50);
    let inserts: Vec<u8> = (0..5000).flat_map(|number| said(&format!("1|+|2|long{number:05}|{value}"))).collect();
    let mut sender = client.0.try_clone().expect("cloned");
    std::thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&inserts).expect("sent"));
        (0..5000).for_each(|number| assert_eq!(client.hear().as_deref(), Some("0|1"), "{number}"));
    });
    // More than sockets hold: answers wait, and one of them waits in its middle.
    (0..4).for_each(|_| client.send(&said("1|>=|1|long|100000|0")));
    client.send(&said("1|=|1|a"));
    for _ in 0..4 {
        assert_eq!(client.hear().expect("an answer").split('|').count(), 2 + 2 * 5000);
    }
    assert_eq!(client.hear().as_deref(), Some("0|2|a|va"));
    // One that leaves in the middle takes nobody along.
    client.send(&said("1|>=|1|long|100000|0"));
    assert_eq!(client.0.read(&mut [0; 100]).expect("a part"), 100);
    drop(client);
    let mut client = Client::reader(&site);
    client.open("kv|PRIMARY|k,v");
    assert_eq!(client.ask("1|=|1|a"), "0|2|a|va");
    finish(site);
}

#[test]
fn a_parked_client_keeps_what_it_has() {
    let mut site = configured("handlersocket_plain_secret look;", "park_after 1ms;");
    site.start();
    let mut client = Client::reader(&site);
    assert_eq!(client.ask("A|1|look"), "0|1");
    client.open("kv|PRIMARY|k,v");
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(client.ask("1|=|1|a"), "0|2|a|va");
        let line = said("1|=|1|b");
        client.send(&line[..3]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        client.send(&line[3..]);
        assert_eq!(client.hear().as_deref(), Some("0|2|b|\\0"));
    }
    let mut stranger = Client::reader(&site);
    assert_eq!(stranger.ask("1|=|1|a"), "3|1|unauth", "nothing of it is another's");
    finish(site);
}

#[test]
fn a_reload_ends_idle_clients_and_others_behind_their_answers() {
    let mut site = site("");
    site.start();
    let mut idle = Client::reader(&site);
    idle.open("kv|PRIMARY|k,v");
    let mut busy = Client::reader(&site);
    busy.open("kv|PRIMARY|k,v");
    let line = said("1|=|1|a");
    busy.send(&line[..4]);
    site.signal(nix::sys::signal::Signal::SIGHUP);
    assert_eq!(idle.hear(), None);
    busy.send(&line[4..]);
    assert_eq!(busy.hear().as_deref(), Some("0|2|a|va"));
    assert_eq!(busy.hear(), None);
    let mut client = Client::reader(&site);
    client.open("kv|PRIMARY|k,v");
    assert_eq!(client.ask("1|=|1|a"), "0|2|a|va");
    finish(site);
}
