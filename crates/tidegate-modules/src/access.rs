//! `access`: permission by the client's address.
//!
//! Follows nginx's `ngx_http_access_module`.

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    http_core::SATISFY_ANY,
    module::{Context, Directive, Module},
    phase::{Phase, Ready, Step},
};
use tidegate_net::Peer;
use tidegate_net::log::Level;

use crate::network::Network;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    allow: bool,
    /// `None` for `all`.
    network: Option<Network>,
}

const CONTEXTS: Context = Context::ALL.or(Context::LIMIT_EXCEPT);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("allow", 1, 1, |conf: &mut Conf, directive, build| {
            conf.rules.push(rule(true, &directive.args[0], build)?);
            Ok(())
        })
        .within(CONTEXTS)
        .syntax("address | CIDR | unix: | all")
        .doc("Permits requests from these addresses."),
        Directive::custom("deny", 1, 1, |conf: &mut Conf, directive, build| {
            conf.rules.push(rule(false, &directive.args[0], build)?);
            Ok(())
        })
        .within(CONTEXTS)
        .syntax("address | CIDR | unix: | all")
        .doc("Refuses requests from these addresses."),
    ],
    inherit: |child, parent, _| {
        if child.rules.is_empty() {
            child.rules.clone_from(&parent.rules);
        }
    },
    install: |conf, program| {
        if conf.rules.is_empty() {
            return;
        }
        let conf = conf.clone();
        program.on(Phase::Access, move |req| {
            let allowed = conf.decide(req.peer());
            if allowed == Some(false) && req.http_conf().satisfy != Some(SATISFY_ANY) {
                req.log(Level::Error, format_args!("access forbidden by rule"));
            }
            Ready::Now(match allowed {
                Some(true) => Step::Ok,
                Some(false) => Step::Status(403),
                None => Step::Declined,
            })
        });
    },
    example: "
        location /status {
            allow 127.0.0.1;
            allow 10.0.0.0/8;
            deny all;
        }
    ",
    ..Module::named("access")
};

fn rule(allow: bool, arg: &ast::Arg, build: &mut Build<'_>) -> Result<Rule, Diagnostic> {
    if arg.value == "all" {
        return Ok(Rule { allow, network: None });
    }
    let invalid = || {
        let hint = "an address, a network such as 10.0.0.0/8, \"unix:\" or \"all\"";
        Diagnostic::invalid_parameter(&arg.value, arg.span, ["all", "unix:"]).with_hint(hint)
    };
    let network = Network::of_arg(&arg.value, arg, build).ok_or_else(invalid)?;
    Ok(Rule { allow, network: Some(network) })
}

impl Conf {
    /// What the first rule that fits says.
    fn decide(&self, peer: Peer) -> Option<bool> {
        let fits = |rule: &&Rule| rule.network.is_none_or(|network| network.contains_peer(peer));
        self.rules.iter().find(fits).map(|rule| rule.allow)
    }
}
