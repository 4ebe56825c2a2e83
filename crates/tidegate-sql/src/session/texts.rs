//! Texts of clients in other character sets than UTF-8.

use super::Session;
use crate::env::Texts;

impl Session {
    /// Lets the client choose latin1 and other character sets of one byte: its texts are converted before they come here. It ends with
    /// [`reset`](Session::reset).
    pub fn set_transcoding(&self) {
        self.core.env.transcodes.set(true);
    }

    /// The character sets of the client's texts.
    pub fn texts(&self) -> Texts {
        self.core.env.texts.get()
    }
}
