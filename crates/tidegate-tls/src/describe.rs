//! What a certificate says, as nginx's `$ssl_client_*` show it.
//!
//! Source: RFC 2253; OpenSSL, `X509_NAME_print_ex` with `XN_FLAG_RFC2253`, `X509_NAME_oneline`, `ASN1_TIME_print`.

use std::fmt::Write as _;

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::x509::{Parts, elements};

/// Types of attributes with the names that OpenSSL has for them.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (b"\x55\x04\x03", "CN"),
    (b"\x55\x04\x04", "SN"),
    (b"\x55\x04\x05", "serialNumber"),
    (b"\x55\x04\x06", "C"),
    (b"\x55\x04\x07", "L"),
    (b"\x55\x04\x08", "ST"),
    (b"\x55\x04\x09", "street"),
    (b"\x55\x04\x0a", "O"),
    (b"\x55\x04\x0b", "OU"),
    (b"\x55\x04\x0c", "title"),
    (b"\x55\x04\x0d", "description"),
    (b"\x55\x04\x0f", "businessCategory"),
    (b"\x55\x04\x11", "postalCode"),
    (b"\x55\x04\x29", "name"),
    (b"\x55\x04\x2a", "GN"),
    (b"\x55\x04\x2b", "initials"),
    (b"\x55\x04\x2c", "generationQualifier"),
    (b"\x55\x04\x2e", "dnQualifier"),
    (b"\x55\x04\x41", "pseudonym"),
    (b"\x55\x04\x61", "organizationIdentifier"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01", "UID"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", "DC"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", "emailAddress"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x02", "unstructuredName"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x01", "jurisdictionL"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x02", "jurisdictionST"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x03", "jurisdictionC"),
];

const UTF8_STRING: u8 = 0x0c;
const T61_STRING: u8 = 0x14;
const UNIVERSAL_STRING: u8 = 0x1c;
const BMP_STRING: u8 = 0x1e;
/// Types of one byte for each character: numeric, printable, IA5, visible.
const ASCII_STRINGS: [u8; 4] = [0x12, 0x13, 0x16, 0x1a];

/// A certificate whose parts are to be shown.
#[derive(Debug)]
pub struct Description<'a> {
    certificate: &'a [u8],
    parts: Parts<'a>,
}

/// One attribute of a name: type, tag of the value, value.
type Attribute<'a> = (&'a [u8], u8, &'a [u8]);

/// The attributes of a name, those that stand together in one list.
fn attributes(name: &[u8]) -> Vec<Vec<Attribute<'_>>> {
    let sets = elements(name).next().map_or(&[][..], |(_, content)| content);
    let attribute = |(_, attribute)| {
        let mut parts = elements(attribute);
        let (kind, value) = (parts.next()?, parts.next()?);
        Some((kind.1, value.0, value.1))
    };
    elements(sets).map(|(_, set)| elements(set).filter_map(attribute).collect()).collect()
}

/// The characters of a value as UTF-8; `None` for a type that has none.
pub(crate) fn utf8(tag: u8, value: &[u8]) -> Option<Vec<u8>> {
    let chars = |codes: &mut dyn Iterator<Item = u32>| {
        Some(codes.map(|code| char::from_u32(code).unwrap_or('\u{fffd}')).collect::<String>().into_bytes())
    };
    match tag {
        UTF8_STRING => Some(value.to_vec()),
        BMP_STRING => chars(&mut value.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))),
        UNIVERSAL_STRING => {
            chars(&mut value.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]])))
        }
        // Latin-1, in practice.
        T61_STRING => chars(&mut value.iter().map(|byte| u32::from(*byte))),
        tag if ASCII_STRINGS.contains(&tag) => chars(&mut value.iter().map(|byte| u32::from(*byte))),
        _ => None,
    }
}

/// Appends a type: OpenSSL's name, or its numbers.
fn write_kind(kind: &[u8], out: &mut String) {
    if let Some((_, name)) = ATTRIBUTES.iter().find(|(known, _)| *known == kind) {
        return out.push_str(name);
    }
    let mut number = 0u64;
    let mut is_first = true;
    for byte in kind {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let root = (number / 40).min(2);
            let _ = write!(out, "{root}.{}", number - root * 40);
        } else {
            let _ = write!(out, ".{number}");
        }
        (number, is_first) = (0, false);
    }
}

/// A name as RFC 2253 has it, the last attribute first, also of those that stand together.
fn rfc2253(name: &[u8]) -> String {
    let mut out = String::new();
    for set in attributes(name).iter().rev() {
        if !out.is_empty() {
            out.push(',');
        }
        for (index, (kind, tag, value)) in set.iter().rev().enumerate() {
            if index > 0 {
                out.push('+');
            }
            write_kind(kind, &mut out);
            out.push('=');
            let is_known = ATTRIBUTES.iter().any(|(known, _)| known == kind);
            match utf8(*tag, value).filter(|_| is_known) {
                Some(text) => write_escaped(&text, &mut out),
                None => write_dump(*tag, value, &mut out),
            }
        }
    }
    out
}

/// A value as the bytes of its encoding.
fn write_dump(tag: u8, value: &[u8], out: &mut String) {
    let _ = write!(out, "#{tag:02X}");
    match value.len() {
        len @ 0..=0x7f => out.push_str(&format!("{len:02X}")),
        len @ 0x80..=0xff => out.push_str(&format!("81{len:02X}")),
        len => out.push_str(&format!("82{len:04X}")),
    }
    for byte in value {
        let _ = write!(out, "{byte:02X}");
    }
}

fn write_escaped(text: &[u8], out: &mut String) {
    for (index, byte) in text.iter().enumerate() {
        let is_edge = (index == 0 && b" #".contains(byte)) || (index + 1 == text.len() && *byte == b' ');
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            _ if is_edge => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            0x20..=0x7e => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\{other:02X}")),
        }
    }
}

/// A name as OpenSSL wrote it long ago: `/C=…/CN=…`, with `+` between attributes that stand together. Both are escaped in values,
/// so that nobody's value reads as one more attribute.
fn one_line(name: &[u8]) -> String {
    let mut out = String::new();
    let sets = attributes(name);
    let all = sets.iter().flat_map(|set| set.iter().enumerate());
    for (index, (kind, _, value)) in all {
        out.push(if index == 0 { '/' } else { '+' });
        write_kind(kind, &mut out);
        out.push('=');
        for byte in *value {
            match byte {
                b'/' | b'+' => {
                    out.push('\\');
                    out.push(char::from(*byte));
                }
                0x20..=0x7e => out.push(char::from(*byte)),
                other => out.push_str(&format!("\\x{other:02X}")),
            }
        }
    }
    out
}

/// A time as `Nov 23 07:58:12 2026 GMT`.
fn date(seconds: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    // Years begin with March here, so that the day of a leap year is the last one; 400 of them have the same days.
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 2 } else { shifted - 10 };
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT", MONTHS[month as usize])
}

impl<'a> Description<'a> {
    /// Looks at a certificate; `None` if it is none.
    pub fn of(certificate: &'a [u8]) -> Option<Self> {
        Some(Self { certificate, parts: Parts::of(certificate)? })
    }
    /// Whom it is for, as RFC 2253 has it.
    pub fn subject(&self) -> String {
        rfc2253(self.parts.subject)
    }
    /// Whom it is from, as RFC 2253 has it.
    pub fn issuer(&self) -> String {
        rfc2253(self.parts.issuer)
    }
    /// Whom it is for, in OpenSSL's old form.
    pub fn subject_legacy(&self) -> String {
        one_line(self.parts.subject)
    }
    /// Whom it is from, in OpenSSL's old form.
    pub fn issuer_legacy(&self) -> String {
        one_line(self.parts.issuer)
    }
    /// The serial number in hexadecimal digits.
    pub fn serial(&self) -> String {
        // A zero ahead keeps the number positive.
        let number = match self.parts.serial {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        number.iter().map(|byte| format!("{byte:02X}")).collect()
    }
    /// SHA-1 over the certificate, in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, self.certificate);
        sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
    /// When its time begins and ends.
    pub fn dates(&self) -> Option<(String, String)> {
        let (from, to) = self.parts.times()?;
        Some((date(from), date(to)))
    }
    /// Whole days from `now`, in seconds since 1970, to its end; 0 when that has passed.
    pub fn days_left(&self, now: i64) -> Option<i64> {
        let (_, to) = self.parts.times()?;
        Some((to - now).max(0) / 86_400)
    }
}

/// A certificate in PEM.
pub fn pem(certificate: &[u8]) -> String {
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    let text = STANDARD.encode(certificate);
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // As nginx 1.22 with OpenSSL 3.0 shows them.
    #[test]
    fn a_certificate_is_described_as_by_nginx() {
        let text = "MIIBTDCB8wIUTB3YP0LTrE9fQfxQHUOSu6q12bgwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EwHhcNMjYxMTIzMDc1ODEyWhcNMjYxMjIzMDc1ODEy\
            WjBFMQswCQYDVQQGEwJERTEUMBIGA1UECgwLw4R0ZXN0LCBJbmMxCjAIBgNVBAsMAWExFDASBgkqhkiG9w0BCQEWBXhAeS56MFkwEwYHKoZIzj0CAQYI\
            KoZIzj0DAQcDQgAEtHxfqqrwJ07kpMfAsAkB1YxMQezt7xxvD5DTgKJnh+/MR24JiCgIKaeyAB7h6Fx92EFU5+pijBuEpwJt/aTP2jAKBggqhkjOPQQD\
            AgNIADBFAiEA6PDAtPVvXkw5Z3BUBNQZ7Zy6CAMfrfZe8jVaC4rtYNsCIDGzIMTxTtLkJIJl97tvGFZkHs+NxyBDUsHWKONRBD6O";
        let der = STANDARD.decode(text).expect("base64");
        let shown = Description::of(&der).expect("a certificate");
        assert_eq!(shown.subject(), "emailAddress=x@y.z,OU=a,O=\\C3\\84test\\, Inc,C=DE");
        assert_eq!(shown.subject_legacy(), "/C=DE/O=\\xC3\\x84test, Inc/OU=a/emailAddress=x@y.z");
        assert_eq!((shown.issuer().as_str(), shown.issuer_legacy().as_str()), ("CN=ca", "/CN=ca"));
        assert_eq!(shown.serial(), "4C1DD83F42D3AC4F5F41FC501D4392BBAAB5D9B8");
        assert_eq!(shown.fingerprint(), "2f11f69a4fbf618bb15b410915767dea30771e54");
        let dates = ("Nov 23 07:58:12 2026 GMT".to_owned(), "Dec 23 07:58:12 2026 GMT".to_owned());
        assert_eq!(shown.dates(), Some(dates));
        assert_eq!(shown.days_left(1_795_420_693), Some(29));
        assert_eq!(shown.days_left(1_900_000_000), Some(0));
        assert!(pem(&der).lines().nth(1).is_some_and(|line| line.len() == 64));
        for cut in 0..der.len() {
            assert!(Description::of(&der[..cut]).is_none());
        }
    }

    #[test]
    fn dates_of_every_kind() {
        for (seconds, expected) in [
            (0, "Jan  1 00:00:00 1970 GMT"),
            (951_825_600, "Feb 29 12:00:00 2000 GMT"),
            (-631_152_000, "Jan  1 00:00:00 1950 GMT"),
            (2_529_705_600, "Mar  1 00:00:00 2050 GMT"),
            (253_402_300_799, "Dec 31 23:59:59 9999 GMT"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    #[test]
    fn attributes_that_nobody_knows() {
        let mut out = String::new();
        write_kind(b"\x2b\x06\x01\x04\x01\x82\x37", &mut out);
        assert_eq!(out, "1.3.6.1.4.1.311");
        // SEQUENCE { SET { SEQUENCE { OBJECT 2.5.4.200, UTF8String "x" } } }
        assert_eq!(rfc2253(b"\x30\x0d\x31\x0b\x30\x09\x06\x04\x55\x04\x81\x48\x0c\x01x"), "2.5.4.200=#0C0178");
        // SET { CN = "a/b+c", UID = "u/v+w" }
        let together = b"\x30\x25\x31\x23\x30\x0c\x06\x03\x55\x04\x03\x0c\x05a/b+c\x30\x13\x06\x0a\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01\x0c\x05u/v+w";
        assert_eq!(one_line(together), "/CN=a\\/b\\+c+UID=u\\/v\\+w");
        assert_eq!(rfc2253(together), "UID=u/v\\+w+CN=a/b\\+c");
        let mut out = String::new();
        write_kind(b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x03", &mut out);
        assert_eq!(out, "jurisdictionC");
        let mut out = String::new();
        write_escaped(b" #a\n<b> ", &mut out);
        assert_eq!(out, "\\ #a\\0A\\<b\\>\\ ");
    }
}
