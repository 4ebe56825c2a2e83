//! Random statements whose expressions have the types that applications give them: what differs here matters more than what
//! becomes of a DATE() of a word. Windows, common table expressions, upserts and changes of several tables are made here too.

use super::random::{COLUMNS, Kind, Random, TABLES, value};

/// The tables that a statement reads, by number, each under an alias.
struct Scope {
    tables: Vec<usize>,
}

impl Scope {
    /// A column of a kind, if a table has one.
    fn column(&self, random: &mut Random, wanted: fn(Kind) -> bool) -> Option<String> {
        let mut all = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            for index in 0..7 {
                if wanted(COLUMNS[(table * 5 + index) % COLUMNS.len()].0) {
                    all.push(format!("x{at}.c{index}"));
                }
            }
        }
        if all.is_empty() { None } else { Some(all[random.below(all.len())].clone()) }
    }

    fn from(&self) -> String {
        let names: Vec<String> =
            self.tables.iter().enumerate().map(|(at, table)| format!("{} x{at}", TABLES[*table])).collect();
        names.join(", ")
    }
}

fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Uint | Kind::Dec)
}

fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::Text | Kind::Enum)
}

fn is_moment(kind: Kind) -> bool {
    matches!(kind, Kind::Date | Kind::Datetime)
}

fn number(random: &mut Random, scope: &Scope, depth: usize) -> String {
    let leaf = scope.column(random, is_number).unwrap_or_else(|| "x0.id".into());
    if depth == 0 {
        return if random.chance(70) { leaf } else { value(random, Kind::Dec) };
    }
    match random.below(16) {
        0 => format!("({} + {})", number(random, scope, depth - 1), number(random, scope, depth - 1)),
        1 => format!("({} - {})", number(random, scope, depth - 1), number(random, scope, depth - 1)),
        2 => format!("({leaf} * {})", number(random, scope, 0)),
        3 => format!("ROUND({}, {})", number(random, scope, depth - 1), random.below(4)),
        4 => format!("TRUNCATE({}, 1)", number(random, scope, depth - 1)),
        5 => format!("ABS({})", number(random, scope, depth - 1)),
        6 => format!("CEILING({})", number(random, scope, depth - 1)),
        7 => format!("MOD({leaf}, 7)"),
        8 => format!("({leaf} DIV 3)"),
        9 => format!("COALESCE({leaf}, {})", number(random, scope, depth - 1)),
        10 => format!("GREATEST({leaf}, {})", number(random, scope, depth - 1)),
        11 => format!("LENGTH({})", text(random, scope, depth - 1)),
        12 => format!("DATEDIFF({}, {})", moment(random, scope, depth - 1), moment(random, scope, depth - 1)),
        13 => {
            format!("CASE WHEN {} THEN {leaf} ELSE {} END", truth(random, scope, depth - 1), number(random, scope, 0))
        }
        14 => format!(
            "EXTRACT({} FROM {})",
            random.pick(&["YEAR", "MONTH", "DAY", "YEAR_MONTH"]),
            moment(random, scope, depth - 1)
        ),
        _ => format!(
            "TIMESTAMPDIFF({}, {}, {})",
            random.pick(&["DAY", "MONTH", "YEAR", "HOUR"]),
            moment(random, scope, 0),
            moment(random, scope, 0)
        ),
    }
}

fn text(random: &mut Random, scope: &Scope, depth: usize) -> String {
    let leaf = scope.column(random, is_text).unwrap_or_else(|| "'Été'".into());
    if depth == 0 {
        return if random.chance(75) { leaf } else { value(random, Kind::Text) };
    }
    match random.below(16) {
        0 => format!("CONCAT({}, {})", text(random, scope, depth - 1), text(random, scope, depth - 1)),
        1 => format!("UPPER({})", text(random, scope, depth - 1)),
        2 => format!("LOWER({})", text(random, scope, depth - 1)),
        3 => format!("LEFT({}, 2)", text(random, scope, depth - 1)),
        4 => format!("RIGHT({}, 2)", text(random, scope, depth - 1)),
        5 => format!("SUBSTRING({}, {}, 3)", text(random, scope, depth - 1), random.pick(&["1", "2", "-2", "0"])),
        6 => format!("REPLACE({}, 'a', 'é')", text(random, scope, depth - 1)),
        7 => format!("LPAD({}, 6, '*')", text(random, scope, depth - 1)),
        8 => format!("TRIM({})", text(random, scope, depth - 1)),
        9 => format!("IFNULL({leaf}, {})", text(random, scope, depth - 1)),
        10 => format!("IF({}, {leaf}, {})", truth(random, scope, depth - 1), text(random, scope, 0)),
        11 => format!(
            "DATE_FORMAT({}, '{}')",
            moment(random, scope, depth - 1),
            random.pick(&["%Y-%m", "%d.%m.%y", "%W %j", "%H:%i", "%X-%V"])
        ),
        12 => format!("CAST({} AS CHAR)", number(random, scope, depth - 1)),
        13 => format!("HEX({})", text(random, scope, depth - 1)),
        14 => format!("CONCAT_WS('/', {leaf}, NULL, {})", text(random, scope, 0)),
        _ => format!("REVERSE({})", text(random, scope, depth - 1)),
    }
}

fn moment(random: &mut Random, scope: &Scope, depth: usize) -> String {
    let leaf = scope.column(random, is_moment).unwrap_or_else(|| "TIMESTAMP'2024-02-29 12:30:00'".into());
    if depth == 0 {
        return leaf;
    }
    let unit = random.pick(&["DAY", "MONTH", "YEAR", "WEEK", "QUARTER", "HOUR", "MINUTE", "SECOND"]);
    match random.below(8) {
        0 | 1 => format!(
            "DATE_ADD({}, INTERVAL {} {unit})",
            moment(random, scope, depth - 1),
            random.pick(&["1", "-3", "40"])
        ),
        2 => format!("DATE_SUB({leaf}, INTERVAL {} {unit})", random.pick(&["2", "13"])),
        3 => format!("DATE({})", moment(random, scope, depth - 1)),
        4 => format!("LAST_DAY({})", moment(random, scope, depth - 1)),
        5 => format!("COALESCE({leaf}, TIMESTAMP'2001-02-03 04:05:06')"),
        6 => format!("({leaf} + INTERVAL '1 2' DAY_HOUR)"),
        _ => leaf,
    }
}

fn truth(random: &mut Random, scope: &Scope, depth: usize) -> String {
    let op = random.pick(&["=", "<", ">=", "<>", "<=>"]);
    if depth > 0 && random.chance(35) {
        let (a, b) = (truth(random, scope, depth - 1), truth(random, scope, depth - 1));
        return format!("({a} {} {b})", random.pick(&["AND", "OR", "AND NOT"]));
    }
    match random.below(9) {
        0 | 1 => format!("({} {op} {})", number(random, scope, depth), number(random, scope, depth.min(1))),
        2 => format!("({} {op} {})", text(random, scope, depth), text(random, scope, 0)),
        3 => format!("({} {op} {})", moment(random, scope, depth), moment(random, scope, 0)),
        4 => format!("({} IS {}NULL)", text(random, scope, 0), random.pick(&["", "NOT "])),
        5 => format!(
            "({} BETWEEN {} AND {})",
            number(random, scope, 0),
            number(random, scope, 0),
            number(random, scope, 0)
        ),
        6 => format!(
            "({} {}IN ('a', {}, 'ÉTÉ'))",
            text(random, scope, depth),
            random.pick(&["", "NOT "]),
            text(random, scope, 0)
        ),
        7 => format!("({} LIKE '{}')", text(random, scope, depth), random.pick(&["a%", "%e%", "_b%", "%É%", "12", ""])),
        _ => format!("({} > '2010-01-01')", moment(random, scope, depth)),
    }
}

fn scope(random: &mut Random, count: usize) -> Scope {
    Scope { tables: (0..count).map(|_| random.below(TABLES.len())).collect() }
}

/// Tables and a condition over them.
pub(crate) fn condition(random: &mut Random) -> (String, String) {
    let count = 1 + random.below(2);
    let scope = scope(random, count);
    let condition = truth(random, &scope, 3);
    (scope.from(), condition)
}

/// One statement.
pub(crate) fn statement(random: &mut Random) -> String {
    match random.below(16) {
        0..=3 => select(random),
        4 | 5 => grouped(random),
        6 | 7 => window(random),
        8 => joined(random),
        9 => with(random),
        10 => nested(random),
        11 => set_operation(random),
        12 => upsert(random),
        13 => change(random),
        14 => change_joined(random),
        _ => limited(random),
    }
}

fn select(random: &mut Random) -> String {
    let scope = scope(random, 1);
    let (a, b, c) = (number(random, &scope, 3), text(random, &scope, 3), moment(random, &scope, 2));
    format!(
        "SELECT x0.id, {a} AS a, {b} AS b, {c} AS c FROM {} WHERE {} ORDER BY x0.id",
        scope.from(),
        truth(random, &scope, 2)
    )
}

fn grouped(random: &mut Random) -> String {
    let scope = scope(random, 1);
    let key = match random.below(3) {
        0 => text(random, &scope, 2),
        1 => moment(random, &scope, 1),
        _ => number(random, &scope, 1),
    };
    let (a, b) = (number(random, &scope, 1), text(random, &scope, 1));
    let having = if random.chance(40) { format!(" HAVING COUNT(*) > 1 OR MAX({a}) > 5") } else { String::new() };
    format!(
        "SELECT COUNT(*) AS n, COUNT(DISTINCT {b}) AS d, SUM({a}) AS s, MIN({b}) AS l, MAX({b}) AS h, GROUP_CONCAT(x0.id ORDER BY x0.id DESC) AS ids \
         FROM {} GROUP BY {key}{having} ORDER BY ids",
        scope.from()
    )
}

fn window(random: &mut Random) -> String {
    let scope = scope(random, 1);
    let partition =
        if random.chance(60) { format!("PARTITION BY {} ", text(random, &scope, 1)) } else { String::new() };
    let a = number(random, &scope, 1);
    let function = match random.below(9) {
        0 => "ROW_NUMBER()".to_owned(),
        1 => "RANK()".to_owned(),
        2 => "DENSE_RANK()".to_owned(),
        3 => format!("SUM({a})"),
        4 => format!("COUNT({a})"),
        5 => format!("MAX({a})"),
        6 => format!("LAG({a})"),
        7 => format!("LEAD({a}, 2)"),
        _ => format!("FIRST_VALUE({a})"),
    };
    let order = if random.chance(50) { format!("{}, ", number(random, &scope, 1)) } else { String::new() };
    let frame = if ["SUM", "COUNT"].iter().any(|name| function.starts_with(name)) && random.chance(40) {
        " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    } else {
        ""
    };
    format!(
        "SELECT x0.id, {function} OVER ({partition}ORDER BY {order}x0.id{frame}) AS w FROM {} ORDER BY x0.id",
        scope.from()
    )
}

fn joined(random: &mut Random) -> String {
    let scope = scope(random, 3);
    let [a, b, c] = [TABLES[scope.tables[0]], TABLES[scope.tables[1]], TABLES[scope.tables[2]]];
    let pair = Scope { tables: scope.tables[..2].to_vec() };
    let (first, second) = (truth(random, &pair, 1), truth(random, &scope, 1));
    format!(
        "SELECT x0.id AS i, x1.id AS j, x2.id AS k, {} AS a FROM {a} x0 {} JOIN {b} x1 ON x1.id = x0.id + 1 AND {first} \
         LEFT JOIN {c} x2 ON x2.id = x1.id OR ({second} AND x2.id < 4) WHERE {} ORDER BY i, j, k",
        text(random, &scope, 2),
        random.pick(&["LEFT", "INNER", "RIGHT"]),
        truth(random, &pair, 1)
    )
}

fn with(random: &mut Random) -> String {
    let inner = scope(random, 1);
    let (a, b) = (number(random, &inner, 2), text(random, &inner, 2));
    format!(
        "WITH q AS (SELECT x0.id, {a} AS a, {b} AS b FROM {} WHERE {}), r AS (SELECT b, COUNT(*) AS n, SUM(a) AS s FROM q GROUP BY b) \
         SELECT q.id, q.a, q.b, r.n, r.s FROM q JOIN r ON r.b <=> q.b ORDER BY q.id",
        inner.from(),
        truth(random, &inner, 1)
    )
}

fn nested(random: &mut Random) -> String {
    let outer = scope(random, 1);
    let other = TABLES[random.below(TABLES.len())];
    let condition = match random.below(4) {
        0 => format!("x0.id IN (SELECT y.id + 1 FROM {other} y WHERE y.c1 IS NOT NULL)"),
        1 => format!("x0.id NOT IN (SELECT y.id FROM {other} y WHERE y.id > 3)"),
        2 => format!("EXISTS (SELECT 1 FROM {other} y WHERE y.id = x0.id - 2)"),
        _ => format!("x0.id > ALL (SELECT y.id FROM {other} y WHERE y.id < 5)"),
    };
    format!(
        "SELECT x0.id, (SELECT COUNT(*) FROM {other} z WHERE z.id <= x0.id) AS n, {} AS t FROM {} WHERE {condition} ORDER BY x0.id",
        text(random, &outer, 2),
        outer.from()
    )
}

fn set_operation(random: &mut Random) -> String {
    let (a, b) = (scope(random, 1), scope(random, 1));
    let op = random.pick(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
    let make: fn(&mut Random, &Scope, usize) -> String = if random.chance(50) { text } else { number };
    let (x, y) = (make(random, &a, 1), make(random, &b, 1));
    format!("SELECT {x} AS a FROM {} {op} SELECT {y} FROM {}", a.from(), b.from())
}

fn row(random: &mut Random, table: usize) -> String {
    let values: Vec<String> =
        (0..7).map(|index| value(random, COLUMNS[(table * 5 + index) % COLUMNS.len()].0)).collect();
    values.join(", ")
}

fn upsert(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let (id, values, column) = (random.below(20) + 1, row(random, table), random.below(7));
    match random.below(3) {
        0 => format!("REPLACE INTO {} VALUES ({id}, {values})", TABLES[table]),
        1 => format!(
            "INSERT IGNORE INTO {} VALUES ({id}, {values}), ({}, {})",
            TABLES[table],
            id + 1,
            row(random, table)
        ),
        _ => format!(
            "INSERT INTO {} VALUES ({id}, {values}) ON DUPLICATE KEY UPDATE c{column} = VALUES(c{column})",
            TABLES[table]
        ),
    }
}

/// A column and an expression that fits it.
fn assignment(random: &mut Random, scope: &Scope) -> String {
    let (table, index) = (scope.tables[0], random.below(7));
    let fit = match COLUMNS[(table * 5 + index) % COLUMNS.len()].0 {
        Kind::Int | Kind::Uint => "MOD(x0.id * 7, 100)".to_owned(),
        Kind::Dec => format!("ROUND(MOD({}, 1000), 2)", number(random, scope, 1)),
        Kind::Text => format!("LEFT(IFNULL({}, ''), 8)", text(random, scope, 2)),
        other => value(random, other),
    };
    format!("x0.c{index} = {fit}")
}

fn change(random: &mut Random) -> String {
    let scope = scope(random, 1);
    format!(
        "UPDATE {} SET {} WHERE {} AND x0.id > 0",
        scope.from(),
        assignment(random, &scope),
        truth(random, &scope, 1)
    )
}

fn change_joined(random: &mut Random) -> String {
    let scope = scope(random, 2);
    if scope.tables[0] == scope.tables[1] || random.chance(30) {
        return format!(
            "DELETE x0 FROM {} WHERE x0.id = x1.id AND x0.id > 9 AND {}",
            scope.from(),
            truth(random, &scope, 1)
        );
    }
    let own = Scope { tables: scope.tables[..1].to_vec() };
    format!(
        "UPDATE {} SET {} WHERE x0.id = x1.id AND {}",
        scope.from(),
        assignment(random, &own),
        truth(random, &scope, 1)
    )
}

fn limited(random: &mut Random) -> String {
    let table = TABLES[random.below(TABLES.len())];
    let index = random.below(7);
    match random.below(3) {
        0 => format!("DELETE FROM {table} WHERE id > 8 ORDER BY c{index}, id DESC LIMIT 1"),
        1 => format!("SELECT id, c{index} FROM {table} ORDER BY c{index} DESC, id LIMIT {} OFFSET 2", random.below(5)),
        _ => format!("SELECT DISTINCT c{index} FROM {table} ORDER BY c{index} LIMIT 5"),
    }
}
