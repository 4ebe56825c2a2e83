//! `ssl_key_log`, `proxy_ssl_key_log`, `lua_ssl_key_log`: the secrets of connections, for who looks into captured packets.
//!
//! A line for each secret, as Wireshark and its like read them: label, the client's random bytes, the secret.
//!
//! Source: nginx, "proxy_ssl_key_log"; NSS key log format (draft-ietf-tls-keylogfile).

use std::{fmt, io::Write as _, sync::Arc};

use bstr::BStr;
use rustls::KeyLog;
use tidegate_tls::client::Secrets;

use super::files::full_path;
use crate::{
    conf::Build,
    log::{AccessLog, Destination, LogFile},
};

/// A file that secrets go to.
#[derive(Debug)]
struct KeyLogFile(Arc<AccessLog>);

/// Shows bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        // Writing to a vector cannot fail.
        self.0.write(|line| drop(write!(line, "{label} {} {}", Hex(client_random), Hex(secret))));
    }
}

/// The file of a directive; relative names start where the configuration file is. It is opened when the configuration is in force,
/// and again with the logs.
pub fn open(path: &BStr, build: &Build<'_>) -> Secrets {
    let file = LogFile::register(Destination::Secret(full_path(&build.conf_dir, path)));
    Secrets(Arc::new(KeyLogFile(AccessLog::new(file, None))))
}
