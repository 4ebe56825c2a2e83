//! Keys that are encrypted in the old way of OpenSSL, whose headers stand in the PEM text (`openssl rsa -aes256 -traditional`).
//!
//! One round of MD5 makes the cipher's key of the password, so that guessing costs little. New files are better made with
//! `openssl pkcs8 -topk8`; nginx reads these as well.
//!
//! ```text
//! -----BEGIN RSA PRIVATE KEY-----      or EC
//! Proc-Type: 4,ENCRYPTED
//! DEK-Info: AES-256-CBC,9C1B…          the cipher and its first block in hexadecimal digits, of which the first 8 bytes are the salt
//!
//! SuO4…
//! -----END RSA PRIVATE KEY-----
//! ```
//!
//! Source: RFC 1421, section 4.6; OpenSSL, `EVP_BytesToKey(3)` and the section "PEM ENCRYPTION FORMAT" of `PEM_read_bio_PrivateKey(3)`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit, block_padding::Pkcs7};
use md5::{Digest as _, Md5};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivateSec1KeyDer, pem};

use crate::{pem::PemError, x509};

/// Bytes of a salt.
const SALT_BYTES: usize = 8;

/// What is encrypted.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Rsa,
    Ec,
}

#[derive(Debug, Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    DesEde3,
}

/// An encrypted key.
#[derive(Debug)]
pub(crate) struct Sealed {
    kind: Kind,
    cipher: Cipher,
    /// The block before the first one.
    first: Vec<u8>,
    content: Vec<u8>,
}

/// The key of a text that is encrypted in this way, if there is one.
pub(crate) fn find(text: &[u8]) -> Option<Result<Sealed, PemError>> {
    [(Kind::Rsa, "RSA"), (Kind::Ec, "EC")].into_iter().find_map(|(kind, label)| {
        let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} {label} PRIVATE KEY-----"));
        let inside = &text[memchr::memmem::find(text, begin.as_bytes())? + begin.len()..];
        let len = memchr::memmem::find(inside, end.as_bytes());
        let lines: Vec<&[u8]> =
            inside[..len.unwrap_or(inside.len())].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
        let field = |name: &[u8]| lines.iter().find_map(|line| Some(line.strip_prefix(name)?.trim_ascii()));
        if field(b"Proc-Type:")? != b"4,ENCRYPTED" {
            return None;
        }
        if len.is_none() {
            return Some(Err(PemError::Syntax(pem::Error::MissingSectionEnd { end_marker: end.into_bytes() })));
        }
        let info = field(b"DEK-Info:").unwrap_or_default();
        let Some((cipher, first)) = cipher(info) else {
            return Some(Err(PemError::Cipher(info.escape_ascii().to_string())));
        };
        // No digit of the content is a colon, which each header has.
        let digits: Vec<u8> =
            lines.iter().filter(|line| !line.contains(&b':')).flat_map(|line| line.to_vec()).collect();
        let content = STANDARD.decode(digits).map_err(|error| pem::Error::Base64Decode(error.to_string()));
        Some(content.map(|content| Sealed { kind, cipher, first, content }).map_err(PemError::Syntax))
    })
}

/// What `DEK-Info` says.
fn cipher(info: &[u8]) -> Option<(Cipher, Vec<u8>)> {
    let comma = memchr::memchr(b',', info)?;
    let (name, digits) = (&info[..comma], &info[comma + 1..]);
    let (cipher, block_bytes) = match name {
        b"AES-128-CBC" => (Cipher::Aes128, 16),
        b"AES-192-CBC" => (Cipher::Aes192, 16),
        b"AES-256-CBC" => (Cipher::Aes256, 16),
        b"DES-EDE3-CBC" => (Cipher::DesEde3, 8),
        _ => return None,
    };
    if digits.len() != 2 * block_bytes || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    Some((cipher, digits.chunks(2).map(byte).collect::<Option<_>>()?))
}

impl Sealed {
    /// The key, if this is the password.
    pub(crate) fn open(&self, password: &[u8]) -> Option<PrivateKeyDer<'static>> {
        let size = match self.cipher {
            Cipher::Aes128 => 16,
            Cipher::Aes192 | Cipher::DesEde3 => 24,
            Cipher::Aes256 => 32,
        };
        let key = derive(password, self.first.get(..SALT_BYTES)?, size);
        let mut content = self.content.clone();
        let opened = match self.cipher {
            Cipher::Aes128 => decrypt::<aes::Aes128Dec>(&key, &self.first, &mut content)?,
            Cipher::Aes192 => decrypt::<aes::Aes192Dec>(&key, &self.first, &mut content)?,
            Cipher::Aes256 => decrypt::<aes::Aes256Dec>(&key, &self.first, &mut content)?,
            Cipher::DesEde3 => decrypt::<des::TdesEde3>(&key, &self.first, &mut content)?,
        };
        // Of 256 wrong passwords one opens what seems to end well.
        let opened = opened.to_vec();
        is_key(&opened).then(|| match self.kind {
            Kind::Rsa => PrivatePkcs1KeyDer::from(opened).into(),
            Kind::Ec => PrivateSec1KeyDer::from(opened).into(),
        })
    }
}

fn decrypt<'a, C: BlockCipherDecrypt + KeyInit>(key: &[u8], first: &[u8], content: &'a mut [u8]) -> Option<&'a [u8]> {
    cbc::Decryptor::<C>::new_from_slices(key, first).ok()?.decrypt_padded::<Pkcs7>(content).ok()
}

/// A cipher's key: `EVP_BytesToKey` with MD5 and one round.
fn derive(password: &[u8], salt: &[u8], size: usize) -> Vec<u8> {
    let (mut key, mut block) = (Vec::new(), Vec::new());
    while key.len() < size {
        block = Md5::new().chain_update(&block).chain_update(password).chain_update(salt).finalize().to_vec();
        key.extend_from_slice(&block);
    }
    key.truncate(size);
    key
}

/// Both forms are a sequence, and nothing else, that begins with the number of their version.
fn is_key(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let is_whole = x509::next(der).is_some_and(|(_, rest)| rest.is_empty());
    let inside = x509::elements(der).next().filter(|(tag, _)| *tag == SEQUENCE);
    is_whole && inside.is_some_and(|(_, fields)| x509::elements(fields).next().is_some_and(|(tag, _)| tag == INTEGER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pem::key;

    // `openssl ec -aes128 -passout pass:tide` and so on, and `openssl rsa -traditional -aes256 -passout pass:tide`.
    const EC: [&str; 4] = [
        include_str!("../tests/old_encryption/ec-aes128.key"),
        include_str!("../tests/old_encryption/ec-aes192.key"),
        include_str!("../tests/old_encryption/ec-aes256.key"),
        include_str!("../tests/old_encryption/ec-des3.key"),
    ];
    const RSA: &str = include_str!("../tests/old_encryption/rsa-aes256.key");
    const OTHER: &str = include_str!("../tests/old_encryption/ec-camellia256.key");

    fn words() -> Vec<Vec<u8>> {
        vec![b"wrong".to_vec(), b"tide".to_vec()]
    }

    #[test]
    fn passwords_open_keys_of_every_cipher() {
        let keys: Vec<_> = EC.iter().map(|text| key(text.as_bytes(), &words()).expect("it opens")).collect();
        // All four are the same key.
        assert!(matches!(keys[0], PrivateKeyDer::Sec1(_)));
        assert!(keys.iter().all(|key| key.secret_der() == keys[0].secret_der()));
        assert!(crate::provider().key_provider.load_private_key(keys[0].clone_key()).is_ok());
        assert!(matches!(key(RSA.as_bytes(), &words()), Ok(PrivateKeyDer::Pkcs1(_))));
        // Lines may end as in a file of Windows, and something may stand around.
        let text = format!("# a key\r\n{}\r\n", EC[0].replace('\n', "\r\n"));
        assert!(key(text.as_bytes(), &words()).is_ok());
    }

    #[test]
    fn what_does_not_open_is_told() {
        for text in EC.into_iter().chain([RSA]) {
            for wrong in [&[][..], &words()[..1]] {
                assert!(matches!(key(text.as_bytes(), wrong), Err(PemError::Encrypted)));
            }
        }
        let other = key(OTHER.as_bytes(), &words()).expect_err("nobody knows this cipher");
        assert!(other.to_string().contains("encrypted with \"CAMELLIA-256-CBC,"), "{other}");
        let text = EC[2];
        for cut in 0..text.len() - 1 {
            assert!(key(&text.as_bytes()[..cut], &words()).is_err(), "{cut}");
        }
        for (from, to) in
            [("DEK-Info: AES", "DEK-Info: \nAES"), ("CBC,", "CBC,zz"), ("CBC,", "CBC,00"), ("\n\n", "\n\n*")]
        {
            let broken = text.replacen(from, to, 1);
            assert_ne!(broken, text);
            assert!(key(broken.as_bytes(), &words()).is_err(), "{broken}");
        }
    }

    #[test]
    fn no_other_password_opens_a_key() {
        let Some(Ok(sealed)) = find(EC[0].as_bytes()) else { panic!("a key") };
        assert!((0..2000_u32).all(|n| sealed.open(&n.to_be_bytes()).is_none()));
    }
}
