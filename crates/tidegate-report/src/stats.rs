//! Medians of rounds, and whether two of them differ.

/// Fewer rounds say nothing about their spread.
const ROUNDS_MIN: usize = 3;
/// Two runs of one server differ by as much, in parts of the larger one.
const DIFFERENCE_MIN: f64 = 0.02;

/// What the rounds of a point say about one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The middle of the rounds.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
    /// How many rounds there are.
    pub rounds: usize,
}

/// How one figure stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The spread of one of them is wider than the difference, which is less than two in a hundred, or there are less than three rounds.
    None,
    /// It is lower.
    Lower,
    /// It is higher.
    Higher,
}

impl Figure {
    /// Of the values of some rounds; `None` if there are none. Values that are no numbers do not count.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Figure> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let rounds = values.len();
        (rounds > 0).then(|| Figure {
            median: quantile(&values, 0.5),
            low: quantile(&values, 0.25),
            high: quantile(&values, 0.75),
            rounds,
        })
    }

    /// The width of the middle half of the rounds: single rounds that a busy machine has spoiled do not count.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.high - self.low
    }

    /// How this one stands to `other`.
    #[must_use]
    pub fn compared_with(&self, other: &Figure) -> Difference {
        let difference = self.median - other.median;
        let least = DIFFERENCE_MIN * self.median.abs().max(other.median.abs());
        let is_known = self.rounds.min(other.rounds) >= ROUNDS_MIN;
        if !is_known || difference.abs() <= self.spread().max(other.spread()).max(least) {
            Difference::None
        } else if difference < 0.0 {
            Difference::Lower
        } else {
            Difference::Higher
        }
    }

    /// The spread in parts of the median, as people read it: `±3 %` is half of it to either side.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { self.spread() / 2.0 / self.median * 100.0 }
    }
}

/// Between the two neighbours of the place, in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], expected: (f64, f64, f64)) {
        let figure = Figure::of(values.iter().copied()).expect("values");
        assert_eq!((figure.low, figure.median, figure.high), expected);
    }

    #[test]
    fn medians_and_quartiles() {
        check(&[7.0], (7.0, 7.0, 7.0));
        check(&[2.0, 1.0], (1.25, 1.5, 1.75));
        check(&[5.0, 1.0, 4.0, 2.0, 3.0], (2.0, 3.0, 4.0));
        // One spoiled round changes nothing.
        check(&[5.0, 1.0, 4000.0, 2.0, 3.0], (2.0, 3.0, 5.0));
        check(&[1.0, f64::NAN, 3.0, f64::INFINITY], (1.5, 2.0, 2.5));
        assert_eq!(Figure::of([]), None);
        assert_eq!(Figure::of([f64::NAN]), None);
    }

    #[test]
    fn a_difference_is_one_when_it_is_wider_than_both_spreads() {
        let figure = |median, spread: f64| Figure { median, low: median, high: median + spread, rounds: 5 };
        for (ours, theirs, expected) in [
            (figure(100.0, 5.0), figure(90.0, 5.0), Difference::Higher),
            (figure(90.0, 5.0), figure(100.0, 5.0), Difference::Lower),
            (figure(100.0, 5.0), figure(90.0, 10.0), Difference::None),
            (figure(100.0, 12.0), figure(90.0, 0.0), Difference::None),
            (figure(100.0, 0.0), figure(100.0, 0.0), Difference::None),
            (figure(100.0, 0.0), figure(98.5, 0.0), Difference::None),
            (Figure { rounds: 2, ..figure(100.0, 0.0) }, figure(10.0, 0.0), Difference::None),
        ] {
            assert_eq!(ours.compared_with(&theirs), expected, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn the_spread_in_percent() {
        let figure = Figure { median: 200.0, low: 190.0, high: 210.0, rounds: 5 };
        assert!((figure.percent() - 5.0).abs() < 1e-9);
    }
}
