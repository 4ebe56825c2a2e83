//! URLs, and the requests that are made of them.

use std::path::PathBuf;

use crate::block::{self, Block};

/// Where requests go and what they say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_tls: bool,
    /// Without brackets.
    pub(crate) host: String,
    /// As it was given.
    pub(crate) port: Option<u16>,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) socket: Option<PathBuf>,
    /// As it was typed, without a weight.
    pub(crate) text: String,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let fault = |reason: &str| Err(format!("\"{text}\" is no URL: {reason}"));
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return fault("it has a blank or a control character in it");
        }
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return fault("it begins with neither http:// nor https://"),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
            let url = Url {
                is_tls,
                host: "localhost".to_owned(),
                port: None,
                path: with_slash(path),
                socket: Some(socket.into()),
                text: text.to_owned(),
            };
            return if socket.is_empty() { fault("the socket is missing") } else { Ok(url) };
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return fault("user and password go into the option -A");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) if port.is_empty() || port.starts_with(':') => (host, port.strip_prefix(':')),
                _ => return fault("the address is not within brackets"),
            },
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None | Some("") => None,
            Some(port) => match port.parse::<u16>() {
                Ok(port) if port > 0 => Some(port),
                _ => return fault("the port is no number up to 65535"),
            },
        };
        if host.is_empty() {
            return fault("the host is missing");
        }
        Ok(Url { is_tls, host: host.to_owned(), port, path: with_slash(path), socket: None, text: text.to_owned() })
    }

    /// The port to connect to.
    pub(crate) fn port_number(&self) -> u16 {
        self.port.unwrap_or(if self.is_tls { 443 } else { 80 })
    }

    /// The value of `Host`: an address of IPv6 within brackets, and the port if the URL has one.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Whether both are at the same server.
    pub(crate) fn is_beside(&self, other: &Url) -> bool {
        let place = |url: &Url| (url.is_tls, url.host.clone(), url.port_number(), url.socket.clone());
        place(self) == place(other)
    }
}

fn with_slash(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Reads `WEIGHT=URL`.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn weighted(text: &str) -> Result<(u32, Url), String> {
    let weight =
        text.split_once('=').filter(|(weight, _)| !weight.is_empty() && weight.bytes().all(|b| b.is_ascii_digit()));
    let Some((weight, url)) = weight else { return Ok((1, Url::parse(text)?)) };
    match weight.parse() {
        Ok(weight) if (1..=WEIGHT_MAX).contains(&weight) => Ok((weight, Url::parse(url)?)),
        _ => Err(format!("the weight of \"{text}\" is no number from 1 to {WEIGHT_MAX}")),
    }
}

/// The largest weight of a URL: the order of a round is made ahead.
const WEIGHT_MAX: u32 = 10_000;

/// Steps that mixing may take: a second or two.
const MIXING_STEPS_MAX: i64 = 1_000_000_000;

/// The order of a round: each URL as often as its weight says, spread as evenly as it can be.
///
/// # Errors
/// A sentence for the user: so many URLs of different weights would take minutes to mix.
///
/// Source: nginx's weighted balancing, which has the same aim.
pub(crate) fn order(weights: &[u32]) -> Result<Vec<u16>, String> {
    let divisor = weights.iter().copied().fold(0, greatest_divisor).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    if weights.iter().all(|weight| *weight == 1) {
        return Ok((0..weights.len()).map(|url| url as u16).collect());
    }
    let total: i64 = weights.iter().sum();
    if total * weights.len() as i64 > MIXING_STEPS_MAX {
        return Err(format!("{} URLs cannot be mixed by weights of {total} in all: take smaller ones", weights.len()));
    }
    let mut credit = vec![0; weights.len()];
    let mut order = Vec::new();
    for _ in 0..total {
        for (credit, weight) in credit.iter_mut().zip(&weights) {
            *credit += weight;
        }
        // The first of those with the most credit.
        let next = (0..credit.len()).rev().max_by_key(|at| credit[*at]).unwrap_or_default();
        credit[next] -= total;
        order.push(next as u16);
    }
    Ok(order)
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// A request that is made once and sent many times.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// As HTTP/1 sends it.
    pub(crate) text: Vec<u8>,
    pub(crate) to_head: bool,
    /// As HTTP/2 sends it.
    pub(crate) block: Block,
}

/// What all requests have.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) method: String,
    /// Fields in their order; a `Host` among them takes the place of the URL's.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) close: bool,
}

impl Form {
    /// The request for a URL.
    pub(crate) fn request(&self, url: &Url) -> Request {
        let has = |name: &str| self.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, url.path);
        if !has("host") {
            text += &format!("Host: {}\r\n", url.authority());
        }
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        let wants_length = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if wants_length && !has("content-length") && !has("transfer-encoding") {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        if self.close && !has("connection") {
            text += "Connection: close\r\n";
        }
        let mut text = (text + "\r\n").into_bytes();
        let block = block::of_request(&text, &self.body, url.is_tls);
        text.extend_from_slice(&self.body);
        Request { text, to_head: self.method == "HEAD", block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        #[track_caller]
        fn check(text: &str, expected: (bool, &str, u16, &str, &str)) {
            let url = Url::parse(text).expect("a URL");
            let seen = (url.is_tls, url.host.as_str(), url.port_number(), url.path.as_str());
            assert_eq!((seen.0, seen.1, seen.2, seen.3, url.authority().as_str()), expected);
        }
        check("http://a", (false, "a", 80, "/", "a"));
        check("http://a:8080/x?y#z", (false, "a", 8080, "/x?y", "a:8080"));
        check("https://a?q", (true, "a", 443, "/?q", "a"));
        check("http://[::1]:81/", (false, "::1", 81, "/", "[::1]:81"));
        check("https://[::1]", (true, "::1", 443, "/", "[::1]"));
        let url = Url::parse("http://unix:/run/a.sock:/x").expect("a URL");
        assert_eq!((url.socket, url.path.as_str()), (Some("/run/a.sock".into()), "/x"));
        for bad in ["a", "ftp://a", "http://", "http://a:0/", "http://a:x", "http://a b/", "http://u@a/", "http://[::1"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn weights_are_kept_and_spread() {
        let order = |weights: &[u32]| order(weights).expect("few enough");
        assert_eq!(order(&[1]), [0]);
        assert_eq!(order(&[5, 5]), [0, 1]);
        assert_eq!(order(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(order(&[9; 65_535]).last(), Some(&65_534));
        assert!(super::order(&[10_000, 9_999].repeat(2_000)).is_err());
        let order = order(&[7, 2, 1]);
        let counts = [0, 1, 2].map(|url| order.iter().filter(|at| **at == url).count());
        assert_eq!(counts, [7, 2, 1]);
        assert_eq!(weighted("3=http://a/?b=c").expect("one").0, 3);
        assert_eq!(weighted("http://a/?b=c").expect("one").0, 1);
        assert!(weighted("0=http://a/").is_err() && weighted("99999=http://a/").is_err());
    }

    #[test]
    fn requests() {
        let form = Form {
            method: "POST".to_owned(),
            fields: vec![("X-A".to_owned(), "1".to_owned())],
            body: b"abc".to_vec(),
            close: true,
        };
        let url = Url::parse("http://a:81/x").expect("a URL");
        let expected = "POST /x HTTP/1.1\r\nHost: a:81\r\nX-A: 1\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        assert_eq!(String::from_utf8_lossy(&form.request(&url).text), expected);
    }
}
