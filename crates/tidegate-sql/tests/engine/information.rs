//! `information_schema` and SHOW: which rows conditions leave, and what is known of indexes.

use tidegate_rows::Param;

use super::{Fixture, Rows, Session, code, one, run};

/// Runs a statement with texts for its parameters.
async fn given(session: &mut Session, sql: &str, params: &[&str]) -> String {
    use tidegate_rows::{Execute, Statement};
    let params: Vec<Param> = params.iter().map(|text| Param::Bytes(text.as_bytes().to_vec().into())).collect();
    let mut rows = Rows::default();
    session.execute(Statement { sql: sql.as_bytes(), params: &params }, &mut rows).await.unwrap();
    rows.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(";")
}

#[tokio::test]
async fn conditions_about_names_choose_the_rows() {
    let fixture = Fixture::new("names");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE cat (id INT PRIMARY KEY, name INT, KEY name (name))").await;
    run(&mut session, "CREATE TABLE `\u{e9}t\u{e9}` (n INT); CREATE TABLE dog (id INT PRIMARY KEY)").await;
    run(&mut session, "CREATE DATABASE other; CREATE TABLE other.cat (n INT)").await;
    let columns = "SELECT GROUP_CONCAT(table_schema, '.', table_name, '.', column_name ORDER BY 1) FROM information_schema.columns";
    for (condition, expected) in [
        ("table_name = 'CAT ' AND table_schema IN ('test', 'nosuch')", "test.cat.id,test.cat.name"),
        ("table_name = 'cat' AND column_name = 'n'", "other.cat.n"),
        ("'dog' = table_name AND table_schema = DATABASE()", "test.dog.id"),
        ("BINARY table_name = 'CAT' AND table_schema = 'test'", "NULL"),
        ("table_name = 'ete' AND table_schema = 'test'", "test.\u{e9}t\u{e9}.n"),
        ("table_schema = 'other' OR table_name = 'dog'", "other.cat.n,test.dog.id"),
        ("table_name = 'dog' AND table_name = 'cat'", "NULL"),
        ("NOT table_name = 'cat' AND table_schema = 'test'", "test.dog.id,test.\u{e9}t\u{e9}.n"),
        ("table_name = table_schema", "NULL"),
    ] {
        assert_eq!(one(&mut session, &format!("{columns} WHERE {condition}")).await, expected, "{condition}");
    }
    let both = format!("{columns} WHERE table_schema = ? AND table_name = ?");
    assert_eq!(given(&mut session, &both, &["test", "dog"]).await, "test.dog.id");
    assert_eq!(given(&mut session, &both, &["other", "cat"]).await, "other.cat.n");
    run(&mut session, &format!("PREPARE p FROM '{}'", both.replace('\'', "\'\'"))).await;
    run(&mut session, "SET @s = 'test', @t = 'dog'").await;
    assert_eq!(one(&mut session, "EXECUTE p USING @s, @t").await, "test.dog.id");
    run(&mut session, "SET @s = 'other', @t = 'cat'").await;
    assert_eq!(one(&mut session, "EXECUTE p USING @s, @t").await, "other.cat.n");
    // Each table has conditions of its own.
    let joined = "SELECT t.table_name, c.table_name, c.column_name FROM information_schema.tables t \
                  LEFT JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = 'cat' \
                  WHERE t.table_schema = 'test' AND t.table_name = 'dog' ORDER BY 3";
    assert_eq!(one(&mut session, joined).await, "dog,cat,id;dog,cat,name");
    run(
        &mut session,
        "CREATE VIEW v AS SELECT table_name AS t FROM information_schema.tables WHERE table_schema = 'other'",
    )
    .await;
    assert_eq!(one(&mut session, "SELECT * FROM v WHERE t = 'cat'").await, "cat");
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM v a JOIN v b USING (t)").await, "1");
    run(&mut session, "CREATE TABLE names (table_name VARCHAR(20)); INSERT INTO names VALUES ('cat')").await;
    let nested = "SELECT table_name FROM names n WHERE EXISTS (SELECT 1 FROM information_schema.tables t \
                  WHERE t.table_name = n.table_name AND table_schema = 'test')";
    assert_eq!(one(&mut session, nested).await, "cat");
    let copied = "CREATE TABLE copied SELECT table_name FROM information_schema.tables WHERE table_schema = 'other'";
    run(&mut session, copied).await;
    run(&mut session, "INSERT INTO copied SELECT column_name FROM information_schema.columns WHERE table_name = 'dog'")
        .await;
    assert_eq!(one(&mut session, "SELECT * FROM copied").await, "cat;id");
}

#[tokio::test]
async fn the_cardinality_of_indexes_is_that_of_the_statistics() {
    let mut fixture = Fixture::new("cardinality");
    fixture.open_again(|options| options.renews_statistics = false);
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, few INT, many INT, KEY few (few, many), KEY many (many))")
        .await;
    let numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i % 3, i % 100 FROM n";
    run(&mut session, &format!("INSERT INTO t {numbers}")).await;
    let shown = async |session: &mut Session| -> Vec<String> {
        run(session, "SHOW INDEX FROM t")
            .await
            .rows
            .iter()
            .map(|row| format!("{}.{} {}", row[2], row[4], row[6]))
            .collect()
    };
    let expected = |numbers: [&str; 4]| -> Vec<String> {
        let columns = ["PRIMARY.id", "few.few", "few.many", "many.many"];
        columns.iter().zip(numbers).map(|(column, number)| format!("{column} {number}")).collect()
    };
    assert_eq!(shown(&mut session).await, expected(["NULL"; 4]));
    run(&mut session, "ANALYZE TABLE t").await;
    assert_eq!(shown(&mut session).await, expected(["300", "3", "300", "100"]));
    let one_column =
        "SELECT cardinality FROM information_schema.statistics WHERE table_name = 't' AND index_name = 'many'";
    assert_eq!(one(&mut session, one_column).await, "100");
}

#[tokio::test]
async fn clients_have_character_sets_of_one_byte() {
    let fixture = Fixture::new("one-byte");
    let mut session = fixture.session().await;
    assert_eq!(code(&mut session, "SET NAMES cp1251").await, 1235, "nobody converts its texts");
    session.set_transcoding();
    let shown = "SELECT @@character_set_client, @@character_set_results, @@collation_connection";
    for (sql, expected) in [
        ("SET NAMES CP1251", "cp1251,cp1251,utf8mb4_general_ci"),
        ("SET NAMES latin1", "latin1,latin1,latin1_swedish_ci"),
        ("SET NAMES koi8r COLLATE koi8r_bin", "koi8r,koi8r,utf8mb4_bin"),
        ("SET collation_connection = koi8r_general_ci", "koi8r,koi8r,utf8mb4_general_ci"),
        ("SET character_set_results = latin2, character_set_connection = greek", "koi8r,latin2,utf8mb4_general_ci"),
        ("SET NAMES latin1; SET character_set_client = cp850", "cp850,latin1,utf8mb4_general_ci"),
        ("SET NAMES utf8mb4", "utf8mb4,utf8mb4,utf8mb4_general_ci"),
    ] {
        run(&mut session, sql).await;
        assert_eq!(one(&mut session, shown).await, expected, "{sql}");
    }
    for (sql, error) in [
        ("SET NAMES cp1251 COLLATE utf8mb4_bin", 1253),
        ("SET NAMES cp1251 COLLATE nosuch", 1273),
        ("SET NAMES big5", 1235),
        ("CREATE TABLE t (s TEXT CHARACTER SET cp1251)", 1235),
    ] {
        assert_eq!(code(&mut session, sql).await, error, "{sql}");
    }
    // As a login names them: cp1257_bin, hebrew_general_ci, latin1_swedish_ci.
    for (number, expected) in [
        (58, "cp1257,cp1257,utf8mb4_bin"),
        (16, "hebrew,hebrew,utf8mb4_general_ci"),
        (8, "latin1,latin1,latin1_swedish_ci"),
    ] {
        session.set_collation(number);
        assert_eq!(one(&mut session, shown).await, expected, "{number}");
    }
}
