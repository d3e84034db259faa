//! A schema that many interrupts share, as the value that it is.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub fn serialize<S: Serializer>(schema: &Option<Arc<Value>>, serializer: S) -> Result<S::Ok, S::Error> {
    schema.as_deref().serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Value>>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.map(Arc::new))
}
