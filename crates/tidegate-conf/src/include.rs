//! Files that a configuration includes: which ones, and the bounds on how many and how deep.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::{BStr, ByteSlice};

use crate::diagnostic::Diagnostic;
use crate::glob;
use crate::parse::ParseOptions;
use crate::source::{FileId, SourceMap, Span};

/// A larger file is a mistake, such as an `include` of a log.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Files that are open within one another. nginx stops when it runs out of descriptors.
const DEPTH_MAX: usize = 32;

/// All inclusions of a configuration: files that include each other twice grow exponentially.
const COUNT_MAX: usize = 100_000;

/// The files that are being read, one within the other.
pub(crate) struct Including {
    open: Vec<FileId>,
    count: usize,
}

impl Including {
    /// Nothing but the main file.
    pub(crate) fn new(main: FileId) -> Including {
        Including { open: vec![main], count: 0 }
    }

    /// Reads a file, or finds it read before. The caller parses it and then calls [`leave`](Self::leave).
    pub(crate) fn enter(
        &mut self,
        path: &Path,
        at: Span,
        sources: &mut SourceMap,
        options: &ParseOptions,
    ) -> Result<FileId, Box<Diagnostic>> {
        let name = path.to_string_lossy();
        let known = sources.find(&name);
        if known.is_some_and(|file| self.open.contains(&file)) {
            return Err(Box::new(Diagnostic::include_loop(path, at)));
        }
        if self.open.len() > DEPTH_MAX {
            return Err(Box::new(Diagnostic::includes_too_deep(at, DEPTH_MAX)));
        }
        if self.count == COUNT_MAX {
            return Err(Box::new(Diagnostic::too_many_includes(at, COUNT_MAX)));
        }
        self.count += 1;
        let file = match known {
            Some(file) => file,
            None => {
                let text = read(path, Some(at), options)?;
                sources.add_included(name.into_owned(), text, at)
            }
        };
        self.open.push(file);
        Ok(file)
    }

    /// The file entered last is read.
    pub(crate) fn leave(&mut self) {
        self.open.pop();
    }
}

/// The files that an `include` names. A pattern may match none; a plain name is returned whether or not it exists.
pub(crate) fn paths(conf_dir: &Path, pattern: &BStr) -> Vec<PathBuf> {
    let full = if pattern.starts_with(b"/") || conf_dir.as_os_str().is_empty() {
        pattern.to_vec()
    } else {
        let mut full = conf_dir.as_os_str().as_bytes().to_vec();
        if !full.ends_with(b"/") {
            full.push(b'/');
        }
        full.extend_from_slice(pattern);
        full
    };
    if full.find_byteset(b"*?[").is_some() {
        glob::expand(&full)
    } else {
        vec![PathBuf::from(OsStr::from_bytes(&full))]
    }
}

/// Reads a whole file; `at` is the `include` that names it.
///
/// A folder can be opened but not read, and `pread` is what nginx calls then.
pub(crate) fn read(path: &Path, at: Option<Span>, options: &ParseOptions) -> Result<Vec<u8>, Box<Diagnostic>> {
    let failed = |operation, error| Box::new(Diagnostic::file_failed(operation, path, &error, at));
    let open = options.open.unwrap_or(|path| File::open(path));
    let file = open(path).map_err(|error| failed("open", error))?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| failed("pread", error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Box::new(Diagnostic::file_too_large(path, FILE_BYTES_MAX, at)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
