//! Tables for [`super`]; every case is also read with one more byte at a time.

use bstr::BStr;

use super::*;

/// What a head says, in one line; or the error with its status.
fn summary(result: &Result<Parsed, BadRequest>, head: &RequestHead) -> String {
    match result {
        Ok(Parsed::Partial) => "partial".to_owned(),
        Err(error) => format!("{} {error}", error.status()).replace("client sent ", ""),
        Ok(Parsed::Complete(_)) => {
            let mut text = format!(
                "{} {} {}.{} host={}",
                BStr::new(head.method_text()),
                BStr::new(head.target()),
                head.version.0,
                head.version.1,
                BStr::new(head.host())
            );
            for (name, value, _) in head.fields.iter() {
                text += &format!(" {}={}", BStr::new(name), BStr::new(value));
            }
            let flags = [
                (head.chunked, "chunked"),
                (head.keep_alive, "keep-alive"),
                (head.expect_continue, "expect"),
                (head.upgrade, "upgrade"),
            ];
            let flags = flags.iter().filter(|(set, _)| *set).map(|(_, name)| format!(" +{name}"));
            text + &head.content_length.map_or(String::new(), |n| format!(" length={n}")) + &flags.collect::<String>()
        }
    }
}

fn parse_whole(input: &[u8], limits: &HeadLimits, options: &HeadOptions) -> (String, RequestHead) {
    let mut head = RequestHead::new();
    let result = parse_request(input, limits, options, &mut head);
    (summary(&result, &head), head)
}

#[track_caller]
fn check_with(input: &[u8], limits: &HeadLimits, options: &HeadOptions, expected: &str) -> RequestHead {
    let (whole, head) = parse_whole(input, limits, options);
    assert_eq!(whole, expected, "{}", BStr::new(input));
    // Byte by byte, with a head that was used before.
    let mut reused = RequestHead::new();
    let _ = parse_request(b"GET /old?x HTTP/1.1\r\nHost: OLD\r\nUpgrade: a\r\n\r\n", limits, options, &mut reused);
    for end in 0..=input.len() {
        let result = parse_request(&input[..end], limits, options, &mut reused);
        if let Ok(Parsed::Complete(consumed)) = result {
            assert_eq!(consumed, end);
        }
        if result != Ok(Parsed::Partial) || end == input.len() {
            assert_eq!(summary(&result, &reused), expected, "cut at {end}: {}", BStr::new(input));
            break;
        }
    }
    // In two parts.
    for cut in 0..input.len() {
        let mut result = parse_request(&input[..cut], limits, options, &mut reused);
        if result == Ok(Parsed::Partial) {
            result = parse_request(input, limits, options, &mut reused);
        }
        assert_eq!(summary(&result, &reused), expected, "cut at {cut}: {}", BStr::new(input));
        reused.clear();
    }
    head
}

#[track_caller]
fn check(input: &str, expected: &str) -> RequestHead {
    check_with(input.as_bytes(), &HeadLimits::default(), &HeadOptions::default(), expected)
}

#[test]
fn reads_heads() {
    let head = check(
        "GET /a%20b/../c?d=1#e HTTP/1.1\r\nHost: LocalHost:8080\r\nX-Foo:  bar \r\n\r\nrest",
        "GET /a%20b/../c?d=1#e 1.1 host=localhost Host=LocalHost:8080 X-Foo=bar +keep-alive",
    );
    assert_eq!(head.path(), b"/c");
    assert_eq!(head.args(), b"d=1");
    assert_eq!(head.request_line(), b"GET /a%20b/../c?d=1#e HTTP/1.1");
    assert_eq!(head.protocol(), b"HTTP/1.1");
    assert!(head.raw().ends_with(b"bar \r\n\r\n"));
    assert_eq!(&head.raw()[head.request_line_bytes()..][..5], b"Host:");
    assert!(head.quoted());

    let head = check("\r\n\n\r\nGET /x?y HTTP/1.0\n\nGET", "GET /x?y 1.0 host=");
    assert_eq!(head.raw(), b"GET /x?y HTTP/1.0\n\n");
    assert_eq!((head.path(), head.args()), (&b"/x"[..], &b"y"[..]));

    let head = check("GET /x\r\nHost: a\r\n", "GET /x 0.9 host=");
    assert_eq!(head.raw(), b"GET /x\r\n");
    check("", "partial");
    check("\r\n", "partial");
    check("GET / HTTP/1.1\r\nHost: a\r\n", "partial");
}

#[test]
fn takes_the_host_of_an_absolute_target() {
    let head = check(
        "GET HTTP://Example.org:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n",
        "GET /a?b 1.1 host=example.org Host=other +keep-alive",
    );
    assert_eq!((head.path(), head.args(), head.scheme()), (&b"/a"[..], &b"b"[..], Some(&b"HTTP"[..])));
    let head = check("GET http://e HTTP/1.0\r\n\r\n", "GET / 1.0 host=e");
    assert_eq!((head.path(), head.args()), (&b"/"[..], &b""[..]));
    let head = check("GET http://e?a HTTP/1.0\r\n\r\n", "GET ?a 1.0 host=e");
    assert_eq!((head.path(), head.args()), (&b"/"[..], &b"a"[..]));
    check("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid host in request line");
    check("GET http://a..b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 invalid host in request line");
    check("GET http://a/ HTTP/1.1\r\nHost: a..b\r\n\r\n", "400 invalid host header");
    check("GET http://a/ HTTP/1.1\r\n\r\n", "400 HTTP/1.1 request without \"Host\" header");
}

#[test]
fn checks_the_request_line() {
    check("get / HTTP/1.1\r\n", "400 invalid method");
    check("POST /\r\n", "400 invalid method in HTTP/0.9 request");
    check("GET / HTTP/2.0\r\n", "505 invalid version");
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 invalid request");
    check("OPTIONS * HTTP/1.1\r\n", "400 invalid request");
    check("GET /.. HTTP/1.1\r\n", "400 invalid request");
    check("GET /%00 HTTP/1.1\r\n", "400 invalid request");
    check("GET /%zz HTTP/1.1\r\n", "400 invalid request");
    check("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", "405 TRACE method");
    check("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", "405 CONNECT method");
}

#[test]
fn frames_bodies() {
    #[track_caller]
    fn check_fields(fields: &str, expected: &str) {
        let input = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let expected = expected.replace('@', "POST / 1.1 host=a Host=a");
        check(&input, &expected);
    }
    check_fields("Content-Length: 12", "@ Content-Length=12 length=12 +keep-alive");
    check_fields("content-length: 0", "@ content-length=0 length=0 +keep-alive");
    check_fields("Content-Length: +1", "400 invalid \"Content-Length\" header");
    check_fields("Content-Length:", "400 invalid \"Content-Length\" header");
    check_fields("Content-Length: 1, 1", "400 invalid \"Content-Length\" header");
    check_fields("Content-Length: 9223372036854775808", "400 invalid \"Content-Length\" header");
    check_fields(
        "Content-Length: 1\r\nContent-length: 1",
        "400 duplicate header line: \"Content-length: 1\", previous value: \"Content-Length: 1\"",
    );
    check_fields("Transfer-Encoding: Chunked", "@ Transfer-Encoding=Chunked +chunked +keep-alive");
    check_fields("Transfer-Encoding: gzip, chunked", "501 unknown \"Transfer-Encoding\": \"gzip, chunked\"");
    check_fields("Transfer-Encoding:\tchunked", "501 unknown \"Transfer-Encoding\": \"\tchunked\"");
    check_fields("Transfer-Encoding: identity", "501 unknown \"Transfer-Encoding\": \"identity\"");
    check_fields(
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "400 \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
    );
    check_fields("Transfer-Encoding : chunked", "400 invalid header line: \"Transfer-Encoding\\x20...\"");
    check_fields("X: a\r\n folded", "400 invalid header line: \"\\x20...\"");
    check_fields("X: a\rContent-Length: 1", "400 invalid header line: \"X: a\\x0d...\"");
    check_fields("X: a\0b", "400 invalid header line: \"X: a\\x00...\"");
    check_fields("Expect: 100-Continue", "@ Expect=100-Continue +keep-alive +expect");
    check_fields("Expect: 100-continued", "@ Expect=100-continued +keep-alive");
    check(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "400 HTTP/1.0 request with \"Transfer-Encoding\" header",
    );
    check("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "POST / 1.0 host= Expect=100-continue");
}

#[test]
fn decides_on_the_connection() {
    #[track_caller]
    fn check_connection(version: &str, fields: &str, expected: &str) {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let (text, head) = parse_whole(input.as_bytes(), &HeadLimits::default(), &HeadOptions::default());
        let flags: Vec<&str> = text.split(' ').filter(|word| word.starts_with('+')).collect();
        assert_eq!(flags.join(" "), expected, "{text}");
        assert_eq!(head.fields.get(Known::Host), Some(&b"a"[..]));
    }
    check_connection("1.1", "", "+keep-alive");
    check_connection("1.1", "Connection: close\r\n", "");
    check_connection("1.1", "Connection: Upgrade, CLOSE\r\n", "");
    check_connection("1.1", "Connection: foo\r\n", "+keep-alive");
    check_connection("1.0", "", "");
    check_connection("1.0", "Connection: Keep-Alive\r\n", "+keep-alive");
    check_connection("1.1", "Connection: close\r\nConnection: keep-alive\r\n", "+keep-alive");
    check_connection("1.1", "Connection: upgrade\r\nUpgrade: websocket\r\n", "+keep-alive +upgrade");
    check_connection("1.1", "Connection: upgrade\r\n", "+keep-alive");
    check_connection("1.1", "Upgrade: h2c\r\n", "+keep-alive");
}

#[test]
fn checks_hosts() {
    check("GET / HTTP/1.1\r\n\r\n", "400 HTTP/1.1 request without \"Host\" header");
    check("GET / HTTP/1.1\r\nHost:\r\n\r\n", "400 invalid host header");
    check("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 invalid host header");
    check(
        "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        "400 duplicate host header: \"host: b\", previous value: \"Host: a\"",
    );
    check("GET / HTTP/1.1\r\nHost: A.:80\r\n\r\n", "GET / 1.1 host=a Host=A.:80 +keep-alive");
}

#[test]
fn handles_odd_names_as_configured() {
    let input = b"GET / HTTP/1.0\r\nX_y: 1\r\nX(: 2\r\nA\r\nZ: 3\r\n\r\n";
    let limits = HeadLimits::default();
    let mut options = HeadOptions::default();
    let head = check_with(input, &limits, &options, "GET / 1.0 host= A= Z=3");
    assert_eq!(head.ignored_lines().collect::<Vec<_>>(), [&b"X_y: 1"[..], &b"X(: 2"[..]]);
    options.underscores_in_headers = true;
    check_with(input, &limits, &options, "GET / 1.0 host= X_y=1 A= Z=3");
    options.ignore_invalid_headers = false;
    check_with(input, &limits, &options, "GET / 1.0 host= X_y=1 X(=2 A= Z=3");
}

#[test]
fn keeps_the_request_line_for_the_log() {
    let (_, head) =
        parse_whole(b"GET /a HTTP/1.1\r\nX: 1\r\n bad\r\n", &HeadLimits::default(), &HeadOptions::default());
    assert_eq!(head.request_line(), b"GET /a HTTP/1.1");
    assert_eq!(head.fields.get_name(b"x"), Some(&b"1"[..]));
    let (_, head) = parse_whole(b"GET a HTTP/1.1\r\n", &HeadLimits::default(), &HeadOptions::default());
    assert_eq!(head.request_line(), b"");
}

#[test]
fn holds_limits() {
    /// A request whose line and fields have these sizes in bytes, with line ends.
    fn request(line: usize, fields: &[usize]) -> Vec<u8> {
        let mut text = format!("GET /{} HTTP/1.0\r\n", "a".repeat(line - 16));
        for field in fields {
            text += &format!("X: {}\r\n", "b".repeat(field - 5));
        }
        (text + "\r\n").into_bytes()
    }
    #[track_caller]
    fn check_sizes(limits: &HeadLimits, line: usize, fields: &[usize], status: u16) {
        let input = request(line, fields);
        for step in [1, 7, input.len()] {
            let mut head = RequestHead::new();
            let mut end = 0;
            let result = loop {
                end = (end + step).min(input.len());
                let result = parse_request(&input[..end], limits, &HeadOptions::default(), &mut head);
                if result != Ok(Parsed::Partial) || end == input.len() {
                    break result;
                }
            };
            let found = match &result {
                Ok(parsed) => {
                    assert_eq!(*parsed, Parsed::Complete(input.len()));
                    200
                }
                Err(error) => error.status(),
            };
            assert_eq!(found, status, "{line} {fields:?} step {step}: {result:?}");
        }
    }
    let limits = HeadLimits { buffer_bytes: 100, large_buffer_count: 2, large_buffer_bytes: 200, fields_max: 10 };
    check_sizes(&limits, 20, &[30, 30], 200);
    check_sizes(&limits, 100, &[30], 200);
    check_sizes(&limits, 200, &[30], 200);
    check_sizes(&limits, 201, &[30], 414);
    check_sizes(&limits, 20, &[200, 30], 200);
    check_sizes(&limits, 20, &[201], 494);
    // The line takes one large buffer, the first field the second, and the next field finds none.
    check_sizes(&limits, 150, &[150, 30], 200);
    check_sizes(&limits, 150, &[150, 60], 494);
    check_sizes(&limits, 20, &[10; 10], 200);
    check_sizes(&limits, 20, &[10; 11], 494);
    // A first buffer that is larger than the large ones holds a longer line.
    let limits = HeadLimits { buffer_bytes: 300, large_buffer_count: 1, large_buffer_bytes: 100, fields_max: 10 };
    check_sizes(&limits, 290, &[], 200);
    check_sizes(&limits, 301, &[], 414);
    let none = HeadLimits { buffer_bytes: 100, large_buffer_count: 0, large_buffer_bytes: 100, fields_max: 10 };
    check_sizes(&none, 90, &[], 200);
    check_sizes(&none, 101, &[], 414);
    check_sizes(&none, 50, &[60], 494);
}

#[test]
fn bounds_blank_lines() {
    let limits = HeadLimits { buffer_bytes: 10, large_buffer_count: 1, large_buffer_bytes: 20, fields_max: 10 };
    let blank = b"\r\n".repeat(11);
    let (text, _) = parse_whole(&blank[..20], &limits, &HeadOptions::default());
    assert_eq!(text, "partial");
    let (text, _) = parse_whole(&blank, &limits, &HeadOptions::default());
    assert_eq!(text, "400 invalid request");
}

#[test]
fn logs_what_was_too_long() {
    let limits = HeadLimits { buffer_bytes: 40, large_buffer_count: 1, large_buffer_bytes: 50, fields_max: 10 };
    let input = format!("GET / HTTP/1.0\r\nX: {}\r\n\r\n", "y".repeat(100));
    let (text, head) = parse_whole(input.as_bytes(), &limits, &HeadOptions::default());
    assert_eq!(text, format!("494 too long header line: \"X: {}...\"", "y".repeat(47)));
    assert_eq!(head.request_line(), b"GET / HTTP/1.0");
    let (_, head) = parse_whole(format!("GET /{}", "y".repeat(100)).as_bytes(), &limits, &HeadOptions::default());
    assert_eq!(head.request_line().len(), 50);
}

#[test]
fn action_follows_the_error() {
    assert_eq!(BadRequest::InvalidMethod.action(), "reading client request line");
    assert_eq!(BadRequest::NoHost.action(), "reading client request headers");
}

#[test]
fn a_repeated_head_is_as_if_read_again() {
    let text = b"POST /a%20b?c=d HTTP/1.1\r\nHost: Example.com:80\r\nContent-Length: 3\r\nX-A: 1\r\n\r\n";
    let (limits, options) = (HeadLimits::default(), HeadOptions::default());
    let mut fresh = RequestHead::new();
    assert_eq!(parse_request(text, &limits, &options, &mut fresh), Ok(Parsed::Complete(text.len())));

    #[track_caller]
    fn check(head: &mut RequestHead, fresh: &RequestHead, text: &[u8], options: &HeadOptions) {
        let with_more = [text, b"abc"].concat();
        assert_eq!(parse_request(&with_more, &HeadLimits::default(), options, head), Ok(Parsed::Complete(text.len())));
        let of = |head: &RequestHead| {
            let texts = [head.path(), head.args(), head.raw(), head.host(), head.request_line()];
            let flags = (head.chunked, head.keep_alive, head.expect_continue, head.upgrade, head.quoted());
            (texts.map(<[u8]>::to_vec), flags, head.method, head.version, head.content_length, head.fields.clone())
        };
        assert_eq!(of(head), of(fresh));
    }
    let mut head = fresh.clone();
    check(&mut head, &fresh, text, &options);
    // Whatever a handler did to the one before.
    head.method = Method::Get;
    head.content_length = None;
    head.keep_alive = false;
    check(&mut head, &fresh, text, &options);
    head.fields.set(b"X-A", b"2");
    check(&mut head, &fresh, text, &options);
    head.fields.remove_name(b"X-A");
    check(&mut head, &fresh, text, &options);
    head.fields.append(b"Host", b"other");
    head.set_host(b"other");
    check(&mut head, &fresh, text, &options);
    head.fields.retain(|_, _, known| known != Known::Host);
    check(&mut head, &fresh, text, &options);
    // A host that came with the target can be changed without a field.
    let absolute = b"GET http://a.example/ HTTP/1.0\r\n\r\n";
    let mut from_target = RequestHead::new();
    for _ in 0..2 {
        assert_eq!(parse_request(absolute, &limits, &options, &mut from_target), Ok(Parsed::Complete(absolute.len())));
        assert_eq!(from_target.host(), b"a.example");
        from_target.set_host(b"");
    }
    // Under other rules the same bytes are another head.
    let mut odd = RequestHead::new();
    let text = b"GET / HTTP/1.0\r\nX_Y: 1\r\n\r\n";
    let underscores = HeadOptions { underscores_in_headers: true, ..options };
    assert_eq!(parse_request(text, &limits, &options, &mut odd), Ok(Parsed::Complete(text.len())));
    assert!(odd.fields.is_empty());
    assert_eq!(parse_request(text, &limits, &underscores, &mut odd), Ok(Parsed::Complete(text.len())));
    assert_eq!(odd.fields.len(), 1);
    // Only a beginning of it has come.
    assert_eq!(parse_request(&text[..9], &limits, &underscores, &mut odd), Ok(Parsed::Partial));
    assert_eq!(parse_request(text, &limits, &underscores, &mut odd), Ok(Parsed::Complete(text.len())));
}

#[test]
fn what_was_read_of_other_bytes_counts_for_nothing() {
    let (limits, options) = (HeadLimits::default(), HeadOptions::default());
    let theirs = b"GET /aaaaaaaaaaa HTTP/1.1\r\nHost: them\r\nContent-Length: 5\r\n\r\n";
    let ours = "GET /%2e./../x/y HTTP/1.1\r\nHost: us\r\n\r\n";
    let fine = "GET /a/../x/yyyy HTTP/1.1\r\nHost: us\r\n\r\n";
    for cut in 0..theirs.len() {
        for (text, expected) in [
            (ours, "400 invalid request"),
            (fine, "GET /a/../x/yyyy 1.1 host=us Host=us +keep-alive"),
            ("\r\n\nGET / HTTP/1.1\r\nHost: b\r\n\r\n", "GET / 1.1 host=b Host=b +keep-alive"),
        ] {
            let mut head = RequestHead::new();
            assert_eq!(parse_request(&theirs[..cut], &limits, &options, &mut head), Ok(Parsed::Partial));
            let result = parse_request(text.as_bytes(), &limits, &options, &mut head);
            assert_eq!(summary(&result, &head), expected, "after {cut} bytes");
            if result.is_ok() {
                assert!(!head.path().windows(2).any(|two| two == b".."), "after {cut} bytes");
            }
        }
        // The same bytes under other rules are another head, too.
        let mut head = RequestHead::new();
        assert_eq!(parse_request(&theirs[..cut], &limits, &options, &mut head), Ok(Parsed::Partial));
        let one_field = HeadLimits { fields_max: 1, ..limits };
        let result = parse_request(theirs, &one_field, &options, &mut head);
        assert_eq!(summary(&result, &head), "494 too many header lines", "after {cut} bytes");
    }
}

#[test]
fn a_reset_head_is_as_a_new_one() {
    let (limits, options) = (HeadLimits::default(), HeadOptions::default());
    let fresh = format!("{:?}", RequestHead::new());
    let text = b"POST /a%20b?c HTTP/1.1\r\nHost: a\r\nX-Odd_Name: 1\r\nContent-Length: 3\r\nUpgrade: x\r\n\r\n";
    let bad = b"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    let endings: [&dyn Fn(&mut RequestHead); 5] = [
        &|_| {},
        &|head| head.end_early(),
        &|head| head.set_host(b"other"),
        &|head| head.fields.set(b"X", b"y"),
        &|head| head.method = Method::Put,
    ];
    for input in (0..=text.len()).map(|end| &text[..end]).chain([&bad[..]]) {
        for ending in endings {
            let mut head = RequestHead::new();
            let _ = parse_request(input, &limits, &options, &mut head);
            ending(&mut head);
            head.reset();
            assert_eq!(format!("{head:?}"), fresh, "{}", BStr::new(input));
            let result = parse_request(text, &limits, &options, &mut head);
            assert_eq!((summary(&result, &head), head.ignored_lines().count()), {
                let (whole, head) = parse_whole(text, &limits, &options);
                (whole, head.ignored_lines().count())
            });
        }
    }
}

#[test]
fn a_head_that_ends_early_shows_its_lines() {
    #[track_caller]
    fn check(input: &str, expected: &str) {
        let mut head = RequestHead::new();
        let result = parse_request(input.as_bytes(), &HeadLimits::default(), &HeadOptions::default(), &mut head);
        assert_eq!(result, Ok(Parsed::Partial));
        head.end_early();
        let [line, method, target, path] = [head.request_line(), head.method_text(), head.target(), head.path()];
        let texts = [line, method, target, path].map(|text| BStr::new(text).to_string()).join("|");
        assert_eq!(format!("{texts}|{}|{:?}", head.read_bytes(), head.fields), expected, "{input:?}");
        assert!(!head.keep_alive);
    }
    check("", "||||0|[]");
    check("\r\n\r\n", "||||0|[]");
    check("GET /a", "GET /a||||0|[]");
    check("GET /a HTTP/1.1\r", "GET /a HTTP/1.1||||0|[]");
    check("GET /%61 HTTP/1.1\r\n", "GET /%61 HTTP/1.1|GET|/%61|/a|19|[]");
    check("GET /a HTTP/1.1\r\nHost: b\r\nX: y", "GET /a HTTP/1.1|GET|/a|/a|26|[(\"Host\", \"b\")]");
}
