//! The rows that a search finds, and their ranks.
//!
//! Each part of a search gives rows with ranks, ascending by row id, and operators put them together: first those without `+` and
//! `-` in their order, then the rows that all parts with `+` have found, at last without those of the parts with `-`.
//!
//! A word that `d` of `n` rows have weighs `log10(n / d)²` (`log10(1.0001)²` if all have it), and counts as often as a row has it; a
//! phrase counts as its words. A beginning counts as a word that as many rows have as all its words together, and as often as the
//! first of them: strange, but InnoDB's.

use std::collections::HashMap;

use tidegate_rows::ServerError;

use super::{
    query::{Item, Operator, Query},
    words::Word,
};
use crate::errors;

type Res<T> = Result<T, ServerError>;

/// Places of words that one search may look at: each takes 16 bytes.
const PLACES_MAX: usize = 4 << 20;

/// Rows with their ranks, ascending by row id.
pub(crate) type Ranked = Vec<(i64, f32)>;

/// The words of an index.
pub(crate) trait Index {
    /// Hands over each place of a word, or of all words that begin like it: the word, the row, and where in the row. Word by word, and
    /// ascending for each.
    ///
    /// # Errors
    /// Storage errors, those of `each`.
    fn places(&mut self, form: &str, is_beginning: bool, each: &mut dyn FnMut(&[u8], i64, i64) -> Res<()>) -> Res<()>;

    /// How many rows there are.
    ///
    /// # Errors
    /// Storage errors.
    fn rows(&mut self) -> Res<u64>;
}

/// The rows that a query finds.
///
/// # Errors
/// 1235 if it would have to look at too much; storage errors.
pub(crate) fn search(query: &Query, index: &mut dyn Index) -> Res<Ranked> {
    if query.is_empty() {
        return Ok(Ranked::new());
    }
    let rows = index.rows()?;
    Search { index, rows, room: PLACES_MAX }.query(query)
}

struct Search<'i> {
    index: &'i mut dyn Index,
    rows: u64,
    /// Places that may still be looked at.
    room: usize,
}

impl Search<'_> {
    fn query(&mut self, query: &Query) -> Res<Ranked> {
        let mut found = Ranked::new();
        for (operator, item) in query {
            let more = match operator {
                Operator::Must | Operator::Not => continue,
                Operator::May | Operator::Negate => 0.0,
                Operator::More => 1.0,
                Operator::Less => -1.0,
            };
            if *operator == Operator::Negate && found.is_empty() {
                continue;
            }
            let mut rows = self.item(item)?;
            if *operator == Operator::Negate {
                add_to_known(&mut found, &rows, -1.0);
                continue;
            }
            rows.iter_mut().for_each(|(_, rank)| *rank += more);
            found = united(&found, &rows);
        }
        found = self.with_all(query, found)?;
        for (_, item) in query.iter().filter(|(operator, _)| *operator == Operator::Not) {
            if !found.is_empty() {
                let rows = self.item(item)?;
                found.retain(|(row, _)| rows.binary_search_by_key(row, |(row, _)| *row).is_err());
            }
        }
        Ok(found)
    }

    /// The rows of all parts with `+`, which rank higher if they are among `found` as well; `found` if there are no such parts.
    fn with_all(&mut self, query: &Query, found: Ranked) -> Res<Ranked> {
        let mut all: Option<Ranked> = None;
        for (_, item) in query.iter().filter(|(operator, _)| *operator == Operator::Must) {
            let rows = match &all {
                Some(all) if all.is_empty() => break,
                _ => self.item(item)?,
            };
            all = Some(match all {
                None => rows,
                Some(all) => shared(&all, &rows),
            });
        }
        Ok(match all {
            None => found,
            Some(mut all) => {
                add_to_known(&mut all, &found, 0.0);
                all
            }
        })
    }

    fn item(&mut self, item: &Item) -> Res<Ranked> {
        match item {
            Item::Word(form) => self.word(form),
            Item::Prefix(form) => self.beginning(form),
            Item::Phrase(words) => self.phrase(words),
            Item::Near(forms, distance) => self.near(forms, *distance),
            Item::Group(query) => self.query(query),
            Item::Nothing => Ok(Ranked::new()),
        }
    }

    fn word(&mut self, form: &str) -> Res<Ranked> {
        let (mut counts, room) = (Vec::<(i64, u64)>::new(), &mut self.room);
        self.index.places(form, false, &mut |_, row, _| count(&mut counts, row, room))?;
        Ok(self.weighed(&counts, counts.len() as u64))
    }

    fn beginning(&mut self, form: &str) -> Res<Ranked> {
        let (mut known, mut one) = (HashMap::<i64, u64>::new(), Vec::<(i64, u64)>::new());
        let (mut word, mut shares) = (Vec::new(), 0);
        let room = &mut self.room;
        self.index.places(form, true, &mut |found, row, _| {
            if found != word {
                shares += one.len() as u64;
                one.drain(..).for_each(|(row, times)| _ = known.entry(row).or_insert(times));
                found.clone_into(&mut word);
            }
            count(&mut one, row, room)
        })?;
        shares += one.len() as u64;
        one.drain(..).for_each(|(row, times)| _ = known.entry(row).or_insert(times));
        let mut counts: Vec<(i64, u64)> = known.into_iter().collect();
        counts.sort_unstable();
        Ok(self.weighed(&counts, shares))
    }

    fn weighed(&self, counts: &[(i64, u64)], shares: u64) -> Ranked {
        let weight = weight(self.rows, shares);
        counts.iter().map(|(row, times)| (*row, rank(*times, weight))).collect()
    }

    fn places(&mut self, form: &str) -> Res<Vec<(i64, i64)>> {
        let (mut places, room) = (Vec::new(), &mut self.room);
        self.index.places(form, false, &mut |_, row, at| {
            take(room)?;
            places.push((row, at));
            Ok(())
        })?;
        Ok(places)
    }

    /// Rows where words stand one behind the other.
    fn phrase(&mut self, words: &[Word]) -> Res<Ranked> {
        let (mut begins, mut ranks) = (Vec::new(), Vec::new());
        for (index, word) in words.iter().enumerate() {
            let places = self.places(&word.form)?;
            if index == 0 {
                begins.clone_from(&places);
            } else {
                let behind = index as i64;
                begins.retain(|(row, at)| places.binary_search(&(*row, at + behind)).is_ok());
            }
            if begins.is_empty() {
                return Ok(Ranked::new());
            }
            if word.kept {
                ranks.push(self.ranks_of(&places));
            }
        }
        begins.dedup_by_key(|(row, _)| *row);
        let mut found: Ranked = begins.into_iter().map(|(row, _)| (row, 0.0)).collect();
        ranks.iter().for_each(|ranks| add_to_known(&mut found, ranks, 0.0));
        Ok(found)
    }

    /// Rows that have all words among so many in a row.
    fn near(&mut self, forms: &[String], distance: u64) -> Res<Ranked> {
        let all = forms.iter().map(|form| self.places(form)).collect::<Res<Vec<_>>>()?;
        let ranks: Vec<Ranked> = all.iter().map(|places| self.ranks_of(places)).collect();
        let mut ranks = ranks.into_iter();
        let Some(mut found) = ranks.next() else { return Ok(Ranked::new()) };
        ranks.for_each(|ranks| found = shared(&found, &ranks));
        found.retain(|(row, _)| {
            let of_row = |places: &Vec<(i64, i64)>| {
                let from = places.partition_point(|(known, _)| known < row);
                let to = places.partition_point(|(known, _)| known <= row);
                places[from..to].iter().map(|(_, at)| *at).collect::<Vec<_>>()
            };
            let lists: Vec<Vec<i64>> = all.iter().map(of_row).collect();
            narrowest(&lists).is_some_and(|span| span < distance)
        });
        Ok(found)
    }

    fn ranks_of(&self, places: &[(i64, i64)]) -> Ranked {
        let mut counts = Vec::<(i64, u64)>::new();
        for (row, _) in places {
            match counts.last_mut() {
                Some((last, times)) if last == row => *times += 1,
                _ => counts.push((*row, 1)),
            }
        }
        self.weighed(&counts, counts.len() as u64)
    }
}

/// Counts a place of a word; those of a row come together.
fn count(counts: &mut Vec<(i64, u64)>, row: i64, room: &mut usize) -> Res<()> {
    match counts.last_mut() {
        Some((last, times)) if *last == row => *times += 1,
        _ => {
            take(room)?;
            counts.push((row, 1));
        }
    }
    Ok(())
}

fn take(room: &mut usize) -> Res<()> {
    *room = room.checked_sub(1).ok_or_else(|| errors::unsupported("a search for words in this many places"))?;
    Ok(())
}

/// The logarithm that a word weighs by.
fn weight(rows: u64, shares: u64) -> f64 {
    if rows == shares { 1.0001_f64.log10() } else { (rows as f64 / shares.max(1) as f64).log10() }
}

fn rank(times: u64, weight: f64) -> f32 {
    (times as f64 * weight * weight) as f32
}

/// The smallest difference between the greatest and the least of a choice of one number from each list, which are ascending.
fn narrowest(lists: &[Vec<i64>]) -> Option<u64> {
    let mut at = vec![0; lists.len()];
    let mut best = None;
    loop {
        let mut least = (i64::MAX, 0);
        let mut most = i64::MIN;
        for (list, &place) in at.iter().enumerate() {
            let value = *lists[list].get(place)?;
            least = least.min((value, list));
            most = most.max(value);
        }
        let span = most.abs_diff(least.0);
        best = Some(best.map_or(span, |best: u64| best.min(span)));
        at[least.1] += 1;
        if at[least.1] == lists[least.1].len() {
            return best;
        }
    }
}

/// Adds ranks to the rows that are known.
fn add_to_known(known: &mut Ranked, ranks: &Ranked, more: f32) {
    let mut ranks = ranks.iter().peekable();
    for (row, rank) in known {
        while ranks.next_if(|(other, _)| other < row).is_some() {}
        if let Some((_, other)) = ranks.next_if(|(other, _)| other == row) {
            *rank += other + more;
        }
    }
}

/// Rows that are in one list or in both.
fn united(a: &Ranked, b: &Ranked) -> Ranked {
    let mut all = Ranked::with_capacity(a.len() + b.len());
    let mut others = b.iter().peekable();
    for (row, rank) in a {
        while let Some(other) = others.next_if(|(other, _)| other < row) {
            all.push(*other);
        }
        let same = others.next_if(|(other, _)| other == row);
        all.push((*row, rank + same.map_or(0.0, |(_, rank)| *rank)));
    }
    all.extend(others);
    all
}

/// Rows that are in both lists.
fn shared(a: &Ranked, b: &Ranked) -> Ranked {
    let mut others = b.iter().peekable();
    let both = a.iter().filter_map(|(row, rank)| {
        while others.next_if(|(other, _)| other < row).is_some() {}
        let (_, other) = others.next_if(|(other, _)| other == row)?;
        Some((*row, rank + other))
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Mode, Rules, query, words::Words},
        *,
    };
    use crate::value::collation::Collation;

    /// Rows in memory, from 1 on.
    struct Texts(Vec<Vec<String>>);

    impl Texts {
        fn new(texts: &[&str]) -> Self {
            let words = Words::of(Collation::DEFAULT);
            let divided = texts.iter().map(|text| {
                let mut out = String::new();
                words.write(text.as_bytes(), &mut out);
                out.split_whitespace().map(str::to_owned).collect()
            });
            Self(divided.collect())
        }
    }

    impl Index for Texts {
        fn places(
            &mut self,
            form: &str,
            is_beginning: bool,
            each: &mut dyn FnMut(&[u8], i64, i64) -> Res<()>,
        ) -> Res<()> {
            let mut all = Vec::new();
            for (row, words) in self.0.iter().enumerate() {
                for (at, word) in words.iter().enumerate() {
                    if word == form || is_beginning && word.starts_with(form) {
                        all.push((word.clone(), row as i64 + 1, at as i64));
                    }
                }
            }
            all.sort();
            all.iter().try_for_each(|(word, row, at)| each(word.as_bytes(), *row, *at))
        }

        fn rows(&mut self) -> Res<u64> {
            Ok(self.0.len() as u64)
        }
    }

    const TEXTS: [&str; 11] = [
        "the quick brown fox",
        "quick the fox",
        "quick fox jumps",
        "quick x fox",
        "quick and fox",
        "quick zz fox",
        "fox quick",
        "quick brown",
        "quick-fox",
        "quick quick quick fox",
        "nothing here",
    ];

    fn found(text: &str) -> Ranked {
        let words = Words::of(Collation::DEFAULT);
        let query = query::read(text, &words, Mode { boolean: true, rules: Rules::Strict }).expect("a query");
        search(&query, &mut Texts::new(&TEXTS)).expect("rows")
    }

    /// The expected ranks are those that MariaDB 10.11 shows.
    #[track_caller]
    fn check(text: &str, expected: &[(i64, f32)]) {
        let found = found(text);
        let near = |(a, b): (&(i64, f32), &(i64, f32))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{text}: {found:?}");
    }

    #[track_caller]
    fn check_rows(text: &str, expected: &[i64]) {
        let rows: Vec<i64> = found(text).iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, expected, "{text}");
    }

    #[test]
    fn ranks() {
        check("brown", &[(1, 0.548_136_9), (8, 0.548_136_9)]);
        check("b*", &[(1, 0.548_136_9), (8, 0.548_136_9)]);
        check("+quick +brown", &[(1, 0.549_850_2), (8, 0.549_850_2)]);
        check("\"quick fox\"", &[(3, 0.009_308_508), (9, 0.009_308_508), (10, 0.012_735_216)]);
        check("jumps ~fox", &[(3, 0.092_093_91)]);
        check("~fox jumps", &[(3, 1.084_498_8)]);
        check(">jumps brown", &[(1, 0.548_136_9), (3, 2.084_499), (8, 0.548_136_9)]);
        check("<jumps brown", &[(1, 0.548_136_9), (3, 0.084_498_76), (8, 0.548_136_9)]);
        check("+(>brown <jumps) +quick", &[(1, 1.549_850_2), (3, 0.086_212_16), (8, 1.549_850_2)]);
    }

    #[test]
    fn too_many_places_are_refused() {
        let mut texts = Texts::new(&TEXTS);
        for (text, room, fits) in
            [("quick", 10, true), ("quick", 9, false), ("\"quick fox\"", 12, false), ("q*", 9, false)]
        {
            let words = Words::of(Collation::DEFAULT);
            let query = query::read(text, &words, Mode { boolean: true, rules: Rules::Strict }).expect("a query");
            let found = Search { index: &mut texts, rows: 11, room }.query(&query);
            assert_eq!(found.map_err(|error| error.code).err(), (!fits).then_some(1235), "{text}");
        }
    }

    #[test]
    fn operators() {
        check_rows("quick -fox", &[8]);
        check_rows("-quick", &[]);
        check_rows("~quick", &[]);
        check_rows("+quick -(brown jumps) +fox", &[2, 4, 5, 6, 7, 9, 10]);
        check_rows("quick +(brown jumps)", &[1, 3, 8]);
        check_rows("quick +the", &[]);
        check_rows("quick -the +jumps", &[3]);
        check_rows("+quick +(-fox)", &[]);
        check_rows("nothing (+quick +here)", &[11]);
        check_rows("th*", &[]);
        check_rows("+brown +j*", &[]);
    }

    #[test]
    fn phrases() {
        check_rows("\"quick the fox\"", &[2]);
        check_rows("\"quick zz fox\"", &[6]);
        check_rows("\"the quick brown\"", &[1, 8]);
        check_rows("\"quick brown fo\"", &[]);
        check_rows("\"quick fox\" @2", &[3, 7, 9, 10]);
        check_rows("\"quick fox\" @3", &[1, 2, 3, 4, 5, 6, 7, 9, 10]);
    }
}
