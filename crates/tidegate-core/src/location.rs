//! Which location a path belongs to.
//!
//! Exact locations win at once; else the longest prefix is remembered, and, unless it says `^~`, regular expressions in
//! the order of the file come before it. Locations inside the chosen one are searched the same way.
//!
//! Source: nginx, "location" in `ngx_http_core_module`.

use std::sync::Arc;

use bstr::BString;
use rustc_hash::FxHashMap;
use tidegate_conf::{Diagnostic, Diagnostics, Span};

use crate::{conf::LevelId, regex::Regex};

/// How a location's text is meant.
#[derive(Debug, Clone)]
pub enum Match {
    /// `= /path`
    Exact,
    /// `/path`
    Prefix,
    /// `^~ /path`: no regular expressions after this.
    PrefixFinal,
    /// `~ pattern` or `~* pattern`
    Regex(Arc<Regex>),
    /// `@name`
    Named,
    /// `if` and the like: never looked up.
    Unnamed,
}

/// A location as its directive says it.
#[derive(Debug, Clone)]
pub struct LocationDraft {
    /// Way in which `text` is compared with a path.
    pub kind: Match,
    /// Path, pattern or name.
    pub text: BString,
    /// Its level.
    pub level: LevelId,
    /// Place of the block in the configuration.
    pub span: Span,
}

impl LocationDraft {
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.kind, Match::Named)
    }
}

struct Prefix {
    text: BString,
    level: LevelId,
    final_: bool,
    /// The longest other prefix that this one begins with.
    shorter: Option<usize>,
}

/// The locations inside a server or a location, ready to be searched.
#[derive(Default)]
pub struct Locations {
    exact: FxHashMap<BString, LevelId>,
    /// Those exact ones that end in a slash, without it.
    exact_slashes: FxHashMap<BString, LevelId>,
    /// Sorted by text.
    prefixes: Vec<Prefix>,
    regexes: Vec<(Arc<Regex>, LevelId)>,
}

/// What a search in one level found.
pub struct Found<'a> {
    /// An exact location: nothing else matters.
    pub exact: Option<LevelId>,
    /// The longest prefix, and whether it is `^~`.
    pub prefix: Option<(LevelId, bool)>,
    /// Regular expressions to try, unless something better is found.
    pub regexes: &'a [(Arc<Regex>, LevelId)],
}

impl Locations {
    pub(crate) fn new(drafts: Vec<LocationDraft>, diagnostics: &mut Diagnostics) -> Self {
        let mut locations = Locations::default();
        for draft in drafts {
            let duplicate = match draft.kind {
                Match::Exact => {
                    if let Some(path) = draft.text.strip_suffix(b"/") {
                        locations.exact_slashes.insert(BString::from(path), draft.level);
                    }
                    locations.exact.insert(draft.text.clone(), draft.level).is_some()
                }
                Match::Prefix | Match::PrefixFinal => {
                    let final_ = matches!(draft.kind, Match::PrefixFinal);
                    let found = locations.prefixes.iter().any(|prefix| prefix.text == draft.text);
                    let prefix = Prefix { text: draft.text.clone(), level: draft.level, final_, shorter: None };
                    locations.prefixes.push(prefix);
                    found
                }
                Match::Regex(regex) => {
                    locations.regexes.push((regex, draft.level));
                    false
                }
                Match::Named | Match::Unnamed => false,
            };
            if duplicate {
                let message = format!("duplicate location \"{}\"", draft.text);
                diagnostics.push(Diagnostic::new(tidegate_conf::Level::Emerg, draft.span, message));
            }
        }
        locations.link();
        locations
    }

    fn link(&mut self) {
        self.prefixes.sort_by(|a, b| a.text.cmp(&b.text));
        let mut stack: Vec<usize> = Vec::new();
        for index in 0..self.prefixes.len() {
            while let Some(&top) = stack.last() {
                if self.prefixes[index].text.starts_with(&self.prefixes[top].text) {
                    break;
                }
                stack.pop();
            }
            self.prefixes[index].shorter = stack.last().copied();
            stack.push(index);
        }
    }

    /// Whether there is nothing to search.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }

    /// Searches for `path`.
    pub fn find(&self, path: &[u8]) -> Found<'_> {
        let exact = if self.exact.is_empty() { None } else { self.exact.get(bstr::BStr::new(path)).copied() };
        Found { exact, prefix: self.longest_prefix(path), regexes: &self.regexes }
    }

    /// The longest prefix of `path`: the greatest text that sorts at or before it, or one that this begins with.
    fn longest_prefix(&self, path: &[u8]) -> Option<(LevelId, bool)> {
        let after = self.prefixes.partition_point(|prefix| prefix.text.as_slice() <= path);
        let mut candidate = after.checked_sub(1);
        while let Some(index) = candidate {
            let prefix = &self.prefixes[index];
            if path.starts_with(&prefix.text) {
                return Some((prefix.level, prefix.final_));
            }
            candidate = prefix.shorter;
        }
        None
    }

    /// The location whose text is `path` with a slash behind it, for the redirect that adds the slash.
    pub fn with_slash(&self, path: &[u8]) -> Option<LevelId> {
        if !self.exact_slashes.is_empty()
            && let Some(&level) = self.exact_slashes.get(bstr::BStr::new(path))
        {
            return Some(level);
        }
        let found = self.prefixes.binary_search_by(|prefix| {
            let text = prefix.text.as_slice();
            text.iter().cmp(path.iter().chain(b"/"))
        });
        found.ok().map(|index| self.prefixes[index].level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations(texts: &[&str]) -> Locations {
        let mut diagnostics = Diagnostics::new();
        let span = Span { file: tidegate_conf::FileId(0), start: 0, end: 0 };
        let drafts = texts
            .iter()
            .enumerate()
            .map(|(index, text)| LocationDraft {
                kind: Match::Prefix,
                text: BString::from(*text),
                level: LevelId(index as u32),
                span,
            })
            .collect();
        Locations::new(drafts, &mut diagnostics)
    }

    #[track_caller]
    fn check(texts: &[&str], path: &str, expected: Option<&str>) {
        let found = locations(texts).find(path.as_bytes()).prefix.map(|(level, _)| texts[level.0 as usize]);
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn longest_prefix_wins() {
        let texts = ["/", "/a", "/a/b/", "/a/b/c", "/ab", "/b"];
        check(&texts, "/", Some("/"));
        check(&texts, "/x", Some("/"));
        check(&texts, "/a", Some("/a"));
        check(&texts, "/a/b", Some("/a"));
        check(&texts, "/a/b/", Some("/a/b/"));
        check(&texts, "/a/b/cd", Some("/a/b/c"));
        check(&texts, "/a/b/b", Some("/a/b/"));
        check(&texts, "/abc", Some("/ab"));
        check(&texts, "/aaa", Some("/a"));
        check(&["/b"], "/a", None);
        check(&[], "/", None);
    }

    #[test]
    fn slash_is_found() {
        let texts = ["/a", "/a/", "/b/"];
        assert_eq!(locations(&texts).with_slash(b"/b"), Some(LevelId(2)));
        assert_eq!(locations(&texts).with_slash(b"/c"), None);
    }
}
