//! Failed handshakes in OpenSSL's words, which people know and search logs for.
//!
//! Source: OpenSSL 3.0, `ssl/ssl_err.c`, by what `openssl errstr` prints.

use std::fmt;

use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

/// What stands ahead of a reason: OpenSSL's number of its TLS library, in the upper bits.
const LIBRARY: u32 = 20 << 23;

/// What OpenSSL adds to the number of an alert that it has received.
const ALERT_OFFSET: u16 = 1000;

/// Shows why there is no TLS connection: `error:0A0000C1:SSL routines::no shared cipher`, then what the TLS library says,
/// or the number of the alert.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a>(pub &'a Error);

/// Shows one of OpenSSL's reasons by its number and words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(u16, &'static str);

impl Reason {
    /// No version of TLS is left that could be spoken.
    pub const NO_PROTOCOLS: Self = Self(191, "no protocols available");
    /// A script has refused the handshake, or there is no certificate for the client's name.
    pub const CALLBACK_FAILED: Self = Self(234, "callback failed");
    /// The script that chooses the certificate has refused the handshake.
    pub const CERT_CB_ERROR: Self = Self(377, "cert cb error");
    /// The peer's certificate is not accepted.
    pub const CERTIFICATE: Self = Self(134, "certificate verify failed");
    const BAD_CHANGE_CIPHER_SPEC: Self = Self(103, "bad change cipher spec");
    const BAD_EXTENSION: Self = Self(110, "bad extension");
    const BAD_RECORD_MAC: Self = Self(281, "decryption failed or bad record mac");
    const BINDER: Self = Self(253, "binder does not verify");
    const EXCESSIVE_SIZE: Self = Self(152, "excessive message size");
    const LENGTH: Self = Self(159, "length mismatch");
    const MISSING_SIGALGS: Self = Self(112, "missing sigalgs extension");
    const NO_APPLICATION_PROTOCOL: Self = Self(235, "no application protocol");
    const NO_KEY_SHARE: Self = Self(101, "no suitable key share");
    /// There is no certificate, and so no suite that could be spoken.
    pub const NO_SHARED_CIPHER: Self = Self(193, "no shared cipher");
    const NO_SIGNATURE_ALGORITHM: Self = Self(118, "no suitable signature algorithm");
    const TOO_LONG: Self = Self(198, "packet length too long");
    const TOO_MUCH_EARLY_DATA: Self = Self(164, "too much early data");
    const TOO_MANY_ALERTS: Self = Self(409, "too many warn alerts");
    const UNEXPECTED_MESSAGE: Self = Self(244, "unexpected message");
    const UNSUPPORTED_PROTOCOL: Self = Self(258, "unsupported protocol");
    const WRONG_CIPHER: Self = Self(261, "wrong cipher returned");
    const WRONG_VERSION: Self = Self(267, "wrong version number");

    /// The nearest to a failure; nothing where OpenSSL has none of the kind.
    fn of(error: &Error) -> Option<Self> {
        Some(match error {
            Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
                Self::UNEXPECTED_MESSAGE
            }
            Error::InvalidMessage(message) => Self::of_message(message)?,
            Error::DecryptError => Self::BAD_RECORD_MAC,
            Error::PeerIncompatible(why) => Self::of_incompatible(why)?,
            Error::PeerMisbehaved(how) => Self::of_misbehaved(how)?,
            Error::AlertReceived(alert) => Self(ALERT_OFFSET + u16::from(u8::from(*alert)), alert_text(*alert)?),
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Self::CERTIFICATE,
            Error::PeerSentOversizedRecord => Self::TOO_LONG,
            Error::NoApplicationProtocol => Self::NO_APPLICATION_PROTOCOL,
            _ => return None,
        })
    }

    fn of_message(message: &InvalidMessage) -> Option<Self> {
        Some(match message {
            // What is no record at all, such as an answer in clear text.
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion => Self::WRONG_VERSION,
            InvalidMessage::MessageTooLarge => Self::TOO_LONG,
            InvalidMessage::CertificatePayloadTooLarge | InvalidMessage::HandshakePayloadTooLarge => {
                Self::EXCESSIVE_SIZE
            }
            InvalidMessage::InvalidCcs => Self::BAD_CHANGE_CIPHER_SPEC,
            InvalidMessage::MessageTooShort | InvalidMessage::MissingData(_) | InvalidMessage::TrailingData(_) => {
                Self::LENGTH
            }
            InvalidMessage::UnexpectedMessage(_) | InvalidMessage::InvalidKeyUpdate => Self::UNEXPECTED_MESSAGE,
            InvalidMessage::DuplicateExtension(_)
            | InvalidMessage::PreSharedKeyIsNotFinalExtension
            | InvalidMessage::UnknownHelloRetryRequestExtension
            | InvalidMessage::UnknownCertificateExtension => Self::BAD_EXTENSION,
            _ => return None,
        })
    }

    fn of_incompatible(why: &PeerIncompatible) -> Option<Self> {
        Some(match why {
            PeerIncompatible::NoCipherSuitesInCommon => Self::NO_SHARED_CIPHER,
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled => Self::UNSUPPORTED_PROTOCOL,
            PeerIncompatible::KeyShareExtensionRequired
            | PeerIncompatible::NamedGroupsExtensionRequired
            | PeerIncompatible::NoKxGroupsInCommon => Self::NO_KEY_SHARE,
            PeerIncompatible::SignatureAlgorithmsExtensionRequired => Self::MISSING_SIGALGS,
            PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
            | PeerIncompatible::NoSignatureSchemesInCommon => Self::NO_SIGNATURE_ALGORITHM,
            _ => return None,
        })
    }

    fn of_misbehaved(how: &PeerMisbehaved) -> Option<Self> {
        Some(match how {
            PeerMisbehaved::IncorrectBinder => Self::BINDER,
            PeerMisbehaved::MissingKeyShare | PeerMisbehaved::WrongGroupForKeyShare => Self::NO_KEY_SHARE,
            PeerMisbehaved::SelectedUnofferedCipherSuite
            | PeerMisbehaved::SelectedUnusableCipherSuiteForVersion
            | PeerMisbehaved::SelectedDifferentCipherSuiteAfterRetry => Self::WRONG_CIPHER,
            PeerMisbehaved::TooManyWarningAlertsReceived => Self::TOO_MANY_ALERTS,
            PeerMisbehaved::TooMuchEarlyDataReceived => Self::TOO_MUCH_EARLY_DATA,
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, text) = self;
        write!(f, "error:{:08X}:SSL routines::{text}", LIBRARY | u32::from(*number))
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Reason::of(self.0), self.0) {
            (Some(reason), Error::AlertReceived(alert)) => write!(f, "{reason}:SSL alert number {}", u8::from(*alert)),
            (Some(reason), error) => write!(f, "{reason}:{error}"),
            (None, error) => error.fmt(f),
        }
    }
}

/// What OpenSSL calls an alert of the peer.
fn alert_text(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::UnexpectedMessage => "sslv3 alert unexpected message",
        AlertDescription::BadRecordMac => "sslv3 alert bad record mac",
        AlertDescription::DecryptionFailed => "tlsv1 alert decryption failed",
        AlertDescription::RecordOverflow => "tlsv1 alert record overflow",
        AlertDescription::DecompressionFailure => "sslv3 alert decompression failure",
        AlertDescription::HandshakeFailure => "sslv3 alert handshake failure",
        AlertDescription::BadCertificate => "sslv3 alert bad certificate",
        AlertDescription::UnsupportedCertificate => "sslv3 alert unsupported certificate",
        AlertDescription::CertificateRevoked => "sslv3 alert certificate revoked",
        AlertDescription::CertificateExpired => "sslv3 alert certificate expired",
        AlertDescription::CertificateUnknown => "sslv3 alert certificate unknown",
        AlertDescription::IllegalParameter => "sslv3 alert illegal parameter",
        AlertDescription::UnknownCA => "tlsv1 alert unknown ca",
        AlertDescription::AccessDenied => "tlsv1 alert access denied",
        AlertDescription::DecodeError => "tlsv1 alert decode error",
        AlertDescription::DecryptError => "tlsv1 alert decrypt error",
        AlertDescription::ExportRestriction => "tlsv1 alert export restriction",
        AlertDescription::ProtocolVersion => "tlsv1 alert protocol version",
        AlertDescription::InsufficientSecurity => "tlsv1 alert insufficient security",
        AlertDescription::InternalError => "tlsv1 alert internal error",
        AlertDescription::InappropriateFallback => "tlsv1 alert inappropriate fallback",
        AlertDescription::UserCanceled => "tlsv1 alert user cancelled",
        AlertDescription::NoRenegotiation => "tlsv1 alert no renegotiation",
        AlertDescription::MissingExtension => "tlsv13 alert missing extension",
        AlertDescription::UnsupportedExtension => "tlsv1 unsupported extension",
        AlertDescription::UnrecognisedName => "tlsv1 unrecognized name",
        AlertDescription::BadCertificateStatusResponse => "tlsv1 bad certificate status response",
        AlertDescription::BadCertificateHashValue => "tlsv1 bad certificate hash value",
        AlertDescription::UnknownPSKIdentity => "tlsv1 alert unknown psk identity",
        AlertDescription::CertificateRequired => "tlsv13 alert certificate required",
        AlertDescription::NoApplicationProtocol => "tlsv1 alert no application protocol",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: Error, expected: &str) {
        assert_eq!(Failure(&error).to_string(), expected);
    }

    // As `openssl errstr 0A0000C1` and its like print them.
    #[test]
    fn failures_have_the_words_of_openssl() {
        check(
            PeerIncompatible::NoCipherSuitesInCommon.into(),
            "error:0A0000C1:SSL routines::no shared cipher:peer is incompatible: NoCipherSuitesInCommon",
        );
        check(
            InvalidMessage::InvalidContentType.into(),
            "error:0A00010B:SSL routines::wrong version number:received corrupt message of type InvalidContentType",
        );
        check(
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            "error:0A000410:SSL routines::sslv3 alert handshake failure:SSL alert number 40",
        );
        check(
            Error::AlertReceived(AlertDescription::ProtocolVersion),
            "error:0A00042E:SSL routines::tlsv1 alert protocol version:SSL alert number 70",
        );
        check(Error::General("of another kind".to_owned()), "unexpected error: of another kind");
        assert_eq!(Reason::NO_PROTOCOLS.to_string(), "error:0A0000BF:SSL routines::no protocols available");
    }
}
