//! The port through which webhooks are told: what calls a receiver is outside of the engine, which knows when to.

use futures_util::future::BoxFuture;

use crate::domain::Timestamp;
use crate::domain::notice::Notice;

/// Brings notices to their receivers.
pub trait Deliver: Send + Sync + 'static {
    /// One try, at `now`: `Ok` when the receiver took it. A try that is dropped may have come to anything.
    ///
    /// # Errors
    /// Why it did not, for whoever looks after the receiver; without the URL, which may hold a secret.
    fn attempt<'a>(&'a self, notice: &'a Notice, now: Timestamp) -> BoxFuture<'a, Result<(), String>>;
}
