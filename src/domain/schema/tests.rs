use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

pub fn validate(schema: &Value, value: &Value) -> Vec<FieldError> {
    super::validate(schema, value, &Anew)
}

pub fn refused(schema: Value) -> String {
    match compile(&schema) {
        Err(Error::InvalidSchema(reason)) => reason,
        other => panic!("{schema}: {other:?}"),
    }
}

#[test]
fn what_is_no_schema_is_refused() {
    for schema in [
        json!(null),
        json!("string"),
        json!([]),
        json!({"type": "colour"}),
        json!({"type": 7}),
        json!({"minLength": -1}),
        json!({"properties": []}),
        json!({"required": "name"}),
        json!({"anyOf": []}),
        json!({"pattern": "("}),
        json!({"$ref": "#/$defs/missing"}),
    ] {
        refused(schema);
    }
}

#[test]
fn booleans_and_the_empty_object_are_schemas() {
    assert_eq!(validate(&json!(true), &json!(1)), vec![]);
    assert_eq!(validate(&json!({}), &json!(null)), vec![]);
    assert_eq!(validate(&json!(false), &json!(1)).len(), 1);
}

#[test]
fn a_schema_of_an_unknown_draft_is_refused() {
    refused(json!({"$schema": "https://example.com/meta.json", "type": "string"}));
}

#[test]
fn references_inside_the_schema_work() {
    let schema = json!({
        "$defs": {"hex": {"type": "string", "pattern": "^#[0-9a-f]{6}$"}},
        "type": "object", "properties": {"color": {"$ref": "#/$defs/hex"}},
    });
    assert_eq!(validate(&schema, &json!({"color": "#ff6b6b"})), vec![]);
    assert_eq!(validate(&schema, &json!({"color": "red"})).len(), 1);
}

#[test]
fn a_recursive_schema_works() {
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    assert_eq!(validate(&tree, &json!({"left": {"right": {}}})), vec![]);
    assert_eq!(validate(&tree, &json!({"left": {"right": 1}})).len(), 1);
}

#[test]
fn a_schema_that_refers_to_itself_without_end_does_not_end_the_process() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"not": {"$ref": "#"}}),
        json!({"anyOf": [{"$dynamicRef": "#"}]}),
    ] {
        drop(validate(&schema, &json!({"a": 1})));
    }
}

#[test]
fn distinct_items_are_told_apart_quickly() {
    let items: Vec<Value> = (0..50_000).map(|number| json!({"number": number})).collect();
    let started = Instant::now();
    assert_eq!(validate(&json!({"uniqueItems": true}), &json!(items)), vec![]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_pattern_that_explodes_elsewhere_runs_at_once() {
    let started = Instant::now();
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(.*a){20}$", "(x+x+)+y"] {
        let value = json!("a".repeat(50_000) + "!");
        drop(validate(&json!({"pattern": pattern}), &value));
        drop(validate(
            &json!({"patternProperties": {pattern: {"type": "string"}}}),
            &json!({"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!": 1}),
        ));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_pattern_that_cannot_run_in_linear_time_is_refused() {
    for pattern in [r"(a)\1", "(?=a)b", "(?<!a)b"] {
        refused(json!({"pattern": pattern}));
        refused(json!({"patternProperties": {pattern: {}}}));
    }
}

#[test]
fn a_pattern_that_needs_too_much_memory_is_refused() {
    refused(json!({"pattern": "((a{1000}){1000}){1000}"}));
}

#[test]
fn errors_name_the_place_with_indexes_only_in_arrays() {
    let schema = json!({"properties": {
        "list": {"items": {"type": "string"}},
        "7": {"type": "string"},
        "a/b~c": {"type": "string"},
    }});
    let errors = validate(&schema, &json!({"list": ["x", 1], "7": 1, "a/b~c": 1}));
    let mut places: Vec<Value> = errors.iter().map(|error| serde_json::to_value(&error.loc).unwrap()).collect();
    places.sort_by_key(Value::to_string);
    assert_eq!(places, [json!(["7"]), json!(["a/b~c"]), json!(["list", 1])]);
    assert!(errors.iter().all(|error| error.kind == "type"), "{errors:?}");
}

#[test]
fn a_schema_that_does_not_compile_refuses_every_value() {
    let errors = validate(&json!({"type": "colour"}), &json!(1));
    assert_eq!(errors[0].kind, "invalid_schema");
}

#[test]
fn what_is_wrong_is_told_up_to_a_bound() {
    let told = validate(&json!({"type": "array", "items": {"type": "string"}}), &json!(vec![1; 1000]));
    assert_eq!(told.len(), crate::domain::field_errors::MOST + 1);
    assert_eq!(told.last(), Some(&FieldError::new(NOWHERE, "too_many_errors", "and 950 more")));
}

#[test]
fn of_a_large_value_the_first_error_is_told_alone() {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let list = |wrong: usize, right: usize| [vec![json!("x"); right], vec![json!(1); wrong]].concat();
    assert_eq!(validate(&texts, &json!(list(2, 9_997))).len(), 2);
    let told = validate(&texts, &json!(list(2, 9_998)));
    assert_eq!(told.iter().map(|error| error.loc.clone()).collect::<Vec<_>>(), [vec![LocSegment::Index(9_998)]]);
    assert_eq!(validate(&texts, &json!({"a": list(0, 5_000), "b": list(0, 5_000)})).len(), 1);
    assert!(validate(&texts, &json!(list(0, 20_000))).is_empty());
}

#[test]
fn what_is_left_out_is_what_the_schema_says() {
    let schema = json!({
        "type": "object",
        "properties": {
            "amount": {"type": "integer"},
            "to": {"type": "string", "default": "rent"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
            "address": {"$ref": "#/$defs/Address"},
            "parcels": {"type": "array", "items": {"$ref": "#/$defs/Parcel"}},
            "turns": {"$ref": "#/$defs/Turns"},
        },
        "$defs": {
            "Address": {"properties": {"country": {"default": "NZ"}, "parcel": {"$ref": "#/$defs/Parcel"}}},
            "Parcel": {"properties": {"weight": {"default": 1.5}}},
            "Turns": {"$ref": "#/$defs/Turns"},
        },
    });
    for (given, wanted) in [
        (json!({"amount": 77}), json!({"amount": 77, "to": "rent", "note": null})),
        (json!({"to": "ada", "note": "x"}), json!({"to": "ada", "note": "x"})),
        (
            json!({"address": {"parcel": {}}, "parcels": [{}, {"weight": 2}], "turns": {}, "to": null}),
            json!({
                "address": {"parcel": {"weight": 1.5}, "country": "NZ"}, "parcels": [{"weight": 1.5}, {"weight": 2}],
                "turns": {}, "to": null, "note": null,
            }),
        ),
    ] {
        assert_eq!(with_defaults(&given, &schema), wanted, "{given}");
    }
    assert_eq!(with_defaults(&json!({"a": [1]}), &json!(true)), json!({"a": [1]}));
}

/// A formula: `and` and `or`, each of two formulas, or a name.
fn formulas(reference: &str) -> Value {
    let of_two = |op: &str| {
        json!({
            "type": "object", "required": ["left", "right", "op"],
            "properties": {"left": {"$ref": reference}, "right": {"$ref": reference}, "op": {"const": op}},
        })
    };
    json!({
        "$ref": reference,
        "$defs": {
            "formula": {"$anchor": "formula", "anyOf": [{"$ref": "#/$defs/and"}, {"$ref": "#/$defs/or"}, {"type": "string"}]},
            "and": of_two("and"), "or": of_two("or"),
        },
    })
}

fn nested(depth: usize, innermost: Value) -> Value {
    (0..depth).fold(innermost, |left, _| json!({"left": left, "right": "a", "op": "or"}))
}

#[test]
fn of_a_value_that_a_schema_could_be_tried_on_for_ever_it_is_told_that_it_is_wrong_and_not_where() {
    for reference in ["#/$defs/formula", "#formula", "#/%24defs/formula"] {
        let kinds = |depth, innermost: Value| -> Vec<String> {
            validate(&formulas(reference), &nested(depth, innermost)).into_iter().map(|error| error.kind).collect()
        };
        assert_eq!(kinds(8, json!("a")), [""; 0]);
        assert_eq!(kinds(4, json!(1)), ["anyOf"]);
        // In as many ways as 2 to the power of 90 nobody would come to the end of these.
        assert_eq!(kinds(90, json!("a")), [""; 0]);
        assert_eq!(kinds(90, json!(1)), ["invalid"]);
    }
}

#[test]
fn a_value_may_nest_and_be_large_where_each_part_is_looked_at_in_one_way() {
    let any = json!({
        "$ref": "#/$defs/any",
        "$defs": {"any": {"anyOf": [
            {"type": ["string", "integer", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/any"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}},
        ]}},
    });
    let list = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "tags": {"$ref": "#"}}});
    let deep = (0..45).fold(json!(1), |inner, _| json!({"next": [inner], "tags": "x"}));
    assert_eq!(validate(&any, &deep), []);
    assert_eq!(validate(&any, &Value::from(vec![1; 100_000])), []);
    assert_eq!(validate(&list, &(0..90).fold(json!({"next": null}), |next, _| json!({"next": next}))), []);
    let named = json!({
        "patternProperties": {"^a": {"$ref": "#"}, "^b": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"},
        "prefixItems": [{"$ref": "#"}], "items": {"$ref": "#"},
    });
    assert_eq!(validate(&named, &(0..45).fold(json!(1), |inner, _| json!([{"a": inner.clone()}]))), []);
}

#[test]
fn references_one_behind_the_other_are_no_end_of_the_server() {
    let mut parts = crate::domain::JsonObject::new();
    for number in 0..200 {
        parts.insert(format!("p{number}"), json!({"$ref": format!("#/$defs/p{}", number + 1)}));
    }
    parts.insert("p200".to_owned(), json!({"properties": {"left": {"$ref": "#/$defs/p0"}}}));
    let schema = json!({"$ref": "#/$defs/p0", "$defs": parts});
    let refused = validate(&schema, &nested(90, json!(1)));
    assert_eq!(refused.first().map(|error| error.kind.as_str()), Some("too_deep"));
    assert_eq!(validate(&schema, &nested(2, json!(1))), []);
}

#[test]
fn a_schema_that_looks_at_one_value_in_more_ways_than_there_is_time_for_is_refused() {
    let twice = |parts: usize| {
        let part = |number: usize| json!({"$ref": format!("#/$defs/p{number}")});
        let mut named: crate::domain::JsonObject = (0..parts)
            .map(|number| (format!("p{number}"), json!({"anyOf": [part(number + 1), part(number + 1)]})))
            .collect();
        named.insert(format!("p{parts}"), json!({"type": "integer"}));
        json!({"properties": {"a": part(0)}, "$defs": named})
    };
    assert_eq!(validate(&twice(10), &json!({"a": 1})), []);
    assert!(refused(twice(40)).contains("too many steps"));
}

#[test]
fn what_fits_is_not_counted_and_nothing_is_without_end() {
    let kind = |kind: u8| json!({"properties": {"kind": {"const": kind}, "kids": {"items": {"$ref": "#"}}}, "required": ["kind"]});
    let schema = json!({"anyOf": (0..30).map(kind).collect::<Vec<_>>()});
    let value = json!({"kind": 0, "kids": vec![json!({"kind": 3}); 70_000]});
    // Each of its parts was kept with each kind: 600 MB for a megabyte, and a hundred times as long as to check it.
    assert!(!Steps::may_be_too_deep(compile(&schema).unwrap().chain, &value));
    assert_eq!(validate(&schema, &value), []);
    assert!(Steps::of(&schema, &value).are_more_than(u64::MAX), "it is counted to its end");
}

#[test]
fn what_is_looked_at_in_many_ways_on_each_of_many_levels_is_refused() {
    let nest =
        |levels: usize, level: fn(Value) -> Value| (0..levels).fold(json!({"type": "object"}), |inner, _| level(inner));
    for level in [
        (|inner| json!({"anyOf": [inner], "unevaluatedProperties": {"type": "integer"}})) as fn(Value) -> Value,
        |inner| json!({"allOf": [inner], "unevaluatedItems": false}),
        |inner| json!({"if": inner, "unevaluatedProperties": false}),
    ] {
        assert!(refused(nest(26, level)).contains("too many steps"));
        assert!(compile(&nest(4, level)).is_ok());
    }
    for level in [
        (|next| json!({"properties": {"k": next}, "patternProperties": {"k": next}})) as fn(Value) -> Value,
        |next| json!({"items": next, "contains": next}),
        |next| json!({"properties": {"k": {"allOf": [next, {"allOf": [next]}]}}}),
    ] {
        let levels = |levels: usize| {
            let mut parts: crate::domain::JsonObject = (0..levels)
                .map(|number| (format!("n{number}"), level(json!({"$ref": format!("#/$defs/n{}", number + 1)}))))
                .collect();
            parts.insert(format!("n{levels}"), json!({}));
            json!({"$defs": parts, "$ref": "#/$defs/n0"})
        };
        assert!(refused(levels(26)).contains("too many steps"));
        assert!(compile(&levels(5)).is_ok());
    }
}

#[test]
fn a_value_is_not_checked_for_ever() {
    let kinds: Vec<_> = (0..2000).map(|kind| json!({"const": kind})).collect();
    let schema = json!({"items": {"anyOf": kinds}});
    let told = validate(&schema, &Value::from(vec![-1; 400_000]));
    assert_eq!(told.first().map(|error| error.kind.as_str()), Some("too_large"));
    assert_eq!(validate(&schema, &Value::from(vec![1; 10_000])), []);
}

#[test]
fn the_patterns_of_a_schema_take_a_bounded_memory_together() {
    let letters = |most: usize, number: usize| json!({"pattern": format!("^\\p{{L}}{{1,{most}}}{number}$")});
    let several = |count: usize, most: usize| json!({"allOf": (0..count).map(|number| letters(most, number)).collect::<Vec<_>>()});
    assert!(refused(several(40, 150)).contains("memory"));
    assert!(refused(several(1, 1000)).contains("memory"));
    let names = json!({"patternProperties": {"\\p{L}{500}": {}, "\\p{L}{501}": {}}});
    assert!(refused(names).contains("memory"));
    // What generators write.
    for pattern in [
        r"^[\p{L}\p{M}' .-]{1,100}$",
        r"^\w{1,1000}$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
        r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$",
        r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",
        r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
        r"^data:image/(png|jpe?g);base64,[A-Za-z0-9+/]+={0,2}$",
        r"^.{1,500}$",
    ] {
        let told = compile(&json!({"pattern": pattern})).err();
        assert!(told.is_none() || pattern.contains("(?!"), "{pattern}: {told:?}");
    }
    assert!(compile(&json!({"allOf": (0..60).map(|number| json!({"pattern": format!("^[a-z]{{1,64}}-{number}$")})).collect::<Vec<_>>()})).is_ok());
}

/// Blocks of so many kinds, each a list of blocks of any kind, as generators write a union out where it is used.
fn blocks(kinds: usize) -> Value {
    let name = |kind: usize| format!("Block{kind}");
    let any: Vec<_> = (0..kinds).map(|kind| json!({"$ref": format!("#/$defs/{}", name(kind))})).collect();
    let block = |kind: usize| {
        json!({
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"oneOf": any}}, "kind": {"const": kind}, "text": {}},
            "required": ["kind"],
        })
    };
    let defs: crate::domain::JsonObject = (0..kinds).map(|kind| (name(kind), block(kind))).collect();
    json!({"$defs": defs, "type": "array", "items": {"oneOf": any}})
}

#[test]
fn unions_that_lead_back_to_themselves_are_written_out_wherever_they_are_used() {
    let block = |kind: usize, children: Value| json!({"kind": kind, "children": children, "text": "a".repeat(10_000)});
    let schema = blocks(30);
    let deep = (0..6).fold(json!([]), |children, level| json!([block(level, children), block(29, json!([]))]));
    assert_eq!(validate(&schema, &deep), []);
    let wide: Value = (0..2000).map(|kind| block(kind % 30, json!([]))).collect();
    assert_eq!(validate(&schema, &wide), []);
    assert_ne!(validate(&schema, &json!([{"kind": 30}])), []);
}

#[test]
fn unions_of_unions_are_schemas() {
    let mut union = json!({"type": "string"});
    let mut defs = crate::domain::JsonObject::new();
    for level in 0..5 {
        for kind in 0..10 {
            let part = json!({"properties": {"kind": {"const": kind}, "part": union}});
            defs.insert(format!("Level{level}Kind{kind}"), part);
        }
        let any: Vec<_> = (0..10).map(|kind| json!({"$ref": format!("#/$defs/Level{level}Kind{kind}")})).collect();
        union = json!({"anyOf": any});
    }
    let schema = json!({"$defs": defs, "properties": {"part": union}});
    let value = (0..5).fold(json!("text"), |part, _| json!({"kind": 9, "part": part}));
    assert_eq!(validate(&schema, &json!({"part": value})), []);
}

#[test]
fn patterns_are_weighed_as_they_are_read_by_whoever_checks() {
    let mail = "^(([^<>()[\\]\\\\.,;:\\s@\"]+(\\.[^<>()[\\]\\\\.,;:\\s@\"]+)*)|(\".+\"))@[a-z.]+$";
    let schema = json!({"properties": {"mail": {"pattern": mail}, "place": {"pattern": "^[0-9]{5}$"}}});
    assert_eq!(validate(&schema, &json!({"mail": "ada@example.org", "place": "12345"})), []);
    assert_ne!(validate(&schema, &json!({"mail": "ada", "place": "12345"})), []);
}
