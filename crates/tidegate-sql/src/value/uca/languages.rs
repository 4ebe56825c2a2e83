//! Orders of languages: version 4.0.0 with other weights for a few letters.
//!
//! Languages in which two letters together count as one are not among them, nor is Turkish, whose `I` is not the capital of `i`: patterns
//! take ASCII letters of both cases for the same.
//! **Version 1 of these orders** (`docs/storage-format.md`): other weights make existing indexes wrong.

use std::sync::OnceLock;

use super::{Table, v400};

/// A language with an order of its own.
pub(crate) struct Language {
    /// The name of its order in SQLite, which ends with that of the language.
    pub(crate) sqlite_name: &'static str,
    /// Weights, each with the letters that have it.
    letters: &'static [(u16, &'static str)],
    table: OnceLock<Table>,
}

impl Language {
    const fn new(sqlite_name: &'static str, letters: &'static [(u16, &'static str)]) -> Self {
        Self { sqlite_name, letters, table: OnceLock::new() }
    }

    /// Its weights.
    pub(crate) fn table(&'static self) -> &'static Table {
        self.table.get_or_init(|| {
            let weights = self.letters.iter().flat_map(|(weight, letters)| letters.chars().map(|c| (c, *weight)));
            v400().with(weights)
        })
    }
}

/// All of them. The weights are those of MariaDB 10.11.
#[rustfmt::skip]
pub(crate) static LANGUAGES: [Language; 10] = [
    Language::new("muca400_icelandic", &[(0x0e34, "Áá"), (0x0e6e, "Ðð"), (0x0e8c, "Éé"), (0x0efc, "Íí"), (0x0f83, "Óó"), (0x1020, "Úú"), (0x105f, "Ýý"), (0x106b, "Þþ"), (0x106c, "ÄÆäæ"), (0x106d, "ÖØöø"), (0x106e, "Åå")]),
    Language::new("muca400_latvian", &[(0x0e61, "Čč"), (0x0ec2, "Ģģ"), (0x0efc, "Yy"), (0x0f22, "Ķķ"), (0x0f2f, "Ļļ"), (0x0f65, "Ņņ"), (0x0fc1, "Ŗŗ"), (0x0feb, "Šš"), (0x106b, "Žž")]),
    Language::new("muca400_romanian", &[(0x0e34, "Ăă"), (0x0e35, "Ââ"), (0x0efc, "Îî"), (0x0feb, "ŞşȘș"), (0x1003, "ŢţȚț")]),
    Language::new("muca400_slovenian", &[(0x0e61, "Čč"), (0x0feb, "Šš"), (0x106b, "Žž")]),
    Language::new("muca400_polish", &[(0x0e34, "Ąą"), (0x0e61, "Ćć"), (0x0e8c, "Ęę"), (0x0f2f, "Łł"), (0x0f65, "Ńń"), (0x0f83, "Óó"), (0x0feb, "Śś"), (0x106b, "Źź"), (0x106c, "Żż")]),
    Language::new("muca400_estonian", &[(0x0feb, "Šš"), (0x0fec, "Zz"), (0x0fed, "Žž"), (0x1052, "Õõ"), (0x1053, "Ää"), (0x1054, "Öö"), (0x1055, "Üü")]),
    Language::new("muca400_spanish", &[(0x0f65, "Ññ")]),
    Language::new("muca400_swedish", &[(0x105e, "Üü"), (0x106b, "Åå"), (0x106c, "ÄÆäæ"), (0x106d, "ÖØöø")]),
    Language::new("muca400_esperanto", &[(0x0e61, "Ĉĉ"), (0x0ec2, "Ĝĝ"), (0x0ee2, "Ĥĥ"), (0x0f11, "Ĵĵ"), (0x0feb, "Ŝŝ"), (0x1020, "Ŭŭ")]),
    Language::new("muca400_hungarian", &[(0x0f83, "ÖöŐő"), (0x1020, "ÜüŰű")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering::{Equal, Greater, Less};

    /// What MariaDB 10.11 answers.
    #[test]
    fn letters_stand_where_their_language_has_them() {
        for (name, a, b, expected) in [
            ("esperanto", "ĉ", "cz", Greater),
            ("esperanto", "ĉ", "d", Less),
            ("esperanto", "Ŭ", "ŭ", Equal),
            ("spanish", "ñ", "nz", Greater),
            ("spanish", "ñ", "o", Less),
            ("swedish", "å", "z", Greater),
            ("swedish", "ä", "å", Greater),
            ("swedish", "ä", "æ", Equal),
            ("estonian", "z", "t", Less),
            ("polish", "ł", "lz", Greater),
            ("hungarian", "ö", "ő", Equal),
            ("hungarian", "ö", "o", Greater),
            ("latvian", "y", "iz", Greater),
            ("icelandic", "þ", "z", Greater),
            ("romanian", "ț", "ţ", Equal),
            ("slovenian", "č", "c", Greater),
            ("spanish", "é", "e", Equal),
        ] {
            let language = LANGUAGES.iter().find(|language| language.sqlite_name.ends_with(name)).unwrap();
            assert_eq!(language.table().compare(a.as_bytes(), b.as_bytes()), expected, "{name}: {a} {b}");
            assert_eq!(language.table().compare(b.as_bytes(), a.as_bytes()), expected.reverse(), "{name}: {b} {a}");
        }
    }
}
