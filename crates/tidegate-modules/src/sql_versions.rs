//! `sql_versions`: a variable for keys of caches, which has another value after each commit to some tables.
//!
//! What is kept under a key with this variable is never looked for again once a commit has changed one of the tables, and makes
//! room in time: `proxy_cache_key $uri$versions`, `srcache_fetch zone=pages $uri$versions`, a key of a shared dictionary. The
//! value is computed once for a request, when it is first asked for; a look-up asks before the response is made. So a response is
//! never kept under the numbers of a commit that came later. Numbers do not come again, also not after a restart, so that files
//! of a cache stay good.

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    request::Request,
};
use tidegate_net::log::Level;

use crate::database;

/// Nothing: the directive defines a variable.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("sql_versions", 2, u16::MAX, sql_versions)
        .within(Context::HTTP)
        .syntax("$variable schema.table ...")
        .doc(
            "Defines a variable for keys of caches that changes with each commit to tables of the embedded database.",
        )],
    example: "
        sql_versions $versions shop.cats shop.toys;
        proxy_cache_key $uri$is_args$args$versions;
    ",
    ..Module::named("sql_versions")
};

fn sql_versions(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let emerg = |arg: &ast::Arg, message: String| Diagnostic::new(Severity::Emerg, arg.span, message);
    let target = &directive.args[0];
    let name = build.variable_name(target)?.to_owned();
    let mut tables = Vec::new();
    for arg in &directive.args[1..] {
        let table = arg.value.to_str().ok().and_then(|text| text.split_once('.'));
        match table {
            Some((schema, table)) if !schema.is_empty() && !table.is_empty() => {
                tables.push((schema.to_owned(), table.to_owned()));
            }
            _ => {
                let message = format!("invalid table \"{}\" in \"sql_versions\" directive", arg.value);
                return Err(emerg(arg, message).with_hint("a table has its schema in front: shop.cats"));
            }
        }
    }
    let compute = Box::new(move |req: &Request, out: &mut Vec<u8>| match append_versions(req, &tables, out) {
        Ok(()) => true,
        Err(reason) => {
            req.log(Level::Error, format_args!("sql_versions: {reason}"));
            false
        }
    });
    let defined = build.variables.define_computed(name.as_bstr(), true, compute);
    defined.map_err(|_| emerg(target, format!("the duplicate \"{name}\" variable")))?;
    Ok(())
}

/// Appends the versions, each behind a `.`; of a table that there is not the number of its schema's newest commit.
fn append_versions(req: &Request, tables: &[(String, String)], out: &mut Vec<u8>) -> Result<(), String> {
    let engine = database::reopen(req.conf())?;
    for (schema, table) in tables {
        let number = engine.table_version(schema, table).or_else(|| engine.newest_commit(schema));
        let number = number.ok_or_else(|| format!("there is no schema \"{schema}\""))?;
        out.push(b'.');
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
    Ok(())
}
