//! Points put together: for each work the series that are drawn, with their figures.

use crate::matrix::{WORKS, Work};
use crate::points::{Key, Point, Run, Sample};
use crate::stacks::{STACKS, Side};
use crate::stats::{Difference, Figure};

/// A run and the works that have points.
pub struct Report {
    /// What the points have in common.
    pub run: Run,
    /// In the order of the matrix.
    pub chapters: Vec<Chapter>,
    /// Sentences about points whose rounds, all or some, have no figures.
    pub problems: Vec<String>,
}

/// A work with its series.
pub struct Chapter {
    /// What was asked for.
    pub work: &'static Work,
    /// All numbers of clients, ascending.
    pub clients: Vec<usize>,
    /// Seconds of a round.
    pub seconds: u64,
    /// In the order of the stacks.
    pub series: Vec<Series>,
}

/// A stack in one of its ways.
pub struct Series {
    /// What people read.
    pub label: String,
    /// `STACK/PATH`, with `-` for no path.
    pub id: String,
    /// Whose it is.
    pub side: Side,
    /// Its points, by clients.
    pub cells: Vec<Cell>,
}

/// A point's figures.
pub struct Cell {
    /// Connections.
    pub clients: usize,
    /// Answers a second.
    pub rate: Figure,
    /// Latency in microseconds: of half of the requests,
    pub p50: Figure,
    /// of 99 in 100,
    pub p99: Figure,
    /// of all.
    pub max: Figure,
    /// CPU time for a request in microseconds.
    pub cpu: Figure,
    /// The rounds.
    pub point: Point,
}

/// What two cells are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Answers a second: more is better.
    Rate,
    /// Less is better.
    P99,
    /// CPU time for a request: less is better.
    Cpu,
}

impl Cell {
    fn of(point: Point) -> Option<Cell> {
        let figure = |value: fn(&Sample) -> f64| Figure::of(point.rounds.iter().map(value));
        Some(Cell {
            clients: point.key.clients,
            rate: figure(|sample| sample.per_second)?,
            p50: figure(|sample| sample.p50_us)?,
            p99: figure(|sample| sample.p99_us)?,
            max: figure(|sample| sample.max_us)?,
            cpu: figure(Sample::us_per_request)?,
            point,
        })
    }

    /// The median of something else of the rounds; 0 without rounds.
    #[must_use]
    pub fn median(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        Figure::of(self.point.rounds.iter().map(value)).map_or(0.0, |figure| figure.median)
    }

    /// The figure that a measure looks at.
    #[must_use]
    pub fn figure(&self, measure: Measure) -> &Figure {
        match measure {
            Measure::Rate => &self.rate,
            Measure::P99 => &self.p99,
            Measure::Cpu => &self.cpu,
        }
    }

    /// Whether this one is worse than the other by more than the spread.
    #[must_use]
    pub fn is_worse_than(&self, other: &Cell, measure: Measure) -> bool {
        let bad = if measure == Measure::Rate { Difference::Lower } else { Difference::Higher };
        self.figure(measure).compared_with(other.figure(measure)) == bad
    }
}

impl Series {
    /// The point for so many clients.
    #[must_use]
    pub fn cell(&self, clients: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.clients == clients)
    }
}

impl Chapter {
    /// Our series with the most answers a second for so many clients.
    #[must_use]
    pub fn our_best(&self, clients: usize) -> Option<&Cell> {
        let ours = self.series.iter().filter(|series| series.side == Side::Ours).filter_map(|s| s.cell(clients));
        ours.max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))
    }

    /// Whether a peer's point cannot be told from our best one.
    #[must_use]
    pub fn is_no_different(&self, series: &Series, cell: &Cell, measure: Measure) -> bool {
        let best = self.our_best(cell.clients).filter(|_| series.side == Side::Peer);
        best.is_some_and(|best| cell.figure(measure).compared_with(best.figure(measure)) == Difference::None)
    }
}

impl Report {
    /// Puts points together. Those of works and stacks that this program does not know are left out.
    #[must_use]
    pub fn of(run: Run, points: Vec<Point>) -> Report {
        // What a server has said besides stands in the point's file.
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let problem = |point: &Point| {
            let what = if point.rounds.is_empty() { "No figures" } else { "The last round has no figures" };
            Some(format!("{what}: {}: {}", point.key.name(), first_line(point.problem.as_ref()?)))
        };
        let problems = points.iter().filter_map(problem).collect();
        let chapters = WORKS.iter().filter_map(|work| chapter(work, &points)).collect();
        Report { run, chapters, problems }
    }
}

fn chapter(work: &'static Work, points: &[Point]) -> Option<Chapter> {
    let of_work: Vec<&Point> = points.iter().filter(|point| point.key.work == work.id).collect();
    let mut clients: Vec<usize> = of_work.iter().map(|point| point.key.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    let mut series = Vec::new();
    for stack in STACKS {
        for route in stack.routes.iter().filter(|route| route.work == work.id) {
            let is_here = |key: &Key| key.stack == stack.id && key.path == route.path;
            let here = of_work.iter().filter(|point| is_here(&point.key));
            let mut cells: Vec<Cell> = here.filter_map(|point| Cell::of((*point).clone())).collect();
            cells.sort_by_key(|cell| cell.clients);
            if cells.is_empty() {
                continue;
            }
            let (label, path) = match route.path {
                "" => (stack.name.to_owned(), "-"),
                path => (format!("{}: {path}", stack.name), path),
            };
            series.push(Series { label, id: format!("{}/{path}", stack.id), side: stack.side, cells });
        }
    }
    let seconds = of_work.iter().map(|point| point.seconds).max()?;
    (!series.is_empty()).then_some(Chapter { work, clients, seconds, series })
}
