//! Frames of the worker protocol (docs/worker-protocol.md) as types, and their bytes.

mod incoming;
mod outgoing;

#[cfg(feature = "python")]
pub use incoming::word;
pub use incoming::{EndOutcome, FromWorker, Hello, Log, Stream, Word, parse};
pub use outgoing::{ToWorker, encode};

use crate::domain::session::Failure;
use crate::engine::ports::dispatch::Lost;

/// The version of the protocol.
pub const PROTOCOL: u64 = 3;

/// The largest frame, in bytes of JSON.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// Bytes of the length before a frame.
pub const PREFIX: usize = 4;

/// A worker broke the protocol, in words for the session's `error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

impl Violation {
    /// The code of what came of it.
    pub const CODE: &'static str = "worker_protocol";

    /// What it means for the only turn of its worker.
    pub fn lost(&self) -> Lost {
        Lost::Violation { message: self.message() }
    }

    /// How a turn fails of it.
    pub fn failure(&self) -> Failure {
        Failure::new(Self::CODE, self.message())
    }

    /// What the session's `error` says.
    pub fn message(&self) -> String {
        format!("WorkerProtocolError: {}", self.0)
    }
}

#[cfg(test)]
mod tests;
