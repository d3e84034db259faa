//! How often: wrong keys, sign-ins, requests.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::json;

use super::access::{as_key, bearer};
use super::sign_ins::{OWN, sign_in};
use super::support::{Client, Reply};
use crate::engine::settings::Settings;
use crate::server::auth::Peer;
use crate::server::settings::{ApiKey, HttpSettings};

/// A request from `address` with `key`.
async fn from(client: &Client, address: [u8; 4], key: &str) -> Reply {
    let mut request = Request::builder().uri("/me").header("authorization", bearer(key)).body(Body::empty()).unwrap();
    request.extensions_mut().insert(Peer(IpAddr::from(address)));
    client.request(request).await
}

/// A server with the keys of Ada and Bob, where what was used up does not come back during a test.
async fn patient(rate_limit: Option<f64>) -> Client {
    let named = |name: &str| ApiKey { name: name.to_owned(), key: format!("{name}-key") };
    let api_keys = vec![named("ada"), named("bob")];
    let http = HttpSettings { rate_limit, api_keys, wrong_keys_a_minute: 0.01, ..HttpSettings::default() };
    Client::with(Settings::default(), http).await
}

#[tokio::test]
async fn whoever_guesses_keys_is_slowed_down_and_shuts_nobody_out() {
    let client = patient(None).await;
    let (guesser, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    assert_eq!(from(&client, guesser, "ada-key").await.status, StatusCode::OK);
    for _ in 0..20 {
        assert_eq!(from(&client, guesser, "guess").await.status, StatusCode::UNAUTHORIZED);
    }
    // Not even a right guess shows.
    for guess in ["guess", "bob-key"] {
        let slowed = from(&client, guesser, guess).await;
        assert_eq!((slowed.status.as_u16(), slowed.code().as_str()), (429, "rate_limited"), "{guess}");
        let seconds: u32 = slowed.header("retry-after").unwrap().parse().unwrap();
        assert!((5000..=6000).contains(&seconds), "{seconds}");
    }
    assert_eq!(from(&client, guesser, "ada-key").await.status, StatusCode::OK);
    assert_eq!(from(&client, other, "bob-key").await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_has_a_key_that_nobody_guesses_is_never_shut_out() {
    let client = patient(None).await;
    let made = json!({"name": "carol", "scopes": ["read"]});
    let made = as_key(&client, "ada-key", Method::POST, "/keys", Some(&made)).await;
    let secret = made.json()["key"].as_str().unwrap().to_owned();
    let guesser = [192, 0, 2, 1];
    for _ in 0..25 {
        from(&client, guesser, "guess").await;
    }
    assert_eq!(from(&client, guesser, "guess").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(from(&client, guesser, &secret).await.status, StatusCode::OK);
}

#[tokio::test]
async fn signing_in_with_wrong_keys_counts_too() {
    let client = patient(None).await;
    for _ in 0..20 {
        assert_eq!(client.post("/sign-in", json!({"key": "guess"})).await.status, StatusCode::UNAUTHORIZED);
    }
    let slowed = client.post("/sign-in", json!({"key": "ada-key"})).await;
    assert_eq!((slowed.status.as_u16(), slowed.code().as_str()), (429, "rate_limited"));
}

#[tokio::test]
async fn who_signs_in_with_wrong_keys_keeps_nobody_else_from_signing_in() {
    let client = patient(None).await;
    let made = json!({"name": "carol", "scopes": ["read"]});
    let made = as_key(&client, "ada-key", Method::POST, "/keys", Some(&made)).await;
    let secret = made.json()["key"].as_str().unwrap().to_owned();
    for _ in 0..25 {
        client.post("/sign-in", json!({"key": "guess"})).await;
    }
    assert_eq!(client.post("/sign-in", json!({"key": "guess"})).await.code(), "rate_limited");
    // Neither who has a key that nobody guesses, nor whose own was right from there before.
    sign_in(&client, &secret, OWN).await;
    sign_in(&client, "ada-key", OWN).await;
}

#[tokio::test]
async fn who_signs_in_again_and_again_uses_up_no_sign_in_of_another() {
    let client = patient(None).await;
    for _ in 0..20 {
        sign_in(&client, "ada-key", OWN).await;
    }
    sign_in(&client, "bob-key", OWN).await;
}

#[tokio::test]
async fn signing_in_with_a_right_key_is_counted_as_well() {
    let client = patient(None).await;
    for _ in 0..20 {
        sign_in(&client, "ada-key", OWN).await;
    }
    let slowed = client.post("/sign-in", json!({"key": "ada-key"})).await;
    assert_eq!((slowed.status.as_u16(), slowed.code().as_str()), (429, "rate_limited"));
    assert_eq!(as_key(&client, "ada-key", Method::GET, "/me", None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_shows_no_key_has_not_guessed() {
    let client = patient(None).await;
    for _ in 0..30 {
        assert_eq!(client.get("/me").await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(as_key(&client, "ada-key", Method::GET, "/me", None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn requests_are_counted_by_key_and_by_address_where_there_is_none() {
    let once = Some(0.001);
    let client = patient(once).await;
    for key in ["ada-key", "bob-key"] {
        assert_eq!(from(&client, [192, 0, 2, 1], key).await.status, StatusCode::OK, "{key}");
        let limited = from(&client, [192, 0, 2, 2], key).await;
        assert_eq!((limited.status.as_u16(), limited.code().as_str()), (429, "rate_limited"), "{key}");
    }
    let open = HttpSettings { rate_limit: once, ..HttpSettings::default() };
    let open = Client::with(Settings::default(), open).await;
    for last in [1, 2] {
        assert_eq!(from(&open, [192, 0, 2, last], "x").await.status, StatusCode::OK);
        assert_eq!(from(&open, [192, 0, 2, last], "x").await.code(), "rate_limited");
    }
    // The probes are never limited.
    for _ in 0..5 {
        assert_eq!(open.get("/healthz").await.status, StatusCode::OK);
    }
}
