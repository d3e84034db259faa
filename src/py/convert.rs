//! From Python objects to JSON, strictly: what is not JSON is an error that names its place, never a guess.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Number, Value};

use crate::domain::JsonObject;
use crate::domain::payload::MAX_DEPTH;

/// Converts `object`; `name` is what errors call it.
///
/// # Errors
/// `TypeError` for what JSON does not have (bytes, sets, keys that are no strings), `ValueError` for NaN and infinity,
/// integers beyond 64 bits, lone surrogates, and what nests too deep or contains itself.
pub fn to_json(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    Converter { path: name.to_owned() }.value(object, 0)
}

struct Converter {
    /// Where we are, such as `payload.items[3]`.
    path: String,
}

impl Converter {
    fn value(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
        if depth > MAX_DEPTH {
            return Err(PyValueError::new_err(format!(
                "{} contains itself or nests deeper than {MAX_DEPTH} levels",
                shorten(&self.path)
            )));
        }
        if object.is_none() {
            return Ok(Value::Null);
        }
        if let Ok(flag) = object.cast::<PyBool>() {
            return Ok(Value::Bool(flag.is_true()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return self.text(text).map(Value::String);
        }
        if object.is_instance_of::<PyInt>() {
            return self.integer(object);
        }
        if let Ok(number) = object.cast::<PyFloat>() {
            let number = number.value();
            return Number::from_f64(number)
                .map(Value::Number)
                .ok_or_else(|| PyValueError::new_err(format!("{} is {number}, which JSON does not have", self.path)));
        }
        if let Ok(members) = object.cast::<PyDict>() {
            return self.members(members, depth).map(Value::Object);
        }
        if let Ok(items) = object.cast::<PyList>() {
            return self.items(items.iter(), depth);
        }
        if let Ok(items) = object.cast::<PyTuple>() {
            return self.items(items.iter(), depth);
        }
        Err(PyTypeError::new_err(format!("{} is {}, which is not JSON", self.path, type_name(object))))
    }

    fn text(&self, text: &Bound<'_, PyString>) -> PyResult<String> {
        match text.to_cow() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => {
                Err(PyValueError::new_err(format!("{} holds a lone surrogate, which UTF-8 cannot carry", self.path)))
            }
        }
    }

    fn integer(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        if let Ok(number) = object.extract::<i64>() {
            return Ok(Value::from(number));
        }
        object.extract::<u64>().map(Value::from).map_err(|_| {
            PyValueError::new_err(format!("{} is an integer beyond 64 bits; send it as a string", self.path))
        })
    }

    fn members(&mut self, members: &Bound<'_, PyDict>, depth: usize) -> PyResult<JsonObject> {
        let mut object = JsonObject::with_capacity(members.len());
        for (key, value) in members.iter() {
            let Ok(key) = key.cast::<PyString>() else {
                return Err(PyTypeError::new_err(format!(
                    "{} has a key that is {}; JSON keys are strings",
                    self.path,
                    type_name(&key)
                )));
            };
            let key = self.text(key)?;
            let value = self.at(&format!(".{key}"), |inner| inner.value(&value, depth + 1))?;
            object.insert(key, value);
        }
        Ok(object)
    }

    fn items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> PyResult<Value> {
        let converted: PyResult<Vec<Value>> = items
            .enumerate()
            .map(|(index, item)| self.at(&format!("[{index}]"), |inner| inner.value(&item, depth + 1)))
            .collect();
        converted.map(Value::Array)
    }

    fn at<T>(&mut self, place: &str, convert: impl FnOnce(&mut Self) -> PyResult<T>) -> PyResult<T> {
        let length = self.path.len();
        self.path.push_str(place);
        let result = convert(self);
        self.path.truncate(length);
        result
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    match object.get_type().qualname() {
        Ok(name) => format!("of type {name}"),
        Err(_) => "of an unknown type".to_owned(),
    }
}

/// A path of a hundred levels is no help.
fn shorten(path: &str) -> String {
    let mut shown: String = path.chars().take(80).collect();
    if shown.len() < path.len() {
        shown.push_str("...");
    }
    shown
}
