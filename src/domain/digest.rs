//! Digests of JSON: what binds an approval to exact arguments, and what tells one request from another.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// `sha256:<hex>` of `value` as compact JSON with its members sorted, so that member order does not matter.
pub fn of(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut |bytes| hasher.update(bytes), value);
    format!("sha256:{}", hex(&hasher.finalize()))
}

/// `value` as compact JSON with its members sorted.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut written = Vec::new();
    feed(&mut |bytes| written.extend_from_slice(bytes), value);
    written
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

fn feed(take: &mut impl FnMut(&[u8]), value: &Value) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            take(b"{");
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    take(b",");
                }
                take(Value::from(name.as_str()).to_string().as_bytes());
                take(b":");
                feed(take, &members[name.as_str()]);
            }
            take(b"}");
        }
        Value::Array(items) => {
            take(b"[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    take(b",");
                }
                feed(take, item);
            }
            take(b"]");
        }
        scalar => take(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests;
