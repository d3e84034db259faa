//! The one place that draws ids and secrets. The time is the store's to say: [`Clock`](crate::store::clock::Clock).

use uuid::Uuid;

use crate::domain::{Error, GrantId, InterruptId, KeyId, SessionId, TurnId};

/// Ids that come later are larger.
fn id() -> Uuid {
    #[cfg(test)]
    if let Some(id) = crate::domain::seeds::id() {
        return id;
    }
    Uuid::now_v7()
}

/// A new session's id.
pub fn session_id() -> SessionId {
    SessionId(id())
}

/// A new turn's id.
pub fn turn_id() -> TurnId {
    TurnId(id())
}

/// A new interrupt's id.
pub fn interrupt_id() -> InterruptId {
    InterruptId(id())
}

/// A new grant's id.
pub fn grant_id() -> GrantId {
    GrantId(id())
}

/// A new key's id.
pub fn key_id() -> KeyId {
    KeyId(id())
}

/// What a secret is made of: bytes that nobody can guess.
///
/// # Errors
/// [`Error::Internal`] where the system gives none.
pub fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Internal(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// A new notice's id.
pub fn notice_id() -> Uuid {
    id()
}
