//! The one place that draws ids and secrets. The time is the store's to say: [`Clock`](crate::store::clock::Clock).

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::domain::{Error, GrantId, InterruptId, KeyId, SessionId, StoreId, Timestamp, TurnId};

const DAY_MILLIS: i64 = 24 * 3600 * 1000;

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

/// The id of the session that is made in a store for an idempotency key: the same one whoever is asked on the same day, so
/// that of two requests that come at once, to servers that share it, one finds what the other has made. By the time the key
/// is forgotten, and may be for something else, it is another day; where the two come on either side of midnight, the reply
/// that is kept is what one of them finds. Its time is the beginning of the day.
pub fn session_id_for(store: StoreId, scope: &str, key: &str, now: Timestamp) -> SessionId {
    let day = now.millis() - now.millis() % DAY_MILLIS;
    let mut hasher = Sha256::new();
    let store = store.to_string();
    for part in [store.as_bytes(), b" ", scope.as_bytes(), b" ", key.as_bytes(), b" ", &day.to_be_bytes()] {
        hasher.update(part);
    }
    let mut chance = [0; 10];
    chance.copy_from_slice(&hasher.finalize()[..10]);
    SessionId(uuid::Builder::from_unix_timestamp_millis(day.unsigned_abs(), &chance).into_uuid())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_session_a_day_for_each_who_uses_it() {
        let at = |millis| Timestamp::from_millis(1_800_000_000_000 + millis);
        let [here, there] = [1, 2].map(|number| StoreId(Uuid::from_u128(number)));
        let first = session_id_for(here, "sessions", "k", at(0));
        assert_eq!(session_id_for(here, "sessions", "k", at(1)), first);
        let others = [
            session_id_for(here, "sessions/ada", "k", at(0)),
            session_id_for(here, "sessions", "l", at(0)),
            session_id_for(there, "sessions", "k", at(0)),
            session_id_for(here, "sessions", "k", at(DAY_MILLIS)),
        ];
        assert!(others.iter().all(|other| *other != first));
        assert!(others[3] > first && first.0.get_version_num() == 7);
    }
}
