//! How the server is: for people (`/health`), for whoever restarts it (`/healthz`), for whoever routes to it (`/readyz`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::error::ServerError;
use super::models::{Alive, HealthResponse, PolicyResponse, ServerResponse};
use super::problems::problems;
use crate::store::shared::servers;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    probes().routes(routes!(health))
}

/// Those for whoever restarts the server, or routes to it.
pub fn probes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(healthz)).routes(routes!(readyz))
}

problems!(Problems: SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(ReadyProblems: WORKERS_FAIL, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// How the server is
#[utoipa::path(get, path = "/health", tag = "server", operation_id = "health",
    responses((status = 200, description = "Workers and sessions.", body = HealthResponse), Problems)
)]
async fn health(State(app): Shared) -> Result<Json<HealthResponse>, ServerError> {
    let health = app.engine.health().await?;
    Ok(Json(HealthResponse {
        status: "ok",
        max_workers: health.max_workers,
        running_workers: health.running_workers,
        queued: health.queued,
        total_sessions: health.total_sessions,
        audit: health.audit,
        held: health.held,
        unstored: health.unstored,
        version: env!("CARGO_PKG_VERSION"),
        policy: app.engine.access().policy_status().map(PolicyResponse::from),
        differences: health.servers.as_deref().map(servers::differences),
        servers: health.servers.map(|servers| servers.into_iter().map(ServerResponse::from).collect()),
    }))
}

/// Whether the server is alive
///
/// Needs no key.
#[utoipa::path(get, path = "/healthz", tag = "server", operation_id = "healthz",
    responses((status = 200, description = "It is.", body = Alive))
)]
async fn healthz() -> Json<Alive> {
    Json(Alive::OK)
}

/// Whether the server is ready
///
/// Writes to the store, five times a second at the most; not ready while no worker can be started, and once the server
/// stops. Needs no key.
#[utoipa::path(get, path = "/readyz", tag = "server", operation_id = "readyz",
    responses((status = 200, description = "It is.", body = Alive), ReadyProblems)
)]
async fn readyz(State(app): Shared) -> Result<Json<Alive>, ServerError> {
    if app.stopping.is_cancelled() {
        return Err(crate::domain::Error::ShuttingDown.into());
    }
    app.check_ready().await?;
    Ok(Json(Alive::OK))
}
