//! Schemas that would be tried on a value for ever, behind every kind of reference and keyword: each is refused, or done
//! soon.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::domain::fuzzing::config;

/// How many schemas refer one to the next.
const LEVELS: usize = 26;

/// How a schema is referred to.
#[derive(Debug, Clone, Copy)]
enum By {
    Pointer,
    Percent,
    Escaped,
    /// `$anchor`, or what else says a name.
    Name(&'static str),
    Dynamic(&'static str),
    /// The name is in front of a pointer that leads to what is cheap.
    Disguised,
}

impl By {
    fn reference(self, level: usize) -> Value {
        match self {
            Self::Pointer => json!({"$ref": format!("#/$defs/n{level}")}),
            Self::Percent => json!({"$ref": format!("#/%24defs/%6e{level}")}),
            Self::Escaped => json!({"$ref": format!("#/$defs/a~1%25{level}")}),
            Self::Name(_) => json!({"$ref": format!("#n{level}")}),
            Self::Dynamic(_) => json!({"$dynamicRef": format!("#n{level}")}),
            Self::Disguised => json!({"$ref": format!("#/$defs/n{level}")}),
        }
    }

    fn key(self, level: usize) -> String {
        match self {
            Self::Escaped => format!("a/%{level}"),
            _ => format!("n{level}"),
        }
    }

    fn name(self, schema: &mut Value, level: usize) {
        if let Self::Name(keyword) | Self::Dynamic(keyword) = self {
            let hash = if keyword.ends_with("id") { "#" } else { "" };
            schema[keyword] = json!(format!("{hash}n{level}"));
        }
    }
}

/// One level: two ways to the next, and what a value nests in for it.
#[derive(Debug, Clone, Copy)]
struct Level {
    schema: fn(Value) -> Value,
    value: fn(Value) -> Value,
}

fn same(value: Value) -> Value {
    value
}

fn member(value: Value) -> Value {
    json!({"k": value})
}

fn item(value: Value) -> Value {
    json!([value])
}

fn levels() -> Vec<Level> {
    let level = |schema, value| Level { schema, value };
    vec![
        level(|next| json!({"allOf": [next, next]}), same),
        level(|next| json!({"anyOf": [{"not": next}, next]}), same),
        level(|next| json!({"oneOf": [next, {"allOf": [false, next]}, {"allOf": [next, false]}]}), same),
        level(|next| json!({"if": next, "then": next, "else": next}), same),
        level(|next| json!({"not": {"not": next}, "allOf": [next]}), same),
        level(|next| json!({"dependentSchemas": {"k": next, "j": next}}), same),
        level(|next| json!({"dependencies": {"k": next, "j": next}}), same),
        level(|next| json!({"properties": {"k": {"allOf": [next, {"allOf": [next]}]}}}), member),
        level(|next| json!({"properties": {"k": next}, "patternProperties": {"k": next}}), member),
        level(|next| json!({"patternProperties": {"k": next, "^k": next}}), member),
        level(|next| json!({"allOf": [{"additionalProperties": next}, {"properties": {"k": next}}]}), member),
        level(|next| json!({"propertyNames": next, "additionalProperties": {"anyOf": [{"not": next}, next]}}), member),
        level(|next| json!({"items": next, "contains": next}), item),
        level(|next| json!({"allOf": [{"items": next}, {"items": {"allOf": [next]}}]}), item),
        level(|next| json!({"allOf": [{"unevaluatedItems": next}, {"contains": next}]}), item),
        level(|next| json!({"allOf": [{"unevaluatedProperties": next}, {"unevaluatedProperties": next}]}), member),
        level(|next| json!({"allOf": [next], "unevaluatedProperties": {}}), same),
        level(|next| json!({"anyOf": [next], "unevaluatedProperties": {}}), same),
        level(|next| json!({"if": next, "unevaluatedItems": {}}), same),
        level(|next| json!({"dependentSchemas": {"k": next}, "unevaluatedProperties": {}}), same),
    ]
}

fn references() -> Vec<By> {
    vec![
        By::Pointer,
        By::Percent,
        By::Escaped,
        By::Name("$anchor"),
        By::Name("$dynamicAnchor"),
        By::Name("$id"),
        By::Name("id"),
        By::Dynamic("$dynamicAnchor"),
        By::Dynamic("$anchor"),
        By::Disguised,
    ]
}

/// Where the schemas stand.
fn frames() -> Vec<fn(Value) -> Value> {
    vec![
        |chain| chain,
        |chain| json!({"properties": {"a": chain}}),
        |mut chain| {
            chain["$id"] = json!("urn:x");
            json!({"properties": {"a": chain}})
        },
        |mut chain| {
            chain["$id"] = json!("part.json");
            json!({"$id": "https://example.com/", "properties": {"a": chain}})
        },
        |mut chain| {
            chain["id"] = json!("http://example.com/part");
            json!({"properties": {"a": chain}})
        },
        |mut chain| {
            chain["$id"] = json!("https://example.com/");
            json!({"$id": "https://example.com/", "$defs": {"b": {"$id": "urn:b", "not": chain}}, "$ref": "#/$defs/b"})
        },
        |chain| json!({"x": {"y": chain}, "$ref": "#/x/y"}),
        |chain| json!({"default": chain, "properties": {"a": {"$ref": "#/default"}}}),
        |chain| json!({"properties": {"const": chain}, "allOf": [{"properties": {"a": {"$ref": "#/properties/const"}}}]}),
        |chain| json!({"properties": {"x": {"const": chain}, "a": {"$ref": "#/properties/x/const"}}}),
    ]
}

const DRAFTS: [Option<&str>; 5] = [
    None,
    Some("https://json-schema.org/draft/2019-09/schema"),
    Some("http://json-schema.org/draft-07/schema#"),
    Some("http://json-schema.org/draft-06/schema#"),
    Some("http://json-schema.org/draft-04/schema#"),
];

/// `back` leads from the last level to the first. What is looked at first leads to all levels, from the last on: whoever checks
/// values keeps nothing between two of them then.
fn chain(by: By, level: Level, back: bool) -> Value {
    let mut parts = serde_json::Map::new();
    for number in 0..=LEVELS {
        let mut part = if number == LEVELS && back {
            by.reference(0)
        } else if number == LEVELS {
            json!({"type": ["integer", "object", "array"]})
        } else {
            (level.schema)(by.reference(number + 1))
        };
        by.name(&mut part, number);
        parts.insert(by.key(number), part);
    }
    let mut whole = json!({"$defs": parts, "allOf": [by.reference(0)]});
    if back {
        whole["properties"] = (1..LEVELS).rev().map(|number| (format!("z{number}"), by.reference(number))).collect();
    }
    if matches!(by, By::Disguised) {
        let names = (0..=LEVELS).map(|number| json!({"$anchor": format!("/$defs/n{number}"), "type": "integer"}));
        whole["x"] = names.collect();
    }
    whole
}

/// References are also written for the outermost of a text, and not only for the part in which they stand.
fn lifted(mut whole: Value, chain: &Value) -> Value {
    if whole.get("$defs").is_none() {
        whole["$defs"] = chain["$defs"].clone();
    }
    whole
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn fuzz_a_schema_is_refused_or_done_soon(
        by in select(references()), level in select(levels()), frame in select(frames()), draft in select(&DRAFTS),
        lift in any::<bool>(), fits in any::<bool>(), back in any::<bool>(),
    ) {
        let chain = chain(by, level, back);
        let mut schema = frame(chain.clone());
        if lift {
            schema = lifted(schema, &chain);
        }
        if let Some(draft) = draft {
            schema["$schema"] = json!(draft);
        }
        let leaf = if fits { json!(1) } else { json!("x") };
        let inner = (0..LEVELS).fold(leaf, |inner, _| (level.value)(inner));
        let value = json!({"a": inner, "k": inner, "j": 1, "const": inner});
        let started = Instant::now();
        drop(validate(&schema, &value, &Anew));
        drop(validate(&schema, &inner, &Anew));
        prop_assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
