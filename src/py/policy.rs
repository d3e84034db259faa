//! What the rules of a policy file say about a call, and the policy that is in a store, as Python functions.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::convert::to_json;
use super::keys::with;
use crate::domain::access::Actor;
use crate::domain::policy::{Call, CheckedPolicy, Origin, RuleOutcome, RuleSets, Rules, file};
use crate::engine::access::pushed_policy;
use crate::store::{Store, StoreExt, open};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(try_policy, module)?)?;
    module.add_function(wrap_pyfunction!(push_policy, module)?)?;
    module.add_function(wrap_pyfunction!(pushed_policy_of, module)?)?;
    module.add_function(wrap_pyfunction!(remove_policy, module)?)
}

/// Puts a policy (the text of its file) into the store at `address`, which is made where it is missing: the policy as it is
/// there now (`text`, `digest`, `pushed_at`, `pushed_by`), and whether it is another one than before. Raises `ValueError`,
/// which names the line, where the text is no policy, before any store is opened; `StoreError`.
#[pyfunction]
fn push_policy<'py>(py: Python<'py>, address: &str, text: String) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let policy = CheckedPolicy::of(text).map_err(PyValueError::new_err)?;
    let push = async |store: &dyn Store| pushed_policy::push(store, policy, &Actor::anyone()).await;
    let (policy, is_new) = with(py, open::change(address), push)?;
    Ok((pythonize::pythonize(py, &policy)?, is_new))
}

/// The policy in the store at `address`, whoever has it; `None` where none was pushed. Raises `StoreError`.
#[pyfunction]
#[pyo3(name = "pushed_policy")]
fn pushed_policy_of<'py>(py: Python<'py>, address: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let read = async |store: &dyn Store| store.query(|reader| reader.pushed_policy()).await;
    let policy = with(py, open::read_only(address), read)?;
    Ok(policy.map(|policy| pythonize::pythonize(py, &policy)).transpose()?)
}

/// Takes the policy out of the store at `address`: the one that was there, `None` where none was. Raises `StoreError`.
#[pyfunction]
fn remove_policy<'py>(py: Python<'py>, address: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let remove = async |store: &dyn Store| pushed_policy::remove(store, &Actor::anyone()).await;
    let policy = with(py, open::change(address), remove)?;
    Ok(policy.map(|policy| pythonize::pythonize(py, &policy)).transpose()?)
}

/// What each rule of a policy (the text of its file) makes of a call, up to the first that clearly matches: a list of
/// `{"name", "effect", "look", "failed", "reason"}`, where `look` is `other_tool`, `other_agent` or `untrue`, and of those
/// that have a say `decides` for the strictest, and else `failed` or `matched`. `metadata` is an object, or None. Raises
/// `ValueError`, which names the line, where the text is no policy; `TypeError`.
#[pyfunction]
#[pyo3(signature = (text, tool, args, agent = None, source = None, metadata = None))]
fn try_policy<'py>(
    text: &str,
    tool: &str,
    args: &Bound<'py, PyAny>,
    agent: Option<&str>,
    source: Option<&str>,
    metadata: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let rules = file::read(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let arguments = to_json(args, "args")?;
    let metadata = match metadata.map(|metadata| to_json(metadata, "metadata")).transpose()? {
        None => None,
        Some(Value::Object(members)) => Some(members),
        Some(_) => return Err(PyTypeError::new_err("metadata must be an object or None")),
    };
    let origin = Some(Origin { source, metadata: metadata.as_ref() });
    let call = Call { tool, args: &arguments, agent, origin };
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
