//! Whether a text is JSON.

/// Arrays and objects inside of each other, as MariaDB allows.
const DEPTH_MAX: usize = 32;

/// Whether a text is one JSON value.
pub(crate) fn is_valid(text: &[u8]) -> bool {
    let mut check = Check { text, pos: 0 };
    std::str::from_utf8(text).is_ok() && check.value(0) && {
        check.space();
        check.pos == text.len()
    }
}

struct Check<'a> {
    text: &'a [u8],
    pos: usize,
}

impl Check<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.pos += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.pos < self.text.len();
        self.pos += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> bool {
        self.space();
        match self.peek() {
            b'{' => depth < DEPTH_MAX && self.list(b'}', depth, true),
            b'[' => depth < DEPTH_MAX && self.list(b']', depth, false),
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn list(&mut self, end: u8, depth: usize, keys: bool) -> bool {
        self.pos += 1;
        self.space();
        if self.take(end) {
            return true;
        }
        loop {
            if keys {
                self.space();
                if !self.string() {
                    return false;
                }
                self.space();
                if !self.take(b':') {
                    return false;
                }
            }
            if !self.value(depth + 1) {
                return false;
            }
            self.space();
            if self.take(end) {
                return true;
            }
            if !self.take(b',') {
                return false;
            }
        }
    }

    fn string(&mut self) -> bool {
        if !self.take(b'"') {
            return false;
        }
        while self.pos < self.text.len() {
            let byte = self.peek();
            self.pos += 1;
            match byte {
                b'"' => return true,
                b'\\' => {
                    let escape = self.peek();
                    self.pos += 1;
                    let good = match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
                        b'u' => {
                            let digits = self.text.get(self.pos..self.pos + 4);
                            self.pos += 4;
                            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
                        }
                        _ => false,
                    };
                    if !good {
                        return false;
                    }
                }
                0..=0x1f => return false,
                _ => {}
            }
        }
        false
    }

    fn word(&mut self, word: &[u8]) -> bool {
        let found = self.text[self.pos..].starts_with(word);
        self.pos += word.len();
        found
    }

    fn digits(&mut self) -> bool {
        let start = self.pos;
        while self.peek().is_ascii_digit() {
            self.pos += 1;
        }
        self.pos > start
    }

    fn number(&mut self) -> bool {
        self.take(b'-');
        let zero = self.peek() == b'0';
        let start = self.pos;
        if !self.digits() || (zero && self.pos - start > 1) {
            return false;
        }
        if self.take(b'.') && !self.digits() {
            return false;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'-') {
                self.take(b'+');
            }
            return self.digits();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_or_not() {
        for good in ["1", " {} ", "[1,2.5e3,\"a\\u00e9\",null]", "{\"a\":{\"b\":[true,false]}}", "\"x\"", "-0.5"] {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in ["", "{", "[1,]", "{a:1}", "01", "1.", "\"a", "\"\\x\"", "nul", "1 2", "\u{1}"] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
        assert!(!is_valid("[".repeat(100).as_bytes()));
    }
}
