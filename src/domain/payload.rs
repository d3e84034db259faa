//! Limits of what goes through an interrupt. Sizes are bytes of compact, unescaped UTF-8 JSON.

use serde::Serialize;
use serde_json::Value;

use super::JsonObject;
use super::error::Error;

/// `--max-payload` where nothing else is said.
pub const MAX_PAYLOAD: usize = 16 * 1024;
/// `--max-value` where nothing else is said.
pub const MAX_VALUE: usize = 1024 * 1024;
/// How deep a payload or value may nest, so that nobody's parser overflows its stack.
pub const MAX_DEPTH: usize = 100;
/// How deep JSON may nest that anybody sends: a value, and what is around it.
pub const MAX_READ_DEPTH: usize = MAX_DEPTH + 10;
/// How deep JSON may nest that is stored: what was read, and what is around it. `serde_json` reads 127.
pub const MAX_STORED_DEPTH: usize = MAX_READ_DEPTH + 10;

/// How many objects and arrays are around the innermost of `value`, itself included.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The size of `value` as compact JSON.
pub fn json_size(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // A value that cannot be written is larger than any limit.
        Err(_) => usize::MAX,
    }
}

/// # Errors
/// [`Error::PayloadTooLarge`] above `limit`.
pub fn check_size(payload: &JsonObject, limit: usize) -> Result<(), Error> {
    let size = json_size(payload);
    if size > limit { Err(Error::PayloadTooLarge { size, limit }) } else { Ok(()) }
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
