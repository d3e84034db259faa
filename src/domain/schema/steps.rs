//! How much work it is to check a value, and to say what is wrong with it, told before it is done. A schema that refers to itself
//! in several ways, such as that of a formula (`and` and `or`, each of two formulas), has each part of a value tried in every way
//! that leads there: the deeper it nests, the more ways there are, and their number doubles with every level. What whoever checks
//! it keeps meanwhile depends on where in the schema its references stand, and is not counted on.

use std::collections::HashMap;

use serde_json::Value;

use super::counting::{Counting, MOST_DEEP};
use super::subschemas::Subschemas;
use super::visits::{Bound, TEXT};

/// How often everything may be looked at, on average. A schema that does not refer to itself in several ways has each part
/// looked at a few times.
const MOST_TIMES: u64 = 20;

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
    /// Whether there may be no room on a stack for what a schema whose longest chain is `chain` takes for `value`, told without
    /// counting: each level of the value takes the longest chain at most.
    pub fn may_be_too_deep(chain: Option<usize>, value: &Value) -> bool {
        chain.is_none_or(|chain| levels(value).saturating_mul(chain) > MOST_DEEP)
    }

    /// Those that `schema` takes to say all that is wrong with `value`. Without references nothing is looked at twice, and they
    /// are not counted.
    pub fn of(schema: &Value, value: &Value) -> Self {
        let counting = Counting::of_all(schema);
        if counting.subschemas.refers() {
            return Self::counted(counting, value);
        }
        Self { all: 0, once: 0, is_too_deep: false, is_cut: false }
    }

    /// Whether it may take more than `most` steps to tell that `value`, whose scalars come first, is valid, where a text takes
    /// some for its length.
    pub fn may_be_more_than(most: u64, bound: &Bound, schema: &Value, value: &Value) -> bool {
        let counting = Counting::of_checking(schema, bound.in_place);
        let texts = if counting.subschemas.patterns().is_empty() { 1 } else { longest_text(value) / TEXT + 1 };
        let steps = Self::counted(counting, value);
        steps.are_too_deep() || steps.all.saturating_mul(texts) > most
    }

    fn counted(mut counting: Counting<'_>, value: &Value) -> Self {
        let all = counting.count(counting.root, value, 0).checking;
        let once = counting.pairs() as u64;
        Self { all, once, is_too_deep: counting.is_too_deep, is_cut: counting.is_cut }
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

/// How many parts of the schema `root`, each reached from the one before, look at one and the same value at most; `None` where
/// they lead back to themselves, or there are more than there is room for. Without references it is no matter.
pub fn longest_chain<'a>(root: &'a Value, subschemas: &Subschemas<'a>) -> Option<usize> {
    if subschemas.refers() { chain_in(subschemas, root, &mut HashMap::new()) } else { Some(0) }
}

/// The same, of those that begin anywhere in `schema`.
fn chain_in<'a>(subschemas: &Subschemas<'a>, schema: &'a Value, known: &mut Chains) -> Option<usize> {
    let parts: Vec<&Value> = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => return Some(1),
    };
    let mut longest = chain(subschemas, schema, known, 0)?;
    for part in parts {
        longest = longest.max(chain_in(subschemas, part, known)?);
    }
    Some(longest)
}

/// Of schemas, by where they are in memory.
type Chains = HashMap<*const Value, Option<usize>>;

fn chain<'a>(subschemas: &Subschemas<'a>, schema: &'a Value, known: &mut Chains, depth: usize) -> Option<usize> {
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
    for part in subschemas.in_place(keywords) {
        longest = longest.max(chain(subschemas, part, known, depth + 1)?);
    }
    known.insert(schema, Some(longest + 1));
    Some(longest + 1)
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

/// `value` with what is no list and no object first, in all of its objects: that is cheap to look at, and tells kinds apart.
pub fn scalars_first(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(scalars_first).collect(),
        Value::Object(members) => {
            let (inner, scalars): (Vec<_>, Vec<_>) =
                members.iter().partition(|(_, member)| member.is_array() || member.is_object());
            let sorted = scalars.into_iter().chain(inner);
            Value::Object(sorted.map(|(name, member)| (name.clone(), scalars_first(member))).collect())
        }
        scalar => scalar.clone(),
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
