//! The domain's checks, as Python functions.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::convert::to_json;
use crate::domain::decision::{self, Decider, Decision, DecisionKind, Terms};
use crate::domain::error::FieldError;
use crate::domain::json as strict_json;
use crate::domain::message::Attachment;
use crate::domain::payload::{self, MAX_PAYLOAD};
use crate::domain::schema::{self, Anew};
use crate::domain::{Error, digest, question};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_attachment, module)?)?;
    module.add_function(wrap_pyfunction!(described, module)?)?;
    module.add_function(wrap_pyfunction!(check_payload, module)?)?;
    module.add_function(wrap_pyfunction!(compact_json, module)?)?;
    module.add_function(wrap_pyfunction!(check_json, module)?)?;
    module.add_function(wrap_pyfunction!(digest_of, module)?)?;
    module.add_function(wrap_pyfunction!(check_response_schema, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)?;
    module.add_function(wrap_pyfunction!(check_questions, module)?)?;
    module.add_function(wrap_pyfunction!(read_decision, module)?)?;
    module.add_function(wrap_pyfunction!(check_decision, module)?)?;
    module.add_function(wrap_pyfunction!(rejection_text, module)?)?;
    module.add_function(wrap_pyfunction!(with_defaults, module)?)?;
    module.add_function(wrap_pyfunction!(edited_text, module)?)
}

/// Raises `ValueError` for what is wrong with an attachment, naming the field.
#[pyfunction]
fn check_attachment(media_type: String, data: Option<String>, url: Option<String>) -> PyResult<()> {
    let attachment = Attachment { media_type, data, url, name: None };
    match attachment.flaws().first() {
        None => Ok(()),
        Some(("", must)) => Err(PyValueError::new_err(format!("an Attachment {must}"))),
        Some((member, must)) => Err(PyValueError::new_err(format!("Attachment.{member} {must}"))),
    }
}

/// A name and a type of something that is attached on one line, as a model and people are told of it.
#[pyfunction]
fn described(media_type: String, name: Option<String>) -> String {
    Attachment { media_type, data: None, url: None, name }.described()
}

/// The compact JSON of a valid interrupt payload.
///
/// Raises `TypeError` for what is no dict, has a `type` that is no string, or is not JSON; `ValueError` for NaN, cycles
/// and anything above `max_bytes`.
#[pyfunction]
#[pyo3(signature = (payload, max_bytes = MAX_PAYLOAD), text_signature = "(payload, max_bytes=16384)")]
fn check_payload(payload: &Bound<'_, PyAny>, max_bytes: usize) -> PyResult<String> {
    let Value::Object(members) = to_json(payload, "payload")? else {
        let name = payload.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!("an interrupt payload must be a dict, got {name}")));
    };
    match members.get("type") {
        None | Some(Value::String(_)) => {}
        Some(_) => return Err(PyTypeError::new_err("payload.type must be a string")),
    }
    payload::check_size(&members, max_bytes).map_err(value_error)?;
    Ok(Value::Object(members).to_string())
}

/// The compact JSON of a value; errors as [`check_payload`].
#[pyfunction]
#[pyo3(name = "to_json")]
fn compact_json(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(to_json(value, "value")?.to_string())
}

/// Raises `ValueError` for a text that is no JSON, or that not everybody reads alike: with a member that is there twice, a
/// number that would be read as another one, or nested too deeply.
#[pyfunction]
fn check_json(text: &str) -> PyResult<()> {
    strict_json::check(text).map_err(|refused| PyValueError::new_err(refused.to_string()))
}

/// `sha256:<hex>` of a JSON value; the order of members does not matter.
#[pyfunction]
#[pyo3(name = "digest")]
fn digest_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(digest::of(&to_json(value, "value")?))
}

/// Raises `ValueError` where `schema` is no usable JSON Schema.
#[pyfunction]
fn check_response_schema(schema: &Bound<'_, PyAny>) -> PyResult<()> {
    schema::compile(&to_json(schema, "response_schema")?).map(drop).map_err(value_error)
}

/// What is wrong with `value` under `schema`: a list of `{"loc", "msg", "type"}`, empty when it is valid.
#[pyfunction]
fn validate<'py>(schema: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let errors = schema::validate(&to_json(schema, "schema")?, &to_json(value, "value")?, &Anew);
    Ok(pythonize::pythonize(schema.py(), &errors)?)
}

/// The interrupt payload for the arguments of `ask_user_question`. Raises `ValueError` that names each wrong field.
#[pyfunction]
fn check_questions<'py>(arguments: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let questions = question::read(&to_json(arguments, "arguments")?).map_err(|errors| fields_error(&errors))?;
    Ok(pythonize::pythonize(arguments.py(), &question::payload(&questions))?)
}

/// A recorded answer to a tool approval, with every member of its kind: `{"type": "approve", "always", "by"}`, `{"type":
/// "edit", "args"}`, `{"type": "reject", "reason", "message", "always", "by"}` or `{"type": "respond", "message"}`.
/// Raises `ValueError` for anything else, and for what `allowed` does not list.
#[pyfunction]
#[pyo3(signature = (value, allowed, tool_name = None))]
fn read_decision<'py>(
    value: &Bound<'py, PyAny>,
    allowed: Vec<String>,
    tool_name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let allowed = kinds(&allowed);
    let terms = Terms { allowed: &allowed, tool_name, args_schema: None };
    let decision = Decision::recorded(&to_json(value, "decision")?, terms).map_err(|errors| fields_error(&errors))?;
    shown(value.py(), &decision)
}

/// What somebody decides, as [`read_decision`] gives it; the arguments of an edit have to fit `args_schema`. Raises
/// `ValueError`, which names every place that is wrong.
#[pyfunction]
#[pyo3(signature = (value, allowed, tool_name = None, args_schema = None))]
fn check_decision<'py>(
    value: &Bound<'py, PyAny>,
    allowed: Vec<String>,
    tool_name: Option<&str>,
    args_schema: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let allowed = kinds(&allowed);
    let args_schema = args_schema.map(|schema| to_json(schema, "args_schema")).transpose()?;
    let terms = Terms { allowed: &allowed, tool_name, args_schema: args_schema.as_ref() };
    let decision =
        Decision::read(&to_json(value, "decision")?, terms, &Anew).map_err(|errors| fields_error(&errors))?;
    shown(value.py(), &decision)
}

fn kinds(names: &[String]) -> Vec<DecisionKind> {
    DecisionKind::ALL.into_iter().filter(|kind| names.iter().any(|name| name == kind.as_str())).collect()
}

/// With the members that the normal form leaves out.
fn shown<'py>(py: Python<'py>, decision: &Decision) -> PyResult<Bound<'py, PyAny>> {
    let shown = match decision {
        Decision::Approve { always, by } => json!({"type": "approve", "always": always, "by": by}),
        Decision::Edit { args } => json!({"type": "edit", "args": args}),
        Decision::Reject { reason, message, always, by } => {
            json!({"type": "reject", "reason": reason, "message": message, "always": always, "by": by})
        }
        Decision::Respond { message } => json!({"type": "respond", "message": message}),
    };
    Ok(pythonize::pythonize(py, &shown)?)
}

/// What the model is told of a rejection; `by` is `person` or `policy`.
#[pyfunction]
#[pyo3(signature = (tool_name, reason = None, message = None, by = "person"))]
fn rejection_text(tool_name: &str, reason: Option<&str>, message: Option<&str>, by: &str) -> PyResult<String> {
    let by = Decider::parse(by)
        .ok_or_else(|| PyValueError::new_err(format!("by is \"person\" or \"policy\", got {by:?}")))?;
    Ok(decision::rejection_text(tool_name, reason, message, by))
}

/// `value` with the defaults that a schema of its own names for members that are not there, also deeper inside.
#[pyfunction]
fn with_defaults<'py>(value: &Bound<'py, PyAny>, schema: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let filled = schema::with_defaults(&to_json(value, "value")?, &to_json(schema, "schema")?);
    Ok(pythonize::pythonize(value.py(), &filled)?)
}

/// What the model is told, after its result, of a call that ran with other arguments than its own.
#[pyfunction]
fn edited_text(args: &Bound<'_, PyAny>) -> PyResult<String> {
    match to_json(args, "args")? {
        Value::Object(args) => Ok(decision::edited_text(&args)),
        _ => Err(PyTypeError::new_err("args must be a dict")),
    }
}

fn value_error(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Every wrong field in one message, one a line, so that a model can mend all of them at once.
fn fields_error(errors: &[FieldError]) -> PyErr {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    PyValueError::new_err(lines.join("\n"))
}
