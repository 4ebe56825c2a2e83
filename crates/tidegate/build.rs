//! Exports the Lua C API from the executable, so that C modules for Lua (`lua-cjson`, LPeg, …) find it, and what Lua code
//! reaches through `ffi.C` under a name of nginx.
//!
//! Only that: `-rdynamic` would export every symbol of the program, a hundred times as many.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=exports.txt");
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rustc-link-arg-bins=-Wl,--dynamic-list={dir}/exports.txt");
}
