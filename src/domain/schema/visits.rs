//! How often one part of a value is looked at, at most, told from the schema alone. Parts of a schema that several others
//! refer to are tried once for each way that leads to them, and where there are two ways on each of twenty levels, that is a
//! million times. Whoever checks a value keeps what came out only where a schema leads back to itself.

use std::collections::{HashMap, HashSet};

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

/// The schemas that checking a value comes to, in groups of those that lead to each other.
pub struct ReachedSchemas<'a> {
    all: Vec<&'a Value>,
    groups: HashMap<*const Value, usize>,
    /// Those that lead back to themselves.
    circles: HashSet<*const Value>,
}

impl<'a> ReachedSchemas<'a> {
    /// Those that `root`, which is the schema of `subschemas`, leads to, by Tarjan's way to find them. References lead deeper
    /// than there is room for on the stack.
    pub fn of(root: &'a Value, subschemas: &Subschemas<'a>) -> Self {
        let mut reached = Self { all: Vec::new(), groups: HashMap::new(), circles: HashSet::new() };
        let mut numbers: HashMap<*const Value, usize> = HashMap::new();
        let mut path: Vec<*const Value> = Vec::new();
        let mut open: Vec<OpenSchema<'_>> = Vec::new();
        let mut next = Some(root);
        loop {
            if let Some(schema) = next.take() {
                let number = numbers.len();
                numbers.insert(schema, number);
                reached.all.push(schema);
                path.push(schema);
                open.push(OpenSchema {
                    schema,
                    number,
                    lowest: number,
                    parts: all_parts(schema, subschemas).into_iter(),
                });
            }
            let Some(top) = open.last_mut() else { return reached };
            if let Some(part) = top.parts.next() {
                match numbers.get(&std::ptr::from_ref(part)) {
                    None => next = Some(part),
                    Some(number) if !reached.groups.contains_key(&std::ptr::from_ref(part)) => {
                        top.lowest = top.lowest.min(*number);
                        reached.circles.insert(part);
                    }
                    Some(_) => {}
                }
                continue;
            }
            let Some(done) = open.pop() else { return reached };
            if done.lowest == done.number {
                reached.close(&mut path, &done);
            }
            if let Some(before) = open.last_mut() {
                before.lowest = before.lowest.min(done.lowest);
            }
        }
    }

    /// The group of `done` is whole.
    fn close(&mut self, path: &mut Vec<*const Value>, done: &OpenSchema<'_>) {
        let begin = path.iter().rposition(|schema| *schema == std::ptr::from_ref(done.schema)).unwrap_or(0);
        let group = path.split_off(begin);
        if group.len() > 1 {
            self.circles.extend(&group);
        }
        self.groups.extend(group.into_iter().map(|schema| (schema, done.number)));
    }

    pub fn contains(&self, schema: *const Value) -> bool {
        self.groups.contains_key(&schema)
    }

    /// Whether it leads back to itself: what came out of it for a value is kept while the value is checked.
    pub fn is_circle(&self, schema: &Value) -> bool {
        self.circles.contains(&std::ptr::from_ref(schema))
    }

    fn are_one_circle(&self, one: &Value, other: &Value) -> bool {
        let group = |schema| self.groups.get(&std::ptr::from_ref::<Value>(schema));
        group(one) == group(other) && self.is_circle(one)
    }
}

/// A schema whose parts are looked at.
struct OpenSchema<'a> {
    schema: &'a Value,
    number: usize,
    /// The first schema that is known to be led back to.
    lowest: usize,
    parts: std::vec::IntoIter<&'a Value>,
}

/// The schemas that one leads to.
fn all_parts<'a>(schema: &'a Value, subschemas: &Subschemas<'a>) -> Vec<&'a Value> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut found = subschemas.in_place(keywords);
    found.extend(BELOW.iter().flat_map(|name| parts(keywords, name)));
    found
}

/// In how many ways any of the schemas looks at one and the same value, at most.
pub fn most_in_place<'a>(subschemas: &Subschemas<'a>, reached: &ReachedSchemas<'a>) -> u64 {
    let mut known: HashMap<*const Value, u64> = HashMap::new();
    let mut open: Vec<_> = reached.all.iter().map(|schema| (*schema, false)).collect();
    while let Some((schema, is_ready)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        let parts = subschemas.in_place(keywords);
        if is_ready {
            let ways = parts.into_iter().map(|part| known.get(&std::ptr::from_ref(part)).copied().unwrap_or(1));
            known.insert(schema, sum(ways).saturating_add(1));
        } else if !known.contains_key(&std::ptr::from_ref(schema)) {
            known.insert(schema, 1);
            open.push((schema, true));
            open.extend(parts.into_iter().map(|part| (part, false)));
        }
    }
    known.into_values().max().unwrap_or(1)
}

/// How often the schema of `subschemas` looks at a value and any one part inside of it, together.
pub fn most<'a>(root: &'a Value, subschemas: &Subschemas<'a>, reached: &ReachedSchemas<'a>) -> u64 {
    // As long as a schema is not known: what leads back here is a circle, and is looked at once.
    let once = Visits { checking: 1, marking: 1 };
    // What others have left is asked about without anything being kept.
    let is_kept = !subschemas.has_leftovers();
    let mut known: HashMap<*const Value, Visits> = HashMap::new();
    // References lead deeper than there is room for on the stack.
    let mut open = vec![(root, false)];
    while let Some((schema, is_ready)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        if is_ready {
            let visits = visits_of(keywords, subschemas, |part| {
                let found =
                    known.get(&std::ptr::from_ref(part)).filter(|_| !is_kept || !reached.are_one_circle(schema, part));
                found.copied().unwrap_or(once)
            });
            known.insert(schema, visits);
        } else if !known.contains_key(&std::ptr::from_ref(schema)) {
            known.insert(schema, once);
            open.push((schema, true));
            open.extend(all_parts(schema, subschemas).into_iter().map(|part| (part, false)));
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
