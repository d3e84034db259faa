//! The fingerprints of arguments, which journals keep instead of the arguments.
//!
//! The bytes are those of Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))`, which made them first:
//! what is not written here exactly as there is left to it.

use pyo3::prelude::*;
use sha2::{Digest, Sha256};

use super::written::{JsonForm, write};
use crate::domain::digest::hex;

/// Bytes of the digest that are kept.
const KEPT: usize = 16;

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fingerprint, module)?)
}

/// 32 hex digits of the SHA-256 of a value's canonical JSON; None for a value with something else in it than dicts with
/// string keys, lists, tuples, strings, integers of 64 bits, booleans and None.
#[pyfunction]
fn fingerprint(value: &Bound<'_, PyAny>) -> Option<String> {
    let mut json = Vec::with_capacity(256);
    write(&mut json, value, JsonForm::Canonical)?;
    Some(hex(&Sha256::digest(&json)[..KEPT]))
}
