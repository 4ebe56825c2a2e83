//! The pid file: written when the server runs, moved aside at an upgrade, removed as the very last step. The sockets are closed before that, so a
//! server that was started meanwhile may have written its own number: that stays.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_net::log::{Level, SysError, note};

/// What nginx appends to the name while a new binary takes over.
const OLD_SUFFIX: &str = ".oldbin";

/// A pid file of this process.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    moved: bool,
}

impl PidFile {
    /// Writes the number of this process and a newline.
    ///
    /// # Errors
    /// nginx's sentence.
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let text = format!("{}\n", std::process::id());
        std::fs::write(path, text).map_err(|error| failed("open()", path, &error))?;
        Ok(Self { path: path.to_owned(), moved: false })
    }

    /// Follows a configuration that names another file.
    ///
    /// # Errors
    /// As [`Self::create`]; the old file stays.
    pub(crate) fn change(&mut self, path: &Path) -> Result<(), String> {
        if self.path != path {
            let new = Self::create(path)?;
            std::mem::replace(self, new).remove();
        }
        Ok(())
    }

    /// Makes room for the pid file of a new binary.
    pub(crate) fn move_aside(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, old_path(&self.path))?;
        self.moved = true;
        Ok(())
    }

    /// The new binary is gone: takes the name back.
    pub(crate) fn move_back(&mut self) {
        if self.moved {
            self.moved = false;
            if let Err(error) = std::fs::rename(old_path(&self.path), &self.path) {
                note(Level::Alert, format_args!("{}", failed("rename()", &self.path, &error)));
            }
        }
    }

    /// Removes the file, unless it is another process's by now.
    pub(crate) fn remove(self) {
        let path = if self.moved { old_path(&self.path) } else { self.path };
        if read(&path).is_ok_and(|pid| u32::try_from(pid) != Ok(std::process::id())) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            note(Level::Alert, format_args!("{}", failed("unlink()", &path, &error)));
        }
    }
}

fn old_path(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(OLD_SUFFIX);
    name.into()
}

fn failed(call: &str, path: &Path, error: &io::Error) -> String {
    format!("{call} \"{}\" failed {}", path.display(), SysError(error))
}

/// Reads the number in a pid file.
///
/// # Errors
/// nginx's sentence.
pub(crate) fn read(path: &Path) -> Result<i32, String> {
    let text = std::fs::read(path).map_err(|error| failed("open()", path, &error))?;
    let text = String::from_utf8_lossy(&text);
    let number = text.trim_end_matches(['\r', '\n']);
    match number.parse::<i32>() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(format!("invalid PID number \"{number}\" in \"{}\"", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_follows_its_process() {
        let dir = std::env::temp_dir().join(format!("tidegate-pid-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let (path, other) = (dir.join("a.pid"), dir.join("b.pid"));
        let mut file = PidFile::create(&path).expect("created");
        assert_eq!(read(&path), Ok(std::process::id() as i32));
        file.change(&other).expect("changed");
        assert!(!path.exists() && other.exists());
        file.move_aside().expect("moved");
        assert!(!other.exists() && dir.join("b.pid.oldbin").exists());
        file.move_back();
        file.remove();
        assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 0);
        std::fs::write(&path, "12x\n").expect("written");
        let expected = format!("invalid PID number \"12x\" in \"{}\"", path.display());
        assert_eq!(read(&path), Err(expected));
        assert!(PidFile::create(&dir.join("no/such")).is_err_and(|text| text.starts_with("open() ")));
        let _ = std::fs::remove_dir_all(&dir);
    }

    #[test]
    fn the_file_of_a_successor_stays() {
        let path = std::env::temp_dir().join(format!("tidegate-successor-{}.pid", std::process::id()));
        let file = PidFile::create(&path).expect("created");
        std::fs::write(&path, "1\n").expect("written");
        file.remove();
        assert_eq!(read(&path), Ok(1));
        let _ = std::fs::remove_file(&path);
    }
}
