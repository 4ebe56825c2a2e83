//! `ngx.socket.*` and `ngx.req.socket`: the functions are those of [`crate::socket`].

use super::Family;
use crate::socket;

pub(crate) static FAMILY: Family = Family { name: "socket", cdef: "", ffi: &[], functions: socket::FUNCTIONS };
