//! What rules and their expressions look at.

use serde_json::Value;

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
