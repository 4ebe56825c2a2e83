//! Runs the commands of a location.

use std::{rc::Rc, sync::Arc};

use bstr::{BStr, ByteSlice};
use tidegate_core::{
    output::{Chunk, Closed},
    phase::{LocalFuture, Outcome, Ready, Step},
    request::Request,
    subrequest::{Options, Subrequest, VariableSharing, parse_target},
    template::Template,
};
use tidegate_http::{Known, Method};
use tidegate_net::{
    clock,
    log::{Level, SysError},
};

use super::{
    Conf,
    command::{Command, Target, seconds},
    variables::State,
};

/// Text that comes together before it is sent.
const PART_BYTES: usize = 64 << 10;

/// Starts the commands; a location that only writes text is answered at once.
pub(super) fn start(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    let status = match &conf.status {
        None => None,
        Some(status) => match status.eval_cow(req).to_str().ok().and_then(|text| text.parse().ok()) {
            Some(status @ 100..=999) => Some(status),
            _ => return Ready::Now(Step::Status(500)),
        },
    };
    let goes_elsewhere = matches!(conf.commands.first(), Some(Command::Exec { .. }));
    if !goes_elsewhere {
        if let Some(status) = status {
            req.response.borrow_mut().status = status;
        }
        req.set_default_content_type();
    }
    // Where an error page is made as well: `error_page … =` takes the status from here.
    let end_status = || req.response.borrow_mut().status = status.unwrap_or(200);
    let only_text = conf.commands.iter().all(|command| matches!(command, Command::Echo(_)));
    // Filters see what each `echo` sends, as in nginx.
    if only_text && !req.has_body_filters() {
        let mut out = Vec::new();
        for command in conf.commands.iter() {
            if let Command::Echo(text) = command {
                text.write(req, &mut out);
            }
        }
        end_status();
        return req.send(Chunk::bytes(out).and_last()).map(step_of);
    }
    if !goes_elsewhere {
        end_status();
    }
    let (req, conf) = (req.clone(), conf.clone());
    Ready::later(async move {
        let mut run = Run { req, text: Vec::new(), queue: Vec::new() };
        match run.commands(&conf.commands).await {
            Ok(()) => step_of(run.end().await),
            Err(step) => step,
        }
    })
}

fn step_of(sent: Result<(), Closed>) -> Step {
    if sent.is_ok() { Step::Ok } else { Step::Close }
}

/// A response in the making. What was written goes out in order: text, then sub-requests that were started.
struct Run {
    req: Rc<Request>,
    text: Vec<u8>,
    queue: Vec<Piece>,
}

/// What follows behind a sub-request that was started.
enum Piece {
    Text(Vec<u8>),
    Sub(Subrequest, LocalFuture<()>),
}

impl Run {
    async fn commands(&mut self, commands: &[Command]) -> Result<(), Step> {
        let mut at = 0;
        while let Some(command) = commands.get(at) {
            at += 1;
            if let Command::Foreach { delimiter, text } = command {
                let end =
                    commands[at..].iter().position(|c| matches!(c, Command::End)).map_or(commands.len(), |n| at + n);
                let (delimiter, text) = (delimiter.eval(&self.req), text.eval(&self.req));
                let state = self.req.context::<State>();
                for part in text.split_str(&delimiter).filter(|part| !part.is_empty()) {
                    *state.item.borrow_mut() = Some(part.to_vec());
                    for command in &commands[at..end] {
                        self.command(command).await?;
                    }
                }
                *state.item.borrow_mut() = None;
                at = end;
                continue;
            }
            self.command(command).await?;
        }
        Ok(())
    }

    async fn command(&mut self, command: &Command) -> Result<(), Step> {
        match command {
            Command::Echo(text) => {
                text.write(&self.req, &mut self.text);
                if self.queue.is_empty() && self.req.has_body_filters() {
                    self.send(false).await?;
                }
            }
            Command::Duplicate { count, text } => {
                self.duplicate(count, text).await?;
                if self.queue.is_empty() && self.req.has_body_filters() {
                    self.send(false).await?;
                }
            }
            Command::Flush => self.send(true).await?,
            Command::Sleep(time) => {
                let text = time.eval_cow(&self.req).into_owned();
                let Some(time) = seconds(&text) else {
                    let shown = BStr::new(&text);
                    self.req.log(Level::Error, format_args!("echo_sleep: invalid sleep time: \"{shown}\""));
                    return Err(Step::Status(500));
                };
                self.send(false).await?;
                tokio::time::sleep(time).await;
            }
            Command::ResetTimer => {
                clock::update();
                self.req.context::<State>().timer_ms.set(clock::steady_ms());
            }
            Command::ReadBody => self.req.read_body().wait().await.map_err(|error| error.step())?,
            Command::RequestBody => {
                let file = self.req.body.as_buf();
                if let Some(file) = file {
                    // A body in a file goes on from there, in its place behind what was written.
                    self.send(false).await?;
                    let mut chunk = Chunk::default();
                    chunk.bufs.push(file);
                    self.req.send(chunk).wait().await.map_err(|_| Step::Close)?;
                } else {
                    self.text.extend_from_slice(&self.req.body.memory.borrow());
                }
            }
            Command::Subrequest(target) => {
                self.send(false).await?;
                let sub = self.subrequest(target, false).await?;
                sub.run().await;
            }
            Command::SubrequestAsync(target) => {
                let sub = self.subrequest(target, true).await?;
                let text = std::mem::take(&mut self.text);
                self.queue.push(Piece::Text(text));
                let running = sub.run();
                self.queue.push(Piece::Sub(sub, running));
            }
            Command::Exec { location, args } => {
                let target = location.eval(&self.req);
                let extra = args.as_ref().map(|args| args.eval(&self.req));
                return Err(exec(&self.req, &target, extra.as_deref()));
            }
            Command::AbortParent => {
                let parent = self.req.parent.clone().unwrap_or_else(|| self.req.clone());
                parent.close_connection();
                return Err(Step::Close);
            }
            Command::Foreach { .. } | Command::End => {}
        }
        Ok(())
    }

    /// `echo_duplicate`: the text so many times, as fast as the client takes it.
    async fn duplicate(&mut self, count: &Template, text: &Template) -> Result<(), Step> {
        let count = count.eval(&self.req);
        let Some(count) = count.to_str().ok().and_then(|count| count.replace('_', "").parse::<usize>().ok()) else {
            let shown = BStr::new(&count);
            self.req.log(Level::Error, format_args!("invalid size specified: \"{shown}\""));
            return Err(Step::Status(500));
        };
        let text = text.eval(&self.req);
        if text.is_empty() {
            return Ok(());
        }
        for _ in 0..count {
            self.text.extend_from_slice(&text);
            if self.text.len() >= PART_BYTES {
                self.send(false).await?;
                self.req.pace().await.map_err(|_| Step::Close)?;
            }
        }
        Ok(())
    }

    /// Sends everything so far, in order; waits for sub-requests that were started.
    async fn send(&mut self, flush: bool) -> Result<(), Step> {
        let closed = |_| Step::Close;
        let mut queue = std::mem::take(&mut self.queue);
        // All of them run at the same time; the first one's output is needed first.
        while !queue.is_empty() {
            match queue.remove(0) {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => self.req.send(Chunk::bytes(text)).wait().await.map_err(closed)?,
                Piece::Sub(sub, running) => {
                    wait_for_first(running, &mut queue).await;
                    let body = sub.take_body().map_err(closed)?;
                    self.req.send(Chunk::bytes(body)).wait().await.map_err(closed)?;
                }
            }
        }
        let text = std::mem::take(&mut self.text);
        if text.is_empty() && !flush && self.req.header_sent() {
            return Ok(());
        }
        let mut chunk = Chunk::bytes(text);
        chunk.flush = flush;
        self.req.send(chunk).wait().await.map_err(closed)
    }

    async fn end(&mut self) -> Result<(), Closed> {
        self.send(false).await.map_err(|_| Closed)?;
        self.req.send(Chunk::end()).wait().await
    }

    async fn subrequest(&self, target: &Target, capture: bool) -> Result<Subrequest, Step> {
        let req = &self.req;
        let location = target.location.eval(req);
        let Some((path, mut args)) = parse_target(&location) else {
            let (name, shown) = (&target.name, BStr::new(&location));
            req.log(Level::Warn, format_args!("{name} sees unsafe uri: \"{shown}\""));
            return Err(Step::Status(500));
        };
        if let Some(given) = &target.args {
            args = given.eval(req);
        }
        let method = match &target.method {
            None => Method::Get,
            Some(method) => Method::of(&method.eval(req)),
        };
        let body = match (&target.body, &target.file) {
            (Some(body), _) => Some(body.eval(req)),
            (None, Some(file)) => {
                let path = req.conf().full_path(&file.eval(req));
                let shown = path.display().to_string();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                match read.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                    Ok(body) => Some(body),
                    Err(error) => {
                        req.log(Level::Error, format_args!("open() \"{shown}\" failed {}", SysError(&error)));
                        return Err(Step::Status(500));
                    }
                }
            }
            (None, None) => None,
        };
        let mut fields = req.head.borrow().fields.clone();
        if let Some(body) = &body {
            fields.set_known(Known::ContentLength, itoa::Buffer::new().format(body.len()).as_bytes());
        }
        let has_own_body = body.is_some();
        let options = Options {
            method: Some(method),
            body,
            fields: Some(fields),
            variables: VariableSharing::Fresh,
            capture,
            ..Options::default()
        };
        let sub = Subrequest::new(req, &path, &args, options).map_err(|error| {
            req.log(Level::Error, format_args!("{error} \"{}\"", BStr::new(&path)));
            Step::Status(500)
        })?;
        if !has_own_body {
            // It sees that of its parent.
            sub.req.body.share(&req.body);
        }
        Ok(sub)
    }
}

/// Waits for `first`; meanwhile those behind it in the queue run too.
async fn wait_for_first(mut first: LocalFuture<()>, queue: &mut [Piece]) {
    let mut done = vec![false; queue.len()];
    std::future::poll_fn(|cx| {
        for (piece, done) in queue.iter_mut().zip(&mut done) {
            if let Piece::Sub(_, running) = piece
                && !*done
                && running.as_mut().poll(cx).is_ready()
            {
                // A future that has ended must not be polled again.
                *running = Box::pin(std::future::ready(()));
                *done = true;
            }
        }
        first.as_mut().poll(cx)
    })
    .await;
}

fn exec(req: &Rc<Request>, target: &[u8], args: Option<&[u8]>) -> Step {
    if target.starts_with(b"@") {
        let (target, own_args) = tidegate_http::uri::split_args(target);
        if !own_args.is_empty() {
            let (target, own_args) = (BStr::new(target), BStr::new(own_args));
            req.log(Level::Warn, format_args!("querystring {own_args} ignored when exec'ing named location {target}"));
        }
        if req.redirect_to_named(target) {
            return Step::Redirected;
        }
        req.log(Level::Error, format_args!("could not find named location \"{}\"", BStr::new(target)));
        return Step::Status(500);
    }
    match parse_target(target) {
        Some((path, own_args)) => {
            req.redirect_internally(&path, Some(args.unwrap_or(&own_args)));
            Step::Redirected
        }
        None => Step::Status(500),
    }
}
