//! Pages with commands: nothing panics, positions lie in the input, nothing but commands is lost, and what comes out does not
//! depend on how the page is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::ssi::{BadCommand, Command, NAME_BYTES_MAX, PARAMS_MAX, Scanner, Token};

const VALUE_BYTES_MAX: usize = 16;

/// Text, then what stood behind it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    text: Vec<u8>,
    commands: Vec<(usize, Command)>,
    bad: Vec<(usize, BadCommand)>,
}

fn read(pieces: &[&[u8]]) -> Read {
    let (mut scanner, mut read) = (Scanner::new(VALUE_BYTES_MAX), Read::default());
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (used, token) = scanner.next(rest);
            match token {
                None => {
                    assert_eq!(used, rest.len());
                    break;
                }
                Some(Token::Text(range)) => {
                    assert!(!range.is_empty() && range.end <= used);
                    read.text.extend_from_slice(&rest[range]);
                }
                Some(Token::Kept(text)) => read.text.extend_from_slice(text),
                Some(Token::Command(command)) => read.commands.push((read.text.len(), command)),
                Some(Token::Bad(bad)) => read.bad.push((read.text.len(), bad)),
            }
            rest = &rest[used..];
        }
    }
    read.text.extend_from_slice(scanner.end());
    read
}

fuzz_target!(|input: &[u8]| {
    let whole = read(&[input]);
    for (_, command) in &whole.commands {
        assert!((1..=NAME_BYTES_MAX).contains(&command.name().len()));
        assert!(command.params().count() <= PARAMS_MAX);
        assert!(command.params().all(|(name, value)| name.len() <= NAME_BYTES_MAX && value.len() < VALUE_BYTES_MAX));
        // A command by itself is the same command.
        assert_eq!(read(&[command.source()]).commands, [(0, command.clone())]);
    }
    if !input.windows(5).any(|window| window == b"<!--#") {
        assert_eq!(whole.text, input);
    }
    let cut = input.first().map_or(0, |&byte| usize::from(byte) % (input.len() + 1));
    assert_eq!(read(&[&input[..cut], &input[cut..]]), whole);
    assert_eq!(read(&input.chunks(1).collect::<Vec<_>>()), whole);
});
