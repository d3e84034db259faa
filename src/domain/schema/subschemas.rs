//! Where in a JSON text schemas stand, and what a reference leads to. A schema may come from anybody: an MCP server sends those
//! of its tools. Whoever checks values follows references by rules that differ from draft to draft; what does not lead to a
//! schema for certain is refused here, so that nothing is followed there that was not counted before.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::domain::JsonObject;

/// The keywords that refer.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The keywords about what no other has looked at.
pub const LEFTOVERS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// The schemas of a text, their names and what they refer to.
pub struct Subschemas<'a> {
    root: &'a Value,
    /// By where they are in memory.
    schemas: HashSet<*const Value>,
    /// By `$anchor` and `$dynamicAnchor`; `None` where it is not certain which is meant.
    anchors: HashMap<&'a str, Option<&'a Value>>,
    references: Vec<Reference<'a>>,
    /// What references lead to, by where their texts are in memory.
    targets: HashMap<*const u8, &'a Value>,
    patterns: HashSet<&'a str>,
    /// Whether one of them asks what no other has looked at.
    has_leftovers: bool,
    /// Of which drafts its parts say that they are; those that say nothing are of the latest.
    drafts: Vec<&'a str>,
}

struct Reference<'a> {
    /// Which schema has it, by where that is in memory.
    place: *const Value,
    keyword: &'a str,
    target: &'a str,
    /// Whether it stands in a part that names itself (`$id`), from which it would count.
    is_in_named: bool,
}

impl<'a> Subschemas<'a> {
    pub fn of(root: &'a Value) -> Self {
        let mut found = Self {
            root,
            schemas: HashSet::new(),
            anchors: HashMap::new(),
            references: Vec::new(),
            targets: HashMap::new(),
            patterns: HashSet::new(),
            has_leftovers: false,
            drafts: Vec::new(),
        };
        find_drafts(root, &mut found.drafts);
        found.find(root, found.is_of_draft_4(), false);
        let leading = |reference: &Reference<'a>| Some((reference.target.as_ptr(), found.referred(reference)?));
        found.targets = found.references.iter().filter_map(leading).collect();
        found
    }

    fn find(&mut self, schema: &'a Value, is_old: bool, is_in_named: bool) {
        if let Value::Object(keywords) = schema {
            let name = |keyword: &str| keywords.get(keyword).and_then(Value::as_str);
            let names_itself = name("$id").is_some_and(|name| self.is_of_its_own(name))
                || is_old && name("id").is_some_and(|name| self.is_of_its_own(name));
            let is_in_named = is_in_named || names_itself && !std::ptr::eq(schema, self.root);
            self.schemas.insert(schema);
            self.has_leftovers |= LEFTOVERS.iter().any(|name| keywords.contains_key(*name));
            for name in ["$anchor", "$dynamicAnchor"].iter().filter_map(|keyword| keywords.get(*keyword)?.as_str()) {
                let named = self.anchors.entry(name).or_insert(Some(schema));
                *named = named.filter(|known| std::ptr::eq(*known, schema) && !is_in_named);
            }
            self.patterns.extend(keywords.get("pattern").and_then(Value::as_str));
            let of_names = keywords.get("patternProperties").and_then(Value::as_object);
            self.patterns.extend(of_names.into_iter().flat_map(JsonObject::keys).map(String::as_str));
            for (keyword, target) in references(keywords) {
                self.references.push(Reference { place: schema, keyword, target, is_in_named });
            }
            each_part(keywords, &mut |part| self.find(part, is_old, is_in_named));
        } else if let Value::Array(parts) = schema {
            parts.iter().for_each(|part| self.find(part, is_old, is_in_named));
        }
    }

    /// The first reference out of the text.
    pub fn external_reference(&self) -> Option<&'a str> {
        self.references.iter().map(|reference| reference.target).find(|target| !target.starts_with('#'))
    }

    /// The first reference of which it is not certain that it leads to a schema, and to which. What checking comes to alone
    /// counts: parts that nobody uses, and notes, refer to what is somewhere else.
    pub fn unclear_reference(&self, is_reached: impl Fn(*const Value) -> bool) -> Option<&'a str> {
        let unclear = |reference: &&Reference<'a>| {
            is_reached(reference.place)
                && (reference.is_in_named || !self.targets.contains_key(&reference.target.as_ptr()))
        };
        self.references.iter().find(unclear).map(|reference| reference.target)
    }

    pub fn patterns(&self) -> &HashSet<&'a str> {
        &self.patterns
    }

    pub fn refers(&self) -> bool {
        !self.references.is_empty()
    }

    pub fn has_leftovers(&self) -> bool {
        self.has_leftovers
    }

    /// Whether a part may be one that can name itself with `id`, which is nothing in later drafts, and has no `const`.
    pub fn is_of_draft_4(&self) -> bool {
        self.drafts.iter().any(|draft| draft.contains("draft-04"))
    }

    /// Whether references count from the part that has this `$id`. Up to draft 7 one that is a fragment only, as generators write
    /// it (`#/properties/a`), is a name within the document.
    fn is_of_its_own(&self, name: &str) -> bool {
        let is_old = |draft: &&str| ["draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old));
        !name.starts_with('#') || self.drafts.is_empty() || !self.drafts.iter().all(is_old)
    }

    /// Whether `prefixItems` is a keyword.
    pub fn is_of_latest_draft(&self) -> bool {
        self.drafts.iter().all(|draft| draft.contains("2020-12"))
    }

    /// What a reference leads to.
    fn referred(&self, reference: &Reference<'a>) -> Option<&'a Value> {
        let fragment = reference.target.strip_prefix('#')?;
        let found = match reference.keyword {
            // Whatever it says.
            "$recursiveRef" => self.root,
            _ if fragment.is_empty() => self.root,
            _ if fragment.starts_with('/') => self.root.pointer(&decoded(fragment)?)?,
            _ => (*self.anchors.get(fragment)?)?,
        };
        (found.is_boolean() || self.schemas.contains(&std::ptr::from_ref(found))).then_some(found)
    }

    /// What the references of a schema lead to.
    pub fn referred_by(&self, keywords: &'a JsonObject) -> impl Iterator<Item = &'a Value> {
        references(keywords).filter_map(|(_, target)| self.targets.get(&target.as_ptr()).copied())
    }

    /// The schemas that look at the same value as the one with these keywords.
    pub fn in_place(&self, keywords: &'a JsonObject) -> Vec<&'a Value> {
        let mut parts: Vec<&Value> = self.referred_by(keywords).collect();
        for (keyword, part) in keywords {
            match (keyword.as_str(), part) {
                ("not" | "if" | "then" | "else", _) => parts.push(part),
                ("allOf" | "anyOf" | "oneOf", Value::Array(several)) => parts.extend(several),
                ("dependentSchemas" | "dependencies", Value::Object(named)) => parts.extend(named.values()),
                _ => {}
            }
        }
        parts
    }
}

fn references(keywords: &JsonObject) -> impl Iterator<Item = (&str, &str)> {
    REFERENCES.iter().filter_map(|name| Some((*name, keywords.get(*name)?.as_str()?)))
}

fn find_drafts<'a>(schema: &'a Value, drafts: &mut Vec<&'a str>) {
    match schema {
        Value::Object(members) => {
            drafts.extend(members.get("$schema").and_then(Value::as_str));
            members.values().for_each(|part| find_drafts(part, drafts));
        }
        Value::Array(items) => items.iter().for_each(|part| find_drafts(part, drafts)),
        _ => {}
    }
}

/// What in a schema may be one too, and lists of those. Values are none, and names of properties are no keywords.
fn each_part<'a>(keywords: &'a JsonObject, visit: &mut impl FnMut(&'a Value)) {
    for (keyword, part) in keywords {
        match (kind_of(keyword), part) {
            (KeywordKind::Values, _) => {}
            (KeywordKind::Named, Value::Object(named)) => named.values().for_each(&mut *visit),
            _ => visit(part),
        }
    }
}

/// What a keyword says.
pub enum KeywordKind {
    /// What values may be: nothing in there is a keyword.
    Values,
    /// Schemas, by names that are no keywords.
    Named,
    Other,
}

/// What stands under a keyword.
pub fn kind_of(keyword: &str) -> KeywordKind {
    match keyword {
        "const" | "enum" | "default" | "examples" => KeywordKind::Values,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
            KeywordKind::Named
        }
        _ => KeywordKind::Other,
    }
}

/// `schema` without the names that its parts and itself have in the world. No reference counts from them, or it would have
/// been refused; and nothing in it is taken for another document, or for the draft itself, because it has the same name.
pub fn without_names(schema: &Value) -> Value {
    let mut unnamed = schema.clone();
    take_names(&mut unnamed);
    unnamed
}

fn take_names(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.retain(|keyword, part| !matches!(keyword.as_str(), "$id" | "id") || !part.is_string());
            for (keyword, part) in keywords.iter_mut() {
                match (kind_of(keyword), part) {
                    (KeywordKind::Values, _) => {}
                    (KeywordKind::Named, Value::Object(named)) => named.values_mut().for_each(take_names),
                    (_, part) => take_names(part),
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(take_names),
        _ => {}
    }
}

/// A part of a URI without its percent signs; `None` where that is no text, or one of them stands for nothing.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(first) = rest.next() {
        bytes.push(match first {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(rest.next()?)? * 16 + digit(rest.next()?)?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
