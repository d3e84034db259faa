//! `/sessions/{session_id}/journal`: what happened in a session's newest turn.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Asking, Shared};
use super::error::ServerError;
use super::params::{Query, SessionPath};
use super::problems::problems;
use crate::domain::SessionId;
use crate::domain::timeline::TimelineEntry;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(get_journal))
}

const OTHER_TURN: &str = "is of another turn's journal; begin again without it";

problems!(Problems: SESSION_NOT_FOUND, INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// The journal of a session's newest turn
///
/// Open or over, oldest entry first. It shows what messages do, of failed turns and of agents within the agent too:
/// results of model and tool calls, and answers, the first 2 KiB of each, and what is attached to the message and to
/// results, 4 MiB in a page. Empty once `--keep-journal` is over.
#[utoipa::path(get, path = "/sessions/{session_id}/journal", tag = "sessions", operation_id = "get_journal",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where absent."),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[.][0-9]{1,18}$",
            description = "Where the page begins: out of the `Link` of the page before. Of one turn: after the next \
                message it is a 422."),
    ),
    responses(
        (status = 200, description = "A page of entries.", body = Vec<TimelineEntry>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        Problems,
    )
)]
async fn get_journal(
    State(app): Shared,
    SessionPath(id): SessionPath,
    asking: Asking,
    mut query: Query,
) -> Result<Response, ServerError> {
    query.only(&["limit", "cursor"]);
    let (limit, from) = (query.limit(), query.journal_cursor());
    query.check()?;
    let _place = app.place_to_make(asking).await?;
    let page = app.engine.timeline(id, from, limit).await?;
    let page = page.ok_or_else(|| ServerError::invalid_at(["query", "cursor"], "invalid", OTHER_TURN))?;
    Ok((query.link(&format!("/sessions/{id}/journal"), page.next), Json(page.items)).into_response())
}
