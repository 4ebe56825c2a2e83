//! CPU time and memory of a process and everything below it, from `/proc`.

use nix::unistd::{Pid, SysconfVar, sysconf};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// CPU time of a process tree up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    /// Exact: `schedstat` counts nanoseconds.
    pub(super) total: Duration,
    /// Sampled in clock ticks, only good for the proportion of the two.
    pub(super) user: Duration,
    pub(super) system: Duration,
}

impl Usage {
    /// What was used since `before`.
    pub(super) fn since(&self, before: &Usage) -> Usage {
        Usage {
            total: self.total.saturating_sub(before.total),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }

    /// The part of user space, between 0 and 1.
    pub(super) fn user_share(&self) -> f64 {
        let both = self.user + self.system;
        if both.is_zero() { 0.0 } else { self.user.as_secs_f64() / both.as_secs_f64() }
    }
}

/// Usage of several processes and their descendants.
pub(super) fn usage_of(roots: &[Pid]) -> Usage {
    roots.iter().map(|root| usage(*root)).fold(Usage::default(), |sum, usage| Usage {
        total: sum.total + usage.total,
        user: sum.user + usage.user,
        system: sum.system + usage.system,
    })
}

/// Usage of a process and its descendants.
pub(super) fn usage(root: Pid) -> Usage {
    let tick = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|t| u32::try_from(t).ok()).unwrap_or(100);
    let mut usage = Usage::default();
    for pid in tree(root) {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let nanoseconds = text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
            usage.total += Duration::from_nanos(nanoseconds);
        }
        if let Some(fields) = stat_fields(pid) {
            let ticks = |index: usize| fields.get(index).and_then(|f| f.parse::<u32>().ok()).unwrap_or(0);
            usage.user += Duration::from_secs(1) / tick * ticks(11);
            usage.system += Duration::from_secs(1) / tick * ticks(12);
        }
    }
    usage
}

/// Resident memory that belongs to the tree alone, in bytes (proportional set size).
pub(super) fn memory_bytes(root: Pid) -> u64 {
    tree(root).into_iter().map(|pid| pss_kilobytes(pid) * 1024).sum()
}

fn pss_kilobytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Fields of `/proc/PID/stat` after the command, which may hold blanks and parentheses.
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn tree(root: Pid) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let parent = stat_fields(pid).and_then(|f| f.get(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = HashSet::new();
    let mut rest = vec![root.as_raw()];
    while let Some(pid) = rest.pop() {
        if found.insert(pid) {
            rest.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_usage_grows() {
        let before = usage(Pid::this());
        let mut sum = 0_u64;
        while usage(Pid::this()).since(&before).total < Duration::from_millis(5) {
            sum = (0..100_000).fold(sum, |a, b| a ^ b);
        }
        assert!(usage(Pid::this()).total > before.total, "{sum}");
        assert!(memory_bytes(Pid::this()) > 100_000);
    }
}
