//! Makes a [`Config`] of syntax trees: finds each directive's module, applies it, inherits, installs handlers.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, SourceMap, Span, ast, template as text};

use crate::{
    conf::{Config, CoreConfs, Level, LevelId, Listen, MethodSet, Server, ServerId, ServiceListen},
    listeners::{ListenAddr, ListenSpec},
    location::{LocationDraft, Locations},
    module::{AnyConf, Context, DirectiveInfo, Module, Shape},
    phase::Program,
    regex::Regex,
    registry::Registry,
    server_name::ServerNames,
    template::{Part, Template},
    variable::{VariableId, Variables},
};

struct DraftLevel {
    kind: Context,
    parent: Option<LevelId>,
    name: BString,
    confs: Vec<Option<Box<AnyConf>>>,
    locations: Vec<LocationDraft>,
    limit_except: Option<(MethodSet, LevelId)>,
    server: Option<ServerId>,
}

/// Parameters of `listen` that belong to the servers, not to the socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListenFlags {
    /// `default_server`
    pub default_server: bool,
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// `ssl`
    pub ssl: bool,
    /// `http2`
    pub http2: bool,
    /// Socket options were given here.
    pub explicit: bool,
    /// `bind`: a socket of its own, although another accepts on all addresses of the port.
    pub bind: bool,
}

/// A `listen` of a server.
pub struct ListenDraft {
    /// Address and options of the socket.
    pub spec: ListenSpec,
    /// The server that says so.
    pub server: ServerId,
    /// Flags of the directive that do not belong to the socket.
    pub flags: ListenFlags,
    /// Place of the directive in the configuration.
    pub span: Option<Span>,
}

/// A configuration in the making.
pub struct Build<'a> {
    registry: &'static Registry,
    /// The files.
    pub sources: &'a SourceMap,
    /// The problems that were found so far.
    pub diagnostics: &'a mut Diagnostics,
    /// Variables; see [`Build::template`] for references.
    pub variables: Variables,
    /// Directory that relative paths start from.
    pub prefix: PathBuf,
    /// Directory of the configuration file.
    pub conf_dir: PathBuf,
    /// Only a test (`-t`): nothing outside is to be touched.
    pub testing: bool,
    /// Levels of `upstream` blocks by name, in lower case.
    pub upstreams: HashMap<BString, LevelId>,
    /// All `listen` so far.
    pub listens: Vec<ListenDraft>,
    /// All `listen` of other services so far.
    pub services: Vec<ServiceListen>,
    /// Directories that workers write to; made theirs before they start.
    pub temp_paths: Vec<PathBuf>,
    /// See [`data_path`](Self::data_path).
    data_paths: Vec<PathBuf>,
    /// Names of each server.
    pub server_names: Vec<Vec<(BString, Option<Span>)>>,
    levels: Vec<DraftLevel>,
    servers: Vec<LevelId>,
    current: LevelId,
    http: Option<LevelId>,
    references: Vec<(VariableId, Span)>,
    by_name: HashMap<&'static str, Vec<(usize, usize, DirectiveInfo)>>,
}

impl<'a> Build<'a> {
    pub(super) fn new(
        registry: &'static Registry,
        sources: &'a SourceMap,
        diagnostics: &'a mut Diagnostics,
        prefix: PathBuf,
        conf_dir: PathBuf,
    ) -> Self {
        let mut build = Build {
            registry,
            sources,
            diagnostics,
            variables: Variables::default(),
            prefix,
            conf_dir,
            testing: false,
            upstreams: HashMap::new(),
            listens: Vec::new(),
            services: Vec::new(),
            temp_paths: Vec::new(),
            data_paths: Vec::new(),
            server_names: Vec::new(),
            levels: Vec::new(),
            servers: Vec::new(),
            current: LevelId(0),
            http: None,
            references: Vec::new(),
            by_name: HashMap::new(),
        };
        for (slot, module) in registry.modules().iter().enumerate() {
            build.variables.add_native(module.variables());
            for (index, info) in module.directives().into_iter().enumerate() {
                build.by_name.entry(info.name).or_default().push((slot, index, info));
            }
        }
        build.open_level(Context::MAIN, None, BString::default());
        build
    }

    /// Makes a level inside `parent`; fill it with [`walk`](Self::walk).
    pub fn open_level(&mut self, kind: Context, parent: Option<LevelId>, name: BString) -> LevelId {
        let id = LevelId(u32::try_from(self.levels.len()).unwrap_or(u32::MAX));
        let mut confs = Vec::new();
        confs.resize_with(self.registry.modules().len(), || None);
        let server = parent.and_then(|parent| self.levels[parent.0 as usize].server);
        self.levels.push(DraftLevel { kind, parent, name, confs, locations: Vec::new(), limit_except: None, server });
        if kind == Context::HTTP {
            self.http = Some(id);
        }
        id
    }

    /// Makes a server; fill its level with [`walk`](Self::walk).
    pub fn open_server(&mut self, parent: LevelId) -> (ServerId, LevelId) {
        let level = self.open_level(Context::SERVER, Some(parent), BString::default());
        let server = ServerId(u32::try_from(self.servers.len()).unwrap_or(u32::MAX));
        self.levels[level.0 as usize].server = Some(server);
        self.servers.push(level);
        self.server_names.push(Vec::new());
        (server, level)
    }

    /// The level that directives are being applied at.
    pub fn level(&self) -> LevelId {
        self.current
    }
    /// Kind of the level that directives are being applied at.
    pub fn kind(&self) -> Context {
        self.levels[self.current.0 as usize].kind
    }
    /// Kind of some level.
    pub fn kind_of(&self, level: LevelId) -> Context {
        self.levels[level.0 as usize].kind
    }
    /// Name of some level.
    pub fn name_of(&self, level: LevelId) -> &BStr {
        self.levels[level.0 as usize].name.as_bstr()
    }
    /// The block around some level.
    pub fn parent_of(&self, level: LevelId) -> Option<LevelId> {
        self.levels[level.0 as usize].parent
    }
    /// The server around the current level.
    pub fn server(&self) -> Option<ServerId> {
        self.levels[self.current.0 as usize].server
    }
    /// The `http` level, once it was opened.
    pub fn http_level(&self) -> Option<LevelId> {
        self.http
    }
    /// Adds a location to the current level.
    pub fn add_location(&mut self, draft: LocationDraft) {
        self.levels[self.current.0 as usize].locations.push(draft);
    }
    /// Sends requests at the current level whose method is not one of `allowed` to `level`. Answers whether there was
    /// no such rule yet.
    pub fn set_limit_except(&mut self, allowed: MethodSet, level: LevelId) -> bool {
        let slot = &mut self.levels[self.current.0 as usize].limit_except;
        let first = slot.is_none();
        *slot = Some((allowed, level));
        first
    }
    /// Locations of some level so far.
    pub fn locations_of(&self, level: LevelId) -> &[LocationDraft] {
        &self.levels[level.0 as usize].locations
    }

    /// What a module's directives say at some level so far. Must not be called by a module's own setter for its own
    /// configuration at the current level: the setter holds that already.
    pub fn conf_mut<C: Default + Send + Sync + 'static>(
        &mut self,
        module: &'static Module<C>,
        level: LevelId,
    ) -> &mut C {
        self.levels[level.0 as usize].confs[module.slot.get()]
            .get_or_insert_with(|| Box::new(C::default()))
            .downcast_mut::<C>()
            .expect("a slot holds its module's configuration")
    }

    /// What a module's directives say at some level, if any stands there.
    pub fn conf_at<C: Send + Sync + 'static>(&self, module: &'static Module<C>, level: LevelId) -> Option<&C> {
        self.levels[level.0 as usize].confs[module.slot.get()].as_ref()?.downcast_ref::<C>()
    }

    /// Compiles text with variables.
    ///
    /// # Errors
    /// Bad syntax. Variables that nobody defines are reported when the whole configuration is known.
    pub fn template(&mut self, arg: &ast::Arg) -> Result<Template, Diagnostic> {
        self.template_at(arg.value.as_bstr(), arg.span)
    }

    /// Compiles text with variables that stands at `span`.
    ///
    /// # Errors
    /// Bad syntax.
    pub fn template_at(&mut self, value: &BStr, span: Span) -> Result<Template, Diagnostic> {
        let segments = text::parse_template(value).map_err(|error| error.diagnostic(span))?;
        let parts = segments
            .into_iter()
            .map(|segment| match segment {
                text::Segment::Literal(literal) => Part::Literal(literal),
                text::Segment::Variable(name) => Part::Variable(self.reference(name.as_bstr(), span)),
                text::Segment::Capture(group) => Part::Capture(group),
            })
            .collect();
        Ok(Template::new(parts))
    }

    /// The number of the variable called `name`, which may be defined further down.
    pub fn reference(&mut self, name: &BStr, span: Span) -> VariableId {
        let id = self.variables.reference(name);
        self.references.push((id, span));
        id
    }

    /// The number of the variable that `$name` in an argument stands for.
    ///
    /// # Errors
    /// The argument is not `$name`.
    pub fn variable_name<'n>(&self, arg: &'n ast::Arg) -> Result<&'n BStr, Diagnostic> {
        match arg.value.strip_prefix(b"$") {
            Some(name) if !name.is_empty() => Ok(name.as_bstr()),
            _ => Err(Diagnostic::new(Severity::Emerg, arg.span, format!("invalid variable name \"{}\"", arg.value))),
        }
    }

    /// Defines the variables that named groups of a pattern set.
    ///
    /// # Errors
    /// A group has the name of a variable that cannot be changed.
    pub fn define_captures(&mut self, regex: &Regex, span: Span) -> Result<(), Diagnostic> {
        let mut variables = Vec::with_capacity(regex.names().len());
        for (name, group) in regex.names() {
            let id = self
                .variables
                .define_capture(name.as_bstr())
                .map_err(|_| Diagnostic::new(Severity::Emerg, span, format!("the duplicate \"{name}\" variable")))?;
            variables.push((id, *group));
        }
        regex.bind(variables);
        Ok(())
    }

    /// A path as nginx understands it: relative ones start from the prefix.
    pub fn full_path(&self, path: &BStr) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.prefix.join(std::ffi::OsStr::from_bytes(path))
    }

    /// Applies the directives of a block to `level`.
    pub fn walk(&mut self, level: LevelId, context: Context, directives: &[ast::Directive]) {
        let outer = std::mem::replace(&mut self.current, level);
        for directive in directives {
            if let Err(diagnostic) = self.apply(context, directive) {
                self.diagnostics.push(diagnostic);
            }
        }
        self.current = outer;
    }

    fn apply(&mut self, context: Context, directive: &ast::Directive) -> Result<(), Diagnostic> {
        let name = std::str::from_utf8(&directive.name.value).unwrap_or("");
        let Some(candidates) = self.by_name.get(name) else {
            let (written, span) = (&directive.name.value, directive.name.span);
            return Err(match super::absent::feature(name) {
                Some(feature) => Diagnostic::unsupported_directive(written, span, feature),
                None => Diagnostic::unknown_directive(written, span, self.by_name.keys().copied()),
            });
        };
        let Some(&(slot, index, info)) = candidates.iter().find(|(_, _, info)| info.contexts.allows(context)) else {
            let allowed = candidates.iter().flat_map(|(_, _, info)| info.contexts.names());
            return Err(Diagnostic::wrong_context(&directive.name.value, directive.name.span, allowed));
        };
        check_shape(directive, &info, self.sources)?;
        let level = self.current.0 as usize;
        let module = self.registry.modules()[slot];
        // The setter gets its configuration and the rest of the build, so the configuration leaves the draft meanwhile.
        let mut conf = self.levels[level].confs[slot].take().unwrap_or_else(|| module.new_conf());
        let result = module.apply(index, &mut *conf, directive, self);
        self.levels[level].confs[slot] = Some(conf);
        result
    }

    /// The levels of all servers so far, in the order of [`server_names`](Self::server_names).
    pub fn server_levels(&self) -> &[LevelId] {
        &self.servers
    }

    /// Takes note of a directory that workers write to, relative to the prefix.
    pub fn temp_path(&mut self, path: &[u8]) {
        let path = self.full_path(path.as_bstr());
        if !self.temp_paths.contains(&path) {
            self.temp_paths.push(path);
        }
    }

    /// As [`temp_path`](Self::temp_path), for a directory whose absence keeps only its module from working.
    pub fn data_path(&mut self, path: &[u8]) {
        let path = self.full_path(path.as_bstr());
        if !self.data_paths.contains(&path) {
            self.data_paths.push(path);
        }
    }

    /// Everything is read: checks what needs the whole, inherits, installs.
    pub(super) fn finish(mut self, conf_path: PathBuf) -> Option<Config> {
        self.report_unknown_variables();
        self.call_finish();
        let listens = self.listens();
        self.check_services(&listens);
        if self.diagnostics.has_errors() {
            return None;
        }
        let (registry, prefix, http) = (self.registry, self.prefix.clone(), self.http);
        let servers = self.finish_servers();
        let drafts = std::mem::take(&mut self.levels);
        let levels = inherit_levels(registry, drafts, self.diagnostics);
        if self.diagnostics.has_errors() {
            return None;
        }
        Some(Config {
            levels,
            http,
            servers,
            listens,
            services: self.services,
            variables: self.variables,
            upstreams: self.upstreams,
            temp_paths: self.temp_paths,
            data_paths: self.data_paths,
            prefix,
            conf_path,
            sources: SourceMap::default(),
            warnings: Vec::new(),
            registry,
        })
    }

    fn report_unknown_variables(&mut self) {
        for (id, span) in std::mem::take(&mut self.references) {
            if self.variables.is_undefined(id) {
                let name = self.variables.name(id);
                self.diagnostics.push(Diagnostic::unknown_variable(name, span, self.variables.names()));
            }
        }
    }

    fn call_finish(&mut self) {
        let level = self.http.unwrap_or(LevelId(0)).0 as usize;
        for (slot, module) in self.registry.modules().iter().enumerate() {
            let mut conf = self.levels[level].confs[slot].take().unwrap_or_else(|| module.new_conf());
            if let Err(diagnostic) = module.finish(&mut *conf, self) {
                self.diagnostics.push(diagnostic);
            }
            self.levels[level].confs[slot] = Some(conf);
        }
    }

    fn finish_servers(&mut self) -> Vec<Server> {
        let mut servers = Vec::new();
        for (index, &level) in self.servers.iter().enumerate() {
            let named = self.levels[level.0 as usize]
                .locations
                .iter()
                .filter(|location| location.is_named())
                .map(|location| (location.text.clone(), location.level))
                .collect();
            let name = self.server_names[index].first().map(|(name, _)| shown_name(name)).unwrap_or_default();
            servers.push(Server { level, name, named });
        }
        servers
    }

    /// Reports addresses of other services that somebody else has too.
    fn check_services(&mut self, listens: &[Listen]) {
        let mut taken: Vec<&ListenAddr> = listens.iter().map(|listen| &listen.spec.addr).collect();
        for service in &self.services {
            if taken.contains(&&service.spec.addr) {
                self.diagnostics.error(service.span, format!("a duplicate listen {}", service.spec.addr));
            }
            taken.push(&service.spec.addr);
        }
    }

    /// Groups the `listen`s by address.
    fn listens(&mut self) -> Vec<Listen> {
        let mut order: Vec<Vec<ListenDraft>> = Vec::new();
        for draft in std::mem::take(&mut self.listens) {
            match order.iter_mut().find(|group| group[0].spec.addr == draft.spec.addr) {
                None => order.push(vec![draft]),
                Some(group) => {
                    if draft.flags.default_server && group.iter().any(|other| other.flags.default_server) {
                        let message = format!("a duplicate default server for {}", draft.spec.addr);
                        self.diagnostics.push(Diagnostic::new(Severity::Emerg, draft.span, message));
                    }
                    if draft.flags.explicit && group.iter().any(|other| other.flags.explicit) {
                        let message = format!("duplicate listen options for {}", draft.spec.addr);
                        self.diagnostics.push(Diagnostic::new(Severity::Emerg, draft.span, message));
                    }
                    if group.iter().any(|other| other.server == draft.server) {
                        let message = format!("a duplicate listen {}", draft.spec.addr);
                        self.diagnostics.push(Diagnostic::new(Severity::Emerg, draft.span, message));
                    }
                    group.push(draft);
                }
            }
        }
        let bound: Vec<bool> = order.iter().map(|group| group.iter().any(|draft| draft.flags.bind)).collect();
        let mut listens: Vec<Listen> = order.into_iter().map(|group| self.listen_of(group)).collect();
        share_wildcards(&mut listens, &bound);
        listens
    }

    fn listen_of(&mut self, group: Vec<ListenDraft>) -> Listen {
        let default = group.iter().find(|draft| draft.flags.default_server).unwrap_or(&group[0]).server;
        let mut names = ServerNames::default();
        for draft in &group {
            for (name, span) in &self.server_names[draft.server.0 as usize] {
                match names.add(name.as_bstr(), draft.server) {
                    Ok(true) => {}
                    Ok(false) => {
                        let message = format!("conflicting server name \"{name}\" on {}, ignored", draft.spec.addr);
                        self.diagnostics.warn(*span, message);
                    }
                    Err(error) => {
                        self.diagnostics.error(*span, error.to_string());
                    }
                }
            }
        }
        let proxy_protocol = group.iter().any(|draft| draft.flags.proxy_protocol);
        let http2 = group.iter().any(|draft| draft.flags.http2);
        let ssl = group.iter().find(|draft| draft.flags.ssl).and_then(|draft| draft.span);
        // Socket options stand with any one of the servers.
        let spec = group.iter().find(|draft| draft.flags.explicit).unwrap_or(&group[0]).spec.clone();
        let one_server = names.is_trivial(default);
        Listen {
            spec,
            default,
            names,
            one_server,
            proxy_protocol,
            http2,
            ssl,
            shared_with: Vec::new(),
            is_shared: false,
        }
    }
}

/// A socket on all addresses of a port takes the connections to single ones too: the system does not let both be bound.
///
/// Source: nginx, `ngx_http_init_listening`.
fn share_wildcards(listens: &mut [Listen], bound: &[bool]) {
    let address = |listen: &Listen| match listen.spec.addr {
        ListenAddr::Tcp(address) => Some(address),
        ListenAddr::Unix(_) => None,
    };
    for wildcard in 0..listens.len() {
        let Some(all) = address(&listens[wildcard]).filter(|address| address.ip().is_unspecified()) else {
            continue;
        };
        for exact in 0..listens.len() {
            let shares = |one: &std::net::SocketAddr| one.port() == all.port() && one.is_ipv4() == all.is_ipv4();
            if let Some(one) = address(&listens[exact]).filter(shares)
                && exact != wildcard
                && !bound[exact]
            {
                listens[exact].is_shared = true;
                listens[wildcard].shared_with.push((one, exact));
            }
        }
    }
}

fn check_shape(directive: &ast::Directive, info: &DirectiveInfo, sources: &SourceMap) -> Result<(), Diagnostic> {
    let name = &directive.name;
    match (&directive.body, info.shape) {
        (ast::Body::None, Shape::Block | Shape::Lua) => {
            return Err(Diagnostic::block_expected(&name.value, name.span));
        }
        (ast::Body::Block(_), Shape::Simple) => return Err(Diagnostic::block_not_expected(&name.value, name.span)),
        _ => {}
    }
    let count = directive.args.len();
    if count < usize::from(info.arity.min) || (info.arity.max != u16::MAX && count > usize::from(info.arity.max)) {
        return Err(Diagnostic::invalid_arguments_of(directive, sources, info.syntax));
    }
    Ok(())
}

/// Turns drafts into levels, outer ones first: each inherits from its parent, then installs its handlers.
fn inherit_levels(registry: &'static Registry, drafts: Vec<DraftLevel>, diagnostics: &mut Diagnostics) -> Vec<Level> {
    let modules = registry.modules();
    let mut levels: Vec<Level> = Vec::with_capacity(drafts.len());
    // What a level without any directive of a module gets from a given parent is the same for all such levels.
    let mut derived: HashMap<(u32, usize), Arc<AnyConf>> = HashMap::new();
    for draft in drafts {
        let mut confs = Vec::with_capacity(modules.len());
        for (slot, (module, conf)) in modules.iter().zip(draft.confs).enumerate() {
            let parent = draft.parent.map(|parent| (parent.0, &levels[parent.0 as usize].confs[slot]));
            confs.push(match (conf, parent) {
                (Some(conf), None) => Arc::from(conf),
                (None, None) => Arc::from(module.new_conf()),
                (None, Some((_, parent))) if draft.kind.is_unnamed() => parent.clone(),
                (None, Some((id, parent))) => derived
                    .entry((id, slot))
                    .or_insert_with(|| {
                        let mut conf = module.new_conf();
                        module.inherit(&mut *conf, &**parent, draft.kind);
                        Arc::from(conf)
                    })
                    .clone(),
                (Some(mut conf), Some((_, parent))) => {
                    module.inherit(&mut *conf, &**parent, draft.kind);
                    Arc::from(conf)
                }
            });
        }
        let mut program = Program::new(draft.kind);
        let request_kinds = Context::SERVER.or(Context::LOCATION).or(Context(32 | 64 | 128));
        if draft.kind.allows(request_kinds) {
            let around =
                draft.parent.filter(|_| draft.kind.is_unnamed()).map(|parent| &levels[parent.0 as usize].confs);
            for (slot, (module, conf)) in modules.iter().zip(&confs).enumerate() {
                program.is_inherited = around.is_some_and(|around| Arc::ptr_eq(&around[slot], conf));
                module.install(conf, &mut program);
            }
        }
        levels.push(Level {
            kind: draft.kind,
            parent: draft.parent,
            name: draft.name,
            program,
            locations: Locations::new(draft.locations, diagnostics),
            limit_except: draft.limit_except,
            core: CoreConfs::of(&confs),
            confs: confs.into(),
        });
    }
    levels
}

/// `$server_name`: the first name, in lower case and without the dot that stands for a wildcard, or a pattern as it is.
fn shown_name(name: &BString) -> BString {
    match &***name {
        [b'~', ..] => name.clone(),
        [b'.', rest @ ..] => rest.to_ascii_lowercase().into(),
        name => name.to_ascii_lowercase().into(),
    }
}
