//! `ngx.upstream`: the groups of the configuration's `upstream` blocks, and how their servers stand.
//!
//! Follows openresty/lua-upstream-nginx-module. What it says about a peer holds for all workers.

use std::sync::Arc;

use tidegate_core::upstream::Group;
use tidegate_core::upstream::group::PeerReport;
use tidegate_core::worker;
use tidegate_modules::upstream;

use super::{Family, request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phases;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "upstream",
    cdef: "",
    ffi: &[],
    functions: &[
        ("names", function(names)),
        ("current", function(current)),
        ("peers", function(peers)),
        ("set_peer_down", function(set_peer_down)),
    ],
};

fn groups() -> Vec<Arc<Group>> {
    worker::config().map_or_else(Vec::new, |config| config.http_conf(&upstream::MODULE).named.clone())
}

/// The group that argument 1 names.
fn group(lua: &mut Lua) -> Result<Option<Arc<Group>>, LuaError> {
    let name = lua.check_bytes(1)?;
    Ok(groups().into_iter().find(|group| group.name == name))
}

fn refuse(lua: &mut Lua, reason: &[u8]) -> CResult {
    lua.push_nil();
    lua.push_bytes(reason);
    Ok(2)
}

/// `names()`: the names of all groups.
fn names(lua: &mut Lua) -> CResult {
    lua.push_table(0, 0);
    for (number, group) in (1..).zip(groups()) {
        lua.push_bytes(&group.name);
        lua.raw_set_index(-2, number);
    }
    Ok(1)
}

/// `current()`: the name of the group that the request goes to, or nil.
fn current(lua: &mut Lua) -> CResult {
    let req = request(Phases::EVERYWHERE)?;
    match req.upstream_record(|record| record.group.clone()).flatten() {
        Some(group) => lua.push_bytes(&group.name),
        None => lua.push_nil(),
    }
    Ok(1)
}

/// `peers(group, backup)`: a table for each peer of that rank; nil and why not.
fn peers(lua: &mut Lua) -> CResult {
    let Some(group) = group(lua)? else { return refuse(lua, b"upstream not found") };
    let reports = group.report(lua.to_bool(2));
    drop(group);
    lua.reserve(4)?;
    lua.push_table(0, 0);
    for (number, report) in (1..).zip(&reports) {
        push_report(lua, number - 1, report);
        lua.raw_set_index(-2, number);
    }
    Ok(1)
}

fn push_report(lua: &mut Lua, id: i32, report: &PeerReport) {
    let peer = &report.peer;
    lua.push_table(0, 12);
    let seconds = |second: u64| i64::try_from(second).unwrap_or(i64::MAX);
    let mut numbers = vec![
        ("id", i64::from(id)),
        ("weight", i64::from(peer.weight)),
        ("current_weight", report.current_weight),
        ("effective_weight", report.effective_weight),
        ("conns", i64::from(peer.conns())),
        ("fails", i64::from(report.fails)),
        ("max_fails", i64::from(peer.max_fails)),
        ("fail_timeout", seconds(peer.fail_timeout_s)),
    ];
    for (name, second) in [("accessed", report.accessed_s), ("checked", report.checked_s)] {
        if second != 0 {
            numbers.push((name, seconds(second)));
        }
    }
    for (name, number) in numbers {
        lua.push_integer(number);
        lua.raw_set_field(-2, name.as_bytes());
    }
    for (name, text) in [("name", &peer.name), ("server", &peer.server)] {
        lua.push_bytes(text);
        lua.raw_set_field(-2, name.as_bytes());
    }
    if peer.is_down() {
        lua.push_bool(true);
        lua.raw_set_field(-2, b"down");
    }
}

/// `set_peer_down(group, backup, id, down)`: true, or nil and why not.
fn set_peer_down(lua: &mut Lua) -> CResult {
    let Some(group) = group(lua)? else { return refuse(lua, b"upstream not found") };
    let id = usize::try_from(lua.check_integer(3)?).ok();
    if !id.is_some_and(|id| group.set_peer_down(lua.to_bool(2), id, lua.to_bool(4))) {
        return refuse(lua, b"bad peer id");
    }
    lua.push_bool(true);
    Ok(1)
}
