//! The `lua_*` directives that are settings: paths, limits, time-outs.
//!
//! Follows lua-nginx-module, with `lua_cpu_budget` and `lua_memory_limit` of our own. Directives with code are in
//! [`crate::directives`].

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::conf::Build;
use tidegate_core::inherit;
use tidegate_core::module::{Context, Directive, Module};
use tidegate_core::phase::{Phase, Ready, Step};
use tidegate_core::request::Request;

use crate::command;
use crate::host::Host;
use crate::shdict::Zone;
use crate::vm::{OsExit, VmConfig};

/// The words of `lua_os_exit`, with their indexes in [`OsExit::ALL`].
const OS_EXIT: &[(&str, u32)] = &[("request", 0), ("error", 1), ("process", 2)];

/// What the settings say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `lua_package_path`
    pub lua_package_path: Option<BString>,
    /// `lua_package_cpath`
    pub lua_package_cpath: Option<BString>,
    /// `lua_prefer_bundled`
    pub lua_prefer_bundled: Option<bool>,
    /// `lua_code_cache`
    pub lua_code_cache: Option<bool>,
    /// `lua_thread_cache_max_entries`
    pub lua_thread_cache_max_entries: Option<u64>,
    /// `lua_max_pending_timers`
    pub lua_max_pending_timers: Option<u64>,
    /// `lua_max_running_timers`
    pub lua_max_running_timers: Option<u64>,
    /// `lua_memory_limit`
    pub lua_memory_limit: Option<u64>,
    /// `lua_cpu_budget`
    pub lua_cpu_budget: Option<Duration>,
    /// `lua_blocking_warn`
    pub lua_blocking_warn: Option<Duration>,
    /// `lua_os_exit`: an index of [`OsExit::ALL`].
    pub lua_os_exit: Option<u32>,
    /// `lua_need_request_body`
    pub lua_need_request_body: Option<bool>,
    /// `lua_check_client_abort`
    pub lua_check_client_abort: Option<bool>,
    /// `lua_use_default_type`
    pub lua_use_default_type: Option<bool>,
    /// `lua_http10_buffering`
    pub lua_http10_buffering: Option<bool>,
    /// `lua_transform_underscores_in_response_headers`
    pub lua_transform_underscores_in_response_headers: Option<bool>,
    /// `lua_socket_log_errors`
    pub lua_socket_log_errors: Option<bool>,
    /// `lua_socket_connect_timeout`
    pub lua_socket_connect_timeout: Option<Duration>,
    /// `lua_socket_send_timeout`
    pub lua_socket_send_timeout: Option<Duration>,
    /// `lua_socket_read_timeout`
    pub lua_socket_read_timeout: Option<Duration>,
    /// `lua_socket_keepalive_timeout`
    pub lua_socket_keepalive_timeout: Option<Duration>,
    /// `lua_socket_buffer_size`
    pub lua_socket_buffer_size: Option<usize>,
    /// `lua_socket_send_lowat`, accepted
    pub lua_socket_send_lowat: Option<usize>,
    /// `lua_socket_pool_size`
    pub lua_socket_pool_size: Option<u64>,
    /// `lua_regex_cache_max_entries`
    pub lua_regex_cache_max_entries: Option<u64>,
    /// `lua_regex_match_limit`
    pub lua_regex_match_limit: Option<u64>,
    /// `lua_capture_error_log`
    pub lua_capture_error_log: Option<usize>,
    /// `lua_worker_thread_vm_pool_size`
    pub lua_worker_thread_vm_pool_size: Option<u64>,
    /// `lua_malloc_trim`
    pub lua_malloc_trim: Option<u64>,
    /// `lua_sa_restart`, accepted
    pub lua_sa_restart: Option<bool>,
    /// `rewrite_by_lua_no_postpone`
    pub rewrite_by_lua_no_postpone: Option<bool>,
    /// `access_by_lua_no_postpone`
    pub access_by_lua_no_postpone: Option<bool>,
    /// `precontent_by_lua_no_postpone`
    pub precontent_by_lua_no_postpone: Option<bool>,
    /// `lua_shared_dict`
    pub(crate) lua_shared_dict: Vec<Arc<Zone>>,
    /// Some directive with Lua code stands somewhere; at the `http` level only.
    pub(crate) used: bool,
}

const HTTP: Context = Context::HTTP;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::text("lua_package_path", |c: &mut Conf| &mut c.lua_package_path)
            .within(HTTP)
            .syntax("lua-style-path-str")
            .doc("Path on which `require` looks for Lua modules; `;;` stands for the default."),
        Directive::text("lua_package_cpath", |c: &mut Conf| &mut c.lua_package_cpath)
            .within(HTTP)
            .syntax("lua-style-cpath-str")
            .doc("Path on which `require` looks for C modules; `;;` stands for the default."),
        Directive::flag("lua_prefer_bundled", |c: &mut Conf| &mut c.lua_prefer_bundled)
            .within(HTTP)
            .default("off")
            .doc("Modules in the binary (`resty.mysql`, `cjson` …) win over copies on the paths."),
        Directive::custom("lua_code_cache", 1, 1, code_cache)
            .within(Context::ALL_IF)
            .syntax("on | off")
            .default("on")
            .doc("With `off` each request gets a virtual machine of its own: for development."),
        Directive::number("lua_thread_cache_max_entries", |c: &mut Conf| &mut c.lua_thread_cache_max_entries)
            .within(HTTP)
            .default("1024")
            .doc("Coroutines kept for reuse in each worker."),
        Directive::number("lua_max_pending_timers", |c: &mut Conf| &mut c.lua_max_pending_timers)
            .within(HTTP)
            .default("1024")
            .doc("Timers that may be pending at a time in each worker."),
        Directive::number("lua_max_running_timers", |c: &mut Conf| &mut c.lua_max_running_timers)
            .within(HTTP)
            .default("256")
            .doc("Timers that may run at a time in each worker."),
        Directive::offset("lua_memory_limit", |c: &mut Conf| &mut c.lua_memory_limit)
            .within(HTTP)
            .default("2g")
            .doc("Memory for Lua objects in each worker; a script that needs more gets an error. 0 sets no limit."),
        Directive::time("lua_cpu_budget", |c: &mut Conf| &mut c.lua_cpu_budget).within(HTTP).default("5s").doc(
            "Processor time that a request's scripts may use without waiting before they are stopped. 0 sets no limit.",
        ),
        Directive::time("lua_blocking_warn", |c: &mut Conf| &mut c.lua_blocking_warn).within(HTTP).default("10ms").doc(
            "The error log names calls of `io.*` and `os.*` that keep a worker waiting for so long. 0 names none.",
        ),
        Directive::choice("lua_os_exit", |c: &mut Conf| &mut c.lua_os_exit, OS_EXIT)
            .within(HTTP)
            .syntax("request | error | process")
            .default("request")
            .doc("`os.exit` ends the request that calls it, or the process with all workers; with `error` it fails."),
        Directive::flag("lua_need_request_body", |c: &mut Conf| &mut c.lua_need_request_body)
            .within(Context::ALL_IF)
            .default("off")
            .doc("The request's body is read before Lua code of the request runs."),
        Directive::flag("lua_check_client_abort", |c: &mut Conf| &mut c.lua_check_client_abort)
            .within(Context::ALL_IF)
            .default("off")
            .doc("A client that closes its connection ends the Lua code of its request."),
        Directive::flag("lua_use_default_type", |c: &mut Conf| &mut c.lua_use_default_type)
            .within(Context::ALL_IF)
            .default("on")
            .doc("Responses made by Lua code get the type of `default_type`."),
        Directive::flag("lua_http10_buffering", |c: &mut Conf| &mut c.lua_http10_buffering)
            .within(Context::ALL_IF)
            .default("on")
            .doc("Responses to HTTP/1.0 are buffered for the sake of `Content-Length`."),
        Directive::flag("lua_transform_underscores_in_response_headers", |c: &mut Conf| {
            &mut c.lua_transform_underscores_in_response_headers
        })
        .within(Context::ALL_IF)
        .default("on")
        .doc("`_` in names given to `ngx.header` stands for `-`."),
        Directive::flag("lua_socket_log_errors", |c: &mut Conf| &mut c.lua_socket_log_errors)
            .within(Context::ALL_IF)
            .default("on")
            .doc("Failures of cosockets are written to the error log."),
        Directive::time("lua_socket_connect_timeout", |c: &mut Conf| &mut c.lua_socket_connect_timeout)
            .within(Context::ALL_IF)
            .default("60s")
            .doc("Longest time for a cosocket to connect."),
        Directive::time("lua_socket_send_timeout", |c: &mut Conf| &mut c.lua_socket_send_timeout)
            .within(Context::ALL_IF)
            .default("60s")
            .doc("Longest time that a cosocket waits until it can write."),
        Directive::time("lua_socket_read_timeout", |c: &mut Conf| &mut c.lua_socket_read_timeout)
            .within(Context::ALL_IF)
            .default("60s")
            .doc("Longest time that a cosocket waits for bytes to read."),
        Directive::time("lua_socket_keepalive_timeout", |c: &mut Conf| &mut c.lua_socket_keepalive_timeout)
            .within(Context::ALL_IF)
            .default("60s")
            .doc("Longest time that a pooled connection may stay unused."),
        Directive::size("lua_socket_buffer_size", |c: &mut Conf| &mut c.lua_socket_buffer_size)
            .within(Context::ALL_IF)
            .default("4k")
            .doc("Size of a cosocket's buffer for reading."),
        Directive::size("lua_socket_send_lowat", |c: &mut Conf| &mut c.lua_socket_send_lowat)
            .within(Context::ALL_IF)
            .default("0")
            .doc("Accepted for old configurations."),
        Directive::number("lua_socket_pool_size", |c: &mut Conf| &mut c.lua_socket_pool_size)
            .within(Context::ALL_IF)
            .default("30")
            .doc("Connections in the pool of one address."),
        Directive::number("lua_regex_cache_max_entries", |c: &mut Conf| &mut c.lua_regex_cache_max_entries)
            .within(HTTP)
            .default("1024")
            .doc("Compiled patterns kept in each worker."),
        Directive::number("lua_regex_match_limit", |c: &mut Conf| &mut c.lua_regex_match_limit)
            .within(HTTP)
            .default("0")
            .doc("Steps that a match may take; 0 for PCRE's default."),
        Directive::custom("lua_capture_error_log", 1, 1, capture_error_log)
            .within(HTTP)
            .syntax("size")
            .doc("Size of the buffer that `ngx.errlog` reads lines of the error log from."),
        Directive::custom("lua_shared_dict", 2, 2, shared_dict)
            .within(HTTP)
            .syntax("name size")
            .doc("A dictionary of bounded size that all workers share: `ngx.shared.name`."),
        Directive::number("lua_worker_thread_vm_pool_size", |c: &mut Conf| &mut c.lua_worker_thread_vm_pool_size)
            .within(HTTP)
            .default("10")
            .doc("Virtual machines that each worker may use for `ngx.run_worker_thread` at a time."),
        Directive::number("lua_malloc_trim", |c: &mut Conf| &mut c.lua_malloc_trim).within(HTTP).default("0").doc(
            "Requests of a worker after which memory that C libraries have freed goes back to the system; 0 for never.",
        ),
        Directive::flag("lua_sa_restart", |c: &mut Conf| &mut c.lua_sa_restart)
            .within(HTTP)
            .default("on")
            .doc("Accepted: system calls that a signal interrupts are always restarted."),
        Directive::custom("lua_load_resty_core", 1, 1, load_resty_core)
            .within(HTTP)
            .syntax("on | off")
            .doc("Accepted for old configurations: `resty.core` is always there."),
        Directive::flag("rewrite_by_lua_no_postpone", |c: &mut Conf| &mut c.rewrite_by_lua_no_postpone)
            .within(HTTP)
            .default("off")
            .doc("`rewrite_by_lua*` runs before the directives of the rewrite module, not after them."),
        Directive::flag("access_by_lua_no_postpone", |c: &mut Conf| &mut c.access_by_lua_no_postpone)
            .within(HTTP)
            .default("off")
            .doc("`access_by_lua*` runs before other access modules, not after them."),
        Directive::flag("precontent_by_lua_no_postpone", |c: &mut Conf| &mut c.precontent_by_lua_no_postpone)
            .within(HTTP)
            .default("off")
            .doc("`precontent_by_lua*` runs before other modules of its phase, not after them."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent;
            lua_code_cache, lua_need_request_body, lua_check_client_abort, lua_use_default_type, lua_http10_buffering,
            lua_transform_underscores_in_response_headers, lua_socket_log_errors, lua_socket_connect_timeout,
            lua_socket_send_timeout, lua_socket_read_timeout, lua_socket_keepalive_timeout, lua_socket_buffer_size,
            lua_socket_send_lowat, lua_socket_pool_size, lua_malloc_trim,
        );
    },
    install: |conf, program| {
        if let Some(requests) = conf.lua_malloc_trim.filter(|&requests| requests > 0) {
            program.on(Phase::Log, move |req| trim_memory(req, requests));
        }
    },
    example: r#"
        lua_shared_dict counters 1m;
        lua_package_path "lua/?.lua;;";
        lua_socket_connect_timeout 2s;
    "#,
    ..Module::named("lua")
};

/// `lua_malloc_trim`: gives back what SQLite, PCRE and C modules have freed. Our own memory goes back by itself.
fn trim_memory(req: &Rc<Request>, requests: u64) -> Ready<Step> {
    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }
    let count = COUNT.get() + 1;
    COUNT.set(if count >= requests { 0 } else { count });
    if count >= requests {
        // SAFETY: takes a number and touches the allocator's own state, under its locks.
        #[cfg(target_env = "gnu")]
        let trimmed = unsafe { libc::malloc_trim(1) };
        #[cfg(not(target_env = "gnu"))]
        let trimmed = 0;
        Host::Request(req.clone()).log_debug(format!("malloc_trim(1) returned {trimmed}").as_bytes());
    }
    Ready::Now(Step::Declined)
}

/// The least size of the buffer of `lua_capture_error_log`.
///
/// Source: lua-nginx-module.
const CAPTURE_BYTES_MIN: usize = 4096;

fn capture_error_log(conf: &mut Conf, directive: &ast::Directive, _build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.lua_capture_error_log.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let size = &directive.args[0];
    let bytes = values::size(size.value.as_bstr()).ok().and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.filter(|&bytes| bytes >= CAPTURE_BYTES_MIN) {
        Some(bytes) => conf.lua_capture_error_log = Some(bytes),
        None => {
            let message =
                format!("invalid capture error log size \"{}\", minimum size is {CAPTURE_BYTES_MIN}", size.value);
            return Err(Diagnostic::new(Severity::Emerg, size.span, message));
        }
    }
    Ok(())
}

fn load_resty_core(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    values::flag(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    let message = "lua_load_resty_core is deprecated (the lua-resty-core library is required since ngx_lua v0.10.16)";
    build.diagnostics.warn(directive.name.span, message);
    Ok(())
}

fn code_cache(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.lua_code_cache.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let arg = &directive.args[0];
    let on = values::flag(arg.value.as_bstr()).map_err(|error| error.diagnostic(directive.name(), arg))?;
    if !on {
        let message = "lua_code_cache is off; this will hurt performance";
        build.diagnostics.push(Diagnostic::new(Severity::Alert, directive.name.span, message));
    }
    conf.lua_code_cache = Some(on);
    Ok(())
}

/// The least size of a dictionary.
///
/// Source: lua-nginx-module.
const SHARED_DICT_BYTES_MIN: usize = 8192;

fn shared_dict(conf: &mut Conf, directive: &ast::Directive, _build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (name, size) = (&directive.args[0], &directive.args[1]);
    let emerg = |arg: &ast::Arg, message: String| Err(Diagnostic::new(Severity::Emerg, arg.span, message));
    if name.value.is_empty() {
        return emerg(name, format!("invalid lua shared dict name \"{}\"", name.value));
    }
    let bytes = values::size(size.value.as_bstr()).ok().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes.filter(|&bytes| bytes >= SHARED_DICT_BYTES_MIN) else {
        return emerg(size, format!("invalid lua shared dict size \"{}\"", size.value));
    };
    if conf.lua_shared_dict.iter().any(|zone| *zone.name() == name.value) {
        let name_text = &name.value;
        return emerg(name, format!("lua_shared_dict \"{name_text}\" is already defined as \"{name_text}\""));
    }
    conf.lua_shared_dict.push(Zone::open(&name.value, bytes));
    Ok(())
}

/// `lua_memory_limit`: what LuaJIT itself had for a limit before its references had 64 bits, so that applications know it.
const MEMORY_LIMIT: usize = 2 << 30;
/// `lua_cpu_budget`: no response is worth a longer stand-still of its worker, and no sane script needs it.
const CPU_BUDGET: Duration = Duration::from_secs(5);
/// `lua_blocking_warn`: a seek of a disk. Other requests of the worker notice more.
const BLOCKING_WARN: Duration = Duration::from_millis(10);

impl Conf {
    /// The settings of virtual machines, from those of the `http` level.
    pub(crate) fn vm_config(&self, prefix: PathBuf) -> VmConfig {
        let defaults = VmConfig::default();
        let number = |value: Option<u64>, default: usize| {
            value.map_or(default, |value| usize::try_from(value).unwrap_or(usize::MAX))
        };
        let path = |value: &Option<BString>| value.as_ref().map(|path| path.to_vec());
        let config = VmConfig {
            package_path: path(&self.lua_package_path),
            package_cpath: path(&self.lua_package_cpath),
            prefers_bundled: self.lua_prefer_bundled.unwrap_or(false),
            prefix,
            thread_cache_max_entries: number(self.lua_thread_cache_max_entries, defaults.thread_cache_max_entries),
            max_pending_timers: number(self.lua_max_pending_timers, defaults.max_pending_timers),
            max_running_timers: number(self.lua_max_running_timers, defaults.max_running_timers),
            memory_limit: match self.lua_memory_limit {
                None => Some(MEMORY_LIMIT),
                Some(0) => None,
                Some(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
            },
            cpu_budget: Some(self.lua_cpu_budget.unwrap_or(CPU_BUDGET)).filter(|budget| !budget.is_zero()),
            blocking_warn: Some(self.lua_blocking_warn.unwrap_or(BLOCKING_WARN)).filter(|time| !time.is_zero()),
            os_exit: OsExit::ALL[self.lua_os_exit.unwrap_or(0) as usize],
            regex_cache_max_entries: number(self.lua_regex_cache_max_entries, defaults.regex_cache_max_entries),
            regex_match_limit: u32::try_from(self.lua_regex_match_limit.unwrap_or(0)).unwrap_or(u32::MAX),
            shared_dicts: self.lua_shared_dict.clone(),
        };
        match command::get() {
            // A script of a shell harms nobody else, and ends its own process.
            Some(_) => VmConfig {
                memory_limit: None,
                cpu_budget: None,
                blocking_warn: None,
                os_exit: OsExit::Process,
                ..config
            },
            None => config,
        }
    }
}
