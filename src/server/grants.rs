//! `/sessions/{id}/grants`: decisions that hold for the rest of a session.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::error::ServerError;
use super::params::SessionPath;
use super::problems::problems;
use crate::domain::access::Actor;
use crate::domain::grant::Grant;
use crate::domain::{Error, GrantId, SessionId};

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_grants)).routes(routes!(revoke_grant))
}

problems!(ListProblems: SESSION_NOT_FOUND, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(RevokeProblems: SESSION_NOT_FOUND, UNKNOWN_GRANT, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// List the grants of a session
///
/// What was decided with `always`, oldest first. Each is for one tool of one agent; a later decision about the same tool
/// takes the place of an earlier one.
#[utoipa::path(get, path = "/sessions/{session_id}/grants", tag = "sessions", operation_id = "list_grants",
    params(("session_id" = SessionId, Path, description = "The session.")),
    responses((status = 200, description = "Its grants.", body = Vec<Grant>), ListProblems)
)]
async fn list_grants(State(app): Shared, SessionPath(id): SessionPath) -> Result<Json<Vec<Grant>>, ServerError> {
    Ok(Json(app.engine.grants(id).await?))
}

/// Revoke a grant
///
/// Later calls of its tool ask again; what it has decided stays decided.
#[utoipa::path(delete, path = "/sessions/{session_id}/grants/{grant_id}", tag = "sessions",
    operation_id = "revoke_grant",
    params(
        ("session_id" = SessionId, Path, description = "The session."),
        ("grant_id" = GrantId, Path, description = "The grant."),
    ),
    responses((status = 204, description = "It is gone."), RevokeProblems)
)]
async fn revoke_grant(
    State(app): Shared,
    actor: Actor,
    path: Result<Path<(SessionId, String)>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, ServerError> {
    let Path((id, grant)) = path.map_err(|_| Error::SessionNotFound)?;
    app.engine.revoke_grant(id, &grant, &actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
