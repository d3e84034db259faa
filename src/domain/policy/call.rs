//! What rules and their expressions look at.

use serde_json::Value;

use crate::domain::JsonObject;

/// A call, as far as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// With what.
    pub args: &'a Value,
    /// The agent that calls.
    pub agent: Option<&'a str>,
    /// Where it comes from; `None` where nobody knows any more, as of a call that a crash hit.
    pub origin: Option<Origin<'a>>,
}

/// What the agent's code says of a call, beside what the model does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// Where the tool is from, when it is not the agent's own.
    pub source: Option<&'a str>,
    /// Data of the code's own about the call.
    pub metadata: Option<&'a JsonObject>,
}
