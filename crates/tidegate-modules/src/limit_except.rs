//! `limit_except`: configuration for requests whose method is not one of a few.
//!
//! Follows nginx, `ngx_http_core_limit_except`: the block takes the place of its location before rewriting begins.

use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::{Build, MethodSet},
    main_conf::block_of,
    module::{Context, Directive, Module},
};
use tidegate_http::Method;

/// Nothing: the block is a level of its own.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::block("limit_except", 1, u16::MAX, limit_except)
        .within(Context::LOCATION)
        .syntax("method ... { ... }")
        .doc("Directives for methods other than these, for instance deny or auth_basic.")],
    example: "
        location /api/ {
            limit_except GET HEAD { deny all; }
        }
    ",
    ..Module::named("limit_except")
};

fn limit_except(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut allowed = MethodSet::default();
    for arg in &directive.args {
        let method = Method::of(&arg.value.to_ascii_uppercase());
        if matches!(method, Method::Other | Method::Trace | Method::Connect) {
            return Err(Diagnostic::new(Severity::Emerg, arg.span, format!("invalid method \"{}\"", arg.value)));
        }
        allowed.insert(method);
        if method == Method::Get {
            allowed.insert(Method::Head);
        }
    }
    let name = build.name_of(build.level()).to_owned();
    let level = build.open_level(Context::LIMIT_EXCEPT, Some(build.level()), name);
    if !build.set_limit_except(allowed, level) {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    build.walk(level, Context::LIMIT_EXCEPT, block_of(directive));
    Ok(())
}
