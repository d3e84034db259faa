//! hitl: agents that stop and ask a person, and go on exactly where they stopped.
//!
//! Layers, each importing only what is to its right: `py` -> `serve`, `run` -> `server`, `supervisor`,
//! `adapters` -> `engine` -> `store` -> `domain`.

pub mod adapters;
pub mod domain;
pub mod engine;
mod faults;
#[cfg(feature = "python")]
mod py;
pub mod run;
pub mod serve;
pub mod server;
pub mod store;
pub mod supervisor;
