//! The `lua_ssl_*` directives about handshakes of cosockets.
//!
//! Source: lua-nginx-module, "lua_ssl_…".

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bstr::ByteSlice;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use tidegate_conf::diagnostic::Level as Severity;
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::ssl::commands::Commands;
use tidegate_core::ssl::key_log;
use tidegate_core::{files, inherit};
use tidegate_tls::ciphers::Choice;
use tidegate_tls::client::{ClientOptions, Identity, Secrets};
use tidegate_tls::pem::{self, PemError};
use tidegate_tls::versions::{Versions, WORDS};
use tidegate_tls::{Shared, ciphers};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub(crate) struct Conf {
    lua_ssl_trusted_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_crl: Option<Arc<Vec<CertificateRevocationListDer<'static>>>>,
    lua_ssl_certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    lua_ssl_certificate_key: Option<Arc<PrivateKeyDer<'static>>>,
    lua_ssl_protocols: Option<Versions>,
    lua_ssl_verify_depth: Option<u64>,
    lua_ssl_ciphers: Option<Arc<Vec<rustls::CipherSuite>>>,
    lua_ssl_key_log: Option<Secrets>,
    /// The commands so far.
    lua_ssl_conf_command: Commands,
    /// What they come to.
    commanded: Option<Arc<Commanded>>,
}

/// What the commands of a level come to.
#[derive(Debug, Default)]
struct Commanded {
    versions: Option<Versions>,
    ciphers: Choice,
    certificate: Option<Arc<Vec<CertificateDer<'static>>>>,
    key: Option<Arc<PrivateKeyDer<'static>>>,
}

impl Conf {
    /// What a handshake is made with, whose script says whether it verifies and tells the server's name.
    pub(super) fn options(&self, verify: bool, named: bool, identity: Option<Arc<Identity>>) -> ClientOptions {
        let none = Commanded::default();
        let commanded = self.commanded.as_deref().unwrap_or(&none);
        let suites = || self.lua_ssl_ciphers.as_deref().cloned();
        let configured = || {
            let chain = commanded.certificate.clone().or_else(|| self.lua_ssl_certificate.clone())?;
            let key = commanded.key.clone().or_else(|| self.lua_ssl_certificate_key.clone())?;
            Some(Arc::new(Identity { chain, key }))
        };
        ClientOptions {
            verify,
            check_name: named,
            continues: false,
            depth_max: self.lua_ssl_verify_depth,
            versions: commanded.versions.or(self.lua_ssl_protocols).unwrap_or_default(),
            ciphers: Choice { suites: commanded.ciphers.suites.clone().or_else(suites), ..commanded.ciphers.clone() },
            sends_name: named,
            // Scripts say which session is resumed.
            resumes: false,
            trusted: self.lua_ssl_trusted_certificate.clone().map(Shared),
            revoked: self.lua_ssl_crl.clone().map(Shared),
            identity: identity.or_else(configured).map(Shared),
            secrets: self.lua_ssl_key_log.clone(),
        }
    }
}

/// The module.
pub(crate) static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("lua_ssl_trusted_certificate", 1, 1, trusted)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates of authorities that cosockets trust."),
        Directive::custom("lua_ssl_crl", 1, 1, revoked)
            .within(Context::ALL)
            .syntax("file")
            .doc("Certificates that are revoked."),
        Directive::custom("lua_ssl_certificate", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate = Some(Arc::new(read(directive, build, pem::certificates)?));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("Certificate that cosockets show to servers that ask for one."),
        Directive::custom("lua_ssl_certificate_key", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_certificate_key = Some(Arc::new(read(directive, build, |text| pem::key(text, &[]))?));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("file")
        .doc("The private key of `lua_ssl_certificate`."),
        Directive::custom("lua_ssl_protocols", 1, u16::MAX, protocols)
            .within(Context::ALL)
            .syntax("version ...")
            .default("TLSv1.2 TLSv1.3")
            .doc("Versions of TLS that cosockets use. Versions before 1.2 are not offered."),
        Directive::number("lua_ssl_verify_depth", |c: &mut Conf| &mut c.lua_ssl_verify_depth)
            .within(Context::ALL)
            .default("100")
            .doc("Certificates that may stand between a server's and a trusted one."),
        Directive::custom("lua_ssl_ciphers", 1, 1, suites)
            .within(Context::ALL)
            .syntax("ciphers")
            .default("DEFAULT")
            .doc("Cipher suites of TLS 1.2, in OpenSSL's words; -t names those that are not offered."),
        Directive::custom("lua_ssl_conf_command", 2, 2, command)
            .within(Context::ALL)
            .syntax("name value")
            .doc("A command of OpenSSL's configuration: Protocol, MinProtocol, MaxProtocol, CipherString, Ciphersuites, Groups, Certificate, PrivateKey; -t names others."),
        Directive::custom("lua_ssl_key_log", 1, 1, |conf: &mut Conf, directive, build| {
            conf.lua_ssl_key_log = Some(key_log::open(directive.args[0].value.as_bstr(), build));
            Ok(())
        })
        .within(Context::ALL)
        .syntax("path")
        .doc("Secrets of the connections of cosockets go to this file, for who looks into captured packets."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent;
            lua_ssl_trusted_certificate, lua_ssl_crl, lua_ssl_certificate, lua_ssl_certificate_key, lua_ssl_protocols, lua_ssl_verify_depth, lua_ssl_ciphers,
            lua_ssl_key_log, commanded,
        );
    },
    example: "
        lua_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
        lua_ssl_verify_depth 3;
    ",
    ..Module::named("lua_ssl")
};

fn read<T>(
    directive: &ast::Directive,
    build: &Build<'_>,
    parse: fn(&[u8]) -> Result<T, PemError>,
) -> Result<T, Diagnostic> {
    // As in nginx, certificates are looked for beside the configuration.
    let path = build.conf_dir.join(OsStr::from_bytes(&directive.args[0].value));
    let fail = |why: String| {
        let message = format!("cannot load certificate \"{}\": {why}", path.display());
        Diagnostic::new(Severity::Emerg, directive.args[0].span, message)
    };
    let text = files::read(&path).map_err(|error| fail(error.to_string()))?;
    parse(&text).map_err(|error| fail(error.to_string()))
}

fn trusted(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_trusted_certificate = Some(Arc::new(read(directive, build, pem::certificates)?));
    Ok(())
}

fn revoked(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_crl = Some(Arc::new(read(directive, build, pem::revocation_lists)?));
    Ok(())
}

fn suites(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let named = ciphers::suites(&arg.value.to_str_lossy());
    if named.found.is_empty() && named.absent.is_empty() {
        let message = format!("\"lua_ssl_ciphers\" names no cipher: \"{}\" (no cipher match)", arg.value);
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    }
    if !named.absent.is_empty() {
        build.diagnostics.warn(arg.span, format!("\"lua_ssl_ciphers\": not offered: {}", named.absent.join(", ")));
    }
    conf.lua_ssl_ciphers = Some(Arc::new(named.found));
    Ok(())
}

fn command(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.lua_ssl_conf_command.take(directive, build)?;
    let commands = &conf.lua_ssl_conf_command;
    let mut commanded = Commanded { versions: commands.versions(), ..Commanded::default() };
    commands.choose(&mut commanded.ciphers, build.diagnostics)?;
    let [certificate, key] = commands.files();
    if let Some(file) = certificate {
        commanded.certificate = Some(Arc::new(file.load(&build.conf_dir, "certificate", pem::certificates)?));
    }
    if let Some(file) = key {
        commanded.key = Some(Arc::new(file.load(&build.conf_dir, "certificate key", |text| pem::key(text, &[]))?));
    }
    conf.commanded = Some(Arc::new(commanded));
    Ok(())
}

fn protocols(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut versions = Versions::NONE;
    for arg in &directive.args {
        let version = values::word(arg.value.as_bstr(), WORDS).map_err(|_| {
            let message = format!("invalid value \"{}\"", arg.value.as_bstr());
            Diagnostic::new(Severity::Emerg, arg.span, message)
        })?;
        versions.add(version);
    }
    if versions == Versions::NONE {
        // As in OpenResty, it is the handshakes that fail.
        let message = "\"lua_ssl_protocols\" names no version that is offered: TLSv1.2, TLSv1.3; handshakes will fail";
        build.diagnostics.warn(directive.span, message);
    }
    conf.lua_ssl_protocols = Some(versions);
    Ok(())
}
