//! `secure_link`: tells links that this site made, and that have not expired, from others.
//!
//! Source: nginx, `ngx_http_secure_link_module`.

use bstr::{BString, ByteSlice};
use md5::{Digest, Md5};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    request::Request,
    template::Template,
    upstream::directives::fill,
    variable::VariableDef,
};
use tidegate_net::clock;

use crate::set_misc::{decode_base64url, encode_hex};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// Checksum and, behind a comma, time of expiry.
    secure_link: Option<Template>,
    secure_link_md5: Option<Template>,
    secure_link_secret: Option<BString>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("secure_link", 1, 1, |conf: &mut Conf, directive, build| {
            let template = build.template(&directive.args[0])?;
            fill(&mut conf.secure_link, template, directive)?;
            conf.check(directive)
        })
        .syntax("expression")
        .doc("Variables with the checksum of a link and, behind a comma, with its time of expiry."),
        Directive::custom("secure_link_md5", 1, 1, |conf: &mut Conf, directive, build| {
            let template = build.template(&directive.args[0])?;
            fill(&mut conf.secure_link_md5, template, directive)?;
            conf.check(directive)
        })
        .syntax("expression")
        .doc("Text whose MD5 sum, in base64 for URLs, is the checksum of a link."),
        Directive::custom("secure_link_secret", 1, 1, secret)
            .within(Context::LOCATION)
            .syntax("word")
            .doc("Links are /prefix/sum/link, where the sum is that of the link and this word."),
    ],
    variables: &[
        VariableDef::new(
            "secure_link",
            |req, _, out| req.module_conf(&MODULE).judge(req, out),
            "\"1\" for a link of this site, \"0\" for one that has expired, or the link behind a sum.",
        ),
        VariableDef::new(
            "secure_link_expires",
            |req, _, out| {
                let Some(link) = &req.module_conf(&MODULE).secure_link else { return false };
                let value = link.eval(req);
                match split(&value) {
                    Some((_, Some((text, _)))) => out.extend_from_slice(text),
                    _ => return false,
                }
                true
            },
            "When the link of the request expires, in seconds since 1970.",
        ),
    ],
    inherit: |child, parent, _| {
        if child.secure_link_secret.is_some() {
            return;
        }
        if child.secure_link.is_none() && child.secure_link_md5.is_none() {
            child.secure_link_secret.clone_from(&parent.secure_link_secret);
        }
        if child.secure_link.is_none() {
            child.secure_link.clone_from(&parent.secure_link);
        }
        if child.secure_link_md5.is_none() {
            child.secure_link_md5.clone_from(&parent.secure_link_md5);
        }
    },
    example: r#"
        location /files/ {
            secure_link $arg_md5,$arg_expires;
            secure_link_md5 "$secure_link_expires$uri some-secret";
            if ($secure_link = "") { return 403; }
            if ($secure_link = "0") { return 410; }
        }
    "#,
    ..Module::named("secure_link")
};

fn secret(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    fill(&mut conf.secure_link_secret, directive.args[0].value.clone(), directive)?;
    conf.check(directive)
}

/// Checksum, and text and value of the time of expiry; `None` for a time that is none.
type Split<'v> = Option<(&'v [u8], Option<(&'v [u8], i64)>)>;

fn split(value: &[u8]) -> Split<'_> {
    let Some((sum, time)) = value.split_once_str(b",") else { return Some((value, None)) };
    let seconds = time.to_str().ok()?.parse().ok().filter(|&seconds: &i64| seconds > 0)?;
    time[0].is_ascii_digit().then_some((sum, Some((time, seconds))))
}

impl Conf {
    fn check(&self, directive: &ast::Directive) -> Result<(), Diagnostic> {
        if self.secure_link_secret.is_some() && (self.secure_link.is_some() || self.secure_link_md5.is_some()) {
            let message = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
            return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
        }
        Ok(())
    }

    /// Appends what `$secure_link` is; `false` for a link that is not ours.
    fn judge(&self, req: &Request, out: &mut Vec<u8>) -> bool {
        let (Some(link), Some(text)) = (&self.secure_link, &self.secure_link_md5) else {
            return self.link_behind_sum(req, out);
        };
        let value = link.eval(req);
        let Some((sum, expires)) = split(&value) else { return false };
        if decode_base64url(sum) != Md5::digest(text.eval(req)).as_slice() {
            return false;
        }
        let is_over = expires.is_some_and(|(_, seconds)| seconds < clock::now_unix());
        out.push(if is_over { b'0' } else { b'1' });
        true
    }

    /// `/prefix/sum/link`: appends the link, if the sum is right.
    fn link_behind_sum(&self, req: &Request, out: &mut Vec<u8>) -> bool {
        let Some(secret) = &self.secure_link_secret else { return false };
        let uri = req.main().uri.borrow();
        let mut parts = uri.unparsed.splitn(4, |&byte| byte == b'/').skip(2);
        let (Some(sum), Some(link)) = (parts.next(), parts.next()) else { return false };
        let expected = encode_hex(&Md5::new().chain_update(link).chain_update(secret).finalize());
        if link.is_empty() || !sum.eq_ignore_ascii_case(&expected) {
            return false;
        }
        out.extend_from_slice(link);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_sum_and_time() {
        #[track_caller]
        fn check(value: &str, expected: Option<(&str, Option<i64>)>) {
            let found = split(value.as_bytes());
            let found = found.map(|(sum, time)| (sum.to_str().expect("text"), time.map(|(_, seconds)| seconds)));
            assert_eq!(found, expected, "{value}");
        }
        check("", Some(("", None)));
        check("abc", Some(("abc", None)));
        check("abc,12", Some(("abc", Some(12))));
        for bad in ["abc,", "abc,0", "abc,-1", "abc,+1", "abc,1x", "abc,1,2", "abc,99999999999999999999"] {
            check(bad, None);
        }
    }
}
