//! The header of the PROXY protocol ahead of a client's bytes, where `listen … proxy_protocol` expects one.

use std::{
    io,
    task::{Poll, ready},
};

use tidegate_http::proxy_protocol::parse_proxy_header;
use tidegate_net::{
    Peer,
    log::Level,
    session::{Session, Wait},
};

use super::{LOGIN_TIME_MAX, note};

/// Read at once; the longest header is not much longer.
const READ_BYTES: usize = 1 << 10;

/// Reads the header: who the client is, as the balancer says, and what has come behind it. `None` where it does not come or is broken.
pub(super) async fn read_header(session: &Session) -> Option<(Peer, Vec<u8>)> {
    let mut input = Vec::new();
    let came = session.wait(LOGIN_TIME_MAX.as_millis() as u64, |cx| {
        loop {
            let parsed = if input.is_empty() { Ok(None) } else { parse_proxy_header(&input) };
            match parsed {
                Ok(Some((header, used))) => {
                    let rest = input.split_off(used);
                    let peer = header.addresses.map_or(session.peer, |(client, _)| Peer::Inet(client));
                    return Poll::Ready(Ok((peer, rest)));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
            }
            ready!(session.stream.poll_read_ready(cx))?;
            let mut room = [0; READ_BYTES];
            match session.stream.try_read(&mut room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => input.extend_from_slice(&room[..count]),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    });
    match came.await {
        Ok(Wait::Ready(read)) => Some(read),
        Ok(Wait::TimedOut) => {
            note(session, Level::Info, format_args!("client timed out while reading PROXY protocol"));
            None
        }
        Ok(Wait::Closing) => None,
        Err(error) => {
            if error.kind() == io::ErrorKind::InvalidData {
                note(session, Level::Error, format_args!("{error} while reading PROXY protocol"));
            }
            None
        }
    }
}
