//! The thread that looks after all certificates of the process: each has a task.
//!
//! - K1: a task holds its order only while it works on it. An order that no configuration has any more ends its task.
//! - K2: a certificate is asked for when there is none, when its authority suggests it (ARI), and without a suggestion when two
//!   thirds of its time are over.
//! - K3: after a failure the next try waits, each time [`BACK_OFF_FACTOR`] times as long. Let's Encrypt lets a name be refused
//!   five times an hour; the first tries of an hour stay within that.
//!   An authority that wants to be asked later is asked later.
//! - K4: several processes may share a directory: one of them asks, the others find the certificate there. What the authority has suggested for one
//!   certificate says nothing of the next.
//! - K5: a certificate that has come and is due at once (a clock that is wrong, an authority whose suggestion lies in the past) is replaced after the
//!   pauses of K3: authorities give few of the same names.
//! - K6: a process may end at any moment. Keys are kept before an account or a certificate is asked for, and the next try finds what the authority has
//!   made by them (`register`, `under_way`).

use std::{
    fs::File,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tidegate_net::{
    clock,
    log::{Level, SysError, note},
};
use tidegate_tls::managed::Material;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{LocalSet, spawn_local},
    time::sleep,
};

use crate::{
    issue::{self, IssueError},
    order::Order,
    patience::WAIT_MAX,
};

/// Certificates that are asked for at the same time.
const UNDER_WAY_MAX: usize = 4;

/// Pause after the first failure.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
const BACK_OFF_FACTOR: u32 = 6;
/// After so many failures pauses grow no more for an authority that says when to come.
const SOON_FAILURES: u32 = 2;
/// Longest pause after failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(12 * 3600);

/// How long a task sleeps at most: clocks are set, machines sleep, other processes bring certificates.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// How often an authority is asked what it suggests, whatever it says about that.
const ADVICE_PAUSE_MIN: Duration = Duration::from_secs(600);
const ADVICE_PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The same, after it could not be asked.
const ADVICE_PAUSE_FAILED: Duration = Duration::from_secs(6 * 3600);

/// How often writing what could not be written is tried again.
const WRITE_PAUSE: Duration = Duration::from_secs(60);

/// How long another process's work is waited for.
const OTHERS_WORK: Duration = Duration::from_secs(5);

/// Looks after orders from now on, as long as a configuration has them. Those that are looked after already go on.
///
/// # Errors
/// The thread cannot be started.
pub fn keep(orders: &[Arc<Order>]) -> std::io::Result<()> {
    static KEEPER: OnceLock<mpsc::UnboundedSender<Weak<Order>>> = OnceLock::new();
    for order in orders.iter().filter(|order| order.begin_keeping()) {
        if KEEPER.get().is_none() {
            let (sender, orders) = mpsc::unbounded_channel();
            // Of two workers that come at the same time one has a thread of its own, which ends with its end of the channel.
            start(orders)?;
            let _ = KEEPER.set(sender);
        }
        if let Some(keeper) = KEEPER.get() {
            // A thread that has panicked takes no more; the log has the reason.
            let _ = keeper.send(Arc::downgrade(order));
        }
    }
    Ok(())
}

fn start(mut orders: mpsc::UnboundedReceiver<Weak<Order>>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("acme".to_owned()).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let turns = Arc::new(Semaphore::new(UNDER_WAY_MAX));
            while let Some(order) = orders.recv().await {
                spawn_local(tend(order, turns.clone()));
            }
        });
    })?;
    Ok(())
}

/// What an authority suggests for a certificate.
#[derive(Default)]
struct Advice {
    /// The certificate.
    subject: Option<Arc<Material>>,
    /// The time of suggestion, in seconds since 1970, and the window that it was chosen in.
    renew: Option<(i64, (i64, i64))>,
    /// When to ask again, in seconds since 1970.
    ask: i64,
}

impl Advice {
    fn is_for(&self, current: &Arc<Material>) -> bool {
        self.subject.as_ref().is_some_and(|subject| Arc::ptr_eq(subject, current))
    }
}

/// How an order stands with its authority.
#[derive(Default)]
struct Standing {
    advice: Advice,
    /// Tries in a row that have come to nothing, or to a certificate that is due at once (K5).
    failures: u32,
    /// When the next try is, after such a one.
    next_try: Option<Instant>,
}

/// Looks after one order until nobody has it; see K1.
async fn tend(order: Weak<Order>, turns: Arc<Semaphore>) {
    let mut standing = Standing::default();
    loop {
        let Some(order) = order.upgrade() else { return };
        let Ok(turn) = turns.acquire().await else { return };
        let pause = work(&order, &mut standing).await;
        let pause = pause.min(if order.write_again() { SLEEP_MAX } else { WRITE_PAUSE });
        drop((turn, order));
        sleep(pause).await;
    }
}

/// Does what is to be done for an order now. Answers after which time there may be more.
async fn work(order: &Arc<Order>, standing: &mut Standing) -> Duration {
    clock::update();
    order.adopt_stored();
    let Standing { advice, failures, next_try } = standing;
    let current = order.managed().current();
    if !advice.is_for(&current) {
        *advice = Advice { subject: Some(current.clone()), ..Advice::default() };
    }
    if !current.is_provisional && now() >= advice.ask {
        seek_advice(order, &current, advice).await;
    }
    let wait = due(&current, advice).saturating_sub(now());
    if wait > 0 {
        (*failures, *next_try) = (0, None);
        let ask = advice.ask.saturating_sub(now()).max(1);
        return Duration::from_secs(wait.min(ask).unsigned_abs());
    }
    let left = next_try.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
    if left > Duration::ZERO {
        return left;
    }
    match renew(order, advice).await {
        Ok(Renewed::Made(next, lock)) => {
            let end = until(&next);
            order.accept(next);
            // Others find it from now on.
            drop(lock);
            note(Level::Notice, format_args!("the certificate for {order} has come{end}"));
            let pause = back_off(*failures);
            *failures += 1;
            *next_try = Some(Instant::now() + pause);
            if due(&order.managed().current(), advice) <= now() {
                warn_of_due(order, pause);
            }
            Duration::ZERO
        }
        Ok(Renewed::ByOthers) => Duration::ZERO,
        Ok(Renewed::OthersAtWork) => OTHERS_WORK,
        Err(error) => {
            let pause = pause_after(&error, *failures);
            *failures += 1;
            *next_try = Some(Instant::now() + pause);
            let issuer = &order.issuer().settings().name;
            note(
                Level::Error,
                format_args!(
                    "acme issuer \"{issuer}\" gave no certificate for {order}: {error}; next try in {} s",
                    pause.as_secs()
                ),
            );
            pause
        }
    }
}

/// See K5.
#[cold]
fn warn_of_due(order: &Order, pause: Duration) {
    let seconds = pause.as_secs();
    note(
        Level::Warn,
        format_args!(
            "the time of the certificate for {order} is over by the clock of this machine; next try in {seconds} s"
        ),
    );
}

/// How a certificate was renewed.
enum Renewed {
    /// It has come; who has the lock keeps others from asking for it and from writing it.
    Made(Material, Option<File>),
    /// Somebody else has brought it in the very moment.
    ByOthers,
    /// Somebody else asks for it.
    OthersAtWork,
}

/// Has a certificate made, unless somebody else does; see K4.
async fn renew(order: &Order, advice: &Advice) -> Result<Renewed, IssueError> {
    let lock = match order.issuer().store().map(|store| store.lock(&order.file_name())) {
        None => None,
        Some(Ok(Some(lock))) => {
            // The one who had it before may have been quick.
            order.adopt_stored();
            if due(&order.managed().current(), advice) > now() {
                return Ok(Renewed::ByOthers);
            }
            Some(lock)
        }
        Some(Ok(None)) => return Ok(Renewed::OthersAtWork),
        // What cannot be kept is of use all the same; the log tells when it comes to that.
        Some(Err(error)) => {
            note(Level::Warn, format_args!("the directory for {order} cannot be used {}", SysError(&error)));
            None
        }
    };
    let current = order.managed().current();
    let account = order.issuer().account().await?;
    let issued = match issue::issue(order, &account, &current, now()).await {
        Err(error) if error.is_of_account() => {
            order.issuer().forget_account(&account).await;
            let account = order.issuer().account().await?;
            issue::issue(order, &account, &current, now()).await
        }
        issued => issued,
    };
    issued.map(|next| Renewed::Made(next, lock))
}

/// When a certificate is to be replaced, in seconds since 1970; see K2.
fn due(current: &Arc<Material>, advice: &Advice) -> i64 {
    let Some((from, to)) = current.times().filter(|_| !current.is_provisional) else { return 0 };
    let usual = from + (to - from) / 3 * 2;
    match advice.renew {
        // Advice to wait until it is too late is none, and so is that for another certificate.
        Some((at, _)) if at < to && advice.is_for(current) => at,
        _ => usual,
    }
}

/// Asks the authority when a certificate should be replaced.
async fn seek_advice(order: &Order, current: &Material, advice: &mut Advice) {
    let asked = match (order.issuer().account().await, issue::identity(current)) {
        (Ok(account), Some(identity)) => account.renewal_info(&identity).await.map_err(IssueError::from),
        (Err(error), _) => Err(error),
        // A certificate without an identifier of its authority's key: there is nothing to ask by.
        (Ok(_), None) => Err(instant_acme::Error::Unsupported("renewal information for this certificate").into()),
    };
    let pause = match asked {
        Ok((info, pause)) => {
            let (start, end) =
                (info.suggested_window.start.unix_timestamp(), info.suggested_window.end.unix_timestamp());
            let is_same = advice.renew.is_some_and(|(_, window)| window == (start, end));
            if !is_same && start < end {
                advice.renew = Some((start + up_to(end - start), (start, end)));
            }
            pause.clamp(ADVICE_PAUSE_MIN, ADVICE_PAUSE_MAX)
        }
        Err(error) => {
            note(Level::Info, format_args!("no renewal information for the certificate for {order}: {error}"));
            error.later().map_or(ADVICE_PAUSE_FAILED, |later| later.left().clamp(ADVICE_PAUSE_MIN, WAIT_MAX))
        }
    };
    advice.ask = now().saturating_add(i64::try_from(pause.as_secs()).unwrap_or(i64::MAX));
}

/// How long the next try waits. An authority that says when to come, however soon, is not asked more often than one that does not
/// answer at the beginning.
fn pause_after(error: &IssueError, failures: u32) -> Duration {
    match error.later() {
        Some(later) => later.left().clamp(back_off(failures).min(back_off(SOON_FAILURES)), WAIT_MAX),
        None => back_off(failures),
    }
}

/// See K3.
fn back_off(failures: u32) -> Duration {
    BACK_OFF_FACTOR
        .checked_pow(failures)
        .and_then(|factor| BACK_OFF_FIRST.checked_mul(factor))
        .map_or(BACK_OFF_MAX, |pause| pause.min(BACK_OFF_MAX))
}

/// A number below `end` by chance: servers that were set up together do not come together.
fn up_to(end: i64) -> i64 {
    let chance = getrandom::u64().unwrap_or_default();
    i64::try_from(chance % end.unsigned_abs().max(1)).unwrap_or_default()
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn until(material: &Material) -> String {
    let end = material.certified.cert.first().and_then(|der| tidegate_tls::describe::Description::of(der)?.dates());
    end.map(|(_, end)| format!(", and ends on {end}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::KeyType, order};

    #[test]
    fn pauses_after_failures_grow_to_a_limit() {
        let seconds: Vec<_> = (0..7).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(seconds, [10, 60, 360, 2160, 12_960, 43_200, 43_200]);
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
        // K3: refusals of the first hour, the first at its beginning.
        let mut at = 0;
        let refused = (0..).map_while(|failures| {
            let this = at;
            at += back_off(failures).as_secs();
            (this < 3600).then_some(this)
        });
        assert_eq!(refused.count(), 5);
    }

    fn material() -> Arc<Material> {
        let key = KeyType::P256.generate().expect("a key");
        let mut params = order::params(&["one.test".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let certificate = params.self_signed(&key).expect("signed");
        Arc::new(Material::of_pem(certificate.pem(), key.serialize_pem()).expect("a certificate and its key"))
    }

    #[test]
    fn advice_is_for_one_certificate() {
        const DAY: i64 = 86_400;
        let [first, second] = [(); 2].map(|()| material());
        let (from, to) = first.times().expect("times");
        assert_eq!(to - from, 90 * DAY);
        let advice = |at: i64| Advice { subject: Some(first.clone()), renew: Some((at, (at, at + DAY))), ask: 0 };
        assert_eq!(due(&first, &Advice::default()), from + 60 * DAY);
        assert_eq!(due(&first, &advice(from + DAY)), from + DAY);
        // One that another process has brought meanwhile, and advice that comes too late.
        assert_eq!(due(&second, &advice(from + DAY)), from + 60 * DAY);
        assert_eq!(due(&first, &advice(to)), from + 60 * DAY);
    }

    #[test]
    fn chance_stays_within_the_window() {
        assert_eq!(up_to(1), 0);
        assert!((0..1000).all(|_| (0..10).contains(&up_to(10))));
    }
}
