//! `$TEST_…` variables and `%{text x count}` repetitions in the values of a case.

use std::collections::BTreeMap;

/// No repetition may grow larger: a typing error must not fill the memory.
const REPEATED_BYTES_MAX: usize = 64 << 20;

/// Names with their values; a name is written `$NAME` and begins with `TEST_`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vars(BTreeMap<String, String>);

impl Vars {
    /// Adds or replaces a variable.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    /// The value of a variable that is known to be set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Substitutes variables, then repetitions.
    ///
    /// # Errors
    /// For a `$TEST_` name that is not set, and for a repetition that is malformed or too large.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        self.repeat(&self.substitute(text)?)
    }

    fn substitute(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(pos) = rest.find("$TEST_") {
            out.push_str(&rest[..pos]);
            let tail = &rest[pos + 1..];
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let end = tail.find(|c| !is_name(c)).unwrap_or(tail.len());
            let name = &tail[..end];
            let value = self.get(name).ok_or_else(|| {
                format!("variable ${name} is not set (known: {})", self.0.keys().cloned().collect::<Vec<_>>().join(" "))
            })?;
            out.push_str(value);
            rest = &tail[end..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn repeat(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(pos) = rest.find("%{") {
            out.push_str(&rest[..pos]);
            let tail = &rest[pos + 2..];
            // `%{REQUEST_URI}` and the like are left alone: only `x COUNT}` makes a repetition.
            let parsed = tail.find('}').and_then(|end| {
                let (unit, count) = tail[..end].rsplit_once(" x ")?;
                Some((unit, count.parse::<usize>().ok()?, end))
            });
            let Some((unit, count, end)) = parsed else {
                out.push_str("%{");
                rest = tail;
                continue;
            };
            if unit.len().saturating_mul(count) > REPEATED_BYTES_MAX {
                return Err(format!("%{{{}}} is too large", &tail[..end]));
            }
            out.push_str(&unit.repeat(count));
            rest = &tail[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let mut vars = Vars::default();
        vars.set("TEST_PORT", 8080);
        vars.set("TEST_PORT_2", 8081);
        assert_eq!(vars.expand(text), expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn expansion() {
        check("listen $TEST_PORT;", Ok("listen 8080;"));
        check("$TEST_PORT_2$TEST_PORT $uri $TEST", Ok("80818080 $uri $TEST"));
        check("$TEST_NONE", Err("variable $TEST_NONE is not set (known: TEST_PORT TEST_PORT_2)"));
        check("<%{ab x 3}>%{x}%{", Ok("<ababab>%{x}%{"));
        check("%{a x 99999999}", Err("%{a x 99999999} is too large"));
    }
}
