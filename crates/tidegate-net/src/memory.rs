//! Gives memory back to the system when a rush is over.
//!
//! An allocator keeps what is freed for who allocates next, and looks for pages to give back only while it is in use.
//! Which allocator there is the binary knows.

use std::sync::OnceLock;

static COLLECTOR: OnceLock<fn()> = OnceLock::new();

/// Says how the allocator gives back what this thread does not use. The first one to say so wins.
pub fn set_collector(collector: fn()) {
    let _ = COLLECTOR.set(collector);
}

/// Gives back what this thread does not use: some milliseconds for tens of megabytes.
pub fn collect() {
    if let Some(collector) = COLLECTOR.get() {
        collector();
    }
}
