//! A policy that is in the store: the text of a file, for every server on it.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::file;
use super::rules::Rules;
use crate::domain::Timestamp;
use crate::domain::digest::hex;

/// The most bytes of its text. Every server reads it, also where only a key has changed.
const MAX_TEXT: usize = 1024 * 1024;

/// The digest of a policy's text: `sha256:` and what `sha256sum` says.
pub fn digest(text: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text)))
}

/// A policy as it was pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PushedPolicy {
    /// As it was in the file.
    pub text: String,
    /// Of the text: see [`digest`].
    pub digest: String,
    /// When.
    pub pushed_at: Timestamp,
    /// By whom: the name of a key; `None` for who had the store itself.
    pub pushed_by: Option<String>,
}

/// The text of a policy that this release can read.
#[derive(Debug, Clone)]
pub struct CheckedPolicy {
    text: String,
    rules: usize,
}

impl CheckedPolicy {
    /// Looks at the text of a file.
    ///
    /// # Errors
    /// What is wrong with it, with the line.
    pub fn of(text: String) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("it has {} bytes, and {MAX_TEXT} at most can be pushed", text.len()));
        }
        let rules = file::read(&text).map_err(|error| error.to_string())?.len();
        Ok(Self { text, rules })
    }

    /// How many rules it has.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// As it is put into a store.
    pub fn pushed(&self, by: Option<&str>, at: Timestamp) -> PushedPolicy {
        let (digest, pushed_by) = (digest(&self.text), by.map(str::to_owned));
        PushedPolicy { text: self.text.clone(), digest, pushed_at: at, pushed_by }
    }
}

/// What becomes of the policy in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChange {
    /// It is this one from now on.
    Pushed(PushedPolicy),
    /// There is none any more.
    Removed,
}

impl PushedPolicy {
    /// Its rules.
    ///
    /// # Errors
    /// Why this release gets none out of it: another one may have pushed it.
    pub fn rules(&self) -> Result<Rules, String> {
        if self.digest != digest(&self.text) {
            return Err(format!("its text is not the one that was pushed, which had the digest {}", self.digest));
        }
        file::read(&self.text).map_err(|error| error.to_string())
    }
}
