//! The pages: `report.html`, which needs no other file, `summary.md` with its plots beside it.

mod html;
mod markdown;
pub mod model;
mod plots;
mod tables;
mod verdict;

use crate::points::Store;
use std::fs;
use std::path::Path;

/// Draws everything that the points of a store say.
///
/// # Errors
/// When there is no run, or a file cannot be written.
pub fn write(store: &Store, out: &Path) -> Result<(), String> {
    let report = model::Report::of(store.run()?, store.points()?);
    let pictures = plots::all(&report)?;
    let plots = out.join("plots");
    fs::create_dir_all(&plots).map_err(|e| format!("{}: {e}", plots.display()))?;
    for picture in &pictures {
        put(&plots.join(format!("{}.svg", picture.name)), &picture.svg)?;
    }
    put(&out.join("report.html"), &html::page(&report, &pictures))?;
    put(&out.join("summary.md"), &markdown::page(&report, &pictures))
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Scratch;
    use crate::points::Point;
    use crate::points::tests::{key, run, sample};

    /// Two works of three stacks: one with several numbers of clients, one with one.
    fn store(dir: &Path) -> Store {
        let store = Store::open(dir).expect("a store");
        store.begin(&run()).expect("begun");
        let save = |work: &str, stack: &str, path: &str, clients: usize, rate: f64| {
            let rounds = [0.99, 1.0, 1.01, 1.0, 1.0].map(|part| sample(rate * part, 1e6 / rate));
            let point = Point {
                key: key(work, stack, path, clients),
                command: format!("wrk -c{clients} 'http://127.0.0.1/<{stack}>'"),
                seconds: 1,
                rounds: rounds.into(),
                problem: None,
            };
            store.save(&point).expect("saved");
        };
        for clients in [1, 7, 15] {
            save("cpu", "tidegate-embedded", "", clients, 500.0);
            save("cpu", "go", "", clients, if clients == 15 { 900.0 } else { 499.0 });
            save("cpu", "floor", "", clients, 100_000.0);
        }
        save("rows", "tidegate-embedded", "drizzle", 30, 9000.0);
        save("rows", "go", "go-sql-driver", 30, 3000.0);
        store
    }

    #[test]
    fn the_pages_have_all_their_parts() {
        let scratch = Scratch::new("page", false).expect("a directory");
        write(&store(scratch.path()), scratch.path()).expect("written");
        let html = fs::read_to_string(scratch.path().join("report.html")).expect("the page");
        let summary = fs::read_to_string(scratch.path().join("summary.md")).expect("the summary");
        for part in [
            "A script that computes",
            "1000 rows as JSON",
            "Tidegate, embedded database",
            "Go, net/http, database/sql",
            "do-nothing server",
            "Python: python3 is not installed",
            "HipHop (PHP)",
            "2588",
            "wrk 4.1",
            "tidegate 0.1",
            "2 x a processor",
        ] {
            assert!(html.contains(part), "{part} is not in report.html");
            assert!(summary.contains(part), "{part} is not in summary.md");
        }
        assert_eq!(html.matches("<svg").count(), 4, "a plot of rates and one of latencies for each work");
        assert!(
            !html.contains("http-equiv") && !html.contains("src=") && !html.contains("<link"),
            "nothing from elsewhere"
        );
        assert!(html.contains("wrk -c30 &#39;http://127.0.0.1/&lt;go&gt;&#39;"), "commands are escaped");
        for plot in ["cpu-rate.svg", "cpu-p99.svg", "rows-rate.svg", "rows-p99.svg"] {
            let svg = fs::read_to_string(scratch.path().join("plots").join(plot)).expect(plot);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
            assert!(summary.contains(&format!("plots/{plot}")), "{plot}");
        }
    }

    #[test]
    fn a_row_that_is_worse_is_named_and_one_without_a_difference_is_not() {
        let scratch = Scratch::new("page", false).expect("a directory");
        write(&store(scratch.path()), scratch.path()).expect("written");
        let summary = fs::read_to_string(scratch.path().join("summary.md")).expect("the summary");
        let begin = summary.find("## Rows that are worse").expect("the heading");
        let worse: Vec<&str> = summary[begin..].lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(worse.len(), 1, "{worse:?}");
        assert!(worse[0].contains("A script that computes") && worse[0].contains("Go"), "{worse:?}");
        assert!(worse[0].contains("0.56 x the requests a second at 15"), "{worse:?}");
        assert!(summary.contains("no difference"), "1 and 7 clients");
    }

    #[test]
    fn a_report_without_points_is_drawn_too() {
        let scratch = Scratch::new("page", false).expect("a directory");
        let store = Store::open(scratch.path()).expect("a store");
        store.begin(&run()).expect("begun");
        write(&store, scratch.path()).expect("written");
        assert!(fs::read_to_string(scratch.path().join("report.html")).expect("the page").contains("</html>"));
    }
}
