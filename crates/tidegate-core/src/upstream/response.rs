//! The head of an answer becomes the head of the response.
//!
//! Source: nginx, `ngx_http_upstream_process_headers`.

use tidegate_http::{Fields, Known, Method, ResponseHead, uri::parse_unsafe_uri};

use super::{
    exchange::{Exchange, Protocol},
    record::Record,
    settings::Ignored,
};
use crate::{http_core, log::Level, output::Response, phase::Step};

impl<P: Protocol> Exchange<'_, P> {
    /// Takes the head over. Answers a step when another location gives the response: `X-Accel-Redirect`, or an error
    /// page for the status.
    pub(super) fn take_head(&mut self) -> Option<Step> {
        let req = self.req;
        let head = req.upstream_record_mut(|record| std::mem::take(&mut record.head));
        for line in head.ignored_lines() {
            let line = bstr::BStr::new(line);
            req.log(Level::Warn, format_args!("upstream sent duplicate header line: \"{line}\", ignored"));
        }
        if let Some(rate) = head.fields.get(Known::XAccelLimitRate).filter(|_| self.heeds(Ignored::LIMIT_RATE))
            && let Ok(rate) = tidegate_conf::values::integer(rate.into())
        {
            req.set_limit_rate(rate);
        }
        let step = if let Some(step) = self.intercept(&head) {
            Some(step)
        } else if let Some(target) = head.fields.get(Known::XAccelRedirect).filter(|_| self.heeds(Ignored::REDIRECT)) {
            self.copy_fields(&head, Copied::ForRedirect);
            Some(self.redirect(target))
        } else {
            self.copy_fields(&head, Copied::All);
            self.copy_rest(&head);
            None
        };
        req.upstream_record_mut(|record| record.head = head);
        step
    }

    fn heeds(&self, field: Ignored) -> bool {
        !self.settings.ignored.contains(field)
    }

    /// `…_intercept_errors`: the status leads to an error page, if there is one for it.
    fn intercept(&mut self, head: &ResponseHead) -> Option<Step> {
        if self.is_stored {
            return None;
        }
        if self.settings.intercept_always.contains(&head.status) {
            return Some(Step::Status(head.status));
        }
        if !self.settings.intercept_errors || head.status < 300 {
            return None;
        }
        let conf = self.req.module_conf(&http_core::MODULE);
        conf.error_pages.iter().find(|page| page.statuses.contains(&head.status))?;
        if head.status == 401 {
            let mut response = self.req.response.borrow_mut();
            for value in head.fields.iter_known(Known::WwwAuthenticate) {
                response.fields.append_known(Known::WwwAuthenticate, value);
            }
        }
        self.keep_error(head.status);
        Some(Step::Status(head.status))
    }

    /// `X-Accel-Redirect`: a path of this server, or a named location.
    fn redirect(&self, target: &[u8]) -> Step {
        let req = self.req;
        if target.starts_with(b"@") {
            return if req.redirect_to_named(target) {
                Step::Redirected
            } else {
                let name = bstr::BStr::new(target);
                req.log(Level::Error, format_args!("could not find named location \"{name}\""));
                Step::Status(500)
            };
        }
        let Some((path, args)) = parse_unsafe_uri(target) else {
            req.log(Level::Error, format_args!("unsafe URI \"{}\" was detected", bstr::BStr::new(target)));
            return Step::Status(404);
        };
        if req.method.get() != Method::Head {
            req.method.set(Method::Get);
        }
        req.redirect_internally(&path, Some(args));
        Step::Redirected
    }

    fn copy_fields(&self, head: &ResponseHead, which: Copied) {
        let req = self.req;
        let is_kept = self.is_stored || self.fills_cache();
        // `rewrite_field` may evaluate variables that look at the response.
        let mut response = req.response.borrow_mut();
        for (name, value, known) in head.fields.iter() {
            if self.settings.hidden.contains(known, name) || (which == Copied::ForRedirect && !survives(known)) {
                continue;
            }
            match known {
                Known::ContentType => response.set_content_type(value),
                Known::ContentLength | Known::TransferEncoding | Known::Connection | Known::KeepAlive => {}
                // The whole of it is here, or will be.
                Known::AcceptRanges if is_kept || self.settings.force_ranges => {
                    response.allow_ranges |= is_kept;
                    response.single_range = !self.is_stored;
                }
                Known::Location | Known::Refresh | Known::SetCookie => {
                    drop(response);
                    let rewritten = self.protocol.rewrite_field(req, known, value);
                    response = req.response.borrow_mut();
                    if known == Known::Location {
                        // A path that the upstream itself sent is for the client to resolve.
                        response.keep_location = rewritten.is_none();
                    }
                    response.fields.append(name, rewritten.as_deref().unwrap_or(value));
                }
                _ => response.fields.append(name, value),
            }
        }
    }

    /// Status, length, and what the upstream says to this server.
    fn copy_rest(&mut self, head: &ResponseHead) {
        let mut response = self.req.response.borrow_mut();
        response.status = head.status;
        let text = head.status_text();
        let usual = tidegate_http::reason(head.status).is_some_and(|reason| head.reason() == reason.as_bytes());
        if !usual {
            response.status_line.extend_from_slice(&text[text.len().min(4)..]);
        }
        let lacks = |known: Known, name: &[u8]| {
            P::NAMES_ITSELF && !head.fields.contains(known) && !self.settings.hidden.contains(known, name)
        };
        response.omit_server = lacks(Known::Server, b"Server");
        response.omit_date = lacks(Known::Date, b"Date");
        response.content_length = head.content_length;
        response.conditions_are_tested = !(self.is_stored || self.fills_cache());
        if self.settings.force_ranges {
            response.allow_ranges = true;
            response.single_range = !self.is_stored;
        }
        if let Some(value) = head.fields.get(Known::XAccelBuffering).filter(|_| self.heeds(Ignored::BUFFERING)) {
            match value {
                value if value.eq_ignore_ascii_case(b"yes") => self.buffering = true,
                value if value.eq_ignore_ascii_case(b"no") => self.buffering = false,
                _ => {}
            }
        }
        if let Some(charset) = head.fields.get(Known::XAccelCharset).filter(|_| self.heeds(Ignored::CHARSET)) {
            // Without a type there is nothing to name it behind.
            if !charset.is_empty() && !response.content_type.is_empty() {
                response.charset_before = Some(std::mem::replace(&mut response.charset, charset.to_vec()));
            }
        }
    }

    /// The trailers, when the body is complete.
    pub(super) fn take_trailers(&mut self) {
        let Some(trailers) = self.protocol.trailers().filter(|trailers| !trailers.is_empty()) else { return };
        self.req.upstream_record_mut(|record: &mut Record| record.trailers.clone_from(trailers));
        if self.settings.pass_trailers {
            let mut kept = Fields::new();
            for (name, value, known) in trailers.iter() {
                if !self.settings.hidden.contains(known, name) && !is_framing(known) {
                    kept.append(name, value);
                }
            }
            self.req.response.borrow_mut().trailers = kept;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    All,
    ForRedirect,
}

/// Fields that go with the response of the location that `X-Accel-Redirect` names.
fn survives(known: Known) -> bool {
    matches!(
        known,
        Known::ContentType
            | Known::SetCookie
            | Known::ContentDisposition
            | Known::CacheControl
            | Known::Expires
            | Known::AcceptRanges
    )
}

fn is_framing(known: Known) -> bool {
    matches!(known, Known::ContentLength | Known::TransferEncoding | Known::Connection | Known::Trailer)
}

impl Response {
    /// Takes the `Content-Type` of another response over, its charset apart.
    pub fn set_content_type(&mut self, value: &[u8]) {
        let (kind, charset) = split_charset(value);
        self.content_type.clear();
        self.content_type.extend_from_slice(kind);
        self.charset.clear();
        self.charset.extend_from_slice(charset);
    }
}

/// Content type and charset, when the two put together again make the same text; else all of it and nothing, since
/// nginx leaves the value as it came.
fn split_charset(value: &[u8]) -> (&[u8], &[u8]) {
    const CHARSET: &[u8] = b"; charset=";
    match memchr::memmem::rfind(value, CHARSET) {
        Some(at) if !value.ends_with(b"\"") && !value[at + CHARSET.len()..].contains(&b';') => {
            (&value[..at], &value[at + CHARSET.len()..])
        }
        _ => (value, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_split_off() {
        #[track_caller]
        fn check(value: &str, kind: &str, charset: &str) {
            assert_eq!(split_charset(value.as_bytes()), (kind.as_bytes(), charset.as_bytes()), "{value}");
        }
        check("text/html", "text/html", "");
        check("text/html; charset=utf-8", "text/html", "utf-8");
        check("text/html;charset=utf-8", "text/html;charset=utf-8", "");
        check("text/html; charset=\"utf-8\"", "text/html; charset=\"utf-8\"", "");
        check("text/html; charset=utf-8; a=b", "text/html; charset=utf-8; a=b", "");
        check("text/html; a=b; charset=x", "text/html; a=b", "x");
        check("text/html; a=b", "text/html; a=b", "");
        check("text/html;", "text/html;", "");
        check("", "", "");
    }
}
