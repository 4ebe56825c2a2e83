//! `examples/retwis`, as a browser sees it, on both of its databases.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::{Site, connect, eventually, free_port};

/// The example's site, on this database.
fn site(store: &str) -> Site {
    let mut site = Site::new("", "");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/retwis");
    copy(&example, &site.dir);
    let text = fs::read_to_string(example.join("nginx.conf")).expect("the example's");
    let (before, after) = text.split_once("daemon    off;").expect("its first directive");
    let text = format!("{before}{after}")
        .replace("logs/retwis.pid", "logs/nginx.pid")
        .replace("127.0.0.1:8081", &format!("127.0.0.1:{}", site.port))
        .replace("$retwis_store embedded;", &format!("$retwis_store {store};"))
        .replace("init=retwis.sql", &format!("init={}/retwis.sql", site.dir.display()))
        // Every test logs in as often as it wants.
        .replace("rate=20r/m", "rate=1000r/s");
    site.write_conf(&text);
    site.start();
    site
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("read");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true if entry.file_name() != "data" && entry.file_name() != "logs" => copy(&entry.path(), &target),
            true => {}
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// A Redis of the test's own.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start() -> Self {
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `cargo xtask test` does that");
        let redis = Self { child, port };
        eventually("Redis listens", || connect(port).ok());
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a person has in hand: a cookie, and the last page.
struct Browser {
    port: u16,
    cookie: String,
    page: String,
}

impl Browser {
    fn new(site: &Site) -> Self {
        Self { port: site.port, cookie: String::new(), page: String::new() }
    }

    /// Answers with the status.
    fn request(&mut self, method: &str, path: &str, fields: &str, body: &str) -> u16 {
        let mut socket = connect(self.port).expect("the site listens");
        let (cookie, length) = (&self.cookie, body.len());
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: retwis\r\nConnection: close\r\nCookie: {cookie}\r\n{fields}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("read");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
        for line in head.lines() {
            if let Some(cookie) = line.strip_prefix("Set-Cookie: ") {
                assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
                cookie.split(';').next().expect("a cookie").clone_into(&mut self.cookie);
            }
        }
        self.page = page.to_owned();
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    #[track_caller]
    fn see(&mut self, path: &str) -> &str {
        assert_eq!(self.request("GET", path, "", ""), 200, "{path}: {}", self.page);
        &self.page
    }

    /// Sends a form of the page that was seen last.
    fn send(&mut self, path: &str, form: &str) -> u16 {
        let csrf = self.page.split_once("csrf\" value=\"").map_or("", |(_, rest)| &rest[..40]).to_owned();
        self.request("POST", path, "", &format!("csrf={csrf}&{form}"))
    }

    /// Somebody new.
    #[track_caller]
    fn joined(site: &Site, name: &str) -> Self {
        let mut browser = Self::new(site);
        assert_eq!(
            browser.send("/register", &format!("name={name}&password=secret+of+{name}")),
            303,
            "{}",
            browser.page
        );
        browser.see("/");
        browser
    }

    /// The texts of the posts on the page.
    fn posts(&self) -> Vec<&str> {
        let posts = self.page.split("<article class=\"card\">\n<p>").skip(1);
        posts.filter_map(|post| post.split_once("</p>")).map(|(text, _)| text).collect()
    }
}

fn people_post_and_follow(store: &str) {
    let mut site = site(store);
    let mut ann = Browser::joined(&site, "Ann");
    let mut bob = Browser::joined(&site, "bob");
    assert_eq!(ann.send("/post", "text=%3Cb%3E+%26+%22all%22+%40bob+%40nobody%2Elong"), 303);
    let shown = "&lt;b&gt; &amp; &quot;all&quot; <a href=\"/u/bob\">@bob</a> <a href=\"/u/nobody\">@nobody</a>.long";
    ann.see("/");
    assert_eq!(ann.posts(), [shown]);
    // Whoever does not follow sees it among everybody's.
    bob.see("/");
    assert_eq!(bob.posts(), [""; 0]);
    assert!(bob.see("/timeline").contains("@Ann</a> <a href") || bob.page.contains("@bob</a> <a href"), "{}", bob.page);
    assert_eq!(bob.posts(), [shown]);
    bob.see("/u/ann");
    assert!(bob.page.contains("<h1>@Ann</h1>") && bob.page.contains("action=\"/follow\""), "{}", bob.page);
    for _ in 0..2 {
        assert_eq!(bob.send("/follow", "name=Ann"), 303);
        bob.see("/u/Ann");
        assert!(bob.page.contains("1 followers · 0 following") && bob.page.contains("Stop following"), "{}", bob.page);
    }
    // Pages of twenty.
    for number in 1..=21 {
        assert_eq!(ann.send("/post", &format!("text=number+{number}")), 303);
        ann.see("/");
    }
    bob.see("/");
    assert_eq!((bob.posts().len(), bob.posts()[0], bob.posts()[19]), (20, "number 21", "number 2"));
    let (_, rest) = bob.page.split_once("/?before=").expect("there are older ones");
    let older = format!("/?before={}", rest.split_once('"').expect("quoted").0);
    bob.see(&older);
    assert_eq!(bob.posts(), ["number 1"]);
    assert_eq!(bob.send("/unfollow", "name=ann"), 303);
    bob.see("/u/ann");
    assert_eq!(bob.send("/post", "text=mine"), 303);
    ann.see("/");
    assert_eq!(ann.send("/post", "text=unheard"), 303);
    bob.see("/");
    assert_eq!(bob.posts()[..2], ["mine", "number 21"], "what came before stays");
    // Names are whose they are, whatever their letters' size.
    let mut other = Browser::new(&site);
    assert_eq!(other.send("/register", "name=aNN&password=something+else"), 409);
    assert_eq!(other.send("/login", "name=ann&password=something+else"), 403);
    assert_eq!(other.send("/login", "name=nobody&password=something+else"), 403);
    assert_eq!(other.send("/login", "name=ann&password=secret+of+Ann"), 303);
    assert!(other.see("/").contains("@Ann</a>"));
    // A session ends where its owner ends it, and nowhere else.
    ann.see("/");
    assert_eq!(ann.send("/logout", ""), 303);
    assert!(ann.see("/").contains("action=\"/login\""));
    assert!(other.see("/").contains("action=\"/logout\""));
    site.quit();
}

#[test]
fn people_post_and_follow_in_the_embedded_database() {
    people_post_and_follow("embedded");
}

#[test]
fn people_post_and_follow_in_redis() {
    let redis = Redis::start();
    people_post_and_follow(&format!("127.0.0.1:{}", redis.port));
}

#[test]
fn forms_that_nobody_was_given_do_nothing() {
    let mut site = site("embedded");
    let mut ann = Browser::joined(&site, "ann");
    assert_eq!(ann.request("POST", "/post", "", "text=forged"), 403);
    assert_eq!(ann.request("POST", "/post", "", &format!("csrf={}&text=forged", "0".repeat(40))), 403);
    ann.see("/");
    let form = "name=eve&password=secret+of+eve";
    assert_eq!(ann.request("POST", "/register", "Origin: http://elsewhere\r\n", form), 403);
    assert_eq!(ann.request("POST", "/register", "Origin: null\r\n", form), 403);
    assert_eq!(ann.request("PUT", "/post", "", ""), 405);
    for (path, form) in [
        ("/post", "text="),
        ("/post", "text=++%00%0A"),
        ("/post", "text=%FF"),
        ("/post", &*format!("text={}", "%C3%A9".repeat(281))),
        // Blanks that are looked through again and again.
        ("/post", &*format!("text=x{}x", "+".repeat(16_000))),
        ("/follow", "name=ann"),
        ("/register", "name=e+v+e&password=secret+of+eve"),
        ("/register", "name=eve&password=short"),
        ("/register", "name=%3Cscript%3E&password=secret+of+eve"),
        ("/register", ""),
    ] {
        ann.see("/");
        assert_eq!(ann.send(path, form), 400, "{path} {form}");
        assert!(!ann.page.contains("<script>"), "{}", ann.page);
    }
    for path in ["/u/nobody", "/u/%27", "/elsewhere", "/u/"] {
        assert_eq!(ann.request("GET", path, "", ""), 404, "{path}");
    }
    ann.see("/");
    assert_eq!(ann.send("/post", &format!("text={}", "%C3%A9".repeat(280))), 303);
    assert_eq!(ann.request("POST", "/post", "", &"x".repeat(17 << 10)), 413);
    // Cookies that are nobody's.
    ann.cookie = format!("retwis={}", "0".repeat(64));
    assert!(ann.see("/").contains("action=\"/login\""));
    assert_eq!(ann.send("/post", "text=x"), 303);
    let mut visitor = Browser::new(&site);
    visitor.see("/timeline");
    assert_eq!(visitor.posts(), ["é".repeat(280)]);
    site.quit();
}

#[test]
fn without_its_database_it_says_so() {
    let mut site = site(&format!("127.0.0.1:{}", free_port()));
    assert_eq!(Browser::new(&site).request("GET", "/", "", ""), 503);
    site.wait_for_log("retwis: no database");
    site.quit();
}
