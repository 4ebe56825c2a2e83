//! What the server process may do: whom it runs as, its limits, its environment.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Group, Uid, User};
use tidegate_core::environment::{KEPT, note_limited};
use tidegate_net::log::{Level, SysError, note};

use crate::engine::Settings;

/// nginx's account when it is started by root and the configuration names none.
const USER_DEFAULT: &str = "nobody";

/// The account that the server process changes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    name: CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Whether this process may become somebody else.
    pub(crate) fn can_change() -> bool {
        Uid::effective().is_root()
    }

    /// Looks the configured account up; `None` when we are not root and cannot change anyway.
    ///
    /// # Errors
    /// nginx's sentence about an unknown user or group.
    pub(crate) fn find(user: Option<&(String, Option<String>)>) -> Result<Option<Self>, String> {
        if !Self::can_change() {
            return Ok(None);
        }
        let (name, group) = user.map_or((USER_DEFAULT, None), |(name, group)| (name.as_str(), group.as_deref()));
        let entry = User::from_name(name).ok().flatten().ok_or_else(|| format!("getpwnam(\"{name}\") failed"))?;
        // nginx takes the group of the user's name; accounts whose own group has another name are no reason to fail.
        let gid = match group {
            Some(group) => {
                let entry = Group::from_name(group).ok().flatten();
                entry.ok_or_else(|| format!("getgrnam(\"{group}\") failed"))?.gid
            }
            None => Group::from_name(name).ok().flatten().map_or(entry.gid, |group| group.gid),
        };
        let name = CString::new(name).map_err(|_| "the user's name holds a zero byte".to_owned())?;
        Ok(Some(Self { name, uid: entry.uid, gid }))
    }

    /// Makes directories that the server process is to write to, and makes them its own.
    ///
    /// Does nothing for root, who can make them when they are needed.
    ///
    /// # Errors
    /// nginx's sentence about the directory that cannot be made.
    pub(crate) fn prepare_directories<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<(), String> {
        if self.uid.is_root() {
            return Ok(());
        }
        for path in paths {
            let failed = |call: &str, error: std::io::Error| {
                format!("{call} \"{}\" failed {}", path.display(), SysError(&error))
            };
            // As in nginx: for its owner alone, and not the directories above.
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(|error| failed("mkdir()", error))?,
            }
            let owner = std::fs::metadata(path).map_err(|error| failed("stat()", error))?.uid();
            if owner != self.uid.as_raw() {
                std::os::unix::fs::chown(path, Some(self.uid.as_raw()), None)
                    .map_err(|error| failed("chown()", error))?;
            }
        }
        Ok(())
    }

    fn assume(&self) -> Result<(), String> {
        let failed = |call: &str, error: nix::Error| format!("{call} failed ({}: {})", error as i32, error.desc());
        nix::unistd::setgid(self.gid).map_err(|error| failed(&format!("setgid({})", self.gid), error))?;
        nix::unistd::initgroups(&self.name, self.gid).map_err(|error| failed("initgroups()", error))?;
        nix::unistd::setuid(self.uid).map_err(|error| failed(&format!("setuid({})", self.uid), error))?;
        // A process that changed its user leaves no core file otherwise.
        let _ = nix::sys::prctl::set_dumpable(true);
        Ok(())
    }
}

/// Applies limits and gives up rights. The server process calls it first.
///
/// # Errors
/// What must not be ignored: the account cannot be assumed.
pub(crate) fn apply(settings: &Settings, account: Option<&Account>) -> Result<(), String> {
    apply_limits(settings);
    if let Some(account) = account {
        account.assume()?;
    }
    if let Some(directory) = &settings.working_directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        let error = SysError(&error);
        note(Level::Alert, format_args!("chdir(\"{}\") failed {error}", directory.display()));
    }
    Ok(())
}

/// Raises or lowers the limits that the configuration names.
pub(crate) fn apply_limits(settings: &Settings) {
    // All workers share the limit, so the part of it that anybody may use is used.
    let files = settings.rlimit_nofile.or_else(|| getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard));
    if let Some(files) = files
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, files, files)
    {
        note(
            Level::Alert,
            format_args!("setrlimit(RLIMIT_NOFILE, {files}) failed ({}: {})", error as i32, error.desc()),
        );
    }
    if let Some(bytes) = settings.rlimit_core
        && let Err(error) = setrlimit(Resource::RLIMIT_CORE, bytes, bytes)
    {
        note(Level::Alert, format_args!("setrlimit(RLIMIT_CORE, {bytes}) failed ({}: {})", error as i32, error.desc()));
    }
    if let Some(priority) = settings.priority {
        // SAFETY: takes integers only; 0 is this process.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) } != 0 {
            let error = std::io::Error::last_os_error();
            let error = SysError(&error);
            note(Level::Alert, format_args!("setpriority({priority}) failed {error}"));
        }
    }
}

/// The limits on open files, for the log.
pub(crate) fn file_limits() -> Option<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).ok()
}

/// Leaves only the variables that the configuration names and [`KEPT`].
///
/// # Safety
/// The process has no other thread: it would read the environment while that changes.
pub(crate) unsafe fn limit_environment(directives: &[(OsString, Option<OsString>)]) {
    let inherited: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let mut wanted: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut keep = |name: OsString| {
        if let Some(value) = inherited.get(&name) {
            wanted.insert(name, value.clone());
        }
    };
    KEPT.into_iter().map(|name| OsStr::from_bytes(name).to_owned()).for_each(&mut keep);
    directives.iter().filter(|(_, value)| value.is_none()).for_each(|(name, _)| keep(name.clone()));
    for (name, value) in directives {
        if let Some(value) = value {
            wanted.insert(name.clone(), value.clone());
        }
    }
    for name in inherited.keys().filter(|name| !wanted.contains_key(*name)) {
        // SAFETY: the process has no other thread, as this function demands.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in wanted.iter().filter(|(name, value)| inherited.get(*name) != Some(*value)) {
        // SAFETY: the process has no other thread, as this function demands.
        unsafe { std::env::set_var(name, value) };
    }
    note_limited(inherited, wanted);
}

/// A path of the configuration.
pub(crate) fn to_path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}
