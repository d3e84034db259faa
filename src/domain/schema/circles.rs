//! Schemas that lead back to themselves in several ways. How often whoever checks a value looks at its parts is counted by a
//! keyword of our own, which stands in front of each schema: what is told beforehand is never less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, PatternOptions, ValidationError};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::domain::JsonObject;
use crate::domain::fuzzing::config;

fn validate(schema: &Value, value: &Value) -> Vec<String> {
    super::validate(schema, value, &Anew).into_iter().map(|error| error.kind).collect()
}

struct Seen(Arc<AtomicU64>);

impl<'i> Keyword<'i> for Seen {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// `schema`, of which it is counted how often it is looked at.
fn watched(schema: Value) -> Value {
    let mark = json!({"seen": true});
    json!({"allOf": [mark, mark, mark, mark, mark, mark, schema]})
}

/// How often the watched schemas in `schema` are looked at to check `value`.
fn seen(schema: &Value, value: &Value) -> u64 {
    let all = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&all);
    let checking = jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .with_keyword("seen", move |_: &JsonObject, _: &Value, _| {
            Ok(Box::new(Seen(Arc::clone(&counter))) as Box<dyn for<'i> Keyword<'i>>)
        })
        .build(schema)
        .unwrap();
    let _ = checking.is_valid(value);
    all.load(Ordering::Relaxed)
}

fn bound(schema: &Value) -> Option<Bound> {
    let subschemas = Subschemas::of(schema);
    Bound::of(schema, &subschemas, &ReachedSchemas::of(schema, &subschemas))
}

fn are_at_most(most: u64, schema: &Value, value: &Value) -> bool {
    !Steps::may_be_more_than(most, &bound(schema).unwrap(), schema, value)
}

/// Each level looks at `a` in two ways, and the last leads back to the first. What comes first leads to all of them, from the
/// last on: then nothing is kept between two levels.
fn levels(count: usize) -> Value {
    let level = |number: usize| json!({"$ref": format!("#/$defs/n{number}")});
    let mut parts: JsonObject = (0..count)
        .map(|number| {
            let next = level((number + 1) % count);
            (format!("n{number}"), watched(json!({"properties": {"a": next}, "patternProperties": {"^a": next}})))
        })
        .collect();
    let all: JsonObject = (1..count).rev().map(|number| (format!("z{number}"), level(number))).collect();
    parts.insert(
        "n0".to_owned(),
        watched(json!({"properties": all, "allOf": [
            {"properties": {"a": level(1)}, "patternProperties": {"^a": level(1)}},
        ]})),
    );
    json!({"$defs": parts, "$ref": "#/$defs/n0"})
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[test]
fn what_doubles_on_each_level_of_a_circle_is_refused_before_it_is_looked_at() {
    let visits = seen(&levels(14), &nested(13));
    assert!(visits > 1 << 13, "{visits}");
    assert!(are_at_most(visits * 8, &levels(14), &nested(13)) && !are_at_most(visits - 1, &levels(14), &nested(13)));
    assert_eq!(validate(&levels(26), &nested(10)), [""; 0]);
    assert_eq!(validate(&levels(26), &nested(40)), ["too_large"]);
}

/// A union of kinds, each with children of any kind.
fn kinds(count: usize, kind: impl Fn(usize) -> Value) -> Value {
    json!({"anyOf": (0..count).map(kind).collect::<Vec<_>>()})
}

#[test]
fn a_union_whose_kinds_are_told_apart_may_nest_as_deep_as_it_is() {
    let children = || json!({"type": "array", "items": {"$ref": "#"}});
    let tree = |kind: Value, leaf: &Value| {
        (0..45).fold(leaf.clone(), |inner, _| json!({"children": [inner], "kind": kind, "more": null}))
    };
    for schema in [
        kinds(
            20,
            |kind| json!({"properties": {"children": children(), "kind": {"const": format!("k{kind}")}, "more": {}}}),
        ),
        kinds(
            20,
            |kind| json!({"properties": {"kind": {"enum": [format!("k{kind}")]}, "children": children()}, "type": "object"}),
        ),
        kinds(20, |kind| {
            json!({
                "properties": {"children": children(), "kind": {"const": format!("k{kind}")}, "more": {}},
                "additionalProperties": false,
            })
        }),
        kinds(
            20,
            |kind| json!({"allOf": [{"properties": {"kind": {"const": format!("k{kind}")}}}, {"properties": {"children": children()}}]}),
        ),
    ] {
        let leaf = json!({"kind": "k0"});
        assert_eq!(validate(&schema, &tree(json!("k19"), &leaf)), [""; 0], "{schema}");
        assert_ne!(validate(&schema, &tree(json!("k19"), &json!({"kind": "k20"}))), ["too_large"], "{schema}");
    }
    let of_types = json!({"anyOf": [
        {"type": "string"}, {"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}},
        {"type": ["number", "null"]},
    ]});
    assert_eq!(validate(&of_types, &tree(json!("x"), &json!([]))), [""; 0]);
}

#[test]
fn a_union_whose_kinds_are_the_same_may_nest_some_levels() {
    let schema = kinds(2, |_| json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}));
    let deep = |depth: usize| (0..depth).fold(json!(1), |left, _| json!({"left": left, "right": 2}));
    assert_eq!(validate(&schema, &deep(15)), [""; 0]);
    assert_eq!(validate(&schema, &deep(45)), ["too_large"]);
}

#[test]
fn what_others_have_left_is_counted_in_circles_too() {
    let schema = watched(json!({
        "allOf": [watched(json!({"properties": {"a": {"$ref": "#"}}})), {"anyOf": [watched(json!({"type": ["integer", "object"]}))]}],
        "unevaluatedProperties": false,
    }));
    let visits = seen(&schema, &nested(12));
    assert!(!are_at_most(visits - 1, &schema, &nested(12)), "{visits}");
    assert!(!are_at_most(1 << 12, &schema, &nested(12)));
    assert_eq!(validate(&schema, &nested(45)), ["too_large"]);
    assert_eq!(validate(&schema, &nested(8)), [""; 0]);
}

#[test]
fn a_schema_that_leads_back_to_itself_for_the_same_value_is_refused() {
    let all: Vec<_> = (0..12).map(|number| json!({"$ref": format!("#/$defs/n{number}")})).collect();
    let parts: JsonObject = (0..12).map(|number| (format!("n{number}"), json!({"anyOf": all}))).collect();
    for schema in [
        json!({"$ref": "#"}),
        json!({"not": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"if": {"$ref": "#/$defs/a"}}]}}}),
        json!({"anyOf": all, "$defs": parts}),
    ] {
        let refused = compile(&schema).map(drop).unwrap_err().to_string();
        assert!(refused.contains("without a step into the value"), "{refused}");
    }
}

/// Some schemas that refer to each other and a value: what is looked at on the same value comes later in the list.
fn cases() -> impl Strategy<Value = (Value, Value)> {
    let value = || {
        let leaf = select(vec![json!(null), json!(1), json!("a"), json!("b"), json!(true), json!([]), json!({})]);
        leaf.prop_recursive(5, 40, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abk]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().rev().collect())),
            ]
        })
    };
    let parts = prop::collection::vec(prop::collection::vec((0..23_u8, any::<u8>(), any::<u8>()), 1..4), 1..6);
    (parts, any::<bool>(), value()).prop_map(|(parts, is_old, value)| (schema_of(&parts, is_old), value))
}

fn schema_of(parts: &[Vec<(u8, u8, u8)>], is_old: bool) -> Value {
    let count = parts.len();
    let of = |number: usize| json!({"$ref": format!("#/$defs/n{number}")});
    let defs: JsonObject = parts
        .iter()
        .enumerate()
        .map(|(number, keywords)| {
            // One of those behind this one, or what fits anything.
            let later = |at: u8| {
                let next = number + 1 + usize::from(at) % count;
                if next < count { of(next) } else { watched(json!({})) }
            };
            let any = |at: u8| of(usize::from(at) % count);
            let name = |at: u8| ["a", "b", "k", "ab"][usize::from(at) % 4];
            let scalar = |at: u8| [json!(1), json!("a"), json!("b"), json!(null)][usize::from(at) % 4].clone();
            let mut schema = JsonObject::new();
            for (keyword, one, other) in keywords.iter().copied() {
                let (keyword, part) = match keyword {
                    0 => ("type", json!(["object", "array", "string"][usize::from(one) % 3])),
                    1 => ("type", json!(["object", "array", "integer"])),
                    2 => ("const", scalar(one)),
                    3 => ("enum", json!([scalar(one), scalar(other)])),
                    4..=7 => (
                        "properties",
                        json!({name(one): any(other), "k": {"const": scalar(one)}, name(other): any(one)}),
                    ),
                    8 => ("patternProperties", json!({"^a": any(one), "b$": any(other), "\\W": any(one)})),
                    9 => ("additionalProperties", any(one)),
                    10 => ("additionalProperties", json!(false)),
                    11 => ("items", any(one)),
                    12 => ("prefixItems", json!([any(one), any(other)])),
                    13 => ("contains", any(one)),
                    14 => ("allOf", json!([later(one), later(other)])),
                    15 => ("anyOf", json!([later(one), later(other), watched(json!({"const": scalar(one)}))])),
                    16 => ("oneOf", json!([later(one), later(other)])),
                    17 => ("if", later(one)),
                    18 => ("then", later(one)),
                    19 => ("not", later(one)),
                    20 => ("propertyNames", later(one)),
                    21 => ("unevaluatedProperties", any(one)),
                    _ => ("unevaluatedItems", any(one)),
                };
                schema.insert(keyword.to_owned(), part);
            }
            (format!("n{number}"), watched(Value::Object(schema)))
        })
        .collect();
    let mut schema = json!({"$defs": defs, "allOf": [of(0)]});
    if is_old {
        schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    }
    schema
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn no_fewer_visits_are_counted_than_there_are((schema, value) in cases()) {
        let value = scalars_first(&value);
        let (Some(bound), visits) = (bound(&schema), seen(&schema, &value)) else { return Ok(()) };
        prop_assert!(visits <= bound.of_value(&value), "{} of {:?}", visits, bound);
        prop_assert!(visits == 0 || !are_at_most(visits - 1, &schema, &value), "{}", visits);
    }
}

#[test]
fn nothing_is_left_out_of_the_count_that_may_be_looked_at() {
    let deep = |level: fn(Value) -> Value| (0..12).fold(json!({}), |inner, _| level(inner));
    let twice = |part: Value| json!({"anyOf": [watched(part.clone()), watched(part)]});
    let old = |draft: &str, mut schema: Value| {
        schema["$schema"] = json!(format!("http://json-schema.org/{draft}/schema#"));
        schema
    };
    for (schema, value) in [
        // Beside a `$ref` nothing counts.
        (
            old(
                "draft-07",
                json!({
                    "definitions": {"a": {"anyOf": [{"$ref": "#/definitions/b", "type": "null"}, {"$ref": "#/definitions/b", "const": 1}]},
                        "b": watched(json!({"properties": {"a": {"$ref": "#/definitions/a"}, "k": false}}))},
                    "allOf": [{"$ref": "#/definitions/a"}],
                }),
            ),
            deep(|inner| json!({"a": inner, "k": 1})),
        ),
        // Of what has more members than are named, those come first that the schema names first.
        (
            twice(json!({"properties": {"a": {"$ref": "#"}, "kind": {"const": "x"}}})),
            deep(|inner| json!({"kind": "y", "b": 1, "c": 1, "a": inner})),
        ),
        // There is no `const`.
        (
            old(
                "draft-04",
                twice(json!({
                    "properties": {"kind": {"const": "x"}, "a": {"$ref": "#"}}, "patternProperties": {"^k$": {"not": {}}},
                })),
            ),
            deep(|inner| json!({"kind": "y", "a": inner, "k": 1})),
        ),
        // A letter that is none of ASCII is no `\w`.
        (
            watched(
                json!({"patternProperties": {"\\W": {"$ref": "#"}, "^\\W": {"$ref": "#"}}, "allOf": [watched(json!({}))]}),
            ),
            deep(|inner| json!({"\u{e9}": inner})),
        ),
        // Nor are items, but for those of the latest draft, told apart from the first ones.
        (
            old(
                "draft-07",
                watched(json!({"prefixItems": [true], "items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}})),
            ),
            deep(|inner| json!([inner])),
        ),
    ] {
        let visits = seen(&schema, &scalars_first(&value));
        assert!(!are_at_most(visits - 1, &schema, &value), "{visits} of {schema}");
    }
}
