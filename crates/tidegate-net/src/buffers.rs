//! Buffers that the connections of a worker use one after another.

use tidegate_reuse::{Keep, Pool, Reset};

/// Buffers that a worker keeps for reuse.
const SPARES_MAX: usize = 256;

/// Capacity of a new buffer, in bytes.
const BUFFER_BYTES: usize = 1024;

/// A buffer that grew beyond this is given back to the system, and so is one that is smaller than a new one.
const SPARE_BUFFER_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static BUFFERS: Pool<Buffer> = const { Pool::new(SPARES_MAX) };
}

/// A buffer.
#[derive(Debug)]
struct Buffer(Vec<u8>);

impl Reset for Buffer {
    fn reset(&mut self) -> Keep {
        let Buffer(bytes) = self;
        bytes.clear();
        if (BUFFER_BYTES..=SPARE_BUFFER_BYTES_MAX).contains(&bytes.capacity()) { Keep::Yes } else { Keep::No }
    }
    fn fresh() -> Self {
        Buffer(Vec::with_capacity(BUFFER_BYTES))
    }
}

/// A buffer, empty, with memory.
pub fn take() -> Vec<u8> {
    BUFFERS.with(Pool::take).0
}

/// Takes a buffer back.
pub fn give(buffer: Vec<u8>) {
    BUFFERS.with(|buffers| buffers.give(Buffer(buffer)));
}
