//! Text with variables, compiled: what nginx calls a complex value.

use bstr::{BString, ByteSlice};

use crate::{request::Request, variable::VariableId};

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text as it stands.
    Literal(BString),
    /// The value of a variable; nothing if it has none.
    Variable(VariableId),
    /// Group `0..=9` of the last regular expression that matched.
    Capture(u8),
}

impl Part {
    /// Appends its text for `req` to `out`.
    pub fn write(&self, req: &Request, out: &mut Vec<u8>) {
        match self {
            Part::Literal(text) => out.extend_from_slice(text),
            Part::Variable(id) => {
                req.variable(*id, out);
            }
            Part::Capture(group) => {
                req.capture(usize::from(*group), out);
            }
        }
    }
}

/// Text with variables, ready to be evaluated for a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// A template of its parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Template { parts: parts.into() }
    }

    /// A template without variables.
    pub fn literal(text: impl Into<BString>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Template { parts: Box::new([Part::Literal(text)]) } }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, if there are no variables in it.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The variable, if the template is nothing but one.
    pub fn as_variable(&self) -> Option<VariableId> {
        match *self.parts {
            [Part::Variable(id)] => Some(id),
            _ => None,
        }
    }

    /// Appends the text for `req` to `out`.
    pub fn write(&self, req: &Request, out: &mut Vec<u8>) {
        for part in &self.parts {
            part.write(req, out);
        }
    }

    /// The text for `req`.
    pub fn eval(&self, req: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(req, &mut out);
        out
    }

    /// The text for `req`, borrowed from the configuration where it has no variables.
    pub fn eval_cow<'t>(&'t self, req: &Request) -> std::borrow::Cow<'t, [u8]> {
        match self.as_literal() {
            Some(text) => text.into(),
            None => self.eval(req).into(),
        }
    }
}
