//! How often one part of a value is looked at, at most, told from the schema alone. Parts of a schema that several others
//! refer to are tried once for each way that leads to them, and where there are two ways on each of twenty levels, that is a
//! million times. Whoever checks a value keeps what came out only where a schema leads back to itself.

use std::collections::HashMap;

use serde_json::Value;

use super::subschemas::{LEFTOVERS, Subschemas};
use crate::domain::JsonObject;

/// The keywords whose schemas look at what stands in a value.
const BELOW: [&str; 10] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "prefixItems",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];

/// What it takes to look at one value, and at what stands in it on the way to one of its parts.
#[derive(Debug, Clone, Copy)]
struct Visits {
    /// To tell whether it is valid.
    checking: u64,
    /// To tell which of its members or items were looked at, for `unevaluatedProperties` and `unevaluatedItems`: whatever else
    /// looks at the same value is checked once more.
    marking: u64,
}

/// How often the schema of `subschemas` looks at a value and any one part inside of it, together.
pub fn most(root: &Value, subschemas: &Subschemas<'_>) -> u64 {
    // As long as a schema is not known: what leads back here is a circle, and is looked at once.
    let once = Visits { checking: 1, marking: 1 };
    let mut known: HashMap<*const Value, Visits> = HashMap::new();
    // References lead deeper than there is room for on the stack.
    let mut open = vec![(root, false)];
    while let Some((schema, is_ready)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        if is_ready {
            let visits =
                visits_of(keywords, subschemas, |part| known.get(&std::ptr::from_ref(part)).copied().unwrap_or(once));
            known.insert(schema, visits);
        } else if !known.contains_key(&std::ptr::from_ref(schema)) {
            known.insert(schema, once);
            open.push((schema, true));
            open.extend(subschemas.in_place(keywords).into_iter().map(|part| (part, false)));
            open.extend(BELOW.iter().flat_map(|name| parts(keywords, name)).map(|part| (part, false)));
        }
    }
    known.get(&std::ptr::from_ref(root)).map_or(1, |visits| visits.checking)
}

fn visits_of(keywords: &JsonObject, subschemas: &Subschemas<'_>, of: impl Fn(&Value) -> Visits) -> Visits {
    let checking = |name: &str| parts(keywords, name).into_iter().map(|part| of(part).checking);
    let most = |names: &[&str]| names.iter().flat_map(|name| checking(name)).max().unwrap_or(0);
    let in_place: Vec<_> = subschemas.in_place(keywords).into_iter().map(&of).collect();
    let checked = sum(in_place.iter().map(|visits| visits.checking));
    // A member has one name, which may fit many patterns.
    let members = sum(checking("patternProperties")).saturating_add(most(&[
        "properties",
        "additionalProperties",
        "unevaluatedProperties",
    ]));
    let found = most(&["contains"]);
    let items = found.saturating_add(most(&["prefixItems", "items", "additionalItems", "unevaluatedItems"]));
    let left = most(&LEFTOVERS);
    let marking = sum([1, checked, sum(in_place.iter().map(|visits| visits.marking)), left, found]);
    let asks_what_is_left = LEFTOVERS.iter().any(|name| keywords.contains_key(*name));
    let again = if asks_what_is_left { marking } else { 0 };
    Visits { checking: sum([1, checked, members.max(items).max(most(&["propertyNames"])), again]), marking }
}

fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

/// The schemas of one keyword.
fn parts<'a>(keywords: &'a JsonObject, keyword: &str) -> Vec<&'a Value> {
    match (keyword, keywords.get(keyword)) {
        ("properties" | "patternProperties", Some(Value::Object(named))) => named.values().collect(),
        (_, Some(Value::Array(parts))) => parts.iter().collect(),
        (_, part) => part.into_iter().collect(),
    }
}
