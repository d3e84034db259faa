use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The same JSON with the members of every object in the opposite order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.iter().rev().map(|(name, value)| (name.clone(), reversed(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(reversed).collect()),
        scalar => scalar.clone(),
    }
}

#[test]
fn it_is_the_hash_of_compact_sorted_json() {
    // As `printf '{"a":[1,null],"b":"ä"}' | sha256sum` says.
    let expected = "sha256:fad634130efff3d1ac62456e24cd521510a4c43d913b745ae2b6a3e8c68f2ad0";
    assert_eq!(of(&json!({"b": "ä", "a": [1, null]})), expected);
}

#[test]
fn everything_but_the_order_of_members_matters() {
    let values = [
        json!(null),
        json!(false),
        json!(0),
        json!(0.0),
        json!(1),
        json!("1"),
        json!(""),
        json!([]),
        json!({}),
        json!([1, 2]),
        json!([2, 1]),
        json!([[1], 2]),
        json!([1, [2]]),
        json!({"a": 1}),
        json!({"a": "1"}),
        json!({"A": 1}),
        json!({"a": {"b": 1}}),
        json!({"a": 1, "b": 1}),
        json!({"a,\"b\"": 1}),
        json!({"a": null}),
        json!(["a", 1]),
    ];
    let digests: std::collections::HashSet<String> = values.iter().map(of).collect();
    assert_eq!(digests.len(), values.len());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_members_does_not_matter(value in any_json()) {
        prop_assert_eq!(of(&value), of(&reversed(&value)));
    }

    #[test]
    fn a_digest_survives_being_written_and_read(value in any_json()) {
        let again: Value = serde_json::from_str(&value.to_string()).unwrap();
        prop_assert_eq!(of(&value), of(&again));
    }

    #[test]
    fn two_values_share_a_digest_only_if_they_are_equal(one in any_json(), other in any_json()) {
        prop_assert_eq!(of(&one) == of(&other), one == other);
    }
}
