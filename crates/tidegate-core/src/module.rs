//! What an nginx-style module is: its directive table, its configuration struct, its handlers.
//!
//! A module is a `static MODULE: Module<Conf>`. `Conf` holds what its directives set at one level of the configuration
//! (`http`, `server`, `location`, …); every field is an `Option`, `None` meaning "inherit". The registry (a list of
//! `&'static dyn AnyModule`) is all that the rest of the engine knows of modules.

use std::{
    any::{Any, TypeId},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Diagnostics, ast};
pub use tidegate_net::service::WorkerEnd;

use crate::{
    conf::{Build, Config, Level},
    phase::{LocalFuture, Program},
    template::Template,
    variable::VariableDef,
};

/// Where a directive may stand: a set of block kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context(pub u32);

impl Context {
    /// The top level of the file.
    pub const MAIN: Context = Context(1);
    /// `events { }`.
    pub const EVENTS: Context = Context(2);
    /// `http { }`.
    pub const HTTP: Context = Context(4);
    /// `server { }`.
    pub const SERVER: Context = Context(8);
    /// `location { }`.
    pub const LOCATION: Context = Context(16);
    /// `if { }` in a server.
    pub const SERVER_IF: Context = Context(32);
    /// `if { }` in a location.
    pub const LOCATION_IF: Context = Context(64);
    /// `limit_except { }`.
    pub const LIMIT_EXCEPT: Context = Context(128);
    /// `upstream { }`.
    pub const UPSTREAM: Context = Context(256);
    /// `database { }`: the embedded engine.
    pub const DATABASE: Context = Context(512);
    /// `acme_issuer { }`.
    pub const ACME_ISSUER: Context = Context(1024);
    /// `http`, `server` and `location`: the usual places.
    pub const ALL: Context = Context(4 | 8 | 16);
    /// The usual places and `if` in a location.
    pub const ALL_IF: Context = Context(4 | 8 | 16 | 64);

    /// The names of the block kinds, as one writes them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 11] = [
            "main",
            "events",
            "http",
            "server",
            "location",
            "if in server",
            "if in location",
            "limit_except",
            "upstream",
            "database",
            "acme_issuer",
        ];
        NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name)
    }

    /// This set and another.
    pub const fn or(self, other: Context) -> Context {
        Context(self.0 | other.0)
    }

    /// Whether this is a block that continues its location: `if` or `limit_except`.
    pub const fn is_unnamed(self) -> bool {
        self.allows(Context(32 | 64 | 128))
    }

    /// Whether the two sets share a block kind.
    pub const fn allows(self, other: Context) -> bool {
        self.0 & other.0 != 0
    }
}

/// How many arguments a directive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arity {
    /// At least this many.
    pub min: u16,
    /// At most this many; `u16::MAX` means any number.
    pub max: u16,
}

/// What stands behind a directive's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `;`
    Simple,
    /// `{ directives }`
    Block,
    /// `{ Lua }`
    Lua,
}

/// A directive's own parser: gets the module's configuration at this level and the directive.
pub type Custom<C> = fn(&mut C, &ast::Directive, &mut Build<'_>) -> Result<(), Diagnostic>;

/// How a directive's arguments reach the configuration struct.
pub enum Setter<C: 'static> {
    /// `on` or `off`.
    Flag(fn(&mut C) -> &mut Option<bool>),
    /// A size in bytes with `k` or `m`.
    Size(fn(&mut C) -> &mut Option<usize>),
    /// An offset in bytes with `k`, `m` or `g`.
    Offset(fn(&mut C) -> &mut Option<u64>),
    /// A time.
    Time(fn(&mut C) -> &mut Option<Duration>),
    /// A number that is not negative.
    Number(fn(&mut C) -> &mut Option<u64>),
    /// Text without variables.
    Text(fn(&mut C) -> &mut Option<BString>),
    /// Text with variables (nginx: a complex value).
    Template(fn(&mut C) -> &mut Option<Template>),
    /// One word of a list; the field gets the number beside it.
    Enum(fn(&mut C) -> &mut Option<u32>, &'static [(&'static str, u32)]),
    /// A grammar of its own.
    Custom(Custom<C>),
}

/// One directive: name, grammar, places, documentation.
pub struct Directive<C: 'static> {
    /// Name.
    pub name: &'static str,
    /// Blocks that the directive may stand in.
    pub contexts: Context,
    /// Number of arguments.
    pub arity: Arity,
    /// End of the directive: `;` or a block.
    pub shape: Shape,
    /// Code that puts the arguments into the configuration struct.
    pub setter: Setter<C>,
    /// Default, as one would write it; `None` when there is none.
    pub default: Option<&'static str>,
    /// The arguments as documentation shows them.
    pub syntax: &'static str,
    /// Its effect, in one line.
    pub doc: &'static str,
}

impl<C: 'static> Directive<C> {
    const fn new(name: &'static str, setter: Setter<C>, syntax: &'static str) -> Self {
        Directive {
            name,
            contexts: Context::ALL,
            arity: Arity { min: 1, max: 1 },
            shape: Shape::Simple,
            setter,
            default: None,
            syntax,
            doc: "",
        }
    }
    /// `name on|off;`
    pub const fn flag(name: &'static str, field: fn(&mut C) -> &mut Option<bool>) -> Self {
        Self::new(name, Setter::Flag(field), "on | off")
    }
    /// `name size;`
    pub const fn size(name: &'static str, field: fn(&mut C) -> &mut Option<usize>) -> Self {
        Self::new(name, Setter::Size(field), "size")
    }
    /// `name offset;`
    pub const fn offset(name: &'static str, field: fn(&mut C) -> &mut Option<u64>) -> Self {
        Self::new(name, Setter::Offset(field), "size")
    }
    /// `name time;`
    pub const fn time(name: &'static str, field: fn(&mut C) -> &mut Option<Duration>) -> Self {
        Self::new(name, Setter::Time(field), "time")
    }
    /// `name number;`
    pub const fn number(name: &'static str, field: fn(&mut C) -> &mut Option<u64>) -> Self {
        Self::new(name, Setter::Number(field), "number")
    }
    /// `name text;`
    pub const fn text(name: &'static str, field: fn(&mut C) -> &mut Option<BString>) -> Self {
        Self::new(name, Setter::Text(field), "string")
    }
    /// `name text-with-variables;`
    pub const fn template(name: &'static str, field: fn(&mut C) -> &mut Option<Template>) -> Self {
        Self::new(name, Setter::Template(field), "string")
    }
    /// `name word;`
    pub const fn choice(
        name: &'static str,
        field: fn(&mut C) -> &mut Option<u32>,
        words: &'static [(&'static str, u32)],
    ) -> Self {
        Self::new(name, Setter::Enum(field, words), "word")
    }
    /// A directive with a grammar of its own; `min` to `max` arguments.
    pub const fn custom(name: &'static str, min: u16, max: u16, set: Custom<C>) -> Self {
        let mut directive = Self::new(name, Setter::Custom(set), "");
        directive.arity = Arity { min, max };
        directive
    }
    /// A directive that opens a block.
    pub const fn block(name: &'static str, min: u16, max: u16, set: Custom<C>) -> Self {
        let mut directive = Self::custom(name, min, max, set);
        directive.shape = Shape::Block;
        directive
    }
    /// A directive that opens a block of Lua.
    pub const fn lua_block(name: &'static str, min: u16, max: u16, set: Custom<C>) -> Self {
        let mut directive = Self::custom(name, min, max, set);
        directive.shape = Shape::Lua;
        directive
    }
    /// Sets the places; the default is `http`, `server` and `location`.
    pub const fn within(mut self, contexts: Context) -> Self {
        self.contexts = contexts;
        self
    }
    /// Sets the documented default.
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
    /// Sets the documented syntax of the arguments.
    pub const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }
    /// Sets the line of documentation.
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

/// A module with configuration struct `C`.
pub struct Module<C: 'static> {
    /// Name, e.g. `autoindex`.
    pub name: &'static str,
    /// Its directives.
    pub directives: &'static [Directive<C>],
    /// Variables that it defines.
    pub variables: &'static [VariableDef],
    /// A few lines of configuration for the reference pages, such as one would write at the top level, in `http` or in
    /// `server`; a test loads them.
    pub example: &'static str,
    /// Fills what an inner level leaves open from the outer one. `kind` is the inner level's: a content handler such as
    /// `proxy_pass` is inherited by `if` and `limit_except` blocks ([`Context::is_unnamed`]) but not by nested locations.
    pub inherit: fn(child: &mut C, parent: &C, kind: Context),
    /// Called once after the whole `http` block is read and inherited, with the configuration of the `http` level:
    /// for checks over everything and for what needs all names to be known.
    pub finish: Option<fn(&mut C, &mut Build<'_>) -> Result<(), Diagnostic>>,
    /// Called for each level that has a configuration of its own, when everything is read and inherited: finds what could
    /// only fail later, when a request comes.
    pub check: Option<fn(&C, &Checked<'_>, &mut Diagnostics)>,
    /// Registers handlers for a location (or a server, before a location is known) that has this configuration.
    pub install: fn(&Arc<C>, &mut Program),
    /// Called on each worker's thread as it starts, with the configuration of the `http` level. An error, a sentence,
    /// keeps the worker from starting.
    pub init_worker: Option<fn(&Arc<C>) -> Result<(), String>>,
    /// Called on each worker's thread as it ends, with the configuration of the `http` level: after the last request,
    /// or at once when the worker is stopped. The worker waits for the future.
    pub exit_worker: Option<fn(&Arc<C>, WorkerEnd) -> LocalFuture<()>>,
    /// Position in the registry; given by [`crate::registry::Registry`].
    pub slot: Slot,
}

impl<C: 'static> Module<C> {
    /// A module without anything; set the fields with struct update syntax in a `static`.
    pub const fn named(name: &'static str) -> Self {
        Module {
            name,
            directives: &[],
            variables: &[],
            example: "",
            inherit: |_, _, _| {},
            finish: None,
            check: None,
            install: |_, _| {},
            init_worker: None,
            exit_worker: None,
            slot: Slot::new(),
        }
    }
}

/// What [`Module::check`] looks at.
pub struct Checked<'a> {
    /// The whole configuration.
    pub config: &'a Config,
    /// The level whose configuration is looked at.
    pub level: &'a Level,
}

/// Position of a module in the registry.
#[derive(Debug)]
pub struct Slot(AtomicU32);

impl Slot {
    /// A slot that the registry fills.
    pub const fn new() -> Self {
        Slot(AtomicU32::new(u32::MAX))
    }
    /// The position; `usize::MAX`-like before registration.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

/// A configuration struct whose type is not known.
pub type AnyConf = dyn Any + Send + Sync;

/// What the documentation and the checks need of a directive.
#[derive(Debug, Clone, Copy)]
pub struct DirectiveInfo {
    /// Name.
    pub name: &'static str,
    /// Blocks that the directive may stand in.
    pub contexts: Context,
    /// Number of arguments.
    pub arity: Arity,
    /// End of the directive: `;` or a block.
    pub shape: Shape,
    /// Default.
    pub default: Option<&'static str>,
    /// Arguments.
    pub syntax: &'static str,
    /// Its effect, in one line.
    pub doc: &'static str,
}

/// A module whose configuration type is not known.
pub trait AnyModule: Sync {
    /// Name.
    fn name(&self) -> &'static str;
    /// Gives the module its position.
    fn set_slot(&self, slot: usize);
    /// Type of the configuration struct.
    fn conf_type(&self) -> TypeId;
    /// The directives, in the order of the table.
    fn directives(&self) -> Vec<DirectiveInfo>;
    /// Variables that it defines.
    fn variables(&self) -> &'static [VariableDef];
    /// See [`Module::example`].
    fn example(&self) -> &'static str;
    /// A configuration with everything open.
    fn new_conf(&self) -> Box<AnyConf>;
    /// Applies directive number `index` of the table.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    fn apply(
        &self,
        index: usize,
        conf: &mut AnyConf,
        directive: &ast::Directive,
        build: &mut Build<'_>,
    ) -> Result<(), Diagnostic>;
    /// See [`Module::inherit`].
    fn inherit(&self, child: &mut AnyConf, parent: &AnyConf, kind: Context);
    /// See [`Module::finish`].
    ///
    /// # Errors
    /// What is wrong with the configuration as a whole.
    fn finish(&self, conf: &mut AnyConf, build: &mut Build<'_>) -> Result<(), Diagnostic>;
    /// See [`Module::check`].
    fn check(&self, conf: &AnyConf, checked: &Checked<'_>, diagnostics: &mut Diagnostics);
    /// See [`Module::install`].
    fn install(&self, conf: &Arc<AnyConf>, program: &mut Program);
    /// See [`Module::init_worker`].
    ///
    /// # Errors
    /// Why the worker cannot start.
    fn init_worker(&self, conf: &Arc<AnyConf>) -> Result<(), String>;
    /// See [`Module::exit_worker`].
    fn exit_worker(&self, conf: &Arc<AnyConf>, end: WorkerEnd) -> Option<LocalFuture<()>>;
}

const RIGHT_TYPE: &str = "the registry hands each module its own configuration";

impl<C: Default + Send + Sync + 'static> AnyModule for Module<C> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn set_slot(&self, slot: usize) {
        self.slot.0.store(u32::try_from(slot).expect("fewer modules than u32"), Ordering::Relaxed);
    }
    fn conf_type(&self) -> TypeId {
        TypeId::of::<C>()
    }
    fn directives(&self) -> Vec<DirectiveInfo> {
        self.directives
            .iter()
            .map(|d| DirectiveInfo {
                name: d.name,
                contexts: d.contexts,
                arity: d.arity,
                shape: d.shape,
                default: d.default,
                syntax: d.syntax,
                doc: d.doc,
            })
            .collect()
    }
    fn variables(&self) -> &'static [VariableDef] {
        self.variables
    }
    fn example(&self) -> &'static str {
        self.example
    }
    fn new_conf(&self) -> Box<AnyConf> {
        Box::new(C::default())
    }
    fn apply(
        &self,
        index: usize,
        conf: &mut AnyConf,
        directive: &ast::Directive,
        build: &mut Build<'_>,
    ) -> Result<(), Diagnostic> {
        let conf = conf.downcast_mut::<C>().expect(RIGHT_TYPE);
        apply_setter(&self.directives[index].setter, conf, directive, build)
    }
    fn inherit(&self, child: &mut AnyConf, parent: &AnyConf, kind: Context) {
        let child = child.downcast_mut::<C>().expect(RIGHT_TYPE);
        (self.inherit)(child, parent.downcast_ref::<C>().expect(RIGHT_TYPE), kind);
    }
    fn finish(&self, conf: &mut AnyConf, build: &mut Build<'_>) -> Result<(), Diagnostic> {
        match self.finish {
            Some(finish) => finish(conf.downcast_mut::<C>().expect(RIGHT_TYPE), build),
            None => Ok(()),
        }
    }
    fn check(&self, conf: &AnyConf, checked: &Checked<'_>, diagnostics: &mut Diagnostics) {
        if let Some(check) = self.check {
            check(conf.downcast_ref::<C>().expect(RIGHT_TYPE), checked, diagnostics);
        }
    }
    fn install(&self, conf: &Arc<AnyConf>, program: &mut Program) {
        let conf = conf.clone().downcast::<C>().expect(RIGHT_TYPE);
        (self.install)(&conf, program);
    }
    fn init_worker(&self, conf: &Arc<AnyConf>) -> Result<(), String> {
        match self.init_worker {
            Some(init_worker) => init_worker(&conf.clone().downcast::<C>().expect(RIGHT_TYPE)),
            None => Ok(()),
        }
    }
    fn exit_worker(&self, conf: &Arc<AnyConf>, end: WorkerEnd) -> Option<LocalFuture<()>> {
        let exit_worker = self.exit_worker?;
        Some(exit_worker(&conf.clone().downcast::<C>().expect(RIGHT_TYPE), end))
    }
}

fn apply_setter<C>(
    setter: &Setter<C>,
    conf: &mut C,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    use tidegate_conf::values;
    fn fill<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
        if field.is_some() {
            return Err(Diagnostic::duplicate(&directive.name.value, directive.name.span));
        }
        *field = Some(value);
        Ok(())
    }
    if let Setter::Custom(set) = setter {
        return set(conf, directive, build);
    }
    let arg = &directive.args[0]; // The arity of all these is one, checked before.
    let value = arg.value.as_bstr();
    let bad = |error: values::ValueError| error.diagnostic(&directive.name.value, arg);
    match setter {
        Setter::Flag(field) => fill(field(conf), values::flag(value).map_err(bad)?, directive),
        Setter::Size(field) => {
            let size = values::size(value).map_err(bad)?;
            fill(field(conf), usize::try_from(size).unwrap_or(usize::MAX), directive)
        }
        Setter::Offset(field) => fill(field(conf), values::offset(value).map_err(bad)?, directive),
        Setter::Time(field) => fill(field(conf), values::time(value).map_err(bad)?, directive),
        Setter::Number(field) => fill(field(conf), values::integer(value).map_err(bad)?, directive),
        Setter::Text(field) => fill(field(conf), arg.value.clone(), directive),
        Setter::Template(field) => {
            let template = build.template(arg)?;
            fill(field(conf), template, directive)
        }
        Setter::Enum(field, words) => fill(field(conf), values::word(value, words).map_err(bad)?, directive),
        Setter::Custom(_) => Ok(()),
    }
}

/// Takes the outer level's value for each field that the inner level left open.
#[macro_export]
macro_rules! inherit {
    ($child:ident, $parent:ident; $($field:ident),+ $(,)?) => {
        $( if $child.$field.is_none() { $child.$field.clone_from(&$parent.$field); } )+
    };
}
