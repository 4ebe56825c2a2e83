//! A certificate that the configuration asks for, and what there is of it.

use std::{
    fmt, io,
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use rcgen::{CertificateParams, DistinguishedName, DnType};
use sha2::{Digest as _, Sha256};
use tidegate_net::log::{Level, SysError, note};
use tidegate_tls::managed::{Managed, Material};

use crate::{
    issuer::{Issuer, Settings},
    key::KeyType,
    store,
    under_way::UnderWay,
};

/// A certificate that is kept up to date.
#[derive(Debug)]
pub struct Order {
    issuer: Arc<Issuer>,
    /// Names and addresses, in lower case; at least one.
    names: Vec<String>,
    key_type: KeyType,
    managed: Arc<Managed>,
    is_kept: AtomicBool,
    /// The certificate of the moment has come, and could not be written.
    is_unwritten: AtomicBool,
    /// What the authority works on, where that could not be written.
    under_way: Mutex<Option<UnderWay>>,
}

/// Prints the names.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))
    }
}

impl Order {
    /// The order for a certificate of `issuer` for `names` in lower case, of which there has to be one. It goes on over a
    /// reload that does not change it.
    ///
    /// # Errors
    /// A name is none that a certificate could have.
    pub fn shared(issuer: &Arc<Issuer>, names: &[String], key_type: KeyType) -> Result<Arc<Self>, rcgen::Error> {
        static KNOWN: Mutex<Vec<Weak<Order>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|order| order.strong_count() > 0);
        let same = |order: &Arc<Order>| {
            Arc::ptr_eq(&order.issuer, issuer) && order.names == names && order.key_type == key_type
        };
        if let Some(order) = known.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(order);
        }
        let managed = Arc::new(Managed::new(provisional(names)?));
        let order = Arc::new(Self {
            issuer: issuer.clone(),
            names: names.to_vec(),
            key_type,
            managed,
            is_kept: AtomicBool::new(false),
            is_unwritten: AtomicBool::new(false),
            under_way: Mutex::default(),
        });
        order.adopt_stored();
        known.push(Arc::downgrade(&order));
        Ok(order)
    }

    /// The certificate of the moment.
    pub fn managed(&self) -> &Arc<Managed> {
        &self.managed
    }
    /// Who gives it.
    pub fn issuer(&self) -> &Arc<Issuer> {
        &self.issuer
    }
    /// The names and addresses that it is for.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Type of its key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// The file that has it, if it outlives the process.
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.issuer.store()?.path(&self.file_name()))
    }

    /// Whether nobody looks after it yet; from now on the caller does.
    pub(crate) fn begin_keeping(&self) -> bool {
        !self.is_kept.swap(true, Ordering::Relaxed)
    }

    /// Name of the certificate's file.
    pub(crate) fn file_name(&self) -> String {
        self.stem() + ".pem"
    }

    /// Name of the file of what the authority works on.
    fn under_way_name(&self) -> String {
        self.stem() + ".order"
    }

    /// What names of files begin with: the first name for people, and what tells it from all others.
    fn stem(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.key_type.name());
        // Issuers may share a directory, and differ in what they give for the same names.
        let Settings { uri, profile, .. } = self.issuer.settings();
        let profile = profile.as_ref().map(|(profile, _)| profile.as_str());
        for part in [uri.as_str(), profile.unwrap_or_default()].into_iter().chain(self.names.iter().map(String::as_str))
        {
            hash.update(b"\0");
            hash.update(part);
        }
        let first = self.names.first().map_or("", String::as_str);
        // Addresses have characters that are none of a name's.
        let mut file: String =
            first.chars().map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect();
        file.push('-');
        file + &store::short_hash(hash)
    }

    /// What the authority works on, as far as this process or one before it has kept that.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        if let Some(under_way) = &*self.unwritten_under_way() {
            return Some(under_way.clone());
        }
        let text = self.issuer.store()?.read(&self.under_way_name()).ok()??;
        UnderWay::of_text(&text)
    }

    /// Keeps what the authority works on, in memory if nothing can be written.
    pub(crate) fn keep_under_way(&self, under_way: UnderWay) {
        let written = self.issuer.store().map(|store| store.write(&self.under_way_name(), &under_way.text()));
        if let Some(Err(error)) = &written {
            note(Level::Warn, format_args!("the order for {self} cannot be kept {}", SysError(error)));
        }
        *self.unwritten_under_way() = (!matches!(written, Some(Ok(())))).then_some(under_way);
    }

    /// Forgets what the authority has worked on: its certificate is kept, or there will be none.
    pub(crate) fn forget_under_way(&self) {
        *self.unwritten_under_way() = None;
        // What stays is not gone on with: its certificate is the one that is shown, or the authority knows no such order.
        let _ = self.issuer.store().map(|store| store.remove(&self.under_way_name()));
    }

    fn unwritten_under_way(&self) -> MutexGuard<'_, Option<UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the certificate of an earlier run or of another process, if it is newer than what there is.
    pub(crate) fn adopt_stored(&self) {
        let Some(store) = self.issuer.store() else { return };
        let name = self.file_name();
        let text = match store.read(&name) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => {
                note(Level::Error, format_args!("\"{}\" cannot be read: {error}", store.path(&name).display()));
                return;
            }
        };
        match Material::of_pem(text.clone(), text) {
            Ok(stored) => {
                let current = self.managed.current();
                if current.is_provisional || begin(&stored) > begin(&current) {
                    self.managed.replace(stored);
                    self.is_unwritten.store(false, Ordering::Relaxed);
                }
            }
            Err(error) => {
                note(Level::Error, format_args!("\"{}\" is of no use: {error}", store.path(&name).display()));
            }
        }
    }

    /// Shows a certificate from now on, and keeps it.
    pub(crate) fn accept(&self, next: Material) {
        let written = self.write(&next);
        self.is_unwritten.store(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written {
            note(
                Level::Error,
                format_args!("the certificate for {self} cannot be kept {}, which is tried again", SysError(&error)),
            );
        }
        self.managed.replace(next);
    }

    /// Writes what could not be written before, the account too: a disk that was full may have room now. Answers whether nothing is left.
    pub(crate) fn write_again(&self) -> bool {
        if self.is_unwritten.load(Ordering::Relaxed) && self.write_alone().is_ok() {
            self.is_unwritten.store(false, Ordering::Relaxed);
            note(Level::Notice, format_args!("the certificate for {self} is kept now"));
        }
        self.issuer.write_again() && !self.is_unwritten.load(Ordering::Relaxed)
    }

    /// Writes the certificate of the moment, unless another process is about to: what is not whole yet has the same name.
    fn write_alone(&self) -> io::Result<()> {
        let Some(store) = self.issuer.store() else { return Ok(()) };
        let Some(_lock) = store.lock(&self.file_name())? else { return Err(io::ErrorKind::WouldBlock.into()) };
        self.write(&self.managed.current())
    }

    /// Writes a certificate. The order that it came from is over when it is kept, and no sooner.
    fn write(&self, material: &Material) -> io::Result<()> {
        if let Some(store) = self.issuer.store() {
            store.write(&self.file_name(), &format!("{}{}", material.key, material.chain))?;
        }
        self.forget_under_way();
        Ok(())
    }
}

fn begin(material: &Material) -> Option<i64> {
    material.times().map(|(from, _)| from)
}

/// What names are asked for with, of an authority or of ourselves.
pub(crate) fn params(names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

/// A certificate that nobody trusts, so that handshakes come to an end until there is another.
fn provisional(names: &[String]) -> Result<Material, rcgen::Error> {
    let key = KeyType::P256.generate()?;
    let mut params = params(names)?;
    params.distinguished_name.push(DnType::CommonName, "provisional certificate");
    let certificate = params.self_signed(&key)?;
    let material =
        Material::of_pem(certificate.pem(), key.serialize_pem()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    Ok(Material { is_provisional: true, ..material })
}

/// The name by which a client of TLS asks for an address or a name to be proved (RFC 8738, section 6).
pub(crate) fn challenge_name(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let digits = address.octets().into_iter().rev().flat_map(|byte| [byte & 0xf, byte >> 4]);
            digits.map(|digit| format!("{digit:x}.")).collect::<String>() + "ip6.arpa"
        }
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn addresses_are_asked_for_by_their_names() {
        assert_eq!(challenge_name("one.test"), "one.test");
        assert_eq!(challenge_name("127.0.0.1"), "1.0.0.127.in-addr.arpa");
        let six = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(challenge_name("2001:db8::1"), six);
    }

    fn order(name: &str, directory: &Path) -> Arc<Order> {
        let issuer = Issuer::shared(Settings { state_path: Some(directory.to_owned()), ..Settings::of_nobody(name) });
        Order::shared(&issuer, &["one.test".to_owned()], KeyType::P256).expect("an order")
    }

    /// A name in the directory for temporary files that nothing has.
    fn nowhere(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tidegate-acme-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        directory
    }

    fn given() -> Material {
        Material { is_provisional: false, ..provisional(&["one.test".to_owned()]).expect("made") }
    }

    #[test]
    fn what_could_not_be_written_is_written_when_it_can_be() {
        let directory = nowhere("order");
        // No directory can be made where a file stands, and nothing be written, as on a disk that is full.
        std::fs::write(&directory, "").expect("written");
        let order = order("one", &directory);
        assert!(order.write_again(), "a provisional certificate is not kept");
        order.accept(given());
        order.issuer().keep_credentials("{}".to_owned());
        assert!(!order.write_again());
        assert!(!order.managed().current().is_provisional, "it is shown all the same");
        std::fs::remove_file(&directory).expect("removed");
        assert!(order.write_again());
        let stored = std::fs::read_to_string(order.path().expect("a directory")).expect("a file");
        assert!(stored.ends_with(&order.managed().current().chain));
        let mut names: Vec<_> =
            std::fs::read_dir(&directory).expect("a directory").map(|e| e.expect("read").file_name()).collect();
        // Locks stay.
        names.retain(|name| !name.to_string_lossy().starts_with('.'));
        assert_eq!(names.len(), 2, "the certificate and the account: {names:?}");
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn what_the_authority_works_on_is_kept_until_its_certificate_is() {
        let directory = nowhere("under-way");
        let order = order("two", &directory);
        assert_eq!(order.under_way(), None);
        let under_way = |url| UnderWay::new("https://localhost/account", url, "key".to_owned(), 1_800_000_000);
        order.keep_under_way(under_way("https://localhost/order/1"));
        // Another process finds it as this one does.
        assert_eq!(*order.unwritten_under_way(), None);
        assert_eq!(order.under_way(), Some(under_way("https://localhost/order/1")));
        order.accept(given());
        assert_eq!(order.under_way(), None);
        // A disk that takes nothing: it is known in memory, and a certificate that is not kept leaves it.
        std::fs::remove_dir_all(&directory).expect("removed");
        std::fs::write(&directory, "").expect("written");
        order.keep_under_way(under_way("https://localhost/order/2"));
        order.accept(given());
        assert_eq!(order.under_way(), Some(under_way("https://localhost/order/2")));
        std::fs::remove_file(&directory).expect("removed");
        assert!(order.write_again());
        assert_eq!(order.under_way(), None);
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn a_provisional_certificate_is_for_its_names() {
        let material = provisional(&["one.test".to_owned(), "127.0.0.1".to_owned()]).expect("made");
        assert!(material.is_provisional);
        let (from, to) = material.times().expect("times");
        assert!(from < to);
    }
}
