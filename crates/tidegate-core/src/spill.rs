//! Output that a client does not take as fast as it is made.
//!
//! A handler that sends without waiting (`ngx.print`, as in OpenResty) makes output at the speed of memory. What the
//! connection's queue may not keep in memory goes to a temporary file that nobody else sees, and is sent from there, so a slow
//! reader costs [`OUTPUT_MEMORY_BYTES_MAX`] and room on disk, which it gives back when it is done or gone.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path, path::PathBuf, sync::Arc};

use crate::{output::Buf, temp_file};

/// Bytes of output that a connection keeps in memory. More than a few sockets' buffers: clients that read are not slowed by
/// the detour, and a thousand that do not read cost half a gigabyte at most. It holds for each stream of HTTP/2, which have a bound of their
/// own together.
pub(crate) const OUTPUT_MEMORY_BYTES_MAX: u64 = 512 << 10;

/// Bytes of output that a connection keeps on disk. A response that makes more ends.
///
/// Source: nginx, the default of `proxy_max_temp_file_size`.
pub(crate) const OUTPUT_FILE_BYTES_MAX: u64 = 1 << 30;

/// Why output cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpillError {
    /// The client has not taken [`OUTPUT_FILE_BYTES_MAX`].
    #[error("the client has not taken {} MB of the response", OUTPUT_FILE_BYTES_MAX >> 20)]
    Full,
    /// The temporary file cannot be written.
    #[error("cannot write a temporary file")]
    File(#[source] io::Error),
}

/// The end of a queue that is on disk.
pub(crate) struct Spill {
    file: Arc<File>,
    len: u64,
}

/// A piece on its way through a file.
pub(crate) struct Spilled {
    pub(crate) buf: Buf,
    /// The file was made for it.
    pub(crate) created: Option<PathBuf>,
}

impl Spill {
    /// Writes `piece` behind what is in the file, or into a new one in `directory`. What the client has got stays where it
    /// was: the system may still be sending from there. `waiting_bytes`: of the file's bytes, how many are still to be sent.
    ///
    /// # Errors
    /// See [`SpillError`].
    pub(crate) fn append(
        slot: &mut Option<Box<Spill>>,
        directory: &Path,
        piece: &[u8],
        waiting_bytes: u64,
    ) -> Result<Spilled, SpillError> {
        let bytes = piece.len() as u64;
        if waiting_bytes + bytes > OUTPUT_FILE_BYTES_MAX {
            return Err(SpillError::Full);
        }
        if waiting_bytes == 0 || slot.as_ref().is_some_and(|spill| spill.len + bytes > OUTPUT_FILE_BYTES_MAX) {
            *slot = None;
        }
        let mut created = None;
        let spill = match slot {
            Some(spill) => spill,
            None => {
                let (file, path) = temp_file::create(directory).map_err(|error| SpillError::File(error.source))?;
                // Nobody else needs the name: the file goes with its last use.
                std::fs::remove_file(&path).map_err(SpillError::File)?;
                created = Some(path);
                slot.insert(Box::new(Spill { file: Arc::new(file), len: 0 }))
            }
        };
        spill.file.write_all_at(piece, spill.len).map_err(SpillError::File)?;
        let buf = Buf::File { file: spill.file.clone(), offset: spill.len, len: bytes };
        spill.len += bytes;
        Ok(Spilled { buf, created })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_so_much_and_no_more() {
        let directory = std::env::temp_dir().join(format!("tidegate-spill-{}", std::process::id()));
        let mut slot = None;
        let mut append = |piece: &[u8], waiting_bytes| {
            let spilled = Spill::append(&mut slot, &directory, piece, waiting_bytes)?;
            let Buf::File { file, offset, len } = spilled.buf else { panic!("it is in a file") };
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, offset).expect("readable");
            assert_eq!(bytes, piece);
            Ok::<_, SpillError>((offset, spilled.created.is_some()))
        };
        assert_eq!(append(b"abc", 0).expect("room"), (0, true));
        assert_eq!(append(b"de", 3).expect("room"), (3, false));
        // All has been sent: another file.
        assert_eq!(append(b"f", 0).expect("room"), (0, true));
        assert!(matches!(append(b"g", OUTPUT_FILE_BYTES_MAX), Err(SpillError::Full)));
        assert_eq!(std::fs::read_dir(&directory).expect("made").count(), 0, "no file keeps its name");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
