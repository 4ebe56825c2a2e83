//! An authority that gives certificates, and our account there.

use std::{
    fmt,
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use instant_acme::{Account, AccountCredentials, Key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_net::{
    log::{Level, SysError, note},
    resolver::Resolver,
};
use tidegate_tls::{
    Shared,
    client::{ClientOptions, system_roots},
};

use crate::{
    http::{self, Way},
    issue::IssueError,
    patience::Patience,
    register::register,
    store::{self, Store},
};

/// How often the file of an account is looked at that another issuer or process is making.
const OTHERS_PAUSE: Duration = Duration::from_millis(200);

/// How long that is done.
const OTHERS_TIME_MAX: Duration = Duration::from_secs(120);

/// How a name is proved to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Challenge {
    /// A request for a file on port 80.
    Http01,
    /// A handshake on port 443.
    TlsAlpn01,
}

/// All that the configuration says of an authority.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration's name for it.
    pub name: String,
    /// Address of its directory.
    pub uri: String,
    /// A key of ours for the account, in PKCS #8; without it, one is made.
    pub account_key: Option<Shared<Vec<u8>>>,
    /// How names are proved.
    pub challenge: Challenge,
    /// Addresses (`mailto:…`) at which the authority may reach the owner.
    pub contacts: Vec<String>,
    /// Identifier and key of an account elsewhere that this one belongs to.
    pub external_account: Option<(String, Shared<Vec<u8>>)>,
    /// Kind of certificate that is asked for, and whether nothing else will do.
    pub profile: Option<(String, bool)>,
    /// Authorities by which the server itself is verified; without them, the system's.
    pub trusted: Option<Shared<Vec<CertificateDer<'static>>>>,
    /// The server's certificate is verified.
    pub verify: bool,
    /// The directory for what outlives the process.
    pub state_path: Option<PathBuf>,
    /// The terms of service are agreed to.
    pub accepts_terms: bool,
    /// Who is asked for addresses; without one, the system.
    pub resolver: Option<Arc<Resolver>>,
    /// Longest time to look up a name.
    pub resolver_timeout: Duration,
}

/// An authority with our account.
pub struct Issuer {
    settings: Settings,
    store: Option<Store>,
    account: tokio::sync::Mutex<Known>,
    /// Credentials of the account that could not be written.
    unwritten: Mutex<Option<String>>,
    patience: Patience,
}

/// What is known of our account.
#[derive(Default)]
struct Known {
    account: Option<Account>,
    /// The key that an account was asked for with, until it is known.
    asked_with: Option<PrivatePkcs8KeyDer<'static>>,
}

/// What an account's file has.
enum Stored {
    Account(Box<AccountCredentials>),
    /// Who has asked for the account with this key has not kept the answer: it may be there.
    Key(PrivatePkcs8KeyDer<'static>),
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl Settings {
    /// Whether an issuer with the one is as good as an issuer with the other. Resolvers are made anew with each
    /// configuration; the issuer's own goes on.
    fn is_same(&self, other: &Settings) -> bool {
        let Settings {
            name,
            uri,
            account_key,
            challenge,
            contacts,
            external_account,
            profile,
            trusted,
            verify,
            state_path,
            accepts_terms,
            resolver,
            resolver_timeout,
        } = self;
        *name == other.name
            && *uri == other.uri
            && *account_key == other.account_key
            && *challenge == other.challenge
            && *contacts == other.contacts
            && *external_account == other.external_account
            && *profile == other.profile
            && *trusted == other.trusted
            && *verify == other.verify
            && *state_path == other.state_path
            && *accepts_terms == other.accepts_terms
            && *resolver_timeout == other.resolver_timeout
            && match (resolver, &other.resolver) {
                (Some(one), Some(two)) => one.has_same_settings(two),
                (None, None) => true,
                _ => false,
            }
    }
}

impl Issuer {
    /// The issuer with these settings, which goes on over a reload that does not change them.
    pub fn shared(settings: Settings) -> Arc<Self> {
        static KNOWN: Mutex<Vec<Weak<Issuer>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|issuer| issuer.strong_count() > 0);
        if let Some(issuer) = known.iter().filter_map(Weak::upgrade).find(|issuer| issuer.settings.is_same(&settings)) {
            return issuer;
        }
        let store = settings.state_path.clone().map(Store::new);
        let account = tokio::sync::Mutex::default();
        let issuer =
            Arc::new(Self { settings, store, account, unwritten: Mutex::default(), patience: Patience::default() });
        known.push(Arc::downgrade(&issuer));
        issuer
    }

    /// What the configuration says of it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Our account, which is made if there is none.
    pub(crate) async fn account(&self) -> Result<Account, IssueError> {
        let mut known = self.account.lock().await;
        if let Some(account) = &known.account {
            return Ok(account.clone());
        }
        // Whoever makes an account makes it for all who have the same directory.
        let _lock = self.lock_account().await;
        let account = match self.stored() {
            Some(Stored::Account(credentials)) => {
                Account::builder_with_http(self.http()?).from_credentials(*credentials).await?
            }
            Some(Stored::Key(key)) => self.register(key).await?,
            None => {
                let key = self.choose_key(&mut known.asked_with)?;
                self.register(key).await?
            }
        };
        *known = Known { account: Some(account.clone()), asked_with: None };
        Ok(account)
    }

    /// Forgets an account that the authority does not know (any more).
    pub(crate) async fn forget_account(&self, account: &Account) {
        let mut known = self.account.lock().await;
        if known.account.as_ref().is_some_and(|known| known.id() == account.id()) {
            known.account = None;
            *self.unwritten() = None;
        }
        let Some(store) = &self.store else { return };
        let _lock = self.lock_account().await;
        // Another issuer may have made a new one meanwhile.
        let stored = self.stored_account();
        if stored.as_ref().and_then(|value| value.get("id")?.as_str()) == Some(account.id())
            && let Err(error) = store.remove(&self.account_file())
        {
            self.warn(format_args!("the account that is not known any more cannot be removed: {error}"));
        }
    }

    /// Name of the account's file. Issuers that share a directory share the account if the authority could not tell them apart.
    fn account_file(&self) -> String {
        let Settings { uri, contacts, external_account, .. } = &self.settings;
        let external = external_account.as_ref().map(|(id, _)| id.as_str());
        let mut hash = Sha256::new();
        for part in [uri.as_str(), external.unwrap_or_default()].into_iter().chain(contacts.iter().map(String::as_str))
        {
            hash.update(part);
            hash.update(b"\0");
        }
        format!("account-{}.json", store::short_hash(hash))
    }

    /// Waits until nobody else makes the account. Who waits for too long, or cannot lock, makes one nevertheless.
    async fn lock_account(&self) -> Option<File> {
        let (store, name) = (self.store.as_ref()?, self.account_file());
        let begin = Instant::now();
        while begin.elapsed() < OTHERS_TIME_MAX {
            match store.lock(&name) {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) => tokio::time::sleep(OTHERS_PAUSE).await,
                Err(_) => break,
            }
        }
        None
    }

    /// The account's file of the last run.
    fn stored_account(&self) -> Option<Value> {
        let text = match self.store.as_ref()?.read(&self.account_file()) {
            Ok(text) => text?,
            Err(error) => {
                self.warn(format_args!("the account cannot be read: {error}; a new one is made"));
                return None;
            }
        };
        serde_json::from_str(&text).inspect_err(|error| self.warn(format_args!("{error}; a new account is made"))).ok()
    }

    fn stored(&self) -> Option<Stored> {
        if self.settings.account_key.is_some() {
            return None;
        }
        let stored = self.stored_account()?;
        if stored.get("id").is_none()
            && let Some(key) = stored.get("key_pkcs8").and_then(|key| readable_key(key.as_str()?))
        {
            return Some(Stored::Key(key));
        }
        serde_json::from_value(stored)
            .inspect_err(|error| self.warn(format_args!("{error}; a new account is made")))
            .map(|credentials| Stored::Account(Box::new(credentials)))
            .ok()
    }

    /// The key for an account that is to be asked for, which is kept before anybody is asked: whoever ends before the answer is
    /// kept finds the account by its key.
    fn choose_key(
        &self,
        asked_with: &mut Option<PrivatePkcs8KeyDer<'static>>,
    ) -> Result<PrivatePkcs8KeyDer<'static>, IssueError> {
        if let Some(Shared(key)) = &self.settings.account_key {
            return Ok(PrivatePkcs8KeyDer::from(key.to_vec()));
        }
        let key = match asked_with.take() {
            Some(key) => key,
            None => Key::generate_pkcs8()?.1,
        };
        if let Some(store) = &self.store
            && let Err(error) = store.write(&self.account_file(), &self.account_text(None, &key))
        {
            self.warn(format_args!("the key of the account cannot be kept {}", SysError(&error)));
        }
        *asked_with = Some(key.clone_key());
        Ok(key)
    }

    /// Text of the account's file, in the form that `instant_acme` reads; without `id` while there is no answer.
    fn account_text(&self, id: Option<&str>, key: &PrivatePkcs8KeyDer<'_>) -> String {
        let mut text =
            json!({ "key_pkcs8": URL_SAFE_NO_PAD.encode(key.secret_pkcs8_der()), "directory": self.settings.uri });
        if let Some(id) = id {
            text["id"] = id.into();
        }
        text.to_string()
    }

    /// The account of a key, made if there is none.
    async fn register(&self, key: PrivatePkcs8KeyDer<'static>) -> Result<Account, IssueError> {
        let settings = &self.settings;
        let http = self.http()?;
        let registered = register(&*http, key.secret_pkcs8_der(), settings).await?;
        if settings.account_key.is_none() {
            note(Level::Notice, format_args!("acme issuer \"{}\": account {}", settings.name, registered.id));
            self.keep_credentials(self.account_text(Some(&registered.id), &key));
        }
        let account = Account::builder_with_http(http).from_parts(registered.id, key, settings.uri.clone()).await?;
        if registered.is_known && !settings.contacts.is_empty() {
            let contacts: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
            account.update_contacts(&contacts).await?;
        }
        Ok(account)
    }

    fn unwritten(&self) -> MutexGuard<'_, Option<String>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep_credentials(&self, text: String) {
        let Some(store) = &self.store else { return };
        *self.unwritten() = store.write(&self.account_file(), &text).err().map(|error| {
            self.warn(format_args!("the account cannot be kept {}, which is tried again", SysError(&error)));
            text
        });
    }

    /// Writes what could not be written before, unless another process has done so for itself. Answers whether nothing is left.
    pub(crate) fn write_again(&self) -> bool {
        let mut unwritten = self.unwritten();
        if let (Some(store), Some(text)) = (&self.store, &*unwritten) {
            let file = self.account_file();
            // A key alone is what we have left there ourselves.
            let has_account =
                |text: &str| serde_json::from_str(text).is_ok_and(|value: Value| value.get("id").is_some());
            if matches!(store.read(&file), Ok(Some(text)) if has_account(&text)) || store.write(&file, text).is_ok() {
                *unwritten = None;
            }
        }
        unwritten.is_none()
    }

    fn http(&self) -> Result<Box<dyn instant_acme::HttpClient>, IssueError> {
        let settings = &self.settings;
        let trusted = match &settings.trusted {
            None if settings.verify => Some(Shared(Arc::new(system_roots().map_err(IssueError::Roots)?))),
            trusted => trusted.clone(),
        };
        let options =
            ClientOptions { verify: settings.verify, check_name: settings.verify, trusted, ..ClientOptions::default() };
        let tls = options.client().map_err(IssueError::Tls)?;
        let way = Way {
            tls,
            resolver: settings.resolver.clone(),
            resolver_timeout: settings.resolver_timeout,
            patience: self.patience.clone(),
        };
        Ok(http::client(way))
    }

    fn warn(&self, message: fmt::Arguments<'_>) {
        note(Level::Warn, format_args!("acme issuer \"{}\": {message}", self.settings.name));
    }
}

/// A key out of an account's file, if one can sign with it.
fn readable_key(text: &str) -> Option<PrivatePkcs8KeyDer<'static>> {
    let key = PrivatePkcs8KeyDer::from(URL_SAFE_NO_PAD.decode(text).ok()?);
    Key::from_pkcs8_der(key.clone_key()).is_ok().then_some(key)
}

#[cfg(test)]
impl Settings {
    /// Those of an authority that nobody asks.
    pub(crate) fn of_nobody(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            uri: "https://localhost/".to_owned(),
            account_key: None,
            challenge: Challenge::Http01,
            contacts: Vec::new(),
            external_account: None,
            profile: None,
            trusted: None,
            verify: true,
            state_path: None,
            accepts_terms: true,
            resolver: None,
            resolver_timeout: Duration::from_secs(1),
        }
    }
}
