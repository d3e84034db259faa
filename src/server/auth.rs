//! Who calls: API keys, compared in constant time.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::error::ServerError;
use super::settings::ApiKey;

/// The keys that are let in. Digests of equal length are compared, so that neither content nor length of a key shows in
/// the time it takes.
pub struct Keys {
    keys: Vec<(Arc<str>, [u8; 32])>,
}

/// The name of the key that authenticated; `None` where the server has no keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(pub Option<Arc<str>>);

impl Keys {
    /// The keys of the settings.
    pub fn new(keys: &[ApiKey]) -> Self {
        Self { keys: keys.iter().map(|key| (Arc::from(key.name.as_str()), digest(key.key.as_bytes()))).collect() }
    }

    /// Who sent these headers.
    ///
    /// # Errors
    /// [`ServerError::Unauthorized`] where there are keys and the headers hold none of them.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, ServerError> {
        if self.keys.is_empty() {
            return Ok(Caller(None));
        }
        let given = digest(bearer(headers).ok_or(ServerError::Unauthorized)?);
        // All keys are looked at, whichever fits: 0 is none, n is the n-th.
        let mut found = 0_u32;
        for (number, (_, wanted)) in (1_u32..).zip(&self.keys) {
            found.conditional_assign(&number, wanted.ct_eq(&given));
        }
        let index = (found as usize).checked_sub(1).ok_or(ServerError::Unauthorized)?;
        self.keys.get(index).map(|(name, _)| Caller(Some(name.clone()))).ok_or(ServerError::Unauthorized)
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

impl Caller {
    /// The name, as the engine stores it.
    pub fn into_name(self) -> Option<String> {
        self.0.map(|name| name.as_ref().to_owned())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.remove::<Self>().unwrap_or(Self(None)))
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
        keys().caller(&headers).map(Caller::into_name)
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
        assert_eq!(keys().caller(&HeaderMap::new()), Err(ServerError::Unauthorized));
    }

    #[test]
    fn without_keys_everybody_is_let_in() {
        assert_eq!(Keys::new(&[]).caller(&HeaderMap::new()), Ok(Caller(None)));
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", ApiKey { name: "ada".into(), key: "first".into() }), "ApiKey { name: \"ada\", .. }");
    }
}
