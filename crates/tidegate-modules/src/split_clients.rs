//! `split_clients`: divides requests into shares, for instance for A/B tests.
//!
//! Follows nginx's `ngx_http_split_clients_module`; the shares are those that nginx gives, since the hash is the same.

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    main_conf::block_of,
    module::{Context, Directive, Module},
    request::Request,
};

/// Nothing: the directive defines a variable.
#[derive(Debug, Default)]
pub struct Conf;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::block("split_clients", 2, 2, split_clients)
        .within(Context::HTTP)
        .syntax("string $variable { ... }")
        .doc("Defines a variable whose value depends on a hash of a text, in shares of so many percent.")],
    example: "
        split_clients $remote_addr $variant {
            10%  new;
            *    old;
        }
    ",
    ..Module::named("split_clients")
};

/// One share: values of the hash below `below`, or all that are left.
#[derive(Debug)]
struct Part {
    below: Option<u32>,
    value: BString,
}

/// Shares are given in hundredths of a percent.
const WHOLE: u64 = 10_000;

fn emerg(arg: &ast::Arg, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn split_clients(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let source = build.template(&directive.args[0])?;
    let target = &directive.args[1];
    let name = build.variable_name(target)?.to_owned();
    let mut parts = Vec::new();
    let (mut sum, mut below) = (0, 0);
    for entry in block_of(directive) {
        let [value] = &*entry.args else {
            return Err(emerg(&entry.name, "invalid number of the split_clients parameters"));
        };
        let share = share(&entry.name)?;
        sum = share.map_or(WHOLE, |share| sum + share);
        if sum > WHOLE {
            return Err(emerg(&directive.name, "percent total is greater than 100%"));
        }
        below += share.map_or(0, |share| share * u64::from(u32::MAX) / WHOLE);
        let below = share.map(|_| u32::try_from(below).unwrap_or(u32::MAX));
        parts.push(Part { below, value: value.value.clone() });
    }
    let compute = Box::new(move |req: &Request, out: &mut Vec<u8>| {
        let hash = murmur_hash2(&source.eval_cow(req));
        if let Some(part) = parts.iter().find(|part| part.below.is_none_or(|below| hash < below)) {
            out.extend_from_slice(&part.value);
        }
        true
    });
    build
        .variables
        .define_computed(name.as_bstr(), true, compute)
        .map_err(|_| emerg(target, format!("the duplicate \"{name}\" variable")))?;
    Ok(())
}

/// The share of one line; `None` for `*`.
fn share(arg: &ast::Arg) -> Result<Option<u64>, Diagnostic> {
    if arg.value == "*" {
        return Ok(None);
    }
    let number = arg.value.strip_suffix(b"%").and_then(|text| values::fixed_point(text.as_bstr(), 2).ok());
    match number {
        Some(share @ 1..) => Ok(Some(share)),
        _ => Err(emerg(arg, format!("invalid percent value \"{}\"", arg.value))),
    }
}

/// MurmurHash2 of 32 bits with seed 0.
fn murmur_hash2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash() {
        // The case "split_clients is nginx's MurmurHash2" compares shares; these are fixed points of the algorithm.
        for (text, expected) in [("", 0), ("a", 0x92685f5e), ("abc", 0x13577c9b), ("abcd", 0x26873021)] {
            assert_eq!(murmur_hash2(text.as_bytes()), expected, "{text}");
        }
    }
}
