//! Files of a case: `>>> path attribute…` followed by their lines.

use crate::sections;
use flate2::{Compression, write::GzEncoder};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Writes the files that `text` (already expanded) lists. Paths are relative to `dir`, which may be left with `../`.
///
/// # Errors
/// For text before the first `>>>`, an unknown attribute, and whatever the file system refuses.
pub(crate) fn write(dir: &Path, text: &str, escapes: bool) -> Result<(), String> {
    let mut files: Vec<(&str, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix(">>>") {
            files.push((head.trim(), String::new()));
        } else if let Some((_, content)) = files.last_mut() {
            content.push_str(line);
        } else if !line.trim().is_empty() {
            return Err(format!("files: \"{}\" stands before the first \">>>\"", line.trim_end()));
        }
    }
    for (head, content) in files {
        write_one(dir, head, content, escapes).map_err(|e| format!("file \"{head}\": {e}"))?;
    }
    Ok(())
}

/// [`write()`] without escapes.
///
/// # Errors
/// As [`write()`].
pub(crate) fn write_plain(dir: &Path, text: &str) -> Result<(), String> {
    write(dir, text, false)
}

fn write_one(dir: &Path, head: &str, mut content: String, escapes: bool) -> Result<(), String> {
    let mut words = head.split_whitespace();
    let name = words.next().ok_or("no path after \">>>\"")?;
    let path = dir.join(name);
    let io = |e: std::io::Error| e.to_string();
    fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(io)?;
    let (mut modified, mut mode, mut is_gzip, mut link) = (None, None, false, None);
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("chomp", "") => {
                content.pop();
            }
            ("gzip", "") => is_gzip = true,
            ("mtime", seconds) => modified = Some(seconds.parse::<u64>().map_err(|e| e.to_string())?),
            ("mode", octal) => mode = Some(u32::from_str_radix(octal, 8).map_err(|e| e.to_string())?),
            ("link", target) => link = Some(target),
            _ => return Err(format!("unknown attribute \"{word}\"")),
        }
    }
    if let Some(target) = link {
        return symlink(target, &path).map_err(io);
    }
    if name.ends_with('/') {
        fs::create_dir_all(&path).map_err(io)?;
    } else {
        let bytes = if escapes { sections::unescape(&content) } else { content.into_bytes() };
        fs::write(&path, if is_gzip { gzip(&bytes).map_err(io)? } else { bytes }).map_err(io)?;
    }
    if let Some(seconds) = modified {
        let file = File::open(&path).map_err(io)?;
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).map_err(io)?;
    }
    match mode {
        Some(mode) => fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(io),
        None => Ok(()),
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Scratch;

    #[test]
    fn files_and_attributes() {
        let scratch = Scratch::new("files", false).unwrap();
        let dir = scratch.path().join("html");
        write(&dir, ">>> a/b.txt chomp mtime=1000000000\nx\n>>> ../c\ny\n>>> d/\n>>> l link=a\n", false).unwrap();
        assert_eq!(fs::read(dir.join("l/b.txt")).unwrap(), b"x");
        assert_eq!(fs::read(scratch.path().join("c")).unwrap(), b"y\n");
        assert!(dir.join("d").is_dir());
        let modified = fs::metadata(dir.join("a/b.txt")).unwrap().modified().unwrap();
        assert_eq!(modified.duration_since(UNIX_EPOCH).unwrap().as_secs(), 1_000_000_000);
        assert!(write(&dir, "x\n", false).unwrap_err().contains("before the first"));
        assert!(write(&dir, ">>> x y\n", false).unwrap_err().contains("unknown attribute \"y\""));
    }
}
