//! The WAL index in the memory of the process, and its locks.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::{
        PoisonError,
        atomic::{AtomicU32, Ordering, fence},
    },
};

use libsqlite3_sys as ffi;

use super::{
    super::{
        alone::{Alone, OpenElsewhere},
        wal_index::{REGION_BYTES, Region, Renewed},
    },
    File, LOCK_SLOTS, Node, OPEN_ELSEWHERE,
};

/// Value of a slot that is held exclusively; anything below counts shared holders.
const EXCLUSIVE: u32 = u32::MAX;
/// SQLite's slots for the writer and for checkpoints, and the first of those for readers.
const WRITE_SLOT: usize = 0;
const CHECKPOINT_SLOT: usize = 1;
const READ_SLOT: usize = 3;

pub(super) unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is open; `out` is valid. A region is boxed and never freed while the node lives, so its address
    // stays good although the vector grows.
    unsafe {
        *out = ptr::null_mut();
        if size as usize != REGION_BYTES || index < 0 {
            return ffi::SQLITE_IOERR_SHMMAP;
        }
        let ours = &*file.cast::<File>();
        let node = &*ours.node;
        let mut regions = node.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let index = index as usize;
        if index >= regions.len() {
            if extend == 0 || ours.is_private {
                return if ours.is_private { ffi::SQLITE_BUSY } else { ffi::SQLITE_OK };
            }
            if regions.is_empty() {
                match Alone::lock(&node.database) {
                    Ok(alone) => *node.alone.lock().unwrap_or_else(PoisonError::into_inner) = alone,
                    Err(OpenElsewhere) => return OPEN_ELSEWHERE,
                }
            }
            while regions.len() <= index {
                regions.push(Region::new());
            }
        }
        if index > 0 || ours.own.is_null() {
            *out = regions[index].address().cast();
            return ffi::SQLITE_OK;
        }
        if (*ours.own).renew(&regions[0], &node.checkpoints).is_none() {
            return ffi::SQLITE_BUSY;
        }
        *out = (*ours.own).address().cast();
        ffi::SQLITE_OK
    }
}

/// Whether others have committed since the private connection with this file has taken its snapshot.
///
/// # Safety
/// `file` is that of the main database of an open connection, which was opened with [`PRIVATE_NAME`](super::PRIVATE_NAME).
pub(in crate::store) unsafe fn is_behind(file: *mut ffi::sqlite3_file) -> bool {
    // SAFETY: by the contract the file is one of ours and has its copy of the index.
    unsafe {
        let ours = &*file.cast::<File>();
        let regions = (*ours.node).regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.first().is_none_or(|shared| (*ours.own).is_behind(shared))
    }
}

pub(super) unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the file is open and belongs to the calling connection alone.
    let ours = unsafe { &mut *file.cast::<File>() };
    // SAFETY: an open file has its node (invariant 1).
    let node = unsafe { &*ours.node };
    let (first, count) = (offset as usize, count as usize);
    if first + count > LOCK_SLOTS {
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    let mask = ((1u32 << count) - 1) << first;
    let slots = &node.slots[first..first + count];
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        release(ours, slots, first);
        return ffi::SQLITE_OK;
    }
    if flags & ffi::SQLITE_SHM_SHARED != 0 {
        if ours.shared & mask != 0 {
            return ffi::SQLITE_OK;
        }
        let code = take_shared(ours, &slots[0], mask);
        if code == ffi::SQLITE_OK && ours.is_private && first >= READ_SLOT && !renew(ours, node, first - READ_SLOT) {
            release(ours, slots, first);
            return ffi::SQLITE_BUSY;
        }
        return code;
    }
    if ours.is_private && (first < READ_SLOT || count > 1) {
        // It writes into its cache, never recovers the index, and never moves the log.
        return if (first, count) == (WRITE_SLOT, 1) { ffi::SQLITE_OK } else { ffi::SQLITE_BUSY };
    }
    for (taken, slot) in slots.iter().enumerate() {
        if slot.compare_exchange(0, EXCLUSIVE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            for slot in &slots[..taken] {
                slot.store(0, Ordering::Release);
            }
            return ffi::SQLITE_BUSY;
        }
    }
    ours.exclusive |= mask;
    if mask & (1 << CHECKPOINT_SLOT) != 0 {
        node.checkpoints.turn();
    }
    ffi::SQLITE_OK
}

fn take_shared(ours: &mut File, slot: &AtomicU32, mask: u32) -> c_int {
    let mut holders = slot.load(Ordering::Acquire);
    loop {
        if holders >= EXCLUSIVE - 1 {
            return ffi::SQLITE_BUSY;
        }
        match slot.compare_exchange_weak(holders, holders + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                ours.shared |= mask;
                return ffi::SQLITE_OK;
            }
            Err(now) => holders = now,
        }
    }
}

/// Makes a private connection's copy of the index that of this moment, or leaves it that of the last try; answers whether it is
/// one of a single moment. The connection has just locked read mark `number`.
fn renew(ours: &mut File, node: &Node, number: usize) -> bool {
    let regions = node.regions.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(shared) = regions.first() else { return false };
    // SAFETY: a private connection has its copy for as long as its file is open; only this connection uses it.
    let own = unsafe { &*ours.own };
    if ours.tried.take().is_some_and(|count| own.may_stay(shared, number, &node.checkpoints, count)) {
        return true;
    }
    match own.renew(shared, &node.checkpoints) {
        // SQLite sees another header than it has, and tries again: the copy is of its begin.
        Some(Renewed::Changed(count)) => ours.tried = count,
        Some(Renewed::Same) => {}
        None => return false,
    }
    true
}

/// Carries the read mark in a slot from a private connection's copy of the index over to the index.
fn publish_mark(ours: &File, slot: usize) {
    // SAFETY: an open file has its node (invariant 1), a private one its copy.
    unsafe {
        let regions = (*ours.node).regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = regions.first() {
            (*ours.own).publish_mark(shared, slot - READ_SLOT);
        }
    }
}

fn release(ours: &mut File, slots: &[AtomicU32], first: usize) {
    for (index, slot) in slots.iter().enumerate() {
        let bit = 1 << (first + index);
        if ours.exclusive & bit != 0 {
            if ours.is_private {
                publish_mark(ours, first + index);
            }
            if first + index == CHECKPOINT_SLOT {
                // SAFETY: an open file has its node (invariant 1).
                unsafe { (*ours.node).checkpoints.turn() };
            }
            slot.store(0, Ordering::Release);
            ours.exclusive &= !bit;
        } else if ours.shared & bit != 0 {
            slot.fetch_sub(1, Ordering::AcqRel);
            ours.shared &= !bit;
        }
    }
}

/// Gives back every lock that the connection still holds.
///
/// # Safety
/// `file` is open.
pub(super) unsafe fn release_all(file: *mut File) {
    // SAFETY: by the contract; the node lives while the file is open.
    let (ours, node) = unsafe { (&mut *file, &*(*file).node) };
    release(ours, &node.slots, 0);
}

pub(super) unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

pub(super) unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // The index itself goes with the node, when the last connection closes.
    // SAFETY: SQLite calls this on an open file.
    unsafe { release_all(file.cast()) };
    ffi::SQLITE_OK
}
