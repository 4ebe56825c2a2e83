//! Privileges: a set of them, their names, and what they can be granted on.
//!
//! Source: MariaDB's documentation of GRANT and of the tables of the schema `mysql`.

/// A set of privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Privileges(u64);

/// What a privilege can be granted on, besides everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Only `*.*`.
    Server,
    /// Schemas.
    Schema,
    /// Schemas and tables.
    Table,
    /// Schemas, tables and columns.
    Column,
}

/// What is to be known of a privilege.
pub(crate) struct Kind {
    /// As GRANT names it.
    pub(crate) name: &'static str,
    /// Its column in `mysql.user`, where it has one.
    pub(crate) column: &'static str,
    pub(crate) reach: Reach,
    context: &'static str,
    comment: &'static str,
}

macro_rules! privileges {
    ($($name:ident = $bit:literal $text:literal $column:literal $reach:ident $context:literal $comment:literal;)*) => {
        #[allow(dead_code, reason = "all privileges have a name; some are about what there is not here")]
        impl Privileges {
            $(pub(crate) const $name: Self = Self(1 << $bit);)*
        }
        /// All of them but GRANT OPTION, in the order in which SHOW GRANTS lists them; the place of each is its bit.
        pub(crate) static KINDS: &[Kind] = &[$(Kind {
            name: $text, column: $column, reach: Reach::$reach, context: $context, comment: $comment,
        },)*];
    };
}

#[rustfmt::skip]
privileges! {
    SELECT = 0 "SELECT" "Select_priv" Column "Tables" "To retrieve rows from table";
    INSERT = 1 "INSERT" "Insert_priv" Column "Tables" "To insert data into tables";
    UPDATE = 2 "UPDATE" "Update_priv" Column "Tables" "To update existing rows";
    DELETE = 3 "DELETE" "Delete_priv" Table "Tables" "To delete existing rows";
    CREATE = 4 "CREATE" "Create_priv" Table "Databases,Tables,Indexes" "To create new databases and tables";
    DROP = 5 "DROP" "Drop_priv" Table "Databases,Tables" "To drop databases, tables, and views";
    RELOAD = 6 "RELOAD" "Reload_priv" Server "Server Admin" "To reload or refresh tables, logs and privileges";
    SHUTDOWN = 7 "SHUTDOWN" "Shutdown_priv" Server "Server Admin" "To shut down the server";
    PROCESS = 8 "PROCESS" "Process_priv" Server "Server Admin" "To view the plain text of currently executing queries";
    FILE = 9 "FILE" "File_priv" Server "File access on server" "To read and write files on the server";
    REFERENCES = 10 "REFERENCES" "References_priv" Column "Databases,Tables" "To have references on tables";
    INDEX = 11 "INDEX" "Index_priv" Table "Tables" "To create or drop indexes";
    ALTER = 12 "ALTER" "Alter_priv" Table "Tables" "To alter the table";
    SHOW_DATABASES = 13 "SHOW DATABASES" "Show_db_priv" Server "Server Admin" "To see all databases with SHOW DATABASES";
    SUPER = 14 "SUPER" "Super_priv" Server "Server Admin" "To use KILL thread, SET GLOBAL, CHANGE MASTER, etc.";
    CREATE_TEMPORARY_TABLES = 15 "CREATE TEMPORARY TABLES" "Create_tmp_table_priv" Schema "Databases" "To use CREATE TEMPORARY TABLE";
    LOCK_TABLES = 16 "LOCK TABLES" "Lock_tables_priv" Schema "Databases" "To use LOCK TABLES (together with SELECT privilege)";
    EXECUTE = 17 "EXECUTE" "Execute_priv" Schema "Functions,Procedures" "To execute stored routines";
    REPLICATION_SLAVE = 18 "REPLICATION SLAVE" "Repl_slave_priv" Server "Server Admin" "To read binary log events from the master";
    BINLOG_MONITOR = 19 "BINLOG MONITOR" "Repl_client_priv" Server "Server" "To use SHOW BINLOG STATUS and SHOW BINARY LOG";
    CREATE_VIEW = 20 "CREATE VIEW" "Create_view_priv" Table "Tables" "To create new views";
    SHOW_VIEW = 21 "SHOW VIEW" "Show_view_priv" Table "Tables" "To see views with SHOW CREATE VIEW";
    CREATE_ROUTINE = 22 "CREATE ROUTINE" "Create_routine_priv" Schema "Databases" "To use CREATE FUNCTION/PROCEDURE";
    ALTER_ROUTINE = 23 "ALTER ROUTINE" "Alter_routine_priv" Schema "Functions,Procedures" "To alter or drop stored functions/procedures";
    CREATE_USER = 24 "CREATE USER" "Create_user_priv" Server "Server Admin" "To create new users";
    EVENT = 25 "EVENT" "Event_priv" Schema "Server Admin" "To create, alter, drop and execute events";
    TRIGGER = 26 "TRIGGER" "Trigger_priv" Table "Tables" "To use triggers";
    CREATE_TABLESPACE = 27 "CREATE TABLESPACE" "Create_tablespace_priv" Server "Server Admin" "To create/alter/drop tablespaces";
    DELETE_HISTORY = 28 "DELETE HISTORY" "Delete_history_priv" Table "Tables" "To delete versioning table historical rows";
    SET_USER = 29 "SET USER" "" Server "Server" "To create views and stored routines with a different definer";
    FEDERATED_ADMIN = 30 "FEDERATED ADMIN" "" Server "Server" "To execute the CREATE SERVER, ALTER SERVER, DROP SERVER statements";
    CONNECTION_ADMIN = 31 "CONNECTION ADMIN" "" Server "Server" "To bypass connection limits and kill other users' connections";
    READ_ONLY_ADMIN = 32 "READ_ONLY ADMIN" "" Server "Server" "To perform write operations even if @@read_only=ON";
    REPLICATION_SLAVE_ADMIN = 33 "REPLICATION SLAVE ADMIN" "" Server "Server" "To start/stop slave and apply binlog events";
    REPLICATION_MASTER_ADMIN = 34 "REPLICATION MASTER ADMIN" "" Server "Server" "To monitor connected slaves";
    BINLOG_ADMIN = 35 "BINLOG ADMIN" "" Server "Server" "To purge binary logs";
    BINLOG_REPLAY = 36 "BINLOG REPLAY" "" Server "Server" "To use BINLOG (generated by mariadb-binlog)";
    SLAVE_MONITOR = 37 "SLAVE MONITOR" "" Server "Server" "To use SHOW SLAVE STATUS and SHOW RELAYLOG EVENTS";
}

/// Other names that GRANT takes.
const ALIASES: &[(&str, Privileges)] = &[
    ("REPLICATION CLIENT", Privileges::BINLOG_MONITOR),
    ("REPLICA MONITOR", Privileges::SLAVE_MONITOR),
    ("REPLICATION REPLICA", Privileges::REPLICATION_SLAVE),
    ("REPLICATION REPLICA ADMIN", Privileges::REPLICATION_SLAVE_ADMIN),
    ("DELETE VERSIONING ROWS", Privileges::DELETE_HISTORY),
    ("GRANT OPTION", Privileges::GRANT),
];

impl Privileges {
    /// To give one's privileges to others.
    pub(crate) const GRANT: Self = Self(1 << 63);
    /// None.
    pub(crate) const NONE: Self = Self(0);
    /// What a procedure or function can have.
    pub(crate) const OF_ROUTINES: Self = Self(Self::EXECUTE.0 | Self::ALTER_ROUTINE.0);
    /// What a column can have.
    pub(crate) const OF_COLUMNS: Self = Self(Self::SELECT.0 | Self::INSERT.0 | Self::UPDATE.0 | Self::REFERENCES.0);

    /// All that can be granted on something, without GRANT OPTION.
    pub(crate) fn all(reach: Reach) -> Self {
        let known = KINDS.iter().enumerate().filter(|(_, kind)| kind.reach >= reach);
        known.fold(Self::NONE, |all, (bit, _)| all.and(Self(1 << bit)))
    }

    /// The privilege of a name, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let known = KINDS.iter().position(|kind| kind.name.eq_ignore_ascii_case(name)).map(|bit| Self(1 << bit));
        known.or_else(|| ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map(|(_, known)| *known))
    }

    /// Each of the set but GRANT OPTION, in their order.
    pub(crate) fn each(self) -> impl Iterator<Item = (Self, &'static Kind)> {
        let bits = KINDS.iter().enumerate().map(|(bit, kind)| (Self(1 << bit), kind));
        bits.filter(move |(bit, _)| self.has(*bit))
    }

    /// These and others.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without others.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `wanted` are among them.
    pub(crate) const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether one of `wanted` is among them.
    pub(crate) const fn has_any(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names with commas between, GRANT OPTION by its first word: as errors list them.
    pub(crate) fn names(self) -> String {
        let mut names: Vec<&str> = self.each().map(|(_, kind)| kind.name).collect();
        if self.has(Self::GRANT) {
            names.push("GRANT");
        }
        names.join(", ")
    }

    /// As GRANT writes them, where `all` is what could be granted there.
    pub(crate) fn granted(self, all: Self) -> String {
        let plain = self.without(Self::GRANT);
        match () {
            () if plain.is_empty() => "USAGE".to_owned(),
            () if plain == all => "ALL PRIVILEGES".to_owned(),
            () => plain.names(),
        }
    }
}

impl Kind {
    /// What SHOW PRIVILEGES says of it: its name as a sentence begins, what it is about, what it is good for.
    pub(crate) fn described(&self) -> (String, &'static str, &'static str) {
        let mut name = self.name.to_ascii_lowercase();
        name[..1].make_ascii_uppercase();
        (name, self.context, self.comment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_privileges_and_back() {
        for (bit, kind) in KINDS.iter().enumerate() {
            let found = Privileges::named(&kind.name.to_ascii_lowercase()).unwrap();
            assert_eq!(found, Privileges(1 << bit));
            assert_eq!(found.names(), kind.name);
        }
        assert_eq!(Privileges::SLAVE_MONITOR, Privileges(1 << (KINDS.len() - 1)));
        assert_eq!(Privileges::named("grant option"), Some(Privileges::GRANT));
        assert_eq!(Privileges::named("selec"), None);
    }

    #[test]
    fn what_can_be_granted_where() {
        let all = Privileges::all(Reach::Server);
        assert_eq!(all.granted(all), "ALL PRIVILEGES");
        assert_eq!(all.and(Privileges::GRANT).granted(all), "ALL PRIVILEGES");
        assert_eq!(Privileges::GRANT.granted(all), "USAGE");
        assert!(!Privileges::all(Reach::Schema).has_any(Privileges::FILE));
        assert!(!Privileges::all(Reach::Table).has_any(Privileges::LOCK_TABLES));
        assert_eq!(Privileges::all(Reach::Column), Privileges::OF_COLUMNS);
        assert!(!all.without(Privileges::SELECT).has(Privileges::SELECT));
    }
}
