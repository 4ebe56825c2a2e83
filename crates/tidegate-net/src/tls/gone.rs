//! What a server says at the end of a handshake when all that counts was told, perhaps to a peer that is gone.

use std::io;

use rustls::{Connection, ProtocolVersion};

/// Whether all that a server still has to say is what the client may do without: the tickets of TLS 1.3. The rest of the handshake was sent
/// ahead of the client's last message.
pub(super) fn has_no_more_than_tickets(conn: &Connection) -> bool {
    matches!(conn, Connection::Server(_))
        && !conn.is_handshaking()
        && conn.protocol_version() == Some(ProtocolVersion::TLSv1_3)
}

/// Whether the peer takes nothing more. What it has said before may still wait to be read.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Drops the records that wait: whoever reads on must not fail for want of somebody who takes them.
pub(super) fn forget_unsent(conn: &mut Connection) {
    while conn.wants_write() && conn.write_tls(&mut io::sink()).is_ok() {}
}
