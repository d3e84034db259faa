//! Request bodies: bounded in size and time, declared as JSON, then parsed.

use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::Value;

use super::budget::Exhausted;
use super::error::ServerError;
use crate::domain::json;

/// How a body may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body in bytes.
    pub size: usize,
    /// How long it may take to arrive.
    pub time: Duration,
}

/// Its sender would not be let in any more.
#[derive(Debug, thiserror::Error)]
#[error("the key is not valid any more")]
pub struct Over;

/// How much more than the limit is read and thrown away, so that a client that writes before it reads gets to see the
/// 413 and not a connection reset.
const DRAIN_FACTOR: usize = 16;

/// Reads a JSON body; `None` where there is none.
///
/// # Errors
/// [`ServerError::BodyTooLarge`], [`ServerError::RequestTimeout`], [`ServerError::UnsupportedMediaType`],
/// [`ServerError::Unauthorized`] where its key was revoked while it came, [`ServerError::TooMuchAtOnce`], and
/// what [`json::read`] refuses, with a `loc` that begins with `"body"`.
pub async fn read_json(headers: &HeaderMap, body: Body, limits: Limits) -> Result<Option<Value>, ServerError> {
    let bytes = match tokio::time::timeout(limits.time, collect(body, limits.size)).await {
        Ok(bytes) => bytes?,
        Err(_) => return Err(ServerError::RequestTimeout(limits.time.as_secs_f64())),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    require_json(headers)?;
    json::read(&bytes).map(Some).map_err(|refused| refused.within(&["body".into()]).into())
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, ServerError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut collected = BytesMut::with_capacity(announced.min(limit));
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(broken)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        size = size.saturating_add(data.len());
        if size <= limit {
            collected.extend_from_slice(&data);
            continue;
        }
        // Nobody is going to read it.
        collected = BytesMut::new();
        if size > limit.saturating_mul(DRAIN_FACTOR) {
            break;
        }
    }
    if size > limit { Err(ServerError::BodyTooLarge(limit)) } else { Ok(collected.freeze()) }
}

fn broken(error: axum::Error) -> ServerError {
    let error = error.into_inner();
    if error.is::<Over>() {
        return ServerError::Unauthorized;
    }
    if let Some(Exhausted(most)) = error.downcast_ref() {
        return ServerError::TooMuchAtOnce(*most);
    }
    invalid_at_body("incomplete", format!("the body broke off: {error}"))
}

fn require_json(headers: &HeaderMap) -> Result<(), ServerError> {
    let encoded =
        headers.get(CONTENT_ENCODING).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    let declared = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    match &declared {
        Some(text) if is_json(text) && !encoded => Ok(()),
        Some(text) if is_json(text) => Err(ServerError::UnsupportedMediaType("compressed".to_owned())),
        Some(text) => {
            Err(ServerError::UnsupportedMediaType(format!("{:?}", text.chars().take(80).collect::<String>())))
        }
        None => Err(ServerError::UnsupportedMediaType("without one".to_owned())),
    }
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let json = parts.next().is_some_and(|media| media.eq_ignore_ascii_case("application/json"));
    json && parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let charset = value.trim().trim_matches('"');
            ["utf-8", "utf8", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
        }
        _ => true,
    })
}

fn invalid_at_body(kind: &str, msg: impl Display) -> ServerError {
    ServerError::invalid(vec![crate::domain::FieldError::new(["body"], kind, msg.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIMITS: Limits = Limits { size: 16, time: Duration::from_secs(5) };

    async fn read(content_type: Option<&str>, body: impl Into<Body>) -> Result<Option<Value>, ServerError> {
        let mut headers = HeaderMap::new();
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        }
        read_json(&headers, body.into(), LIMITS).await
    }

    #[tokio::test]
    async fn no_body_needs_no_content_type() {
        assert_eq!(read(None, "").await, Ok(None));
    }

    #[tokio::test]
    async fn json_is_declared_with_any_harmless_parameter() {
        for content_type in ["application/json", "Application/JSON; charset=UTF-8", "application/json;profile=x"] {
            assert_eq!(read(Some(content_type), "{\"a\":1}").await, Ok(Some(json!({"a": 1}))), "{content_type}");
        }
    }

    #[tokio::test]
    async fn anything_else_is_no_json() {
        for content_type in
            [None, Some("text/plain"), Some("application/jsonx"), Some("application/json; charset=latin1")]
        {
            let refused = read(content_type, "{}").await;
            assert!(matches!(refused, Err(ServerError::UnsupportedMediaType(_))), "{content_type:?}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn the_limit_is_the_last_size_that_fits() {
        let fits = format!("\"{}\"", "x".repeat(14));
        assert!(read(Some("application/json"), fits).await.is_ok());
        let larger = format!("\"{}\"", "x".repeat(15));
        assert_eq!(read(Some("application/json"), larger).await, Err(ServerError::BodyTooLarge(16)));
    }

    #[tokio::test]
    async fn broken_json_is_told_by_place() {
        for text in ["{", "{\"a\":NaN}", "\"\\ud800\"", "nul", "{} {}", "\u{feff}{}"] {
            let Err(ServerError::Domain(crate::domain::Error::InvalidRequest(errors))) =
                read(Some("application/json"), text.to_owned()).await
            else {
                panic!("{text} was taken");
            };
            assert_eq!(errors[0].kind, "invalid_json");
            assert_eq!(errors[0].loc, vec!["body".into()]);
        }
    }

    #[tokio::test]
    async fn json_that_says_two_things_is_told_by_place() {
        let Err(ServerError::Domain(crate::domain::Error::DuplicateMember(errors))) =
            read(Some("application/json"), "{\"a\":1,\"a\":1}").await
        else {
            panic!("a member was taken twice");
        };
        assert_eq!(errors[0].loc, vec!["body".into(), "a".into()]);
    }

    #[tokio::test]
    async fn nesting_is_bounded() {
        let limits = Limits { size: 1 << 20, time: Duration::from_secs(5) };
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read_json(&headers, Body::from(deep), limits).await.is_err());
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        let limits = Limits { time: Duration::from_millis(10), ..LIMITS };
        let pending = futures_util::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        let headers = HeaderMap::new();
        let refused = read_json(&headers, Body::from_stream(pending), limits).await;
        assert_eq!(refused, Err(ServerError::RequestTimeout(0.01)));
    }
}
