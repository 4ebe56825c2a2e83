//! Kinds of statements, for those who treat many of them alike.

use tidegate_rows::ServerError;

use super::{SetItem, Statement, account::AccountStatement};
use crate::errors;

impl Statement {
    /// Whether it defines something: it commits the open transaction, so that no trigger or function may run it. Accounts are
    /// asked for their rights to it by what it is about.
    pub(crate) fn is_definition(&self) -> bool {
        match self {
            Statement::CreateDatabase { .. }
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::DropTable { .. }
            | Statement::Truncate(_)
            | Statement::AlterTable { .. }
            | Statement::RenameTable(_)
            | Statement::CreateView { .. }
            | Statement::DropView { .. }
            | Statement::CreateSequence(_)
            | Statement::AlterSequence { .. }
            | Statement::DropSequence { .. }
            | Statement::CreateTrigger(_)
            | Statement::CreateRoutine(_)
            | Statement::AlterRoutine(_)
            | Statement::Event(_)
            | Statement::DropProgram { .. } => true,
            Statement::Waits { statement, .. } => statement.is_definition(),
            Statement::Query(_)
            | Statement::SelectInto { .. }
            | Statement::SelectIntoFile { .. }
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Load(_)
            | Statement::Use(_)
            | Statement::Set(_)
            | Statement::SetFor { .. }
            | Statement::Show(_)
            | Statement::Begin { .. }
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::Savepoint(_)
            | Statement::RollbackTo(_)
            | Statement::Release(_)
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::ExecuteImmediate { .. }
            | Statement::Deallocate(_)
            | Statement::Explain { .. }
            | Statement::Do
            | Statement::Admin { .. }
            | Statement::LockTables(_)
            | Statement::LockAll
            | Statement::UnlockTables
            | Statement::Account(_)
            | Statement::Call(_)
            | Statement::Block(_)
            | Statement::Kill { .. }
            | Statement::Signal { .. }
            | Statement::Nothing => false,
        }
    }

    /// Why a trigger or function, or a procedure that one of them calls, must not run it, if it must not. `caller` is what messages
    /// call the trigger or function.
    ///
    /// Source: MariaDB's documentation, "Stored Function Limitations" and "Trigger Limitations".
    pub(crate) fn refused_beneath(&self, caller: &str) -> Option<ServerError> {
        Some(match self {
            Statement::Insert(insert) if insert.returning.is_none() => return None,
            Statement::Delete(delete) if delete.returning.is_none() => return None,
            Statement::Update(_) | Statement::Call(_) => return None,
            Statement::Set(items) => return items.iter().find_map(SetItem::refused_beneath),
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Delete(_)
            | Statement::Show(_)
            | Statement::Explain { .. } => errors::result_set_refused(caller),
            Statement::Admin { verb, .. } if !verb.is_empty() => errors::result_set_refused(caller),
            Statement::Account(account)
                if matches!(**account, AccountStatement::ShowGrants(_) | AccountStatement::ShowCreateUser(_)) =>
            {
                errors::result_set_refused(caller)
            }
            Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::ExecuteImmediate { .. }
            | Statement::Deallocate(_) => errors::refused_in_trigger("Dynamic SQL"),
            Statement::Admin { .. } | Statement::LockAll => errors::refused_in_trigger("FLUSH"),
            Statement::Begin { .. } | Statement::Commit(_) | Statement::Rollback(_) | Statement::Account(_) => {
                errors::commit_in_trigger()
            }
            definition if definition.is_definition() => errors::commit_in_trigger(),
            _ => errors::unsupported("this statement in a procedure that a trigger or function calls"),
        })
    }
}

impl SetItem {
    fn refused_beneath(&self) -> Option<ServerError> {
        match self {
            SetItem::System { global: false, name, .. } if name == "autocommit" => {
                Some(errors::autocommit_in_trigger())
            }
            SetItem::System { global: false, .. } | SetItem::User { .. } | SetItem::Names { .. } => None,
            SetItem::System { .. } => Some(errors::unsupported("SET GLOBAL in a trigger or function")),
            SetItem::Transaction { .. } => Some(errors::unsupported("SET TRANSACTION in a trigger or function")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        lexer::{LexMode, Literals},
        parse,
    };

    #[track_caller]
    fn check(sql: &str, code: u16) {
        let (statement, _) = parse::parse(sql.as_bytes(), 0, LexMode::of(0), false, Literals::Inline).unwrap();
        let refused = statement.refused_beneath("a function");
        assert_eq!(refused.as_ref().map_or(0, |error| error.code), code, "{sql}: {refused:?}");
    }

    #[test]
    fn what_commits_or_answers_is_refused_in_triggers_and_functions() {
        for sql in
            ["INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "CALL p()", "SET @a = 1, sql_mode = ''"]
        {
            check(sql, 0);
        }
        for sql in [
            "CREATE TABLE t (a INT)",
            "CREATE SEQUENCE s",
            "ALTER SEQUENCE s RESTART",
            "DROP SEQUENCE s",
            "CREATE VIEW v AS SELECT 1",
            "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
            "ALTER EVENT e DISABLE",
            "DROP EVENT e",
            "DROP FUNCTION f",
            "TRUNCATE t",
            "DROP TABLE t WAIT 1",
            "COMMIT",
            "START TRANSACTION",
            "CREATE USER u",
        ] {
            check(sql, 1422);
        }
        for sql in
            ["SELECT 1", "SHOW TABLES", "SHOW GRANTS", "DELETE FROM t RETURNING a", "CHECK TABLE t", "EXPLAIN SELECT 1"]
        {
            check(sql, 1415);
        }
        check("PREPARE s FROM 'SELECT 1'", 1336);
        check("FLUSH TABLES", 1336);
        check("SET autocommit = 0", 1445);
        check("SET GLOBAL sql_mode = ''", 1235);
        check("KILL 1", 1235);
    }
}
