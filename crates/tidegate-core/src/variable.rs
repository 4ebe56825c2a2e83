//! Variables: names are resolved to numbers while the configuration loads; a request looks up numbers only.
//!
//! A variable is *native* (computed by a function each time: `$uri`), *computed* (by what a directive compiled: `map`),
//! or *plain* (only ever assigned: `set`). Computed and plain ones have a slot in the request that holds their value.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
};

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::{log::Level, request::Request};

/// Number of a variable in its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VariableId(pub u32);

/// Appends the value for `req` to `out`; answers whether there is one. `arg` is the rest of the name of a prefix
/// variable (`foo` of `$arg_foo`), empty otherwise. It must leave `out` as it was when it answers `false`.
pub type NativeGet = fn(req: &Request, arg: &[u8], out: &mut Vec<u8>) -> bool;

/// Assigns a native variable.
pub type NativeSet = fn(req: &Rc<Request>, arg: &[u8], value: &[u8]);

/// Computes a variable that a directive defined; like [`NativeGet`].
pub type Compute = Box<dyn Fn(&Request, &mut Vec<u8>) -> bool + Send + Sync>;

/// A variable of a module.
pub struct VariableDef {
    /// Name without `$`; a name that ends in `_` stands for all names that begin so.
    pub name: &'static str,
    /// Gives the value.
    pub get: NativeGet,
    /// Takes a value, for variables that a configuration or Lua may change.
    pub set: Option<NativeSet>,
    /// The meaning of its value, in one line.
    pub doc: &'static str,
}

impl VariableDef {
    /// A variable that cannot be changed.
    pub const fn new(name: &'static str, get: NativeGet, doc: &'static str) -> Self {
        Self { name, get, set: None, doc }
    }
    /// A variable that can be changed.
    pub const fn changeable(name: &'static str, get: NativeGet, set: NativeSet, doc: &'static str) -> Self {
        Self { name, get, set: Some(set), doc }
    }
    fn is_prefix(&self) -> bool {
        self.name.ends_with('_')
    }
}

enum Source {
    Native {
        get: NativeGet,
        set: Option<NativeSet>,
        arg: Box<[u8]>,
    },
    Computed {
        compute: Compute,
        cached: bool,
        changeable: bool,
    },
    Plain {
        /// Reading it before it was assigned is worth a warning; not so for groups of patterns.
        warns: bool,
    },
    /// Used, but not defined yet.
    Undefined,
}

struct Variable {
    name: BString,
    source: Source,
    /// Position of its value among the request's slots.
    slot: Option<u32>,
}

/// Variables with a prefix that nginx has under their whole name: they cannot be defined anew.
///
/// Source: nginx, `ngx_http_core_variables`.
const KNOWN_WHOLE: [&str; 15] = [
    "http_cookie",
    "http_host",
    "http_referer",
    "http_user_agent",
    "http_via",
    "http_x_forwarded_for",
    "sent_http_cache_control",
    "sent_http_connection",
    "sent_http_content_length",
    "sent_http_content_type",
    "sent_http_keep_alive",
    "sent_http_last_modified",
    "sent_http_link",
    "sent_http_location",
    "sent_http_transfer_encoding",
];

/// Prefixes whose variables mean what they always do until they are assigned.
///
/// Source: nginx, `ngx_http_rewrite_set`.
const SHOWN_UNTIL_ASSIGNED: [&str; 6] =
    ["http_", "sent_http_", "upstream_http_", "cookie_", "upstream_cookie_", "arg_"];

impl Variable {
    /// Whether a directive may define a prefix variable of this name.
    fn is_open(&self) -> bool {
        !KNOWN_WHOLE.iter().any(|known| self.name == *known)
    }
    fn shows_native(&self) -> bool {
        SHOWN_UNTIL_ASSIGNED.iter().any(|prefix| self.name.starts_with(prefix.as_bytes()))
    }
}

/// All variables of a configuration.
#[derive(Default)]
pub struct Variables {
    list: Vec<Variable>,
    /// The names are the configuration's: nobody else chooses what is in here.
    by_name: FxHashMap<BString, VariableId>,
    prefixes: Vec<&'static VariableDef>,
    slot_count: u32,
}

/// Why a variable cannot be defined or assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// Another module defined it and it cannot be changed.
    #[error("the duplicate variable")]
    Duplicate,
    /// There is no variable of that name.
    #[error("unknown variable")]
    Unknown,
    /// The variable cannot be changed.
    #[error("variable not changeable")]
    NotChangeable,
}

impl Variables {
    /// Adds a module's variables.
    pub fn add_native(&mut self, defs: &'static [VariableDef]) {
        for def in defs {
            if def.is_prefix() {
                self.prefixes.push(def);
            } else {
                let source = Source::Native { get: def.get, set: def.set, arg: Box::default() };
                self.push(BString::from(def.name), source, None);
            }
        }
        // The longest prefix wins: `$sent_http_x` before `$sent_x`.
        self.prefixes.sort_by_key(|def| std::cmp::Reverse(def.name.len()));
    }

    fn push(&mut self, name: BString, source: Source, slot: Option<u32>) -> VariableId {
        let id = VariableId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.by_name.insert(name.clone(), id);
        self.list.push(Variable { name, source, slot });
        id
    }

    fn new_slot(&mut self) -> Option<u32> {
        self.slot_count += 1;
        Some(self.slot_count - 1)
    }

    /// The variable called `name` (any case), if it is defined; prefix variables come to exist when first asked for.
    pub fn resolve(&mut self, name: &BStr) -> Option<VariableId> {
        let name = BString::from(name.to_ascii_lowercase());
        if let Some(&id) = self.by_name.get(&name) {
            return Some(id);
        }
        let def = self.prefixes.iter().find(|def| name.starts_with(def.name.as_bytes()))?;
        let source = Source::Native { get: def.get, set: def.set, arg: name[def.name.len()..].into() };
        Some(self.push(name, source, None))
    }

    /// Whether there is a variable of this number.
    #[inline]
    pub fn has(&self, id: VariableId) -> bool {
        (id.0 as usize) < self.list.len()
    }

    /// The variable called `name`, without making prefix variables exist.
    pub fn find(&self, name: &BStr) -> Option<VariableId> {
        match self.by_name.get(name) {
            Some(&id) => Some(id),
            None if name.iter().any(u8::is_ascii_uppercase) => {
                self.by_name.get(&BString::from(name.to_ascii_lowercase())).copied()
            }
            None => None,
        }
    }

    /// The prefix variable that `name` would be, with the rest of the name.
    pub fn find_prefix<'n>(&self, name: &'n BStr) -> Option<(&'static VariableDef, &'n [u8])> {
        let first = name.first()?.to_ascii_lowercase();
        let def = self.prefixes.iter().find(|def| {
            let prefix = def.name.as_bytes();
            prefix.first() == Some(&first)
                && name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        })?;
        Some((def, &name[def.name.len()..]))
    }

    /// The number of the variable called `name`, which may be defined later.
    pub fn reference(&mut self, name: &BStr) -> VariableId {
        match self.resolve(name) {
            Some(id) => id,
            None => self.push(name.to_ascii_lowercase().into(), Source::Undefined, None),
        }
    }

    /// Whether a variable that was referenced has not been defined.
    pub fn is_undefined(&self, id: VariableId) -> bool {
        matches!(self.list[id.0 as usize].source, Source::Undefined)
    }

    /// Defines a variable that is only ever assigned, or returns the one that exists if it can be assigned.
    ///
    /// # Errors
    /// [`VariableError::Duplicate`] if the name belongs to a native variable that cannot be changed.
    pub fn define_plain(&mut self, name: &BStr) -> Result<VariableId, VariableError> {
        self.define_assigned(name, true)
    }

    /// As [`define_plain`](Self::define_plain), for a named group of a pattern: it may have no value.
    ///
    /// # Errors
    /// [`VariableError::Duplicate`] if the name belongs to a native variable that cannot be changed.
    pub fn define_capture(&mut self, name: &BStr) -> Result<VariableId, VariableError> {
        let id = self.define_assigned(name, false)?;
        if let Source::Plain { warns } = &mut self.list[id.0 as usize].source {
            *warns = false;
        }
        Ok(id)
    }

    fn define_assigned(&mut self, name: &BStr, warns: bool) -> Result<VariableId, VariableError> {
        if let Some(id) = self.resolve(name) {
            let variable = &self.list[id.0 as usize];
            return match &variable.source {
                Source::Native { set: None, arg, .. } if !arg.is_empty() && variable.is_open() => {
                    if variable.slot.is_none() {
                        self.list[id.0 as usize].slot = self.new_slot();
                    }
                    if !self.list[id.0 as usize].shows_native() {
                        self.list[id.0 as usize].source = Source::Plain { warns };
                    }
                    Ok(id)
                }
                Source::Native { set: None, .. } => Err(VariableError::Duplicate),
                Source::Undefined => {
                    self.list[id.0 as usize].slot = self.new_slot();
                    self.list[id.0 as usize].source = Source::Plain { warns };
                    Ok(id)
                }
                _ => Ok(id),
            };
        }
        let slot = self.new_slot();
        Ok(self.push(name.to_ascii_lowercase().into(), Source::Plain { warns }, slot))
    }

    /// Defines a variable that a directive computes. With `cached` it is computed once for a request.
    ///
    /// # Errors
    /// [`VariableError::Duplicate`] if the name belongs to a native variable.
    pub fn define_computed(
        &mut self,
        name: &BStr,
        cached: bool,
        compute: Compute,
    ) -> Result<VariableId, VariableError> {
        if let Some(id) = self.resolve(name) {
            let variable = &self.list[id.0 as usize];
            if matches!(&variable.source, Source::Native { arg, .. } if arg.is_empty() || !variable.is_open()) {
                return Err(VariableError::Duplicate);
            }
            if self.list[id.0 as usize].slot.is_none() {
                self.list[id.0 as usize].slot = self.new_slot();
            }
            self.list[id.0 as usize].source = Source::Computed { compute, cached, changeable: true };
            return Ok(id);
        }
        let slot = self.new_slot();
        Ok(self.push(name.to_ascii_lowercase().into(), Source::Computed { compute, cached, changeable: true }, slot))
    }

    /// Names of all variables that are defined and can be written as text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let defined = self.list.iter().filter(|variable| !matches!(variable.source, Source::Undefined));
        defined.filter_map(|variable| variable.name.to_str().ok())
    }

    /// Name of a variable.
    pub fn name(&self, id: VariableId) -> &BStr {
        self.list[id.0 as usize].name.as_bstr()
    }

    /// Number of slots that a request needs.
    pub fn slot_count(&self) -> usize {
        self.slot_count as usize
    }
}

fn in_lower_case(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().any(u8::is_ascii_uppercase) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// One value that a request holds.
#[derive(Debug, Default, Clone)]
enum Slot {
    /// Not evaluated or assigned.
    #[default]
    Unset,
    /// Evaluated: there is no value.
    Missing,
    /// Assigned or evaluated.
    Value(Vec<u8>),
}

/// How deep variables that are computed of others may nest.
///
/// Source: nginx, `ngx_http_variable_depth`.
const EVALUATION_DEPTH_MAX: u32 = 100;

thread_local! {
    static EVALUATION_DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// One step further into variables that are computed of others; dropping it is the way back.
struct Deeper;

impl Deeper {
    fn enter() -> Option<Deeper> {
        EVALUATION_DEPTH.with(|depth| {
            (depth.get() < EVALUATION_DEPTH_MAX).then(|| {
                depth.set(depth.get() + 1);
                Deeper
            })
        })
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        EVALUATION_DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// The values that a request (and the sub-requests that share them) holds.
#[derive(Debug, Default)]
pub struct Values(RefCell<Vec<Slot>>);

impl Values {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        let Values(slots) = self;
        slots.get_mut().clear();
    }

    /// Makes room for `count` values in what was cleared, or is new.
    pub(crate) fn make_room(&mut self, count: usize) {
        self.0.get_mut().resize(count, Slot::Unset);
    }

    /// A copy of all values, for a sub-request that gets its own.
    pub fn copy(&self) -> Values {
        Values(RefCell::new(self.0.borrow().clone()))
    }
}

impl Request {
    /// Appends the value of a variable to `out`; answers whether it has one.
    pub fn variable(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        let conf = self.conf();
        let variable = &conf.variables.list[id.0 as usize];
        if let Some(slot) = variable.slot {
            match &self.values().0.borrow()[slot as usize] {
                Slot::Unset => {}
                Slot::Missing => return false,
                Slot::Value(value) => {
                    out.extend_from_slice(value);
                    return true;
                }
            }
        }
        match &variable.source {
            Source::Native { get, arg, .. } => get(self, arg, out),
            Source::Plain { warns: true } => {
                self.warn_of_uninitialized(variable);
                true
            }
            Source::Plain { warns: false } | Source::Undefined => false,
            Source::Computed { compute, cached, .. } => {
                let Some(_deeper) = Deeper::enter() else {
                    let name = &variable.name;
                    self.log(Level::Error, format_args!("cycle while evaluating variable \"{name}\""));
                    return false;
                };
                let start = out.len();
                let found = compute(self, out);
                if let (true, Some(slot)) = (*cached, variable.slot) {
                    let value = if found { Slot::Value(out[start..].to_vec()) } else { Slot::Missing };
                    self.values().0.borrow_mut()[slot as usize] = value;
                }
                found
            }
        }
    }

    /// A variable that `set` and the like assign is read before that: it is empty from now on, and the log says so once.
    #[cold]
    fn warn_of_uninitialized(&self, variable: &Variable) {
        if let Some(slot) = variable.slot {
            self.values().0.borrow_mut()[slot as usize] = Slot::Value(Vec::new());
        }
        if self.http_conf().uninitialized_variable_warn != Some(false) {
            self.log(Level::Warn, format_args!("using uninitialized \"{}\" variable", variable.name));
        }
    }

    /// The value of a variable as bytes of its own.
    pub fn variable_bytes(&self, id: VariableId) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.variable(id, &mut out).then_some(out)
    }

    /// Appends the value of the prefix variable called `name`, looked up now; for Lua's `ngx.var`.
    pub fn variable_with_prefix(&self, name: &BStr, out: &mut Vec<u8>) -> bool {
        match self.conf().variables.find_prefix(name) {
            Some((def, rest)) => (def.get)(self, &in_lower_case(rest), out),
            None => false,
        }
    }

    /// Assigns a variable; `None` takes its value away.
    ///
    /// # Errors
    /// [`VariableError::NotChangeable`] for native variables without a setter.
    pub fn set_variable(self: &Rc<Self>, id: VariableId, value: Option<&[u8]>) -> Result<(), VariableError> {
        let conf = self.conf();
        let variable = &conf.variables.list[id.0 as usize];
        match &variable.source {
            Source::Native { set: Some(set), arg, .. } => {
                set(self, arg, value.unwrap_or_default());
                return Ok(());
            }
            Source::Native { set: None, .. } if variable.slot.is_some() => {}
            Source::Native { set: None, .. } | Source::Computed { changeable: false, .. } => {
                return Err(VariableError::NotChangeable);
            }
            Source::Undefined => return Err(VariableError::Unknown),
            Source::Computed { .. } | Source::Plain { .. } => {}
        }
        let slot = variable.slot.ok_or(VariableError::NotChangeable)?;
        let values = self.values();
        let mut slots = values.0.borrow_mut();
        match (value, &mut slots[slot as usize]) {
            // The memory of the last value serves again.
            (Some(value), Slot::Value(old)) => {
                old.clear();
                old.extend_from_slice(value);
            }
            (Some(value), slot) => *slot = Slot::Value(value.to_vec()),
            (None, slot) => *slot = Slot::Missing,
        }
        Ok(())
    }

    /// Sets the variables that named groups of a pattern stand for.
    pub fn set_named_captures(&self, regex: &crate::regex::Regex, subject: &[u8], captures: &crate::regex::Captures) {
        let set = |id: VariableId, group: usize| {
            if let Some(slot) = self.conf().variables.list[id.0 as usize].slot {
                let value = captures.groups.get(group).copied().flatten();
                self.values().0.borrow_mut()[slot as usize] = match value {
                    Some((start, end)) => Slot::Value(subject[start..end].to_vec()),
                    None => Slot::Missing,
                };
            }
        };
        if let Some(variables) = regex.variables() {
            return variables.iter().for_each(|&(id, group)| set(id, group));
        }
        for (name, group) in regex.names() {
            if let Some(id) = self.conf().variables.find(name.as_bstr()) {
                set(id, *group);
            }
        }
    }

    /// Assigns the variable called `name`, looked up now; for Lua's `ngx.var`.
    ///
    /// # Errors
    /// [`VariableError::Unknown`] or [`VariableError::NotChangeable`].
    pub fn set_variable_named(self: &Rc<Self>, name: &BStr, value: Option<&[u8]>) -> Result<(), VariableError> {
        let conf = self.conf();
        if let Some(id) = conf.variables.find(name) {
            return self.set_variable(id, value);
        }
        match conf.variables.find_prefix(name) {
            Some((VariableDef { set: Some(set), .. }, rest)) => {
                set(self, &in_lower_case(rest), value.unwrap_or_default());
                Ok(())
            }
            Some(_) => Err(VariableError::NotChangeable),
            None => Err(VariableError::Unknown),
        }
    }
}
