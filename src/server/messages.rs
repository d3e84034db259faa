//! `/sessions/{session_id}/messages`: what a session remembers, and what it is told.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{may_bring, may_tell};
use super::app::{App, Asking, BodyBytes, Shared};
use super::auth::Pass;
use super::body::read_json;
use super::error::ServerError;
use super::long_poll::Patience;
use super::models::{NewMessage, SessionResponse, SessionStatus};
use super::params::{Query, SessionPath, idempotency_key, traceparent};
use super::problems::problems;
use super::reading::{At, Reading, present};
use crate::domain::access::Actor;
use crate::domain::message::{ChatMessage, Lean};
use crate::domain::scope::Scope;
use crate::domain::status::Status;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId};

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_messages, send_message))
}

problems!(ListProblems: SESSION_NOT_FOUND, INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(SendProblems: SESSION_NOT_FOUND, SESSION_DELETED, REQUEST_TIMEOUT, SESSION_BUSY, OTHER_AGENT, BODY_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, WEBHOOK_REFUSED,
    IDEMPOTENCY_KEY_REUSED, QUEUE_FULL, NO_WORKER, TOO_MANY_WAITING, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// What a message may have besides: whom to tell of the turn's end.
const WEBHOOK: &str = "webhook";

/// List what a session remembers
///
/// All of it, or with `after` and `limit` a part: whoever has read so many messages reads on from there. Null members are
/// left out.
#[utoipa::path(get, path = "/sessions/{session_id}/messages", tag = "messages", operation_id = "list_messages",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("after" = Option<usize>, Query, minimum = 0, maximum = 2147483647,
            description = "How many to leave out, from the first on; none where absent. A turn may change those too: one that sums up what was said."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; all where absent."),
    ),
    responses(
        (status = 200, description = "The messages in order.", body = Vec<ChatMessage>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        ListProblems,
    )
)]
async fn list_messages(
    State(app): Shared,
    SessionPath(id): SessionPath,
    asking: Asking,
    mut query: Query,
) -> Result<Response, ServerError> {
    let (after, limit) = (query.after().unwrap_or_default(), query.limit_if_any());
    query.check()?;
    let _place = app.place_to_make(asking).await?;
    let page = app.engine.messages(id, after, limit).await?;
    let messages: Vec<_> = page.items.iter().map(Lean).collect();
    let link = query.link_by("after", &format!("/sessions/{id}/messages"), page.next);
    Ok((link, Json(messages)).into_response())
}

/// Send a message
///
/// Starts a turn and does not wait for it: get the session with `wait`, or listen to its events. With `wait` here the reply
/// is the one that such a request would get, as soon as the turn asks, ends or fails; the key needs the scope `read`
/// besides. Who hangs up, whose key is revoked, or who asked for a shorter `timeout` finds the turn at work all the same.
/// A message that is a run from elsewhere, `message_of(state)` of `hitl.ext.openai_agents`, needs `admin`.
#[utoipa::path(post, path = "/sessions/{session_id}/messages", tag = "messages", operation_id = "send_message",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("wait" = Option<bool>, Query,
            description = "Whether to wait while the session is running. 1/0, true/false, yes/no, on/off."),
        ("timeout" = Option<f64>, Query,
            description = "How many seconds to wait; until something happens where absent; not at all where not positive."),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "The same key with the same body sends nothing again for 24 hours: the first reply comes, or the session as it is by then."),
        ("traceparent" = Option<String>, Header,
            description = "The span that the turn is a part of (W3C Trace Context). One that is none is not heeded."),
    ),
    request_body = NewMessage,
    responses(
        (status = 200, description = "With `wait`: the session.", body = SessionResponse),
        (status = 202, description = "The turn is on its way.", body = SessionStatus,
            headers(("Location" = String, description = "`/sessions/{session_id}`"))),
        SendProblems,
    )
)]
#[expect(clippy::too_many_arguments, reason = "each is a part of the request that a handler asks for by its type")]
async fn send_message(
    State(app): Shared,
    SessionPath(id): SessionPath,
    actor: Actor,
    pass: Pass,
    asking: Asking,
    counted: BodyBytes,
    mut query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ServerError> {
    let patience = Patience::read(&mut query);
    query.check()?;
    // Sending is not reading, and the reply is what can be read.
    if patience.is_some() && !actor.may(Scope::Read) {
        return Err(Error::MissingScope(Scope::Read).into());
    }
    let body = read_json(&headers, body, app.limits()).await?.unwrap_or(Value::Null);
    let key = idempotency_key(&headers, &body)?;
    let (message, webhook) = read_message(body)?;
    may_tell(&actor, webhook.is_some())?;
    may_bring(&actor, &message)?;
    // Before the message: who is told that too many wait has sent nothing.
    let waiting = patience.map(|patience| app.waiting_permit(asking).map(|place| (patience, place))).transpose()?;
    // Before it too: what comes of it is heard, and nobody has to look.
    let waiting = waiting.map(|(patience, place)| (patience, place, app.engine.listen(id)));
    let sent = app.engine.send_message(id, message, webhook, key, traceparent(&headers), &actor).await?;
    if let Some((patience, _place, listener)) = waiting {
        // The message is stored, and waiting for what comes of it may take as long as a person does.
        counted.0.release();
        return patience.wait_after(&app, pass, (listener, sent), id).await;
    }
    let taken = SessionStatus { session_id: id, status: Status::Running };
    Ok((StatusCode::ACCEPTED, [(LOCATION, format!("/sessions/{id}"))], Json(taken)).into_response())
}

/// What nobody knows is not heeded, but where nothing else is said: that is a message in the words of somebody else.
fn read_message(body: Value) -> Result<(ChatMessage, Option<Webhook>), ServerError> {
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let message = reading.message_of(At::Body, &mut members);
    let webhook = present(&mut members, WEBHOOK);
    let webhook = webhook.map(|webhook| reading.webhook(At::Member(&At::Body, WEBHOOK), webhook));
    if message.is_empty() {
        let known = [&ChatMessage::MEMBERS[..], &[WEBHOOK]].concat().join(", ");
        reading.unknown(At::Body, &members, &known);
    }
    reading.finish((message, webhook))
}
