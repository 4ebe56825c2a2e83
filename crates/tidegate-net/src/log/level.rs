//! How bad it is: nginx's eight levels.

use std::str::FromStr;

/// A level, from the worst to the most talkative: `Level::Emerg < Level::Debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// No level at all: what is always written (`ngx.STDERR`). No configuration names it.
    Stderr = 0,
    /// The process cannot go on or start.
    Emerg = 1,
    /// Something that must not happen did.
    Alert = 2,
    /// The machine refuses (files, memory, sockets).
    Crit = 3,
    /// A request failed through an upstream, a script or the configuration.
    Error = 4,
    /// Worth a look, nothing failed.
    Warn = 5,
    /// Milestones of the process.
    Notice = 6,
    /// Mistakes of clients.
    Info = 7,
    /// Everything.
    Debug = 8,
}

impl Level {
    /// All levels, the worst first.
    pub const ALL: [Self; 8] =
        [Self::Emerg, Self::Alert, Self::Crit, Self::Error, Self::Warn, Self::Notice, Self::Info, Self::Debug];

    /// The name in configuration and in log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stderr => "",
            Self::Emerg => "emerg",
            Self::Alert => "alert",
            Self::Crit => "crit",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// nginx's number (`NGX_LOG_EMERG` is 1), which is what `ngx.ERR` and its kin hold.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The level with nginx's `number`, 1 to 8.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }

    /// The severity that syslog knows it by: `emerg` is 0.
    pub const fn syslog_severity(self) -> u8 {
        (self as u8).saturating_sub(1)
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or(())
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(Level::from_number(level.number()), Some(level));
        }
        assert_eq!("fatal".parse::<Level>(), Err(()));
        assert_eq!(Level::from_number(0), None);
        assert!(Level::Emerg < Level::Debug);
        assert_eq!(Level::Emerg.syslog_severity(), 0);
    }
}
