//! What the fuzz targets have in common: valid inputs, changed here and there.
//!
//! Each target is a property beside what it is for, in a file `fuzz.rs`. They run with a fixed seed and so many cases that
//! all of them take less than a minute; `PROPTEST_CASES`, which `make fuzz` sets, runs as many more as one has time for,
//! each time others. What they have found once stands as an example in the tests beside them.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::JsonObject;

/// How many cases a target runs that is given a `share` of 1, where nobody asks for more.
const CASES: u32 = 256;

/// For a target that runs `share` times as many cases as one that runs few.
pub fn config(share: u32) -> ProptestConfig {
    // Reads the environment, which the domain does not.
    let own = ProptestConfig::default();
    let rng_seed = if own.cases == CASES { RngSeed::Fixed(1) } else { own.rng_seed };
    ProptestConfig { cases: own.cases.saturating_mul(share), rng_seed, failure_persistence: None, ..own }
}

/// One of `valid`, with up to six changes.
pub fn values(valid: Vec<Value>) -> impl Strategy<Value = Value> {
    let change = (any::<Index>(), 0..7_u8, odd());
    (select(valid), prop::collection::vec(change, 0..6)).prop_map(|(mut value, changes)| {
        for (place, kind, other) in changes {
            let count = count(&value);
            change_at(&mut value, &mut place.index(count), kind, other);
        }
        value
    })
}

/// One of `valid`, with up to six changes that need not leave it well-formed.
pub fn texts(valid: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        select(PIECES.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    let change = (any::<Index>(), any::<Index>(), 0..4_u8, piece);
    (select(valid), prop::collection::vec(change, 0..6)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (from, length, kind, piece) in changes {
            let from = from.index(bytes.len() + 1);
            let to = from + length.index((bytes.len() - from).min(24) + 1);
            let cut = bytes[from..to].to_vec();
            let put = match kind {
                0 => Vec::new(),
                1 => piece,
                2 => [cut.clone(), piece].concat(),
                _ => cut.repeat(2),
            };
            drop(bytes.splice(from..to, put));
        }
        bytes
    })
}

/// What stands in no valid input, or in another place.
const PIECES: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\\",
    "\\ud800",
    "\\u0000",
    "null",
    "true",
    "-",
    "1e400",
    "1e-400",
    "0.1",
    "18446744073709551616",
    "9007199254740993.0",
    "\"type\":\"approve\"",
    "\"approved\":true,",
    "[[[[[[[[",
    "{\"a\":",
    "\n",
    "=",
    "'''",
    "[[rule]]\n",
    "#",
    "\u{feff}",
];

/// Any small value, most of them of the wrong kind in the wrong place.
pub fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..5_i64).prop_map(Value::from),
        Just(json!(u64::MAX)),
        any::<f64>().prop_map(Value::from),
        select(vec!["", "approve", "reject", "edit", "respond", "pay", "*", "call_1", "\u{202e}", "\0", "true"])
            .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(json!("x".repeat(5000))),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names(), inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Names of members, most of which mean something somewhere.
fn names() -> impl Strategy<Value = String> {
    let known = vec![
        "type", "approved", "args", "reason", "message", "always", "name", "by", "value", "answers", "entry",
        "version", "$ref", "when", "effect",
    ];
    prop_oneof![3 => select(known).prop_map(str::to_owned), 1 => ".{0,4}"]
}

/// How many values there are in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that `place` others come before; whether that was in this one.
fn change_at(value: &mut Value, place: &mut usize, kind: u8, other: Value) -> bool {
    if *place == 0 {
        change(value, kind, other);
        return true;
    }
    *place -= 1;
    let mut inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    inner.iter_mut().any(|inner| change_at(inner, place, kind, other.clone()))
}

fn change(value: &mut Value, kind: u8, other: Value) {
    let name = other.as_str().unwrap_or("type").to_owned();
    match (kind, &mut *value) {
        (0, Value::Object(members)) => drop(take(members)),
        (1, Value::Object(members)) => drop(members.insert(name, other)),
        (2, Value::Object(members)) => {
            if let Some(member) = take(members) {
                members.insert(name, member);
            }
        }
        (0, Value::Array(items)) => drop(items.pop()),
        (1, Value::Array(items)) => items.push(other),
        (2, Value::Array(items)) => items.reverse(),
        (3, Value::Array(items)) => items.extend(items.clone().into_iter().take(3)),
        (4, own) => *own = json!([own]),
        (5, own) => *own = json!({"type": own}),
        (_, own) => *own = other,
    }
}

/// One of the members, whichever stands in the middle.
fn take(members: &mut JsonObject) -> Option<Value> {
    let name = members.keys().nth(members.len() / 2)?.clone();
    members.shift_remove(&name)
}
