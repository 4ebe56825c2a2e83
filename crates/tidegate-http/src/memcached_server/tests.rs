use super::*;
use bstr::ByteSlice as _;

const ITEM: usize = 1 << 20;

#[track_caller]
fn one(input: &str) -> Op<'_> {
    match parse(input.as_bytes(), ITEM) {
        Parsed::Request { request: Request::One(op), bytes, skip: 0 } if bytes == input.len() => op,
        other => panic!("{input:?}: {other:?}"),
    }
}

#[track_caller]
fn said(input: &str, expected: Option<&'static str>, skip: u64) {
    let expected = Request::Said(expected.map(str::as_bytes));
    match parse(input.as_bytes(), ITEM) {
        Parsed::Request { request, bytes, skip: found } => {
            assert!(
                format!("{request:?}") == format!("{expected:?}") && found == skip,
                "{input:?}: {request:?} {found}"
            );
            assert!(bytes <= input.len());
        }
        other => panic!("{input:?}: {other:?}"),
    }
}

/// Each command, cut at each byte, is incomplete; whole it is what it is, whatever follows.
#[test]
fn requests_are_read_when_they_are_there_in_full() {
    for whole in [
        "get a\r\n",
        "get a b  c\n",
        "gats 10 a b\r\n",
        "set a 5 0 3\r\n\r\n1\r\n",
        "cas a 0 -1 0 18446744073709551615 noreply\r\n\r\n",
        "incr a 1\r\n",
        "delete a 0 noreply\r\n",
        "touch a 0\r\n",
        "flush_all 10 noreply\r\n",
        "stats items\r\n",
        "mg YQ== b v O123\r\n",
        "ms a 2 T0 F7 MA c\r\nab\r\n",
        "ma a N0 J5 MD\r\n",
        "md a I T30 q\r\n",
        "mn\r\n",
        "me a\r\n",
        "nonsense\r\n",
    ] {
        for cut in 0..whole.len() {
            let found = parse(&whole.as_bytes()[..cut], ITEM);
            assert!(matches!(found, Parsed::Partial { .. }), "{:?}: {found:?}", &whole[..cut]);
        }
        let more = format!("{whole}get b\r\n");
        let (alone, among) = (parse(whole.as_bytes(), ITEM), parse(more.as_bytes(), ITEM));
        assert_eq!(format!("{alone:?}"), format!("{among:?}"));
        assert!(matches!(alone, Parsed::Request { bytes, .. } if bytes == whole.len()), "{whole:?}");
    }
    assert_eq!(parse(b"set a 0 0 3\r\n1", ITEM), Parsed::Partial { bytes: Some(18) });
}

#[test]
fn values_and_numbers() {
    let op = one("set a +5 -1 3 noreply\r\n\r\n1\r\n");
    assert_eq!(op.form, Form::Word { quiet: true });
    let expected = Action::Store {
        mode: Mode::Set,
        flags: 5,
        exptime: Exptime(-1),
        value: b"\r\n1",
        invalidates: false,
        vivify: None,
    };
    assert_eq!((op.action, op.cas), (expected, None));
    assert_eq!(one("cas a 0 0 0 7\r\n\r\n").cas, Some(7));
    let count = one("decr a 18446744073709551615\r\n").action;
    assert_eq!(count, Action::Count { is_down: true, delta: u64::MAX, create: None, touch: None, value: true });
    let op = one("ms YWI= 0 b C9 MR I N30\r\n\r\n");
    assert_eq!((&*op.key.bytes, op.cas), (&b"ab"[..], Some(9)));
    assert!(matches!(op.action, Action::Store { mode: Mode::Cas, invalidates: true, vivify: Some(Exptime(30)), .. }));
}

#[test]
fn times_of_expiry() {
    let now_s = 1_800_000_000;
    assert_eq!(Exptime(0).at(now_s), 0);
    assert_eq!(Exptime(-1).at(now_s), 1);
    assert_eq!(Exptime(2_592_000).at(now_s), now_s + 2_592_000);
    assert_eq!(Exptime(2_592_001).at(now_s), 2_592_001);
    assert_eq!(Exptime(4_102_444_800).at(now_s), 4_102_444_800, "behind 2038");
    assert_eq!(Exptime(i64::MAX).at(now_s), i64::MAX as u64);
    assert_eq!(Exptime(i64::MIN).at(now_s), 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let format: Option<&'static str> = Some("CLIENT_ERROR bad command line format");
    for unknown in [
        "\r\n",
        "x\r\n",
        "GET a\r\n",
        "get\r\n",
        "get \r\n",
        "gat\r\n",
        "set a 0 0\r\n",
        "mg\r\n",
        "mx a\r\n",
        "touch a\r\n",
    ] {
        said(unknown, Some("ERROR"), 0);
    }
    for bad in [
        "set a x 0 1\r\n",
        "set a -1 0 1\r\n",
        "set a 0 0 -1\r\n",
        "set a 4294967296 0 1\r\n",
        "cas a 0 0 1 x\r\n",
        "ms a\r\n",
        "ms a S1\r\n",
        "me\r\n",
    ] {
        said(bad, format, 0);
    }
    said("set a x 0 1 noreply\r\n", None, 0);
    said("gat x a\r\n", Some("CLIENT_ERROR invalid exptime argument"), 0);
    said("incr a -1\r\n", Some("CLIENT_ERROR invalid numeric delta argument"), 0);
    said("delete a b\r\n", Some("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"), 0);
    said("set a 0 0 2\r\nabcde\r\n", Some("CLIENT_ERROR bad data chunk"), 0);
    said("mg a v v\r\n", Some("CLIENT_ERROR duplicate flag"), 0);
    said("mg a \u{80}\r\n", Some("CLIENT_ERROR duplicate flag"), 0);
    said("mg a a\r\n", Some("CLIENT_ERROR invalid flag"), 0);
    said("md a a\r\n", Some("CLIENT_ERROR invalid or duplicate flag"), 0);
    said("ms a 5 MX\r\n12345\r\n", Some("CLIENT_ERROR invalid mode for ms M token"), 7);
    said("ms a!a 5 b\r\n12345\r\n", Some("CLIENT_ERROR error decoding key"), 7);
    said("mg a O12345678901234567890123456789012\r\n", Some("CLIENT_ERROR opaque token too long"), 0);
    assert!(matches!(parse(b"GET / HTTP/1.1\r\n", ITEM), Parsed::Request { request: Request::Quit, .. }));
}

#[test]
fn keys_have_a_longest_length() {
    let (good, bad) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    for line in [
        "get {}\r\n",
        "gets a {} b\r\n",
        "gat 0 {}\r\n",
        "touch {} 0\r\n",
        "incr {} 1\r\n",
        "delete {}\r\n",
        "mg {}\r\n",
        "md {}\r\n",
        "set {} 0 0 0\r\n",
    ] {
        let refused = Parsed::Request { request: Request::Said(Some(error::FORMAT)), bytes: 0, skip: 0 };
        let (good, bad) = (line.replace("{}", &good), line.replace("{}", &bad));
        let is_refused = |text: &str| match parse(text.as_bytes(), ITEM) {
            Parsed::Request { request, skip, .. } => refused == (Parsed::Request { request, bytes: 0, skip }),
            _ => false,
        };
        assert!(is_refused(&bad) && !is_refused(&good), "{line}");
    }
}

#[test]
fn large_values_are_passed_over() {
    let Parsed::Request { request: Request::TooLarge { removes: true, quiet: false, .. }, bytes: 19, skip: 1_048_578 } =
        parse(b"set a 0 0 1048576\r\nxx", ITEM)
    else {
        panic!("it is too large");
    };
    assert!(matches!(parse(b"set a 0 0 1048515\r\n", ITEM), Parsed::Partial { bytes: Some(1_048_536) }));
    assert!(matches!(parse(b"ms a 2147483647\r\n", ITEM), Parsed::Request { request: Request::Said(_), skip: 0, .. }));
    assert!(matches!(parse(b"ms a 2147483645\r\n", ITEM), Parsed::Request { request: Request::TooLarge { .. }, .. }));
}

#[test]
fn lines_have_an_end() {
    let many = |command: &str, bytes: usize| format!("{command} {}", "k ".repeat(bytes / 2)).into_bytes();
    assert_eq!(parse(&many("set", LINE_BYTES_MAX), ITEM), Parsed::Hopeless);
    assert_eq!(parse(&many("  get", LINE_BYTES_MAX), ITEM), Parsed::Partial { bytes: None });
    assert_eq!(parse(&many("gets", GET_LINE_BYTES_MAX), ITEM), Parsed::Hopeless);
    let mut whole = many("get", 1 << 16);
    whole.extend_from_slice(b"\r\n");
    let Parsed::Request { request: Request::Get { keys, .. }, .. } = parse(&whole, ITEM) else { panic!("it is one") };
    assert_eq!(keys.count(), 1 << 15);
    // The end of the line changes nothing about one that is too long.
    let mut long = many("delete", LINE_BYTES_MAX);
    long.extend_from_slice(b"\r\n");
    assert_eq!(parse(&long, ITEM), Parsed::Hopeless);
}

/// Requests with bytes changed, left out and doubled: nothing panics, what is found lies in the input, and what follows changes
/// nothing about it.
#[test]
fn damaged_requests() {
    let requests: &[&[u8]] = &[
        b"set a 5 100 3 noreply\r\nabc\r\n",
        b"gats 10 a b\r\n",
        b"cas a 0 0 1 7\r\nx\r\n",
        b"ms YQ== 2 b c k O1 F7 T30 MA I C5\r\nab\r\n",
        b"mg a v f t s h l k N30 R10 q\r\n",
        b"ma a N0 J5 D2 MD v\r\n",
        b"md a I T5 q x\r\n",
        b"delete a 0 noreply\r\n",
        b"flush_all -10\r\n",
    ];
    let mut random = 1u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    for _ in 0..20_000 {
        let mut input = requests[next(requests.len())].to_vec();
        for _ in 0..=next(3) {
            let at = next(input.len());
            match next(3) {
                0 => input[at] = b" \r\n0129-+a\0\xff"[next(12)],
                1 => input.truncate(at.max(1)),
                _ => input.insert(at, input[at]),
            }
        }
        let alone = parse(&input, ITEM);
        let Parsed::Request { bytes, .. } = alone else { continue };
        assert!(bytes > 0 && bytes <= input.len());
        let mut among = input[..bytes].to_vec();
        assert_eq!(parse(&among, ITEM), alone, "{:?}", input.as_bstr());
        among.extend_from_slice(b"get b\r\n");
        assert_eq!(parse(&among, ITEM), alone, "{:?}", input.as_bstr());
    }
}
