//! Windows: OVER (…) and WINDOW.

use sqlparser::ast::{Expr, Select};

use super::{Res, Translator, scope::Scope, select::direction};
use crate::errors;

impl Translator<'_> {
    pub(super) fn windows(&mut self, select: &Select, scope: &Scope<'_>) -> Res<String> {
        let mut texts = Vec::new();
        for window in &select.named_window {
            let sqlparser::ast::NamedWindowExpr::WindowSpec(spec) = &window.1 else {
                return Err(errors::unsupported("a window named after another"));
            };
            texts.push(format!("{} AS ({})", window_name(&window.0.value), self.window_spec(spec, scope)?));
        }
        Ok(if texts.is_empty() { String::new() } else { format!(" WINDOW {}", texts.join(", ")) })
    }

    /// The inside of OVER (…).
    ///
    /// # Errors
    /// Those of its expressions.
    pub(crate) fn window_spec(&mut self, spec: &sqlparser::ast::WindowSpec, scope: &Scope<'_>) -> Res<String> {
        use sqlparser::ast::{WindowFrameBound as Bound, WindowFrameUnits as Units};
        let mut text = spec.window_name.as_ref().map_or(String::new(), |name| format!("{} ", window_name(&name.value)));
        if !spec.partition_by.is_empty() {
            let mut terms = Vec::new();
            for term in &spec.partition_by {
                let ex = self.expr(term, scope)?;
                terms.push(self.collated(&ex));
            }
            text.push_str(&format!("PARTITION BY {} ", terms.join(", ")));
        }
        if !spec.order_by.is_empty() {
            let mut terms = Vec::new();
            for term in &spec.order_by {
                let ex = self.expr(&term.expr, scope)?;
                terms.push(format!("{}{}", self.collated(&ex), direction(term)?));
            }
            text.push_str(&format!("ORDER BY {} ", terms.join(", ")));
        }
        if let Some(frame) = &spec.window_frame {
            let units = match frame.units {
                Units::Rows => "ROWS",
                Units::Range => "RANGE",
                Units::Groups => return Err(errors::unsupported("GROUPS frames")),
            };
            let mut bound = |bound: &Bound| -> Res<String> {
                Ok(match bound {
                    Bound::CurrentRow => "CURRENT ROW".into(),
                    Bound::Preceding(None) => "UNBOUNDED PRECEDING".into(),
                    Bound::Following(None) => "UNBOUNDED FOLLOWING".into(),
                    Bound::Preceding(Some(count)) => format!("{} PRECEDING", self.distance(count)?),
                    Bound::Following(Some(count)) => format!("{} FOLLOWING", self.distance(count)?),
                })
            };
            let start = bound(&frame.start_bound)?;
            match &frame.end_bound {
                Some(end) => {
                    let end = bound(end)?;
                    text.push_str(&format!("{units} BETWEEN {start} AND {end}"));
                }
                None => text.push_str(&format!("{units} {start}")),
            }
        }
        Ok(text)
    }

    /// A number of rows in a window's frame: a literal, which becomes part of the plan.
    fn distance(&mut self, expr: &Expr) -> Res<i64> {
        let ex = self.expr(expr, &Scope::default())?;
        self.constant_int(&ex).ok_or_else(|| errors::unsupported("a frame of a window without a literal number"))
    }
}

/// SQLite's name of a named window.
pub(crate) fn window_name(name: &str) -> String {
    let plain: String = name.bytes().map(|byte| format!("{:02x}", byte.to_ascii_lowercase())).collect();
    format!("w{plain}")
}
