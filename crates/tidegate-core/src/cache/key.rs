//! The hash of a key: what an entry is found by, and its file's name.

use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use tidegate_http::Fields;

/// Characters of a file's name.
pub(super) const NAME_CHARS: usize = 32;

/// Directories under a cache's own: so many characters each, at most three, 0 for no more.
pub(super) type Levels = [usize; 3];

/// The MD5 of a key's text, as in nginx: tools that find files by their keys work here too. The file has the text itself,
/// which is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(super) [u8; 16]);

impl Key {
    /// The hash of a key's text.
    pub(crate) fn of(text: &[u8]) -> Key {
        Key(Md5::digest(text).into())
    }

    /// The key of the response that answers a request with these `fields`, where responses depend on the fields that `vary`
    /// names. White space and empty elements make no difference.
    ///
    /// Source: nginx, `ngx_http_file_cache_vary`.
    pub(crate) fn variant(self, vary: &[u8], fields: &Fields) -> Key {
        let mut hash = Md5::new();
        hash.update(self.0);
        for name in names_in(vary) {
            hash.update(name.to_ascii_lowercase());
            hash.update(b":");
            for value in fields.values_of_name(name) {
                for element in elements(value) {
                    hash.update(element);
                    hash.update(b",");
                }
            }
            hash.update(b"\r\n");
        }
        Key(hash.finalize().into())
    }

    /// The file's name: 32 hexadecimal digits.
    pub(super) fn name(self) -> String {
        let mut name = String::with_capacity(NAME_CHARS);
        for byte in self.0 {
            for digit in [byte >> 4, byte & 15] {
                name.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
            }
        }
        name
    }

    /// The key whose file has this name.
    pub(super) fn of_name(name: &[u8]) -> Option<Key> {
        let mut key = [0; 16];
        if name.len() != NAME_CHARS {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(name.chunks_exact(2)) {
            let digit = |digit: u8| match digit {
                b'0'..=b'9' => Some(digit - b'0'),
                b'a'..=b'f' => Some(digit - b'a' + 10),
                _ => None,
            };
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Key(key))
    }

    /// Where the file is under `directory`: its name's last characters are directories.
    pub(super) fn path(self, directory: &Path, levels: Levels) -> PathBuf {
        let name = self.name();
        let mut path = directory.to_owned();
        let mut end = name.len();
        for chars in levels.into_iter().take_while(|chars| *chars > 0) {
            path.push(&name[end - chars..end]);
            end -= chars;
        }
        path.push(&name);
        path
    }
}

/// The names in a `Vary`. As in nginx, blanks divide them as commas do.
pub(crate) fn names_in(vary: &[u8]) -> impl Iterator<Item = &[u8]> {
    vary.split(|byte| *byte == b',' || byte.is_ascii_whitespace()).filter(|name| !name.is_empty())
}

/// The elements of a list, without the white space around them.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashes_and_directories_their_ends() {
        let key = Key::of(b"http://localhost/");
        let name = key.name();
        assert_eq!(Key::of_name(name.as_bytes()), Some(key));
        assert_eq!(Key::of(b"").name(), "d41d8cd98f00b204e9800998ecf8427e");
        let path = Key::of(b"").path(Path::new("/c"), [1, 2, 0]);
        assert_eq!(path, Path::new("/c/e/27/d41d8cd98f00b204e9800998ecf8427e"));
        for bad in [&name[1..], &format!("{name}0"), &name.to_uppercase(), &format!("{}g", &name[1..])] {
            assert_eq!(Key::of_name(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn variants_follow_the_named_fields() {
        let variant = |vary: &str, fields: &[(&str, &str)]| {
            let mut all = Fields::new();
            for (name, value) in fields {
                all.append(name.as_bytes(), value.as_bytes());
            }
            Key::of(b"k").variant(vary.as_bytes(), &all)
        };
        let plain = variant("Accept-Encoding", &[]);
        assert_ne!(plain, Key::of(b"k"));
        assert_eq!(plain, variant(" accept-encoding ,", &[("X", "y")]));
        let gzip = variant("Accept-Encoding", &[("accept-encoding", "gzip, br")]);
        assert_ne!(gzip, plain);
        assert_eq!(gzip, variant("Accept-Encoding", &[("Accept-Encoding", "gzip ,br")]));
        assert_eq!(gzip, variant("Accept-Encoding", &[("Accept-Encoding", "gzip"), ("Accept-Encoding", "br")]));
        // One field's value is not taken for another's.
        assert_ne!(variant("A, B", &[("A", "x")]), variant("A, B", &[("B", "x")]));
        assert_eq!(variant("A B\tC", &[("B", "x")]), variant("A, B, C", &[("B", "x")]));
    }
}
