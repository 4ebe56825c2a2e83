use super::*;
use tidegate_http::memcached_server::{Parsed, Request, parse};

/// Seconds since 1970 at which scripts begin.
const NOW_S: u64 = 1_800_000_000;

/// Answers requests as a port does.
fn ask(zone: &Zone, mut input: &[u8], now_s: u64) -> String {
    let mut out = Vec::new();
    while !input.is_empty() {
        let Parsed::Request { request, bytes, skip } = parse(input, zone.item_bytes_max()) else {
            panic!("no request: {:?}", String::from_utf8_lossy(input));
        };
        match request {
            Request::Get { keys, with_cas, touch } => {
                keys.for_each(|key| zone.get(key, with_cas, touch, now_s, &mut out));
                out.extend_from_slice(b"END\r\n");
            }
            Request::One(op) => zone.carry_out(&op, now_s, &mut out),
            Request::FlushAll { at, .. } => zone.flush(at, now_s),
            Request::Said(answer) => {
                out.extend_from_slice(answer.unwrap_or_default());
                out.extend_from_slice(b"\r\n");
            }
            other => panic!("{other:?}"),
        }
        input = &input[bytes + skip as usize..];
    }
    String::from_utf8(out).expect("text").replace("\r\n", "|")
}

/// Lines of `seconds request` and `= answer`; blanks of requests end lines where there is `|`.
#[track_caller]
fn check(script: &str) {
    let zone = Zone::new(4 << 20, 1 << 20);
    let mut answer = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(expected) = line.strip_prefix("= ") {
            assert_eq!(answer, expected);
            continue;
        }
        let (seconds, request) = line.split_once(' ').expect("seconds and a request");
        let request = request.replace('|', "\r\n");
        answer = ask(&zone, request.as_bytes(), NOW_S + seconds.parse::<u64>().expect("seconds"));
    }
}

#[test]
fn stores_as_memcached_does() {
    check(
        "0 add a 1 0 1|1|add a 0 0 1|2|replace a 5 0 1|3|replace b 0 0 1|1|get a b|
         = STORED|NOT_STORED|STORED|NOT_STORED|VALUE a 5 1|3|END|
         0 append a 9 9 2|xy|prepend a 0 0 1|-|append b 0 0 1|1|get a|
         = STORED|STORED|NOT_STORED|VALUE a 5 4|-3xy|END|
         0 gets a|
         = VALUE a 5 4 7|-3xy|END|
         0 cas a 0 0 1 6|n|cas a 0 0 1 0|n|cas b 0 0 1 1|n|cas a 0 0 1 7|y|cas a 0 0 1 7|n|get a|
         = EXISTS|EXISTS|NOT_FOUND|STORED|EXISTS|VALUE a 0 1|y|END|
         0 delete a|delete a|
         = DELETED|NOT_FOUND|",
    );
}

#[test]
fn counts_as_memcached_does() {
    check(
        "0 set n 0 0 2|10|decr n 1|get n|incr n 91|decr n 200|get n|incr n 18446744073709551615|incr n 2|
         = STORED|9|VALUE n 0 2|9 |END|100|0|VALUE n 0 3|0  |END|18446744073709551615|1|
         0 set x 0 0 1|y|incr x 1|incr nope 1|set x 0 0 0||incr x 1|
         = STORED|CLIENT_ERROR cannot increment or decrement non-numeric value|NOT_FOUND|STORED|CLIENT_ERROR cannot increment or decrement non-numeric value|
         0 ma m N0 J13 v|ma m MD D3 v t|ma m T90 t|ma m t q|ma nope q k O3|
         = VA 2|13|VA 2 t-1|10|HD t90|NF knope O3|
         0 ma m C1 v|ma m E77 c|ma m C77 v|
         = EX|HD c77|VA 2|14|",
    );
}

#[test]
fn items_expire() {
    check(
        "0 set a 0 10 1|1|set b 0 -1 1|1|set c 0 0 1|1|get a b c|
         = STORED|STORED|STORED|VALUE a 0 1|1|VALUE c 0 1|1|END|
         9 touch a 10|gat 100 c|mg c t|touch b 0|
         = TOUCHED|VALUE c 0 1|1|END|HD t100|NOT_FOUND|
         18 get a|
         = VALUE a 0 1|1|END|
         19 get a|add a 0 1800000030 1|2|mg a t v|
         = END|STORED|VA 1 t11|2|
         108 get c|mg a|
         = VALUE c 0 1|1|END|EN|
         109 get c|
         = END|",
    );
}

#[test]
fn flushed_items_are_gone_and_new_ones_stay() {
    check(
        "0 set a 0 0 1|1|flush_all|set b 0 0 1|2|get a b|flush_all 10|
         = STORED|STORED|VALUE b 0 1|2|END|
         9 set c 0 0 1|3|get b c|
         = STORED|VALUE b 0 1|2|VALUE c 0 1|3|END|
         10 get b c|set d 0 0 1|4|get d|
         = END|STORED|VALUE d 0 1|4|END|
         20 get d|
         = VALUE d 0 1|4|END|
         20 set e 0 0 1 noreply|5|flush_all 10|flush_all|set e 0 0 1|6|
         = STORED|
         40 get e|
         = VALUE e 0 1|6|END|",
    );
}

#[test]
fn one_client_is_told_to_make_an_item_anew() {
    check(
        "0 mg v N30 v t|mg v N30 v|ms v 2|ok|mg v v|
         = VA 0 t30 W||VA 0 Z||HD|VA 2|ok|
         0 ms v 2 T30|ok|mg v R60|mg v R60|mg v R10|md v I T5|mg v t|mg v|
         = HD|HD W|HD Z|HD Z|HD|HD t5 X W|HD Z X|
         0 ms v 1 T0|1|mg v c|
         = HD|HD c8|
         0 ms v 1 C3 I|2|mg v v|mg v v|ms v 1 C900 I|3|
         = HD|VA 1 X W|2|VA 1 Z X|2|EX|
         0 md v x|mg v v f s|
         = HD|VA 0 f0 s0 Z X||
         0 mg w h l|ms w 1|1|mg w h l u|mg w h l|
         = EN|HD|HD h0 l0|HD h0 l0|
         7 mg w h l k O9|
         = HD h1 l7 kw O9|
         7 mg w c v C14|
         = HD c14|",
    );
}

/// The size of `memcached_zone` is never exceeded.
#[test]
fn what_was_not_used_for_longest_goes() {
    let zone = Zone::new(1 << 20, 1 << 20);
    let value = "x".repeat(1000);
    for number in 0..2000 {
        assert_eq!(ask(&zone, format!("set k{number} 0 0 1000\r\n{value}\r\n").as_bytes(), NOW_S), "STORED|");
        assert!(ask(&zone, b"get k0\r\n", NOW_S).starts_with("VALUE"), "it is in use");
        let sizes = zone.sizes();
        assert!(sizes.bytes <= sizes.bytes_max && sizes.bytes_max <= 1 << 20, "{}", sizes.bytes);
    }
    let sizes = zone.sizes();
    assert_eq!(sizes.items, (1 << 20) / (1000 + 5 + ITEM_BYTES));
    assert_eq!(ask(&zone, b"get k1\r\n", NOW_S), "END|");
    assert!(ask(&zone, b"get k1999\r\n", NOW_S).starts_with("VALUE"));
    assert!(zone.counters().evictions as usize == 2000 - sizes.items);
    // The account is right after items have gone in every way.
    for number in 0..2000 {
        ask(&zone, format!("append k{number} 0 0 3\r\nabc\r\ndelete k{number}\r\n").as_bytes(), NOW_S);
    }
    assert!(zone.sizes().bytes == 0 && zone.sizes().items == 0);
}

#[test]
fn a_small_zone_refuses_what_would_fill_it() {
    let zone = Zone::new(1 << 20, 1 << 20);
    let largest = zone.item_bytes_max();
    assert_eq!(largest, 1 << 17);
    let value = "x".repeat(largest - 1000);
    ask(&zone, format!("set a 0 0 {}\r\n{value}\r\n", value.len()).as_bytes(), NOW_S);
    let answer = ask(&zone, format!("append a 0 0 {}\r\n{value}\r\n", value.len()).as_bytes(), NOW_S);
    assert_eq!(answer, "NOT_STORED|");
}

#[test]
fn expired_items_make_room_first() {
    let zone = Zone::new(1 << 20, 1 << 20);
    for number in 0..100 {
        ask(&zone, format!("set k{number} 0 1 1\r\n1\r\n").as_bytes(), NOW_S);
    }
    ask(&zone, b"set a 0 0 1\r\n1\r\n", NOW_S + 1);
    assert_eq!(zone.counters().reclaimed, EXPIRED_PER_CHANGE as u64);
    assert_eq!(zone.list(10, NOW_S + 1).len(), 1);
    ask(&zone, b"get k50\r\n", NOW_S + 1);
    assert_eq!(zone.sizes().items, 98);
}

#[test]
fn a_zone_outlives_a_reload_with_another_size() {
    let name = b"a_zone_outlives_a_reload";
    let zone = Zone::open(name, 4 << 20, 1 << 20);
    let value = "x".repeat(10_000);
    for number in 0..300 {
        ask(&zone, format!("set k{number} 0 0 10000\r\n{value}\r\n").as_bytes(), NOW_S);
    }
    let again = Zone::open(name, 2 << 20, 1 << 20);
    assert!(Arc::ptr_eq(&zone, &again));
    assert!(again.sizes().bytes <= 2 << 20 && again.sizes().items > 200);
    assert!(ask(&again, b"get k299\r\n", NOW_S).starts_with("VALUE"));
    drop((zone, again));
    assert_eq!(ask(&Zone::open(name, 2 << 20, 1 << 20), b"get k299\r\n", NOW_S), "END|");
}

/// However many change the same number, none of the changes is lost.
#[test]
fn many_workers_count_together() {
    let zone = Zone::new(64 << 20, 1 << 20);
    ask(&zone, b"set n 0 0 1\r\n0\r\n", NOW_S);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| drop(ask(&zone, b"incr n 1\r\n", NOW_S))));
        }
    });
    assert_eq!(ask(&zone, b"get n\r\n", NOW_S), "VALUE n 0 4|4000|END|");
}
