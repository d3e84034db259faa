//! Sign-ins: the cookie of a browser, which page it is good for, and how it ends.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::access::{as_key, bearer, key, operations};
use super::support::Client;
use crate::domain::scope::Scope;
use crate::engine::settings::Settings;
use crate::server::hosts::HostName;
use crate::server::settings::HttpSettings;

/// Signs in: the cookie as the browser sends it back.
pub async fn sign_in(client: &Client, secret: &str, origin: &str) -> (String, String) {
    let reply = client.send(Method::POST, "/sign-in", &[("origin", origin)], Some(&json!({"key": secret}))).await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT, "{reply:?}");
    let set = reply.header("set-cookie").unwrap().to_owned();
    (set.split(';').next().unwrap().to_owned(), set)
}

pub const OWN: &str = "http://127.0.0.1:8000";

#[tokio::test]
async fn a_browser_signs_in_acts_and_signs_out() {
    let client = Client::new().await;
    let ada = key(&client, "ada", &[Scope::Send, Scope::Read]).await;
    let (cookie, set) = sign_in(&client, &ada, OWN).await;
    assert!(!set.contains(&ada) && set.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    let own = [("cookie", cookie.as_str()), ("origin", OWN)];
    let me = client.send(Method::GET, "/me", &own[..1], None).await.json();
    assert_eq!(
        me,
        json!({"name": "ada", "scopes": ["read", "send"], "groups": [], "authentication": true, "prevent_self_approval": false, "max_body": 1_048_576})
    );
    assert_eq!(client.send(Method::POST, "/sessions", &own, None).await.status, StatusCode::CREATED);
    let left = client.send(Method::POST, "/sign-out", &own, None).await;
    assert_eq!(left.status, StatusCode::NO_CONTENT);
    assert!(left.header("set-cookie").unwrap().starts_with("hitl_sign_in_8000=; Path=/; Max-Age=0;"));
    assert_eq!(client.send(Method::GET, "/me", &own[..1], None).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_sign_in_at_one_port_is_none_at_another() {
    let client = Client::new().await;
    let ada = key(&client, "ada", &[Scope::Read]).await;
    let (cookie, _) = sign_in(&client, &ada, OWN).await;
    let me = async |host| client.send(Method::GET, "/me", &[("host", host), ("cookie", &cookie)], None).await.status;
    assert_eq!(me("localhost:8000").await, StatusCode::OK);
    assert_eq!(me("localhost:9000").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn over_tls_the_cookie_is_for_tls_only() {
    let http =
        HttpSettings { allowed_hosts: vec![HostName::allowed("hitl.example").unwrap()], ..HttpSettings::default() };
    let client = Client::with(Settings::default(), http).await;
    let ada = key(&client, "ada", &[Scope::Read]).await;
    assert!(sign_in(&client, &ada, "https://hitl.example").await.1.ends_with("; Secure"));
}

#[tokio::test]
async fn a_cookie_changes_nothing_for_a_page_from_elsewhere() {
    let http =
        HttpSettings { allowed_hosts: vec![HostName::allowed("other.example").unwrap()], ..HttpSettings::default() };
    let client = Client::with(Settings::default(), http).await;
    let ada = key(&client, "ada", &[Scope::Admin]).await;
    let cookie = ("cookie", sign_in(&client, &ada, OWN).await.0);
    let cookie = (cookie.0, cookie.1.as_str());
    for elsewhere in [
        vec![cookie],
        vec![cookie, ("origin", "http://other.example")],
        vec![cookie, ("origin", "http://localhost:8000")],
        vec![cookie, ("sec-fetch-site", "cross-site")],
        vec![cookie, ("sec-fetch-site", "same-site")],
        vec![cookie, ("sec-fetch-site", "none")],
    ] {
        for (method, path) in [(Method::POST, "/sessions"), (Method::POST, "/sign-out"), (Method::DELETE, "/keys/x")] {
            let refused = client.send(method, path, &elsewhere, None).await;
            assert_eq!(
                (refused.status.as_u16(), refused.code().as_str()),
                (403, "cross_site_request"),
                "{elsewhere:?}"
            );
        }
    }
    for own in [vec![cookie, ("origin", OWN)], vec![cookie, ("sec-fetch-site", "same-origin")]] {
        assert_eq!(client.send(Method::POST, "/sessions", &own, None).await.status, StatusCode::CREATED, "{own:?}");
    }
    // A page from elsewhere that brings a key has the key.
    let header = bearer(&ada);
    let key = [("authorization", header.as_str()), ("origin", "http://other.example")];
    assert_eq!(client.send(Method::POST, "/sessions", &key, None).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_cookie_reads_nothing_for_a_page_from_elsewhere() {
    let client = Client::new().await;
    let ada = key(&client, "ada", &[Scope::Admin]).await;
    let cookie = sign_in(&client, &ada, OWN).await.0;
    let header = bearer(&ada);
    let get = async |path, headers: &[(&'static str, &str)]| client.send(Method::GET, path, headers, None).await;
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let read = get("/me", &[("cookie", &cookie), ("sec-fetch-site", site)]).await;
        assert_eq!(read.status, status, "{site}");
        // A link in a mail opens the inbox, and a page from elsewhere that brings a key has the key.
        let link = [("cookie", cookie.as_str()), ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
        assert_eq!(get("/", &link).await.status, 200, "{site}");
        assert_eq!(get("/me", &[("authorization", &header), ("sec-fetch-site", site)]).await.status, 200, "{site}");
    }
    let refused = get("/me", &[("cookie", &cookie), ("sec-fetch-site", "same-site")]).await;
    assert_eq!(refused.code(), "cross_site_request");
    assert_eq!(get("/me", &[("cookie", &cookie)]).await.status, 200, "an old browser");
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing_by_any_route() {
    let client = Client::new().await;
    let ada = key(&client, "ada", &[Scope::Admin]).await;
    let cookie = sign_in(&client, &ada, OWN).await.0;
    let changing: Vec<_> = operations()
        .into_iter()
        .filter(|(method, path, _)| !matches!(*method, Method::GET | Method::HEAD) && path != "/sign-in")
        .collect();
    assert!(changing.len() > 15, "the document has no operations any more");
    for (method, path, called) in changing {
        let refused = client.send(method.clone(), &called, &[("cookie", &cookie)], None).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "cross_site_request"), "{method} {path}");
    }
    assert_eq!(client.send(Method::GET, "/me", &[("cookie", &cookie)], None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_revoked_key_ends_its_sign_ins() {
    let client = Client::new().await;
    let admin = key(&client, "admin", &[Scope::Admin]).await;
    let made =
        as_key(&client, &admin, Method::POST, "/keys", Some(&json!({"name": "ada", "scopes": ["read"]}))).await.json();
    let cookie = sign_in(&client, made["key"].as_str().unwrap(), OWN).await.0;
    assert_eq!(client.send(Method::GET, "/me", &[("cookie", &cookie)], None).await.status, StatusCode::OK);
    let path = format!("/keys/{}", made["key_id"].as_str().unwrap());
    assert_eq!(as_key(&client, &admin, Method::DELETE, &path, None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(client.send(Method::GET, "/me", &[("cookie", &cookie)], None).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn nobody_signs_in_with_something_else_than_a_key() {
    let client = Client::with_keys().await;
    for body in [json!({"key": "wrong"}), json!({"key": ""}), json!({"key": "Bearer ada-key"})] {
        let refused = client.post("/sign-in", body).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "unauthorized"));
        assert!(refused.header("set-cookie").is_none());
    }
    assert_eq!(
        client.post("/sign-in", json!({"key": 1})).await.places(),
        [(json!(["body", "key"]), "wrong_type".to_owned())]
    );
    let guessed = format!("hitl_sign_in_8000={}", "A".repeat(43));
    assert_eq!(client.send(Method::GET, "/me", &[("cookie", &guessed)], None).await.status, StatusCode::UNAUTHORIZED);
    sign_in(&client, "ada-key", OWN).await;
}
