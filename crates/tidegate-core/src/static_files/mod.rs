//! Files on disk: which one a path means, how it is opened, what type it has.
//!
//! - [`path`]: `root` and `alias`, from a URI to a file name
//! - [`open`]: opening, with the worker's cache ([`cache`]); [`nofollow`]: `disable_symlinks`
//! - [`read`]: reading without holding up the worker
//! - [`types`]: media types by extension
//!
//! What this does not know: which handler answers with a file. That is `static` and its siblings.
//!
//! Source: nginx, `ngx_http_core_module`, `ngx_open_file_cache`.

pub mod cache;
mod cold;
mod nofollow;
pub mod open;
pub mod path;
pub mod read;
pub mod types;

use std::{sync::Arc, time::Duration};

use bstr::ByteSlice;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};

use crate::{
    conf::Build,
    inherit,
    main_conf::{bad_value, duplicate},
    module::{Context, Directive, Module},
    template::Template,
};

/// `disable_symlinks off`
pub const SYMLINKS_ALLOWED: u32 = 0;
/// `disable_symlinks on`
pub const SYMLINKS_DENIED: u32 = 1;
/// `disable_symlinks if_not_owner`
pub const SYMLINKS_OF_OWNER: u32 = 2;

/// What the directives about files say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct Conf {
    pub root: Option<Arc<path::Root>>,
    pub etag: Option<bool>,
    pub sendfile: Option<bool>,
    pub sendfile_max_chunk: Option<usize>,
    pub tcp_nopush: Option<bool>,
    pub tcp_nodelay: Option<bool>,
    /// Files of this many bytes and more bypass the page cache; `u64::MAX` for none.
    pub directio: Option<u64>,
    pub directio_alignment: Option<u64>,
    pub aio: Option<bool>,
    pub aio_write: Option<bool>,
    pub output_buffers: Option<(u64, u64)>,
    pub read_ahead: Option<usize>,
    pub disable_symlinks: Option<u32>,
    pub disable_symlinks_from: Option<Template>,
    pub open_file_cache: Option<Arc<cache::Settings>>,
    pub open_file_cache_valid: Option<Duration>,
    pub open_file_cache_min_uses: Option<u64>,
    pub open_file_cache_errors: Option<bool>,
    pub open_file_cache_events: Option<bool>,
}

/// The module of files.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("root", 1, 1, |conf: &mut Conf, directive, build| path::set_root(conf, directive, build))
            .within(Context::ALL_IF)
            .syntax("path")
            .default("html")
            .doc("Directory that paths of requests are appended to."),
        Directive::custom("alias", 1, 1, |conf: &mut Conf, directive, build| path::set_alias(conf, directive, build))
            .within(Context::LOCATION)
            .syntax("path")
            .doc("Path that takes the place of the location's prefix in the file name."),
        Directive::flag("etag", |c: &mut Conf| &mut c.etag)
            .default("on")
            .doc("Static files have an ETag, made of their time and size."),
        Directive::flag("sendfile", |c: &mut Conf| &mut c.sendfile)
            .within(Context::ALL_IF)
            .doc("Large files go from the page cache to the socket; an explicit off reads them instead."),
        Directive::size("sendfile_max_chunk", |c: &mut Conf| &mut c.sendfile_max_chunk)
            .default("2m")
            .doc("Most bytes of a file that go to a client before other clients have their turn; 0 for any amount."),
        Directive::flag("tcp_nopush", |c: &mut Conf| &mut c.tcp_nopush)
            .default("off")
            .doc("The head of a response leaves in one packet with the beginning of its file."),
        Directive::flag("tcp_nodelay", |c: &mut Conf| &mut c.tcp_nodelay)
            .default("on")
            .doc("Small packets of kept-alive connections are sent at once."),
        Directive::custom("directio", 1, 1, directio)
            .syntax("size | off")
            .default("off")
            .doc("Files from this size on are read past the page cache, by other threads."),
        Directive::offset("directio_alignment", |c: &mut Conf| &mut c.directio_alignment)
            .default("512")
            .doc("Alignment of offset and memory in reads of `directio`; at least 4k is used."),
        Directive::custom("aio", 1, 1, aio).syntax("on | off | threads[=pool]").default("off").doc(
            "Files are read instead of sent by sendfile; other threads read the parts that are not in the page cache.",
        ),
        Directive::flag("aio_write", |c: &mut Conf| &mut c.aio_write)
            .default("off")
            .doc("Accepted: temporary files are written to the page cache."),
        Directive::custom("output_buffers", 2, 2, output_buffers)
            .syntax("number size")
            .default("2 32k")
            .doc("Size of the pieces in which a file is read that is not sent by sendfile."),
        Directive::size("read_ahead", |c: &mut Conf| &mut c.read_ahead)
            .default("0")
            .doc("Accepted: the kernel decides how far it reads ahead."),
        Directive::custom("disable_symlinks", 1, 2, disable_symlinks)
            .syntax("off | on | if_not_owner [from=part]")
            .default("off")
            .doc("Files behind symbolic links are refused."),
        Directive::custom("open_file_cache", 1, 2, open_file_cache)
            .syntax("off | max=number [inactive=time]")
            .default("off")
            .doc("Number of files that a worker keeps open, and the longest time that one stays open unused."),
        Directive::time("open_file_cache_valid", |c: &mut Conf| &mut c.open_file_cache_valid)
            .default("60s")
            .doc("Time after which a kept file is compared with the disk again."),
        Directive::number("open_file_cache_min_uses", |c: &mut Conf| &mut c.open_file_cache_min_uses)
            .default("1")
            .doc("A file stays open when it was used this often within the inactive time."),
        Directive::flag("open_file_cache_errors", |c: &mut Conf| &mut c.open_file_cache_errors)
            .default("off")
            .doc("Failures to open a file are kept as well."),
        Directive::flag("open_file_cache_events", |c: &mut Conf| &mut c.open_file_cache_events)
            .default("off")
            .doc("Accepted: changes are found by looking."),
    ],
    variables: path::VARIABLES,
    inherit: |child, parent, _| {
        inherit!(child, parent; root, etag, sendfile, sendfile_max_chunk, tcp_nopush, tcp_nodelay, directio,
            directio_alignment, aio, aio_write, output_buffers, read_ahead, open_file_cache, open_file_cache_valid,
            open_file_cache_min_uses, open_file_cache_errors, open_file_cache_events);
        if child.disable_symlinks.is_none() {
            child.disable_symlinks_from.clone_from(&parent.disable_symlinks_from);
            child.disable_symlinks = parent.disable_symlinks;
        }
    },
    finish: Some(|conf, build| {
        if conf.root.is_none() {
            conf.root = Some(Arc::new(path::Root::fixed(&build.full_path("html".into()))));
        }
        Ok(())
    }),
    example: "
        location /files/ {
            alias /srv/files/;
            sendfile on;
            open_file_cache max=1000 inactive=20s;
        }
    ",
    ..Module::named("static_files")
};

fn invalid(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn directio(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.directio.is_some() {
        return Err(duplicate(directive));
    }
    let value = directive.args[0].value.as_bstr();
    conf.directio = Some(match &**value {
        b"off" => u64::MAX,
        _ => values::offset(value).map_err(|_| bad_value(directive))?,
    });
    Ok(())
}

fn aio(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.aio.is_some() {
        return Err(duplicate(directive));
    }
    conf.aio = Some(match &**directive.args[0].value {
        b"off" => false,
        b"on" | b"threads" => true,
        value if value.starts_with(b"threads=") => true,
        _ => return Err(bad_value(directive)),
    });
    Ok(())
}

fn output_buffers(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.output_buffers.is_some() {
        return Err(duplicate(directive));
    }
    let [count, size] = &*directive.args else { return Err(bad_value(directive)) };
    let count = values::integer(count.value.as_bstr()).ok().filter(|&count| count > 0);
    let size = values::size(size.value.as_bstr()).ok().filter(|&size| size > 0);
    match (count, size) {
        (Some(count), Some(size)) => conf.output_buffers = Some((count, size)),
        _ => return Err(bad_value(directive)),
    }
    Ok(())
}

fn disable_symlinks(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.disable_symlinks.is_some() {
        return Err(duplicate(directive));
    }
    for arg in &directive.args {
        match &**arg.value {
            b"off" => conf.disable_symlinks = Some(SYMLINKS_ALLOWED),
            b"on" => conf.disable_symlinks = Some(SYMLINKS_DENIED),
            b"if_not_owner" => conf.disable_symlinks = Some(SYMLINKS_OF_OWNER),
            value => match value.strip_prefix(b"from=") {
                Some(from) => conf.disable_symlinks_from = Some(build.template_at(from.as_bstr(), arg.span)?),
                None => {
                    return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["off", "on", "if_not_owner"]));
                }
            },
        }
    }
    let last = directive.args.last().unwrap_or(&directive.name);
    match (conf.disable_symlinks, &conf.disable_symlinks_from, directive.args.len()) {
        (None, ..) => Err(invalid(
            last,
            "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter".to_owned(),
        )),
        (Some(_), None, 2) => Err(invalid(
            last,
            format!("duplicate parameters \"{} {}\"", directive.args[0].value, directive.args[1].value),
        )),
        (Some(SYMLINKS_ALLOWED), Some(_), _) => {
            Err(invalid(last, "\"from=\" cannot be used with \"off\" parameter".to_owned()))
        }
        _ => Ok(()),
    }
}

fn open_file_cache(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.open_file_cache.is_some() {
        return Err(duplicate(directive));
    }
    let (mut count_max, mut inactive) = (None, Duration::from_secs(60));
    for arg in &directive.args {
        let wrong = || invalid(arg, format!("invalid \"open_file_cache\" parameter \"{}\"", arg.value));
        if arg.value == "off" {
            conf.open_file_cache = Some(Arc::new(cache::Settings::by_default()));
        } else if let Some(max) = arg.value.strip_prefix(b"max=") {
            count_max = Some(values::integer(max.as_bstr()).ok().filter(|&max| max > 0).ok_or_else(wrong)?);
        } else if let Some(time) = arg.value.strip_prefix(b"inactive=") {
            inactive = values::time_seconds(time.as_bstr()).map_err(|_| wrong())?;
        } else {
            return Err(wrong());
        }
    }
    if conf.open_file_cache.is_some() {
        return Ok(());
    }
    let Some(count_max) = count_max else {
        let last = directive.args.last().unwrap_or(&directive.name);
        return Err(invalid(last, "\"open_file_cache\" must have the \"max\" parameter".to_owned()));
    };
    let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
    conf.open_file_cache = Some(Arc::new(cache::Settings::configured(count_max, inactive)));
    Ok(())
}
