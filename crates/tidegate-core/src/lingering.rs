//! Reading what a client still sends when everything has been said: closing at once would send a reset, which takes what
//! the client has not read yet away from it.

use std::{io, rc::Rc};

use tidegate_net::session::Wait;

use crate::{clock, connection::Connection};

/// Says that nothing more will come, then reads and drops until the client closes, `bytes_max` bytes have come, or the time
/// is over: `pause_ms` is how long to wait for more in milliseconds, `None` when there is none left.
pub(crate) async fn read_on(conn: &Rc<Connection>, bytes_max: u64, mut pause_ms: impl FnMut() -> Option<u64>) {
    conn.stream.shutdown_write();
    let mut buf = vec![0u8; 4096];
    let mut left = bytes_max;
    while left > 0 {
        clock::update();
        let Some(pause_ms) = pause_ms() else { return };
        match conn.readable(pause_ms).await {
            Ok(Wait::Ready(())) => {}
            _ => return,
        }
        match conn.stream.try_read(&mut buf) {
            Ok(0) => return,
            Ok(count) => left = left.saturating_sub(count as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
