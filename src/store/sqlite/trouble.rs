//! What goes wrong at every try is said in the log once, and once more when it is over.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the log tells of it by now.
#[derive(Debug, Default)]
pub(super) struct Trouble(AtomicBool);

impl Trouble {
    /// It goes wrong: whether that is new.
    pub(super) fn begins(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }

    /// It goes well: whether that is new.
    pub(super) fn is_over(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
