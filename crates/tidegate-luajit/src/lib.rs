//! LuaJIT as Tidegate builds it: nothing but the library to link, with `extension.c`.
//!
//! The declarations are those of `mlua-sys`. The build stands in a package of its own, since it takes half a minute and
//! a change of bundled Lua code must not start it again.

#![forbid(unsafe_code)]
