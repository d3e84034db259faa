//! JSON Schemas of answers. External references are refused, and patterns run in linear time, because schemas come
//! from agents and values from anybody.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::error::{Error, FieldError, LocSegment, NOWHERE};
use super::payload::json_size;
use super::{FieldErrors, apart};
pub use moving::moved;
use reached::ReachedSchemas;
use steps::{Steps, longest_chain, scalars_first};
use subschemas::Subschemas;
use visits::Bound;

mod counting;
mod moving;
mod patterns;
mod reached;
mod steps;
mod subschemas;
mod visits;

/// A schema that values can be checked against.
#[derive(Debug)]
pub struct CompiledSchema {
    validator: Validator,
    /// How often the parts of a value are looked at, at most.
    bound: Bound,
    /// How many of its parts look at one and the same value, one reached from the other.
    chain: Option<usize>,
    /// Bytes of memory that its patterns take.
    patterns: usize,
}

impl CompiledSchema {
    /// What its patterns weigh, in bytes of a schema: a validator is some times as large as that.
    pub fn weight(&self) -> usize {
        self.patterns / 8
    }
}

/// Makes a validator of an author's schema (draft 2020-12 unless `$schema` says otherwise); may take its time.
///
/// # Errors
/// [`Error::InvalidSchema`]: it is no schema, refers to anything outside itself or to what is not certain, looks at a value in
/// more ways than there is time for, or has a pattern that cannot run in linear time, or patterns that take too much memory.
pub fn compile(schema: &Value) -> Result<CompiledSchema, Error> {
    apart::takes_its_time();
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::InvalidSchema("must be an object or a boolean".to_owned()));
    }
    let subschemas = Subschemas::of(schema);
    if let Some(reference) = subschemas.external_reference() {
        return Err(Error::InvalidSchema(format!("external $ref {reference:?} is refused; inline it under $defs")));
    }
    let reached = ReachedSchemas::of(schema, &subschemas);
    if let Some(reference) = subschemas.unclear_reference(|schema| reached.contains(schema)) {
        let why = "leads to no schema of this document, or stands in a part with an $id of its own; take the inner $id \
                   away, and refer to #/$defs/...";
        return Err(Error::InvalidSchema(format!("the $ref {reference:?} {why}")));
    }
    let Some(bound) = Bound::of(schema, &subschemas, &reached) else {
        let why = "has a $ref that leads back to where it stands without a step into the value; a schema may refer to \
                   itself for members and items (properties, items) only";
        return Err(Error::InvalidSchema(why.to_owned()));
    };
    if subschemas.refers() && (bound.in_place > MOST_WAYS || bound.to_a_part > MOST_WAYS_TO_A_PART)
        || subschemas.has_leftovers() && bound.to_a_part > MOST_WAYS
    {
        let why = "refers to its own parts so often that to check a value takes too many steps".to_owned();
        return Err(Error::InvalidSchema(why));
    }
    let chain = longest_chain(schema, &subschemas);
    let Some(patterns) = patterns::size(subschemas.patterns()) else {
        return Err(Error::InvalidSchema(
            "has patterns that take too much memory, or cannot be read; repeat less in them".to_owned(),
        ));
    };
    // Compiled to be run, a pattern takes more than what is counted of it.
    let options = PatternOptions::regex().size_limit(2 * patterns::MOST).dfa_size_limit(patterns::CACHE);
    jsonschema::options()
        .with_pattern_options(options)
        .build(&subschemas::without_names(schema))
        .map(|validator| CompiledSchema { validator, bound, chain, patterns })
        .map_err(|error| Error::InvalidSchema(error.to_string()))
}

/// Gives compiled schemas. To compile one takes longer than to check a value, so that whoever checks answers all day keeps
/// what it compiled.
pub trait Validators {
    /// See [`compile`].
    ///
    /// # Errors
    /// [`Error::InvalidSchema`].
    fn validator(&self, schema: &Value) -> Result<Arc<CompiledSchema>, Error>;
}

/// Keeps nothing: each is made anew.
#[derive(Debug, Clone, Copy)]
pub struct Anew;

impl Validators for Anew {
    fn validator(&self, schema: &Value) -> Result<Arc<CompiledSchema>, Error> {
        compile(schema).map(Arc::new)
    }
}

/// Checks `value`, and may take its time; empty when it is valid. Of a value with more than [`MOST_PARTS`] parts only
/// the first error is told, and of one where that takes more than [`MOST_STEPS`] that there is one. A schema that does not
/// compile refuses everything, and so does one that may take more than [`MOST_VISITS`] (fail closed).
pub fn validate(schema: &Value, value: &Value, validators: &dyn Validators) -> Vec<FieldError> {
    apart::takes_its_time();
    let compiled = match validators.validator(schema) {
        Ok(compiled) => compiled,
        Err(error) => return vec![FieldError::new(NOWHERE, "invalid_schema", error.to_string())],
    };
    let CompiledSchema { validator, bound, chain, .. } = compiled.as_ref();
    // To count takes longer than to check, and what is kept meanwhile is many times the value: only where it has to be.
    let steps = Steps::may_be_too_deep(*chain, value).then(|| Steps::of(schema, value));
    if steps.is_some_and(|steps| steps.are_too_deep()) {
        return vec![FieldError::new(NOWHERE, "too_deep", "nests deeper than it can be checked against the schema")];
    }
    let is_valid = if bound.of_value(value) > MOST_VISITS {
        let sorted = scalars_first(value);
        if Steps::may_be_more_than(MOST_VISITS, bound, schema, &sorted) {
            let why = "is too large, or nests too deep in too many ways, to be checked against the schema in time; make it \
                       smaller or flatter, or let each kind that the schema allows have a `const` of its own";
            return vec![FieldError::new(NOWHERE, "too_large", why)];
        }
        validator.is_valid(&sorted)
    } else {
        validator.is_valid(value)
    };
    if is_valid {
        return Vec::new();
    }
    if steps.unwrap_or_else(|| Steps::of(schema, value)).are_more_than(MOST_STEPS) {
        let why = "does not fit the schema; to tell where would take too many steps";
        return vec![FieldError::new(NOWHERE, "invalid", why)];
    }
    let mut errors = FieldErrors::default();
    // All of a value's errors are made before the first is told: half a million of them are 200 MB.
    let found: Box<dyn Iterator<Item = _>> = if has_more_parts(value, &mut MOST_PARTS.clone()) {
        Box::new(validator.validate(value).err().into_iter())
    } else {
        Box::new(validator.iter_errors(value))
    };
    for error in found {
        errors.push(|| {
            let loc = places_of(error.instance_path().as_str(), value);
            FieldError::new(loc, error.kind().keyword(), error.to_string())
        });
    }
    errors.into_vec(NOWHERE)
}

/// How many parts a value may have of which every error is told; of a larger one it is the first.
const MOST_PARTS: usize = 10_000;

/// How many steps may be taken to tell what is wrong with a value.
const MOST_STEPS: u64 = 10_000;
/// In how many ways a schema may look at one and the same value.
const MOST_WAYS: u64 = 100_000;
/// In how many ways it may come to a part of a value, each way tried only where those before it fit.
const MOST_WAYS_TO_A_PART: u64 = 100 * MOST_WAYS;
/// How often a value may be looked at to tell whether it is valid: some seconds.
const MOST_VISITS: u64 = 250_000_000;

/// Whether `value` has more than `left` parts: itself, and all that stands in it.
fn has_more_parts(value: &Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else { return true };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().any(|item| has_more_parts(item, left)),
        Value::Object(members) => members.values().any(|member| has_more_parts(member, left)),
        _ => false,
    }
}

/// The places that a JSON Pointer into `value` goes through. What is a number in it is an index only in an array.
fn places_of(pointer: &str, value: &Value) -> Vec<LocSegment> {
    let mut within = Some(value);
    let mut places = Vec::new();
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        match (within, name.parse::<usize>()) {
            (Some(Value::Array(items)), Ok(index)) => {
                within = items.get(index);
                places.push(LocSegment::Index(index));
            }
            (container, _) => {
                within = container.and_then(|container| container.get(&name));
                places.push(LocSegment::Member(name));
            }
        }
    }
    places
}

/// `value` with what a schema of its own says of members that are not there: their `default`, also deeper inside. Where a
/// schema leaves a choice (`anyOf`), nothing is filled in.
pub fn with_defaults(value: &Value, schema: &Value) -> Value {
    Filling { root: schema, room: usize::MAX }.filled(value, schema).unwrap_or_else(|| value.clone())
}

/// [`with_defaults`]; `None` where what is filled in, with a byte for each member that is looked for, comes to more than
/// `most` bytes: a list of empty objects may become any number of times as long.
pub fn with_defaults_within(value: &Value, schema: &Value, most: usize) -> Option<Value> {
    Filling { root: schema, room: most }.filled(value, schema)
}

/// Filling in the defaults of a document.
struct Filling<'s> {
    root: &'s Value,
    /// How many bytes may still be filled in.
    room: usize,
}

impl Filling<'_> {
    /// `None` where there is no room.
    fn filled(&mut self, value: &Value, schema: &Value) -> Option<Value> {
        let schema = resolved(schema, self.root);
        Some(match value {
            Value::Object(members) => {
                let mut members = members.clone();
                for (name, of_member) in schema["properties"].as_object().into_iter().flatten() {
                    self.take(1)?;
                    let default = of_member.get("default").or_else(|| resolved(of_member, self.root).get("default"));
                    match (members.get_mut(name), default) {
                        (Some(member), _) => *member = self.filled(member, of_member)?,
                        (None, Some(default)) => {
                            self.take(json_size(default) + name.len())?;
                            members.insert(name.clone(), default.clone());
                        }
                        (None, None) => {}
                    }
                }
                Value::Object(members)
            }
            Value::Array(items) => {
                items.iter().map(|item| self.filled(item, &schema["items"])).collect::<Option<_>>()?
            }
            other => other.clone(),
        })
    }

    fn take(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room.checked_sub(bytes)?;
        Some(())
    }
}

/// What a reference into the same document leads to; of references that lead nowhere, the last one.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MOST_REFERENCES {
        let referred = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
        match referred {
            Some(referred) => schema = referred,
            None => break,
        }
    }
    schema
}

/// How many references are followed, one after the other.
const MOST_REFERENCES: usize = 16;

#[cfg(test)]
mod circles;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod references;
#[cfg(test)]
mod tests;
