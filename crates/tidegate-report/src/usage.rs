//! CPU time and memory of a process and everything below it, from `/proc`.

use nix::unistd::{Pid, SysconfVar, sysconf};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// What the threads of a process tree have used up to now, each by itself: a thread that ends in between takes nothing away.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    threads: HashMap<i32, Thread>,
    /// In ticks of the clock: only good for the proportion of the two.
    user: u64,
    system: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    nanoseconds: u64,
    voluntary: u64,
    involuntary: u64,
}

/// What a process tree has used between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// CPU time, exact: `schedstat` counts nanoseconds.
    pub nanoseconds: u64,
    /// The part of user space, between 0 and 1, sampled in ticks.
    pub user_share: f64,
    /// Context switches because a thread waited.
    pub voluntary: u64,
    /// Context switches because another one was to run.
    pub involuntary: u64,
}

impl Snapshot {
    /// Of a process and its descendants.
    #[must_use]
    pub fn of(root: Pid) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for pid in tree(root) {
            for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
                snapshot.threads.insert(id, Thread::read(&entry.path()));
            }
            let ticks = |fields: &[String], at: usize| fields.get(at).and_then(|f| f.parse().ok()).unwrap_or(0_u64);
            if let Some(fields) = stat_fields(pid) {
                snapshot.user += ticks(&fields, 11);
                snapshot.system += ticks(&fields, 12);
            }
        }
        snapshot
    }

    /// What was used since `before`. Threads that have ended since are not in it.
    #[must_use]
    pub fn since(&self, before: &Snapshot) -> Used {
        let mut used = Used::default();
        for (id, now) in &self.threads {
            let then = before.threads.get(id).copied().unwrap_or_default();
            used.nanoseconds += now.nanoseconds.saturating_sub(then.nanoseconds);
            used.voluntary += now.voluntary.saturating_sub(then.voluntary);
            used.involuntary += now.involuntary.saturating_sub(then.involuntary);
        }
        let (user, system) = (self.user.saturating_sub(before.user), self.system.saturating_sub(before.system));
        used.user_share = if user + system == 0 { 0.0 } else { user as f64 / (user + system) as f64 };
        used
    }
}

impl Thread {
    /// From `schedstat` and `status` of a thread's directory in `/proc`; zeros where the thread has ended.
    fn read(dir: &std::path::Path) -> Thread {
        let text = fs::read_to_string(dir.join("schedstat")).unwrap_or_default();
        let nanoseconds = text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let status = fs::read_to_string(dir.join("status")).unwrap_or_default();
        let count = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().parse().unwrap_or(0)
        };
        let (voluntary, involuntary) = (count("voluntary_ctxt_switches:"), count("nonvoluntary_ctxt_switches:"));
        Thread { nanoseconds, voluntary, involuntary }
    }
}

/// CPU time of a process tree up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Exact: `schedstat` counts nanoseconds.
    pub total: Duration,
    /// Sampled in clock ticks, only good for the proportion of the two.
    pub user: Duration,
    /// The same of the kernel.
    pub system: Duration,
}

impl Usage {
    /// What was used since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            total: self.total.saturating_sub(before.total),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }

    /// The part of user space, between 0 and 1.
    pub fn user_share(&self) -> f64 {
        let both = self.user + self.system;
        if both.is_zero() { 0.0 } else { self.user.as_secs_f64() / both.as_secs_f64() }
    }
}

/// Usage of several processes and their descendants.
pub fn usage_of(roots: &[Pid]) -> Usage {
    roots.iter().map(|root| usage(*root)).fold(Usage::default(), |sum, usage| Usage {
        total: sum.total + usage.total,
        user: sum.user + usage.user,
        system: sum.system + usage.system,
    })
}

/// Usage of a process and its descendants.
pub fn usage(root: Pid) -> Usage {
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
pub fn memory_bytes(root: Pid) -> u64 {
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

/// A process and its descendants.
#[must_use]
pub fn tree(root: Pid) -> HashSet<i32> {
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
        // Threads of other tests end meanwhile, which sums of the living ones do not survive.
        let before = Snapshot::of(Pid::this());
        let mut sum = 0_u64;
        while Snapshot::of(Pid::this()).since(&before).nanoseconds < 5_000_000 {
            sum = (0..100_000).fold(sum, |a, b| a ^ b);
        }
        assert!(usage(Pid::this()).total > Duration::ZERO, "{sum}");
        assert!(memory_bytes(Pid::this()) > 100_000);
    }

    #[test]
    fn a_thread_that_has_ended_takes_nothing_away() {
        let thread = |nanoseconds| Thread { nanoseconds, voluntary: 3, involuntary: 1 };
        let before = Snapshot { threads: [(1, thread(500)), (2, thread(900))].into(), user: 10, system: 10 };
        let after = Snapshot { threads: [(1, thread(700)), (3, thread(50))].into(), user: 11, system: 13 };
        let used = after.since(&before);
        assert_eq!(used, Used { nanoseconds: 250, user_share: 0.25, voluntary: 3, involuntary: 1 });
    }
}
