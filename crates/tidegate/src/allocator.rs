//! The allocator of the process: mimalloc.
//!
//! Requests are made of many small blocks that live shortly: what it is best at. Its crate asks it for a given alignment each
//! time, and then it takes blocks of sizes that are no power of two (48 bytes, 80, 112) by a slow path, out of larger
//! ones: 150 instructions instead of 30. Common alignments are those of its ordinary blocks, so nothing has to be asked for.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use mimalloc::MiMalloc;

/// Every block is aligned so, whatever its size.
///
/// Source: mimalloc, `mi_page_malloc_zero`: blocks of 16 bytes and more are aligned to 16, smaller ones to their size.
const ALIGN_OF_ALL: usize = 8;

unsafe extern "C" {
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn mi_collect(force: bool);
}

/// mimalloc.
pub(crate) struct Allocator;

// SAFETY: all of it is mimalloc's, whose own promise is that of the trait; blocks are aligned as was asked for, see `ALIGN_OF_ALL`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN_OF_ALL {
            // SAFETY: has no preconditions.
            return unsafe { mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: the caller keeps the rules of `GlobalAlloc` for this method, and mimalloc's method has the same rules.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN_OF_ALL {
            // SAFETY: has no preconditions.
            return unsafe { mi_zalloc(layout.size()) }.cast();
        }
        // SAFETY: the caller keeps the rules of `GlobalAlloc` for this method, and mimalloc's method has the same rules.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of `GlobalAlloc` for this method, and mimalloc's method has the same rules.
        unsafe { MiMalloc.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGN_OF_ALL {
            // SAFETY: the caller passes a block of this allocator, and all of those are mimalloc's.
            return unsafe { mi_realloc(block.cast(), size) }.cast();
        }
        // SAFETY: the caller keeps the rules of `GlobalAlloc` for this method, and mimalloc's method has the same rules.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

/// Makes the allocator give back to the system what this thread does not use.
pub(crate) fn collect() {
    // SAFETY: any thread may call it at any time.
    unsafe { mi_collect(true) };
}
