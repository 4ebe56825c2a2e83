//! The server's part of a login, packet by packet.
//!
//! Proofs are judged by the known password, or by what is kept of it, so that `caching_sha2_password` takes its fast way where
//! it can: no password travels, and no key is needed. What MySQL keeps (a salted digest) takes the password itself, which
//! comes as it is over TLS or a socket of the file system, and encrypted for the server's key over anything else:
//!
//! ```text
//! client   proof
//! server   01 04: the password, please
//! client   [02: your key, please]
//! server   [01, the key in PEM]
//! client   the password and a zero; or both, masked by the nonce, encrypted
//! ```
//!
//! Whoever does not exist is asked for what another account would be asked for.
//!
//! Source: MySQL internals, "Caching_sha2_password information".

use crate::{
    answer::status,
    auth::{self, AuthPlugin},
    compress::Algorithm,
    handshake::{Greeting, Response, capability, extension},
    wire::{Malformed, Reader, put_until_zero},
};

/// What this server can do, without that which depends on its configuration.
const CAPABILITIES: u32 = capability::FOUND_ROWS
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::COMPRESS
    | capability::LOCAL_FILES
    | capability::PROTOCOL_41
    | capability::INTERACTIVE
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF
    | capability::ZSTD_COMPRESSION_ALGORITHM;

/// MariaDB's extensions that this server has.
const EXTENSIONS: u32 = extension::BULK | extension::EXTENDED_METADATA;

/// The plugin that a client is asked for first.
const PLUGIN_DEFAULT: AuthPlugin = AuthPlugin::Native;

/// What a client sends that wants to know the server's key.
pub(super) const KEY_WANTED: &[u8] = &[2];

/// Collation in the greeting: `utf8mb4_general_ci`.
const COLLATION: u8 = 45;

/// Size of the nonce; `client_ed25519` wants [`NONCE_SIZE_MAX`].
const NONCE_SIZE: usize = 20;
const NONCE_SIZE_MAX: usize = 32;

/// A login under way.
#[derive(Debug)]
pub struct Login {
    nonce: [u8; NONCE_SIZE_MAX],
    offers_tls: bool,
    /// Whether the version is one of MariaDB: its extensions are offered.
    is_mariadb: bool,
    /// What the client wants; 0 until it has said so.
    pub capabilities: u32,
    /// Number of the client's collation.
    pub collation: u8,
    /// The name that it logs in with.
    pub user: Vec<u8>,
    /// The current schema that it wants; empty for none.
    pub schema: Vec<u8>,
    /// Names and values that it tells about itself.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    plugin: AuthPlugin,
    /// The client has begun in a way that nobody can judge.
    is_foreign: bool,
    /// Extensions that the client wants.
    pub extensions: u32,
    proof: Vec<u8>,
    zstd_level: u8,
    /// The client was told the server's key, and encrypts its password for that.
    pub(super) knows_key: bool,
}

/// What the server knows of a user's password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// The user has none.
    None,
    /// The password itself: any plugin will do.
    Password(Vec<u8>),
    /// `SHA1(SHA1(password))`, for `mysql_native_password`.
    Native([u8; 20]),
    /// `SHA256(SHA256(password))`, for `caching_sha2_password`.
    CachingSha2([u8; 32]),
    /// The public key, for `client_ed25519`.
    Ed25519([u8; 32]),
    /// Something that only the password itself can be compared with, for `caching_sha2_password`; and that of
    /// [`Secret::CachingSha2`] where it is known since somebody has logged in.
    Salted(Option<[u8; 32]>),
    /// Nothing, because there is no such user. He is asked for what the user of this secret would be asked for.
    Nobody(Box<Secret>),
}

/// The password of a client, as it has sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent<'a> {
    /// As it is, with a zero behind it.
    Plain(&'a [u8]),
    /// Encrypted for the server's key, and masked by the nonce below that.
    Encrypted {
        /// What has come.
        cipher: &'a [u8],
        /// The nonce.
        nonce: &'a [u8],
    },
}

impl Secret {
    /// The only plugin whose proofs can be judged, if there is only one.
    fn plugin(&self) -> Option<AuthPlugin> {
        match self {
            Self::None | Self::Password(_) => None,
            Self::Native(_) => Some(AuthPlugin::Native),
            Self::CachingSha2(_) | Self::Salted(_) => Some(AuthPlugin::CachingSha2),
            Self::Ed25519(_) => Some(AuthPlugin::Ed25519),
            Self::Nobody(other) => other.plugin(),
        }
    }
}

/// What a login needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// TLS, and then the response once more.
    Tls,
    /// A password to compare with.
    Check,
}

impl Login {
    /// A new one. TLS may be offered to the client.
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn new(offers_tls: bool) -> Result<Self, getrandom::Error> {
        let mut nonce = [0; NONCE_SIZE_MAX];
        getrandom::fill(&mut nonce)?;
        // A zero would end it, and a dollar has a meaning in stored proofs.
        for byte in &mut nonce {
            *byte = *byte % 89 + 37;
        }
        Ok(Self {
            nonce,
            offers_tls,
            is_mariadb: false,
            is_foreign: false,
            extensions: 0,
            capabilities: 0,
            collation: COLLATION,
            user: Vec::new(),
            schema: Vec::new(),
            attributes: Vec::new(),
            plugin: PLUGIN_DEFAULT,
            proof: Vec::new(),
            zstd_level: 0,
            knows_key: false,
        })
    }

    fn offered(&self) -> u32 {
        let tls = if self.offers_tls { capability::SSL } else { 0 };
        // MariaDB tells by this one that it has extensions.
        let mysql = if self.is_mariadb { 0 } else { capability::LONG_PASSWORD };
        CAPABILITIES | tls | mysql
    }

    fn nonce(&self, plugin: AuthPlugin) -> &[u8] {
        if plugin == AuthPlugin::Ed25519 { &self.nonce } else { &self.nonce[..NONCE_SIZE] }
    }

    /// Appends the payload of the greeting.
    pub fn put_greeting(&mut self, version: &str, id: u64, out: &mut Vec<u8>) {
        self.is_mariadb = version.contains("MariaDB");
        // Replicas of old took a version of two digits for one; clients know the prefix and leave it out.
        let prefix = if self.is_mariadb { "5.5.5-" } else { "" };
        let greeting = Greeting {
            version: format!("{prefix}{version}").into_bytes().into(),
            thread_id: id as u32,
            nonce: self.nonce(PLUGIN_DEFAULT).to_vec(),
            capabilities: self.offered(),
            extensions: if self.is_mariadb { EXTENSIONS } else { 0 },
            collation: COLLATION,
            status: status::AUTOCOMMIT,
            plugin: PLUGIN_DEFAULT.name().as_bytes().into(),
        };
        greeting.put(out);
    }

    /// Reads the client's response to the greeting, which came through TLS or not.
    ///
    /// # Errors
    /// A packet that is no response.
    pub fn respond(&mut self, packet: &[u8], has_tls: bool) -> Result<Step, Malformed> {
        let response = Response::read(packet)?;
        let wants_tls = response.capabilities & capability::SSL != 0;
        if wants_tls && !has_tls {
            if !self.offers_tls || !response.user.is_empty() {
                return Err(Malformed("a request for TLS, which was not offered"));
            }
            return Ok(Step::Tls);
        }
        self.capabilities = response.capabilities & self.offered();
        self.extensions = if self.is_mariadb { response.extensions & EXTENSIONS } else { 0 };
        self.collation = response.collation;
        self.user = response.user;
        self.schema = response.schema;
        self.attributes = response.attributes;
        self.proof = response.proof;
        self.zstd_level = response.zstd_level;
        // Who names no plugin takes the greeting's word for it.
        let named = self.capabilities & capability::PLUGIN_AUTH != 0 && !response.plugin.is_empty();
        let plugin = if named { AuthPlugin::from_name(&response.plugin) } else { Some(PLUGIN_DEFAULT) };
        self.choose(plugin);
        Ok(Step::Check)
    }

    /// Reads COM_CHANGE_USER, all but its first byte.
    ///
    /// ```text
    /// user 0 | size u8, proof | schema 0 | collation u16 | plugin 0 | attributes
    /// ```
    ///
    /// # Errors
    /// A packet that ends too early.
    pub fn change_user(&mut self, packet: &[u8]) -> Result<Step, Malformed> {
        let mut reader = Reader(packet);
        self.user = reader.until_zero().to_vec();
        let size = usize::from(reader.u8()?);
        self.proof = reader.bytes(size)?.to_vec();
        self.schema = reader.until_zero().to_vec();
        self.attributes.clear();
        let mut plugin = Some(PLUGIN_DEFAULT);
        if !reader.is_empty() {
            self.collation = reader.u16()? as u8;
            let name = reader.until_zero();
            if !name.is_empty() {
                plugin = AuthPlugin::from_name(name);
            }
        }
        self.choose(plugin);
        Ok(Step::Check)
    }

    fn choose(&mut self, plugin: Option<AuthPlugin>) {
        let known = plugin.filter(|plugin| matches!(plugin, AuthPlugin::Native | AuthPlugin::CachingSha2));
        self.is_foreign = known.is_none();
        self.plugin = known.unwrap_or(PLUGIN_DEFAULT);
    }

    fn ask_for(&mut self, plugin: AuthPlugin, out: &mut Vec<u8>) {
        self.plugin = plugin;
        out.push(crate::answer::EOF);
        put_until_zero(out, plugin.name().as_bytes());
        out.extend_from_slice(self.nonce(plugin));
        if plugin != AuthPlugin::Ed25519 {
            out.push(0);
        }
    }

    /// Takes the proof that the client sends when it was asked for another plugin.
    pub fn prove(&mut self, packet: &[u8]) {
        self.proof = packet.to_vec();
    }

    /// Whether the client has sent a proof at all, as error messages tell.
    pub fn has_proof(&self) -> bool {
        !self.proof.is_empty()
    }

    /// Asks for another plugin where what is kept of the password cannot judge the proof that has come; appends the payload of
    /// that.
    pub fn asks_again(&mut self, secret: Option<&Secret>, out: &mut Vec<u8>) -> bool {
        let plugin = secret.and_then(Secret::plugin);
        if std::mem::take(&mut self.is_foreign) {
            self.ask_for(plugin.unwrap_or(PLUGIN_DEFAULT), out);
            return true;
        }
        match plugin.filter(|plugin| *plugin != self.plugin) {
            // A proof that there is no password is the same everywhere.
            Some(plugin) if self.has_proof() && self.proof != [0] => {
                self.ask_for(plugin, out);
                true
            }
            _ => false,
        }
    }

    /// Whether the client knows the password; `None` for a user who does not exist, which takes as long to find out.
    pub fn is_right(&self, secret: Option<&Secret>) -> bool {
        // MySQL's own clients of `caching_sha2_password` say that there is no password with a zero.
        let given: &[u8] = match (&*self.proof, self.plugin) {
            ([0], AuthPlugin::CachingSha2) => &[],
            (proof, _) => proof,
        };
        match secret {
            Some(Secret::None) => given.is_empty(),
            Some(Secret::Native(twice)) => {
                self.plugin == AuthPlugin::Native && auth::proves_native(given, twice, self.nonce(AuthPlugin::Native))
            }
            Some(Secret::CachingSha2(twice)) => {
                self.plugin == AuthPlugin::CachingSha2
                    && auth::proves_caching_sha2(given, twice, self.nonce(AuthPlugin::CachingSha2))
            }
            Some(Secret::Ed25519(public)) => {
                self.plugin == AuthPlugin::Ed25519
                    && auth::proves_ed25519(given, public, self.nonce(AuthPlugin::Ed25519))
            }
            Some(Secret::Password(password)) => self.is_made_of(given, password),
            Some(Secret::Salted(twice)) => {
                self.plugin == AuthPlugin::CachingSha2
                    && twice.is_some_and(|twice| {
                        auth::proves_caching_sha2(given, &twice, self.nonce(AuthPlugin::CachingSha2))
                    })
            }
            Some(Secret::Nobody(other)) => {
                std::hint::black_box(self.is_right(Some(other)));
                false
            }
            None => {
                let _ = self.is_made_of(given, b"no such user");
                false
            }
        }
    }

    fn is_made_of(&self, proof: &[u8], password: &[u8]) -> bool {
        let expected = match self.plugin {
            AuthPlugin::CachingSha2 => auth::caching_sha2(password, self.nonce(AuthPlugin::CachingSha2)),
            _ => auth::native(password, self.nonce(AuthPlugin::Native)),
        };
        auth::is_equal(&expected, proof)
    }

    /// Whether a client whose proof is not right may still be, which its password would tell.
    pub fn needs_password(&self, secret: Option<&Secret>) -> bool {
        match secret {
            Some(Secret::Salted(_)) => self.wants_fast_success(),
            Some(Secret::Nobody(other)) => self.needs_password(Some(other)),
            _ => false,
        }
    }

    /// The password that a client sends which was asked for it. Without the key it has come as it is, where nobody listens.
    pub(super) fn sent<'a>(&'a self, packet: &'a [u8], is_private: bool) -> Sent<'a> {
        if is_private && !self.knows_key {
            Sent::Plain(packet)
        } else {
            Sent::Encrypted { cipher: packet, nonce: self.nonce(AuthPlugin::CachingSha2) }
        }
    }

    /// What packets are compressed with from the end of the login on.
    pub fn compression(&self) -> Option<Algorithm> {
        Algorithm::agreed(self.capabilities, self.zstd_level)
    }

    /// Whether the client waits to be told that its proof was good enough before it is told that it is logged in.
    pub fn wants_fast_success(&self) -> bool {
        self.plugin == AuthPlugin::CachingSha2 && self.has_proof() && self.proof != [0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::{Digest, Sha1};

    fn password(password: &[u8]) -> Secret {
        Secret::Password(password.to_vec())
    }

    #[test]
    fn who_proves_in_another_way_is_asked_again() {
        let twice = |password: &[u8]| -> [u8; 20] { Sha1::digest(Sha1::digest(password)).into() };
        let mut login = Login::new(false).unwrap();
        let packet = response(&login, AuthPlugin::CachingSha2, b"secret");
        let mut out = Vec::new();
        assert_eq!(login.respond(&packet, false), Ok(Step::Check));
        let secret = Secret::Native(twice(b"secret"));
        assert!(!login.is_right(Some(&secret)) && login.asks_again(Some(&secret), &mut out));
        let (plugin, nonce) = crate::handshake::read_switch(&out).unwrap();
        assert_eq!((plugin, nonce), (&b"mysql_native_password"[..], &login.nonce[..NONCE_SIZE]));
        login.prove(&auth::native(b"secret", nonce));
        assert!(login.is_right(Some(&secret)) && !login.asks_again(Some(&secret), &mut out));
        assert!(!login.is_right(Some(&Secret::Native(twice(b"other")))));
        login.prove(b"");
        assert!(!login.is_right(Some(&secret)) && login.is_right(Some(&Secret::None)));
        assert!(!login.asks_again(Some(&Secret::CachingSha2([0; 32])), &mut out), "it has no password");
    }

    fn response(login: &Login, plugin: AuthPlugin, password: &[u8]) -> Vec<u8> {
        let proof = match plugin {
            AuthPlugin::CachingSha2 => auth::caching_sha2(password, login.nonce(plugin)),
            _ => auth::native(password, login.nonce(AuthPlugin::Native)),
        };
        let response = Response {
            capabilities: CAPABILITIES,
            extensions: 0,
            collation: 33,
            user: b"monty".to_vec(),
            proof,
            schema: b"world".to_vec(),
            plugin: plugin.name().into(),
            attributes: vec![(b"a".to_vec(), b"b".to_vec())],
            zstd_level: 3,
        };
        let mut out = Vec::new();
        response.put(&mut out);
        out
    }

    #[test]
    fn greets() {
        let mut login = Login::new(true).unwrap();
        let mut out = Vec::new();
        login.put_greeting("10.11.6-MariaDB", 7, &mut out);
        let greeting = Greeting::read(&out).unwrap();
        assert_eq!((&*greeting.version, greeting.thread_id), (&b"5.5.5-10.11.6-MariaDB"[..], 7));
        assert_eq!(greeting.nonce, login.nonce[..NONCE_SIZE]);
        assert_eq!(greeting.extensions, EXTENSIONS);
        assert!(greeting.capabilities & capability::SSL != 0);
        assert!(login.nonce.iter().all(|byte| *byte != 0 && *byte != b'$'));
    }

    #[test]
    fn proofs() {
        for plugin in [AuthPlugin::Native, AuthPlugin::CachingSha2] {
            let mut login = Login::new(false).unwrap();
            let packet = response(&login, plugin, b"secret");
            assert_eq!(login.respond(&packet, false), Ok(Step::Check));
            assert_eq!(login.compression(), Some(Algorithm::Zlib));
            login.capabilities &= !capability::COMPRESS;
            assert_eq!(login.compression(), Some(Algorithm::Zstd { level: 3 }));
            assert_eq!((&*login.user, &*login.schema, login.collation), (&b"monty"[..], &b"world"[..], 33));
            assert_eq!(login.wants_fast_success(), plugin == AuthPlugin::CachingSha2);
            assert!(login.is_right(Some(&password(b"secret"))) && login.has_proof());
            assert!(
                !login.is_right(Some(&password(b"Secret")))
                    && !login.is_right(Some(&password(b"")))
                    && !login.is_right(None)
            );
            let packet = response(&login, plugin, b"");
            assert_eq!(login.respond(&packet, false), Ok(Step::Check));
            assert!(login.is_right(Some(&password(b""))) && !login.has_proof() && !login.wants_fast_success());
            assert!(!login.is_right(Some(&password(b"secret"))) && !login.is_right(None));
        }
    }

    #[test]
    fn a_salted_digest_takes_the_password_unless_it_is_known_already() {
        use sha2::Sha256;
        let twice: [u8; 32] = Sha256::digest(Sha256::digest(b"secret")).into();
        let mut login = Login::new(false).unwrap();
        let packet = response(&login, AuthPlugin::CachingSha2, b"secret");
        assert_eq!(login.respond(&packet, false), Ok(Step::Check));
        let (unknown, known, other) =
            (Secret::Salted(None), Secret::Salted(Some(twice)), Secret::Salted(Some([0; 32])));
        for (secret, is_right) in [(unknown.clone(), false), (known.clone(), true), (other, false)] {
            assert_eq!(login.is_right(Some(&secret)), is_right);
            assert!(login.needs_password(Some(&secret)));
            let nobody = Secret::Nobody(Box::new(secret));
            assert!(!login.is_right(Some(&nobody)) && login.needs_password(Some(&nobody)));
        }
        assert!(!login.needs_password(Some(&Secret::CachingSha2(twice))) && !login.needs_password(None));
        let nonce = login.nonce(AuthPlugin::CachingSha2).to_vec();
        assert_eq!(login.sent(b"secret\0", true), Sent::Plain(b"secret\0"));
        assert_eq!(login.sent(b"x", false), Sent::Encrypted { cipher: b"x", nonce: &nonce });
        login.knows_key = true;
        assert_eq!(login.sent(b"x", true), Sent::Encrypted { cipher: b"x", nonce: &nonce });
        // Another plugin is asked again first, and nobody without a password is asked for it.
        let packet = response(&login, AuthPlugin::Native, b"secret");
        assert_eq!(login.respond(&packet, false), Ok(Step::Check));
        assert!(!login.needs_password(Some(&unknown)) && login.asks_again(Some(&unknown), &mut Vec::new()));
        for proof in [&b""[..], b"\0"] {
            login.prove(proof);
            assert!(!login.needs_password(Some(&known)) && !login.is_right(Some(&known)));
        }
    }

    #[test]
    fn who_does_not_exist_has_no_password_either() {
        let mut login = Login::new(false).unwrap();
        let packet = response(&login, AuthPlugin::Native, b"no such user");
        assert_eq!(login.respond(&packet, false), Ok(Step::Check));
        assert!(!login.is_right(None));
    }

    #[test]
    fn other_plugins_are_switched() {
        let mut login = Login::new(false).unwrap();
        let packet = response(&login, AuthPlugin::Ed25519, b"secret");
        let mut out = Vec::new();
        assert_eq!(login.respond(&packet, false), Ok(Step::Check));
        assert!(login.asks_again(None, &mut out));
        let (plugin, nonce) = crate::handshake::read_switch(&out).unwrap();
        assert_eq!((plugin, nonce), (&b"mysql_native_password"[..], &login.nonce[..NONCE_SIZE]));
        login.prove(&auth::native(b"secret", nonce));
        assert!(login.is_right(Some(&password(b"secret"))));
    }

    #[test]
    fn tls_is_begun_where_it_is_offered() {
        let request = Response { capabilities: CAPABILITIES | capability::SSL, ..Response::default() };
        let mut packet = Vec::new();
        request.put_tls_request(&mut packet);
        let mut login = Login::new(true).unwrap();
        assert_eq!(login.respond(&packet, false), Ok(Step::Tls));
        let mut login = Login::new(false).unwrap();
        assert!(login.respond(&packet, false).is_err());
    }

    #[test]
    fn users_change() {
        let mut login = Login::new(false).unwrap();
        assert!(login.change_user(b"app\0\x14short").is_err());
        let packet = [
            b"app\0\x14",
            &auth::native(b"x", login.nonce(AuthPlugin::Native))[..],
            b"shop\0\x2d\0mysql_native_password\0",
        ]
        .concat();
        assert_eq!(login.change_user(&packet), Ok(Step::Check));
        assert_eq!((&*login.user, &*login.schema), (&b"app"[..], &b"shop"[..]));
        assert!(login.is_right(Some(&password(b"x"))));
        assert_eq!(login.change_user(b"app\0\0\0\x2d\0client_ed25519\0"), Ok(Step::Check));
        let mut out = Vec::new();
        let secret = Secret::Ed25519(auth::ed25519_public(b"x"));
        assert!(login.asks_again(Some(&secret), &mut out));
        let (plugin, nonce) = crate::handshake::read_switch(&out).unwrap();
        assert_eq!((plugin, nonce), (&b"client_ed25519"[..], &login.nonce[..]));
        let (right, wrong) = (auth::ed25519(b"x", nonce), auth::ed25519(b"y", nonce));
        for (proof, proves) in
            [(right.clone(), true), (wrong, false), (right[..63].to_vec(), false), (Vec::new(), false)]
        {
            login.prove(&proof);
            assert_eq!(login.is_right(Some(&secret)), proves);
        }
    }
}
