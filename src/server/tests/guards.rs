//! Who may call, and what is said to who may not.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use serde_json::json;
use tower::ServiceExt;

use super::access::key;
use super::sign_ins::{OWN, sign_in};
use super::support::{Client, HOST, engine};
use crate::domain::scope::Scope;
use crate::engine::settings::Settings;
use crate::server::front;
use crate::server::routes;
use crate::server::settings::{ApiKey, HttpSettings};

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_with_keys_or_without() {
    let bearer = ("authorization", "Bearer ada-key");
    for client in [Client::new().await, Client::with_keys().await] {
        for path in ["/sessions", "/healthz", "/docs", "/nowhere"] {
            let host = client.send(Method::GET, path, &[bearer, ("host", "evil.example")], None).await;
            assert_eq!((host.status.as_u16(), host.code().as_str()), (403, "foreign_host"), "{path}");
            let origin = client.send(Method::GET, path, &[bearer, ("origin", "http://evil.example")], None).await;
            assert_eq!((origin.status.as_u16(), origin.code().as_str()), (403, "foreign_origin"), "{path}");
        }
        let own = client.send(Method::POST, "/sessions", &[bearer, ("origin", "http://localhost:8000")], None).await;
        assert_eq!(own.status, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn without_a_key_only_the_probes_answer() {
    let client = Client::with_keys().await;
    for path in
        ["/health", "/sessions", "/interrupts", "/events", "/metrics", "/docs", "/docs/docs.js", "/openapi.json", "/x"]
    {
        let refused = client.get(path).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "unauthorized"), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"hitl\""));
    }
    let wrong = client.send(Method::GET, "/sessions", &[("authorization", "Bearer ada-key2")], None).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.get(path).await.json(), json!({"status": "ok"}), "{path}");
    }
    let known = client.send(Method::GET, "/sessions", &[("authorization", "Bearer bob-key")], None).await;
    assert_eq!(known.status, StatusCode::OK);
}

#[tokio::test]
async fn a_server_that_takes_no_requests_says_so_and_answers_probes_and_shows_its_figures_to_who_may_see_them() {
    let settings = HttpSettings { takes_requests: false, ..HttpSettings::default() };
    let open = Client::with(Settings::default(), settings.clone()).await;
    assert!(open.get("/metrics").await.text.contains("hitl_workers 2"));
    let keys = vec![ApiKey { name: "ada".to_owned(), key: "ada-key".to_owned() }];
    let shut = Client::with(Settings::default(), HttpSettings { api_keys: keys, ..settings }).await;
    let ada = [("authorization", "Bearer ada-key")];
    for path in ["/", "/health", "/sessions", "/docs", "/openapi.json", "/nowhere"] {
        let here = open.get(path).await;
        assert_eq!((here.status.as_u16(), here.code().as_str()), (404, "takes_no_requests"), "{path}");
        assert_eq!(here.header("content-type"), Some("application/problem+json"));
        assert_eq!(shut.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(shut.send(Method::GET, path, &ada, None).await.code(), "takes_no_requests", "{path}");
    }
    for client in [&open, &shut] {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(client.get(path).await.json(), json!({"status": "ok"}), "{path}");
        }
        assert_eq!(client.send(Method::POST, "/metrics", &ada, None).await.code(), "method_not_allowed");
    }
    assert_eq!(shut.get("/metrics").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(shut.send(Method::GET, "/metrics", &ada, None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    let client = Client::new().await;
    for path in ["/nowhere", "/sessions/", "/sessions/x/y", "/docs/other.js"] {
        let missing = client.get(path).await;
        assert_eq!((missing.status.as_u16(), missing.code().as_str()), (404, "not_found"), "{path}");
    }
    for (method, path, allow) in [
        (Method::PATCH, "/sessions", "GET,HEAD,POST"),
        (Method::POST, "/health", "GET,HEAD"),
        (Method::GET, "/sessions/x/resume", "POST"),
        (Method::OPTIONS, "/sessions/x/cancel", "POST"),
    ] {
        let refused = client.send(method.clone(), path, &[], None).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        assert_eq!(refused.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test]
async fn a_uri_has_a_longest_length() {
    let client = Client::new().await;
    let refused = client.get(&format!("/sessions?x={}", "y".repeat(9000))).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (414, "uri_too_long"));
}

#[tokio::test]
async fn a_body_is_declared_and_bounded() {
    let client = Client::with(Settings::default(), HttpSettings { max_body: 64, ..HttpSettings::default() }).await;
    let path = format!("{}/messages", client.session().await);
    let post = |content_type: Option<&'static str>, body: String| {
        let mut request = Request::builder().method(Method::POST).uri(&path).header("host", HOST);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        client.request(request.body(Body::from(body)).unwrap())
    };
    assert_eq!(post(None, "{}".to_owned()).await.code(), "unsupported_media_type");
    assert_eq!(post(Some("text/plain"), "{}".to_owned()).await.code(), "unsupported_media_type");
    let large = post(Some("application/json"), format!("{{\"content\":\"{}\"}}", "x".repeat(64))).await;
    assert_eq!((large.status.as_u16(), large.code().as_str()), (413, "body_too_large"));
    let broken = post(Some("application/json"), "{\"content\":".to_owned()).await;
    assert_eq!(broken.places(), [(json!(["body"]), "invalid_json".to_owned())]);
    let empty = post(None, String::new()).await;
    assert_eq!(empty.places(), [(json!(["body"]), "wrong_type".to_owned())]);
    assert_eq!(post(Some("application/json; charset=utf-8"), "{}".to_owned()).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_handler_that_panics_is_a_500_without_details() {
    let app = routes::app(engine(Settings::default()).await, HttpSettings::default(), HOST.parse().unwrap());
    let boom = get(async || -> &'static str { panic!("the secret") });
    let router = axum::Router::new().route("/boom", boom).layer(from_fn_with_state(app, front::admit));
    let request = Request::builder().uri("/boom").header("host", HOST).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
    assert!(!String::from_utf8_lossy(&body).contains("secret"));
}

#[tokio::test]
async fn every_answer_carries_headers_for_browsers() {
    let client = Client::new().await;
    for path in ["/health", "/nowhere", "/sessions/x", "/docs"] {
        let reply = client.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert!(reply.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"), "{path}");
        assert!(reply.header("access-control-allow-origin").is_none(), "{path}");
    }
}

#[tokio::test]
async fn metrics_show_requests_by_route() {
    let client = Client::new().await;
    client.session().await;
    let metrics = client.get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    assert!(
        metrics.text.contains("hitl_http_requests_total{method=\"POST\",route=\"/sessions\",status=\"201\"} 1"),
        "{}",
        metrics.text
    );
}

#[tokio::test]
async fn health_counts_workers_and_sessions() {
    let client = Client::new().await;
    client.told("hang").await;
    let health = client.get("/health").await.json();
    assert_eq!((&health["status"], &health["max_workers"]), (&json!("ok"), &json!(2)));
    assert_eq!((&health["running_workers"], &health["total_sessions"]), (&json!(1), &json!(1)));
    // Nobody shares its store.
    assert!(health.get("servers").is_none() && health.get("differences").is_none());
}

#[tokio::test]
async fn a_stopping_engine_is_not_ready() {
    let client = Client::new().await;
    client.engine.shut_down(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
    let refused = client.get("/readyz").await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "shutting_down"));
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn a_foreign_cookie_of_the_same_name_signs_nobody_out_and_nobody_in() {
    let client = Client::new().await;
    let (ada, eve) = (key(&client, "ada", &[Scope::Read]).await, key(&client, "eve", &[Scope::Read]).await);
    let (own, _) = sign_in(&client, &ada, OWN).await;
    let (other, _) = sign_in(&client, &eve, OWN).await;
    let me = async |cookie: String| client.send(Method::GET, "/me", &[("cookie", &cookie)], None).await;
    // Where it names a longer path, it comes first.
    for cookie in [format!("hitl_sign_in_8000=tossed; {own}"), format!("{own}; hitl_sign_in_8000=tossed"), own.clone()]
    {
        assert_eq!(me(cookie).await.json()["name"], "ada");
    }
    assert_eq!(me(format!("{own}; {own}")).await.json()["name"], "ada");
    let refused = me(format!("{other}; {own}")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "ambiguous_sign_in"));
}

#[tokio::test]
async fn whoever_signs_in_shows_no_key_before_and_so_sends_no_long_body() {
    let client = Client::with_keys().await;
    let refused = client.post("/sign-in", json!({"key": "x".repeat(64 * 1024)})).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (413, "body_too_large"));
    assert_eq!(client.post("/sign-in", json!({"key": "x".repeat(32 * 1024)})).await.status.as_u16(), 401);
}
