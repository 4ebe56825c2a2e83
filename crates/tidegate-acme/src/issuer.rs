//! An authority that gives certificates, and our account there.

use std::{
    fmt,
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use instant_acme::{Account, AccountCredentials, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
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
    account: tokio::sync::Mutex<Option<Account>>,
    /// Credentials of the account that could not be written.
    unwritten: Mutex<Option<String>>,
    patience: Patience,
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
        let account = tokio::sync::Mutex::new(None);
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
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        // Whoever makes an account makes it for all who have the same directory.
        let _lock = self.lock_account().await;
        let account = match self.stored_credentials() {
            Some(credentials) => Account::builder_with_http(self.http()?).from_credentials(credentials).await?,
            None => self.register().await?,
        };
        *known = Some(account.clone());
        Ok(account)
    }

    /// Forgets an account that the authority does not know (any more).
    pub(crate) async fn forget_account(&self, account: &Account) {
        let mut known = self.account.lock().await;
        if known.as_ref().is_some_and(|known| known.id() == account.id()) {
            *known = None;
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

    /// The account of the last run.
    fn stored_account(&self) -> Option<serde_json::Value> {
        let text = match self.store.as_ref()?.read(&self.account_file()) {
            Ok(text) => text?,
            Err(error) => {
                self.warn(format_args!("the account cannot be read: {error}; a new one is made"));
                return None;
            }
        };
        serde_json::from_str(&text).inspect_err(|error| self.warn(format_args!("{error}; a new account is made"))).ok()
    }

    fn stored_credentials(&self) -> Option<AccountCredentials> {
        if self.settings.account_key.is_some() {
            return None;
        }
        let stored = self.stored_account()?;
        serde_json::from_value(stored)
            .inspect_err(|error| self.warn(format_args!("{error}; a new account is made")))
            .ok()
    }

    async fn register(&self) -> Result<Account, IssueError> {
        let settings = &self.settings;
        let http = Account::builder_with_http(self.http()?);
        let contacts: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
        if let Some(Shared(key)) = &settings.account_key {
            let pkcs8 = PrivatePkcs8KeyDer::from(key.to_vec());
            let key = Key::from_pkcs8_der(pkcs8.clone_key())?;
            let (account, _) = http.create_from_key((key, pkcs8.into()), settings.uri.clone()).await?;
            if !contacts.is_empty() {
                account.update_contacts(&contacts).await?;
            }
            return Ok(account);
        }
        let external = settings.external_account.as_ref();
        let external = external.map(|(id, Shared(key))| ExternalAccountKey::new(id.clone(), key));
        let new = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: settings.accepts_terms,
            only_return_existing: false,
        };
        let (account, credentials) = http.create(&new, settings.uri.clone(), external.as_ref()).await?;
        note(Level::Notice, format_args!("acme issuer \"{}\": account {}", settings.name, account.id()));
        if let Ok(text) = serde_json::to_string(&credentials) {
            self.keep_credentials(text);
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
            if matches!(store.read(&file), Ok(Some(_))) || store.write(&file, text).is_ok() {
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
