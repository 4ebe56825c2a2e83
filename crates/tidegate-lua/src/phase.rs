//! The phases in which Lua runs, as the Lua side knows them.

use crate::error::LuaError;

macro_rules! phases {
    ($($(#[$doc:meta])* $variant:ident = $bit:literal, $name:literal, $context:literal;)*) => {
        /// A phase in which Lua runs. The numbers are lua-nginx-module's, which tests and libraries know.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Phase { $($(#[$doc])* $variant = $bit,)* }

        impl Phase {
            /// All phases.
            pub const ALL: &'static [Phase] = &[$(Phase::$variant,)*];

            /// What `ngx.get_phase()` answers.
            pub fn name(self) -> &'static str {
                match self { $(Phase::$variant => $name,)* }
            }

            /// What error messages say: `content_by_lua*`.
            pub fn context_name(self) -> &'static str {
                match self { $(Phase::$variant => $context,)* }
            }
        }
    };
}

phases! {
    /// `init_by_lua*`: once, before workers start.
    Init = 0x100_0000, "init", "init_by_lua*";
    /// `init_worker_by_lua*`: once in each worker.
    InitWorker = 0x100, "init_worker", "init_worker_by_lua*";
    /// `exit_worker_by_lua*`: at the end of each worker.
    ExitWorker = 0x2000, "exit_worker", "exit_worker_by_lua*";
    /// `set_by_lua*`: computes a variable among the rewrite directives.
    Set = 0x1, "set", "set_by_lua*";
    /// `server_rewrite_by_lua*`: before the location is chosen.
    ServerRewrite = 0x8000, "server_rewrite", "server_rewrite_by_lua*";
    /// `rewrite_by_lua*`.
    Rewrite = 0x2, "rewrite", "rewrite_by_lua*";
    /// `access_by_lua*`.
    Access = 0x4, "access", "access_by_lua*";
    /// `precontent_by_lua*`.
    Precontent = 0x2_0000, "precontent", "precontent_by_lua*";
    /// `content_by_lua*`: makes the response.
    Content = 0x8, "content", "content_by_lua*";
    /// `header_filter_by_lua*`.
    HeaderFilter = 0x20, "header_filter", "header_filter_by_lua*";
    /// `body_filter_by_lua*`.
    BodyFilter = 0x40, "body_filter", "body_filter_by_lua*";
    /// `log_by_lua*`: after the response.
    Log = 0x10, "log", "log_by_lua*";
    /// `balancer_by_lua*`: chooses an upstream peer.
    Balancer = 0x200, "balancer", "balancer_by_lua*";
    /// A function started by `ngx.timer.*`, and scripts run by `tidegate lua`.
    Timer = 0x80, "timer", "ngx.timer";
    /// `ssl_client_hello_by_lua*`: in a handshake, before the server is chosen.
    SslClientHello = 0x4000, "ssl_client_hello", "ssl_client_hello_by_lua*";
    /// `ssl_session_fetch_by_lua*`: in a handshake whose client wants to resume a session.
    SslSessionFetch = 0x1000, "ssl_session_fetch", "ssl_session_fetch_by_lua*";
    /// `ssl_certificate_by_lua*`: in a handshake, before a certificate is shown.
    SslCertificate = 0x400, "ssl_cert", "ssl_certificate_by_lua*";
    /// `ssl_session_store_by_lua*`: after a handshake that has made a session.
    SslSessionStore = 0x800, "ssl_session_store", "ssl_session_store_by_lua*";
    /// `proxy_ssl_certificate_by_lua*`: before a handshake with a peer.
    ProxySslCertificate = 0x10_0000, "proxy_ssl_cert", "proxy_ssl_certificate_by_lua*";
    /// `proxy_ssl_verify_by_lua*`: after a handshake with a peer, before it is told the request.
    ProxySslVerify = 0x20_0000, "proxy_ssl_verify", "proxy_ssl_verify_by_lua*";
    /// A function started by `ngx.run_worker_thread`: neither a request nor an event loop.
    WorkerThread = 0x8_0000, "worker_thread", "ngx.run_worker_thread";
}

impl Phase {
    /// How a line of the error log about a failure begins, in the phases that have words of their own; elsewhere it
    /// tells of threads.
    pub(crate) fn failure_prefix(self) -> Option<&'static str> {
        Some(match self {
            Self::Init => "init_by_lua error",
            Self::InitWorker => "init_worker_by_lua error",
            Self::ExitWorker => "exit_worker_by_lua error",
            Self::Set => "failed to run set_by_lua*",
            Self::HeaderFilter => "failed to run header_filter_by_lua*",
            Self::BodyFilter => "failed to run body_filter_by_lua*",
            Self::Log => "failed to run log_by_lua*",
            Self::Balancer => "failed to run balancer_by_lua*",
            Self::SslSessionFetch => "failed to run session_fetch_by_lua*",
            Self::SslSessionStore => "failed to run session_store_by_lua*",
            Self::ServerRewrite
            | Self::Rewrite
            | Self::Access
            | Self::Precontent
            | Self::Content
            | Self::Timer
            | Self::SslClientHello
            | Self::SslCertificate
            | Self::ProxySslCertificate
            | Self::ProxySslVerify
            | Self::WorkerThread => return None,
        })
    }
}

/// A set of phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases(u32);

impl Phases {
    /// Where a light thread may wait. OpenResty's list plus the phases in which waiting is sound here: it suspends the
    /// light thread only, and the phase waits for it.
    pub const YIELDABLE: Phases = Phases(
        Phase::ServerRewrite as u32
            | Phase::Rewrite as u32
            | Phase::Access as u32
            | Phase::Precontent as u32
            | Phase::Content as u32
            | Phase::Set as u32
            | Phase::HeaderFilter as u32
            | Phase::BodyFilter as u32
            | Phase::Log as u32
            | Phase::Balancer as u32
            | Phase::Timer as u32
            | Phase::InitWorker as u32
            | Phase::SslClientHello as u32
            | Phase::SslSessionFetch as u32
            | Phase::SslCertificate as u32
            | Phase::ProxySslCertificate as u32
            | Phase::ProxySslVerify as u32
            | Phase::SslSessionStore as u32,
    );

    /// All of them: wherever there is what the function needs.
    pub const EVERYWHERE: Phases = Phases(u32::MAX);

    /// The phases of `list`.
    pub const fn of(list: &[Phase]) -> Phases {
        let mut bits = 0;
        let mut index = 0;
        while index < list.len() {
            bits |= list[index] as u32;
            index += 1;
        }
        Phases(bits)
    }

    /// Everything but the phases of `list`.
    pub const fn except(list: &[Phase]) -> Phases {
        Phases(!Self::of(list).0)
    }

    /// Whether `phase` is among them.
    pub const fn contains(self, phase: Phase) -> bool {
        self.0 & phase as u32 != 0
    }

    /// Demands that `phase` is among them.
    ///
    /// # Errors
    /// OpenResty's `API disabled in the context of …`.
    pub fn check(self, phase: Phase) -> Result<(), LuaError> {
        if self.contains(phase) {
            return Ok(());
        }
        Err(LuaError::from(format!("API disabled in the context of {}", phase.context_name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_bits() {
        let mut seen = 0_u32;
        for &phase in Phase::ALL {
            assert_eq!((phase as u32).count_ones(), 1, "{phase:?}");
            assert_eq!(seen & phase as u32, 0, "{phase:?}");
            seen |= phase as u32;
        }
    }

    #[test]
    fn disabled_phases_are_named() {
        let error = Phases::YIELDABLE.check(Phase::ExitWorker).expect_err("nobody waits for the end of a worker");
        assert!(
            matches!(error, LuaError::Message(text) if text == "API disabled in the context of exit_worker_by_lua*")
        );
        assert!(Phases::except(&[Phase::Init]).check(Phase::Log).is_ok());
    }
}
