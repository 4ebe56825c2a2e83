//! How a request ends with a status: `error_page` and the built-in pages.
//!
//! Source: nginx, `ngx_http_special_response_handler`.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_http::{Known, error_page::write_error_page};

use crate::{
    conf::Config,
    http_core::{ErrorTarget, STATUS_CLOSE},
    log::Level,
    output::{Chunk, Closed, Progress},
    phase::{Ready, Step},
    product::product,
    request::Request,
};

impl Request {
    /// Ends the request with a status. Answers `Redirected` when an error page takes over, else the engine's last step.
    pub(crate) fn end_with_status(self: &Rc<Self>, mut status: u16) -> Step {
        if (1..200).contains(&status) {
            let message = format_args!("a request ends with the interim status {status}, 500 is sent instead");
            self.log(Level::Error, message);
            status = 500;
        }
        if status == STATUS_CLOSE {
            self.client.note_timeout();
            return Step::Close;
        }
        if matches!(status, 408 | 499) && !self.is_subrequest() {
            // No response is sent: the client is too slow to read one, or has gone. The access log has the status.
            let mut response = self.response.borrow_mut();
            if response.status == 0 || response.progress == Progress::Open {
                response.status = status;
            }
            return Step::Close;
        }
        if self.header_sent() {
            // The client has a head already; an unfinished body says that something went wrong.
            return if status >= 300 { Step::Close } else { Step::Ok };
        }
        if matches!(status, 400 | 413 | 414 | 494 | 495 | 496 | 497 | 500 | 501) {
            self.main().flags().keep_alive.set(false);
        }
        let set_before = std::mem::replace(&mut self.response.borrow_mut().status, status);
        if status >= 300 && self.wants_bare_status() {
            // Whoever captures the response gets the status, not a page that describes it.
            self.response.borrow_mut().progress = Progress::Ended;
            return Step::Ok;
        }
        self.flags().err_status.set(status);
        if status >= 300 {
            // Whether an error page may lead to another is said where the first one is chosen.
            let is_page = self.flags().error_page.get();
            if !is_page && self.http_conf().recursive_error_pages != Some(true) {
                self.flags().error_page.set(true);
            }
            if !is_page && let Some(step) = self.to_error_page(status, set_before) {
                return step;
            }
        }
        Step::Ok
    }

    /// Follows `error_page`; `None` when there is none for the status. With `=` alone the page's own status counts, or
    /// else the one that the handler `set_before` it gave up.
    fn to_error_page(self: &Rc<Self>, status: u16, set_before: u16) -> Option<Step> {
        let conf = self.level().conf_arc(&crate::http_core::MODULE);
        let page = conf.error_pages.iter().find(|page| page.statuses.contains(&status))?;
        // Codes that only exist inside the server are none for a client. Source: nginx, `ngx_http_core_error_page`.
        let of_server = (494..=497).contains(&status).then_some(400);
        if let Some(answer) = page.answer.or(of_server) {
            self.flags().err_status.set(answer);
            self.response.borrow_mut().status = if answer == 0 { set_before } else { answer };
        }
        let target = page.target.eval(self);
        match page.kind {
            ErrorTarget::Named => {
                if !self.redirect_to_named(&target) {
                    self.log(
                        Level::Error,
                        format_args!("could not find named location \"{}\"", bstr::BStr::new(&target)),
                    );
                    self.flags().err_status.set(500);
                    self.response.borrow_mut().status = 500;
                    return None;
                }
            }
            ErrorTarget::Uri => {
                // The page is fetched with GET, whatever the client sent.
                if self.method.get() != tidegate_http::Method::Head {
                    self.method.set(tidegate_http::Method::Get);
                }
                let (path, args) = split(&target);
                self.redirect_internally(path, args);
            }
            ErrorTarget::Url => {
                let mut response = self.response.borrow_mut();
                let redirects = |status: &u16| matches!(status, 301 | 303 | 307 | 308);
                response.status = page.answer.filter(redirects).unwrap_or(302);
                self.flags().err_status.set(response.status);
                response.fields.set_known(Known::Location, &target);
                return Some(Step::Ok);
            }
        }
        if !self.count_uri_change() {
            self.log_cycle();
            self.flags().err_status.set(500);
            self.response.borrow_mut().status = 500;
            return None;
        }
        Some(Step::Redirected)
    }

    /// Sends what is missing of the response: the whole of it, or its end.
    pub(crate) fn finish_response(self: &Rc<Self>) -> Ready<()> {
        let progress = self.response.borrow().progress;
        match progress {
            Progress::Ended => Ready::Now(()),
            Progress::HeadSent => self.send(Chunk::end()).map(|_| ()),
            Progress::Open => {
                let status = self.response.borrow().status;
                if status >= 300 || self.flags().malformed.get() {
                    return self.send_plain_error(status).map(|_| ());
                }
                let mut response = self.response.borrow_mut();
                // Nothing was said about a body, so there is none.
                if response.content_length.is_none() && !matches!(status, 204 | 304) {
                    response.content_length = Some(0);
                }
                drop(response);
                self.send(Chunk::end()).map(|_| ())
            }
        }
    }

    /// Sends the built-in page for a status, or an empty body for a status that has none.
    pub(crate) fn send_plain_error(self: &Rc<Self>, status: u16) -> Ready<Result<(), Closed>> {
        let mut body = Vec::new();
        let product = match self.http_conf().server_tokens {
            Some(false) => product().name,
            _ => product().name_and_version,
        };
        let has_page = write_error_page(status, product, &mut body);
        {
            let mut response = self.response.borrow_mut();
            response.clear_body_headers();
            response.status = match status {
                494..=497 => 400,
                status => status,
            };
            self.flags().err_status.set(0);
            response.content_type.clear();
            if has_page {
                response.content_type.extend_from_slice(b"text/html");
            }
            response.content_length = Some(body.len() as u64);
        }
        self.send(Chunk::bytes(Bytes::from(body)).and_last())
    }
}

fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

impl Config {
    /// The `http` level's core directives.
    pub fn http_core(&self) -> &crate::http_core::Conf {
        self.http_conf(&crate::http_core::MODULE)
    }
}
