//! `rds_json`: rows as JSON.
//!
//! Follows rds-json-nginx-module. A response of `drizzle_pass` in the same location becomes JSON on its way out of the
//! database, without RDS in between; streams that other handlers send go through [`crate::rds_filter`].

use std::sync::{Arc, OnceLock};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Program, Ready, Step},
    request::Request,
    template::Template,
};
use tidegate_rows::json::{InvalidUtf8, Json, JsonKey, JsonOptions, JsonShape, TextOptions};

use crate::{rds_filter, row_format::Results};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `rds_json`
    pub rds_json: Option<bool>,
    /// `rds_json_format`
    pub rds_json_format: Option<u32>,
    /// `rds_json_root`
    pub rds_json_root: Option<BString>,
    /// `rds_json_success_property`
    pub rds_json_success_property: Option<BString>,
    /// `rds_json_user_property`
    pub rds_json_user_property: Option<Vec<(JsonKey, Template)>>,
    /// `rds_json_errcode_key`
    pub rds_json_errcode_key: Option<BString>,
    /// `rds_json_errstr_key`
    pub rds_json_errstr_key: Option<BString>,
    /// `rds_json_invalid_utf8`
    pub rds_json_invalid_utf8: Option<u32>,
    /// `rds_json_for_pages`
    pub rds_json_for_pages: Option<bool>,
    /// `rds_json_content_type`
    pub rds_json_content_type: Option<BString>,
    /// `rds_json_buffer_size`, accepted: the size follows the result.
    pub rds_json_buffer_size: Option<usize>,
    /// `rds_json_ret`
    pub rds_json_ret: Option<(BString, Template)>,
    options: OnceLock<Arc<JsonOptions>>,
}

const PLACES: Context = Context::ALL_IF;
/// Words of `rds_json_invalid_utf8`.
const INVALID_UTF8: [(&str, u32); 3] = [("replace", 0), ("escape", 1), ("pass", 2)];

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("rds_json", |c: &mut Conf| &mut c.rds_json)
            .within(PLACES)
            .default("off")
            .doc("Answers with the rows as JSON."),
        Directive::choice("rds_json_format", |c: &mut Conf| &mut c.rds_json_format, &[("normal", 0), ("compact", 1)])
            .within(PLACES)
            .default("normal")
            .doc("An object for each row, or an array for each row behind one of the names."),
        Directive::text("rds_json_root", |c: &mut Conf| &mut c.rds_json_root)
            .within(PLACES)
            .doc("Puts the rows under this key of an object."),
        Directive::text("rds_json_success_property", |c: &mut Conf| &mut c.rds_json_success_property)
            .within(PLACES)
            .doc("Adds a key that tells whether the statement succeeded."),
        Directive::custom("rds_json_user_property", 2, 2, user_property)
            .within(PLACES)
            .syntax("key value")
            .doc("Adds a key with a value of your own."),
        Directive::text("rds_json_errcode_key", |c: &mut Conf| &mut c.rds_json_errcode_key)
            .within(PLACES)
            .default("errcode")
            .doc("Key of the error code in the response."),
        Directive::text("rds_json_errstr_key", |c: &mut Conf| &mut c.rds_json_errstr_key)
            .within(PLACES)
            .default("errstr")
            .doc("Key of the error text in the response."),
        Directive::choice("rds_json_invalid_utf8", |c: &mut Conf| &mut c.rds_json_invalid_utf8, &INVALID_UTF8)
            .within(PLACES)
            .default("replace")
            .doc("Writes bytes that are not UTF-8 as U+FFFD, as an escape for each byte, or as they are."),
        Directive::flag("rds_json_for_pages", |c: &mut Conf| &mut c.rds_json_for_pages)
            .within(PLACES)
            .default("off")
            .doc("Escapes characters that would end a script of an HTML page in which the JSON stands."),
        Directive::text("rds_json_content_type", |c: &mut Conf| &mut c.rds_json_content_type)
            .within(PLACES)
            .default("application/json")
            .doc("Content type of the response."),
        Directive::size("rds_json_buffer_size", |c: &mut Conf| &mut c.rds_json_buffer_size)
            .within(PLACES)
            .doc("Accepted: buffers grow with the result."),
        Directive::custom("rds_json_ret", 2, 2, ret)
            .within(Context::LOCATION.or(Context::LOCATION_IF))
            .syntax("errcode errstr")
            .doc("Answers with an error code and text."),
    ],
    inherit: |child, parent, kind| {
        inherit!(child, parent; rds_json, rds_json_format, rds_json_root, rds_json_success_property,
            rds_json_user_property, rds_json_errcode_key, rds_json_errstr_key, rds_json_invalid_utf8,
            rds_json_for_pages, rds_json_content_type,
            rds_json_buffer_size);
        if kind.is_unnamed() {
            inherit!(child, parent; rds_json_ret);
        }
    },
    install,
    example: r#"
        location /cats {
            drizzle_query "select * from cats";
            drizzle_pass cats;
            rds_json on;
        }
    "#,
    ..Module::named("rds_json")
};

fn user_property(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let value = build.template(&directive.args[1])?;
    conf.rds_json_user_property.get_or_insert_default().push((JsonKey::new(&directive.args[0].value), value));
    Ok(())
}

fn ret(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let code = &directive.args[0];
    if code.value.is_empty() || !code.value.iter().all(u8::is_ascii_digit) {
        return Err(Diagnostic::invalid_value(directive.name(), code.span));
    }
    let text = build.template(&directive.args[1])?;
    conf.rds_json_ret = Some((code.value.clone(), text));
    Ok(())
}

impl Conf {
    /// Whether rows are to become JSON.
    pub fn is_on(&self) -> bool {
        self.rds_json == Some(true)
    }

    /// Content type of the response.
    pub fn content_type(&self) -> &[u8] {
        self.rds_json_content_type.as_ref().map_or(b"application/json", |kind| kind.as_bytes())
    }

    fn options(&self) -> &Arc<JsonOptions> {
        self.options.get_or_init(|| {
            let key = |key: &Option<BString>| key.as_ref().map(|key| JsonKey::new(key));
            let defaults = JsonOptions::default();
            Arc::new(JsonOptions {
                shape: if self.rds_json_format == Some(1) { JsonShape::Compact } else { JsonShape::Normal },
                root: key(&self.rds_json_root),
                success: key(&self.rds_json_success_property),
                errcode_key: key(&self.rds_json_errcode_key).unwrap_or(defaults.errcode_key),
                errstr_key: key(&self.rds_json_errstr_key).unwrap_or(defaults.errstr_key),
                text: TextOptions {
                    invalid: match self.rds_json_invalid_utf8 {
                        Some(1) => InvalidUtf8::Escape,
                        Some(2) => InvalidUtf8::Pass,
                        _ => InvalidUtf8::Replace,
                    },
                    for_pages: self.rds_json_for_pages == Some(true),
                },
            })
        })
    }

    /// A writer for the rows of one response.
    pub(crate) fn format(&self, req: &Request, results: Results) -> Json<Arc<JsonOptions>> {
        let mut json = match results {
            Results::One => Json::new(self.options().clone()),
            Results::Several => Json::batch(self.options().clone()),
        };
        for (key, value) in self.rds_json_user_property.iter().flatten() {
            json.property(key, &value.eval_cow(req));
        }
        json
    }
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    if conf.is_on() {
        rds_filter::install(program, "rds_json");
    }
    if conf.rds_json_ret.is_none() {
        return;
    }
    let conf = conf.clone();
    program.content(move |req| {
        let Some((code, text)) = &conf.rds_json_ret else {
            return Ready::Now(Step::Declined);
        };
        let properties: Vec<_> =
            conf.rds_json_user_property.iter().flatten().map(|(key, value)| (key, value.eval_cow(req))).collect();
        let properties: Vec<_> = properties.iter().map(|(key, value)| (*key, &**value)).collect();
        let mut body = Vec::new();
        conf.options().append_ret(code, &text.eval_cow(req), &properties, &mut body);
        req.response.borrow_mut().content_type = conf.content_type().to_vec();
        req.send_complete(200, body.into()).map(|_| Step::Ok)
    });
}
