//! `worker_cpu_affinity`: which processors a worker runs on.

use std::io;
use std::mem::MaybeUninit;

/// Processors that a set can name; glibc's limit.
const CPUS_MAX: usize = libc::CPU_SETSIZE as usize;

/// A set of processors by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// Parses a mask such as `0101`: the rightmost digit is processor 0.
    ///
    /// # Errors
    /// nginx's words for other characters and for masks that are too long.
    pub fn parse_mask(mask: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        let digits = mask.bytes().rev().filter(|digit| *digit != b' ');
        for (number, digit) in digits.enumerate() {
            if number >= CPUS_MAX {
                return Err(format!("\"worker_cpu_affinity\" supports up to {CPUS_MAX} CPUs only"));
            }
            match digit {
                b'1' => cpus.push(number),
                b'0' => {}
                _ => {
                    let digit = char::from(digit);
                    return Err(format!("invalid character \"{digit}\" in \"worker_cpu_affinity\""));
                }
            }
        }
        Ok(Self(cpus))
    }

    /// Parses the arguments of the directive into one set for each worker.
    ///
    /// # Errors
    /// As [`Self::parse_mask`].
    pub fn parse_all(arguments: &[&str], worker_count: usize) -> Result<Vec<Self>, String> {
        match arguments {
            [] => Ok(Vec::new()),
            ["auto"] => Ok(Self::one_each(&Self::allowed(), worker_count)),
            ["auto", mask] => Ok(Self::one_each(&Self::parse_mask(mask)?, worker_count)),
            masks => masks.iter().map(|mask| Self::parse_mask(mask)).collect(),
        }
    }

    /// Deals the processors out, one for each worker, over and over.
    fn one_each(of: &Self, worker_count: usize) -> Vec<Self> {
        if of.0.is_empty() {
            return Vec::new();
        }
        (0..worker_count).map(|id| Self(vec![of.0[id % of.0.len()]])).collect()
    }

    /// The processors that this process may use.
    pub fn allowed() -> Self {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the set is ours, zeroed, and its true size is passed; all-zero bytes are a valid set.
        let set = unsafe {
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
            set.assume_init()
        };
        // SAFETY: the numbers are below the size of the set.
        Self((0..CPUS_MAX).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
    }

    /// How many processors there are in the set.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Binds the calling thread.
    pub(super) fn apply(&self) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid, empty set.
        let mut set = unsafe { MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init() };
        for cpu in &self.0 {
            // SAFETY: the numbers are below the size of the set.
            unsafe { libc::CPU_SET(*cpu, &mut set) };
        }
        // SAFETY: the set is live and its true size is passed; 0 is the calling thread.
        let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_processors_from_the_right() {
        assert_eq!(CpuSet::parse_mask("0101"), Ok(CpuSet(vec![0, 2])));
        assert_eq!(CpuSet::parse_mask("10"), Ok(CpuSet(vec![1])));
        assert_eq!(CpuSet::parse_mask("012"), Err("invalid character \"2\" in \"worker_cpu_affinity\"".to_owned()));
        assert!(CpuSet::parse_mask(&"0".repeat(CPUS_MAX + 1)).is_err());
    }

    #[test]
    fn arguments_become_sets() {
        assert_eq!(CpuSet::parse_all(&[], 2), Ok(vec![]));
        assert_eq!(CpuSet::parse_all(&["01", "10"], 2), Ok(vec![CpuSet(vec![0]), CpuSet(vec![1])]));
        assert_eq!(
            CpuSet::parse_all(&["auto", "0110"], 3),
            Ok(vec![CpuSet(vec![1]), CpuSet(vec![2]), CpuSet(vec![1])])
        );
        let auto = CpuSet::parse_all(&["auto"], 1).expect("valid");
        assert_eq!(auto[0].count(), 1);
        auto[0].apply().expect("an allowed processor");
        assert_eq!(CpuSet::allowed(), auto[0]);
    }
}
