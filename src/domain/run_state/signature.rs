//! Signatures of run states: HMAC-SHA256 over the document as canonical JSON, without its member `signature`.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::RunState;
use crate::domain::digest::{canonical, hex};
use crate::domain::journal::{Entry, StepResult};
use crate::domain::policy::Effect;
use crate::domain::{Error, JsonObject};

const MEMBER: &str = "signature";

impl RunState {
    /// The document, signed where there is a key.
    ///
    /// # Errors
    /// Those of [`RunState::write`].
    pub fn write_signed(&self, key: Option<&[u8]>) -> Result<Value, Error> {
        let mut document: JsonObject =
            serde_json::from_str(&self.write()?).map_err(|error| Error::Internal(error.to_string()))?;
        if let Some(key) = key {
            let signature = hex(&mac(&document, key).finalize().into_bytes());
            document.insert(MEMBER.to_owned(), Value::from(signature));
        }
        Ok(Value::Object(document))
    }

    /// Reads a document, and whether its signature under `key` verifies.
    ///
    /// # Errors
    /// Those of [`RunState::read`].
    pub fn read_signed(document: Value, key: Option<&[u8]>) -> Result<(Self, bool), Error> {
        let Value::Object(mut members) = document else {
            return Err(Error::RunStateInvalid("it is no JSON object".to_owned()));
        };
        let signature = members.shift_remove(MEMBER);
        let signature = signature.as_ref().and_then(Value::as_str).and_then(bytes);
        let is_ours = match (key, signature) {
            (Some(key), Some(signature)) => mac(&members, key).verify_slice(&signature).is_ok(),
            _ => false,
        };
        Ok((Self::read_value(Value::Object(members))?, is_ours))
    }

    /// What can be believed of a state that anybody may have written: the conversation, and what models and the clock
    /// said before the turn did anything else. Whatever a person decided or a tool did is asked and done again, no rule lets
    /// a call run, and none takes the place of the server's.
    #[must_use]
    pub fn disbelieved(mut self) -> Self {
        let believed = self.journal.iter().skip(1).take_while(|recorded| match &recorded.entry {
            Entry::Step { step, result: StepResult::Value(_) } => ["model", "clock"].contains(&step.kind.as_str()),
            _ => false,
        });
        let length = 1 + believed.count();
        self.journal.truncate(length);
        self.interrupts.clear();
        self.grants.clear();
        self.rules.retain(|rule| rule.effect != Effect::Allow);
        self.rules.iter_mut().for_each(|rule| rule.unsigned = true);
        self.context = None;
        self
    }
}

fn mac(document: &JsonObject, key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of every length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
    mac.update(&canonical(&Value::Object(document.clone())));
    mac
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}
