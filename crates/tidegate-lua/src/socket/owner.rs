//! Whom a socket belongs to: it works for that request (or timer) only, and is closed at its end.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tidegate_core::request::Request;

use crate::host::Host;

/// What is closed when its request or timer ends.
pub(crate) trait Closing {
    /// Closes the connection, whatever is under way.
    fn close_now(&self);

    /// Whether it is the client's connection, and somebody reads from it.
    fn reads_downstream(&self) -> bool {
        false
    }
}

/// The sockets that a request or timer has opened. Dropping it closes them (keeps S2).
#[derive(Default)]
pub struct OpenSockets {
    sockets: RefCell<Vec<Weak<dyn Closing>>>,
    /// `ngx.req.socket(true)` was called.
    pub(crate) raw_acquired: Cell<bool>,
    /// `ngx.req.socket()` was called.
    pub(crate) body_acquired: Cell<bool>,
}

/// What tells sub-requests from one another; their sockets are closed with the main request.
#[derive(Default)]
pub(super) struct Identity;

/// The request or run that a socket belongs to.
#[derive(Clone, Default)]
pub(crate) struct Owner {
    sockets: Weak<OpenSockets>,
    subrequest: Weak<Identity>,
}

impl OpenSockets {
    /// Those of `host`.
    pub(crate) fn of(host: &Host) -> Rc<OpenSockets> {
        match host {
            Host::Request(req) => req.lasting_context::<OpenSockets>(),
            Host::Other(other) => other.open_sockets(),
        }
    }

    /// Closes `socket` when the request ends.
    pub(crate) fn add(&self, socket: Weak<dyn Closing>) {
        let mut sockets = self.sockets.borrow_mut();
        // A long-running timer may open any number of sockets, one after the other.
        if sockets.len() == sockets.capacity() {
            sockets.retain(|socket| socket.strong_count() > 0);
        }
        sockets.push(socket);
    }
}

impl OpenSockets {
    /// Whether a light thread reads from the client's connection.
    pub(crate) fn reads_downstream(&self) -> bool {
        self.sockets.borrow().iter().filter_map(Weak::upgrade).any(|tcp| tcp.reads_downstream())
    }
}

impl Drop for OpenSockets {
    fn drop(&mut self) {
        for socket in self.sockets.take() {
            if let Some(socket) = socket.upgrade() {
                socket.close_now();
            }
        }
    }
}

impl Owner {
    pub(crate) fn of(host: &Host) -> Owner {
        let subrequest = match host {
            Host::Request(req) if req.is_subrequest() => identity(req),
            _ => Weak::new(),
        };
        Owner { sockets: Rc::downgrade(&OpenSockets::of(host)), subrequest }
    }

    /// Whether it is the one that `host` is.
    pub(crate) fn is(&self, host: &Host) -> bool {
        if !std::ptr::eq(self.sockets.as_ptr(), Rc::as_ptr(&OpenSockets::of(host))) {
            return false;
        }
        match host {
            Host::Request(req) if req.is_subrequest() => Weak::ptr_eq(&self.subrequest, &identity(req)),
            _ => self.subrequest.ptr_eq(&Weak::new()),
        }
    }
}

fn identity(req: &Request) -> Weak<Identity> {
    // Cells of no size have no address of their own; the `Rc` around it has.
    Rc::downgrade(&req.context::<Identity>())
}
