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

// What is in tests/ is a part of the core's own tests: as crates of their own they would have all of it compiled once more.
#[cfg(test)]
extern crate self as hitl;
#[cfg(test)]
#[path = "../tests/layers.rs"]
mod layers;
#[cfg(test)]
#[path = "../tests/supervisor/main.rs"]
mod with_workers;
