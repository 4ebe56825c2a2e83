//! `POST post`: messages enter queues.

use std::{io::Write, rc::Rc};

use serde_json::Value as Json;
use tidegate_core::request::Request;
use tidegate_rows::Param;

use super::{Failure, Options, check_number, check_person, check_queue, json, newest, tables::Database};

/// Messages of one queue in one request.
pub(super) const MESSAGES_MAX: usize = 1000;

/// The messages of one queue, which are stored together.
struct Post<'a> {
    queue: &'a str,
    messages: Vec<&'a str>,
}

/// Stores messages; answers their numbers.
pub(super) async fn post(
    req: &Rc<Request>,
    options: &Options,
    data: &Json,
    bytes_max: usize,
) -> Result<Vec<u8>, Failure> {
    let sender = match data.get("sender") {
        None | Some(Json::Null) => Param::Null,
        Some(Json::String(name)) => {
            check_person("sender", name)?;
            Param::Bytes(name.clone().into())
        }
        Some(_) => return Err(Failure::bad("bad parameter `sender`")),
    };
    let posts = posts(data, bytes_max)?;
    let mut database = Database::of(req.conf(), &options.schema)?;
    let mut done = Vec::new();
    for Post { queue, messages } in posts {
        let places = vec!["(?,?)"; messages.len()].join(",");
        // One statement: numbers follow each other, and become visible in their order.
        let sql = format!("INSERT INTO {} (sender, message) VALUES {places}", database.table(queue, "msg"));
        let texts = messages.iter().map(|message| Param::Bytes((*message).to_owned().into()));
        let params: Vec<Param> = texts.flat_map(|text| [sender.clone(), text]).collect();
        let first = match database.run_or_make(queue, &sql, &params).await {
            Ok(stored) => stored.insert_id,
            Err(error) => return Err(Failure::Database { error, done }),
        };
        newest::note(&database, queue, first + messages.len() as u64 - 1);
        if !done.is_empty() {
            done.push(b',');
        }
        json::put_members(&mut done, [(queue, first..first + messages.len() as u64)], |out, ids| {
            json::put_list(out, ids, |out, id| {
                let _ = write!(out, "{id}");
            });
        });
    }
    let mut answer = vec![b'{'];
    answer.extend_from_slice(&done);
    answer.push(b'}');
    Ok(answer)
}

fn posts(data: &Json, bytes_max: usize) -> Result<Vec<Post<'_>>, Failure> {
    let Some(Json::Object(queues)) = data.get("messages") else {
        return Err(Failure::bad("bad parameter `messages`"));
    };
    check_number(queues.len())?;
    let mut posts = Vec::new();
    for (queue, list) in queues {
        check_queue(queue)?;
        let texts = |list: &'_ Vec<Json>| list.iter().all(Json::is_string);
        let Json::Array(list) = list else { return Err(Failure::bad("bad paramter `messages`")) };
        if !texts(list) {
            return Err(Failure::bad("messages must be strings"));
        }
        if list.len() > MESSAGES_MAX {
            return Err(Failure::bad(format!("a queue gets up to {MESSAGES_MAX} messages at once")));
        }
        let messages: Vec<&str> = list.iter().filter_map(Json::as_str).collect();
        if messages.iter().any(|message| message.len() > bytes_max) {
            return Err(Failure::bad(format!("a message has more than {bytes_max} bytes")));
        }
        if !messages.is_empty() {
            posts.push(Post { queue, messages });
        }
    }
    if posts.is_empty() { Err(Failure::bad("messages should not be empty")) } else { Ok(posts) }
}
