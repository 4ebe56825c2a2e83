//! The protocol's elementary values: reading them from a packet and appending them to one.
//!
//! Integers are little-endian. A length-encoded integer ("lenenc") takes 1, 3, 4 or 9 bytes:
//!
//! ```text
//! 0x00..=0xfa   the value itself
//! 0xfb          NULL, in text rows only
//! 0xfc          u16 follows
//! 0xfd          u24 follows
//! 0xfe          u64 follows
//! ```
//!
//! Source: MySQL internals, "Basic Data Types".

/// A packet ended before its content did, or held a value that the protocol does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(pub &'static str);

/// The byte that stands for NULL in a text row.
pub const NULL: u8 = 0xfb;

/// Reads values from the front of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// Fewer are left. So for all methods here.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Malformed("it ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Malformed("it ends too early"))?;
        self.0 = tail;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer.
    #[inline]
    pub fn lenenc(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            value @ 0..=0xfa => Ok(u64::from(value)),
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => {
                let [a, b, c] = self.array()?;
                Ok(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            0xfe => self.u64(),
            _ => Err(Malformed("bad length")),
        }
    }

    /// Bytes behind their length-encoded length.
    #[inline]
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.lenenc()?).map_err(|_| Malformed("bad length"))?;
        self.bytes(len)
    }

    /// Bytes up to the next zero, which is skipped. Without a zero, everything that is left: some servers forget it at
    /// the end of a packet.
    pub fn until_zero(&mut self) -> &'a [u8] {
        match memchr::memchr(0, self.0) {
            Some(at) => {
                let text = &self.0[..at];
                self.0 = &self.0[at + 1..];
                text
            }
            None => std::mem::take(&mut self.0),
        }
    }
}

/// Appends a length-encoded integer.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0xfb => out.push(value as u8),
        0xfb..0x1_0000 => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..0x100_0000 => {
            out.push(0xfd);
            out.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends bytes behind their length-encoded length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends bytes and a zero. Bytes behind a zero within them would be read as the next field and are cut off.
pub fn put_until_zero(out: &mut Vec<u8>, bytes: &[u8]) {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    out.extend_from_slice(&bytes[..end]);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenenc_both_ways() {
        for value in [0, 1, 250, 251, 252, 255, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            let mut reader = Reader(&out);
            assert_eq!(reader.lenenc(), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..out.len() {
                assert!(Reader(&out[..cut]).lenenc().is_err());
            }
        }
        assert!(Reader(b"\xfb").lenenc().is_err());
        assert!(Reader(b"\xff").lenenc().is_err());
    }

    #[test]
    fn bytes_and_texts() {
        let mut out = Vec::new();
        put_lenenc_bytes(&mut out, b"abc");
        put_until_zero(&mut out, b"de\0f");
        out.extend_from_slice(b"gh");
        let mut reader = Reader(&out);
        assert_eq!(reader.lenenc_bytes(), Ok(&b"abc"[..]));
        assert_eq!(reader.until_zero(), b"de");
        assert_eq!(reader.until_zero(), b"gh");
        assert_eq!(reader.u8(), Err(Malformed("it ends too early")));
        assert!(Reader(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff").lenenc_bytes().is_err());
    }
}
