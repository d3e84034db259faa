//! How processes that share a database hear of each other at once: what one has committed it rings for, all others hear it.
//! A bell may fail or be missed; whoever has to know looks now and then besides.

use crate::store::signals::Signal;

/// A bell at the other processes.
pub trait Doorbell: Send + Sync + 'static {
    /// Tells the others what is on disk now. Neither waits nor fails.
    fn ring(&self, signals: Vec<Signal>);
}
