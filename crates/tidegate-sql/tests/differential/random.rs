//! Random tables and random statements over them, the same ones for the same seed.

use std::fmt::Write;

/// xorshift64*: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Columns of the random tables: what a value of it is like, its definition.
pub(crate) const COLUMNS: &[(Kind, &str)] = &[
    (Kind::Int, "INT"),
    (Kind::Int, "BIGINT"),
    (Kind::Int, "TINYINT"),
    (Kind::Uint, "INT UNSIGNED"),
    (Kind::Uint, "BIGINT UNSIGNED"),
    (Kind::Dec, "DECIMAL(10,2)"),
    (Kind::Dec, "DECIMAL(20,6)"),
    (Kind::Real, "DOUBLE"),
    (Kind::Text, "VARCHAR(40)"),
    (Kind::Text, "CHAR(10)"),
    (Kind::Text, "TEXT"),
    (Kind::Text, "VARCHAR(20) COLLATE utf8mb4_bin"),
    (Kind::Date, "DATE"),
    (Kind::Datetime, "DATETIME"),
    (Kind::Datetime, "DATETIME(3)"),
    (Kind::Time, "TIME"),
    (Kind::Enum, "ENUM('red','green','blue')"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Uint,
    Dec,
    Real,
    Text,
    Date,
    Datetime,
    Time,
    Enum,
}

/// Tables of the random schema; each has a primary key `id` and the columns `c0`, `c1`, …
pub(crate) const TABLES: [&str; 3] = ["t0", "t1", "t2"];

/// The statements that make and fill the tables. Table n has the columns from n × 5 on, seven of them.
pub(crate) fn schema(random: &mut Random) -> Vec<String> {
    let mut all = Vec::new();
    for (number, table) in TABLES.iter().enumerate() {
        let columns = columns(number);
        all.push(format!("DROP TABLE IF EXISTS {table}"));
        let mut create = format!("CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT");
        for (index, (_, definition)) in columns.iter().enumerate() {
            let null = if index % 3 == 2 { " NOT NULL" } else { "" };
            let _ = write!(create, ", c{index} {definition}{null}");
        }
        let prefix = |index: usize| if columns[index].1 == "TEXT" { "(8)" } else { "" };
        let _ = write!(create, ", KEY k0 (c0{}), KEY k1 (c1{}, c2{}))", prefix(0), prefix(1), prefix(2));
        all.push(create);
        for _ in 0..12 {
            let values: Vec<String> = columns
                .iter()
                .enumerate()
                .map(
                    |(index, (kind, _))| {
                        if index % 3 != 2 && random.chance(15) { "NULL".to_owned() } else { value(random, *kind) }
                    },
                )
                .collect();
            all.push(format!("INSERT INTO {table} VALUES (NULL, {})", values.join(", ")));
        }
    }
    all
}

fn columns(table: usize) -> Vec<(Kind, &'static str)> {
    (0..7).map(|index| COLUMNS[(table * 5 + index) % COLUMNS.len()]).collect()
}

/// A value that fits a column of the kind.
pub(crate) fn value(random: &mut Random, kind: Kind) -> String {
    match kind {
        Kind::Int => random.pick(&["0", "1", "-1", "2", "7", "42", "-100", "99", "127"]).to_owned(),
        Kind::Uint => random.pick(&["0", "1", "3", "10", "255", "4000000000"]).to_owned(),
        Kind::Dec => random.pick(&["0", "1.5", "-2.25", "10.10", "99.99", "-0.01", "12345.67"]).to_owned(),
        Kind::Real => random.pick(&["0", "1.5", "-2.5", "1e3", "0.1", "-0.125", "123456.789"]).to_owned(),
        Kind::Text => {
            random.pick(&["'a'", "'A'", "'abc'", "''", "'12'", "'1.5x'", "'été'", "'b '", "'zeta'", "'-3'"]).to_owned()
        }
        Kind::Date => random.pick(&["'2024-02-29'", "'1999-12-31'", "'2000-01-01'", "'2023-11-14'"]).to_owned(),
        Kind::Datetime => random
            .pick(&["'2024-02-29 12:00:00'", "'1999-12-31 23:59:59'", "'2000-01-01'", "'2023-11-14 22:13:20'"])
            .to_owned(),
        Kind::Time => random.pick(&["'10:11:12'", "'00:00:00'", "'-01:30:00'", "'100:00:00'"]).to_owned(),
        Kind::Enum => random.pick(&["'red'", "'green'", "'blue'"]).to_owned(),
    }
}

/// The tables that a statement reads, and how columns are written.
struct Scope {
    tables: Vec<usize>,
    qualified: bool,
}

impl Scope {
    fn column(&self, random: &mut Random) -> String {
        let at = random.below(self.tables.len());
        let name = if random.chance(10) { "id".to_owned() } else { format!("c{}", random.below(7)) };
        if self.qualified { format!("x{at}.{name}") } else { name }
    }
}

fn literal(random: &mut Random) -> String {
    random
        .pick(&[
            "0",
            "1",
            "2",
            "-1",
            "10",
            "1.5",
            "-0.25",
            "100.00",
            "1e1",
            "'a'",
            "'ABC'",
            "''",
            "'1'",
            "'2x'",
            "NULL",
            "TRUE",
            "'2024-02-29'",
            "'2023-11-14 22:13:20'",
            "'10:11:12'",
            "x'41'",
        ])
        .to_owned()
}

fn expression(random: &mut Random, scope: &Scope, depth: usize) -> String {
    if depth == 0 || random.chance(20) {
        return if random.chance(65) { scope.column(random) } else { literal(random) };
    }
    let mut operand = || expression(random, scope, depth - 1);
    let (a, b, c) = (operand(), operand(), operand());
    let unit = random.pick(&["DAY", "MONTH", "HOUR", "SECOND", "YEAR"]);
    match random.below(46) {
        0 | 1 => format!("({a} + {b})"),
        2 => format!("({a} - {b})"),
        3 => format!("({a} * {b})"),
        4 => format!("({a} / {b})"),
        5 => format!("({a} DIV {b})"),
        6 => format!("({a} % {b})"),
        7 => format!("({a} = {b})"),
        8 => format!("({a} < {b})"),
        9 => format!("({a} >= {b})"),
        10 => format!("({a} <=> {b})"),
        11 => format!("({a} AND {b})"),
        12 => format!("({a} OR {b})"),
        13 => format!("(NOT {a})"),
        14 => format!("({a} IS NULL)"),
        15 => format!("({a} IN ({b}, {c}))"),
        16 => format!("({a} LIKE '%a%')"),
        17 => format!("CASE WHEN {a} THEN {b} ELSE {c} END"),
        18 => format!("CASE {a} WHEN {b} THEN 'x' WHEN {c} THEN 'y' END"),
        19 => format!("IF({a}, {b}, {c})"),
        20 => format!("IFNULL({a}, {b})"),
        21 => format!("COALESCE({a}, {b}, {c})"),
        22 => format!("NULLIF({a}, {b})"),
        23 => format!("CONCAT({a}, '-', {b})"),
        24 => format!("UPPER({a})"),
        25 => format!("LENGTH({a})"),
        26 => format!("CHAR_LENGTH({a})"),
        27 => format!("SUBSTRING({a}, 2, 3)"),
        28 => format!("REPLACE({a}, 'a', 'bb')"),
        29 => format!("TRIM({a})"),
        30 => format!("ABS({a})"),
        31 => format!("ROUND({a}, 1)"),
        32 => format!("FLOOR({a})"),
        33 => format!("SIGN({a})"),
        34 => format!("CAST({a} AS CHAR)"),
        35 => format!("CAST({a} AS SIGNED)"),
        36 => format!("CAST({a} AS DECIMAL(12,3))"),
        37 => format!("YEAR({a})"),
        38 => format!("DATE({a})"),
        39 => format!("DATE_ADD({a}, INTERVAL 3 {unit})"),
        40 => format!("DATEDIFF({a}, '2024-01-01')"),
        41 => format!("LEFT({a}, 2)"),
        42 => format!("({a} XOR {b})"),
        43 => format!("({a} BETWEEN {b} AND {c})"),
        44 => format!("-{a}"),
        _ => format!("({a} & {b})"),
    }
}

/// Whether a statement changes tables.
pub(crate) fn writes(statement: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE", "REPLACE"].iter().any(|verb| statement.starts_with(verb))
}

/// One statement.
pub(crate) fn statement(random: &mut Random) -> String {
    match random.below(20) {
        0..=8 => plain_select(random),
        9..=12 => grouped_select(random),
        13..=14 => joined_select(random),
        15 => union_select(random),
        16 => update(random),
        17 => insert(random),
        18 => delete(random),
        _ => subquery(random),
    }
}

fn plain_select(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let scope = Scope { tables: vec![table], qualified: false };
    let (a, b) = (expression(random, &scope, 3), expression(random, &scope, 2));
    let condition = expression(random, &scope, 2);
    let filter = if random.chance(60) { format!(" WHERE {condition}") } else { String::new() };
    format!("SELECT id, {a} AS a, {b} AS b FROM {}{filter} ORDER BY id", TABLES[table])
}

fn grouped_select(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let scope = Scope { tables: vec![table], qualified: false };
    let key = expression(random, &scope, 1);
    let inner = expression(random, &scope, 1);
    let aggregate = match random.below(8) {
        0 => "COUNT(*)".to_owned(),
        1 => format!("COUNT({inner})"),
        2 => format!("SUM({inner})"),
        3 => format!("AVG({inner})"),
        4 => format!("MIN({inner})"),
        5 => format!("MAX({inner})"),
        6 => format!("COUNT(DISTINCT {inner})"),
        _ => format!("GROUP_CONCAT({inner} ORDER BY id)"),
    };
    if random.chance(50) {
        return format!("SELECT {aggregate} AS a FROM {}", TABLES[table]);
    }
    let having = if random.chance(20) { " HAVING COUNT(*) > 1" } else { "" };
    format!("SELECT COUNT(*) AS n, {aggregate} AS a FROM {} GROUP BY {key}{having}", TABLES[table])
}

fn joined_select(random: &mut Random) -> String {
    let (left, right) = (random.below(TABLES.len()), random.below(TABLES.len()));
    let scope = Scope { tables: vec![left, right], qualified: true };
    let (a, condition) = (expression(random, &scope, 2), expression(random, &scope, 2));
    let word = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
    format!(
        "SELECT x0.id AS i, x1.id AS j, {a} AS a FROM {} x0 {word} {} x1 ON {condition} ORDER BY i, j",
        TABLES[left], TABLES[right]
    )
}

fn union_select(random: &mut Random) -> String {
    let tables = [random.below(TABLES.len()), random.below(TABLES.len())];
    let mut part = |table: usize| {
        let scope = Scope { tables: vec![table], qualified: false };
        format!("SELECT {} AS a FROM {}", expression(random, &scope, 1), TABLES[table])
    };
    let (a, b) = (part(tables[0]), part(tables[1]));
    let all = random.pick(&["UNION", "UNION ALL"]);
    format!("{a} {all} {b}")
}

fn subquery(random: &mut Random) -> String {
    let (outer, inner) = (random.below(TABLES.len()), random.below(TABLES.len()));
    let scope = Scope { tables: vec![outer], qualified: false };
    let other = Scope { tables: vec![inner], qualified: false };
    let (a, b) = (expression(random, &scope, 1), expression(random, &other, 1));
    match random.below(3) {
        0 => format!("SELECT id FROM {} WHERE {a} IN (SELECT {b} FROM {}) ORDER BY id", TABLES[outer], TABLES[inner]),
        1 => format!(
            "SELECT id, (SELECT MAX({b}) FROM {} y WHERE y.id <= x.id) AS m FROM {} x ORDER BY id",
            TABLES[inner], TABLES[outer]
        ),
        _ => format!(
            "SELECT id FROM {} x WHERE EXISTS (SELECT 1 FROM {} y WHERE y.id = x.id + 1) ORDER BY id",
            TABLES[outer], TABLES[inner]
        ),
    }
}

fn update(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let scope = Scope { tables: vec![table], qualified: false };
    let column = random.below(7);
    let new = expression(random, &scope, 2);
    let condition = expression(random, &scope, 1);
    format!("UPDATE {} SET c{column} = {new} WHERE id = {} AND {condition}", TABLES[table], random.below(12) + 1)
}

fn insert(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let columns = columns(table);
    let values: Vec<String> = columns
        .iter()
        .map(|(kind, _)| if random.chance(70) { value(random, *kind) } else { literal(random) })
        .collect();
    let ignore = if random.chance(30) { " IGNORE" } else { "" };
    format!("INSERT{ignore} INTO {} VALUES (NULL, {})", TABLES[table], values.join(", "))
}

fn delete(random: &mut Random) -> String {
    let table = random.below(TABLES.len());
    let scope = Scope { tables: vec![table], qualified: false };
    let condition = expression(random, &scope, 1);
    format!("DELETE FROM {} WHERE id > 12 AND {condition}", TABLES[table])
}
