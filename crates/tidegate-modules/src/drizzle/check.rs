//! What can be said of `drizzle_*` before a request comes.

use bstr::ByteSlice;
use tidegate_conf::Diagnostics;
use tidegate_core::module::{Checked, Context};

use super::{Conf, MODULE, params::replace_names};

/// Looks at one level: logins of an `upstream`, and where statements are run.
pub(super) fn check(conf: &Conf, checked: &Checked<'_>, diagnostics: &mut Diagnostics) {
    if checked.level.kind == Context::UPSTREAM {
        check_logins(conf, checked, diagnostics);
    }
    if conf.drizzle_pass.is_some() {
        check_target(conf, checked, diagnostics);
        check_statements(conf, diagnostics);
    }
}

/// Whether the embedded engine will let the upstream in.
fn check_logins(conf: &Conf, checked: &Checked<'_>, diagnostics: &mut Diagnostics) {
    for server in conf.servers.iter().filter(|server| server.is_embedded()) {
        if let Err(why) = server.check_user(checked.config) {
            diagnostics.error(server.span, format!("drizzle_server embedded: {why}"));
        }
    }
}

/// Whether the upstream that is named exists and has databases.
fn check_target(conf: &Conf, checked: &Checked<'_>, diagnostics: &mut Diagnostics) {
    let (Some(pass), Some(span)) = (&conf.drizzle_pass, conf.pass_span) else { return };
    let Some(name) = pass.as_literal() else { return };
    let config = checked.config;
    match config.find_upstream(name) {
        None => {
            let known = super::backends(config).filter_map(|(level, _)| level.name.to_str().ok());
            let hint = match tidegate_conf::closest(name, known) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("it needs an \"upstream {} {{ drizzle_server ...; }}\"", name.as_bstr()),
            };
            diagnostics.error(span, format!("drizzle: upstream \"{}\" not found", name.as_bstr())).hint(hint);
        }
        Some(level) if config.levels[level.0 as usize].conf(&MODULE).servers.is_empty() => {
            let message = format!("drizzle: no drizzle_server defined in upstream \"{}\"", name.as_bstr());
            diagnostics.error(span, message);
        }
        Some(_) => {}
    }
}

/// Whether there is a statement, and a value for each `:name` in it.
fn check_statements(conf: &Conf, diagnostics: &mut Diagnostics) {
    let Some(queries) = &conf.drizzle_query else {
        diagnostics.warn(conf.pass_span, "drizzle: missing \"drizzle_query\" for \"drizzle_pass\"");
        return;
    };
    let params = conf.drizzle_param.as_deref().unwrap_or_default();
    for (sql, span) in queries.written() {
        for name in replace_names(sql).1 {
            if !params.iter().any(|(known, _)| *known == name) {
                diagnostics
                    .error(span, format!("drizzle: no \"drizzle_param\" for \":{name}\""))
                    .hint(format!("add \"drizzle_param {name} $arg_{name};\""));
            }
        }
    }
}
