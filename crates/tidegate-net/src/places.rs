//! Which worker talks to a client who has just come.
//!
//! The workers of a generation wait at the same sockets, and whoever looks first takes all who are there: of clients that come
//! together, one worker may get nearly all, and then has the work of them for as long as they stay. So a worker that talks to
//! clearly more clients than another gives newcomers away. Connections that are [parked](crate::parked) do not count: they
//! are no work.
//!
//! What this does not do: move a connection on which something was said already. Clients who stay while others leave can end
//! up unevenly; newcomers then even that out.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Peer;

/// Others that are looked at for each newcomer; each costs a line of another processor's cache.
const LOOKED_AT: usize = 4;

/// A client who has been accepted and has a worker to find.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    /// Position of the port, which is the same for all workers of a generation.
    pub(crate) port: usize,
}

/// What the others know of a worker. Aligned, because each worker writes to its own all the time.
#[derive(Default)]
#[repr(align(64))]
struct Seat {
    /// Clients that it talks to.
    talking: AtomicUsize,
    /// Clients on their way to it.
    coming: AtomicUsize,
    /// Its way in; `None` while it takes nobody.
    door: Mutex<Option<UnboundedSender<Newcomer>>>,
}

impl Seat {
    fn load(&self) -> usize {
        self.talking.load(Relaxed) + self.coming.load(Relaxed)
    }
    /// Gives a client to the worker, or back if it takes nobody.
    fn take(&self, newcomer: Newcomer) -> Option<Newcomer> {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(door) = &*door else { return Some(newcomer) };
        self.coming.fetch_add(1, Relaxed);
        match door.send(newcomer) {
            Ok(()) => None,
            // It has panicked.
            Err(refused) => {
                self.coming.fetch_sub(1, Relaxed);
                Some(refused.0)
            }
        }
    }
}

/// The place of a worker among those of its generation.
pub struct Place {
    seats: Arc<[Seat]>,
    id: usize,
}

/// The places of all workers of a generation.
#[derive(Clone)]
pub struct Places(Arc<[Seat]>);

impl Places {
    /// So many.
    pub fn new(count: usize) -> Self {
        Places((0..count).map(|_| Seat::default()).collect())
    }
    /// That of worker `id`.
    pub fn place(&self, id: usize) -> Place {
        Place { seats: self.0.clone(), id }
    }
}

impl Place {
    /// That of a worker without others.
    pub fn alone() -> Self {
        Places::new(1).place(0)
    }
    fn seat(&self) -> &Seat {
        &self.seats[self.id]
    }
    /// From now on others may give clients; they come from the receiver, until [`Self::close`], and each is to be noted by
    /// [`Self::note_arrival`].
    pub(crate) fn open(&self) -> UnboundedReceiver<Newcomer> {
        let (sender, receiver) = unbounded_channel();
        let seat = self.seat();
        // Nothing is left of a worker that had the place before.
        *seat.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        seat.coming.store(0, Relaxed);
        seat.talking.store(0, Relaxed);
        receiver
    }
    /// From now on nobody gives clients; the receiver ends with those who are on their way.
    pub(crate) fn close(&self) {
        *self.seat().door.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
    /// A client whom another worker gave has arrived.
    pub(crate) fn note_arrival(&self) {
        self.seat().coming.fetch_sub(1, Relaxed);
    }
    /// Tells the others how many clients the worker talks to.
    pub(crate) fn set_talking(&self, count: usize) {
        self.seat().talking.store(count, Relaxed);
    }
    /// Gives a client to a worker who has clearly less to do, or back.
    pub(crate) fn offer(&self, newcomer: Newcomer) -> Option<Newcomer> {
        match self.less_busy() {
            Some(other) => other.take(newcomer),
            None => Some(newcomer),
        }
    }
    fn less_busy(&self) -> Option<&Seat> {
        let count = self.seats.len();
        let own = self.seat().talking.load(Relaxed);
        if count == 1 || own < 2 {
            return None;
        }
        // Whom to look at changes with each client that comes.
        let others = (0..LOOKED_AT.min(count - 1)).map(|step| {
            let behind = (own + step) % (count - 1);
            &self.seats[(self.id + 1 + behind) % count]
        });
        let (other, load) = others.map(|seat| (seat, seat.load())).min_by_key(|(_, load)| *load)?;
        (own >= load + 2.max(load / 4)).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn newcomer() -> Newcomer {
        let (socket, _) = UnixStream::pair().expect("a pair of sockets");
        Newcomer { socket: socket.into(), peer: Peer::Unix, port: 3 }
    }

    #[test]
    fn whoever_has_clearly_more_gives_away() {
        let places = Places::new(2);
        let (busy, idle) = (places.place(0), places.place(1));
        let mut arrivals = idle.open();
        let _own = busy.open();
        // All of 64 come to one worker first.
        let mut kept = 0;
        for _ in 0..64 {
            if busy.offer(newcomer()).is_some() {
                kept += 1;
                busy.set_talking(kept);
            }
        }
        assert!((32..=38).contains(&kept), "{kept}");
        let mut came = 0;
        while let Ok(newcomer) = arrivals.try_recv() {
            assert_eq!(newcomer.port, 3);
            came += 1;
            idle.note_arrival();
            idle.set_talking(came);
        }
        assert_eq!(kept + came, 64);
        assert_eq!(idle.seat().coming.load(Relaxed), 0);
        // Those who have less keep all.
        assert!(idle.offer(newcomer()).is_some());
    }

    #[test]
    fn many_share_evenly() {
        let places = Places::new(16);
        let all: Vec<_> = (0..16).map(|id| places.place(id)).collect();
        let mut doors: Vec<_> = all.iter().map(Place::open).collect();
        let mut own = 0;
        for _ in 0..1600 {
            if all[0].offer(newcomer()).is_some() {
                own += 1;
                all[0].set_talking(own);
            }
        }
        let came: Vec<_> = doors.iter_mut().map(|door| std::iter::from_fn(|| door.try_recv().ok()).count()).collect();
        assert_eq!(own + came.iter().sum::<usize>(), 1600);
        assert!(own <= 130, "{own}");
        assert!(came[1..].iter().all(|came| (60..=130).contains(came)), "{came:?}");
    }

    #[test]
    fn nobody_is_lost_at_a_closed_door() {
        let places = Places::new(2);
        let (busy, other) = (places.place(0), places.place(1));
        busy.set_talking(100);
        // Not there yet, there, quitting, gone.
        assert!(busy.offer(newcomer()).is_some());
        let mut arrivals = other.open();
        assert!(busy.offer(newcomer()).is_none());
        other.close();
        assert!(busy.offer(newcomer()).is_some());
        assert!(arrivals.try_recv().is_ok());
        let again = other.open();
        drop(again);
        assert!(busy.offer(newcomer()).is_some());
        assert_eq!(other.seat().load(), 0);
    }

    #[test]
    fn one_alone_keeps_everybody() {
        let place = Place::alone();
        place.set_talking(1000);
        assert!(place.offer(newcomer()).is_some());
    }
}
