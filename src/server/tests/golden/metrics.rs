//! `metrics.txt`: the names, helps, types and labels of what `GET /metrics` tells.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::super::support::Client;
use super::compare;

/// The text with an underscore for each value, which differ from run to run.
fn shape(text: &str) -> String {
    let of_line = |line: &str| match line.rsplit_once(' ') {
        Some((sample, value)) if !line.starts_with('#') => {
            assert!(value.parse::<f64>().is_ok(), "{line}");
            format!("{sample} _\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(of_line).collect()
}

#[tokio::test]
async fn metrics_have_the_names_helps_types_and_labels_that_they_had() {
    let client = Client::new().await;
    let (session, ids) =
        client.asking(&["first", "second", "third", "fourth!", "fifth!", "sixth?odd\"ty\\pe", "last"]).await;
    for (id, value) in ids.iter().zip([
        json!({"approved": true}),
        json!({"approved": false}),
        json!({"approved": true, "always": true}),
        json!({"type": "edit", "args": {}}),
        json!({"type": "respond", "message": "no"}),
    ]) {
        let answered = client.post(&format!("/interrupts/{id}/resume"), json!({"value": value})).await;
        assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    }
    let rule = json!({"rules": [{"name": "always", "effect": "allow", "tool": "*"}]});
    let ruled = client.post("/sessions", rule).await;
    let ruled = ruled.header("location").unwrap().to_owned();
    client.post(&format!("{ruled}/messages"), json!({"content": "ask any"})).await;
    client.until(&ruled, "idle").await;
    assert_eq!(client.get(&session).await.status, StatusCode::OK);
    assert_eq!(client.get("/nowhere").await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.send(Method::PATCH, "/sessions", &[], None).await.status, StatusCode::METHOD_NOT_ALLOWED);
    let mut told = client.get("/metrics").await;
    // What waits is counted again only after a while, and asking for it is counted itself.
    while !(told.text.contains("odd") && told.text.contains("route=\"/metrics\"")) {
        tokio::task::yield_now().await;
        told = client.get("/metrics").await;
    }
    let content_type = told.header("content-type").unwrap();
    compare("metrics.txt", &format!("{content_type}\n\n{}", shape(&told.text)));
}
