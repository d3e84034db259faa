//! How often one part of a value is looked at, at most, told from the schema alone. Parts of a schema that several others
//! refer to are tried once for each way that leads to them, and where there are two ways on each of twenty levels, that is a
//! million times. Where a schema leads back to itself, each level of the value multiplies once more.

use std::collections::HashMap;

use serde_json::Value;

use super::reached::{ReachedSchemas, all_parts, parts};
use super::subschemas::{LEFTOVERS, Subschemas};
use crate::domain::JsonObject;

/// Bytes of a text that a pattern goes through in a step.
pub const TEXT: u64 = 64;

/// What it takes to look at one value, and at what stands in it on the way to one of its parts.
#[derive(Debug, Clone, Copy)]
struct Visits {
    /// To tell whether it is valid.
    checking: u64,
    /// To tell which of its members or items were looked at, for `unevaluatedProperties` and `unevaluatedItems`: whatever else
    /// looks at the same value is checked once more.
    marking: u64,
}

/// How often the parts of a value are looked at, at most, whatever stands in them.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// In how many ways any of the schemas looks at one and the same value.
    pub in_place: u64,
    /// How often a value and one part inside of it are looked at, together. What leads back to itself is counted once.
    pub to_a_part: u64,
    /// How many of the schemas in place look at one member or item, where some lead back to themselves: each level of a value
    /// multiplies by it.
    below: Option<u64>,
}

impl Bound {
    /// That of `root`, the schema of `subschemas`; `None` where a schema leads back to itself for one and the same value.
    pub fn of<'a>(root: &'a Value, subschemas: &Subschemas<'a>, reached: &ReachedSchemas<'a>) -> Option<Self> {
        let in_place = most_of_any(subschemas, reached, (1, 0))?;
        let below = if reached.has_circles() { Some(most_of_any(subschemas, reached, (0, 1))?) } else { None };
        Some(Self { in_place, to_a_part: most(root, subschemas, reached), below })
    }

    /// Of all parts of `value` together, where a text counts for its length too.
    pub fn of_value(&self, value: &Value) -> u64 {
        self.of_part(value, if self.below.is_some() { self.in_place } else { self.to_a_part })
    }

    fn of_part(&self, value: &Value, ways: u64) -> u64 {
        let inside = ways.saturating_mul(self.below.unwrap_or(1));
        let of_parts = match value {
            Value::Array(items) => sum(items.iter().map(|item| self.of_part(item, inside))),
            Value::Object(members) => sum(members.iter().map(|(name, member)| {
                self.of_part(member, inside).saturating_add(inside.saturating_mul(name.len() as u64 / TEXT))
            })),
            Value::String(text) => ways.saturating_mul(text.len() as u64 / TEXT),
            _ => 0,
        };
        of_parts.saturating_add(ways)
    }
}

/// What any of the schemas in place takes, at most, where each of them takes `once` and each that looks at what stands in the
/// value `below`; `None` where one leads back to itself.
fn most_of_any<'a>(
    subschemas: &Subschemas<'a>,
    reached: &ReachedSchemas<'a>,
    (once, below): (u64, u64),
) -> Option<u64> {
    // Of those that are being counted: nothing.
    let mut known: HashMap<*const Value, Option<Visits>> = HashMap::new();
    let mut open: Vec<_> = reached.all().iter().map(|schema| (*schema, false)).collect();
    while let Some((schema, is_ready)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        if is_ready {
            let in_place = |part: &Value| {
                let counted = known.get(&std::ptr::from_ref(part)).copied().flatten();
                counted.unwrap_or(Visits { checking: once, marking: once })
            };
            let visits = visits_of(keywords, subschemas, once, in_place, |_| below);
            known.insert(schema, Some(visits));
            continue;
        }
        match known.get(&std::ptr::from_ref(schema)) {
            None => {
                known.insert(schema, None);
                open.push((schema, true));
                open.extend(subschemas.in_place(keywords).into_iter().map(|part| (part, false)));
            }
            Some(None) => return None,
            Some(Some(_)) => {}
        }
    }
    Some(known.into_values().flatten().map(|visits| visits.checking).max().unwrap_or(once))
}

/// How often the schema of `subschemas` looks at a value and any one part inside of it, together.
fn most<'a>(root: &'a Value, subschemas: &Subschemas<'a>, reached: &ReachedSchemas<'a>) -> u64 {
    // As long as a schema is not known: what leads back here is a circle, and is looked at once.
    let once = Visits { checking: 1, marking: 1 };
    let mut known: HashMap<*const Value, Visits> = HashMap::new();
    // References lead deeper than there is room for on the stack.
    let mut open = vec![(root, false)];
    while let Some((schema, is_ready)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        if is_ready {
            let of = |part: &Value| {
                let found = known.get(&std::ptr::from_ref(part)).filter(|_| !reached.are_one_circle(schema, part));
                found.copied().unwrap_or(once)
            };
            let visits = visits_of(keywords, subschemas, 1, of, |part| of(part).checking);
            known.insert(schema, visits);
        } else if !known.contains_key(&std::ptr::from_ref(schema)) {
            known.insert(schema, once);
            open.push((schema, true));
            open.extend(all_parts(schema, subschemas).into_iter().map(|part| (part, false)));
        }
    }
    known.get(&std::ptr::from_ref(root)).map_or(1, |visits| visits.checking)
}

/// What a schema takes: itself `once`, and what it leads to.
fn visits_of(
    keywords: &JsonObject,
    subschemas: &Subschemas<'_>,
    once: u64,
    of: impl Fn(&Value) -> Visits,
    below: impl Fn(&Value) -> u64,
) -> Visits {
    let checking = |name: &str| parts(keywords, name).into_iter().map(&below);
    let most = |names: &[&str]| names.iter().flat_map(|name| checking(name)).max().unwrap_or(0);
    let in_place: Vec<_> = subschemas.in_place(keywords).into_iter().map(&of).collect();
    let checked = sum(in_place.iter().map(|visits| visits.checking));
    // A member has one name, which may fit many patterns.
    let named = most(&["properties", "additionalProperties", "unevaluatedProperties"]);
    let members = sum(checking("patternProperties").chain([named, most(&["propertyNames"])]));
    let found = most(&["contains"]);
    let items = found.saturating_add(most(&["prefixItems", "items", "additionalItems", "unevaluatedItems"]));
    let left = most(&LEFTOVERS);
    let marking = sum([once, checked, sum(in_place.iter().map(|visits| visits.marking)), left, found]);
    let asks_what_is_left = LEFTOVERS.iter().any(|name| keywords.contains_key(*name));
    let again = if asks_what_is_left { marking } else { 0 };
    Visits { checking: sum([once, checked, members.max(items), again]), marking }
}

fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}
