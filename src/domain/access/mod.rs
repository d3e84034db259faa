//! Who may do what: keys, their scopes, and the actor of a request.

mod key;

use std::net::IpAddr;
use std::sync::Arc;

pub use key::{Digest, Key, NewKey, PREFIX, SignIn, digest, is_name, secret};

use super::scope::{Scope, Scopes};

/// Who does something: what authentication told of a request. Never read from a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The name of the key; `None` where the server has no keys.
    pub name: Option<Arc<str>>,
    /// From where, as the connection told; `None` for what comes from this process.
    pub address: Option<IpAddr>,
    /// What it may do.
    pub scopes: Scopes,
    /// The groups that its key is in.
    pub groups: Arc<[String]>,
}

impl Actor {
    /// Whoever calls a server without keys, and whoever holds a run in its own process: without a name, and free to do
    /// everything.
    pub fn anyone() -> Self {
        Self { name: None, address: None, scopes: Scopes::ALL, groups: Arc::default() }
    }

    /// The holder of a key.
    pub fn named(name: &str, scopes: Scopes, groups: &[String]) -> Self {
        Self { name: Some(Arc::from(name)), address: None, scopes, groups: Arc::from(groups) }
    }

    /// The same, calling from `address`.
    pub fn at(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    /// The name, as rows and records hold it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it may do what asks for `scope`.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }
}

#[cfg(test)]
mod tests;
