//! Frames of the worker protocol as a worker writes and reads them, and what its zygote is asked.
//!
//! The bytes and the objects are those of Python's `json`, which made them first and still has what is rare: whatever would
//! not be here exactly as there is left to it, and so is every refusal.

use std::fmt;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::written::{JsonForm, write};
use crate::supervisor::control::ToZygote;
use crate::supervisor::frames::{MAX_FRAME, PREFIX};

/// What most frames have room in.
const USUAL_SIZE: usize = 512;

/// From here on a number may be an integer of more than 64 bits, which the parser reads as a float.
const FIRST_DOUBTFUL: f64 = 9.0e18;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(write_frame, module)?)?;
    module.add_function(wrap_pyfunction!(read_frames, module)?)?;
    module.add_function(wrap_pyfunction!(zygote_request, module)?)
}

/// The bytes of a frame; None for one that Python has to write, or to refuse. `most`: bytes of JSON that it may have.
#[pyfunction]
fn write_frame<'py>(frame: &Bound<'py, PyAny>, most: usize) -> Option<Bound<'py, PyBytes>> {
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
    bytes.extend_from_slice(&[0; PREFIX]);
    write(&mut bytes, frame, JsonForm::Frame)?;
    let size = bytes.len() - PREFIX;
    let length = u32::try_from(size).ok().filter(|_| size <= most)?;
    bytes[..PREFIX].copy_from_slice(&length.to_be_bytes());
    Some(PyBytes::new(frame.py(), &bytes))
}

/// What the server asks of a zygote: the number of a child, and how that runs, which is to be forked; without that it is
/// to be killed. `ValueError` for anything else.
#[pyfunction]
fn zygote_request(message: &[u8]) -> PyResult<(u64, Option<&'static str>)> {
    match serde_json::from_slice(message) {
        Ok(ToZygote::Fork { child, mode }) => Ok((child, Some(mode.as_str()))),
        Ok(ToZygote::Kill { child }) => Ok((child, None)),
        Err(error) => Err(PyValueError::new_err(format!("no request to a zygote: {error}"))),
    }
}

/// The frames that `data` begins with, and how many of its bytes they are. They end before one that is not there as a
/// whole, and before one that Python has to read, or to refuse. `members`: what must be in a frame, by its name.
#[pyfunction]
fn read_frames<'py>(data: &Bound<'py, PyBytes>, members: &Bound<'py, PyDict>) -> PyResult<(Bound<'py, PyList>, usize)> {
    let frames = PyList::empty(data.py());
    let (data, mut used) = (data.as_bytes(), 0);
    while let Some((frame, size)) = first(&data[used..], members) {
        frames.append(frame)?;
        used += size;
    }
    Ok((frames, used))
}

/// `None` where there is nothing, or Python has to do it.
fn first<'py>(data: &[u8], members: &Bound<'py, PyDict>) -> Option<(Bound<'py, PyDict>, usize)> {
    let py = members.py();
    let length = u32::from_be_bytes(*data.first_chunk()?) as usize;
    if length > MAX_FRAME {
        return None;
    }
    let end = PREFIX + length;
    let mut json = serde_json::Deserializer::from_slice(data.get(PREFIX..end)?);
    let value = FrameValue(py).deserialize(&mut json).ok()?;
    json.end().ok()?;
    let frame = value.cast_into::<PyDict>().ok()?;
    let name = frame.get_item(intern!(py, "frame")).ok()??;
    let wanted = members.get_item(name.cast_into::<PyString>().ok()?).ok()??;
    for member in wanted.cast_into::<PyTuple>().ok()? {
        if !frame.contains(member).ok()? {
            return None;
        }
    }
    Some((frame, end))
}

/// Makes Python's objects of JSON.
struct FrameValue<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for FrameValue<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for FrameValue<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(PyBool::new(self.0, value).to_owned().into_any())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        value.into_pyobject(self.0).map(Bound::into_any).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        value.into_pyobject(self.0).map(Bound::into_any).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        // `-0` comes as a float too, and is an integer in Python.
        if value.abs() >= FIRST_DOUBTFUL || (value == 0.0 && value.is_sign_negative()) {
            return Err(E::custom("a number that Python reads"));
        }
        Ok(PyFloat::new(self.0, value).into_any())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.0, value).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(item) = items.next_element_seed(FrameValue(self.0))? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.0);
        while let Some(name) = members.next_key_seed(FrameValue(self.0))? {
            let value = members.next_value_seed(FrameValue(self.0))?;
            dict.set_item(name, value).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}
