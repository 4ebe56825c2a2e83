//! `debug_panic`: panics in a given place, for the tests of what a panic may take down. Only development builds have it.

use tidegate_core::{
    main_conf::duplicate,
    module::{Context, Directive, Module},
    output::Closed,
    phase::{Phase, Program, Ready, Step},
    request::Request,
};

/// The place that panics.
#[derive(Debug, Default)]
pub struct Conf {
    debug_panic: Option<String>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("debug_panic", 1, 1, |conf: &mut Conf, directive, _| {
        let place = directive.args[0].value.to_string();
        conf.debug_panic.replace(place).map_or(Ok(()), |_| Err(duplicate(directive)))
    })
    .within(Context::LOCATION)
    .syntax("place")
    .doc("Panics in the given place (development builds only).")],
    install: |conf, program| {
        if let Some(place) = &conf.debug_panic {
            install(place, program);
        }
    },
    ..Module::named("debug_panic")
};

/// What a test looks for in the log.
const TEXT: &str = "panic of a test";

/// Panics when the request's contexts are dropped.
#[derive(Default)]
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("{TEXT}");
        }
    }
}

fn install(place: &str, program: &mut Program) {
    match place {
        "rewrite" => program.on(Phase::Rewrite, |_| panic!("{TEXT}")),
        "access" => program.on(Phase::Access, |_| panic!("{TEXT}")),
        "log" => program.on(Phase::Log, |_| panic!("{TEXT}")),
        "log_later" => program.on(Phase::Log, |_| Ready::later(panics_later())),
        "content" => program.content(|_| panic!("{TEXT}")),
        "content_later" => program.content(|_| Ready::later(panics_later())),
        "header_filter" => program.header_filter(|_| panic!("{TEXT}")),
        "body_filter" => program.body_filter(|_, _| panic!("{TEXT}")),
        "body_filter_later" => program.body_filter(|_, _| {
            Ready::later(async {
                panics_later().await;
                Err(Closed)
            })
        }),
        "end" => program.on(Phase::Access, |req: &std::rc::Rc<Request>| {
            req.lasting_context::<PanicsWhenDropped>();
            Ready::Now(Step::Declined)
        }),
        _ => {}
    }
}

async fn panics_later() -> Step {
    tokio::task::yield_now().await;
    panic!("{TEXT}");
}
