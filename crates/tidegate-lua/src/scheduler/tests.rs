//! Scripts that wait, fail, spawn and stop.

use crate::phase::Phase;
use crate::scheduler::Outcome;
use crate::testing::{TestHost, check, check_abort, in_runtime, launch, run, run_in, vm_with};
use crate::vm::VmConfig;

#[test]
fn a_chunk_runs_to_its_end() {
    check("out('hello')", &["hello"]);
}

#[test]
fn a_sleep_suspends_and_goes_on() {
    check("local a = 1; ngx.sleep(0.01); out(a, select('#', ngx.sleep(0)))", &["1 0"]);
}

#[test]
fn waits_pass_through_user_coroutines() {
    check(
        "local co = coroutine.wrap(function(a)
             out('in', a); ngx.sleep(0.01)
             local b = coroutine.yield('first'); out('again', b); ngx.sleep(0.01); return 'last'
         end)
         out(co('x')) out(co('y'))",
        &["in x", "first", "again y", "last"],
    );
    check(
        "local outer = coroutine.create(function()
             local inner = coroutine.create(function() ngx.sleep(0.01); coroutine.yield(1, 2); error('deep') end)
             out(coroutine.resume(inner)); ngx.sleep(0.01); out(coroutine.resume(inner)); return 'done'
         end)
         out(coroutine.resume(outer)); out(coroutine.status(outer)); out(coroutine.resume(outer))",
        &[
            "true 1 2",
            "false content_by_lua(nginx.conf:1):2: deep",
            "true done",
            "dead",
            "false cannot resume dead coroutine",
        ],
    );
}

#[test]
fn resume_keeps_counts_of_values() {
    check(
        "local co = coroutine.create(function(...) out(select('#', ...)); coroutine.yield(); return nil, nil end)
         out(select('#', coroutine.resume(co, nil, nil))); out(select('#', coroutine.resume(co)))",
        &["2", "1", "3"],
    );
}

#[test]
fn waits_pass_through_pcall_metamethods_and_iterators() {
    check(
        "out(pcall(function() ngx.sleep(0.01); error('x', 0) end))
         out(xpcall(function() ngx.sleep(0.01); return 'y' end, debug.traceback))
         local t = setmetatable({}, { __index = function(_, k) ngx.sleep(0.01); return k .. '!' end })
         out(t.key)
         for i in (function() ngx.sleep(0.01); return nil end) do out(i) end
         out('end')",
        &["false x", "true y", "key!", "end"],
    );
}

#[test]
fn a_wait_in_a_c_callback_is_an_error() {
    check(
        "out(pcall(string.gsub, 'a', 'a', function() ngx.sleep(0) end)) ngx.sleep(0) out('alive')",
        &["false content_by_lua(nginx.conf:1):1: attempt to yield across C-call boundary", "alive"],
    );
}

#[test]
fn errors_carry_tracebacks() {
    check_abort(
        "local function f() error('oops') end\nlocal function g() f() end\ng()",
        "lua entry thread aborted: runtime error: content_by_lua(nginx.conf:1):1: oops\n\
         stack traceback:\ncoroutine 0:\n\
         \t[C]: in function 'error'\n\
         \tcontent_by_lua(nginx.conf:1):1: in function 'f'\n\
         \tcontent_by_lua(nginx.conf:1):2: in function 'g'\n\
         \tcontent_by_lua(nginx.conf:1):3: in main chunk",
    );
    let ran = run("error({})");
    assert!(ran.log[0].1.starts_with("lua entry thread aborted: runtime error: unknown reason\nstack traceback:"));
}

#[test]
fn threads_interleave_as_in_openresty() {
    check(
        "local function f(n) for i = 1, 2 do out(n, i); coroutine.yield() end return n end
         local a = ngx.thread.spawn(f, 'a'); out('spawned a')
         local b = ngx.thread.spawn(f, 'b'); out('spawned b')
         out(ngx.thread.wait(a)); out(ngx.thread.wait(b)); out(ngx.thread.wait(b))",
        &["a 1", "spawned a", "b 1", "a 2", "spawned b", "b 2", "true a", "true b", "nil already waited or killed"],
    );
}

#[test]
fn threads_wait_kill_and_fail() {
    check(
        "local function nap(t, r) ngx.sleep(t) return r end
         local slow, fast = ngx.thread.spawn(nap, 0.2, 'slow'), ngx.thread.spawn(nap, 0.1, 'fast')
         out(coroutine.status(slow)); out(ngx.thread.wait(slow, fast)); out(ngx.thread.kill(slow))
         out(ngx.thread.kill(slow)); out(coroutine.status(slow))
         local z = ngx.thread.spawn(function() return 1, nil, 3 end)
         out(coroutine.status(z)); out(ngx.thread.wait(z)); out(coroutine.status(z))
         out(pcall(ngx.thread.wait)); out(pcall(ngx.thread.wait, coroutine.create(function() end)))",
        &[
            "running",
            "true fast",
            "1",
            "nil already waited or killed",
            "dead",
            "zombie",
            "true 1 nil 3",
            "dead",
            "false at least one coroutine should be specified",
            "false attempt to wait on a coroutine that is not a user thread",
        ],
    );
    let ran = run("out(ngx.thread.wait(ngx.thread.spawn(function() ngx.sleep(0.1); error('bad') end)))");
    // What `error` was given, as in lua-nginx-module.
    assert_eq!(ran.out, ["false bad"]);
    assert_eq!(
        ran.log[0].1,
        "lua user thread aborted: runtime error: content_by_lua(nginx.conf:1):1: bad\n\
         stack traceback:\ncoroutine 0:\n\
         \t[C]: in function 'error'\n\
         \tcontent_by_lua(nginx.conf:1):1: in function <content_by_lua(nginx.conf:1):1>\n\
         coroutine 1:\n\
         \t[C]: in function 'wait'\n\
         \tcontent_by_lua(nginx.conf:1):1: in main chunk"
    );
}

#[test]
fn many_threads_sleep_at_once() {
    check(
        "local threads = {}
         for i = 1, 300 do threads[i] = ngx.thread.spawn(function() ngx.sleep(0.001 * (i % 7 + 1)); return i end) end
         local sum = 0
         for i = 1, 300 do local _, n = ngx.thread.wait(threads[i]); sum = sum + n end
         out(sum)",
        &["45150"],
    );
}

#[test]
fn the_run_waits_for_threads_that_nobody_waits_for() {
    check("ngx.thread.spawn(function() ngx.sleep(0.1); out('late') end) out('early')", &["early", "late"]);
}

#[test]
fn scheduler_threads_cannot_be_resumed() {
    check(
        "local entry = coroutine.running()
         local t = ngx.thread.spawn(function() out(coroutine.status(entry)); out(coroutine.resume(entry)); ngx.sleep(0) end)
         out(coroutine.resume(t)); ngx.thread.wait(t)",
        &["running", "false cannot resume running coroutine", "false cannot resume running coroutine"],
    );
    // The second thread must not resume a coroutine through which the first one waits.
    check(
        "local co = coroutine.create(function() ngx.sleep(0.1); return 'own' end)
         local t = ngx.thread.spawn(function() out(coroutine.resume(co)) end)
         out(coroutine.resume(co)); ngx.thread.wait(t)",
        &["false cannot resume running coroutine", "true own"],
    );
}

#[test]
fn timers_run_apart() {
    check(
        "out(ngx.timer.at(0.01, function(premature, a, b) ngx.sleep(0.01); out(premature, a, b, ngx.get_phase()) end, 1, nil))
         out(ngx.timer.pending_count())",
        &["1", "1", "false 1 nil timer"],
    );
    let ran = run("ngx.timer.at(0, function() error('late') end)");
    assert!(ran.log[0].1.starts_with("lua entry thread aborted: runtime error: content_by_lua(nginx.conf:1):1: late"));
}

#[test]
fn timers_have_bounds() {
    let vm = vm_with(VmConfig { max_pending_timers: 1, max_running_timers: 1, ..VmConfig::default() });
    let ran = run_in(
        &vm,
        Phase::Content,
        "local f = function() ngx.sleep(1) end
         out(ngx.timer.at(0, f)); out(ngx.timer.at(0, f)); ngx.sleep(0.1); out(ngx.timer.at(0, f)); ngx.sleep(0.1)
         out(pcall(ngx.timer.at, 1)); out(pcall(ngx.timer.every, 0, f)); out(pcall(ngx.timer.at, 1, print))",
    );
    assert_eq!(
        ran.out,
        [
            "1",
            "nil too many pending timers",
            "1",
            "false expecting at least 2 arguments but got 1",
            "false delay cannot be zero",
            "false bad argument #2 to '?' (Lua function expected)"
        ]
    );
    assert_eq!(
        ran.log[0].1,
        "lua failed to run timer with function defined at =content_by_lua(nginx.conf:1):1: 1 lua_max_running_timers are not enough"
    );
}

#[test]
fn timers_end_with_the_worker() {
    let vm = vm_with(VmConfig::default());
    let host = TestHost::new();
    in_runtime(async {
        launch(
            &vm,
            &host,
            Phase::Content,
            "local n = 0
             ngx.timer.every(0.01, function(premature)
                 n = n + 1; out(n, premature, ngx.timer.pending_count())
                 if premature then out(ngx.timer.at(1, function() end)); ngx.timer.at(0, function() out('last') end) end
             end)
             ngx.sleep(0.025)",
        )
        .await;
        vm.end_timers();
        vm.timers_ended().await;
    });
    assert_eq!(host.out.take(), ["1 false 1", "2 false 1", "3 true 0", "nil process exiting", "last"]);
}

#[test]
fn semaphores_count() {
    check(
        "local semaphore = require 'ngx.semaphore'
         local s = semaphore.new(1)
         out(s:wait(0)); out(s:wait(0)); out(s:wait(0.01)); out(s:count())
         local t = ngx.thread.spawn(function() out(s:wait(1)); return 'got' end)
         out(s:count()); s:post(); out(s:count()); out(ngx.thread.wait(t)); s:post(2); out(s:count())",
        &["true", "nil timeout", "false timeout", "0", "-1", "0", "true", "true got", "2"],
    );
    // A waiter that is killed gives its place back.
    check(
        "local s = require('ngx.semaphore').new()
         local t = ngx.thread.spawn(function() s:wait(10) end)
         ngx.thread.kill(t); out(s:count()); s:post(); out(s:wait(0))",
        &["0", "true"],
    );
}

#[test]
fn phases_that_do_not_wait_say_so() {
    let vm = vm_with(VmConfig::default());
    let ran = run_in(
        &vm,
        Phase::ExitWorker,
        "out(pcall(ngx.sleep, 1)); out(pcall(ngx.thread.spawn, function() end)); out(ngx.get_phase())",
    );
    assert_eq!(
        ran.out,
        [
            "false API disabled in the context of exit_worker_by_lua*",
            "false API disabled in the context of exit_worker_by_lua*",
            "exit_worker"
        ]
    );
}

#[test]
fn entry_threads_are_reused_clean() {
    let vm = vm_with(VmConfig::default());
    for code in
        ["local x = 1; coroutine.yield(x)", "error('x')", "ngx.sleep(0); error('y')", "setfenv(0, {})", "out(x)"]
    {
        let ran = run_in(&vm, Phase::Content, code);
        assert!(ran.out.is_empty() || ran.out == ["nil"], "{ran:?}");
    }
    let ran = run_in(&vm, Phase::Content, "return 1, 2, 3");
    assert_eq!(ran.outcome, Outcome::Done);
}

#[test]
fn a_global_write_is_reported() {
    let ran = run("x = 1; x = 2");
    assert_eq!(ran.log.len(), 1);
    let line = &ran.log[0].1;
    assert!(line.starts_with("[lua] _G write guard:12: __newindex(): "), "{line}");
    assert!(line.contains("writing a global Lua variable ('x') which may lead to race conditions between concurrent requests, so prefer the use of 'local' variables\nstack traceback:\n\t"), "{line}");
}

#[test]
fn log_lines_have_places() {
    let ran = run("local function f() ngx.log(ngx.ERR, 'a', 1, nil, true, ngx.null) end f() print('p')");
    let lines: Vec<&str> = ran.log.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        lines,
        ["[lua] content_by_lua(nginx.conf:1):1: f(): a1niltruenull", "[lua] content_by_lua(nginx.conf:1):1: p"]
    );
}

#[test]
fn a_module_may_wait_at_its_top_level() {
    check("package.preload.m = function() ngx.sleep(0.01); return { v = 5 } end out(require('m').v)", &["5"]);
}

#[test]
fn a_dropped_run_leaves_no_trace() {
    let vm = vm_with(VmConfig::default());
    let ran = run_in(
        &vm,
        Phase::Content,
        "local s = require('ngx.semaphore').new()
         ngx.thread.spawn(function() local t = ngx.thread.spawn(function() s:wait(100) end); ngx.thread.wait(t) end)
         error('end')",
    );
    assert_eq!(ran.outcome, Outcome::Failed);
    check("out(1)", &["1"]);
}

#[test]
fn a_loop_is_stopped() {
    let vm = vm_with(VmConfig { cpu_budget: Some(std::time::Duration::from_millis(20)), ..VmConfig::default() });
    for code in [
        "while true do end",
        "local n = 0 while true do n = n + 1 end",
        "local function spin() while true do end end while true do pcall(spin) end",
        "local t = {} for i = 1, 1e15 do t[i % 100] = tostring(i) end",
        "ngx.sleep(0) while true do end",
        "coroutine.wrap(function() while true do end end)()",
        "ngx.thread.wait(ngx.thread.spawn(function() while true do end end)) while true do end",
        "for i = 1, 50 do ngx.thread.spawn(function() while true do end end) end",
        "while true do coroutine.yield() end",
        "for i = 1, 50 do ngx.thread.spawn(function() while true do coroutine.yield() end end) end while true do coroutine.yield() end",
        // Where a script hears of errors, and where no hook is called.
        "xpcall(error, function() while true do end end)",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do xpcall(error, function() while true do end end) end",
        "local p = newproxy(true) getmetatable(p).__gc = function() while true do end end p = nil collectgarbage()",
        "local p = newproxy(true) local function spin() while true do end end
         getmetatable(p).__gc = function() while true do pcall(spin) end end p = nil collectgarbage()",
        "local ffi = require('ffi') ffi.gc(ffi.new('int[1]'), function() while true do end end) collectgarbage()",
        "debug.sethook(function() while true do end end, '', 1) local n = 1 n = n + 1 n = n + 1",
        // Long without an instruction.
        "('a'):rep(3000):find(('.-'):rep(9) .. 'b')",
        "('a'):rep(3000):match(('a*'):rep(9) .. 'b')",
        "for w in ('a'):rep(3000):gmatch(('.-'):rep(9) .. 'b') do end",
        "pcall(string.gsub, ('a'):rep(3000), ('.-'):rep(9) .. 'b', '') while true do end",
        "('('):rep(1e6):find('%b()')",
        "('('):rep(1e6):gsub('%b()', '')",
    ] {
        let ran = run_in(&vm, Phase::Content, code);
        assert_eq!(ran.outcome, Outcome::Failed, "{code}: {ran:?}");
        let line = &ran.log.last().expect("a line").1;
        let stopped = [1, 2]
            .map(|at| format!("content_by_lua(nginx.conf:1):{at}: CPU budget of 20ms exceeded\nstack traceback:"));
        assert!(stopped.iter().any(|stopped| line.contains(stopped)), "{code}: {line}");
        // The hook is gone.
        assert_eq!(run_in(&vm, Phase::Content, "for i = 1, 1e4 do end out('ok')").out, ["ok"]);
    }
}

#[test]
fn timers_that_renew_themselves_are_stopped() {
    let vm = vm_with(VmConfig { cpu_budget: Some(std::time::Duration::from_millis(20)), ..VmConfig::default() });
    let ran = run_in(
        &vm,
        Phase::Content,
        "local function again() ngx.timer.at(0, again) end again()
         local n = 0 local function twice() ngx.timer.at(0, twice) ngx.timer.at(0, twice) end",
    );
    let line = &ran.log.last().expect("a line").1;
    assert!(line.contains("CPU budget of 20ms exceeded"), "{ran:?}");
    // A timer that waits, or has a delay, may go on for ever.
    let ran = run_in(
        &vm,
        Phase::Content,
        "local n = 0
         local function work() n = n + 1 for i = 1, 1e6 do end if n < 40 then ngx.sleep(0) ngx.timer.at(0, work) end end
         ngx.timer.at(0, work)
         ngx.sleep(1) out(n)",
    );
    assert_eq!((ran.out, ran.log), (vec!["40".to_owned()], vec![]));
}

#[test]
fn others_run_beside_a_script_that_never_waits() {
    let vm = vm_with(VmConfig { cpu_budget: Some(std::time::Duration::from_millis(100)), ..VmConfig::default() });
    let host = TestHost::new();
    let outcomes = in_runtime(async {
        let (busy, other) = (vm.clone(), host.clone());
        let runaway = tokio::task::spawn_local(async move {
            launch(&busy, &other, Phase::Content, "while true do coroutine.yield() end").await
        });
        tokio::task::yield_now().await;
        let served = launch(&vm, &host, Phase::Content, "for i = 1, 3 do ngx.sleep(0) end out('served')").await;
        assert!(!runaway.is_finished());
        (served, runaway.await.expect("no panic"))
    });
    assert_eq!(outcomes, (Outcome::Done, Outcome::Failed));
    assert_eq!(host.out.take(), ["served"]);
}

/// Demands that `code`, which nests without end, gets an error and leaves a machine that works.
#[track_caller]
fn check_overflow(code: &str, expected: &str) {
    let vm = vm_with(VmConfig::default());
    let ran = run_in(&vm, Phase::Content, code);
    let text = ran.out.first().or(ran.log.first().map(|(_, line)| line));
    assert!(text.is_some_and(|text| text.contains(expected)), "{code}: {ran:?}");
    let ran = run_in(&vm, Phase::Content, "out(coroutine.wrap(function() return ('a'):gsub('.', string.upper) end)())");
    assert_eq!(ran.out, ["A 1"], "{code}");
}

#[test]
fn nested_c_functions_end_in_an_error() {
    for code in [
        "local function f(s) return s:gsub('.', f) end f('a')",
        "local function f(s) return s:gsub('.', f) end out(pcall(f, 'a'))",
        "local function f(s) return s:gsub('.', f) end out(xpcall(f, debug.traceback, 'a'))",
        "local function f(s) return (pcall(string.gsub, s, '.', f)) and error('done') end out(select(2, xpcall(string.gsub, function(m) return m .. ' C stack overflow' end, 'a', '.', f)), 'C stack overflow')",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return ('%s'):format(t) end out(pcall(tostring, t))",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return (('a'):gsub('.', function() return t[k] end)) end out(pcall(function() return t.x end))",
        "local function f() return load(f) end f() local function g() load(g) end out(pcall(function() local function h() assert(load(h)) end h() end))",
        "package.preload.m = function() package.loaded.m = nil return require('m') end out(pcall(require, 'm'), 'C stack overflow')",
    ] {
        // Compiled code may come to the end of Lua's own stack first.
        check_overflow(code, "stack overflow");
    }
}

#[test]
fn nested_coroutines_end_in_an_error() {
    for code in [
        "local function f() local ok, message = coroutine.resume(coroutine.create(f)) if not ok then error(message, 0) end end f()",
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() return coroutine.wrap(f)() end out(pcall(f))",
        "local function f() local co = coroutine.wrap(f) for _ in ipairs { 1 } do co() end end f()",
        "local mt = {} mt.__index = function(t, k) return coroutine.wrap(function() return t[k] end)() end out(pcall(function() return setmetatable({}, mt).x end))",
    ] {
        check_overflow(code, "C stack overflow");
    }
}

#[test]
fn nested_values_end_in_an_error() {
    // On top of a C stack that is nearly full.
    for deep in ["cjson.encode(t)", "cjson.decode(text)"] {
        let code = format!(
            "local cjson = require('cjson') cjson.encode_max_depth(2000) cjson.decode_max_depth(2000)
             local t = {{}} for i = 1, 1999 do t = {{ t }} end
             local text = ('['):rep(1999) .. (']'):rep(1999)
             local function f(s)
                 pcall(function() {deep} end)
                 return s:gsub('.', f)
             end
             out(pcall(f, 'a'))"
        );
        check_overflow(&code, "C stack overflow");
    }
}

#[test]
fn memory_has_a_limit() {
    let vm = vm_with(VmConfig { memory_limit: Some(32 << 20), ..VmConfig::default() });
    for code in [
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = { t } end",
    ] {
        let ran = run_in(&vm, Phase::Content, code);
        assert_eq!(ran.outcome, Outcome::Failed, "{ran:?}");
        assert!(ran.log[0].1.contains("not enough memory"), "{ran:?}");
        // What the script held is garbage, and is collected in time.
        assert_eq!(run_in(&vm, Phase::Content, "local t = {} for i = 1, 1e5 do t[i] = i end out(#t)").out, ["100000"]);
    }
}

#[test]
fn garbage_alone_does_not_reach_the_limit() {
    let vm = vm_with(VmConfig { memory_limit: Some(32 << 20), ..VmConfig::default() });
    let ran = run_in(&vm, Phase::Content, "for i = 1, 2e5 do local t = { ('x'):rep(500) .. i } end out('ok')");
    assert_eq!(ran.out, ["ok"]);
}

#[test]
fn bundled_modules_and_table_extensions() {
    check(
        "out(require('resty.core').version ~= nil, pcall(require, 'tidegate.boot'))
         out(require('table.nkeys')({ 1, 2, a = 1 }), require('table.isarray')({ 1, 2 }), require('table.isarray')({ a = 1 }),
             require('table.isempty')({}), require('table.clone')({ 5 })[1], require('table.new')(1, 1))
         local exdata = require('thread.exdata') exdata(7) out(exdata(), coroutine.wrap(function() return type(exdata()) end)())
         out(pcall(require, 'no.such.module'))"
            .replace("require('table.new')(1, 1)", "type(require('table.new')(1, 1))")
            .replace("pcall(require, 'tidegate.boot')", "(pcall(require, 'tidegate.boot'))")
            .replace("out(pcall(require, 'no.such.module'))", "out((select(2, pcall(require, 'no.such.module')):match('^[^\\n]*')))")
            .as_str(),
        &[
            "true false",
            "3 true false true 5 table",
            "7 cdata",
            "module 'no.such.module' not found:",
        ],
    );
}

#[test]
fn a_runtime_error_in_a_thread_has_its_text() {
    let ran = run("ngx.thread.spawn(function() ngx.nope() end)");
    assert!(ran.log[0].1.starts_with(
        "lua user thread aborted: runtime error: content_by_lua(nginx.conf:1):1: attempt to call field 'nope' (a nil value)\n"
    ), "{ran:?}");
}

#[test]
fn wrapped_errors_carry_the_stacks_that_they_went_through() {
    let ran = run(
        "local inner = coroutine.wrap(function() error('deep') end)\nlocal outer = coroutine.wrap(function() inner() end)\nouter()",
    );
    assert_eq!(
        ran.log[0].1,
        "lua entry thread aborted: runtime error: content_by_lua(nginx.conf:1):1: deep\n\
         stack traceback:\n\
         coroutine 0:\n\
         \t[C]: in function 'error'\n\
         \tcontent_by_lua(nginx.conf:1):1: in function <content_by_lua(nginx.conf:1):1>\n\
         coroutine 1:\n\
         \t[C]: in function 'inner'\n\
         \tcontent_by_lua(nginx.conf:1):2: in function <content_by_lua(nginx.conf:1):2>\n\
         coroutine 2:\n\
         \t[C]: in function 'outer'\n\
         \tcontent_by_lua(nginx.conf:1):3: in main chunk"
    );
}

#[test]
fn a_thread_that_waits_in_a_coroutine_is_normal() {
    check(
        "local co
         ngx.thread.spawn(function()
             co = coroutine.running()
             local inner = coroutine.create(function() ngx.sleep(0.1) end)
             coroutine.resume(inner) out(coroutine.status(inner))
         end)
         out(coroutine.status(co), coroutine.resume(co))",
        &["normal false cannot resume normal coroutine", "dead"],
    );
}

#[test]
fn light_threads_are_bounded() {
    let ran = run("for number = 1, 20000 do
         local ok, message = pcall(ngx.thread.spawn, function() ngx.sleep(1) end)
         if not ok then
             out(number, (message:gsub('^.*: ', '')))
             ngx.exit(200)
         end
     end");
    assert_eq!(ran.out, ["16385 too many light threads"], "{:?}", ran.log);
}
