//! "Did you mean": the known word nearest to a mistyped one.

/// Words longer than this are not compared: nobody mistypes one, and the comparison is quadratic.
const WORD_BYTES_MAX: usize = 64;

/// The candidate that a typist most likely meant, or `None` if nothing is near.
///
/// Near is one mistake for every three bytes of the word, and at least one. Among equally near ones the first wins.
pub fn closest<'a>(word: &[u8], candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut mistakes_max = (word.len() / 3).max(1);
    let mut best = None;
    for candidate in candidates {
        if candidate.len().abs_diff(word.len()) > mistakes_max || candidate.len() > WORD_BYTES_MAX {
            continue;
        }
        let mistakes = distance(word, candidate.as_bytes());
        if mistakes < mistakes_max || (mistakes == mistakes_max && best.is_none()) {
            (mistakes_max, best) = (mistakes, Some(candidate));
        }
    }
    best
}

/// How many bytes must be inserted, removed, replaced or swapped with their neighbour (optimal string alignment).
/// Letters that differ in case count as equal.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_previous = vec![0; b.len() + 1];
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    let mut current = vec![0; b.len() + 1];
    for i in 1..=a.len() {
        current[0] = i;
        for j in 1..=b.len() {
            let replaced = previous[j - 1] + usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut least = replaced.min(previous[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_previous[j - 2] + 1);
            }
            current[j] = least;
        }
        std::mem::swap(&mut before_previous, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("abc", "abc", 0),
            ("abc", "ABC", 0),
            ("abc", "acb", 1),
            ("abc", "abxc", 1),
            ("kitten", "sitting", 3),
            ("proxy_pas", "proxy_pass", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }

    #[test]
    fn suggestions() {
        let known = ["proxy_pass", "proxy_set_header", "listen", "location", "root", "return", "on", "off"];
        for (word, expected) in [
            ("proxy_pas", Some("proxy_pass")),
            ("porxy_pass", Some("proxy_pass")),
            ("Listen", Some("listen")),
            ("lisetn", Some("listen")),
            ("locaton", Some("location")),
            ("rot", Some("root")),
            ("onn", Some("on")),
            ("oof", Some("off")),
            ("xyz", None),
            ("", None),
            ("completely_different", None),
        ] {
            assert_eq!(closest(word.as_bytes(), known), expected, "{word}");
        }
        assert_eq!(closest(&[b'a'; 500], known), None);
    }
}
