//! Schemas of the configuration: made where there are none, and filled from the file of `init=`.

use std::{
    path::Path,
    task::{Context, Poll},
};

use tidegate_core::conf::Config;
use tidegate_net::log::{self, Level};
use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary};
use tidegate_sql::{Engine, Session};

use super::{BLOCK, is_declared};

/// Makes schemas that are missing and fills them: those of the block, or, without one, of the upstreams.
pub(super) fn make(engine: &Engine, config: &Config) -> Result<(), String> {
    let conf = config.http_conf(&BLOCK);
    let declared = conf.schemas.iter().flatten().map(|(name, file)| (name.to_string(), file.clone()));
    let named = conf.upstreams.iter().flatten().filter(|name| !is_declared(config) && !name.is_empty());
    let mut missing: Vec<_> = declared.chain(named.map(|name| (name.clone(), None))).collect();
    missing.sort();
    missing.dedup();
    missing.retain(|(name, _)| engine.session(name).is_err());
    if missing.is_empty() {
        return Ok(());
    }
    let engine = engine.clone();
    on_a_thread(move || async move {
        for (name, file) in missing {
            fill(&engine, &name, file.as_deref()).await?;
        }
        Ok(())
    })
}

/// Runs statements while a worker starts: they wait for the disk, and the thread's own event loop cannot turn meanwhile.
pub(crate) fn on_a_thread<F: Future<Output = Result<(), String>>>(
    body: impl FnOnce() -> F + Send + 'static,
) -> Result<(), String> {
    let running = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot fill schemas: {error}"))?;
        runtime.block_on(body())
    });
    running.join().unwrap_or_else(|_| Err("cannot fill schemas: the engine panicked".to_owned()))
}

async fn fill(engine: &Engine, name: &str, file: Option<&Path>) -> Result<(), String> {
    let script = match file {
        None => Vec::new(),
        Some(file) => std::fs::read(file).map_err(|error| format!("cannot read \"{}\": {error}", file.display()))?,
    };
    let mut session = engine.session("").map_err(|error| error.to_string())?;
    // What the server itself begins with takes as long as it takes.
    execute(&mut session, b"SET max_statement_time = 0").await.map_err(|error| error.to_string())?;
    let quoted = name.replace('`', "``");
    let create = format!("CREATE DATABASE `{quoted}`");
    execute(&mut session, create.as_bytes()).await.map_err(|error| format!("schema \"{name}\": {error}"))?;
    if script.is_empty() {
        return Ok(());
    }
    let use_ = format!("USE `{quoted}`");
    execute(&mut session, use_.as_bytes()).await.map_err(|error| format!("schema \"{name}\": {error}"))?;
    if let Err(error) = execute(&mut session, &script).await {
        // A schema that is half full would be taken for a good one at the next start.
        let drop = format!("DROP DATABASE `{quoted}`");
        let _ = execute(&mut session, drop.as_bytes()).await;
        let file = file.map(|file| file.display().to_string()).unwrap_or_default();
        return Err(format!("schema \"{name}\", \"{file}\": {error}"));
    }
    log::note(Level::Notice, format_args!("database: schema \"{name}\" was made"));
    Ok(())
}

/// Runs statements whose rows nobody wants.
pub(crate) async fn execute(session: &mut Session, sql: &[u8]) -> Result<(), QueryError> {
    session.execute(Statement { sql, params: &[] }, &mut Nowhere).await
}

/// A sink that drops all results.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}
