//! `ssl_conf_command` and its kin: commands of OpenSSL's configuration files, as far as they have a meaning here.
//!
//! They count more than the directives of the same level that say the same, wherever they stand, and a level with commands has
//! none of the outer one's.
//!
//! Source: SSL_CONF_cmd(3), "SUPPORTED CONFIGURATION FILE COMMANDS"; nginx, "ssl_conf_command".

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, ast};
use tidegate_tls::{
    ciphers::Choice,
    versions::{Version, Versions, WORDS},
};

use super::files::Located;
use crate::conf::Build;

/// Commands that OpenSSL knows and that have no meaning here, in lower case.
const WITHOUT_EFFECT: &[&str] = &[
    "antireplay",
    "chaincafile",
    "chaincapath",
    "chaincastore",
    "clientcafile",
    "clientcapath",
    "clientcastore",
    "clientsignaturealgorithms",
    "dhparameters",
    "ecdhparameters",
    "ignoreunexpectedeof",
    "numtickets",
    "preferredclientsigalgs",
    "recordpadding",
    "requestcafile",
    "requestcapath",
    "requestcastore",
    "rxcertificatecompression",
    "serverinfofile",
    "signaturealgorithms",
    "txcertificatecompression",
    "verifycafile",
    "verifycapath",
    "verifycastore",
];

/// Words of `Options` that are always so here, in lower case: what they turn on is on, what they turn off does not exist.
const GIVEN_OPTIONS: &[&str] = &[
    "-compression",
    "-unsafelegacyrenegotiation",
    "-unsafelegacyserverconnect",
    "bugs",
    "dhsingle",
    "ecdhsingle",
    "encryptthenmac",
    "extendedmastersecret",
    "noresumptiononrenegotiation",
    "norenegotiation",
];

/// What the commands of one level come to: values take the place of those of the directives.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// `Protocol`, `MinProtocol`, `MaxProtocol`
    pub(crate) versions: Option<Versions>,
    /// `CipherString`: suites of TLS 1.2.
    pub(crate) ciphers: Option<Located>,
    /// `Ciphersuites`: those of TLS 1.3.
    pub(crate) suites: Option<Located>,
    /// `Groups`, `Curves`
    pub(crate) groups: Option<Located>,
    /// `Certificate`
    pub(crate) certificate: Option<Located>,
    /// `PrivateKey`
    pub(crate) key: Option<Located>,
    /// `Options SessionTicket`
    pub(crate) tickets: Option<bool>,
    /// `Options ServerPreference`
    pub(crate) server_preference: Option<bool>,
    is_any: bool,
}

impl Commands {
    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Versions that the commands name, if they name any.
    pub fn versions(&self) -> Option<Versions> {
        self.versions
    }

    /// The file of a certificate and that of its key, where commands name them.
    pub fn files(&self) -> [Option<&Located>; 2] {
        [self.certificate.as_ref(), self.key.as_ref()]
    }

    /// Puts suites and groups that the commands name in the place of those in `choice`.
    ///
    /// # Errors
    /// One of the commands names none that is offered.
    pub fn choose(&self, choice: &mut Choice, diagnostics: &mut Diagnostics) -> Result<(), Diagnostic> {
        if let Some(found) = &self.ciphers {
            choice.suites = Some(found.suites("CipherString", diagnostics)?);
        }
        if let Some(found) = &self.suites {
            choice.tls13 = Some(found.suites_of_tls13("Ciphersuites", diagnostics)?);
        }
        if let Some(found) = &self.groups {
            choice.groups = Some(found.groups("Groups", diagnostics)?);
        }
        Ok(())
    }

    /// Takes the outer level's commands, if there are none.
    pub(crate) fn inherit(&mut self, parent: &Self) {
        if !self.is_any {
            self.clone_from(parent);
        }
    }

    /// Takes a directive with a command and its value.
    ///
    /// # Errors
    /// The command or its value is none of OpenSSL's, or no version of TLS is left.
    pub fn take(&mut self, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        let [command, value] = &directive.args[..] else { return Ok(()) };
        self.is_any = true;
        let located = || Some(Located { text: value.value.clone(), span: value.span });
        let name = command.value.to_str_lossy().to_ascii_lowercase();
        let text = value.value.to_str_lossy();
        let fail = || {
            let message = format!("SSL_CONF_cmd(\"{}\", \"{}\") failed", command.value, value.value);
            Diagnostic::new(Severity::Emerg, command.span, message)
        };
        let mut without_effect = Vec::new();
        match name.as_str() {
            "ciphersuites" => self.suites = located(),
            "cipherstring" => self.ciphers = located(),
            "curves" | "groups" => self.groups = located(),
            "certificate" => self.certificate = located(),
            "privatekey" => self.key = located(),
            "protocol" => self.versions = Some(protocol(&text).ok_or_else(fail)?),
            "minprotocol" | "maxprotocol" => self.bound(name == "minprotocol", &text).ok_or_else(fail)?,
            "options" => self.options(&text, &mut without_effect),
            // Whether a certificate is verified is what other directives say.
            "verifymode" if text.eq_ignore_ascii_case("peer") => {}
            "verifymode" => without_effect.push(text.to_string()),
            known if WITHOUT_EFFECT.contains(&known) => without_effect.push(command.value.to_string()),
            _ => return Err(fail().with_hint("OpenSSL has no such command")),
        }
        if self.versions == Some(Versions::NONE) {
            return Err(fail().with_hint("versions before TLSv1.2 are not safe (RFC 8996) and are not offered"));
        }
        for word in without_effect {
            let message = format!("\"{word}\" in \"{}\" has no effect, ignored", directive.name());
            build.diagnostics.warn(command.span, message);
        }
        Ok(())
    }

    /// Leaves out versions beyond the one named `text`, which is the first or the last of them.
    fn bound(&mut self, is_first: bool, text: &str) -> Option<()> {
        let mut versions = self.versions.unwrap_or_default();
        match (version(text), is_first) {
            // `None` is for all.
            (None, _) if text.eq_ignore_ascii_case("none") => {}
            (None, _) => return None,
            (Some(Version::Old | Version::Tls12), true) | (Some(Version::Tls13), false) => {}
            (Some(Version::Tls13), true) => versions.tls12 = false,
            (Some(Version::Tls12), false) => versions.tls13 = false,
            (Some(Version::Old), false) => versions = Versions::NONE,
        }
        self.versions = Some(versions);
        Some(())
    }

    /// `Options word,-word`
    fn options(&mut self, text: &str, without_effect: &mut Vec<String>) {
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (is_on, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.strip_prefix('+').unwrap_or(word)),
            };
            let sign = if is_on { "" } else { "-" };
            match name.to_ascii_lowercase().as_str() {
                "sessionticket" => self.tickets = Some(is_on),
                "serverpreference" => self.server_preference = Some(is_on),
                name if GIVEN_OPTIONS.contains(&format!("{sign}{name}").as_str()) => {}
                _ => without_effect.push(word.to_owned()),
            }
        }
    }
}

fn version(text: &str) -> Option<Version> {
    let known = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    known.map(|(_, version)| *version).or_else(|| text.eq_ignore_ascii_case("TLSv1.0").then_some(Version::Old))
}

/// `Protocol ALL,-TLSv1.2`: words in turn add or take out.
fn protocol(text: &str) -> Option<Versions> {
    let mut versions = Versions::NONE;
    for word in text.split(',').map(str::trim) {
        let (is_on, name) = match word.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        let named = if name.eq_ignore_ascii_case("all") {
            Versions::ALL
        } else {
            let mut named = Versions::NONE;
            named.add(version(name)?);
            named
        };
        if named.tls12 {
            versions.tls12 = is_on;
        }
        if named.tls13 {
            versions.tls13 = is_on;
        }
    }
    Some(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_protocol(text: &str, expected: Option<(bool, bool)>) {
        assert_eq!(protocol(text), expected.map(|(tls12, tls13)| Versions { tls12, tls13 }), "{text}");
    }

    #[test]
    fn protocols_are_added_and_taken_out() {
        check_protocol("ALL", Some((true, true)));
        check_protocol("ALL,-TLSv1.3", Some((true, false)));
        check_protocol("-ALL, +tlsv1.3", Some((false, true)));
        check_protocol("TLSv1, TLSv1.1, TLSv1.2", Some((true, false)));
        check_protocol("TLSv1.1", Some((false, false)));
        check_protocol("TLSv1.4", None);
        check_protocol("", None);
    }

    #[test]
    fn bounds_leave_versions_out() {
        for (first, last, expected) in [
            ("TLSv1", "TLSv1.3", Some((true, true))),
            ("None", "none", Some((true, true))),
            ("TLSv1.3", "TLSv1.3", Some((false, true))),
            ("TLSv1.2", "TLSv1.2", Some((true, false))),
            ("TLSv1.0", "TLSv1.1", Some((false, false))),
            ("TLSv1.2", "no", None),
        ] {
            let mut commands = Commands::default();
            let bound = commands.bound(true, first).and_then(|()| commands.bound(false, last));
            let versions = bound.and(commands.versions);
            assert_eq!(versions, expected.map(|(tls12, tls13)| Versions { tls12, tls13 }), "{first} {last}");
        }
    }

    #[test]
    fn options_without_a_meaning_are_told() {
        let (mut commands, mut told) = (Commands::default(), Vec::new());
        commands.options("-SessionTicket,ServerPreference, NoRenegotiation,-Compression,PrioritizeChaCha", &mut told);
        assert_eq!((commands.tickets, commands.server_preference), (Some(false), Some(true)));
        assert_eq!(told, ["PrioritizeChaCha"]);
    }
}
