//! What is measured: the works, and with how many clients each.

/// How much of the matrix is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// One or two numbers of clients for each work: ten minutes.
    Small,
    /// The seeds' numbers of clients: two hours.
    Full,
}

/// A service that stands behind a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// MariaDB with the schema `world`.
    MariaDb,
    /// memcached.
    Memcached,
    /// Redis with what `examples/retwis` has.
    Redis,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 3] = [Service::MariaDb, Service::Memcached, Service::Redis];
}

/// Something that all servers are asked for.
#[derive(Debug)]
pub struct Work {
    /// One word, of which names of files are made.
    pub id: &'static str,
    /// What people read.
    pub title: &'static str,
    /// What is behind it, in a sentence or two.
    pub text: &'static str,
    /// Numbers of clients in the small matrix.
    small: &'static [usize],
    /// Numbers of clients in the full one.
    full: &'static [usize],
    /// Seconds of a round, at least, from so many clients on: several times as long as an answer takes.
    seconds_min: (usize, u64),
    /// A new connection for each request.
    pub closes: bool,
    /// What is posted; without it the method is GET.
    pub body: Option<&'static str>,
    /// What an answer must hold.
    pub expect: &'static str,
    /// And how long it is at least.
    pub bytes_min: usize,
    /// How long an answer takes whatever the server does, in seconds: the limit is known, and nothing needs to be measured for it.
    pub answer_seconds: Option<f64>,
}

impl Work {
    /// Numbers of clients.
    #[must_use]
    pub fn clients(&self, size: Size) -> &'static [usize] {
        match size {
            Size::Small => self.small,
            Size::Full => self.full,
        }
    }

    /// Seconds of a round of so many clients where `wanted` are asked for.
    #[must_use]
    pub fn seconds(&self, clients: usize, wanted: u64) -> u64 {
        let (many, seconds) = self.seconds_min;
        if clients < many { wanted } else { wanted.max(seconds) }
    }

    /// The most answers a second that so many clients can have in a round, where that is known: whole answers of each.
    #[must_use]
    pub fn limit(&self, clients: usize, seconds: u64) -> Option<f64> {
        let answers = (seconds as f64 / self.answer_seconds?).ceil() - 1.0;
        Some(clients as f64 * answers.max(1.0) / seconds as f64)
    }
}

/// The table that nothing of its own is in.
const PLAIN: Work = Work {
    id: "",
    title: "",
    text: "",
    small: &[32],
    full: DOUBLING,
    seconds_min: (0, 1),
    closes: false,
    body: None,
    expect: "",
    bytes_min: 1,
    answer_seconds: None,
};

/// Clients of the slides about nginx and Apache.
const DOUBLING: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Clients of the slides about ngx_lua, Node.js and HipHop.
const TO_1000: &[usize] = &[1, 7, 15, 30, 60, 125, 250, 500, 1000];
/// Clients of works that tell little more with more of them.
const FEW: &[usize] = &[1, 8, 32, 128];

/// All works, in the order of the report.
pub const WORKS: &[Work] = &[
    Work {
        id: "static-13",
        title: "A file of 13 bytes",
        text: "HelloWorld.txt of the comparison of nginx and Apache; connections are kept.",
        expect: "Hello, world!",
        ..PLAIN
    },
    Work {
        id: "static-13-close",
        title: "A file of 13 bytes, a connection for each request",
        text: "The same without keep-alive.",
        expect: "Hello, world!",
        closes: true,
        ..PLAIN
    },
    Work {
        id: "static-100k",
        title: "A file of 100 KB",
        text: "100KB.txt of the same comparison.",
        small: &[],
        full: FEW,
        bytes_min: 102_400,
        ..PLAIN
    },
    Work {
        id: "static-1m",
        title: "A file of 1 MB",
        text: "1MB.txt of the same comparison.",
        small: &[],
        full: FEW,
        bytes_min: 1 << 20,
        ..PLAIN
    },
    Work {
        id: "php",
        title: "hello.php",
        text: "PHP that prints 13 bytes; connections are kept.",
        expect: "Hello, world!",
        full: DOUBLING,
        ..PLAIN
    },
    Work {
        id: "php-close",
        title: "hello.php, a connection for each request",
        text: "The same without keep-alive.",
        small: &[],
        expect: "Hello, world!",
        closes: true,
        ..PLAIN
    },
    Work {
        id: "cpu",
        title: "A script that computes",
        text: "10,000 random numbers are made, sorted and added up.",
        small: &[30],
        full: TO_1000,
        // A thousand clients have an answer each in more than a second.
        seconds_min: (250, 3),
        expect: "cnt: 10000",
        ..PLAIN
    },
    Work {
        id: "sleep",
        title: "A query that sleeps: select sleep(1)",
        text: "Nothing is computed. The limit is a second for each answer; the one that is on its way when a round ends does not count.",
        small: &[60],
        full: TO_1000,
        seconds_min: (0, 3),
        answer_seconds: Some(1.0),
        ..PLAIN
    },
    Work {
        id: "row",
        title: "One row as JSON",
        text: "select * from world.City order by ID limit 1, by every path to the database.",
        small: &[30],
        full: FEW,
        expect: "City 1",
        ..PLAIN
    },
    Work {
        id: "rows",
        title: "1000 rows as JSON, about 90 KB",
        text: "select * from world.City order by ID limit 1000, by every path to the database.",
        small: &[30],
        full: FEW,
        expect: "City 1000",
        bytes_min: 50_000,
        ..PLAIN
    },
    Work {
        id: "post",
        title: "A message posted to a queue",
        text: "nq's benchmark: a message of 11 bytes is stored; beside it the INSERT that nq's author took for the goal.",
        small: &[10],
        full: &[1, 10, 64],
        body: Some(r#"{"sender":"sender1","messages":{"queue1":["hello world"]}}"#),
        ..PLAIN
    },
    Work {
        id: "pull",
        title: "A message pulled from a queue",
        text: "nq's benchmark: one receiver gets a message that was posted before.",
        small: &[],
        full: &[1, 10, 64],
        body: Some(r#"{"receiver":"receiver1","queues":{"queue1":{}}}"#),
        expect: "messages",
        ..PLAIN
    },
    Work {
        id: "lookup",
        title: "A row by its key, without HTTP",
        text: "The Name of a row of world.City by its ID: by HandlerSocket, by SQL, and by memcached's protocol, from a table and from memory.",
        small: &[],
        full: &[1, 16, 128],
        ..PLAIN
    },
    Work {
        id: "retwis",
        title: "Retwis: the timeline",
        text: "The Twitter clone of examples/retwis: twenty posts with their authors as a page of HTML, from the embedded database and from Redis.",
        small: &[],
        full: &[1, 10, 100],
        expect: "Post 1000 is about",
        bytes_min: 3000,
        ..PLAIN
    },
];

/// A work by its identifier.
#[must_use]
pub fn work(id: &str) -> Option<&'static Work> {
    WORKS.iter().find(|work| work.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_answers_that_take_a_second() {
        let sleep = work("sleep").expect("a work");
        // Of three seconds two answers come to each client: the third is on its way when the round ends.
        assert_eq!(sleep.limit(60, 3), Some(40.0));
        assert_eq!(sleep.limit(100, 4), Some(75.0));
        assert_eq!(work("row").expect("a work").limit(60, 3), None);
        assert_eq!((sleep.seconds(1, 1), sleep.seconds(1000, 9)), (3, 9));
        let cpu = work("cpu").expect("a work");
        assert_eq!((cpu.seconds(125, 1), cpu.seconds(250, 1)), (1, 3));
    }

    #[test]
    fn works_have_names_of_their_own_and_clients_in_order() {
        for (index, work) in WORKS.iter().enumerate() {
            assert!(WORKS[..index].iter().all(|other| other.id != work.id), "{}", work.id);
            assert!(!work.title.is_empty() && !work.text.is_empty(), "{}", work.id);
            assert!(!work.full.is_empty(), "{}", work.id);
            assert!(work.full.is_sorted() && work.small.is_sorted(), "{}", work.id);
            assert!(work.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
        }
    }
}
