//! `ngx.req.socket`: the request's body, or with `true` the whole connection of the client.

use std::rc::Rc;

use super::conn::Conn;
use super::failure::{debug, push_nil_error};
use super::owner::OpenSockets;
use super::tcp::{Handle, Tcp};
use super::transport::Transport;
use crate::error::{CResult, LuaError};
use crate::host::Host;
use crate::phase::{Phase, Phases};
use crate::request_context::LuaContext;
use crate::scheduler::with_run;
use crate::stack::Lua;
use crate::userdata::push_userdata;

const PHASES: Phases =
    Phases::of(&[Phase::Rewrite, Phase::ServerRewrite, Phase::Access, Phase::Precontent, Phase::Content]);

/// `req_socket(raw?)`: a socket, or `nil` and a message.
pub(super) fn req_socket(lua: &mut Lua) -> CResult {
    if lua.top() > 1 {
        return Err(LuaError::from(format!("expecting 0 or 1 argument, but got {}", lua.top())));
    }
    let raw = lua.to_bool(1);
    let (host, phase) = with_run(|run| (run.host().clone(), run.phase())).ok_or(LuaError::new("no request found"))?;
    let Some(req) = host.request() else { return Err(LuaError::new("API disabled in the context of ngx.timer")) };
    if req.is_subrequest() {
        return Err(LuaError::new("attempt to read the request body in a subrequest"));
    }
    PHASES.check(phase)?;
    let open = OpenSockets::of(&host);
    let context = req.find_context::<LuaContext>();
    if context.as_ref().is_some_and(|context| context.reads_body.get()) {
        return push_nil_error(lua, "pending request body reading in some other thread");
    }
    let weak = Rc::downgrade(req);
    let conn = if raw {
        if open.raw_acquired.get() {
            return push_nil_error(lua, "duplicate call");
        }
        if context.as_ref().is_some_and(|context| context.held_output.borrow().is_some()) {
            return push_nil_error(lua, "http 1.0 buffering");
        }
        if !req.take_over_connection() {
            return push_nil_error(lua, "pending data to write");
        }
        open.raw_acquired.set(true);
        debug(&host, || "lua socket tcp_nodelay".to_owned());
        let conn = Conn::new(Transport::Raw(weak));
        req.client.take_input(conn.input.borrow_mut().room(0));
        conn
    } else {
        if open.body_acquired.get() || req.body.is_loaded() {
            return push_nil_error(lua, "request body already exists");
        }
        if req.body.is_consumed() {
            return push_nil_error(lua, "no body");
        }
        if !req.request_body_now() {
            return push_nil_error(lua, "test expect failed");
        }
        open.body_acquired.set(true);
        // Nobody else reads it from now on.
        req.body.mark_loaded();
        Conn::new(Transport::Body(weak))
    };
    let tcp = Rc::new(Tcp::default());
    tcp.attach(conn, &Host::Request(req.clone()));
    push_userdata(lua, Handle(tcp));
    Ok(1)
}
