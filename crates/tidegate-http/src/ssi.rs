//! Server-side includes: commands in a text, `<!--#name parameter="value" … -->`, however the text is cut into pieces.
//!
//! ```text
//! <!--#  echo   var = "name"   -->
//! ^^^^^  ^^^^   ^^^    ^^^^    ^^^
//! open   name   parameter value close      white space may stand between all of these
//! ```
//!
//! A value stands in double or single quotes; a backslash keeps the quote behind it from ending the value, and stays in the
//! value. What does not follow this grammar is skipped up to the next `-->`.
//!
//! Source: nginx, `ngx_http_ssi_parse`.

use std::ops::Range;

const OPEN: &[u8] = b"<!--#";
const CLOSE: &[u8] = b"-->";

/// The longest name of a command or of a parameter.
///
/// Source: nginx, `NGX_HTTP_SSI_COMMAND_LEN` and `NGX_HTTP_SSI_PARAM_LEN`.
pub const NAME_BYTES_MAX: usize = 32;

/// How many parameters a command has at most.
///
/// Source: nginx, `NGX_HTTP_SSI_MAX_PARAMS`.
pub const PARAMS_MAX: usize = 16;

/// White space between the parts of one command; more is no command.
const SPACE_BYTES_MAX: usize = 4096;

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Text to be passed on: its place in the input.
    Text(Range<usize>),
    /// Text of earlier input that could have been the beginning of a command.
    Kept(&'static [u8]),
    /// A command that follows the grammar.
    Command(Command),
    /// Something like a command that does not.
    Bad(BadCommand),
}

/// A command with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    source: Vec<u8>,
    name: Range<usize>,
    params: Vec<(Range<usize>, Range<usize>)>,
}

impl Command {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.source[self.name.clone()]
    }
    /// Names and values of its parameters, in order; the values as they are written between the quotes.
    pub fn params(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.params.iter().map(|(name, value)| (&self.source[name.clone()], &self.source[value.clone()]))
    }
    /// All of it as it was written.
    pub fn source(&self) -> &[u8] {
        &self.source
    }
    fn last_param(&self) -> String {
        self.params.last().map_or_else(String::new, |(name, _)| self.text(name.clone()))
    }
    fn text(&self, range: Range<usize>) -> String {
        String::from_utf8_lossy(&self.source[range]).into_owned()
    }
}

/// Why something like a command is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadCommand {
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// So many bytes of the opening have come.
    Open(usize),
    BeforeName,
    Name,
    BeforeParam,
    Param,
    BeforeEqual,
    BeforeValue,
    Value(u8),
    /// Behind a backslash in a value with this quote.
    Escaped(u8),
    AfterValue,
    /// So many dashes of the closing have come.
    Close(usize),
    /// In something that is no command; so many bytes of its closing have come.
    Skip(usize),
}

/// Finds the commands in a text that comes in pieces.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    command: Command,
    space_bytes: usize,
    value_bytes_max: usize,
    bad: Option<BadCommand>,
}

impl Scanner {
    /// A scanner for a text from its beginning. Values of parameters are shorter than `value_bytes_max` bytes.
    pub fn new(value_bytes_max: usize) -> Self {
        Scanner { state: State::Text, command: Command::default(), space_bytes: 0, value_bytes_max, bad: None }
    }

    /// Reads the input up to the end of the next token; answers how many bytes were used. Without a token all of it was.
    pub fn next(&mut self, input: &[u8]) -> (usize, Option<Token>) {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let (more, token) = match self.state {
                State::Text => self.find_open(rest),
                State::Open(matched) => self.match_open(matched, rest),
                _ => self.read_command(rest),
            };
            let start = used;
            used += more;
            match token {
                Some(Token::Text(text)) => return (used, Some(Token::Text(start + text.start..start + text.end))),
                Some(token) => return (used, Some(token)),
                None => {}
            }
        }
        (used, None)
    }

    /// What was kept back as the beginning of a command and is text after all, when no more comes. A command without its end is
    /// dropped.
    pub fn end(&mut self) -> &'static [u8] {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Open(matched) => &OPEN[..matched],
            _ => b"",
        }
    }

    fn find_open(&mut self, input: &[u8]) -> (usize, Option<Token>) {
        let (text_len, used) = match memchr::memmem::find(input, OPEN) {
            Some(at) => {
                self.begin_command();
                (at, at + OPEN.len())
            }
            None => {
                let tail_max = input.len().min(OPEN.len() - 1);
                let matched = (1..=tail_max).rev().find(|&len| input.ends_with(&OPEN[..len])).unwrap_or(0);
                if matched > 0 {
                    self.state = State::Open(matched);
                }
                (input.len() - matched, input.len())
            }
        };
        (used, (text_len > 0).then_some(Token::Text(0..text_len)))
    }

    fn match_open(&mut self, matched: usize, input: &[u8]) -> (usize, Option<Token>) {
        let wanted = &OPEN[matched..];
        let common = wanted.iter().zip(input).take_while(|(a, b)| a == b).count();
        if common == wanted.len() {
            self.begin_command();
        } else if common == input.len() {
            self.state = State::Open(matched + common);
        } else {
            self.state = State::Text;
            return (common, Some(Token::Kept(&OPEN[..matched + common])));
        }
        (common, None)
    }

    fn begin_command(&mut self) {
        self.state = State::BeforeName;
        self.command = Command { source: OPEN.to_vec(), ..Command::default() };
        self.space_bytes = 0;
    }

    fn read_command(&mut self, input: &[u8]) -> (usize, Option<Token>) {
        for (at, &byte) in input.iter().enumerate() {
            let mut token = None;
            if let State::Skip(matched) = self.state {
                token = self.skip(matched, byte);
            } else {
                self.command.source.push(byte);
                match self.step(byte) {
                    Ok(true) => {
                        self.state = State::Text;
                        token = Some(Token::Command(std::mem::take(&mut self.command)));
                    }
                    Ok(false) => {}
                    Err(message) => self.refuse(message),
                }
            }
            if token.is_some() {
                return (at + 1, token);
            }
        }
        (input.len(), None)
    }

    /// Skips the rest of what is no command; its last bytes may be the beginning of its closing.
    #[cold]
    fn refuse(&mut self, message: String) {
        let source = &self.command.source;
        let matched = if source.ends_with(b"--") { 2 } else { usize::from(source.ends_with(b"-")) };
        self.state = State::Skip(matched);
        self.bad = Some(BadCommand { message });
    }

    fn skip(&mut self, matched: usize, byte: u8) -> Option<Token> {
        if byte == CLOSE[matched] {
            if matched + 1 == CLOSE.len() {
                self.state = State::Text;
                self.command = Command::default();
                return self.bad.take().map(Token::Bad);
            }
            self.state = State::Skip(matched + 1);
        } else if byte != b'-' {
            // More than two dashes still end with two.
            self.state = State::Skip(0);
        }
        None
    }

    /// Takes one byte of a command, the last of its source; answers whether it is complete.
    fn step(&mut self, byte: u8) -> Result<bool, String> {
        let at = self.command.source.len() - 1;
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        if is_space && !matches!(self.state, State::Value(_) | State::Escaped(_)) {
            self.space_bytes += 1;
            if self.space_bytes > SPACE_BYTES_MAX {
                return Err("too much white space in an SSI command".to_owned());
            }
        }
        match self.state {
            State::BeforeName if is_space => {}
            State::BeforeName => {
                self.command.name = at..at + 1;
                self.state = State::Name;
            }
            State::Name if is_space => self.state = State::BeforeParam,
            State::Name if byte == b'-' => self.state = State::Close(1),
            State::Name => {
                if self.command.name.len() == NAME_BYTES_MAX {
                    return Err(format!("the \"{}...\" SSI command is too long", self.name()));
                }
                self.command.name.end = at + 1;
            }
            State::BeforeParam | State::AfterValue if byte == b'-' => self.state = State::Close(1),
            State::BeforeParam if is_space => {}
            State::BeforeParam => {
                if self.command.params.len() == PARAMS_MAX {
                    return Err(format!("too many SSI command parameters: \"{}\"", self.name()));
                }
                self.command.params.push((at..at + 1, at..at));
                self.state = State::Param;
            }
            State::AfterValue if is_space => self.state = State::BeforeParam,
            State::AfterValue => return Err(self.unexpected(byte, "after the value of")),
            State::Close(1) if byte == b'-' => self.state = State::Close(2),
            State::Close(2) if byte == b'>' => return Ok(true),
            State::Close(_) => {
                let name = self.name();
                return Err(format!("unexpected \"{}\" symbol in \"{name}\" SSI command", byte.escape_ascii()));
            }
            _ => self.step_in_param(byte, is_space)?,
        }
        Ok(false)
    }

    /// Takes one byte between the beginning of a parameter and the end of its value.
    fn step_in_param(&mut self, byte: u8, is_space: bool) -> Result<(), String> {
        let at = self.command.source.len() - 1;
        match self.state {
            State::Param if is_space => self.state = State::BeforeEqual,
            State::Param | State::BeforeEqual if byte == b'=' => self.state = State::BeforeValue,
            State::Param if byte == b'-' => return Err(self.unexpected(byte, "after")),
            State::Param => self.extend_param(at)?,
            State::BeforeEqual if is_space => {}
            State::BeforeEqual => return Err(self.unexpected(byte, "after")),
            State::BeforeValue if is_space => {}
            State::BeforeValue if matches!(byte, b'"' | b'\'') => {
                self.begin_value(at + 1);
                self.state = State::Value(byte);
            }
            State::BeforeValue => return Err(self.unexpected(byte, "before the value of")),
            State::Value(quote) if byte == quote => self.state = State::AfterValue,
            State::Value(quote) => {
                self.extend_value(at)?;
                if byte == b'\\' {
                    self.state = State::Escaped(quote);
                }
            }
            State::Escaped(quote) => {
                self.extend_value(at)?;
                self.state = State::Value(quote);
            }
            // Not within a parameter.
            _ => {}
        }
        Ok(())
    }

    fn begin_value(&mut self, at: usize) {
        if let Some((_, value)) = self.command.params.last_mut() {
            *value = at..at;
        }
    }

    fn extend_value(&mut self, at: usize) -> Result<(), String> {
        let Some((_, value)) = self.command.params.last_mut() else { return Ok(()) };
        value.end = at + 1;
        if value.len() < self.value_bytes_max {
            return Ok(());
        }
        let value = value.clone();
        let (value, param, name) = (self.command.text(value), self.command.last_param(), self.name());
        Err(format!("too long \"{value}...\" value of \"{param}\" parameter in \"{name}\" SSI command"))
    }

    fn extend_param(&mut self, at: usize) -> Result<(), String> {
        let Some((param, _)) = self.command.params.last_mut() else { return Ok(()) };
        if param.len() < NAME_BYTES_MAX {
            param.end = at + 1;
            return Ok(());
        }
        let (param, name) = (self.command.last_param(), self.name());
        Err(format!("too long \"{param}...\" parameter in \"{name}\" SSI command"))
    }

    fn name(&self) -> String {
        self.command.text(self.command.name.clone())
    }

    fn unexpected(&self, byte: u8, place: &str) -> String {
        let (param, name) = (self.command.last_param(), self.name());
        format!("unexpected \"{}\" symbol {place} \"{param}\" parameter in \"{name}\" SSI command", byte.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens as text.
    fn scan(pieces: &[&[u8]]) -> String {
        let mut scanner = Scanner::new(16);
        let mut out = Vec::new();
        for piece in pieces {
            let mut at = 0;
            loop {
                let (used, token) = scanner.next(&piece[at..]);
                match token {
                    None => break assert_eq!(at + used, piece.len()),
                    Some(Token::Text(text)) => out.extend_from_slice(&piece[at..][text]),
                    Some(Token::Kept(text)) => out.extend_from_slice(text),
                    Some(Token::Command(command)) => {
                        out.extend_from_slice(&[b"{", command.name()].concat());
                        for (name, value) in command.params() {
                            out.extend_from_slice(&[b"|", name, b":", value].concat());
                        }
                        out.extend_from_slice(b"}");
                    }
                    Some(Token::Bad(bad)) => out.extend_from_slice(format!("<{bad}>").as_bytes()),
                }
                at += used;
            }
        }
        out.extend_from_slice(scanner.end());
        String::from_utf8_lossy(&out).into_owned()
    }

    /// However the text is cut in two, and byte for byte, the tokens are the same.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let text = text.as_bytes();
        for cut in 0..=text.len() {
            assert_eq!(scan(&[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(scan(&bytes), expected, "byte for byte");
    }

    #[test]
    fn commands() {
        check("a<!--#echo var=\"x\" -->b", "a{echo|var:x}b");
        check("<!--#\n echo\r\n\tvar =  'x'\n b=\"\"-->", "{echo|var:x|b:}");
        check("<!--#else --><!--#endif-->", "{else}{endif}");
        check("<!--#set a=\"-->\" b='x\"\\'y' -->", "{set|a:-->|b:x\"\\'y}");
    }

    #[test]
    fn text() {
        check("<<!<!-<!--<!-- #x--> <!--x--> <<!--#e--><!<!--#e-->", "<<!<!-<!--<!-- #x--> <!--x--> <{e}<!{e}");
        check("a<", "a<");
        check("a<!--", "a<!--");
        check("a<!--#echo var=\"x\"", "a");
        check("", "");
    }

    #[test]
    fn no_commands() {
        let bad = |text: &str, message: &str| check(&format!("a{text}b"), &format!("a<{message}>b"));
        bad(
            "<!--#echo var=x -->",
            "unexpected \"x\" symbol before the value of \"var\" parameter in \"echo\" SSI command",
        );
        bad("<!--#e a=\"b\"c -->", "unexpected \"c\" symbol after the value of \"a\" parameter in \"e\" SSI command");
        bad("<!--#e a- -->", "unexpected \"-\" symbol after \"a\" parameter in \"e\" SSI command");
        bad("<!--#e a -->", "unexpected \"-\" symbol after \"a\" parameter in \"e\" SSI command");
        bad("<!--#e - ->-->", "unexpected \" \" symbol in \"e\" SSI command");
        bad("<!--#e --->", "unexpected \"-\" symbol in \"e\" SSI command");
        bad("<!--#-->-->", "unexpected \">\" symbol in \"-\" SSI command");
    }

    #[test]
    fn limits() {
        let name = "n".repeat(NAME_BYTES_MAX);
        check(&format!("<!--#{name} {name}='' -->"), &format!("{{{name}|{name}:}}"));
        check(&format!("<!--#{name}n -->"), &format!("<the \"{name}...\" SSI command is too long>"));
        let message = format!("<too long \"{name}...\" parameter in \"e\" SSI command>");
        check(&format!("<!--#e {name}n='' -->"), &message);
        check("<!--#e a='123456789012345' -->", "{e|a:123456789012345}");
        check(
            "<!--#e a='1234567890123456' -->",
            "<too long \"1234567890123456...\" value of \"a\" parameter in \"e\" SSI command>",
        );
        let many = " a=''".repeat(PARAMS_MAX);
        check(&format!("<!--#e{many}-->"), &format!("{{e{}}}", "|a:".repeat(PARAMS_MAX)));
        check(&format!("<!--#e{many} a=''-->"), "<too many SSI command parameters: \"e\">");
        let space = " ".repeat(SPACE_BYTES_MAX + 1);
        assert_eq!(scan(&[format!("<!--#{space}e-->").as_bytes()]), "<too much white space in an SSI command>");
    }
}
