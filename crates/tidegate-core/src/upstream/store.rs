//! `…_store`: complete responses become files, for the next request to find them.
//!
//! Source: nginx, `ngx_http_upstream_store`.

use std::{os::unix::ffi::OsStringExt, path::PathBuf};

use tidegate_http::{Known, date::parse_http_date};

use super::{
    exchange::{Exchange, Protocol},
    settings::StoreTo,
    tee::move_to,
};
use crate::{
    request::Request,
    spool::{Draft, Place, Spool, SpoolError},
};

/// Rights of stored files, unless `…_store_access` says otherwise.
pub const ACCESS_DEFAULT: u32 = 0o600;

impl<P: Protocol> Exchange<'_, P> {
    /// Begins to store the response, where that is wanted. Only what `GET` and the like get with 200 is stored, and only with
    /// buffering.
    pub(super) fn begin_store(&self) -> Option<Spool> {
        let status = self.req.upstream_record(|record| record.head.status);
        if self.settings.store.is_none() || !self.buffering || status != Some(200) || self.req.is_head() {
            return None;
        }
        Some(Spool::new(Place::Directory(self.req.conf().full_path(&self.settings.temp_path)), 0))
    }

    /// The response is complete: its file gets its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) async fn finish_store(&self, spool: Spool) -> Result<(), SpoolError> {
        let Some(to) = &self.settings.store else { return Ok(()) };
        let Some(target) = target(self.req, to) else { return Ok(()) };
        let modified =
            self.req.upstream_record(|record| record.head.fields.get(Known::LastModified).map(<[u8]>::to_vec));
        let modified = modified.flatten().and_then(|text| parse_http_date(&text));
        let modified = modified.and_then(|seconds| u64::try_from(seconds).ok());
        let access = self.settings.store_access;
        spool.finish(Vec::new(), move |mut draft: Draft| move_to(&mut draft, &target, access, modified)).await
    }
}

fn target(req: &Request, to: &StoreTo) -> Option<PathBuf> {
    match to {
        StoreTo::File => {
            let mut path = Vec::new();
            req.map_uri_to_path(&mut path)?;
            Some(std::ffi::OsString::from_vec(path).into())
        }
        StoreTo::Path(path) => Some(req.conf().full_path(&path.eval(req))),
    }
}
