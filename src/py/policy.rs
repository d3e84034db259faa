//! What the rules of a policy file say about a call, as a Python function.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::convert::to_json;
use crate::domain::policy::{Call, RuleOutcome, RuleSets, Rules, file};

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(try_policy, module)?)
}

/// What each rule of a policy (the text of its file) makes of a call, up to the first that clearly matches: a list of
/// `{"name", "effect", "look", "failed", "reason"}`, where `look` is `other_tool`, `other_agent` or `untrue`, and of those
/// that have a say `decides` for the strictest, and else `failed` or `matched`. Raises `ValueError`, which names the line,
/// where the text is no policy.
#[pyfunction]
#[pyo3(signature = (text, tool, args, agent = None))]
fn try_policy<'py>(
    text: &str,
    tool: &str,
    args: &Bound<'py, PyAny>,
    agent: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let rules = file::read(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let arguments = to_json(args, "args")?;
    let call = Call { tool, args: &arguments, agent };
    let none = Rules::default();
    let ruling = RuleSets { session: &none, server: &rules }.ruling(call);
    let deciding = ruling.deciding().map(|matched| matched.name.as_str());
    let mut looks: Vec<Value> = Vec::new();
    for (rule, look) in rules.evaluate(call) {
        let (word, effect, failed) = match &look {
            RuleOutcome::OtherTool => ("other_tool", rule.effect, None),
            RuleOutcome::OtherAgent => ("other_agent", rule.effect, None),
            RuleOutcome::Untrue => ("untrue", rule.effect, None),
            RuleOutcome::Matched(matched) => {
                let word = if matched.failed.is_some() { "failed" } else { "matched" };
                let word = if Some(matched.name.as_str()) == deciding { "decides" } else { word };
                (word, matched.effect, matched.failed.clone())
            }
        };
        looks.push(json!({
            "name": rule.name, "effect": effect, "look": word, "failed": failed, "reason": rule.reason,
        }));
        if matches!(&look, RuleOutcome::Matched(matched) if matched.failed.is_none()) {
            break;
        }
    }
    Ok(pythonize::pythonize(args.py(), &looks)?)
}
