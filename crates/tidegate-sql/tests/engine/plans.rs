//! Which indexes statements use: what EXPLAIN names.

use super::{Fixture, Session, one, run};

/// Checks which key reads `table` in a statement's plan.
async fn check_key(session: &mut Session, sql: &str, table: &str, key: &str) {
    let plan = run(session, &format!("EXPLAIN {sql}")).await.rows;
    let keys: Vec<&str> = plan.iter().filter(|row| row[2] == table).map(|row| row[5].as_str()).collect();
    assert_eq!(keys, [key], "{sql}: {plan:?}");
}

#[tokio::test]
async fn columns_with_and_without_sign_are_looked_up_from_either_side() {
    let fixture = Fixture::new("signs");
    let mut session = fixture.session().await;
    run(&mut session, "CREATE TABLE post (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, kind INT, KEY kind (kind))")
        .await;
    run(
        &mut session,
        "CREATE TABLE meta (n INT PRIMARY KEY, post BIGINT UNSIGNED, word INT, KEY post (post), KEY word (word))",
    )
    .await;
    run(&mut session, "INSERT INTO post VALUES (1, 1), (2, 1), (3, 2)").await;
    run(
        &mut session,
        "INSERT INTO meta VALUES (1, 1, 5), (2, 1, 6), (3, 3, 5), (4, 18446744073709551615, 7), (-1, NULL, 8)",
    )
    .await;
    let outer = "SELECT post.id, meta.n FROM post LEFT JOIN meta ON meta.post = post.id";
    check_key(&mut session, outer, "meta", "post").await;
    check_key(&mut session, "SELECT * FROM meta LEFT JOIN post ON meta.post = post.id", "post", "PRIMARY").await;
    let within = "SELECT n FROM meta WHERE post IN (SELECT id FROM post WHERE kind = 1)";
    check_key(&mut session, within, "meta", "post").await;
    assert_eq!(one(&mut session, &format!("{outer} ORDER BY 1, 2")).await, "1,1;1,2;2,NULL;3,3");
    assert_eq!(one(&mut session, &format!("{within} ORDER BY n")).await, "1;2");
    // -1 has the bits of the largest number without sign.
    assert_eq!(one(&mut session, "SELECT COUNT(*) FROM meta a JOIN meta b ON a.n = b.post").await, "3");
}
