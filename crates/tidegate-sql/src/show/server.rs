//! The tables of `information_schema` about the server itself: variables, counters, clients.

use std::sync::atomic::Ordering;

use crate::{
    accounts::Privileges,
    clients::Line,
    store::made_rows::{Item, Rows},
    task,
    translate::{Res, Translator},
    variables::{self, VariableScope},
};

pub(super) fn system_variables(translator: &Translator<'_>, scope: VariableScope) -> Rows {
    let now = translator.now();
    let all = variables::all(now.engine, now.env, scope);
    all.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect()
}

pub(super) fn status(translator: &Translator<'_>) -> Res<Rows> {
    let engine = translator.now().engine;
    let (connected, running) = engine.clients.count();
    let row = |name: &str, value: String| vec![Item::from(name), value.into()];
    let (received, sent) = engine.clients.traffic();
    Ok(vec![
        row("Bytes_received", received.to_string()),
        row("Bytes_sent", sent.to_string()),
        row("Questions", engine.questions.load(Ordering::Relaxed).to_string()),
        row("Queries", engine.questions.load(Ordering::Relaxed).to_string()),
        row("Connections", engine.clients.connections().to_string()),
        row("Threads_connected", connected.max(1).to_string()),
        row("Threads_running", running.max(1).to_string()),
        row("Caching_sha2_password_rsa_public_key", engine.login_key.shown(&engine.directory)),
        row("Uptime", engine.started.elapsed().as_secs().to_string()),
    ])
}

pub(super) fn processlist(translator: &Translator<'_>) -> Res<Rows> {
    let now = translator.now();
    let lines = task::text(|text| now.engine.clients.lines(&now.env.client, Some(text))).unwrap_or_default();
    let access = now.env.access();
    let sees_all = access.global().has(Privileges::PROCESS);
    let lines = lines.into_iter().filter(|line| sees_all || line.user == access.name.user);
    let row = |line: Line| {
        let info = line.info.map_or(Item::Null, |text| String::from_utf8_lossy(&text).into_owned().into());
        vec![
            (line.id as i64).into(),
            line.user.into(),
            line.host.into(),
            if line.schema.is_empty() { Item::Null } else { line.schema.into() },
            if line.runs { "Query" } else { "Sleep" }.into(),
            ((line.micros / 1_000_000) as i64).into(),
            "".into(),
            info.clone(),
            format!("{}.{:03}", line.micros / 1000, line.micros % 1000).into(),
            0.into(),
            0.into(),
            "0.000".into(),
            0.into(),
            0.into(),
            0.into(),
            0.into(),
            info,
            Item::Null,
        ]
    };
    Ok(lines.map(row).collect())
}
