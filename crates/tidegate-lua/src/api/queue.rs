//! The Rust half of `require "tidegate.queue"` (`lualib/tidegate/api/queue.lua`).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tidegate_modules::queue::{Queue, Taken};
use tidegate_queue::Receipt;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phases;
use crate::scheduler::{Answer, with_run};
use crate::sql::Refusal;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "queue",
    cdef: "",
    ffi: &[],
    functions: &[
        ("publish", function(publish)),
        ("pull", function(pull)),
        ("ack", function(ack)),
        ("ack_with", function(ack_with)),
        ("result", function(result)),
        ("refuse", function(refuse)),
        ("extend", function(extend)),
        ("subscribe", function(subscribe)),
        ("unsubscribe", function(unsubscribe)),
    ],
};

/// The queue that argument 1 names, in a place where the script may wait.
fn queue(lua: &mut Lua) -> Result<Result<Queue, String>, LuaError> {
    with_run(|run| Phases::YIELDABLE.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))?;
    if !lua.is_yieldable() {
        return Err(LuaError::new("attempt to yield across C-call boundary"));
    }
    let name = text(lua, 1)?;
    let config = tidegate_core::worker::config();
    let config = config.ok_or_else(|| LuaError::new("there is no embedded database here"))?;
    Ok(Queue::of(&config, &name))
}

fn text(lua: &mut Lua, index: i32) -> Result<String, LuaError> {
    let text = std::str::from_utf8(lua.check_bytes(index)?);
    text.map(str::to_owned).map_err(|_| LuaError::new("a queue takes names, keys and headers in UTF-8"))
}

/// Seconds; `None` for nil.
fn seconds(lua: &mut Lua, index: i32) -> Result<Option<Duration>, LuaError> {
    if lua.type_of(index) == Type::Nil {
        return Ok(None);
    }
    let seconds = lua.check_number(index)?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| LuaError::from(format!("{seconds} is no time")))?;
    Ok(Some(time))
}

/// Receipts from argument `first` on.
fn receipts(lua: &mut Lua, first: i32) -> Result<Vec<Receipt>, LuaError> {
    let mut receipts = Vec::new();
    for index in first..=lua.top() {
        let given = text(lua, index)?;
        receipts.push(given.parse().map_err(|_| LuaError::from(format!("this is no receipt: {given:?}")))?);
    }
    Ok(receipts)
}

/// Has the Lua half await what `future` comes to.
fn wait<T: 'static>(
    lua: &mut Lua,
    future: impl Future<Output = Result<T, String>> + 'static,
    push: fn(T, &mut Lua) -> CResult,
) -> CResult {
    let answer = async move {
        let ended = future.await;
        Answer::Push(Box::new(move |lua| match ended {
            Ok(value) => push(value, lua),
            Err(message) => Ok(Refusal::plain(message).push(lua)),
        }))
    };
    with_run(|run| run.wait(lua, answer)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

fn push_count(count: usize, lua: &mut Lua) -> CResult {
    lua.push_number(count as f64);
    Ok(1)
}

/// `publish(queue, body, headers or nil, name, value…)`: the number, and whether it was there already.
fn publish(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let body = Bytes::copy_from_slice(lua.check_bytes(2)?);
    let headers = if lua.type_of(3) == Type::Nil { None } else { Some(text(lua, 3)?) };
    let mut parameters = Vec::new();
    for index in (4..lua.top()).step_by(2) {
        parameters.push((text(lua, index)?, text(lua, index + 1)?));
    }
    wait(lua, async move { queue.publish(body, &parameters, headers).await }, |(id, is_known), lua| {
        lua.push_number(id as f64);
        lua.push_bool(is_known);
        Ok(2)
    })
}

/// `subscribe(queue, name)`: the queue from which the subscription pulls.
fn subscribe(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let name = text(lua, 2)?;
    wait(lua, async move { queue.subscribe(&name).await }, |pulled, lua| {
        lua.push_bytes(pulled.as_bytes());
        Ok(1)
    })
}

/// `unsubscribe(queue, name)`: whether there was one.
fn unsubscribe(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let name = text(lua, 2)?;
    wait(lua, async move { queue.unsubscribe(&name).await }, |was_there, lua| {
        lua.push_bool(was_there);
        Ok(1)
    })
}

/// `pull(queue, max, wait, lease or nil)`: a list of messages, empty if the time is over.
fn pull(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let max = usize::try_from(lua.check_integer(2)?).unwrap_or(1);
    let (time, lease) = (seconds(lua, 3)?.unwrap_or_default(), seconds(lua, 4)?);
    wait(lua, async move { queue.pull(max, time, lease).await }, push_messages)
}

fn push_messages(pulled: Vec<Taken>, lua: &mut Lua) -> CResult {
    lua.reserve(4)?;
    lua.push_table(i32::try_from(pulled.len()).unwrap_or(0), 0);
    let list = lua.top();
    for (number, taken) in (1..).zip(&pulled) {
        let message = taken.message();
        lua.push_table(0, 8);
        let table = lua.top();
        for (name, value) in
            [(&b"id"[..], message.id), (b"priority", message.priority), (b"attempts", message.attempts)]
        {
            lua.push_number(value as f64);
            lua.raw_set_field(table, name);
        }
        lua.push_number(message.published_ms as f64 / 1000.0);
        lua.raw_set_field(table, b"published");
        lua.push_bytes(&message.body);
        lua.raw_set_field(table, b"body");
        if let Some(key) = &message.ordering_key {
            lua.push_bytes(key);
            lua.raw_set_field(table, b"ordering_key");
        }
        if let Some(headers) = &message.headers {
            lua.push_bytes(headers);
            lua.raw_set_field(table, b"headers");
        }
        lua.push_bytes(taken.receipt().to_string().as_bytes());
        lua.raw_set_field(table, b"receipt");
        lua.raw_set_index(list, number);
    }
    // The script has them from here on; what has failed before gives all of them back.
    pulled.into_iter().for_each(Taken::keep);
    Ok(1)
}

/// `ack(queue, receipt…)`: how many of them were still good.
fn ack(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let receipts = receipts(lua, 2)?;
    wait(lua, async move { queue.acknowledge(&receipts).await }, push_count)
}

/// `ack_with(queue, result, receipt)`: how many of the receipts were still good.
fn ack_with(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let result = Bytes::copy_from_slice(lua.check_bytes(2)?);
    let receipts = receipts(lua, 3)?;
    let [receipt] = receipts[..] else { return Err(LuaError::new("a result belongs to one message")) };
    wait(lua, async move { queue.acknowledge_with(receipt, result).await }, push_count)
}

/// `result(queue, id, wait)`: the result, or nil and where its message is.
fn result(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let id = u64::try_from(lua.check_integer(2)?).unwrap_or(0);
    let time = seconds(lua, 3)?.unwrap_or_default();
    wait(lua, async move { queue.result(id, time).await }, |result, lua| {
        lua.push_bytes(&result);
        Ok(1)
    })
}

/// `refuse(queue, delay or nil, reason or nil, receipt…)`: how many of the receipts were still good.
fn refuse(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let delay = seconds(lua, 2)?.unwrap_or_default();
    let reason = if lua.type_of(3) == Type::Nil { None } else { Some(text(lua, 3)?) };
    let receipts = receipts(lua, 4)?;
    wait(lua, async move { queue.refuse(&receipts, delay, reason.as_deref()).await }, push_count)
}

/// `extend(queue, seconds, receipt…)`: how many of the receipts were still good.
fn extend(lua: &mut Lua) -> CResult {
    let queue = match queue(lua)? {
        Ok(queue) => queue,
        Err(message) => return Ok(Refusal::plain(message).push(lua)),
    };
    let lease = seconds(lua, 2)?.unwrap_or_default();
    let receipts = receipts(lua, 3)?;
    push_count(queue.extend(&receipts, lease), lua)
}
