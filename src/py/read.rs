//! From dicts of our own making to types of the domain, by serde.
//!
//! Three times as quick as pythonize, which goes by the mapping protocol; and what a type does not ask for is not
//! looked at, however large it is.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::de::value::{CowStrDeserializer, Error, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// How deep a value may nest, as serde_json has it.
const MAX_DEPTH: usize = 127;

/// Reads a value.
///
/// # Errors
/// What is wrong, without saying where.
pub fn read<T: DeserializeOwned>(object: &Bound<'_, PyAny>) -> Result<T, Error> {
    let room = Cell::new(usize::MAX);
    T::deserialize(Object { object, depth: 0, room: &room })
}

/// A value that takes part in deserialization. Nothing is read of it that is not JSON as it is: no NaN, no lone surrogate,
/// no key that is no string.
pub struct Object<'a, 'py> {
    /// The value.
    pub object: &'a Bound<'py, PyAny>,
    /// How deep it stands in another one.
    pub depth: usize,
    /// Bytes of text that there may still be.
    pub room: &'a Cell<usize>,
}

/// Takes the room that a text needs.
fn take(room: &Cell<usize>, text: &str) -> Result<(), Error> {
    let left = room.get().checked_sub(text.len()).ok_or_else(|| Error::custom("too large"))?;
    room.set(left);
    Ok(())
}

impl Object<'_, '_> {
    fn inner(&self) -> Result<usize, Error> {
        if self.depth < MAX_DEPTH { Ok(self.depth + 1) } else { Err(Error::custom("nested too deeply")) }
    }
}

impl<'de> Deserializer<'de> for Object<'_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let object = self.object;
        if let Ok(text) = object.cast::<PyString>() {
            let text = text.to_cow().map_err(Error::custom)?;
            take(self.room, &text)?;
            return visitor.visit_str(&text);
        }
        if let Ok(members) = object.cast::<PyDict>() {
            let depth = self.inner()?;
            return visitor.visit_map(Members { rest: members.iter(), value: None, depth, room: self.room });
        }
        if let Ok(items) = object.cast::<PyList>() {
            let depth = self.inner()?;
            return visitor.visit_seq(Items { rest: items.iter(), depth, room: self.room });
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
        if let Ok(number) = object.cast::<PyFloat>()
            && number.value().is_finite()
        {
            return visitor.visit_f64(number.value());
        }
        Err(Error::custom(format_args!("a {} is not JSON", object.get_type())))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.object.is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Ok(members) = self.object.cast::<PyDict>() else {
            let text = self.object.cast::<PyString>().map_err(|_| Error::custom("neither a string nor a dict"))?;
            let text = text.to_cow().map_err(Error::custom)?;
            return IntoDeserializer::<Error>::into_deserializer(text).deserialize_enum(name, variants, visitor);
        };
        if members.len() != 1 {
            return Err(Error::custom("not one member"));
        }
        let members = Members { rest: members.iter(), value: None, depth: self.inner()?, room: self.room };
        MapAccessDeserializer::new(members).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier
    }
}

struct Members<'a, 'py, I> {
    rest: I,
    /// Of the key that was read last.
    value: Option<Bound<'py, PyAny>>,
    depth: usize,
    room: &'a Cell<usize>,
}

impl<'de, 'py, I: Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>> MapAccess<'de> for Members<'_, 'py, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let key = key.cast::<PyString>().map_err(|_| Error::custom("a key is no string"))?;
        let text = key.to_cow().map_err(Error::custom)?;
        take(self.room, &text)?;
        seed.deserialize(CowStrDeserializer::new(text)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value without its key"))?;
        seed.deserialize(Object { object: &value, depth: self.depth, room: self.room })
    }
}

struct Items<'a, I> {
    rest: I,
    depth: usize,
    room: &'a Cell<usize>,
}

impl<'de, 'py, I: Iterator<Item = Bound<'py, PyAny>>> SeqAccess<'de> for Items<'_, I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(item) = self.rest.next() else { return Ok(None) };
        seed.deserialize(Object { object: &item, depth: self.depth, room: self.room }).map(Some)
    }
}
