//! JSON_TABLE: what bounds it. What it gives is in the differential suite (`corpus/jsontable.sql`).

use super::{Fixture, code, one};

#[tokio::test]
async fn columns_and_rows_have_limits() {
    let fixture = Fixture::new("json-table");
    let mut session = fixture.session().await;
    let columns = |count: usize| {
        let columns: Vec<String> = (0..count).map(|number| format!("c{number} INT PATH '$.c{number}'")).collect();
        format!("SELECT c0 FROM JSON_TABLE('[{{\"c0\": 7}}]', '$[*]' COLUMNS ({})) AS t", columns.join(", "))
    };
    assert_eq!(one(&mut session, &columns(128)).await, "7");
    assert_eq!(code(&mut session, &columns(129)).await, 1235);
    let rows = |count: usize| {
        let inner = format!("[{}]", vec!["1"; 1000].join(","));
        let document = format!("[{}]", vec![inner; count].join(","));
        format!(
            "SELECT COUNT(*) FROM JSON_TABLE('{document}', '$[*]' COLUMNS (NESTED PATH '$[*]' COLUMNS (a INT PATH '$'))) AS t"
        )
    };
    assert_eq!(one(&mut session, &rows(1000)).await, "1000000");
    assert_eq!(code(&mut session, &rows(1001)).await, 1235);
}
