//! How much work it is to say what is wrong with a value, told before it is done. A schema that refers to itself in several
//! ways, such as that of a formula (`and` and `or`, each of two formulas), has each part of a value tried in every way that
//! leads there: the deeper it nests, the more ways there are, and their number doubles with every level. Whether a value is
//! valid is kept by whoever checks it, for each part of a schema that leads back to itself; what is wrong with it is not.
//!
//! Each part of the value is looked at with each part of the schema once here, and what that costs is added up.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::subschemas::Subschemas;
use super::visits::ReachedSchemas;
use crate::domain::JsonObject;

/// How many steps one inside of another fit on a stack.
const MOST_DEEP: usize = 1500;
/// How often everything may be looked at, on average. A schema that does not refer to itself in several ways has each part
/// looked at a few times.
const MOST_TIMES: u64 = 20;
/// Of how many parts it is kept what they cost: that is memory. What has more is not counted to its end.
const MOST_KEPT: usize = 900_000;

/// Bytes of a text that a pattern goes through in a step.
const TEXT: u64 = 64;

/// What it takes to check a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// How many parts are looked at, as often as they are.
    all: u64,
    /// How many they are.
    once: u64,
    /// Whether they stand deeper in each other than there is room for.
    is_too_deep: bool,
    /// Whether there are more than were counted.
    is_cut: bool,
}

impl Steps {
    /// Whether there may be no room on a stack for what `schema` and `value` take, told without counting: each level of the
    /// value takes the longest chain of parts that look at one and the same, at most.
    pub fn may_be_too_deep(schema: &Value, value: &Value) -> bool {
        let counting = Counting::new(schema);
        counting.subschemas.refers()
            && counting.longest_chain().is_none_or(|chain| levels(value).saturating_mul(chain) > MOST_DEEP)
    }

    /// Those that `schema` takes for `value`. Without references nothing is looked at twice, and they are not counted.
    pub fn of(schema: &Value, value: &Value) -> Self {
        let counting = Counting::new(schema);
        if counting.subschemas.refers() {
            return counting.count(value);
        }
        Self { all: 0, once: 0, is_too_deep: false, is_cut: false }
    }

    /// Whether it may take more than `most` steps to tell that `value` is valid, where a text takes some for its length, and
    /// each part is looked at `visits` times at most.
    pub fn may_be_more_than(most: u64, visits: u64, schema: &Value, value: &Value) -> bool {
        let mut counting = Counting::new(schema);
        let texts = if counting.subschemas.patterns().is_empty() { 1 } else { longest_text(value) / TEXT + 1 };
        let is_more = |steps: u64| steps.saturating_mul(texts) > most;
        if !is_more(visits.saturating_mul(parts(value))) {
            return false;
        }
        // What is asked about what others have left is not counted.
        if counting.subschemas.has_leftovers() {
            return true;
        }
        counting.kept = Some(ReachedSchemas::of(schema, &counting.subschemas));
        let steps = counting.count(value);
        steps.is_cut || is_more(steps.all)
    }

    /// Whether they are more than `most`, and not because the value is large.
    pub fn are_more_than(&self, most: u64) -> bool {
        self.is_cut || self.all > most && self.all > self.once.saturating_mul(MOST_TIMES)
    }

    /// Whether there is no room on a stack for all that stand in each other, as far as they were counted.
    pub fn are_too_deep(&self) -> bool {
        self.is_too_deep || self.is_cut
    }
}

/// A part of the schema and one of the value, by where they are in memory.
type Pair = (*const Value, *const Value);

struct Counting<'a> {
    root: &'a Value,
    subschemas: Subschemas<'a>,
    /// Of those that are being counted: one, since a schema that is its own part is looked at once.
    known: HashMap<Pair, u64>,
    patterns: HashMap<*const u8, Option<Regex>>,
    /// Where what came out of circles is kept: a part that is looked at once more costs a step.
    kept: Option<ReachedSchemas<'a>>,
    is_too_deep: bool,
    is_cut: bool,
}

impl<'a> Counting<'a> {
    fn count(mut self, value: &Value) -> Steps {
        let all = self.steps(self.root, value, 0);
        Steps { all, once: self.known.len() as u64, is_too_deep: self.is_too_deep, is_cut: self.is_cut }
    }

    fn new(root: &'a Value) -> Self {
        let subschemas = Subschemas::of(root);
        Self {
            root,
            subschemas,
            known: HashMap::new(),
            patterns: HashMap::new(),
            kept: None,
            is_too_deep: false,
            is_cut: false,
        }
    }

    fn steps(&mut self, schema: &'a Value, value: &Value, depth: usize) -> u64 {
        let Value::Object(keywords) = schema else { return 1 };
        let pair: Pair = (schema, value);
        if let Some(known) = self.known.get(&pair) {
            let is_kept = self.kept.as_ref().is_some_and(|reached| reached.is_circle(schema));
            return if is_kept { 1 } else { *known };
        }
        if depth > MOST_DEEP {
            self.is_too_deep = true;
            return 1;
        }
        self.is_cut |= self.known.len() >= MOST_KEPT;
        if self.is_cut {
            return 1;
        }
        self.known.insert(pair, 1);
        let mut all = 1_u64;
        for part in self.subschemas.in_place(keywords) {
            all = all.saturating_add(self.steps(part, value, depth + 1));
        }
        for (keyword, part) in keywords {
            all = all.saturating_add(self.of_keyword(keywords, (keyword, part), value, depth + 1));
        }
        self.known.insert(pair, all);
        all
    }

    fn of_keyword(
        &mut self,
        keywords: &'a JsonObject,
        (keyword, part): (&str, &'a Value),
        value: &Value,
        depth: usize,
    ) -> u64 {
        match (keyword, part, value) {
            ("properties", Value::Object(parts), Value::Object(members)) => {
                self.sum(parts.iter().filter_map(|(name, part)| Some((part, members.get(name)?))), depth)
            }
            ("patternProperties", Value::Object(parts), Value::Object(members)) => {
                let mut all = 0_u64;
                for (pattern, part) in parts {
                    for (_, member) in members.iter().filter(|(name, _)| self.fits(pattern, name)).collect::<Vec<_>>() {
                        all = all.saturating_add(self.steps(part, member, depth));
                    }
                }
                all
            }
            ("additionalProperties" | "unevaluatedProperties", _, Value::Object(members)) => {
                let named = keywords.get("properties").and_then(Value::as_object);
                let patterns = keywords.get("patternProperties").and_then(Value::as_object);
                let mut is_named = |name: &String| {
                    named.is_some_and(|named| named.contains_key(name))
                        || patterns.is_some_and(|patterns| patterns.keys().any(|pattern| self.fits(pattern, name)))
                };
                let others: Vec<_> = members.iter().filter(|(name, _)| !is_named(name)).collect();
                self.sum(others.into_iter().map(|(_, member)| (part, member)), depth)
            }
            ("propertyNames", _, Value::Object(members)) => members.len() as u64,
            ("prefixItems", Value::Array(parts), Value::Array(items))
            | ("items", Value::Array(parts), Value::Array(items)) => self.sum(parts.iter().zip(items), depth),
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", _, Value::Array(items)) => {
                let before = ["prefixItems", "items"].iter().find_map(|name| keywords.get(*name)?.as_array());
                let first = if keyword == "contains" { 0 } else { before.map_or(0, Vec::len) };
                self.sum(items.iter().skip(first).map(|item| (part, item)), depth)
            }
            _ => 0,
        }
    }

    fn sum<'v>(&mut self, pairs: impl Iterator<Item = (&'a Value, &'v Value)>, depth: usize) -> u64 {
        pairs.fold(0, |all: u64, (schema, value)| all.saturating_add(self.steps(schema, value, depth)))
    }

    /// How many parts of the schema, each reached from the one before, look at one and the same value at most; `None` where they
    /// lead back to themselves, or there are more than there is room for.
    fn longest_chain(&self) -> Option<usize> {
        let mut known = HashMap::new();
        self.chain_in(self.root, &mut known)
    }

    /// The same, of those that begin anywhere in `schema`.
    fn chain_in(&self, schema: &'a Value, known: &mut HashMap<*const Value, Option<usize>>) -> Option<usize> {
        let parts: Vec<&Value> = match schema {
            Value::Object(members) => members.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => return Some(1),
        };
        let mut longest = self.chain(schema, known, 0)?;
        for part in parts {
            longest = longest.max(self.chain_in(part, known)?);
        }
        Some(longest)
    }

    fn chain(
        &self,
        schema: &'a Value,
        known: &mut HashMap<*const Value, Option<usize>>,
        depth: usize,
    ) -> Option<usize> {
        let Value::Object(keywords) = schema else { return Some(1) };
        if let Some(found) = known.get(&std::ptr::from_ref(schema)) {
            return *found;
        }
        if depth > MOST_DEEP {
            return None;
        }
        // As long as it is not known: what leads back here is a circle.
        known.insert(schema, None);
        let mut longest = 0;
        for part in self.subschemas.in_place(keywords) {
            longest = longest.max(self.chain(part, known, depth + 1)?);
        }
        known.insert(schema, Some(longest + 1));
        Some(longest + 1)
    }

    /// Whether a name fits a pattern; of one that is none here, yes.
    fn fits(&mut self, pattern: &str, name: &str) -> bool {
        let compiled = self.patterns.entry(pattern.as_ptr()).or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|compiled| compiled.is_match(name))
    }
}

/// How deep a value nests.
fn levels(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(levels).max(),
        Value::Object(members) => members.values().map(levels).max(),
        _ => None,
    };
    deepest.unwrap_or_default() + 1
}

/// How many parts a value has: itself, and all that stands in it.
fn parts(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(parts).sum::<u64>() + 1,
        Value::Object(members) => members.values().map(parts).sum::<u64>() + 1,
        _ => 1,
    }
}

/// Bytes of the longest text in a value.
fn longest_text(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(members) => {
            members.iter().map(|(name, member)| longest_text(member).max(name.len() as u64)).max().unwrap_or(0)
        }
        _ => 0,
    }
}
