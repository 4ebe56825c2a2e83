//! Figures of the documents that the works are taken from, as their authors published them, on their machines of 2012 to 2018.

/// A line of a table: a server, and what it did for each number of clients.
#[derive(Debug)]
pub struct Row {
    /// As the document calls it.
    pub name: &'static str,
    /// Answers a second, by clients.
    pub per_second: &'static [(usize, f64)],
    /// The latency of 99 in 100, in milliseconds, by clients; empty where the document has none.
    pub p99_ms: &'static [(usize, f64)],
}

/// What one document says about one work.
#[derive(Debug)]
pub struct Seed {
    /// `Work::id`.
    pub work: &'static str,
    /// The document.
    pub source: &'static str,
    /// What it says without figures.
    pub text: &'static str,
    /// Its figures.
    pub rows: &'static [Row],
}

const NGX_LUA: &str = "slides about ngx_lua by chaoslawful, 2012: Core i7 at 3.9 GHz, four workers";
const APACHE: &str = "slides \"Alternative infrastructure\" by Marc Seeger, 2012, with ApacheBench";
const NQ: &str = "the benchmark of nq, a queue on OpenResty and MySQL, with wrk";

/// All of them.
pub const SEEDS: &[Seed] = &[
    Seed {
        work: "static-13",
        source: APACHE,
        text: "With keep-alive nginx answers more than twice as many requests as Apache.",
        rows: &[],
    },
    Seed { work: "static-100k", source: APACHE, text: "nginx answers twice as many requests as Apache.", rows: &[] },
    Seed { work: "static-1m", source: APACHE, text: "nginx is only slightly better than Apache.", rows: &[] },
    Seed {
        work: "php",
        source: APACHE,
        text: "Apache with mod_php is always faster than nginx with php-fpm.",
        rows: &[],
    },
    Seed {
        work: "cpu",
        source: NGX_LUA,
        text: "",
        rows: &[
            Row {
                name: "ngx_lua",
                per_second: &[
                    (1, 193.0),
                    (7, 768.0),
                    (15, 762.0),
                    (30, 740.0),
                    (60, 748.0),
                    (125, 756.0),
                    (250, 754.0),
                    (500, 751.0),
                    (1000, 773.0),
                ],
                p99_ms: &[
                    (1, 5.0),
                    (7, 9.0),
                    (15, 19.0),
                    (30, 40.0),
                    (60, 80.0),
                    (125, 165.0),
                    (250, 331.0),
                    (500, 665.0),
                    (1000, 1292.0),
                ],
            },
            Row {
                name: "Node.js",
                per_second: &[
                    (1, 107.0),
                    (7, 463.0),
                    (15, 454.0),
                    (30, 453.0),
                    (60, 449.0),
                    (125, 446.0),
                    (250, 442.0),
                    (500, 442.0),
                    (1000, 437.0),
                ],
                p99_ms: &[
                    (1, 9.0),
                    (7, 15.0),
                    (15, 33.0),
                    (30, 66.0),
                    (60, 133.0),
                    (125, 280.0),
                    (250, 565.0),
                    (500, 1128.0),
                    (1000, 2283.0),
                ],
            },
            Row {
                name: "HipHop (PHP)",
                per_second: &[
                    (1, 80.0),
                    (7, 400.0),
                    (15, 394.0),
                    (30, 396.0),
                    (60, 390.0),
                    (125, 400.0),
                    (250, 400.0),
                    (500, 392.0),
                    (1000, 386.0),
                ],
                p99_ms: &[
                    (1, 12.0),
                    (7, 17.0),
                    (15, 38.0),
                    (30, 75.0),
                    (60, 153.0),
                    (125, 311.0),
                    (250, 619.0),
                    (500, 1275.0),
                    (1000, 2588.0),
                ],
            },
        ],
    },
    Seed {
        work: "sleep",
        source: NGX_LUA,
        text: "",
        rows: &[
            Row {
                name: "ngx_lua",
                per_second: &[
                    (1, 1.0),
                    (7, 7.0),
                    (15, 15.0),
                    (30, 27.0),
                    (60, 56.0),
                    (125, 111.0),
                    (250, 214.0),
                    (500, 390.0),
                    (1000, 605.0),
                ],
                p99_ms: &[
                    (1, 1023.0),
                    (7, 1060.0),
                    (15, 1005.0),
                    (30, 1091.0),
                    (60, 1071.0),
                    (125, 1125.0),
                    (250, 1167.0),
                    (500, 1280.0),
                    (1000, 1651.0),
                ],
            },
            Row {
                name: "Node.js",
                per_second: &[
                    (1, 1.0),
                    (7, 6.0),
                    (15, 14.0),
                    (30, 25.0),
                    (60, 48.0),
                    (125, 107.0),
                    (250, 218.0),
                    (500, 366.0),
                    (1000, 492.0),
                ],
                p99_ms: &[
                    (1, 1222.0),
                    (7, 1133.0),
                    (15, 1060.0),
                    (30, 1194.0),
                    (60, 1256.0),
                    (125, 1162.0),
                    (250, 1142.0),
                    (500, 1364.0),
                    (1000, 2030.0),
                ],
            },
            Row {
                name: "HipHop (PHP)",
                per_second: &[
                    (1, 0.95),
                    (7, 3.98),
                    (15, 3.57),
                    (30, 3.65),
                    (60, 3.83),
                    (125, 3.98),
                    (250, 3.65),
                    (500, 3.41),
                    (1000, 3.74),
                ],
                p99_ms: &[
                    (1, 1061.0),
                    (7, 1760.0),
                    (15, 4203.0),
                    (30, 8208.0),
                    (60, 15672.0),
                    (125, 31433.0),
                    (250, 68496.0),
                    (500, 146_515.0),
                    (1000, 267_069.0),
                ],
            },
        ],
    },
    Seed {
        work: "post",
        source: NQ,
        text: "The INSERT was its author's goal.",
        rows: &[
            Row { name: "lua-resty-mysql INSERT", per_second: &[(1, 7858.0)], p99_ms: &[] },
            Row { name: "nq", per_second: &[(1, 4794.0), (10, 8066.0)], p99_ms: &[] },
        ],
    },
    Seed {
        work: "pull",
        source: NQ,
        text: "",
        rows: &[Row { name: "nq", per_second: &[(1, 1542.0), (10, 1558.0)], p99_ms: &[] }],
    },
    Seed {
        work: "retwis",
        source: "slides \"Alternative infrastructure\" by Marc Seeger, 2012, with httperf",
        text: "",
        rows: &[Row { name: "Retwis-RB on thin", per_second: &[(1, 56.7), (100, 48.5)], p99_ms: &[] }],
    },
];

/// What is said about a work.
#[must_use]
pub fn about(work: &str) -> Option<&'static Seed> {
    SEEDS.iter().find(|seed| seed.work == work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Size, work};

    #[test]
    fn seeds_are_about_works_and_their_clients() {
        for seed in SEEDS {
            let work = work(seed.work).expect(seed.work);
            assert!(!seed.text.is_empty() || !seed.rows.is_empty(), "{}", seed.work);
            for (clients, _) in seed.rows.iter().flat_map(|row| row.per_second.iter().chain(row.p99_ms)) {
                assert!(work.clients(Size::Full).contains(clients), "{}: {clients}", seed.work);
            }
        }
    }
}
