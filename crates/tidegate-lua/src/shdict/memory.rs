//! How much of a zone is in use, counted in the pages and blocks of nginx's slab allocator.
//!
//! A block above half a page takes whole pages; smaller ones are of sizes 8, 16, … 2048 and share pages with others of
//! their size. Nothing is allocated here: only counters move.

use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: usize = 4096;

/// The allocator's own share of each page.
const PAGE_HEAD_BYTES: usize = 24;

/// The allocator's own share of the zone.
const ZONE_HEAD_BYTES: usize = 704;

/// What the dictionary itself keeps in the zone: its root, and the words that log lines name it with.
const ROOT_BYTES: [usize; 2] = [80, 32];

/// Sizes of small blocks: 8 << 0 … 8 << 8.
const CLASSES: usize = 9;

/// A piece of memory: its size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Small(u8),
    Pages(usize),
}

impl Block {
    /// The block that `bytes` need.
    pub(super) fn of(bytes: usize) -> Self {
        if bytes > PAGE_BYTES / 2 {
            return Self::Pages(bytes.div_ceil(PAGE_BYTES));
        }
        let class = bytes.max(8).next_power_of_two().trailing_zeros() - 3;
        Self::Small(class as u8)
    }
}

/// A page of blocks below 64 bytes begins with a map of those in use, of a bit each.
fn blocks_per_page(class: u8) -> usize {
    let block_bytes = 8_usize << class;
    let blocks = PAGE_BYTES / block_bytes;
    if block_bytes < 64 { blocks - (blocks / 8).div_ceil(block_bytes) } else { blocks }
}

/// The memory that is in use.
#[derive(Debug, Default)]
struct Used {
    pages: usize,
    blocks: [usize; CLASSES],
}

/// The counters of a zone. Entries change places while a map's lock is held, so this lock is the innermost one.
#[derive(Debug)]
pub(super) struct Memory {
    pages_max: usize,
    used: Mutex<Used>,
}

impl Memory {
    pub(super) fn new(zone_bytes: usize) -> Self {
        let pages = zone_bytes.saturating_sub(ZONE_HEAD_BYTES) / (PAGE_BYTES + PAGE_HEAD_BYTES);
        let memory = Self { pages_max: pages.max(ROOT_BYTES.len() + 1), used: Mutex::default() };
        for bytes in ROOT_BYTES {
            memory.take(Block::of(bytes));
        }
        memory
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Nothing panics between two changes that belong together.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `block`; `false` when there is no room.
    pub(super) fn take(&self, block: Block) -> bool {
        let mut used = self.used();
        let pages = used.pages_for(block);
        if pages > self.pages_max - used.pages {
            return false;
        }
        used.pages += pages;
        if let Block::Small(class) = block {
            used.blocks[usize::from(class)] += 1;
        }
        true
    }

    /// Gives `block` back.
    pub(super) fn give(&self, block: Block) {
        let mut used = self.used();
        if let Block::Small(class) = block {
            used.blocks[usize::from(class)] -= 1;
        }
        used.pages -= used.pages_for(block);
    }

    /// Whether `block` would fit in at present.
    pub(super) fn has_room(&self, block: Block) -> bool {
        let used = self.used();
        used.pages_for(block) <= self.pages_max - used.pages
    }

    /// Whether `block` would fit into the empty zone.
    pub(super) fn could_hold(&self, block: Block) -> bool {
        match block {
            Block::Pages(pages) => pages <= self.pages_max - ROOT_BYTES.len(),
            Block::Small(_) => true,
        }
    }

    pub(super) fn free_bytes(&self) -> usize {
        (self.pages_max - self.used().pages) * PAGE_BYTES
    }
}

impl Used {
    /// How many pages another `block` would need.
    fn pages_for(&self, block: Block) -> usize {
        match block {
            Block::Pages(pages) => pages,
            Block::Small(class) => usize::from(self.blocks[usize::from(class)].is_multiple_of(blocks_per_page(class))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let cases = [
            (0, Block::Small(0)),
            (8, Block::Small(0)),
            (9, Block::Small(1)),
            (128, Block::Small(4)),
            (2048, Block::Small(8)),
            (2049, Block::Pages(1)),
            (4097, Block::Pages(2)),
        ];
        for (bytes, block) in cases {
            assert_eq!(Block::of(bytes), block, "{bytes}");
        }
    }

    #[test]
    fn small_blocks_share_their_page_with_a_map() {
        assert_eq!([0, 1, 2, 3, 8].map(blocks_per_page), [504, 254, 127, 64, 2]);
    }

    #[test]
    fn pages_are_counted() {
        let memory = Memory::new(100 << 10);
        let all = memory.free_bytes();
        assert_eq!(all, 22 * PAGE_BYTES);
        assert!(memory.take(Block::Pages(21)) && memory.take(Block::Small(8)) && memory.take(Block::Small(8)));
        assert!(!memory.take(Block::Small(8)) && !memory.take(Block::Small(0)) && !memory.has_room(Block::Small(0)));
        memory.give(Block::Small(8));
        assert!(memory.has_room(Block::Small(8)) && !memory.has_room(Block::Small(7)));
        memory.give(Block::Small(8));
        memory.give(Block::Pages(21));
        assert_eq!(memory.free_bytes(), all);
    }
}
