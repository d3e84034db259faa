//! What schemas refer to, and the names that their parts have.

use serde_json::json;

use super::tests::{refused, validate};
use super::*;

#[test]
fn references_out_of_the_schema_are_refused_wherever_they_stand() {
    for target in ["https://example.com/s.json", "file:///etc/passwd", "other.json#/a", "/etc/passwd", ""] {
        for schema in [
            json!({"$ref": target}),
            json!({"properties": {"a": {"$ref": target}}}),
            json!({"$defs": {"const": {"$ref": target}}}),
            json!({"allOf": [{"items": {"$dynamicRef": target}}]}),
            json!({"properties": {"enum": {"not": {"$ref": target}}}}),
        ] {
            let reason = refused(schema);
            assert!(reason.contains("$ref") && reason.contains("$defs"), "{reason}");
        }
    }
}

#[test]
fn what_only_looks_like_a_reference_is_data() {
    let target = "https://example.com/s.json";
    for schema in [
        json!({"const": {"$ref": target}}),
        json!({"enum": [{"$ref": target}, 1]}),
        json!({"default": {"$ref": target}, "examples": [{"$ref": target}]}),
    ] {
        assert!(compile(&schema).is_ok(), "{schema}: {:?}", compile(&schema).err());
    }
    assert_eq!(validate(&json!({"const": {"$ref": target}}), &json!({"$ref": target})), vec![]);
}

#[test]
fn a_property_may_be_named_ref() {
    let schema = json!({"type": "object", "required": ["$ref"], "properties": {"$ref": {"type": "string"}}});
    assert_eq!(validate(&schema, &json!({"$ref": "https://example.com"})), vec![]);
    assert_eq!(validate(&schema, &json!({"$ref": 1})).len(), 1);
}

#[test]
fn a_reference_that_counts_from_a_part_with_a_name_of_its_own_is_refused() {
    let part = |id: &str| json!({"$id": id, "$defs": {"b": {"type": "integer"}}, "$ref": "#/$defs/b"});
    for id in ["urn:x", "part.json", "https://example.com/", "#b", ""] {
        assert!(refused(json!({"properties": {"a": part(id)}})).contains("$id"), "{id}");
        assert!(refused(json!({"$id": "https://example.com/", "items": {"not": part(id)}})).contains("$id"), "{id}");
    }
    for draft in ["http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#"] {
        refused(json!({"$schema": draft, "definitions": {"a": {"$id": "#a"}}, "allOf": [{"$ref": "#a"}]}));
    }
    let old = "http://json-schema.org/draft-04/schema#";
    refused(json!({"$schema": old, "definitions": {"a": {"id": "#a"}}, "allOf": [{"$ref": "#a"}]}));
    refused(json!({"$schema": old, "properties": {"a": {"id": "urn:x", "items": {"$ref": "#"}}}}));
    refused(json!({"properties": {"a": {"$schema": old, "id": "urn:x", "items": {"$ref": "#"}}}}));
}

#[test]
fn names_that_nothing_refers_through_are_no_matter() {
    let part = json!({"$id": "Part", "type": "object", "properties": {"id": {"type": "integer"}}});
    for schema in [
        json!({"$id": "https://example.com/whole", "properties": {"a": {"$ref": "#/$defs/part"}}, "$defs": {"part": part}}),
        json!({"$id": "Whole", "properties": {"a": part, "b": part}}),
        json!({"$id": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": part}}),
        json!({"properties": {"a": {"id": "part", "properties": {"id": {"$ref": "#/$defs/id"}}}}, "$defs": {"id": {"type": "integer"}}}),
        json!({"allOf": [{"properties": {"a": {"$ref": "#/properties/$id"}}}], "properties": {"$id": part}}),
        json!({"properties": {"a": part, "b": {"const": {"$id": "urn:x", "$ref": "#/nowhere"}}}}),
        json!({"properties": {"a": part}, "default": {"$id": "urn:x"}, "examples": [{"$id": "urn:x", "$ref": "urn:y"}]}),
    ] {
        assert_eq!(validate(&schema, &json!({"a": {"id": 1}})), [], "{schema}");
        assert_eq!(validate(&schema, &json!({"a": {"id": "x"}})).len(), 1, "{schema}");
    }
    let named = json!({"const": {"$id": "urn:x", "id": "y"}});
    assert_eq!(validate(&named, &json!({"$id": "urn:x", "id": "y"})), []);
}

#[test]
fn a_reference_that_does_not_lead_to_a_schema_for_certain_is_refused() {
    for (schema, target) in [
        (json!({"properties": {"x": {"const": {"type": "integer"}}}}), "#/properties/x/const"),
        (json!({"default": {"type": "integer"}}), "#/default"),
        (json!({"examples": [{"type": "integer"}]}), "#/examples/0"),
        (json!({"properties": {"x": {}}}), "#/properties"),
        (json!({"$defs": {"a": {"$anchor": "a"}, "b": {"$anchor": "a"}}}), "#a"),
        (json!({"$defs": {"a": {"$id": "urn:x", "$anchor": "a"}}}), "#a"),
        (json!({"$defs": {"\u{1}": {}, "%+1": {}}}), "#/$defs/%+1"),
    ] {
        let mut whole = schema;
        whole["allOf"] = json!([{"$ref": target}]);
        assert!(refused(whole).contains(target), "{target}");
    }
}

#[test]
fn a_name_stands_for_no_pointer() {
    let chain = |number: usize| json!({"allOf": [{"$ref": format!("#/$defs/n{}", number + 1)}, {"$ref": format!("#/$defs/n{}", number + 1)}]});
    let mut parts: crate::domain::JsonObject = (0..26).map(|number| (format!("n{number}"), chain(number))).collect();
    parts.insert("n26".to_owned(), json!({}));
    let names: Vec<_> = (0..27).map(|number| json!({"$anchor": format!("/$defs/n{number}")})).collect();
    assert!(refused(json!({"x": names, "$defs": parts, "$ref": "#/$defs/n0"})).contains("too many steps"));
}

#[test]
fn what_nobody_uses_may_refer_to_what_is_somewhere_else() {
    for extra in [
        json!({"x-meta": {"$ref": "#/components/schemas/Foo"}}),
        json!({"example": {"$ref": "#/nowhere"}}),
        json!({"$defs": {"unused": {"$ref": "#/components/schemas/Foo"}}}),
    ] {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let members = schema.as_object_mut().unwrap();
        members.extend(extra.as_object().unwrap().clone());
        assert_eq!(validate(&schema, &json!({"a": "text"})), [], "{extra}");
    }
}
#[test]
fn up_to_draft_7_an_id_that_is_a_fragment_is_a_name_within_the_document() {
    let part = json!({"$id": "#/properties/a", "type": "object", "properties": {"b": {"$ref": "#/definitions/id"}}});
    let schema = |draft: &str| {
        let draft = format!("http://json-schema.org/{draft}/schema#");
        json!({"$schema": draft, "properties": {"a": part}, "definitions": {"id": {"$id": "#id", "type": "integer"}}})
    };
    for draft in ["draft-06", "draft-07"] {
        assert_eq!(validate(&schema(draft), &json!({"a": {"b": 1}})), []);
        assert_eq!(validate(&schema(draft), &json!({"a": {"b": "x"}})).len(), 1);
    }
    assert!(refused(json!({"properties": {"a": part}, "definitions": {"id": {}}})).contains("$id"));
}
