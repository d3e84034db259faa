//! Standing rules, as an operator or a client writes them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What a rule does with the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// They run without asking anybody.
    Allow,
    /// A person is asked.
    Ask,
    /// They do not run; the model is told.
    Deny,
}

impl Effect {
    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One rule. The first one that matches a call decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What records of its decisions name.
    pub name: String,
    /// What it does.
    pub effect: Effect,
    /// The tools that it is for: a name, where `*` stands for any characters and `?` for one.
    pub tool: String,
    /// The agents that it is for, in the same form; all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A CEL expression over `tool`, `args` and `agent`; the rule is for calls where it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Why, appended to what the model is told of a denied call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who alone may answer where it asks: names of keys, and `group:<name>`. They take the place of the tool's.
    #[serde(default, deserialize_with = "somebody", skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Out of a run state that nobody signed: it is not the last word, and the server's rules have a say too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
}

/// What is said of a list of approvers that is there and has none: taken for one that is left out it would mean everybody.
pub const NOBODY: &str = "must name somebody; without it whoever may answer is asked";

fn somebody<'de, D: Deserializer<'de>>(approvers: D) -> Result<Vec<String>, D::Error> {
    let approvers = Vec::deserialize(approvers)?;
    if approvers.is_empty() { Err(D::Error::custom(format_args!("approvers {NOBODY}"))) } else { Ok(approvers) }
}
