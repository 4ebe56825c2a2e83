//! REGEXP, RLIKE and the REGEXP_ functions: PCRE2 as MariaDB uses it.
//!
//! Patterns are UTF-8, or bytes if an operand is binary; letters compare as the collation says.

use super::{Family, Function, Want, abi::Args, int, long_text, rewrite, udf};
use crate::{
    errors,
    pcre::{Pattern, PatternError},
    translate::{Ex, Res, Translator, meet},
    value::{Base, Rep, SqlType},
};
use tidegate_rows::ServerError;

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: &[], aggregates: &[] };

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("REGEXP_LIKE", 2, 3, regexp_like),
    rewrite("REGEXP_INSTR", 2, 2, |t, args| regexp(t, "TG_REGEXP_INSTR", args)),
    rewrite("REGEXP_SUBSTR", 2, 2, |t, args| {
        let ex = regexp(t, "TG_REGEXP_SUBSTR", args)?;
        let length = args[0].ty.length;
        let ty = if ex.ty.collation == crate::value::collation::Collation::BINARY { ex.ty.clone() } else { SqlType::string(length, ex.ty.collation) };
        Ok(Ex { ty, ..ex })
    }),
    rewrite("REGEXP_REPLACE", 3, 3, |t, args| regexp(t, "TG_REGEXP_REPLACE", args)),
    udf("TG_REGEXP_LIKE", "tg_regexp_like", 3, 4, &[Want::Text, Want::Text, Want::Any, Want::Text], |_| SqlType::boolean(), |args, out| {
        out.bool(pattern_with_options(args)?.find(args.bytes(0), 0).map_err(failed)?.is_some());
        Ok(())
    }),
    udf("TG_REGEXP_INSTR", "tg_regexp_instr", 3, 3, &[Want::Text, Want::Text, Want::Any], int, |args, out| {
        let text = args.bytes(0);
        let found = pattern(args)?.find(text, 0).map_err(failed)?;
        out.int(found.map_or(0, |groups| position(args, &text[..groups[0].map_or(0, |group| group.0)]) + 1));
        Ok(())
    }),
    udf("TG_REGEXP_SUBSTR", "tg_regexp_substr", 3, 3, &[Want::Text, Want::Text, Want::Any], long_text, |args, out| {
        let text = args.bytes(0);
        let found = pattern(args)?.find(text, 0).map_err(failed)?;
        let range = found.and_then(|groups| groups[0]);
        out.string(args, range.map_or(&[][..], |(from, to)| &text[from..to]));
        Ok(())
    }),
    udf("TG_REGEXP_REPLACE", "tg_regexp_replace", 4, 4, &[Want::Text, Want::Text, Want::Any, Want::Text], long_text, |args, out| {
        let replaced = replace(&*pattern(args)?, args.bytes(0), args.bytes(3))?;
        out.string(args, replaced);
        Ok(())
    }),
];

/// MySQL's function; its third argument says how to match.
fn regexp_like(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    regexp(t, "TG_REGEXP_LIKE", args)
}

/// The pattern by the way of comparing, and by the letters of the fourth argument if there is one: `c` and `i` for case, `m` for lines,
/// `n` for points that match line ends, `u` for line feeds as the only ends of lines, which they are anyway. The last of `c` and `i` counts.
fn pattern_with_options(args: &Args<'_>) -> Result<std::rc::Rc<Pattern>, ServerError> {
    let mut caseless = args.int(2) == 0;
    let mut options = String::new();
    for letter in args.bytes(3) {
        match letter {
            b'c' => caseless = false,
            b'i' => caseless = true,
            b'm' => options.push_str("(?m)"),
            b'n' => options.push_str("(?s)"),
            b'u' => {}
            _ => return Err(errors::wrong_arguments("regexp_like")),
        }
    }
    let is_text = args.int(2) != 2;
    if options.is_empty() {
        return Pattern::cached(args.bytes(1), is_text, caseless).map_err(failed);
    }
    Pattern::cached(&[options.as_bytes(), args.bytes(1)].concat(), is_text, caseless).map_err(failed)
}

/// The call with the way of comparing as third argument.
fn regexp(t: &mut Translator<'_>, name: &str, args: &[Ex]) -> Res<Ex> {
    let texts: Vec<Ex> = args
        .iter()
        .map(|arg| {
            if matches!(arg.ty.rep(), Rep::Text | Rep::Blob | Rep::Null) {
                return arg.clone();
            }
            let ty = SqlType::varchar(arg.ty.length.max(30), t.session.inputs.collation);
            let sql = t.convert(arg, Rep::Text);
            Ex { aggregate: arg.aggregate, nullable: arg.nullable, ..Ex::sql(sql, ty) }
        })
        .collect();
    let (collation, _) = meet(&texts[0], &texts[1], "regexp")?;
    let binary = texts[..2].iter().any(|text| text.ty.base.is_binary());
    let mode = match (binary, collation.is_binary_order()) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    let mut all = vec![
        texts[0].clone(),
        texts[1].clone(),
        Ex::sql(mode.to_string(), SqlType::new(Base::Int)).with_nullable(false),
    ];
    all.extend(texts.get(2).cloned());
    super::call(t, name, &all)
}

fn pattern(args: &Args<'_>) -> Result<std::rc::Rc<Pattern>, ServerError> {
    let mode = args.int(2);
    Pattern::cached(args.bytes(1), mode != 2, mode == 0).map_err(failed)
}

#[cold]
fn failed(error: PatternError) -> ServerError {
    errors::regex(error)
}

/// How many characters stand in front of a place.
fn position(args: &Args<'_>, before: &[u8]) -> i64 {
    if args.int(2) == 2 { before.len() as i64 } else { String::from_utf8_lossy(before).chars().count() as i64 }
}

/// All matches replaced; `\1` stands for a group.
fn replace(pattern: &Pattern, text: &[u8], with: &[u8]) -> Result<Vec<u8>, ServerError> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    while from <= text.len() {
        let Some(groups) = pattern.find(text, from).map_err(failed)? else { break };
        let Some((start, end)) = groups[0] else { break };
        // An empty match ends it.
        if start == end {
            break;
        }
        out.extend_from_slice(&text[from..start]);
        expand(with, text, &groups, &mut out);
        from = end;
        if out.len() > super::RESULT_BYTES_MAX {
            return Err(errors::result_too_big("regexp_replace", super::RESULT_BYTES_MAX));
        }
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(out)
}

fn expand(with: &[u8], text: &[u8], groups: &[Option<(usize, usize)>], out: &mut Vec<u8>) {
    let mut bytes = with.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(digit @ b'0'..=b'9') => {
                if let Some(Some((from, to))) = groups.get(usize::from(digit - b'0')) {
                    out.extend_from_slice(&text[*from..*to]);
                }
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, pattern: &str, with: &str, expected: &str) {
        let pattern = Pattern::cached(pattern.as_bytes(), true, true).unwrap();
        let replaced = replace(&pattern, text.as_bytes(), with.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(replaced).unwrap(), expected, "{text}");
    }

    #[test]
    fn replacements() {
        check("abcabc", "(b)(c)", "\\2\\1", "acbacb");
        check("aaa", "a", "", "");
        check("été", "T", "-", "é-é");
        check("abc", "x*", "-", "abc");
        check("abc", "$", "!", "abc");
    }

    #[test]
    fn a_pattern_that_runs_away_is_an_error() {
        let pattern = Pattern::cached(b"(a+)+$", true, true).unwrap();
        assert!(pattern.find(&[&b"a".repeat(200)[..], b"b"].concat(), 0).is_err());
    }
}
