//! The Lua sources in the binary: everything below `lualib/`.
//!
//! `lualib/tidegate/` is internal: the Lua halves of the API, run when a virtual machine starts. The rest are modules
//! for `require`: `lualib/resty/lock.lua` is `resty.lock`. A copy on the user's `lua_package_path` wins, with one
//! exception: what lua-resty-core and lua-resty-string install (`resty.core.*`, `ngx.*`, `resty.string`, `resty.md5` …)
//! speaks to C symbols of nginx or its OpenSSL and cannot work here, so ours go first.

use crate::error::CResult;
use crate::stack::Lua;

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));

/// Source of module `name`.
pub(crate) fn source(name: &[u8]) -> Option<&'static [u8]> {
    MODULES.binary_search_by(|(module, _)| module.as_bytes().cmp(name)).ok().map(|at| MODULES[at].1)
}

/// `load(name)`: the loader function of a bundled module, or nothing.
pub(crate) fn load(lua: &mut Lua) -> CResult {
    let name = lua.check_bytes(1)?.to_vec();
    if name.starts_with(b"tidegate.") {
        return Ok(0);
    }
    let Some(source) = source(&name) else { return Ok(0) };
    let chunk_name = [b"@tidegate:", name.as_slice(), b"\0"].concat();
    let Ok(chunk_name) = std::ffi::CString::from_vec_with_nul(chunk_name) else { return Ok(0) };
    match lua.load(source, &chunk_name) {
        Ok(()) => Ok(1),
        Err(failure) => Err(crate::error::LuaError::Bare(failure.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_sorted_and_unique() {
        assert!(MODULES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
