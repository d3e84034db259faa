//! Identifiers. All are UUIDs; the engine draws version 7, so that ids sort by age. The ids of sessions that are made for an
//! idempotency key sort by day.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id!(
    /// One key.
    KeyId
);
id!(
    /// One store, wherever it is.
    StoreId
);
id!(
    /// One conversation.
    SessionId
);
id!(
    /// One message in, one response out.
    TurnId
);
id!(
    /// One question to a person.
    InterruptId
);
id!(
    /// One standing decision.
    GrantId
);
