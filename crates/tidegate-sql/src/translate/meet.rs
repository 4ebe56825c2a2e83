//! The collation of two operands.

use super::{Coercibility, Ex, Res};
use crate::{errors, value::collation::Collation};

/// The collation on which texts meet.
///
/// # Errors
/// 1267 if neither gives way.
pub(crate) fn meet(a: &Ex, b: &Ex, operation: &str) -> Res<(Collation, Coercibility)> {
    let is_text = |ex: &Ex| ex.ty.base.is_character() || ex.ty.base.is_binary();
    match (is_text(a), is_text(b)) {
        (true, false) => return Ok((a.ty.collation, a.coercibility)),
        (false, true) => return Ok((b.ty.collation, b.coercibility)),
        (false, false) => return Ok((Collation::DEFAULT, Coercibility::Number)),
        (true, true) => {}
    }
    if a.ty.collation == b.ty.collation {
        return Ok((a.ty.collation, a.coercibility.min(b.coercibility)));
    }
    if a.coercibility != b.coercibility {
        let stronger = if a.coercibility < b.coercibility { a } else { b };
        return Ok((stronger.ty.collation, stronger.coercibility));
    }
    let (x, y) = (a.ty.collation, b.ty.collation);
    if x == Collation::BINARY || y == Collation::BINARY {
        return Ok((Collation::BINARY, a.coercibility));
    }
    if a.coercibility == Coercibility::Explicit {
        return Err(errors::collation_mix(
            format!("{},EXPLICIT", x.name()),
            format!("{},EXPLICIT", y.name()),
            operation,
        ));
    }
    if x.charset() != y.charset() {
        let wider = if x.char_bytes_max() > y.char_bytes_max() { x } else { y };
        return Ok((wider, a.coercibility));
    }
    // Within a character set the binary order wins; of two others none does.
    if !x.is_binary_order() && !y.is_binary_order() {
        let strength = if a.coercibility == Coercibility::Column { "IMPLICIT" } else { "COERCIBLE" };
        let side = |collation: Collation| format!("{},{strength}", collation.name());
        return Err(errors::collation_mix(side(x), side(y), operation));
    }
    let binary = if x.is_binary_order() { x } else { y };
    Ok((binary, Coercibility::Mixed))
}
