//! Scopes: what a key may do.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One thing that a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Look at sessions, messages, interrupts and events.
    Read,
    /// Create and delete sessions, send messages, cancel and retry turns.
    Send,
    /// Answer interrupts and revoke grants.
    Answer,
    /// Everything, keys and settings included.
    Admin,
}

impl Scope {
    /// Every scope, the least first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Answer, Self::Admin];

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Answer => "answer",
            Self::Admin => "admin",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }

    fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Send => 2,
            Self::Answer => 4,
            Self::Admin => 8,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of scopes. On the wire a list of words, the least first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// None: nothing may be done.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(15);

    /// Whether what asks for `scope` may be done; with `admin` everything may.
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// Those that were given by name, the least first: `admin` alone stays alone.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Scope>::deserialize(deserializer)?.into_iter().collect())
    }
}
