//! Counts how often the parts of a value are looked at, each by each part of a schema: every such pair once, with what it
//! takes added up, however many ways lead to it.
//!
//! Whoever only asks whether a value is valid leaves a schema at the first that does not fit. Of that is counted what is
//! certain: of a union of twenty kinds, each with a `const` of its own, nineteen are left before anything deeper is looked at.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::subschemas::{LEFTOVERS, Subschemas};
use crate::domain::JsonObject;

/// How many steps one inside of another fit on a stack.
pub const MOST_DEEP: usize = 1500;
/// Of how many parts it is kept what they cost: that is memory. What has more is not counted to its end.
const MOST_KEPT: usize = 900_000;
/// What takes no more is as soon counted again as found.
const FEWEST_KEPT: u64 = 16;
/// How often parts are looked at to count: about a second.
const MOST_LOOKED: usize = 10_000_000;
/// Up to how many values of an `enum` are compared.
const MOST_VALUES: usize = 32;

/// What one part of a schema takes for one part of a value.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// To tell whether it is valid.
    pub checking: u64,
    /// To tell which of its members or items were looked at.
    marking: u64,
    /// Whether it is certain not to fit.
    fails: bool,
}

impl Count {
    const fn once(fails: bool) -> Self {
        Self { checking: 1, marking: 1, fails }
    }

    /// Adds what looks at the same value.
    fn add(&mut self, part: Self) {
        self.checking = self.checking.saturating_add(part.checking);
        self.add_marking(part);
    }

    /// What does not fit is asked whether it does, and marks nothing.
    fn add_marking(&mut self, part: Self) {
        let marking = if part.fails { 0 } else { part.marking };
        self.marking = self.marking.saturating_add(part.checking).saturating_add(marking);
    }
}

/// What looks at what stands in a value.
#[derive(Debug, Default)]
struct Below {
    checking: u64,
    /// Of that, what is looked at once more to tell what others have left.
    left: u64,
    fails: bool,
}

impl Below {
    fn add(&mut self, part: Count) {
        self.checking = self.checking.saturating_add(part.checking);
    }
}

/// A part of the schema and one of the value, by where they are in memory.
type Pair = (*const Value, *const Value);

pub struct Counting<'a> {
    pub root: &'a Value,
    pub subschemas: Subschemas<'a>,
    /// Of those that are being counted: one, since a schema that is its own part is looked at once.
    known: HashMap<Pair, Count>,
    patterns: HashMap<*const u8, Option<Regex>>,
    /// Whether what does not fit is left at the first that is seen.
    is_brief: bool,
    /// What a name takes that `propertyNames` looks at.
    of_name: u64,
    looked: usize,
    pub is_too_deep: bool,
    pub is_cut: bool,
}

impl<'a> Counting<'a> {
    /// All that may be looked at, as by whoever wants to know everything that is wrong.
    pub fn of_all(root: &'a Value) -> Self {
        Self {
            root,
            subschemas: Subschemas::of(root),
            known: HashMap::new(),
            patterns: HashMap::new(),
            is_brief: false,
            of_name: 1,
            looked: 0,
            is_too_deep: false,
            is_cut: false,
        }
    }

    /// As by whoever only asks whether a value is valid, and looks at the members of an object in their order.
    pub fn of_checking(root: &'a Value, of_name: u64) -> Self {
        Self { is_brief: true, of_name, ..Self::of_all(root) }
    }

    /// How many pairs were counted.
    pub fn pairs(&self) -> usize {
        self.known.len()
    }

    pub fn count(&mut self, schema: &'a Value, value: &Value, depth: usize) -> Count {
        let Value::Object(keywords) = schema else {
            return Count::once(self.is_brief && *schema == Value::Bool(false));
        };
        self.looked += 1;
        let is_other = self.leaves_early(keywords) && is_other(keywords, value, self.subschemas.is_of_draft_4());
        if is_other && !self.subschemas.has_leftovers() {
            return Count::once(true);
        }
        let pair: Pair = (schema, value);
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        if depth > MOST_DEEP {
            self.is_too_deep = true;
            return Count::once(false);
        }
        self.is_cut |= self.known.len() >= MOST_KEPT || self.looked >= MOST_LOOKED;
        if self.is_cut {
            return Count::once(false);
        }
        if !self.is_brief {
            self.known.insert(pair, Count::once(false));
        }
        let mut count = self.parts(keywords, value, depth + 1);
        if is_other {
            count = Count { checking: 1, fails: true, ..count };
        }
        if !self.is_brief || count.checking > FEWEST_KEPT {
            self.known.insert(pair, count);
        }
        count
    }

    /// Whether what does not fit ends all that a schema says. Beside a `$ref` nothing else counts in old drafts.
    fn leaves_early(&self, keywords: &JsonObject) -> bool {
        self.is_brief && !keywords.contains_key("$ref")
    }

    fn parts(&mut self, keywords: &'a JsonObject, value: &Value, depth: usize) -> Count {
        let below = match value {
            Value::Object(members) => self.members(keywords, members, depth),
            Value::Array(items) => self.items(keywords, items, depth),
            _ => Below::default(),
        };
        let (checking, marking) = (below.checking.saturating_add(1), below.left.saturating_add(1));
        let mut count = Count { checking, marking, fails: below.fails };
        if below.fails && !self.subschemas.has_leftovers() {
            return count;
        }
        for (keyword, part) in keywords {
            match (keyword.as_str(), part) {
                ("not" | "if" | "then" | "else", _) => count.add(self.count(part, value, depth)),
                ("allOf", Value::Array(several)) => {
                    let fails = self.all_of(several, value, depth, &mut count);
                    count.fails |= fails && self.leaves_early(keywords);
                }
                ("anyOf" | "oneOf", Value::Array(several)) => {
                    let mut fail = self.leaves_early(keywords);
                    for part in several {
                        let of_part = self.count(part, value, depth);
                        count.add(of_part);
                        fail &= of_part.fails;
                    }
                    count.fails |= fail;
                }
                ("dependentSchemas" | "dependencies", Value::Object(named)) => {
                    named.values().for_each(|part| count.add(self.count(part, value, depth)));
                }
                _ => {}
            }
        }
        for part in self.subschemas.referred_by(keywords).collect::<Vec<_>>() {
            let of_part = self.count(part, value, depth);
            // Whatever is referred to marks, whether it fits or not.
            count.add(Count { fails: false, ..of_part });
            count.fails |= of_part.fails && keywords.contains_key("$ref");
        }
        if LEFTOVERS.iter().any(|name| keywords.contains_key(*name)) {
            count.checking = count.checking.saturating_add(count.marking);
        }
        count
    }

    /// Adds all of them to `count`, up to one that does not fit. Whether there is one.
    fn all_of(&mut self, several: &'a [Value], value: &Value, depth: usize, count: &mut Count) -> bool {
        let mut fails = false;
        for part in several {
            let of_part = self.count(part, value, depth);
            if fails {
                count.add_marking(of_part);
            } else {
                count.add(of_part);
            }
            fails |= of_part.fails;
            if fails && !self.subschemas.has_leftovers() {
                break;
            }
        }
        fails
    }

    fn members(&mut self, keywords: &'a JsonObject, members: &JsonObject, depth: usize) -> Below {
        let object = |name: &str| keywords.get(name).and_then(Value::as_object);
        let (named, patterns) = (object("properties"), object("patternProperties"));
        let mut below = Below::default();
        for (name, member) in members {
            let part = named.and_then(|named| named.get(name));
            let mut is_named = part.is_some();
            if let Some(part) = part {
                let of_member = self.count(part, member, depth);
                below.add(of_member);
                below.fails |= of_member.fails && self.leaves_early(keywords);
            }
            for (pattern, part) in patterns.into_iter().flatten() {
                if self.fits(pattern, name) {
                    is_named = true;
                    below.add(self.count(part, member, depth));
                }
            }
            if !is_named {
                keywords
                    .get("additionalProperties")
                    .into_iter()
                    .for_each(|part| below.add(self.count(part, member, depth)));
                if let Some(part) = keywords.get("unevaluatedProperties") {
                    let of_member = self.count(part, member, depth);
                    below.add(of_member);
                    below.left = below.left.saturating_add(of_member.checking);
                }
            }
            if below.fails && !self.subschemas.has_leftovers() {
                break;
            }
        }
        if let Some(named) = named.filter(|named| below.fails && members.len() > named.len()) {
            below.checking = below.checking.max(self.in_order_of_the_schema(named, members, depth));
        }
        if keywords.contains_key("propertyNames") {
            below.checking = below.checking.saturating_add(self.of_name.saturating_mul(members.len() as u64));
        }
        below
    }

    /// Of an object with more members than its schema names, those are looked at that it names, one after the other.
    fn in_order_of_the_schema(&mut self, named: &'a JsonObject, members: &JsonObject, depth: usize) -> u64 {
        let mut checking = 0_u64;
        for (name, part) in named {
            let Some(member) = members.get(name) else { continue };
            let of_member = self.count(part, member, depth);
            checking = checking.saturating_add(of_member.checking);
            if of_member.fails {
                break;
            }
        }
        checking
    }

    fn items(&mut self, keywords: &'a JsonObject, items: &[Value], depth: usize) -> Below {
        let mut below = Below::default();
        for (keyword, part) in keywords {
            match (keyword.as_str(), part) {
                ("prefixItems" | "items", Value::Array(parts)) => {
                    parts.iter().zip(items).for_each(|(part, item)| below.add(self.count(part, item, depth)));
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                    for item in items.iter().skip(self.first_item(keywords, keyword)) {
                        let of_item = self.count(part, item, depth);
                        below.add(of_item);
                        if matches!(keyword.as_str(), "unevaluatedItems" | "contains") {
                            below.left = below.left.saturating_add(of_item.checking);
                        }
                    }
                }
                _ => {}
            }
        }
        below
    }

    /// From which item on a keyword looks at them.
    fn first_item(&self, keywords: &JsonObject, keyword: &str) -> usize {
        let before = match keyword {
            "items" if self.subschemas.is_of_latest_draft() => keywords.get("prefixItems"),
            "additionalItems" => keywords.get("items"),
            _ => None,
        };
        before.and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Whether a name fits a pattern, as whoever checks values reads it; of one that is none here, yes.
    fn fits(&mut self, pattern: &str, name: &str) -> bool {
        let compiled = self.patterns.entry(pattern.as_ptr()).or_insert_with(|| {
            jsonschema_regex::to_rust_regex(pattern).ok().and_then(|pattern| Regex::new(&pattern).ok())
        });
        compiled.as_ref().is_none_or(|compiled| compiled.is_match(name))
    }
}

/// Whether it is certain that a schema does not fit a value, by what is looked at before anything else.
fn is_other(keywords: &JsonObject, value: &Value, is_of_draft_4: bool) -> bool {
    let is_of_no_type = match keywords.get("type") {
        Some(Value::String(kind)) => is_not_a(kind, value),
        Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind.as_str().is_some_and(|kind| is_not_a(kind, value))),
        _ => false,
    };
    let is_none_of = |values: &Vec<Value>| {
        !values.is_empty() && values.len() <= MOST_VALUES && values.iter().all(|wanted| differ(wanted, value))
    };
    is_of_no_type
        || !is_of_draft_4 && keywords.get("const").is_some_and(|wanted| differ(wanted, value))
        || keywords.get("enum").and_then(Value::as_array).is_some_and(is_none_of)
}

fn is_not_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => !value.is_null(),
        "boolean" => !value.is_boolean(),
        "integer" | "number" => !value.is_number(),
        "string" => !value.is_string(),
        "array" => !value.is_array(),
        "object" => !value.is_object(),
        _ => false,
    }
}

/// Whether two values are certain not to be the same; one number can be written in several ways.
fn differ(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one != other,
        (Value::Bool(one), Value::Bool(other)) => one != other,
        (Value::Number(one), Value::Number(other)) => {
            one.as_i64().zip(other.as_i64()).is_some_and(|(one, other)| one != other)
        }
        _ => std::mem::discriminant(one) != std::mem::discriminant(other),
    }
}
