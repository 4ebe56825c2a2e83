//! The text format that cases and benchmarks share: blocks of named sections, as Test::Nginx users know it.
//!
//! ```text
//! Anything before the first block is for the reader.
//!
//! === TEST 1: a title
//! --- name
//! lines of text
//! --- name chomp escapes
//! the last line end is cut, backslash escapes are evaluated
//! --- name: a value on the same line
//! ```
//!
//! Blank lines around a value are dropped and it ends in one line end, unless it stands on the section's own line.

/// One `===` block.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Block {
    /// What follows `===`.
    pub(crate) title: String,
    /// Line number of the title, from 1.
    pub(crate) line: usize,
    /// In the order of the file.
    pub(crate) sections: Vec<Section>,
}

/// One `---` section.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Section {
    /// The word after `---`.
    pub(crate) name: String,
    /// Whether the filter `escapes` was asked for.
    pub(crate) escapes: bool,
    /// Whether the filter `chomp` was asked for: it also cuts the last line end of every piece.
    pub(crate) chomp: bool,
    /// The text, after the filter `chomp`.
    pub(crate) value: String,
    /// Line number of the section's head, from 1.
    pub(crate) line: usize,
}

impl Block {
    /// The value of a section, if the block has it.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.section(name).map(|s| s.value.as_str())
    }

    /// A section, if the block has it.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// Refuses section names that are not in `known`, and names that occur twice.
    ///
    /// # Errors
    /// Names the first such section and its line.
    pub(crate) fn expect_names(&self, known: &[&str]) -> Result<(), String> {
        for (index, section) in self.sections.iter().enumerate() {
            if !known.contains(&section.name.as_str()) {
                return Err(format!("line {}: unknown section \"{}\"", section.line, section.name));
            }
            if self.sections[..index].iter().any(|s| s.name == section.name) {
                return Err(format!("line {}: section \"{}\" occurs twice", section.line, section.name));
            }
        }
        Ok(())
    }
}

/// Cuts a file into blocks.
///
/// # Errors
/// Names the line of a malformed or misplaced head.
pub(crate) fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<(Head, Vec<&str>)> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(title) = line.strip_prefix("=== ") {
            close(&mut blocks, open.take());
            blocks.push(Block { title: title.trim().to_owned(), line: number, sections: Vec::new() });
        } else if let Some(head) = line.strip_prefix("--- ") {
            if blocks.is_empty() {
                return Err(format!("line {number}: a section before the first \"===\" block"));
            }
            close(&mut blocks, open.take());
            open = Some((parse_head(head, number)?, Vec::new()));
        } else if let Some((head, lines)) = &mut open {
            if head.inline.is_some() && !line.trim().is_empty() {
                return Err(format!(
                    "line {number}: text below \"--- {}:\", which has its value on its own line",
                    head.name
                ));
            }
            lines.push(line);
        } else if !blocks.is_empty() && !line.trim().is_empty() {
            return Err(format!("line {number}: text between a title and the first section"));
        }
    }
    close(&mut blocks, open.take());
    Ok(blocks)
}

struct Head {
    name: String,
    chomp: bool,
    escapes: bool,
    inline: Option<String>,
    line: usize,
}

fn parse_head(text: &str, line: usize) -> Result<Head, String> {
    let (words, inline) = match text.split_once(':') {
        Some((words, inline)) => (words, Some(inline.trim().to_owned())),
        None => (text, None),
    };
    let mut words = words.split_whitespace();
    let name = words.next().ok_or_else(|| format!("line {line}: a section without a name"))?.to_owned();
    let mut head = Head { name, chomp: false, escapes: false, inline, line };
    for filter in words {
        match filter {
            "chomp" => head.chomp = true,
            "escapes" => head.escapes = true,
            _ => return Err(format!("line {line}: unknown filter \"{filter}\" (known: chomp, escapes)")),
        }
    }
    Ok(head)
}

fn close(blocks: &mut [Block], open: Option<(Head, Vec<&str>)>) {
    let (Some(block), Some((head, lines))) = (blocks.last_mut(), open) else { return };
    let value = head.inline.unwrap_or_else(|| {
        let is_text = |l: &&str| !l.trim().is_empty();
        let first = lines.iter().position(is_text).unwrap_or(lines.len());
        let last = lines.iter().rposition(is_text).map_or(first, |l| l + 1);
        let mut text = lines[first..last].join("\n");
        if !head.chomp && !text.is_empty() {
            text.push('\n');
        }
        text
    });
    block.sections.push(Section { name: head.name, escapes: head.escapes, chomp: head.chomp, value, line: head.line });
}

/// One part of a value that `~~~` lines divide.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Piece {
    /// What stands on the `~~~` line before it, empty for the first.
    pub(crate) note: String,
    /// The lines up to the next divider.
    pub(crate) text: String,
}

/// Cuts a value at its `~~~` lines. There is always at least one piece.
pub(crate) fn pieces(value: &str) -> Vec<Piece> {
    let mut pieces = vec![Piece { note: String::new(), text: String::new() }];
    for line in value.split_inclusive('\n') {
        if let Some(note) = line.strip_prefix("~~~") {
            pieces.push(Piece { note: note.trim().to_owned(), text: String::new() });
        } else if let Some(piece) = pieces.last_mut() {
            piece.text.push_str(line);
        }
    }
    pieces
}

/// Evaluates `\r \n \t \0 \\ \xHH`; a backslash before anything else stays as it is.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut pos = 0;
    while let Some(&byte) = bytes.get(pos) {
        pos += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (value, used) = match bytes.get(pos) {
            Some(b'r') => (b'\r', 1),
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'0') => (0, 1),
            Some(b'\\') => (b'\\', 1),
            Some(b'x') => match text.get(pos + 1..pos + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(value) => (value, 3),
                None => (b'\\', 0),
            },
            _ => (b'\\', 0),
        };
        out.push(value);
        pos += used;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_sections() {
        let text = "intro\n=== TEST 1: one\n--- config\n\nlocation / {\n}\n\n--- error_code: 404\n--- response_body chomp\nx\n";
        let blocks = parse(text).unwrap();
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].value("config"), Some("location / {\n}\n"));
        assert_eq!(blocks[0].value("error_code"), Some("404"));
        assert_eq!(blocks[0].value("response_body"), Some("x"));
        assert_eq!((blocks[0].line, blocks[0].sections[1].line), (2, 8));
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(parse("--- config\n").unwrap_err(), "line 1: a section before the first \"===\" block");
        assert_eq!(
            parse("=== a\n--- b eval\n").unwrap_err(),
            "line 2: unknown filter \"eval\" (known: chomp, escapes)"
        );
        assert_eq!(parse("=== a\ntext\n").unwrap_err(), "line 2: text between a title and the first section");
        let block = &parse("=== a\n--- b\n--- b\n").unwrap()[0];
        assert_eq!(block.expect_names(&["b"]).unwrap_err(), "line 3: section \"b\" occurs twice");
    }

    #[test]
    fn dividers_cut_a_value() {
        let cut = pieces("a\n~~~ 20ms\nb\n~~~\n");
        assert_eq!(
            cut.iter().map(|p| (p.note.as_str(), p.text.as_str())).collect::<Vec<_>>(),
            [("", "a\n"), ("20ms", "b\n"), ("", "")]
        );
    }

    #[track_caller]
    fn check_unescape(text: &str, expected: &[u8]) {
        assert_eq!(unescape(text), expected);
    }

    #[test]
    fn escapes() {
        check_unescape(r"a\r\n", b"a\r\n");
        check_unescape(r"\x00\xff\0\t", b"\0\xff\0\t");
        check_unescape(r"\\r \d \xg1 \", b"\\r \\d \\xg1 \\");
    }
}
