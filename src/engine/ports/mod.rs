//! What the engine asks of the world outside, and what a worker says to it: traits and words, and nothing that is kept.

pub mod deliver;
pub mod dispatch;
pub mod held;
