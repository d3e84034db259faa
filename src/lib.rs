//! hitl: agents that stop and ask a person, and go on exactly where they stopped.
//!
//! Layers, each importing only what is to its right: `py` -> `server`, `supervisor` -> `engine` -> `store` -> `domain`.

pub mod domain;
pub mod store;
pub mod engine;
pub mod supervisor;
#[cfg(feature = "python")]
mod py;
