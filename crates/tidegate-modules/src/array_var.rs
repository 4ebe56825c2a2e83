//! `array_var`: lists in variables, split from text, mapped and joined again.
//!
//! ```text
//! array_split ',' $arg_names to=$names;
//! array_map_op set_quote_sql_str $names;
//! array_join ', ' $names to=$list;
//! ```
//!
//! A list belongs to a variable, whose text is empty meanwhile. The directives are part of the rewrite module's script.
//! Follows array-var-nginx-module.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    module::{Context, Directive, Module},
    phase::{Ready, Step},
    request::Request,
    variable::VariableId,
};

use crate::{rewrite, set_misc};

/// The module has no configuration of its own: its operations stand in the rewrite module's script.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("array_split", 2, 4, split)
            .within(CONTEXTS)
            .syntax("separator subject [limit] [to=$variable]")
            .doc("Splits a text into a list; without `to` the list replaces the value of the subject's variable."),
        Directive::custom("array_join", 2, 3, join)
            .within(CONTEXTS)
            .syntax("separator $list [to=$variable]")
            .doc("Joins the elements of a list to one text."),
        Directive::custom("array_map", 2, 3, map)
            .within(CONTEXTS)
            .syntax("template $list [to=$variable]")
            .doc("Replaces each element by a text in which `$array_it` is the element."),
        Directive::custom("array_map_op", 2, 3, map_op)
            .within(CONTEXTS)
            .syntax("directive $list [to=$variable]")
            .doc("Replaces each element by the value that a directive of set_misc makes of it."),
    ],
    example: r#"
        location /quoted {
            array_split "," $arg_names to=$names;
            array_map_op set_quote_sql_str $names;
            array_join ", " $names to=$list;
            return 200 "($list)\n";
        }
    "#,
    ..Module::named("array_var")
};

/// Everywhere, though in `http` an assignment has no effect.
const CONTEXTS: Context = rewrite::CONTEXTS.or(Context::HTTP);

/// The lists of a request by the number of the variable.
#[derive(Debug, Default)]
struct Lists(RefCell<HashMap<VariableId, List>>);

type List = Vec<Vec<u8>>;

/// Gives the variable a list.
pub(crate) fn set_list(req: &Rc<Request>, variable: VariableId, list: List) {
    let lists: Rc<Lists> = req.context();
    lists.0.borrow_mut().insert(variable, list);
}

/// The variable's list; empty if it has none.
fn list_of(req: &Rc<Request>, variable: VariableId) -> List {
    let lists = req.find_context::<Lists>();
    lists.and_then(|lists| lists.0.borrow().get(&variable).cloned()).unwrap_or_default()
}

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// The variable of `to=$name`, or of the argument `otherwise`; and the arguments without `to`.
fn target<'d>(
    directive: &'d ast::Directive,
    otherwise: usize,
    build: &mut Build<'_>,
) -> Result<(VariableId, &'d [ast::Arg]), Diagnostic> {
    let args = &directive.args;
    if let Some((last, rest)) = args.split_last()
        && rest.len() > otherwise
        && let Some(name) = last.value.strip_prefix(b"to=")
    {
        let name = ast::Arg { value: BString::from(name), ..last.clone() };
        return Ok((rewrite::target_variable(build, &name)?, rest));
    }
    Ok((rewrite::target_variable(build, &args[otherwise])?, args))
}

/// Adds an operation that ends the request when `call` answers a step.
fn push(build: &mut Build<'_>, call: impl Fn(&Rc<Request>) -> Result<(), Step> + Send + Sync + 'static) {
    rewrite::push(build, rewrite::Op::Call(Box::new(move |req| Ready::Now(call(req)))));
}

fn split(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (variable, args) = target(directive, 1, build)?;
    let (separator, subject) = (build.template(&args[0])?, build.template(&args[1])?);
    let limit = match args.get(2) {
        None => 0,
        Some(arg) => {
            let number = values::integer(arg.value.as_bstr()).ok().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| emerg(arg, format!("array_split: bad \"limit\" argument \"{}\"", arg.value)))?
        }
    };
    push(build, move |req| {
        let list = split_text(&subject.eval_cow(req), &separator.eval_cow(req), limit);
        set_list(req, variable, list);
        Ok(())
    });
    Ok(())
}

/// Pieces of `text` between separators, at most `limit` (0: any number); an empty separator divides into bytes.
fn split_text(text: &[u8], separator: &[u8], limit: usize) -> List {
    if text.is_empty() {
        return Vec::new();
    }
    let mut list = Vec::new();
    let mut rest = text;
    while limit == 0 || list.len() + 1 < limit {
        let (end, next) = match separator {
            [] if rest.len() > 1 => (1, 1),
            [] => break,
            _ => match rest.find(separator) {
                Some(at) => (at, at + separator.len()),
                None => break,
            },
        };
        list.push(rest[..end].to_vec());
        rest = &rest[next..];
    }
    list.push(rest.to_vec());
    list
}

fn join(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (variable, args) = target(directive, 1, build)?;
    let source = rewrite::target_variable(build, &args[1])?;
    let separator = build.template(&args[0])?;
    push(build, move |req| {
        let text = list_of(req, source).join(&separator.eval_cow(req)[..]);
        // Whether it can be assigned was checked when it was defined.
        let _ = req.set_variable(variable, Some(&text));
        Ok(())
    });
    Ok(())
}

/// Name of the variable that holds the element.
const ELEMENT: &str = "$array_it";

fn map(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (variable, args) = target(directive, 1, build)?;
    let source = rewrite::target_variable(build, &args[1])?;
    let element = ast::Arg { value: ELEMENT.into(), ..args[0].clone() };
    let element = rewrite::target_variable(build, &element)?;
    let template = build.template(&args[0])?;
    push(build, move |req| {
        let mut list = list_of(req, source);
        for item in &mut list {
            let _ = req.set_variable(element, Some(item));
            *item = template.eval(req);
        }
        let _ = req.set_variable(element, Some(b""));
        set_list(req, variable, list);
        Ok(())
    });
    Ok(())
}

fn map_op(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (variable, args) = target(directive, 1, build)?;
    let source = rewrite::target_variable(build, &args[1])?;
    let name = &args[0];
    let Some(function) = set_misc::function(&name.value) else {
        return Err(emerg(
            name,
            format!("array_map_op: directive \"{}\" not found or does not use ndk_set_var_value", name.value),
        ));
    };
    push(build, move |req| {
        let list = list_of(req, source).iter().map(|item| function(Some(req), item)).collect::<Option<List>>();
        set_list(req, variable, list.ok_or(Step::Status(500))?);
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, separator: &str, limit: usize, expected: &[&str]) {
        assert_eq!(
            split_text(text.as_bytes(), separator.as_bytes(), limit),
            expected.iter().map(|piece| piece.as_bytes().to_vec()).collect::<List>()
        );
    }

    #[test]
    fn splits() {
        check("a,b,c", ",", 0, &["a", "b", "c"]);
        check("a,b,c", ",", 2, &["a", "b,c"]);
        check("a->b->c", "->", 0, &["a", "b", "c"]);
        check(",,", ",", 0, &["", "", ""]);
        check("Bob", "", 0, &["B", "o", "b"]);
        check("Bob", "", 2, &["B", "ob"]);
        check("Bob", ",", 1, &["Bob"]);
        check("", ",", 0, &[]);
    }
}
