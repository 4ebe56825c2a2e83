//! Sessions that are resumed only where the same certificates are shown, and asked for, as in the handshake that made them.
//!
//! Whoever resumes a session sees no certificate. Somebody on the way who leads a client to another address of the machine, with another site, could make
//! it take that site for the one that it has asked for; all servers have the same keys of tickets. And a client that was not asked for a certificate, or
//! knew of none that would do, could else never show one.
//!
//! Source: nginx, `ngx_ssl_session_id_context`.

use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::{
    ServerConfig,
    server::{ProducesTickets, StoresServerSessions},
};

const CONTEXT_BYTES: usize = 8;

/// What a server shows, and what clients are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context([u8; CONTEXT_BYTES]);

impl Context {
    /// Of certificates, each by its bytes, or by a name where the bytes come later. Clients are asked for nothing.
    pub fn of<'c>(certificates: impl IntoIterator<Item = &'c [u8]>) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        for certificate in certificates {
            hash.update(&certificate.len().to_be_bytes());
            hash.update(certificate);
        }
        let mut context = [0; CONTEXT_BYTES];
        context.copy_from_slice(&hash.finish().as_ref()[..CONTEXT_BYTES]);
        Context(context)
    }

    /// The same where clients are asked in this way for certificates of `authorities`.
    #[must_use]
    pub fn asked(self, way: u8, authorities: Self) -> Self {
        Self::of([&self.0[..], &[way][..], &authorities.0[..]])
    }

    /// Binds the sessions and tickets that `unbound` makes, for a server or one handshake.
    pub fn bind(self, unbound: &Unbound, config: &mut ServerConfig) {
        config.session_storage = Arc::new(Sessions { context: self, below: unbound.sessions.clone() });
        config.ticketer = Arc::new(Tickets { context: self, below: unbound.tickets.clone() });
    }

    fn put_ahead(self, session: &[u8]) -> Vec<u8> {
        [&self.0, session].concat()
    }

    /// The session behind a context, if that is this one.
    fn take_off(self, bound: &[u8]) -> Option<Vec<u8>> {
        bound.strip_prefix(&self.0).map(<[u8]>::to_vec)
    }
}

/// Where sessions are kept, and what makes tickets, before they are bound.
#[derive(Debug, Clone)]
pub struct Unbound {
    /// Sessions in memory.
    pub sessions: Arc<dyn StoresServerSessions>,
    /// Tickets.
    pub tickets: Arc<dyn ProducesTickets>,
}

impl Unbound {
    /// Those of settings that are not bound yet.
    pub fn of(config: &ServerConfig) -> Self {
        Self { sessions: config.session_storage.clone(), tickets: config.ticketer.clone() }
    }
}

#[derive(Debug)]
struct Tickets {
    context: Context,
    below: Arc<dyn ProducesTickets>,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.below.enabled()
    }
    fn lifetime(&self) -> u32 {
        self.below.lifetime()
    }
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.below.encrypt(&self.context.put_ahead(plain))
    }
    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.context.take_off(&self.below.decrypt(cipher)?)
    }
}

#[derive(Debug)]
struct Sessions {
    context: Context,
    below: Arc<dyn StoresServerSessions>,
}

impl StoresServerSessions for Sessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.below.put(id, self.context.put_ahead(&session))
    }
    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.context.take_off(&self.below.get(id)?)
    }
    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.context.take_off(&self.below.take(id)?)
    }
    fn can_cache(&self) -> bool {
        self.below.can_cache()
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    #[test]
    fn sessions_stay_where_they_were_made() {
        let below = ServerSessionMemoryCache::new(10);
        let of = |certificate: &'static str| Context::of([certificate.as_bytes()]);
        let contexts = [
            of("one"),
            of("two"),
            of("one").asked(1, Context::of([])),
            of("one").asked(1, of("authority")),
            of("one").asked(2, of("authority")),
            of("two").asked(2, of("authority")),
        ];
        let all = contexts.map(|context| Sessions { context, below: below.clone() });
        for (made, one) in all.iter().enumerate() {
            one.put(b"id".to_vec(), b"session".to_vec());
            for (asked, other) in all.iter().enumerate() {
                assert_eq!(other.get(b"id").is_some(), asked == made);
            }
            assert_eq!(one.take(b"id").as_deref(), Some(&b"session"[..]));
        }
    }
}
