//! Browsers with known faults, by their `User-Agent`: for `keepalive_disable` and `msie_padding`.

/// What nginx recognises in a `User-Agent` field; everything else is `Browser::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Browser {
    /// Any MSIE, unless it is an Opera in disguise.
    pub msie: bool,
    /// MSIE 4 to 6, but not 6 of Windows XP SP2, which is repaired.
    pub msie6: bool,
    /// Opera before it became a Chrome.
    pub opera: bool,
    /// Chrome and its kin.
    pub chrome: bool,
    /// Safari on macOS.
    pub safari: bool,
}

impl Browser {
    /// Recognises the browser. Costs several searches of the field: only for those who need to know.
    ///
    /// Source: nginx, `ngx_http_process_user_agent`.
    pub fn of(user_agent: &[u8]) -> Browser {
        let find = |text: &[u8]| memchr::memmem::find(user_agent, text);
        if find(b"Opera").is_some() {
            return Browser { opera: true, ..Browser::default() };
        }
        // Two more bytes must follow the version's first digit.
        let version = find(b"MSIE ").map(|at| &user_agent[at + 5..]).filter(|version| version.len() > 2);
        if let Some(version) = version {
            let msie6 = match version {
                [b'4' | b'5', b'.', ..] => true,
                [b'6', b'.', _, rest @ ..] => memchr::memmem::find(rest, b"SV1").is_none(),
                _ => false,
            };
            return Browser { msie: true, msie6, ..Browser::default() };
        }
        if find(b"Gecko/").is_some() {
            return Browser::default();
        }
        let chrome = find(b"Chrome/").is_some();
        let safari = !chrome && find(b"Safari/").is_some() && find(b"Mac OS X").is_some();
        Browser { chrome, safari, ..Browser::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises() {
        #[track_caller]
        fn check(user_agent: &str, expected: &str) {
            let browser = Browser::of(user_agent.as_bytes());
            let flags = [
                (browser.msie, "msie"),
                (browser.msie6, "msie6"),
                (browser.opera, "opera"),
                (browser.chrome, "chrome"),
                (browser.safari, "safari"),
            ];
            let names: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            assert_eq!(names.join(" "), expected, "{user_agent}");
        }
        check("", "");
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.0)", "msie msie6");
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", "msie");
        check("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", "msie msie6");
        check("Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.0)", "msie");
        check("MSIE 10.0", "msie");
        check("MSIE 6.", "");
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows) Opera 8.5", "opera");
        check("Mozilla/5.0 (X11; Linux) Gecko/20100101 Firefox/128.0", "");
        check("Mozilla/5.0 (Macintosh; Mac OS X) AppleWebKit (KHTML, like Gecko) Chrome/120 Safari/537", "chrome");
        check("Mozilla/5.0 (Macintosh; Intel Mac OS X 14) AppleWebKit (KHTML, like Gecko) Safari/605", "safari");
        check("Mozilla/5.0 (Linux) AppleWebKit Safari/605", "");
    }
}
