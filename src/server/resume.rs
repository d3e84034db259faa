//! Answers: `POST /sessions/{session_id}/resume` and `POST /interrupts/{interrupt_id}/resume`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::body::read_json;
use super::error::ServerError;
use super::models::{AnswerValue, Answers, ResumeResponse};
use super::params::{InterruptPath, SessionPath, idempotency_key};
use super::problems::problems;
use super::reading::{At, Reading};
use crate::domain::access::Actor;
use crate::domain::{JsonObject, SessionId};
use crate::engine::telling::view::Answer;

/// How many answers one request may hold: each reads its interrupt, and all of them are written in one transaction.
pub const MOST_ANSWERS: usize = 500;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(resume_session)).routes(routes!(resume_interrupt))
}

problems!(SessionProblems: SESSION_NOT_FOUND, UNKNOWN_INTERRUPT, REQUEST_TIMEOUT, NOT_INTERRUPTED,
    ALREADY_RESOLVED, SELF_APPROVAL, NOT_AN_APPROVER, INTERRUPT_CLAIMED, INTERRUPT_CANCELLED, OTHER_AGENT,
    INTERRUPT_EXPIRED, BODY_TOO_LARGE, VALUE_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST,
    DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, INVALID_ANSWER, DUPLICATE_ANSWER, IDEMPOTENCY_KEY_REUSED,
    SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(InterruptProblems: UNKNOWN_INTERRUPT, SELF_APPROVAL, NOT_AN_APPROVER, REQUEST_TIMEOUT,
    NOT_INTERRUPTED, ALREADY_RESOLVED, INTERRUPT_CLAIMED, INTERRUPT_CANCELLED, OTHER_AGENT, INTERRUPT_EXPIRED,
    BODY_TOO_LARGE, VALUE_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, DUPLICATE_MEMBER,
    NUMBER_OUT_OF_RANGE, INVALID_ANSWER, IDEMPOTENCY_KEY_REUSED, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// Answer interrupts of a session
///
/// One, or several at once, all or nothing. The first valid answer wins; the same answer again is a 200 with `replayed`.
#[utoipa::path(post, path = "/sessions/{session_id}/resume", tag = "interrupts", operation_id = "resume_session",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "The same key with another body is a 422, for 24 hours."),
    ),
    request_body = Answers,
    responses((status = 200, description = "The answers are stored.", body = ResumeResponse), SessionProblems)
)]
async fn resume_session(
    State(app): Shared,
    SessionPath(id): SessionPath,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ResumeResponse>, ServerError> {
    let body = read_json(&headers, body, app.answer_limits()).await?.unwrap_or(Value::Null);
    let key = idempotency_key(&headers, &body)?;
    let answers = read_answers(body)?;
    Ok(Json(app.engine.resume(id, answers, actor, key).await?.into()))
}

/// Answer an interrupt
///
/// The same as resuming its session with this one answer.
#[utoipa::path(post, path = "/interrupts/{interrupt_id}/resume", tag = "interrupts", operation_id = "resume_interrupt",
    params(
        ("interrupt_id" = String, Path, description = "The interrupt."),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "The same key with another body is a 422, for 24 hours."),
    ),
    request_body = AnswerValue,
    responses((status = 200, description = "The answer is stored.", body = ResumeResponse), InterruptProblems)
)]
async fn resume_interrupt(
    State(app): Shared,
    InterruptPath(interrupt_id): InterruptPath,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ResumeResponse>, ServerError> {
    let body = read_json(&headers, body, app.answer_limits()).await?.unwrap_or(Value::Null);
    let key = idempotency_key(&headers, &asked_for(&interrupt_id, &body))?;
    let answer = read_value(interrupt_id, body)?;
    Ok(Json(app.engine.resume_interrupt(answer, actor, key).await?.into()))
}

/// The request as it is to the session: the answer to another interrupt is another one.
fn asked_for(interrupt_id: &str, body: &Value) -> Value {
    let mut asked = body.clone();
    if let Some(members) = asked.as_object_mut() {
        members.insert("interrupt_id".to_owned(), interrupt_id.into());
    }
    asked
}

/// A null value is an answer, a missing one is none.
fn read_value(interrupt_id: String, body: Value) -> Result<Answer, ServerError> {
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let answer = read_members(&mut reading, At::Body, interrupt_id, &mut members);
    let said = reading.name(At::Body, &mut members);
    reading.finish(Answer { said, ..answer })
}

fn read_answers(body: Value) -> Result<Vec<Answer>, ServerError> {
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let said = reading.name(At::Body, &mut members);
    let answers = if members.contains_key("resume") {
        read_several(&mut reading, members)
    } else {
        vec![read_answer(&mut reading, At::Body, Value::Object(members))]
    };
    let named = |answer| Answer { said: said.clone(), ..answer };
    reading.finish(answers.into_iter().map(named).collect())
}

fn read_several(reading: &mut Reading, mut members: JsonObject) -> Vec<Answer> {
    let at = At::Member(&At::Body, "resume");
    for name in ["interrupt_id", "value", "expected_type"] {
        if members.contains_key(name) {
            reading.wrong(
                At::Member(&At::Body, name),
                "contradiction",
                "goes without resume: one answer, or several in resume",
            );
        }
    }
    let several = members.swap_remove("resume").unwrap_or_default();
    if several.as_array().is_some_and(Vec::is_empty) {
        reading.wrong(at, "too_short", "must have at least one answer");
    }
    if !reading.at_most(at, &several, MOST_ANSWERS) {
        return Vec::new();
    }
    reading.array(at, several, read_answer)
}

fn read_answer(reading: &mut Reading, at: At<'_>, answer: Value) -> Answer {
    let mut members = reading.object(at, answer);
    let interrupt_id = reading.required(at, &mut members, "interrupt_id");
    let interrupt_id = interrupt_id.map(|id| reading.text(At::Member(&at, "interrupt_id"), id)).unwrap_or_default();
    read_members(reading, at, interrupt_id, &mut members)
}

/// What is said of an answer beside the id of its interrupt.
fn read_members(reading: &mut Reading, at: At<'_>, interrupt_id: String, members: &mut JsonObject) -> Answer {
    let value = reading.required(at, members, "value").unwrap_or(Value::Null);
    let expected_type = reading.optional_text(at, members, "expected_type");
    Answer { interrupt_id, value, place: At::Member(&at, "value").loc(), said: None, expected_type }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Error;
    use serde_json::json;

    type Pairs = Vec<(String, Value)>;
    type Places = Vec<(Value, String)>;

    fn read(body: Value) -> Result<Pairs, Places> {
        match read_answers(body) {
            Ok(answers) => Ok(answers.into_iter().map(|answer| (answer.interrupt_id, answer.value)).collect()),
            Err(ServerError::Domain(Error::InvalidRequest(errors))) => {
                Err(errors.into_iter().map(|error| (json!(error.loc), error.kind)).collect())
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_answer_or_several() {
        assert_eq!(read(json!({"interrupt_id": "a", "value": 1})), Ok(vec![("a".to_owned(), json!(1))]));
        assert_eq!(
            read(json!({"resume": [{"interrupt_id": "a", "value": false}, {"interrupt_id": "b", "value": null}]})),
            Ok(vec![("a".to_owned(), json!(false)), ("b".to_owned(), Value::Null)])
        );
    }

    #[test]
    fn a_null_value_is_an_answer_and_a_missing_one_is_not() {
        assert_eq!(read(json!({"interrupt_id": "a", "value": null})), Ok(vec![("a".to_owned(), Value::Null)]));
        assert_eq!(read(json!({"interrupt_id": "a"})), Err(vec![(json!(["body", "value"]), "missing".to_owned())]));
    }

    #[test]
    fn everything_else_names_its_place() {
        let missing = |name: &str| (json!(["body", name]), "missing".to_owned());
        assert_eq!(read(json!({})), Err(vec![missing("interrupt_id"), missing("value")]));
        assert_eq!(
            read(json!({"interrupt_id": 1, "value": 1})),
            Err(vec![(json!(["body", "interrupt_id"]), "wrong_type".to_owned())])
        );
        assert_eq!(read(json!({"resume": []})), Err(vec![(json!(["body", "resume"]), "too_short".to_owned())]));
        assert_eq!(read(json!({"resume": null})), Err(vec![(json!(["body", "resume"]), "wrong_type".to_owned())]));
        assert_eq!(
            read(json!({"resume": [{"interrupt_id": "a"}], "value": 1})),
            Err(vec![
                (json!(["body", "value"]), "contradiction".to_owned()),
                (json!(["body", "resume", 0, "value"]), "missing".to_owned()),
            ])
        );
    }
}
