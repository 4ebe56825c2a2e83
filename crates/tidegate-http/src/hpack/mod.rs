//! HPACK (RFC 7541): header fields as HTTP/2 sends them.
//!
//! - `huffman`: the code for strings
//! - `table`: fields that have a number
//! - [`Decoder`]: blocks of requests; it keeps the table that the client builds
//! - [`encode`]: blocks of responses. They use the static table alone, so a field is the same bytes on every connection
//!   and can be kept ready; in exchange a long value is sent each time.

mod decoder;
pub mod encode;
mod huffman;
mod table;

pub use self::decoder::Decoder;

/// The block makes no sense, and so neither does any that follows: the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    /// It ends within a field.
    #[error("unexpected end of a header block")]
    Truncated,
    /// A number has more bits than any use has for it.
    #[error("a number in a header block is too large")]
    NumberTooLarge,
    /// A field's number stands for nothing.
    #[error("invalid index {0} of a header field")]
    UnknownIndex(u32),
    /// A string is not of the code, or does not end as it has to.
    #[error("invalid Huffman code in a header block")]
    BadHuffman,
    /// The table is to be larger than was allowed, or to change its size behind the first field.
    #[error("invalid size {0} of the dynamic table")]
    BadTableSize(u32),
    /// Its fields come to more than the caller wants to read.
    #[error("a header block with too many fields")]
    TooLarge,
}
