//! What the directives about TLS name: files beside the configuration, or texts in it.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, Span, ast};
use tidegate_tls::{
    ciphers,
    pem::{self, PemError},
};

use crate::{files, log::SysError};

/// What stands ahead of a text that takes the place of a file.
const DATA: &[u8] = b"data:";

/// What a directive names.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// A text in the configuration.
    Text(&'a [u8]),
    /// A file; nothing of it has been read.
    File(File),
}

/// Text of a directive, and where it stands.
#[derive(Debug, Clone)]
pub struct Located {
    /// The text.
    pub text: BString,
    /// Its place.
    pub span: Span,
}

impl Located {
    /// The first argument of a directive.
    pub fn of(directive: &ast::Directive) -> Self {
        let arg = &directive.args[0];
        Self { text: arg.value.clone(), span: arg.span }
    }

    /// Reads and understands what it names. `what` says what that is. Relative names start in `conf_dir`.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn load<T>(
        &self,
        conf_dir: &Path,
        what: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, PemError>,
    ) -> Result<T, Diagnostic> {
        self.understand(self.source(conf_dir, what)?, conf_dir, what, parse)
    }

    /// Opens what it names.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn source(&self, conf_dir: &Path, what: &str) -> Result<Source<'_>, Diagnostic> {
        if let Some(text) = self.text.strip_prefix(DATA) {
            return Ok(Source::Text(text));
        }
        let path = full_path(conf_dir, &self.text);
        let opened = files::open(&path);
        opened.map(Source::File).map_err(|error| self.unusable(what, &path.display().to_string(), &SysError(&error)))
    }

    /// Reads and understands what it names, and was opened.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub(super) fn understand<T>(
        &self,
        source: Source<'_>,
        conf_dir: &Path,
        what: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, PemError>,
    ) -> Result<T, Diagnostic> {
        let mut file = match source {
            Source::Text(text) => {
                return parse(text).map_err(|error| self.unusable(what, "data:", &format_args!("({error})")));
            }
            Source::File(file) => file,
        };
        let shown = full_path(conf_dir, &self.text).display().to_string();
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| self.unusable(what, &shown, &SysError(&error)))?;
        parse(&text).map_err(|error| self.unusable(what, &shown, &format_args!("({error})")))
    }

    /// A report that the thing called `name` cannot be used.
    pub fn unusable(&self, what: &str, name: &str, why: &dyn fmt::Display) -> Diagnostic {
        Diagnostic::new(Severity::Emerg, self.span, format!("cannot load {what} \"{name}\": {why}"))
    }

    /// The passwords that it names.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn passwords(&self, conf_dir: &Path) -> Result<Vec<Vec<u8>>, Diagnostic> {
        self.load(conf_dir, "password file", |text| Ok(pem::passwords(text)))
    }

    /// The suites of TLS 1.2 that it lists; `name` is the directive's. Those that are not offered are told.
    ///
    /// # Errors
    /// It means no suite of anybody's.
    pub fn suites(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Vec<rustls::CipherSuite>, Diagnostic> {
        let named = ciphers::suites(&self.text.to_str_lossy());
        if named.found.is_empty() && named.absent.is_empty() {
            let message = format!("\"{name}\" names no cipher: \"{}\" (no cipher match)", self.text);
            return Err(Diagnostic::new(Severity::Emerg, self.span, message));
        }
        self.warn_of_absent(name, &named.absent, diagnostics);
        Ok(named.found)
    }

    /// The suites of TLS 1.3 that it lists; `name` is the directive's. Those that are not offered are told.
    ///
    /// # Errors
    /// None of them is offered.
    pub fn suites_of_tls13(
        &self,
        name: &str,
        diagnostics: &mut Diagnostics,
    ) -> Result<Vec<rustls::CipherSuite>, Diagnostic> {
        let named = ciphers::suites_of_tls13(&self.text.to_str_lossy());
        if named.found.is_empty() {
            let message = format!("\"{name}\" names no cipher: \"{}\" (no cipher match)", self.text);
            return Err(Diagnostic::new(Severity::Emerg, self.span, message));
        }
        self.warn_of_absent(name, &named.absent, diagnostics);
        Ok(named.found)
    }

    /// The groups of the key exchange that it lists; `name` is the directive's. Those that are not offered are told.
    ///
    /// # Errors
    /// A word is no group, or none of them is offered.
    pub fn groups(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Vec<rustls::NamedGroup>, Diagnostic> {
        let fail = |message: String| Err(Diagnostic::new(Severity::Emerg, self.span, message));
        match ciphers::groups(&self.text.to_str_lossy()) {
            Err(word) => fail(format!("\"{name}\": unknown curve \"{word}\"")),
            Ok(named) if named.found.is_empty() => {
                fail(format!("\"{name}\" names no curve that is offered: X25519, prime256v1, secp384r1"))
            }
            Ok(named) => {
                self.warn_of_absent(name, &named.absent, diagnostics);
                Ok(named.found)
            }
        }
    }

    fn warn_of_absent(&self, name: &str, absent: &[String], diagnostics: &mut Diagnostics) {
        if !absent.is_empty() {
            diagnostics.warn(self.span, format!("\"{name}\": not offered: {}", absent.join(", ")));
        }
    }
}

/// A path as nginx understands those of certificates: relative ones start where the configuration file is.
pub fn full_path(conf_dir: &Path, path: &[u8]) -> PathBuf {
    conf_dir.join(OsStr::from_bytes(path))
}
