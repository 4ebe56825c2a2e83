//! `queue_api`: queues of messages in the embedded database.
//!
//! Messages are rows of the schema `tidegate_queue` ([`tables`]); who has which is known to [`tidegate_queue::Broker`], once
//! for all workers. [`store`] brings both together: [`publish`] and [`settle`] change rows and tell the broker, [`keeper`]
//! looks after time, [`counts`] tells how many messages there are, and [`limits`] how many there may be. [`api`] is HTTP,
//! [`pull`] and [`stream`] what waits for messages there, [`admin`] what looks at whole queues, [`deliver`] runs locations for
//! messages. [`subscriptions`] copies messages to all who want them, [`results`] keeps what has become of them. [`ordering`]
//! lets messages of one key come one after the other. [`outbox`] takes messages that SQL has published with an application's own rows. [`scripts`] is the queue without HTTP, [`beanstalk`]
//! another protocol, [`nq`] another API with tables of its own, [`desk`] the command line's.
//!
//! A message that was given to a consumer is not changed by that: it belongs to the consumer until a time limit in memory. So a
//! pull writes nothing, and after a crash all messages wait again that were not acknowledged.

mod admin;
mod answer;
mod api;
pub(crate) mod beanstalk;
mod counts;
mod deliver;
mod desk;
mod gather;
mod keeper;
mod limits;
mod line;
mod message;
mod nq;
mod ordering;
mod outbox;
mod publish;
mod pull;
mod results;
mod schedules;
mod scripts;
mod settings;
mod settle;
mod store;
mod stream;
mod subscriptions;
mod tables;
mod time_of_day;

pub use message::Message;
pub use scripts::{Queue, Taken};

use std::{sync::Arc, time::Duration};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::{Build, Config},
    inherit,
    location::Match,
    main_conf::duplicate,
    module::{Context, Directive, Module},
};
use tidegate_net::log::{self, Level};
use tidegate_sql::Engine;

use crate::database::{self, schemas::on_a_thread};

/// How long a consumer has a message, where nothing is said.
const LEASE: Duration = Duration::from_secs(30);
/// How long a pull may wait, where nothing is said.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a server that starts waits for transactions that keep it from making tables. Only at a reload there are some.
const PREPARE_MAX: Duration = Duration::from_secs(5);
/// Bytes of the largest message, where nothing is said.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `queue_api`
    api: Option<Api>,
    /// `queue_lease`
    queue_lease: Option<Duration>,
    /// `queue_wait_max`
    queue_wait_max: Option<Duration>,
    /// `queue_message_size_max`
    queue_message_size_max: Option<usize>,
    /// `queue_outbox`
    outboxes: Option<Arc<[String]>>,
    /// `queue_deliver`
    deliveries: Vec<Arc<deliver::Delivery>>,
    /// `queue_length_max`
    queue_length_max: Option<u64>,
    /// `queue_age_max`
    queue_age_max: Option<Duration>,
    /// `queue_overflow`
    queue_overflow: Option<u32>,
}

/// What `queue_api` says.
#[derive(Debug, Clone)]
struct Api {
    /// The length of the location's text, in front of the queue's name.
    skip: usize,
    /// Clients of nq are served.
    nq: Option<Arc<nq::Options>>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("queue_api", 0, 5, queue_api)
            .within(Context::LOCATION)
            .syntax("[nq [schema=name] [timeout=time] [fail_timeout=time] [retry_num=number]]")
            .doc(
                "Answers requests that publish, pull and settle messages; the queue's name follows the location's text. With \
                 \"nq\": requests of nq's clients.",
            ),
        Directive::custom("queue_lease", 1, 1, queue_lease)
            .syntax("time")
            .default("30s")
            .doc("How long a consumer has a message where its request does not say."),
        Directive::time("queue_wait_max", |conf: &mut Conf| &mut conf.queue_wait_max)
            .default("60s")
            .doc("Longest time that a request may wait for a message or a result."),
        Directive::size("queue_message_size_max", |conf: &mut Conf| &mut conf.queue_message_size_max)
            .default("1m")
            .doc("Size of the largest message."),
        Directive::number("queue_length_max", |conf: &mut Conf| &mut conf.queue_length_max)
            .within(Context::HTTP)
            .default("0")
            .doc("Messages that a queue may have which has no limit of its own; 0 for any number."),
        Directive::time("queue_age_max", |conf: &mut Conf| &mut conf.queue_age_max)
            .within(Context::HTTP)
            .default("0")
            .doc("How long a message may wait in a queue which has no limit of its own; 0 for ever."),
        Directive::choice("queue_overflow", |conf: &mut Conf| &mut conf.queue_overflow, limits::OVERFLOWS)
            .within(Context::HTTP)
            .syntax("reject | drop_oldest | dead_letter")
            .default("reject")
            .doc("What happens to messages beyond the limits of a queue: the new ones are refused, the oldest deleted or dead."),
        Directive::custom("queue_deliver", 2, 5, deliver::queue_deliver)
            .within(Context::SERVER)
            .syntax("queue uri [concurrency=number] [backoff=time] [backoff_max=time]")
            .doc(
                "Runs the location of the URI for each message of the queue, so many at a time. An answer of 2xx acknowledges the \
                 message; otherwise it comes again after a time that grows from \"backoff\" to \"backoff_max\".",
            ),
        Directive::custom("queue_outbox", 1, u16::MAX, outbox::queue_outbox)
            .within(Context::HTTP)
            .syntax("schema ...")
            .doc("Schemas whose table \"tidegate_outbox\" has messages to be published."),
    ],
    inherit: |child, parent, kind| {
        inherit!(child, parent; queue_lease, queue_wait_max, queue_message_size_max);
        if kind.is_unnamed() && child.api.is_none() {
            child.api.clone_from(&parent.api);
        }
    },
    install: |conf, program| {
        match conf.api.clone() {
            Some(Api { skip, nq: None }) => program.content(move |req| api::handle(req, skip)),
            Some(Api { skip, nq: Some(options) }) => program.content(move |req| nq::handle(req, skip, &options)),
            None => {}
        }
    },
    init_worker: Some(start),
    example: "
        queue_outbox shop;
        server {
            listen 127.0.0.1:8081;
            location /queues/ { queue_api; queue_lease 1m; }
            queue_deliver mail /hooks/mail concurrency=4;
            location = /hooks/mail { internal; return 204; }
        }
    ",
    ..Module::named("queue")
};

/// Makes the tables that queues of the configuration need, where there are none: an application may write to them as soon as the server
/// accepts. What cannot be made now is made when it is needed first.
pub(crate) fn prepare_tables(engine: &Engine, config: &Config) {
    let conf = config.http_conf(&database::BLOCK);
    let is_named = conf.upstreams.iter().flatten().any(|schema| schema == tables::SCHEMA);
    if !is_named && !conf.beanstalk.is_served() {
        return;
    }
    let (engine, path) = (engine.clone(), database::data_path(config));
    let outboxes = config.http_conf(&MODULE).outboxes.clone();
    let prepared = on_a_thread(move || async move {
        let preparing = store::prepare(&engine, &path, outboxes.as_deref().unwrap_or_default());
        match tokio::time::timeout(PREPARE_MAX, preparing).await {
            Ok(prepared) => prepared.map_err(|error| error.to_string()),
            Err(_) => Err("others write to the schema".to_owned()),
        }
    });
    if let Err(reason) = prepared {
        log::note(Level::Warn, format_args!("queue: tables are not made as the server starts: {reason}"));
    }
}

/// Has `tidegate queue` answered, in a process that has no workers too.
pub fn answer_command_line() {
    desk::open_desks();
}

fn start(conf: &Arc<Conf>) -> Result<(), String> {
    answer_command_line();
    deliver::start()?;
    outbox::start(conf)
}

impl Conf {
    fn lease(&self) -> Duration {
        self.queue_lease.unwrap_or(LEASE)
    }

    fn wait_max(&self) -> Duration {
        self.queue_wait_max.unwrap_or(WAIT_MAX)
    }

    fn message_bytes_max(&self) -> usize {
        self.queue_message_size_max.unwrap_or(MESSAGE_BYTES_MAX)
    }
}

/// `queue_lease TIME`
fn queue_lease(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let lease = values::time(arg.value.as_bstr()).map_err(|error| error.diagnostic(&directive.name.value, arg))?;
    if lease.is_zero() {
        // A consumer would have lost its message before it got it.
        let message = "\"queue_lease\" must be more than no time";
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message)
            .with_hint("say how long a consumer may take for a message: \"queue_lease 30s\""));
    }
    if conf.queue_lease.replace(lease).is_some() { Err(duplicate(directive)) } else { Ok(()) }
}

fn queue_api(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.api.is_some() {
        return Err(duplicate(directive));
    }
    let level = build.level();
    let siblings = build.parent_of(level).map_or(&[][..], |parent| build.locations_of(parent));
    let kind = siblings.iter().find(|draft| draft.level == level).map(|draft| &draft.kind);
    let name = build.name_of(level);
    if matches!(kind, Some(Match::Named | Match::Regex(_) | Match::Exact)) || !name.ends_with(b"/") {
        let message = "\"queue_api\" must be in a location whose text ends with \"/\"";
        return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message)
            .with_hint("write \"location /queues/ { queue_api; }\""));
    }
    let skip = name.len();
    let nq = match directive.args.first() {
        None => None,
        Some(arg) if arg.value.as_ref() as &[u8] == b"nq" => Some(nq::Options::parse(directive)?),
        Some(arg) => {
            let message = format!("there is no queue API \"{}\"", String::from_utf8_lossy(&arg.value));
            return Err(
                Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("\"queue_api\" or \"queue_api nq\"")
            );
        }
    };
    let schema = nq.as_ref().map_or(tables::SCHEMA, |options| &options.schema).to_owned();
    conf.api = Some(Api { skip, nq });
    // Without a "database" block this opens the directory by default.
    let level = build.http_level().unwrap_or(level);
    let upstreams = build.conf_mut(&database::BLOCK, level).upstreams.get_or_insert_default();
    upstreams.push(schema);
    Ok(())
}
