//! `/interrupts`: everything that is asked, over all sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Asking, Shared};
use super::error::ServerError;
use super::params::{InterruptPath, LONGEST_SEARCH, NoQuery, Query};
use super::problems::problems;
use crate::domain::access::Actor;
use crate::domain::interrupt::Interrupt;
use crate::domain::search::Needle;
use crate::domain::status::InterruptStatus;
use crate::domain::{SessionId, Timestamp};
use crate::store::query::InterruptQuery;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_interrupts)).routes(routes!(get_interrupt))
}

problems!(ListProblems: INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(GetProblems: UNKNOWN_INTERRUPT, INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);

const FILTERS: [&str; 11] =
    ["status", "type", "tool", "session_id", "agent", "created_after", "q", "snoozed", "claimed_by", "limit", "cursor"];

/// List interrupts over all sessions
///
/// Newest first. An unknown filter is a 422: a typing error must not list everything.
#[utoipa::path(get, path = "/interrupts", tag = "interrupts", operation_id = "list_interrupts",
    params(
        ("status" = Option<InterruptStatus>, Query, description = "Only those with this status."),
        ("type" = Option<String>, Query, min_length = 1, description = "Only those of this type, such as `tool_approval`."),
        ("tool" = Option<String>, Query, min_length = 1, description = "Only approvals of this tool."),
        ("session_id" = Option<SessionId>, Query, description = "Only those of this session."),
        ("agent" = Option<String>, Query, min_length = 1, description = "Only those of this agent."),
        ("created_after" = Option<Timestamp>, Query, description = "Only those asked after this time."),
        ("q" = Option<String>, Query, min_length = 1, max_length = 200,
            description = "Only those that say this, whatever the case: in a value of the payload, such as the tool's name or an argument, in the message, or in the agent's name."),
        ("snoozed" = Option<bool>, Query, description = "Only those that somebody has snoozed, or has not. 1/0, true/false, yes/no, on/off."),
        ("claimed_by" = Option<String>, Query, min_length = 1, description = "Only those that this one has claimed."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where absent."),
        ("cursor" = Option<String>, Query, pattern = "^[0-9]{1,18}$",
            description = "Where the page begins: out of the `Link` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of interrupts.", body = Vec<Interrupt>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        ListProblems,
    )
)]
async fn list_interrupts(State(app): Shared, asking: Asking, mut query: Query) -> Result<Response, ServerError> {
    query.only(&FILTERS);
    let now = app.engine.now();
    let wanted = InterruptQuery {
        status: query.word("status", "pending, resolved, expired, cancelled", InterruptStatus::parse),
        kind: query.text("type"),
        tool: query.text("tool"),
        session_id: query.session_id("session_id"),
        agent: query.text("agent"),
        created_after: query.time("created_after"),
        says: query.short_text("q", LONGEST_SEARCH).map(|text| Needle::new(&text)),
        snoozed: query.boolean("snoozed").map(|snoozed| (snoozed, now)),
        claimed_by: query.text("claimed_by").map(|who| (who, now)),
        limit: query.limit(),
        cursor: query.cursor(),
    };
    query.check()?;
    // Searches go one at a time: those that wait would keep the places from everybody else.
    let _place = match app.place_to_search(asking.clone(), wanted.is_search()).await? {
        Some(place) => place,
        None => app.place_to_make(asking).await?,
    };
    let page = app.engine.interrupts(wanted).await?;
    Ok((query.link("/interrupts", page.next), Json(page.items)).into_response())
}

/// Get an interrupt
///
/// Where a key that may answer looks at it for the first time while it is pending, the audit tells.
#[utoipa::path(get, path = "/interrupts/{interrupt_id}", tag = "interrupts", operation_id = "get_interrupt",
    params(("interrupt_id" = String, Path, description = "The interrupt.")),
    responses((status = 200, description = "The interrupt.", body = Interrupt), GetProblems)
)]
async fn get_interrupt(
    State(app): Shared,
    method: Method,
    InterruptPath(id): InterruptPath,
    actor: Actor,
    _: NoQuery,
) -> Result<Json<Interrupt>, ServerError> {
    // Whoever asks for the head is shown nothing.
    let shown =
        if method == Method::HEAD { app.engine.interrupt(&id).await } else { app.engine.show_to(&id, &actor).await };
    Ok(Json(shown?))
}
