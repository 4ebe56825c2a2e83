//! What a client sends ahead of the end of its handshake (RFC 8446, section 4.2.10).

use std::io::Read as _;

use rustls::Connection;

/// What a client has sent ahead of the end of its handshake. Its settings bound it.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// There was some.
    pub(super) is_any: bool,
    data: Vec<u8>,
    /// So much of it was read.
    pos: usize,
}

impl Early {
    pub(super) fn unread(&self) -> &[u8] {
        &self.data[self.pos..]
    }

    /// Takes what `conn` has got. To be called whenever that has processed records.
    pub(super) fn take(&mut self, conn: &mut Connection) {
        let Connection::Server(conn) = conn else { return };
        let Some(mut reader) = conn.early_data() else { return };
        let before = self.data.len();
        // What is in memory is read without failures.
        let _ = reader.read_to_end(&mut self.data);
        self.is_any |= self.data.len() > before;
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.pos += count;
        if self.pos == self.data.len() {
            self.drop_unread();
        }
    }

    /// Forgets what was not read.
    pub(super) fn drop_unread(&mut self) {
        (self.data, self.pos) = (Vec::new(), 0);
    }
}
