//! Responses of upstreams kept on disk for the requests that come after.
//!
//! What lives here: the directories (`proxy_cache_path` and its kin), the index of what is in them, the files, and the
//! thread that loads and clears them. What it does not know: which responses may be kept, for how long, and for whom. That
//! is [`crate::upstream::caching`].
//!
//! In reading order:
//!
//! - `key`: a key's hash, which is a file's name
//! - `index`: what is known of each entry without a look at the disk, and who is filling it
//! - `file`: an entry on disk; `memory`: entries that are also there
//! - `purges`: what was purged; `purge_log`: the same on disk; `purger`: the thread that removes the files
//! - `zone`: a directory with its index; `manager`: its thread
//! - `conf`: `…_cache_path`
//!
//! # Sharing
//! All workers share a zone. Its index is under one mutex that is held for a few loads and stores; files are read and written
//! by other threads where the page cache does not have them. A zone outlives the configuration that made it as long as the
//! next one has the same.

mod conf;
mod file;
mod index;
mod key;
mod manager;
mod memory;
mod purge_log;
mod purger;
mod purges;
mod zone;

pub use conf::MODULE;
pub(crate) use conf::{Slot, require};
#[cfg(feature = "fuzzing")]
pub use file::check_any_file;
pub(crate) use file::{Body, Front, ReadError, Stored, Times};
pub(crate) use index::{Ending, Presence};
pub(crate) use key::{Key, names_in};
pub(crate) use purges::{Covered, tags_in};
pub(crate) use zone::{Fill, PurgeError, Update, Zone, unix_now};
