//! Literals of a statement, and where they stand in it.

/// What a literal is; part of the cache key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LiteralKind {
    /// Digits that fit a signed 32-bit number.
    Int,
    /// Digits that fit a signed 64-bit number only.
    Long,
    /// Digits that fit an unsigned one only.
    Uint,
    /// Digits with a point, or too many of them: precision and scale.
    Decimal(u8, u8),
    /// A number with an exponent.
    Double,
    /// Quoted characters: by which quote, and whether escapes or doubled quotes stand in them.
    Text { quote: u8, escaped: bool },
    /// `x'41'`.
    Hex,
    /// `0x41`: a number where a number is wanted.
    HexNumber,
    /// `b'01'` or `0b01`.
    Bits,
}

/// A literal and its place: the bytes of a number, the inside of quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) kind: LiteralKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Literal {
    /// Its bytes in the text.
    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }
}
