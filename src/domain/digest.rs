//! Digests of JSON: what binds an approval to exact arguments, and what tells one request from another.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// `sha256:<hex>` of `value` as compact JSON with its members sorted, so that member order does not matter.
pub fn of(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            hasher.update(b"{");
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    hasher.update(b",");
                }
                hasher.update(Value::from(name.as_str()).to_string());
                hasher.update(b":");
                feed(hasher, &members[name.as_str()]);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    hasher.update(b",");
                }
                feed(hasher, item);
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string()),
    }
}

#[cfg(test)]
mod tests;
