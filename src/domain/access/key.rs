//! Keys: what a caller proves itself with, as it is kept.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::Scopes;
use crate::domain::error::LocSegment;
use crate::domain::id::KeyId;
use crate::domain::{FieldError, Timestamp};

/// What every secret begins with, so that scanners and people know one when they see it.
pub const PREFIX: &str = "hitl_";
/// Names that records use for something else than a stored key.
const RESERVED: [&str; 3] = ["api-key", "on_approval", "policy"];
/// The longest name of a key or group.
const MAX_NAME: usize = 64;
/// The most groups of a key.
const MAX_GROUPS: usize = 32;

/// SHA-256 of a secret. Secrets are 32 random bytes, which nobody can guess one after the other, so that a slow hash
/// would protect nothing: it is for passwords. It can be compared in constant time only, and is never shown.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

/// The digest of a secret.
pub fn digest(secret: &[u8]) -> Digest {
    Digest(Sha256::digest(secret).into())
}

impl Digest {
    /// As the store holds it.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl ConstantTimeEq for Digest {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Digest {}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Digest(..)")
    }
}

/// Random bytes as a secret: of a key with [`PREFIX`], of a sign-in without.
pub fn secret(prefix: &str, random: [u8; 32]) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random))
}

/// A key as it is stored and shown: the secret is not in it, and its digest is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its id.
    pub key_id: KeyId,
    /// Who holds it: what `resolved_by` says. No other key that is not revoked has the name.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Groups that it is in.
    pub groups: Vec<String>,
    /// The digest of its secret.
    #[serde(skip)]
    pub digest: Digest,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom; null on the machine of the store.
    pub created_by: Option<String>,
    /// Since when it is worth nothing; null while it is good.
    pub revoked_at: Option<Timestamp>,
}

/// What a key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// See [`Key::name`].
    pub name: String,
    /// See [`Key::scopes`].
    pub scopes: Scopes,
    /// See [`Key::groups`].
    pub groups: Vec<String>,
}

/// Somebody signed in with a key, in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignIn {
    /// The digest of the cookie's token.
    pub token: Digest,
    /// The digest of the key's secret: when no key has it any more, the sign-in is worth nothing.
    pub key: Digest,
    /// When it ends.
    pub ends_at: Timestamp,
}

impl NewKey {
    /// The key with this id and secret.
    ///
    /// # Errors
    /// Every member that is wrong.
    pub fn make(self, id: KeyId, secret: &str, by: Option<&str>, now: Timestamp) -> Result<Key, Vec<FieldError>> {
        let errors = self.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Key {
            key_id: id,
            name: self.name,
            scopes: self.scopes,
            groups: self.groups,
            digest: digest(secret.as_bytes()),
            created_at: now,
            created_by: by.map(str::to_owned),
            revoked_at: None,
        })
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !is_name(&self.name) {
            errors.push(FieldError::new(["name"], "invalid_name", NAME));
        } else if RESERVED.contains(&self.name.as_str()) {
            errors.push(FieldError::new(["name"], "reserved", "records use this name for something else"));
        }
        if self.scopes.is_empty() {
            errors.push(FieldError::new(
                ["scopes"],
                "too_short",
                "must hold at least one of read, send, answer, admin",
            ));
        }
        if self.groups.len() > MAX_GROUPS {
            errors.push(FieldError::new(["groups"], "too_long", format!("must hold at most {MAX_GROUPS}")));
            return errors;
        }
        let mut named = HashSet::new();
        for (index, group) in self.groups.iter().enumerate() {
            let at: [LocSegment; 2] = ["groups".into(), index.into()];
            if !is_name(group) {
                errors.push(FieldError::new(at, "invalid_name", NAME));
            } else if !named.insert(group) {
                errors.push(FieldError::new(at, "duplicate", format!("{group} is named twice")));
            }
        }
        errors
    }
}

const NAME: &str = "must be 1 to 64 of a-z, 0-9, dot, hyphen and underscore";

/// Whether `text` can be the name of a key or group.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits)
}
