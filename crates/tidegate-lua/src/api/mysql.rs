//! The Rust half of `require "resty.mysql"`: the functions are those of [`crate::mysql`].

use super::Family;
use crate::mysql;

pub(crate) static FAMILY: Family = Family { name: "mysql", cdef: "", ffi: &[], functions: mysql::FUNCTIONS };
