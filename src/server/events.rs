//! Server-sent events: what happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Asking, Shared};
use super::auth::Pass;
use super::error::ServerError;
use super::params::{NoQuery, SessionPath, last_event_id};
use super::problems::problems;
use crate::domain::SessionId;
use crate::domain::event::EventView;
use crate::engine::telling::view::{FeedItem, Subscription};

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(all_events)).routes(routes!(session_events))
}

problems!(AllProblems: INVALID_REQUEST, TOO_MANY_WAITING, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(SessionProblems: SESSION_NOT_FOUND, INVALID_REQUEST, TOO_MANY_WAITING, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// How long a client should wait before it comes back after the stream broke off.
const RECONNECT: Duration = Duration::from_secs(1);

/// Listen to all sessions
///
/// `id:` is a number that grows, `event:` the name (`session.running`, `session.interrupted`, `session.idle`,
/// `session.error`, `interrupt.created`, `interrupt.resolved`, `interrupt.expired`, `interrupt.cancelled`,
/// `interrupt.claimed`, `interrupt.released`, `interrupt.snoozed`, `interrupt.unsnoozed`, `message.completed`,
/// `tool.started`, `tool.finished`, `message.delta`), `data:` JSON with `session_id`. From now on, or after
/// `Last-Event-ID`, also across a restart; deltas are not stored and have no id, nor has the start of a tool that may run
/// again. The first block has no data and the id after which the stream begins.
#[utoipa::path(get, path = "/events", tag = "events", operation_id = "listen",
    params(("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,18}$",
        description = "The id of the last event seen: go on after it.")),
    responses(
        (status = 200, description = "Events until one side hangs up, or the key is revoked.", body = String, content_type = "text/event-stream",
            example = "id: 7\nevent: session.idle\ndata: {\"session_id\":\"550e8400-e29b-41d4-a716-446655440000\",\"status\":\"idle\"}\n\n"),
        AllProblems,
    )
)]
async fn all_events(
    State(app): Shared,
    pass: Pass,
    asking: Asking,
    _: NoQuery,
    headers: HeaderMap,
) -> Result<Response, ServerError> {
    listen(&app, (pass, asking), None, &headers).await
}

/// Listen to one session
///
/// As `/events`, of this session only.
#[utoipa::path(get, path = "/sessions/{session_id}/events", tag = "events", operation_id = "listen_to_session",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,18}$",
            description = "The id of the last event seen: go on after it."),
    ),
    responses(
        (status = 200, description = "Events until one side hangs up, or the key is revoked.", body = String, content_type = "text/event-stream"),
        SessionProblems,
    )
)]
async fn session_events(
    State(app): Shared,
    SessionPath(id): SessionPath,
    pass: Pass,
    asking: Asking,
    _: NoQuery,
    headers: HeaderMap,
) -> Result<Response, ServerError> {
    listen(&app, (pass, asking), Some(id), &headers).await
}

async fn listen(
    app: &Arc<App>,
    (pass, asking): (Pass, Asking),
    session: Option<SessionId>,
    headers: &HeaderMap,
) -> Result<Response, ServerError> {
    let after = last_event_id(headers)?;
    let waiting = app.waiting_permit(asking)?;
    let subscription = app.engine.subscribe(session, after).await?;
    // Ends with the subscription, when the server stops, or when whoever listens would not be let in any more.
    let stopping = app.stopping.clone().cancelled_owned();
    let asked = Arc::clone(app);
    let over = async move {
        asked.gate.until_over(&asked.engine, pass).await;
        drop(waiting);
    };
    let frames = first(subscription.after)
        .chain(frames(subscription))
        .take_until(stopping)
        .take_until(over)
        .map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(app.settings.event_keep_alive).text("still here");
    // Proxies that would collect the stream before passing it on are told not to.
    let headers = [(HeaderName::from_static("x-accel-buffering"), "no"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Sse::new(frames).keep_alive(keep_alive)).into_response())
}

/// Something at once, so that a client sees the stream open; and from where on it hears, so that one whose stream breaks
/// before the first event misses nothing either. A block without data is no event, and its id counts all the same.
fn first(after: u64) -> impl Stream<Item = Frame> {
    stream::iter([Frame::default().comment("listening").retry(RECONNECT).id(after.to_string())])
}

fn frames(subscription: Subscription) -> impl Stream<Item = Frame> {
    stream::unfold(subscription, |mut subscription| async {
        let heard = subscription.events.recv().await?;
        Some((frame(&heard), subscription))
    })
}

fn frame(heard: &FeedItem) -> Frame {
    match heard {
        FeedItem::Stored(numbered) => frame_of(&numbered.event).id(numbered.number.to_string()),
        FeedItem::Passing(event) => frame_of(event),
    }
}

fn frame_of(event: &EventView) -> Frame {
    let data = serde_json::to_string(&event.data).unwrap_or_else(|error| {
        tracing::error!(event = event.name, "an event cannot be written: {error}");
        format!("{{\"session_id\":\"{}\"}}", event.session_id)
    });
    Frame::default().event(&event.name).data(data)
}
