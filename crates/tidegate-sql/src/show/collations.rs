//! The character sets and collations that MariaDB has, as drivers look for them. What the engine does not have is refused by its name
//! where it is used.

use crate::{
    store::made_rows::{Item, Rows},
    value::collation::Collation,
};

const COLLATIONS: &str = include_str!("collations.txt");
const CHARACTER_SETS: &str = include_str!("character_sets.txt");

/// The character sets that collations of UCA 14 go with, and the numbers of the first ones.
const OF_UCA_14: [(&str, i64); 5] =
    [("utf8mb3", 2048), ("utf8mb4", 2304), ("ucs2", 2560), ("utf16", 2816), ("utf32", 3072)];

/// A line of `collations.txt`.
struct Known<'a> {
    name: &'a str,
    /// `None` for one that goes with several.
    charset: Option<&'a str>,
    id: i64,
    sort_length: i64,
    is_default: bool,
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// MariaDB's, then those that only this engine has: MySQL's.
fn known() -> Vec<Known<'static>> {
    let mut all: Vec<Known<'static>> = lines(COLLATIONS).filter_map(of_line).collect();
    let more = Collation::all().filter(|own| !all.iter().any(|known| known.name == own.name()));
    let more: Vec<Known<'static>> = more
        .map(|own| Known {
            name: own.name(),
            charset: Some(own.charset()),
            id: i64::from(own.0),
            sort_length: if own.name().contains("_bin") { 1 } else { 8 },
            is_default: false,
        })
        .collect();
    all.extend(more);
    all
}

fn of_line(line: &'static str) -> Option<Known<'static>> {
    let mut words = line.split(' ');
    let (name, charset) = (words.next()?, words.next()?);
    Some(Known {
        name,
        charset: (charset != "-").then_some(charset),
        id: words.next()?.parse().ok()?,
        sort_length: words.next()?.parse().ok()?,
        is_default: words.next().is_some(),
    })
}

fn yes(is: bool) -> Item {
    if is { "Yes" } else { "" }.into()
}

/// `information_schema.collations`
pub(super) fn collations() -> Rows {
    let row = |known: Known<'static>| {
        let in_one = |item: Item| if known.charset.is_some() { item } else { Item::Null };
        vec![
            known.name.into(),
            known.charset.map_or(Item::Null, Item::from),
            in_one(known.id.into()),
            in_one(yes(known.is_default)),
            "Yes".into(),
            known.sort_length.into(),
        ]
    };
    known().into_iter().map(row).collect()
}

/// `information_schema.collation_character_set_applicability`
pub(super) fn applicability() -> Rows {
    let row = |name: &str, charset: &str, full: String, id: i64, is_default: bool| -> Vec<Item> {
        vec![name.into(), charset.into(), full.into(), id.into(), yes(is_default)]
    };
    let mut rows = Rows::new();
    for known in known() {
        match known.charset {
            Some(charset) => rows.push(row(known.name, charset, known.name.to_owned(), known.id, known.is_default)),
            None => rows.extend(OF_UCA_14.iter().map(|(charset, first)| {
                row(known.name, charset, format!("{charset}_{}", known.name), first + known.id, false)
            })),
        }
    }
    rows
}

/// `information_schema.character_sets`
pub(super) fn character_sets() -> Rows {
    let default_of = |charset: &str| {
        let mut all = lines(COLLATIONS).filter_map(of_line);
        all.find(|known| known.is_default && known.charset == Some(charset)).map_or("", |known| known.name)
    };
    let row = |line: &'static str| -> Option<Vec<Item>> {
        let (name, rest) = line.split_once(' ')?;
        let (bytes_max, description) = rest.split_once(' ')?;
        let bytes_max: i64 = bytes_max.parse().ok()?;
        Some(vec![name.into(), default_of(name).into(), description.into(), bytes_max.into()])
    };
    lines(CHARACTER_SETS).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_own_are_mariadbs_under_their_numbers() {
        let all = known();
        assert_eq!(all.len(), lines(COLLATIONS).count() + 2, "MySQL's two");
        for own in Collation::all() {
            let known = all.iter().find(|known| known.name == own.name()).unwrap_or_else(|| panic!("{}", own.name()));
            assert_eq!((known.charset, known.id), (Some(own.charset()), i64::from(own.0)), "{}", own.name());
            assert_eq!(known.is_default, own.is_default(), "{}", own.name());
        }
        for charset in character_sets() {
            assert!(!matches!(&charset[1], Item::Text(name) if name.is_empty()), "{charset:?}");
        }
    }
}
