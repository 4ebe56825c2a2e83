//! `form_input`: fields of a form in the request's body become variables.
//!
//! The directives read the body (of POST and PUT requests with `application/x-www-form-urlencoded`) and are part of the
//! rewrite module's script. Values stay as the client sent them: `set_unescape_uri` is for that. A body that was written to
//! a file for its size is not looked at. Follows form-input-nginx-module.

use std::rc::Rc;

use bstr::BString;
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    phase::{Ready, Step},
    request::Request,
};
use tidegate_http::{Known, Method};
use tidegate_net::log::Level;

use crate::{array_var, rewrite};

/// The module has no configuration of its own: its operations stand in the rewrite module's script.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("set_form_input", 1, 2, single)
            .within(CONTEXTS)
            .syntax("$variable [field]")
            .doc("The first value of a form's field; the variable's name is that of the field by default."),
        Directive::custom("set_form_input_multi", 1, 2, multiple)
            .within(CONTEXTS)
            .syntax("$variable [field]")
            .doc("All values of a form's field, as a list for `array_join` and the other directives of the module."),
    ],
    example: r#"
        location /post {
            set_form_input $name;
            return 200 "name: $name\n";
        }
    "#,
    ..Module::named("form_input")
};

/// Everywhere, though in `http` an assignment has no effect.
const CONTEXTS: Context = rewrite::CONTEXTS.or(Context::HTTP);

/// The name of the field: the second argument, or the variable's name.
fn field(directive: &ast::Directive, build: &Build<'_>) -> Result<BString, Diagnostic> {
    match directive.args.get(1) {
        Some(field) => Ok(field.value.clone()),
        None => build.variable_name(&directive.args[0]).map(Into::into),
    }
}

fn single(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = field(directive, build)?;
    rewrite::assign(build, &directive.args[0], move |req| {
        let (name, req_then) = (name.clone(), req.clone());
        read(req).map(move |read| {
            read?;
            let mut found = None;
            with_form(&req_then, |form| found = values(form, &name).next().map(<[u8]>::to_vec));
            Ok(found.unwrap_or_default())
        })
    })?;
    Ok(())
}

fn multiple(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = field(directive, build)?;
    let variable = rewrite::target_variable(build, &directive.args[0])?;
    let call = move |req: &Rc<Request>| {
        let (name, req_then) = (name.clone(), req.clone());
        read(req).map(move |read| {
            read?;
            let mut list = Vec::new();
            with_form(&req_then, |form| list.extend(values(form, &name).map(<[u8]>::to_vec)));
            array_var::set_list(&req_then, variable, list);
            Ok(())
        })
    };
    rewrite::push(build, rewrite::Op::Call(Box::new(call)));
    Ok(())
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Whether the request's body is a form.
fn is_form(req: &Request) -> bool {
    let head = req.head.borrow();
    let is_form = |kind: &[u8]| kind.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM));
    matches!(req.method.get(), Method::Post | Method::Put) && head.fields.get(Known::ContentType).is_some_and(is_form)
}

/// Reads the body of a form.
fn read(req: &Rc<Request>) -> Ready<Result<(), Step>> {
    if !is_form(req) {
        return Ready::Now(Ok(()));
    }
    req.read_body().map(|read| read.map_err(|error| error.step()))
}

/// Calls `look` with the body of a form, once it has been read.
fn with_form(req: &Rc<Request>, look: impl FnOnce(&[u8])) {
    if !is_form(req) {
        return;
    }
    if req.body.file.borrow().is_some() {
        req.log(Level::Warn, format_args!("form-input: in-file buffer found; should increase client_body_buffer_size"));
        return;
    }
    look(&req.body.memory.borrow());
}

/// The values of a field, in order.
fn values<'f>(form: &'f [u8], name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
    form.split(|&byte| byte == b'&').filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(form: &str, expected: &[&str]) {
        let found: Vec<&[u8]> = values(form.as_bytes(), b"a").collect();
        assert_eq!(found, expected.iter().map(|value| value.as_bytes()).collect::<Vec<_>>(), "{form}");
    }

    #[test]
    fn fields_are_found() {
        check("a=1", &["1"]);
        check("b=0&a=1&aa=2&a=3", &["1", "3"]);
        check("&a=", &[""]);
        check("a", &[]);
        check("ba=1&=2&&", &[]);
        check("a=b=c", &["b=c"]);
    }
}
