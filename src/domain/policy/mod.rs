//! Who decides over a call: standing rules, the tool's own code, grants, and else a person.

mod bounds;
pub mod file;
mod glob;
mod nesting;
mod patterns;
mod predicate;
mod rule;
mod rules;
mod ruling;
mod verdict;
mod why;

pub use predicate::{MAX_ARGS, MAX_LENGTH};
pub use rule::{Effect, Rule};
pub use rules::{Call, Matched, RuleOutcome, Rules};
pub use ruling::{RuleSets, Ruling};
pub use verdict::{DEFAULT, Decided, Evaluation, ON_APPROVAL, Verdict, decide, lets_sweep, objection};

#[cfg(test)]
mod tests;
