//! Who decides over a call: standing rules, the tool's own code, grants, and else a person.

mod glob;
mod rule;
mod rules;
mod verdict;

pub use rule::{Effect, Rule};
pub use rules::{Call, Matched, Rules};
pub use verdict::{DEFAULT, Decided, Standing, Verdict, decide, denial};
