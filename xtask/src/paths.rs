//! Where things are: the repository, the built server, scratch directories.

use std::env;
use std::path::{Path, PathBuf};

pub(crate) use tidegate_report::places::{Scratch, program, versioned_program};

/// The repository's root.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands one level below the root")
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}
