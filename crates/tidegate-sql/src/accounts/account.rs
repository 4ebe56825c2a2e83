//! An account: how its user proves who it is, what it was granted, and the statements that would make it again.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use curve25519_dalek::EdwardsPoint;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::{
    patterns::{closeness, like},
    privileges::{Privileges, Reach},
    salted::Salted,
};
use crate::{
    account_name::Name,
    identifier::{mysql_string, quoted},
    parse::program::RoutineKind,
};

/// How the user of an account proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`: the secret is `*` and the digits of SHA1(SHA1(password)), or empty for no password.
    Native,
    /// `caching_sha2_password`: the secret is the digits of SHA256(SHA256(password)), or the salted digest that MySQL keeps
    /// (`$A$005$…`), or empty for no password.
    CachingSha2,
    /// `ed25519`: the secret is the public key in base64 without padding, or empty for no password.
    Ed25519,
}

/// What a login is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself, of a user of the configuration.
    Password(Box<[u8]>),
    /// What a plugin makes of it.
    Digest {
        /// The plugin.
        plugin: Plugin,
        /// As [`Plugin`] says.
        digits: Box<str>,
    },
}

/// A user or a role.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Unique in the process.
    pub(crate) number: u64,
    pub(crate) name: Name,
    pub(crate) is_role: bool,
    pub(crate) secret: Secret,
    pub(crate) is_locked: bool,
    pub(crate) grants: Grants,
    /// Roles that were granted, each with whether they may be granted on.
    pub(crate) roles: BTreeMap<String, bool>,
    pub(crate) default_role: Option<String>,
}

/// What was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    pub(crate) global: Privileges,
    /// By patterns of their names.
    pub(crate) schemas: BTreeMap<String, Privileges>,
    /// By schema and table.
    pub(crate) tables: BTreeMap<(String, String), TableGrant>,
    /// By kind, schema and name in lower case.
    pub(crate) routines: BTreeMap<(RoutineKind, String, String), Privileges>,
}

/// What was granted on a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableGrant {
    pub(crate) table: Privileges,
    /// By their names in lower case.
    pub(crate) columns: BTreeMap<String, Privileges>,
}

impl Plugin {
    /// The plugin of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "mysql_native_password" => Some(Self::Native),
            "caching_sha2_password" => Some(Self::CachingSha2),
            "ed25519" => Some(Self::Ed25519),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Ed25519 => "ed25519",
        }
    }

    /// What it keeps of a password.
    pub(crate) fn digits_of(self, password: &str) -> Box<str> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        match self {
            _ if password.is_empty() => "".into(),
            Self::Native => format!("*{}", hex(&Sha1::digest(Sha1::digest(password)))).into(),
            Self::CachingSha2 => hex(&Sha256::digest(Sha256::digest(password))).into(),
            Self::Ed25519 => {
                let hash: [u8; 64] = Sha512::digest(password).into();
                let mut secret = [0; 32];
                secret.copy_from_slice(&hash[..32]);
                STANDARD_NO_PAD.encode(EdwardsPoint::mul_base_clamped(secret).compress().as_bytes()).into()
            }
        }
    }

    /// Whether a text can be what it keeps.
    pub(crate) fn takes(self, digits: &str) -> bool {
        let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match self {
            _ if digits.is_empty() => true,
            Self::Native => digits.strip_prefix('*').is_some_and(|digits| is_hex(digits, 40)),
            Self::CachingSha2 => is_hex(digits, 64) || Salted::read(digits).is_some(),
            Self::Ed25519 => STANDARD_NO_PAD.decode(digits).is_ok_and(|key| key.len() == 32),
        }
    }

    /// How it writes what it [takes](Self::takes): hexadecimal digits as capitals, others as they are.
    pub(crate) fn written(self, digits: &str) -> Box<str> {
        match self {
            Self::Native => digits.to_ascii_uppercase().into(),
            Self::CachingSha2 if !digits.starts_with('$') => digits.to_ascii_uppercase().into(),
            Self::CachingSha2 | Self::Ed25519 => digits.into(),
        }
    }
}

impl Secret {
    /// Of somebody without a password.
    pub(crate) fn none() -> Self {
        Self::Digest { plugin: Plugin::Native, digits: "".into() }
    }

    /// Whether nothing has to be known to log in.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Password(password) => password.is_empty(),
            Self::Digest { digits, .. } => digits.is_empty(),
        }
    }

    /// Whether no fast proof of `caching_sha2_password` can be judged by it, only the password itself.
    pub fn is_salted(&self) -> bool {
        matches!(self, Self::Digest { plugin: Plugin::CachingSha2, digits } if digits.starts_with('$'))
    }

    /// Whether a [salted](Self::is_salted) secret is that of a password. Takes milliseconds, whatever the answer is.
    pub fn is_salted_of(&self, password: &[u8]) -> bool {
        match self {
            Self::Digest { plugin: Plugin::CachingSha2, digits } => {
                Salted::read(digits).is_some_and(|salted| salted.is_of(password))
            }
            _ => false,
        }
    }

    /// Plugin and digits as tables show them; those of the configuration are nobody's business.
    pub(crate) fn shown(&self) -> (Plugin, &str) {
        match self {
            Self::Password(_) => (Plugin::Native, ""),
            Self::Digest { plugin, digits } => (*plugin, digits),
        }
    }
}

impl Grants {
    /// What holds for a schema beside what holds everywhere: what was granted on the closest pattern.
    pub(crate) fn of_schema(&self, schema: &str) -> Privileges {
        if let Some(found) = self.schemas.get(schema).filter(|_| closeness(schema) == usize::MAX) {
            return *found;
        }
        let fitting = self.schemas.iter().filter(|(pattern, _)| like(pattern, schema));
        fitting.max_by_key(|(pattern, _)| closeness(pattern)).map_or(Privileges::NONE, |(_, found)| *found)
    }

    /// What was granted on a table itself.
    pub(crate) fn of_table(&self, schema: &str, table: &str) -> Option<&TableGrant> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&(schema.to_owned(), table.to_owned()))
    }

    /// What was granted on a procedure or function itself.
    pub(crate) fn of_routine(&self, schema: &str, kind: RoutineKind, name: &str) -> Privileges {
        if self.routines.is_empty() {
            return Privileges::NONE;
        }
        let found = self.routines.get(&(kind, schema.to_owned(), name.to_lowercase()));
        found.copied().unwrap_or(Privileges::NONE)
    }

    /// Forgets what is empty.
    pub(crate) fn tidy(&mut self) {
        self.routines.retain(|_, privileges| !privileges.is_empty());
        self.schemas.retain(|_, privileges| !privileges.is_empty());
        for grant in self.tables.values_mut() {
            grant.columns.retain(|_, privileges| !privileges.is_empty());
        }
        self.tables.retain(|_, grant| !grant.table.is_empty() || !grant.columns.is_empty());
    }
}

impl Account {
    /// `CREATE USER` or `CREATE ROLE` of it, behind these words.
    fn definition(&self) -> String {
        if self.is_role {
            return self.name.in_sql();
        }
        let mut text = self.name.in_sql();
        match self.secret.shown() {
            (Plugin::Native, "") => {}
            (Plugin::Native, digits) => text.push_str(&format!(" IDENTIFIED BY PASSWORD '{digits}'")),
            (plugin, digits) => {
                text.push_str(&format!(" IDENTIFIED VIA {} USING {}", plugin.name(), in_quotes(digits)))
            }
        }
        if self.is_locked {
            text.push_str(" ACCOUNT LOCK");
        }
        text
    }

    /// SHOW CREATE USER.
    pub(crate) fn create_statement(&self) -> String {
        format!("CREATE {} {}", if self.is_role { "ROLE" } else { "USER" }, self.definition())
    }

    /// SHOW GRANTS, the lines in MariaDB's order; `with_secret` as there, where the first one names the password's digits.
    pub(crate) fn grant_statements(&self, with_secret: bool) -> Vec<String> {
        let to = self.name.in_sql();
        let mut lines = Vec::new();
        for (role, admin) in &self.roles {
            let admin = if *admin { " WITH ADMIN OPTION" } else { "" };
            lines.push(format!("GRANT {} TO {to}{admin}", quoted(role)));
        }
        let option = |privileges: Privileges| if privileges.has(Privileges::GRANT) { " WITH GRANT OPTION" } else { "" };
        let global = self.grants.global;
        let secret = match self.secret.shown() {
            (Plugin::Native, digits) if with_secret && !digits.is_empty() => {
                format!(" IDENTIFIED BY PASSWORD '{digits}'")
            }
            (plugin @ (Plugin::CachingSha2 | Plugin::Ed25519), digits) if with_secret => {
                format!(" IDENTIFIED VIA {} USING {}", plugin.name(), in_quotes(digits))
            }
            _ => String::new(),
        };
        let all = Privileges::all(Reach::Server);
        lines.push(format!("GRANT {} ON *.* TO {to}{secret}{}", global.granted(all), option(global)));
        for (schema, privileges) in &self.grants.schemas {
            let granted = privileges.granted(Privileges::all(Reach::Schema));
            lines.push(format!("GRANT {granted} ON {}.* TO {to}{}", quoted(schema), option(*privileges)));
        }
        for ((schema, table), grant) in &self.grants.tables {
            let object = format!("{}.{}", quoted(schema), quoted(table));
            lines.push(format!("GRANT {} ON {object} TO {to}{}", grant.granted(), option(grant.table)));
        }
        for ((kind, schema, name), privileges) in &self.grants.routines {
            let plain = privileges.without(Privileges::GRANT);
            let granted = if plain.is_empty() { "USAGE".to_owned() } else { plain.names() };
            let object = format!("{} {}.{}", kind.word(), quoted(schema), quoted(name));
            lines.push(format!("GRANT {granted} ON {object} TO {to}{}", option(*privileges)));
        }
        lines
    }

    /// The statements that make the account again, without the roles that must be there before.
    pub(crate) fn statements(&self) -> Vec<String> {
        let mut lines = self.grant_statements(false);
        if let Some(role) = &self.default_role {
            lines.push(format!("SET DEFAULT ROLE {} FOR {}", quoted(role), self.name.in_sql()));
        }
        lines
    }
}

/// Digits as a text of SQL: a salt may be anything.
fn in_quotes(digits: &str) -> String {
    mysql_string(digits).replace('\n', "\\n")
}

impl TableGrant {
    /// As GRANT writes it: `SELECT (`a`, `b`), INSERT`.
    fn granted(&self) -> String {
        if self.columns.is_empty() {
            return self.table.granted(Privileges::all(Reach::Table));
        }
        let of_columns = self.columns.values().fold(Privileges::NONE, |all, columns| all.and(*columns));
        let each = self.table.and(of_columns).each().flat_map(|(privilege, kind)| {
            let whole = self.table.has(privilege).then(|| kind.name.to_owned());
            let with = self.columns.iter().filter(|(_, columns)| columns.has(privilege));
            let names: Vec<String> = with.map(|(column, _)| quoted(column)).collect();
            let parts = (!names.is_empty()).then(|| format!("{} ({})", kind.name, names.join(", ")));
            [whole, parts]
        });
        each.flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_mariadb_and_mysql() {
        assert_eq!(&*Plugin::Native.digits_of("password"), "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
        assert!(Plugin::Native.takes("*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19") && !Plugin::Native.takes("*12"));
        assert!(Plugin::CachingSha2.takes(&Plugin::CachingSha2.digits_of("x")) && !Plugin::CachingSha2.takes("zz"));
        assert_eq!(&*Plugin::Native.digits_of(""), "");
        assert_eq!(&*Plugin::CachingSha2.written("ab"), "AB");
        assert_eq!(&*Plugin::CachingSha2.written("$A$005$ab"), "$A$005$ab");
        let key = Plugin::Ed25519.digits_of("secret");
        assert!(Plugin::Ed25519.takes(&key) && Plugin::Ed25519.written(&key) == key);
    }

    #[test]
    fn the_closest_pattern_of_a_schema_counts() {
        let mut grants = Grants::default();
        grants.schemas.insert("%".into(), Privileges::SELECT);
        grants.schemas.insert("app\\_%".into(), Privileges::INSERT);
        grants.schemas.insert("app\\_1".into(), Privileges::DELETE);
        for (schema, expected) in [
            ("other", Privileges::SELECT),
            ("app_2", Privileges::INSERT),
            ("app_1", Privileges::DELETE),
            ("appx1", Privileges::SELECT),
            ("%", Privileges::SELECT),
        ] {
            assert_eq!(grants.of_schema(schema), expected, "{schema}");
        }
    }
}
