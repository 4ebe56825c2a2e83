//! What the log says of a handshake that has failed, in nginx's words.

use std::fmt;

use tidegate_net::tls::HandshakeError;
use tidegate_tls::failure::{Failure, Reason};

use crate::log::SysError;

/// Shows why a handshake has failed.
///
/// Source: nginx, `ngx_ssl_handshake`, `ngx_ssl_connection_error`.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeFailure<'a>(pub &'a HandshakeError);

impl fmt::Display for HandshakeFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            HandshakeError::Closed => self.0.fmt(f),
            HandshakeError::NoSettings => {
                write!(f, "SSL_do_handshake() failed (SSL: {}:no certificate for the name)", Reason::CALLBACK_FAILED)
            }
            HandshakeError::Socket(error) => write!(f, "SSL_do_handshake() failed {}", SysError(error)),
            HandshakeError::Tls(error) => write!(f, "SSL_do_handshake() failed (SSL: {})", Failure(error)),
        }
    }
}
