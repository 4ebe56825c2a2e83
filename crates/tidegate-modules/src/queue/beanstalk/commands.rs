//! What commands do.

use std::sync::{Arc, atomic::Ordering};

use tidegate_http::beanstalk::{Command, answer, write_job, write_text};
use tidegate_queue::Place;

use super::{
    client::Client,
    jobs::{After, Deed, Job, NewJob},
    reserve::hold,
    stats,
    tubes::{Tube, Used},
};
use crate::{
    database::beanstalk::Settings,
    queue::{
        store::{Store, StoreError},
        tables::{DEAD, DELAYED, READY},
        time_of_day,
    },
};

/// Jobs that are looked at or kicked together.
const TOGETHER_MAX: usize = 256;
/// Delayed jobs that are looked for together: no index has those of a tube in the order of their times, so that each look is at all.
const DELAYED_TOGETHER_MAX: usize = 16_384;
/// How long a job is somebody's that is read or deleted.
const CLAIM_MS: u64 = 60_000;

/// A client's commands on their way to the store.
pub(super) struct Desk<'a> {
    pub(super) store: &'a Store,
    pub(super) client: &'a mut Client,
    pub(super) settings: Settings,
    /// Time to run of jobs whose publisher has said nothing.
    pub(super) ttr_default_ms: u64,
    pub(super) output: &'a mut Vec<u8>,
}

impl Desk<'_> {
    fn say(&mut self, answer: &[u8]) {
        self.output.extend_from_slice(answer);
    }

    fn say_text(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// Puts jobs into the tube that the client uses.
    pub(super) async fn put(&mut self, jobs: &[NewJob<'_>]) {
        self.client.produces();
        let tube = self.client.used.0.clone();
        if self.settings.is_draining() {
            jobs.iter().for_each(|_| self.say(answer::DRAINING));
            return;
        }
        let put = self.store.put_jobs(&tube.name, jobs).await;
        let numbers = put.map_err(|error| super::port::complain(&error)).unwrap_or_default();
        for at in 0..jobs.len() {
            match numbers.get(at) {
                Some(Ok(id)) => {
                    tube.jobs_total.fetch_add(1, Ordering::Relaxed);
                    self.client.common.counters.jobs_total.fetch_add(1, Ordering::Relaxed);
                    self.say_text(&format!("INSERTED {id}\r\n"));
                }
                // As beanstalkd answers when there is no room for a job.
                Some(Err(StoreError::Full { .. })) => self.say(answer::OUT_OF_MEMORY),
                Some(Err(error)) => {
                    super::port::complain(error);
                    self.say(answer::INTERNAL_ERROR);
                }
                None => self.say(answer::INTERNAL_ERROR),
            }
        }
    }

    /// Deletes jobs, those that the client has in one commit.
    pub(super) async fn delete(&mut self, ids: &[u64]) -> Result<(), StoreError> {
        let mut answers = vec![answer::NOT_FOUND; ids.len()];
        let (mut settling, mut settled) = (Vec::new(), Vec::new());
        for (at, id) in ids.iter().enumerate() {
            let Some(held) = self.client.held.get(*id) else { continue };
            if let Some(own) = self.store.broker().settle(&held.tube.name, held.lease.receipt()) {
                settling.push(own);
                settled.push((at, *id));
            }
        }
        if !settling.is_empty() {
            self.store.acknowledge(settling).await?;
        }
        for (at, id) in &settled {
            answers[*at] = answer::DELETED;
            if let Some(held) = self.client.held.remove(*id) {
                held.tube.deletes.fetch_add(1, Ordering::Relaxed);
                held.lease.keep();
            }
        }
        for (at, id) in ids.iter().enumerate() {
            // A number that comes twice is gone.
            let is_own = settled.iter().any(|(_, own)| own == id);
            if !is_own && self.delete_free(*id).await? {
                answers[at] = answer::DELETED;
            }
        }
        answers.into_iter().for_each(|answer| self.say(answer));
        Ok(())
    }

    /// Deletes a job that nobody has.
    async fn delete_free(&mut self, id: u64) -> Result<bool, StoreError> {
        let Some(job) = self.store.read_job(id, false).await? else { return Ok(false) };
        let Some(lease) = self.store.broker().claim(&job.tube, job.place, CLAIM_MS) else { return Ok(false) };
        let was_there = self.store.delete_job(&job.tube, id).await?;
        lease.gone();
        if was_there && let Some(tube) = self.client.common.known(&job.tube) {
            tube.deletes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(was_there)
    }

    /// Carries out a command that stands for itself.
    pub(super) async fn carry_out(&mut self, command: &Command<'_>) -> Result<(), StoreError> {
        // Whoever opens the tables first counts the jobs.
        self.store.give_back(self.store.open().await?);
        match *command {
            Command::ReserveJob(id) => self.reserve_job(id).await?,
            Command::Release { id, priority, delay_s } => self.release(id, priority, delay_s).await?,
            Command::Bury { id, priority } => self.bury(id, priority).await?,
            Command::Touch(id) => self.touch(id),
            Command::Peek(id) => {
                let job = self.store.read_job(id, true).await?;
                self.found(job);
            }
            Command::PeekReady => self.peek_ready().await?,
            Command::PeekDelayed => self.peek_delayed().await?,
            Command::PeekBuried => self.peek_buried().await?,
            Command::Kick(count) => self.kick(count).await?,
            Command::KickJob(id) => self.kick_job(id).await?,
            Command::StatsJob(id) => self.stats_job(id).await?,
            Command::StatsTube(name) => match self.exists(name) {
                true => {
                    let tube = self.client.common.known(name);
                    let text = stats::of_tube(self.store, name, tube.as_deref());
                    write_text(&text, self.output);
                }
                false => self.say(answer::NOT_FOUND),
            },
            Command::Stats => {
                let text = stats::general(self.store, &self.client.common, self.settings);
                write_text(&text, self.output);
            }
            Command::ListTubes => {
                let mut names = self.client.common.names_in_use();
                names.extend(self.store.home.counts.queues().into_iter().map(|(name, _)| name));
                self.list(names.iter().map(String::as_str));
            }
            Command::PauseTube { tube, delay_s } => self.pause(tube, delay_s),
            Command::Use(name) | Command::Watch(name) if self.is_gone_and_paused(name) => {
                self.store.end_pause(name).await?;
                self.of_client(command);
            }
            _ => self.of_client(command),
        }
        Ok(())
    }

    /// Carries out a command that only its client is concerned by.
    fn of_client(&mut self, command: &Command<'_>) {
        match *command {
            Command::Use(name) => {
                self.client.used = Used::new(self.client.common.tube(name));
                self.say_text(&format!("USING {name}\r\n"));
            }
            Command::Watch(name) => match self.client.watch(name) {
                Ok(()) => self.say_watching(),
                Err(()) => self.say(answer::OUT_OF_MEMORY),
            },
            Command::Ignore(name) => match self.client.ignore(name) {
                Ok(()) => self.say_watching(),
                Err(()) => self.say(answer::NOT_IGNORED),
            },
            Command::ListTubeUsed => self.say_text(&format!("USING {}\r\n", self.client.used.0.name)),
            Command::ListTubesWatched => {
                let names: Vec<Arc<str>> = self.client.watched.iter().map(|watched| watched.0.name.clone()).collect();
                self.list(names.iter().map(|name| &**name));
            }
            Command::PutTooBig => self.say(answer::JOB_TOO_BIG),
            Command::PutWithoutEnd => self.say(answer::EXPECTED_CRLF),
            Command::Refused(answer) => self.say(answer),
            _ => self.say(answer::INTERNAL_ERROR),
        }
    }

    fn say_watching(&mut self) {
        self.say_text(&format!("WATCHING {}\r\n", self.client.watched.len()));
    }

    fn list<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut text = "---\n".to_owned();
        for name in names {
            text.push_str("- ");
            text.push_str(name);
            text.push('\n');
        }
        write_text(&text, self.output);
    }

    fn found(&mut self, job: Option<Job>) {
        match job {
            Some(job) => write_job("FOUND", job.place.id, &job.body, self.output),
            None => self.say(answer::NOT_FOUND),
        }
    }

    /// Whether there is a tube of this name.
    fn exists(&self, name: &str) -> bool {
        let is_in_use = self.client.common.known(name).is_some_and(|tube| tube.is_in_use());
        is_in_use || name == super::tubes::DEFAULT || self.store.home.counts.of(name).total() > 0
    }

    /// Whether there is no tube of this name, and there was one that is paused yet.
    fn is_gone_and_paused(&self, name: &str) -> bool {
        self.store.home.pauses.has(name) && !self.exists(name)
    }

    async fn reserve_job(&mut self, id: u64) -> Result<(), StoreError> {
        self.client.works();
        self.client.forget_late();
        if self.client.held.len() >= self.settings.jobs_max() {
            self.say(answer::OUT_OF_MEMORY);
            return Ok(());
        }
        let known = self.store.read_job(id, false).await?;
        let lease = known.as_ref().and_then(|job| self.store.broker().claim(&job.tube, job.place, CLAIM_MS));
        let (Some(known), Some(lease)) = (known, lease) else {
            self.say(answer::NOT_FOUND);
            return Ok(());
        };
        // It stays where it waits, so that it waits again after a crash.
        let is_there = match known.state {
            READY => true,
            _ => self.store.turn_jobs(&known.tube, &[id], Deed::Reserve).await?.first() == Some(&After::Ready),
        };
        let job = if is_there { self.store.read_job(id, true).await? } else { None };
        match job.filter(|job| job.state == READY) {
            Some(job) => {
                let tube = self.client.common.tube(&job.tube);
                if job.is_plain {
                    lease.note_plain();
                }
                lease.given();
                hold(self.store, &tube, lease, job.ttr_ms.unwrap_or(self.ttr_default_ms), self.client);
                write_job("RESERVED", id, &job.body, self.output);
            }
            None => {
                lease.gone();
                self.say(answer::NOT_FOUND);
            }
        }
        Ok(())
    }

    async fn release(&mut self, id: u64, priority: u32, delay_s: u32) -> Result<(), StoreError> {
        let Some(held) = self.client.held.get(id) else {
            self.say(answer::NOT_FOUND);
            return Ok(());
        };
        let attempts_max = self.store.settings(&held.tube.name).await?.attempts_max;
        let now_ms = time_of_day::now_ms();
        let due_ms = (delay_s > 0).then(|| now_ms + u64::from(delay_s) * 1000);
        match self.give_up(id, Deed::Release { priority, due_ms, attempts_max }, priority).await? {
            After::Nowhere => self.say(answer::NOT_FOUND),
            After::Ready | After::Delayed => self.say(answer::RELEASED),
            After::Buried | After::Blocked => self.say(answer::BURIED),
        }
        Ok(())
    }

    async fn bury(&mut self, id: u64, priority: u32) -> Result<(), StoreError> {
        match self.give_up(id, Deed::Bury { priority }, priority).await? {
            After::Buried => self.say(answer::BURIED),
            _ => self.say(answer::NOT_FOUND),
        }
        Ok(())
    }

    /// The client has a job no more; it has this priority from now on.
    async fn give_up(&mut self, id: u64, deed: Deed, priority: u32) -> Result<After, StoreError> {
        let Some(held) = self.client.held.get(id) else { return Ok(After::Nowhere) };
        let tube = held.tube.clone();
        let Some(settling) = self.store.broker().settle(&tube.name, held.lease.receipt()) else {
            return Ok(After::Nowhere);
        };
        let after = self.store.turn_jobs(&tube.name, &[id], deed).await?.pop().unwrap_or(After::Nowhere);
        settling.gone();
        match after {
            After::Ready => self.store.broker().waits(&tube.name, Place { priority, id }),
            After::Delayed => self.store.home.due_changed.notify_one(),
            After::Nowhere | After::Buried | After::Blocked => {}
        }
        if let Some(held) = self.client.held.remove(id) {
            held.lease.keep();
        }
        Ok(after)
    }

    fn touch(&mut self, id: u64) {
        let now_ms = tidegate_net::clock::steady_ms();
        let broker = self.store.broker();
        let renewed = self.client.held.renew(id, now_ms);
        let is_held = renewed.is_some_and(|held| broker.extend(&held.tube.name, held.lease.receipt(), held.ttr_ms));
        if !is_held && let Some(late) = self.client.held.remove(id) {
            late.lease.keep();
        }
        self.say(if is_held { answer::TOUCHED } else { answer::NOT_FOUND });
    }

    async fn peek_ready(&mut self) -> Result<(), StoreError> {
        let tube = self.client.used.0.clone();
        let mut after = None;
        loop {
            let places = self.store.places(&tube.name, READY, after, TOGETHER_MAX as u64).await?;
            after = places.last().copied();
            let free = places.iter().find(|place| !self.store.broker().is_leased(place.id));
            if let Some(free) = free {
                let job = self.store.read_job(free.id, true).await?;
                self.found(job);
                return Ok(());
            }
            if places.len() < TOGETHER_MAX {
                self.say(answer::NOT_FOUND);
                return Ok(());
            }
        }
    }

    async fn peek_delayed(&mut self) -> Result<(), StoreError> {
        let tube = self.client.used.0.clone();
        let first = self.store.delayed_jobs(&tube.name, 1).await?;
        self.peek_first(&first).await
    }

    async fn peek_buried(&mut self) -> Result<(), StoreError> {
        let tube = self.client.used.0.clone();
        let first = self.store.places(&tube.name, DEAD, None, 1).await?;
        self.peek_first(&first).await
    }

    async fn peek_first(&mut self, places: &[Place]) -> Result<(), StoreError> {
        let job = match places.first() {
            Some(place) => self.store.read_job(place.id, true).await?,
            None => None,
        };
        self.found(job);
        Ok(())
    }

    async fn kick(&mut self, count: u32) -> Result<(), StoreError> {
        let tube = self.client.used.0.clone();
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        let mut kicked = 0;
        let is_buried = !self.store.places(&tube.name, DEAD, None, 1).await?.is_empty();
        while left > 0 {
            let together = left.min(if is_buried { TOGETHER_MAX } else { DELAYED_TOGETHER_MAX });
            let places = match is_buried {
                true => self.store.places(&tube.name, DEAD, None, together as u64).await?,
                false => self.store.delayed_jobs(&tube.name, together).await?,
            };
            for some in places.chunks(TOGETHER_MAX) {
                kicked += self.kick_all(&tube, some).await?;
            }
            left -= places.len();
            if places.len() < together {
                // It would not end where others put jobs fast enough.
                break;
            }
        }
        self.say_text(&format!("KICKED {kicked}\r\n"));
        Ok(())
    }

    async fn kick_all(&mut self, tube: &Tube, places: &[Place]) -> Result<usize, StoreError> {
        let ids: Vec<u64> = places.iter().map(|place| place.id).collect();
        let done = self.store.turn_jobs(&tube.name, &ids, Deed::Kick).await?;
        let ready = places.iter().zip(&done).filter(|(_, after)| **after == After::Ready);
        ready.for_each(|(place, _)| self.store.broker().waits(&tube.name, *place));
        Ok(done.iter().filter(|after| matches!(after, After::Ready | After::Blocked)).count())
    }

    async fn kick_job(&mut self, id: u64) -> Result<(), StoreError> {
        let mut is_kicked = false;
        if let Some(job) = self.store.read_job(id, false).await?
            && matches!(job.state, DEAD | DELAYED)
            && !self.store.broker().is_leased(id)
        {
            let after = self.store.turn_jobs(&job.tube, &[id], Deed::Kick).await?;
            is_kicked = matches!(after.first(), Some(After::Ready | After::Blocked));
            if after.first() == Some(&After::Ready) {
                self.store.broker().waits(&job.tube, job.place);
            }
        }
        self.say(if is_kicked { answer::KICKED } else { answer::NOT_FOUND });
        Ok(())
    }

    async fn stats_job(&mut self, id: u64) -> Result<(), StoreError> {
        match self.store.read_job(id, false).await? {
            Some(job) => {
                let left_ms = self.store.broker().time_left_ms(id);
                let text = stats::of_job(&job, left_ms, job.ttr_ms.unwrap_or(self.ttr_default_ms));
                write_text(&text, self.output);
            }
            None => self.say(answer::NOT_FOUND),
        }
        Ok(())
    }

    fn pause(&mut self, name: &str, delay_s: u32) {
        if !self.exists(name) {
            self.say(answer::NOT_FOUND);
            return;
        }
        let tube = self.client.common.tube(name);
        tube.pauses.fetch_add(1, Ordering::Relaxed);
        tube.pause_s.store(delay_s.into(), Ordering::Relaxed);
        self.store.pause_for(name, u64::from(delay_s) * 1000);
        self.say(answer::PAUSED);
    }
}
