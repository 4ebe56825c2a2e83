//! Connections to peers that are kept open for the next request. Each worker has its own.
//!
//! Source: nginx, `ngx_http_upstream_keepalive_module`.

use std::cell::RefCell;

use super::{
    group::KeepAlive,
    socket::{Destination, Socket},
};
use crate::clock;

struct Idle {
    socket: Socket,
    /// When it is closed, in milliseconds.
    until_ms: u64,
}

thread_local! {
    /// With the group's number; the connection used last stands last. Groups are few, so they are just gone through.
    static IDLE: RefCell<Vec<(u32, Vec<Idle>)>> = const { RefCell::new(Vec::new()) };
}

/// A connection that a request with the same destination left open.
pub(super) fn take(destination: Destination<'_>) -> Option<Socket> {
    IDLE.with_borrow_mut(|idle| {
        let (_, idle) = idle.iter_mut().find(|(number, _)| *number == destination.group)?;
        loop {
            let at = idle.iter().rposition(|idle| idle.socket.destination() == destination)?;
            let found = idle.remove(at);
            if found.socket.is_idle_and_alive() {
                return Some(found.socket);
            }
        }
    })
}

/// Keeps a connection, if the rules allow. The one that was not used for longest makes room.
pub(super) fn give(mut socket: Socket, rules: &KeepAlive) {
    let now_ms = clock::steady_ms();
    let worn = socket.requests >= rules.requests || now_ms.saturating_sub(socket.opened_ms) > rules.time_ms;
    if rules.connections == 0 || worn || !socket.input.is_empty() || is_quitting() {
        return;
    }
    socket.release_buffer();
    let until_ms = now_ms.saturating_add(rules.timeout_ms);
    let group = socket.destination().group;
    IDLE.with_borrow_mut(|all| {
        let at = all.iter().position(|(number, _)| *number == group).unwrap_or_else(|| {
            all.push((group, Vec::new()));
            all.len() - 1
        });
        let idle = &mut all[at].1;
        while idle.len() >= rules.connections {
            idle.remove(0);
        }
        idle.push(Idle { socket, until_ms });
    });
}

fn is_quitting() -> bool {
    crate::worker::current().is_none_or(|worker| worker.is_quitting())
}

/// Closes connections that were idle for too long or that the peer has closed; called a few times a second.
pub(crate) fn sweep(now_ms: u64) {
    let quitting = is_quitting();
    IDLE.with_borrow_mut(|all| {
        all.retain_mut(|(_, idle)| {
            idle.retain(|idle| !quitting && now_ms < idle.until_ms && idle.socket.is_idle_and_alive());
            !idle.is_empty()
        });
    });
}
