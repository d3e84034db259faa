//! JSON in the bytes of Python's `json`, which made it first: what is not written here exactly as there is left to it.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// What nests deeper is left to Python, which knows how deep it may go.
const MAX_DEPTH: usize = 100;

/// Which of Python's forms; both are compact.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// `sort_keys=True`, in ASCII. Floats are left to Python.
    Canonical,
    /// `ensure_ascii=False`: in UTF-8, members as they come.
    Frame,
}

/// Adds a value, of dicts with string keys, lists, tuples, strings, integers of 64 bits, floats, booleans and None; `None`
/// where Python has to do it.
pub fn write(json: &mut Vec<u8>, value: &Bound<'_, PyAny>, form: JsonForm) -> Option<()> {
    write_value(json, value, form, 0)
}

fn write_value(json: &mut Vec<u8>, value: &Bound<'_, PyAny>, form: JsonForm, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        write_text(json, text, form)?;
    } else if value.is_none() {
        json.extend_from_slice(b"null");
    } else if let Ok(members) = value.cast_exact::<PyDict>() {
        write_members(json, members, form, depth)?;
    } else if let Ok(items) = value.cast_exact::<PyList>() {
        write_items(json, items.iter(), form, depth)?;
    } else if let Ok(items) = value.cast_exact::<PyTuple>() {
        write_items(json, items.iter(), form, depth)?;
    } else if let Ok(flag) = value.cast_exact::<PyBool>() {
        json.extend_from_slice(if flag.is_true() { b"true" } else { b"false" });
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        json.extend_from_slice(number.extract::<i64>().ok()?.to_string().as_bytes());
    } else if let Ok(number) = value.cast_exact::<PyFloat>() {
        if form == JsonForm::Canonical || !number.value().is_finite() {
            return None;
        }
        // Other languages write some of them in other digits.
        json.extend_from_slice(number.repr().ok()?.to_cow().ok()?.as_bytes());
    } else {
        return None;
    }
    Some(())
}

fn write_members(json: &mut Vec<u8>, members: &Bound<'_, PyDict>, form: JsonForm, depth: usize) -> Option<()> {
    let mut named = Vec::with_capacity(members.len());
    for (name, value) in members.iter() {
        named.push((name.cast_into_exact::<PyString>().ok()?, value));
    }
    if form == JsonForm::Canonical {
        // Bytes of UTF-8 have the order of their characters; what has none is not written below.
        named.sort_by_cached_key(|(name, _)| name.to_cow().ok().map(Cow::into_owned));
    }
    json.push(b'{');
    for (index, (name, value)) in named.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_text(json, name, form)?;
        json.push(b':');
        write_value(json, value, form, depth + 1)?;
    }
    json.push(b'}');
    Some(())
}

fn write_items<'py>(
    json: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    form: JsonForm,
    depth: usize,
) -> Option<()> {
    json.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_value(json, &item, form, depth + 1)?;
    }
    json.push(b']');
    Some(())
}

fn write_text(json: &mut Vec<u8>, text: &Bound<'_, PyString>, form: JsonForm) -> Option<()> {
    let text = text.to_cow().ok()?;
    match form {
        JsonForm::Canonical => write_ascii(json, &text),
        JsonForm::Frame => serde_json::to_writer(json, &text).ok()?, // which escapes what Python does
    }
    Some(())
}

/// In ASCII: everything else is escaped, beyond the first plane as two surrogates.
fn write_ascii(json: &mut Vec<u8>, text: &str) {
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
