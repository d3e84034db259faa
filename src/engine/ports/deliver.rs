//! The port through which webhooks are told: what calls a receiver is outside of the engine, which knows when to.

use futures_util::future::BoxFuture;

use crate::domain::Timestamp;
use crate::domain::notice::Notice;

/// Why a try did not bring a notice to its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// For whoever looks after the receiver; without the URL, which may hold a secret.
    pub why: String,
    /// Whether the receiver let the try run out of time.
    pub is_silent: bool,
}

impl From<String> for Undelivered {
    fn from(why: String) -> Self {
        Self { why, is_silent: false }
    }
}

/// Brings notices to their receivers.
pub trait Deliver: Send + Sync + 'static {
    /// One try, at `now`: `Ok` when the receiver took it. A try that is dropped may have come to anything.
    ///
    /// # Errors
    /// Why it did not.
    fn attempt<'a>(&'a self, notice: &'a Notice, now: Timestamp) -> BoxFuture<'a, Result<(), Undelivered>>;
}
