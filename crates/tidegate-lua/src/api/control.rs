//! `ngx.exit`.

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::host::LogLevel;
use crate::phase::{Phase, Phases};
use crate::scheduler::{Stop, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family =
    Family { name: "control", cdef: "", ffi: &[], functions: &[("exit", function(exit))] };

const PHASES: Phases = Phases::of(&[
    Phase::Rewrite,
    Phase::ServerRewrite,
    Phase::Access,
    Phase::Precontent,
    Phase::Content,
    Phase::Timer,
    Phase::HeaderFilter,
    Phase::Balancer,
    Phase::SslClientHello,
    Phase::SslSessionFetch,
    Phase::SslCertificate,
    Phase::SslSessionStore,
    Phase::ProxySslCertificate,
    Phase::ProxySslVerify,
]);

/// nginx's `NGX_AGAIN` and `NGX_DONE`, which make no sense here.
const NOT_STATUSES: [i64; 2] = [-2, -4];

/// `exit(status)`: whether the Lua half is to await. In the phases where it is not, code goes on to its end.
fn exit(lua: &mut Lua) -> CResult {
    let status = lua.check_integer(1)?;
    if NOT_STATUSES.contains(&status) {
        return Err(LuaError::new("bad argument to 'ngx.exit': does not accept NGX_AGAIN or NGX_DONE"));
    }
    with_run(|run| {
        PHASES.check(run.phase())?;
        let mut status = i32::try_from(status).unwrap_or(i32::MAX);
        // While the header filter runs, the head counts as sent but can still be changed.
        if let Some(req) = run.request()
            && run.phase() != Phase::HeaderFilter
            && req.header_sent()
            && status >= 300
            && !matches!(status, 408 | 444 | 499)
        {
            let sent = req.response.borrow().status;
            if i32::from(sent) != status {
                let message =
                    format!("attempt to set status {status} via ngx.exit after sending out the response status {sent}");
                run.host().log(LogLevel::Error, message.as_bytes());
            }
            status = 200;
        }
        let goes_on = matches!(run.phase(), Phase::HeaderFilter | Phase::Balancer);
        if goes_on {
            run.stop_at_end(Stop::Exit(status));
        } else {
            run.stop(lua, Stop::Exit(status))?;
        }
        if run.host().logs(LogLevel::Debug) {
            run.host().log(LogLevel::Debug, format!("lua exit with code {status}").as_bytes());
        }
        lua.push_bool(!goes_on);
        Ok(1)
    })
    .unwrap_or(Err(LuaError::new("no request found")))
}
