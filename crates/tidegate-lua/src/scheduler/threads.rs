//! The light threads of a run: how they begin, wait for one another, and end.

use std::ffi::c_int;
use std::rc::Rc;

use super::answer::Answer;
use super::run::{Rest, Run};
use super::thread::{LightThread, Wait, key_of};
use crate::error::LuaError;
use crate::stack::{Coroutine, Lua, Ref};
use crate::vm::Vm;

impl Run {
    /// Whether `lua` is the coroutine of a light thread of this run that has not ended.
    pub(crate) fn is_alive(&self, lua: Coroutine) -> bool {
        (self.entry.coroutine == lua && self.entry.alive.get()) || self.rest().users.borrow().contains_key(&key_of(lua))
    }

    /// Adds a light thread whose coroutine holds a function and `args` arguments, kept alive by `anchor`. It runs next;
    /// its spawner, the running coroutine `parent`, goes on after those that are ready (it must call `await()`).
    pub(crate) fn spawn(&self, lua: Coroutine, anchor: Ref, args: c_int, parent: Coroutine) {
        let thread = LightThread::new(lua, anchor);
        thread.begin(args, Some(parent));
        self.add_user(&thread);
        let current = self.current_rc();
        let mut posted = self.rest().posted.borrow_mut();
        posted.push_front(thread);
        posted.extend(current);
    }

    /// How many light threads it has, the entry thread not counted.
    pub(crate) fn light_thread_count(&self) -> usize {
        self.rest().users.borrow().len()
    }

    /// Keeps a thread, whose coroutine holds a function, for the case that the client goes away. `false` if there is one
    /// already.
    pub(crate) fn set_on_abort(&self, lua: Coroutine, anchor: Ref, parent: Coroutine) -> bool {
        let mut slot = self.rest().on_abort.borrow_mut();
        if slot.is_some() {
            return false;
        }
        let thread = LightThread::new(lua, anchor);
        thread.begin(0, Some(parent));
        *slot = Some(thread);
        true
    }

    /// The client went away: starts the thread kept for that. `false` if there is none.
    pub(super) fn client_aborted(&self) -> bool {
        let Some(thread) = self.rest().on_abort.take() else { return false };
        self.add_user(&thread);
        let rest = self.rest();
        rest.posted.borrow_mut().push_back(thread);
        // It may have been polled as the only thread, with the task's own waker.
        self.entry.queue(&rest.woken);
        true
    }

    fn current_rc(&self) -> Option<Rc<LightThread>> {
        self.find_thread(self.current_thread().key())
    }

    /// The light thread with this key that has not ended.
    pub(super) fn find_thread(&self, key: usize) -> Option<Rc<LightThread>> {
        if self.entry.key() == key {
            return self.entry.alive.get().then(|| self.entry.clone());
        }
        self.rest.get()?.users.borrow().get(&key).cloned()
    }

    fn add_user(&self, thread: &Rc<LightThread>) {
        self.rest().users.borrow_mut().insert(thread.key(), thread.clone());
    }

    /// Lets the running function wait for the first of `threads` to end.
    ///
    /// # Errors
    /// As [`Run::wait`].
    pub(crate) fn wait_threads(&self, lua: &Lua, threads: Vec<Coroutine>) -> Result<(), LuaError> {
        self.check_wait(lua)?;
        if let Some(waiter) = self.current_rc() {
            let users = self.rest().users.borrow();
            for user in threads.iter().filter_map(|thread| users.get(&key_of(*thread))) {
                user.set_waiter(&waiter);
            }
        }
        self.current_thread().wait_for(Wait::Threads(threads));
        Ok(())
    }

    /// Ends the light thread of coroutine `lua` where it stands; `false` if it is none or ended before.
    pub(crate) fn kill(&self, lua: Coroutine) -> bool {
        let killed = self.rest().users.borrow_mut().remove(&key_of(lua));
        let Some(killed) = killed else { return false };
        killed.end();
        // A script that spawns and kills without ever waiting takes nothing out of the queue.
        let users = self.rest().users.borrow();
        let is_known = |key| key == self.entry.key() || users.contains_key(&key);
        self.rest().woken.tidy(users.len(), is_known);
        drop(users);
        lua.reset();
        self.vm.main().unref(killed.anchor);
        true
    }

    /// Leaves `ok, results…` on the ended thread's stack and wakes a parent that waits for it.
    #[inline(never)]
    pub(super) fn end_user_thread(&self, thread: &Rc<LightThread>, ok: bool) {
        let coroutine = thread.coroutine;
        // SAFETY: it has ended, and nobody but the scheduler works with what it has left.
        let lua = unsafe { coroutine.lua() };
        if ok {
            lua.push_bool(true);
            lua.insert(1);
        } else {
            // The error value is all that remains of the failed function. As in lua-nginx-module it is what `error`
            // was given, without the position that it put in front.
            let shelf = self.vm.main();
            if lua.top() > 1
                && let (Some(given), Some(raised)) = (lua.to_bytes(1), lua.to_bytes(-1))
                && raised.ends_with(given)
            {
                lua.set_top(1);
            }
            lua.move_to(shelf, 1);
            coroutine.reset();
            lua.push_bool(false);
            // SAFETY: takes what was just put on top, and keeps nothing.
            unsafe { shelf.lua() }.move_to(coroutine, 1);
        }
        let waiter = thread.take_waiter();
        thread.end();
        self.rest().users.borrow_mut().remove(&thread.key());
        match waiter {
            Some(waiter) => {
                waiter.wait.take();
                waiter.answer.set(Some(Answer::Thread(coroutine)));
                self.rest().posted.borrow_mut().push_front(waiter);
                self.rest().lingering.borrow_mut().insert(thread.key(), thread.clone());
            }
            // From here on only the script's own reference keeps it: an ended thread that nobody can wait for is garbage.
            None => self.vm.main().unref(thread.anchor),
        }
    }

    /// Lets go of an ended thread whose results were taken.
    pub(crate) fn release(&self, lua: Coroutine) {
        let released = self.rest().lingering.borrow_mut().remove(&key_of(lua));
        if let Some(thread) = released {
            self.vm.main().unref(thread.anchor);
        }
    }
}

impl Rest {
    /// Ends the threads where they stand.
    #[cold]
    pub(super) fn end(self: Box<Self>, vm: &Vm) {
        let kept = self.on_abort.take();
        self.woken.close();
        for user in self.users.take().into_values().chain(kept) {
            user.end();
            user.coroutine.reset();
            vm.main().unref(user.anchor);
        }
        for ended in self.lingering.take().into_values() {
            vm.main().unref(ended.anchor);
        }
    }
}
