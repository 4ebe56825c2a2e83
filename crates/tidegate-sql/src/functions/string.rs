//! Strings.

use super::{
    Family, Function, MANY, Want,
    abi::{Args, Out},
    all_lengths, bigint, int, like_first, rewrite, udf, udf_lenient,
};
use crate::{
    errors,
    store::conn::Cell,
    translate::{Ex, Res, Translator, meet},
    value::{
        Rep, SqlType,
        beginning::beginning,
        collation::{Collation, next_char},
        decimal::SCALE_MAX,
        number::hex_bytes,
    },
};
use tidegate_rows::ServerError;

type Done = Result<(), ServerError>;

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: &[] };

use super::abi::Udf;

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_beginning(value, count)`: what an index over a prefix compares. Definitions of SQLite's name it.
    Udf::new("tg_beginning", 2, |args, out| {
        out.cell(beginning(args.cell(0), u32::try_from(args.int(1)).unwrap_or(0)));
        Ok(())
    }),
    Udf::new("f_hex_number", 1, |args, out| { out.text(format!("{:X}", args.uint(0))); Ok(()) }),
    Udf::new("f_hex_text", 1, |args, out| {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let pairs = args.bytes(0).iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        out.text(pairs.collect::<Vec<u8>>());
        Ok(())
    }),
    // `tg_format(decimal, digits)`: commas between thousands.
    Udf::new("tg_format", 2, |args, out| {
        let digits = args.int(1).clamp(0, SCALE_MAX.into()) as u8;
        let value = args.dec(0);
        let mut text = Vec::new();
        value.rescale(digits).unwrap_or(value).write(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mut shown = String::from(sign);
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index) % 3 == 0 {
                shown.push(',');
            }
            shown.push(digit);
        }
        if digits > 0 {
            shown.push('.');
            shown.push_str(fraction);
            shown.extend(std::iter::repeat_n('0', usize::from(digits).saturating_sub(fraction.len())));
        }
        out.text(shown);
        Ok(())
    }),
    Udf::new("tg_weight_string", 2, |args, out| {
        let mut weights = Vec::new();
        collation(args.int(1)).write_weight_string(args.bytes(0), &mut weights);
        out.cell(Cell::Blob(&weights));
        Ok(())
    }),
    Udf::new("tg_locate", 4, locate),
    Udf::new("tg_set_place", 3, find_in_set),
    Udf::new("tg_strcmp", 3, |args, out| {
        let order = collation(args.int(2)).compare(args.bytes(0), args.bytes(1));
        out.int(order as i64);
        Ok(())
    }),
];

const BYTES_MAX: usize = super::RESULT_BYTES_MAX;

/// A text as often as the second argument says, if that is known.
fn times(args: &[Ex], length: u32) -> SqlType {
    let negative = matches!(&args[1].code, crate::translate::Code::Sql(sql) if sql.starts_with("(-?"));
    let count = if args[1].is_const() || negative { 64 } else { u32::MAX };
    SqlType::string(length.saturating_mul(count), Collation::DEFAULT)
}

/// REPLACE: each character may become the whole of the replacement.
fn replaced(args: &[Ex]) -> SqlType {
    let length = super::text_length(&args[0]);
    let growth = super::text_length(&args[2]).saturating_sub(super::text_length(&args[1]));
    SqlType::string(length.saturating_add(length.saturating_mul(growth)), Collation::DEFAULT)
}

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    udf("CONCAT", "f_concat", 1, MANY, &[Want::Text], all_lengths, |args, out| {
        let mut text = Vec::new();
        for index in 0..args.len() {
            text.extend_from_slice(args.bytes(index));
        }
        bounded("concat", args, out, text)
    }),
    udf_lenient("CONCAT_WS", "f_concat_ws", 2, MANY, &[Want::Text], all_lengths, |args, out| {
        if args.is_null(0) {
            return Ok(());
        }
        let parts: Vec<&[u8]> = (1..args.len()).filter(|index| !args.is_null(*index)).map(|index| args.bytes(index)).collect();
        bounded("concat_ws", args, out, parts.join(args.bytes(0)))
    }),
    udf("LENGTH", "f_length", 1, 1, &[Want::Bytes], int, |args, out| { out.int(args.bytes(0).len() as i64); Ok(()) }),
    udf("OCTET_LENGTH", "f_octet_length", 1, 1, &[Want::Bytes], int, |args, out| { out.int(args.bytes(0).len() as i64); Ok(()) }),
    udf("BIT_LENGTH", "f_bit_length", 1, 1, &[Want::Bytes], bigint, |args, out| { out.int(args.bytes(0).len() as i64 * 8); Ok(()) }),
    udf("CHAR_LENGTH", "f_char_length", 1, 1, &[Want::Text], int, |args, out| { out.int(count(args) as i64); Ok(()) }),
    udf("CHARACTER_LENGTH", "f_character_length", 1, 1, &[Want::Text], int, |args, out| { out.int(count(args) as i64); Ok(()) }),
    udf("UPPER", "f_upper", 1, 1, &[Want::Text], like_first, |args, out| change_case(args, out, true)),
    udf("UCASE", "f_ucase", 1, 1, &[Want::Text], like_first, |args, out| change_case(args, out, true)),
    udf("LOWER", "f_lower", 1, 1, &[Want::Text], like_first, |args, out| change_case(args, out, false)),
    udf("LCASE", "f_lcase", 1, 1, &[Want::Text], like_first, |args, out| change_case(args, out, false)),
    udf("LEFT", "f_left", 2, 2, &[Want::Text, Want::Int], like_first, |args, out| slice_of(args, out, 0, args.int(1).max(0) as usize)),
    udf("RIGHT", "f_right", 2, 2, &[Want::Text, Want::Int], like_first, |args, out| {
        let (all, wanted) = (count(args), args.int(1).max(0) as usize);
        slice_of(args, out, all.saturating_sub(wanted), wanted)
    }),
    udf("SUBSTRING", "f_substring", 2, 3, &[Want::Text, Want::Int, Want::Int], like_first, substring),
    udf("SUBSTRING_INDEX", "f_substring_index", 3, 3, &[Want::Text, Want::Text, Want::Int], like_first, substring_index),
    udf("TRIM_BOTH", "f_trim_both", 1, 2, &[Want::Text], like_first, |args, out| trim(args, out, true, true)),
    udf("TRIM_LEADING", "f_trim_leading", 1, 2, &[Want::Text], like_first, |args, out| trim(args, out, true, false)),
    udf("TRIM_TRAILING", "f_trim_trailing", 1, 2, &[Want::Text], like_first, |args, out| trim(args, out, false, true)),
    udf("LTRIM", "f_ltrim", 1, 1, &[Want::Text], like_first, |args, out| trim(args, out, true, false)),
    udf("RTRIM", "f_rtrim", 1, 1, &[Want::Text], like_first, |args, out| trim(args, out, false, true)),
    udf_lenient("REPLACE", "f_replace", 3, 3, &[Want::Text], replaced, replace),
    udf("REPEAT", "f_repeat", 2, 2, &[Want::Text, Want::Int], |args| times(args, super::text_length(&args[0])), |args, out| {
        let times = args.int(1).max(0) as usize;
        if args.bytes(0).len().saturating_mul(times) > BYTES_MAX {
            return oversized("repeat");
        }
        out.string(args, args.bytes(0).repeat(times));
        Ok(())
    }),
    udf("SPACE", "f_space", 1, 1, &[Want::Int], |args| times(&[args[0].clone(), args[0].clone()], 1), |args, out| {
        let count = args.int(0).max(0) as usize;
        if count > BYTES_MAX {
            return oversized("space");
        }
        out.text(vec![b' '; count]);
        Ok(())
    }),
    udf("REVERSE", "f_reverse", 1, 1, &[Want::Text], like_first, |args, out| {
        if args.any_blob() {
            let bytes: Vec<u8> = args.bytes(0).iter().rev().copied().collect();
            out.cell(Cell::Blob(&bytes));
        } else {
            let text: String = String::from_utf8_lossy(args.bytes(0)).chars().rev().collect();
            out.text(text);
        }
        Ok(())
    }),
    udf("LPAD", "f_lpad", 2, 3, &[Want::Text, Want::Int, Want::Text], |args| times(args, 1), |args, out| pad(args, out, true)),
    udf("RPAD", "f_rpad", 2, 3, &[Want::Text, Want::Int, Want::Text], |args| times(args, 1), |args, out| pad(args, out, false)),
    udf("INSERT", "f_insert", 4, 4, &[Want::Text, Want::Int, Want::Int, Want::Text], |args| SqlType::string(super::text_length(&args[0]).saturating_add(super::text_length(&args[3])), Collation::DEFAULT), insert),
    udf("ASCII", "f_ascii", 1, 1, &[Want::Bytes], int, |args, out| { out.int(args.bytes(0).first().map_or(0, |byte| i64::from(*byte))); Ok(()) }),
    udf("ORD", "f_ord", 1, 1, &[Want::Bytes], int, |args, out| {
        let mut rest = args.bytes(0);
        let before = rest;
        next_char(&mut rest);
        let first = &before[..before.len() - rest.len()];
        out.int(first.iter().fold(0, |value, byte| value << 8 | i64::from(*byte)));
        Ok(())
    }),
    udf_lenient("CHAR", "f_char", 1, MANY, &[Want::Int], |args| SqlType::varchar(args.len() as u32 * 4, Collation::BINARY), |args, out| {
        let mut bytes = Vec::new();
        for index in (0..args.len()).filter(|index| !args.is_null(*index)) {
            let number = (args.uint(index) as u32).to_be_bytes();
            let skip = number.iter().take_while(|byte| **byte == 0).count().min(3);
            bytes.extend_from_slice(&number[skip..]);
        }
        out.cell(Cell::Blob(&bytes));
        Ok(())
    }),
    rewrite("HEX", 1, 1, hex),
    udf("UNHEX", "f_unhex", 1, 1, &[Want::Text], |args| SqlType::varchar(args[0].ty.length / 2 + 1, Collation::BINARY), |args, out| {
        let digits = args.bytes(0);
        if digits.iter().all(u8::is_ascii_hexdigit) {
            out.cell(Cell::Blob(&hex_bytes(&String::from_utf8_lossy(digits))));
        }
        Ok(())
    }),
    rewrite("LOCATE", 2, 3, |t, args| locating(t, &args[0], &args[1], args.get(2))),
    rewrite("INSTR", 2, 2, |t, args| locating(t, &args[1], &args[0], None)),
    rewrite("WEIGHT_STRING", 1, 1, |t, args| {
        let ty = SqlType::string(super::text_length(&args[0]).saturating_mul(args[0].ty.collation.char_bytes_max()), Collation::BINARY);
        let sql = t.wanted(&args[0], Want::Text);
        Ok(Ex::sql(format!("tg_weight_string({sql}, {})", args[0].ty.collation.0), ty))
    }),
    rewrite("FIND_IN_SET", 2, 2, |t, args| {
        let (collation, _) = meet(&args[0], &args[1], "find_in_set")?;
        let (a, b) =
            (t.operand_in(&args[0], collation, "find_in_set"), t.operand_in(&args[1], collation, "find_in_set"));
        Ok(Ex::sql(format!("tg_set_place({a}, {b}, {})", collation.0), int(&[])))
    }),
    rewrite("STRCMP", 2, 2, |t, args| {
        let (collation, _) = meet(&args[0], &args[1], "strcmp")?;
        let (a, b) = (t.operand_in(&args[0], collation, "strcmp"), t.operand_in(&args[1], collation, "strcmp"));
        Ok(Ex::sql(format!("tg_strcmp({a}, {b}, {})", collation.0), int(&[])))
    }),
    udf_lenient("QUOTE", "f_quote", 1, 1, &[Want::Text], |args| SqlType::varchar(args[0].ty.length.saturating_mul(2).saturating_add(2), Collation::DEFAULT), |args, out| {
        if args.is_null(0) {
            out.text("NULL");
            return Ok(());
        }
        let mut text = vec![b'\''];
        for &byte in args.bytes(0) {
            match byte {
                b'\'' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
                0 => text.extend_from_slice(b"\\0"),
                0x1a => text.extend_from_slice(b"\\Z"),
                byte => text.push(byte),
            }
        }
        text.push(b'\'');
        out.text(text);
        Ok(())
    }),
    rewrite("FORMAT", 2, 2, |t, args| {
        let number = if args[0].ty.rep() == Rep::Dec || args[0].ty.base.is_integer() {
            t.convert(&args[0], Rep::Dec)
        } else {
            let real = t.convert(&args[0], Rep::Real);
            format!("tg_cv({real}, {}, 0, 0, 0)", crate::translate::conversion_code(Rep::Real, Rep::Dec))
        };
        let digits = t.convert(&args[1], Rep::Int);
        Ok(Ex::sql(format!("tg_format({number}, {digits})"), SqlType::varchar(100, t.session.inputs.collation)))
    }),
    udf_lenient("MAKE_SET", "f_make_set", 2, MANY, &[Want::Uint, Want::Text], all_lengths, |args, out| {
        if args.is_null(0) {
            return Ok(());
        }
        let bits = args.uint(0);
        let chosen = (1..args.len()).filter(|index| *index <= 64 && bits >> (index - 1) & 1 == 1 && !args.is_null(*index));
        out.string(args, chosen.map(|index| args.bytes(index)).collect::<Vec<_>>().join(&b","[..]));
        Ok(())
    }),
    udf("EXPORT_SET", "f_export_set", 3, 5, &[Want::Uint, Want::Text, Want::Text, Want::Text, Want::Int], |args| SqlType::string(super::text_length(&args[1]).max(super::text_length(&args[2])).saturating_mul(64).saturating_add(64), Collation::DEFAULT), |args, out| {
        let count = if args.len() > 4 { args.int(4).clamp(0, 64) } else { 64 };
        let separator = if args.len() > 3 { args.bytes(3) } else { b"," };
        let parts: Vec<&[u8]> = (0..count).map(|bit| args.bytes(if args.uint(0) >> bit & 1 == 1 { 1 } else { 2 })).collect();
        out.text(parts.join(separator));
        Ok(())
    }),
    udf("SOUNDEX", "f_soundex", 1, 1, &[Want::Text], |args| SqlType::varchar(args[0].ty.length.max(4), Collation::DEFAULT), soundex),
];

fn collation(id: i64) -> Collation {
    Collation(id as u16)
}

/// A result that is larger than any packet: NULL with a warning.
pub(super) fn oversized(function: &str) -> Done {
    crate::env::current(|env| env.warn(errors::result_too_big(function, BYTES_MAX)));
    Ok(())
}

fn bounded(function: &str, args: &Args<'_>, out: &mut Out, text: Vec<u8>) -> Done {
    if text.len() > BYTES_MAX {
        return oversized(function);
    }
    out.string(args, text);
    Ok(())
}

/// Characters of the first argument, bytes if it is binary.
fn count(args: &Args<'_>) -> usize {
    match args.cell(0) {
        Cell::Text(text) => chars(text),
        Cell::Blob(blob) => blob.len(),
        _ => 0,
    }
}

fn chars(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).chars().count() }
}

/// The byte at which character `index` begins.
fn byte_of(text: &[u8], index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    let mut rest = text;
    for _ in 0..index {
        if next_char(&mut rest).is_none() {
            break;
        }
    }
    text.len() - rest.len()
}

fn part(args: &Args<'_>, from: usize, len: usize) -> (usize, usize) {
    let text = args.bytes(0);
    if matches!(args.cell(0), Cell::Blob(_)) {
        let from = from.min(text.len());
        return (from, from.saturating_add(len).min(text.len()));
    }
    let start = byte_of(text, from);
    (start, start + byte_of(&text[start..], len))
}

fn slice_of(args: &Args<'_>, out: &mut Out, from: usize, len: usize) -> Done {
    let (start, end) = part(args, from, len);
    out.string(args, &args.bytes(0)[start..end]);
    Ok(())
}

fn substring(args: &Args<'_>, out: &mut Out) -> Done {
    let position = args.int(1);
    let len = if args.len() > 2 { args.int(2).max(0) as usize } else { usize::MAX };
    let from = match position {
        0 => {
            out.string(args, "");
            return Ok(());
        }
        position if position > 0 => position as usize - 1,
        position => match count(args).checked_sub(position.unsigned_abs() as usize) {
            Some(from) => from,
            None => {
                out.string(args, "");
                return Ok(());
            }
        },
    };
    slice_of(args, out, from, len)
}

fn change_case(args: &Args<'_>, out: &mut Out, upper: bool) -> Done {
    match args.cell(0) {
        Cell::Blob(blob) => out.cell(Cell::Blob(blob)),
        _ => {
            let text = String::from_utf8_lossy(args.bytes(0));
            // One character stays one character, as in MySQL's tables.
            let changed: String = text
                .chars()
                .map(|c| {
                    let mut mapped =
                        if upper { Mapped::Upper(c.to_uppercase()) } else { Mapped::Lower(c.to_lowercase()) };
                    match (mapped.next(), mapped.next()) {
                        (Some(only), None) => only,
                        _ => c,
                    }
                })
                .collect();
            out.text(changed);
        }
    }
    Ok(())
}

enum Mapped {
    Upper(std::char::ToUppercase),
    Lower(std::char::ToLowercase),
}

impl Iterator for Mapped {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        match self {
            Mapped::Upper(chars) => chars.next(),
            Mapped::Lower(chars) => chars.next(),
        }
    }
}

fn substring_index(args: &Args<'_>, out: &mut Out) -> Done {
    let (text, separator, wanted) = (args.bytes(0), args.bytes(1), args.int(2));
    if separator.is_empty() || wanted == 0 {
        out.string(args, "");
        return Ok(());
    }
    let places: Vec<usize> = memchr::memmem::find_iter(text, separator).collect();
    let found = if wanted > 0 {
        places.get(wanted as usize - 1).map_or(text, |end| &text[..*end])
    } else {
        let back = wanted.unsigned_abs() as usize;
        places.len().checked_sub(back).map_or(text, |index| &text[places[index] + separator.len()..])
    };
    out.string(args, found);
    Ok(())
}

fn trim(args: &Args<'_>, out: &mut Out, leading: bool, trailing: bool) -> Done {
    let mut text = args.bytes(0);
    let what: &[u8] = if args.len() > 1 { args.bytes(1) } else { b" " };
    if !what.is_empty() {
        while leading && text.starts_with(what) {
            text = &text[what.len()..];
        }
        while trailing && text.ends_with(what) {
            text = &text[..text.len() - what.len()];
        }
    }
    out.string(args, text);
    Ok(())
}

fn replace(args: &Args<'_>, out: &mut Out) -> Done {
    if args.is_null(0) || args.is_null(1) {
        return Ok(());
    }
    let (text, from, to) = (args.bytes(0), args.bytes(1), args.bytes(2));
    if from.is_empty() {
        out.string(args, text);
        return Ok(());
    }
    if args.is_null(2) {
        return Ok(());
    }
    let mut result = Vec::with_capacity(text.len());
    let mut last = 0;
    for place in memchr::memmem::find_iter(text, from) {
        result.extend_from_slice(&text[last..place]);
        result.extend_from_slice(to);
        last = place + from.len();
        if result.len() > BYTES_MAX {
            return oversized("replace");
        }
    }
    result.extend_from_slice(&text[last..]);
    bounded("replace", args, out, result)
}

fn pad(args: &Args<'_>, out: &mut Out, left: bool) -> Done {
    let wanted = args.int(1);
    let fill: &[u8] = if args.len() > 2 { args.bytes(2) } else { b" " };
    let function = if left { "lpad" } else { "rpad" };
    if wanted < 0 {
        return Ok(());
    }
    if wanted as usize > BYTES_MAX {
        return oversized(function);
    }
    let (wanted, have) = (wanted as usize, count(args));
    if have >= wanted {
        return slice_of(args, out, 0, wanted);
    }
    if fill.is_empty() {
        return Ok(());
    }
    let blob = matches!(args.cell(0), Cell::Blob(_));
    let unit = if blob { fill.len() } else { chars(fill) };
    let missing = wanted - have;
    let mut padding = fill.repeat(missing / unit);
    let rest = missing % unit;
    padding.extend_from_slice(&fill[..if blob { rest } else { byte_of(fill, rest) }]);
    let text = args.bytes(0);
    let joined = if left { [&padding, text].concat() } else { [text, &padding].concat() };
    bounded(function, args, out, joined)
}

fn insert(args: &Args<'_>, out: &mut Out) -> Done {
    let (position, len) = (args.int(1), args.int(2));
    let all = count(args);
    if position < 1 || position as usize > all {
        out.string(args, args.bytes(0));
        return Ok(());
    }
    let from = position as usize - 1;
    let len = if len < 0 { usize::MAX } else { len as usize };
    let (start, end) = part(args, from, len);
    let text = args.bytes(0);
    bounded("insert", args, out, [&text[..start], args.bytes(3), &text[end..]].concat())
}

fn hex(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let ty = SqlType::varchar(args[0].ty.length.saturating_mul(8), Collation::DEFAULT);
    if let Rep::Fixed(_) = args[0].ty.rep() {
        let sql = t.convert(&args[0], Rep::Blob);
        return Ok(Ex::sql(format!("f_hex_text({sql})"), ty));
    }
    if args[0].ty.base.is_number() {
        // A half is rounded away from zero here, and to an even number where a double becomes a whole number otherwise.
        let sql = match args[0].ty.rep() {
            Rep::Real => {
                let number = t.convert(&args[0], Rep::Real);
                t.convert(&Ex::sql(format!("round({number})"), args[0].ty.clone()), Rep::Uint)
            }
            _ => t.convert(&args[0], Rep::Uint),
        };
        return Ok(Ex::sql(format!("f_hex_number({sql})"), ty));
    }
    let bytes = super::text_length(&args[0]).saturating_mul(args[0].ty.collation.char_bytes_max());
    let ty = if args[0].ty.base.is_blob() { SqlType::string(bytes.saturating_mul(2), Collation::DEFAULT) } else { ty };
    let sql = t.wanted(&args[0], Want::Bytes);
    Ok(Ex::sql(format!("f_hex_text({sql})"), ty))
}

fn locating(t: &mut Translator<'_>, needle: &Ex, text: &Ex, from: Option<&Ex>) -> Res<Ex> {
    let (collation, _) = meet(needle, text, "locate")?;
    let mut operand = |ex: &Ex| match collation == Collation::BINARY && ex.ty.collation.is_latin1() {
        true => t.convert(ex, Rep::Blob),
        false if collation.is_latin1() => t.meeting(ex, collation, "locate"),
        false => t.wanted(ex, Want::Text),
    };
    let (a, b) = (operand(needle), operand(text));
    let from = from.map_or("1".to_owned(), |from| t.convert(from, Rep::Int));
    Ok(Ex::sql(format!("tg_locate({a}, {b}, {from}, {})", collation.0), int(&[])))
}

fn locate(args: &Args<'_>, out: &mut Out) -> Done {
    let (needle, text, from) = (args.bytes(0), args.bytes(1), args.int(2));
    let collation = collation(args.int(3));
    if from < 1 {
        out.int(0);
        return Ok(());
    }
    if collation == Collation::BINARY {
        let start = (from - 1) as usize;
        let found = text.get(start..).and_then(|rest| memchr::memmem::find(rest, needle));
        out.int(found.map_or(0, |at| (start + at) as i64 + 1));
        return Ok(());
    }
    // As many bytes as the needle has must have the same weights; in MySQL's `0900` what is left must begin with them.
    let order = collation.order();
    let weights = |text: &[u8]| {
        let mut out = Vec::new();
        order.write_weights(text, &mut out);
        out
    };
    let wanted = weights(needle);
    let (mut rest, mut place) = (text, 1);
    let found = loop {
        if collation.finds_by_weights() {
            if place >= from && collation.begins_with(rest, &wanted) {
                break place;
            }
            if next_char(&mut rest).is_none() {
                break 0;
            }
            place += 1;
            continue;
        }
        let Some(window) = rest.get(..needle.len()) else { break 0 };
        let whole = rest.get(needle.len()).is_none_or(|byte| byte & 0xc0 != 0x80);
        if place >= from && whole && (window == needle || weights(window) == wanted) {
            break place;
        }
        if next_char(&mut rest).is_none() {
            break 0;
        }
        place += 1;
    };
    out.int(found);
    Ok(())
}

fn find_in_set(args: &Args<'_>, out: &mut Out) -> Done {
    let (item, set) = (args.bytes(0), args.bytes(1));
    let collation = collation(args.int(2));
    if set.is_empty() {
        out.int(0);
        return Ok(());
    }
    let weights = |text: &[u8]| {
        let mut out = Vec::new();
        collation.order().write_weights(text, &mut out);
        out
    };
    let wanted = weights(item);
    let place = set.split(|byte| *byte == b',').position(|part| part == item || weights(part) == wanted);
    out.int(place.map_or(0, |place| place as i64 + 1));
    Ok(())
}

fn soundex(args: &Args<'_>, out: &mut Out) -> Done {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let mut result = String::new();
    let mut last = 0;
    for c in String::from_utf8_lossy(args.bytes(0)).chars().filter(|c| c.is_alphabetic()) {
        let upper = c.to_ascii_uppercase();
        let code = if upper.is_ascii_uppercase() { CODES[(upper as u8 - b'A') as usize] } else { b'0' };
        if result.is_empty() {
            result.push(upper);
        } else if code != b'0' && code != last {
            result.push(char::from(code));
        }
        // Vowels do not part equal codes.
        if code != b'0' || result.len() == upper.len_utf8() {
            last = code;
        }
    }
    while !result.is_empty() && result.chars().count() < 4 {
        result.push('0');
    }
    out.text(result);
    Ok(())
}
