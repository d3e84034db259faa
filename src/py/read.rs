//! From dicts of our own making to types of the domain, by serde.
//!
//! Three times as quick as pythonize, which goes by the mapping protocol; and what a type does not ask for is not
//! looked at, however large it is.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::de::value::{CowStrDeserializer, Error};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Reads a value.
///
/// # Errors
/// What is wrong, without saying where.
pub fn read<T: DeserializeOwned>(object: &Bound<'_, PyAny>) -> Result<T, Error> {
    T::deserialize(Object(object))
}

struct Object<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'de> Deserializer<'de> for Object<'_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let object = self.0;
        if let Ok(text) = object.cast::<PyString>() {
            return visitor.visit_str(&text.to_cow().map_err(Error::custom)?);
        }
        if let Ok(members) = object.cast::<PyDict>() {
            return visitor.visit_map(Members { rest: members.iter(), value: None });
        }
        if let Ok(items) = object.cast::<PyList>() {
            return visitor.visit_seq(Items(items.iter()));
        }
        if object.is_none() {
            return visitor.visit_unit();
        }
        if let Ok(flag) = object.cast::<PyBool>() {
            return visitor.visit_bool(flag.is_true());
        }
        if object.is_instance_of::<PyInt>() {
            return visitor.visit_i64(object.extract().map_err(Error::custom)?);
        }
        if let Ok(number) = object.cast::<PyFloat>() {
            return visitor.visit_f64(number.value());
        }
        Err(Error::custom(format_args!("a {} is not JSON", object.get_type())))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

struct Members<'py, I> {
    rest: I,
    /// Of the key that was read last.
    value: Option<Bound<'py, PyAny>>,
}

impl<'de, 'py, I: Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>> MapAccess<'de> for Members<'py, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let key = key.cast::<PyString>().map_err(|_| Error::custom("a key is no string"))?;
        let text = key.to_cow().map_err(Error::custom)?;
        seed.deserialize(CowStrDeserializer::new(text)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value without its key"))?;
        seed.deserialize(Object(&value))
    }
}

struct Items<I>(I);

impl<'de, 'py, I: Iterator<Item = Bound<'py, PyAny>>> SeqAccess<'de> for Items<I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.next().map(|item| seed.deserialize(Object(&item))).transpose()
    }
}
