//! JSON Schemas of answers. External references are refused, and patterns run in linear time, because schemas come
//! from agents and values from anybody.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::error::{Error, FieldError, Place};

/// Makes a validator of an author's schema (draft 2020-12 unless `$schema` says otherwise).
///
/// # Errors
/// [`Error::InvalidSchema`]: it is no schema, refers to anything outside itself, or has a pattern that cannot run
/// in linear time.
pub fn compile(schema: &Value) -> Result<Validator, Error> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::InvalidSchema("must be an object or a boolean".to_owned()));
    }
    if let Some(reference) = external_reference(schema) {
        return Err(Error::InvalidSchema(format!("external $ref {reference:?} is refused; inline it under $defs")));
    }
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| Error::InvalidSchema(error.to_string()))
}

/// Checks `value`; empty when it is valid. A schema that does not compile refuses everything (fail closed).
pub fn validate(schema: &Value, value: &Value) -> Vec<FieldError> {
    match compile(schema) {
        Ok(validator) => validator
            .iter_errors(value)
            .map(|error| {
                let loc = error.instance_path().as_str().split('/').skip(1).map(place);
                FieldError::new(loc, error.kind().keyword(), error.to_string())
            })
            .collect(),
        Err(error) => vec![FieldError::new(Vec::<Place>::new(), "invalid_schema", error.to_string())],
    }
}

/// A JSON Pointer segment as a place.
fn place(segment: &str) -> Place {
    match segment.parse::<usize>() {
        Ok(index) => Place::Index(index),
        Err(_) => Place::Member(segment.replace("~1", "/").replace("~0", "~")),
    }
}

fn external_reference(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(members) => members.iter().find_map(|(name, value)| match value {
            Value::String(target) if matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") => {
                (!target.starts_with('#')).then_some(target.as_str())
            }
            other => external_reference(other),
        }),
        Value::Array(items) => items.iter().find_map(external_reference),
        _ => None,
    }
}
