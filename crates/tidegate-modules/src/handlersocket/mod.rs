//! `handlersocket`: rows by an index, without SQL, from this program's HandlerSocket ports and the plugin of MySQL and MariaDB;
//! the rows as responses.
//!
//! In the manner of `drizzle`, with servers and connections as other `*_pass` have them. The rows become what the location asks for
//! while they arrive: JSON (`rds_json`), CSV (`rds_csv`), or RDS.
//!
//! Reading order: [`settings`] (what the directives say), [`request`] (what is sent), [`conversation`] (what comes back),
//! [`rows`] (how that becomes a body).

mod conversation;
mod request;
mod rows;
mod settings;

use std::{rc::Rc, sync::Arc};

use tidegate_conf::{Diagnostic, Diagnostics, Span, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Checked, Context, Directive, Module},
    phase::{Outcome, Program, Ready},
    request::Request,
    template::Template,
    upstream::{UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
};

use self::{
    conversation::Conversation,
    request::{Action, Location},
    settings::{Columns, Filter, Find, Index, Limit, Modify, Within},
};
use crate::{
    bound::Bound,
    key_value,
    pass::{self, Pass, Schemes},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    upstream: UpstreamConf,
    pass: Option<Pass>,
    /// Place of `handlersocket_pass` in the configuration.
    pass_span: Option<Span>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    handlersocket_secret: Option<Template>,
    handlersocket_index: Option<Index>,
    handlersocket_columns: Option<Arc<Columns>>,
    handlersocket_find: Option<Arc<Find>>,
    handlersocket_limit: Option<Limit>,
    handlersocket_in: Option<Within>,
    handlersocket_filter: Option<Arc<Vec<Filter>>>,
    handlersocket_modify: Option<Arc<Modify>>,
    handlersocket_insert: Option<Arc<Vec<Bound>>>,
    handlersocket_old_rows: Option<bool>,
}

const PLACES: Context = Context::ALL_IF;
const CONTENT: Context = Context::LOCATION.or(Context::LOCATION_IF);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("handlersocket", Conf, upstream;
        sockets,
        retries(Failures::ROW_WORDS, "error | timeout | invalid_response | non_idempotent | off ...");
        Directive::custom("handlersocket_pass", 1, 1, handlersocket_pass)
            .within(CONTENT)
            .syntax("address")
            .doc("Answers with the rows that a HandlerSocket server finds or changes."),
        Directive::template("handlersocket_secret", |c: &mut Conf| &mut c.handlersocket_secret)
            .within(PLACES)
            .doc("What servers are told before anything else is asked of them."),
        Directive::custom("handlersocket_index", 2, 3, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_index, Index::parse(directive, build)?, directive)
        })
        .within(PLACES)
        .syntax("schema table [index]")
        .doc("The table, and the index by which rows are found: PRIMARY if none is named."),
        Directive::custom("handlersocket_columns", 1, u16::MAX, |conf: &mut Conf, directive, _| {
            fill(&mut conf.handlersocket_columns, Arc::new(Columns::parse(directive)?), directive)
        })
        .within(PLACES)
        .syntax("name[:number] ...")
        .doc("Columns that are answered or set; values of those with \":number\" have no quotes in JSON."),
        Directive::custom("handlersocket_find", 2, u16::MAX, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_find, Arc::new(Find::parse(directive, build)?), directive)
        })
        .within(PLACES)
        .syntax("= | > | >= | < | <= value ...")
        .doc("Finds rows whose columns of the index compare so, from the first column on; arguments of the request are decoded."),
        Directive::custom("handlersocket_limit", 1, 2, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_limit, Limit::parse(directive, build)?, directive)
        })
        .within(PLACES)
        .syntax("number [offset]")
        .default("1 0")
        .doc("Most rows that are found, behind so many others."),
        Directive::custom("handlersocket_in", 2, 2, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_in, Within::parse(directive, build)?, directive)
        })
        .within(PLACES)
        .syntax("number values")
        .doc("Finds rows for each of several values, with commas in between, of the index's column of this number, counted from 0."),
        Directive::custom("handlersocket_filter", 3, 4, |conf: &mut Conf, directive, build| {
            let filters = conf.handlersocket_filter.get_or_insert_default();
            Arc::make_mut(filters).push(Filter::parse(directive, build)?);
            Ok(())
        })
        .within(PLACES)
        .syntax("column = | != | > | >= | < | <= value [stop]")
        .doc("Leaves out rows whose column does not compare so; with \"stop\" the first of them ends the search."),
        Directive::custom("handlersocket_modify", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_modify, Arc::new(Modify::parse(directive, build)?), directive)
        })
        .within(PLACES)
        .syntax("update value ... | increment value ... | decrement value ... | delete")
        .doc("Changes the rows that are found: their columns, in order, get these values."),
        Directive::custom("handlersocket_insert", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            fill(&mut conf.handlersocket_insert, Arc::new(settings::values(&directive.args, build)?), directive)
        })
        .within(PLACES)
        .syntax("value ...")
        .doc("Adds a row whose columns have these values."),
        Directive::flag("handlersocket_old_rows", |c: &mut Conf| &mut c.handlersocket_old_rows)
            .within(PLACES)
            .default("off")
            .doc("Answers with rows as they were before handlersocket_modify, instead of their number."),
        Directive::size("handlersocket_buffer_size", |c: &mut Conf| &mut c.upstream.buffer_size)
            .within(PLACES)
            .default("4k")
            .doc("Size of the pieces in which answers are read, and longest error."),
    ),
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; handlersocket_secret, handlersocket_index, handlersocket_columns, handlersocket_limit,
            handlersocket_old_rows);
        if child.handlersocket_insert.is_none() && child.handlersocket_find.is_none() {
            inherit!(child, parent; handlersocket_insert, handlersocket_find, handlersocket_in, handlersocket_filter,
                handlersocket_modify);
        }
        if kind.is_unnamed() {
            inherit!(child, parent; pass, pass_span);
        }
    },
    install,
    check: Some(check),
    example: "
        upstream cats {
            server 127.0.0.1:9998;
            keepalive 16;
        }
        server {
            listen 127.0.0.1:8081;
            location /cat {
                handlersocket_index shop cats;
                handlersocket_columns id:number name;
                handlersocket_find = $arg_id;
                handlersocket_pass cats;
                rds_json on;
            }
        }
    ",
    ..Module::named("handlersocket")
};

fn handlersocket_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = pass::adds_slash(build);
    conf.pass_span = Some(directive.name.span);
    let pass = Pass::parse(&directive.args[0], build, Schemes::default())?;
    fill(&mut conf.pass, pass, directive)
}

/// Whether the directives of a level make a request.
fn check(conf: &Conf, _: &Checked<'_>, diagnostics: &mut Diagnostics) {
    if conf.pass.is_none() {
        return;
    }
    let mut complain = |message: &str| {
        diagnostics.error(conf.pass_span, format!("handlersocket: {message}"));
    };
    if conf.handlersocket_index.is_none() {
        complain("missing \"handlersocket_index\" for \"handlersocket_pass\"");
    }
    match (&conf.handlersocket_find, &conf.handlersocket_insert) {
        (None, None) => {
            complain("missing \"handlersocket_find\" or \"handlersocket_insert\" for \"handlersocket_pass\"")
        }
        (Some(_), Some(_)) => complain("\"handlersocket_find\" and \"handlersocket_insert\" exclude each other"),
        (None, Some(_)) => {
            let others = [
                (conf.handlersocket_in.is_some(), "in"),
                (conf.handlersocket_filter.is_some(), "filter"),
                (conf.handlersocket_modify.is_some(), "modify"),
            ];
            for (_, name) in others.iter().filter(|(is_set, _)| *is_set) {
                complain(&format!("\"handlersocket_{name}\" needs \"handlersocket_find\""));
            }
        }
        (Some(_), None) => {}
    }
    // Servers take values that are missing for empty ones.
    let columns = conf.handlersocket_columns.as_ref().map_or(0, |columns| columns.len());
    let modified = conf.handlersocket_modify.as_ref().map(|modify| modify.values.len()).filter(|count| *count > 0);
    let inserted = conf.handlersocket_insert.as_ref().map(|values| values.len());
    for count in modified.into_iter().chain(inserted).filter(|count| *count != columns) {
        complain(&format!("{count} values for {columns} of \"handlersocket_columns\""));
    }
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let (Some(pass), Some(index)) = (&conf.pass, &conf.handlersocket_index) else { return };
    let action = match (&conf.handlersocket_find, &conf.handlersocket_insert) {
        (Some(find), _) => Action::Find {
            find: find.clone(),
            limit: conf.handlersocket_limit.clone(),
            within: conf.handlersocket_in.clone(),
            filters: conf.handlersocket_filter.clone().unwrap_or_default(),
            modify: conf.handlersocket_modify.clone(),
            answers_rows: conf.handlersocket_old_rows == Some(true),
        },
        (None, Some(values)) => Action::Insert(values.clone()),
        (None, None) => return,
    };
    let mut settings = key_value::settings(&conf.upstream);
    // A change is carried out whether the client waits for it or not.
    settings.watch_client = action.only_reads();
    settings.intercept_always = 400..600;
    let location = Arc::new(Location {
        settings,
        pass: pass.clone(),
        secret: conf.handlersocket_secret.clone(),
        index: index.clone(),
        columns: conf.handlersocket_columns.clone().unwrap_or_default(),
        action,
    });
    program.auto_redirect |= conf.adds_slash;
    rows::install(program);
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    let prepared = match location.prepare(req) {
        Ok(prepared) => prepared,
        Err(step) => return Ready::Now(step),
    };
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let conversation = Conversation::new(&req, &location, prepared);
        pass::exchange(&req, &location.settings, &location.pass, conversation).await
    })
}
