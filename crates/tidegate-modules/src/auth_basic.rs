//! `auth_basic`: permission by name and password.
//!
//! Password files are kept in memory and looked at again after a second. Slow hashes are computed on the blocking pool;
//! a password that was right is remembered by a fast hash under a key of this process, until its file changes, so that
//! a client that sends it with every request does not cost a bcrypt each time.
//!
//! Follows nginx's `ngx_http_auth_basic_module`.

mod des_crypt;
mod md5_crypt;
mod password;
mod user_file;

use std::{
    num::NonZero,
    os::unix::ffi::OsStrExt,
    rc::Rc,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Phase, Ready, Step},
    request::Request,
    template::Template,
};
use tidegate_http::{Known, basic_auth::credentials};
use tidegate_net::log::{Level, SysError};
use tokio::sync::Semaphore;

use self::user_file::{Check, UserFile};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    auth_basic: Option<Template>,
    auth_basic_user_file: Option<Template>,
    /// Where a relative path begins.
    conf_dir: Option<BString>,
}

const CONTEXTS: Context = Context::ALL.or(Context::LIMIT_EXCEPT);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::template("auth_basic", |c: &mut Conf| &mut c.auth_basic)
            .within(CONTEXTS)
            .syntax("string | off")
            .default("off")
            .doc("Asks for name and password; the text is shown to the user."),
        Directive::custom("auth_basic_user_file", 1, 1, auth_basic_user_file)
            .within(CONTEXTS)
            .syntax("file")
            .doc("File with a name:hash on each line."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; auth_basic, auth_basic_user_file, conf_dir);
    },
    install: |conf, program| {
        let off = conf.auth_basic.as_ref().is_none_or(|realm| realm.as_literal() == Some(b"off"));
        if off || conf.auth_basic_user_file.is_none() {
            return;
        }
        let conf = conf.clone();
        program.on(Phase::Access, move |req| conf.check(req));
    },
    example: r#"
        location /admin/ {
            auth_basic "administration";
            auth_basic_user_file htpasswd;
        }
    "#,
    ..Module::named("auth_basic")
};

fn auth_basic_user_file(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let template = build.template(arg)?;
    if conf.conf_dir.is_none() {
        conf.conf_dir = Some(build.conf_dir.as_os_str().as_bytes().into());
    }
    match conf.auth_basic_user_file.replace(template) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

impl Conf {
    fn check(self: &Arc<Self>, req: &Rc<Request>) -> Outcome {
        let (Some(realm), Some(path)) = (&self.auth_basic, &self.auth_basic_user_file) else {
            return Ready::Now(Step::Declined);
        };
        let realm = realm.eval(req);
        if realm == b"off" {
            return Ready::Now(Step::Declined);
        }
        let found = req.main().head.borrow().fields.get(Known::Authorization).and_then(credentials);
        let Some((user, password)) = found else {
            req.log(Level::Info, format_args!("no user/password was provided for basic authentication"));
            return Ready::Now(refuse(req, &realm));
        };
        let mut path = path.eval(req);
        if !path.starts_with(b"/")
            && let Some(conf_dir) = &self.conf_dir
        {
            path = [conf_dir, &b"/"[..], &path].concat();
        }
        if let Some(file) = user_file::fresh(&path)
            && let Some(check) = file.check_fast(&user, &password)
        {
            return Ready::Now(conclude(req, &realm, &path, &user, check));
        }
        let req = req.clone();
        Ready::later(async move {
            let (in_pool, name) = (path.clone(), user.clone());
            let work = move || {
                let file = user_file::load(&in_pool)?;
                Ok::<_, std::io::Error>(UserFile::check(&file, &name, &password))
            };
            let _turn = turns().acquire().await;
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok(check)) => conclude(&req, &realm, &path, &user, check),
                Ok(Err(error)) => {
                    let missing = error.kind() == std::io::ErrorKind::NotFound;
                    let (level, status) = if missing { (Level::Error, 403) } else { (Level::Crit, 500) };
                    req.log(level, format_args!("open() \"{}\" failed {}", BStr::new(&path), SysError(&error)));
                    Step::Status(status)
                }
                // The pool is being shut down, or a hash panicked, which nobody may get in by.
                Err(_) => Step::Status(500),
            }
        })
    }
}

/// As many hashes are computed at a time as there are processors: who guesses passwords slows down guessing.
fn turns() -> &'static Semaphore {
    static TURNS: OnceLock<Semaphore> = OnceLock::new();
    TURNS.get_or_init(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)))
}

fn conclude(req: &Request, realm: &[u8], path: &[u8], user: &[u8], check: Check) -> Step {
    let user = BStr::new(user);
    match check {
        Check::Right => return Step::Ok,
        Check::Wrong => req.log(Level::Error, format_args!("user \"{user}\": password mismatch")),
        Check::NoUser => {
            req.log(Level::Error, format_args!("user \"{user}\" was not found in \"{}\"", BStr::new(path)));
        }
    }
    refuse(req, realm)
}

fn refuse(req: &Request, realm: &[u8]) -> Step {
    let value = [b"Basic realm=\"", realm, b"\""].concat();
    req.response.borrow_mut().fields.set_known(Known::WwwAuthenticate, &value);
    Step::Status(401)
}
