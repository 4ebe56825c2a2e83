//! `listen` in a `database` block: addresses at which clients reach the engine, each with the protocol that its second word
//! names.

use std::os::unix::ffi::OsStrExt as _;

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::conf::{Build, OpenService, ServiceListen};
use tidegate_net::listeners::{ListenAddr, ListenSpec};

use super::{Conf, beanstalk, handlersocket, memcached, port};

type Listen = fn(&mut Conf, &ast::Directive, &mut Build<'_>) -> Result<(), Diagnostic>;

/// The protocols by their names.
const PROTOCOLS: &[(&str, Listen)] = &[
    ("mysql", port::listen),
    ("handlersocket", handlersocket::listen),
    ("memcached", memcached::listen),
    ("beanstalk", beanstalk::listen),
];

/// `listen`
pub(super) fn listen(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let protocol = &directive.args[1];
    let known = PROTOCOLS.iter().find(|(name, _)| *protocol.value == *name.as_bytes());
    let (_, listen) = known.ok_or_else(|| {
        let names = PROTOCOLS.iter().map(|(name, _)| *name);
        Diagnostic::invalid_parameter(&protocol.value, protocol.span, names)
    })?;
    listen(conf, directive, build)
}

/// Has a service answer at the addresses of a directive; sockets of the file system are below the prefix.
pub(super) fn add(directive: &ast::Directive, specs: Vec<ListenSpec>, build: &mut Build<'_>, open: OpenService) {
    let span = directive.args[0].span;
    for mut spec in specs {
        if let ListenAddr::Unix(path) = &mut spec.addr {
            *path = build.full_path(path.as_os_str().as_bytes().into());
        }
        build.services.push(ServiceListen { spec, span, open: open.clone() });
    }
}
