//! `ngx.semaphore`: counting semaphores between light threads, of one request or of several.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_net::log::{self, Level};

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phases;
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;
use crate::userdata::{Userdata, check_userdata, push_userdata};

pub(crate) static FAMILY: Family = Family {
    name: "semaphore",
    cdef: "",
    ffi: &[],
    functions: &[
        ("new", function(new)),
        ("post", function(post)),
        ("wait", function(wait)),
        ("count", function(count)),
    ],
};

#[derive(Default)]
struct Semaphore {
    resources: Cell<u64>,
    /// Those that were granted a resource and have not run since: who comes now must not overtake them.
    granted: Cell<usize>,
    /// The longest waiting first.
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    granted: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone)]
struct Handle(Rc<Semaphore>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.semaphore";
    const TYPE_NAME: &'static str = "semaphore";
}

/// A place in the queue, left when the wait ends or is dropped.
struct Place {
    semaphore: Rc<Semaphore>,
    waiter: Rc<Waiter>,
    taken: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        if self.waiter.granted.get() {
            self.semaphore.granted.set(self.semaphore.granted.get() - 1);
            // The waiter went away with a grant that it did not use: the next one gets it.
            self.semaphore.post(1);
        } else {
            self.semaphore.waiters.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        }
    }
}

impl Semaphore {
    fn post(&self, count: u64) {
        self.resources.set(self.resources.get().saturating_add(count));
        while self.resources.get() > 0 {
            let Some(waiter) = self.waiters.borrow_mut().pop_front() else { return };
            self.resources.set(self.resources.get() - 1);
            waiter.granted.set(true);
            self.granted.set(self.granted.get() + 1);
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Writes what lua-nginx-module says at the debug level, which test suites look for.
#[inline]
fn debug(message: impl FnOnce() -> String) {
    if log::any_debug() {
        log::note(Level::Debug, format_args!("http lua semaphore {}", message()));
    }
}

impl Handle {
    fn address(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }
}

/// `new(count)`
fn new(lua: &mut Lua) -> CResult {
    let resources = lua.check_integer(1)?;
    let semaphore = Semaphore { resources: Cell::new(resources.unsigned_abs()), ..Semaphore::default() };
    let handle = Handle(Rc::new(semaphore));
    debug(|| format!("new: {:016X}, resources: {resources}", handle.address()));
    push_userdata(lua, handle);
    Ok(1)
}

/// `post(semaphore, count)`
fn post(lua: &mut Lua) -> CResult {
    let count = lua.check_integer(2)?.unsigned_abs();
    let handle = check_userdata::<Handle>(lua, 1)?;
    debug(|| format!("post: {:016X}, n: {count}, resources: {}", handle.address(), handle.0.resources.get()));
    handle.0.post(count);
    Ok(0)
}

/// `count(semaphore)`: resources, or minus the number of waiters.
fn count(lua: &mut Lua) -> CResult {
    let semaphore = &check_userdata::<Handle>(lua, 1)?.0;
    let waiters = i64::try_from(semaphore.waiters.borrow().len()).unwrap_or(i64::MAX);
    let resources = i64::try_from(semaphore.resources.get()).unwrap_or(i64::MAX);
    lua.push_integer(resources - waiters);
    Ok(1)
}

/// `wait(semaphore, seconds)`: `true`, `nil, "timeout"`, or nothing when the Lua half is to await.
fn wait(lua: &mut Lua) -> CResult {
    let handle = check_userdata::<Handle>(lua, 1)?;
    let ms = (lua.check_number(2)? * 1000.0) as u64;
    debug(|| {
        let (address, resources) = (handle.address(), handle.0.resources.get());
        let posted = u8::from(handle.0.granted.get() > 0);
        format!("wait: {address:016X}, timeout: {ms}, resources: {resources}, event posted: {posted}")
    });
    let semaphore = handle.0;
    with_run(|run| {
        if let Err(LuaError::Message(reason)) = Phases::YIELDABLE.check(run.phase()) {
            lua.push_nil();
            lua.push_bytes(reason.as_bytes());
            return Ok(2);
        }
        let nobody_before = semaphore.granted.get() == 0 && semaphore.waiters.borrow().is_empty();
        if semaphore.resources.get() > 0 && nobody_before {
            semaphore.resources.set(semaphore.resources.get() - 1);
            lua.push_bool(true);
            return Ok(1);
        }
        if ms == 0 {
            lua.push_nil();
            lua.push_bytes(b"timeout");
            return Ok(2);
        }
        debug(|| "wait yielding".to_owned());
        let waiter = Rc::new(Waiter::default());
        semaphore.waiters.borrow_mut().push_back(waiter.clone());
        semaphore.post(0);
        let place = Place { semaphore, waiter, taken: false };
        run.wait(lua, granted(place, Duration::from_millis(ms)))?;
        Ok(0)
    })
    .unwrap_or(Err(LuaError::new("no request found")))
}

async fn granted(mut place: Place, timeout: Duration) -> Answer {
    let mut sleep = Box::pin(tokio::time::sleep(timeout));
    poll_fn(|cx| {
        if place.waiter.granted.get() {
            place.taken = true;
            place.semaphore.granted.set(place.semaphore.granted.get() - 1);
            return Poll::Ready(Answer::True);
        }
        if sleep.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Answer::FalseError("timeout".into()));
        }
        place.waiter.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    })
    .await
}
