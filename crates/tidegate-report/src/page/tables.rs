//! Tables, for both pages.

use super::model::{Cell, Chapter, Measure, Report, Series};
use crate::machine::Cores;
use crate::seeds;

/// Cells of text.
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|&text| text.to_owned()).collect(), rows: Vec::new() }
    }
}

/// All figures of a work.
pub(super) fn figures(chapter: &Chapter) -> Table {
    let mut table = Table::new(&[
        "stack",
        "clients",
        "requests/s",
        "beside our best",
        "p50",
        "p99",
        "max",
        "CPU us/request",
        "by process (user share)",
        "switches/request, voluntary + involuntary",
        "idle CPU",
        "free memory",
        "memory by process",
    ]);
    for series in &chapter.series {
        for cell in &series.cells {
            table.rows.push(row(chapter, series, cell));
        }
    }
    table
}

fn row(chapter: &Chapter, series: &Series, cell: &Cell) -> Vec<String> {
    let beside = match chapter.our_best(cell.clients) {
        Some(_) if chapter.is_no_different(series, cell, Measure::Rate) => "no difference".to_owned(),
        Some(best) if best.rate.median > 0.0 => format!("{:.2} x", cell.rate.median / best.rate.median),
        _ => String::new(),
    };
    let voluntary = cell.median(|sample| sample.switches().0);
    let involuntary = cell.median(|sample| sample.switches().1);
    let free = cell.median(|sample| sample.memory_free_bytes as f64);
    vec![
        series.label.clone(),
        cell.clients.to_string(),
        format!("{} ±{:.0} %", number(cell.rate.median), cell.rate.percent()),
        beside,
        time(cell.p50.median),
        time(cell.p99.median),
        time(cell.max.median),
        format!("{} ±{:.0} %", number(cell.cpu.median), cell.cpu.percent()),
        by_process(cell),
        format!("{voluntary:.2} + {involuntary:.2}"),
        format!("{:.0} %", cell.median(|sample| sample.idle) * 100.0),
        bytes(free),
        memory(cell),
    ]
}

/// `nginx 5.1 (0.21), mariadbd 30.0 (0.60)`.
fn by_process(cell: &Cell) -> String {
    let names = cell.point.rounds.first().map(|round| round.parts.iter()).into_iter().flatten();
    let parts = names.enumerate().map(|(index, part)| {
        let used = cell.median(|sample| sample.parts.get(index).map_or(0.0, |part| part.us_per_request));
        let user = cell.median(|sample| sample.parts.get(index).map_or(0.0, |part| part.user_share));
        format!("{} {} ({user:.2})", part.name, number(used))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn memory(cell: &Cell) -> String {
    let round = cell.point.rounds.iter().find(|round| round.parts.iter().any(|part| part.memory_bytes > 0));
    let parts = round.map(|round| round.parts.iter()).into_iter().flatten();
    parts.map(|part| format!("{} {}", part.name, bytes(part.memory_bytes as f64))).collect::<Vec<_>>().join(", ")
}

/// The seeds' form: numbers of clients side by side, answers a second and p99 below each other; ours, then the seeds' own.
pub(super) fn in_the_seeds_form(chapter: &Chapter) -> Table {
    let seed = seeds::about(chapter.work.id);
    let mut clients = chapter.clients.clone();
    let theirs =
        seed.iter().flat_map(|seed| seed.rows).flat_map(|row| row.per_second.iter().map(|(clients, _)| *clients));
    clients.extend(theirs);
    clients.sort_unstable();
    clients.dedup();
    let mut table = Table::new(&["", "clients"]);
    table.head.extend(clients.iter().map(ToString::to_string));
    let mut push = |name: &str, what: &str, value: &dyn Fn(usize) -> Option<String>| {
        let mut row = vec![name.to_owned(), what.to_owned()];
        row.extend(clients.iter().map(|&clients| value(clients).unwrap_or_default()));
        table.rows.push(row);
    };
    for series in &chapter.series {
        push(&series.label, "QPS (1/s)", &|clients| Some(number(series.cell(clients)?.rate.median)));
        push(&series.label, "99 % (ms)", &|clients| Some(number(series.cell(clients)?.p99.median / 1e3)));
    }
    for row in seed.iter().flat_map(|seed| seed.rows) {
        let name = format!("then: {}", row.name);
        let of = |list: &'static [(usize, f64)], clients: usize| {
            list.iter().find(|(of, _)| *of == clients).map(|(_, value)| plain(*value))
        };
        push(&name, "QPS (1/s)", &|clients| of(row.per_second, clients));
        if !row.p99_ms.is_empty() {
            push(&name, "99 % (ms)", &|clients| of(row.p99_ms, clients));
        }
    }
    table
}

/// How each point is repeated, and the load that it was measured with.
pub(super) fn commands(report: &Report, chapter: &Chapter) -> Table {
    let mut table = Table::new(&["point", "again", "load"]);
    for cell in chapter.series.iter().flat_map(|series| &series.cells) {
        let name = cell.point.key.name();
        // A path may have blanks in its name.
        let quoted = if name.contains(' ') { format!("'{name}'") } else { name.clone() };
        let again = format!("{} --matrix full --out again --only {quoted}{}", report.run.command, options(report));
        table.rows.push(vec![name, again, cell.point.command.clone()]);
    }
    table
}

/// Options of the run that are not the usual ones of this machine.
fn options(report: &Report) -> String {
    let mut options = String::new();
    if report.run.seconds != 1 {
        options += &format!(" --seconds {}", report.run.seconds);
    }
    let (cores, usual) = (&report.run.cores, Cores::usual());
    if *cores != usual {
        options += &format!(" --server-cores {} --load-cores {}", cores.servers, cores.load);
    }
    options
}

/// Who took part.
pub(super) fn participants(report: &Report) -> Table {
    let mut table = Table::new(&["stack", "versions"]);
    for stack in &report.run.stacks {
        table.rows.push(vec![stack.name.clone(), stack.versions.join("; ")]);
    }
    table
}

/// As the seeds print it.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value}") }
}

/// Three digits that matter.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Of microseconds.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{} ms", number(us / 1e3)),
        us => format!("{} s", number(us / 1e6)),
    }
}

fn bytes(value: f64) -> String {
    if value >= 1e9 { format!("{:.1} GB", value / 1e9) } else { format!("{:.0} MB", value / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_sizes() {
        assert_eq!([0.5, 12.34, 123.4, 123_456.7].map(number), ["0.50", "12.3", "123", "123457"]);
        assert_eq!([12.0, 1234.0, 2_500_000.0].map(time), ["12 us", "1.23 ms", "2.50 s"]);
        assert_eq!([3e6, 4.2e9].map(bytes), ["3 MB", "4.2 GB"]);
        assert_eq!([3.98, 765.0].map(plain), ["3.98", "765"]);
    }
}
