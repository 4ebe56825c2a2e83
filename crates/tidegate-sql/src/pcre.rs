//! PCRE2: patterns compiled once for each thread, matches with a bound on their work.

use std::{cell::RefCell, ptr, rc::Rc};

use pcre2_sys as pcre;

/// Patterns that a thread keeps.
const CACHED_MAX: usize = 64;

/// Steps of a match: a pattern that backtracks without end gives up after some tens of milliseconds.
const MATCH_LIMIT: u32 = 300_000;

/// Kilobytes of a match's memory.
const HEAP_LIMIT_KIB: u32 = 16 * 1024;

/// A compiled pattern with what a match needs.
pub(crate) struct Pattern {
    code: *mut pcre::pcre2_code_8,
    data: *mut pcre::pcre2_match_data_8,
    context: *mut pcre::pcre2_match_context_8,
}

/// Why a pattern does not compile or a match gave up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{message} at offset {offset}")]
    Compile { message: String, offset: usize },
    #[error("pcre_exec: {0}")]
    Match(String),
}

/// A pattern and how it was compiled.
type Cached = (Vec<u8>, u32, Rc<Pattern>);

thread_local! {
    static CACHE: RefCell<Vec<Cached>> = const { RefCell::new(Vec::new()) };
}

impl Pattern {
    /// The compiled form of a pattern; compiled at most once while the thread keeps it.
    ///
    /// # Errors
    /// [`PatternError::Compile`].
    pub(crate) fn cached(pattern: &[u8], utf: bool, caseless: bool) -> Result<Rc<Self>, PatternError> {
        let options =
            if utf { pcre::PCRE2_UTF | pcre::PCRE2_UCP } else { 0 } | if caseless { pcre::PCRE2_CASELESS } else { 0 };
        let known = CACHE.with_borrow(|cache| {
            cache.iter().find(|(text, with, _)| *with == options && text == pattern).map(|(.., found)| Rc::clone(found))
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let compiled = Rc::new(Self::compile(pattern, options)?);
        CACHE.with_borrow_mut(|cache| {
            if cache.len() >= CACHED_MAX {
                cache.remove(0);
            }
            cache.push((pattern.to_vec(), options, Rc::clone(&compiled)));
        });
        Ok(compiled)
    }

    fn compile(pattern: &[u8], options: u32) -> Result<Self, PatternError> {
        let (mut code, mut offset) = (0, 0);
        // SAFETY: pattern and length describe a live slice; the out-pointers are live locals.
        let compiled = unsafe {
            pcre::pcre2_compile_8(pattern.as_ptr(), pattern.len(), options, &mut code, &mut offset, ptr::null_mut())
        };
        if compiled.is_null() {
            return Err(PatternError::Compile { message: message(code), offset });
        }
        // SAFETY: `compiled` was just made; null is a valid general context. PCRE2 answers null without memory, which is checked.
        let pattern = unsafe {
            Self {
                code: compiled,
                data: pcre::pcre2_match_data_create_from_pattern_8(compiled, ptr::null_mut()),
                context: pcre::pcre2_match_context_create_8(ptr::null_mut()),
            }
        };
        if pattern.data.is_null() || pattern.context.is_null() {
            return Err(PatternError::Match("out of memory".into()));
        }
        // SAFETY: the context is not null.
        unsafe {
            pcre::pcre2_set_match_limit_8(pattern.context, MATCH_LIMIT);
            pcre::pcre2_set_heap_limit_8(pattern.context, HEAP_LIMIT_KIB);
        }
        Ok(pattern)
    }

    /// The first match from an offset on: its groups as pairs of offsets.
    ///
    /// # Errors
    /// [`PatternError::Match`] when a limit is reached or the text is not UTF-8.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Result<Option<Vec<Option<(usize, usize)>>>, PatternError> {
        if from > text.len() {
            return Ok(None);
        }
        // SAFETY: the text is a live slice and the offset is inside of it; the match data belongs to this pattern, which
        // stays on its thread, and no other match uses it meanwhile.
        let count =
            unsafe { pcre::pcre2_match_8(self.code, text.as_ptr(), text.len(), from, 0, self.data, self.context) };
        if count == pcre::PCRE2_ERROR_NOMATCH {
            return Ok(None);
        }
        if count < 0 {
            return Err(PatternError::Match(message(count)));
        }
        // SAFETY: after a match the vector holds a pair for each group of the pattern.
        let pairs = unsafe {
            let groups = pcre::pcre2_get_ovector_count_8(self.data) as usize;
            std::slice::from_raw_parts(pcre::pcre2_get_ovector_pointer_8(self.data), groups * 2)
        };
        let group = |pair: &[usize]| (pair[0] <= pair[1] && pair[1] <= text.len()).then_some((pair[0], pair[1]));
        Ok(Some(pairs.chunks(2).map(group).collect()))
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: all three were made by PCRE2 for this pattern alone; it takes null.
        unsafe {
            pcre::pcre2_match_context_free_8(self.context);
            pcre::pcre2_match_data_free_8(self.data);
            pcre::pcre2_code_free_8(self.code);
        }
    }
}

fn message(code: i32) -> String {
    let mut text = [0u8; 256];
    // SAFETY: the buffer is live and its length given.
    let len = unsafe { pcre::pcre2_get_error_message_8(code, text.as_mut_ptr(), text.len()) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    String::from_utf8_lossy(&text[..len]).into_owned()
}
