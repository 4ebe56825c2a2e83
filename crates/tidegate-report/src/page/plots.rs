//! Plots as SVG: lines over numbers of clients, bars where there is one number.
//!
//! A peer's point that cannot be told from our best one is hollow. The do-nothing server is a black line.

use super::model::{Cell, Chapter, Measure, Report, Series};
use super::tables::{number, time};
use crate::stacks::{STACKS, Side};
use plotters::coord::Shift;
use plotters::coord::types::{RangedCoordf64, RangedCoordi32};
use plotters::prelude::*;

/// A drawn plot.
pub(super) struct Picture {
    /// Of its file: `rows-rate`.
    pub(super) name: String,
    /// The work that it is about.
    pub(super) work: &'static str,
    /// What it shows.
    pub(super) title: String,
    pub(super) svg: String,
}

const WIDTH: u32 = 1000;
/// Of the part with the lines; the names of the series stand beside it.
const LINES_WIDTH: u32 = 620;
const ROW_HEIGHT: u32 = 22;
/// Of the names before bars.
const NAMES_WIDTH: i32 = 400;
const TOP: i32 = 40;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Two plots for each work.
///
/// # Errors
/// When the library cannot draw.
pub(super) fn all(report: &Report) -> Result<Vec<Picture>, String> {
    let mut pictures = Vec::new();
    for chapter in &report.chapters {
        for (measure, name, what) in [
            (Measure::Rate, "rate", "requests a second, more is better"),
            (Measure::P99, "p99", "p99 latency, less is better, logarithmic"),
        ] {
            let is_log = measure == Measure::Rate && chapter.clients.len() > 1 && is_wide(chapter);
            let title = format!("{}: {what}{}", chapter.work.title, if is_log { ", logarithmic" } else { "" });
            let svg = if chapter.clients.len() > 1 {
                lines(chapter, measure, &title)
            } else {
                bars(chapter, measure, &title)
            };
            pictures.push(Picture {
                name: format!("{}-{name}", chapter.work.id),
                work: chapter.work.id,
                title,
                svg: svg.map_err(|e| format!("{}: {e}", chapter.work.id))?,
            });
        }
    }
    Ok(pictures)
}

/// Each stack has its colour in all plots; its ways get lighter.
fn colour(series: &Series, chapter: &Chapter) -> RGBColor {
    const PALETTE: [(u8, u8, u8); 11] = [
        (0, 0, 0),
        (11, 114, 133),
        (28, 126, 214),
        (103, 65, 217),
        (43, 138, 62),
        (116, 184, 22),
        (232, 89, 12),
        (201, 42, 42),
        (240, 140, 0),
        (194, 37, 92),
        (134, 142, 150),
    ];
    let stack_of = |series: &Series| series.id.split('/').next().unwrap_or_default().to_owned();
    let stack = stack_of(series);
    let index = STACKS.iter().position(|known| known.id == stack).unwrap_or(0);
    let ways = chapter.series.iter().filter(|other| stack_of(other) == stack);
    let way = ways.take_while(|other| other.id != series.id).count();
    let (r, g, b) = PALETTE[index % PALETTE.len()];
    let lighter = |part: u8| part + ((255 - part) as f64 * (way as f64 * 0.14).min(0.6)) as u8;
    RGBColor(lighter(r), lighter(g), lighter(b))
}

fn shown(measure: Measure, value: f64) -> String {
    if measure == Measure::Rate { number(value) } else { time(value) }
}

fn text_style(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&RGBColor(33, 37, 41))
}

fn put(area: &Area<'_>, text: &str, at: (i32, i32), size: i32) -> Result<(), String> {
    area.draw(&Text::new(text.to_owned(), at, text_style(size))).map_err(|e| e.to_string())
}

/// Latencies lie too far apart for a linear scale.
fn scale(measure: Measure, value: f64) -> f64 {
    if measure == Measure::Rate { value } else { value.max(1.0).log10() }
}

fn lines(chapter: &Chapter, measure: Measure, title: &str) -> Result<String, String> {
    let height = 420.max(TOP as u32 + (chapter.series.len() as u32 + 2) * ROW_HEIGHT);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| e.to_string())?;
        put(&root, title, (12, 10), 17)?;
        let (left, right) = root.margin(TOP, 8, 4, 8).split_horizontally(LINES_WIDTH);
        draw_lines(&left, chapter, measure)?;
        for (index, series) in chapter.series.iter().enumerate() {
            let y = 10 + index as i32 * ROW_HEIGHT as i32;
            let colour = colour(series, chapter);
            right
                .draw(&PathElement::new([(8, y + 6), (28, y + 6)], colour.stroke_width(3)))
                .map_err(|e| e.to_string())?;
            put(&right, &series.label, (36, y), 13)?;
        }
        root.present().map_err(|e| e.to_string())?;
    }
    Ok(svg)
}

type Lines<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordi32, RangedCoordf64>>;

/// The vertical axis of a plot with lines.
struct Axis {
    is_log: bool,
    bottom: f64,
    top: f64,
}

impl Axis {
    fn of(chapter: &Chapter, measure: Measure) -> Axis {
        // Rates of a server that does nothing and of one that computes lie far apart, as latencies do.
        let is_log = measure != Measure::Rate || is_wide(chapter);
        let mut axis = Axis { is_log, bottom: f64::INFINITY, top: 0.0 };
        for figure in chapter.series.iter().flat_map(|series| &series.cells).map(|cell| cell.figure(measure)) {
            axis.bottom = axis.bottom.min(axis.place(figure.low));
            axis.top = axis.top.max(axis.place(figure.high));
        }
        if measure == Measure::Rate {
            let limits = chapter.clients.iter().filter_map(|&clients| chapter.work.limit(clients, chapter.seconds));
            axis.top = limits.map(|limit| axis.place(limit)).fold(axis.top, f64::max);
        }
        axis.bottom = if is_log { axis.bottom.min(axis.top) - 0.1 } else { 0.0 };
        axis
    }

    fn place(&self, value: f64) -> f64 {
        if self.is_log { value.max(0.1).log10() } else { value }
    }

    fn label(&self, measure: Measure, place: f64) -> String {
        shown(measure, if self.is_log { 10_f64.powf(place) } else { place })
    }
}

fn draw_lines(area: &Area<'_>, chapter: &Chapter, measure: Measure) -> Result<(), String> {
    let failed = |e: DrawingAreaErrorKind<_>| -> String { format!("{e}") };
    let axis = Axis::of(chapter, measure);
    let last = chapter.clients.len() as i32 - 1;
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(38)
        .y_label_area_size(74)
        .margin_right(12)
        .build_cartesian_2d(0..last.max(1), axis.bottom..axis.top * 1.03 + 0.01)
        .map_err(failed)?;
    let label = |place: &f64| axis.label(measure, *place);
    let clients = |index: &i32| chapter.clients.get(*index as usize).map(ToString::to_string).unwrap_or_default();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(chapter.clients.len())
        .x_label_formatter(&clients)
        .y_label_formatter(&label)
        .x_desc("clients")
        .label_style(text_style(12))
        .light_line_style(RGBColor(241, 243, 245))
        .bold_line_style(RGBColor(222, 226, 230))
        .draw()
        .map_err(failed)?;
    for series in &chapter.series {
        draw_series(&mut chart, chapter, series, measure, &axis)?;
    }
    if measure == Measure::Rate {
        let limit = |clients| Some(axis.place(chapter.work.limit(clients, chapter.seconds)?));
        let clients = chapter.clients.iter().enumerate();
        let limits = clients.filter_map(|(index, &clients)| Some((index as i32, limit(clients)?)));
        chart.draw_series(LineSeries::new(limits, BLACK.stroke_width(1))).map_err(failed)?;
    }
    Ok(())
}

fn draw_series(
    chart: &mut Lines<'_, '_>,
    chapter: &Chapter,
    series: &Series,
    measure: Measure,
    axis: &Axis,
) -> Result<(), String> {
    let failed = |e: DrawingAreaErrorKind<_>| -> String { format!("{e}") };
    let column = |cell: &Cell| chapter.clients.iter().position(|clients| *clients == cell.clients).unwrap_or(0) as i32;
    let colour = colour(series, chapter);
    let width = if series.side == Side::Peer { 1 } else { 2 };
    let points = series.cells.iter().map(|cell| (column(cell), axis.place(cell.figure(measure).median)));
    chart.draw_series(LineSeries::new(points, colour.stroke_width(width))).map_err(failed)?;
    for cell in &series.cells {
        let (figure, x) = (cell.figure(measure), column(cell));
        let spread = [(x, axis.place(figure.low)), (x, axis.place(figure.high))];
        chart.draw_series([PathElement::new(spread, colour.stroke_width(1))]).map_err(failed)?;
        let at = (x, axis.place(figure.median));
        if chapter.is_no_different(series, cell, measure) {
            chart.draw_series([Circle::new(at, 4, WHITE.filled())]).map_err(failed)?;
            chart.draw_series([Circle::new(at, 4, colour.stroke_width(1))]).map_err(failed)?;
        } else {
            chart.draw_series([Circle::new(at, 3, colour.filled())]).map_err(failed)?;
        }
    }
    Ok(())
}

/// Whether the fastest series is more than eight times as fast as the slowest.
fn is_wide(chapter: &Chapter) -> bool {
    let rates = chapter.series.iter().flat_map(|series| &series.cells).map(|cell| cell.rate.median.max(0.1));
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    high > low * 8.0
}

/// Bars beside each other's names; the floor, or the limit, is a line across all of them.
fn bars(chapter: &Chapter, measure: Measure, title: &str) -> Result<String, String> {
    let clients = chapter.clients.first().copied().unwrap_or(0);
    let rows: Vec<(&Series, &Cell)> = chapter
        .series
        .iter()
        .filter(|series| series.side != Side::Floor)
        .filter_map(|series| Some((series, series.cell(clients)?)))
        .collect();
    let height = TOP as u32 + (rows.len() as u32 + 1) * ROW_HEIGHT + 24;
    let floor = floor(chapter, measure, clients);
    let scale = |value: f64| scale(measure, value);
    let highest = rows.iter().map(|(_, cell)| cell.figure(measure).high).chain(floor).fold(0.0_f64, f64::max);
    let room = f64::from(WIDTH as i32 - NAMES_WIDTH - 110);
    let x_of = |value: f64| NAMES_WIDTH + (scale(value) / scale(highest).max(1e-9) * room) as i32;
    let failed = |e: DrawingAreaErrorKind<_>| -> String { format!("{e}") };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        put(&root, &format!("{title}, {clients} clients"), (12, 10), 17)?;
        for (index, (series, cell)) in rows.iter().enumerate() {
            let y = TOP + index as i32 * ROW_HEIGHT as i32;
            let (figure, colour) = (cell.figure(measure), colour(series, chapter));
            put(&root, &series.label, (12, y + 3), 13)?;
            let corners = [(NAMES_WIDTH, y + 2), (x_of(figure.median), y + ROW_HEIGHT as i32 - 4)];
            let is_same = chapter.is_no_different(series, cell, measure);
            let style = if is_same { colour.stroke_width(1) } else { colour.filled() };
            root.draw(&Rectangle::new(corners, style)).map_err(failed)?;
            let middle = y + ROW_HEIGHT as i32 / 2 - 1;
            let spread = [(x_of(figure.low), middle), (x_of(figure.high), middle)];
            root.draw(&PathElement::new(spread, BLACK.stroke_width(1))).map_err(failed)?;
            put(&root, &shown(measure, figure.median), (x_of(figure.high.max(figure.median)) + 6, y + 3), 13)?;
        }
        let bottom = TOP + rows.len() as i32 * ROW_HEIGHT as i32;
        if let Some(floor) = floor {
            let line = [(x_of(floor), TOP - 4), (x_of(floor), bottom + 2)];
            root.draw(&PathElement::new(line, BLACK.stroke_width(2))).map_err(failed)?;
            let name = if chapter.work.answer_seconds.is_some() { "limit" } else { "do-nothing server" };
            let text = format!("{name} {}", shown(measure, floor));
            put(&root, &text, ((x_of(floor) - 80).min(WIDTH as i32 - 240), bottom + 4), 13)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

fn floor(chapter: &Chapter, measure: Measure, clients: usize) -> Option<f64> {
    let measured = chapter.series.iter().find(|series| series.side == Side::Floor);
    let limit = chapter.work.limit(clients, chapter.seconds).filter(|_| measure == Measure::Rate);
    measured.and_then(|series| series.cell(clients)).map(|cell| cell.figure(measure).median).or(limit)
}
