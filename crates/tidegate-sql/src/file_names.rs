//! The names of schemas' files.

/// Suffix of a schema's file.
const SUFFIX: &str = ".db";
/// Suffix of a copy that nobody has taken away yet; such files are removed when an engine is opened.
pub(crate) const COPY_SUFFIX: &str = ".copy";

/// What SQLite and the engine add to a database's name for the files beside it.
pub(crate) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The file name of a schema: letters, digits and `_` stand for themselves, any other byte is `%xx`.
pub fn file_of_schema(name: &str) -> String {
    let mut file = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            file.push(char::from(byte));
        } else {
            file.push_str(&format!("%{byte:02x}"));
        }
    }
    file + SUFFIX
}

/// Where the copy stands, in the data directory, of which a schema is to be made.
pub fn file_to_restore(name: &str) -> String {
    format!("{}-restore{}", file_of_schema(name), COPY_SUFFIX)
}

/// Where the file of a schema is made, in the data directory.
pub(crate) fn file_to_create(name: &str) -> String {
    format!("{}-new{}", file_of_schema(name), COPY_SUFFIX)
}

/// Whether nobody needs a file once the process has ended that has made it: a copy, or what SQLite keeps beside one.
pub(crate) fn is_left_over(file: &str) -> bool {
    BESIDE.iter().find_map(|suffix| file.strip_suffix(suffix)).unwrap_or(file).ends_with(COPY_SUFFIX)
}

/// The schema whose file has this name.
pub fn schema_of_file(file: &str) -> Option<String> {
    let mut rest = file.strip_suffix(SUFFIX)?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else if byte.is_ascii_alphanumeric() || byte == b'_' {
            name.push(byte);
        } else {
            return None;
        }
    }
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_are_file_names() {
        for name in ["test", "a-b", "../x", "é", "a.b", "A_1"] {
            let file = file_of_schema(name);
            assert!(!file.contains('/'));
            assert_eq!(schema_of_file(&file).as_deref(), Some(name));
        }
        assert_eq!(schema_of_file("x.db-wal"), None);
        for file in [file_to_create("a"), file_to_restore("a"), file_to_create("a") + "-wal"] {
            assert_eq!(schema_of_file(&file), None);
            assert!(is_left_over(&file), "{file}");
        }
        for file in ["copy.db", "a.db-wal", "copy.db-shm", "tidegate.lock"] {
            assert!(!is_left_over(file), "{file}");
        }
        assert_eq!(schema_of_file(".db"), None);
    }
}
