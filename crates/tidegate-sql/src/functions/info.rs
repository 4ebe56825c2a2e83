//! The session and the server: DATABASE(), USER(), VERSION(), LAST_INSERT_ID(), variables, SLEEP().

use std::time::Duration;

use sqlparser::ast::Expr;

use super::{Family, Function, Want, abi::Udf, bigint, int, rewrite, string_value, udf_fresh, udf_volatile};
use crate::{
    column::Default,
    env::{self, UserValue},
    errors,
    row_locks::{Mode, Resource},
    store::conn::{Cell, quote},
    task,
    translate::{
        Code, Coercibility, Ex, Res, Source, Translator, conversion_code, rep_of_code, scope::Scope, variable_text,
    },
    value::{
        Base, Datum, Fixed, Rep, SqlType, Val,
        collation::Collation,
        decimal::{PRECISION_MAX, SCALE_MAX},
    },
    variables::{self, VariableScope},
};

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: UDFS, aggregates: &[] };

#[rustfmt::skip]
static UDFS: &[Udf] = &[
    // `tg_assign(name, value, rep, decimals)`: sets a user variable, gives the value.
    Udf::volatile("tg_assign", 4, |args, out| {
        let name = String::from_utf8_lossy(args.bytes(0)).into_owned();
        let value = args.cell(1).to_owned();
        let ty = match rep_of_code(args.int(2)) {
            Rep::Int => SqlType::bigint(),
            Rep::Uint => SqlType::ubigint(),
            Rep::Real => SqlType::new(Base::Double),
            Rep::Dec => SqlType::decimal(PRECISION_MAX, args.int(3).clamp(0, SCALE_MAX.into()) as u8),
            Rep::Blob => SqlType::new(Base::LongBlob),
            _ => SqlType::new(Base::LongText),
        };
        env::current(|env| env.set_user_variable(&name, UserValue { value, ty }));
        out.cell(args.cell(1));
        Ok(())
    }),
    // `tg_is_free(table, row id, exclusively)`: whether SKIP LOCKED lets a row through; no row is free.
    Udf::fresh("tg_is_free", 3, |args, out| {
        let row = Resource::Row { table: args.int(0), rowid: args.int(1) };
        let mode = if args.int(2) == 0 { Mode::Shared } else { Mode::Exclusive };
        let filter = env::current(|env| env.row_filter.borrow().clone()).flatten();
        out.int(i64::from(args.is_null(1) || filter.is_none_or(|filter| filter.lets_through(row, mode))));
        Ok(())
    }),
    Udf::volatile("tg_last_insert_id", 0, |_, out| {
        out.uint(env::current(|env| env.last_insert_id.get()).unwrap_or(0));
        Ok(())
    }),
    // `tg_user_variable(name, rep)`: a variable that the statement itself assigns, as what it was when the statement began.
    Udf::volatile("tg_user_variable", 2, |args, out| {
        let name = String::from_utf8_lossy(args.bytes(0)).into_owned();
        let Some(value) = env::current(|env| env.user_variable(&name)) else { return Ok(()) };
        let rep = rep_of_code(args.int(1));
        let typed = Val::of(value.value.as_cell(), value.ty.rep());
        if value.ty.rep() == rep {
            out.cell(value.value.as_cell());
        } else {
            out.datum(&super::cast_val(typed, rep)?.into_datum());
        }
        Ok(())
    }),
];

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    rewrite("DATABASE", 0, 0, database),
    rewrite("SCHEMA", 0, 0, database),
    rewrite("USER", 0, 0, |_, _| Ok(user(Source::User))),
    rewrite("CURRENT_USER", 0, 0, |t, _| Ok(current_user(t))),
    rewrite("SESSION_USER", 0, 0, |_, _| Ok(user(Source::User))),
    rewrite("SYSTEM_USER", 0, 0, |_, _| Ok(user(Source::User))),
    rewrite("VERSION", 0, 0, |t, _| Ok(Ex::known_text(t.session.server_version()))),
    rewrite("CONNECTION_ID", 0, 0, |_, _| Ok(Ex::constant(Source::ConnectionId, SqlType::ubigint()))),
    rewrite("ROW_COUNT", 0, 0, |_, _| Ok(Ex::constant(Source::RowCount, SqlType::bigint()))),
    rewrite("FOUND_ROWS", 0, 0, |_, _| Ok(Ex::constant(Source::FoundRows, SqlType::bigint()))),
    rewrite("LAST_INSERT_ID", 0, 1, |t, args| match args {
        // The same statement may set it.
        [] if t.sets_last_insert_id() => {
            t.effects.note_read();
            Ok(Ex::sql("tg_last_insert_id()".into(), SqlType::ubigint()).with_nullable(false))
        }
        [] => Ok(Ex::constant(Source::LastInsertId, SqlType::ubigint())),
        [value, ..] => {
            let sql = t.convert(value, Rep::Uint);
            t.effects.note_write();
            Ok(Ex::sql(format!("f_set_last_insert_id({sql})"), SqlType::ubigint()))
        }
    }),
    udf_volatile("SET_LAST_INSERT_ID", "f_set_last_insert_id", 1, 1, &[Want::Uint], bigint, |args, out| {
        let id = args.uint(0);
        env::current(|env| env.last_insert_id.set(id));
        out.cell(args.cell(0));
        Ok(())
    }),
    rewrite("CHARSET", 1, 1, |_, args| Ok(Ex::known_text(args[0].ty.collation.charset()))),
    rewrite("COLLATION", 1, 1, |_, args| Ok(Ex::known_text(args[0].ty.collation.name()))),
    rewrite("COERCIBILITY", 1, 1, |_, args| Ok(Ex { ty: SqlType::whole(1, false), ..Ex::known_int(match args[0].coercibility {
        Coercibility::Explicit => 0,
        Coercibility::Mixed => 1,
        Coercibility::Column => 2,
        Coercibility::System => 3,
        Coercibility::Literal => 4,
        Coercibility::Number => 5,
        Coercibility::Null => 6,
    }) })),
    udf_volatile("SLEEP", "f_sleep", 1, 1, &[Want::Real], int, |args, out| {
        sleep((!args.is_null(0)).then(|| args.real(0)))?;
        out.int(0);
        Ok(())
    }),
    udf_volatile("GET_LOCK", "f_get_lock", 2, 2, &[Want::Text, Want::Real], lock_answer, |args, out| {
        let seconds = args.real(1);
        let wait = (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        // Longer than that is for ever, as a negative time is.
        let wait = wait.filter(|wait| *wait < Duration::from_secs(365 * 86_400));
        if args.is_null(0) || args.is_null(1) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(args.bytes(0)).into_owned();
        let taken = env::current(|env| env.lock_name(&name, wait)).unwrap_or(Ok(false))?;
        out.bool(taken);
        Ok(())
    }),
    udf_volatile("RELEASE_LOCK", "f_release_lock", 1, 1, &[Want::Text], lock_answer, |args, out| {
        if let Some(released) = name_of(args).and_then(|name| env::current(|env| env.release_name(&name)).flatten()) {
            out.bool(released);
        }
        Ok(())
    }),
    udf_volatile("RELEASE_ALL_LOCKS", "f_release_all_locks", 0, 0, &[], |_| SqlType { unsigned: true, ..SqlType::new(Base::Int) }, |_, out| {
        out.int(env::current(crate::env::Env::release_names).unwrap_or(0) as i64);
        Ok(())
    }),
    udf_volatile("IS_FREE_LOCK", "f_is_free_lock", 1, 1, &[Want::Text], lock_answer, |args, out| {
        if let Some(name) = name_of(args) {
            out.bool(env::current(|env| env.owner_of_name(&name)).flatten().is_none());
        }
        Ok(())
    }),
    udf_volatile("IS_USED_LOCK", "f_is_used_lock", 1, 1, &[Want::Text], int, |args, out| {
        if let Some(owner) = name_of(args).and_then(|name| env::current(|env| env.owner_of_name(&name)).flatten()) {
            out.int(owner as i64);
        }
        Ok(())
    }),
    rewrite("BENCHMARK", 2, 2, |_, _| Err(errors::unsupported("BENCHMARK"))),
    udf_fresh("UUID", "f_uuid", |_| SqlType::new(Base::Fixed(Fixed::Uuid)), |_, out| {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes).map_err(errors::internal)?;
        bytes[6] = bytes[6] & 0x0f | 0x10;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        if let Some(value) = Fixed::Uuid.of_bytes(&bytes) {
            out.cell(Cell::Blob(&value.to_stored()));
        }
        Ok(())
    }),
];

/// The type of the functions of named locks.
fn lock_answer(_: &[Ex]) -> SqlType {
    SqlType::whole(1, false)
}

fn name_of(args: &super::abi::Args<'_>) -> Option<String> {
    (!args.is_null(0)).then(|| String::from_utf8_lossy(args.bytes(0)).into_owned())
}

/// Suspends the statement.
///
/// # Errors
/// 1210 for NULL and negative numbers, 1317 when the statement is ended.
pub(crate) fn sleep(seconds: Option<f64>) -> Res<()> {
    let time = sleep_time(seconds)?;
    task::block_on(tokio::time::sleep(time)).map_err(|task::Cancelled| errors::interrupted())
}

/// How long `sleep()` sleeps.
///
/// # Errors
/// 1210 for NULL and negative numbers.
pub(crate) fn sleep_time(seconds: Option<f64>) -> Res<Duration> {
    let seconds = seconds.filter(|seconds| *seconds >= 0.0).ok_or_else(|| errors::wrong_arguments("sleep"))?;
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(u64::from(u32::MAX))))
}

/// A user with a host, 128 and 255 characters at most.
fn user(source: Source) -> Ex {
    let ty = SqlType::varchar(384, Collation::DEFAULT);
    Ex { coercibility: Coercibility::System, ..Ex::constant(source, ty) }
}

/// The account that acts: in a stored program that is its definer.
fn current_user(t: &Translator<'_>) -> Ex {
    let shown = user(Source::CurrentUser);
    match &t.current_user {
        Some(name) => Ex { ty: shown.ty, ..Ex::known_text(name) },
        None => shown,
    }
}

fn database(t: &mut Translator<'_>, _: &[Ex]) -> Res<Ex> {
    Ok(match (t.session.schema, t.session.inputs.virtual_schema) {
        (Some(schema), _) => Ex::known_text(&schema.name).with_nullable(true),
        (None, Some(name)) => Ex::known_text(name),
        (None, None) => Ex { ty: SqlType::varchar(64, Collation::DEFAULT), ..Ex::null() },
    })
}

/// `@name` in a stored program, which may have set it since it was planned: its value is read when it is asked for. The plan
/// serves as long as the variable has its type.
fn variable_of_program(t: &mut Translator<'_>, name: &str) -> Ex {
    t.effects.note_read();
    let ty = t.variable_type(name);
    t.program_variables.push((name.to_owned(), ty.clone()));
    if ty.base == Base::Null {
        return Ex { ty: SqlType::new(Base::LongText), ..Ex::null() };
    }
    let code = conversion_code(Rep::Null, ty.rep());
    let ex = Ex::sql(format!("tg_user_variable({}, {code})", quote(&name.to_lowercase())), ty);
    Ex { coercibility: Coercibility::Column, ..ex }
}

/// `@name` or `@@name`: its value now; the plan serves once.
///
/// # Errors
/// 1193 for an unknown system variable.
pub(super) fn variable(t: &mut Translator<'_>, name: &Expr) -> Res<Ex> {
    let name = string_value(name);
    if t.program.as_ref().is_some_and(crate::translate::local_names::Names::are_planned_ahead)
        && !name.starts_with("@@")
    {
        return Ok(variable_of_program(t, name[1..].trim_matches(['`', '\'', '"'])));
    }
    let now = t.now();
    let Some(system) = name.strip_prefix("@@") else {
        let bare = name[1..].trim_matches(['`', '\'', '"']);
        let value = now.env.user_variable(bare);
        if t.assigns(bare) {
            t.effects.note_read();
            let ty = if value.value.is_null() { SqlType::new(Base::LongText) } else { value.ty };
            let code = conversion_code(Rep::Null, ty.rep());
            let ex = Ex::sql(format!("tg_user_variable({}, {code})", quote(&bare.to_lowercase())), ty);
            return Ok(Ex { coercibility: Coercibility::Column, ..ex });
        }
        if value.value.is_null() {
            return Ok(Ex { ty: SqlType::new(Base::LongText), ..Ex::null() });
        }
        let ty = match value.ty.rep() {
            Rep::Text => variable_text(value.ty.collation),
            Rep::Blob => SqlType::new(Base::LongBlob),
            _ => value.ty.clone(),
        };
        let rep = value.ty.rep();
        let value = if rep == Rep::Dec { Datum::text(variables::text(&value)) } else { value.value };
        let ex = Ex::constant(Source::Value(value, rep), ty);
        return Ok(Ex { nullable: true, coercibility: Coercibility::Column, ..ex });
    };
    let lower = system.to_ascii_lowercase();
    let (scope, bare) = lower.rsplit_once('.').unwrap_or(("", &lower));
    let scope = match scope {
        "" => VariableScope::Any,
        "global" => VariableScope::Global,
        _ => VariableScope::Session,
    };
    let value = variables::read(now.engine, now.env, bare, scope)?;
    if variables::is_null(bare, &value) {
        return Ok(Ex { ty: SqlType::new(Base::LongText), ..Ex::null() });
    }
    if let (true, Ok(number)) = (variables::is_real(bare), value.parse::<f64>()) {
        let ty = SqlType { decimals: 6, ..SqlType::new(Base::Double) };
        return Ok(Ex::constant(Source::Value(Datum::Real(number), Rep::Real), ty));
    }
    Ok(match value.parse::<i64>() {
        Ok(number) if variables::is_unsigned(bare) => Ex { ty: SqlType::ubigint(), ..Ex::known_int(number) },
        Ok(number) => Ex::known_int(number),
        Err(_) => match value.parse::<u64>() {
            Ok(number) => Ex::constant(Source::Value(Datum::from_u64(number), Rep::Uint), SqlType::ubigint()),
            Err(_) => Ex::known_text(&value),
        },
    })
}

/// `@name := value`.
///
/// # Errors
/// 1235 for names that SQLite's text cannot hold.
pub(super) fn assign(t: &mut Translator<'_>, name: &Expr, value: &Ex) -> Res<Ex> {
    t.serves_once();
    let name = string_value(name);
    if name.starts_with("@@") || name.contains('\0') {
        return Err(errors::syntax(name));
    }
    let bare = name[1..].trim_matches(['`', '\'', '"']).to_lowercase();
    let (sql, ty) = match value.ty.rep() {
        Rep::Int if value.ty.length < 11 => {
            (t.text(value), SqlType { length: value.ty.length, ..SqlType::new(Base::Int) })
        }
        Rep::Int => (t.text(value), SqlType::bigint()),
        Rep::Uint if value.ty.base != Base::Bit => (t.text(value), SqlType::ubigint()),
        Rep::Uint | Rep::Real | Rep::Dec | Rep::Text | Rep::Blob => (t.text(value), value.ty.clone()),
        Rep::Null => ("NULL".to_owned(), SqlType::new(Base::LongText)),
        Rep::Fixed(kind) => (t.convert(value, Rep::Text), SqlType::varchar(kind.chars_max(), Collation::DEFAULT)),
        _ => (t.convert(value, Rep::Text), SqlType::new(Base::LongText)),
    };
    t.effects.note_write();
    let code = conversion_code(Rep::Null, ty.rep());
    let sql = format!("tg_assign({}, {sql}, {code}, {})", quote(&bare), ty.decimals);
    Ok(Ex { code: Code::Sql(sql), aggregate: value.aggregate, ..Ex::sql(String::new(), ty) })
}

/// DEFAULT(column): the value that rows get which have none for it.
pub(super) fn default_of(t: &mut Translator<'_>, columns: &[&Expr], scope: &Scope<'_>) -> Res<Ex> {
    let [column] = columns else { return Err(errors::syntax("DEFAULT")) };
    let ex = t.expr(column, &scope.unassigned())?;
    let origin = ex.origin.as_ref().ok_or_else(|| errors::unsupported("DEFAULT of what is no table's column"))?;
    let now = t.now();
    let catalog = now.engine.schema(&origin.schema)?.catalog()?;
    let table = now.env.temporary(&origin.schema, &origin.table).unwrap_or_else(|| origin.table.clone());
    let Some((_, column)) = catalog.table(&table).and_then(|table| table.column(&origin.column)) else {
        return Err(errors::unknown_column(&origin.column, "field list"));
    };
    let (value, ty) = (|value| Source::Value(value, column.ty.rep()), column.ty.clone());
    let code = match &column.default {
        Default::Literal { value: literal, .. } => value(literal.clone()),
        Default::Now => Source::Now { decimals: ty.decimals, utc: false },
        Default::Expression(_) => return Err(errors::unsupported("DEFAULT of a column with an expression")),
        Default::None if !column.nullable => return Err(errors::no_default(&column.name)),
        Default::None | Default::Null => value(Datum::Null),
    };
    let nullable = matches!(code, Source::Value(Datum::Null, _));
    Ok(Ex { nullable, coercibility: ex.coercibility, ..Ex::constant(code, ty) })
}
