//! Control flow: IF, IFNULL, NULLIF, COALESCE, and the functions that choose among their arguments.

use super::{Family, Function, MANY, Want, rewrite, udf_lenient};
use crate::{
    errors,
    store::conn::Cell,
    translate::{Code, Ex, Res, Translator},
    value::{Base, Rep, SqlType},
};

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: &[], aggregates: &[] };

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("IF", 3, 3, |t, args| t.choose("if", &args[..1], &args[1..])),
    rewrite("IFNULL", 2, 2, coalesce),
    rewrite("NVL", 2, 2, coalesce),
    rewrite("NVL2", 3, 3, |t, args| {
        let test = not_null(t, &args[0]);
        t.choose("if", &[test], &args[1..])
    }),
    rewrite("COALESCE", 1, MANY, coalesce),
    rewrite("NULLIF", 2, 2, |t, args| {
        let equal = t.compare(&args[0], "=", &args[1])?;
        let ex = t.choose("nullif", &[equal], &[Ex::null(), args[0].clone()])?;
        Ok(ex.with_nullable(true))
    }),
    rewrite("ISNULL", 1, 1, |t, args| {
        let sql = t.text(&args[0]);
        Ok(Ex::sql(format!("({sql} IS NULL)"), SqlType::boolean()).with_nullable(false))
    }),
    rewrite("GREATEST", 2, MANY, |t, args| extreme(t, args, "max")),
    rewrite("LEAST", 2, MANY, |t, args| extreme(t, args, "min")),
    rewrite("ELT", 2, MANY, elt),
    rewrite("FIELD", 2, MANY, field),
    udf_lenient("INTERVAL", "f_interval", 2, MANY, &[Want::Real], super::int, |args, out| {
        if args.is_null(0) {
            out.int(-1);
            return Ok(());
        }
        let value = args.real(0);
        let reached = |index: &usize| args.cell(*index) == Cell::Null || args.real(*index) <= value;
        out.int((1..args.len()).take_while(reached).count() as i64);
        Ok(())
    }),
];

fn not_null(t: &mut Translator<'_>, ex: &Ex) -> Ex {
    let sql = t.text(ex);
    Ex::sql(format!("({sql} IS NOT NULL)"), SqlType::boolean()).with_nullable(false)
}

fn coalesce(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let common = t.common_type(args, "coalesce")?;
    let texts: Vec<String> = args.iter().map(|arg| t.as_type(arg, &common.ty)).collect();
    let sql = super::nested("coalesce", texts);
    let nullable = args.iter().all(|arg| arg.nullable);
    Ok(Ex { code: Code::Sql(sql), nullable, ..common })
}

/// The greatest or least: NULL if any is NULL.
fn extreme(t: &mut Translator<'_>, args: &[Ex], word: &str) -> Res<Ex> {
    let operation = if word == "max" { "greatest" } else { "least" };
    let mut common = t.common_type(args, operation)?;
    let text = |arg: &Ex| arg.ty.base.is_character() || arg.ty.base.is_binary();
    let known = || args.iter().filter(|arg| arg.ty.rep() != Rep::Null);
    if let Base::Fixed(_) = common.ty.base {
        // Texts beside such a value are read as its type.
    } else if known().any(text) && !known().all(text) {
        if known().any(|arg| arg.ty.base.is_temporal()) {
            if !known().all(|arg| text(arg) || arg.ty.base.is_temporal()) {
                return Err(errors::unsupported("GREATEST and LEAST of times, texts and numbers"));
            }
            let times: Vec<Ex> = known().filter(|arg| arg.ty.base.is_temporal()).cloned().collect();
            common = t.common_type(&times, "greatest")?.with_nullable(true);
        } else {
            common.ty = SqlType::new(Base::Double);
        }
    } else if known().any(|arg| arg.ty.base.is_temporal()) && !known().all(|arg| arg.ty.base.is_temporal()) {
        return Err(errors::unsupported("GREATEST and LEAST of times and numbers"));
    }
    if args.iter().any(|arg| arg.ty.rep() == Rep::Null) && common.ty.base.is_integer() {
        common.ty = SqlType::new(Base::Double);
    }
    let texts: Vec<String> = args
        .iter()
        .map(|arg| {
            let sql = t.as_type(arg, &common.ty);
            if !text(arg) || !common.ty.base.is_temporal() {
                return sql;
            }
            // A text that is no time counts as the zero date, with a warning.
            format!("(CASE WHEN {} IS NOT NULL THEN ifnull({sql}, 0) END)", t.text(arg))
        })
        .collect();
    // SQLite's functions of two and more values compare as its operators do, and look at each value once.
    let mut texts = texts;
    if common.ty.rep() == Rep::Text {
        let collation = common.ty.collation.sqlite_name();
        texts.iter_mut().for_each(|text| *text = format!("{text} COLLATE {collation}"));
    }
    if word == "min" {
        // Of equal texts the first is the least, in SQLite the last.
        texts.reverse();
    }
    let sql = super::nested(word, texts);
    Ok(Ex { code: Code::Sql(sql), ..common })
}

fn elt(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let index = t.convert(&args[0], Rep::Int);
    let mut conditions = Vec::new();
    for number in 1..args.len() {
        conditions.push(Ex::sql(format!("({index} = {number})"), SqlType::boolean()));
    }
    let text = |arg: &Ex| {
        if arg.ty.base.is_character() || arg.ty.base.is_binary() || arg.ty.rep() == Rep::Null {
            return arg.clone();
        }
        let ty = SqlType::varchar(super::text_length(arg), crate::value::collation::Collation::DEFAULT);
        Ex { nullable: arg.nullable, ..Ex::sql(t.convert(arg, Rep::Text), ty) }
    };
    let mut results: Vec<Ex> = args[1..].iter().map(text).collect();
    results.push(Ex::null());
    t.choose("case", &conditions, &results)
}

fn field(t: &mut Translator<'_>, args: &[Ex]) -> Res<Ex> {
    let strings = args.iter().all(|arg| arg.ty.base.is_character() || arg.ty.base.is_binary());
    let integers = args.iter().all(|arg| arg.ty.base.is_integer());
    let mut sql = String::from("CASE");
    for (index, arg) in args[1..].iter().enumerate() {
        let equal = if strings || integers {
            t.compare(&args[0], "=", arg)?
        } else {
            let (a, b) = (t.convert(&args[0], Rep::Real), t.convert(arg, Rep::Real));
            Ex::sql(format!("({a} = {b})"), SqlType::boolean())
        };
        let equal = t.text(&equal);
        sql.push_str(&format!(" WHEN {equal} THEN {}", index + 1));
    }
    sql.push_str(" ELSE 0 END");
    Ok(Ex::sql(format!("({sql})"), super::int(&[])).with_nullable(false))
}
