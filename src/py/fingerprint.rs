//! The fingerprints of arguments, which journals keep instead of the arguments.
//!
//! The bytes are those of Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))`, which made them first:
//! what is not written here exactly as there is left to it.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};
use sha2::{Digest, Sha256};

use crate::domain::digest::hex;

/// What nests deeper is left to Python, which knows how deep it may go.
const MAX_DEPTH: usize = 100;

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
    write(&mut json, value, 0)?;
    Some(hex(&Sha256::digest(&json)[..KEPT]))
}

/// `None` where Python has to do it.
fn write(json: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        write_text(json, &text.to_cow().ok()?);
    } else if value.is_none() {
        json.extend_from_slice(b"null");
    } else if let Ok(members) = value.cast_exact::<PyDict>() {
        write_members(json, members, depth)?;
    } else if let Ok(items) = value.cast_exact::<PyList>() {
        write_items(json, items.iter(), depth)?;
    } else if let Ok(items) = value.cast_exact::<PyTuple>() {
        write_items(json, items.iter(), depth)?;
    } else if let Ok(flag) = value.cast_exact::<PyBool>() {
        json.extend_from_slice(if flag.is_true() { b"true" } else { b"false" });
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        json.extend_from_slice(number.extract::<i64>().ok()?.to_string().as_bytes());
    } else {
        return None;
    }
    Some(())
}

fn write_members(json: &mut Vec<u8>, members: &Bound<'_, PyDict>, depth: usize) -> Option<()> {
    let mut sorted = Vec::with_capacity(members.len());
    for (name, value) in members.iter() {
        let name = name.cast_exact::<PyString>().ok()?.to_cow().ok()?.into_owned();
        sorted.push((name, value));
    }
    // Bytes of UTF-8 have the order of their characters.
    sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    json.push(b'{');
    for (index, (name, value)) in sorted.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_text(json, name);
        json.push(b':');
        write(json, value, depth + 1)?;
    }
    json.push(b'}');
    Some(())
}

fn write_items<'py>(json: &mut Vec<u8>, items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Option<()> {
    json.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write(json, &item, depth + 1)?;
    }
    json.push(b']');
    Some(())
}

/// In ASCII: everything else is escaped, beyond the first plane as two surrogates.
fn write_text(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    for character in text.chars() {
        match character {
            '"' => json.extend_from_slice(b"\\\""),
            '\\' => json.extend_from_slice(b"\\\\"),
            '\n' => json.extend_from_slice(b"\\n"),
            '\r' => json.extend_from_slice(b"\\r"),
            '\t' => json.extend_from_slice(b"\\t"),
            '\u{8}' => json.extend_from_slice(b"\\b"),
            '\u{c}' => json.extend_from_slice(b"\\f"),
            ' '..='~' => json.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    json.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    json.push(b'"');
}
