//! Random prepared statements with parameters of all types must give the values that MariaDB gives, and leave the same rows. A
//! seed makes the same statements again. Types of columns are not compared: MariaDB's depend on the parameters of PREPARE.

use crate::{
    Pair, block_on, number,
    outcome::{Difference, Outcome},
    random::Random,
};

/// Values by their types.
const VALUES: &[&[&str]] = &[
    &["0", "7", "-3", "2147483648", "9223372036854775807", "18446744073709551615"],
    &["1.50", "-0.25", "12345678901234567.89", "0.0000000001", "10.0"],
    &["1.5e0", "-2e3", "1e-5"],
    &["'a'", "'A'", "'abc'", "''", "'12'", "'1.5x'", "'2024-02-29'", "'é'", "'10:20:30'"],
    &["x'41'", "x'4142'", "x''"],
    &[
        "DATE'2024-02-29'",
        "CAST('2023-11-14 22:13:20.5' AS DATETIME(1))",
        "TIME'10:20:30'",
        "CAST('-01:00:00' AS TIME)",
    ],
    &["NULL"],
    &["TRUE", "FALSE"],
];

/// Statements with up to three parameters.
const SHAPES: &[&str] = &[
    "SELECT ? AS a, ? AS b, ? AS c",
    "SELECT ? + 1 AS a, ? - 2 AS b",
    "SELECT ? * ? AS a, ? / 3 AS b",
    "SELECT ? % 7 AS a, -? AS b",
    "SELECT id, i + ? AS a, d * ? AS b FROM p ORDER BY id",
    "REPLACE INTO p (id, s, d, w) VALUES (8, 'x', ?, ?)",
    "SELECT CONCAT(?, ?) AS a, LENGTH(?) AS b",
    "SELECT ? = ? AS a, ? IS NULL AS b",
    "SELECT ? < ? AS a, ? <=> NULL AS b",
    "SELECT COALESCE(?, ?) AS a, IF(?, 1, 2) AS b",
    "SELECT IFNULL(?, 'none') AS a, NULLIF(?, ?) AS b",
    "SELECT CASE ? WHEN ? THEN 'same' ELSE 'other' END AS a",
    "SELECT ? BETWEEN ? AND ? AS a",
    "SELECT ? IN (?, 5, ?) AS a",
    "SELECT UPPER(?) AS a, LEFT(?, 2) AS b, HEX(?) AS c",
    "SELECT CAST(? AS CHAR) AS a, CAST(? AS DECIMAL(20,4)) AS b, CAST(? AS SIGNED) AS c",
    "SELECT DATE(?) AS a, YEAR(?) AS b",
    "SELECT ROUND(?, 1) AS a, ABS(?) AS b, FLOOR(?) AS c",
    "SELECT GREATEST(?, ?) AS a",
    "SELECT id FROM p WHERE i = ? OR d > ? ORDER BY id",
    "SELECT id FROM p WHERE s = ? OR s LIKE ? ORDER BY id",
    "SELECT id FROM p WHERE m >= ? AND t <> ? ORDER BY id",
    "SELECT id, CONCAT(s, ?) AS b, i > ? AS c FROM p ORDER BY id",
    "SELECT id FROM p WHERE i IN (?, ?) OR s IN (?, 'abc') ORDER BY id",
    "SELECT id FROM p WHERE i BETWEEN ? AND ? ORDER BY id",
    "SELECT COUNT(*) AS n, SUM(i + ?) AS s FROM p WHERE d < ?",
    "SELECT ? AS a UNION ALL SELECT ?",
    "UPDATE IGNORE p SET w = ? WHERE id = 1 + 0 * LENGTH(?)",
    "UPDATE IGNORE p SET i = ?, w = i, d = ? WHERE id = 2",
    "INSERT IGNORE INTO p (id, s, d, w) VALUES (9, ?, ?, ?) ON DUPLICATE KEY UPDATE s = VALUES(s), d = VALUES(d), w = VALUES(w)",
];

#[track_caller]
fn check(sql: &str, (ours, theirs): (Outcome, Outcome)) {
    let difference = ours.difference(&theirs, true).filter(|difference| *difference != Difference::Types);
    assert!(difference.is_none(), "{sql}\n  ours:   {ours}\n  theirs: {theirs}");
}

#[test]
fn parameters_of_all_types_give_the_same_values() {
    let (seed, count) = (number("TIDEGATE_DIFF_SEED", 1), number("TIDEGATE_PREPARED_COUNT", 400));
    block_on(async {
        let mut pair = Pair::new("prepared").await;
        pair.enter("prepared_diff").await;
        let mut random = Random::new(seed);
        for sql in [
            "CREATE TABLE p (id INT PRIMARY KEY, i INT, d DECIMAL(10,2), s VARCHAR(20), m DATETIME, t TIME, w VARCHAR(40))",
            "INSERT INTO p VALUES (1, 7, 1.50, 'abc', '2024-02-29 00:00:00', '10:20:30', NULL), \
             (2, -3, -0.25, 'A', '2023-11-14 22:13:20', '-01:00:00', 'x'), (3, NULL, 10, '12', NULL, NULL, '')",
        ] {
            let (ours, theirs) = pair.run(sql).await;
            assert!(!ours.is_error() && !theirs.is_error(), "{sql}: {ours} {theirs}");
        }
        for _ in 0..count {
            let shape = random.pick(SHAPES);
            let names: Vec<String> = (1..=shape.matches('?').count()).map(|index| format!("@p{index}")).collect();
            let mut values = Vec::new();
            for name in &names {
                let kind = VALUES[random.below(VALUES.len())];
                values.push(format!("{name} = {}", random.pick(kind)));
            }
            let set = format!("SET {}", values.join(", "));
            let prepare = format!("PREPARE s FROM '{}'", shape.replace('\'', "''"));
            let execute = format!("EXECUTE s USING {}", names.join(", "));
            for sql in [&set, &prepare, &execute] {
                check(&format!("{sql}; {shape}; {set}"), pair.run(sql).await);
            }
            if !shape.starts_with("SELECT") {
                check(&format!("{shape}; {set}"), pair.run("SELECT * FROM p ORDER BY id").await);
            }
        }
    });
}
