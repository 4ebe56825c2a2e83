//! Paths that the kernel does not have in memory: another thread looks them up, and the handler that wants them runs again.

use std::{cell::RefCell, rc::Rc};

use super::{
    SYMLINKS_ALLOWED, cache,
    open::{OpenFailure, OpenFile, Patience, Want},
};
use crate::{
    clock,
    phase::{Outcome, Ready},
    request::Request,
};

type Found = Result<Rc<OpenFile>, OpenFailure>;

/// What other threads looked up for a request.
#[derive(Default)]
struct Lookups {
    /// What the handler that just ran could not have at once.
    wanted: RefCell<Option<(Box<[u8]>, Want)>>,
    done: RefCell<Vec<(Box<[u8]>, Want, Found)>>,
}

impl Lookups {
    fn find(&self, path: &[u8], want: Want) -> Option<Found> {
        let done = self.done.borrow();
        let (.., found) = done.iter().find(|(other, has, _)| **other == *path && *has >= want)?;
        Some(found.clone())
    }
}

impl Request {
    /// As [`open_file`](Self::open_file), for handlers that [`with_files`](Self::with_files) runs.
    ///
    /// # Errors
    /// Also one that [is cold](OpenFailure::is_cold): the handler returns at once, whatever, and will run again.
    pub fn look_up(&self, path: &[u8], want: Want) -> Found {
        let conf = self.files_conf();
        if !matches!(conf.disable_symlinks, None | Some(SYMLINKS_ALLOWED)) {
            return self.open_file(path, want);
        }
        let found = cache::open(conf, path, want, Patience::None);
        if !matches!(&found, Err(failure) if failure.is_cold()) {
            return found;
        }
        let lookups = self.context::<Lookups>();
        lookups.find(path, want).unwrap_or_else(|| {
            *lookups.wanted.borrow_mut() = Some((path.into(), want));
            found
        })
    }

    fn take_wanted(&self) -> Option<(Box<[u8]>, Want)> {
        self.find_context::<Lookups>()?.wanted.take()
    }

    /// Runs a handler that opens files by [`look_up`](Self::look_up): again and again, until all that it wants was there.
    pub fn with_files<C: Clone + 'static>(
        self: &Rc<Self>,
        conf: &C,
        handler: fn(&Rc<Request>, &C) -> Outcome,
    ) -> Outcome {
        let outcome = handler(self, conf);
        let Some(mut wanted) = self.take_wanted() else { return outcome };
        let (req, conf) = (self.clone(), conf.clone());
        Ready::later(async move {
            loop {
                req.fetch(wanted).await;
                let outcome = handler(&req, &conf);
                match req.take_wanted() {
                    None => return outcome.wait().await,
                    Some(next) => wanted = next,
                }
            }
        })
    }

    async fn fetch(&self, (path, want): (Box<[u8]>, Want)) {
        let looking = tokio::task::spawn_blocking(move || (OpenFile::look(&path, want, Patience::Disk), path));
        let Ok((found, path)) = looking.await else {
            // Only a panic ends here, and it would come again.
            return;
        };
        clock::update();
        let found = match found {
            // Somebody holds a lease on it; that is no reason to look again.
            Err(failure) if failure.is_cold() => Err(OpenFailure { errno: libc::EBUSY, ..failure }),
            found => found.map(Rc::new),
        };
        cache::keep(self.files_conf(), &path, &found);
        self.context::<Lookups>().done.borrow_mut().push((path, want, found));
    }
}
