//! Stackful coroutines: a statement runs as ordinary code and suspends wherever it has to wait.
//!
//! [`run`] is a future that runs a closure on a stack of its own. Inside of it [`block_on`] waits for any other future
//! without blocking the thread, at any depth of the stack, also below SQLite's C frames: SQLite calls [`tick`] every
//! few hundred steps, and `sleep()` is an SQL function. Invariants:
//!
//! 1. A suspended coroutine is never unwound (there are C frames in it). When its future is dropped, it is told so and
//!    resumed until it has finished: every wait ends at once with [`Cancelled`], SQLite with `SQLITE_INTERRUPT`.
//! 2. [`CURRENT`] names the task of the coroutine that runs on this thread, null outside of one.

use std::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    mem::ManuallyDrop,
    pin::pin,
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use tidegate_rows::ServerError;

use crate::{
    clients::{Client, Listing},
    clock::Clock,
    readers::{Reader, Readers},
};

/// A statement that runs longer lets others of its worker have their turn. A turn costs it about a microsecond.
const SLICE: Duration = Duration::from_micros(50);
/// A batch of statements lets others have their turn after so long, between two statements: nothing is half done then, and others may
/// join its commit.
const BATCH_SLICE: Duration = Duration::from_micros(200);
/// Room for SQLite's deepest recursion and our own (parser and trees of limited depth). Only touched pages are memory.
const STACK_BYTES: usize = 4 << 20;
/// Idle stacks kept by a thread; mapping a new one costs as much as a few point lookups.
const STACKS_MAX: usize = 256;

thread_local! {
    static CURRENT: Cell<*const Task> = const { Cell::new(ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// What a statement runs in, as far as every layer may know it. Those above ask for all of it by its type: [`surroundings`].
pub(crate) trait Surroundings: Any {
    /// Who the session belongs to.
    fn client(&self) -> &Arc<Client>;
    /// The session's clock.
    fn clock(&self) -> &Clock;
}

/// The future that waited for this has been dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cancelled;

/// The state of one running coroutine.
struct Task {
    yielder: Cell<*const Yielder<(), ()>>,
    /// The context of the poll under way, null in between.
    context: Cell<*mut Context<'static>>,
    cancelled: Cell<bool>,
    /// It holds what others of its thread may want, and lets none of them run ([`unbroken`]).
    is_unbroken: Cell<bool>,
    /// How often the coroutine was left.
    suspensions: Cell<u32>,
    slice_start: Cell<Option<Instant>>,
    deadline: Cell<Option<Instant>>,
    client: *const Arc<Client>,
    clock: *const Clock,
    /// What the statement runs in, and its type.
    surroundings: (*const (), TypeId),
    /// The text that is run.
    text: *const [u8],
    /// Where others can read about the statement, once it has let them run.
    listing: RefCell<Option<Listing>>,
    /// The readers of the schema whose snapshot the statement holds, null if it holds none. Set within [`while_reading`].
    reads: Cell<*const Readers>,
    /// The statement's place among the readers of `reads`, once it has let others run.
    reader: RefCell<Option<Arc<Reader>>>,
    error: RefCell<Option<ServerError>>,
}

/// Runs `body` on a stack of its own; the future is ready when `body` has returned. `within` is what [`surroundings`] shows to
/// SQL functions, `text` what others see of the statement.
///
/// # Errors
/// The system's, if there is no memory for a stack.
pub(crate) async fn run<R, S: Surroundings>(within: &S, text: &[u8], body: impl FnOnce() -> R) -> std::io::Result<R> {
    let stack = match STACKS.with_borrow_mut(Vec::pop) {
        Some(stack) => stack,
        None => DefaultStack::new(STACK_BYTES)?,
    };
    let task = Task {
        yielder: Cell::new(ptr::null()),
        context: Cell::new(ptr::null_mut()),
        cancelled: Cell::new(false),
        is_unbroken: Cell::new(false),
        suspensions: Cell::new(0),
        slice_start: Cell::new(None),
        deadline: Cell::new(None),
        client: within.client(),
        clock: within.clock(),
        surroundings: (ptr::from_ref(within).cast(), TypeId::of::<S>()),
        text,
        listing: RefCell::new(None),
        reads: Cell::new(ptr::null()),
        reader: RefCell::new(None),
        error: RefCell::new(None),
    };
    let task = &task;
    // SAFETY: the closure borrows `task` and whatever `body` borrows. `Running` is declared after them, so it is
    // dropped before them, and its drop finishes the coroutine (invariant 1).
    let coroutine = unsafe {
        Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
            task.yielder.set(yielder);
            body()
        })
    };
    let mut running = Running { coroutine: ManuallyDrop::new(coroutine), task, done: false };
    Ok(poll_fn(|cx| running.poll(cx)).await)
}

struct Running<'a, R> {
    coroutine: ManuallyDrop<Coroutine<(), (), R, DefaultStack>>,
    task: &'a Task,
    done: bool,
}

impl<R> Running<'_, R> {
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<R> {
        self.task.context.set(ptr::from_mut(cx).cast());
        let outer = CURRENT.replace(self.task);
        // A panic of the body comes out of `resume`; `done` keeps the coroutine from being resumed again.
        self.done = true;
        let result = self.coroutine.resume(());
        CURRENT.set(outer);
        self.task.context.set(ptr::null_mut());
        match result {
            CoroutineResult::Yield(()) => {
                self.done = false;
                Poll::Pending
            }
            CoroutineResult::Return(value) => Poll::Ready(value),
        }
    }
}

impl<R> Drop for Running<'_, R> {
    fn drop(&mut self) {
        if !self.done {
            self.task.cancelled.set(true);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            while self.poll(&mut cx).is_pending() {}
        }
        // SAFETY: the coroutine is taken out once, here.
        let coroutine = unsafe { ManuallyDrop::take(&mut self.coroutine) };
        if coroutine.done() {
            let stack = coroutine.into_stack();
            let _ = STACKS.try_with(|stacks| {
                let mut stacks = stacks.borrow_mut();
                if stacks.len() < STACKS_MAX {
                    stacks.push(stack);
                }
            });
        } else {
            // Only after a panic that tore the thread's state: leaking the stack is the safe way out.
            std::mem::forget(coroutine);
        }
    }
}

impl Task {
    /// Leaves the coroutine until its future is polled again.
    fn suspend(&self) {
        self.list_reader();
        self.list_client();
        // SAFETY: set at the coroutine's start; it lives on the coroutine's own stack.
        unsafe { (*self.yielder.get()).suspend(()) };
        self.suspensions.set(self.suspensions.get().wrapping_add(1));
        self.slice_start.set(Some(Instant::now()));
    }
}

impl Task {
    /// Whether the statement has to end: nobody waits for it, or it reads for too long.
    fn must_end(&self) -> bool {
        self.cancelled.get()
            || self.is_killed()
            || self.reader.borrow().as_ref().is_some_and(|reader| reader.has_ended())
    }

    fn is_killed(&self) -> bool {
        // SAFETY: `run` borrows what the statement runs in for as long as its coroutine lives.
        unsafe { &*self.client }.is_killed()
    }

    /// Lists the statement as one that somebody may want to read about, or to end.
    fn list_client(&self) {
        let context = self.context.get();
        if context.is_null() || self.cancelled.get() {
            return;
        }
        // SAFETY: `run` borrows the client and the text for as long as its coroutine lives; the context belongs to the poll
        // under way.
        let (client, text, context) = unsafe { (&*self.client, &*self.text, &*context) };
        self.listing.borrow_mut().get_or_insert_with(|| Listing::of(client, text));
        client.wakes(context.waker());
    }

    /// Lists the statement as one that reads for long.
    fn list_reader(&self) {
        let (readers, context) = (self.reads.get(), self.context.get());
        if readers.is_null() || context.is_null() || self.cancelled.get() {
            return;
        }
        let mut reader = self.reader.borrow_mut();
        // SAFETY: all are set while what they point to is alive: the client by `run`, the readers by `while_reading` further
        // down this very stack, the context by the poll under way.
        let (client, readers, context) = unsafe { (&*self.client, &*readers, &*context) };
        reader.get_or_insert_with(|| readers.add(client.id, Instant::now(), None)).wakes(context.waker());
    }

    fn wait<F: Future>(&self, future: F, must_end: fn(&Self) -> bool) -> Result<F::Output, Cancelled> {
        let mut future = pin!(future);
        loop {
            let context = self.context.get();
            if must_end(self) || context.is_null() {
                return Err(Cancelled);
            }
            // SAFETY: the context belongs to the poll under way, which is further up this very thread's stacks.
            if let Poll::Ready(output) = future.as_mut().poll(unsafe { &mut *context }) {
                return Ok(output);
            }
            self.suspend();
        }
    }
}

fn with_current<R>(f: impl FnOnce(&Task) -> R) -> Option<R> {
    let task = CURRENT.get();
    // SAFETY: invariant 2; the task lives in the frame of `run`, which cannot go away while its coroutine runs.
    if task.is_null() { None } else { Some(f(unsafe { &*task })) }
}

/// Waits for `future`; only inside of [`run`]. The statement's time limit ends the wait.
///
/// # Errors
/// [`Cancelled`] when nobody waits for the statement any more, when its time is up, or outside of a coroutine.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Cancelled> {
    with_current(|task| match task.deadline.get() {
        None => task.wait(future, Task::must_end),
        Some(deadline) => {
            let future = tokio::time::timeout_at(deadline.into(), future);
            task.wait(future, Task::must_end)?.map_err(|_| Cancelled)
        }
    })
    .unwrap_or(Err(Cancelled))
}

/// As [`block_on`], for those who take the rows: no time limit ends it.
///
/// # Errors
/// [`Cancelled`] when nobody waits for the statement any more, or outside of a coroutine.
pub(crate) fn block_on_to_end<F: Future>(future: F) -> Result<F::Output, Cancelled> {
    with_current(|task| task.wait(future, Task::must_end)).unwrap_or(Err(Cancelled))
}

/// As [`block_on`], for what a statement waits for when it has committed: nothing but the client's absence ends it.
///
/// # Errors
/// [`Cancelled`] when nobody waits for the statement any more, or outside of a coroutine.
pub(crate) fn block_on_commit<F: Future>(future: F) -> Result<F::Output, Cancelled> {
    with_current(|task| task.wait(future, |task| task.cancelled.get())).unwrap_or(Err(Cancelled))
}

/// Runs what needs much stack, and never waits, on the stack of the thread below the coroutine's.
pub(crate) fn on_thread_stack<R>(f: impl FnOnce() -> R + Send) -> R {
    /// Makes the task the current one again, after a panic too.
    struct Back(*const Task);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let back = Back(CURRENT.replace(ptr::null()));
    // SAFETY: invariant 2, as in `with_current`. Without a current task nothing within `f` can suspend.
    match unsafe { back.0.as_ref() } {
        None => f(),
        // SAFETY: set at the coroutine's start; it lives on the stack that runs this.
        Some(task) => unsafe { &*task.yielder.get() }.on_parent_stack(f),
    }
}

/// The statement that begins may run for this long.
pub(crate) fn limit(time: Option<Duration>) {
    let _ = with_current(|task| {
        task.deadline.set(time.and_then(|time| Instant::now().checked_add(time)));
        // What the statement before it in the same text has read is over.
        task.reader.take();
    });
}

/// Whether the statement's time is up.
pub(crate) fn is_out_of_time() -> bool {
    with_current(|task| task.deadline.get().is_some_and(|deadline| Instant::now() >= deadline)).unwrap_or(false)
}

/// Called every few hundred steps of a statement: lets others run when the slice is used up. Answers whether the
/// statement must stop.
pub(crate) fn tick() -> bool {
    with_current(|task| {
        if task.is_unbroken.get() {
            return false;
        }
        if task.must_end() {
            return true;
        }
        let now = Instant::now();
        match task.slice_start.get() {
            // The first slice begins with the first tick: most statements never get there.
            None => task.slice_start.set(Some(now)),
            Some(start) if now.duration_since(start) >= SLICE => {
                let _ = block_on(tokio::task::yield_now());
            }
            Some(_) => {}
        }
        task.must_end() || task.deadline.get().is_some_and(|deadline| now >= deadline)
    })
    .unwrap_or(false)
}

/// Runs `work` to its end without letting others run, as long as it waits for nothing: it holds a lock of the thread's, which they
/// would wait for.
pub(crate) fn unbroken<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            let _ = with_current(|task| task.is_unbroken.set(self.0));
        }
    }
    let _before = Before(with_current(|task| task.is_unbroken.replace(true)).unwrap_or(false));
    work()
}

/// Begins the next statement of a batch: whatever slice those before it have used up, its own begins with its first tick, so that
/// only what takes long itself is interrupted. Between two statements others have their turn when `batch` is used up, which
/// begins anew then; a batch of one has none.
pub(crate) fn next_of_batch(batch: Option<&mut Instant>) {
    let _ = with_current(|task| {
        if let Some(batch) = batch
            && batch.elapsed() >= BATCH_SLICE
        {
            let _ = block_on(tokio::task::yield_now());
            *batch = Instant::now();
        }
        task.slice_start.set(None);
    });
}

/// Runs a part of a statement that holds a snapshot of the schema that `readers` read; `reader` is that of its transaction, if
/// that has one.
#[inline]
pub(crate) fn while_reading<R>(readers: &Readers, reader: Option<&Arc<Reader>>, read: impl FnOnce() -> R) -> R {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            let _ = with_current(|task| task.reads.set(ptr::null()));
        }
    }
    let _ = with_current(|task| {
        task.reads.set(readers);
        if task.reader.borrow().is_some() || reader.is_some() {
            *task.reader.borrow_mut() = reader.cloned();
        }
    });
    let _over = Over;
    read()
}

/// Whether somebody has ended the statement with KILL.
pub(crate) fn is_killed() -> bool {
    with_current(Task::is_killed).unwrap_or(false)
}

/// The text that runs; nothing outside of a statement.
pub(crate) fn text<R>(f: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: `run` borrows the text for as long as its coroutine lives.
    with_current(|task| f(unsafe { &*task.text }))
}

/// Whether the statement has read for too long.
pub(crate) fn has_read_for_too_long() -> bool {
    with_current(|task| task.reader.borrow().as_ref().is_some_and(|reader| reader.has_ended())).unwrap_or(false)
}

/// Lets everything run that is ready, and what arrives with it, once.
///
/// Tokio's `yield_now` is over when it is polled again, which whoever polls several futures in one task may do at once.
pub(crate) async fn next_turn() {
    let turned = Arc::new(Turned { over: AtomicBool::new(false), task: Mutex::new(Waker::noop().clone()) });
    let waker = Waker::from(Arc::clone(&turned));
    let mut yielding = pin!(tokio::task::yield_now());
    let mut begun = false;
    poll_fn(|cx| {
        if turned.over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        turned.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(cx.waker());
        if !begun {
            begun = true;
            return yielding.as_mut().poll(&mut Context::from_waker(&waker));
        }
        Poll::Pending
    })
    .await;
}

struct Turned {
    over: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Turned {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Release);
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

/// How often the running coroutine has let others run.
pub(crate) fn suspensions() -> u32 {
    with_current(|task| task.suspensions.get()).unwrap_or(0)
}

/// Whether nobody waits for the statement any more: it must not commit.
pub(crate) fn is_cancelled() -> bool {
    with_current(|task| task.cancelled.get()).unwrap_or(false)
}

/// What the statement runs in; nothing outside of a statement, and in one that runs in something else.
#[inline]
pub(crate) fn surroundings<S: Surroundings, R>(f: impl FnOnce(&S) -> R) -> Option<R> {
    with_current(|task| {
        let (within, kind) = task.surroundings;
        // SAFETY: it is of this type, and `run` borrows it for as long as its coroutine lives.
        (kind == TypeId::of::<S>()).then(|| f(unsafe { &*within.cast::<S>() }))
    })
    .flatten()
}

/// The clock of the session whose statement runs; nothing outside of a statement.
#[inline]
pub(crate) fn clock<R>(f: impl FnOnce(&Clock) -> R) -> Option<R> {
    // SAFETY: `run` borrows what the statement runs in for as long as its coroutine lives.
    with_current(|task| f(unsafe { &*task.clock }))
}

/// Notes the error that an SQL function is about to fail with; the first one counts.
pub(crate) fn set_error(error: ServerError) {
    let _ = with_current(|task| {
        task.error.borrow_mut().get_or_insert(error);
    });
}

/// Whether an SQL function has failed.
pub(crate) fn has_error() -> bool {
    with_current(|task| task.error.borrow().is_some()).unwrap_or(false)
}

/// Takes the error that an SQL function has failed with.
pub(crate) fn take_error() -> Option<ServerError> {
    with_current(|task| task.error.borrow_mut().take()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    struct Alone(Arc<Client>, Clock);

    impl Surroundings for Alone {
        fn client(&self) -> &Arc<Client> {
            &self.0
        }
        fn clock(&self) -> &Clock {
            &self.1
        }
    }

    impl Alone {
        fn new() -> Self {
            Self(Arc::new(Clients::default()).make(), Clock::default())
        }
    }

    #[tokio::test]
    async fn runs_and_waits() {
        let env = Alone::new();
        let value = run(&env, b"", || {
            block_on(tokio::task::yield_now()).unwrap();
            block_on(tokio::time::sleep(Duration::from_millis(1))).unwrap();
            42
        })
        .await
        .unwrap();
        assert_eq!(value, 42);
    }

    #[tokio::test]
    async fn a_turn_is_not_over_because_somebody_polls() {
        let mut turn = Box::pin(next_turn());
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(turn.as_mut().poll(&mut cx).is_pending());
        }
        turn.await;
    }

    #[tokio::test]
    async fn dropping_the_future_finishes_the_body() {
        let env = Alone::new();
        let ended = Cell::new(false);
        {
            let future = run(&env, b"", || {
                let result = block_on(std::future::pending::<()>());
                ended.set(result == Err(Cancelled));
            });
            let mut future = Box::pin(future);
            assert!(future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        }
        assert!(ended.get());
    }
}

thread_local! {
    static WARNED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether the call that runs has warned where warnings are errors.
#[inline]
pub(crate) fn has_warned() -> bool {
    WARNED.get()
}

/// Remembers that for [`has_warned`].
pub(crate) fn set_warned(warned: bool) {
    WARNED.set(warned);
}
