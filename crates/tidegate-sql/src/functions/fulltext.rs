//! What triggers call that feed FULLTEXT indexes.

use tidegate_rows::ServerError;

use super::{
    Family,
    abi::{Args, Out, Udf},
};
use crate::{store::fulltext::words::Words, value::collation::Collation};

pub(super) const FAMILY: Family =
    Family { functions: &[], udfs: &[Udf::lenient("tg_ft_words", -1, words)], aggregates: &[] };

/// `tg_ft_words(collation, text, …)`: the words of texts as an index has them.
fn words(args: &Args<'_>, out: &mut Out) -> Result<(), ServerError> {
    let words = Words::of(Collation(u16::try_from(args.int(0)).unwrap_or(0)));
    let mut all = String::new();
    for index in 1..args.len() {
        words.write(args.bytes(index), &mut all);
    }
    out.text(all);
    Ok(())
}
