//! Comparisons that leave the indexes of both sides in use.
//!
//! Columns of BIGINT UNSIGNED are ANY in the file, unless they are the row id; all other whole numbers are INTEGER
//! (`docs/storage-format.md`). Where both meet, SQLite compares with numeric affinity, and it uses an index only if the indexed column
//! has the affinity of the comparison: so none of an ANY column. `+x` is `x` without affinity: beside it an index of an ANY column
//! serves, but none of `x`. The two comparisons give the same for the values that there are, integers and blobs.

use tidegate_rows::ColumnFlags;

use super::{Code, Ex, Translator, select::Rel};
use crate::value::Rep;

/// A column has an index that begins with it.
const INDEXED: u16 = ColumnFlags::PRIMARY_KEY | ColumnFlags::UNIQUE_KEY | ColumnFlags::MULTIPLE_KEY;

/// `x = y` for two whole numbers, in the form that lets SQLite look up either by its index; `None` if the plain form does.
pub(super) fn equal(a: &Ex, x: &str, b: &Ex, y: &str) -> Option<String> {
    let one_way = |any: &Ex, int: &Ex, x: &str| (is_indexed_any(any) && is_integer(int)).then(|| format!("+{x}"));
    let (indexed, stripped) = match (one_way(b, a, x), one_way(a, b, y)) {
        (Some(stripped), _) => (is_indexed(a), format!("{stripped} = {y}")),
        (None, Some(stripped)) => (is_indexed(b), format!("{x} = {stripped}")),
        (None, None) => return None,
    };
    // The planner takes whichever of the two has an index for the order in which it joins.
    Some(if indexed { format!("({x} = {y} AND {stripped})") } else { format!("({stripped})") })
}

impl Translator<'_> {
    /// A query whose column has no affinity that would keep `left IN (query)` from the index of `left`.
    pub(super) fn without_affinity(&mut self, left: &Ex, rel: Rel) -> Rel {
        let [column] = rel.columns.as_slice() else { return rel };
        if !is_indexed_any(left) || !is_integer(&column.ex) {
            return rel;
        }
        let alias = self.alias("s");
        Rel { sql: format!("SELECT +{alias}.r0 AS r0 FROM ({}) AS {alias}", rel.sql), ..rel }
    }
}

/// Whether an expression is a column with an index.
pub(super) fn is_indexed(ex: &Ex) -> bool {
    let is_name = |sql: &str| sql.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    matches!(&ex.code, Code::Sql(sql) if is_name(sql))
        && ex.origin.as_ref().is_some_and(|origin| origin.flags & INDEXED != 0)
}

/// Whether an expression is a column with an index whose values stand in a column without affinity.
fn is_indexed_any(ex: &Ex) -> bool {
    ex.ty.rep() == Rep::Uint && is_indexed(ex) && !may_be_rowid(ex)
}

/// Whether an expression can have the affinity of INTEGER.
fn is_integer(ex: &Ex) -> bool {
    matches!(ex.code, Code::Sql(_)) && (ex.ty.rep() == Rep::Int || may_be_rowid(ex))
}

/// Whether an expression can be a row id of BIGINT UNSIGNED.
fn may_be_rowid(ex: &Ex) -> bool {
    const ROW_ID: u16 = ColumnFlags::PRIMARY_KEY | ColumnFlags::AUTO_INCREMENT;
    ex.ty.rep() == Rep::Uint && ex.origin.as_ref().is_some_and(|origin| origin.flags & ROW_ID == ROW_ID)
}
