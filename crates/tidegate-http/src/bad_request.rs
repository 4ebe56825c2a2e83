//! Why a request head was refused.

use std::fmt;

use bstr::BStr;

/// Why a request head was refused. The fault is the client's; the connection cannot be used further.
///
/// The text is what nginx writes to its error log, at level `info`; it is followed there by `while ` and
/// [`BadRequest::action`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// A byte in the method that is not `A-Z`, `_` or `-`.
    #[error("client sent invalid method")]
    InvalidMethod,
    /// A request line, target or version of no valid form.
    #[error("client sent invalid request")]
    InvalidRequest,
    /// HTTP/2.0 or later on a request line.
    #[error("client sent invalid version")]
    InvalidVersion,
    /// A request line without version that is not a `GET`.
    #[error("client sent invalid method in HTTP/0.9 request")]
    InvalidMethodIn09,
    /// The request line did not fit one large buffer.
    #[error("client sent too long URI")]
    UriTooLong,
    /// The absolute form names a host that cannot be.
    #[error("client sent invalid host in request line")]
    InvalidHostInLine,
    /// The head filled all buffers at the end of a line.
    #[error("client sent too large request")]
    HeadTooLarge,
    /// One header line did not fit one large buffer, or no buffer was left for it.
    #[error("client sent too long header line: \"{}...\"", BStr::new(.0))]
    HeaderLineTooLong(Box<[u8]>),
    /// More header fields than `max_headers`.
    #[error("client sent too many header lines")]
    TooManyHeaderLines,
    /// A byte that a header line must not have; the text before it and the byte.
    #[error("client sent invalid header line: \"{}\\x{:02x}...\"", BStr::new(.0), .1)]
    InvalidHeaderLine(Box<[u8]>, u8),
    /// A field that must be alone was there twice.
    #[error("client sent duplicate header line: {0}")]
    DuplicateHeader(Box<Duplicate>),
    /// Two `Host` fields.
    #[error("client sent duplicate host header: {0}")]
    DuplicateHost(Box<Duplicate>),
    /// A `Host` field that cannot be a host.
    #[error("client sent invalid host header")]
    InvalidHost,
    /// HTTP/1.1 without `Host`.
    #[error("client sent HTTP/1.1 request without \"Host\" header")]
    NoHost,
    /// `Content-Length` is not a number of at most 63 bits.
    #[error("client sent invalid \"Content-Length\" header")]
    InvalidContentLength,
    /// `Transfer-Encoding` before HTTP/1.1.
    #[error("client sent HTTP/1.0 request with \"Transfer-Encoding\" header")]
    TransferEncodingBefore11,
    /// Both framings at once: the classic way to smuggle a request.
    #[error("client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    LengthAndTransferEncoding,
    /// `Transfer-Encoding` is not exactly `chunked`.
    #[error("client sent unknown \"Transfer-Encoding\": \"{}\"", BStr::new(.0))]
    UnknownTransferEncoding(Box<[u8]>),
    /// The method `CONNECT`: this is no forward proxy.
    #[error("client sent CONNECT method")]
    Connect,
    /// The method `TRACE`, which reflects credentials.
    #[error("client sent TRACE method")]
    Trace,
}

/// A header line and the earlier one that it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The later line.
    pub line: Vec<u8>,
    /// The earlier line.
    pub previous: Vec<u8>,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\", previous value: \"{}\"", BStr::new(&self.line), BStr::new(&self.previous))
    }
}

impl BadRequest {
    /// The status to answer with, as `error_page` sees it: 494 is sent to the client as 400.
    pub fn status(&self) -> u16 {
        match self {
            BadRequest::InvalidVersion => 505,
            BadRequest::UriTooLong => 414,
            BadRequest::HeadTooLarge | BadRequest::HeaderLineTooLong(_) | BadRequest::TooManyHeaderLines => 494,
            BadRequest::UnknownTransferEncoding(_) => 501,
            BadRequest::Connect | BadRequest::Trace => 405,
            BadRequest::InvalidMethod
            | BadRequest::InvalidRequest
            | BadRequest::InvalidMethodIn09
            | BadRequest::InvalidHostInLine
            | BadRequest::InvalidHeaderLine(..)
            | BadRequest::DuplicateHeader(..)
            | BadRequest::DuplicateHost(..)
            | BadRequest::InvalidHost
            | BadRequest::NoHost
            | BadRequest::InvalidContentLength
            | BadRequest::TransferEncodingBefore11
            | BadRequest::LengthAndTransferEncoding => 400,
        }
    }

    /// What was being done, for the log: `reading client request line` or `reading client request headers`.
    pub fn action(&self) -> &'static str {
        match self {
            BadRequest::InvalidMethod
            | BadRequest::InvalidRequest
            | BadRequest::InvalidVersion
            | BadRequest::InvalidMethodIn09
            | BadRequest::UriTooLong
            | BadRequest::InvalidHostInLine => "reading client request line",
            _ => "reading client request headers",
        }
    }
}
