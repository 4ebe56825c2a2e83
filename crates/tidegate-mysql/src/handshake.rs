//! Packets of the login: the server's greeting and the client's response.
//!
//! ```text
//! server   greeting: version, thread id, nonce, capabilities, plugin
//! client   [request for TLS, then the TLS handshake]
//! client   response: capabilities, user, proof, schema, plugin, attributes
//! server   OK | ERR | switch to another plugin | more data
//! ```
//!
//! Source: MySQL internals, "Connection Phase Packets".

use crate::wire::{Malformed, Reader, put_lenenc, put_lenenc_bytes, put_until_zero};

/// Bits of the capabilities that both sides declare.
pub mod capability {
    #![allow(missing_docs, reason = "the names are the manual's")]
    pub const LONG_PASSWORD: u32 = 1;
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const COMPRESS: u32 = 1 << 5;
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const IGNORE_SPACE: u32 = 1 << 8;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const INTERACTIVE: u32 = 1 << 10;
    pub const SSL: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    pub const PLUGIN_AUTH_LENENC_CLIENT_DATA: u32 = 1 << 21;
    pub const SESSION_TRACK: u32 = 1 << 23;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    pub const ZSTD_COMPRESSION_ALGORITHM: u32 = 1 << 26;
}

/// Extensions of MariaDB, which has them in place of [`capability::LONG_PASSWORD`].
pub mod extension {
    /// COM_STMT_BULK_EXECUTE
    pub const BULK: u32 = 1 << 2;
    /// Definitions of columns that say what a type is called.
    pub const EXTENDED_METADATA: u32 = 1 << 3;
}

/// Largest packet that the client says it takes: the protocol's own limit.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// The first packet of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Version, e.g. `5.5.5-10.11.6-MariaDB` or `8.4.0`.
    pub version: Box<[u8]>,
    /// Number of the connection, as in `kill`.
    pub thread_id: u32,
    /// Random bytes that proofs are made of; 20 with all servers of today.
    pub nonce: Vec<u8>,
    /// What the server can do, see [`capability`].
    pub capabilities: u32,
    /// Extensions of MariaDB, see [`extension`]; none where [`capability::LONG_PASSWORD`] is set.
    pub extensions: u32,
    /// The server's default collation.
    pub collation: u8,
    /// Status, see [`crate::answer::status`].
    pub status: u16,
    /// Name of the plugin that the nonce is for; empty if the server knows only `mysql_native_password`.
    pub plugin: Box<[u8]>,
}

impl Greeting {
    /// Reads a greeting.
    ///
    /// # Errors
    /// A packet that ends too early, another protocol than version 10, or a server older than MySQL 4.1.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(packet);
        if reader.u8()? != 10 {
            return Err(Malformed("not a greeting of protocol version 10"));
        }
        let version = reader.until_zero().into();
        let thread_id = reader.u32()?;
        let mut nonce = reader.bytes(8)?.to_vec();
        reader.u8()?;
        let low = reader.u16()?;
        let (collation, status, high) = (reader.u8()?, reader.u16()?, reader.u16()?);
        let capabilities = u32::from(low) | u32::from(high) << 16;
        let nonce_len = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let extensions = if capabilities & capability::LONG_PASSWORD == 0 { reader.u32()? } else { 0 };
        if capabilities & capability::LONG_PASSWORD != 0 {
            reader.bytes(4)?;
        }
        if capabilities & capability::PROTOCOL_41 == 0 || capabilities & capability::SECURE_CONNECTION == 0 {
            return Err(Malformed("a server older than MySQL 4.1"));
        }
        // The last byte is a zero that does not belong to the nonce.
        let tail = reader.bytes(nonce_len.saturating_sub(8).max(13).min(reader.rest().len()))?;
        nonce.extend_from_slice(tail.strip_suffix(&[0]).unwrap_or(tail));
        let plugin = if capabilities & capability::PLUGIN_AUTH != 0 { reader.until_zero() } else { &[] };
        Ok(Self { version, thread_id, nonce, capabilities, extensions, collation, status, plugin: plugin.into() })
    }

    /// Appends the payload of a greeting.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (head, tail) = self.nonce.split_at(self.nonce.len().min(8));
        out.push(10);
        put_until_zero(out, &self.version);
        out.extend_from_slice(&self.thread_id.to_le_bytes());
        out.extend_from_slice(head);
        out.push(0);
        let capabilities = self.capabilities.to_le_bytes();
        out.extend_from_slice(&capabilities[..2]);
        out.push(self.collation);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&capabilities[2..]);
        out.push(u8::try_from(self.nonce.len() + 1).unwrap_or(21));
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&self.extensions.to_le_bytes());
        out.extend_from_slice(tail);
        out.push(0);
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            put_until_zero(out, &self.plugin);
        }
    }

    /// Whether the server is MariaDB.
    pub fn is_mariadb(&self) -> bool {
        memchr::memmem::find(&self.version, b"MariaDB").is_some()
    }
}

/// The packet with which a client logs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// What the client wants, see [`capability`].
    pub capabilities: u32,
    /// Extensions of MariaDB that it wants, see [`extension`]; none where [`capability::LONG_PASSWORD`] is set.
    pub extensions: u32,
    /// Number of the connection's collation.
    pub collation: u8,
    /// User.
    pub user: Vec<u8>,
    /// Proof of the password.
    pub proof: Vec<u8>,
    /// Schema; empty for none.
    pub schema: Vec<u8>,
    /// Plugin that the proof is for.
    pub plugin: Vec<u8>,
    /// Names and values for the server's `session_connect_attrs`.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Level of zstd that it wants, 1 to 22; only with [`capability::ZSTD_COMPRESSION_ALGORITHM`].
    pub zstd_level: u8,
}

impl Response {
    /// Appends the payload of the request for TLS, which is the beginning of the response.
    pub fn put_tls_request(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&PACKET_BYTES_MAX.to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&self.extensions.to_le_bytes());
    }

    /// Appends the payload of the response.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.put_tls_request(out);
        put_until_zero(out, &self.user);
        if self.capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            put_lenenc_bytes(out, &self.proof);
        } else {
            out.push(self.proof.len() as u8);
            out.extend_from_slice(&self.proof[..usize::from(self.proof.len() as u8)]);
        }
        if self.capabilities & capability::CONNECT_WITH_DB != 0 {
            put_until_zero(out, &self.schema);
        }
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            put_until_zero(out, &self.plugin);
        }
        if self.capabilities & capability::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            for (name, value) in &self.attributes {
                put_lenenc_bytes(&mut attributes, name);
                put_lenenc_bytes(&mut attributes, value);
            }
            put_lenenc(out, attributes.len() as u64);
            out.extend_from_slice(&attributes);
        }
        if self.capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0 {
            out.push(self.zstd_level);
        }
    }

    /// Reads a response, or a request for TLS: then the user is empty.
    ///
    /// # Errors
    /// A packet that ends too early, or a client older than MySQL 4.1.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(packet);
        let capabilities = reader.u32()?;
        if capabilities & capability::PROTOCOL_41 == 0 {
            return Err(Malformed("a client older than MySQL 4.1"));
        }
        reader.u32()?;
        let collation = reader.u8()?;
        reader.bytes(19)?;
        let last = reader.u32()?;
        let extensions = if capabilities & capability::LONG_PASSWORD == 0 { last } else { 0 };
        let mut response = Self { capabilities, extensions, collation, ..Self::default() };
        if reader.is_empty() {
            return Ok(response);
        }
        response.user = reader.until_zero().to_vec();
        let proof = if capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            reader.lenenc_bytes()?
        } else if capabilities & capability::SECURE_CONNECTION != 0 {
            let len = usize::from(reader.u8()?);
            reader.bytes(len)?
        } else {
            reader.until_zero()
        };
        response.proof = proof.to_vec();
        if capabilities & capability::CONNECT_WITH_DB != 0 {
            response.schema = reader.until_zero().to_vec();
        }
        if capabilities & capability::PLUGIN_AUTH != 0 {
            response.plugin = reader.until_zero().to_vec();
        }
        if capabilities & capability::CONNECT_ATTRS != 0 && !reader.is_empty() {
            let mut attributes = Reader(reader.lenenc_bytes()?);
            while !attributes.is_empty() {
                let name = attributes.lenenc_bytes()?.to_vec();
                response.attributes.push((name, attributes.lenenc_bytes()?.to_vec()));
            }
        }
        if capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0 && !reader.is_empty() {
            response.zstd_level = reader.u8()?;
        }
        Ok(response)
    }
}

/// Size of the nonce of `client_ed25519`: no zero follows, and its last byte may well be one.
const NONCE_ED25519: usize = 32;

/// Reads a switch to another plugin: its name and its nonce. Behind a lone `0xfe` stands the login of MySQL 3.23.
///
/// # Errors
/// A server that wants the old login.
pub fn read_switch(packet: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut reader = Reader(packet.get(1..).unwrap_or_default());
    if reader.is_empty() {
        return Err(Malformed("the server wants the login of MySQL 3.23, which is not secure"));
    }
    let plugin = reader.until_zero();
    let nonce = reader.rest();
    match nonce {
        [head @ .., 0] if nonce.len() != NONCE_ED25519 => Ok((plugin, head)),
        _ => Ok((plugin, nonce)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capability::*;

    fn greeting() -> Greeting {
        Greeting {
            version: (*b"5.5.5-10.11.6-MariaDB").into(),
            thread_id: 77,
            nonce: b"0123456789abcdefghij".to_vec(),
            capabilities: PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH,
            extensions: 0,
            collation: 45,
            status: 2,
            plugin: (*b"mysql_native_password").into(),
        }
    }

    #[test]
    fn greetings_both_ways() {
        let mut out = Vec::new();
        greeting().put(&mut out);
        assert_eq!(Greeting::read(&out), Ok(greeting()));
        assert!(greeting().is_mariadb());
        for cut in 0..60 {
            assert!(Greeting::read(&out[..cut]).is_err() || cut > 44, "{cut}");
        }
        out[0] = 9;
        assert!(Greeting::read(&out).is_err());
        let old = Greeting { capabilities: PLUGIN_AUTH, ..greeting() };
        let mut out = Vec::new();
        old.put(&mut out);
        assert!(Greeting::read(&out).is_err());
    }

    #[test]
    fn responses_both_ways() {
        let all = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | CONNECT_WITH_DB | CONNECT_ATTRS;
        let zstd = all | ZSTD_COMPRESSION_ALGORITHM;
        for capabilities in [all, all | PLUGIN_AUTH_LENENC_CLIENT_DATA, zstd, zstd & !CONNECT_ATTRS] {
            let attribute = (b"program_name".to_vec(), b"x".to_vec());
            let response = Response {
                capabilities,
                extensions: 0,
                collation: 45,
                user: b"monty".to_vec(),
                proof: vec![0; 20],
                schema: b"world".to_vec(),
                plugin: b"mysql_native_password".to_vec(),
                attributes: if capabilities & CONNECT_ATTRS == 0 { Vec::new() } else { vec![attribute] },
                zstd_level: if capabilities & ZSTD_COMPRESSION_ALGORITHM == 0 { 0 } else { 9 },
            };
            let mut out = Vec::new();
            response.put(&mut out);
            assert_eq!(Response::read(&out), Ok(response.clone()));
            let mut out = Vec::new();
            response.put_tls_request(&mut out);
            assert_eq!(Response::read(&out).unwrap().user, b"");
        }
    }

    #[test]
    fn switches() {
        assert_eq!(read_switch(b"\xfeplug\0nonce\0"), Ok((&b"plug"[..], &b"nonce"[..])));
        let switch = [&b"\xfeclient_ed25519\0"[..], &[7; 31], &[0]].concat();
        assert_eq!(read_switch(&switch).map(|(_, nonce)| nonce.len()), Ok(32));
        assert!(read_switch(b"\xfe").is_err());
    }
}
