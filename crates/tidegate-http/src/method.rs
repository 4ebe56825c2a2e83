//! Request methods.

/// A request method that nginx knows; [`Method::Other`] stands for any other word of `A-Z`, `_` and `-`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Method {
    /// `GET`.
    #[default]
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `MKCOL` (WebDAV).
    Mkcol,
    /// `COPY` (WebDAV).
    Copy,
    /// `MOVE` (WebDAV).
    Move,
    /// `OPTIONS`.
    Options,
    /// `PROPFIND` (WebDAV).
    Propfind,
    /// `PROPPATCH` (WebDAV).
    Proppatch,
    /// `LOCK` (WebDAV).
    Lock,
    /// `UNLOCK` (WebDAV).
    Unlock,
    /// `PATCH`.
    Patch,
    /// `TRACE`.
    Trace,
    /// `CONNECT`.
    Connect,
    /// A method that has no number; its text stands in the request line.
    Other,
}

impl Method {
    /// All methods but [`Method::Other`].
    pub const ALL: [Method; 16] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Delete,
        Method::Mkcol,
        Method::Copy,
        Method::Move,
        Method::Options,
        Method::Propfind,
        Method::Proppatch,
        Method::Lock,
        Method::Unlock,
        Method::Patch,
        Method::Trace,
        Method::Connect,
    ];

    /// The method of this name; names are case-sensitive.
    #[inline]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"MKCOL" => Method::Mkcol,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"OPTIONS" => Method::Options,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// The method's text; empty for [`Method::Other`].
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Mkcol => "MKCOL",
            Method::Copy => "COPY",
            Method::Move => "MOVE",
            Method::Options => "OPTIONS",
            Method::Propfind => "PROPFIND",
            Method::Proppatch => "PROPPATCH",
            Method::Lock => "LOCK",
            Method::Unlock => "UNLOCK",
            Method::Patch => "PATCH",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Other => "",
        }
    }

    /// nginx's bit for the method, as in `ngx.req.get_method` tables and `ngx.HTTP_*` constants; `Other` is 1.
    pub const fn nginx_bit(self) -> u32 {
        match self {
            Method::Other => 0x0001,
            Method::Get => 0x0002,
            Method::Head => 0x0004,
            Method::Post => 0x0008,
            Method::Put => 0x0010,
            Method::Delete => 0x0020,
            Method::Mkcol => 0x0040,
            Method::Copy => 0x0080,
            Method::Move => 0x0100,
            Method::Options => 0x0200,
            Method::Propfind => 0x0400,
            Method::Proppatch => 0x0800,
            Method::Lock => 0x1000,
            Method::Unlock => 0x2000,
            Method::Patch => 0x4000,
            Method::Trace => 0x8000,
            Method::Connect => 0x10000,
        }
    }
}

/// Whether a request line may have this byte in its method.
#[inline]
pub(crate) fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_bits_differ() {
        let mut bits = Method::Other.nginx_bit();
        for method in Method::ALL {
            assert_eq!(Method::of(method.name().as_bytes()), method);
            assert_eq!(bits & method.nginx_bit(), 0);
            bits |= method.nginx_bit();
        }
        for other in ["", "get", "GETS", "M-SEARCH", "PURGE"] {
            assert_eq!(Method::of(other.as_bytes()), Method::Other);
        }
    }
}
