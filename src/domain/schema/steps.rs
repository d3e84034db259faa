//! How much work it is to say what is wrong with a value, told before it is done. A schema that refers to itself in several
//! ways, such as that of a formula (`and` and `or`, each of two formulas), has each part of a value tried in every way that
//! leads there: the deeper it nests, the more ways there are, and their number doubles with every level. Whether a value is
//! valid is kept by whoever checks it, for each part of a schema that leads back to itself; what is wrong with it is not.
//!
//! Each part of the value is looked at with each part of the schema once here, and what that costs is added up.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use crate::domain::JsonObject;

/// How many steps one inside of another fit on a stack.
const MOST_DEEP: usize = 1500;
/// How often everything may be looked at, on average. A schema that does not refer to itself in several ways has each part
/// looked at a few times.
const MOST_TIMES: u64 = 20;
/// Of how many parts it is kept what they cost: that is memory. What has more is not counted to its end.
const MOST_KEPT: usize = 900_000;

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
        refers(schema)
            && Counting::new(schema).longest_chain().is_none_or(|chain| levels(value).saturating_mul(chain) > MOST_DEEP)
    }

    /// Those that `schema` takes for `value`.
    pub fn of(schema: &Value, value: &Value) -> Self {
        // Without references nothing is looked at twice.
        if !refers(schema) {
            return Self { all: 0, once: 0, is_too_deep: false, is_cut: false };
        }
        let mut counting = Counting::new(schema);
        let all = counting.steps(schema, value, 0);
        let Counting { known, is_too_deep, is_cut, .. } = counting;
        Self { all, once: known.len() as u64, is_too_deep, is_cut }
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

/// Whether some part of `schema` looks at one and the same value in more than `most` ways.
pub fn branches_more_than(schema: &Value, most: u64) -> bool {
    let mut counting = Counting::new(schema);
    refers(schema) && counting.any_part(schema, most)
}

/// Whether anything in `schema` is a reference, or looks like one.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            ["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|name| members.contains_key(*name))
                || members.values().any(refers)
        }
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// A part of the schema and one of the value, by where they are in memory.
type Pair = (*const Value, *const Value);

struct Counting<'a> {
    root: &'a Value,
    /// Its parts that are called something.
    anchors: HashMap<&'a str, &'a Value>,
    /// Of those that are being counted: one, since a schema that is its own part is looked at once.
    known: HashMap<Pair, u64>,
    patterns: HashMap<*const u8, Option<Regex>>,
    is_too_deep: bool,
    is_cut: bool,
}

impl<'a> Counting<'a> {
    fn new(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        find_anchors(root, &mut anchors);
        Self { root, anchors, known: HashMap::new(), patterns: HashMap::new(), is_too_deep: false, is_cut: false }
    }

    /// Whether some part of `schema` takes more than `most` steps for what has no parts.
    fn any_part(&mut self, schema: &'a Value, most: u64) -> bool {
        static NOTHING: Value = Value::Null;
        match schema {
            Value::Object(members) => {
                self.steps(schema, &NOTHING, 0) > most || members.values().any(|part| self.any_part(part, most))
            }
            Value::Array(items) => items.iter().any(|part| self.any_part(part, most)),
            _ => false,
        }
    }

    fn steps(&mut self, schema: &'a Value, value: &Value, depth: usize) -> u64 {
        let Value::Object(keywords) = schema else { return 1 };
        let pair: Pair = (schema, value);
        if let Some(known) = self.known.get(&pair) {
            return *known;
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
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target), _) => {
                self.referred(target).map_or(0, |schema| self.steps(schema, value, depth))
            }
            ("not" | "if" | "then" | "else", _, _) => self.steps(part, value, depth),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => {
                self.sum(parts.iter().map(|part| (part, value)), depth)
            }
            ("dependentSchemas" | "dependencies", Value::Object(parts), _) => {
                self.sum(parts.values().map(|part| (part, value)), depth)
            }
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
        for (keyword, part) in keywords {
            let next: Vec<&'a Value> = match (keyword.as_str(), part) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.referred(target).into_iter().collect()
                }
                ("not" | "if" | "then" | "else", _) => vec![part],
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter().collect(),
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => parts.values().collect(),
                _ => continue,
            };
            for part in next {
                longest = longest.max(self.chain(part, known, depth + 1)?);
            }
        }
        known.insert(schema, Some(longest + 1));
        Some(longest + 1)
    }

    /// What a reference into the same document leads to.
    fn referred(&self, target: &str) -> Option<&'a Value> {
        let fragment = decoded(target.strip_prefix('#')?);
        match self.anchors.get(fragment.as_str()) {
            Some(part) => Some(part),
            None => self.root.pointer(&fragment),
        }
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

/// The parts of a schema by what they are called; of two of one name the first.
fn find_anchors<'a>(schema: &'a Value, found: &mut HashMap<&'a str, &'a Value>) {
    match schema {
        Value::Object(members) => {
            let names = ["$anchor", "$dynamicAnchor"].iter().filter_map(|keyword| members.get(*keyword)?.as_str());
            for name in names {
                found.entry(name).or_insert(schema);
            }
            members.values().for_each(|part| find_anchors(part, found));
        }
        Value::Array(items) => items.iter().for_each(|part| find_anchors(part, found)),
        _ => {}
    }
}

/// A part of a URI without its percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.split_at_checked(2).filter(|_| *first == b'%');
        let byte =
            hex.and_then(|(two, rest)| Some((u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()?, rest)));
        let (byte, after) = byte.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
