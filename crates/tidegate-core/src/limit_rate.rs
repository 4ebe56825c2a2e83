//! `limit_rate`: how fast a response goes to its client.
//!
//! The connection's output queue asks how much it may write now; when that is nothing, it waits as long as it takes
//! until a good piece may go.
//!
//! Source: nginx, `ngx_http_write_filter_module`.

use std::{rc::Rc, time::Duration};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, ast, values};

use crate::{
    clock,
    conf::Build,
    inherit,
    log::Level,
    module::{Context, Directive, Module},
    request::Request,
    template::Template,
    variable::VariableDef,
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    limit_rate: Option<Template>,
    limit_rate_after: Option<Template>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("limit_rate", 1, 1, |conf: &mut Conf, directive, build| {
            size(&mut conf.limit_rate, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("rate")
        .default("0")
        .doc("Bytes a second that a response is sent with; 0 for any speed."),
        Directive::custom("limit_rate_after", 1, 1, |conf: &mut Conf, directive, build| {
            size(&mut conf.limit_rate_after, directive, build)
        })
        .within(Context::ALL_IF)
        .syntax("size")
        .default("0")
        .doc("Bytes of a response that are sent before its speed is limited."),
    ],
    variables: &[VariableDef::changeable(
        "limit_rate",
        |req, _, out| {
            let rate = req.client.output().borrow().throttle().map_or(0, |throttle| throttle.rate);
            let rate = req.limit_rate.get().unwrap_or(rate);
            out.extend_from_slice(itoa::Buffer::new().format(rate).as_bytes());
            true
        },
        set_variable,
        "Bytes a second that the response is sent with; setting it limits the speed.",
    )],
    inherit: |child, parent, _| {
        inherit!(child, parent; limit_rate, limit_rate_after);
    },
    example: "
        location /download/ {
            limit_rate_after 1m;
            limit_rate 200k;
        }
    ",
    ..Module::named("limit_rate")
};

/// A size with variables; one without is checked when it is read.
pub(crate) fn size(
    field: &mut Option<Template>,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let template = build.template(arg)?;
    if template.as_literal().is_some() {
        values::size(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    }
    match field.replace(template) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

fn set_variable(req: &Rc<Request>, _: &[u8], value: &[u8]) {
    match values::size(value.as_bstr()) {
        Ok(rate) => req.set_limit_rate(rate),
        Err(_) => req.log(Level::Error, format_args!("invalid $limit_rate \"{}\"", BStr::new(value))),
    }
}

/// How fast the output of a request may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Throttle {
    /// Bytes a second.
    rate: u64,
    /// Bytes that do not count.
    after: u64,
    /// When the response began, in milliseconds.
    start_ms: u64,
    /// What had left the queue then.
    sent_before: u64,
}

/// What is worth a wake-up: so many milliseconds of the rate.
const PIECE_MS: u64 = 250;

impl Throttle {
    /// How many bytes may go now: those of the time that has passed and of one second ahead.
    pub(crate) fn room(&self, sent: u64) -> u64 {
        let elapsed_ms = clock::steady_ms().saturating_sub(self.start_ms);
        let allowed = self.after.saturating_add(self.rate.saturating_mul(elapsed_ms + 1000) / 1000);
        allowed.saturating_sub(sent.saturating_sub(self.sent_before))
    }

    /// How long to wait when there is no room.
    pub(crate) fn pause(&self, sent: u64) -> Duration {
        let used = sent.saturating_sub(self.sent_before).saturating_sub(self.after);
        let due_ms = (used.saturating_mul(1000) / self.rate.max(1)).saturating_sub(1000) + PIECE_MS;
        let elapsed_ms = clock::steady_ms().saturating_sub(self.start_ms);
        Duration::from_millis(due_ms.saturating_sub(elapsed_ms).max(1))
    }
}

impl Request {
    /// Limits how fast the response is sent, from now on: bytes a second, 0 for any speed.
    pub fn set_limit_rate(&self, rate: u64) {
        let main = self.main();
        main.limit_rate.set(Some(rate));
        if main.header_sent() {
            main.begin_throttle();
        }
    }

    /// The response begins: finds out how fast it may be.
    #[inline]
    pub(crate) fn begin_throttle(&self) {
        let conf = &self.level().core.limit_rate;
        if self.limit_rate.get().is_some() || conf.limit_rate.is_some() {
            self.throttle_as(conf);
        }
    }

    #[inline(never)]
    fn throttle_as(&self, conf: &Conf) {
        let rate = match (self.limit_rate.get(), &conf.limit_rate) {
            (Some(rate), _) => rate,
            (None, None) => return,
            (None, Some(rate)) => self.size_of(rate),
        };
        let throttle = (rate > 0).then(|| Throttle {
            rate,
            after: conf.limit_rate_after.as_ref().map_or(0, |after| self.size_of(after)),
            start_ms: clock::steady_ms(),
            sent_before: self.client.output().borrow().sent(),
        });
        self.client.output().borrow_mut().set_throttle(throttle);
    }

    pub(crate) fn size_of(&self, template: &Template) -> u64 {
        let text = template.eval_cow(self);
        match values::size(text.as_bstr()) {
            Ok(size) => size,
            Err(_) if text.is_empty() => 0,
            Err(_) => {
                self.log(Level::Error, format_args!("invalid size \"{}\"", BStr::new(&text)));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_at_once_then_by_the_clock() {
        clock::update();
        let throttle = Throttle { rate: 1000, after: 500, start_ms: clock::steady_ms(), sent_before: 70 };
        assert_eq!(throttle.room(70), 1500);
        assert_eq!(throttle.room(1569), 1);
        assert_eq!(throttle.room(1570), 0);
        assert_eq!(throttle.pause(1570), Duration::from_millis(PIECE_MS));
        let earlier = Throttle { start_ms: clock::steady_ms() - 300, ..throttle };
        assert_eq!(earlier.room(1570), 300);
        assert_eq!(earlier.room(2570), 0);
        assert_eq!(earlier.pause(2570), Duration::from_millis(1000 - 300 + PIECE_MS));
    }
}
