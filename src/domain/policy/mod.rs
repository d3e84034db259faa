//! Who decides over a call: standing rules, the tool's own code, grants, and else a person.

pub mod file;
mod glob;
mod predicate;
mod rule;
mod rules;
mod verdict;

pub use predicate::{MAX_ARGS, MAX_LENGTH};
pub use rule::{Effect, Rule};
pub use rules::{Call, Look, Matched, Rules};
pub use verdict::{DEFAULT, Decided, ON_APPROVAL, Ruling, Standing, Verdict, decide, denial};

#[cfg(test)]
mod tests;
