//! What the rules say about a call, all of them together.
//!
//! The first rule that clearly matches decides. One that cannot tell is never more permissive than if it had matched: it
//! has its say, and whatever comes after it is looked at as well, the rules of the server always.

use super::call::Call;
use super::rule::Effect;
use super::rules::{Matched, Rules};

/// The most characters that are told of why rules failed.
const MAX_FAILURES: usize = 1000;

/// The rules that are asked about a call.
#[derive(Debug, Clone, Copy)]
pub struct RuleSets<'a> {
    /// The rules of the session, which come first.
    pub session: &'a Rules,
    /// The rules of the server.
    pub server: &'a Rules,
}

/// What they say: every rule that could not tell, and the first that clearly matches, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ruling(Vec<Matched>);

impl RuleSets<'_> {
    /// What the rules say about a call.
    pub fn ruling(&self, call: Call<'_>) -> Ruling {
        let mut says = self.session.says(call);
        // One clear match of the session's is the last word, unless a rule before it could not tell.
        if says.len() != 1 || !says.iter().all(Matched::is_last_word) {
            says.extend(self.server.says(call));
        }
        Ruling(says)
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.session.is_empty() && self.server.is_empty()
    }
}

impl Ruling {
    /// The rule that decides: the strictest, and of equally strict ones the first.
    pub fn deciding(&self) -> Option<&Matched> {
        [Effect::Deny, Effect::Ask, Effect::Allow]
            .into_iter()
            .find_map(|effect| self.0.iter().find(|matched| matched.effect == effect))
    }

    /// Whether a rule could not tell: then a person has to look, where the call is not denied.
    pub fn is_undecided(&self) -> bool {
        self.0.iter().any(|matched| matched.failed.is_some())
    }

    /// The rules that say who alone may answer. Whoever answers has to be meant by each of them.
    pub fn with_approvers(&self) -> impl Iterator<Item = &Matched> {
        self.0.iter().filter(|matched| !matched.approvers.is_empty())
    }

    /// Which rules could not tell, and why, in one line; `None` where each could.
    pub fn failures(&self) -> Option<String> {
        let mut told = String::new();
        for matched in &self.0 {
            let Some(why) = &matched.failed else { continue };
            let separator = if told.is_empty() { "" } else { "; " };
            told.push_str(&format!("{separator}rule {:?} could not tell: {why}", matched.name));
        }
        if told.chars().count() > MAX_FAILURES {
            told = told.chars().take(MAX_FAILURES).chain(['…']).collect();
        }
        (!told.is_empty()).then_some(told)
    }
}
