//! A page on its way through the filter.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use bytes::Bytes;
use tidegate_core::{
    output::{Buf, Chunk, Closed, Progress},
    phase::Ready,
    postpone::Running,
    request::Request,
    subrequest::Subrequest,
};
use tidegate_http::ssi::{Command, Scanner, Token};
use tidegate_net::log::Level;
use tokio::sync::Notify;

use super::{
    command,
    evaluate::{Ahead, Shared},
};

/// Bytes of a page that may wait behind its includes while more of it is read.
const BACKLOG_BYTES_MAX: u64 = 128 << 10;

/// How deep conditions nest.
const IF_DEPTH_MAX: usize = 100;

/// What stands in the page for a command that failed.
const ERROR_MESSAGE: &[u8] = b"[an error occurred while processing the directive]";

/// One `if` around the place that the page has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Branch {
    /// Text and commands count.
    active: bool,
    /// A branch was active, or none may be.
    done: bool,
    /// What stands around it counts.
    counts: bool,
    has_else: bool,
}

/// A block that is being read.
struct Block {
    name: Vec<u8>,
    content: Vec<u8>,
    /// How many blocks have begun in it and not ended.
    depth: u32,
}

/// An include whose response has a place in the page.
pub(super) struct Include {
    pub(super) sub: Subrequest,
    pub(super) running: Running,
    /// What stands in its place when the sub-request gives nothing.
    pub(super) stub: Option<Bytes>,
    /// The page does not go on before its end.
    pub(super) is_waited_for: bool,
    pub(super) ahead: Ahead,
}

/// A sub-request whose response becomes the value of a variable.
pub(super) struct Capture {
    pub(super) sub: Subrequest,
    pub(super) running: Running,
    pub(super) variable: Vec<u8>,
}

enum Piece {
    Text(Chunk),
    Include(Box<Include>),
}

/// What has come of a page and has not gone on.
pub(super) struct Page {
    scanner: Scanner,
    input: VecDeque<Bytes>,
    /// The last piece of the page is among the input.
    last: bool,
    /// The bytes so far should reach the client soon.
    flush: bool,
    pieces: VecDeque<Piece>,
    /// How many of them are includes.
    includes: usize,
    /// An include holds up the rest of the page; the last of the pieces or [`capture`](Self::capture).
    is_held_up: bool,
    capture: Option<Box<Capture>>,
    branches: Vec<Branch>,
    block: Option<Block>,
    error_message: Bytes,
}

impl Page {
    pub(super) fn new(value_bytes_max: usize, silent_errors: bool) -> Self {
        Page {
            scanner: Scanner::new(value_bytes_max),
            input: VecDeque::new(),
            last: false,
            flush: false,
            pieces: VecDeque::new(),
            includes: 0,
            is_held_up: false,
            capture: None,
            branches: Vec::new(),
            block: None,
            error_message: Bytes::from_static(if silent_errors { b"" } else { ERROR_MESSAGE }),
        }
    }

    fn push(&mut self, chunk: Chunk) {
        let bytes = chunk.bufs.into_iter().filter_map(|buf| match buf {
            Buf::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        });
        self.input.extend(bytes);
        self.last |= chunk.last;
        self.flush |= chunk.flush;
    }

    /// Carries out commands up to the end of what has come, or to an include that is waited for, or as far as includes may begin
    /// before those ahead of them have ended. The one that comes next always may: that is how all come to their ends.
    fn scan(&mut self, req: &Rc<Request>) {
        while !self.is_held_up && (self.includes == 0 || !Shared::of(req).is_busy()) {
            let Some(input) = self.input.front_mut() else { break };
            let (used, token) = self.scanner.next(input);
            let text = match &token {
                Some(Token::Text(range)) => input.slice(range.clone()),
                Some(Token::Kept(text)) => Bytes::from_static(text),
                _ => Bytes::new(),
            };
            let _ = input.split_to(used);
            if input.is_empty() {
                self.input.pop_front();
            }
            match token {
                None => {}
                Some(Token::Text(_) | Token::Kept(_)) => self.text(req, text),
                Some(Token::Command(command)) => self.command(req, &command),
                Some(Token::Bad(bad)) => {
                    req.log(Level::Error, format_args!("{bad}"));
                    if self.is_active() {
                        self.fail();
                    }
                }
            }
        }
        if self.last && !self.is_held_up && self.input.is_empty() {
            let text = Bytes::from_static(self.scanner.end());
            self.text(req, text);
        }
    }

    /// Whether text and commands count where the page has come to.
    fn is_active(&self) -> bool {
        self.branches.last().is_none_or(|branch| branch.active)
    }

    fn text(&mut self, req: &Rc<Request>, text: Bytes) {
        if let Some(block) = &mut self.block {
            let shared = Shared::of(req);
            if shared.has_room_for_block(block.content.len() + text.len()) {
                block.content.extend_from_slice(&text);
            } else {
                req.log(Level::Error, format_args!("the blocks of SSI pages are too long"));
                self.block = None;
                self.fail();
            }
        } else if self.is_active() {
            self.put(text);
        }
    }

    /// Puts text into the page.
    pub(super) fn put(&mut self, text: Bytes) {
        if text.is_empty() {
            return;
        }
        if let Some(Piece::Text(chunk)) = self.pieces.back_mut() {
            chunk.bufs.push(Buf::Bytes(text));
        } else {
            self.pieces.push_back(Piece::Text(Chunk::bytes(text)));
        }
    }

    /// Puts an include into the page.
    pub(super) fn include(&mut self, include: Include) {
        self.is_held_up = include.is_waited_for;
        self.includes += 1;
        self.pieces.push_back(Piece::Include(Box::new(include)));
    }

    /// Holds up the page until the variable has its value.
    pub(super) fn capture(&mut self, capture: Capture) {
        self.is_held_up = true;
        self.capture = Some(Box::new(capture));
    }

    pub(super) fn set_error_message(&mut self, message: &[u8]) {
        self.error_message = Bytes::copy_from_slice(message);
    }

    fn fail(&mut self) {
        self.put(self.error_message.clone());
    }

    fn command(&mut self, req: &Rc<Request>, command: &Command) {
        if self.block.is_some() {
            self.command_in_block(req, command);
            return;
        }
        let is_condition = matches!(command.name(), b"if" | b"elif" | b"else" | b"endif");
        if !is_condition && !self.is_active() {
            return;
        }
        // What is wrong inside a branch that does not count stays there.
        let shows_errors = self.branches.last().is_none_or(|branch| branch.counts);
        if let Err(error) = command::run(self, req, command) {
            if !error.is_empty() {
                req.log(Level::Error, format_args!("{error}"));
            }
            if shows_errors {
                self.fail();
            }
        }
    }

    fn command_in_block(&mut self, req: &Rc<Request>, command: &Command) {
        let Some(block) = &mut self.block else { return };
        match (command.name(), block.depth) {
            (b"endblock", 0) => {
                if let Some(block) = self.block.take() {
                    Shared::of(req).set_block(block.name, block.content.into());
                }
                return;
            }
            (b"endblock", _) => block.depth -= 1,
            (b"block", _) => block.depth += 1,
            _ => {}
        }
        self.text(req, Bytes::copy_from_slice(command.source()));
    }

    pub(super) fn begin_block(&mut self, name: &[u8]) {
        self.block = Some(Block { name: name.to_vec(), content: Vec::new(), depth: 0 });
    }

    /// `if`: begins a branch. The condition is asked for only where it counts; a branch whose condition fails does not.
    pub(super) fn begin_if(&mut self, condition: impl FnOnce() -> Result<bool, String>) -> Result<(), String> {
        if self.branches.len() == IF_DEPTH_MAX {
            return Err(format!("more than {IF_DEPTH_MAX} \"if\" commands inside one another"));
        }
        let counts = self.is_active();
        let answer = if counts { condition() } else { Ok(false) };
        let active = answer.as_ref().is_ok_and(|&answer| answer);
        self.branches.push(Branch { active, done: active || !counts, counts, has_else: false });
        answer.map(|_| ())
    }

    /// `elif`
    pub(super) fn next_if(&mut self, condition: impl FnOnce() -> Result<bool, String>) -> Result<(), String> {
        let Some(branch) = self.branches.last_mut().filter(|branch| !branch.has_else) else {
            return Err(out_of_place("elif"));
        };
        branch.active = false;
        if branch.done {
            return Ok(());
        }
        let answer = condition()?;
        (branch.active, branch.done) = (answer, answer);
        Ok(())
    }

    /// `else`
    pub(super) fn begin_else(&mut self) -> Result<(), String> {
        let Some(branch) = self.branches.last_mut().filter(|branch| !branch.has_else) else {
            return Err(out_of_place("else"));
        };
        (branch.active, branch.done, branch.has_else) = (!branch.done, true, true);
        Ok(())
    }

    /// `endif`
    pub(super) fn end_if(&mut self) -> Result<(), String> {
        self.branches.pop().map(|_| ()).ok_or_else(|| out_of_place("endif"))
    }

    /// Bytes that wait.
    fn backlog_bytes(&self) -> u64 {
        let text = self.pieces.iter().map(|piece| match piece {
            Piece::Text(chunk) => chunk.len(),
            Piece::Include(_) => 0,
        });
        text.sum::<u64>() + self.input.iter().map(|bytes| bytes.len() as u64).sum::<u64>()
    }

    /// All that has come, if there is nothing but text.
    fn take_text(&mut self) -> Option<Chunk> {
        if self.is_held_up || self.pieces.len() > 1 || matches!(self.pieces.front(), Some(Piece::Include(_))) {
            return None;
        }
        match self.pieces.pop_front() {
            Some(Piece::Text(text)) => Some(text),
            _ => Some(Chunk::default()),
        }
    }
}

/// Says that a command stands where it has no meaning.
pub(super) fn out_of_place(command: &str) -> String {
    format!("invalid context of SSI command: \"{command}\"")
}

/// A page with what puts it out.
pub(super) struct Ssi {
    page: RefCell<Page>,
    is_pumping: Cell<bool>,
    /// The page has broken off. While the pump runs, this says what its end is to be taken for if it does not come to say so.
    failed: Cell<bool>,
    /// Some of what waited has gone on.
    progress: Notify,
}

/// The task that puts out a page with includes; apart from what it uses, so that the end of the request ends it.
#[derive(Default)]
struct Pump(RefCell<Option<Running>>);

/// Whatever ends the pump, those who wait for it learn of it.
struct Pumping(Rc<Ssi>);

impl Drop for Pumping {
    fn drop(&mut self) {
        self.0.is_pumping.set(false);
        self.0.progress.notify_waiters();
    }
}

impl Ssi {
    pub(super) fn new(page: Page) -> Self {
        Ssi {
            page: RefCell::new(page),
            is_pumping: Cell::new(false),
            failed: Cell::new(false),
            progress: Notify::new(),
        }
    }

    /// Takes a chunk of the page and answers what goes on at once.
    pub(super) fn take(self: &Rc<Self>, req: &Rc<Request>, mut chunk: Chunk) -> Ready<Result<Chunk, Closed>> {
        let has_failed = self.failed.get() && !self.is_pumping.get();
        if has_failed || chunk.read_files().is_err() {
            return Ready::Now(Err(Closed));
        }
        let (flush, last) = (chunk.flush, chunk.last);
        let mut page = self.page.borrow_mut();
        page.push(chunk);
        if !self.is_pumping.get() {
            page.scan(req);
            if let Some(mut text) = page.take_text() {
                (text.flush, text.last) = (std::mem::take(&mut page.flush), last);
                return Ready::Now(Ok(text));
            }
            self.start_pump(req);
        }
        if !last && page.backlog_bytes() <= BACKLOG_BYTES_MAX {
            return Ready::Now(Ok(Chunk::default()));
        }
        let ssi = self.clone();
        Ready::later(async move {
            ssi.wait(if last { 0 } else { BACKLOG_BYTES_MAX }).await?;
            Ok(Chunk { last, flush: flush && last, ..Chunk::default() })
        })
    }

    fn start_pump(self: &Rc<Self>, req: &Rc<Request>) {
        self.is_pumping.set(true);
        let (pumping, req_of_pump) = (Pumping(self.clone()), req.clone());
        let running = req.spawn(async move {
            pumping.0.failed.set(true);
            let pumped = pumping.0.pump(&req_of_pump).await;
            pumping.0.failed.set(pumped.is_err());
        });
        *req.context::<Pump>().0.borrow_mut() = Some(running);
    }

    /// Waits until at most `bytes` wait to be put out; with 0, until all is.
    async fn wait(&self, bytes: u64) -> Result<(), Closed> {
        loop {
            let progress = self.progress.notified();
            if !self.is_pumping.get() {
                return if self.failed.get() { Err(Closed) } else { Ok(()) };
            }
            if bytes > 0 && self.page.borrow().backlog_bytes() <= bytes {
                return Ok(());
            }
            progress.await;
        }
    }

    /// Puts out the page in order, until nothing is left of what has come.
    async fn pump(&self, req: &Rc<Request>) -> Result<(), Closed> {
        loop {
            let (piece, capture) = {
                let mut page = self.page.borrow_mut();
                page.scan(req);
                let piece = page.pieces.pop_front();
                page.includes -= usize::from(matches!(piece, Some(Piece::Include(_))));
                let capture = if piece.is_none() { page.capture.take() } else { None };
                (piece, capture)
            };
            match (piece, capture) {
                (Some(Piece::Text(text)), _) => req.send_behind_filters(text).await?,
                (Some(Piece::Include(include)), _) => {
                    let is_waited_for = include.is_waited_for;
                    put_out(req, *include).await?;
                    if is_waited_for {
                        self.page.borrow_mut().is_held_up = false;
                    }
                }
                (None, Some(capture)) => {
                    set_variable(req, *capture).await?;
                    self.page.borrow_mut().is_held_up = false;
                }
                (None, None) => {
                    let flush = std::mem::take(&mut self.page.borrow_mut().flush);
                    if !flush {
                        return Ok(());
                    }
                    // More of the page may come meanwhile.
                    req.send_behind_filters(Chunk::default().and_flush()).await?;
                }
            }
            self.progress.notify_waiters();
        }
    }
}

/// Puts out the response of an include, or what stands for it.
async fn put_out(req: &Rc<Request>, include: Include) -> Result<(), Closed> {
    let Include { sub, mut running, stub, ahead, .. } = include;
    sub.take_turn()?;
    running.wait().await;
    drop(running);
    let ended = sub.req.response.borrow().progress == Progress::Ended;
    if !ended || sub.req.flags().output_failed.get() {
        req.close_connection();
        return Err(Closed);
    }
    if let Some(stub) = stub.filter(|_| !sub.has_output()) {
        let content_type = req.response.borrow().content_type.clone();
        sub.answer_instead(&content_type, stub).wait().await?;
    }
    sub.recycle();
    drop(ahead);
    Ok(())
}

/// Gives a variable what its sub-request answered; after an error it keeps what it has.
async fn set_variable(req: &Rc<Request>, capture: Capture) -> Result<(), Closed> {
    let Capture { sub, mut running, variable } = capture;
    running.wait().await;
    drop(running);
    let limit = sub.req.module_conf(&super::MODULE).subrequest_output_buffer_size.unwrap_or(u64::MAX);
    let body = sub.take_body()?;
    if body.len() as u64 > limit {
        sub.req.log(Level::Error, format_args!("too big subrequest response: {}", body.len()));
        return Err(Closed);
    }
    if sub.req.response.borrow().status < 300 {
        Shared::of(req)
            .set(&variable, body.into())
            .unwrap_or_else(|error| req.log(Level::Error, format_args!("{error}")));
    }
    sub.recycle();
    Ok(())
}
