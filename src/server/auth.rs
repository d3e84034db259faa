//! Who calls: API keys, compared in constant time.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::error::ServerError;
use super::settings::ApiKey;
use crate::domain::Error;
use crate::domain::access::{Actor, Scopes};

/// The keys that are let in. Digests of equal length are compared, so that neither content nor length of a key shows in
/// the time it takes.
pub struct Keys {
    keys: Vec<(Actor, [u8; 32])>,
}

/// Where a connection comes from. Put into its requests, which a handler sees as a part of the [`Actor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl Keys {
    /// The keys of the settings.
    pub fn new(keys: &[ApiKey]) -> Self {
        let known = |key: &ApiKey| (Actor::named(&key.name, Scopes::ALL, &[]), digest(key.key.as_bytes()));
        Self { keys: keys.iter().map(known).collect() }
    }

    /// Who sent these headers; its address is not among them.
    ///
    /// # Errors
    /// [`ServerError::Unauthorized`] where there are keys and the headers hold none of them.
    pub fn actor(&self, headers: &HeaderMap) -> Result<Actor, ServerError> {
        if self.keys.is_empty() {
            return Ok(Actor::anyone());
        }
        let given = digest(bearer(headers).ok_or(ServerError::Unauthorized)?);
        // All keys are looked at, whichever fits: 0 is none, n is the n-th.
        let mut found = 0_u32;
        for (number, (_, wanted)) in (1_u32..).zip(&self.keys) {
            found.conditional_assign(&number, wanted.ct_eq(&given));
        }
        let index = (found as usize).checked_sub(1).ok_or(ServerError::Unauthorized)?;
        self.keys.get(index).map(|(actor, _)| actor.clone()).ok_or(ServerError::Unauthorized)
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.as_bytes().split_at_checked(6)?;
    let key = key.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !key.is_empty()).then_some(key)
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        // A route that is open to all has none, and must not act for anybody.
        let nobody = || Error::Internal("a route acts for somebody and asks nobody who it is".to_owned());
        parts.extensions.remove::<Self>().ok_or_else(|| nobody().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let key = |name: &str, key: &str| ApiKey { name: name.to_owned(), key: key.to_owned() };
        Keys::new(&[key("ada", "first"), key("bob", "second")])
    }

    fn caller_of(value: &'static str) -> Result<Option<String>, ServerError> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, axum::http::HeaderValue::from_static(value))]);
        keys().actor(&headers).map(|actor| actor.name().map(str::to_owned))
    }

    #[test]
    fn a_key_is_known_by_its_name_whatever_the_case_of_the_scheme() {
        assert_eq!(caller_of("Bearer first"), Ok(Some("ada".to_owned())));
        assert_eq!(caller_of("bEARER second"), Ok(Some("bob".to_owned())));
    }

    #[test]
    fn anything_else_is_refused() {
        for value in
            ["Bearer third", "Bearer ", "Bearer", "first", "Basic first", "Bearerfirst", "Bearer firs", "B", ""]
        {
            assert_eq!(caller_of(value), Err(ServerError::Unauthorized), "{value:?}");
        }
        assert_eq!(keys().actor(&HeaderMap::new()), Err(ServerError::Unauthorized));
    }

    #[test]
    fn without_keys_everybody_is_let_in() {
        assert_eq!(Keys::new(&[]).actor(&HeaderMap::new()), Ok(Actor::anyone()));
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", ApiKey { name: "ada".into(), key: "first".into() }), "ApiKey { name: \"ada\", .. }");
    }
}
