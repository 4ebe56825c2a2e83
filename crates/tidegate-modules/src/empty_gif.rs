//! `empty_gif`: a transparent image of one pixel.
//!
//! Source: nginx, `ngx_http_empty_gif_module`.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_core::{
    main_conf::duplicate,
    module::{Context, Directive, Module},
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_http::Method;

/// A GIF89a of one transparent pixel.
const GIF: &[u8] = &[
    b'G', b'I', b'F', b'8', b'9', b'a', // signature
    1, 0, 1, 0, 0x80, 1, 0, // size, table of two colours, background
    0, 0, 0, 0xff, 0xff, 0xff, // black, white
    0x21, 0xf9, 4, 1, 0, 0, 1, 0, // white is transparent
    0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, // the image
    2, 2, 0x4c, 1, 0,    // its data
    0x3b, // end
];

/// Before the image ever changed, as nginx says.
const LAST_MODIFIED: i64 = 23_349_600;

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    empty_gif: bool,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::custom("empty_gif", 0, 0, |conf: &mut Conf, directive, _| {
        if std::mem::replace(&mut conf.empty_gif, true) {
            return Err(duplicate(directive));
        }
        Ok(())
    })
    .within(Context::LOCATION)
    .doc("Answers with a transparent image of one pixel.")],
    inherit: |child, parent, kind| child.empty_gif |= parent.empty_gif && kind.is_unnamed(),
    install: |conf, program| {
        if conf.empty_gif {
            program.content(handle);
        }
    },
    example: "
        location = /pixel.gif { empty_gif; }
    ",
    ..Module::named("empty_gif")
};

fn handle(req: &Rc<Request>) -> Outcome {
    if !matches!(req.method.get(), Method::Get | Method::Head) {
        return Ready::Now(Step::Status(405));
    }
    {
        let mut response = req.response.borrow_mut();
        response.content_type.clear();
        response.content_type.extend_from_slice(b"image/gif");
        response.last_modified = Some(LAST_MODIFIED);
    }
    req.send_complete(200, Bytes::from_static(GIF)).map(|sent| if sent.is_ok() { Step::Ok } else { Step::Close })
}
