//! `/sessions`: create, list, read, wait for, delete, cancel and retry.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::may_tell;
use super::app::{App, Asking, Shared};
use super::auth::Pass;
use super::body::read_json;
use super::error::ServerError;
use super::long_poll::Patience;
use super::models::{NewSessionBody, SessionResponse, SessionStatus, SessionSummary};
use super::params::{LONGEST_SEARCH, Query, SessionPath, idempotency_key};
use super::problems::problems;
use super::reading::{At, Reading, present};
use crate::domain::access::Actor;
use crate::domain::scope::Scope;
use crate::domain::search::Needle;
use crate::domain::status::Status;
use crate::domain::{Error, SessionId};
use crate::engine::telling::view::{NewSession, SessionView};
use crate::store::query::{Order, SessionQuery, SessionSearch, TitledSession};

/// The statuses a session can have, for messages.
pub const STATUSES: &str = "idle, running, interrupted, error";

/// The most messages that a session begins with: all of them are written in one transaction, which others wait for.
const MOST_MESSAGES: usize = 10_000;

/// How many sessions one page of a search looks at, at the most: no index leads to a part of a title.
const SEARCHED: usize = 5_000;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default()
        .routes(routes!(list_sessions, create_session))
        .routes(routes!(get_session, create_session_with_id, delete_session))
        .routes(routes!(cancel_turn))
        .routes(routes!(retry_turn))
        .routes(routes!(get_run_state))
}

problems!(CreateProblems: IMPORT_DISABLED, REQUEST_TIMEOUT, SESSION_EXISTS, BODY_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, WEBHOOK_REFUSED,
    RUN_STATE_NEWER, RUN_STATE_INVALID, RUN_STATE_OTHER_AGENT, RUN_STATE_USED, RUN_STATE_KNOWN, IDEMPOTENCY_KEY_REUSED,
    TOO_MANY_SESSIONS, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(ExportProblems: SESSION_NOT_FOUND, NOTHING_TO_EXPORT, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(CreateWithIdProblems: INVALID_SESSION_ID, CUSTOM_IDS_DISABLED, REQUEST_TIMEOUT, SESSION_EXISTS,
    BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE,
    WEBHOOK_REFUSED, TOO_MANY_SESSIONS, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(ListProblems: INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(GetProblems: SESSION_NOT_FOUND, SESSION_DELETED, INVALID_REQUEST, TOO_MANY_WAITING, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(DeleteProblems: SESSION_NOT_FOUND, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(CancelProblems: SESSION_NOT_FOUND, NOTHING_TO_CANCEL, TURN_NOT_OPEN, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(RetryProblems: SESSION_NOT_FOUND, NOTHING_TO_RETRY, OTHER_AGENT, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// Create a session
///
/// The body is optional: none, null, `{}`, or what the session begins with: messages that it remembers, rules of its
/// own, which come before those of the server, and a webhook that is told of what happens to it. With `run_state`, and
/// where the server was started with `--allow-import`, it goes on with a run from elsewhere: under its own id, and with
/// the decisions in it where its signature verifies; else what was decided and done is asked and done again. Rules and
/// `run_state` need a key with the scope `admin`.
#[utoipa::path(post, path = "/sessions", tag = "sessions", operation_id = "create_session",
    params(
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "The same key with the same body makes no other session for 24 hours: the first reply comes again. Each API key has its own."),
    ),
    request_body = Option<NewSessionBody>,
    responses(
        (status = 201, description = "The new session: idle, or where the run stands that was imported.",
            body = SessionResponse, headers(("Location" = String, description = "`/sessions/{session_id}`"))),
        CreateProblems,
    )
)]
async fn create_session(
    State(app): Shared,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ServerError> {
    let body = read_json(&headers, body, app.limits()).await?.unwrap_or(Value::Null);
    let key = idempotency_key(&headers, &body)?;
    let (new, run) = read_new(&app, &actor, body, true).await?;
    Ok(created(match run {
        Some(run) => app.engine.import_run(run, key, actor).await?,
        None => app.engine.create_session(new, key, &actor).await?,
    }))
}

/// Create a session with an id of your own
///
/// Only where the server was started with `--allow-custom-ids`.
#[utoipa::path(put, path = "/sessions/{session_id}", tag = "sessions", operation_id = "create_session_with_id",
    params(("session_id" = SessionId, Path, description = "A UUID; anything else is a 400.")),
    request_body = Option<NewSessionBody>,
    responses(
        (status = 201, description = "The new session, idle.", body = SessionResponse,
            headers(("Location" = String, description = "`/sessions/{session_id}`"))),
        CreateWithIdProblems,
    )
)]
async fn create_session_with_id(
    State(app): Shared,
    actor: Actor,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ServerError> {
    // The order of refusals is part of the contract, and what the body says comes after whether it may be sent at all.
    if !app.engine.settings().allow_custom_ids {
        return Err(Error::CustomIdsDisabled.into());
    }
    let Path(id) = id.map_err(|_| Error::InvalidSessionId)?;
    id.parse::<SessionId>().map_err(|_| Error::InvalidSessionId)?;
    let body = read_json(&headers, body, app.limits()).await?.unwrap_or(Value::Null);
    let (new, _) = read_new(&app, &actor, body, false).await?;
    Ok(created(app.engine.create_session_with_id(&id, new).await?))
}

/// List sessions
///
/// Oldest first, or with `order=newest` the one that was made last. With `q` a page looks at the next 5,000 sessions at the
/// most: it may have fewer than `limit`, or none, and still a `Link` to where the search goes on.
#[utoipa::path(get, path = "/sessions", tag = "sessions", operation_id = "list_sessions",
    params(
        ("status" = Option<Status>, Query, description = "Only those with this status."),
        ("q" = Option<String>, Query, min_length = 1, max_length = 200,
            description = "Only those that say this, whatever the case, in the title or the id; of a whole id the one that has it."),
        ("order" = inline(Option<Order>), Query, description = "`oldest` where absent."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where absent."),
        ("cursor" = Option<String>, Query, pattern = "^n?[0-9]{1,18}$",
            description = "Where the page begins: out of the `Link` of the page before, of the same order."),
    ),
    responses(
        (status = 200, description = "A page of sessions.", body = Vec<SessionSummary>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        ListProblems,
    )
)]
async fn list_sessions(State(app): Shared, asking: Asking, mut query: Query) -> Result<Response, ServerError> {
    let order = query.word("order", "oldest, newest", Order::parse).unwrap_or_default();
    let mark = match order {
        Order::Oldest => "",
        Order::Newest => "n",
    };
    let said = query.short_text("q", LONGEST_SEARCH);
    let id = said.as_deref().and_then(|text| text.trim().parse::<SessionId>().ok());
    let search = said.filter(|_| id.is_none()).map(|text| {
        let needle = Needle::new(&text);
        SessionSearch { needle, within: SEARCHED }
    });
    let wanted = SessionQuery {
        order,
        id,
        search,
        status: query.word("status", STATUSES, Status::parse),
        limit: query.limit(),
        cursor: query.marked_cursor(mark),
    };
    query.check()?;
    let _place = app.place_to_search(asking, wanted.search.is_some()).await?;
    let page = app.engine.sessions(wanted).await?;
    let summary = |titled: TitledSession| {
        let agent_name = app.engine.agent_name(&titled.agent);
        SessionSummary::new(titled, agent_name)
    };
    let sessions: Vec<SessionSummary> = page.items.into_iter().map(summary).collect();
    let next = page.next.map(|next| format!("{mark}{next}"));
    Ok((query.link("/sessions", next), Json(sessions)).into_response())
}

/// Get a session, or wait for it
///
/// With `wait` the answer comes as soon as the session is not `running` any more: it is interrupted, idle, in error, or
/// deleted. At the timeout the answer is the session as it is then, still `running`.
#[utoipa::path(get, path = "/sessions/{session_id}", tag = "sessions", operation_id = "get_session",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("wait" = Option<bool>, Query, description = "Whether to wait while it is running. 1/0, true/false, yes/no, on/off."),
        ("timeout" = Option<f64>, Query,
            description = "How many seconds to wait; until something happens where absent; not at all where not positive."),
    ),
    responses((status = 200, description = "The session.", body = SessionResponse), GetProblems)
)]
async fn get_session(
    State(app): Shared,
    SessionPath(id): SessionPath,
    pass: Pass,
    asking: Asking,
    mut query: Query,
) -> Result<Response, ServerError> {
    let patience = Patience::read(&mut query);
    query.check()?;
    let Some(patience) = patience else {
        return Ok(Json(SessionResponse::from(app.engine.session(id).await?)).into_response());
    };
    let _waiting = app.waiting_permit(asking)?;
    patience.wait(&app, pass, id).await
}

/// Delete a session
///
/// Its turn is stopped, its interrupts go with it.
#[utoipa::path(delete, path = "/sessions/{session_id}", tag = "sessions", operation_id = "delete_session",
    params(("session_id" = SessionId, Path, description = "The session.")),
    responses((status = 204, description = "It is gone."), DeleteProblems)
)]
async fn delete_session(
    State(app): Shared,
    SessionPath(id): SessionPath,
    actor: Actor,
) -> Result<StatusCode, ServerError> {
    app.engine.delete_session(id, actor).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancel the turn of a session
///
/// The turn is stopped, its interrupts are cancelled, and the session becomes `error` with `Turn cancelled`. It takes new
/// messages.
#[utoipa::path(post, path = "/sessions/{session_id}/cancel", tag = "sessions", operation_id = "cancel_turn",
    params(("session_id" = SessionId, Path, description = "The session.")),
    responses((status = 200, description = "The session afterwards.", body = SessionResponse), CancelProblems)
)]
async fn cancel_turn(
    State(app): Shared,
    SessionPath(id): SessionPath,
    actor: Actor,
) -> Result<Json<SessionResponse>, ServerError> {
    Ok(Json(app.engine.cancel(id, actor).await?.into()))
}

/// Take up the turn of a failed session again
///
/// For an `error` whose journal was kept: `replay_mismatch`, `replay_timeout`, `python_unsupported`, `code_pinned`,
/// `journal_unreadable`, `worker_exited`; or `model_unavailable`, `resource_unavailable`, `max_steps_exceeded`,
/// `token_limit_exceeded`, `invalid_output` or `reply_cut_short`. The turn goes on by a replay, with what it asks still open.
/// For the first six the same happens by itself when a server starts with other code of the agent. A new message abandons the turn instead.
#[utoipa::path(post, path = "/sessions/{session_id}/retry", tag = "sessions", operation_id = "retry_turn",
    params(("session_id" = SessionId, Path, description = "The session.")),
    responses(
        (status = 202, description = "The turn goes on.", body = SessionStatus,
            headers(("Location" = String, description = "`/sessions/{session_id}`"))),
        RetryProblems,
    )
)]
async fn retry_turn(State(app): Shared, SessionPath(id): SessionPath, actor: Actor) -> Result<Response, ServerError> {
    let session = app.engine.retry(id, actor).await?.session;
    let status = SessionStatus { session_id: id, status: session.status() };
    Ok((StatusCode::ACCEPTED, [(LOCATION, format!("/sessions/{id}"))], Json(status)).into_response())
}

/// The state of a session's turn
///
/// One JSON document with the turn's journal, as `RunState.to_string()` writes it: to go on with it elsewhere. Signed
/// where the server has a `--state-key`. The session stays as it is.
#[utoipa::path(get, path = "/sessions/{session_id}/run-state", tag = "sessions", operation_id = "get_run_state",
    params(("session_id" = SessionId, Path, description = "The session.")),
    responses((status = 200, description = "The state.", body = Object), ExportProblems)
)]
async fn get_run_state(
    State(app): Shared,
    SessionPath(id): SessionPath,
    actor: Actor,
) -> Result<Json<Value>, ServerError> {
    Ok(Json(app.engine.export_run(id, actor).await?))
}

/// What a new session begins with, or, where it `may_import`, the state of a run.
async fn read_new(
    app: &App,
    actor: &Actor,
    body: Value,
    may_import: bool,
) -> Result<(NewSession, Option<Value>), ServerError> {
    if body.is_null() {
        return Ok((NewSession::default(), None));
    }
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let (state, rules) = (present(&mut members, "state"), present(&mut members, "rules"));
    let webhook = present(&mut members, "webhook");
    let run = present(&mut members, "run_state");
    // Rules of a session come before the server's, and a run brings its decisions along: either could let through what
    // the operator has people asked about.
    if (rules.is_some() || run.is_some()) && !actor.may(Scope::Admin) {
        return Err(Error::MissingScope(Scope::Admin).into());
    }
    may_tell(actor, webhook.is_some())?;
    let (at_state, at_rules) = (At::Member(&At::Body, "state"), At::Member(&At::Body, "rules"));
    let at_run = At::Member(&At::Body, "run_state");
    match &run {
        Some(_) if !may_import => reading.wrong(at_run, "not_allowed", "a run keeps its own id; use POST /sessions"),
        Some(_) if state.is_some() || rules.is_some() || webhook.is_some() => {
            reading.wrong(at_run, "not_allowed", "a run state comes alone, with its own messages");
        }
        Some(Value::Object(document)) => {
            if let Some(messages) = document.get("messages") {
                reading.at_most(At::Member(&at_run, "messages"), messages, MOST_MESSAGES);
            }
        }
        None => {}
        Some(_) => reading.wrong(at_run, "wrong_type", "must be an object"),
    }
    let state = state.map(|state| {
        let fits = reading.at_most(at_state, &state, MOST_MESSAGES);
        reading.array(at_state, if fits { state } else { Value::Array(Vec::new()) }, Reading::message)
    });
    let state = state.unwrap_or_default();
    let rules = rules.map(|rules| reading.array(at_rules, rules, Reading::rule)).unwrap_or_default();
    let webhook = webhook.map(|webhook| reading.webhook(At::Member(&At::Body, "webhook"), webhook));
    let (new, run) = reading.finish((NewSession { state, rules, webhook }, run))?;
    app.engine.access().compile_rules(&new.rules).await.map_err(|errors| {
        let place = at_rules.loc();
        ServerError::invalid(errors.into_iter().map(|error| error.under(&place)).collect())
    })?;
    Ok((new, run))
}

fn created(view: SessionView) -> Response {
    let location = format!("/sessions/{}", view.session.id);
    (StatusCode::CREATED, [(LOCATION, location)], Json(SessionResponse::from(view))).into_response()
}
