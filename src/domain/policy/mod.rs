//! Who decides over a call: standing rules, the tool's own code, grants, and else a person.

mod bounds;
mod call;
pub mod file;
mod functions;
mod glob;
mod nesting;
mod patterns;
mod predicate;
mod pushed;
mod rule;
mod rules;
mod ruling;
mod source;
mod verdict;
mod why;

pub use call::{Call, Origin};
pub use predicate::{MAX_ARGS, MAX_LENGTH};
pub use pushed::{CheckedPolicy, PolicyChange, PushedPolicy, digest};
pub use rule::{Effect, NOBODY, Rule};
pub use rules::{Matched, RuleOutcome, Rules};
pub use ruling::{RuleSets, Ruling};
pub use verdict::{DEFAULT, Decided, Evaluation, ON_APPROVAL, Verdict, decide, lets_sweep, objection};

#[cfg(test)]
mod tests;
