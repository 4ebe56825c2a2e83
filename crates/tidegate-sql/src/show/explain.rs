//! EXPLAIN: the plan that SQLite has for a statement, as a table or as JSON in MariaDB's form.

use tidegate_rows::Sink;

use super::{Done, rows};
use crate::{
    session::{Core, explain::Explained},
    translate::params::Text,
    value::json::tree::escape,
};

/// Answers EXPLAIN for the part of the text from `from` to `to`.
///
/// # Errors
/// Those of the statement.
pub(crate) fn explain(
    core: &mut Core,
    text: Text<'_>,
    (from, to): (usize, usize),
    json: bool,
    more: bool,
    sink: &mut dyn Sink,
) -> Done {
    let plan = core.explain(text, from, to)?;
    if json {
        return rows(core, &["EXPLAIN"], &[vec![Some(as_json(&plan))]], more, sink);
    }
    let list: Vec<Vec<Option<String>>> = plan
        .into_iter()
        .enumerate()
        .map(|(number, explained)| {
            vec![
                Some((number + 1).to_string()),
                Some("SIMPLE".into()),
                explained.table,
                None,
                None,
                explained.key,
                None,
                None,
                None,
                Some(explained.detail),
            ]
        })
        .collect();
    rows(
        core,
        &["id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "Extra"],
        &list,
        more,
        sink,
    )
}

/// The steps inside of a `nested_loop`; what is no table is a `message`, as MariaDB tells of plans without tables.
fn as_json(plan: &[Explained]) -> String {
    let steps: Vec<String> = plan.iter().map(step).collect();
    let steps = match steps.as_slice() {
        [one] => format!("    \"table\": {}", indented(one, 4)),
        many => {
            let many: Vec<String> =
                many.iter().map(|one| format!("      {{\n        \"table\": {}\n      }}", indented(one, 8))).collect();
            format!("    \"nested_loop\": [\n{}\n    ]", many.join(",\n"))
        }
    };
    format!("{{\n  \"query_block\": {{\n    \"select_id\": 1,\n{steps}\n  }}\n}}")
}

fn step(explained: &Explained) -> String {
    let mut members = Vec::new();
    let mut member = |name: &str, value: &str| members.push(format!("  \"{name}\": {}", quoted(value)));
    if let Some(table) = &explained.table {
        member("table_name", table);
        member("access_type", access_type(explained));
    }
    if let Some(key) = &explained.key {
        member("key", key);
    }
    member("message", &explained.detail);
    format!("{{\n{}\n}}", members.join(",\n"))
}

/// MariaDB's word for the way in which rows are found.
fn access_type(explained: &Explained) -> &'static str {
    let detail = &explained.detail;
    let compares = detail.contains('<') || detail.contains('>');
    match () {
        () if detail.starts_with("SCAN") && explained.key.is_some() => "index",
        () if !detail.starts_with("SEARCH") => "ALL",
        () if compares => "range",
        () if explained.key.as_deref() == Some("PRIMARY") => "eq_ref",
        () => "ref",
    }
}

fn indented(text: &str, by: usize) -> String {
    text.replace('\n', &format!("\n{}", " ".repeat(by)))
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    format!("\"{}\"", String::from_utf8_lossy(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(table: Option<&str>, key: Option<&str>, detail: &str) -> Explained {
        Explained { table: table.map(str::to_owned), key: key.map(str::to_owned), detail: detail.to_owned() }
    }

    #[test]
    fn plans_are_objects() {
        let table = explained(Some("t\"1"), Some("PRIMARY"), "SEARCH t\"1 USING INTEGER PRIMARY KEY (id=?)");
        let one = "{\n  \"query_block\": {\n    \"select_id\": 1,\n    \"table\": {\n      \"table_name\": \"t\\\"1\",\n      \
                   \"access_type\": \"eq_ref\",\n      \"key\": \"PRIMARY\",\n      \
                   \"message\": \"SEARCH t\\\"1 USING INTEGER PRIMARY KEY (id=?)\"\n    }\n  }\n}";
        assert_eq!(as_json(std::slice::from_ref(&table)), one);
        let two = as_json(&[table, explained(None, None, "USE TEMP B-TREE FOR ORDER BY")]);
        assert!(two.contains("\"nested_loop\": [\n      {\n        \"table\": {\n          \"table_name\""), "{two}");
        for (key, detail, expected) in [
            (None, "SCAN t", "ALL"),
            (Some("k"), "SCAN t USING COVERING INDEX k", "index"),
            (Some("k"), "SEARCH t USING INDEX k (a=?)", "ref"),
            (Some("k"), "SEARCH t USING INDEX k (a>?)", "range"),
        ] {
            assert_eq!(access_type(&explained(Some("t"), key, detail)), expected, "{detail}");
        }
    }
}
