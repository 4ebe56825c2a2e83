//! Connections to peers that are kept open for the next request. Each worker has its own.
//!
//! Source: nginx, `ngx_http_upstream_keepalive_module`.

use std::cell::RefCell;

use bstr::BString;

use super::{Address, group::KeepAlive, socket::Socket};
use crate::clock;

struct Idle {
    address: Address,
    /// What else must agree.
    key: BString,
    socket: Socket,
    /// When it is closed, in milliseconds.
    until_ms: u64,
}

thread_local! {
    /// With the group's number; the connection used last stands last. Groups are few, so they are just gone through.
    static IDLE: RefCell<Vec<(u32, Vec<Idle>)>> = const { RefCell::new(Vec::new()) };
}

/// A connection to `address` that a request of the group left open under the same `key`.
pub(super) fn take(group: u32, address: &Address, key: &[u8]) -> Option<Socket> {
    IDLE.with_borrow_mut(|idle| {
        let (_, idle) = idle.iter_mut().find(|(number, _)| *number == group)?;
        loop {
            let at = idle.iter().rposition(|idle| idle.address == *address && idle.key == key)?;
            let found = idle.remove(at);
            if found.socket.is_idle_and_alive() {
                return Some(found.socket);
            }
        }
    })
}

/// Keeps a connection, if the rules allow. The one that was not used for longest makes room.
pub(super) fn give(group: u32, address: &Address, key: &[u8], mut socket: Socket, rules: &KeepAlive) {
    let now_ms = clock::now_ms();
    let worn = socket.requests >= rules.requests || now_ms.saturating_sub(socket.opened_ms) > rules.time_ms;
    if rules.connections == 0 || worn || !socket.input.is_empty() || is_quitting() {
        return;
    }
    socket.release_buffer();
    let until_ms = now_ms.saturating_add(rules.timeout_ms);
    IDLE.with_borrow_mut(|all| {
        let at = all.iter().position(|(number, _)| *number == group).unwrap_or_else(|| {
            all.push((group, Vec::new()));
            all.len() - 1
        });
        let idle = &mut all[at].1;
        while idle.len() >= rules.connections {
            idle.remove(0);
        }
        idle.push(Idle { address: address.clone(), key: key.into(), socket, until_ms });
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
