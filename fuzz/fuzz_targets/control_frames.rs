//! Frames of the embedded database's control socket, as either side reads them: nothing panics, and no frame is longer than
//! what came.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_rows::frames::{FrameReader, Payload};

fuzz_target!(|input: &[u8]| {
    let mut reader = FrameReader::new(input);
    let mut read = 0;
    while let Ok(frame) = reader.next_frame() {
        read += 5 + frame.payload.len();
        assert!(read <= input.len());
        let bytes = frame.payload;
        let _ = Payload(bytes).columns();
        let mut values = Payload(bytes);
        while values.value().is_some() {}
        let _ = Payload(bytes).error();
        let _ = Payload(bytes).summary();
    }
});
