//! Answers of a server that lies about what it sends: each is an error, and the connection takes no other statement.

use super::*;

/// What a statement gives after these bytes, and whether the connection could take another one. Behind them the server
/// closes.
async fn answer_bytes(bytes: Vec<u8>, capabilities: u32) -> (Result<String, QueryError>, bool) {
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", capabilities).await;
        peer.write(OK).await;
        peer.read().await;
        let _ = peer.stream.write_all(&bytes).await;
    };
    meet(
        |_| {},
        server,
        async |conn| {
            let mut conn = conn.expect("a connection");
            (run(&mut conn, "select * from cats").await, conn.is_idle())
        },
    )
    .await
}

#[track_caller]
fn check(lie: &str, (result, idle): (Result<String, QueryError>, bool), expected: &str) {
    match result {
        Ok(rows) => panic!("{lie}: {rows:?}"),
        Err(error) => assert!(error.to_string().contains(expected), "{lie}: {error}"),
    }
    assert!(!idle, "{lie}: the connection could be used again");
}

/// A result with the older ends of columns and rows.
fn older_result_set() -> Vec<Vec<u8>> {
    let mut packets = result_set();
    packets.insert(3, b"\xfe\0\0\x02\0".to_vec());
    packets[6].truncate(5);
    packets
}

#[tokio::test]
async fn packets_too_many_and_too_few() {
    let changed = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut packets = result_set();
        change(&mut packets);
        packets
    };
    let row = || b"\x014\x03tom".to_vec();
    let extra = column("extra", ColumnType::Long);
    for (lie, packets, expected) in [
        ("a count too small", changed(&|packets| packets[0] = b"\x01".to_vec()), "more values than columns"),
        ("a count too large", changed(&|packets| packets[0] = b"\x03".to_vec()), "malformed packet"),
        ("a count and more", changed(&|packets| packets[0].push(0)), "more than a count"),
        ("a definition too many", changed(&|packets| packets.insert(1, extra.clone())), "more values than columns"),
        ("a definition too few", changed(&|packets| drop(packets.remove(1))), "malformed packet"),
        ("the end in place of a definition", changed(&|packets| packets[2] = packets[5].clone()), "malformed packet"),
        ("an end before the last row", changed(&|packets| packets.insert(4, packets[5].clone())), "more came"),
        ("a row behind the end", changed(&|packets| packets.push(row())), "more came"),
        ("two results", [result_set(), result_set()].concat(), "more came"),
        ("an OK behind a result", [result_set(), vec![OK.to_vec()]].concat(), "more came"),
        ("two OKs", vec![OK.to_vec(), OK.to_vec()], "more came"),
        ("an error without a number", vec![b"\xff".to_vec()], "(0, HY000)"),
        ("an error without its number's end", vec![b"\xff\x15".to_vec()], "(0, HY000)"),
    ] {
        check(lie, answer(packets, CAPABILITIES).await, expected);
    }
    for (lie, at, packet, expected) in [
        ("no end of the columns", 3, row(), "no end of the columns"),
        ("an end that is none", 6, b"\xfe\0\0\x02\0\0".to_vec(), "more than an end"),
    ] {
        let mut packets = older_result_set();
        packets[at] = packet;
        check(lie, answer(packets, CAPABILITIES & !DEPRECATE_EOF).await, expected);
    }
    // The error is the statement's, what comes behind it nobody's.
    let refusal = b"\xff\x7a\x04#42S02no such table".to_vec();
    let (result, idle) = answer([vec![refusal], result_set()].concat(), CAPABILITIES).await;
    assert!(matches!(result, Err(QueryError::Server(error)) if error.code == 1146) && !idle);
    // A server that closes says so behind a result, which is as good as without.
    let farewell = b"\xff\xbf\x0f#08S01The client was disconnected".to_vec();
    let (result, idle) = answer([result_set(), vec![farewell]].concat(), CAPABILITIES).await;
    assert_eq!((result.expect("rows").as_str(), idle), (ROWS, false));
}

/// The first statement would take what comes behind the login for its answer.
#[tokio::test]
async fn bytes_behind_the_login() {
    let server = async |mut peer: Peer<TcpStream>| {
        peer.greet("mysql_native_password", CAPABILITIES).await;
        let mut bytes = Vec::new();
        put_packet(&mut bytes, &mut peer.input.sequence, &[OK]);
        let _ = peer.stream.write_all(&[bytes, framed(&result_set())].concat()).await;
        peer.read().await;
    };
    let client = async |conn: Result<Conn, QueryError>| match conn {
        Ok(mut conn) => (run(&mut conn, "select 1").await, conn.is_idle()),
        Err(error) => (Err(error), false),
    };
    check("a result behind the login", meet(|_| {}, server, client).await, "more came than the end");
}

/// Where each frame of the bytes begins, and how long its payload is.
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let len = usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8;
        found.push((at, len));
        at += 4 + len;
    }
    found
}

fn framed(packets: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    packets.iter().for_each(|packet| put_packet(&mut out, &mut sequence, &[packet]));
    out
}

#[tokio::test]
async fn lengths_and_sequence_numbers_that_are_wrong() {
    for (packets, capabilities) in [(result_set(), CAPABILITIES), (older_result_set(), CAPABILITIES & !DEPRECATE_EOF)] {
        let bytes = framed(&packets);
        for (number, (at, len)) in frames(&bytes).into_iter().enumerate() {
            for change in [1u8, 2, 0xff, 0xfe, 0x80] {
                let mut lying = bytes.clone();
                lying[at + 3] = lying[at + 3].wrapping_add(change);
                check(&format!("sequence of packet {number}"), answer_bytes(lying, capabilities).await, "was due");
            }
            for wrong in [0, len - 1, len + 1, len + 5, 0xff_fffe] {
                let mut lying = bytes.clone();
                lying[at..at + 3].copy_from_slice(&(wrong as u32).to_le_bytes()[..3]);
                check(&format!("{wrong} bytes in packet {number}"), answer_bytes(lying, capabilities).await, "");
            }
        }
    }
}

/// Each packet ends early, with a length that says so: what was left out is not made up.
#[tokio::test]
async fn payloads_cut_at_every_byte() {
    for (packets, capabilities) in [(result_set(), CAPABILITIES), (older_result_set(), CAPABILITIES & !DEPRECATE_EOF)] {
        let last = packets.len() - 1;
        for number in 0..packets.len() {
            let whole = &packets[number];
            // The last two bytes of a definition mean nothing. Of the older ends only the first byte is needed.
            let needed = match number {
                1 | 2 => whole.len() - 2,
                _ if whole[0] == crate::answer::EOF && (number < last || capabilities & DEPRECATE_EOF == 0) => 1,
                _ => whole.len(),
            };
            for len in 0..needed {
                let mut lying = packets.clone();
                lying[number].truncate(len);
                check(&format!("{len} bytes of packet {number}"), answer(lying, capabilities).await, "");
            }
        }
    }
}

#[tokio::test]
async fn definitions_of_prepared_statements_that_are_none() {
    let prepared = b"\0\x07\0\0\0\x01\0\x01\0\0\0\0";
    let row = b"\x013\x03bob".to_vec();
    for packets in [vec![row.clone()], vec![column("?", ColumnType::Long), row.clone()], vec![b"\xff\x7a\x04".to_vec()]]
    {
        let server = async |mut peer: Peer<TcpStream>| {
            peer.greet("mysql_native_password", CAPABILITIES).await;
            peer.write(OK).await;
            peer.read().await;
            peer.write(prepared).await;
            for packet in &packets {
                peer.write(packet).await;
            }
            // A client that waits for more, or goes on, hears nothing.
            peer.read().await;
        };
        let client = async |conn: Result<Conn, QueryError>| {
            let mut conn = conn.expect("a connection");
            (run_with(&mut conn, "select ?", &[Param::Int(5)]).await, conn.is_idle())
        };
        check("a definition", meet(|_| {}, server, client).await, "malformed packet");
    }
}
