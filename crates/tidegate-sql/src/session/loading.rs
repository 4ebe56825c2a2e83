//! LOAD DATA, up to the plan whose rows come from the file.

use std::{future::poll_fn, path::PathBuf, rc::Rc};

use tidegate_rows::{QueryError, ServerError, Sink};

use super::{Core, Res};
use crate::{
    cache::Entry,
    env::{Charset, UserValue},
    errors,
    exec::{bind::Constants, load::no_text},
    identifier::quoted,
    lexer::{self, Literals, Normalised},
    parse::{
        self, Insert, InsertSource, Statement,
        files::{Load, LoadField},
    },
    sql_mode,
    store::file_source::{FileSource, off_thread},
    task,
    translate::{
        load::{FieldTo, LoadPlan},
        params::Params,
        plan::PlanKind,
    },
    value::collation::Collation,
    variables,
};

/// What the expressions behind SET are an INSERT of, and the variables of the line that they name.
struct SetText {
    sql: String,
    /// For each `?` the position of its variable.
    params: Vec<usize>,
}

impl Core {
    /// Runs LOAD DATA.
    ///
    /// # Errors
    /// MySQL's.
    pub(super) fn load(&mut self, load: &Load, text: &[u8], more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        check_format(load)?;
        let charset = charset_of(load.charset.as_deref())?;
        let mut variables = Vec::new();
        for field in &load.fields {
            if let LoadField::Variable(name) = field
                && !variables.contains(name)
            {
                variables.push(name.clone());
            }
        }
        let set = self.set_text(load, text, &variables)?;
        if self.loads.is_none() {
            if load.local && variables::value_of(&self.engine, &self.env, "local_infile").is_none_or(|on| on != "ON") {
                return Err(errors::local_infile_refused().into());
            }
            // What is wrong with the table is told before anybody reads a file.
            self.load_entry(load, &set, None)?;
            let source = if load.local { self.file_of_client(load, sink)? } else { self.file_of_server(&load.file)? };
            self.loads = Some(Rc::new(source));
        }
        let source = self.loads.clone().ok_or_else(|| errors::internal("a load without a file"))?;
        let mut fields = places(load, &variables);
        let make = |columns: usize| {
            if fields.is_empty() {
                fields = (0..columns).map(FieldTo::Column).collect();
            }
            LoadPlan {
                fields,
                variables,
                params: set.params.clone(),
                format: load.format.clone(),
                charset,
                skip: load.skip,
                source,
            }
        };
        let (entry, scan) = self.load_entry(load, &set, Some(Box::new(make)))?;
        let nulls: Vec<UserValue> = set.params.iter().map(|_| no_text()).collect();
        let env = Rc::clone(&self.env);
        let constants =
            Constants { sql: set.sql.as_bytes(), literals: &[], params: Params::Variables(&nulls), env: &env };
        self.run_entry(entry, &scan, constants, more, false, sink)
    }

    /// The plan, whose rows come from what `make` makes for so many columns.
    fn load_entry(
        &mut self,
        load: &Load,
        set: &SetText,
        make: Option<Box<dyn FnOnce(usize) -> LoadPlan + '_>>,
    ) -> Res<(Entry, Normalised)> {
        let sql = set.sql.as_bytes();
        let concat = self.env.statement_mode() & sql_mode::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(sql, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        let Statement::Insert(insert) = statement else { return Err(errors::internal("no INSERT")) };
        let InsertSource::Values(rows) = insert.source else { return Err(errors::internal("no VALUES")) };
        let names = load.fields.iter().filter_map(|field| match field {
            LoadField::Column(name) => Some(name.clone()),
            LoadField::Variable(_) => None,
        });
        let source = InsertSource::File {
            fields: (!load.fields.is_empty()).then(|| names.collect()),
            set: load.set.iter().map(|(name, _)| name.clone()).collect(),
            values: rows.into_iter().next().unwrap_or_default(),
        };
        // A client that sends a file does not hear of each wrong line: such lines are left out.
        let ignore = load.ignore || load.local && !load.replace;
        let statement = Statement::Insert(Box::new(Insert {
            replace: load.replace,
            ignore,
            table: load.table.clone(),
            columns: None,
            source,
            row_alias: None,
            on_duplicate: Vec::new(),
            returning: None,
        }));
        let mut scan = Normalised::default();
        lexer::normalise(sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(sql, error.at))?;
        let nulls: Vec<UserValue> = set.params.iter().map(|_| no_text()).collect();
        let kinds: Vec<_> = set.params.iter().map(|_| crate::translate::ParamKind::Text(Collation::DEFAULT)).collect();
        let env = Rc::clone(&self.env);
        let constants = Constants { sql, literals: &[], params: Params::Variables(&nulls), env: &env };
        let (mut plan, looked, _) = self.translate(&statement, constants, &kinds, &tokens)?;
        if let (PlanKind::Insert(insert), Some(make)) = (&mut plan.kind, make) {
            let fields = insert.columns.len() - load.set.len();
            insert.load = Some(Box::new(make(fields)));
        }
        let entry = Entry::new(&scan, sql, self.inputs(), &kinds, &looked, Rc::new(plan));
        Ok((entry, scan))
    }

    /// The expressions behind SET in an INSERT; variables of the line are its parameters.
    fn set_text(&self, load: &Load, text: &[u8], variables: &[String]) -> Res<SetText> {
        let mode = self.env.lex_mode();
        let schema = load.table.schema.as_ref().map_or_else(String::new, |schema| format!("{}.", quoted(schema)));
        let mut sql = format!("INSERT INTO {schema}{} VALUES (", quoted(&load.table.name));
        let mut params = Vec::new();
        for (index, (_, (from, to))) in load.set.iter().enumerate() {
            if index > 0 {
                sql.push_str(", ");
            }
            let span = &text[*from..*to];
            let tokens = lexer::tokens(span, 0, mode, Literals::Inline).map_err(|error| parse::near(span, error.at))?;
            let mut copied = 0;
            for token in &tokens.tokens {
                let sqlparser::tokenizer::Token::DollarQuotedString(variable) = &token.token else { continue };
                let name = variable.value.trim_start_matches('@').trim_matches(['`', '\'', '"']);
                let slot = variables.iter().position(|known| known.eq_ignore_ascii_case(name));
                let Some(slot) = slot.filter(|_| !variable.value.starts_with("@@")) else { continue };
                let (start, end) = (token.span.start.column as usize, token.span.end.column as usize);
                sql.push_str(&String::from_utf8_lossy(&span[copied..start]));
                sql.push('?');
                params.push(slot);
                copied = end;
            }
            sql.push_str(&String::from_utf8_lossy(&span[copied..]));
        }
        sql.push(')');
        Ok(SetText { sql, params })
    }

    /// The file that the client sends, all of it.
    fn file_of_client(&self, load: &Load, sink: &mut dyn Sink) -> Result<FileSource, QueryError> {
        let Some(input) = sink.input() else { return Err(errors::local_infile_refused().into()) };
        input.open(load.file.as_bytes());
        let mut source = FileSource::of_bytes(Vec::new());
        loop {
            let mut piece = Vec::new();
            let came = task::block_on(poll_fn(|cx| input.poll_read(cx, &mut piece)));
            let more = came.map_err(|task::Cancelled| errors::interrupted())??;
            source.push(piece, &self.engine.directory.path)?;
            if !more {
                return Ok(source);
            }
        }
    }

    /// A file on the server.
    fn file_of_server(&self, name: &str) -> Res<FileSource> {
        let path = self.readable(name)?;
        let opened = off_thread(move || {
            let file = std::fs::File::open(path)?;
            let meta = file.metadata()?;
            if meta.is_file() { Ok((file, meta.len())) } else { Err(std::io::Error::other("not a file")) }
        })?;
        let (file, size) = opened.map_err(|error| errors::file_not_found(name, error))?;
        Ok(FileSource::of_file(file, size))
    }

    /// The path of a file that is there and may be read.
    fn readable(&self, name: &str) -> Res<PathBuf> {
        let directory = self.engine.settings.files().ok_or_else(errors::secure_file_priv)?;
        let wanted = directory.join(name);
        let found = off_thread(move || Ok((directory.canonicalize()?, wanted.canonicalize())))?;
        match found {
            Ok((directory, Ok(path))) if path.starts_with(&directory) => Ok(path),
            // Whoever may not read there is not told what there is.
            Ok((_, Err(error))) if !name.starts_with('/') => Err(errors::file_not_found(name, error)),
            _ => Err(errors::secure_file_priv()),
        }
    }
}

/// What is not read.
fn check_format(load: &Load) -> Res<()> {
    let format = &load.format;
    if !format.line_start.is_empty() && format.line_end.is_empty() {
        return Err(errors::wrong_field_terminators());
    }
    if format.field_end.is_empty() && format.enclosed.is_none() {
        return Err(errors::unsupported("LOAD DATA of fields of fixed size"));
    }
    Ok(())
}

/// Where each field of a line goes; none for all columns.
fn places(load: &Load, variables: &[String]) -> Vec<FieldTo> {
    let mut columns = 0..;
    let place = |field: &LoadField| match field {
        LoadField::Column(_) => FieldTo::Column(columns.next().unwrap_or(0)),
        LoadField::Variable(name) => FieldTo::Variable(variables.iter().position(|known| known == name).unwrap_or(0)),
    };
    load.fields.iter().map(place).collect()
}

/// How the texts of a file are written.
///
/// # Errors
/// 1115 for an unknown character set, 1235 for one that is not read.
pub(super) fn charset_of(name: Option<&str>) -> Result<Charset, ServerError> {
    let Some(name) = name else { return Ok(Charset::Utf8) };
    if let set @ Charset::OneByte(_) = Charset::named(name) {
        return Ok(set);
    }
    let collation = Collation::of_charset(name).ok_or_else(|| Collation::unknown_charset(name))?;
    match collation.charset() {
        "latin1" => Ok(Charset::Latin1),
        "utf8mb4" | "utf8mb3" | "ascii" | "binary" => Ok(Charset::Utf8),
        _ => Err(errors::unsupported(format!("files in the character set {name}"))),
    }
}
