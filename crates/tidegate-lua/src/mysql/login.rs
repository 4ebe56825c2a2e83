//! The login of a session: the pool gives a session only to a script that would log in the same way.

use std::borrow::Cow;
use std::sync::Arc;

use rustls::ClientConfig;

use super::refusal::Refusal;
use crate::host::Host;
use crate::socket::client_without_name;
use crate::stack::Lua;

/// Everything that decides to which server a session goes, as whom, and how well it is protected.
///
/// Two logins are equal when one session serves both. What a script may change on a session that it got (time-outs, the
/// largest packet) is not here.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login<'a> {
    pub(super) server: Server<'a>,
    pub(super) user: Cow<'a, [u8]>,
    pub(super) password: Cow<'a, [u8]>,
    pub(super) schema: Cow<'a, [u8]>,
    pub(super) charset: Cow<'a, [u8]>,
    pub(super) encryption: Option<Encryption>,
}

/// The address of the server.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Server<'a> {
    Inet {
        host: Cow<'a, [u8]>,
        port: u16,
    },
    Unix(Cow<'a, [u8]>),
    /// The engine inside the process.
    Embedded,
}

/// How a session is encrypted: verification, trust, revocation, versions and the client's own certificate are all in the
/// configuration of the TLS client, which is made once for each combination of them.
#[derive(Clone)]
pub(super) struct Encryption(pub(super) Arc<ClientConfig>);

impl PartialEq for Encryption {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Encryption {}

impl<'a> Login<'a> {
    /// Reads `host, port, path, embedded, user, password, database, charset, ssl, ssl_verify` from the arguments that
    /// begin at `first`. The login borrows the arguments' bytes.
    ///
    /// # Errors
    /// What the script gets for arguments that name no server, and for certificates that cannot be used.
    pub(super) fn of_arguments(lua: &'a Lua, first: i32, host: &Host) -> Result<Self, Refusal> {
        let given = |offset: i32| lua.to_bytes(first + offset);
        let text = |offset: i32| given(offset).map_or(Cow::Borrowed(&b""[..]), Cow::Borrowed);
        let server = if lua.to_bool(first + 3) {
            Server::Embedded
        } else {
            match (given(0), given(2)) {
                (Some(name), _) => Server::Inet { host: name.into(), port: port(lua, first + 1)? },
                (None, Some(path)) => Server::Unix(path.into()),
                (None, None) => return Err("neither \"host\" nor \"path\" options are specified".into()),
            }
        };
        let verify = lua.to_bool(first + 9);
        let encryption = if (verify || lua.to_bool(first + 8)) && server != Server::Embedded {
            let client =
                client_without_name(host, verify).map_err(|why| format!("failed to do ssl handshake: {why}"))?;
            Some(Encryption(client))
        } else {
            None
        };
        Ok(Self { server, user: text(4), password: text(5), schema: text(6), charset: text(7), encryption })
    }

    /// The same, with bytes of its own.
    pub(super) fn into_owned(self) -> Login<'static> {
        let own = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        let Self { server, user, password, schema, charset, encryption } = self;
        let server = match server {
            Server::Inet { host, port } => Server::Inet { host: own(host), port },
            Server::Unix(path) => Server::Unix(own(path)),
            Server::Embedded => Server::Embedded,
        };
        Login {
            server,
            user: own(user),
            password: own(password),
            schema: own(schema),
            charset: own(charset),
            encryption,
        }
    }
}

/// The port at `index`; MySQL's own if there is none.
fn port(lua: &Lua, index: i32) -> Result<u16, Refusal> {
    if lua.is_none_or_nil(index) {
        return Ok(3306);
    }
    let port = lua.to_number(index).and_then(|port| u16::try_from(port as i64).ok());
    port.ok_or_else(|| Refusal::from("failed to connect: bad port number"))
}

/// A part of a login as text; `name` is the option's.
///
/// # Errors
/// What the script gets for bytes that are no text.
pub(super) fn utf8(bytes: &[u8], name: &str) -> Result<String, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::from(format!("\"{name}\" is not UTF-8")))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login<'static> {
        Login {
            server: Server::Inet { host: b"db"[..].into(), port: 3306 },
            user: b"web"[..].into(),
            password: b"secret"[..].into(),
            schema: b"shop"[..].into(),
            charset: b"utf8"[..].into(),
            encryption: None,
        }
    }

    #[track_caller]
    fn differs(change: impl FnOnce(&mut Login<'static>)) {
        let mut other = login();
        change(&mut other);
        assert!(other != login());
    }

    #[test]
    fn logins_that_differ_in_anything_share_nothing() {
        assert!(login() == login().into_owned());
        differs(|login| login.user = b"mallory"[..].into());
        differs(|login| login.password = b"wrong"[..].into());
        differs(|login| login.password = b""[..].into());
        differs(|login| login.schema = b""[..].into());
        differs(|login| login.charset = b"latin1"[..].into());
        differs(|login| login.server = Server::Inet { host: b"db2"[..].into(), port: 3306 });
        differs(|login| login.server = Server::Inet { host: b"db"[..].into(), port: 3307 });
        differs(|login| login.server = Server::Unix(b"db"[..].into()));
        differs(|login| login.server = Server::Embedded);
    }
}
