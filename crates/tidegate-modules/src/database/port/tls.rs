//! TLS for clients that ask for it within the login.

use std::{path::Path, sync::Arc};

use rustls::ServerConfig;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::{Build, LevelId},
    main_conf::duplicate,
    ssl::files::Located,
};
use tidegate_mysql::server::Server;
use tidegate_net::{
    log::Level,
    session::{Session, Wait},
};
use tidegate_tls::pem;

use super::{LOGIN_TIME_MAX, answers::Answers, note};
use crate::database::BLOCK;

/// Takes a directive that may stand once.
pub(in crate::database) fn once(slot: &mut Option<Located>, directive: &ast::Directive) -> Result<(), Diagnostic> {
    if slot.replace(Located::of(directive)).is_some() { Err(duplicate(directive)) } else { Ok(()) }
}

/// Makes what handshakes need of the files of a certificate and its key.
///
/// # Errors
/// One of them is missing or cannot be used, or they do not belong together.
pub(in crate::database) fn load(level: LevelId, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let conf = build.conf_mut(&BLOCK, level);
    let tls = match (conf.ssl_certificate.clone(), conf.ssl_certificate_key.clone()) {
        (Some(certificate), Some(key)) => Some(settings(&certificate, &key, &build.conf_dir)?),
        (None, None) => None,
        (Some(alone), None) => return Err(lacks(&alone, "ssl_certificate_key")),
        (None, Some(alone)) => return Err(lacks(&alone, "ssl_certificate")),
    };
    build.conf_mut(&BLOCK, level).tls = tls;
    Ok(())
}

fn lacks(alone: &Located, other: &str) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, alone.span, format!("no \"{other}\" is defined for \"{}\"", alone.text))
}

fn settings(certificate: &Located, key: &Located, conf_dir: &Path) -> Result<Arc<ServerConfig>, Diagnostic> {
    let chain = certificate.load(conf_dir, "certificate", pem::certificates)?;
    let secret = key.load(conf_dir, "certificate key", |text| pem::key(text, &[]))?;
    let unusable = |error: rustls::Error| key.unusable("certificate key", &key.text.to_string(), &error);
    let config = ServerConfig::builder_with_provider(tidegate_tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(unusable)?;
    Ok(Arc::new(config))
}

/// Does the handshake that a client has asked for; `false` when there is no TLS now.
pub(super) async fn shake_hands(session: &Session, server: &mut Server<Answers>) -> bool {
    let (Some(stream), Some(config)) = (session.stream.as_tls(), server.backend.tls()) else { return false };
    let mut input = server.take_input();
    let done =
        session.wait(LOGIN_TIME_MAX.as_millis() as u64, |cx| stream.poll_accept(cx, &mut input, &config).map(Ok));
    match done.await {
        // A client that goes on in plain text has asked for nothing of the kind.
        Ok(Wait::Ready(Ok(()))) if session.stream.with_tls(|_| ()).is_some() => {
            server.set_tls();
            server.give(&input);
            true
        }
        Ok(Wait::Ready(Err(error))) => {
            note(session, Level::Info, format_args!("{error} while SSL handshaking"));
            false
        }
        _ => false,
    }
}
