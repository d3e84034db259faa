//! `/audit`: who did what.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Asking, Shared};
use super::error::ServerError;
use super::params::Query;
use super::problems::problems;
use crate::domain::audit::{Action, AuditRow};
use crate::domain::{InterruptId, SessionId, Timestamp};
use crate::store::query::AuditQuery;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_audit))
}

problems!(Problems: INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);

const FILTERS: [&str; 7] = ["session_id", "interrupt_id", "actor", "action", "after", "limit", "cursor"];
const ACTIONS: &str = "asked, seen, claimed, released, snoozed, decided, expired, cancelled, granted, grant_revoked, \
    session_deleted, retried, run_exported, run_imported, policy_pushed, policy_removed, policy_loaded, policy_refused, \
    key_created, key_revoked, signed_in";

/// List the audit
///
/// Oldest first: who was asked what, who saw, claimed and decided it, and from where. Rows are never changed or removed,
/// also when their session is; each holds the hash of the one before it. An unknown filter is a 422.
#[utoipa::path(get, path = "/audit", tag = "server", operation_id = "list_audit",
    params(
        ("session_id" = Option<SessionId>, Query, description = "Only what is about this session."),
        ("interrupt_id" = Option<InterruptId>, Query, description = "Only what is about this interrupt."),
        ("actor" = Option<String>, Query, min_length = 1, description = "Only what this key did."),
        ("action" = Option<Action>, Query, description = "Only this action."),
        ("after" = Option<Timestamp>, Query, description = "Only what was done after this time."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where absent."),
        ("cursor" = Option<String>, Query, pattern = "^[0-9]{1,18}$",
            description = "Where the page begins: out of the `Link` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of the audit.", body = Vec<AuditRow>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        Problems,
    )
)]
async fn list_audit(State(app): Shared, asking: Asking, mut query: Query) -> Result<Response, ServerError> {
    query.only(&FILTERS);
    let wanted = AuditQuery {
        session_id: query.session_id("session_id"),
        interrupt_id: query.interrupt_id("interrupt_id"),
        actor: query.text("actor"),
        action: query.word("action", ACTIONS, Action::parse),
        after: query.time("after"),
        limit: query.limit(),
        cursor: query.cursor(),
    };
    query.check()?;
    let _place = app.place_to_search(asking, wanted.is_search()).await?;
    let page = app.engine.audit(wanted).await?;
    Ok((query.link("/audit", page.next), Json(page.items)).into_response())
}
