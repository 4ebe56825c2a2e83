//! The trees of statements: what the engine can do, and no more.

use sqlparser::ast::{Assignment, Expr, OrderByExpr, Query, SelectItem, TableWithJoins};

use super::{
    AlterItem, CreateSequence, CreateTable, SequenceSpec,
    files::{IntoFile, Load},
};
use crate::{
    clients::Kill,
    lexer::Rows,
    parse::{
        account::AccountStatement,
        program::{CreateRoutine, CreateTrigger, RoutineKind, event::EventStatement, signature::SaysChange},
        view::CreateView,
    },
};

/// A name with an optional schema in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

/// Whom KILL means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KillTarget {
    /// The client of this number.
    Id(u64),
    /// All of a user.
    User(String),
}

/// One statement.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Query(Box<Query>),
    /// A definition, or LOCK TABLES, with `WAIT n`; 0 for `NOWAIT`.
    Waits {
        seconds: u64,
        statement: Box<Statement>,
    },
    /// SELECT … INTO @a, @b: the query is the text without the part that `cut` names.
    SelectInto {
        cut: Span,
        variables: Vec<String>,
    },
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CreateDatabase {
        name: String,
        or_replace: bool,
        if_not_exists: bool,
        collation: Option<String>,
        charset: Option<String>,
    },
    /// `name` is `None` for the current schema.
    AlterDatabase {
        name: Option<String>,
        collation: Option<String>,
        charset: Option<String>,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    DropTable {
        tables: Vec<TableName>,
        if_exists: bool,
        temporary: bool,
    },
    Truncate(TableName),
    AlterTable {
        table: TableName,
        if_exists: bool,
        items: Vec<AlterItem>,
    },
    RenameTable(Vec<(TableName, TableName)>),
    CreateView(Box<CreateView>),
    DropView {
        views: Vec<TableName>,
        if_exists: bool,
    },
    CreateSequence(Box<CreateSequence>),
    AlterSequence {
        name: TableName,
        if_exists: bool,
        spec: Box<SequenceSpec>,
    },
    DropSequence {
        names: Vec<TableName>,
        if_exists: bool,
        temporary: bool,
    },
    Load(Box<Load>),
    /// SELECT … INTO OUTFILE or DUMPFILE: where that stands in the text.
    SelectIntoFile {
        cut: Span,
        into: Box<IntoFile>,
    },
    Use(String),
    Set(Vec<SetItem>),
    /// SET STATEMENT … FOR: settings for the statement that begins at this byte.
    SetFor {
        items: Vec<SetItem>,
        from: usize,
    },
    Show(Show),
    Begin {
        /// `None` for what SET TRANSACTION says.
        read_only: Option<bool>,
        snapshot: bool,
    },
    Commit(Completion),
    Rollback(Completion),
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    Prepare {
        name: String,
        source: PrepareSource,
    },
    Execute {
        name: String,
        variables: Vec<String>,
    },
    /// EXECUTE IMMEDIATE: where the expressions stand of the text and of its parameters.
    ExecuteImmediate {
        source: Span,
        using: Vec<Span>,
    },
    Deallocate(String),
    Explain {
        from: usize,
        /// FORMAT=JSON
        json: bool,
    },
    Do,
    /// Administration that this engine has no need of: answers OK or a status row for each table.
    Admin {
        verb: &'static str,
        tables: Vec<TableName>,
    },
    /// LOCK TABLES: each with whether it will be written to.
    LockTables(Vec<(TableName, bool)>),
    /// FLUSH TABLES WITH READ LOCK.
    LockAll,
    UnlockTables,
    Account(Box<AccountStatement>),
    Call(Call),
    /// BEGIN NOT ATOMIC, or IF and its like outside of stored programs: the text.
    Block(String),
    CreateTrigger(Box<CreateTrigger>),
    CreateRoutine(Box<CreateRoutine>),
    AlterRoutine(Box<AlterRoutine>),
    /// CREATE EVENT and ALTER EVENT.
    Event(Box<EventStatement>),
    /// DROP of a function, procedure, trigger or event.
    DropProgram {
        kind: &'static str,
        name: TableName,
        if_exists: bool,
    },
    Kill {
        target: KillTarget,
        kill: Kill,
    },
    /// SIGNAL: an error of the user's own.
    Signal {
        state: String,
        number: Option<u16>,
        message: Option<String>,
    },
    Nothing,
}

/// ALTER PROCEDURE and ALTER FUNCTION.
#[derive(Debug, Clone)]
pub(crate) struct AlterRoutine {
    pub(crate) kind: RoutineKind,
    pub(crate) name: TableName,
    pub(crate) changes: Vec<SaysChange>,
}

/// CALL.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: TableName,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of CALL.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    /// Where the expression stands.
    pub(crate) span: Span,
    pub(crate) place: ArgumentPlace,
    /// The numbers of the `?` in it.
    pub(crate) params: std::ops::Range<usize>,
}

/// Where the value of an OUT parameter can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentPlace {
    Nowhere,
    /// A local variable, if there is one of this name.
    Name(String),
    /// `@name`
    Variable(String),
    /// `?`
    Parameter,
}

/// What PREPARE compiles.
#[derive(Debug, Clone)]
pub(crate) enum PrepareSource {
    Text(String),
    Variable(String),
}

/// INSERT and REPLACE.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) replace: bool,
    pub(crate) ignore: bool,
    pub(crate) table: TableName,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) source: InsertSource,
    pub(crate) row_alias: Option<String>,
    pub(crate) on_duplicate: Vec<Assignment>,
    pub(crate) returning: Option<Returning>,
}

/// RETURNING of a statement that writes.
#[derive(Debug, Clone)]
pub(crate) struct Returning {
    /// Where the word stands in the text.
    pub(crate) start: u64,
    pub(crate) items: Vec<SelectItem>,
}

/// Where the rows of an INSERT come from.
#[derive(Debug, Clone)]
pub(crate) enum InsertSource {
    /// An empty row stands for all defaults.
    Values(Vec<Vec<Expr>>),
    /// Rows of literals.
    Literals(Rows),
    Query(Box<Query>),
    /// Lines of a file, whose fields go into these columns (`None` for all), and what SET makes of each line.
    File {
        fields: Option<Vec<String>>,
        set: Vec<String>,
        values: Vec<Expr>,
    },
}

/// UPDATE.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) ignore: bool,
    pub(crate) from: Vec<TableWithJoins>,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) selection: Option<Expr>,
    pub(crate) order_by: Vec<OrderByExpr>,
    pub(crate) limit: Option<Expr>,
}

/// DELETE.
#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub(crate) ignore: bool,
    /// Tables to delete from, by name or alias; empty for the single-table form.
    pub(crate) targets: Vec<TableName>,
    pub(crate) from: Vec<TableWithJoins>,
    pub(crate) selection: Option<Expr>,
    pub(crate) order_by: Vec<OrderByExpr>,
    pub(crate) limit: Option<Expr>,
    pub(crate) returning: Option<Returning>,
}

/// Which transactions SET TRANSACTION is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsolationScope {
    /// The next one.
    Next,
    Session,
    Global,
}

/// One assignment of SET.
#[derive(Debug, Clone)]
pub(crate) enum SetItem {
    User {
        name: String,
        value: Span,
    },
    /// No value stands for DEFAULT.
    System {
        global: bool,
        name: String,
        value: Option<SetValue>,
    },
    Names {
        charset: Option<String>,
        collation: Option<String>,
    },
    /// SET TRANSACTION
    Transaction {
        level: Option<&'static str>,
        read_only: Option<bool>,
        scope: IsolationScope,
    },
}

/// Where an expression stands in the statement's text.
pub(crate) type Span = (usize, usize);

/// The value of a system variable as written.
#[derive(Debug, Clone)]
pub(crate) enum SetValue {
    /// A bare word such as ON.
    Word(String),
    Expr(Span),
}

/// SHOW.
#[derive(Debug, Clone)]
pub(crate) struct Show {
    pub(crate) what: ShowWhat,
    pub(crate) like: Option<Pattern>,
    pub(crate) filter: Option<Span>,
}

/// The pattern of LIKE: a string of the text, or a column's name.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    Text(Span),
    Name(String),
}

/// What SHOW shows.
#[derive(Debug, Clone)]
pub(crate) enum ShowWhat {
    Databases,
    Tables {
        schema: Option<String>,
        full: bool,
    },
    TableStatus {
        schema: Option<String>,
    },
    Columns {
        table: TableName,
        full: bool,
    },
    Index(TableName),
    CreateTable(TableName),
    CreateView(TableName),
    CreateSequence(TableName),
    CreateTrigger(TableName),
    CreateRoutine(RoutineKind, TableName),
    CreateEvent(TableName),
    Events {
        schema: Option<String>,
    },
    Routines {
        kind: &'static str,
    },
    CreateDatabase(String),
    Triggers {
        schema: Option<String>,
    },
    Variables {
        global: bool,
    },
    Status,
    Warnings,
    Errors,
    Engines,
    /// SHOW ENGINE INNODB STATUS
    EngineStatus,
    Charset,
    Collation,
    ProcessList {
        full: bool,
    },
    Privileges,
    Plugins,
    /// Nothing of the kind exists: the names of the columns.
    Empty(&'static [&'static str]),
    CountWarnings,
    CountErrors,
}

/// What COMMIT and ROLLBACK do afterwards; `None` for what `completion_type` says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Completion {
    /// The next transaction begins.
    pub(crate) chain: Option<bool>,
    /// The connection ends.
    pub(crate) release: Option<bool>,
}
