//! `ngx.re`: compiling and matching. Caching, captures and templates are in the Lua half.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr;
use std::thread::LocalKey;

use pcre2_sys as pcre;
use tidegate_core::regex::{Regex, RegexOptions};

use super::compiled::{Filled, Handled, Handles, ffi_functions, hold, release};
use super::{Family, ffi_error, log_debug};

pub(crate) static FAMILY: Family = Family {
    name: "regex",
    cdef: "typedef struct { const int32_t *captures; uint32_t groups; uint32_t names; uint32_t handle; } tg_regex;",
    ffi: ffi_functions! {
        compile as "compile": (Bytes, u32, c_int, u32, Out<Compiled>) -> c_int,
        name as "name": (Handle<LuaRegex>, u32, TextOut) -> u32,
        exec as "exec": (Handle<LuaRegex>, Bytes, usize, c_int) -> c_int,
        free as "free": (u32),
    },
    functions: &[],
};

/// Bits that the Lua half sets beside PCRE2's options.
const DFA: c_int = 2;
const NO_UTF_CHECK: c_int = 16;
/// To [`compile`]: the script asked for machine code.
const JIT: c_int = 4;

/// Working memory of a match in DFA mode, in integers.
const DFA_WORKSPACE: usize = 1000;

/// What Lua sees of a compiled pattern.
#[derive(Clone, Copy)]
#[repr(C)]
struct Compiled {
    /// Pairs of offsets for the whole match and for each group, set by [`exec`].
    captures: *const i32,
    groups: u32,
    names: u32,
    handle: u32,
}

impl Default for Compiled {
    fn default() -> Self {
        Self { captures: ptr::null(), groups: 0, names: 0, handle: u32::MAX }
    }
}

impl Filled for Compiled {
    const POINTER: &'static str = "tg_regex *";
}

/// A compiled pattern of one virtual machine.
struct LuaRegex {
    /// Lua reads them between two matches.
    offsets: Box<[Cell<i32>]>,
    regex: Regex,
    data: *mut pcre::pcre2_match_data_8,
    context: *mut pcre::pcre2_match_context_8,
}

impl Handled for LuaRegex {
    fn handles() -> &'static LocalKey<RefCell<Handles<Self>>> {
        thread_local! {
            static REGEXES: RefCell<Handles<LuaRegex>> = const { RefCell::new(Handles::new()) };
        }
        &REGEXES
    }
}

impl Drop for LuaRegex {
    fn drop(&mut self) {
        // SAFETY: both are ours or null.
        unsafe { pcre::pcre2_match_data_free_8(self.data) };
        // SAFETY: as above.
        unsafe { pcre::pcre2_match_context_free_8(self.context) };
    }
}

/// Compiles a pattern: 0, or -1 with a message when it has an error.
fn compile(pattern: &[u8], options: u32, flags: c_int, match_limit: u32, out: &mut Compiled) -> c_int {
    let regex = match Regex::new(pattern, RegexOptions(options)) {
        Ok(regex) => regex,
        Err(error) => return ffi_error(error.to_string().as_bytes()),
    };
    if flags & JIT != 0 {
        log_debug(|| "pcre2 JIT compiled successfully".to_owned());
    }
    // DFA matching knows no groups.
    let groups = if flags & DFA != 0 { 0 } else { regex.group_count() };
    let names = if flags & DFA != 0 { 0 } else { regex.names().len() };
    // SAFETY: no preconditions.
    let data = unsafe { pcre::pcre2_match_data_create_8(u32::try_from(groups + 1).unwrap_or(1), ptr::null_mut()) };
    if data.is_null() {
        return ffi_error(b"no memory");
    }
    let mut context = ptr::null_mut();
    if match_limit > 0 {
        // SAFETY: no preconditions.
        context = unsafe { pcre::pcre2_match_context_create_8(ptr::null_mut()) };
        if !context.is_null() {
            // SAFETY: a context that was just made.
            unsafe { pcre::pcre2_set_match_limit_8(context, match_limit) };
        }
    }
    let offsets = vec![Cell::new(-1); (groups + 1) * 2].into_boxed_slice();
    *out = Compiled {
        captures: offsets.as_ptr().cast(),
        groups: u32::try_from(groups).unwrap_or(0),
        names: u32::try_from(names).unwrap_or(0),
        handle: 0,
    };
    match hold(LuaRegex { offsets, regex, data, context }) {
        Some(handle) => {
            out.handle = handle;
            0
        }
        None => {
            *out = Compiled::default();
            ffi_error(b"too many patterns")
        }
    }
}

/// Gives the name of named group `index` and its number.
fn name(regex: &LuaRegex, index: u32, out: &mut Vec<u8>) -> u32 {
    match regex.regex.names().get(index as usize) {
        None => 0,
        Some((name, number)) => {
            out.extend_from_slice(name.as_ref());
            u32::try_from(*number).unwrap_or(0)
        }
    }
}

/// Matches: the count of groups that were set, -1 for no match, another of PCRE2's negative codes.
fn exec(regex: &LuaRegex, subject: &[u8], start: usize, flags: c_int) -> c_int {
    let len = subject.len();
    if start > len {
        return pcre::PCRE2_ERROR_NOMATCH;
    }
    if i32::try_from(len).is_err() {
        return pcre::PCRE2_ERROR_BADDATA;
    }
    let options = if flags & NO_UTF_CHECK != 0 { pcre::PCRE2_NO_UTF_CHECK } else { 0 };
    let (code, subject) = (regex.regex.as_ptr(), subject.as_ptr());
    let count = if flags & DFA != 0 {
        let mut workspace = [0; DFA_WORKSPACE];
        // SAFETY: subject and length belong together, `start` lies within, the match data is this pattern's own. A match
        // runs no code that could ask for another one.
        let count = unsafe {
            pcre::pcre2_dfa_match_8(
                code,
                subject,
                len,
                start,
                options,
                regex.data,
                regex.context,
                workspace.as_mut_ptr(),
                workspace.len(),
            )
        };
        // More matches than room: the longest is there.
        if count == 0 { 1 } else { count.min(1) }
    } else {
        // SAFETY: as above.
        let matched =
            |options| unsafe { pcre::pcre2_match_8(code, subject, len, start, options, regex.data, regex.context) };
        match matched(options) {
            // The interpreter has a heap where compiled code has a stack.
            pcre::PCRE2_ERROR_JIT_STACKLIMIT => matched(options | pcre::PCRE2_NO_JIT),
            count => count,
        }
    };
    if let Ok(count @ 1..) = usize::try_from(count) {
        // SAFETY: the match data holds a pair for each group and for the whole match.
        let pairs = unsafe { std::slice::from_raw_parts(pcre::pcre2_get_ovector_pointer_8(regex.data), count * 2) };
        for (slot, &offset) in regex.offsets.iter().zip(pairs) {
            // Offsets fit: the length does. A group that took no part is usize::MAX.
            slot.set(offset as i32);
        }
    }
    count
}

/// Frees what `compile` made.
fn free(regex: u32) {
    release::<LuaRegex>(regex);
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn matching() {
        check(
            "local m = ngx.re.match('hello, 1234', '([a-z]+), ([0-9]+)', 'jo') out(m[0], m[1], m[2], #m)
             out(ngx.re.match('hello', '(?<a>x)|(?<b>l)').b, ngx.re.match('hello', '(?<a>x)|(?<b>l)').a)
             out(ngx.re.match('x', 'y')) out(ngx.re.match('x', '(')) out(pcall(ngx.re.match, 'x', 'x', 'q'))
             local ctx = { pos = 2 } out(ngx.re.match('1234', '[0-9]', '', ctx)[0], ctx.pos)
             local d = ngx.re.match('ab', '(?<n>a)(?<n>b)', 'D') out(d.n[1], d.n[2])
             out(ngx.re.match('hello', 'he(l+)o', 'd')[0]) out(ngx.re.match(1234, '2')[0])
             out(ngx.re.match('HELLO', 'h e', 'ix')[0], #ngx.re.match('\\u{e9}', '.', 'u')[0])
             local r = {} out(ngx.re.match('ab', '(a)(b)(c)?', '', nil, r) == r, r[3])",
            &[
                "hello, 1234 hello 1234 2",
                "l false",
                "nil",
                "nil pcre2_compile() failed: missing closing parenthesis in \"(\"",
                "false unknown flag \"q\" (flags \"q\")",
                "2 3",
                "a b",
                "hello",
                "2",
                "HE 2",
                "true false",
            ],
        );
    }

    #[test]
    fn find_and_gmatch() {
        check(
            "out(ngx.re.find('hello, 1234', '([0-9])([0-9]+)', 'jo'))
             out(ngx.re.find('hello, 1234', '([0-9])([0-9]+)', 'jo', nil, 2))
             out(ngx.re.find('hello', 'l', '', nil, 3)) out(ngx.re.find('hello', 'z'))
             local it = ngx.re.gmatch('hello, world', '[a-z]+', 'jo') out(it()[0]) out(it()[0]) out(it())
             for m in ngx.re.gmatch('ab', '') do out('[' .. m[0] .. ']') end
             out(ngx.re.gmatch('ab', '('))",
            &[
                "8 11",
                "9 11",
                "nil nil nth out of bound",
                "nil",
                "hello",
                "world",
                "nil",
                "[]",
                "[]",
                "[]",
                "nil pcre2_compile() failed: missing closing parenthesis in \"(\"",
            ],
        );
    }

    #[test]
    fn sub_and_gsub() {
        check(
            "out(ngx.re.sub('hello, 1234', '([0-9])[0-9]', '[$0][$1]'))
             out(ngx.re.sub('hello, 1234', '[0-9]', '${0}$$'))
             out(ngx.re.sub('hello, 34', '([0-9])', function(m) return '[' .. m[0] .. '][' .. m[1] .. ']' end))
             out(ngx.re.gsub('hello, world', '([a-z])[a-z]+', '[$0,$1]', 'i'))
             out(ngx.re.gsub('abc', '', '-')) out(ngx.re.gsub('hello', 'z', 'x'))
             out(ngx.re.gsub('a b c', ' ', function() return ngx.re.gsub('xx', 'x', 'y') end, 'jo'))
             out(ngx.re.sub('a', '(', 'b'))",
            &[
                "hello, [12][1]34 1",
                "hello, 1$234 1",
                "hello, [3][3]4 1",
                "[hello,h], [world,w] 2",
                "-a-b-c- 4",
                "hello 0",
                "ayybyyc 2",
                "nil nil pcre2_compile() failed: missing closing parenthesis in \"(\"",
            ],
        );
    }

    #[test]
    fn split() {
        check(
            "local re = require 'ngx.re'
             local function try(...) local t, e = re.split(...) out(t and table.concat(t, '|') or tostring(e)) end
             try('a,b,c,d', ',') try('a,b,c,d', '(,)') try('a,b,c,d', ',', nil, nil, 3) try('abc', '')
             try('a,,', ',') try('', ',') try('a,b', ',', nil, { pos = 2 }) try('abc', 'x') try('a', '(')
             out(pcall(re.opt, 'foo', 1))",
            &[
                "a|b|c|d",
                "a|,|b|,|c|,|d",
                "a|b|c,d",
                "a|b|c",
                "a",
                "",
                "|b",
                "abc",
                "pcre2_compile() failed: missing closing parenthesis in \"(\"",
                "false unrecognized option name",
            ],
        );
    }
}
