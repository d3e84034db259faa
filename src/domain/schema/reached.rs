//! Which schemas checking a value comes to, and which of them lead back to themselves.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::subschemas::Subschemas;
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

    /// Each once, in the order in which they are come to.
    pub fn all(&self) -> &[&'a Value] {
        &self.all
    }

    pub fn has_circles(&self) -> bool {
        !self.circles.is_empty()
    }

    pub fn contains(&self, schema: *const Value) -> bool {
        self.groups.contains_key(&schema)
    }

    /// Whether it leads back to itself.
    fn is_circle(&self, schema: &Value) -> bool {
        self.circles.contains(&std::ptr::from_ref(schema))
    }

    /// Whether each of them leads to the other.
    pub fn are_one_circle(&self, one: &Value, other: &Value) -> bool {
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
pub fn all_parts<'a>(schema: &'a Value, subschemas: &Subschemas<'a>) -> Vec<&'a Value> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut found = subschemas.in_place(keywords);
    found.extend(BELOW.iter().flat_map(|name| parts(keywords, name)));
    found
}

/// The schemas of one keyword.
pub fn parts<'a>(keywords: &'a JsonObject, keyword: &str) -> Vec<&'a Value> {
    match (keyword, keywords.get(keyword)) {
        ("properties" | "patternProperties", Some(Value::Object(named))) => named.values().collect(),
        (_, Some(Value::Array(parts))) => parts.iter().collect(),
        (_, part) => part.into_iter().collect(),
    }
}
