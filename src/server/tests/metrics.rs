//! What `GET /metrics` tells of questions and decisions.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::support::Client;

/// The value of a sample.
async fn figure(client: &Client, sample: &str) -> Option<f64> {
    let text = client.get("/metrics").await.text;
    let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ').map(str::to_owned))?;
    Some(value.parse().unwrap())
}

async fn answer(client: &Client, id: &str, value: Value) {
    let answered = client.post(&format!("/interrupts/{id}/resume"), json!({"value": value})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
}

#[tokio::test]
async fn what_waits_is_told_by_type_and_age() {
    let client = Client::new().await;
    let (_, ids) = client.asking(&["first", "second"]).await;
    let young = "hitl_interrupts_pending{type=\"tool_approval\",age=\"under_1m\"}";
    // Counted again only after a while, however short.
    while figure(&client, young).await != Some(2.0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(figure(&client, "hitl_interrupts_pending{type=\"tool_approval\",age=\"over_1d\"}").await, Some(0.0));
    answer(&client, &ids[0], json!({"approved": true})).await;
    while figure(&client, young).await != Some(1.0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_work_of_every_turn_that_is_over_is_counted_by_its_outcome() {
    let client = Client::new().await;
    let (done, ids) = client.asking(&["first"]).await;
    answer(&client, &ids[0], json!({"approved": true})).await;
    client.until(&done, "idle").await;
    client.post(&format!("{done}/messages"), json!({"content": "fail"})).await;
    client.until(&done, "error").await;
    let (cancelled, _) = client.asking(&["second"]).await;
    assert_eq!(client.post(&format!("{cancelled}/cancel"), json!({})).await.status, StatusCode::OK);
    for (outcome, turns) in [("done", 1.0), ("failed", 2.0)] {
        for name in ["hitl_turn_work_seconds_count", "hitl_turns_ended_total"] {
            assert_eq!(figure(&client, &format!("{name}{{outcome=\"{outcome}\"}}")).await, Some(turns), "{name}");
        }
    }
}

#[tokio::test]
async fn decisions_are_counted_by_outcome_and_by_whom() {
    let client = Client::new().await;
    let (_, ids) = client.asking(&["first", "second", "third", "third"]).await;
    answer(&client, &ids[0], json!({"approved": true})).await;
    answer(&client, &ids[1], json!({"approved": false})).await;
    answer(&client, &ids[2], json!({"approved": true, "always": true})).await;
    // The same answer again is no second decision.
    answer(&client, &ids[0], json!({"approved": true})).await;
    let decisions = async |outcome, by| {
        figure(&client, &format!("hitl_decisions_total{{outcome=\"{outcome}\",by=\"{by}\"}}")).await
    };
    assert_eq!(decisions("approve", "person").await, Some(2.0));
    assert_eq!(decisions("reject", "person").await, Some(1.0));
    assert_eq!(decisions("approve", "rule").await, Some(1.0), "the other call of the third tool");
    assert_eq!(figure(&client, "hitl_decision_seconds_count").await, Some(3.0));
    assert_eq!(figure(&client, "hitl_decision_seconds_bucket{le=\"+Inf\"}").await, Some(3.0));
    assert!(figure(&client, "hitl_decision_seconds_sum").await.is_some_and(|sum| sum >= 0.0));
}
