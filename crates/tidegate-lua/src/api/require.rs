//! `require`, in Lua: a module whose top level waits loads like any other.

use super::Family;

pub(crate) static FAMILY: Family = Family { name: "require", cdef: "", ffi: &[], functions: &[] };
