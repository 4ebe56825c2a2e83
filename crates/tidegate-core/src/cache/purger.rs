//! A zone's thread that removes the files of what was purged by prefix or tag. It is there while there is work.

use std::{fs, io, os::unix::ffi::OsStrExt, path::Path, sync::Arc, thread, time::Duration};

use super::{
    file,
    key::Key,
    manager::Portion,
    purge_log,
    purges::Task,
    zone::{State, lock},
};

/// Longest wait for responses under way, until it is looked whether the zone is still wanted.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Takes over what an earlier process has left to do.
///
/// # Errors
/// Those of reading the file of marks; nothing is known of them then.
pub(super) fn restore(state: &Arc<State>) -> io::Result<()> {
    state.purges.restore(purge_log::load(&state.place.directory)?);
    employ(state)
}

/// Has a thread remove the files of what was purged.
///
/// # Errors
/// The system refuses a thread. The marks hold all the same.
pub(super) fn employ(state: &Arc<State>) -> io::Result<()> {
    state.purges.employ(|| {
        let state = state.clone();
        let handle = thread::Builder::new().name("cache purger".to_owned()).spawn(move || run(&state))?;
        Ok(handle.thread().clone())
    })
}

fn run(state: &Arc<State>) {
    let mut walked_at = None;
    loop {
        let task = match walked_at {
            None => Task::Walk,
            Some(walked_at) => state.retire_marks(walked_at),
        };
        match task {
            Task::End => return,
            Task::Wait => thread::park_timeout(PAUSE_MAX),
            Task::Walk => {
                let begins_at = state.purges.now();
                let mut walk = Walk { state, turn: Portion::new(lock(&state.care).purger), is_whole: true };
                walk.directory(&state.place.directory, 0);
                walked_at = walk.is_whole.then_some(begins_at);
                state.forget_purged();
                if !walk.is_whole {
                    thread::park_timeout(PAUSE_MAX);
                }
            }
        }
        // Nobody else has the zone any more: who has it next finds the marks in their file.
        if Arc::strong_count(state) == 1 {
            return state.purges.dismiss();
        }
    }
}

struct Walk<'a> {
    state: &'a Arc<State>,
    turn: Portion,
    /// All was looked at so far. Otherwise the marks stay, and it is tried again.
    is_whole: bool,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.is_whole &= error.kind() == io::ErrorKind::NotFound,
        };
        for entry in entries.flatten() {
            if Arc::strong_count(self.state) == 1 {
                return self.is_whole = false;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_file() => self.look_at(&entry),
                Ok(kind) if kind.is_dir() && depth < self.state.place.levels.len() => {
                    self.directory(&entry.path(), depth + 1);
                }
                _ => {}
            }
        }
    }

    fn look_at(&mut self, entry: &fs::DirEntry) {
        let Some(key) = Key::of_name(entry.file_name().as_bytes()) else { return };
        match file::read_front(&entry.path()) {
            Ok(Some(front)) if self.state.purges.cover(key, &front) => self.state.forget(key),
            Ok(_) => {}
            Err(error) => self.is_whole &= error.kind() == io::ErrorKind::NotFound,
        }
        if self.turn.is_over() {
            self.turn.pause();
        }
    }
}
