//! `listen … beanstalk`: clients of beanstalkd, those that leave, and servers that end.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use nix::sys::signal::Signal;
use support::{PATIENCE, Site, binary, eventually, free_port, output};

/// A server with a port for jobs, and one for requests.
struct Server {
    site: Site,
    jobs: u16,
}

const LOCATIONS: &str = "location / { return 200 ok; } location /q/ { queue_api; }";

fn started(settings: &str) -> Server {
    let jobs = free_port();
    let mut site = Site::new(&main_of(jobs, settings), LOCATIONS);
    site.start();
    Server { site, jobs }
}

fn main_of(jobs: u16, settings: &str) -> String {
    format!("worker_processes 2; database {{ listen 127.0.0.1:{jobs} beanstalk; {settings} }}")
}

impl Server {
    fn client(&self) -> Client {
        let stream = support::connect(self.jobs).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_nodelay(true).expect("an option");
        Client(BufReader::new(stream))
    }

    /// Sends a request to the API of queues.
    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = support::connect(self.site.port).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let length = body.len();
        write!(stream, "{method} /q/{path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(answer)
    }

    /// Ends the server, whose log must not speak of a failure.
    fn finish(mut self) {
        self.site.quit();
        let log = self.site.log();
        assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("[error]"), "{log}");
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).expect("sent");
    }

    /// The next answer: a line, and the job or text behind it.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = match words[..] {
            ["OK", bytes] | ["RESERVED" | "FOUND", _, bytes] => bytes.parse::<usize>().expect("a number") + 2,
            _ => 0,
        };
        let mut rest = vec![0; bytes];
        self.0.read_exact(&mut rest).expect("all of it");
        line + std::str::from_utf8(&rest).expect("text")
    }

    #[track_caller]
    fn check(&mut self, command: &str, expected: &str) {
        self.send(format!("{command}\r\n"));
        assert_eq!(self.answer(), format!("{expected}\r\n"), "{command}");
    }

    /// The value of a line of statistics.
    #[track_caller]
    fn statistic(&mut self, command: &str, name: &str) -> String {
        self.send(format!("{command}\r\n"));
        let text = self.answer();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
    }

    /// Everything until the server closes.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        // A client whose last bytes nobody read may be told so by a reset.
        let _ = self.0.read_to_string(&mut rest);
        rest
    }
}

/// Commands and what they are answered, the first jobs of a server being 1 to 4.
const TALK: &[(&str, &str)] = &[
    ("list-tubes", "OK 14\r\n---\n- default\n"),
    ("list-tube-used", "USING default"),
    ("put 5 0 60 1\r\na", "INSERTED 1"),
    ("use t", "USING t"),
    ("put 5 0 60 3\r\n\r\nb", "INSERTED 2"),
    ("put 1 0 60 0\r\n", "INSERTED 3"),
    ("put 0 1000 60 1\r\nd", "INSERTED 4"),
    ("peek-ready", "FOUND 3 0\r\n"),
    ("peek-delayed", "FOUND 4 1\r\nd"),
    ("peek-buried", "NOT_FOUND"),
    ("peek 1", "FOUND 1 1\r\na"),
    ("peek 9", "NOT_FOUND"),
    ("watch t", "WATCHING 2"),
    ("watch t", "WATCHING 2"),
    ("list-tubes-watched", "OK 18\r\n---\n- default\n- t\n"),
    ("reserve", "RESERVED 3 0\r\n"),
    ("ignore default", "WATCHING 1"),
    ("ignore t", "NOT_IGNORED"),
    ("ignore other", "WATCHING 1"),
    ("reserve-with-timeout 7", "RESERVED 2 3\r\n\r\nb"),
    ("reserve-with-timeout 0", "TIMED_OUT"),
    ("touch 2", "TOUCHED"),
    ("touch 1", "NOT_FOUND"),
    ("release 2 9 0", "RELEASED"),
    ("release 2 9 0", "NOT_FOUND"),
    ("bury 3 8", "BURIED"),
    ("bury 3 8", "NOT_FOUND"),
    ("peek-buried", "FOUND 3 0\r\n"),
    ("kick 10", "KICKED 1"),
    ("kick 10", "KICKED 1"),
    ("kick 10", "KICKED 0"),
    ("kick-job 4", "NOT_FOUND"),
    ("reserve", "RESERVED 4 1\r\nd"),
    ("release 4 7 1000", "RELEASED"),
    ("reserve", "RESERVED 3 0\r\n"),
    ("release 3 4294967295 0", "RELEASED"),
    ("reserve-job 1", "RESERVED 1 1\r\na"),
    ("reserve-job 1", "NOT_FOUND"),
    ("reserve-job 4", "RESERVED 4 1\r\nd"),
    ("bury 4 1", "BURIED"),
    ("kick-job 4", "KICKED"),
    ("reserve-job 9", "NOT_FOUND"),
    ("delete 1", "DELETED"),
    ("delete 1", "NOT_FOUND"),
    ("delete 4", "DELETED"),
    ("reserve", "RESERVED 2 3\r\n\r\nb"),
    ("delete 2", "DELETED"),
    ("delete 3", "DELETED"),
    ("pause-tube t 0", "PAUSED"),
    ("pause-tube nobody 1", "NOT_FOUND"),
    ("stats-tube nobody", "NOT_FOUND"),
    ("stats-job 1", "NOT_FOUND"),
    ("nonsense", "UNKNOWN_COMMAND"),
    ("peek x", "BAD_FORMAT"),
];

fn talk() -> (String, String) {
    let line = |text: &str| format!("{text}\r\n");
    (TALK.iter().map(|(command, _)| line(command)).collect(), TALK.iter().map(|(_, answer)| line(answer)).collect())
}

#[test]
fn commands_are_answered() {
    let server = started("");
    let mut client = server.client();
    for (command, expected) in TALK {
        client.check(command, expected);
    }
    client.send("quit\r\nlist-tube-used\r\n");
    assert_eq!(client.rest(), "");
    server.finish();
}

#[test]
fn commands_may_come_in_any_pieces() {
    let (commands, expected) = talk();
    // All at once, and byte by byte.
    for piece in [commands.len(), 1] {
        let server = started("");
        let mut client = server.client();
        commands.as_bytes().chunks(piece).for_each(|piece| client.send(piece));
        client.send("quit\r\n");
        assert_eq!(client.rest(), expected);
        server.finish();
    }
}

#[test]
fn what_is_cut_off_is_not_stored() {
    let server = started("");
    let whole = "put 1 0 60 5\r\n12345\r\n";
    for cut in 0..whole.len() {
        let mut client = server.client();
        client.send(&whole[..cut]);
        client.0.get_ref().shutdown(Shutdown::Write).expect("no more");
        assert_eq!(client.rest(), "");
    }
    let mut client = server.client();
    assert_eq!(client.statistic("stats-tube default", "current-jobs-ready"), "0");
    assert_eq!(client.statistic("stats", "current-connections"), "1");
    server.finish();
}

#[test]
fn what_is_too_long_is_dropped_and_the_talk_goes_on() {
    let server = started("beanstalk_job_size_max 10;");
    let mut client = server.client();
    client.check("put 1 0 60 11\r\n12345678901", "JOB_TOO_BIG");
    client.check("put 1 0 60 10\r\n1234567890", "INSERTED 1");
    client.send(format!("put 1 0 60 4000000\r\n{}\r\n", "x".repeat(4_000_000)));
    assert_eq!(client.answer(), "JOB_TOO_BIG\r\n");
    client.send("y".repeat(1_000_000));
    client.check("", "BAD_FORMAT");
    client.check("use a\0b", "BAD_FORMAT");
    client.send("put 1 0 60 1\r\nabclist-tube-used\r\n");
    assert_eq!((client.answer(), client.answer()), ("EXPECTED_CRLF\r\n".to_owned(), "USING default\r\n".to_owned()));
    client.check(&format!("use {}", "a".repeat(201)), "BAD_FORMAT");
    let longest = "a".repeat(200);
    client.check(&format!("use {longest}"), &format!("USING {longest}"));
    let watches: String = (0..1024).map(|number| format!("watch t{number}\r\n")).collect();
    client.send(watches);
    (2..=1024).for_each(|count| assert_eq!(client.answer(), format!("WATCHING {count}\r\n")));
    assert_eq!(client.answer(), "OUT_OF_MEMORY\r\n");
    assert_eq!(client.statistic("stats", "max-job-size"), "10");
    // Texts stay texts for whoever reads YAML.
    client.check("use 7", "USING 7");
    client.check("put 1 0 60 1\r\na", "INSERTED 2");
    assert_eq!(client.statistic("stats-tube 7", "name"), "\"7\"");
    assert_eq!(client.statistic("stats-job 2", "tube"), "\"7\"");
    let os = client.statistic("stats", "os");
    assert!(os.starts_with('"') && os.ends_with('"'), "{os}");
    assert_eq!(client.statistic("stats", "cmd-put"), "5");
    // Rubbish, of which each line is answered.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let rubbish: Vec<u8> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()[0]
    })
    .take(100_000)
    .collect();
    let mut other = server.client();
    let mut writer = other.0.get_ref().try_clone().expect("another handle");
    let sending = std::thread::spawn(move || {
        let _ = writer.write_all(&rubbish);
        let _ = writer.write_all(b"\r\nlist-tube-used\r\n");
    });
    let mut line = Vec::new();
    while line != b"USING default\r\n" {
        line.clear();
        assert!(other.0.read_until(b'\n', &mut line).expect("an answer") > 0);
        let known = [&b"BAD_FORMAT\r\n"[..], b"UNKNOWN_COMMAND\r\n", b"USING default\r\n"];
        assert!(known.contains(&&line[..]), "{}", String::from_utf8_lossy(&line));
    }
    sending.join().expect("sent");
    server.finish();
}

#[test]
fn a_client_may_have_so_many_jobs_and_no_more() {
    const JOBS_MAX: usize = 20;
    let server = started(&format!("beanstalk_jobs_max {JOBS_MAX};"));
    let mut client = server.client();
    client.send("put 1 0 6000 1\r\na\r\n".repeat(JOBS_MAX + 1));
    client.send("reserve-with-timeout 0\r\n".repeat(JOBS_MAX - 3));
    (1..=JOBS_MAX + 1).for_each(|number| assert_eq!(client.answer(), format!("INSERTED {number}\r\n")));
    let given = |client: &mut Client, number| assert_eq!(client.answer(), format!("RESERVED {number} 1\r\na\r\n"));
    (1..=JOBS_MAX - 3).for_each(|number| given(&mut client, number));
    // They come together, and three of them may be had.
    client.send("reserve-with-timeout 0\r\n".repeat(5));
    (JOBS_MAX - 2..=JOBS_MAX).for_each(|number| given(&mut client, number));
    (0..2).for_each(|_| assert_eq!(client.answer(), "OUT_OF_MEMORY\r\n"));
    client.check(&format!("reserve-job {}", JOBS_MAX + 1), "OUT_OF_MEMORY");
    client.check("delete 7", "DELETED");
    client.check("reserve-with-timeout 0", &format!("RESERVED {} 1\r\na", JOBS_MAX + 1));
    // The server would wait for whoever has jobs.
    drop(client);
    server.finish();
}

#[test]
fn a_kick_reaches_as_many_jobs_as_it_says() {
    // More than share a commit.
    const JOBS: usize = 600;
    let server = started("");
    let mut client = server.client();
    client.send("put 1 3600 60 1\r\na\r\n".repeat(JOBS));
    (1..=JOBS).for_each(|number| assert_eq!(client.answer(), format!("INSERTED {number}\r\n")));
    client.check(&format!("kick {}", JOBS - 1), &format!("KICKED {}", JOBS - 1));
    client.check("peek-delayed", &format!("FOUND {JOBS} 1\r\na"));
    client.check("kick 4294967295", "KICKED 1");
    client.check("kick 4294967295", "KICKED 0");
    assert_eq!(client.statistic("stats-tube default", "current-jobs-ready"), JOBS.to_string());
    server.finish();
}

#[test]
fn jobs_are_messages_and_messages_are_jobs() {
    let server = started("");
    let mut client = server.client();
    client.check("use work", "USING work");
    client.check("watch work", "WATCHING 2");
    client.check("put 7 0 60 3\r\njob", "INSERTED 1");
    let pulled = server.request("POST", "work/pull", "");
    assert!(pulled.contains("\"body\":\"job\"") && pulled.contains("\"priority\":7"), "{pulled}");
    assert_eq!(client.statistic("stats-job 1", "state"), "reserved");
    client.check("delete 1", "NOT_FOUND");
    let receipt = pulled.split("\"receipt\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a receipt");
    assert_eq!(server.request("POST", &format!("work/ack?receipt={receipt}"), ""), "{\"settled\":1}\n");
    client.check("peek 1", "NOT_FOUND");
    // The other way round; who waits is told.
    client.send("reserve\r\n");
    eventually("the client waits", || {
        server.request("GET", "work", "").contains("\"waiting_consumers\":1").then_some(())
    });
    assert_eq!(server.request("POST", "work?priority=3", "message"), "{\"id\":2}\n");
    assert_eq!(client.answer(), "RESERVED 2 7\r\nmessage\r\n");
    assert_eq!(client.statistic("stats-job 2", "ttr"), "30");
    client.check("bury 2 3", "BURIED");
    assert!(server.request("GET", "work/dead", "").contains("\"id\":2"));
    assert_eq!(server.request("POST", "work/dead/resend", ""), "{\"resent\":1}\n");
    client.check("reserve", "RESERVED 2 7\r\nmessage");
    // Failures count, whoever has failed.
    server.request("PATCH", "work?attempts_max=2", "");
    client.check("release 2 3 0", "RELEASED");
    client.check("reserve", "RESERVED 2 7\r\nmessage");
    assert_eq!(client.statistic("stats-job 2", "reserves"), "2");
    client.check("release 2 3 0", "BURIED");
    client.check("peek-buried", "FOUND 2 7\r\nmessage");
    client.check("put 5 0 60 4\r\nnext", "INSERTED 3");
    // The command line sees them while the server runs.
    let seen = |arguments: &[&str]| {
        let data = server.site.dir.join("data");
        let output = output(binary().arg("queue").args(arguments).arg("--data").arg(data));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(seen(&["list"]), "queue\twaiting\tdelayed\tdead\nwork\t1\t0\t1\n");
    assert_eq!(seen(&["peek", "work"]), "id\tpriority\tattempts\tbody\n3\t5\t0\tnext\n");
    assert!(seen(&["dead", "work", "--max", "1"]).ends_with("\tmessage\n"));
    assert!(!seen(&["peek", "w'or\\k"]).contains("next"));
    // Clients with jobs keep a worker.
    drop(client);
    server.finish();
}

#[test]
fn a_client_that_leaves_gives_its_jobs_back_at_once() {
    let server = started("");
    let mut client = server.client();
    client.check("put 1 0 3600 1\r\na", "INSERTED 1");
    let mut waiting = server.client();
    let mut leaving = server.client();
    leaving.check("reserve", "RESERVED 1 1\r\na");
    waiting.send("reserve\r\n");
    eventually("it waits", || (client.statistic("stats", "current-waiting") == "1").then_some(()));
    drop(leaving);
    assert_eq!(waiting.answer(), "RESERVED 1 1\r\na\r\n");
    assert_eq!(client.statistic("stats-job 1", "timeouts"), "0");
    // One that leaves while it waits, with commands behind, gets nothing.
    let mut gone = server.client();
    gone.send("reserve\r\nstats\r\n");
    eventually("it waits", || (client.statistic("stats", "current-waiting") == "1").then_some(()));
    drop(gone);
    eventually("it has left", || (client.statistic("stats", "current-waiting") == "0").then_some(()));
    waiting.check("release 1 1 0", "RELEASED");
    waiting.check("reserve-with-timeout 0", "RESERVED 1 1\r\na");
    // One that sends no more is told that nothing has come.
    let mut half = server.client();
    half.send("reserve\r\nlist-tube-used\r\n");
    half.0.get_ref().shutdown(Shutdown::Write).expect("no more");
    assert_eq!(half.rest(), "TIMED_OUT\r\nUSING default\r\n");
    // Clients with jobs keep a worker.
    drop(waiting);
    server.finish();
}

#[test]
fn clients_may_leave_in_the_middle_of_each_step() {
    let server = started("");
    let mut keeper = server.client();
    keeper.check("use t", "USING t");
    for number in 0..20 {
        keeper.check("put 1 0 3600 1\r\na", &format!("INSERTED {}", number + 1));
    }
    let steps = [
        "reserve\r\n",
        "reserve-with-timeout 5\r\n",
        "reserve\r\nrelease 1 1 0\r\n",
        "reserve-job 2\r\n",
        "kick 3\r\nreserve\r\n",
        "reserve\r\nbury 1 1\r\nkick-job 1\r\n",
    ];
    for step in steps {
        for cut in 0..=step.len() {
            let mut client = server.client();
            client.check("watch t", "WATCHING 2");
            client.send(&step[..cut]);
        }
    }
    let nobody = || (keeper.statistic("stats", "current-connections") == "1").then_some(());
    eventually("all have left", nobody);
    eventually("all jobs wait again", || {
        (keeper.statistic("stats-tube t", "current-jobs-reserved") == "0").then_some(())
    });
    keeper.check("watch t", "WATCHING 2");
    let mut ids = BTreeSet::new();
    keeper.send("kick 99\r\n");
    keeper.answer();
    for _ in 0..20 {
        keeper.send("reserve-with-timeout 0\r\n");
        let answer = keeper.answer();
        assert!(answer.starts_with("RESERVED "), "{answer}");
        assert!(ids.insert(answer));
    }
    keeper.check("reserve-with-timeout 0", "TIMED_OUT");
    // Clients with jobs keep a worker.
    drop(keeper);
    server.finish();
}

#[test]
fn the_time_to_run_is_told_and_ends() {
    let server = started("");
    let mut client = server.client();
    client.check("put 1 0 1 1\r\na", "INSERTED 1");
    client.check("put 1 0 3600 1\r\nb", "INSERTED 2");
    client.check("reserve", "RESERVED 1 1\r\na");
    // There is something for a client in a hurry, and then there is nothing.
    client.check("reserve", "RESERVED 2 1\r\nb");
    client.check("reserve", "DEADLINE_SOON");
    let mut other = server.client();
    other.check("reserve", "RESERVED 1 1\r\na");
    client.check("touch 1", "NOT_FOUND");
    client.check("release 1 1 0", "NOT_FOUND");
    assert_eq!(other.statistic("stats-job 1", "timeouts"), "1");
    assert_eq!(other.statistic("stats-job 1", "reserves"), "2");
    assert_eq!(other.statistic("stats", "job-timeouts"), "1");
    // One that waits is told as well.
    other.check("bury 1 1", "BURIED");
    other.check("put 1 0 2 1\r\nc", "INSERTED 3");
    other.check("reserve", "RESERVED 3 1\r\nc");
    other.check("reserve", "DEADLINE_SOON");
    other.check("delete 3", "DELETED");
    other.check("reserve-with-timeout 1", "TIMED_OUT");
    // Clients with jobs keep a worker.
    drop((client, other));
    server.finish();
}

#[test]
fn the_most_urgent_job_of_all_watched_tubes_comes_first() {
    let server = started("");
    let mut client = server.client();
    for (tube, priority, id) in [("a", 5, 1), ("b", 3, 2), ("c", 9, 3), ("a", 1, 4), ("c", 3, 5)] {
        client.check(&format!("use {tube}"), &format!("USING {tube}"));
        client.check(&format!("put {priority} 0 60 1\r\nx"), &format!("INSERTED {id}"));
        client.send(format!("watch {tube}\r\n"));
        client.answer();
    }
    for id in [4, 2, 5, 1, 3] {
        client.check("reserve", &format!("RESERVED {id} 1\r\nx"));
    }
    // Those who wait hear of a job in any of their tubes, and a delayed one comes by itself.
    let mut other = server.client();
    client.send("reserve\r\n");
    other.check("use b", "USING b");
    other.check("put 1 1 60 1\r\nx", "INSERTED 6");
    assert_eq!(client.answer(), "RESERVED 6 1\r\nx\r\n");
    // Clients with jobs keep a worker.
    drop(client);
    server.finish();
}

#[test]
fn a_tube_is_paused_for_a_time() {
    let server = started("");
    let mut client = server.client();
    client.check("put 1 0 60 1\r\na", "INSERTED 1");
    client.check("pause-tube default 3600", "PAUSED");
    client.check("reserve-with-timeout 0", "TIMED_OUT");
    assert_eq!(client.statistic("stats-tube default", "pause"), "3600");
    client.check("pause-tube default 1", "PAUSED");
    client.check("reserve", "RESERVED 1 1\r\na");
    assert_eq!(client.statistic("stats-tube default", "pause-time-left"), "0");
    // Clients with jobs keep a worker.
    drop(client);
    server.finish();
}

#[test]
fn a_pause_ends_with_its_tube() {
    let server = started("");
    let mut client = server.client();
    client.check("use t", "USING t");
    client.check("watch t", "WATCHING 2");
    client.check("put 1 0 60 1\r\na", "INSERTED 1");
    client.check("pause-tube t 3600", "PAUSED");
    // It has a job.
    client.check("use default", "USING default");
    client.check("ignore t", "WATCHING 1");
    client.check("watch t", "WATCHING 2");
    client.check("reserve-with-timeout 0", "TIMED_OUT");
    client.check("delete 1", "DELETED");
    // It is watched.
    client.check("use t", "USING t");
    assert_eq!(client.statistic("stats-tube t", "pause"), "3600");
    client.check("use default", "USING default");
    client.check("ignore t", "WATCHING 1");
    client.check("stats-tube t", "NOT_FOUND");
    client.check("watch t", "WATCHING 2");
    assert_eq!(client.statistic("stats-tube t", "pause-time-left"), "0");
    client.check("use t", "USING t");
    client.check("put 1 0 60 1\r\nb", "INSERTED 2");
    client.check("reserve", "RESERVED 2 1\r\nb");
    // Clients with jobs keep a worker.
    drop(client);
    server.finish();
}

#[test]
fn many_clients_share_the_work_and_nothing_comes_twice() {
    const CLIENTS: usize = 16;
    const EACH: usize = 40;
    let server = started("");
    let work = |producer: usize| {
        let mut client = server.client();
        let jobs: String =
            (0..EACH).map(|number| format!("put 1 0 600 8\r\n{:08}\r\n", producer * EACH + number)).collect();
        client.send(jobs);
        (0..EACH).for_each(|_| assert!(client.answer().starts_with("INSERTED ")));
        let mut done = Vec::new();
        while done.len() < EACH {
            client.send("reserve\r\nreserve\r\n");
            for answer in [client.answer(), client.answer()] {
                let id = answer.split(' ').nth(1).expect("a number").to_owned();
                done.push(answer.split("\r\n").nth(1).expect("a job").to_owned());
                client.check(&format!("delete {id}"), "DELETED");
            }
        }
        done
    };
    let done: Vec<String> = std::thread::scope(|scope| {
        let work = &work;
        let clients: Vec<_> = (0..CLIENTS).map(|producer| scope.spawn(move || work(producer))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    assert_eq!(done.len(), CLIENTS * EACH);
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), CLIENTS * EACH);
    let mut client = server.client();
    assert_eq!(client.statistic("stats", "total-jobs"), (CLIENTS * EACH).to_string());
    assert_eq!(client.statistic("stats", "cmd-delete"), (CLIENTS * EACH).to_string());
    assert_eq!(client.statistic("stats-tube default", "cmd-delete"), (CLIENTS * EACH).to_string());
    server.finish();
}

#[test]
fn nothing_that_was_answered_is_lost_when_the_server_is_killed() {
    let mut server = started("");
    let mut client = server.client();
    for number in 1..=50 {
        client.check("put 1 0 600 1\r\na", &format!("INSERTED {number}"));
    }
    client.check("put 9 1000 600 1\r\na", "INSERTED 51");
    for number in 1..=20 {
        client.check("reserve", &format!("RESERVED {number} 1\r\na"));
    }
    client.check("bury 1 0", "BURIED");
    client.check("release 2 5 0", "RELEASED");
    (3..=10).for_each(|number| client.check(&format!("delete {number}"), "DELETED"));
    // Behind the last answer nobody can tell.
    client.send("put 1 0 60 1\r\nb\r\ndelete 11\r\n");
    server.site.kill();
    server.site.start();
    let mut client = server.client();
    let count = |client: &mut Client, name: &str| -> u64 {
        client.statistic("stats-tube default", &format!("current-jobs-{name}")).parse().expect("a number")
    };
    assert_eq!((count(&mut client, "delayed"), count(&mut client, "buried")), (1, 1));
    let ready = count(&mut client, "ready");
    assert!((40..=42).contains(&ready), "{ready}");
    assert_eq!(client.statistic("stats-job 2", "pri"), "5");
    assert_eq!(client.statistic("stats-job 2", "releases"), "1");
    assert_eq!(client.statistic("stats-job 12", "ttr"), "600");
    (3..=10).for_each(|number| client.check(&format!("peek {number}"), "NOT_FOUND"));
}

#[test]
fn a_reload_cuts_nobody_off_who_waits_or_works() {
    let server = started("");
    let mut working = server.client();
    working.check("put 1 0 600 1\r\na", "INSERTED 1");
    working.check("reserve", "RESERVED 1 1\r\na");
    let mut waiting = server.client();
    waiting.send("reserve\r\n");
    eventually("it waits", || (working.statistic("stats", "current-waiting") == "1").then_some(()));
    let idle = server.client();
    server.site.configure(&main_of(server.jobs, "beanstalk_drain on;"), LOCATIONS);
    server.site.signal(Signal::SIGHUP);
    assert_eq!(idle.rest(), "");
    let mut new = server.client();
    eventually("it is another worker", || {
        new = server.client();
        new.send("stats\r\n");
        new.answer().contains("draining: true").then_some(())
    });
    new.check("put 1 0 600 1\r\nb", "DRAINING");
    assert_eq!(new.statistic("stats-job 1", "state"), "reserved");
    assert_eq!(server.request("POST", "default", "b"), "{\"id\":2}\n");
    assert_eq!(waiting.answer(), "RESERVED 2 1\r\nb\r\n");
    waiting.check("delete 2", "DELETED");
    working.check("touch 1", "TOUCHED");
    working.check("delete 1", "DELETED");
    assert_eq!(working.rest(), "");
    server.finish();
}

#[test]
fn nobody_else_can_reach_the_port() {
    for address in ["0.0.0.0", "[::]", "192.0.2.1", "*"] {
        let site = Site::new(&format!("database {{ listen {address}:11300 beanstalk; }}"), LOCATIONS);
        let conf = site.dir.join("conf/nginx.conf");
        let tested = output(binary().arg("-t").arg("-p").arg(&site.dir).arg("-c").arg(conf));
        let text = String::from_utf8_lossy(&tested.stderr);
        assert!(!tested.status.success() && text.contains("anybody could use this port"), "{address}: {text}");
    }
}
