//! Internet addresses as numbers and bytes: INET_ATON() and its kin.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Family, Function, Want, abi::Args, udf, udf_lenient};
use crate::{
    store::conn::Cell,
    translate::Ex,
    value::{SqlType, collation::Collation},
};

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: &[], aggregates: &[] };

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    udf("INET_ATON", "f_inet_aton", 1, 1, &[Want::Text], |_| SqlType::ubigint(), |args, out| {
        if let Some(number) = number_of(args.bytes(0)) {
            out.int(number);
        }
        Ok(())
    }),
    udf("INET_NTOA", "f_inet_ntoa", 1, 1, &[Want::Int], |_| SqlType::varchar(31, Collation(33)), |args, out| {
        if let Ok(number) = u32::try_from(args.int(0)) {
            out.text(Ipv4Addr::from(number).to_string());
        }
        Ok(())
    }),
    udf("INET6_ATON", "f_inet6_aton", 1, 1, &[Want::Text], |_| SqlType::varchar(16, Collation::BINARY), |args, out| {
        let Some(text) = text_of(args) else { return Ok(()) };
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            out.cell(Cell::Blob(&address.octets()));
        } else if let Ok(address) = text.parse::<Ipv6Addr>() {
            out.cell(Cell::Blob(&address.octets()));
        }
        Ok(())
    }),
    udf("INET6_NTOA", "f_inet6_ntoa", 1, 1, &[Want::Text], |_| SqlType::varchar(39, Collation(33)), |args, out| {
        let bytes = args.bytes(0);
        if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
            out.text(Ipv4Addr::from(octets).to_string());
        } else if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
            out.text(Ipv6Addr::from(octets).to_string());
        }
        Ok(())
    }),
    udf_lenient("IS_IPV4", "f_is_ipv4", 1, 1, &[Want::Text], truth, |args, out| {
        out.bool(text_of(args).is_some_and(|text| text.parse::<Ipv4Addr>().is_ok()));
        Ok(())
    }),
    udf_lenient("IS_IPV6", "f_is_ipv6", 1, 1, &[Want::Text], truth, |args, out| {
        out.bool(text_of(args).is_some_and(|text| text.parse::<Ipv6Addr>().is_ok()));
        Ok(())
    }),
    udf_lenient("IS_IPV4_COMPAT", "f_is_ipv4_compat", 1, 1, &[Want::Text], truth, |args, out| {
        // The twelve zeros of the prefix, and more than the two addresses that mean something else.
        out.bool(bytes_of(args).is_some_and(|bytes| bytes[..12] == [0; 12] && bytes[12..] > [0, 0, 0, 1][..]));
        Ok(())
    }),
    udf_lenient("IS_IPV4_MAPPED", "f_is_ipv4_mapped", 1, 1, &[Want::Text], truth, |args, out| {
        out.bool(bytes_of(args).is_some_and(|bytes| bytes[..10] == [0; 10] && bytes[10..12] == [0xff; 2]));
        Ok(())
    }),
];

fn truth(_: &[Ex]) -> SqlType {
    SqlType::boolean()
}

fn text_of<'a>(args: &Args<'a>) -> Option<&'a str> {
    if args.is_null(0) { None } else { std::str::from_utf8(args.bytes(0)).ok() }
}

fn bytes_of(args: &Args<'_>) -> Option<[u8; 16]> {
    if args.is_null(0) { None } else { args.bytes(0).try_into().ok() }
}

/// `a.b.c.d`, where parts in the middle may be missing: `10.1` is 10.0.0.1.
fn number_of(text: &[u8]) -> Option<i64> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
    let values = parts
        .iter()
        .enumerate()
        .map(|(index, part)| match part {
            [] if index + 1 < parts.len() => Some(0),
            [] => None,
            part if part.len() <= 3 && part.iter().all(u8::is_ascii_digit) => {
                let value = part.iter().fold(0, |value: i64, digit| value * 10 + i64::from(digit - b'0'));
                (value <= 255).then_some(value)
            }
            _ => None,
        })
        .collect::<Option<Vec<i64>>>()?;
    let (last, first) = values.split_last()?;
    if values.len() > 4 {
        return None;
    }
    let high = first.iter().enumerate().map(|(index, value)| value << (24 - 8 * index)).sum::<i64>();
    Some(high + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_addresses() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(number_of(text.as_bytes()), expected, "{text}");
        check("10.0.0.1", Some(167_772_161));
        check("255.255.255.255", Some(4_294_967_295));
        check("10.1", Some(167_772_161));
        check("127", Some(127));
        check("1.2.3.4.5", None);
        check("256.0.0.1", None);
        check("1.2.3.", None);
        check("bad", None);
        check("", None);
    }
}
