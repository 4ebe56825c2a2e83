//! `sql_versions`: a variable for keys of caches, which has another value after each commit to some tables; and [`Tables`] for
//! `…_cache_tables`, by which caches have these values in their keys themselves.
//!
//! What is kept under a key with this variable is never looked for again once a commit has changed one of the tables, and makes
//! room in time: `proxy_cache_key $uri$versions`, `srcache_fetch zone=pages $uri$versions`, a key of a shared dictionary. The
//! value is computed once for a request, when it is first asked for; a look-up asks before the response is made. So a response is
//! never kept under the numbers of a commit that came later. Numbers do not come again, also not after a restart, so that files
//! of a cache stay good.

use std::sync::Arc;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    request::Request,
    upstream::caching::rules::KeyPart,
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
    let tables = Tables::parse(directive, &directive.args[1..])?;
    let compute = Box::new(move |req: &Request, out: &mut Vec<u8>| tables.append_versions(req, out));
    let defined = build.variables.define_computed(name.as_bstr(), true, compute);
    defined.map_err(|_| emerg(target, format!("the duplicate \"{name}\" variable")))?;
    Ok(())
}

/// `…_cache_tables schema.table …;` of the caches of upstreams.
///
/// # Errors
/// What is no table; the directive was there before.
pub(crate) fn cache_tables(field: &mut Option<KeyPart>, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let tables = Tables::parse(directive, &directive.args)?;
    let part = KeyPart(Arc::new(move |req, key| tables.append_to_key(req, key)));
    match field.replace(part) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

/// Stands between a key and the versions of tables.
const BEHIND_KEY: &[u8] = b" tables";

/// Tables of the embedded database that something is made of.
#[derive(Debug, Clone)]
pub(crate) struct Tables(Arc<[(String, String)]>);

impl Tables {
    /// Reads the tables that a directive names.
    ///
    /// # Errors
    /// What is no table.
    pub(crate) fn parse(directive: &ast::Directive, args: &[ast::Arg]) -> Result<Self, Diagnostic> {
        let table = |arg: &ast::Arg| match arg.value.to_str().ok().and_then(|text| text.split_once('.')) {
            Some((schema, table)) if !schema.is_empty() && !table.is_empty() => {
                Ok((schema.to_owned(), table.to_owned()))
            }
            _ => {
                let message = format!("invalid table \"{}\" in \"{}\" directive", arg.value, directive.name());
                let problem = Diagnostic::new(Severity::Emerg, arg.span, message);
                Err(problem.with_hint("a table has its schema in front: shop.cats"))
            }
        };
        Ok(Self(args.iter().map(table).collect::<Result<_, _>>()?))
    }

    /// Appends to a key what makes it one of the present contents; logs why not, and answers false then.
    pub(crate) fn append_to_key(&self, req: &Request, key: &mut Vec<u8>) -> bool {
        key.extend_from_slice(BEHIND_KEY);
        self.append_versions(req, key)
    }

    fn append_versions(&self, req: &Request, out: &mut Vec<u8>) -> bool {
        let versions = self.try_append(req, out);
        if let Err(reason) = &versions {
            req.log(Level::Error, format_args!("sql_versions: {reason}"));
        }
        versions.is_ok()
    }

    /// Appends the versions, each behind a `.`; of a table that there is not the number of its schema's newest commit.
    fn try_append(&self, req: &Request, out: &mut Vec<u8>) -> Result<(), String> {
        let engine = database::reopen(req.conf())?;
        for (schema, table) in &*self.0 {
            let number = engine.table_version(schema, table).or_else(|| engine.newest_commit(schema));
            let number = number.ok_or_else(|| format!("there is no schema \"{schema}\""))?;
            out.push(b'.');
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        Ok(())
    }
}
