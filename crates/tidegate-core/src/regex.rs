//! Perl-compatible regular expressions, as nginx uses them in locations, server names, `map`, `rewrite` and `if`.
//!
//! A thin wrapper around PCRE2: compiled once while the configuration loads, JIT-compiled where possible, shared by all
//! workers. Lua's `ngx.re` builds on the same type with more options.

use std::{cell::RefCell, ffi::c_int, ptr, sync::OnceLock};

use bstr::{BString, ByteSlice};
use pcre2_sys as pcre;

use crate::variable::VariableId;

/// A compiled regular expression.
pub struct Regex {
    code: ptr::NonNull<pcre::pcre2_code_8>,
    pattern: BString,
    /// How much of the pattern, behind its `^`, is text that each match begins with; see [`literal_prefix_bytes`].
    prefix_bytes: usize,
    group_count: usize,
    names: Vec<(BString, usize)>,
    /// Variables that the named groups set, with the groups' numbers; see [`Regex::bind`].
    variables: OnceLock<Box<[(VariableId, usize)]>>,
}

// SAFETY: PCRE2 documents compiled patterns as read-only while matching; all per-match state is in the match data, which
// is thread-local here.
unsafe impl Send for Regex {}
// SAFETY: as above.
unsafe impl Sync for Regex {}

/// Why a pattern does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pcre2_compile() failed: {message} in \"{pattern}\"{}", at(.rest))]
pub struct RegexError {
    /// PCRE's message.
    pub message: String,
    /// The pattern.
    pub pattern: BString,
    /// The pattern from where the error is.
    pub rest: BString,
}

/// The place of an error; nothing at the end of the pattern.
fn at(rest: &BString) -> String {
    if rest.is_empty() { String::new() } else { format!(" at \"{rest}\"") }
}

/// Why a match could not be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("pcre2_match() failed: {0}")]
pub struct MatchError(pub i32);

/// Where the groups of a match lie in the subject, as pairs of offsets; a group that took no part has `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
    /// Offsets; group 0 is the whole match.
    pub groups: Vec<Option<(usize, usize)>>,
}

/// Options of a regular expression: PCRE2's option bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegexOptions(pub u32);

impl RegexOptions {
    /// Case-sensitive, nothing special.
    pub const NONE: RegexOptions = RegexOptions(0);
    /// Letters match without regard to case.
    pub const CASELESS: RegexOptions = RegexOptions(pcre::PCRE2_CASELESS);
}

struct MatchData {
    data: *mut pcre::pcre2_match_data_8,
    context: *mut pcre::pcre2_match_context_8,
    pairs: u32,
}

thread_local! {
    static MATCH_DATA: RefCell<MatchData> = const {
        RefCell::new(MatchData { data: ptr::null_mut(), context: ptr::null_mut(), pairs: 0 })
    };
}

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// [`RegexError`] with nginx's text.
    pub fn new(pattern: &[u8], options: RegexOptions) -> Result<Self, RegexError> {
        let (mut code, mut offset) = (0, 0);
        // SAFETY: pattern and length describe a live slice; the out-pointers are live locals.
        let compiled = unsafe {
            pcre::pcre2_compile_8(pattern.as_ptr(), pattern.len(), options.0, &mut code, &mut offset, ptr::null_mut())
        };
        let Some(compiled) = ptr::NonNull::new(compiled) else {
            let rest = pattern[offset.min(pattern.len())..].into();
            return Err(RegexError { message: error_message(code), pattern: pattern.into(), rest });
        };
        // SAFETY: `compiled` is a pattern that was just made. A failure of the JIT compiler is fine: the interpreter serves.
        let _ = unsafe { pcre::pcre2_jit_compile_8(compiled.as_ptr(), pcre::PCRE2_JIT_COMPLETE) };
        let mut regex = Regex {
            code: compiled,
            pattern: pattern.into(),
            prefix_bytes: if options == RegexOptions::NONE { literal_prefix_bytes(pattern) } else { 0 },
            group_count: 0,
            names: Vec::new(),
            variables: OnceLock::new(),
        };
        regex.group_count = regex.info_u32(pcre::PCRE2_INFO_CAPTURECOUNT) as usize;
        regex.names = regex.read_names();
        Ok(regex)
    }

    fn info_u32(&self, what: u32) -> u32 {
        let mut value = 0u32;
        // SAFETY: the items asked for through this function are documented as uint32_t.
        unsafe { pcre::pcre2_pattern_info_8(self.code.as_ptr(), what, ptr::from_mut(&mut value).cast()) };
        value
    }

    fn read_names(&self) -> Vec<(BString, usize)> {
        let count = self.info_u32(pcre::PCRE2_INFO_NAMECOUNT) as usize;
        let size = self.info_u32(pcre::PCRE2_INFO_NAMEENTRYSIZE) as usize;
        if count == 0 {
            return Vec::new();
        }
        let mut table: *const u8 = ptr::null();
        // SAFETY: PCRE2_INFO_NAMETABLE stores a pointer.
        unsafe {
            pcre::pcre2_pattern_info_8(self.code.as_ptr(), pcre::PCRE2_INFO_NAMETABLE, ptr::from_mut(&mut table).cast())
        };
        // SAFETY: the table has `count` entries of `size` bytes and lives as long as the pattern.
        let table = unsafe { std::slice::from_raw_parts(table, count * size) };
        table
            .chunks(size)
            .map(|entry| {
                let name = entry[2..].split(|&b| b == 0).next().unwrap_or_default();
                (BString::from(name), usize::from(entry[0]) << 8 | usize::from(entry[1]))
            })
            .collect()
    }

    /// The pattern.
    pub fn pattern(&self) -> &bstr::BStr {
        self.pattern.as_bstr()
    }

    /// Number of groups, group 0 not counted.
    pub fn group_count(&self) -> usize {
        self.group_count
    }

    /// Named groups with their numbers.
    pub fn names(&self) -> &[(BString, usize)] {
        &self.names
    }

    /// Remembers which variables the named groups set, so that no name is looked up for a match. The first call counts:
    /// a pattern belongs to one configuration.
    pub fn bind(&self, variables: Vec<(VariableId, usize)>) {
        let _ = self.variables.set(variables.into());
    }

    /// The variables that the named groups set, if that is known.
    pub fn variables(&self) -> Option<&[(VariableId, usize)]> {
        self.variables.get().map(|variables| &**variables)
    }

    /// Whether `subject` matches.
    ///
    /// # Errors
    /// [`MatchError`] when a limit of PCRE is reached.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        if !self.may_match(subject) {
            return Ok(false);
        }
        self.run(subject, 0, 0, |_| ()).map(|found| found.is_some())
    }

    /// The groups of the first match in `subject`.
    ///
    /// # Errors
    /// [`MatchError`] when a limit of PCRE is reached.
    pub fn captures(&self, subject: &[u8]) -> Result<Option<Captures>, MatchError> {
        if !self.may_match(subject) {
            return Ok(None);
        }
        self.run(subject, 0, 0, |pairs| Captures { groups: read_groups(pairs, self.group_count) })
    }

    /// Whether `subject` begins with the text that each match begins with: the look at a long list of patterns is mostly this.
    fn may_match(&self, subject: &[u8]) -> bool {
        self.prefix_bytes == 0 || subject.starts_with(&self.pattern[1..=self.prefix_bytes])
    }

    /// Matches from offset `start`, with PCRE2 match options, and hands the offset pairs that were set to `found`.
    ///
    /// # Errors
    /// [`MatchError`] with PCRE2's negative code.
    pub fn run<T>(
        &self,
        subject: &[u8],
        start: usize,
        options: u32,
        found: impl FnOnce(&[usize]) -> T,
    ) -> Result<Option<T>, MatchError> {
        MATCH_DATA.with_borrow_mut(|data| {
            data.reserve(u32::try_from(self.group_count + 1).unwrap_or(u32::MAX));
            // SAFETY: the subject is a live slice, `start` is checked by PCRE2 (it answers BADOFFSET), the match data
            // belongs to this thread and is not in use by another match.
            let count = unsafe {
                pcre::pcre2_match_8(
                    self.code.as_ptr(),
                    subject.as_ptr(),
                    subject.len(),
                    start,
                    options,
                    data.data,
                    data.context,
                )
            };
            match count {
                pcre::PCRE2_ERROR_NOMATCH => Ok(None),
                count if count < 0 => Err(MatchError(count)),
                count => Ok(Some(found(data.pairs(count as usize)))),
            }
        })
    }

    /// The compiled code, for callers that need PCRE2 itself (`ngx.re` with its DFA mode).
    pub fn as_ptr(&self) -> *mut pcre::pcre2_code_8 {
        self.code.as_ptr()
    }
}

impl std::fmt::Debug for Regex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Regex({:?})", self.pattern)
    }
}

impl Drop for Regex {
    fn drop(&mut self) {
        // SAFETY: the pattern is ours and nobody matches with it any more: `self` is going.
        unsafe { pcre::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

impl MatchData {
    /// Makes room for `pairs` groups.
    fn reserve(&mut self, pairs: u32) {
        if self.pairs >= pairs && !self.data.is_null() {
            return;
        }
        let pairs = pairs.max(16);
        // SAFETY: the old block is ours or null, which PCRE2 ignores.
        unsafe { pcre::pcre2_match_data_free_8(self.data) };
        // SAFETY: no preconditions.
        self.data = unsafe { pcre::pcre2_match_data_create_8(pairs, ptr::null_mut()) };
        if self.context.is_null() {
            // SAFETY: no preconditions.
            self.context = unsafe { pcre::pcre2_match_context_create_8(ptr::null_mut()) };
        }
        self.pairs = pairs;
    }

    fn pairs(&self, count: usize) -> &[usize] {
        // SAFETY: `data` holds `self.pairs` pairs, and `count` of them, at most that many, were set by the last match.
        unsafe { std::slice::from_raw_parts(pcre::pcre2_get_ovector_pointer_8(self.data), count * 2) }
    }
}

impl Drop for MatchData {
    fn drop(&mut self) {
        // SAFETY: both blocks are ours or null.
        unsafe { pcre::pcre2_match_data_free_8(self.data) };
        // SAFETY: as above.
        unsafe { pcre::pcre2_match_context_free_8(self.context) };
    }
}

/// How many bytes behind the `^` of a pattern without options stand for themselves in each match, as far as that is plain
/// to see; 0 for a pattern without `^`.
fn literal_prefix_bytes(pattern: &[u8]) -> usize {
    let Some(rest) = pattern.strip_prefix(b"^") else { return 0 };
    if rest.contains(&b'|') {
        // Another alternative may begin with anything.
        return 0;
    }
    let is_plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"/-_".contains(*byte);
    let bytes = rest.iter().take_while(is_plain).count();
    match rest.get(bytes) {
        // The last one may be missing.
        Some(b'?' | b'*' | b'{') => bytes.saturating_sub(1),
        _ => bytes,
    }
}

fn read_groups(pairs: &[usize], group_count: usize) -> Vec<Option<(usize, usize)>> {
    let mut groups: Vec<_> =
        pairs.chunks(2).map(|pair| (pair[0] != usize::MAX).then_some((pair[0], pair[1]))).collect();
    groups.resize(group_count + 1, None);
    groups
}

/// PCRE2's text for an error code.
pub fn error_message(code: c_int) -> String {
    let mut buf = [0u8; 256];
    // SAFETY: the buffer is live and its length is given.
    let len = unsafe { pcre::pcre2_get_error_message_8(code, buf.as_mut_ptr(), buf.len()) };
    String::from_utf8_lossy(&buf[..usize::try_from(len).unwrap_or(0)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, subject: &str, expected: Option<&[Option<(usize, usize)>]>) {
        let regex = Regex::new(pattern.as_bytes(), RegexOptions::NONE).expect("compiles");
        let groups = regex.captures(subject.as_bytes()).expect("no limit").map(|c| c.groups);
        assert_eq!(groups.as_deref(), expected);
    }

    #[test]
    fn groups() {
        check("b", "abc", Some(&[Some((1, 2))]));
        check("x", "abc", None);
        check("(a)|(b)", "b", Some(&[Some((0, 1)), None, Some((0, 1))]));
        check("(b)|(a)(x)?", "b", Some(&[Some((0, 1)), Some((0, 1)), None, None]));
    }

    #[test]
    fn matches_begin_with_the_plain_text_of_the_pattern() {
        for (pattern, bytes) in [
            ("^/a-b_9/(c)", 7),
            ("^/ab?c", 2),
            ("^/ab*", 2),
            ("^/ab{0}", 2),
            ("^/ab+", 3),
            ("^/ab.c", 3),
            ("^/ab$", 3),
            ("^a?", 0),
            ("^/a|b", 0),
            ("^/(a|b)", 0),
            ("^", 0),
            ("/ab", 0),
            ("(?i)^ab", 0),
        ] {
            assert_eq!(literal_prefix_bytes(pattern.as_bytes()), bytes, "{pattern}");
        }
        check("^/ab?c", "/ac", Some(&[Some((0, 3))]));
        check("^/ab?c", "/xc", None);
        check("^ab(?i)cd", "abCD", Some(&[Some((0, 4))]));
        check("^ab", "a", None);
        check("^/a|b", "xb", Some(&[Some((1, 2))]));
        let caseless = Regex::new(b"^ab", RegexOptions::CASELESS).expect("compiles");
        assert_eq!(caseless.is_match(b"ABC"), Ok(true));
    }

    #[test]
    fn names_and_errors() {
        let regex = Regex::new(br"^(?<name>\w+)\.(?<ext>\w+)$", RegexOptions::CASELESS).expect("compiles");
        assert_eq!(regex.names(), [("ext".into(), 2), ("name".into(), 1)]);
        let error = Regex::new(b"a(b", RegexOptions::NONE).expect_err("unbalanced");
        assert_eq!(error.to_string(), "pcre2_compile() failed: missing closing parenthesis in \"a(b\"");
        let error = Regex::new(b"a)b", RegexOptions::NONE).expect_err("unbalanced");
        assert_eq!(error.to_string(), "pcre2_compile() failed: unmatched closing parenthesis in \"a)b\" at \")b\"");
    }
}
