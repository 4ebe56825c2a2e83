//! `set_misc`: assigns variables quoted, encoded, hashed, random, by the clock.
//!
//! The directives are part of the rewrite module's script and run in their place in the source. Most take the variable
//! and a value; without the value they change the variable itself.
//!
//! ```text
//! set_quote_sql_str $name $arg_name;
//! set_md5 $key;                      the same as: set_md5 $key $key;
//! ```
//!
//! Follows set-misc-nginx-module.

mod codec;
mod quote;
mod random;

use std::{collections::HashMap, rc::Rc, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
pub(crate) use codec::{decode_base64url, encode_hex};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Ready, Step},
    request::Request,
    template::Template,
};
use tidegate_net::log::Level;

use self::{codec::Alphabet, random::Rotation};
use crate::{rewrite, strftime};

/// Lists of upstreams by name.
type Lists = HashMap<BString, Vec<BString>>;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    base32_padding: Option<bool>,
    base32_alphabet: Option<Alphabet>,
    lists: Option<Arc<Lists>>,
    /// What `set_rotate` gave last; every level has its own.
    rotation: Rotation,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        of_one("set_quote_sql_str", "Quotes a string for MySQL."),
        of_one("set_quote_pgsql_str", "Quotes a string for PostgreSQL."),
        of_one("set_quote_json_str", "Quotes a string for JSON."),
        of_one("set_escape_uri", "Escapes text for a URI."),
        of_one("set_unescape_uri", "Undoes the escapes of a URI; a plus sign is a space."),
        of_one("set_md5", "MD5, in hex."),
        of_one("set_sha1", "SHA-1, in hex."),
        of_one("set_encode_hex", "Hex digits for bytes."),
        of_one("set_decode_hex", "Bytes for hex digits."),
        of_one("set_encode_base64", "Base64 for bytes."),
        of_one("set_decode_base64", "Bytes for base64."),
        of_one("set_encode_base64url", "Base64 for URIs, without padding, for bytes."),
        of_one("set_decode_base64url", "Bytes for base64 of URIs."),
        of_one("set_encode_base32", "Base32 for bytes."),
        of_one("set_decode_base32", "Bytes for base32."),
        Directive::flag("set_base32_padding", |c: &mut Conf| &mut c.base32_padding)
            .within(CONTEXTS)
            .default("on")
            .doc("Base32 is filled up with equals signs."),
        Directive::flag("set_misc_base32_padding", |c: &mut Conf| &mut c.base32_padding)
            .within(CONTEXTS)
            .default("on")
            .doc("Old name of set_base32_padding."),
        Directive::custom("set_base32_alphabet", 1, 1, base32_alphabet)
            .within(CONTEXTS)
            .syntax("digits")
            .default("0123456789abcdefghijklmnopqrstuv")
            .doc("The digits of base32."),
        Directive::custom("set_if_empty", 2, 2, |_: &mut Conf, d, b| several(d, b, 0, if_empty))
            .within(CONTEXTS)
            .syntax("$variable value")
            .doc("Assigns a variable that is empty."),
        Directive::custom("set_hmac_sha1", 3, 3, |_: &mut Conf, d, b| {
            several(d, b, 1, |_, v| hmac::<Hmac<Sha1>>(&v[0], &v[1]))
        })
        .within(CONTEXTS)
        .syntax("$variable secret value")
        .doc("Message authentication code with SHA-1, as bytes."),
        Directive::custom("set_hmac_sha256", 3, 3, |_: &mut Conf, d, b| {
            several(d, b, 1, |_, v| hmac::<Hmac<Sha256>>(&v[0], &v[1]))
        })
        .within(CONTEXTS)
        .syntax("$variable secret value")
        .doc("Message authentication code with SHA-256, as bytes."),
        Directive::custom("set_random", 3, 3, |_: &mut Conf, d, b| {
            several(d, b, 1, |req, v| random::number(req, &v[0], &v[1]))
        })
        .within(CONTEXTS)
        .syntax("$variable from to")
        .doc("A random number, limits included."),
        of_one("set_secure_random_alphanum", "So many random letters and digits."),
        of_one("set_secure_random_lcalpha", "So many random small letters."),
        Directive::custom("set_rotate", 3, 3, |_: &mut Conf, d, b| {
            several(d, b, 0, |req, v| random::rotate(req, &req.module_conf(&MODULE).rotation, &v[0], &v[1], &v[2]))
        })
        .within(CONTEXTS)
        .syntax("$variable from to")
        .doc("The next number of a range, from the start again behind its end."),
        Directive::custom("set_local_today", 1, 1, |_: &mut Conf, d, b| {
            several(d, b, 1, |_, _| strftime::formatted(b"%Y-%m-%d", strftime::Zone::Local))
        })
        .within(CONTEXTS)
        .syntax("$variable")
        .doc("The local date."),
        Directive::custom("set_formatted_gmt_time", 2, 2, |_: &mut Conf, d, b| {
            several(d, b, 1, |_, v| strftime::formatted(&v[0], strftime::Zone::Gmt))
        })
        .within(CONTEXTS)
        .syntax("$variable format")
        .doc("Date and time in Greenwich, in a format of strftime."),
        Directive::custom("set_formatted_local_time", 2, 2, |_: &mut Conf, d, b| {
            several(d, b, 1, |_, v| strftime::formatted(&v[0], strftime::Zone::Local))
        })
        .within(CONTEXTS)
        .syntax("$variable format")
        .doc("Local date and time, in a format of strftime."),
        Directive::custom("set_hashed_upstream", 3, 3, hashed_upstream)
            .within(CONTEXTS)
            .syntax("$variable list key")
            .doc("The upstream of a list that a key belongs to."),
        Directive::custom("upstream_list", 2, u16::MAX, upstream_list)
            .within(Context::HTTP.or(Context::SERVER))
            .syntax("name upstream ...")
            .doc("Gives a list of upstreams a name."),
    ],
    inherit: |child, parent, _| {
        tidegate_core::inherit!(child, parent; base32_padding, base32_alphabet);
        match (&mut child.lists, &parent.lists) {
            (Some(own), Some(outer)) => {
                let own = Arc::make_mut(own);
                for (name, upstreams) in outer.iter() {
                    own.entry(name.clone()).or_insert_with(|| upstreams.clone());
                }
            }
            (own, outer) => {
                if own.is_none() {
                    own.clone_from(outer);
                }
            }
        }
    },
    example: r#"
        location /token {
            set_secure_random_alphanum $token 32;
            set_md5 $digest $token;
            return 200 "$token $digest\n";
        }
    "#,
    ..Module::named("set_misc")
};

/// Everywhere, though in `http` an assignment has no effect.
const CONTEXTS: Context = rewrite::CONTEXTS.or(Context::HTTP);

const fn of_one(name: &'static str, doc: &'static str) -> Directive<Conf> {
    Directive::custom(name, 1, 2, one).within(CONTEXTS).syntax("$variable [value]").doc(doc)
}

/// Computes a value of another one; what a request's location says about it counts where there is one. None is an error.
type Function = fn(Option<&Rc<Request>>, &[u8]) -> Option<Vec<u8>>;

/// The functions of one value, which `ndk.set_var` of Lua offers too.
static FUNCTIONS: &[(&str, Function)] = &[
    ("set_quote_sql_str", |_, v| Some(quote::sql(v))),
    ("set_quote_pgsql_str", |_, v| Some(quote::pgsql(v))),
    ("set_quote_json_str", |_, v| Some(quote::json(v))),
    ("set_escape_uri", |_, v| Some(codec::escape_uri(v))),
    ("set_unescape_uri", |_, v| Some(codec::unescape_uri(v))),
    ("set_md5", |_, v| Some(codec::encode_hex(&Md5::digest(v)))),
    ("set_sha1", |_, v| Some(codec::encode_hex(&Sha1::digest(v)))),
    ("set_encode_hex", |_, v| Some(codec::encode_hex(v))),
    ("set_decode_hex", decode_hex),
    ("set_encode_base64", |_, v| Some(codec::encode_base64(v))),
    ("set_decode_base64", |_, v| Some(codec::decode_base64(v))),
    ("set_encode_base64url", |_, v| Some(codec::encode_base64url(v))),
    ("set_decode_base64url", |_, v| Some(codec::decode_base64url(v))),
    ("set_encode_base32", encode_base32),
    ("set_decode_base32", decode_base32),
    ("set_secure_random_alphanum", |req, v| random::text(req.map(|req| &**req), v, random::ALPHANUM)),
    ("set_local_today", |_, _| strftime::formatted(b"%Y-%m-%d", strftime::Zone::Local)),
    ("set_formatted_gmt_time", |_, v| strftime::formatted(v, strftime::Zone::Gmt)),
    ("set_formatted_local_time", |_, v| strftime::formatted(v, strftime::Zone::Local)),
    ("set_secure_random_lcalpha", |req, v| random::text(req.map(|req| &**req), v, random::LCALPHA)),
];

/// The function of the directive `name`, if it is one of those that make a value of one value.
pub fn function(name: &[u8]) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, function)| *function)
}

/// Computes a value of the values of arguments; none ends the request with an error.
type Compute = fn(&Rc<Request>, &[Vec<u8>]) -> Option<Vec<u8>>;

/// `name $variable [value];`
fn one(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (Some(target), Some(value)) = (directive.args.first(), directive.args.last()) else { return Ok(()) };
    let Some(compute) = function(directive.name()) else { return Ok(()) };
    let value = build.template(value)?;
    assign(build, target, move |req| compute(Some(req), &value.eval_cow(req)))
}

/// `name $variable value…;` with the values from argument `first` on; that of the variable itself is number 0.
fn several(
    directive: &ast::Directive,
    build: &mut Build<'_>,
    first: usize,
    compute: Compute,
) -> Result<(), Diagnostic> {
    let values = templates(&directive.args[first..], build)?;
    assign(build, &directive.args[0], move |req| {
        let values: Vec<Vec<u8>> = values.iter().map(|value| value.eval(req)).collect();
        compute(req, &values)
    })
}

fn templates(args: &[ast::Arg], build: &mut Build<'_>) -> Result<Vec<Template>, Diagnostic> {
    args.iter().map(|arg| build.template(arg)).collect()
}

fn assign(
    build: &mut Build<'_>,
    target: &ast::Arg,
    compute: impl Fn(&Rc<Request>) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Result<(), Diagnostic> {
    rewrite::assign(build, target, move |req| Ready::Now(compute(req).ok_or(Step::Status(500))))?;
    Ok(())
}

fn if_empty(_: &Rc<Request>, values: &[Vec<u8>]) -> Option<Vec<u8>> {
    values.iter().find(|value| !value.is_empty()).cloned().or_else(|| Some(Vec::new()))
}

fn hmac<M: Mac + KeyInit>(secret: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    // Secrets of any length are good.
    let mut mac = <M as KeyInit>::new_from_slice(secret).ok()?;
    mac.update(text);
    Some(mac.finalize().into_bytes().to_vec())
}

fn decode_hex(req: Option<&Rc<Request>>, text: &[u8]) -> Option<Vec<u8>> {
    let bytes = codec::decode_hex(text);
    if let (None, Some(req)) = (&bytes, req) {
        req.log(Level::Error, format_args!("set_decode_hex: invalid value"));
    }
    bytes
}

fn encode_base32(req: Option<&Rc<Request>>, bytes: &[u8]) -> Option<Vec<u8>> {
    let conf = req.map(|req| req.module_conf(&MODULE));
    let padding = conf.is_none_or(|conf| conf.base32_padding != Some(false));
    Some(codec::encode_base32(bytes, alphabet(conf), padding))
}

fn alphabet(conf: Option<&Conf>) -> &Alphabet {
    conf.and_then(|conf| conf.base32_alphabet.as_ref()).unwrap_or(codec::BASE32_ALPHABET)
}

fn decode_base32(req: Option<&Rc<Request>>, text: &[u8]) -> Option<Vec<u8>> {
    Some(codec::decode_base32(text, alphabet(req.map(|req| req.module_conf(&MODULE)))))
}

fn base32_alphabet(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    if conf.base32_alphabet.is_some() {
        return Err(duplicate(directive));
    }
    let alphabet = Alphabet::try_from(arg.value.as_bytes()).map_err(|_| {
        let message =
            format!("\"set_base32_alphabet\" directive takes an alphabet of {} bytes but 32 expected", arg.value.len());
        Diagnostic::new(Severity::Emerg, arg.span, message)
    })?;
    conf.base32_alphabet = Some(alphabet);
    Ok(())
}

fn upstream_list(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let [name, upstreams @ ..] = &*directive.args else { return Ok(()) };
    let lists = Arc::make_mut(conf.lists.get_or_insert_default());
    if lists.contains_key(&name.value) {
        let message = format!("duplicate upstream list \"{}\"", name.value);
        return Err(Diagnostic::new(Severity::Emerg, name.span, message));
    }
    lists.insert(name.value.clone(), upstreams.iter().map(|upstream| upstream.value.clone()).collect());
    Ok(())
}

fn hashed_upstream(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (list, key) = (&directive.args[1], &directive.args[2]);
    let (name, key) = (build.template(list)?, build.template(key)?);
    let Some(literal) = name.as_literal() else {
        return assign(build, &directive.args[0], move |req| {
            let name = name.eval(req);
            let found = req.module_conf(&MODULE).lists.as_ref().and_then(|lists| lists.get(name.as_bstr()));
            let Some(found) = found else {
                req.log(Level::Error, format_args!("{}", undefined_list(name.as_bstr())));
                return None;
            };
            Some(choose(found, &key.eval_cow(req)))
        });
    };
    // A list stands at this level or around it.
    let of = |conf: &Conf| conf.lists.as_ref().and_then(|lists| lists.get(literal.as_bstr())).cloned();
    let around = std::iter::successors(build.parent_of(build.level()), |&level| build.parent_of(level));
    let found = of(conf).or_else(|| around.filter_map(|level| build.conf_at(&MODULE, level)).find_map(of));
    let Some(found) = found else {
        return Err(Diagnostic::new(Severity::Emerg, list.span, undefined_list(literal.as_bstr())));
    };
    assign(build, &directive.args[0], move |req| Some(choose(&found, &key.eval_cow(req))))
}

fn undefined_list(name: &BStr) -> String {
    format!("set_hashed_upstream: upstream list \"{name}\" not defined yet")
}

/// The upstream that `key` belongs to.
fn choose(upstreams: &[BString], key: &[u8]) -> Vec<u8> {
    let hash =
        key.iter().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte.to_ascii_lowercase())));
    let chosen = (hash as usize).checked_rem(upstreams.len()).and_then(|at| upstreams.get(at));
    chosen.map(|upstream| upstream.to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authenticates() {
        let hex = |mac: Option<Vec<u8>>| mac.map(|mac| BString::from(codec::encode_hex(&mac)));
        let sha1 = "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9";
        let text = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(hex(hmac::<Hmac<Sha1>>(b"key", text)), Some(sha1.into()));
        let sha256 = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert_eq!(hex(hmac::<Hmac<Sha256>>(b"key", text)), Some(sha256.into()));
    }

    #[test]
    fn chooses_upstreams() {
        let list: Vec<BString> = ["a", "b", "c"].map(BString::from).into();
        assert_eq!(choose(&list, b""), b"a");
        // 'a' is 97, which is 1 modulo 3, in either case.
        assert_eq!(choose(&list, b"a"), b"b");
        assert_eq!(choose(&list, b"A"), b"b");
        assert_eq!(choose(&[], b"a"), b"");
    }
}
