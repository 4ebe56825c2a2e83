//! Names of header fields that the server acts on, as small numbers.
//!
//! Comparing a field with [`Known`] is comparing one byte, so nothing on the hot path compares names. A name is found
//! through a table built at compile time: hash, then one comparison.

macro_rules! known {
    ($($id:ident = $name:literal,)*) => {
        /// A header field name that the server or one of its modules knows; every other name is [`Known::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            $(#[doc = concat!("`", $name, "`.")] $id,)*
            /// Any name that has no number.
            Other,
        }

        impl Known {
            /// All known names, without [`Known::Other`].
            pub const ALL: &'static [Known] = &[$(Known::$id,)*];

            const NAMES: &'static [&'static str] = &[$($name,)*];
        }
    };
}

known! {
    Host = "Host",
    Connection = "Connection",
    ContentLength = "Content-Length",
    ContentType = "Content-Type",
    TransferEncoding = "Transfer-Encoding",
    UserAgent = "User-Agent",
    Referer = "Referer",
    Cookie = "Cookie",
    Range = "Range",
    IfModifiedSince = "If-Modified-Since",
    IfNoneMatch = "If-None-Match",
    IfRange = "If-Range",
    IfMatch = "If-Match",
    IfUnmodifiedSince = "If-Unmodified-Since",
    Expect = "Expect",
    Upgrade = "Upgrade",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    Accept = "Accept",
    Authorization = "Authorization",
    ProxyAuthorization = "Proxy-Authorization",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyConnection = "Proxy-Connection",
    KeepAlive = "Keep-Alive",
    Te = "TE",
    Via = "Via",
    XForwardedFor = "X-Forwarded-For",
    XForwardedProto = "X-Forwarded-Proto",
    XForwardedHost = "X-Forwarded-Host",
    XRealIp = "X-Real-IP",
    Forwarded = "Forwarded",
    Origin = "Origin",
    Date = "Date",
    Server = "Server",
    LastModified = "Last-Modified",
    ETag = "ETag",
    Location = "Location",
    ContentEncoding = "Content-Encoding",
    ContentRange = "Content-Range",
    ContentDisposition = "Content-Disposition",
    ContentLanguage = "Content-Language",
    AcceptRanges = "Accept-Ranges",
    CacheControl = "Cache-Control",
    Pragma = "Pragma",
    Age = "Age",
    Expires = "Expires",
    SetCookie = "Set-Cookie",
    WwwAuthenticate = "WWW-Authenticate",
    Refresh = "Refresh",
    Link = "Link",
    Trailer = "Trailer",
    Vary = "Vary",
    Status = "Status",
    Allow = "Allow",
    RetryAfter = "Retry-After",
    AltSvc = "Alt-Svc",
    StrictTransportSecurity = "Strict-Transport-Security",
    AccessControlAllowOrigin = "Access-Control-Allow-Origin",
    XPoweredBy = "X-Powered-By",
    XAccelRedirect = "X-Accel-Redirect",
    XAccelExpires = "X-Accel-Expires",
    XAccelBuffering = "X-Accel-Buffering",
    XAccelCharset = "X-Accel-Charset",
    XAccelLimitRate = "X-Accel-Limit-Rate",
    XRequestedWith = "X-Requested-With",
    XRequestId = "X-Request-ID",
    UpgradeInsecureRequests = "Upgrade-Insecure-Requests",
    SecFetchSite = "Sec-Fetch-Site",
    SecFetchMode = "Sec-Fetch-Mode",
    SecFetchDest = "Sec-Fetch-Dest",
    SecFetchUser = "Sec-Fetch-User",
    SecWebSocketKey = "Sec-WebSocket-Key",
    SecWebSocketVersion = "Sec-WebSocket-Version",
    SecWebSocketProtocol = "Sec-WebSocket-Protocol",
    SecWebSocketExtensions = "Sec-WebSocket-Extensions",
    SecWebSocketAccept = "Sec-WebSocket-Accept",
    Http2Settings = "HTTP2-Settings",
    Depth = "Depth",
    Destination = "Destination",
    Overwrite = "Overwrite",
}

/// Slots of the name table, a power of two with room to spare so that chains stay short.
const SLOTS: usize = 256;

/// Slot → number of the name, [`Known::Other`] for a free slot; a taken slot moves the name to the next one.
static TABLE: [Known; SLOTS] = build_table();

const _: () = assert!(Known::NAMES.len() <= 128, "`KnownSet` has 128 bits");

const fn build_table() -> [Known; SLOTS] {
    let mut table = [Known::Other; SLOTS];
    let mut i = 0;
    while i < Known::ALL.len() {
        let mut slot = hash(Known::NAMES[i].as_bytes());
        while !matches!(table[slot], Known::Other) {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = Known::ALL[i];
        i += 1;
    }
    table
}

/// Hashes length, first, last and the two middle letters, without regard to case.
const fn hash(name: &[u8]) -> usize {
    let len = name.len();
    if len < 2 {
        return 0;
    }
    let first = (name[0] | 0x20) as usize;
    let middle = (name[len / 2] | 0x20) as usize;
    let before = (name[len / 2 - 1] | 0x20) as usize;
    let last = (name[len - 1] | 0x20) as usize;
    // The factors were searched for: today's names then collide twice.
    (len + first * 29 + middle * 46 + before * 55 + last * 30) % SLOTS
}

impl Known {
    /// The number of `name`, in any case; [`Known::Other`] when it has none.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        let mut slot = hash(name);
        loop {
            let known = TABLE[slot];
            if known == Known::Other {
                return known;
            }
            let canonical = Known::NAMES[known as usize].as_bytes();
            // Most clients send the usual spelling: comparing exactly first is the fast case.
            if canonical == name || canonical.eq_ignore_ascii_case(name) {
                return known;
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// The usual spelling, e.g. `Content-Length`; empty for [`Known::Other`].
    pub fn name(self) -> &'static str {
        Known::NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

/// A set of known names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownSet(u128);

impl KnownSet {
    /// The set of these names.
    pub(crate) const fn of(names: &[Known]) -> KnownSet {
        let (mut set, mut i) = (0, 0);
        while i < names.len() {
            set |= Self::bit(names[i]);
            i += 1;
        }
        KnownSet(set)
    }

    #[inline]
    pub(crate) fn insert(&mut self, known: Known) {
        self.0 |= Self::bit(known);
    }

    /// Whether the name is in the set; `Other` never is.
    #[inline]
    pub(crate) fn contains(self, known: Known) -> bool {
        self.0 & Self::bit(known) != 0
    }

    #[inline]
    const fn bit(known: Known) -> u128 {
        if matches!(known, Known::Other) { 0 } else { 1 << known as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for &known in Known::ALL {
            let name = known.name();
            assert_eq!(Known::of(name.as_bytes()), known, "{name}");
            assert_eq!(Known::of(name.to_ascii_lowercase().as_bytes()), known, "{name}");
            assert_eq!(Known::of(name.to_ascii_uppercase().as_bytes()), known, "{name}");
        }
    }

    #[test]
    fn other_names_are_other() {
        for name in ["", "x", "Hos", "Hosts", "Hose", "Content_Length", "Content-Lengtg", "X-Test", "\u{ff}\u{ff}"] {
            assert_eq!(Known::of(name.as_bytes()), Known::Other, "{name}");
        }
        assert_eq!(Known::Other.name(), "");
    }

    #[test]
    fn chains_are_short() {
        let longest = Known::ALL.iter().map(|k| {
            let start = hash(k.name().as_bytes());
            (0..SLOTS).find(|step| TABLE[(start + step) % SLOTS] == *k).unwrap_or(SLOTS)
        });
        assert!(longest.max().unwrap_or(0) <= 3);
    }
}
