//! The block `acme_issuer`: an authority, and what it is told.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bstr::{BString, ByteSlice};
use rustls::pki_types::PrivateKeyDer;
use tidegate_acme::{
    Issuer,
    issuer::{Challenge, Settings},
};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};
use tidegate_core::{
    conf::{Build, LevelId},
    main_conf::{block_of, duplicate},
    module::{Context, Directive, Module},
    ssl::files::Located,
};
use tidegate_tls::{
    Shared,
    pem::{self, PemError},
};

use super::{emerg, resolver_of};

/// What the directives of a block say.
#[derive(Debug, Default)]
pub struct Conf {
    /// Where the block stands.
    span: Option<Span>,
    uri: Option<Located>,
    account_key: Option<Located>,
    challenge: Option<u32>,
    contacts: Vec<BString>,
    /// Identifier, and the file or text of the key.
    external_account_key: Option<(BString, Located)>,
    profile: Option<(BString, bool)>,
    ssl_trusted_certificate: Option<Located>,
    ssl_verify: Option<bool>,
    /// `None` inside for `off`.
    state_path: Option<Option<BString>>,
    accept_terms_of_service: bool,
}

const INSIDE: Context = Context::ACME_ISSUER;

/// The module of what stands inside a block.
pub static BLOCK: Module<Conf> = Module {
    directives: &[
        Directive::custom("uri", 1, 1, |conf: &mut Conf, d, _| once(&mut conf.uri, Located::of(d), d))
            .within(INSIDE)
            .syntax("uri")
            .doc("Address of the authority's directory; there has to be one."),
        Directive::custom("account_key", 1, 1, |conf: &mut Conf, d, _| once(&mut conf.account_key, Located::of(d), d))
            .within(INSIDE)
            .syntax("ecdsa:256 | file")
            .default("ecdsa:256")
            .doc("Key of the account: one that is made, or that of a PEM file."),
        Directive::choice("challenge", |c: &mut Conf| &mut c.challenge, CHALLENGES)
            .within(INSIDE)
            .syntax("http-01 | tls-alpn-01")
            .default("http-01")
            .doc(
                "How the authority is shown that a name is ours: by a request on port 80, or a handshake on port 443.",
            ),
        Directive::custom("contact", 1, u16::MAX, contact)
            .within(INSIDE)
            .syntax("url ...")
            .doc("Where the authority may write to; mailto: is assumed."),
        Directive::custom("external_account_key", 2, 2, |conf: &mut Conf, d, _| {
            let file = Located { text: d.args[1].value.clone(), span: d.args[1].span };
            once(&mut conf.external_account_key, (d.args[0].value.clone(), file), d)
        })
        .within(INSIDE)
        .syntax("kid file | kid data:key")
        .doc("Account elsewhere that this one belongs to: its identifier and its key in base64url."),
        Directive::custom("profile", 1, 2, profile).within(INSIDE).syntax("name [require]").doc(
            "Kind of certificate that is asked for, where the authority offers it; with require no other will do.",
        ),
        Directive::custom("ssl_trusted_certificate", 1, 1, |conf: &mut Conf, d, _| {
            once(&mut conf.ssl_trusted_certificate, Located::of(d), d)
        })
        .within(INSIDE)
        .syntax("file")
        .doc("PEM file with the authorities by which the server of the issuer is verified, instead of the system's."),
        Directive::flag("ssl_verify", |c: &mut Conf| &mut c.ssl_verify)
            .within(INSIDE)
            .default("on")
            .doc("The certificate of the issuer's server is verified."),
        Directive::custom("state_path", 1, 1, |conf: &mut Conf, d, _| {
            let path = d.args[0].value.clone();
            once(&mut conf.state_path, (path != "off").then_some(path), d)
        })
        .within(INSIDE)
        .syntax("path | off")
        .default("acme_name")
        .doc("Directory for the account and the certificates with their keys, which outlive the server there."),
        Directive::custom("accept_terms_of_service", 0, 0, |conf: &mut Conf, _, _| {
            conf.accept_terms_of_service = true;
            Ok(())
        })
        .within(INSIDE)
        .syntax("")
        .doc("Agrees to the authority's terms of service."),
    ],
    ..Module::named("acme_issuer")
};

const CHALLENGES: &[(&str, u32)] = &[("http-01", 0), ("http", 0), ("tls-alpn-01", 1), ("tls-alpn", 1)];

fn once<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(duplicate(directive)),
    }
}

fn contact(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    for arg in &directive.args {
        let has_scheme = arg.value.find_byte(b':').is_some();
        let scheme: &[u8] = if has_scheme { b"" } else { b"mailto:" };
        conf.contacts.push([scheme, &arg.value].concat().into());
    }
    Ok(())
}

fn profile(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let is_required = match directive.args.get(1) {
        None => false,
        Some(arg) if arg.value == "require" => true,
        Some(arg) => return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["require"])),
    };
    once(&mut conf.profile, (directive.args[0].value.clone(), is_required), directive)
}

/// Reads a block.
pub(super) fn open(
    conf: &mut super::Conf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    let name = &directive.args[0];
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    // It becomes the name of a directory.
    if name.value.is_empty() || !name.value.iter().all(is_word) || name.value.starts_with(b".") {
        return Err(emerg(name.span, format!("invalid acme issuer name \"{}\"", name.value)));
    }
    if conf.issuers.iter().any(|(known, _)| *known == name.value) {
        return Err(emerg(name.span, format!("duplicate acme issuer \"{}\"", name.value)));
    }
    let level = build.open_level(INSIDE, Some(build.level()), name.value.clone());
    build.walk(level, INSIDE, block_of(directive));
    let inside = build.conf_mut(&BLOCK, level);
    inside.span = Some(name.span);
    let missing = match &inside.uri {
        None => Some(emerg(name.span, format!("\"uri\" is missing in acme issuer \"{}\"", name.value))),
        Some(uri) if !uri.text.starts_with(b"https://") => {
            Some(emerg(uri.span, format!("invalid uri \"{}\": authorities are asked by https alone", uri.text)))
        }
        Some(_) => None,
    };
    let default = format!("acme_{}", name.value);
    let state = match &inside.state_path {
        Some(path) => path.clone(),
        None => Some(default.into()),
    };
    if let Some(path) = state {
        build.data_path(&path);
        build.conf_mut(&BLOCK, level).state_path = Some(Some(path));
    }
    conf.issuers.push((name.value.clone(), level));
    missing.map_or(Ok(()), Err)
}

/// The issuer of a block that was read without a fault.
pub(super) fn made(build: &mut Build<'_>, name: &BString, level: LevelId) -> Result<Arc<Issuer>, Diagnostic> {
    let (conf_dir, (resolver, resolver_timeout)) = (build.conf_dir.clone(), resolver_of(build));
    let Some(conf) = build.conf_at(&BLOCK, level) else {
        return Err(Diagnostic::new(Severity::Emerg, None, format!("acme issuer \"{name}\" is empty")));
    };
    let trusted = match &conf.ssl_trusted_certificate {
        Some(found) => Some(Shared(Arc::new(found.load(&conf_dir, "certificate", pem::certificates)?))),
        None => None,
    };
    let account_key = account_key(conf, &conf_dir)?;
    let external_account = match &conf.external_account_key {
        Some((id, found)) => {
            let key = found.load(&conf_dir, "external account key", |text| {
                URL_SAFE_NO_PAD.decode(text.trim_ascii()).map_err(|_| PemError::Nothing("key in base64url"))
            })?;
            if account_key.is_some() {
                let message = "\"external_account_key\" goes with a new account, not with that of \"account_key\"";
                return Err(emerg(found.span, message.to_owned()));
            }
            Some((id.to_string(), Shared(Arc::new(key))))
        }
        None => None,
    };
    let text = |text: &BString| text.to_string();
    Ok(Issuer::shared(Settings {
        name: name.to_string(),
        uri: conf.uri.as_ref().map(|uri| text(&uri.text)).unwrap_or_default(),
        account_key,
        challenge: if conf.challenge == Some(1) { Challenge::TlsAlpn01 } else { Challenge::Http01 },
        contacts: conf.contacts.iter().map(text).collect(),
        external_account,
        profile: conf.profile.as_ref().map(|(profile, is_required)| (text(profile), *is_required)),
        trusted,
        verify: conf.ssl_verify.unwrap_or(true),
        state_path: conf.state_path.as_ref().and_then(|path| Some(build.full_path(path.as_ref()?.as_bstr()))),
        accepts_terms: conf.accept_terms_of_service,
        resolver,
        resolver_timeout,
    }))
}

/// The key of `account_key`, if it names a file.
fn account_key(conf: &Conf, conf_dir: &std::path::Path) -> Result<Option<Shared<Vec<u8>>>, Diagnostic> {
    let Some(found) = conf.account_key.as_ref() else { return Ok(None) };
    match &**found.text {
        b"ecdsa" | b"ecdsa:256" => return Ok(None),
        text if text.starts_with(b"ecdsa:") || text == b"rsa" || text.starts_with(b"rsa:") => {
            return Err(emerg(found.span, format!("account keys of type \"{}\" are not used", found.text))
                .with_hint("say ecdsa:256, or name the file of such a key"));
        }
        _ => {}
    }
    if !conf.accept_terms_of_service {
        let message = "\"account_key\" with a file needs \"accept_terms_of_service\"".to_owned();
        return Err(emerg(found.span, message));
    }
    let key = found.load(conf_dir, "account key", |text| match pem::key(text, &[])? {
        PrivateKeyDer::Pkcs8(key) => Ok(key.secret_pkcs8_der().to_vec()),
        _ => Err(PemError::Nothing("key in PKCS #8 (\"openssl pkcs8 -topk8 -nocrypt\" makes one)")),
    })?;
    Ok(Some(Shared(Arc::new(key))))
}
