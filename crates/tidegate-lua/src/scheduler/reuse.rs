//! What is reused: a coroutine that served one run is a new one for the next, however that run ended; and many runs at a time,
//! each of which may hear of nothing but its own secret.

use std::rc::Rc;
use std::time::Duration;

use crate::phase::Phase;
use crate::testing::{TestHost, in_runtime, launch, run_in, vm_with};
use crate::vm::{Vm, VmConfig};

fn config() -> VmConfig {
    VmConfig { cpu_budget: Some(Duration::from_millis(20)), memory_limit: Some(32 << 20), ..VmConfig::default() }
}

/// All that a script can see of the coroutine that it runs in.
fn probe(vm: &Rc<Vm>) -> Vec<String> {
    let ran = run_in(
        vm,
        Phase::Content,
        "local me = coroutine.running()
         out(select('#', ...), me ~= nil, coroutine.status(me), coroutine.isyieldable())
         out(getfenv(0) == _G, rawget(getfenv(0), 'leaked'), debug.getmetatable(me), next(ngx.ctx))
         out(debug.gethook()) out(os.setlocale()) out(debug.traceback())
         out(pcall(coroutine.resume, me))
         out(select('#', coroutine.yield()), ngx.thread.wait(ngx.thread.spawn(function() ngx.sleep(0.001) return 'waited' end)))
         for level = 1, 3 do
             local info = debug.getinfo(level, 'Slu')
             out(level, info and info.what, info and info.currentline, info and debug.getlocal(level, 1))
         end",
    );
    assert!(ran.log.is_empty(), "{ran:?}");
    ran.out
}

/// Runs `code` in a new machine until it ends or, after some milliseconds, its client goes away.
fn machine_after(code: &str) -> Rc<Vm> {
    let vm = vm_with(config());
    let host = TestHost::new();
    in_runtime(async {
        // A client that goes away drops the future where it waits.
        let _ = tokio::time::timeout(Duration::from_millis(10), launch(&vm, &host, Phase::Content, code)).await;
    });
    vm
}

#[test]
fn a_reused_coroutine_is_as_a_new_one() {
    let new = probe(&vm_with(config()));
    let mut leaks = Vec::new();
    for code in [
        "return 1, 2, 3",
        "error('end')",
        "error({})",
        "error()",
        "ngx.exit(503)",
        "local function deep(n) if n == 0 then ngx.exit(444) end return (deep(n - 1)) end deep(100)",
        "os.exit(1)",
        "pcall(os.exit)",
        // Budgets.
        "while true do end",
        "while true do coroutine.yield() end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "local function f(s) return s:gsub('.', f) end f('a')",
        "local function f() return 1 + f() end f()",
        // The client goes away, in each kind of wait.
        "ngx.sleep(100)",
        "local a, b = 1, 2 ngx.sleep(100)",
        "require('ngx.semaphore').new():wait(100)",
        "ngx.thread.wait(ngx.thread.spawn(function() ngx.sleep(100) end))",
        "coroutine.wrap(function() ngx.sleep(100) end)()",
        "coroutine.wrap(function() coroutine.wrap(function() ngx.sleep(100) end)() end)()",
        "table.sort({ 1, 2, 3 }, function(a, b) ngx.sleep(100) return a < b end)",
        "xpcall(function() error('x') end, function() return 1 end) ngx.sleep(100)",
        "pcall(function() ngx.sleep(100) end)",
        "for _ in function() ngx.sleep(100) end do end",
        // Light threads that have not ended.
        "for i = 1, 5 do ngx.thread.spawn(function() ngx.sleep(100) end) end",
        "for i = 1, 5 do ngx.thread.spawn(function() ngx.sleep(100) end) end ngx.exit(200)",
        "ngx.thread.spawn(function() ngx.sleep(100) end) error('entry')",
        "ngx.thread.spawn(function() error('user') end) ngx.sleep(100)",
        "ngx.thread.spawn(function() ngx.exit(403) end) ngx.sleep(100)",
        "local co = coroutine.create(function() coroutine.yield(1) end) coroutine.resume(co) ngx.ctx.co = co",
        // What scripts change.
        "setfenv(0, { leaked = true })",
        "debug.setmetatable(coroutine.running(), nil) ngx.ctx.leaked = 1",
        "debug.sethook(function() end, 'crl')",
        "debug.sethook(function() end, '', 1) error('end')",
        "debug.sethook(function() end, 'l') ngx.sleep(100)",
        "debug.sethook(coroutine.running(), function() error('hook') end, 'l')\nlocal n = 1\n",
        "os.setlocale('de_DE.UTF-8') os.setlocale('C.UTF-8')",
        "ngx.on_abort(function() end) ngx.sleep(100)",
    ] {
        let vm = machine_after(code);
        assert!(vm.idle_threads() > 0, "{code}: a coroutine waits for its next use");
        let reused = probe(&vm);
        if reused != new {
            leaks.push(format!("{code}: {reused:?}"));
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}\ninstead of {new:#?}");
}

/// A sequence of numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }
}

/// What scripts are made of. They may say nothing but their `secret`.
const PIECES: &[&str] = &[
    "out(secret)",
    "ngx.sleep(0) out(secret)",
    "ngx.sleep(0.003) out(secret)",
    "ngx.ctx.kept = secret ngx.sleep(0.001) out(ngx.ctx.kept)",
    "if ngx.ctx.kept then out(ngx.ctx.kept) end",
    "coroutine.yield() out(secret)",
    "out(coroutine.wrap(function(s) ngx.sleep(0.002) coroutine.yield(s) end)(secret))",
    "do local co = coroutine.create(function(s) while true do s = coroutine.yield(s) ngx.sleep(0.001) end end)
     for i = 1, 3 do out(select(2, coroutine.resume(co, secret))) end end",
    "out(select(2, ngx.thread.wait(ngx.thread.spawn(function(s) ngx.sleep(0.002) return s end, secret))))",
    "for i = 1, 3 do ngx.thread.spawn(function() ngx.sleep(i / 1000) out(secret) end) end",
    "ngx.thread.spawn(function() ngx.sleep(0.001) error(secret) end)",
    "do local sem = require('ngx.semaphore').new()
     ngx.thread.spawn(function() ngx.sleep(0.002) sem:post() end) sem:wait(1) end out(secret)",
    "ngx.timer.at(0.001, function(_, s) ngx.sleep(0.001) out(s) end, secret)",
    "out(select(2, pcall(function() ngx.sleep(0.001) error(secret, 0) end)))",
    "out(select(2, xpcall(function() error(secret, 0) end, function(m) return m end)))",
    "out((secret:gsub('%d+', function(n) return n end)))",
    "do local list = { 3, 1, 2 } table.sort(list, function(a, b) ngx.sleep(0) return a < b end) out(secret, nil) end",
    "setfenv(0, setmetatable({ mine = secret }, { __index = _G }))",
    "ngx.sleep(0.2)",
];

/// How scripts may end.
const ENDS: &[&str] =
    &["", "error(secret)", "ngx.exit(200)", "ngx.sleep(1)", "os.exit(1)", "ngx.thread.spawn(ngx.exit, 403)"];

async fn session(vm: Rc<Vm>, number: usize, rounds: usize) -> usize {
    let mut dice = Dice(number as u64 + 1);
    let mut lines = 0;
    for round in 0..rounds {
        let secret = format!("secret-{number}-{round}");
        let pieces: Vec<_> = (0..1 + dice.roll(4)).map(|_| PIECES[dice.roll(PIECES.len())]).collect();
        let code = format!("local secret = '{secret}'\n{}\n{}", pieces.join("\n"), ENDS[dice.roll(ENDS.len())]);
        let host = TestHost::new();
        let patience = Duration::from_millis(if dice.roll(3) == 0 { 1 + dice.roll(5) as u64 } else { 2000 });
        let _ = tokio::time::timeout(patience, launch(&vm, &host, Phase::Content, &code)).await;
        // Timers go on without their request.
        tokio::time::sleep(Duration::from_millis(20)).await;
        for line in host.out.take() {
            assert!(line == secret || line == format!("{secret} nil"), "{code}\nsaid {line}");
            lines += 1;
        }
        for (_, line) in host.log.take() {
            assert!(!line.contains("secret-") || line.contains(&secret), "{code}\nlogged {line}");
            assert!(line.contains(&secret) || line.contains("os.exit()"), "{code}\nlogged {line}");
        }
    }
    lines
}

#[test]
fn fifty_sessions_hear_of_nothing_but_their_own_secrets() {
    let vm = vm_with(VmConfig::default());
    let lines = in_runtime(async {
        let sessions: Vec<_> =
            (0..50).map(|number| tokio::task::spawn_local(session(vm.clone(), number, 100))).collect();
        let mut lines = 0;
        for session in sessions {
            lines += session.await.expect("no secret of another");
        }
        lines
    });
    assert!(lines > 5000, "{lines}");
}
