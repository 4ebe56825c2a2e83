//! `tidegate certificates`: the certificates of a configuration, and when they end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::conf::Config;
use tidegate_core::ssl;
use tidegate_core::ssl::files::full_path;
use tidegate_modules::acme;
use tidegate_tls::describe::Description;
use tidegate_tls::pem;

use crate::cli::{self, Options};
use crate::identity::Identity;
use crate::server_process::EXIT_FAILED;
use crate::startup;

pub(crate) const HELP: &str = "Usage: tidegate certificates [-c FILE] [-p DIRECTORY] [-g DIRECTIVES]

Prints the certificates of a configuration, one in each line: days left, when it ends, whom it is for, where it is.
Those that come by themselves are shown as they are on the disk.

";

/// Exit status for a wrong command line.
const EXIT_USAGE: i32 = 2;

/// Prints the list. The result is the exit status.
pub(crate) fn run(arguments: &[OsString]) -> i32 {
    let options = match cli::parse(arguments) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("tidegate: {reason}; tidegate certificates --help tells more");
            return EXIT_USAGE;
        }
    };
    // As for `-t`, nothing outside is touched; problems are for whoever looks here.
    let error_log = options.error_log.clone().or_else(|| Some("stderr".into()));
    let options = Options { test: true, error_log, ..options };
    let Ok(config) = startup::load(&options, Identity::Tidegate) else { return EXIT_FAILED };
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().lock().write_all(list(&config).as_bytes());
    0
}

fn list(config: &Config) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let mut text = String::new();
    for order in config.http_conf(&acme::MODULE).orders() {
        let current = order.managed().current();
        let (names, issuer) = (order, &order.issuer().settings().name);
        let place = order.path().map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
        match current.certified.cert.first().filter(|_| !current.is_provisional) {
            Some(der) => line(&mut text, der, &names.to_string(), &format!("{place} (acme issuer \"{issuer}\")"), now),
            None => {
                let _ = writeln!(text, "none yet: {names}, {place} (acme issuer \"{issuer}\")");
            }
        }
    }
    for (name, path) in files(config) {
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let chain = read.and_then(|text| pem::certificates(&text).map_err(|error| error.to_string()));
        match chain {
            Ok(chain) => {
                let subject = chain.first().and_then(|der| Some(Description::of(der)?.subject())).unwrap_or_default();
                line(&mut text, &chain[0], &subject, &name, now);
            }
            Err(why) => {
                let _ = writeln!(text, "{name}: {why}");
            }
        }
    }
    text
}

/// Certificates in files, by their names in the configuration.
fn files(config: &Config) -> BTreeSet<(String, PathBuf)> {
    let directory = config.conf_path.parent().map(PathBuf::from).unwrap_or_default();
    let confs = config.servers.iter().map(|server| config.levels[server.level.0 as usize].conf(&ssl::MODULE));
    let files = confs.flat_map(|conf| conf.certificate_files()).filter(|found| !found.text.starts_with(b"data:"));
    files.map(|found| (found.text.to_string(), full_path(&directory, &found.text))).collect()
}

fn line(text: &mut String, der: &[u8], names: &str, place: &str, now: i64) {
    let description = Description::of(der);
    let left = description.as_ref().and_then(|description| description.days_left(now)).unwrap_or_default();
    let end = description.and_then(|description| description.dates()).map(|(_, end)| end).unwrap_or_default();
    let _ = writeln!(text, "{left} days, until {end}: {names}, {place}");
}
