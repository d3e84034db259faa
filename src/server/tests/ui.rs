//! The page at `/`, and what it may do in a browser.

use axum::http::{Method, StatusCode};

use super::support::Client;
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

const FILES: [(&str, &str); 4] = [
    ("/", "text/html; charset=utf-8"),
    ("/ui/inbox.js", "text/javascript; charset=utf-8"),
    ("/ui/inbox.css", "text/css; charset=utf-8"),
    ("/ui/icon.svg", "image/svg+xml"),
];

#[tokio::test]
async fn the_page_and_its_files_need_no_key_and_hold_to_a_strict_policy() {
    for client in [Client::new().await, Client::with_keys().await] {
        for (path, content_type) in FILES {
            let file = client.get(path).await;
            assert_eq!((file.status, file.header("content-type")), (StatusCode::OK, Some(content_type)), "{path}");
            let policy = file.header("content-security-policy").unwrap();
            for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
                assert!(policy.contains(rule), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
            assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        }
        assert_ne!(client.get("/ui/other.js").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_page_loads_nothing_but_its_own_files_and_runs_nothing_inline() {
    let page = Client::new().await.get("/").await.text;
    for script in page.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').unwrap();
        assert!(tag.contains("src=\"/ui/inbox.js\""), "{tag}");
        assert!(rest.starts_with("</script>"), "inline script: {rest}");
    }
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains("http"), "{page}");
}

#[tokio::test]
async fn what_a_browser_has_already_is_not_sent_again() {
    let client = Client::new().await;
    let first = client.get("/ui/inbox.js").await;
    let tag = first.header("etag").unwrap().to_owned();
    let again = client.send(Method::GET, "/ui/inbox.js", &[("if-none-match", &tag)], None).await;
    assert_eq!((again.status, again.text.len()), (StatusCode::NOT_MODIFIED, 0));
    for known in [format!("W/{tag}"), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = client.send(Method::GET, "/ui/inbox.js", &[("if-none-match", &known)], None).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{known}");
    }
    for known in ["\"other\"", "W/\"other\"", ""] {
        let other = client.send(Method::GET, "/ui/inbox.js", &[("if-none-match", known)], None).await;
        assert_eq!(other.status, StatusCode::OK, "{known}");
    }
    let counted = client.get("/metrics").await.text;
    assert!(counted.contains("route=\"(none)\",status=\"304\"} 4"), "{counted}");
}

#[tokio::test]
async fn without_the_ui_there_is_no_page() {
    let client = Client::with(Settings::default(), HttpSettings { ui: false, ..HttpSettings::default() }).await;
    for (path, _) in FILES {
        assert_eq!(client.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}
