//! Values for a database that come with a request.
//!
//! `$arg_name` is nginx's: as the client has sent it, `Tom%20Cat`. Nobody wants that in a database, so it is decoded here,
//! unless the configuration says `raw`.

use bytes::Bytes;
use tidegate_core::{
    conf::Build,
    request::Request,
    template::{Part, Template},
    variable::VariableId,
};
use tidegate_http::escape::unescape_form;

/// The prefix of variables that hold what a client has encoded.
const ENCODED: &[u8] = b"arg_";

/// A value of the configuration that a server gets as a value, whatever is in it.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    value: Template,
    /// Variables of the template that are decoded.
    encoded: Box<[VariableId]>,
}

impl Bound {
    /// A value; `is_raw` leaves arguments as they were sent.
    pub(crate) fn new(value: Template, is_raw: bool, build: &Build<'_>) -> Self {
        let variables = value.parts().iter().filter_map(|part| match part {
            Part::Variable(id) if !is_raw => Some(*id),
            _ => None,
        });
        let encoded = variables.filter(|id| build.variables.name(*id).starts_with(ENCODED)).collect();
        Self { value, encoded }
    }

    /// The value for a request. A variable that has none is NULL, here `None`, if nothing stands beside it.
    pub(crate) fn eval(&self, req: &Request) -> Option<Bytes> {
        match self.value.as_variable() {
            Some(id) => req.variable_bytes(id).map(|value| {
                let is_encoded = self.encoded.contains(&id);
                if is_encoded { decoded(&value).into() } else { value.into() }
            }),
            None if self.encoded.is_empty() => Some(self.value.eval(req).into()),
            None => {
                let mut out = Vec::new();
                for part in self.value.parts() {
                    match part {
                        Part::Variable(id) if self.encoded.contains(id) => {
                            out.extend(req.variable_bytes(*id).map(|value| decoded(&value)).unwrap_or_default());
                        }
                        part => part.write(req, &mut out),
                    }
                }
                Some(out.into())
            }
        }
    }
}

/// A value that a client has sent in a form or a link, as it was meant.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    unescape_form(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded() {
        let check = |sent: &str, expected: &str| assert_eq!(decoded(sent.as_bytes()), expected.as_bytes(), "{sent}");
        check("Tom%20Cat", "Tom Cat");
        check("Tom+Cat", "Tom Cat");
        check("Zo%C3%ab", "Zoë");
        check("100%", "100%");
        check("%4", "%4");
        check("%zz%2B", "%zz+");
        check("", "");
    }
}
