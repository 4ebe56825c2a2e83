//! The marks of purges on disk, so that what was purged does not come back when the server is started again.
//!
//! ```text
//! "tidegate purges 1\n", then for each mark:
//! offset  bytes
//!      0      4  CRC-32 of the rest
//!      4      4  bytes of the text
//!      8      8  when, by the zone's clock
//!     16      1  what: 1 for a prefix, 2 for a tag
//!     17         the text
//! ```
//!
//! Numbers are little-endian. A mark is appended and synced before the purge is confirmed. The first one that is cut or damaged
//! ends the file: nobody was told that it is there.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use super::{
    file::{crc32, u32_at, u64_at},
    purges::{Covered, Mark},
};

/// Its name in a zone's directory. No entry is called like that.
pub(super) const NAME: &str = "tidegate.purges";

const MAGIC: &[u8] = b"tidegate purges 1\n";
const FIXED_BYTES: usize = 17;

/// The largest file that is read: more than the marks of a zone take.
const FILE_BYTES_MAX: u64 = 64 << 20;

fn encode((at, covered): &Mark, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(covered.text().len() as u32).to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    out.push(match covered {
        Covered::Prefix(_) => 1,
        Covered::Tag(_) => 2,
    });
    out.extend_from_slice(covered.text());
    let sum = crc32(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The marks in a file, and how many bytes of it they take with what stands ahead.
fn decode(bytes: &[u8]) -> (Vec<Mark>, usize) {
    let mut marks = Vec::new();
    if !bytes.starts_with(MAGIC) {
        return (marks, 0);
    }
    let mut used = MAGIC.len();
    while let Some((mark, len)) = decode_one(&bytes[used..]) {
        marks.push(mark);
        used += len;
    }
    (marks, used)
}

fn decode_one(bytes: &[u8]) -> Option<(Mark, usize)> {
    let fixed = bytes.get(..FIXED_BYTES)?;
    let len = (u32_at(fixed, 4) as usize).checked_add(FIXED_BYTES)?;
    let whole = bytes.get(..len)?;
    if crc32(&whole[4..]) != u32_at(whole, 0) {
        return None;
    }
    let text = whole[FIXED_BYTES..].into();
    let covered = match whole[16] {
        1 => Covered::Prefix(text),
        2 => Covered::Tag(text),
        _ => return None,
    };
    Some(((u64_at(whole, 8), covered), len))
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The marks that were left in `directory`.
///
/// # Errors
/// Those of the system, but for a file that is not there.
pub(super) fn load(directory: &Path) -> io::Result<Vec<Mark>> {
    match File::open(directory.join(NAME)) {
        Ok(mut file) => Ok(decode(&read(&mut file)?).0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Adds marks, and returns when they are on the disk.
///
/// # Errors
/// Those of the system. Some of the marks may be there then.
pub(super) fn append(directory: &Path, marks: &[Mark]) -> io::Result<()> {
    let path = directory.join(NAME);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let opened = options.open(&path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            options.open(&path)?
        }
        opened => opened?,
    };
    // What stands behind a part of a mark would not be found.
    let (_, used) = decode(&read(&mut file)?);
    file.set_len(used as u64)?;
    file.seek(SeekFrom::Start(used as u64))?;
    let mut bytes = if used == 0 { MAGIC.to_vec() } else { Vec::new() };
    marks.iter().for_each(|mark| encode(mark, &mut bytes));
    file.write_all(&bytes)?;
    file.sync_data()
}

/// Takes marks out whose work is done. Those of other processes stay.
///
/// # Errors
/// Those of the system. The file is as it was then.
pub(super) fn remove(directory: &Path, gone: &[Mark]) -> io::Result<()> {
    let path = directory.join(NAME);
    // A later mark of the same text has taken an earlier one's place.
    let gone: HashMap<&Covered, u64> = gone.iter().map(|(at, covered)| (covered, *at)).collect();
    let stays = |(at, covered): &Mark| gone.get(covered).is_none_or(|gone_at| at > gone_at);
    let left: Vec<Mark> = load(directory)?.into_iter().filter(stays).collect();
    if left.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut bytes = MAGIC.to_vec();
    left.iter().for_each(|mark| encode(mark, &mut bytes));
    let draft = directory.join(format!("{NAME}.new"));
    let mut file = File::create(&draft)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Scratch(std::env::temp_dir().join(format!("tidegate-purges-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn marks() -> Vec<Mark> {
        let text = |text: &[u8]| -> Box<[u8]> { text.into() };
        vec![
            (1, Covered::Prefix(text(b""))),
            (2, Covered::Tag(text(b"a\0\n\xff"))),
            (u64::MAX, Covered::Prefix(text(&[b'x'; 5000]))),
        ]
    }

    #[test]
    fn marks_are_found_again_until_they_go() {
        let scratch = Scratch::new("found");
        assert_eq!(load(&scratch.0).expect("nothing is there"), []);
        let marks = marks();
        append(&scratch.0, &marks[..1]).expect("written");
        append(&scratch.0, &marks[1..]).expect("written");
        append(&scratch.0, &[(4, marks[1].1.clone())]).expect("written");
        remove(&scratch.0, &[(3, marks[1].1.clone())]).expect("written");
        assert_eq!(load(&scratch.0).expect("readable").len(), 3);
        remove(&scratch.0, &[(4, marks[1].1.clone())]).expect("written");
        append(&scratch.0, &marks[1..2]).expect("written");
        assert_eq!(load(&scratch.0).expect("readable"), [&marks[..1], &marks[2..], &marks[1..2]].concat());
        remove(&scratch.0, &[marks[1].clone(), (0, marks[0].1.clone())]).expect("written");
        assert_eq!(load(&scratch.0).expect("readable"), [marks[0].clone(), marks[2].clone()]);
        remove(&scratch.0, &marks).expect("written");
        assert_eq!(fs::read_dir(&scratch.0).expect("there").count(), 0);
        remove(&scratch.0, &marks).expect("nothing to do");
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_has_the_marks_ahead() {
        let scratch = Scratch::new("cut");
        let marks = marks();
        append(&scratch.0, &marks).expect("written");
        let path = scratch.0.join(NAME);
        let whole = fs::read(&path).expect("readable");
        let ends = [MAGIC.len() + FIXED_BYTES, MAGIC.len() + 2 * FIXED_BYTES + 4, whole.len()];
        let count_at = |at: usize| ends.iter().filter(|end| **end <= at).count();
        for len in 0..whole.len() {
            assert_eq!(decode(&whole[..len]).0, marks[..count_at(len)], "{len}");
        }
        for at in 0..200 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            let expected = if at < MAGIC.len() { 0 } else { count_at(at) };
            assert_eq!(decode(&bytes).0, marks[..expected], "{at}");
        }
        // What comes behind a part of a mark takes its place.
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        append(&scratch.0, &marks[..1]).expect("written");
        assert_eq!(load(&scratch.0).expect("readable"), [&marks[..2], &marks[..1]].concat());
    }
}
