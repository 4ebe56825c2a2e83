//! What holds for any bytes that a server, a client or a stored stream may send. Shared by the fuzz target
//! `mysql_packets` and by `random_input.rs`.

use tidegate_mysql::{
    answer,
    compress::{Algorithm, Compressed},
    handshake::{Greeting, Response, read_switch},
    packet::{PacketBuffer, put_packet},
    read_only::{may_be_shared, only_reads},
    rows,
    session::leaves_traces,
    statements::Prepared,
};
use tidegate_rows::{
    Column, ColumnFlags, ColumnType, Format, Sink, Summary,
    csv::{Csv, CsvOptions},
    json::{Json, JsonOptions, JsonShape},
    rds::{Rds, RdsCursor, RdsReader},
    sink::Collect,
};

/// Checks one input. The first byte chooses what it is taken for, the second how it is cut.
pub(crate) fn check(input: &[u8]) {
    let [kind, cut, rest @ ..] = input else { return };
    match kind % 8 {
        0 => framing(rest, usize::from(*cut)),
        1 => logins(rest),
        2 => answers(rest),
        3 => text_row(rest, usize::from(*cut)),
        4 => binary_row(rest, usize::from(*cut)),
        5 => stored_stream(rest, usize::from(*cut)),
        6 => statements(rest),
        _ => compression(rest, usize::from(*cut)),
    }
}

/// What may be shared only reads, and what only reads leaves no traces.
fn statements(sql: &[u8]) {
    assert!(!may_be_shared(sql) || only_reads(sql));
    assert!(!only_reads(sql) || !leaves_traces(sql));
    let selected = [b"select ", sql].concat();
    assert!(!may_be_shared(&selected) || only_reads(&selected));
}

/// The pieces in which bytes arrive make no difference, and packets written again are the bytes that were read.
fn framing(bytes: &[u8], cut: usize) {
    let whole = packets(&[bytes]);
    let (head, tail) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(whole, packets(&[head, tail]));
    assert_eq!(whole, packets(&bytes.chunks(1).collect::<Vec<_>>()));
    let (mut out, mut sequence) = (Vec::new(), 0);
    for packet in &whole {
        put_packet(&mut out, &mut sequence, &[packet]);
    }
    assert!(bytes.starts_with(&out));
}

fn packets(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut buffer = PacketBuffer::new(1 << 16);
    let mut found = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        while !piece.is_empty() {
            let space = buffer.space();
            let len = space.len().min(piece.len());
            space[..len].copy_from_slice(&piece[..len]);
            buffer.arrived(len);
            piece = &piece[len..];
            loop {
                match buffer.take() {
                    Ok(Some(at)) => found.push(buffer.payload(at).to_vec()),
                    Ok(None) => break,
                    Err(_) => return found,
                }
            }
        }
    }
    found
}

/// What is read and written again reads the same.
fn logins(packet: &[u8]) {
    if let Ok(greeting) = Greeting::read(packet)
        && greeting.nonce.len() >= 20
        && greeting.nonce.len() < 255
        && !greeting.nonce.ends_with(&[0])
    {
        let mut out = Vec::new();
        greeting.put(&mut out);
        assert_eq!(Greeting::read(&out), Ok(greeting));
    }
    if let Ok(response) = Response::read(packet)
        && !response.user.is_empty()
        && response.proof.len() < 256
    {
        let mut out = Vec::new();
        response.put(&mut out);
        // Both kinds of proofs are written with their length.
        if response.capabilities & tidegate_mysql::handshake::capability::SECURE_CONNECTION != 0 {
            assert_eq!(Response::read(&out), Ok(response));
        }
    }
    let _ = read_switch(packet);
}

fn answers(packet: &[u8]) {
    let _ = answer::ok(packet);
    let _ = answer::error(packet).to_string();
    let _ = (answer::end_of_rows(packet, true), answer::end_of_rows(packet, false), answer::ends_rows(packet));
    let _ = Prepared::read(packet);
    if let Ok(column) = answer::column(packet) {
        let mut json = Vec::new();
        let options = JsonOptions { shape: JsonShape::Compact, ..JsonOptions::default() };
        let mut format = Json::new(&options);
        format.columns(std::slice::from_ref(&column), &mut json);
        format.end_result(&Summary::default(), &mut json);
        assert_json(&json);
    }
}

/// Columns of all types.
fn columns(count: usize, salt: usize) -> Vec<Column> {
    let kinds: Vec<ColumnType> = (0..=255).filter_map(ColumnType::from_code).collect();
    let column = |index: usize| Column {
        flags: ColumnFlags(if index.is_multiple_of(3) { ColumnFlags::UNSIGNED | ColumnFlags::ZEROFILL } else { 0 }),
        length: (index * 37) as u32,
        decimals: (index % 8) as u8,
        ..Column::expression(format!("c\"{index}").into_bytes(), kinds[(index + salt) % kinds.len()])
    };
    (0..count).map(column).collect()
}

/// A row that is accepted becomes valid JSON.
fn text_row(packet: &[u8], count: usize) {
    let columns = columns(count % 40 + 1, count);
    let options = JsonOptions::default();
    let mut sink = Collect { format: Json::new(&options), out: Vec::new() };
    sink.columns(&columns);
    if rows::text(packet, columns.len(), &mut sink).is_ok() {
        sink.end_result(&Summary::default());
        assert_json(&sink.out);
    }
}

fn binary_row(packet: &[u8], count: usize) {
    let columns = columns(count % 40 + 1, count / 40);
    let options = JsonOptions::default();
    let mut sink = Collect { format: Json::new(&options), out: Vec::new() };
    sink.columns(&columns);
    if rows::binary(packet, &columns, &mut sink).is_ok() {
        sink.end_result(&Summary::default());
        assert_json(&sink.out);
    }
    let mut sink = Collect { format: Rds::default(), out: Vec::new() };
    sink.columns(&columns);
    if rows::binary(packet, &columns, &mut sink).is_ok() {
        sink.end_result(&Summary::default());
        stored_stream(&sink.out, count);
    }
}

/// A stream that is read in pieces gives what it gives as a whole, and what a cursor accepts, a reader does too.
fn stored_stream(stream: &[u8], cut: usize) {
    let options = JsonOptions::default();
    let whole = read_stream(&[stream], Json::new(&options));
    let (head, tail) = stream.split_at(cut.min(stream.len()));
    assert_eq!(whole, read_stream(&[head, tail], Json::new(&options)));
    if let Some(json) = &whole {
        assert_json(json);
    }
    let csv = read_stream(&[stream], Csv::new(CsvOptions::default()));
    assert_eq!(csv.is_some(), whole.is_some());
    assert_eq!(walk(stream).is_some(), whole.is_some());
}

fn read_stream(pieces: &[&[u8]], mut format: impl Format) -> Option<Vec<u8>> {
    let (mut reader, mut out) = (RdsReader::default(), Vec::new());
    for piece in pieces {
        reader.feed(piece, &mut format, &mut out).ok()?;
    }
    reader.finish().ok().map(|()| out)
}

fn walk(stream: &[u8]) -> Option<()> {
    let mut cursor = RdsCursor::new(stream);
    let columns = cursor.header().ok()?.columns;
    for _ in 0..columns {
        cursor.column().ok()?;
    }
    while columns > 0 && cursor.row().ok()? {
        for _ in 0..columns {
            cursor.field().ok()?;
        }
    }
    cursor.finish().ok()
}

/// Frames inflate to what was compressed; any others are refused, or give what they hold.
fn compression(bytes: &[u8], cut: usize) {
    for algorithm in [Algorithm::Zlib, Algorithm::Zstd { level: 3 }] {
        let _ = inflate(algorithm, bytes, cut);
        let mut frames = Vec::new();
        Compressed::new(algorithm).compress(bytes, &mut frames);
        assert_eq!(inflate(algorithm, &frames, cut).as_deref(), Some(bytes));
    }
}

fn inflate(algorithm: Algorithm, frames: &[u8], cut: usize) -> Option<Vec<u8>> {
    let mut channel = Compressed::new(algorithm);
    let (mut out, mut space) = (Vec::new(), [0; 512]);
    for mut piece in frames.chunks(cut + 1) {
        while !piece.is_empty() {
            let room = channel.space();
            let len = room.len().min(piece.len());
            room[..len].copy_from_slice(&piece[..len]);
            channel.arrived(len);
            piece = &piece[len..];
            loop {
                match channel.take(&mut space).ok()? {
                    0 => break,
                    len => out.extend_from_slice(&space[..len]),
                }
            }
        }
    }
    Some(out)
}

/// RFC 8259, but for the character set of strings.
fn assert_json(text: &[u8]) {
    let rest = value(text).unwrap_or_else(|| panic!("not JSON: {}", String::from_utf8_lossy(text)));
    assert!(rest.is_empty(), "more than JSON: {}", String::from_utf8_lossy(text));
}

fn value(text: &[u8]) -> Option<&[u8]> {
    match text.first()? {
        b'[' => elements(&text[1..], b']', value),
        b'{' => elements(&text[1..], b'}', |text| value(string(text)?.strip_prefix(b":")?)),
        b'"' => string(text),
        b'n' => text.strip_prefix(b"null"),
        b't' => text.strip_prefix(b"true"),
        b'f' => text.strip_prefix(b"false"),
        _ => {
            let len =
                text.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
            tidegate_rows::number::is_json_number(&text[..len]).then_some(&text[len..])
        }
    }
}

fn elements(text: &[u8], end: u8, element: impl Fn(&[u8]) -> Option<&[u8]>) -> Option<&[u8]> {
    if let Some(rest) = text.strip_prefix(&[end]) {
        return Some(rest);
    }
    let mut text = text;
    loop {
        let rest = element(text)?;
        match rest.split_first()? {
            (b',', rest) => text = rest,
            (found, rest) if *found == end => return Some(rest),
            _ => return None,
        }
    }
}

fn string(text: &[u8]) -> Option<&[u8]> {
    let mut text = text.strip_prefix(b"\"")?;
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'u', a, b, c, d, rest @ ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => rest,
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            [0x20..=0x21 | 0x23..=0x5b | 0x5d.., rest @ ..] => rest,
            _ => return None,
        };
    }
}
