//! The memory of virtual machines: small blocks are the process's allocator's, large ones are mapped one by one.
//!
//! The process's allocator makes and frees small blocks faster than LuaJIT's own. A large string or table grows again and
//! again, and is gone at once: the system moves its pages rather than bytes, and gets them back.
//!
//! Only where every address has 47 bits, which is all that LuaJIT has room for in a value. Elsewhere LuaJIT's allocator
//! finds such addresses itself.

use std::ffi::c_void;
use std::ptr;

use mlua_sys::{self as ffi, lua_State};

/// A new state, or null for want of memory.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn new_state() -> *mut lua_State {
    unsafe extern "C-unwind" {
        /// See `tidegate-luajit/extension.c`.
        fn tidegate_lua_newstate(allocate: ffi::lua_Alloc, data: *mut c_void) -> *mut lua_State;
    }
    // SAFETY: `allocate` keeps the contract of `lua_Alloc` and has no data.
    unsafe { tidegate_lua_newstate(own::allocate, ptr::null_mut()) }
}

/// A new state, or null for want of memory.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) fn new_state() -> *mut lua_State {
    // SAFETY: has no preconditions.
    unsafe { ffi::luaL_newstate() }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod own {
    use std::alloc::{Layout, alloc, dealloc, realloc};
    use std::ffi::c_void;
    use std::ptr;

    /// Blocks of this size are mapped: less would give the pages of texts and lists of some 100 KB back each time.
    const MAPPED: usize = 512 << 10;
    /// The system's pages.
    const PAGE: usize = 4096;
    /// LuaJIT aligns what wants more itself.
    const ALIGN: usize = 8;

    fn layout(size: usize) -> Layout {
        // SAFETY: a power of two, and sizes below `MAPPED`.
        unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
    }

    /// Bytes of the mapping for a block of `size`; none where there is no such size.
    fn mapping(size: usize) -> Option<usize> {
        size.checked_next_multiple_of(PAGE)
    }

    /// `lua_Alloc`.
    ///
    /// # Safety
    /// `block` is null, or came from here for `old` bytes and is used no more unless null is returned for `new` > 0.
    pub(super) unsafe extern "C" fn allocate(
        _: *mut c_void,
        block: *mut c_void,
        old: usize,
        new: usize,
    ) -> *mut c_void {
        // SAFETY: LuaJIT keeps to the contract of `lua_Alloc`; `resize` is for all that is neither.
        unsafe {
            if block.is_null() {
                return if new == 0 { block } else { make(new) };
            }
            if new == 0 {
                free(block, old);
                return ptr::null_mut();
            }
            if old < MAPPED && new < MAPPED {
                return realloc(block.cast(), layout(old), new).cast();
            }
            resize(block, old, new)
        }
    }

    /// # Safety
    /// `size` is not 0.
    #[inline]
    unsafe fn make(size: usize) -> *mut c_void {
        if size < MAPPED {
            // SAFETY: the size is not 0, as this function demands.
            return unsafe { alloc(layout(size)) }.cast();
        }
        map(size)
    }

    #[cold]
    fn map(size: usize) -> *mut c_void {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let Some(bytes) = mapping(size) else { return ptr::null_mut() };
        // SAFETY: a new mapping anywhere.
        known(unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) })
    }

    fn known(address: *mut c_void) -> *mut c_void {
        if address == libc::MAP_FAILED { ptr::null_mut() } else { address }
    }

    /// # Safety
    /// `block` came from here for `size` bytes and is used no more.
    #[inline]
    unsafe fn free(block: *mut c_void, size: usize) {
        // SAFETY: the block is one of ours, as this function demands; its size tells where it came from.
        unsafe {
            if size < MAPPED {
                dealloc(block.cast(), layout(size));
            } else {
                libc::munmap(block, mapping(size).unwrap_or(size));
            }
        }
    }

    /// Gives a mapped block another size, or a small block the size of a mapped one, or the other way round.
    ///
    /// # Safety
    /// As for [`allocate`]; neither `block` nor `new` is null.
    #[cold]
    unsafe fn resize(block: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let (Some(from), Some(to)) = (mapping(old), mapping(new)) else { return ptr::null_mut() };
        // SAFETY: LuaJIT keeps to the contract of `lua_Alloc`; a block stays as it was unless the one that replaces it is there.
        unsafe {
            if old >= MAPPED && new >= MAPPED {
                return if from == to { block } else { known(libc::mremap(block, from, to, libc::MREMAP_MAYMOVE)) };
            }
            let moved = make(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), old.min(new));
                free(block, old);
            }
            moved
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A block filled with a pattern that depends on the position.
        struct Block(*mut c_void, usize);

        impl Block {
            fn resize(&mut self, size: usize) {
                // SAFETY: the block came from here with its size.
                let block = unsafe { allocate(ptr::null_mut(), self.0, self.1, size) };
                assert_eq!(block.is_null(), size == 0);
                self.0 = block;
                if size > 0 {
                    // SAFETY: the block has as many bytes; those behind the old size are written before they are read.
                    let bytes = unsafe {
                        if size > self.1 {
                            ptr::write_bytes(block.cast::<u8>().add(self.1), 0, size - self.1);
                        }
                        std::slice::from_raw_parts_mut(block.cast::<u8>(), size)
                    };
                    for (at, byte) in bytes.iter().enumerate().take(self.1) {
                        assert_eq!(*byte, at as u8 ^ (at >> 8) as u8, "byte {at} of {} -> {size}", self.1);
                    }
                    for (at, byte) in bytes.iter_mut().enumerate() {
                        *byte = at as u8 ^ (at >> 8) as u8;
                    }
                }
                self.1 = size;
            }
        }

        #[test]
        fn blocks_keep_their_bytes() {
            let sizes = [1, 24, 4096, MAPPED - 1, MAPPED, MAPPED + 1, 3 * MAPPED, 5 << 20];
            for first in sizes {
                for second in sizes {
                    let mut block = Block(ptr::null_mut(), 0);
                    for size in [first, second, first, 0] {
                        block.resize(size);
                    }
                }
            }
        }

        #[test]
        fn what_cannot_be_is_refused() {
            let mut block = Block(ptr::null_mut(), 0);
            block.resize(MAPPED);
            for size in [usize::MAX, usize::MAX / 2] {
                // SAFETY: a block of this size; it stays.
                unsafe {
                    assert!(allocate(ptr::null_mut(), ptr::null_mut(), 0, size).is_null());
                    assert!(allocate(ptr::null_mut(), block.0, block.1, size).is_null());
                }
            }
            block.resize(MAPPED * 2);
            block.resize(0);
        }
    }
}
