//! Events: CREATE EVENT and ALTER EVENT, and events in the catalogue.
//!
//! A schema keeps an event as a text of one form ([`Event::text`]): all clauses, times as seconds since 1970, then the body as it was
//! written. So what is kept does not depend on the moment or the session in which it is read.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicI64, Ordering},
};

use sqlparser::{parser::Parser, tokenizer::Token};
use tidegate_rows::ServerError;

use super::{
    code::Code,
    compile::{self, Kind, Reading, Wrong},
    kept::Kept,
};
use crate::{
    column::same_name,
    dialect::{expect_word, is_word, take_word, take_words, unexpected},
    errors,
    identifier::{mysql_string, quoted},
    parse::{self, Span, TableName, account::Who},
};

/// CREATE EVENT and ALTER EVENT; what ALTER does not say is `None`.
#[derive(Debug, Clone)]
pub(crate) struct EventStatement {
    pub(crate) alters: bool,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) definer: Option<Who>,
    pub(crate) name: TableName,
    pub(crate) schedule: Option<ScheduleSpec>,
    pub(crate) says: EventSays,
    pub(crate) rename: Option<TableName>,
    /// The body as it was written.
    pub(crate) body: Option<String>,
}

/// When an event runs, by expressions that stand in the statement.
#[derive(Debug, Clone)]
pub(crate) enum ScheduleSpec {
    At(Span),
    Every { quantity: Span, unit: Unit, starts: Option<Span>, ends: Option<Span> },
}

/// What else is said of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventSays {
    /// ON COMPLETION PRESERVE
    pub(crate) preserve: Option<bool>,
    pub(crate) status: Option<Status>,
    pub(crate) comment: Option<String>,
}

/// Whether an event runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Enabled,
    Disabled,
    /// DISABLE ON SLAVE
    DisabledOnSlave,
}

/// The unit of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    // Units of several: the quantity counts the smallest of them.
    MinuteSecond,
    HourSecond,
    HourMinute,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

/// When an event runs, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schedule {
    At(i64),
    Every { quantity: u32, unit: Unit, starts: i64, ends: Option<i64> },
}

/// An event as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kept: Kept,
    /// When it has run last, in seconds since 1970; 0 for never.
    last_run: AtomicI64,
    read: OnceLock<Result<(EventHead, Arc<Code>), ServerError>>,
}

/// What an event's text says in front of its body.
#[derive(Debug, Clone)]
pub(crate) struct EventHead {
    pub(crate) schedule: Schedule,
    pub(crate) preserve: bool,
    pub(crate) status: Status,
    pub(crate) comment: String,
    pub(crate) time_zone: String,
    /// The body as it was written.
    pub(crate) body: String,
}

impl Unit {
    const ALL: [(Self, &str); 15] = [
        (Self::Second, "SECOND"),
        (Self::Minute, "MINUTE"),
        (Self::Hour, "HOUR"),
        (Self::Day, "DAY"),
        (Self::Week, "WEEK"),
        (Self::Month, "MONTH"),
        (Self::Quarter, "QUARTER"),
        (Self::Year, "YEAR"),
        (Self::MinuteSecond, "MINUTE_SECOND"),
        (Self::HourSecond, "HOUR_SECOND"),
        (Self::HourMinute, "HOUR_MINUTE"),
        (Self::DaySecond, "DAY_SECOND"),
        (Self::DayMinute, "DAY_MINUTE"),
        (Self::DayHour, "DAY_HOUR"),
        (Self::YearMonth, "YEAR_MONTH"),
    ];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(unit, _)| *unit == self).map_or("", |(_, word)| word)
    }

    /// The unit that a quantity of this one counts, for one of several units.
    pub(crate) fn smallest(self) -> Option<Self> {
        match self {
            Self::MinuteSecond | Self::HourSecond | Self::DaySecond => Some(Self::Second),
            Self::HourMinute | Self::DayMinute => Some(Self::Minute),
            Self::DayHour => Some(Self::Hour),
            Self::YearMonth => Some(Self::Month),
            _ => None,
        }
    }

    /// A quantity as a statement has it: `'1:30'` for ninety of MINUTE_SECOND.
    pub(crate) fn quantity(self, quantity: u32) -> String {
        let (hours, minutes) = (quantity / 3600, quantity / 60);
        match self {
            Self::MinuteSecond | Self::HourMinute => format!("'{minutes}:{}'", quantity % 60),
            Self::HourSecond => format!("'{hours}:{}:{}'", minutes % 60, quantity % 60),
            Self::DaySecond => format!("'{} {}:{}:{}'", hours / 24, hours % 24, minutes % 60, quantity % 60),
            Self::DayMinute => format!("'{} {}:{}'", minutes / 24, minutes % 24, quantity % 60),
            Self::DayHour => format!("'{} {}'", quantity / 24, quantity % 24),
            Self::YearMonth => format!("'{}-{}'", quantity / 12, quantity % 12),
            _ => quantity.to_string(),
        }
    }

    /// The length of what a quantity counts, in seconds; `Err` of months for a unit that has none.
    fn length(self) -> Result<i64, u32> {
        if let Some(smallest) = self.smallest() {
            return smallest.length();
        }
        match self {
            Self::Minute => Ok(60),
            Self::Hour => Ok(3600),
            Self::Day => Ok(86_400),
            Self::Week => Ok(7 * 86_400),
            Self::Month => Err(1),
            Self::Quarter => Err(3),
            Self::Year => Err(12),
            _ => Ok(1),
        }
    }
}

impl Status {
    /// Its words in a statement.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLE",
            Self::Disabled => "DISABLE",
            Self::DisabledOnSlave => "DISABLE ON SLAVE",
        }
    }

    /// What `information_schema.events` calls it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLED",
            Self::Disabled => "DISABLED",
            Self::DisabledOnSlave => "SLAVESIDE_DISABLED",
        }
    }
}

impl Schedule {
    /// The first time from a moment on at which the event is to run; `None` if there is none.
    pub(crate) fn next(&self, from: i64) -> Option<i64> {
        let (quantity, unit, starts, ends) = match *self {
            Self::At(at) => return Some(at),
            Self::Every { quantity, unit, starts, ends } => (i64::from(quantity), unit, starts, ends),
        };
        let next = if starts >= from {
            starts
        } else {
            match unit.length() {
                Ok(seconds) => {
                    let length = seconds.checked_mul(quantity)?;
                    let past = (from - starts).checked_add(length - 1)? / length;
                    starts.checked_add(past.checked_mul(length)?)?
                }
                Err(months) => next_by_months(starts, months.checked_mul(u32::try_from(quantity).ok()?)?, from)?,
            }
        };
        (ends.is_none_or(|ends| next <= ends)).then_some(next)
    }
}

/// The first moment from `from` on that is a multiple of so many months behind another one.
fn next_by_months(starts: i64, months: u32, from: i64) -> Option<i64> {
    let begun = chrono::DateTime::from_timestamp(starts, 0)?;
    // No month has more than 31 days: this many are not too many.
    let mut times = (from - starts) / (31 * 86_400) / i64::from(months);
    loop {
        let all = u32::try_from(times).ok()?.checked_mul(months)?;
        let at = begun.checked_add_months(chrono::Months::new(all))?.timestamp();
        if at >= from {
            return Some(at);
        }
        times += 1;
    }
}

impl Event {
    /// One of which nothing has been read, and that has run last at this moment (0 for never).
    pub(crate) fn new(kept: Kept, last_run: i64) -> Self {
        Self { kept, last_run: AtomicI64::new(last_run), read: OnceLock::new() }
    }

    /// When it has run last, in seconds since 1970.
    pub(crate) fn last_run(&self) -> Option<i64> {
        Some(self.last_run.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// It runs at a moment.
    pub(crate) fn runs_at(&self, at: i64) {
        self.last_run.store(at, Ordering::Relaxed);
    }

    /// What the text says: its head and its body.
    ///
    /// # Errors
    /// What the text is not: a file may come from a newer version.
    pub(crate) fn read(&self) -> Result<&(EventHead, Arc<Code>), ServerError> {
        let read = || {
            let (head, code) = super::definition::read_event(&self.kept.text, self.kept.reading())?;
            Ok((head, Arc::new(code)))
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The text that a schema keeps.
    pub(crate) fn text(name: &str, head: &EventHead) -> String {
        let schedule = match head.schedule {
            Schedule::At(at) => format!("AT {at}"),
            Schedule::Every { quantity, unit, starts, ends } => {
                let ends = ends.map_or_else(String::new, |ends| format!(" ENDS {ends}"));
                format!("EVERY {quantity} {} STARTS {starts}{ends}", unit.word())
            }
        };
        let not = if head.preserve { "" } else { "NOT " };
        format!(
            "EVENT {} ON SCHEDULE {schedule} ON COMPLETION {not}PRESERVE {} COMMENT {} TIME ZONE {} DO {}",
            quoted(name),
            head.status.words(),
            mysql_string(&head.comment),
            mysql_string(&head.time_zone),
            head.body
        )
    }
}

/// The event of a name: their case does not matter.
pub(crate) fn named<'e>(events: &'e [Arc<Event>], name: &str) -> Option<&'e Arc<Event>> {
    events.iter().find(|event| same_name(&event.kept.name, name))
}

/// Reads CREATE EVENT, from the word EVENT on.
pub(super) fn create(
    p: &mut Parser,
    sql: &[u8],
    reading: Reading,
    or_replace: bool,
    definer: Option<Who>,
) -> Result<EventStatement, Wrong> {
    expect_word(p, "EVENT")?;
    let if_not_exists = take_words(p, &["IF", "NOT", "EXISTS"]);
    let name = parse::table_name(p)?;
    for word in ["ON", "SCHEDULE"] {
        expect_word(p, word)?;
    }
    let schedule = Some(schedule(p)?);
    let says = EventSays { preserve: completion(p)?, ..status_and_comment(p)? };
    expect_word(p, "DO")?;
    let (body, _) = body(p, sql, reading)?;
    let body = Some(body);
    Ok(EventStatement { alters: false, or_replace, if_not_exists, definer, name, schedule, says, rename: None, body })
}

/// Reads ALTER EVENT, from the word EVENT on.
pub(super) fn alter(
    p: &mut Parser,
    sql: &[u8],
    reading: Reading,
    definer: Option<Who>,
) -> Result<EventStatement, Wrong> {
    expect_word(p, "EVENT")?;
    let name = parse::table_name(p)?;
    let schedule = if take_words(p, &["ON", "SCHEDULE"]) { Some(schedule(p)?) } else { None };
    let preserve = completion(p)?;
    let rename = if take_words(p, &["RENAME", "TO"]) { Some(parse::table_name(p)?) } else { None };
    let says = EventSays { preserve, ..status_and_comment(p)? };
    let body = if take_word(p, "DO") { Some(body(p, sql, reading)?.0) } else { None };
    if schedule.is_none() && says == EventSays::default() && rename.is_none() && body.is_none() && definer.is_none() {
        return Ok(unexpected(p)?);
    }
    Ok(EventStatement {
        alters: true,
        or_replace: false,
        if_not_exists: false,
        definer,
        name,
        schedule,
        says,
        rename,
        body,
    })
}

/// Reads what a schema keeps, from the word EVENT on.
pub(super) fn kept(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<(EventHead, Code), Wrong> {
    let number = |(from, to): Span| {
        let text = std::str::from_utf8(&sql[from..to]).unwrap_or_default();
        text.trim().parse::<i64>().map_err(|_| Wrong::Syntax)
    };
    expect_word(p, "EVENT")?;
    parse::table_name(p)?;
    for word in ["ON", "SCHEDULE"] {
        expect_word(p, word)?;
    }
    let schedule = match schedule(p)? {
        ScheduleSpec::At(at) => Schedule::At(number(at)?),
        ScheduleSpec::Every { quantity, unit, starts, ends } => Schedule::Every {
            quantity: u32::try_from(number(quantity)?).map_err(|_| Wrong::Syntax)?,
            unit,
            starts: number(starts.ok_or(Wrong::Syntax)?)?,
            ends: ends.map(number).transpose()?,
        },
    };
    let preserve = completion(p)?.unwrap_or(false);
    let says = status_and_comment(p)?;
    for word in ["TIME", "ZONE"] {
        expect_word(p, word)?;
    }
    let time_zone = parse::word_or_string(p)?;
    expect_word(p, "DO")?;
    let (body, code) = body(p, sql, reading)?;
    let (status, comment) = (says.status.unwrap_or(Status::Enabled), says.comment.unwrap_or_default());
    Ok((EventHead { schedule, preserve, status, comment, time_zone, body }, code))
}

fn schedule(p: &mut Parser) -> Result<ScheduleSpec, Wrong> {
    if take_word(p, "AT") {
        return Ok(ScheduleSpec::At(parse::span_of(p)?));
    }
    expect_word(p, "EVERY")?;
    let quantity = parse::span_of(p)?;
    let Token::Word(word) = &p.peek_token_ref().token else { return Ok(unexpected(p)?) };
    let Some((unit, _)) = Unit::ALL.iter().find(|(_, known)| word.value.eq_ignore_ascii_case(known)) else {
        if word.value.to_ascii_uppercase().ends_with("MICROSECOND") {
            return Err(errors::unsupported("MICROSECOND").into());
        }
        return Ok(unexpected(p)?);
    };
    p.advance_token();
    let starts = if take_word(p, "STARTS") { Some(parse::span_of(p)?) } else { None };
    let ends = if take_word(p, "ENDS") { Some(parse::span_of(p)?) } else { None };
    Ok(ScheduleSpec::Every { quantity, unit: *unit, starts, ends })
}

fn completion(p: &mut Parser) -> Result<Option<bool>, Wrong> {
    if !is_word(p.peek_token_ref(), "ON") || !is_word(p.peek_nth_token_ref(1), "COMPLETION") {
        return Ok(None);
    }
    take_words(p, &["ON", "COMPLETION"]);
    let preserve = !take_word(p, "NOT");
    expect_word(p, "PRESERVE")?;
    Ok(Some(preserve))
}

fn status_and_comment(p: &mut Parser) -> Result<EventSays, Wrong> {
    let status = if take_word(p, "ENABLE") {
        Some(Status::Enabled)
    } else if take_words(p, &["DISABLE", "ON", "SLAVE"]) || take_words(p, &["DISABLE", "ON", "REPLICA"]) {
        Some(Status::DisabledOnSlave)
    } else {
        take_word(p, "DISABLE").then_some(Status::Disabled)
    };
    let comment = if take_word(p, "COMMENT") { Some(parse::word_or_string(p)?) } else { None };
    Ok(EventSays { preserve: None, status, comment })
}

/// The body, as it was written and as what runs.
fn body(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<(String, Code), Wrong> {
    let from = p.peek_token_ref().span.start.column as usize;
    let code = compile::body(p, sql, Kind::Procedure, reading, Vec::new(), None)?;
    let text = String::from_utf8_lossy(&sql[from..super::definition::end_of(p, sql)]).into_owned();
    Ok((text, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_several_units_are_written_as_they_are_read() {
        assert_eq!(Unit::MinuteSecond.quantity(90), "'1:30'");
        assert_eq!(Unit::HourSecond.quantity(3_665), "'1:1:5'");
        assert_eq!(Unit::HourMinute.quantity(61), "'1:1'");
        assert_eq!(Unit::DaySecond.quantity(90_061), "'1 1:1:1'");
        assert_eq!(Unit::DayMinute.quantity(1_501), "'1 1:1'");
        assert_eq!(Unit::DayHour.quantity(49), "'2 1'");
        assert_eq!(Unit::YearMonth.quantity(18), "'1-6'");
        assert_eq!(Unit::Quarter.quantity(2), "2");
    }

    #[track_caller]
    fn check(schedule: Schedule, from: i64, expected: Option<i64>) {
        assert_eq!(schedule.next(from), expected);
    }

    #[test]
    fn an_event_runs_next_when_its_interval_has_passed() {
        let every = |quantity, unit, ends| Schedule::Every { quantity, unit, starts: 1_000, ends };
        check(every(10, Unit::Second, None), 500, Some(1_000));
        check(every(10, Unit::Second, None), 1_000, Some(1_000));
        check(every(10, Unit::Second, None), 1_001, Some(1_010));
        check(every(10, Unit::Second, None), 1_010, Some(1_010));
        check(every(2, Unit::Minute, None), 1_121, Some(1_240));
        check(every(10, Unit::Second, Some(1_015)), 1_011, None);
        check(every(10, Unit::Second, Some(1_020)), 1_011, Some(1_020));
        check(every(u32::MAX, Unit::Year, None), 2_000, None);
        check(Schedule::At(70), 100, Some(70));
        check(every(90, Unit::MinuteSecond, None), 1_001, Some(1_090));
        check(every(25, Unit::DayHour, None), 1_001, Some(91_000));
        check(every(13, Unit::YearMonth, None), 1_001, Some(1_000 + 396 * 86_400));
        // From the last of January on: months keep to their ends.
        let months = Schedule::Every { quantity: 1, unit: Unit::Month, starts: 1_706_659_200, ends: None };
        check(months, 1_706_659_201, Some(1_709_164_800));
        check(months, 1_709_164_801, Some(1_711_843_200));
        let years = Schedule::Every { quantity: 4, unit: Unit::Year, starts: 1_706_659_200, ends: None };
        check(years, 1_706_659_201, Some(1_832_889_600));
    }
}
