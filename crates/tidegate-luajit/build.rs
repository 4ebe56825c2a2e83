//! Builds LuaJIT with the options that Tidegate relies on.
//!
//! Why not `mlua-sys`: see `docs/decisions/0003-luajit-build.md`.

use std::env;
use std::path::{Path, PathBuf};

/// Compiled loops look at the hook mask: `lua_cpu_budget` can stop a script that runs in a trace.
const CHECKHOOK: &str = "-DLUAJIT_ENABLE_CHECKHOOK";

/// Our additions to LuaJIT's internals.
const SOURCES: [&str; 6] = ["extension.c", "rows.c", "entries.c", "guard.c", "stack.c", "mark.c"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-changed=levels.h");
    build_luajit(&PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")));
}

/// Builds `libluajit.a` and our few additions to its internals.
fn build_luajit(out_dir: &Path) {
    let debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    // The makefile works in LuaJIT's directory of sources, where `levels.h` finds LuaJIT's own headers.
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let own_flags = format!("{CHECKHOOK} -I. -include '{here}/levels.h'");
    let cflags = match env::var("TARGET_CFLAGS") {
        Ok(flags) => format!("{flags} {own_flags}"),
        Err(_) => own_flags,
    };
    // SAFETY: a build script has one thread here. LuaJIT's makefile takes target flags from this variable only.
    unsafe { env::set_var("TARGET_CFLAGS", cflags) };
    let artifacts = luajit_src::Build::new().lua52compat(true).debug(debug).build();

    let mut cc = cc::Build::new();
    cc.files(SOURCES)
        .include(out_dir.join("luajit-build").join("src"))
        .define("LUAJIT_ENABLE_LUA52COMPAT", None)
        .define("LUAJIT_ENABLE_CHECKHOOK", None)
        .warnings(true)
        .extra_warnings(false);
    if debug {
        cc.define("LUA_USE_ASSERT", None).define("LUA_USE_APICHECK", None);
    }
    // Before LuaJIT itself: the extension refers to LuaJIT's internals.
    cc.compile("tidegate_luajit");
    artifacts.print_cargo_metadata();
    // For build scripts of packages that depend on this one: DEP_LUAJIT_MODULES.
    println!("cargo:modules={}", out_dir.join("luajit-build").join("src").join("jit").display());
}
