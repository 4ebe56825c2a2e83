//! Calls of stored functions.
//!
//! A call becomes one of SQLite's function `tg_call`, whose first argument is a number that no other call has. The plan of the
//! statement keeps what that stands for ([`Called`]); the thread knows it by its number for as long ([`Called::of`]). The function's body
//! is planned when all of the statement is translated, because it must not change tables that the statement uses. It is planned once
//! for all calls in which these are the same. A function that is called while it is being planned would call itself: error 1424, if it
//! comes to that. Procedures that triggers and functions call ([`CallPlan`]) are planned in the same way.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sqlparser::ast::{Function, FunctionArguments};
use tidegate_rows::ServerError;

use super::{
    Coercibility, Ex, Res, Session, Translator,
    dml::Feed,
    programs::{Acting, Body, Gathered, is_too_deep, too_deep},
    scope::Scope,
    target_table::TargetTable,
};
use crate::{
    accounts::{Access, Privileges},
    dialect::SPECIAL,
    errors,
    parse::{
        ArgumentPlace, Call,
        program::{
            RoutineKind,
            code::{Code, Place},
            routine::{self, Routine},
            signature::Mode,
        },
    },
    schema::Schema,
    value::out::Out,
};

thread_local! {
    /// The calls of all plans of this thread.
    static CALLS: RefCell<HashMap<u64, Weak<Called>>> = RefCell::default();
}

/// A call of a stored function in a statement.
#[derive(Debug)]
pub(crate) struct Called {
    number: u64,
    schema: Arc<Schema>,
    routine: Arc<Routine>,
    /// What the arguments are.
    pub(crate) args: Box<[Out]>,
    caller: Acting,
    function: OnceCell<Res<Rc<StoredFunction>>>,
}

/// A stored function with the plans of its body.
#[derive(Debug)]
pub(crate) struct StoredFunction {
    schema: u64,
    routine: Arc<Routine>,
    pub(crate) body: Body,
}

/// CALL in a trigger or function.
#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) called: Rc<Called>,
    /// The query that gives the values of the arguments, and the parameters that take them.
    pub(crate) given: Feed,
    pub(crate) taken: Box<[usize]>,
    /// The OUT and INOUT parameters, and where their values go.
    pub(crate) places: Box<[(usize, Place)]>,
}

/// What is known of a CALL before its arguments are planned.
pub(super) struct CallHead {
    pub(super) called: Rc<Called>,
    /// The arguments that are read, by the numbers of their parameters.
    pub(super) taken: Box<[usize]>,
    pub(super) places: Box<[(usize, Place)]>,
}

/// Looks up the procedure of a CALL in a program, which knows the names of a scope.
///
/// # Errors
/// 1305, 1318, 1370, 1414.
pub(super) fn head(
    session: &Session<'_>,
    call: &Call,
    (code, scope): (&Code, usize),
    caller: &Acting,
    gathered: &mut Gathered,
) -> Res<CallHead> {
    let current = session.schema.map_or("", |schema| &schema.name);
    let (schema, name) = (call.name.schema.as_deref().unwrap_or(current), &call.name.name);
    let unknown = || errors::unknown_procedure(schema, name);
    let found = session.schema_named(schema).map_err(|_| unknown())?;
    gathered.depend_on(&found);
    let routine = routine::named(found.catalog()?.routines(), RoutineKind::Procedure, name).cloned();
    may_execute(caller.access.as_deref(), &found, RoutineKind::Procedure, routine.as_deref(), name)?;
    let routine = routine.ok_or_else(unknown)?;
    let (signature, _) = routine.read()?;
    let shown = || format!("{}.{name}", found.name);
    if call.arguments.len() != signature.params.len() {
        let (expected, got) = (signature.params.len(), call.arguments.len());
        return Err(errors::wrong_argument_count("PROCEDURE", shown(), expected, got));
    }
    let (mut taken, mut places) = (Vec::new(), Vec::new());
    for (index, (argument, param)) in call.arguments.iter().zip(&signature.params).enumerate() {
        if param.mode != Mode::Out {
            taken.push(index);
        }
        if param.mode != Mode::In {
            let place = match &argument.place {
                ArgumentPlace::Name(name) => code.slot(scope, name).map(Place::Local),
                ArgumentPlace::Variable(name) => Some(Place::User(name.clone())),
                ArgumentPlace::Parameter | ArgumentPlace::Nowhere => None,
            };
            places.push((index, place.ok_or_else(|| errors::out_argument(index + 1, shown()))?));
        }
    }
    let called = Called::new(&found, &routine, Box::default(), caller.clone());
    Ok(CallHead { called, taken: taken.into(), places: places.into() })
}

/// Whether somebody may call a routine, for whom one that is not there is a secret.
///
/// # Errors
/// 1370
pub(crate) fn may_execute(
    access: Option<&Access>,
    schema: &Schema,
    kind: RoutineKind,
    routine: Option<&Routine>,
    name: &str,
) -> Res<()> {
    let Some(access) = access else { return Ok(()) };
    if routine.is_some_and(|routine| access.is_definer(routine.kept.definer.as_ref()))
        || access.on_routine(&schema.name, kind, name).has(Privileges::EXECUTE)
    {
        return Ok(());
    }
    let shown = format!("{}.{name}", schema.name);
    Err(errors::routine_denied("execute", &access.name.user, &access.name.host, shown))
}

impl Called {
    fn new(schema: &Arc<Schema>, routine: &Arc<Routine>, args: Box<[Out]>, caller: Acting) -> Rc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let called = Rc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            schema: Arc::clone(schema),
            routine: Arc::clone(routine),
            args,
            caller,
            function: OnceCell::new(),
        });
        CALLS.with_borrow_mut(|all| all.insert(called.number, Rc::downgrade(&called)));
        called
    }

    /// The call of a number.
    pub(crate) fn of(number: u64) -> Option<Rc<Self>> {
        CALLS.with_borrow(|all| all.get(&number)?.upgrade())
    }

    /// The function.
    ///
    /// # Errors
    /// Why it cannot be called: 1424, 1449.
    pub(crate) fn function(&self) -> Res<&Rc<StoredFunction>> {
        let planned = self.function.get().ok_or_else(|| errors::internal("a call without a plan"))?;
        planned.as_ref().map_err(Clone::clone)
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        // The list may have gone with its thread.
        let _ = CALLS.try_with(|all| all.borrow_mut().remove(&self.number));
    }
}

impl Translator<'_> {
    /// Translates a call: of the library's function, or of a stored one.
    ///
    /// # Errors
    /// 1305, and what the function says.
    pub(super) fn function(&mut self, function: &Function, scope: &Scope<'_>) -> Res<Ex> {
        let (schema, written) = match function.name.0.as_slice() {
            [part] => (None, part.to_string().trim_matches('`').to_owned()),
            [schema, part] => {
                let part = part.to_string().trim_matches('`').to_owned();
                (Some(schema.to_string().trim_matches('`').to_owned()), part)
            }
            parts => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                let (name, schema) = (parts.last().cloned().unwrap_or_default(), parts[..parts.len() - 1].join("."));
                return Err(errors::unknown_function(schema, name));
            }
        };
        let name = written.to_ascii_uppercase();
        if function.filter.is_some()
            || function.null_treatment.is_some()
            || !function.within_group.is_empty()
            || !matches!(function.parameters, FunctionArguments::None)
        {
            return Err(errors::unsupported(format!("clauses of {name}()")));
        }
        if let Some(special) = name.strip_prefix(SPECIAL) {
            let args = super::expr::arguments(&function.args)?;
            return (self.session.library.special)(self, &special.to_ascii_lowercase(), &args, scope);
        }
        // A schema's name means one of its functions, also where the library has one of the name.
        let library = self.session.library;
        let is_known = (library.exists)(&name) || (library.is_aggregate)(&name) || function.over.is_some();
        if schema.is_some() || !is_known && self.session.schema.is_some() {
            return self.stored_function(schema.as_deref(), &written, &function.args, scope);
        }
        (library.function)(self, &name, function, scope)
    }

    /// A call of a function that is none of the library's, in a schema or the current one.
    ///
    /// # Errors
    /// 1305, 1318, 1370; those of the arguments.
    pub(super) fn stored_function(
        &mut self,
        schema: Option<&str>,
        name: &str,
        args: &FunctionArguments,
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        let current = self.session.schema.map_or("", |schema| &schema.name);
        let named = schema.unwrap_or(current);
        let unknown = || errors::unknown_function(named, name);
        let found = match schema {
            Some(schema) => self.session.schema_named(schema).map_err(|_| unknown())?,
            None => self.session.schema.map(Arc::clone).ok_or_else(unknown)?,
        };
        let routine = routine::named(self.catalog(&found)?.routines(), RoutineKind::Function, name).cloned();
        may_execute(self.access.as_deref(), &found, RoutineKind::Function, routine.as_deref(), name)?;
        let routine = routine.ok_or_else(unknown)?;
        let (signature, code) = routine.read()?;
        let given = super::expr::arguments(args)?.len();
        if given != signature.params.len() {
            let shown = format!("{}.{}", found.name, routine.kept.name);
            return Err(errors::wrong_argument_count("FUNCTION", shown, signature.params.len(), given));
        }
        let args = self.arguments(args, scope)?;
        let (returns, _) = signature.returns.as_ref().ok_or_else(|| errors::internal("a function of no type"))?;
        let is_same = signature.says.is_deterministic && !code.has_effects();
        if code.has_effects() {
            self.effects.note_both();
        } else {
            self.effects.note_fresh();
        }
        let outs = args.iter().map(|arg| Out::of(&arg.ty)).collect();
        let caller = Acting { access: self.access.clone(), user: self.current_user.clone() };
        let called = Called::new(&found, &routine, outs, caller);
        let texts: Vec<String> = args.iter().map(|arg| format!(", {}", self.text(arg))).collect();
        let call = if is_same { "tg_call_same" } else { "tg_call" };
        let sql = format!("{call}({}{})", called.number, texts.concat());
        self.calls.push(called);
        let is_text = returns.base.is_character() || returns.base.is_binary();
        let coercibility = if is_text { Coercibility::Literal } else { Coercibility::Number };
        let aggregate = args.iter().any(|arg| arg.aggregate);
        Ok(Ex { coercibility, aggregate, ..Ex::sql(sql, returns.clone().stored()) })
    }
}

/// Plans the functions of calls, which must not change tables that are `used`.
///
/// # Errors
/// What ends the statement; what one of them cannot do is told when it is called.
pub(super) fn plan(
    session: Session<'_>,
    calls: &[Rc<Called>],
    used: &Rc<[(u64, i64)]>,
    depth: usize,
    gathered: &mut Gathered,
) -> Res<()> {
    for called in calls.iter().filter(|called| called.function.get().is_none()) {
        let key = (called.schema.id, called.routine.kept.id);
        let same = |known: &&Rc<StoredFunction>| {
            known.schema == called.schema.id
                && Arc::ptr_eq(&known.routine, &called.routine)
                && known.body.used() == used
        };
        let planned = match gathered.functions.iter().find(same) {
            _ if gathered.open.contains(&key) => Err(match called.routine.kind {
                RoutineKind::Function => errors::recursive_function(),
                RoutineKind::Procedure => errors::recursion_limit(0, &called.routine.kept.name),
            }),
            Some(known) if !runs_as_caller(called) => Ok(Rc::clone(known)),
            _ if is_too_deep(depth) => return Err(too_deep()),
            _ => match acting(&session, called) {
                Ok(acting) => {
                    gathered.open.push(key);
                    let function = function(session, called, acting, used, depth, gathered);
                    gathered.open.pop();
                    Ok(function?)
                }
                Err(error) => Err(error),
            },
        };
        // Nobody else has planned it meanwhile.
        let _ = called.function.set(planned);
    }
    Ok(())
}

fn runs_as_caller(called: &Called) -> bool {
    called.routine.read().is_ok_and(|(signature, _)| signature.says.as_invoker)
}

/// As whom a function runs.
fn acting(session: &Session<'_>, called: &Called) -> Res<Acting> {
    if runs_as_caller(called) {
        return Ok(called.caller.clone());
    }
    let kept = &called.routine.kept;
    let access = kept.definer.as_ref().map(|definer| session.access_of(definer)).transpose()?.flatten();
    Ok(Acting { access, user: Some(kept.shown_definer().to_string().into()) })
}

fn function(
    session: Session<'_>,
    called: &Called,
    acting: Acting,
    used: &Rc<[(u64, i64)]>,
    depth: usize,
    gathered: &mut Gathered,
) -> Result<Rc<StoredFunction>, ServerError> {
    let (_, code) = called.routine.read()?;
    gathered.depend_on(&called.schema);
    let kept = &called.routine.kept;
    let mut body = Body::new(kept, code, (&called.schema, None), session.library, acting, used);
    body.plan_all(session, depth, gathered)?;
    let function = Rc::new(StoredFunction { schema: called.schema.id, routine: Arc::clone(&called.routine), body });
    gathered.functions.push(Rc::clone(&function));
    Ok(function)
}

/// Adds the tables that functions write to, with those of the functions that they call.
pub(super) fn add_targets(calls: &[Rc<Called>], all: &mut Vec<Rc<TargetTable>>) {
    for target in calls.iter().filter_map(|called| called.function().ok()).flat_map(|function| function.body.targets())
    {
        if !all.iter().any(|known| Rc::ptr_eq(known, target)) {
            all.push(Rc::clone(target));
        }
    }
}

/// The tables that functions write to.
pub(crate) fn targets(calls: &[Rc<Called>]) -> Box<[Rc<TargetTable>]> {
    let mut all = Vec::new();
    add_targets(calls, &mut all);
    all.into()
}
