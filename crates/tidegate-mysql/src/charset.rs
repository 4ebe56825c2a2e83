//! Character sets: the collation number that a name stands for in the handshake.

/// Numbers of the default collations.
const DEFAULTS: &[(&str, u16)] = &[
    ("armscii8", 32),
    ("ascii", 11),
    ("big5", 1),
    ("binary", 63),
    ("cp1250", 26),
    ("cp1251", 51),
    ("cp1256", 57),
    ("cp1257", 59),
    ("cp850", 4),
    ("cp852", 40),
    ("cp866", 36),
    ("cp932", 95),
    ("dec8", 3),
    ("eucjpms", 97),
    ("euckr", 19),
    ("gb18030", 248),
    ("gb2312", 24),
    ("gbk", 28),
    ("geostd8", 92),
    ("greek", 25),
    ("hebrew", 16),
    ("hp8", 6),
    ("keybcs2", 37),
    ("koi8r", 7),
    ("koi8u", 22),
    ("latin1", 8),
    ("latin2", 9),
    ("latin5", 30),
    ("latin7", 41),
    ("macce", 38),
    ("macroman", 39),
    ("sjis", 13),
    ("swe7", 10),
    ("tis620", 18),
    ("ujis", 12),
    ("utf8", 33),
    ("utf8mb3", 33),
    ("utf8mb4", 45),
];

/// Number of the default collation of the character set `name`, or `None` for one that a client cannot choose or that
/// this table does not know. UCS-2, UTF-16 and UTF-32 are no client character sets.
pub fn default_collation(name: &str) -> Option<u8> {
    let found = DEFAULTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    u8::try_from(found.1).ok()
}

/// Name of the character set of a default collation by its number; `None` for other collations.
pub fn of_collation(number: u8) -> Option<&'static str> {
    DEFAULTS.iter().find(|(_, known)| *known == u16::from(number)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::collations::{Collation, CollationId};

    #[test]
    fn numbers_agree_with_mysql_common() {
        for (name, number) in DEFAULTS {
            let collation = Collation::resolve(CollationId::from(*number));
            let expected = if *name == "utf8mb3" { "utf8" } else { name };
            assert_eq!(collation.charset().replace("utf8mb3", "utf8"), expected, "{number}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(default_collation("UTF8mb4"), Some(45));
        assert_eq!(default_collation("utf16"), None);
        assert_eq!((of_collation(8), of_collation(45), of_collation(255)), (Some("latin1"), Some("utf8mb4"), None));
    }
}
