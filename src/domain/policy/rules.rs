//! Rules in their order, ready to be asked.

use serde_json::Value;

use super::glob;
use super::rule::{Effect, Rule};

/// A call, as far as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// With what.
    pub args: &'a Value,
    /// The agent that calls.
    pub agent: Option<&'a str>,
}

/// Rules in their order.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

/// The rule that decides over a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Matched {
    /// Its name.
    pub name: String,
    /// What it does with this call.
    pub effect: Effect,
    /// Its reason.
    pub reason: Option<String>,
}

impl Matched {
    /// What records of its decisions show.
    pub fn rule(&self) -> String {
        format!("policy:{}", self.name)
    }
}

impl Rules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first rule that is for this call.
    pub fn first_match(&self, call: Call<'_>) -> Option<Matched> {
        self.0.iter().find_map(|rule| {
            let fits = glob::fits(&rule.tool, call.tool)
                && rule.agent.as_ref().is_none_or(|agent| call.agent.is_some_and(|name| glob::fits(agent, name)));
            fits.then(|| Matched { name: rule.name.clone(), effect: rule.effect, reason: rule.reason.clone() })
        })
    }
}
