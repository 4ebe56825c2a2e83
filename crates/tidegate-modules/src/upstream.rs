//! `upstream`: names groups of servers. What stands in the block belongs to the modules that use it (`server` to proxies,
//! `drizzle_server` to drizzle).
//!
//! Follows nginx's `ngx_http_upstream_module`.

use tidegate_conf::{Diagnostic, Level, ast};
use tidegate_core::{
    conf::Build,
    main_conf::block_of,
    module::{Context, Directive, Module},
};

/// Nothing is kept here: the levels of the blocks hold what their directives say.
#[derive(Debug, Default)]
pub struct Conf {}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::block("upstream", 1, 1, upstream)
        .within(Context::HTTP)
        .syntax("name { ... }")
        .doc("A group of servers.")],
    ..Module::named("upstream")
};

fn upstream(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = &directive.args[0];
    if build.upstreams.contains_key(&name.value) {
        return Err(Diagnostic::new(Level::Emerg, name.span, format!("duplicate upstream \"{}\"", name.value)));
    }
    let level = build.open_level(Context::UPSTREAM, Some(build.level()), name.value.clone());
    build.upstreams.insert(name.value.clone(), level);
    build.walk(level, Context::UPSTREAM, block_of(directive));
    Ok(())
}
