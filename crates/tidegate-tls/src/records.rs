//! Records of TLS 1.3, whose keys are ready for use only while they are used.
//!
//! What AES-GCM makes of a key ahead of its first use has 584 bytes, and a connection has two keys: a seventh of what one needs that waits for its
//! next request. Here a connection has the keys themselves. A thread keeps what was made of those that it has used last, and makes it again for the
//! others, which takes a third of a microsecond. Keys that are never used, as that of early data in most handshakes, are not made ready at all.
//!
//! Source: RFC 8446, section 5.2, 5.3.

use std::{
    cell::RefCell,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering},
};

use aws_lc_rs::{
    aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    error::Unspecified,
};
use lru::LruCache;
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, Tls13CipherSuite,
    crypto::cipher::{
        AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
        Nonce as RecordNonce, OutboundChunks, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
        Tls13AeadAlgorithm, UnsupportedOperationError, make_tls13_aad,
    },
};

/// How much of a message is copied at a time.
///
/// Copies of more than 4 KB the C library leaves to one instruction (`rep movsb`), which processors of AMD run at a twentieth of their speed where the
/// copy lies up to 31 bytes behind its source within a page of memory. A record does: its head has five bytes, and files are read to where a page begins.
const PIECE_BYTES: usize = 2048;

/// Keys that a thread keeps ready: those of half as many busy connections.
const READY_MAX: usize = 512;

thread_local! {
    /// Keys that are ready, by the numbers of their directions.
    static READY: RefCell<LruCache<u64, LessSafeKey>> =
        RefCell::new(LruCache::new(const { NonZeroUsize::new(READY_MAX).expect("not zero") }));
}

/// How records of a suite are made and read.
pub(crate) struct Records {
    algorithm: &'static Algorithm,
    suite: &'static Tls13CipherSuite,
}

impl Records {
    /// Those of `suite`; `None` for one that is not known here.
    pub(crate) fn of(suite: &'static Tls13CipherSuite) -> Option<Self> {
        let algorithm = match suite.common.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128_GCM,
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256_GCM,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &CHACHA20_POLY1305,
            _ => return None,
        };
        Some(Self { algorithm, suite })
    }
}

impl Tls13AeadAlgorithm for Records {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Direction::new(self.algorithm, key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Direction::new(self.algorithm, key, iv))
    }

    fn key_len(&self) -> usize {
        self.algorithm.key_len()
    }

    fn extract_keys(&self, key: AeadKey, iv: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.suite.aead_alg.extract_keys(key, iv)
    }
}

/// One direction of a connection, for as long as it has one key.
struct Direction {
    /// No other has it.
    number: u64,
    algorithm: &'static Algorithm,
    key: AeadKey,
    iv: Iv,
}

impl Direction {
    fn new(algorithm: &'static Algorithm, key: AeadKey, iv: Iv) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), algorithm, key, iv }
    }

    /// Calls `work` with the key, made ready.
    fn with_key<T>(&self, mut work: impl FnMut(&LessSafeKey) -> Result<T, Unspecified>) -> Result<T, Unspecified> {
        let make = || UnboundKey::new(self.algorithm, self.key.as_ref()).map(LessSafeKey::new);
        let done = READY.try_with(|ready| work(ready.borrow_mut().try_get_or_insert(self.number, make)?));
        // A thread that ends has no place for keys, though connections that end with it may have something to say.
        done.unwrap_or_else(|_| work(&make()?))
    }

    /// The nonce of a record: its number makes it the only one of the key.
    fn nonce(&self, seq: u64) -> Nonce {
        Nonce::assume_unique_for_key(RecordNonce::new(&self.iv, seq).0)
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        // A key that another thread has made ready, or one that ends, goes with the others there.
        let _ = READY.try_with(|ready| ready.borrow_mut().pop(&self.number));
    }
}

/// Appends what a message says.
fn append(record: &mut PrefixedPayload, payload: OutboundChunks<'_>) {
    let mut rest = payload;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(PIECE_BYTES);
        record.extend_from_chunks(&piece);
        rest = more;
    }
}

impl MessageEncrypter for Direction {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, seq: u64) -> Result<OutboundOpaqueMessage, Error> {
        let len = self.encrypted_payload_len(message.payload.len());
        let mut record = PrefixedPayload::with_capacity(len);
        append(&mut record, message.payload);
        record.extend_from_slice(&message.typ.to_array());
        self.with_key(|key| key.seal_in_place_append_tag(self.nonce(seq), Aad::from(make_tls13_aad(len)), &mut record))
            .map_err(|_| Error::EncryptError)?;
        // All records of TLS 1.3 say that they are application data of TLS 1.2.
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, record))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len + 1 + self.algorithm.tag_len()
    }
}

impl MessageDecrypter for Direction {
    fn decrypt<'m>(
        &mut self,
        mut message: InboundOpaqueMessage<'m>,
        seq: u64,
    ) -> Result<InboundPlainMessage<'m>, Error> {
        let record = &mut message.payload;
        let opened = self.with_key(|key| {
            let aad = Aad::from(make_tls13_aad(record.len()));
            key.open_in_place(self.nonce(seq), aad, record).map(|plain| plain.len())
        });
        let len = opened.map_err(|_| Error::DecryptError)?;
        message.payload.truncate(len);
        message.into_tls13_unpadded_message()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{SupportedCipherSuite, crypto::aws_lc_rs};

    use super::*;

    /// So many connections as have no place for all of their keys.
    const CONNECTIONS: usize = 2 * READY_MAX;

    /// The suites whose keys have 32 bytes: the library makes no others out of what a test gives.
    fn suites() -> impl Iterator<Item = (&'static Tls13CipherSuite, Records)> {
        let tls13 = aws_lc_rs::ALL_CIPHER_SUITES.iter().filter_map(SupportedCipherSuite::tls13);
        tls13
            .map(|suite| (suite, Records::of(suite).expect("a suite that is known")))
            .filter(|(_, records)| records.key_len() == 32)
    }

    fn key(number: usize) -> (AeadKey, Iv) {
        (AeadKey::from([number as u8; 32]), Iv::new([(number >> 8) as u8; 12]))
    }

    fn send(encrypter: &mut dyn MessageEncrypter, text: &[u8], seq: u64) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_2,
            payload: text.into(),
        };
        assert_eq!(encrypter.encrypted_payload_len(text.len()), text.len() + 17);
        encrypter.encrypt(message, seq).expect("encrypted").payload.as_ref().to_vec()
    }

    fn receive(decrypter: &mut dyn MessageDecrypter, mut record: Vec<u8>, seq: u64) -> Result<Vec<u8>, Error> {
        let message = InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, &mut record);
        let plain = decrypter.decrypt(message, seq)?;
        assert_eq!(plain.typ, ContentType::ApplicationData);
        Ok(plain.payload.to_vec())
    }

    #[test]
    fn records_are_those_of_the_provider_however_many_connections_there_are() {
        for (suite, records) in suites() {
            let ways = |aead: &dyn Tls13AeadAlgorithm| -> Vec<_> {
                let new = |number| {
                    let [(first, iv), (second, other)] = [key(number), key(number + 7)];
                    (aead.encrypter(first, iv), aead.decrypter(second, other))
                };
                (0..CONNECTIONS).map(new).collect()
            };
            let (mut ours, mut theirs) = (ways(&records), ways(suite.aead_alg));
            for seq in 0..3 {
                for number in 0..CONNECTIONS {
                    let text = format!("{number} {seq}").into_bytes();
                    let record = send(&mut *ours[number].0, &text, seq);
                    assert_eq!(record, send(&mut *theirs[number].0, &text, seq));
                    // What a connection sends is read by the one whose other key it is.
                    if number >= 7 {
                        assert_eq!(receive(&mut *ours[number - 7].1, record.clone(), seq).as_ref(), Ok(&text));
                        assert!(receive(&mut *ours[number - 7].1, record, seq + 1).is_err(), "another place");
                    }
                }
                assert!(READY.with_borrow(LruCache::len) <= READY_MAX);
            }
            drop(ours);
            assert_eq!(READY.with_borrow(LruCache::len), 0, "nothing stays of connections that are over");
        }
    }

    #[test]
    fn long_messages_are_copied_whole_in_pieces() {
        let text: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| at as u8).collect();
        for (suite, records) in suites() {
            for length in [70, PIECE_BYTES - 1, PIECE_BYTES, text.len()] {
                let chunks: Vec<&[u8]> = text.chunks(length).collect();
                let payload = || OutboundChunks::new(&chunks).split_at(3).1;
                let seal = |aead: &dyn Tls13AeadAlgorithm| {
                    let (key, iv) = key(1);
                    let message = OutboundPlainMessage {
                        typ: ContentType::ApplicationData,
                        version: ProtocolVersion::TLSv1_2,
                        payload: payload(),
                    };
                    aead.encrypter(key, iv).encrypt(message, 0).expect("encrypted").payload.as_ref().to_vec()
                };
                assert_eq!(seal(&records), seal(suite.aead_alg), "{length}");
            }
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for (_, records) in suites() {
            let ((sending, iv), (receiving, same)) = (key(1), key(1));
            let (mut encrypter, mut decrypter) = (records.encrypter(sending, iv), records.decrypter(receiving, same));
            let record = send(&mut *encrypter, b"text", 0);
            for cut in 0..record.len() {
                assert!(receive(&mut *decrypter, record[..cut].to_vec(), 0).is_err(), "{cut}");
            }
            for at in 0..record.len() {
                let mut broken = record.clone();
                broken[at] ^= 1;
                assert!(receive(&mut *decrypter, broken, 0).is_err(), "{at}");
            }
            assert_eq!(receive(&mut *decrypter, record, 0).expect("a record"), b"text");
        }
    }
}
