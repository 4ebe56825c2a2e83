//! JSON functions as MariaDB has them: texts in, texts out.
//!
//! What is no JSON gives NULL and a warning. Values that go into a text are quoted unless they are JSON themselves,
//! which [`argument`] decides by their type.

use super::{
    Family, Function, MANY, Want,
    abi::{Accumulate, Aggregate, Args, Out, Udf},
    int, rewrite, udf, udf_lenient,
};
use crate::{
    env, errors,
    store::conn::Cell,
    translate::{Coercibility, Ex, Res, Translator},
    value::{
        Base, Rep, SqlType,
        collation::Collation,
        json::{
            is_valid,
            path::{Last, Path},
            tree::{Broken, Json, Node, Style, escape, parse, unescape},
        },
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: AGGREGATES };

const T: &[Want] = &[Want::Text];

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    udf("JSON_VALID", "f_json_valid", 1, 1, T, boolean, |args, out| { out.bool(is_valid(args.bytes(0))); Ok(()) }),
    udf("JSON_TYPE", "f_json_type", 1, 1, T, |_| SqlType::varchar(12, Collation::DEFAULT), json_type),
    udf("JSON_DEPTH", "f_json_depth", 1, 1, T, int, |args, out| {
        if let Some(node) = document(args, 0, "json_depth") { out.int(node.depth() as i64); }
        Ok(())
    }),
    udf("JSON_LENGTH", "f_json_length", 1, 2, T, int, |args, out| {
        let Some(node) = document(args, 0, "json_length") else { return Ok(()) };
        if args.len() == 1 { out.int(node.len() as i64); return Ok(()); }
        let Some(path) = path(args, 1, "json_length") else { return Ok(()) };
        if path.is_wild() { return Ok(()); }
        if let Some(found) = path.find(&node).first() { out.int(found.len() as i64); }
        Ok(())
    }),
    udf("JSON_KEYS", "f_json_keys", 1, 2, T, like_document, json_keys),
    rewrite("JSON_EXTRACT", 2, MANY, |t, args| json_call(t, "TG_JSON_EXTRACT", args)),
    udf("TG_JSON_EXTRACT", "f_json_extract", 2, MANY, T, extracted, json_extract),
    udf("JSON_VALUE", "f_json_value", 2, 2, T, extracted, |args, out| {
        let Some((node, path)) = pair(args, "json_value") else { return Ok(()) };
        if path.is_wild() { return Ok(()); }
        match path.find(&node).into_iter().find(|found| found.is_scalar()).map(|found| &found.value) {
            Some(Json::Bool(flag)) => out.text(if *flag { "1" } else { "0" }),
            Some(Json::Number(text)) => out.text(text),
            Some(Json::String(text)) => out.text(unescape(text)),
            _ => {}
        }
        Ok(())
    }),
    rewrite("JSON_QUERY", 2, 2, |t, args| json_call(t, "TG_JSON_QUERY", args)),
    udf("TG_JSON_QUERY", "f_json_query", 2, 2, T, extracted, |args, out| {
        let Some((node, path)) = pair(args, "json_query") else { return Ok(()) };
        if let Some(found) = path.find(&node).into_iter().find(|found| !found.is_scalar()) {
            out.text(&args.bytes(0)[found.start..found.end]);
        }
        Ok(())
    }),
    udf("JSON_EXISTS", "f_json_exists", 2, 2, T, boolean, |args, out| {
        let Ok(path) = Path::parse(args.bytes(1)) else { return Ok(()) };
        match parse(args.bytes(0)) {
            Ok(node) => out.bool(!path.find(&node).is_empty()),
            Err(_) if path.is_root() => out.bool(true),
            Err(_) => {}
        }
        Ok(())
    }),
    udf("JSON_UNQUOTE", "f_json_unquote", 1, 1, T, like_document, |args, out| {
        let text = args.bytes(0);
        match parse(text).map(|node| node.value) {
            Ok(Json::String(inside)) => out.text(unescape(&inside)),
            _ => out.text(text),
        }
        Ok(())
    }),
    rewrite("JSON_QUOTE", 1, 1, |t, args| {
        let is_text = matches!(args[0].ty.rep(), Rep::Text | Rep::Null);
        let text = if is_text { t.convert(&args[0], Rep::Text) } else { "NULL".into() };
        let ty = SqlType::string(args[0].ty.length.saturating_mul(2).saturating_add(2), t.session.inputs.collation);
        Ok(Ex::sql(format!("tg_json_quote({text})"), ty))
    }),
    rewrite("JSON_ARRAY", 0, MANY, |t, args| {
        let values: Vec<String> = args.iter().map(|arg| argument(t, arg)).collect();
        Ok(json_ex(format!("tg_json_array({})", values.join(", ")), t, args).with_nullable(false))
    }),
    rewrite("JSON_OBJECT", 0, MANY, |t, args| {
        if !args.len().is_multiple_of(2) {
            return Err(errors::wrong_param_count("JSON_OBJECT"));
        }
        let mut values = Vec::new();
        for pair in args.chunks(2) {
            values.push(t.convert(&pair[0], Rep::Text));
            values.push(argument(t, &pair[1]));
        }
        Ok(json_ex(format!("tg_json_object({})", values.join(", ")), t, args).with_nullable(false))
    }),
    rewrite("JSON_SET", 3, MANY, |t, args| change(t, "tg_json_set", 3, args)),
    rewrite("JSON_INSERT", 3, MANY, |t, args| change(t, "tg_json_set", 1, args)),
    rewrite("JSON_REPLACE", 3, MANY, |t, args| change(t, "tg_json_set", 2, args)),
    rewrite("JSON_ARRAY_APPEND", 3, MANY, |t, args| change(t, "tg_json_append", 0, args)),
    rewrite("JSON_ARRAY_INSERT", 3, MANY, |t, args| change(t, "tg_json_array_insert", 0, args)),
    rewrite("JSON_REMOVE", 2, MANY, |t, args| json_call(t, "TG_JSON_REMOVE", args)),
    udf("TG_JSON_REMOVE", "f_json_remove", 2, MANY, T, like_document, json_remove),
    rewrite("JSON_COMPACT", 1, 1, |t, args| json_call(t, "TG_JSON_COMPACT", args)),
    udf("TG_JSON_COMPACT", "f_json_compact", 1, 1, T, formatted, |args, out| format(args, out, "json_compact", Style::Compact)),
    rewrite("JSON_LOOSE", 1, 1, |t, args| json_call(t, "TG_JSON_LOOSE", args)),
    udf("TG_JSON_LOOSE", "f_json_loose", 1, 1, T, formatted, |args, out| format(args, out, "json_loose", Style::Loose)),
    rewrite("JSON_DETAILED", 1, 2, |t, args| json_call(t, "TG_JSON_DETAILED", args)),
    rewrite("JSON_PRETTY", 1, 2, |t, args| json_call(t, "TG_JSON_DETAILED", args)),
    udf("TG_JSON_DETAILED", "f_json_detailed", 1, 2, &[Want::Text, Want::Int], super::long_text, |args, out| {
        let width = if args.len() > 1 { args.int(1).clamp(0, 16) as usize } else { 4 };
        format(args, out, "json_detailed", Style::Detailed(width))
    }),
    rewrite("JSON_NORMALIZE", 1, 1, |t, args| json_call(t, "TG_JSON_NORMALIZE", args)),
    udf("TG_JSON_NORMALIZE", "f_json_normalize", 1, 1, T, formatted, |args, out| {
        let Some(mut node) = document(args, 0, "json_normalize") else { return Ok(()) };
        node.normalise();
        out.text(written(&node, Style::Compact));
        Ok(())
    }),
    udf("JSON_CONTAINS", "f_json_contains", 2, 3, T, boolean, |args, out| {
        let Some(node) = document(args, 0, "json_contains") else { return Ok(()) };
        let found = if args.len() > 2 {
            let Some(path) = path(args, 2, "json_contains") else { return Ok(()) };
            match path.find(&node).first() {
                Some(found) => (*found).clone(),
                None => { out.bool(false); return Ok(()); }
            }
        } else {
            node
        };
        let Some(candidate) = document(args, 1, "json_contains") else { return Ok(()) };
        out.bool(found.contains(&candidate));
        Ok(())
    }),
    udf("JSON_CONTAINS_PATH", "f_json_contains_path", 3, MANY, T, boolean, json_contains_path),
    udf("JSON_OVERLAPS", "f_json_overlaps", 2, 2, T, boolean, |args, out| {
        if let (Some(a), Some(b)) = (document(args, 0, "json_overlaps"), document(args, 1, "json_overlaps")) {
            out.bool(a.overlaps(&b));
        }
        Ok(())
    }),
    udf("JSON_EQUALS", "f_json_equals", 2, 2, T, boolean, |args, out| {
        if let (Some(a), Some(b)) = (document(args, 0, "json_equals"), document(args, 1, "json_equals")) {
            out.bool(a.equals(&b));
        }
        Ok(())
    }),
    udf_lenient("JSON_SEARCH", "f_json_search", 3, MANY, T, |args| { let bytes = args[0].ty.length.saturating_mul(4); json_string(bytes.saturating_mul(bytes) / 4) }, json_search),
    rewrite("JSON_MERGE", 2, MANY, |t, args| json_call(t, "TG_JSON_MERGE", args)),
    rewrite("JSON_MERGE_PRESERVE", 2, MANY, |t, args| json_call(t, "TG_JSON_MERGE", args)),
    udf("TG_JSON_MERGE", "f_json_merge", 2, MANY, T, all_documents, |args, out| {
        let Some(mut merged) = document(args, 0, "json_merge_preserve") else { return Ok(()) };
        for index in 1..args.len() {
            let Some(next) = document(args, index, "json_merge_preserve") else { return Ok(()) };
            merged = merge(merged, next);
        }
        out.text(written(&merged, Style::Loose));
        Ok(())
    }),
    rewrite("JSON_MERGE_PATCH", 2, MANY, |t, args| json_call(t, "TG_JSON_MERGE_PATCH", args)),
    udf_lenient("TG_JSON_MERGE_PATCH", "f_json_merge_patch", 2, MANY, T, all_documents, |args, out| {
        let mut merged = None;
        for index in 0..args.len() {
            if args.is_null(index) {
                merged = None;
                continue;
            }
            let Some(next) = document(args, index, "json_merge_patch") else { return Ok(()) };
            merged = match merged {
                Some(target) => Some(patch(target, next)),
                None if index == 0 || next.is_scalar() || matches!(next.value, Json::Array(_)) => Some(next),
                None => None,
            };
        }
        if let Some(merged) = merged { out.text(written(&merged, Style::Loose)); }
        Ok(())
    }),
];

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_json_plain(document)`: what counts as a number of a value that JSON_EXTRACT has found.
    Udf::new("tg_json_plain", 1, |args, out| {
        let text = args.bytes(0);
        match parse(text).map(|node| node.value) {
            Ok(Json::String(inside)) => out.text(unescape(&inside)),
            _ if text == b"true" => out.text("1"),
            _ => out.text(text),
        }
        Ok(())
    }),
    // `tg_json_arg(value, kind)`: the JSON text of a value: 0 characters, 1 JSON or a number, 2 a truth value.
    Udf::lenient("tg_json_arg", 2, |args, out| {
        match (args.cell(0), args.int(1)) {
            (Cell::Null, _) => out.text("null"),
            (_, 2) => out.text(if args.real(0) != 0.0 { "true" } else { "false" }),
            (Cell::Text(text) | Cell::Blob(text), 1) => out.text(text),
            (Cell::Text(text) | Cell::Blob(text), _) => out.text(written(&Node::string(text), Style::Loose)),
            (cell, _) => out.cell(cell),
        }
        Ok(())
    }),
    Udf::new("tg_json_quote", 1, |args, out| { out.text(written(&Node::string(args.bytes(0)), Style::Loose)); Ok(()) }),
    Udf::lenient("tg_json_array", -1, |args, out| {
        let mut text = vec![b'['];
        for index in 0..args.len() {
            if index > 0 { text.extend_from_slice(b", "); }
            text.extend_from_slice(args.bytes(index));
        }
        text.push(b']');
        out.text(text);
        Ok(())
    }),
    Udf::lenient("tg_json_object", -1, |args, out| {
        let mut text = vec![b'{'];
        for index in (0..args.len()).step_by(2) {
            if index > 0 { text.extend_from_slice(b", "); }
            text.push(b'"');
            escape(args.bytes(index), &mut text);
            text.extend_from_slice(b"\": ");
            text.extend_from_slice(args.bytes(index + 1));
        }
        text.push(b'}');
        out.text(text);
        Ok(())
    }),
    Udf::new("tg_json_set", -1, json_set),
    Udf::new("tg_json_append", -1, json_append),
    Udf::new("tg_json_array_insert", -1, json_array_insert),
];

static AGGREGATES: &[Aggregate] = &[
    Aggregate { name: "tg_json_arrayagg", count: 1, make: || Box::new(List::default()) },
    Aggregate { name: "tg_json_objectagg", count: 2, make: || Box::new(Members::default()) },
];

fn boolean(_: &[Ex]) -> SqlType {
    SqlType::boolean()
}

fn json_string(length: u32) -> SqlType {
    SqlType::string(length, Collation::DEFAULT)
}

fn like_document(args: &[Ex]) -> SqlType {
    json_string(args[0].ty.length)
}

fn extracted(args: &[Ex]) -> SqlType {
    json_string(args[0].ty.length.saturating_mul(args.len() as u32 - 1))
}

fn formatted(args: &[Ex]) -> SqlType {
    json_string(args[0].ty.length.saturating_mul(2))
}

fn all_documents(args: &[Ex]) -> SqlType {
    json_string(args.iter().fold(0, |sum, arg| sum.saturating_add(arg.ty.length)))
}

/// A call whose result is JSON.
fn json_call(t: &mut Translator<'_>, name: &str, args: &[Ex]) -> Res<Ex> {
    let ex = super::call(t, name, args)?;
    let ty = ex.ty.clone().json();
    Ok(Ex { ty, ..ex })
}

fn json_ex(sql: String, t: &Translator<'_>, args: &[Ex]) -> Ex {
    let length =
        args.iter().fold(2u32, |sum, arg| sum.saturating_add(arg.ty.length.saturating_mul(2).saturating_add(8)));
    let ty = SqlType::string(length, t.session.inputs.collation).json();
    Ex { coercibility: Coercibility::Literal, ..Ex::sql(sql, ty) }
}

/// The JSON text of a value that goes into a JSON text.
pub(super) fn argument(t: &mut Translator<'_>, ex: &Ex) -> String {
    let kind = if ex.ty.is_json() {
        1
    } else if ex.ty.is_bool() {
        2
    } else if ex.ty.base.is_number() && ex.ty.base != Base::Bit {
        1
    } else {
        0
    };
    let sql = if kind == 2 { t.convert(ex, Rep::Int) } else { t.convert(ex, Rep::Text) };
    format!("tg_json_arg({sql}, {kind})")
}

fn change(t: &mut Translator<'_>, function: &str, mode: i64, args: &[Ex]) -> Res<Ex> {
    if args.len().is_multiple_of(2) {
        return Err(errors::wrong_param_count(function.replace("tg_", "").to_ascii_uppercase()));
    }
    let mut texts = vec![t.convert(&args[0], Rep::Text)];
    for pair in args[1..].chunks(2) {
        texts.push(t.convert(&pair[0], Rep::Text));
        texts.push(argument(t, &pair[1]));
    }
    let mode = if function == "tg_json_set" { format!("{mode}, ") } else { String::new() };
    let ex = json_ex(format!("{function}({mode}{})", texts.join(", ")), t, args);
    Ok(ex)
}

#[cold]
fn broken(broken: Broken, index: usize, function: &str) {
    env::current(|env| env.warn(broken.error(index + 1, function)));
}

fn read(text: &[u8], index: usize, function: &str) -> Option<Node> {
    parse(text).map_err(|error| broken(error, index, function)).ok()
}

fn document(args: &Args<'_>, index: usize, function: &str) -> Option<Node> {
    read(args.bytes(index), index, function)
}

fn path(args: &Args<'_>, index: usize, function: &str) -> Option<Path> {
    let found = Path::parse(args.bytes(index));
    found.map_err(|bad| env::current(|env| env.warn(bad.error(index + 1, function)))).ok()
}

/// A path that means one place at most.
fn plain_path(args: &Args<'_>, index: usize, function: &str) -> Option<Path> {
    let path = path(args, index, function)?;
    if path.is_wild() {
        env::current(|env| env.warn(errors::json_path_wild(index + 1, function)));
        return None;
    }
    Some(path)
}

fn pair(args: &Args<'_>, function: &str) -> Option<(Node, Path)> {
    let path = path(args, 1, function)?;
    Some((document(args, 0, function)?, path))
}

fn written(node: &Node, style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    node.write(style, &mut out);
    out
}

fn format(args: &Args<'_>, out: &mut Out, function: &str, style: Style) -> Done {
    if let Some(node) = document(args, 0, function) {
        out.text(written(&node, style));
    }
    Ok(())
}

fn json_type(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(node) = document(args, 0, "json_type") else { return Ok(()) };
    out.text(match &node.value {
        Json::Null => "NULL",
        Json::Bool(_) => "BOOLEAN",
        Json::Number(text) if text.contains(&b'.') => "DOUBLE",
        Json::Number(_) => "INTEGER",
        Json::String(_) => "STRING",
        Json::Array(_) => "ARRAY",
        Json::Object(_) => "OBJECT",
    });
    Ok(())
}

fn json_keys(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(node) = document(args, 0, "json_keys") else { return Ok(()) };
    let found = if args.len() > 1 {
        let Some(path) = plain_path(args, 1, "json_keys") else { return Ok(()) };
        match path.find(&node).first() {
            Some(found) => (*found).clone(),
            None => return Ok(()),
        }
    } else {
        node
    };
    let Json::Object(members) = found.value else { return Ok(()) };
    let mut keys: Vec<Node> = Vec::new();
    for (key, _) in members {
        let key = Node::new(Json::String(key));
        if !keys.iter().any(|known| known.equals(&key)) {
            keys.push(key);
        }
    }
    out.text(written(&Node::new(Json::Array(keys)), Style::Loose));
    Ok(())
}

fn json_extract(args: &Args<'_>, out: &mut Out) -> Done {
    let mut paths = Vec::new();
    for index in 1..args.len() {
        match path(args, index, "json_extract") {
            Some(path) => paths.push(path),
            None => return Ok(()),
        }
    }
    let Some(node) = document(args, 0, "json_extract") else { return Ok(()) };
    let many = paths.len() > 1 || paths[0].is_wild();
    let mut found: Vec<&Node> = Vec::new();
    for path in &paths {
        found.extend(path.find(&node));
    }
    let Some(first) = found.first() else { return Ok(()) };
    if !many {
        out.text(written(first, Style::Loose));
        return Ok(());
    }
    // Several paths: in the order of the text, each value once.
    found.sort_by_key(|node| (node.start, std::cmp::Reverse(node.end)));
    found.dedup_by(|a, b| std::ptr::eq(*a, *b));
    let items = found.into_iter().cloned().collect();
    out.text(written(&Node::new(Json::Array(items)), Style::Loose));
    Ok(())
}

/// `tg_json_set(mode, document, path, value, …)`; mode 1 inserts, 2 replaces, 3 does both.
fn json_set(args: &Args<'_>, out: &mut Out) -> Done {
    let mode = args.int(0);
    let name = match mode {
        1 => "json_insert",
        2 => "json_replace",
        _ => "json_set",
    };
    let Some(mut root) = read(args.bytes(1), 0, name) else { return Ok(()) };
    for index in (2..args.len()).step_by(2) {
        let Some(path) = plain_path(args, index, name) else { return Ok(()) };
        let value = value_of(args.bytes(index + 1));
        if let Some(place) = path.find_mut(&mut root) {
            if mode & 2 != 0 {
                *place = value;
            }
            continue;
        }
        let Some((parent, last)) = path.split() else { continue };
        let Some(parent) = parent.find_mut(&mut root) else { continue };
        if mode == 3 && matches!(last, Last::Index(_, true)) && !matches!(parent.value, Json::Array(_)) {
            *parent = value;
            continue;
        }
        if mode & 1 == 0 {
            continue;
        }
        insert(parent, last, value);
    }
    out.text(written(&root, Style::Loose));
    Ok(())
}

/// A value from the JSON text that `tg_json_arg` has made.
fn value_of(text: &[u8]) -> Node {
    parse(text).unwrap_or_else(|_| Node::string(text))
}

/// Adds what was not there.
fn insert(parent: &mut Node, last: Last, value: Node) {
    match (&mut parent.value, last) {
        (Json::Object(members), Last::Key(key)) => members.push((key, value)),
        (Json::Array(items), Last::Index(_, false)) => items.push(value),
        (Json::Array(items), Last::Index(_, true)) => items.insert(0, value),
        (other, Last::Index(..)) => {
            // What is no array becomes one.
            let old = Node::new(std::mem::replace(other, Json::Null));
            *other = Json::Array(vec![old, value]);
        }
        _ => {}
    }
}

fn json_append(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(mut root) = document(args, 0, "json_array_append") else { return Ok(()) };
    for index in (1..args.len()).step_by(2) {
        let Some(path) = plain_path(args, index, "json_array_append") else { return Ok(()) };
        let Some(place) = path.find_mut(&mut root) else { return Ok(()) };
        let value = value_of(args.bytes(index + 1));
        if let Json::Array(items) = &mut place.value {
            items.push(value);
        } else {
            let old = Node::new(std::mem::replace(&mut place.value, Json::Null));
            place.value = Json::Array(vec![old, value]);
        }
    }
    out.text(written(&root, Style::Loose));
    Ok(())
}

fn json_array_insert(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(mut root) = document(args, 0, "json_array_insert") else { return Ok(()) };
    for index in (1..args.len()).step_by(2) {
        let Some(path) = plain_path(args, index, "json_array_insert") else { return Ok(()) };
        let Some((parent, last @ Last::Index(..))) = path.split() else {
            env::current(|env| env.warn(errors::json_path_array(index + 1, "json_array_insert")));
            return Ok(());
        };
        let Some(parent) = parent.find_mut(&mut root) else { continue };
        if let Json::Array(items) = &mut parent.value {
            let at = last.position(items.len()).unwrap_or(items.len());
            items.insert(at, value_of(args.bytes(index + 1)));
        }
    }
    out.text(written(&root, Style::Loose));
    Ok(())
}

fn json_remove(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(mut root) = document(args, 0, "json_remove") else { return Ok(()) };
    for index in 1..args.len() {
        let Some(path) = plain_path(args, index, "json_remove") else { return Ok(()) };
        let Some((parent, last)) = path.split() else {
            env::current(|env| env.warn(errors::json_path_root(index + 1, "json_remove")));
            return Ok(());
        };
        let Some(parent) = parent.find_mut(&mut root) else { continue };
        match (&mut parent.value, &last) {
            (Json::Object(members), Last::Key(key)) => {
                if let Some(at) = members.iter().position(|(known, _)| crate::value::json::tree::same_key(known, key)) {
                    members.remove(at);
                }
            }
            (Json::Array(items), last) => {
                if let Some(at) = last.position(items.len()) {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }
    out.text(written(&root, Style::Loose));
    Ok(())
}

/// `one` or `all`; anything else gives NULL.
fn wants_all(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"one") {
        Some(false)
    } else if text.eq_ignore_ascii_case(b"all") {
        Some(true)
    } else {
        env::current(|env| env.warn(errors::json_one_or_all()));
        None
    }
}

fn json_contains_path(args: &Args<'_>, out: &mut Out) -> Done {
    let Some(all) = wants_all(args.bytes(1)) else { return Ok(()) };
    let mut paths = Vec::new();
    for index in 2..args.len() {
        let Some(path) = path(args, index, "json_contains_path") else { return Ok(()) };
        paths.push(path);
    }
    let Some(node) = document(args, 0, "json_contains_path") else { return Ok(()) };
    let found = |path: &Path| !path.find(&node).is_empty();
    out.bool(if all { paths.iter().all(found) } else { paths.iter().any(found) });
    Ok(())
}

/// `json_search(document, one_or_all, pattern [, escape [, path …]])`.
fn json_search(args: &Args<'_>, out: &mut Out) -> Done {
    if (0..3).any(|index| args.is_null(index)) || (4..args.len()).any(|index| args.is_null(index)) {
        return Ok(());
    }
    let Some(all) = wants_all(args.bytes(1)) else { return Ok(()) };
    let escape_char = if args.len() > 3 && !args.is_null(3) { args.bytes(3) } else { b"\\" };
    let Some(node) = document(args, 0, "json_search") else { return Ok(()) };
    let mut search = Search { pattern: args.bytes(2), escape: escape_char, found: Vec::new() };
    if args.len() > 4 {
        for index in 4..args.len() {
            let Some(path) = path(args, index, "json_search") else { return Ok(()) };
            let places: Vec<*const Node> = path.find(&node).into_iter().map(std::ptr::from_ref).collect();
            search.below(&node, &mut b"$".to_vec(), &places, false);
        }
    } else {
        search.below(&node, &mut b"$".to_vec(), &[], true);
    }
    let mut paths = search.found;
    paths.dedup();
    match paths.as_slice() {
        [] => {}
        [only] => out.text(written(&Node::string(only), Style::Loose)),
        [first, ..] if !all => out.text(written(&Node::string(first), Style::Loose)),
        many => {
            let items = many.iter().map(|path| Node::string(path)).collect();
            out.text(written(&Node::new(Json::Array(items)), Style::Loose));
        }
    }
    Ok(())
}

/// Looks for texts and remembers where they stand.
struct Search<'a> {
    pattern: &'a [u8],
    escape: &'a [u8],
    found: Vec<Vec<u8>>,
}

impl Search<'_> {
    fn below(&mut self, node: &Node, path: &mut Vec<u8>, places: &[*const Node], inside: bool) {
        let inside = inside || places.contains(&std::ptr::from_ref(node));
        let len = path.len();
        match &node.value {
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.extend_from_slice(format!("[{index}]").as_bytes());
                    self.below(item, path, places, inside);
                    path.truncate(len);
                }
            }
            Json::Object(members) => {
                for (key, member) in members {
                    path.push(b'.');
                    path.extend_from_slice(key);
                    self.below(member, path, places, inside);
                    path.truncate(len);
                }
            }
            Json::String(text) if inside && self.fits(&unescape(text)) => self.found.push(path.clone()),
            Json::Number(text) if inside && self.fits(text) => self.found.push(path.clone()),
            Json::Bool(flag) if inside && self.fits(if *flag { b"true" } else { b"false" }) => {
                self.found.push(path.clone());
            }
            _ => {}
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        let escape = crate::value::collation::next_char(&mut &self.escape[..]);
        super::like::matches_like(text, self.pattern, escape, crate::value::collation::Order::General)
    }
}

fn merge(a: Node, b: Node) -> Node {
    let value = match (a.value, b.value) {
        (Json::Object(mut members), Json::Object(more)) => {
            for (key, value) in more {
                match members.iter().position(|(known, _)| crate::value::json::tree::same_key(known, &key)) {
                    Some(at) => {
                        let old = std::mem::replace(&mut members[at].1, Node::new(Json::Null));
                        members[at].1 = merge(old, value);
                    }
                    None => members.push((key, value)),
                }
            }
            Json::Object(members)
        }
        (Json::Array(mut items), Json::Array(more)) => {
            items.extend(more);
            Json::Array(items)
        }
        (Json::Array(mut items), other) => {
            items.push(Node::new(other));
            Json::Array(items)
        }
        (other, Json::Array(items)) => Json::Array(std::iter::once(Node::new(other)).chain(items).collect()),
        (a, b) => Json::Array(vec![Node::new(a), Node::new(b)]),
    };
    Node::new(value)
}

/// RFC 7396.
fn patch(target: Node, patch_with: Node) -> Node {
    let Json::Object(changes) = patch_with.value else { return patch_with };
    let mut members = match target.value {
        Json::Object(members) => members,
        _ => Vec::new(),
    };
    for (key, value) in changes {
        let at = members.iter().position(|(known, _)| crate::value::json::tree::same_key(known, &key));
        if matches!(value.value, Json::Null) {
            if let Some(at) = at {
                members.remove(at);
            }
            continue;
        }
        match at {
            Some(at) => {
                let old = std::mem::replace(&mut members[at].1, Node::new(Json::Null));
                members[at].1 = patch(old, value);
            }
            None => members.push((key, patch(Node::new(Json::Object(Vec::new())), value))),
        }
    }
    Node::new(Json::Object(members))
}

/// JSON_ARRAYAGG over JSON texts.
#[derive(Default)]
struct List {
    text: Vec<u8>,
}

impl Accumulate for List {
    fn add(&mut self, args: &Args<'_>) -> Done {
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        self.text.extend_from_slice(args.bytes(0));
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        if !self.text.is_empty() {
            out.text([&self.text[..], b"]"].concat());
        }
        Ok(())
    }
}

/// JSON_OBJECTAGG over keys and JSON texts.
#[derive(Default)]
struct Members {
    text: Vec<u8>,
}

impl Accumulate for Members {
    fn add(&mut self, args: &Args<'_>) -> Done {
        if args.is_null(0) {
            return Ok(());
        }
        self.text.extend_from_slice(if self.text.is_empty() { b"{\"" } else { b", \"" });
        escape(args.bytes(0), &mut self.text);
        self.text.extend_from_slice(b"\":");
        self.text.extend_from_slice(args.bytes(1));
        Ok(())
    }
    fn value(&self, out: &mut Out) -> Done {
        if !self.text.is_empty() {
            out.text([&self.text[..], b"}"].concat());
        }
        Ok(())
    }
}
