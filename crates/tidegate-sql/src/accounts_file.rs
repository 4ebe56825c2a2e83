//! The file of accounts: statements that make them again, as a person would write them.
//!
//! It is written as a whole beside the old one, which it then replaces, so that there is always one of them.

use std::{fs, io, path::Path, sync::Arc};

use tidegate_rows::ServerError;

use crate::{
    accounts::{Accounts, State, restore},
    directory::Directory,
    errors,
    lexer::{self, LexMode, Literals, Normalised},
    parse::{self, Statement},
    task,
};

/// Its name in the data directory.
pub(crate) const NAME: &str = "accounts.sql";
/// Its first line. Who changes what follows changes the number.
const HEAD: &str = "-- accounts of Tidegate's database, format 1; CREATE USER, GRANT and the like write it\n";
/// Bytes of all accounts with their grants.
const BYTES_MAX: usize = 16 << 20;

/// The text for all accounts but those of the configuration.
///
/// # Errors
/// 1041 if it gets too long.
pub(crate) fn text_of(state: &State) -> Result<String, ServerError> {
    let mut text = HEAD.to_owned();
    let mut put = |statement: String| {
        text.push_str(&statement);
        text.push_str(";\n");
    };
    // All are there before one is granted to another.
    state.accounts.values().for_each(|account| put(account.create_statement()));
    for account in state.accounts.values() {
        account.statements().into_iter().for_each(&mut put);
    }
    if text.len() > BYTES_MAX { Err(errors::too_many_accounts(BYTES_MAX)) } else { Ok(text) }
}

/// The accounts of a data directory; none if it has no file.
///
/// # Errors
/// The system's, or the line that cannot be read.
pub(crate) fn read(directory: &Path) -> io::Result<State> {
    let path = directory.join(NAME);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
        text => text?,
    };
    state_of(&text).map_err(|(line, reason)| io::Error::other(format!("{NAME}, line {line}: {reason}")))
}

/// The accounts that a text makes, or the line of it that does not belong there and why.
fn state_of(text: &[u8]) -> Result<State, (usize, String)> {
    if !text.starts_with(HEAD.as_bytes()) {
        return Err((1, "not a file of accounts that this version knows".to_owned()));
    }
    let mut state = State::default();
    let mode = LexMode::default();
    let mut from = HEAD.len();
    let mut scan = Normalised::default();
    loop {
        let line = 1 + text[..from].iter().filter(|byte| **byte == b'\n').count();
        lexer::normalise(text, from, mode, &mut scan).map_err(|_| (line, "an open quote".to_owned()))?;
        if scan.text.is_empty() {
            return Ok(state);
        }
        let parsed = parse::parse(text, from, mode, false, Literals::Inline).map_err(|error| (line, error.message))?;
        let Statement::Account(statement) = parsed.0 else { return Err((line, "not about an account".to_owned())) };
        restore(&mut state, &statement).map_err(|error| (line, error.message))?;
        from = scan.rest;
    }
}

impl Accounts {
    /// Changes accounts; the change is on the disk when this answers. If the caller is not there any more by then, it holds
    /// all the same.
    ///
    /// # Errors
    /// Those of `change`: then nothing has changed. 1030 if the disk refuses, 1041 if there are too many accounts or grants.
    pub(crate) fn change<T>(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
        change: impl FnOnce(&mut State) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let changing = task::block_on(Arc::clone(&self.changing).lock_owned()).map_err(|_| errors::interrupted())?;
        let mut state = State::clone(&self.now());
        let value = change(&mut state)?;
        let text = text_of(&state)?;
        let (accounts, directory) = (Arc::clone(self), Arc::clone(directory));
        let written = tokio::task::spawn_blocking(move || {
            let written = directory.write_file(NAME, text.as_bytes());
            if written.is_ok() {
                accounts.publish(state);
            }
            drop(changing);
            written
        });
        match task::block_on_commit(written) {
            Ok(Ok(written)) => written.map(|()| value),
            Ok(Err(_)) => Err(errors::internal("the accounts could not be written")),
            Err(task::Cancelled) => Err(errors::interrupted()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "CREATE USER `bob`@`%` IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19' ACCOUNT LOCK;\n\
        CREATE USER `eve`@`10.0.0.%` IDENTIFIED VIA caching_sha2_password USING \
        'E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855';\n\
        CREATE USER `old`@`%` IDENTIFIED VIA caching_sha2_password USING '$A$005$0123456789''\\\\\\nabcdefg\
        bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/';\n\
        CREATE ROLE `r``1`;\n\
        GRANT `r``1` TO `bob`@`%` WITH ADMIN OPTION;\n\
        GRANT SELECT, PROCESS ON *.* TO `bob`@`%` WITH GRANT OPTION;\n\
        GRANT ALL PRIVILEGES ON `shop\\_%`.* TO `bob`@`%`;\n\
        GRANT INSERT, UPDATE, UPDATE (`a`, `b`) ON `crm`.`a;\nb` TO `bob`@`%` WITH GRANT OPTION;\n\
        SET DEFAULT ROLE `r``1` FOR `bob`@`%`;\n\
        GRANT USAGE ON *.* TO `eve`@`10.0.0.%`;\n\
        GRANT USAGE ON *.* TO `old`@`%`;\n\
        GRANT USAGE ON *.* TO `r``1`;\n";

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let text = format!("{HEAD}{TEXT}");
        let state = state_of(text.as_bytes()).unwrap();
        assert_eq!(text_of(&state).unwrap(), text);
        assert_eq!(state.accounts.len(), 4);
    }

    #[test]
    fn a_file_that_was_cut_is_refused_or_whole_statements() {
        let text = format!("{HEAD}{TEXT}");
        for end in 0..text.len() {
            // Nothing that was not there comes of it.
            if let Ok(state) = state_of(&text.as_bytes()[..end]) {
                assert!(state.accounts.len() <= 4, "{end}");
            }
        }
        for wrong in
            ["SELECT 1;", "CREATE USER `a`@`%` IDENTIFIED BY PASSWORD 'x';", "GRANT SELECT ON *.* TO `nobody`@`%`;"]
        {
            assert_eq!(state_of(format!("{HEAD}\n{wrong}").as_bytes()).unwrap_err().0, 2, "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut state = state_of(format!("{HEAD}{TEXT}").as_bytes()).unwrap();
        let grants = &mut state.accounts.values_mut().next().unwrap().grants;
        grants.schemas.insert("x".repeat(BYTES_MAX), crate::accounts::Privileges::SELECT);
        assert_eq!(text_of(&state).unwrap_err().code, 1041);
    }
}
