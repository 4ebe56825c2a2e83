//! Lists the bundled Lua sources.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bundle_lua(&out_dir);
}

/// LuaJIT's own modules in Lua: what tells of traces, profiles and bytecode.
const JIT_MODULES: &[&str] = &["bc", "bcsave", "dis_arm64", "dis_x64", "dis_x86", "dump", "p", "v", "vmdef", "zone"];

/// Writes `bundle.rs`: module name and source of every file below `lualib/`, and of LuaJIT's own modules.
fn bundle_lua(out_dir: &Path) {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .join("../../lualib")
        .canonicalize()
        .expect("lualib/ stands at the top of the repository");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    let mut modules: Vec<(String, PathBuf)> = files.into_iter().map(|file| (module_name(&root, &file), file)).collect();
    let jit = PathBuf::from(env::var_os("DEP_LUAJIT_MODULES").expect("tidegate-luajit tells"));
    modules.extend(JIT_MODULES.iter().map(|name| (format!("jit.{name}"), jit.join(format!("{name}.lua")))));
    modules.sort();
    let mut text = String::from("pub(crate) static MODULES: &[(&str, &[u8])] = &[\n");
    for (name, file) in &modules {
        writeln!(text, "    ({name:?}, include_bytes!({:?})),", file.display().to_string()).expect("a String grows");
    }
    text.push_str("];\n");
    fs::write(out_dir.join("bundle.rs"), text).expect("OUT_DIR is writable");
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("lualib/ is readable") {
        let path = entry.expect("lualib/ is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            files.push(path);
        }
    }
}

/// `resty.lock` for `resty/lock.lua`; `a.b` for `a/b/init.lua`.
fn module_name(root: &Path, file: &Path) -> String {
    let relative = file.strip_prefix(root).expect("collected below the root").with_extension("");
    let name = relative.to_string_lossy().replace('/', ".");
    name.strip_suffix(".init").unwrap_or(&name).to_owned()
}
