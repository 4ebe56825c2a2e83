//! The pages that answer for a status when the configuration has none.

use crate::status::reason;

/// Writes nginx's page for a status and returns whether there is one; `product` stands at its foot, e.g. `nginx` or
/// `nginx/1.26.2`.
///
/// Codes that only exist inside the server (494 to 498) have pages of the status that they stand for.
pub fn write_error_page(status: u16, product: &str, out: &mut Vec<u8>) -> bool {
    let Some(page) = Page::of(status) else { return false };
    for part in ["<html>\r\n<head><title>", page.code, " ", page.title, "</title></head>\r\n<body>\r\n<center><h1>"] {
        out.extend_from_slice(part.as_bytes());
    }
    let heading = page.note.map_or(page.title, |_| "Bad Request");
    for part in [page.code, " ", heading, "</h1></center>\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(note) = page.note {
        for part in ["<center>", note, "</center>\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    for part in ["<hr><center>", product, "</center>\r\n</body>\r\n</html>\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    true
}

/// Whether [`write_error_page`] has a page for this status.
pub fn has_error_page(status: u16) -> bool {
    Page::of(status).is_some()
}

/// The status that a client sees for a status of this server: 494 to 497 are 400.
///
/// Source: nginx, `ngx_http_send_special_response`.
pub const fn status_for_client(status: u16) -> u16 {
    match status {
        494..=497 => 400,
        status => status,
    }
}

/// What `msie_padding` adds to pages of 4xx and 5xx for MSIE and Chrome, which replace short pages by their own.
pub const MSIE_PADDING: &str = concat!(
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
);

struct Page {
    code: &'static str,
    title: &'static str,
    /// A second line, for pages whose title is more exact than the status.
    note: Option<&'static str>,
}

impl Page {
    fn of(status: u16) -> Option<Page> {
        let note = match status {
            494 => Some("Request Header Or Cookie Too Large"),
            495 => Some("The SSL certificate error"),
            496 => Some("No required SSL certificate was sent"),
            497 => Some("The plain HTTP request was sent to HTTPS port"),
            _ => None,
        };
        if let Some(note) = note {
            return Some(Page { code: "400", title: note, note: Some(note) });
        }
        let title = match status {
            302 => "Found",
            401 => "Authorization Required",
            498 => return Page::of(404),
            304 => return None,
            301..=599 => reason(status)?,
            _ => return None,
        };
        // The code is cut out of the status line, which exists for every status that has a text.
        let code = crate::status::status_line(status)?.get(9..12)?;
        Some(Page { code, title, note: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, expected: Option<&str>) {
        let mut out = Vec::new();
        let has_page = write_error_page(status, "nginx/1.26.2", &mut out);
        assert_eq!(has_page, has_error_page(status));
        let text = String::from_utf8(out).expect("pages are text");
        let expected = expected.map(|middle| {
            format!("<html>\r\n<head><title>{middle}\r\n<hr><center>nginx/1.26.2</center>\r\n</body>\r\n</html>\r\n")
        });
        assert_eq!(has_page.then_some(text), expected);
    }

    #[test]
    fn writes_pages() {
        check(404, Some("404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>"));
        check(302, Some("302 Found</title></head>\r\n<body>\r\n<center><h1>302 Found</h1></center>"));
        check(
            401,
            Some(
                "401 Authorization Required</title></head>\r\n<body>\r\n\
                 <center><h1>401 Authorization Required</h1></center>",
            ),
        );
        check(
            494,
            Some(
                "400 Request Header Or Cookie Too Large</title></head>\r\n<body>\r\n\
                 <center><h1>400 Bad Request</h1></center>\r\n\
                 <center>Request Header Or Cookie Too Large</center>",
            ),
        );
        check(498, Some("404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>"));
        for none in [0, 200, 204, 206, 300, 304, 305, 418, 426, 499, 506, 508, 600] {
            check(none, None);
        }
        for some in [301, 303, 307, 308, 400, 403, 405, 413, 416, 421, 429, 495, 496, 497, 500, 502, 503, 504, 507] {
            assert!(has_error_page(some), "{some}");
        }
        assert_eq!([494, 497, 498, 499, 404].map(status_for_client), [400, 400, 498, 499, 404]);
    }
}
