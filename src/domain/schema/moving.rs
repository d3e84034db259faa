//! A schema as a part of a larger one, which is of the latest draft: what it refers to in itself is still found, and what it
//! says in the words of an older draft is said in those of the latest. Tools of MCP servers are mostly of draft 7.

use serde_json::{Value, json};

use super::subschemas::{KeywordKind, kind_of};
use crate::domain::JsonObject;

/// `schema` where it stands at `place` (`#/$defs/args`) of a larger one. One that names itself (`$id`) is its own document
/// wherever it stands.
///
/// What the latest draft has no word for is left out: there a format, which older ones check, says only what is meant.
pub fn moved(schema: &Value, place: &str) -> Value {
    let mut moved = schema.clone();
    if let Value::Object(members) = &mut moved
        && !members.contains_key("$id")
    {
        let draft = members.shift_remove("$schema").as_ref().and_then(Value::as_str).map_or(Draft::Latest, Draft::of);
        move_references(&mut moved, place, draft);
        if draft < Draft::Latest {
            translate(&mut moved, draft);
        }
    }
    moved
}

/// What `$schema` says, as far as it makes a difference here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    /// 2019-09.
    Nineteen,
    /// 2020-12, and what says nothing.
    Latest,
}

impl Draft {
    fn of(name: &str) -> Self {
        let known =
            [("draft-04", Self::Four), ("draft-06", Self::Six), ("draft-07", Self::Seven), ("2019-09", Self::Nineteen)];
        known.into_iter().find(|(part, _)| name.contains(part)).map_or(Self::Latest, |(_, draft)| draft)
    }

    /// Whether a keyword of the latest draft means nothing in this one.
    fn lacks(self, keyword: &str) -> bool {
        let since = match keyword {
            "prefixItems" | "$dynamicRef" => Self::Latest,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "minContains"
            | "maxContains"
            | "$recursiveRef" => Self::Nineteen,
            "if" | "then" | "else" => Self::Seven,
            "const" | "contains" | "propertyNames" => Self::Six,
            _ => Self::Four,
        };
        self < since
    }
}

/// Only where a schema stands can `$ref` refer to anything: not in values, and not as the name of a property.
fn move_references(schema: &mut Value, place: &str, draft: Draft) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members.iter_mut() {
                match (keyword.as_str(), kind_of(keyword), value) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", _, Value::String(target)) => {
                        let rest = target.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
                        if let Some(rest) = rest {
                            let rest = if draft < Draft::Latest { to_first_items(rest) } else { rest.to_owned() };
                            *target = format!("{place}{rest}");
                        }
                    }
                    (_, KeywordKind::Values, _) => {}
                    (_, KeywordKind::Named, Value::Object(named)) => {
                        named.values_mut().for_each(|schema| move_references(schema, place, draft));
                    }
                    (_, _, other) => move_references(other, place, draft),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, place, draft)),
        _ => {}
    }
}

/// A pointer where the first items of a list are called by the name that they have now.
fn to_first_items(pointer: &str) -> String {
    let mut steps: Vec<&str> = pointer.split('/').collect();
    for index in 1..steps.len() {
        if steps[index - 1] == "items" && steps[index].parse::<usize>().is_ok() {
            steps[index - 1] = "prefixItems";
        }
    }
    steps.join("/")
}

fn translate(schema: &mut Value, draft: Draft) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, part) in keywords.iter_mut() {
                match (kind_of(keyword), part) {
                    (KeywordKind::Values, _) => {}
                    (KeywordKind::Named, Value::Object(named)) => {
                        named.values_mut().for_each(|schema| translate(schema, draft));
                    }
                    (_, part) => translate(part, draft),
                }
            }
            translate_keywords(keywords, draft);
        }
        Value::Array(parts) => parts.iter_mut().for_each(|part| translate(part, draft)),
        _ => {}
    }
}

fn translate_keywords(keywords: &mut JsonObject, draft: Draft) {
    if draft <= Draft::Seven && keywords.get("$ref").is_some_and(Value::is_string) {
        // Beside a reference nothing else counts, but may be referred to.
        keywords.retain(|keyword, _| matches!(keyword.as_str(), "$ref" | "definitions" | "$defs"));
        return;
    }
    keywords.retain(|keyword, _| !draft.lacks(keyword));
    if draft <= Draft::Seven {
        // A name within the document, which none can refer to.
        keywords.retain(|keyword, name| keyword != "$id" || !name.as_str().is_some_and(|name| name.starts_with('#')));
    }
    keywords.shift_remove("$recursiveAnchor");
    if let Some(reference) = keywords.shift_remove("$recursiveRef") {
        also(keywords, json!({"$ref": reference}));
    }
    match (keywords.shift_remove("additionalItems"), keywords.shift_remove("items")) {
        (others, Some(Value::Array(first))) => {
            keywords.insert("prefixItems".to_owned(), Value::Array(first));
            keywords.extend(others.map(|others| ("items".to_owned(), others)));
        }
        (_, all) => keywords.extend(all.map(|all| ("items".to_owned(), all))),
    }
    if let Some(Value::Object(dependencies)) = keywords.shift_remove("dependencies") {
        let (required, schemas) = dependencies.into_iter().partition::<JsonObject, _>(|(_, needed)| needed.is_array());
        for (keyword, named) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !named.is_empty() {
                also(keywords, json!({keyword: named}));
            }
        }
    }
    if draft == Draft::Four {
        for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            if keywords.shift_remove(exclusive) == Some(json!(true))
                && let Some(number) = keywords.shift_remove(limit)
            {
                keywords.insert(exclusive.to_owned(), number);
            }
        }
    }
}

/// Says `more` too, where what a keyword of it says may be said already.
fn also(keywords: &mut JsonObject, more: Value) {
    // Else it is no schema as it is.
    if let Value::Array(all) = keywords.entry("allOf").or_insert_with(|| json!([])) {
        all.push(more);
    }
}
