//! Lines of HandlerSocket's clients: nothing panics, what is read of them lies in the lists that it was put into, and values are
//! written as they were read. Answers of servers: the values are the same, in whatever pieces they come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::handlersocket::{
    put_value,
    reply::{Head, Values},
    request::{Command, addend, line},
    value_of,
};

type Value<'a> = Option<&'a [u8]>;

fn check_line(line: &mut [u8]) {
    let Command::OnIndex(request) = Command::of(line) else { return };
    let (mut values, mut filters): (Vec<Value<'_>>, _) = (vec![None], Vec::new());
    let Ok(read) = request.read(3, 2, &mut values, &mut filters) else { return };
    assert!(read.values.len() <= read.count as usize);
    let within = read.within.map(|(_, part)| part);
    let change = read.change.map(|change| change.values);
    for part in [Some(read.values), within, change].into_iter().flatten() {
        assert!(part.start >= 1 && part.end <= values.len());
    }
    for filter in &filters[read.filters] {
        assert!(filter.column < 2 && filter.value < values.len());
    }
    for value in values {
        let mut token = Vec::new();
        put_value(value, &mut token);
        assert!(!token.iter().any(|byte| matches!(byte, b'\t' | b'\n')));
        // A byte 0 that is no NULL (a value of `@`) is escaped.
        assert_eq!(value_of(&mut token), value);
        value.map(addend);
    }
}

fn values_of(answer: &[u8], piece_bytes: usize) -> (Vec<Option<Vec<u8>>>, bool) {
    let (mut reader, mut values) = (Values::default(), Vec::new());
    for piece in answer.chunks(piece_bytes) {
        let fed = reader.feed(piece, |value| values.push(value.map(<[u8]>::to_vec)));
        fed.expect("no input is as long as a value may be");
    }
    (values, reader.is_done())
}

fn check_answer(input: &[u8]) {
    let Ok(Some((head, used))) = Head::read(input) else { return };
    assert!(used <= input.len());
    // A head that is complete is the same with less behind it, and incomplete ahead of its end.
    let needed = if let Head::Success { .. } = head { used + 1 } else { used };
    assert_eq!(Head::read(&input[..needed]), Ok(Some((head, used))));
    assert_eq!(Head::read(&input[..needed - 1]), Ok(None));
    let rest = &input[used..];
    assert_eq!(values_of(rest, 1), values_of(rest, rest.len().max(1)));
}

fuzz_target!(|input: &[u8]| {
    check_answer(input);
    let mut input = input.to_vec();
    let mut rest = &mut input[..];
    while let Some((_, size)) = line(rest, 0) {
        let (first, others) = rest.split_at_mut(size);
        if let Some((line, _)) = line(first, 0) {
            check_line(line);
        }
        rest = others;
    }
});
