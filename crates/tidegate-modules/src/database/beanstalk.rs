//! `listen … beanstalk`: what the block says about ports for clients of beanstalkd. What happens there is the queue's.

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{conf::Build, inherit, listen};
use tidegate_net::listeners::ListenAddr;

use super::{Conf, listen::add};
use crate::services;

/// The port of an address without one.
///
/// Source: beanstalkd, `-p`.
const PORT_DEFAULT: u16 = 11300;
/// Bytes of the largest job, where `beanstalk_job_size_max` says nothing.
///
/// Source: beanstalkd, `-z`.
const JOB_BYTES_MAX: usize = 65_535;
/// Jobs that a connection may have at once, where `beanstalk_jobs_max` says nothing: a few hundred bytes each.
const JOBS_MAX: u64 = 65_536;

/// What the directives of the block say about these ports.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Settings {
    /// There is a `listen … beanstalk`.
    is_served: Option<bool>,
    /// `beanstalk_job_size_max`
    pub(crate) job_size_max: Option<usize>,
    /// `beanstalk_drain`
    pub(crate) drain: Option<bool>,
    /// `beanstalk_jobs_max`
    pub(crate) jobs_max: Option<u64>,
}

impl Settings {
    /// Takes what is not said here from the level around it.
    pub(crate) fn inherit(&mut self, parent: &Settings) {
        let child = self;
        inherit!(child, parent; is_served, job_size_max, drain, jobs_max);
    }

    /// Whether there are ports for these clients.
    pub(crate) fn is_served(self) -> bool {
        self.is_served.unwrap_or(false)
    }

    /// Bytes of the largest job.
    pub(crate) fn job_bytes_max(self) -> usize {
        self.job_size_max.unwrap_or(JOB_BYTES_MAX)
    }

    /// Jobs that a connection may have at once.
    pub(crate) fn jobs_max(self) -> usize {
        usize::try_from(self.jobs_max.unwrap_or(JOBS_MAX)).unwrap_or(usize::MAX)
    }

    /// Whether jobs are refused.
    pub(crate) fn is_draining(self) -> bool {
        self.drain.unwrap_or(false)
    }
}

/// `listen … beanstalk`
pub(super) fn listen(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let specs = listen::of_service(directive, PORT_DEFAULT, &[], |_| Ok(false))?;
    let is_near = |addr: &ListenAddr| match addr {
        ListenAddr::Unix(_) => true,
        ListenAddr::Tcp(address) => address.ip().to_canonical().is_loopback(),
    };
    if !specs.iter().all(|spec| is_near(&spec.addr)) {
        let message = "anybody could use this port over the network: the protocol of beanstalkd has no passwords";
        return Err(Diagnostic::new(Severity::Emerg, directive.args[0].span, message)
            .with_hint("listen on 127.0.0.1 or a Unix socket"));
    }
    conf.beanstalk.is_served = Some(true);
    add(directive, specs, build, Arc::new(services::beanstalk));
    Ok(())
}
